//! Stdio children that behave: the fixture, in both eras.

use super::*;
use crate::harness::fixture_program;
use plasm_mcp::upstream::transport::Dial;

fn fixture() -> Pool {
    pool(child(fixture_program().to_str().unwrap(), &["--stdio"]))
}

#[tokio::test]
async fn a_legacy_stdio_server_answers_reports_asks_and_announces() {
    let pool = fixture();
    let to = pool.dial("a").await.unwrap();
    a_legacy_upstream_does_it_all(&*to).await;
    pool.hang_up().await;
}

#[tokio::test]
async fn a_modern_stdio_server_answers_and_notifies_each_subscription() {
    let pool = fixture();
    let to = pool.dial("a").await.unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let found = result(&*to, "d", "server/discover", json!({ "_meta": meta })).await.unwrap();
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));

    let filter = json!({ "toolsListChanged": true });
    let listen = request("l", "subscriptions/listen", json!({ "notifications": filter, "_meta": meta }));
    let mut listening = sent(&*to, listen).await.unwrap();
    let first = kind(&listening.next().await.unwrap().unwrap().message);
    assert_eq!(first, "notifications/subscriptions/acknowledged");
    let add = json!({ "name": "add_tool", "arguments": { "name": "new" }, "_meta": meta });
    result(&*to, "add", "tools/call", add).await.unwrap();
    let second = kind(&listening.next().await.unwrap().unwrap().message);
    assert_eq!(second, "notifications/tools/list_changed");
    pool.hang_up().await;
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_a_stdio_server() {
    let pool = fixture();
    let to = pool.dial("a").await.unwrap();
    a_dropped_call_ends_upstream(&*to).await;
    pool.hang_up().await;
}

#[tokio::test]
async fn a_server_that_dies_breaks_its_calls_and_the_next_dial_starts_another() {
    let pool = fixture();
    let to = pool.dial("a").await.unwrap();
    initialize(&*to).await;
    let die = json!({ "name": "close_midstream", "arguments": {} });
    assert!(matches!(result(&*to, "x", "tools/call", die).await, Err(TransportError::Broken)));
    to.gone().await;
    let again = pool.dial("a").await.unwrap();
    initialize(&*again).await;
    pool.hang_up().await;
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_alone() {
    let pool = fixture();
    let to = pool.dial("a").await.unwrap();
    initialize(&*to).await;
    let big = |bytes: u32| json!({ "name": "big", "arguments": { "bytes": bytes } });
    let (over, within) = tokio::join!(
        result(&*to, "over", "tools/call", big(3_000_000)),
        result(&*to, "within", "tools/call", big(900_000)),
    );
    assert!(matches!(over, Err(TransportError::TooLarge(_))), "{over:?}");
    assert_eq!(within.unwrap()["content"][0]["text"].as_str().unwrap().len(), 900_000);
    pool.hang_up().await;
}
