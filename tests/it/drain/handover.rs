//! A pod drains, and its clients go on at another over Redis: no event is lost, and none comes twice.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{V, rest, soon};
use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::gateway::legacy::Legacy;
use crate::harness::{Fixture, comes_true};
use crate::store::redis::server::Server;

const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

struct Pods {
    one: Gateway,
    two: Gateway,
    upstream: Fixture,
    _redis: Server,
    _folder: TempDir,
}

impl Pods {
    fn start() -> Pods {
        let (redis, upstream) = (Server::start(&[]), Fixture::listening("--http", &[]));
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        std::fs::write(&key, KEY).expect("the folder takes a key");
        let config = json!({
            "store": { "redis_url": redis.url() },
            "sealing": { "keys": [{ "file": key }] },
            "upstreams": { "up": { "url": upstream.url } },
        });
        let (one, two) = (Gateway::start(config.clone()), Gateway::start(config));
        Pods { one, two, upstream, _redis: redis, _folder: folder }
    }

    /// A session begun on the first pod, and the same by way of the second.
    async fn session(&self) -> (Legacy, Legacy) {
        let here = self.one.legacy(V).await;
        let mut there = Legacy::without_session(self.two.address, "/mcp", Some(V));
        there.session = here.session.clone();
        (here, there)
    }
}

/// The id that a stream's farewell names: from there the client goes on.
async fn parted(stream: &mut Answer) -> String {
    let farewell = rest(stream).await;
    assert!(farewell.contains("retry: "), "{farewell:?}");
    let id = farewell.lines().filter_map(|line| line.strip_prefix("id: ")).next_back();
    id.expect("it says from where to go on").to_owned()
}

#[tokio::test]
async fn a_get_stream_goes_on_at_another_pod() {
    let mut pods = Pods::start();
    let (here, there) = pods.session().await;
    let mut stream = here.stream(None).await;
    assert!(stream.event().await.expect("a first event").data.is_empty());
    comes_true("the first pod listens for changes", async || pods.upstream.stats().await["streams"] == 1)
        .await;
    here.call("add_tool", json!({ "name": "first" })).await;
    let changed = |message: Option<Value>| {
        assert_eq!(message.expect("a message")["method"], "notifications/tools/list_changed");
    };
    changed(stream.message().await);
    pods.one.terminate();
    let last = parted(&mut stream).await;
    let mut stream = there.stream(Some(&last)).await;
    assert_eq!(stream.status, 200);
    assert_eq!(soon("its end", pods.one.ended()).await.code(), Some(0));
    comes_true("the second pod listens for changes", async || pods.upstream.stats().await["streams"] == 1)
        .await;
    there.call("add_prompt", json!({ "name": "second" })).await;
    loop {
        let message = stream.message().await.expect("a message");
        // A gap is told as a change of what was listened for; the first event itself never again by its log.
        if message["method"] == "notifications/prompts/list_changed" {
            break;
        }
        changed(Some(message));
    }
    assert!(there.call("first", json!({})).await.is_object(), "the session lives on");
}

#[tokio::test]
async fn a_streamed_call_is_followed_from_another_pod_while_its_own_drains() {
    let mut pods = Pods::start();
    let (here, there) = pods.session().await;
    let steps = r#"{"name":"progress","arguments":{"steps":10,"ms":300},"_meta":{"progressToken":"p"}}"#;
    let mut stream = here.send("\"c\"", "tools/call", steps).await;
    let mut seen = Vec::new();
    let mut ended = false;
    while seen.len() < 2 {
        note(&stream.message().await.expect("progress"), &mut seen, &mut ended);
    }
    pods.one.terminate();
    // What was under way when the pod was told comes before the farewell.
    let farewell = rest(&mut stream).await;
    let data = farewell.lines().filter_map(|line| line.strip_prefix("data: "));
    for message in data.filter(|data| !data.is_empty()) {
        note(&serde_json::from_str(message).expect("a message"), &mut seen, &mut ended);
    }
    assert!(!ended && seen.len() < 10, "it moved on in the middle: {farewell}");
    assert!(farewell.contains("retry: "), "{farewell:?}");
    let last = farewell.lines().filter_map(|line| line.strip_prefix("id: ")).next_back();
    let mut stream = there.stream(Some(last.expect("it says from where to go on"))).await;
    assert_eq!(stream.status, 200);
    while !ended {
        note(&stream.message().await.expect("a message"), &mut seen, &mut ended);
    }
    assert_eq!(seen, (1..=10).collect::<Vec<_>>(), "each step once and in order");
    assert!(stream.event().await.is_none(), "nothing follows the answer");
    assert_eq!(soon("its end", pods.one.ended()).await.code(), Some(0));
    assert_eq!(pods.upstream.seen_of("tools/call").await.len(), 1, "it ran once");
}

/// Takes down a step of progress, or the answer.
fn note(message: &Value, seen: &mut Vec<u64>, ended: &mut bool) {
    match message["params"]["progress"].as_u64() {
        Some(step) => seen.push(step),
        None => {
            assert_eq!(message["result"]["content"][0]["text"], "10 steps", "{message}");
            *ended = true;
        }
    }
}

#[tokio::test]
async fn notifications_come_once_each_while_their_stream_changes_pods() {
    const CHANGES: usize = 20;
    let mut pods = Pods::start();
    let (here, there) = pods.session().await;
    let mut stream = here.stream(None).await;
    comes_true("the first pod listens for changes", async || pods.upstream.stats().await["streams"] == 1)
        .await;
    let (address, other) = (pods.two.address, crate::gateway::legacy::Legacy::begin);
    let changing = tokio::spawn(async move {
        let client = other(address, "/mcp", V, json!({})).await;
        for n in 0..CHANGES {
            client.call("add_tool", json!({ "name": format!("tool-{n}") })).await;
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
        }
    });
    let (mut heard, mut last, mut moved) = (0, String::new(), false);
    while heard < CHANGES {
        if heard == CHANGES / 4 && !moved {
            moved = true;
            pods.one.terminate();
        }
        match stream.event().await {
            Some(event) => {
                last = event.id.unwrap_or(last);
                heard += usize::from(!event.data.is_empty());
            }
            None => stream = there.stream(Some(&last)).await,
        }
    }
    changing.await.expect("all changes were made");
    assert!(moved);
    // Whatever came a second time would be before this.
    there.call("add_prompt", json!({ "name": "last" })).await;
    let message = stream.message().await.expect("a message");
    assert_eq!(message["method"], "notifications/prompts/list_changed", "each change came once");
    assert_eq!(soon("its end", pods.one.ended()).await.code(), Some(0));
}
