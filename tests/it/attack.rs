//! Floods and slow readers against the real gateway: each is bounded, and others are served meanwhile.

use crate::gateway::Gateway;
use crate::gateway::exchange::soon;
use crate::gateway::legacy::Legacy;
use crate::harness::{Fixture, comes_true};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_flood_of_changed_roots_is_told_upstream_one_after_another() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let capabilities = json!({ "roots": { "listChanged": true } });
    let client = Legacy::begin(gateway.address, "/mcp", "2025-03-26", capabilities).await;
    client.call("echo", json!({})).await;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    let batch = format!("[{}]", vec![changed; 100].join(","));
    for _ in 0..5 {
        assert_eq!(client.raw(&[], batch.clone()).await.status, 202);
    }
    // What was said last is told, and little of what was said before it.
    client.call("echo", json!({})).await;
    let told = fixture.seen_of("notifications/roots/list_changed").await.len();
    assert!((1..100).contains(&told), "{told} of 500");
    gateway.still_serves().await;
}

#[tokio::test]
async fn a_batch_of_a_million_members_is_refused_at_once() {
    let gateway = Gateway::demo(json!({}));
    let client = gateway.legacy("2025-03-26").await;
    let mut answer = client.raw(&[], format!("[{}1]", "1,".repeat(999_999))).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json().await["error"]["code"], -32600);
    gateway.still_serves().await;
}

#[tokio::test]
async fn params_of_very_many_members_are_answered_at_once() {
    let gateway = Gateway::demo(json!({}));
    let client = gateway.modern();
    let members: Vec<_> = (0..200_000).map(|n| format!(r#""k{n}":0"#)).collect();
    let params = format!(r#"{{"name":"echo","arguments":{{{0}}},{0}}}"#, members.join(","));
    let asked = std::time::Instant::now();
    let answer = client.send("1", "tools/call", &params).await;
    assert!([200, 413].contains(&answer.status), "{}", answer.status);
    // Were each compared with each, it would take minutes.
    assert!(asked.elapsed() < std::time::Duration::from_secs(20), "{:?}", asked.elapsed());
    gateway.still_serves().await;
}

#[tokio::test]
async fn one_address_does_not_get_all_connections() {
    let gateway = Gateway::demo(json!({ "limits": { "connections_per_address": 5 } }));
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(TcpStream::connect(gateway.address).await.unwrap());
    }
    let mut more = TcpStream::connect(gateway.address).await.unwrap();
    let mut said = Vec::new();
    let _ = soon("the end of a connection too many", more.read_to_end(&mut said)).await;
    assert!(said.is_empty());
    held.pop();
    comes_true("there is room again", || async {
        let mut socket = TcpStream::connect(gateway.address).await.unwrap();
        let _ =
            socket.write_all(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").await;
        let mut said = Vec::new();
        let _ = socket.read_to_end(&mut said).await;
        said.starts_with(b"HTTP/1.1 200 ")
    })
    .await;
}

#[tokio::test]
async fn a_subscription_to_very_many_resources_is_refused_before_any_is_asked_for() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let uris: Vec<_> = (0..1_001).map(|n| format!("x:{n}")).collect();
    let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
    assert_eq!(gateway.modern().error("subscriptions/listen", filter).await["code"], -32602);
    assert!(fixture.seen_of("resources/subscribe").await.is_empty());
    gateway.still_serves().await;
}
