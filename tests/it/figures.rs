//! What the shared state costs, counted and measured on real servers: commands of Redis a call, the way of a session to a pod
//! that does not know it, and bytes a session and a stream. The long forms are what `scripts/show figures` runs.

use crate::gateway::Gateway;
use crate::store::redis::server::Server;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::Request;
use http_body_util::BodyExt;
use plasm_mcp::upstream::client::{Body, HttpClient};
use plasm_mcp::upstream::connect::Connector;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const V: &str = "2025-11-25";
const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
/// Requests under way at once while sessions are made.
const AT_ONCE: usize = 16;

/// Pods over one Redis, and a client that keeps its connections.
struct Pods {
    pods: Vec<Gateway>,
    redis: Server,
    client: HttpClient,
    _folder: TempDir,
}

impl Pods {
    fn start(count: usize) -> Pods {
        let redis = Server::start(&[]);
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        std::fs::write(&key, KEY).expect("the folder takes a key");
        let config = json!({
            "store": { "redis_url": redis.url() },
            "sealing": { "keys": [{ "file": key }] },
            "sessions": { "per_principal": 1_000_000 },
        });
        let pods = (0..count).map(|_| Gateway::demo(config.clone())).collect();
        let client = HttpClient::new(Connector::straight(Duration::from_secs(5)));
        Pods { pods, redis, client, _folder: folder }
    }

    async fn send(&self, pod: usize, verb: &str, session: Option<&str>, body: &str) -> http::Response<Body> {
        let accept = if verb == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
        let mut request = Request::builder()
            .method(verb)
            .uri(&self.pods[pod].url)
            .header("content-type", "application/json")
            .header("accept", accept);
        if let Some(session) = session {
            request = request.header("mcp-session-id", session).header("mcp-protocol-version", V);
        }
        let request = request.body(Bytes::copy_from_slice(body.as_bytes())).expect("a request");
        self.client.request(request).await.expect("the pod answers")
    }

    /// A session begun on this pod, as clients begin one.
    async fn begin(&self, pod: usize) -> String {
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": V, "capabilities": { "roots": { "listChanged": true }, "sampling": {}, "elicitation": {} },
            "clientInfo": { "name": "claude-ai", "title": "Claude", "version": "0.1.0" },
        } });
        let answer = self.send(pod, "POST", None, &hello.to_string()).await;
        assert_eq!(answer.status(), 200);
        let session = answer.headers()["mcp-session-id"].to_str().expect("visible ASCII").to_owned();
        answer.into_body().collect().await.expect("whole");
        let begun = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let answer = self.send(pod, "POST", Some(&session), begun).await;
        assert_eq!(answer.status(), 202);
        answer.into_body().collect().await.expect("whole");
        session
    }

    async fn begin_many(&self, pod: usize, count: usize) -> Vec<String> {
        let mut sessions = Vec::with_capacity(count);
        let mut beginning = FuturesUnordered::new();
        for _ in 0..count {
            if beginning.len() >= AT_ONCE {
                sessions.extend(beginning.next().await);
            }
            beginning.push(self.begin(pod));
        }
        while let Some(session) = beginning.next().await {
            sessions.push(session);
        }
        sessions
    }

    /// A call that is answered by one JSON body.
    async fn call(&self, pod: usize, session: &str) {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#;
        let answer = self.send(pod, "POST", Some(session), call).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/json");
        answer.into_body().collect().await.expect("whole");
    }

    /// Each pod has read each session, after the write of its first use.
    async fn all_know(&self, sessions: &[String]) {
        for _ in 0..2 {
            for pod in 0..self.pods.len() {
                for session in sessions {
                    self.call(pod, session).await;
                }
            }
        }
    }

    /// Commands of Redis by name since they were last reset, those apart that come by the clock and not by calls: of a pod,
    /// each second, whether its connection stands (`PING` of a kind), and the wait of its inbox for letters.
    fn commands(&self) -> BTreeMap<String, u64> {
        let by_the_clock = ["ping", "client|id", "get", "xread", "info", "config|resetstat"];
        let stats = self.redis.cli(&["INFO", "commandstats"]);
        let counted = stats.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        });
        counted.filter(|(name, _): &(String, u64)| !by_the_clock.contains(&&**name)).collect()
    }

    fn reset(&self) {
        self.redis.cli(&["CONFIG", "RESETSTAT"]);
    }

    fn used_memory(&self) -> u64 {
        let info = self.redis.cli(&["INFO", "memory"]);
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("it says it");
        line.trim().parse().expect("a number")
    }
}

/// Calls of sessions that every pod knows: what they cost in Redis, beside what its pods cost it in the same time without calls.
async fn commands_per_call(sessions: usize, calls: usize) {
    let pods = Pods::start(3);
    let sessions = pods.begin_many(0, sessions).await;
    pods.all_know(&sessions).await;
    pods.reset();
    let begun = Instant::now();
    for n in 0..calls {
        pods.call(n % 3, &sessions[n % sessions.len()]).await;
    }
    let (took, counted) = (begun.elapsed(), pods.commands());
    let all: u64 = counted.values().sum();
    // What else comes by the clock: leases of pods. A lease and what its script does are no call's.
    pods.reset();
    tokio::time::sleep(took).await;
    let idle: u64 = pods.commands().values().sum();
    let each = all.saturating_sub(idle) as f64 / calls as f64;
    println!(
        "{calls} calls in {took:.1?}: {all} commands ({counted:?}), {idle} in as long a time without calls: {each:.4} a call"
    );
    assert!(each <= 0.01, "{each} commands a call");
}

#[tokio::test]
async fn a_call_of_a_known_session_costs_redis_nothing() {
    commands_per_call(20, 600).await;
}

#[tokio::test]
#[ignore = "10,000 calls: scripts/show figures"]
async fn ten_thousand_calls_of_a_hundred_known_sessions_cost_redis_nothing() {
    commands_per_call(100, 10_000).await;
}

fn quantile(sorted: &[Duration], part: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// The first call of each session on a pod that does not know it, against later calls there.
async fn rehydration(count: usize) {
    let pods = Pods::start(2);
    let sessions = pods.begin_many(0, count).await;
    for session in &sessions {
        pods.call(0, session).await;
    }
    // The pod itself is warm: it has served others.
    for session in pods.begin_many(1, 50).await {
        pods.call(1, &session).await;
    }
    pods.reset();
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for times in [&mut cold, &mut warm] {
        for session in &sessions {
            let asked = Instant::now();
            pods.call(1, session).await;
            times.push(asked.elapsed());
        }
        times.sort_unstable();
    }
    let reads = pods.commands().get("hgetall").copied().unwrap_or(0);
    let [cold50, cold99, warm50, warm99] =
        [(&cold, 0.5), (&cold, 0.99), (&warm, 0.5), (&warm, 0.99)].map(|(of, q)| quantile(of, q));
    println!(
        "{count} sessions on a cold pod: p50 {cold50:?}, p99 {cold99:?}; warm: p50 {warm50:?}, p99 {warm99:?}; added p99 {:?}; {reads} reads",
        cold99.saturating_sub(warm99)
    );
    assert!(reads >= count as u64, "they were not known: {reads}");
    assert!(reads <= count as u64 * 11 / 10 + 20, "{reads} reads for {count} sessions");
}

#[tokio::test]
async fn a_session_is_read_once_by_a_pod_that_does_not_know_it() {
    rehydration(100).await;
}

#[tokio::test]
#[ignore = "2,000 sessions: scripts/show figures"]
async fn two_thousand_sessions_on_a_cold_pod_are_read_once_each() {
    rehydration(2_000).await;
}

/// Sessions that nobody uses: bytes in Redis, all indexes included, and in the pods once their caches have let go.
async fn idle_sessions(count: usize, caches: Duration) {
    let pods = Pods::start(2);
    for pod in 0..2 {
        let some = pods.begin_many(pod, 50).await;
        pods.call(pod, &some[0]).await;
    }
    if !caches.is_zero() {
        // What an allocator takes for the first full caches it keeps, once, however many sessions come after.
        pods.begin_many(0, count / 5).await;
        tokio::time::sleep(caches).await;
    }
    let (before, pods_before) = (pods.used_memory(), [0, 1].map(|pod| pods.pods[pod].memory()));
    pods.begin_many(0, count).await;
    let each = pods.used_memory().saturating_sub(before) as f64 / count as f64;
    let per_session =
        |pod: usize| pods.pods[pod].memory().saturating_sub(pods_before[pod]) as f64 / count as f64;
    println!(
        "{count} idle sessions: {each:.0} bytes each in Redis; {:.0} in the pod that began them, {:.0} in another",
        per_session(0),
        per_session(1)
    );
    assert!(each < 1536.0, "{each} bytes a session");
    assert!(per_session(1) < 64.0, "{} bytes a session in a pod that never saw them", per_session(1));
    if caches.is_zero() {
        return;
    }
    tokio::time::sleep(caches).await;
    println!("after {caches:?}: {:.0} bytes each in the pod that began them", per_session(0));
    assert!(per_session(0) < 256.0, "{} bytes a session", per_session(0));
}

#[tokio::test]
async fn an_idle_session_costs_redis_little_and_other_pods_nothing() {
    idle_sessions(1_000, Duration::ZERO).await;
}

#[tokio::test]
#[ignore = "50,000 sessions and their caches' life: scripts/show figures"]
async fn fifty_thousand_idle_sessions_cost_little_in_redis_and_nothing_in_pods() {
    idle_sessions(50_000, Duration::from_secs(320)).await;
}

/// Open GET streams, one a session: bytes each in the pod that holds them, and commands that they cost Redis a minute.
async fn open_streams(count: usize, most: f64) {
    let pods = Pods::start(1);
    let sessions = pods.begin_many(0, count + 50).await;
    let mut held = Vec::with_capacity(sessions.len());
    for session in &sessions[..50] {
        held.push(pods.send(0, "GET", Some(session), "").await);
    }
    let before = pods.pods[0].memory();
    for session in &sessions[50..] {
        let stream = pods.send(0, "GET", Some(session), "").await;
        assert_eq!(stream.status(), 200);
        held.push(stream);
    }
    let each = pods.pods[0].memory().saturating_sub(before) as f64 / count as f64 / 1024.0;
    pods.reset();
    let watched = Duration::from_secs(10);
    tokio::time::sleep(watched).await;
    let counted = pods.commands();
    let rate = counted.values().sum::<u64>() as f64 / watched.as_secs_f64() / count as f64 * 60.0;
    println!(
        "{count} open streams: {each:.1} KiB each; {rate:.1} commands of Redis a stream and minute ({counted:?})"
    );
    assert!(each < most, "{each} KiB a stream");
    drop(held);
}

#[tokio::test]
async fn an_open_stream_costs_a_pod_little() {
    // Few streams bear more of what all of them share.
    open_streams(500, 24.0).await;
}

#[tokio::test]
#[ignore = "5,000 streams: scripts/show figures"]
async fn five_thousand_open_streams_cost_a_pod_little() {
    open_streams(5_000, 16.0).await;
}
