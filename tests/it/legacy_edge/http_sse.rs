//! HTTP+SSE of 2024-11-05.

use super::*;
use crate::gateway::exchange;
use std::net::SocketAddr;

struct Client {
    address: SocketAddr,
    endpoint: String,
    stream: Answer,
}

impl Client {
    async fn connect(address: SocketAddr, path: &str) -> Client {
        let mut stream =
            exchange::request(address, "GET", path, &[("accept", "text/event-stream")], "").await;
        assert_eq!(stream.status, 200);
        for header in ["deprecation", "sunset", "link"] {
            assert!(stream.header(header).is_some(), "{header}");
        }
        let first = stream.event().await.unwrap();
        assert_eq!(first.event.as_deref(), Some("endpoint"));
        let endpoint = String::from_utf8(first.data.to_vec()).unwrap();
        Client { address, endpoint, stream }
    }

    async fn post(&self, body: String) -> u16 {
        let json = [("content-type", "application/json")];
        let answer = exchange::request(self.address, "POST", &self.endpoint, &json, body).await;
        assert!(answer.header("deprecation").is_some());
        answer.status
    }

    async fn send(&self, id: &str, method: &str, params: Value) {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        assert_eq!(self.post(body).await, 202);
    }

    async fn hear(&mut self) -> Value {
        let event = self.stream.event().await.expect("the stream goes on");
        assert_eq!(event.id, None);
        serde_json::from_slice(&event.data).unwrap()
    }

    async fn initialize(&mut self) -> Value {
        let hello = json!({ "protocolVersion": "2024-11-05", "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "old", "version": "1" } });
        self.send("0", "initialize", hello).await;
        let welcome = self.hear().await;
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(note.to_string()).await, 202);
        welcome
    }
}

#[tokio::test]
async fn b017_all_answers_of_a_session_come_out_on_its_one_stream() {
    let (_fixture, gateway) = before_legacy();
    for (path, beside) in
        [("/sse", "/message?"), ("/mcp/sse", "/mcp/message?"), ("/mcp/sse/", "/mcp/message?")]
    {
        let mut client = Client::connect(gateway.address, path).await;
        assert!(client.endpoint.starts_with(beside), "{}", client.endpoint);
        assert_eq!(client.initialize().await["result"]["protocolVersion"], "2024-11-05");
        let asked =
            json!({ "name": "progress", "arguments": { "steps": 2 }, "_meta": { "progressToken": "t" } });
        client.send("\"a\"", "tools/call", asked).await;
        for step in 1..=2 {
            assert_eq!(client.hear().await["params"]["progress"], step);
        }
        let answer = client.hear().await;
        assert_eq!((&answer["id"], text(&answer)), (&json!("a"), "2 steps"));

        client.send("2", "tools/call", json!({ "name": "ask_elicitation", "arguments": {} })).await;
        let question = client.hear().await;
        assert_eq!(question["method"], "elicitation/create");
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
        assert_eq!(client.post(answer.to_string()).await, 202);
        assert_eq!(client.hear().await["id"], 2);

        client.send("3", "tools/call", json!({ "name": "add_tool", "arguments": { "name": path } })).await;
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
    let mut sse = Client::connect(gateway.address, "/sse").await;
    sse.initialize().await;
    let mut legacy = super::client(&gateway, json!({})).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let own = std::mem::replace(
        &mut sse.endpoint,
        format!("/message?session_id={}", legacy.session.clone().unwrap()),
    );
    assert_eq!(sse.post(ping.into()).await, 404);
    sse.endpoint = "/message".into();
    assert_eq!(sse.post(ping.into()).await, 400);
    legacy.session = own.split_once('=').map(|(_, session)| session.to_owned());
    assert_eq!(legacy.send("1", "ping", "{}").await.status, 404);
    sse.endpoint = own;
    assert_eq!(sse.post("{".into()).await, 400);
    assert_eq!(sse.post(ping.into()).await, 202);
    assert_eq!(sse.hear().await["result"], json!({}));
}
