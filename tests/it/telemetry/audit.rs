//! The audit, on standard output and at a collector: one event a call, refused ones too, in both eras.

use super::collector::{Collector, attribute};
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::gateway::{Gateway, exchange};
use crate::harness::{Fixture, comes_true};
use serde_json::{Value, json};

/// The audit of a gateway so far.
fn lines(gateway: &Gateway) -> Vec<Value> {
    let text = gateway.written();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

/// The first event of which this is so.
async fn event(gateway: &Gateway, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    comes_true(what, || async { lines(gateway).iter().any(&is_it) }).await;
    lines(gateway).into_iter().find(is_it).expect("it was there")
}

#[tokio::test]
async fn each_call_is_one_event_on_standard_output_whatever_becomes_of_it() {
    let upstream = Fixture::listening("--http", &["--only-extra", "--era", "modern"]);
    let gateway = Gateway::start(json!({
        "upstreams": { "up": { "url": upstream.url } },
        "audit": { "to": "stdout", "arguments": ["up__echo"], "redact": ["card"] },
        "profiles": { "default": { "tools": { "deny": ["up__rich"] } } },
    }));
    let modern = Modern::new(gateway.address, "/mcp", json!({}));
    let legacy = Legacy::begin(gateway.address, "/mcp", "2025-11-25", json!({})).await;
    modern.call("echo", json!({ "text": "hello", "card": 4111, "api_key": "sk-abcdefghijkl" })).await;
    legacy.call("count", json!({ "why": "nobody-asks" })).await;
    modern.result("tools/list", json!({})).await;
    modern.error("tools/call", json!({ "name": "rich" })).await;
    modern.error("resources/read", json!({ "uri": "test://none?sig=abc" })).await;
    let method = |method: &'static str, outcome: &'static str| {
        move |line: &Value| line["method"] == method && line["outcome"] == outcome
    };
    let call = event(&gateway, "echo", |line| line["tool"] == "echo").await;
    for (key, want) in [
        ("event", json!("call")),
        ("tenant", json!("")),
        ("subject", json!("anonymous")),
        ("client", json!("it")),
        ("profile", json!("default")),
        ("era", json!("modern")),
        ("version", json!("2026-07-28")),
        ("transport", json!("http")),
        ("upstream", json!("up")),
        ("outcome", json!("ok")),
        ("arguments", json!({ "text": "hello", "card": "[redacted]", "api_key": "[redacted]" })),
    ] {
        assert_eq!(call[key], want, "{key}: {call}");
    }
    assert!(
        call["bytes_in"].as_u64() > Some(50)
            && call["bytes_out"].as_u64() > Some(20)
            && call["ms"].is_number()
    );
    let call = event(&gateway, "count", |line| line["tool"] == "count").await;
    assert_eq!((&call["era"], &call["arguments"]), (&json!("legacy"), &Value::Null));
    let session = call["session"].as_str().unwrap();
    assert!(legacy.session.as_ref().unwrap().starts_with(session.trim_end_matches('…')));
    assert!(session.chars().count() <= 7, "no whole id: {session}");
    event(&gateway, "initialize", method("initialize", "ok")).await;
    event(&gateway, "list", method("tools/list", "ok")).await;
    let refused = event(&gateway, "a hidden tool", |line| line["tool"] == "rich").await;
    assert_eq!((&refused["outcome"], &refused["code"]), (&json!("unknown_tool"), &json!(-32602)));
    let read = event(&gateway, "a resource", |line| line["method"] == "resources/read").await;
    assert_eq!(read["uri"], "test://none", "a query may be a secret");
    let all = gateway.written();
    for secret in ["4111", "sk-abc", "nobody-asks", "sig=abc", legacy.session.as_deref().unwrap()] {
        assert!(!all.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn a_call_that_its_client_gives_up_is_an_event_too() {
    let upstream = Fixture::listening("--http", &["--only-extra", "--era", "modern"]);
    let gateway = Gateway::start(json!({
        "upstreams": { "up": { "url": upstream.url } },
        "audit": { "to": "stdout" },
    }));
    let modern = Modern::new(gateway.address, "/mcp", json!({}));
    let call = modern.send("1", "tools/call", r#"{"name":"never"}"#);
    assert!(tokio::time::timeout(std::time::Duration::from_millis(300), call).await.is_err());
    let given_up = event(&gateway, "it is told", |line| line["tool"] == "never").await;
    assert_eq!((&given_up["outcome"], &given_up["upstream"]), (&json!("cancelled"), &json!("up")));
}

#[tokio::test]
async fn the_audit_goes_to_a_collector_and_is_delivered_before_the_process_ends() {
    let collector = Collector::start().await;
    let mut gateway = Gateway::demo(json!({
        "telemetry": { "endpoint": collector.url },
        "audit": { "to": "otlp" },
    }));
    let modern = Modern::new(gateway.address, "/mcp", json!({}));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    modern.send_with("1", "tools/list", "{}", &[("traceparent", trace)]).await.answer().await;
    gateway.terminate();
    assert!(gateway.ended().await.success());
    let logs = collector.logs();
    let [log] = &logs[..] else { panic!("{} events", logs.len()) };
    assert_eq!(log.event_name, "call");
    for (key, want) in [
        ("method", "tools/list"),
        ("outcome", "ok"),
        ("subject", "anonymous"),
        // Nothing is traced here, and still the client's trace is named.
        ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
    ] {
        assert_eq!(attribute(&log.attributes, key).as_deref(), Some(want), "{key}");
    }
}

#[tokio::test]
async fn a_reader_that_stalls_holds_up_no_call() {
    let gateway = Gateway::stalled(json!({ "audit": { "to": "stdout" }, "telemetry": { "queue": 16 } }));
    let modern = Modern::new(gateway.address, "/mcp", json!({}));
    // More than a pipe and the queue hold.
    for _ in 0..1500 {
        modern.result("tools/list", json!({})).await;
    }
    comes_true("what nobody reads is counted", || async {
        gateway.metric(r#"plasm_telemetry_total{kind="audit",outcome="dropped"}"#).await > 0.0
    })
    .await;
    let health = exchange::request(gateway.address, "GET", "/health", &[], "").await;
    assert_eq!(health.status, 200);
}
