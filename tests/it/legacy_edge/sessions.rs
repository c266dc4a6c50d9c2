//! How sessions begin, are found, and end.

use super::*;
use crate::gateway::exchange;

async fn refused_as_unknown(mut answer: Answer) {
    assert_eq!(answer.status, 404);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("www-authenticate"), None);
    let message = answer.json().await;
    assert_eq!(message["error"]["code"], -32016, "{message}");
    assert_eq!(message["error"]["message"], "Session not found");
}

#[tokio::test]
async fn b007_b027_b118_an_ended_or_unknown_session_is_404_on_every_verb_and_no_challenge() {
    let (_fixture, gateway) = before_legacy();
    let mut client = client(&gateway, json!({})).await;
    assert_eq!(client.end().await, 204);
    let ended = client.session.clone().unwrap();
    for name in [ended, "A".repeat(32), "nonsense".into(), "x".repeat(500)] {
        client.session = Some(name);
        refused_as_unknown(client.send("1", "tools/list", "{}").await).await;
        refused_as_unknown(client.notify("notifications/initialized", json!({})).await).await;
        refused_as_unknown(client.stream(None).await).await;
        assert_eq!(client.end().await, 404);
    }
}

#[tokio::test]
async fn b028_a_session_is_not_known_at_another_profile() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::start(json!({
        "upstreams": { "up": { "url": fixture.url } },
        "profiles": { "default": {}, "other": {} },
    }));
    let mine = client(&gateway, json!({})).await;
    let mut there = Legacy::without_session(gateway.address, "/mcp/other", None);
    there.session = mine.session.clone();
    refused_as_unknown(there.send("1", "tools/list", "{}").await).await;
    refused_as_unknown(there.stream(None).await).await;
    assert_eq!(there.end().await, 404);
    assert_eq!(
        text(
            &mine
                .send("1", "tools/call", &params("slow_echo", json!({"ms": 0, "text": "a"})))
                .await
                .answer()
                .await
        ),
        "a"
    );
}

#[tokio::test]
async fn b016_b025_a_delete_ends_the_upstream_session_once() {
    let (fixture, gateway) = before_legacy();
    let before = fixture.stats().await["sessions"].as_u64().unwrap();
    let clients = [client(&gateway, json!({})).await, client(&gateway, json!({})).await];
    for client in &clients {
        client.call("echo", json!({})).await;
    }
    assert!(fixture.stats().await["sessions"].as_u64().unwrap() >= before + 2);
    for client in &clients {
        assert_eq!(client.end().await, 204);
        assert_eq!(client.end().await, 404);
    }
    until("the end of the sessions upstream", || async {
        fixture.stats().await["sessions"].as_u64().unwrap() <= before.max(1)
    })
    .await;
    let deletes = fixture.stats().await["deletes"].as_array().unwrap().clone();
    let mut once = deletes.clone();
    once.dedup();
    assert_eq!((deletes.len(), once.len()), (2, 2), "{deletes:?}");
}

#[tokio::test]
async fn b004_sessions_that_are_never_ended_are_bounded_here_and_upstream() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::start(json!({
        "upstreams": { "up": { "url": fixture.url } },
        "sessions": { "per_principal": 5 },
    }));
    let first = client(&gateway, json!({})).await;
    for _ in 0..20 {
        client(&gateway, json!({})).await.call("echo", json!({})).await;
    }
    refused_as_unknown(first.send("1", "ping", "{}").await).await;
    until("the end of the sessions over the cap", || async {
        fixture.stats().await["sessions"].as_u64().unwrap() <= 7
    })
    .await;
}

#[tokio::test]
async fn b033_b034_b036_b114_the_negotiated_version_wins_over_what_headers_say() {
    let (_fixture, gateway) = before_legacy();
    let mut client = client(&gateway, json!({})).await;
    let versions =
        [None, Some("2025-11-25, 2025-11-25"), Some("2026-07-28"), Some("2025-03-26"), Some("2025-06-18")];
    for version in versions {
        client.version = version.map(str::to_owned);
        let mut answer = client.send("1", "ping", "{}").await;
        assert_eq!((answer.status, answer.json().await["result"].clone()), (200, json!({})), "{version:?}");
    }
    for version in ["1999-01-01", "2025-11-25, 2025-06-18"] {
        client.version = Some(version.to_owned());
        assert_eq!(client.send("1", "ping", "{}").await.status, 400, "{version}");
        assert_eq!(client.stream(None).await.status, 400, "{version}");
    }
    for (asked, given) in
        [("2025-06-18", "2025-06-18"), ("2026-07-28", "2025-11-25"), ("2000-01-01", "2025-11-25")]
    {
        let client = Legacy::begin(gateway.address, "/mcp", asked, json!({})).await;
        assert_eq!(client.version.as_deref(), Some(given));
    }
}

#[tokio::test]
async fn b003_a_client_that_never_sends_its_session_back_is_served_without() {
    let (_fixture, gateway) = before_legacy();
    client(&gateway, json!({})).await;
    let client = Legacy::without_session(gateway.address, "/mcp", Some("2025-11-25"));
    assert_eq!(client.notify("notifications/initialized", json!({})).await.status, 202);
    assert!(client.result("tools/list", json!({})).await["tools"].as_array().unwrap().len() > 3);
    assert_eq!(
        text(
            &client
                .send("1", "tools/call", &params("slow_echo", json!({"ms": 0, "text": "b"})))
                .await
                .answer()
                .await
        ),
        "b"
    );
    let error = client.error("resources/subscribe", json!({ "uri": "test://watched-resource" })).await;
    assert_eq!(error["code"], -32601);
    // What an upstream asks for it is refused at once.
    let refused = client.send("2", "tools/call", &params("ask_elicitation", json!({}))).await.answer().await;
    assert!(refused["error"].is_object() || refused["result"]["isError"] == true, "{refused}");
    let mut stream = client.send("3", "tools/call", &params("progress", json!({"steps": 2}))).await;
    while let Some(event) = stream.event().await {
        assert_eq!(event.id, None, "it could not be resumed");
    }

    let strict = Gateway::demo(json!({ "legacy": { "sessionless": false } }));
    let client = Legacy::without_session(strict.address, "/mcp", None);
    let mut answer = client.send("1", "tools/list", "{}").await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json().await["error"]["code"], -32600);
}

#[tokio::test]
async fn b121_a_get_without_a_session_is_405_at_once() {
    let gateway = Gateway::demo(json!({}));
    let accept = [("accept", "text/event-stream")];
    let answer = exchange::request(gateway.address, "GET", "/mcp", &accept, "").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
}

#[tokio::test]
async fn batches_are_answered_at_their_one_version_alone() {
    let (_fixture, gateway) = before_legacy();
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/x"},
        {"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"slow_echo","arguments":{"ms":1,"text":"t"}}},
        {"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-03-26"}},{"id":7}]"#;
    let client = Legacy::begin(gateway.address, "/mcp", "2025-03-26", json!({})).await;
    let sessionless = Legacy::without_session(gateway.address, "/mcp", None);
    for client in [&client, &sessionless] {
        let only_json = [("accept", "application/json")];
        let answers = client.raw(&only_json, batch).await.json().await;
        let answers = answers.as_array().unwrap();
        assert_eq!(answers.len(), 4, "{answers:?}");
        let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert_eq!(of(json!(1))["result"], json!({}));
        assert_eq!(text(of(json!("1"))), "t");
        assert_eq!(of(json!(2))["error"]["code"], -32600);
        assert_eq!(of(json!(7))["error"]["code"], -32600);
    }
    let notes = r#"[{"jsonrpc":"2.0","method":"notifications/x"}]"#;
    assert_eq!(client.raw(&[], notes).await.status, 202);
    for version in ["2025-06-18", "2025-11-25"] {
        let client = Legacy::begin(gateway.address, "/mcp", version, json!({})).await;
        let mut answer = client.raw(&[], batch).await;
        assert_eq!((answer.status, answer.json().await["error"]["code"].clone()), (400, json!(-32600)));
    }
}
