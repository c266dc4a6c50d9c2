//! Pods that are killed in the middle of calls, and upstreams that forget: over a real Redis, what was begun goes on
//! elsewhere or ends in an error, and is never made twice.

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::gateway::http_sse::HttpSse;
use crate::gateway::legacy::Legacy;
use crate::harness::{Fixture, comes_true};
use crate::store::redis::server::Server;

const V: &str = "2025-11-25";
const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
/// A lease that must end, twice over, on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Pods with one configuration, and what they stand on.
struct Pods {
    pods: Vec<Option<Gateway>>,
    _redis: Server,
    _folder: TempDir,
}

impl Pods {
    fn before(upstreams: &[(&str, &Fixture)], count: usize) -> Pods {
        let redis = Server::start(&[]);
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        std::fs::write(&key, KEY).expect("the folder takes a key");
        let mut config = json!({
            "store": { "redis_url": redis.url() },
            "sealing": { "keys": [{ "file": key }] },
        });
        for (id, upstream) in upstreams {
            config["upstreams"][id] = json!({ "url": upstream.url });
        }
        let pods = (0..count).map(|_| Some(Gateway::start(config.clone()))).collect();
        Pods { pods, _redis: redis, _folder: folder }
    }

    fn pod(&self, pod: usize) -> &Gateway {
        self.pods[pod].as_ref().expect("it lives")
    }

    async fn begin(&self, capabilities: Value) -> Legacy {
        Legacy::begin(self.pod(0).address, "/mcp", V, capabilities).await
    }

    /// The same session, by way of another pod.
    fn at(&self, pod: usize, client: &Legacy) -> Legacy {
        let mut there = Legacy::without_session(self.pod(pod).address, "/mcp", Some(V));
        there.session = client.session.clone();
        there
    }

    /// Kills it with SIGKILL.
    fn kill(&mut self, pod: usize) {
        self.pods[pod] = None;
    }
}

fn calls(tool: &str, arguments: Value) -> String {
    json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "mine" } }).to_string()
}

/// The next event of a stream with its id, however long its pod's lease lasts.
async fn next(answer: &mut Answer) -> (Option<String>, Option<Value>) {
    let event = async {
        loop {
            let Some(bytes) = answer.events_or_comments().await else { panic!("the stream ended") };
            if let Some(event) = bytes {
                return event;
            }
        }
    };
    let event = tokio::time::timeout(LONG, event).await.expect("an event in time");
    let message = (!event.data.is_empty()).then(|| serde_json::from_slice(&event.data).expect("JSON"));
    (event.id, message)
}

/// The next message, and the id to resume after it.
async fn message(answer: &mut Answer) -> (String, Value) {
    let mut last = None;
    loop {
        let (id, message) = next(answer).await;
        last = id.or(last);
        if let Some(message) = message {
            return (last.unwrap_or_default(), message);
        }
    }
}

fn step(message: &Value) -> u64 {
    assert_eq!(message["params"]["progressToken"], "mine", "{message}");
    message["params"]["progress"].as_u64().expect("a number")
}

#[tokio::test]
async fn a_call_whose_pod_is_killed_goes_on_elsewhere_and_tells_each_thing_once() {
    let (upstream, other) = (
        Fixture::listening("--http", &["--era", "legacy", "--name", "one"]),
        Fixture::listening("--http", &["--era", "legacy", "--name", "two"]),
    );
    let mut pods = Pods::before(&[("one", &upstream), ("two", &other)], 3);
    let here = pods.begin(json!({})).await;
    let (second, third) = (pods.at(1, &here), pods.at(2, &here));
    let mut stream =
        here.send("\"c\"", "tools/call", &calls("one__progress", json!({ "steps": 30, "ms": 100 }))).await;
    let (mut steps, mut last) = (Vec::new(), String::new());
    while steps.len() < 3 {
        let (id, message) = message(&mut stream).await;
        steps.push(step(&message));
        last = id;
    }
    pods.kill(0);
    // The client comes back before anyone can know that the pod is gone, and to two pods at once.
    let (mut rest, mut again) = (second.stream(Some(&last)).await, third.stream(Some(&last)).await);
    assert_eq!((rest.status, again.status), (200, 200));
    let mut told = steps.clone();
    let answer = loop {
        let (_, message) = message(&mut rest).await;
        if message["method"].is_null() {
            break message;
        }
        steps.push(step(&message));
    };
    let same = loop {
        let (_, message) = message(&mut again).await;
        if message["method"].is_null() {
            break message;
        }
        told.push(step(&message));
    };
    let all: Vec<_> = (1..=30).collect();
    assert_eq!((&steps, &told), (&all, &all));
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!("c"), &json!("30 steps")));
    assert_eq!(answer, same);
    assert_eq!(upstream.seen_of("tools/call").await.len(), 1, "it was called once");
    assert_eq!(upstream.stats().await["cancels"], json!([]));
    assert_eq!(second.call("two__echo", json!({ "text": "a" })).await["isError"], Value::Null);
}

#[tokio::test]
async fn a_call_that_had_told_nothing_goes_on_elsewhere_too() {
    let upstream = Fixture::listening("--http", &["--era", "legacy", "--always-sse"]);
    let mut pods = Pods::before(&[("up", &upstream)], 2);
    let here = pods.begin(json!({})).await;
    let there = pods.at(1, &here);
    let mut stream =
        here.send("7", "tools/call", &calls("slow_echo", json!({ "text": "late", "ms": 2000 }))).await;
    let (id, nothing) = next(&mut stream).await;
    assert_eq!(nothing, None, "the event that primes it");
    // What the pod knows of the call is in the store soon after.
    tokio::time::sleep(Duration::from_millis(500)).await;
    pods.kill(0);
    let mut rest = there.stream(id.as_deref()).await;
    let (_, answer) = message(&mut rest).await;
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(7), &json!("late")));
    assert_eq!(upstream.seen_of("tools/call").await.len(), 1);
}

#[tokio::test]
async fn a_call_that_no_pod_can_go_on_with_ends_in_an_error_and_others_are_not_touched() {
    let upstream = Fixture::listening("--http", &["--era", "legacy", "--stateless", "--always-sse"]);
    let mut pods = Pods::before(&[("up", &upstream)], 2);
    let here = pods.begin(json!({})).await;
    let there = pods.at(1, &here);
    let mut stream =
        here.send("\"c\"", "tools/call", &calls("progress", json!({ "steps": 600, "ms": 100 }))).await;
    let (last, first) = message(&mut stream).await;
    assert_eq!(step(&first), 1);
    pods.kill(0);
    let mut rest = there.stream(Some(&last)).await;
    let echo = there.call("echo", json!({ "text": "meanwhile" })).await;
    assert_eq!(echo["structuredContent"]["text"], "meanwhile", "a call that had not begun is served");
    let mut answer = message(&mut rest).await.1;
    while answer["method"] == "notifications/progress" {
        answer = message(&mut rest).await.1;
    }
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!("c"), &json!(true)), "{answer}");
    assert_eq!(answer["result"]["_meta"]["plasm/error"]["reason"], "outcome_unknown", "{answer}");
    let called = upstream.seen_of("tools/call").await;
    let begun = called.iter().filter(|(_, body)| body.contains("\"progress\"")).count();
    assert_eq!(begun, 1, "it was not called again");
}

#[tokio::test]
async fn a_question_of_a_killed_pod_is_asked_again_and_its_call_goes_on() {
    let upstream = Fixture::listening("--http", &["--era", "legacy"]);
    let mut pods = Pods::before(&[("up", &upstream)], 2);
    let here = pods.begin(json!({ "elicitation": {} })).await;
    let there = pods.at(1, &here);
    let mut stream = here.send("1", "tools/call", &calls("ask_elicitation", json!({}))).await;
    let (last, ask) = message(&mut stream).await;
    assert_eq!(ask["method"], "elicitation/create");
    pods.kill(0);
    let mut rest = there.stream(Some(&last)).await;
    let (_, again) = message(&mut rest).await;
    assert_eq!(again["method"], "elicitation/create");
    assert_ne!(again["id"], ask["id"]);
    let content = json!({ "action": "accept", "content": { "name": "Ada" } });
    assert_eq!(there.reply(&ask["id"], content.clone()).await.status, 400, "nobody waits for this one");
    assert_eq!(there.reply(&again["id"], content).await.status, 202);
    let (_, answer) = message(&mut rest).await;
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(1), &Value::Null), "{answer}");
    assert_eq!(upstream.seen_of("tools/call").await.len(), 1);
}

#[tokio::test]
async fn b020_an_upstream_that_forgets_its_session_is_greeted_once_over_all_pods_and_no_call_fails() {
    let upstream = Fixture::listening("--http", &["--era", "legacy"]);
    let pods = Pods::before(&[("up", &upstream)], 3);
    let here = pods.begin(json!({})).await;
    let at = [0, 1, 2].map(|pod| pods.at(pod, &here));
    for client in &at {
        client.call("echo", json!({ "text": "warm" })).await;
    }
    assert_eq!(upstream.stats().await["sessions"], 1, "all pods use one session");
    let before = upstream.seen_of("initialize").await.len();
    for round in 0..3 {
        at[round].call("forget_sessions", json!({})).await;
        let one = |n: usize| {
            let client = &at[n % 3];
            async move {
                match n % 4 {
                    3 => assert!(client.result("tools/list", json!({})).await["tools"].is_array()),
                    _ => {
                        let echo = client.call("echo", json!({ "text": n.to_string() })).await;
                        assert_eq!(echo["structuredContent"]["text"], json!(n.to_string()), "{echo}");
                    }
                }
            }
        };
        futures_util::future::join_all((0..60).map(one)).await;
        let greeted = upstream.seen_of("initialize").await.len() - before;
        assert_eq!(greeted, round + 1, "one handshake each time");
        comes_true("one session is left", || async { upstream.stats().await["sessions"] == 1 }).await;
    }
    assert!((200..300).contains(&at[1].end().await));
    comes_true("it was ended", || async { upstream.stats().await["deletes"] != json!([]) }).await;
    assert_eq!(upstream.stats().await["deletes"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_a_killed_pod_had_logged_for_a_get_stream_comes_again_elsewhere_and_the_session_goes_on() {
    let upstream = Fixture::listening("--http", &["--era", "legacy"]);
    let mut pods = Pods::before(&[("up", &upstream)], 2);
    let here = pods.begin(json!({})).await;
    let there = pods.at(1, &here);
    let mut stream = here.stream(None).await;
    let (prime, _) = next(&mut stream).await;
    let changed = |message: &Value| message["method"] == "notifications/tools/list_changed";
    // The standing stream upstream opens by itself; until then a change is told to nobody.
    let mut added = 0;
    let first = loop {
        added += 1;
        here.call("add_tool", json!({ "name": format!("new_{added}") })).await;
        if let Ok((_, message)) = tokio::time::timeout(Duration::from_secs(1), message(&mut stream)).await {
            break message;
        }
    };
    assert!(changed(&first), "{first}");
    pods.kill(0);
    let mut again = there.stream(prime.as_deref()).await;
    assert!(
        changed(&message(&mut again).await.1),
        "it was logged, and the client says that it did not see it"
    );
    let listed = there.result("tools/list", json!({})).await;
    let new = |tool: &Value| tool["name"].as_str().is_some_and(|name| name.starts_with("new_"));
    assert!(listed["tools"].as_array().expect("a list").iter().any(new), "the session goes on");
}

#[tokio::test]
async fn a_call_of_http_sse_whose_pod_is_killed_is_said_to_be_lost_on_the_clients_stream() {
    let upstream = Fixture::listening("--http", &["--era", "legacy"]);
    let mut pods = Pods::before(&[("up", &upstream)], 2);
    let mut client = HttpSse::begin(pods.pod(1).address, "/mcp", json!({})).await;
    client.address = pods.pod(0).address;
    client.send("9", "tools/call", &json!({ "name": "never", "arguments": {} }).to_string()).await;
    comes_true("it runs", || async { upstream.seen_of("tools/call").await.len() == 1 }).await;
    pods.kill(0);
    let (_, answer) = message(&mut client.stream).await;
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(9), &json!(true)), "{answer}");
    assert_eq!(answer["result"]["_meta"]["plasm/error"]["reason"], "outcome_unknown", "{answer}");
}
