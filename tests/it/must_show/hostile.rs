//! Upstreams that break every rule, through the gateway: what clients are told, and that nobody else is disturbed.

use super::*;
use crate::upstream_link::hostile::{self, Manner, Server};

/// The reason that a tool call's result gives (PROTOCOL, *Errors*: a valid result with structured data).
fn reason(result: &Value) -> String {
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().expect("it says why in words");
    for inner in ["/srv", "internal error", "<html>", "this is not JSON"] {
        assert!(!text.contains(inner), "the upstream's own words reach nobody: {text}");
    }
    let error = &result["_meta"]["plasm/error"];
    assert_eq!(error["upstream"], "bad", "{result}");
    assert!(error["retryable"].is_boolean());
    error["reason"].as_str().expect("a reason").to_owned()
}

fn before(bad: Value, good: &Fixture) -> Gateway {
    let mut bad = bad;
    bad["timeout"] = json!("1s");
    Gateway::start(json!({
        "limits": { "upstream_message_bytes": "64KiB" },
        "upstreams": { "bad": bad, "good": { "url": good.url } },
        "profiles": { "bad": { "upstreams": ["bad"] } },
    }))
}

/// Runs a call of the bad upstream from clients of both eras while the good one is called; gives the reasons.
async fn told(gateway: &Gateway, legacy: &Legacy, params: &Value) -> [String; 2] {
    told_at(gateway, legacy, &gateway.modern(), params).await
}

async fn told_at(gateway: &Gateway, legacy: &Legacy, modern: &Modern, params: &Value) -> [String; 2] {
    let healthy = gateway.modern();
    let good = json!({ "text": "undisturbed", "ms": 50 });
    let (new, old, beside) = tokio::join!(
        modern.result("tools/call", params.clone()),
        in_the_end(legacy, params),
        healthy.call("good__slow_echo", good),
    );
    assert_eq!(beside["content"][0]["text"], "undisturbed");
    [reason(&new), reason(&old)]
}

/// The result of a session's call, resumed as often as its stream is closed in the middle: an upstream that does so
/// has its own clients do so.
async fn in_the_end(legacy: &Legacy, params: &Value) -> Value {
    let mut stream = legacy.send("1", "tools/call", &params.to_string()).await;
    if !stream.is_stream() {
        return stream.json().await["result"].clone();
    }
    let mut last = None;
    loop {
        while let Some(event) = stream.event().await {
            last = event.id.or(last);
            let message: Value = serde_json::from_slice(&event.data).unwrap_or_default();
            if message.get("result").is_some() {
                return message["result"].clone();
            }
        }
        stream = legacy.stream(last.as_deref()).await;
    }
}

#[tokio::test]
async fn what_a_hostile_upstream_answers_becomes_a_clear_result_and_the_others_are_undisturbed() {
    let good = Fixture::listening("--http", &["--only-extra"]);
    for era in ["modern", "legacy"] {
        let bad = Fixture::listening("--http", &["--era", era, "--only-extra"]);
        let gateway = before(json!({ "url": bad.url }), &good);
        let legacy = gateway.legacy(V).await;
        let garbage = |kind: &str| ("garbage", json!({ "kind": kind }));
        let table = [
            (garbage("text"), "upstream_garbage"),
            (garbage("html"), "upstream_garbage"),
            (garbage("http_500"), "upstream_garbage"),
            (garbage("empty"), "upstream_garbage"),
            (garbage("wrong_id"), "upstream_garbage"),
            (garbage("stream"), "upstream_garbage"),
            (garbage("endless_line"), "upstream_too_large"),
            (("big", json!({ "bytes": 100_000 })), "upstream_too_large"),
            (("never", json!({})), "upstream_timeout"),
        ];
        for ((tool, arguments), wanted) in table {
            let params = json!({ "name": format!("bad__{tool}"), "arguments": arguments });
            let reasons = told(&gateway, &legacy, &params).await;
            assert_eq!(reasons, [wanted, wanted], "{tool} {arguments} of the {era} era");
        }
        let params =
            json!({ "name": "bad__close_midstream", "arguments": {}, "_meta": { "progressToken": 1 } });
        let [new, old] = told(&gateway, &legacy, &params).await;
        for reason in [new, old] {
            // A legacy stream that can be resumed is, until nothing comes of it.
            assert!(["outcome_unknown", "upstream_timeout"].contains(&&*reason), "{reason} of the {era} era");
        }
        // It is the answer that was bad, not the upstream: what it answers well still passes.
        let said = gateway.modern().call("bad__slow_echo", json!({ "text": "well", "ms": 0 })).await;
        assert_eq!(said["content"][0]["text"], "well", "{era}");
        gateway.still_serves().await;
        assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
    }
}

#[tokio::test]
async fn channels_of_hostile_upstreams_end_alone_and_are_opened_again() {
    let good = Fixture::listening("--http", &["--only-extra"]);
    let sse = Fixture::listening("--sse", &["--only-extra"]);
    let stdio = |era: &str| json!({ "command": fixture_program(), "args": ["--stdio", "--only-extra", "--era", era] });
    for (bad, kind) in [
        (json!({ "url": sse.url }), "sse"),
        (stdio("legacy"), "legacy stdio"),
        (stdio("modern"), "modern stdio"),
    ] {
        let gateway = before(bad, &good);
        let legacy = gateway.legacy(V).await;
        let table = [
            ("never", json!({}), &["upstream_timeout"][..]),
            ("big", json!({ "bytes": 100_000 }), &["upstream_too_large", "outcome_unknown"]),
            ("close_midstream", json!({}), &["outcome_unknown"]),
        ];
        for (tool, arguments, wanted) in table {
            let params = json!({ "name": format!("bad__{tool}"), "arguments": arguments });
            for reason in told(&gateway, &legacy, &params).await {
                assert!(wanted.contains(&&*reason), "{tool}: {reason} of {kind}");
            }
            comes_true("it is served again", async || {
                let said = gateway.modern().call("bad__slow_echo", json!({ "text": "well", "ms": 0 })).await;
                said["content"][0]["text"] == "well"
            })
            .await;
        }
        gateway.still_serves().await;
        assert!(!gateway.log().contains("panicked"), "{}", gateway.log());
    }
}

#[tokio::test]
async fn what_is_no_http_and_no_mcp_at_all_is_told_and_not_waited_for() {
    let good = Fixture::listening("--http", &["--only-extra"]);
    let manners: [(Manner, &str); 4] = [
        (
            |_| Box::pin(async { hostile::Answer::Close(b"\x00\xff\xfe no HTTP \r\n\r\n".to_vec()) }),
            "outcome_unknown",
        ),
        (|_| Box::pin(async { hostile::Answer::Close(Vec::new()) }), "outcome_unknown"),
        (|_| Box::pin(async { hostile::Answer::Hang(Vec::new()) }), "upstream_timeout"),
        (|_| Box::pin(async { hostile::Answer::Endless }), "upstream_too_large"),
    ];
    for (number, (manner, wanted)) in manners.into_iter().enumerate() {
        let server = Server::start(manner).await;
        let gateway = before(json!({ "url": server.url }), &good);
        let legacy = Legacy::begin(gateway.address, "/mcp/bad", V, json!({})).await;
        let modern = Modern::new(gateway.address, "/mcp/bad", json!({}));
        let params = json!({ "name": "t", "arguments": {} });
        let reasons = told_at(&gateway, &legacy, &modern, &params).await;
        assert_eq!(reasons, [wanted, wanted], "manner {number}");
        gateway.still_serves().await;
    }
}
