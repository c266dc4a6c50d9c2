//! Upstreams that keep state in a child or a connection of the gateway's, over two pods and one Redis: whichever pod a
//! call reaches, it is the same child that answers.

mod sealed;

use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::gateway::Gateway;
use crate::gateway::exchange::soon;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::harness::{Fixture, comes_true, fixture_program};
use crate::must_show::stall;
use crate::store::redis::server::Server;

const V: &str = "2025-11-25";
const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// Two pods with an internal listener each, and what they stand on.
pub struct Pods {
    one: Gateway,
    two: Gateway,
    redis: Server,
    config: Value,
    _folder: TempDir,
}

impl Pods {
    /// Before a child of this era.
    fn before_a_child(era: &str) -> Pods {
        let args = ["--stdio", "--only-extra", "--era", era];
        Pods::before(json!({ "command": fixture_program(), "args": args }))
    }

    fn before(upstream: Value) -> Pods {
        Pods::with(json!({ "upstreams": { "up": upstream }, "log": { "filter": "info,plasm_mcp=debug" } }))
    }

    pub fn with(mut config: Value) -> Pods {
        let redis = Server::start(&[]);
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        std::fs::write(&key, KEY).expect("the folder takes a key");
        config["store"] = json!({ "redis_url": redis.url() });
        config["sealing"] = json!({ "keys": [{ "file": key }] });
        if config.get("internal_listen").is_none() {
            config["internal_listen"] = json!("127.0.0.1:0");
        }
        let (one, two) = (Gateway::start(config.clone()), Gateway::start(config.clone()));
        Pods { one, two, redis, config, _folder: folder }
    }

    pub fn clients(&self, capabilities: Value) -> [Modern; 2] {
        [&self.one, &self.two].map(|pod| Modern::new(pod.address, "/mcp", capabilities.clone()))
    }

    /// A session that either pod serves.
    async fn session(&self, capabilities: Value) -> [Legacy; 2] {
        let here = Legacy::begin(self.one.address, "/mcp", V, capabilities).await;
        let mut there = Legacy::without_session(self.two.address, "/mcp", Some(V));
        there.session = here.session.clone();
        [here, there]
    }

    fn children(&self) -> [usize; 2] {
        [&self.one, &self.two].map(|pod| pod.children().len())
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

#[tokio::test]
async fn calls_that_reach_different_pods_reach_one_child() {
    for era in ["legacy", "modern"] {
        let pods = Pods::before_a_child(era);
        let clients = pods.clients(json!({}));
        for round in 0..6 {
            let counted = clients[round % 2].call("count", json!({})).await;
            assert_eq!(text(&counted), (round + 1).to_string(), "{era}");
        }
        assert_eq!(pods.children(), [1, 0]);
        // Nothing of a call is looked up in the store once its way is known.
        let before = pods.redis.calls("hgetall") + pods.redis.calls("evalsha");
        for client in clients.iter().cycle().take(40) {
            client.call("count", json!({})).await;
        }
        let asked = pods.redis.calls("hgetall") + pods.redis.calls("evalsha") - before;
        assert!(asked < 10, "{asked} commands for 40 calls");
        // A session of its own is another caller: a child for each, and each is one.
        let session = pods.session(json!({ "roots": {} })).await;
        for round in 0..4 {
            let counted = session[1 - round % 2].call("count", json!({})).await;
            assert_eq!(text(&counted), (round + 1).to_string());
        }
        assert_eq!(pods.children().iter().sum::<usize>(), 2);
    }
}

#[tokio::test]
async fn lists_prompts_resources_and_faults_are_the_same_by_either_pod() {
    let pods = Pods::before_a_child("legacy");
    let clients = pods.clients(json!({}));
    for (method, params) in [
        ("tools/list", json!({})),
        ("resources/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/read", json!({ "uri": "test://static-text" })),
        ("tools/call", json!({ "name": "echo", "arguments": { "text": "ü", "n": 1.0 } })),
    ] {
        let (a, b) =
            (clients[0].result(method, params.clone()).await, clients[1].result(method, params).await);
        assert_eq!(a["content"].to_string(), b["content"].to_string(), "{method}");
        for key in ["tools", "resources", "prompts", "contents"] {
            assert_eq!(a[key], b[key], "{method}");
        }
    }
    let wrong = json!({ "name": "no_such_prompt" });
    let (a, b) =
        (clients[0].error("prompts/get", wrong.clone()).await, clients[1].error("prompts/get", wrong).await);
    assert_eq!(a["code"], b["code"]);
    let big = clients[1].call("big", json!({ "bytes": 3 << 20 })).await;
    assert_eq!(text(&big).len(), 3 << 20);
    assert_eq!(pods.children(), [1, 0]);
}

#[tokio::test]
async fn progress_and_questions_pass_between_the_pods() {
    let pods = Pods::before_a_child("legacy");
    let [here, there] = pods.session(json!({ "elicitation": {} })).await;
    here.call("echo", json!({})).await;
    let steps =
        json!({ "name": "progress", "arguments": { "steps": 3 }, "_meta": { "progressToken": "mine" } });
    let mut stream = there.send("1", "tools/call", &steps.to_string()).await;
    for step in 1..=3 {
        let note = stream.message().await.expect("progress comes first");
        assert_eq!(note["params"]["progressToken"], "mine");
        assert_eq!(note["params"]["progress"], step);
    }
    assert_eq!(text(&stream.answer().await["result"]), "3 steps");

    let ask = json!({ "name": "ask_elicitation", "arguments": {} }).to_string();
    let mut stream = there.send("2", "tools/call", &ask).await;
    let asked = stream.message().await.expect("it asks");
    assert_eq!(asked["method"], "elicitation/create");
    let answer = json!({ "action": "accept", "content": { "text": "ü" } });
    // Any pod takes the answer.
    assert_eq!(here.reply(&asked["id"], answer.clone()).await.status, 202);
    let said: Value =
        serde_json::from_str(text(&stream.answer().await["result"])).expect("it says what it got");
    assert_eq!(said, answer);
    assert_eq!(pods.children(), [1, 0]);
}

#[tokio::test]
async fn a_call_that_its_client_gives_up_is_given_up_at_the_child() {
    let pods = Pods::before_a_child("modern");
    let [here, there] = pods.clients(json!({}));
    here.call("echo", json!({})).await;
    let params = json!({ "name": "never", "arguments": {}, "_meta": { "progressToken": 1 } }).to_string();
    let call = tokio::time::timeout(Duration::from_millis(300), there.send("1", "tools/call", &params));
    assert!(call.await.is_err(), "it never answers");
    comes_true("cancelled at the child", || async {
        let stats = here.call("stats", json!({})).await;
        !stats["structuredContent"]["cancels"].as_array().expect("a list").is_empty()
    })
    .await;
}

#[tokio::test]
async fn changes_are_told_by_either_pod() {
    for era in ["legacy", "modern"] {
        let pods = Pods::before_a_child(era);
        let [here, there] = pods.clients(json!({}));
        here.call("echo", json!({})).await;
        let filter = json!({ "notifications": { "toolsListChanged": true } }).to_string();
        let mut listening = there.send("\"l\"", "subscriptions/listen", &filter).await;
        let first = listening.message().await.expect("it is acknowledged");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        // A legacy child's stream opens after it is acknowledged.
        let adding = async {
            for n in 0.. {
                here.call("add_tool", json!({ "name": format!("new_{n}") })).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let told = tokio::select! {
            told = listening.message() => told.expect("the stream stands"),
            () = adding => unreachable!(),
        };
        assert_eq!(told["method"], "notifications/tools/list_changed", "{era}");
        let listed = there.result("tools/list", json!({})).await;
        let names = listed["tools"].as_array().expect("a list").iter();
        assert!(names.map(|tool| &tool["name"]).any(|name| name == "new_0"), "{era}");
        assert_eq!(pods.children(), [1, 0]);
    }
}

#[tokio::test]
async fn a_lost_owner_leaves_what_was_sent_unknown_and_the_next_call_finds_a_new_child() {
    let Pods { one, two, redis: _redis, _folder, .. } = Pods::before_a_child("legacy");
    let client = |pod: &Gateway| Modern::new(pod.address, "/mcp", json!({}));
    let (here, there) = (client(&one), client(&two));
    assert_eq!(text(&here.call("count", json!({})).await), "1");
    assert_eq!(text(&there.call("count", json!({})).await), "2");
    let params = json!({ "name": "progress", "arguments": { "steps": 2, "ms": 60_000 }, "_meta": { "progressToken": 1 } });
    let mut running = there.send("1", "tools/call", &params.to_string()).await;
    assert_eq!(running.message().await.expect("it runs")["method"], "notifications/progress");
    // Killed, as it is dropped.
    drop(one);
    let answer = running.answer().await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(answer.to_string().contains("outcome_unknown"), "{answer}");
    let counted = there.call("count", json!({})).await;
    assert_eq!(text(&counted), "1", "a new child, at once: {counted}");
    assert_eq!(two.children().len(), 1);
}

#[tokio::test]
async fn a_pod_that_drains_finishes_what_others_sent_it_and_hands_its_callers_on() {
    let Pods { mut one, two, redis: _redis, _folder, .. } = Pods::before_a_child("legacy");
    let client = |pod: &Gateway| Modern::new(pod.address, "/mcp", json!({}));
    let (here, there) = (client(&one), client(&two));
    assert_eq!(text(&here.call("count", json!({})).await), "1");
    let params = json!({ "name": "progress", "arguments": { "steps": 2, "ms": 1500 }, "_meta": { "progressToken": 1 } });
    let mut running = there.send("1", "tools/call", &params.to_string()).await;
    assert_eq!(running.message().await.expect("it runs")["method"], "notifications/progress");
    one.terminate();
    comes_true("its callers are handed on", || async {
        there.call("count", json!({})).await;
        two.children().len() == 1
    })
    .await;
    assert_eq!(text(&running.answer().await["result"]), "2 steps");
    assert!(soon("its end", one.ended()).await.success());
}

#[tokio::test]
async fn a_changed_upstream_ends_its_child_once_the_calls_of_other_pods_have_ended() {
    let pods = Pods::before_a_child("legacy");
    let [here, there] = pods.clients(json!({}));
    assert_eq!(text(&here.call("count", json!({})).await), "1");
    let params = json!({ "name": "progress", "arguments": { "steps": 2, "ms": 3000 }, "_meta": { "progressToken": 1 } });
    let mut running = there.send("1", "tools/call", &params.to_string()).await;
    assert_eq!(running.message().await.expect("it runs")["method"], "notifications/progress");
    let mut config = pods.config.clone();
    config["upstreams"]["up"]["max_concurrent"] = json!(77);
    pods.one.reconfigure(&config);
    pods.one.hang_up();
    comes_true("its callers are handed on", || async {
        there.call("count", json!({})).await;
        pods.two.children().len() == 1
    })
    .await;
    assert_eq!(text(&running.answer().await["result"]), "2 steps");
    comes_true("the child has ended", || async { pods.one.children().is_empty() }).await;
}

#[tokio::test]
async fn an_owner_that_hangs_loses_its_lease_and_learns_of_it() {
    let pods = Pods::before_a_child("legacy");
    let [here, there] = pods.clients(json!({}));
    assert_eq!(text(&here.call("count", json!({})).await), "1");
    assert_eq!(text(&there.call("count", json!({})).await), "2");
    pods.one.hang();
    let sent = there.call("count", json!({})).await;
    assert!(sent.to_string().contains("outcome_unknown"), "{sent}");
    let counted = there.call("count", json!({})).await;
    assert_eq!(text(&counted), "1", "a new child, once the lease has ended: {counted}");
    pods.one.wake();
    comes_true("it has learned of it", || async {
        pods.one.log().contains("another pod has taken a channel")
    })
    .await;
    assert_eq!(text(&here.call("count", json!({})).await), "2", "of the new child");
}

#[tokio::test]
async fn what_is_known_goes_on_while_redis_is_away_and_what_is_not_waits_for_it() {
    let pods = Pods::before_a_child("legacy");
    let [here, there] = pods.clients(json!({}));
    assert_eq!(text(&here.call("count", json!({})).await), "1");
    assert_eq!(text(&there.call("count", json!({})).await), "2");
    pods.redis.hang();
    assert_eq!(text(&there.call("count", json!({})).await), "3");
    assert_eq!(text(&here.call("count", json!({})).await), "4");
    let stranger = Modern::new(pods.two.address, "/mcp", json!({ "roots": {} }));
    let call = json!({ "name": "count", "arguments": {} }).to_string();
    let refused = stranger.send("1", "tools/call", &call).await.answer().await;
    assert_eq!(refused["error"]["data"]["reason"], "state_store_unavailable", "{refused}");
    pods.redis.wake();
    comes_true("it is known again", || async { stranger.send("1", "tools/call", &call).await.status == 200 })
        .await;
    assert_eq!(text(&there.call("count", json!({})).await), "5");
}

#[tokio::test]
async fn readers_that_stall_at_another_pod_cost_little_at_either_and_hold_up_nobody() {
    /// What all of them may cost a pod: far less than the 80 MB that are sent to them.
    const BOUND: usize = 64 << 20;
    let pods = Pods::before_a_child("legacy");
    let clients = pods.clients(json!({}));
    clients[0].call("count", json!({})).await;
    let before = [pods.one.memory(), pods.two.memory()];
    let params = json!({
        "name": "progress", "arguments": { "steps": 40_000, "ms": 0 }, "_meta": { "progressToken": "p" },
    });
    let params = params.to_string();
    let headers = Modern::headers("tools/call", &params);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
    let body = clients[1].message("1", "tools/call", &params);
    let mut stalled = Vec::new();
    for _ in 0..20 {
        stalled.push(stall::stalled(pods.two.address, "POST", "/mcp", &headers, &body).await);
    }
    for round in 0..40 {
        let counted = clients[round % 2].call("count", json!({})).await;
        assert_eq!(text(&counted), (round + 2).to_string());
    }
    let steps = json!({ "name": "progress", "arguments": { "steps": 1000, "ms": 0 } });
    clients[0].result("tools/call", steps).await;
    for (pod, before) in [&pods.one, &pods.two].into_iter().zip(before) {
        let cost = pod.memory().saturating_sub(before);
        assert!(cost < BOUND, "{} MiB", cost >> 20);
    }
}

#[tokio::test]
async fn one_connection_of_http_sse_serves_both_pods_and_a_stateless_child_is_every_pods_own() {
    let sse = Fixture::listening("--sse", &["--only-extra", "--era", "legacy"]);
    let pods = Pods::before(json!({ "url": sse.url, "transport": "sse" }));
    for client in pods.clients(json!({})).iter().cycle().take(4) {
        client.call("echo", json!({})).await;
    }
    assert_eq!(sse.stats().await["streams"], 1);

    let child = json!({ "command": fixture_program(), "args": ["--stdio"], "stateless": true });
    let pods = Pods::before(child);
    for client in pods.clients(json!({})) {
        assert_eq!(text(&client.call("count", json!({})).await), "1");
    }
    assert_eq!(pods.children(), [1, 1]);
}

#[tokio::test]
async fn that_each_pod_has_its_own_child_is_said_at_the_start() {
    let child = json!({ "command": fixture_program(), "args": ["--stdio"] });
    let pods = Pods::with(json!({ "upstreams": { "up": child }, "internal_listen": null }));
    assert!(pods.one.log().contains("upstreams.up: each pod has its own child"), "{}", pods.one.log());
    for client in pods.clients(json!({})) {
        assert_eq!(text(&client.call("count", json!({})).await), "1");
    }
}
