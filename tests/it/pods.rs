//! Two gateways over one Redis: what one pod began, the other goes on with.

mod streams;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::gateway::Gateway;
use crate::gateway::legacy::Legacy;
use crate::harness::{Fixture, comes_true};
use crate::store::redis::server::Server;

const V: &str = "2025-11-25";
const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// Pods with one configuration, and what they stand on.
struct Pods {
    one: Gateway,
    two: Gateway,
    redis: Server,
    upstream: Fixture,
    _folder: TempDir,
}

impl Pods {
    fn start() -> Pods {
        let (redis, upstream) = (Server::start(&[]), Fixture::listening("--http", &["--era", "legacy"]));
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        std::fs::write(&key, KEY).expect("the folder takes a key");
        let config = json!({
            "store": { "redis_url": redis.url() },
            "sealing": { "keys": [{ "file": key }] },
            "upstreams": { "up": { "url": upstream.url } },
        });
        let (one, two) = (Gateway::start(config.clone()), Gateway::start(config));
        Pods { one, two, redis, upstream, _folder: folder }
    }

    async fn begin(&self) -> Legacy {
        Legacy::begin(self.one.address, "/mcp", V, json!({})).await
    }

    /// The same session, by way of the other pod.
    fn elsewhere(&self, client: &Legacy) -> Legacy {
        let mut elsewhere = Legacy::without_session(self.two.address, "/mcp", Some(V));
        elsewhere.session = client.session.clone();
        elsewhere
    }
}

async fn status(client: &Legacy) -> u16 {
    client.send("\"status\"", "tools/list", "{}").await.status
}

fn names(list: &Value) -> Vec<&str> {
    list["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect()
}

#[tokio::test]
async fn a_session_begun_on_one_pod_is_served_on_another_and_ended_there_for_both() {
    let pods = Pods::start();
    let here = pods.begin().await;
    let there = pods.elsewhere(&here);
    let (ours, theirs) =
        (here.result("tools/list", json!({})).await, there.result("tools/list", json!({})).await);
    assert!(!names(&ours).is_empty());
    assert_eq!(names(&ours), names(&theirs));
    assert_eq!(
        there.call("echo", json!({ "text": "ü" })).await,
        here.call("echo", json!({ "text": "ü" })).await
    );
    assert_eq!(there.stream(None).await.status, 200, "its stream opens on any pod");
    assert!((200..300).contains(&there.end().await));
    let ended = Instant::now();
    comes_true("dead on the first pod", || async { status(&here).await == 404 }).await;
    assert!(ended.elapsed() < Duration::from_secs(2), "{:?}", ended.elapsed());
    assert_eq!(status(&there).await, 404);
}

#[tokio::test]
async fn those_who_listen_on_several_pods_each_hear_every_change_of_a_legacy_upstream() {
    let pods = Pods::start();
    let filter = json!({ "notifications": { "toolsListChanged": true } }).to_string();
    let mut streams = Vec::new();
    for pod in [&pods.one, &pods.two, &pods.one] {
        let mut stream = pod.modern().send("1", "subscriptions/listen", &filter).await;
        let first = stream.message().await.expect("its acknowledgement");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        streams.push(stream);
    }
    for name in ["one", "two", "three"] {
        pods.one.modern().call("add_tool", json!({ "name": name })).await;
    }
    for stream in &mut streams {
        for _ in 0..3 {
            let told = stream.message().await.expect("a change");
            assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
        }
    }
    let before = pods.upstream.stats().await;
    drop(streams);
    // Each pod had a session of its own for them, and ends it; the one of the calls stays.
    comes_true("what they listened in is ended", || async {
        let now = pods.upstream.stats().await;
        now["deletes"].as_array().map(Vec::len) == before["deletes"].as_array().map(|list| list.len() + 2)
            && now["sessions"].as_u64() >= Some(1)
    })
    .await;
}

#[tokio::test]
async fn a_session_outlives_its_pod_and_a_store_that_is_away_ends_none() {
    let mut pods = Pods::start();
    let here = pods.begin().await;
    let there = pods.elsewhere(&here);
    pods.one.terminate();
    assert!(pods.one.ended().await.success());
    pods.redis.hang();
    assert_eq!(status(&there).await, 503, "not known here yet, and that is no \"not found\"");
    pods.redis.wake();
    comes_true("it is known again", || async { status(&there).await == 200 }).await;
    pods.redis.hang();
    assert_eq!(status(&there).await, 200, "what is known goes on");
    pods.redis.wake();
}

#[tokio::test]
async fn a_redis_that_is_not_there_is_said_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let (key, file) = (folder.path().join("key"), folder.path().join("plasm.yaml"));
    std::fs::write(&key, KEY).expect("the folder takes a key");
    std::fs::write(&file, json!({ "sealing": { "keys": [{ "file": key }] } }).to_string())
        .expect("and a file");
    let mut gone = Server::start(&[]);
    gone.stop();
    let url = format!("redis://:secret@127.0.0.1:{}", gone.port());
    let said = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"))
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
            "--redis-url",
            &url,
            "--config",
        ])
        .arg(&file)
        .output()
        .expect("it runs");
    assert_eq!(said.status.code(), Some(1));
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(text.contains("store.redis_url: Redis cannot be reached"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

/// Status, challenge and whole body of what a request is answered with.
async fn refused(client: &Legacy) -> (u16, Option<String>, Value) {
    let mut answer = client.send("1", "tools/list", "{}").await;
    let challenge = answer.header("www-authenticate").map(str::to_owned);
    (answer.status, challenge, answer.json().await)
}

#[tokio::test]
async fn b005_a_session_whose_pod_was_killed_is_gone_on_with_and_only_one_that_was_ended_is_not_found() {
    let mut pods = Pods::start();
    let here = pods.begin().await;
    let there = pods.elsewhere(&here);
    pods.one.kill();
    let echoed = there.call("echo", json!({ "text": "ü" })).await;
    assert!(echoed["content"][0]["text"].as_str().is_some_and(|text| text.contains('ü')), "{echoed}");
    assert!((200..300).contains(&there.end().await));
    let (status, challenge, body) = refused(&there).await;
    assert_eq!((status, challenge, &body["error"]["code"]), (404, None, &json!(-32016)), "{body}");
}
