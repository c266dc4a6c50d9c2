//! Streams that stay open: they end with what let them in, and their clients are told to come back.

use super::issuer::{Issuer, now};
use super::{RESOURCE, bearer, config, session};
use crate::gateway::Gateway;
use crate::gateway::exchange::{self, Answer};
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use plasm_mcp::auth::api_key;
use serde_json::json;

/// The rest of a stream, once it has ended.
async fn rest(stream: &mut Answer) -> String {
    let mut all = Vec::new();
    while let Some(chunk) = stream.chunk().await {
        all.extend_from_slice(&chunk);
    }
    String::from_utf8(all).expect("events are text")
}

fn short(issuer: &Issuer) -> String {
    let mut claims = issuer.claims(RESOURCE);
    claims["exp"] = (now() + 2).into();
    issuer.sign(&claims)
}

async fn listen(gateway: &Gateway, token: &str) -> Answer {
    let client = Modern::new(gateway.address, "/mcp", json!({}));
    let filter = json!({ "notifications": { "toolsListChanged": true } }).to_string();
    client.send_with("7", "subscriptions/listen", &filter, &[("authorization", &bearer(token))]).await
}

#[tokio::test]
async fn a_stream_ends_with_its_token_and_the_session_goes_on_with_another() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({ "auth": { "clock_skew": "0s" } })));
    let token = short(&issuer);
    let mut client = session(&gateway, &token).await;
    let (mut stream, mut listening) = (client.stream(None).await, listen(&gateway, &token).await);
    let (said, listened) = tokio::join!(rest(&mut stream), rest(&mut listening));
    assert!(said.contains("retry: "), "when to come back: {said}");
    let last = listened.lines().rev().find_map(|line| line.strip_prefix("data: ")).expect("a message");
    let last: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(7), &json!("complete")), "{last}");
    client.authorization = Some(bearer(&issuer.token(RESOURCE, "alice")));
    assert_eq!(client.stream(None).await.status, 200);
    assert_eq!(client.send("1", "tools/list", "{}").await.status, 200);
}

#[tokio::test]
async fn streams_of_a_revoked_key_end_at_once_and_those_of_others_stay() {
    let issuer = Issuer::start("EdDSA").await;
    let (ci, cd) = (api_key::mint("ci"), api_key::mint("cd"));
    let key = |key: &str| json!({ "hash": api_key::hash(key).expect("a key").1, "tenant": "t" });
    let keys = json!({ "auth": { "api_keys": { "ci": key(&ci), "cd": key(&cd) } } });
    let gateway = Gateway::demo(config(&issuer, keys));
    let client = session(&gateway, &ci).await;
    let (mut stream, mut sse) = (client.stream(None).await, {
        let headers = [("authorization", &*bearer(&ci)), ("accept", "text/event-stream")];
        gateway.request("GET", "/mcp/sse", &headers, "").await
    });
    let mut listening = listen(&gateway, &ci).await;
    let mut others = listen(&gateway, &cd).await;
    assert_eq!(
        others.message().await.expect("its acknowledgement")["method"],
        "notifications/subscriptions/acknowledged"
    );
    let headers = [("content-type", "application/json")];
    let order = json!({ "api_key": "ci" }).to_string();
    assert_eq!(
        exchange::request(gateway.admin(), "POST", "/admin/revoke", &headers, order).await.status,
        204
    );
    tokio::join!(rest(&mut stream), rest(&mut sse), rest(&mut listening));
    let mut dead = Legacy::without_session(gateway.address, "/mcp", Some("2025-11-25"));
    (dead.session, dead.authorization) = (client.session.clone(), client.authorization.clone());
    assert_eq!(dead.stream(None).await.status, 401);
    let waited = tokio::time::timeout(std::time::Duration::from_millis(300), others.chunk()).await;
    assert!(!matches!(waited, Ok(None)), "another key's stream stays open");
}
