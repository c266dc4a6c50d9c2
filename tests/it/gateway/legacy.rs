//! A client of the older revisions over Streamable HTTP, with a session or without.

use super::exchange::{self, Answer, outcome};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

pub struct Legacy {
    address: SocketAddr,
    path: String,
    /// What it sends as `MCP-Protocol-Version`; `None`: nothing.
    pub version: Option<String>,
    /// What it sends as `Mcp-Session-Id`; `None`: nothing.
    pub session: Option<String>,
    /// What it sends as `Authorization`; `None`: nothing.
    pub authorization: Option<String>,
    /// The result of `initialize`.
    pub welcome: Value,
    next: AtomicU64,
}

impl Legacy {
    /// A client that has no session and says this version.
    pub fn without_session(address: SocketAddr, path: &str, version: Option<&str>) -> Legacy {
        let version = version.map(str::to_owned);
        let (path, next) = (path.to_owned(), AtomicU64::new(1));
        Legacy { address, path, version, session: None, authorization: None, welcome: Value::Null, next }
    }

    /// Begins a session: `initialize` and `notifications/initialized`.
    pub async fn begin(address: SocketAddr, path: &str, version: &str, capabilities: Value) -> Legacy {
        Legacy::begin_as(address, path, version, capabilities, None).await
    }

    /// As [`Legacy::begin`], with this `Authorization`.
    pub async fn begin_as(
        address: SocketAddr,
        path: &str,
        version: &str,
        capabilities: Value,
        authorization: Option<String>,
    ) -> Legacy {
        let mut client = Legacy::without_session(address, path, None);
        client.authorization = authorization;
        let hello = json!({
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": { "name": "it", "version": "1" },
        });
        let mut answer = client.send("0", "initialize", &hello.to_string()).await;
        assert_eq!(answer.status, 200);
        client.session = answer.header("mcp-session-id").map(str::to_owned);
        client.welcome = outcome(answer.answer().await).expect("initialize has a result");
        client.version = client.welcome["protocolVersion"].as_str().map(str::to_owned);
        assert_eq!(client.notify("notifications/initialized", json!({})).await.status, 202);
        client
    }

    /// Sends exactly this body, under the session's headers and `more`, which win.
    pub async fn raw(&self, more: &[(&str, &str)], body: impl Into<exchange::Content>) -> Answer {
        self.exchange("POST", more, body).await
    }

    async fn exchange(
        &self,
        verb: &str,
        more: &[(&str, &str)],
        body: impl Into<exchange::Content>,
    ) -> Answer {
        let accept = if verb == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
        let mut all = vec![("content-type", "application/json"), ("accept", accept)];
        all.extend(self.version.iter().map(|version| ("mcp-protocol-version", &**version)));
        all.extend(self.session.iter().map(|session| ("mcp-session-id", &**session)));
        all.extend(self.authorization.iter().map(|shown| ("authorization", &**shown)));
        all.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        all.extend(more);
        exchange::request(self.address, verb, &self.path, &all, body).await
    }

    /// Sends a request with an id (its JSON text) of the caller's; `params` is an object's text.
    pub async fn send(&self, id: &str, method: &str, params: &str) -> Answer {
        self.send_with(id, method, params, &[]).await
    }

    pub async fn send_with(&self, id: &str, method: &str, params: &str, more: &[(&str, &str)]) -> Answer {
        self.raw(more, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#))
            .await
    }

    pub async fn notify(&self, method: &str, params: Value) -> Answer {
        self.raw(&[], json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string()).await
    }

    /// Answers a request of the server's.
    pub async fn reply(&self, id: &Value, result: Value) -> Answer {
        self.raw(&[], json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()).await
    }

    /// The session's stream of what the server says by itself, or the rest of one that broke off.
    pub async fn stream(&self, last_event_id: Option<&str>) -> Answer {
        let more: Vec<_> = last_event_id.into_iter().map(|id| ("last-event-id", id)).collect();
        self.exchange("GET", &more, "").await
    }

    /// Ends the session; gives the status.
    pub async fn end(&self) -> u16 {
        self.exchange("DELETE", &[], "").await.status
    }

    async fn ask(&self, method: &str, params: &Value) -> Result<Value, Value> {
        let id = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let message = self.send(&id, method, &params.to_string()).await.answer().await;
        assert_eq!(message["id"].to_string(), id, "{message}");
        outcome(message)
    }

    pub async fn result(&self, method: &str, params: Value) -> Value {
        self.ask(method, &params).await.unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    pub async fn error(&self, method: &str, params: Value) -> Value {
        match self.ask(method, &params).await {
            Ok(result) => panic!("{method} {params}: {result}"),
            Err(error) => error,
        }
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }
}
