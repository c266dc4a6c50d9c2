//! What the admin port shows of calls: attachments with their evidence, and usage.

use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::gateway::{Gateway, exchange};
use crate::harness::Fixture;
use serde_json::{Value, json};

async fn page(gateway: &Gateway, path: &str, accept: &str) -> String {
    let mut answer = exchange::request(gateway.admin(), "GET", path, &[("accept", accept)], "").await;
    assert_eq!(answer.status, 200, "{path}");
    String::from_utf8(answer.bytes().await.to_vec()).expect("text")
}

#[tokio::test]
async fn attachments_say_what_was_seen_of_each_and_modern_calls_have_no_connection() {
    let upstream = Fixture::listening("--http", &["--only-extra", "--era", "modern"]);
    let gateway = Gateway::before(&[("up", &upstream)]);
    let legacy = Legacy::begin(gateway.address, "/mcp", "2025-11-25", json!({})).await;
    legacy.result("tools/list", json!({})).await;
    legacy.call("echo", json!({})).await;
    legacy.call("echo", json!({})).await;
    assert_eq!(legacy.end().await, 204);
    let idle = Legacy::begin(gateway.address, "/mcp", "2025-06-18", json!({})).await;
    let modern = Modern::new(gateway.address, "/mcp", json!({}));
    modern.result("server/discover", json!({})).await;
    modern.call("echo", json!({})).await;
    let shown: Value = serde_json::from_str(&page(&gateway, "/admin/attachments", "*/*").await).unwrap();
    let all = shown["attachments"].as_array().unwrap();
    assert_eq!(all.len(), 3, "{shown}");
    let kinds =
        |one: &Value| -> Vec<String> { one["evidence"].as_object().unwrap().keys().cloned().collect() };
    let of = |session: &Option<String>| {
        let start: String = session.as_ref().unwrap().chars().take(6).collect();
        let is = |one: &&Value| one["connection"].as_str().is_some_and(|id| id.starts_with(&start));
        all.iter().find(is).unwrap_or_else(|| panic!("{shown}"))
    };
    let ended = of(&legacy.session);
    let mut seen = kinds(ended);
    seen.sort();
    assert_eq!(
        seen,
        ["connection_closed", "initialize_observed", "protocol_accepted", "tool_called", "tools_listed"]
    );
    assert_eq!(ended["evidence"]["tool_called"]["count"], 2);
    let mut seen = kinds(of(&idle.session));
    seen.sort();
    assert_eq!(seen, ["initialize_observed", "protocol_accepted"]);
    let stateless = all.iter().find(|one| one["era"] == "modern").unwrap();
    assert_eq!(stateless["connection"], Value::Null);
    let mut seen = kinds(stateless);
    seen.sort();
    assert_eq!(seen, ["protocol_accepted", "tool_called"]);
    assert_eq!(gateway.metric(r#"plasm_evidence_total{kind="initialize_observed"}"#).await, 2.0);
}

#[tokio::test]
async fn usage_is_told_by_tenant_tool_and_upstream_in_three_forms() {
    let upstream = Fixture::listening("--http", &["--only-extra", "--era", "legacy"]);
    let gateway = Gateway::before(&[("up", &upstream)]);
    let modern = Modern::new(gateway.address, "/mcp", json!({}));
    for _ in 0..3 {
        modern.call("echo", json!({ "text": "x" })).await;
    }
    modern.result("resources/read", json!({ "uri": "test://static-text" })).await;
    let used: Value =
        serde_json::from_str(&page(&gateway, "/admin/usage", "application/json").await).unwrap();
    let row = used["usage"].as_array().unwrap().iter().find(|row| row["tool"] == "echo").unwrap().clone();
    assert_eq!((&row["upstream"], &row["calls"], &row["errors"]), (&json!("up"), &json!(3), &json!(0)));
    assert!(row["bytes_in"].as_u64() > Some(100) && row["seconds"].as_f64() > Some(0.0));
    let html = page(&gateway, "/admin/usage", "text/html,*/*").await;
    assert!(html.contains("<td>echo</td>"), "{html}");
    let text = page(&gateway, "/admin/usage", "*/*").await;
    assert!(text.lines().any(|line| line.contains("echo") && line.contains('3')), "{text}");
    let series = r#"plasm_usage_calls_total{outcome="ok",tenant="",tool="echo",upstream="up"}"#;
    assert_eq!(gateway.metric(series).await, 3.0);
}
