//! What clients see when the store is in trouble: two pods over a real Redis that is restarted, paused, full, failed over, slow or
//! flushed. Whatever is not known is 503 with `Retry-After`, never a false "not found"; modern calls and known sessions go
//! on; and no pod is restarted.

use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::gateway::legacy::Legacy;
use crate::harness::comes_true;
use crate::store::redis::server::{Server, Watched};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const V: &str = "2025-11-25";
const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// Two pods, and three sessions begun on the first: known to both, to the first, and to the first again.
struct Pods {
    one: Gateway,
    two: Gateway,
    known: Legacy,
    /// Not known to the second pod.
    fresh: Legacy,
    /// Not known to the second pod either, until the trouble is over.
    other: Legacy,
    _folder: TempDir,
}

impl Pods {
    async fn over(redis: &Server) -> Pods {
        Pods::at(&redis.url(), redis).await
    }

    /// `redis` is the server that answers at this URL.
    async fn at(url: &str, redis: &Server) -> Pods {
        let folder = tempfile::tempdir().expect("a folder");
        let config = config(&folder, url);
        let (one, two) = (Gateway::demo(config.clone()), Gateway::demo(config));
        let begin = || Legacy::begin(one.address, "/mcp", V, json!({}));
        let (known, fresh, other) = (begin().await, begin().await, begin().await);
        let pods = Pods { known: elsewhere(&known, &two), fresh, other, one, two, _folder: folder };
        // The first use is written, so that each pod reads the session again after it.
        comes_true("it is known there", || async {
            let asked = redis.calls("hgetall");
            assert_eq!(call(&pods.known).await.status, 200);
            redis.calls("hgetall") == asked
        })
        .await;
        pods
    }

    fn at_two(&self, session: &Legacy) -> Legacy {
        elsewhere(session, &self.two)
    }

    /// What holds while the store is away.
    async fn stand_the_outage(&self) {
        assert_eq!(call(&self.known).await.status, 200, "a known session goes on");
        self.modern_goes_on().await;
        let fresh = self.at_two(&self.fresh);
        let hello = json!({ "protocolVersion": V, "capabilities": {}, "clientInfo": { "name": "it", "version": "1" } });
        let newcomer = Legacy::without_session(self.two.address, "/mcp", None);
        for (what, answer) in [
            ("a call of a session that is not known here", call(&fresh).await),
            ("its stream", fresh.stream(None).await),
            ("a new session", newcomer.send("0", "initialize", &hello.to_string()).await),
        ] {
            is_503(what, &answer);
        }
        assert_eq!(fresh.end().await, 503, "an end that cannot be kept is not promised");
    }

    async fn modern_goes_on(&self) {
        let echoed = self.two.modern().call("echo", json!({ "text": "ü" })).await;
        assert_eq!(echoed["content"][0]["text"], "ü");
    }

    /// What holds after it, of a Redis that kept what it had: without a restart, and with no session lost.
    async fn be_whole_again(&self) {
        for (name, session) in [("known", &self.known), ("fresh", &self.fresh), ("other", &self.other)] {
            for pod in [&self.one, &self.two] {
                let session = elsewhere(session, pod);
                comes_true(name, || async {
                    let answer = call(&session).await;
                    assert!(matches!(answer.status, 200 | 503), "{name}: {}", answer.status);
                    answer.status == 200
                })
                .await;
            }
        }
        comes_true("sessions begin again", || async { begins(&self.two).await }).await;
    }
}

fn config(folder: &TempDir, url: &str) -> Value {
    let key = folder.path().join("key");
    std::fs::write(&key, KEY).expect("the folder takes a key");
    json!({ "store": { "redis_url": url }, "sealing": { "keys": [{ "file": key }] } })
}

fn elsewhere(session: &Legacy, pod: &Gateway) -> Legacy {
    let mut there = Legacy::without_session(pod.address, "/mcp", Some(V));
    there.session = session.session.clone();
    there
}

async fn call(session: &Legacy) -> Answer {
    session.send("1", "tools/call", r#"{"name":"echo","arguments":{"text":"x"}}"#).await
}

async fn begins(pod: &Gateway) -> bool {
    let hello =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"it","version":"1"}}"#;
    Legacy::without_session(pod.address, "/mcp", None).send("0", "initialize", hello).await.status == 200
}

fn is_503(what: &str, answer: &Answer) {
    assert_eq!(answer.status, 503, "{what}");
    let after = answer.header("retry-after").and_then(|after| after.parse::<u32>().ok());
    assert!(after.is_some_and(|after| (1..=30).contains(&after)), "{what}: Retry-After {after:?}");
}

/// A Redis that keeps what it holds over a restart.
fn durable() -> Server {
    Server::start(&["--appendonly", "yes", "--appendfsync", "always"])
}

#[tokio::test]
async fn a_redis_restarted_with_its_data_loses_no_session() {
    let mut redis = durable();
    let pods = Pods::over(&redis).await;
    redis.stop();
    comes_true("it is noticed", || async { pods.two.log().contains("Redis does not answer") }).await;
    pods.stand_the_outage().await;
    redis.again();
    pods.be_whole_again().await;
}

#[tokio::test]
async fn a_redis_restarted_without_its_data_has_lost_its_sessions_and_says_so_only_then() {
    let mut redis = Server::start(&[]);
    let pods = Pods::over(&redis).await;
    redis.stop();
    comes_true("it is noticed", || async { pods.two.log().contains("Redis does not answer") }).await;
    pods.stand_the_outage().await;
    redis.again();
    for session in [&pods.known, &pods.fresh] {
        comes_true("it is gone, by its true name", || async { call(session).await.status == 404 }).await;
    }
    pods.modern_goes_on().await;
    comes_true("sessions begin again", || async { begins(&pods.two).await }).await;
}

async fn pause(span: Duration) {
    let redis = Server::start(&[]);
    let pods = Pods::over(&redis).await;
    redis.hang();
    let until = Instant::now() + span;
    while Instant::now() < until {
        pods.stand_the_outage().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    redis.wake();
    pods.be_whole_again().await;
}

#[tokio::test]
async fn a_redis_that_pauses_is_waited_out() {
    pause(Duration::from_secs(3)).await;
}

#[tokio::test]
#[ignore = "30 s of pause: scripts/show store"]
async fn a_redis_that_pauses_for_30_s_is_waited_out() {
    pause(Duration::from_secs(30)).await;
}

#[tokio::test]
async fn a_slow_redis_delays_and_refuses_nothing() {
    let redis = Server::start(&[]);
    let pods = Pods::over(&redis).await;
    redis.cli(&["CLIENT", "PAUSE", "1300", "ALL"]);
    assert_eq!(call(&pods.at_two(&pods.fresh)).await.status, 200);
    redis.cli(&["CLIENT", "PAUSE", "1300", "ALL"]);
    assert!(begins(&pods.two).await);
    pods.be_whole_again().await;
    assert!(!pods.two.log().contains("Redis does not answer"), "{}", pods.two.log());
}

#[tokio::test]
async fn a_full_redis_begins_no_session_keeps_the_others_and_recovers() {
    let redis = Server::start(&[]);
    let pods = Pods::over(&redis).await;
    // Less than it holds already.
    redis.cli(&["CONFIG", "SET", "maxmemory", "500kb"]);
    let hello =
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"it","version":"1"}}"#;
    let newcomer = Legacy::without_session(pods.one.address, "/mcp", None);
    is_503("a new session", &newcomer.send("0", "initialize", hello).await);
    for session in [&pods.known, &pods.at_two(&pods.fresh), &pods.other] {
        assert_eq!(call(session).await.status, 200, "what it holds is read and served");
    }
    pods.modern_goes_on().await;
    assert!((200..300).contains(&pods.at_two(&pods.other).end().await), "an end frees room, and is taken");
    assert_eq!(call(&pods.at_two(&pods.other)).await.status, 404);
    redis.cli(&["CONFIG", "SET", "maxmemory", "50mb"]);
    comes_true("sessions begin again", || async { begins(&pods.one).await }).await;
    assert_eq!(call(&pods.known).await.status, 200);
}

#[tokio::test]
async fn a_flushed_redis_ends_its_sessions_within_seconds_on_pods_that_knew_them() {
    let redis = Server::start(&[]);
    let pods = Pods::over(&redis).await;
    redis.cli(&["FLUSHALL"]);
    let flushed = Instant::now();
    comes_true("it is gone here", || async { call(&pods.known).await.status == 404 }).await;
    comes_true("and there", || async { call(&pods.fresh).await.status == 404 }).await;
    assert!(flushed.elapsed() < Duration::from_secs(5), "{:?}", flushed.elapsed());
    assert!(begins(&pods.two).await);
}

#[tokio::test]
async fn a_sentinels_failover_loses_no_session_that_was_replicated() {
    let mut watched = Watched::guarded().await;
    let pods = Pods::at(&watched.guarded_url(), &watched.master).await;
    comes_true("the replica has all", || async {
        let offset = |server: &Server, name: &str| {
            let info = server.cli(&["INFO", "replication"]);
            info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        let master = offset(&watched.master, "master_repl_offset:");
        master.is_some() && offset(&watched.replica, "slave_repl_offset:") >= master
    })
    .await;
    watched.master.stop();
    comes_true("it is noticed", || async { pods.two.log().contains("Redis does not answer") }).await;
    assert_eq!(call(&pods.known).await.status, 200, "a known session goes on");
    pods.modern_goes_on().await;
    pods.be_whole_again().await;
}

/// What `serve` says over this Redis before it ends with exit code 1.
fn refused(url: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("plasm.yaml");
    std::fs::write(&file, config(&folder, url).to_string()).expect("the folder takes a file");
    let said = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"))
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config"])
        .arg(&file)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(1), "{text}");
    text
}

#[test]
fn a_redis_that_cannot_be_the_store_ends_the_start_with_the_reason() {
    let guarded = Server::start_with(&["--requirepass", "right"], &["-a", "right", "--no-auth-warning"]);
    let said = refused(&format!("redis://:wrong-secret@127.0.0.1:{}", guarded.port()));
    assert!(said.contains("store.redis_url: Redis refuses the login: WRONGPASS"), "{said}");
    assert!(!said.contains("wrong-secret"), "{said}");
    let evicts = Server::start(&["--maxmemory", "50mb", "--maxmemory-policy", "volatile-lru"]);
    let said = refused(&evicts.url());
    assert!(
        said.contains("maxmemory-policy volatile-lru") && said.contains("set it to noeviction"),
        "{said}"
    );
}

#[tokio::test]
async fn a_password_that_is_taken_away_is_an_outage_until_it_is_back() {
    let redis = Server::start(&[]);
    let rule = |pass: &'static str| {
        ["ACL", "SETUSER", "gateway", "on", "resetpass", pass, "~plasm:*", "&plasm:*", "+@all"]
    };
    redis.cli(&rule(">pw"));
    let pods = Pods::at(&format!("redis://gateway:pw@127.0.0.1:{}", redis.port()), &redis).await;
    redis.cli(&rule(">other"));
    redis.cli(&["CLIENT", "KILL", "USER", "gateway"]);
    comes_true("it is noticed", || async { pods.two.log().contains("Redis does not answer") }).await;
    pods.stand_the_outage().await;
    redis.cli(&rule(">pw"));
    pods.be_whole_again().await;
}
