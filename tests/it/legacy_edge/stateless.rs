//! The stateless mode: no session is begun, and every request stands alone.

use super::*;

fn gateway(fixture: &Fixture) -> Gateway {
    Gateway::start(json!({ "legacy": { "stateless": true }, "upstreams": { "up": { "url": fixture.url } } }))
}

#[tokio::test]
async fn without_state_a_handshake_gives_no_session_and_every_request_is_served() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = gateway(&fixture);
    let mut client = client(&gateway, json!({ "elicitation": {} })).await;
    assert_eq!(client.session, None);
    assert_eq!(client.welcome["protocolVersion"], "2025-11-25");
    let can = client.welcome["capabilities"].as_object().expect("capabilities").clone();
    assert_eq!((&can["tools"], can.get("logging")), (&json!({}), None), "nothing can be told: {can:?}");
    let echoed = client.call("echo", json!({ "text": "x" })).await;
    assert_eq!(echoed["content"][0]["text"], r#"{"text":"x"}"#);
    let progress =
        json!({ "name": "progress", "arguments": { "steps": 2 }, "_meta": { "progressToken": "t" } });
    let mut streamed = client.send("7", "tools/call", &progress.to_string()).await;
    for step in 1..=2 {
        assert_eq!(streamed.message().await.expect("progress")["params"]["progress"], step);
    }
    assert_eq!(text(&streamed.answer().await), "2 steps");
    let refused = client.call("ask_elicitation", json!({})).await;
    assert_eq!(refused["isError"], true, "nobody can be asked: {refused}");
    assert_eq!(client.error("resources/subscribe", json!({ "uri": "test://a" })).await["code"], -32601);

    // The id of a session of before the switch means nothing.
    client.session = Some("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".into());
    assert!(client.result("tools/list", json!({})).await["tools"].is_array());
    assert_eq!(client.stream(None).await.status, 405);
    assert_eq!(client.end().await, 405);
    assert_eq!(gateway.metric(r#"plasm_sessions_total{event="opened"}"#).await, 0.0);
}

#[tokio::test]
async fn without_state_get_and_delete_are_not_allowed_and_there_is_no_http_sse() {
    let fixture = Fixture::listening("--http", &[]);
    let gateway = gateway(&fixture);
    for verb in ["GET", "DELETE"] {
        for more in [None, Some(("mcp-session-id", "s"))] {
            let accept = ("accept", "text/event-stream");
            let headers: Vec<_> = std::iter::once(accept).chain(more).collect();
            let answer = gateway.request(verb, "/mcp", &headers, "").await;
            assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")), "{verb} {more:?}");
        }
    }
    let sse = gateway.request("GET", "/mcp/sse", &[("accept", "text/event-stream")], "").await;
    assert_eq!(sse.status, 404);
    let found = gateway.modern().result("server/discover", json!({})).await;
    assert_eq!(found["resultType"], "complete", "the modern era never had any");
}
