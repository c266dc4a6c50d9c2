//! What is seen of the gateway from outside: one trace from the client through to the upstream, the audit, what happens when
//! nobody takes them, and what the admin port shows.

mod audit;
mod collector;
mod pages;

use crate::gateway::Gateway;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::harness::{Fixture, comes_true};
use crate::owners::Pods;
use collector::{Collector, Span};
use serde_json::{Value, json};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const NEAR: &str = "00f067aa0ba902b7";
const FAR: &str = "b7ad6b7169203331";

fn parent(span: &str) -> String {
    format!("00-{TRACE}-{span}-01")
}

fn traced(collector: &Collector) -> Value {
    json!({ "traces": "otlp", "endpoint": collector.url })
}

/// The trace context in the body and in the headers of the one call that an upstream saw.
async fn arrived(upstream: &Fixture) -> (Value, Value) {
    let seen = upstream.seen_of("tools/call").await;
    let [(headers, body)] = &seen[..] else { panic!("{} calls came", seen.len()) };
    let body: Value = serde_json::from_str(body).expect("it is JSON");
    (body["params"]["_meta"].clone(), headers.clone())
}

/// The server and the client span of the trace, and what the upstream was given: the parent ids must be a chain.
async fn chain(collector: &Collector, upstream: &Fixture, parent: &str) -> (Span, Span) {
    let server = collector.span(TRACE, 2).await;
    let client = collector.span(TRACE, 3).await;
    assert_eq!(server.parent, parent, "{server:?}");
    assert_eq!(client.parent, server.id, "{client:?}");
    let (meta, headers) = arrived(upstream).await;
    let own = format!("00-{TRACE}-{}-01", client.id);
    assert_eq!(meta["traceparent"], own.as_str());
    assert_eq!(headers["traceparent"], own.as_str());
    (server, client)
}

#[tokio::test]
async fn one_trace_leads_from_the_client_through_the_gateway_to_the_upstream_in_both_eras() {
    for (upstream_era, client_era) in
        [("modern", "modern"), ("legacy", "modern"), ("modern", "legacy"), ("legacy", "legacy")]
    {
        let collector = Collector::start().await;
        let upstream = Fixture::listening("--http", &["--only-extra", "--era", upstream_era]);
        let gateway = Gateway::start(json!({
            "upstreams": { "up": { "url": upstream.url } },
            "telemetry": traced(&collector),
        }));
        let headers = [
            ("traceparent", parent(FAR)),
            ("tracestate", "v=1".to_owned()),
            ("baggage", "who=ann".to_owned()),
        ];
        let headers = headers.each_ref().map(|(name, value)| (*name, &**value));
        let params = r#"{"name":"echo","arguments":{"text":"hi"}}"#;
        let version = match client_era {
            "modern" => {
                let client = Modern::new(gateway.address, "/mcp", json!({}));
                client.send_with("7", "tools/call", params, &headers).await.answer().await;
                "2026-07-28"
            }
            _ => {
                let client = Legacy::begin(gateway.address, "/mcp", "2025-11-25", json!({})).await;
                client.send_with("7", "tools/call", params, &headers).await.answer().await;
                "2025-11-25"
            }
        };
        let (server, client) = chain(&collector, &upstream, FAR).await;
        assert_eq!((&*server.name, &*client.name), ("tools/call echo", "tools/call echo"));
        for (key, want) in [
            ("mcp.method.name", "tools/call"),
            ("gen_ai.tool.name", "echo"),
            ("gen_ai.operation.name", "execute_tool"),
            ("mcp.protocol.version", version),
            ("jsonrpc.request.id", "7"),
            ("network.transport", "tcp"),
            ("plasm.profile", "default"),
        ] {
            assert_eq!(server.get(key).as_deref(), Some(want), "{key} of {client_era} before {upstream_era}");
        }
        let session = server.get("mcp.session.id");
        assert_eq!(session.is_some(), client_era == "legacy");
        assert!(session.is_none_or(|session| session.chars().count() <= 7), "no whole id of a session");
        assert_eq!(client.get("plasm.upstream").as_deref(), Some("up"));
        assert!(!server.failed && !client.failed);
        let (meta, headers) = arrived(&upstream).await;
        for context in [&meta, &headers] {
            assert_eq!((&context["tracestate"], &context["baggage"]), (&json!("v=1"), &json!("who=ann")));
        }
        assert_eq!(collector.resource("service.name").as_deref(), Some("plasm-mcp"));
    }
}

#[tokio::test]
async fn what_the_message_says_goes_before_what_the_request_around_it_says() {
    let collector = Collector::start().await;
    let upstream = Fixture::listening("--http", &["--only-extra", "--era", "modern"]);
    let gateway = Gateway::start(json!({
        "upstreams": { "up": { "url": upstream.url } },
        "telemetry": traced(&collector),
    }));
    let client = Modern::new(gateway.address, "/mcp", json!({}));
    let params =
        format!(r#"{{"name":"echo","arguments":{{}},"_meta":{{"traceparent":"{}"}}}}"#, parent(NEAR));
    client.send_with("1", "tools/call", &params, &[("traceparent", &parent(FAR))]).await.answer().await;
    let (server, _) = chain(&collector, &upstream, NEAR).await;
    assert_eq!(server.links, [FAR], "the other is linked");
}

#[tokio::test]
async fn a_trace_goes_on_from_pod_to_pod() {
    let collector = Collector::start().await;
    let upstream = Fixture::listening("--sse", &["--only-extra"]);
    let pods = Pods::with(json!({
        "upstreams": { "up": { "url": upstream.url, "transport": "sse" } },
        "telemetry": traced(&collector),
    }));
    // One has the connection, and the other asks it.
    let [one, two] = pods.clients(json!({}));
    one.call("count", json!({})).await;
    let params =
        format!(r#"{{"name":"echo","arguments":{{"n":1}},"_meta":{{"traceparent":"{}"}}}}"#, parent(NEAR));
    two.send("1", "tools/call", &params).await.answer().await;
    comes_true("three spans are delivered", || async {
        collector.spans().iter().filter(|span| span.trace == TRACE).count() == 3
    })
    .await;
    let spans: Vec<_> = collector.spans().into_iter().filter(|span| span.trace == TRACE).collect();
    let of =
        |name: &str, kind: i32| spans.iter().find(|span| span.name == name && span.kind == kind).unwrap();
    let (server, client, relay) = (of("tools/call echo", 2), of("tools/call echo", 3), of("relay", 2));
    assert_eq!((&*server.parent, &client.parent, &relay.parent), (NEAR, &server.id, &client.id));
    let seen = upstream.seen_of("tools/call").await;
    let last: Value = serde_json::from_str(&seen.last().unwrap().1).unwrap();
    assert_eq!(last["params"]["_meta"]["traceparent"], format!("00-{TRACE}-{}-01", client.id));
}

#[tokio::test]
async fn a_call_that_fails_says_why_in_its_spans() {
    let collector = Collector::start().await;
    let gone = Fixture::listening("--http", &["--only-extra"]);
    let url = gone.url.clone();
    drop(gone);
    let gateway = Gateway::start(json!({
        "upstreams": { "up": { "url": url } },
        "telemetry": traced(&collector),
    }));
    let client = Modern::new(gateway.address, "/mcp", json!({}));
    client
        .send_with("1", "tools/call", r#"{"name":"echo"}"#, &[("traceparent", &parent(FAR))])
        .await
        .answer()
        .await;
    let (server, onward) = (collector.span(TRACE, 2).await, collector.span(TRACE, 3).await);
    for span in [&server, &onward] {
        assert_eq!((span.get("error.type").as_deref(), span.failed), (Some("upstream_unreachable"), true));
    }
}

#[tokio::test]
async fn parents_are_followed_linked_or_ignored_and_samples_drawn_as_the_configuration_says() {
    let collector = Collector::start().await;
    let calls = async |telemetry: Value, flags: &str| {
        let upstream = Fixture::listening("--http", &["--only-extra", "--era", "modern"]);
        let mut config =
            json!({ "upstreams": { "up": { "url": upstream.url } }, "telemetry": traced(&collector) });
        config["telemetry"].as_object_mut().unwrap().extend(telemetry.as_object().unwrap().clone());
        let mut gateway = Gateway::start(config);
        let client = Modern::new(gateway.address, "/mcp", json!({}));
        let before = collector.spans().len();
        let came = format!("00-{TRACE}-{FAR}-{flags}");
        client
            .send_with("1", "tools/call", r#"{"name":"echo"}"#, &[("traceparent", &came)])
            .await
            .answer()
            .await;
        // What was to be delivered is delivered at the end of a drain.
        gateway.terminate();
        assert!(gateway.ended().await.success());
        let sent = arrived(&upstream).await.0["traceparent"].as_str().map(str::to_owned);
        (collector.spans().split_off(before), sent.expect("a context goes on, sampled or not"))
    };
    let (spans, sent) = calls(json!({ "parents": "link" }), "01").await;
    let server = spans.iter().find(|span| span.kind == 2).unwrap();
    assert!(server.trace != TRACE && server.parent.is_empty() && server.links == [FAR], "{server:?}");
    assert!(sent.contains(&server.trace));
    let (spans, sent) = calls(json!({ "parents": "ignore" }), "01").await;
    let server = spans.iter().find(|span| span.kind == 2).unwrap();
    assert!(server.parent.is_empty() && server.links.is_empty() && !sent.contains(TRACE), "{server:?}");
    // A parent that is not sampled: neither are we, and the upstream is told so.
    let (spans, sent) = calls(json!({}), "00").await;
    assert!(spans.is_empty() && sent.contains(TRACE) && sent.ends_with("-00"), "{spans:?} {sent}");
    let (spans, sent) = calls(json!({ "parents": "ignore", "sample": "0%" }), "01").await;
    assert!(spans.is_empty() && sent.ends_with("-00"), "{spans:?} {sent}");
}

#[tokio::test]
async fn a_collector_in_trouble_holds_up_no_call_and_is_complained_of_once() {
    let collector = Collector::start().await;
    collector.answers(503);
    let upstream = Fixture::listening("--http", &["--only-extra", "--era", "modern"]);
    let mut gateway = Gateway::in_environment(
        json!({ "upstreams": { "up": { "url": upstream.url } }, "telemetry": { "traces": "otlp", "queue": 16 } }),
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.url),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s3cr3t"),
            ("OTEL_SERVICE_NAME", "ours"),
        ],
    );
    let client = Modern::new(gateway.address, "/mcp", json!({}));
    for _ in 0..100 {
        client.call("echo", json!({})).await;
    }
    let lost = async || {
        let of = |outcome: &str| format!(r#"plasm_telemetry_total{{kind="spans",outcome="{outcome}"}}"#);
        let series = ["dropped", "failed"].map(of);
        gateway.metric(&series[0]).await + gateway.metric(&series[1]).await
    };
    comes_true("what nobody takes is counted", || async { lost().await >= 150.0 }).await;
    let complaints = || gateway.log().lines().filter(|line| line.contains("telemetry is not taken")).count();
    comes_true("it is said", || async { complaints() == 1 }).await;
    collector.answers(200);
    client.call("echo", json!({})).await;
    comes_true("spans are taken again", || async { !collector.spans().is_empty() }).await;
    assert_eq!(complaints(), 1);
    assert!(gateway.log().contains("telemetry is taken again"));
    assert_eq!(collector.resource("service.name").as_deref(), Some("ours"));
    assert_eq!(collector.credentials().first().map(String::as_str), Some("Bearer s3cr3t"));
    assert!(!gateway.log().contains("s3cr3t"));
    gateway.terminate();
    assert!(gateway.ended().await.success());
}

#[tokio::test]
async fn without_traces_the_context_of_a_client_passes_as_it_came() {
    let upstream = Fixture::listening("--http", &["--only-extra", "--era", "modern"]);
    let gateway = Gateway::before(&[("up", &upstream)]);
    let client = Modern::new(gateway.address, "/mcp", json!({}));
    let params =
        format!(r#"{{"name":"echo","arguments":{{}},"_meta":{{"traceparent":"{}"}}}}"#, parent(NEAR));
    client.send_with("1", "tools/call", &params, &[("traceparent", &parent(FAR))]).await.answer().await;
    let (meta, headers) = arrived(&upstream).await;
    assert_eq!(meta["traceparent"], parent(NEAR));
    assert_eq!(headers["traceparent"], Value::Null);
}
