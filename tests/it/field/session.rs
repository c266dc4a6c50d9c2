//! Sessions: ids that repeat, ids that never come back, sessions that nobody ends, upstreams that forget theirs.

use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::harness::{Fixture, comes_true};
use futures_util::future::join_all;
use serde_json::{Value, json};

const V: &str = "2025-11-25";

fn tool(name: &str, arguments: Value) -> String {
    json!({ "name": name, "arguments": arguments }).to_string()
}

fn slow(text: &str, ms: u64) -> String {
    tool("slow_echo", json!({ "text": text, "ms": ms }))
}

fn text(answer: &Value) -> &Value {
    &answer["result"]["content"][0]["text"]
}

async fn before(era: &str) -> (Fixture, Gateway) {
    let fixture = Fixture::listening("--http", &["--era", era]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    (fixture, gateway)
}

/// That an answer is the one that unknown sessions get: no challenge and no page, which clients take for a login.
async fn is_not_found(mut answer: Answer) {
    assert_eq!(answer.status, 404);
    assert_eq!(answer.header("www-authenticate"), None);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json().await;
    assert_eq!(body["error"]["code"], -32016, "{body}");
    assert_eq!(body["error"]["message"], "Session not found");
}

async fn upstream_sessions(fixture: &Fixture) -> u64 {
    fixture.stats().await["sessions"].as_u64().expect("a count")
}

#[tokio::test]
async fn b001_one_id_in_two_calls_at_once_gets_two_answers() {
    for era in ["modern", "legacy"] {
        let (fixture, gateway) = before(era).await;
        let client = gateway.legacy(V).await;
        let first = async { client.send("1", "tools/call", &slow("a", 500)).await.answer().await };
        let second = async { client.send("1", "tools/call", &slow("b", 0)).await.answer().await };
        let (first, second) = tokio::join!(first, second);
        assert_eq!((&first["id"], text(&first)), (&json!(1), &json!("a")));
        assert_eq!((&second["id"], text(&second)), (&json!(1), &json!("b")));
        let seen = fixture.seen_of("tools/call").await;
        let ids: Vec<Value> =
            seen.iter().map(|(_, body)| serde_json::from_str::<Value>(body).unwrap()["id"].clone()).collect();
        assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    }
}

/// Begins so many sessions with one call each, and ends none.
async fn begin_and_leave(gateway: &Gateway, count: usize) {
    for _ in 0..count {
        let client = gateway.legacy(V).await;
        client.call("echo", json!({ "n": 1 })).await;
    }
}

#[tokio::test]
async fn b004_a_session_that_only_begins_costs_a_legacy_upstream_none() {
    let (fixture, gateway) = before("legacy").await;
    for _ in 0..20 {
        gateway.legacy(V).await;
    }
    assert!(upstream_sessions(&fixture).await <= 1, "the first one asked what it is");
    begin_and_leave(&gateway, 3).await;
    assert!((3..=4).contains(&upstream_sessions(&fixture).await));
}

/// Waits until a session's standing call has its stream upstream, for a change before that is told to nobody.
async fn stands(fixture: &Fixture, streams: u64) {
    comes_true("the stream upstream is open", async || fixture.stats().await["streams"] == streams).await;
}

#[tokio::test]
async fn b014_b016_a_session_is_served_on_every_verb_until_its_end_and_on_none_after() {
    let (fixture, gateway) = before("legacy").await;
    let client = gateway.legacy(V).await;
    assert!(!client.result("tools/list", json!({})).await["tools"].as_array().unwrap().is_empty());
    client.call("echo", json!({ "n": 1 })).await;
    let mut stream = client.stream(None).await;
    assert_eq!(stream.status, 200);
    stands(&fixture, 1).await;
    assert_eq!(client.end().await, 204);
    while stream.event().await.is_some() {}
    for _ in 0..2 {
        is_not_found(client.send("1", "tools/list", "{}").await).await;
        is_not_found(client.stream(None).await).await;
        assert_eq!(client.end().await, 404);
    }
    comes_true("the upstream's session is ended", async || upstream_sessions(&fixture).await == 0).await;
    // A second pod that found out what the upstream speaks by a session ended that one by itself.
    let deletes = fixture.stats().await["deletes"].clone();
    let each: std::collections::BTreeSet<_> =
        deletes.as_array().into_iter().flatten().map(Value::to_string).collect();
    assert!(!each.is_empty() && Some(each.len()) == deletes.as_array().map(Vec::len), "each once: {deletes}");
}

#[tokio::test]
async fn b020_an_upstream_that_forgot_its_sessions_is_greeted_again_once_and_the_call_is_made() {
    let (fixture, gateway) = before("legacy").await;
    let client = gateway.legacy(V).await;
    client.call("echo", json!({})).await;
    let hellos = async || fixture.seen_of("initialize").await.len();
    let was = hellos().await;
    client.call("forget_sessions", json!({})).await;
    let calls = (0..8).map(|n| {
        let client = &client;
        async move { client.call("slow_echo", json!({ "text": n.to_string(), "ms": 50 })).await }
    });
    for (n, result) in join_all(calls).await.into_iter().enumerate() {
        assert_eq!(result["content"][0]["text"], n.to_string());
    }
    assert_eq!(hellos().await, was + 1, "eight calls, one handshake");
}

#[tokio::test]
async fn b023_an_upstream_without_sessions_is_used_without_one() {
    let fixture = Fixture::listening("--http", &["--era", "legacy", "--stateless"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let client = gateway.legacy(V).await;
    client.result("tools/list", json!({})).await;
    assert_eq!(client.call("slow_echo", json!({ "text": "x", "ms": 0 })).await["content"][0]["text"], "x");
    for request in fixture.seen().await {
        assert_eq!(request["session"], Value::Null, "{request}");
    }
}

#[tokio::test]
async fn b026_clients_that_come_and_go_start_no_child_each() {
    let program = crate::harness::fixture_program();
    let config =
        json!({ "upstreams": { "up": { "command": program, "args": ["--stdio", "--era", "legacy"] } } });
    let gateway = Gateway::start(config);
    begin_and_leave(&gateway, 40).await;
    assert_eq!(gateway.children().len(), 1);
}

#[tokio::test]
async fn b123_sessions_that_nobody_ends_cost_little_memory() {
    let (_fixture, gateway) = before("modern").await;
    begin_and_leave(&gateway, 20).await;
    let was = gateway.memory();
    for _ in 0..8 {
        let more = (0..50).map(async |_| {
            gateway.legacy(V).await.call("echo", json!({})).await;
        });
        join_all(more).await;
    }
    let each = gateway.memory().saturating_sub(was) / 400;
    assert!(each < 64 << 10, "{each} bytes a session");
}
