//! A changed configuration, taken over while the gateway serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::gateway::exchange::{Answer, soon};
use crate::harness::{Fixture, comes_true, fixture_program};

const V: &str = "2025-11-25";

/// A configuration with these upstreams, and what else it says.
fn config(upstreams: &[(&str, &Fixture)], more: Value) -> Value {
    let urls = upstreams.iter().map(|(id, fixture)| (id.to_string(), json!({ "url": fixture.url })));
    let mut config = json!({ "upstreams": urls.collect::<serde_json::Map<_, _>>() });
    config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    config
}

/// Has it read this and waits until it has; gives how often that outcome came so far.
async fn reload(gateway: &Gateway, config: &Value, outcome: &str) {
    let series = format!(r#"plasm_config_reloads_total{{outcome="{outcome}"}}"#);
    let before = gateway.metric(&series).await;
    gateway.reconfigure(config);
    gateway.hang_up();
    comes_true(outcome, async || gateway.metric(&series).await > before).await;
}

async fn tools(gateway: &Gateway) -> Vec<String> {
    let list = gateway.modern().result("tools/list", json!({})).await;
    let tools = list["tools"].as_array().expect("a list").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

async fn changed(stream: &mut Answer) {
    loop {
        let message = stream.message().await.expect("the stream stands");
        if message["method"] == "notifications/tools/list_changed" {
            return;
        }
    }
}

#[tokio::test]
async fn no_call_fails_while_the_configuration_changes_and_what_did_not_change_is_kept() {
    let (stays, goes) =
        (Fixture::listening("--http", &["--era", "legacy"]), Fixture::listening("--http", &[]));
    let alone = config(&[("stays", &stays)], json!({}));
    let both = config(
        &[("stays", &stays), ("goes", &goes)],
        json!({ "profiles": { "one": { "upstreams": ["stays"] } } }),
    );
    let gateway = Arc::new(Gateway::start(both.clone()));
    let legacy = crate::gateway::legacy::Legacy::begin(gateway.address, "/mcp/one", V, json!({})).await;
    legacy.call("echo", json!({ "text": "x" })).await;
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = |n: usize| {
        let (gateway, over, calls) = (gateway.clone(), over.clone(), calls.clone());
        tokio::spawn(async move {
            let legacy = gateway.legacy(V).await;
            while !over.load(Ordering::Relaxed) {
                // An app's own name: it is known whether or not another upstream makes prefixes needed.
                let result = match n % 2 {
                    0 => legacy.call("only_here", json!({ "text": "x" })).await,
                    _ => gateway.modern().call("only_here", json!({ "text": "x" })).await,
                };
                assert_ne!(result["isError"], true, "{result}");
                calls.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let named = |config: &Value| {
        let mut config = config.clone();
        config["upstreams"]["stays"]["rename"] = json!({ "echo": "only_here" });
        config
    };
    reload(&gateway, &named(&both), "applied").await;
    let load: Vec<_> = (0..4).map(load).collect();
    let slow = gateway.clone();
    let late = tokio::spawn(async move {
        slow.modern().call("goes__slow_echo", json!({ "text": "late", "ms": 2500 })).await
    });
    comes_true("the call is on its way", async || goes.seen_of("tools/call").await.len() == 1).await;
    for _ in 0..3 {
        reload(&gateway, &named(&alone), "applied").await;
        reload(&gateway, &named(&both), "applied").await;
    }
    reload(&gateway, &named(&alone), "applied").await;
    let so_far = calls.load(Ordering::Relaxed);
    comes_true("calls go on", async || calls.load(Ordering::Relaxed) > so_far + 20).await;
    over.store(true, Ordering::Relaxed);
    for task in load {
        soon("the end of the load", task).await.expect("no call has failed");
    }
    assert_eq!(
        late.await.expect("it is answered")["content"][0]["text"],
        "late",
        "its upstream went meanwhile"
    );
    assert_eq!(stays.stats().await["deletes"].as_array().map(Vec::len), Some(0), "its link was kept");
    assert!(!tools(&gateway).await.iter().any(|tool| tool.starts_with("goes__")));
}

#[tokio::test]
async fn clients_are_told_of_lists_that_changed_and_only_of_those() {
    let (first, second) = (Fixture::listening("--http", &[]), Fixture::listening("--http", &[]));
    let alone = config(&[("first", &first)], json!({ "profiles": { "still": { "upstreams": ["first"] } } }));
    let both = config(
        &[("first", &first), ("second", &second)],
        json!({ "profiles": { "still": { "upstreams": ["first"] } } }),
    );
    let gateway = Gateway::start(alone.clone());
    let legacy = gateway.legacy(V).await;
    let mut get = legacy.stream(None).await;
    let wanted = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}"#;
    let mut listen = gateway.modern().send("5", "subscriptions/listen", wanted).await;
    let still = crate::gateway::modern::Modern::new(gateway.address, "/mcp/still", json!({}));
    let mut untouched = still.send("6", "subscriptions/listen", wanted).await;
    for stream in [&mut listen, &mut untouched] {
        assert_eq!(
            stream.message().await.expect("a message")["method"],
            "notifications/subscriptions/acknowledged"
        );
    }
    comes_true("the session's stream stands", async || first.stats().await["streams"].as_i64() >= Some(3))
        .await;
    reload(&gateway, &both, "applied").await;
    changed(&mut get).await;
    changed(&mut listen).await;
    assert!(tools(&gateway).await.contains(&"second__echo".to_owned()));
    // Switched off by its own key.
    let mut off = both.clone();
    off["upstreams"]["second"]["enabled"] = json!(false);
    reload(&gateway, &off, "applied").await;
    changed(&mut get).await;
    changed(&mut listen).await;
    assert!(tools(&gateway).await.contains(&"echo".to_owned()));
    // What the upstream itself changes is heard after the moves as before, and by the profile that did not move first.
    gateway.modern().call("add_tool", json!({ "name": "later" })).await;
    changed(&mut get).await;
    changed(&mut listen).await;
    let heard = untouched.message().await.expect("a message");
    assert_eq!(heard["method"], "notifications/tools/list_changed");
    assert!(still.result("tools/list", json!({})).await.to_string().contains("later"));
}

#[tokio::test]
async fn a_file_that_cannot_be_used_changes_nothing_and_what_needs_a_restart_is_named() {
    let fixture = Fixture::listening("--http", &[]);
    let gateway = Gateway::start(config(&[("up", &fixture)], json!({})));
    let before = tools(&gateway).await;
    reload(&gateway, &config(&[("up", &fixture)], json!({ "profilse": {} })), "refused").await;
    assert!(gateway.log().contains(r#"profilse: unknown key; did you mean"#), "{}", gateway.log());
    let header = json!({ "up": { "url": fixture.url, "headers": { "x-key": { "file": "/nowhere/key" } } } });
    reload(&gateway, &json!({ "upstreams": header }), "refused").await;
    assert_eq!(tools(&gateway).await, before);
    let moved =
        json!({ "drain": { "budget": "1s" }, "sessions": { "ttl": "1h" }, "allowed_hosts": ["a.example"] });
    reload(&gateway, &config(&[("up", &fixture)], moved), "applied").await;
    assert!(gateway.log().contains(r#""settings":"sessions, drain""#), "{}", gateway.log());
    let answer = gateway.request("GET", "/health", &[("host", "a.example")], "").await;
    assert_eq!(answer.status, 200, "what needs none is in effect");
    assert_eq!(tools(&gateway).await, before);
}

#[tokio::test]
async fn a_child_ends_when_its_upstream_is_switched_off_and_a_rotated_secret_makes_a_new_link() {
    let fixture = Fixture::listening("--http", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, "one").expect("the folder takes a key");
    let mut config = json!({ "upstreams": {
        "child": { "command": fixture_program(), "args": ["--stdio"] },
        "web": { "url": fixture.url, "headers": { "x-key": { "file": key } } },
    } });
    let gateway = Gateway::start(config.clone());
    gateway.modern().call("child__echo", json!({ "text": "x" })).await;
    gateway.modern().call("web__echo", json!({ "text": "x" })).await;
    assert_eq!(gateway.children().len(), 1);
    config["upstreams"]["child"]["enabled"] = json!(false);
    std::fs::write(&key, "two").expect("the file is written");
    reload(&gateway, &config, "applied").await;
    comes_true("the child has ended", async || gateway.children().is_empty()).await;
    gateway.modern().call("echo", json!({ "text": "x" })).await;
    let sent: Vec<_> = fixture
        .seen_of("tools/call")
        .await
        .into_iter()
        .map(|(headers, _)| headers["x-key"].clone())
        .collect();
    assert_eq!(sent, ["one", "two"]);
}

#[tokio::test]
async fn a_clients_file_that_changes_is_noticed_without_being_told() {
    let (first, second) = (Fixture::listening("--http", &[]), Fixture::listening("--http", &[]));
    let gateway = Gateway::with_mcp_json(json!({ "mcpServers": { "first": { "url": first.url } } }));
    assert!(tools(&gateway).await.contains(&"echo".to_owned()));
    gateway.reconfigure(&json!({ "mcpServers": {
        "first": { "url": first.url },
        "second": { "url": second.url },
    } }));
    comes_true("both are served", async || tools(&gateway).await.contains(&"second__echo".to_owned())).await;
}
