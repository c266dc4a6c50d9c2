//! A client of HTTP+SSE (2024-11-05): one stream for all that the server says, and a place to post to.

use super::exchange::{self, Answer};
use serde_json::{Value, json};
use std::net::SocketAddr;

pub struct HttpSse {
    /// Whom it posts to.
    pub address: SocketAddr,
    /// Where it posts to, as the stream's first event says.
    pub place: String,
    pub stream: Answer,
    /// What came while something else was waited for.
    passed: Vec<Value>,
}

impl HttpSse {
    /// Opens the stream at this path, alone.
    pub async fn open(address: SocketAddr, path: &str) -> HttpSse {
        let mut stream =
            exchange::request(address, "GET", path, &[("accept", "text/event-stream")], "").await;
        assert_eq!(stream.status, 200);
        for header in ["deprecation", "sunset", "link"] {
            assert!(stream.header(header).is_some(), "{header}");
        }
        let first = stream.event().await.expect("the stream begins with the place to post to");
        assert_eq!(first.event.as_deref(), Some("endpoint"));
        let place = String::from_utf8(first.data.to_vec()).expect("a place is text");
        HttpSse { address, place, stream, passed: Vec::new() }
    }

    /// Opens the stream beside this endpoint and begins the session.
    pub async fn begin(address: SocketAddr, endpoint: &str, capabilities: Value) -> HttpSse {
        let mut client = HttpSse::open(address, &format!("{endpoint}/sse")).await;
        client.initialize(capabilities).await;
        client
    }

    pub async fn initialize(&mut self, capabilities: Value) {
        let hello = json!({
            "protocolVersion": "2024-11-05", "capabilities": capabilities,
            "clientInfo": { "name": "it", "version": "1" },
        });
        self.send("0", "initialize", &hello.to_string()).await;
        assert_eq!(self.answer("0").await["result"]["protocolVersion"], "2024-11-05");
        self.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    }

    /// Posts exactly this; gives the status.
    pub async fn post_for_status(&self, body: impl Into<exchange::Content>) -> u16 {
        let headers = [("content-type", "application/json")];
        let answer = exchange::request(self.address, "POST", &self.place, &headers, body).await;
        assert!(answer.header("deprecation").is_some());
        answer.status
    }

    pub async fn post(&self, body: impl Into<exchange::Content>) {
        assert_eq!(self.post_for_status(body).await, 202);
    }

    pub async fn send(&self, id: &str, method: &str, params: &str) {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.post(message).await;
    }

    /// Answers a request of the server's.
    pub async fn reply(&self, id: &Value, result: Value) {
        self.post(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()).await;
    }

    /// The next message, whatever it is.
    pub async fn hear(&mut self) -> Value {
        match self.passed.is_empty() {
            false => self.passed.remove(0),
            true => self.next().await,
        }
    }

    /// The response of this id (its JSON text); what else comes is kept.
    pub async fn answer(&mut self, id: &str) -> Value {
        let id: Value = serde_json::from_str(id).expect("an id is JSON");
        let is_it = |message: &Value| message.get("method").is_none() && message["id"] == id;
        if let Some(at) = self.passed.iter().position(is_it) {
            return self.passed.remove(at);
        }
        loop {
            let message = self.next().await;
            if is_it(&message) {
                return message;
            }
            self.passed.push(message);
        }
    }

    async fn next(&mut self) -> Value {
        let event = self.stream.event().await.expect("the stream stands");
        assert_eq!(event.id, None, "nothing can be resumed");
        serde_json::from_slice(&event.data).unwrap_or_else(|e| panic!("{e} in {:?}", event.data))
    }
}
