//! HTTP+SSE of 2024-11-05.

use super::*;
use crate::gateway::http_sse::HttpSse;

#[tokio::test]
async fn b017_all_answers_of_a_session_come_out_on_its_one_stream() {
    let (_fixture, gateway) = before_legacy();
    for (path, beside) in
        [("/sse", "/message?"), ("/mcp/sse", "/mcp/message?"), ("/mcp/sse/", "/mcp/message?")]
    {
        let mut client = HttpSse::open(gateway.address, path).await;
        assert!(client.place.starts_with(beside), "{}", client.place);
        client.initialize(json!({ "elicitation": {} })).await;
        let asked =
            json!({ "name": "progress", "arguments": { "steps": 2 }, "_meta": { "progressToken": "t" } });
        client.send("\"a\"", "tools/call", &asked.to_string()).await;
        for step in 1..=2 {
            assert_eq!(client.hear().await["params"]["progress"], step);
        }
        let answer = client.hear().await;
        assert_eq!((&answer["id"], text(&answer)), (&json!("a"), "2 steps"));

        client.send("2", "tools/call", &params("ask_elicitation", json!({}))).await;
        let question = client.hear().await;
        assert_eq!(question["method"], "elicitation/create");
        client.reply(&question["id"], json!({ "action": "decline" })).await;
        assert_eq!(client.hear().await["id"], 2);
        let again = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
        assert_eq!(client.post_for_status(again.to_string()).await, 400, "it counts once");

        client.send("3", "tools/call", &params("add_tool", json!({ "name": path }))).await;
        let heard = [client.hear().await, client.hear().await];
        assert!(
            heard.iter().any(|message| message["method"] == "notifications/tools/list_changed"),
            "{heard:?}"
        );
    }
}

#[tokio::test]
async fn a_session_of_one_transport_is_unknown_to_the_other() {
    let (_fixture, gateway) = before_legacy();
    let mut sse = HttpSse::open(gateway.address, "/sse").await;
    sse.initialize(json!({})).await;
    let mut legacy = super::client(&gateway, json!({})).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let own =
        std::mem::replace(&mut sse.place, format!("/message?session_id={}", legacy.session.clone().unwrap()));
    assert_eq!(sse.post_for_status(ping).await, 404);
    sse.place = "/message".into();
    assert_eq!(sse.post_for_status(ping).await, 400);
    legacy.session = own.split_once('=').map(|(_, session)| session.to_owned());
    assert_eq!(legacy.send("1", "ping", "{}").await.status, 404);
    sse.place = own;
    assert_eq!(sse.post_for_status("{").await, 400);
    assert_eq!(sse.post_for_status(ping).await, 202);
    assert_eq!(sse.hear().await["result"], json!({}));
}
