//! What limits must show: the rate that three pods admit together, a quiet tenant beside a loud one, what a refusal costs. Each in a
//! short form, and in a long one that `scripts/show limits` runs.

use super::Keys;
use super::line::Line;
use crate::gateway::Gateway;
use crate::harness::Fixture;
use crate::store::redis::server::Server;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Three pods over one Redis.
struct Three {
    pods: Vec<Gateway>,
    keys: Arc<Keys>,
    _redis: Server,
    _folder: tempfile::TempDir,
}

impl Three {
    fn start(tenants: &[&'static str], rates: Value) -> Three {
        let (redis, folder) = (Server::start(&[]), tempfile::tempdir().expect("a folder"));
        let sealing = folder.path().join("key");
        std::fs::write(&sealing, "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=").expect("a key");
        let more = json!({
            "store": { "redis_url": redis.url() },
            "sealing": { "keys": [{ "file": sealing }] },
            "rates": rates,
        });
        let keys = Arc::new(Keys::new(tenants, more));
        let config = keys.config.clone();
        let pods = (0..3).map(|_| Gateway::demo(config.clone())).collect();
        Three { pods, keys, _redis: redis, _folder: folder }
    }
}

#[derive(Default)]
struct Tally {
    admitted: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl Tally {
    fn count(&self, status: u16) {
        let of = match status {
            200 => &self.admitted,
            429 => &self.refused,
            _ => &self.failed,
        };
        of.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> [u64; 3] {
        [&self.admitted, &self.refused, &self.failed].map(|of| of.load(Ordering::Relaxed))
    }
}

/// So many calls a second on these lines until `end`, each begun when it is due, whatever became of the one before.
async fn load(lines: Vec<Line>, a_second: f64, end: Instant, tally: Arc<Tally>) -> Vec<Duration> {
    let many = lines.len();
    let mut all = JoinSet::new();
    for (n, mut line) in lines.into_iter().enumerate() {
        let (pause, tally) = (Duration::from_secs_f64(many as f64 / a_second), tally.clone());
        all.spawn(async move {
            let (mut took, mut due) = (Vec::new(), Instant::now() + pause.mul_f64(n as f64 / many as f64));
            while due < end {
                tokio::time::sleep_until(due.into()).await;
                let (status, _) = line.call().await;
                tally.count(status);
                // From when it was due: a call that had to wait for the one before it waited too.
                took.push(due.elapsed());
                due += pause;
            }
            took
        });
    }
    all.join_all().await.concat()
}

async fn lines(pod: &Gateway, path: &str, authorization: &str, count: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for _ in 0..count {
        lines.push(Line::open(pod.address, path, authorization).await);
    }
    lines
}

/// The part of the configured rate that three unevenly loaded pods admit.
async fn admitted(a_second: u64, time: Duration) -> f64 {
    let three = Three::start(&["acme"], json!({ "tenant": { "all": format!("{a_second}/s") } }));
    let authorization = three.keys.bearer("acme");
    let (tally, rate) = (Arc::new(Tally::default()), a_second as f64);
    let mut loads = JoinSet::new();
    let end = Instant::now() + time;
    for (pod, times) in three.pods.iter().zip([4.0, 0.8, 0.15]) {
        let lines = lines(pod, "/mcp", &authorization, 8).await;
        loads.spawn(load(lines, times * rate, end, tally.clone()));
    }
    let begun = Instant::now();
    loads.join_all().await;
    let seconds = begun.elapsed().as_secs_f64();
    let [admitted, refused, failed] = tally.read();
    assert_eq!(failed, 0);
    assert!(refused as f64 > rate * seconds, "{refused}: more was asked for than there is");
    let part = admitted as f64 / (rate * seconds);
    println!(
        "{admitted} admitted in {seconds:.1} s at {a_second}/s over three pods, {refused} refused: {part:.3} of the configured rate"
    );
    part
}

#[tokio::test]
async fn three_pods_admit_together_about_what_the_limit_says() {
    // In so short a time the burst, a second's worth, weighs much.
    let part = admitted(50, Duration::from_secs(4)).await;
    assert!((0.8..=1.35).contains(&part), "{part}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "two minutes: scripts/show limits"]
async fn for_a_minute_three_pods_admit_the_configured_rate_within_a_twentieth() {
    for a_second in [50, 200] {
        let part = admitted(a_second, Duration::from_secs(60)).await;
        assert!((0.95..=1.05).contains(&part), "{part} at {a_second}/s");
    }
}

fn p95(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took[(took.len() * 95 / 100).min(took.len() - 1)]
}

/// Calls a second that a pod answers to one caller with several connections.
async fn capacity(pod: &Gateway, authorization: &str) -> f64 {
    let (end, mut all) = (Instant::now() + Duration::from_secs(2), JoinSet::new());
    for mut line in lines(pod, "/mcp", authorization, 16).await {
        all.spawn(async move {
            let mut calls = 0u32;
            while Instant::now() < end {
                assert_eq!(line.call().await.0, 200);
                calls += 1;
            }
            calls
        });
    }
    f64::from(all.join_all().await.into_iter().sum::<u32>()) / 2.0
}

/// The ratios of a quiet tenant's p95 beside a loud one to that without it.
async fn ratios(pairs: usize, time: Duration) -> Vec<f64> {
    let fixture = Fixture::listening("--http", &["--no-seen"]);
    let more = json!({ "upstreams": { "f": { "url": fixture.url } }, "profiles": { "loud": {} } });
    let mut keys = Keys::new(&["loud", "quiet"], more);
    let free = Gateway::start(keys.config.clone());
    let capacity = capacity(&free, &keys.bearer("quiet")).await;
    drop(free);
    // All that the quiet one does is within its limit, and counted as the loud one's is.
    let (quiet, limit) = (capacity / 10.0, (capacity / 40.0).clamp(20.0, 9_000.0).floor());
    let far = format!("{}/s", (capacity as u64).min(10_000));
    keys.config["rates"] = json!({ "tenant": { "all": far }, "principal": { "call": far } });
    keys.config["profiles"] = json!({ "loud": { "rates": { "all": format!("{limit}/s") } } });
    let gateway = Gateway::start(keys.config.clone());
    let (loud_by, quiet_by) = (keys.bearer("loud"), keys.bearer("quiet"));
    let mut ratios = Vec::new();
    for _ in 0..pairs {
        let mut measured = Vec::new();
        for beside in [false, true] {
            let (quiets, louds) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
            let end = Instant::now() + time;
            let mut loud = JoinSet::new();
            if beside {
                let lines = lines(&gateway, "/mcp/loud", &loud_by, 16).await;
                loud.spawn(load(lines, limit * 20.0, end, louds.clone()));
            }
            let took = load(lines(&gateway, "/mcp", &quiet_by, 4).await, quiet, end, quiets.clone()).await;
            loud.join_all().await;
            let [_, refused, failed] = quiets.read();
            assert_eq!((refused, failed), (0, 0), "the quiet one sees no failure");
            if beside {
                assert!(louds.read()[1] > 0, "the loud one is at its limit");
            }
            measured.push(p95(took));
        }
        let ratio = measured[1].as_secs_f64() / measured[0].as_secs_f64();
        println!(
            "{quiet:.0} calls/s alone p95 {:?}, beside {:.0}/s {:?}: {ratio:.2}",
            measured[0],
            limit * 20.0,
            measured[1]
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    ratios
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: scripts/show limits"]
async fn a_quiet_tenant_beside_a_loud_one_fails_never_and_is_hardly_slower() {
    let ratios = ratios(7, Duration::from_secs(3)).await;
    let median = ratios[ratios.len() / 2];
    println!("{} paired ratios of p95, the median {median:.2}", ratios.len());
    assert!(median <= 1.5, "{ratios:?}");
}

/// CPU seconds that a process has used.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let (_, rest) = stat.rsplit_once(')').expect("a name in parentheses");
    let ticks: Vec<f64> =
        rest.split_whitespace().skip(11).take(2).map(|n| n.parse().expect("ticks")).collect();
    // SAFETY: sysconf reads a number and touches no memory of ours.
    (ticks[0] + ticks[1]) / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

/// What a refused call costs of what a served one costs, in CPU time of the gateway.
async fn refusals_cost(calls: usize) -> f64 {
    let fixture = Fixture::listening("--http", &["--no-seen"]);
    let mut keys = Keys::new(&["served", "refused"], json!({}));
    keys.config["upstreams"] = json!({ "f": { "url": fixture.url } });
    // A batch's worth is never there: each call of this key is refused, at once. The other's limit is far.
    keys.config["rates"] =
        json!({ "principal": { "call": "1/h burst 1000000" }, "tenant": { "list": "1/h burst 1" } });
    let gateway = Gateway::start(keys.config.clone());
    let pid = gateway.pid();
    let mut costs = Vec::new();
    for (tenant, status) in [("served", 200), ("refused", 429)] {
        let authorization = keys.bearer(tenant);
        if status == 429 {
            let mut config = keys.config.clone();
            config["rates"] = json!({ "principal": { "call": "1/h burst 1" } });
            gateway.reconfigure(&config);
            crate::harness::comes_true("nothing is left", || async {
                keys.call(&gateway, tenant).await.status == 429
            })
            .await;
        }
        let mut all = JoinSet::new();
        let (mut warm, each) = (Line::open(gateway.address, "/mcp", &authorization).await, calls / 8);
        for _ in 0..200 {
            assert_eq!(warm.call().await.0, status);
        }
        let before = cpu(pid);
        for _ in 0..8 {
            let mut line = Line::open(gateway.address, "/mcp", &authorization).await;
            all.spawn(async move {
                for _ in 0..each {
                    assert_eq!(line.call().await.0, status);
                }
            });
        }
        all.join_all().await;
        costs.push((cpu(pid) - before) * 1e6 / (each * 8) as f64);
    }
    let part = costs[1] / costs[0];
    println!(
        "{calls} refused calls cost {:.1} µs of CPU each, served ones {:.1} µs: {part:.3}",
        costs[1], costs[0]
    );
    part
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: scripts/show limits"]
async fn a_refused_call_costs_a_fifth_of_a_served_one_at_most() {
    let part = refusals_cost(80_000).await;
    assert!(part <= 0.2, "{part}");
}
