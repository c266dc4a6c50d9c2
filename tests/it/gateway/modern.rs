//! A client of 2026-07-28: each request stands alone, with its headers and `_meta`.

use super::exchange::{self, Answer, outcome};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

pub const VERSION: &str = "2026-07-28";

pub struct Modern {
    address: SocketAddr,
    path: String,
    capabilities: Value,
    next: AtomicU64,
}

impl Modern {
    pub fn new(address: SocketAddr, path: &str, capabilities: Value) -> Modern {
        Modern { address, path: path.to_owned(), capabilities, next: AtomicU64::new(1) }
    }

    /// The members that every modern request has in `_meta`, without braces.
    pub fn meta(&self) -> String {
        let capabilities = &self.capabilities;
        format!(
            r#""io.modelcontextprotocol/protocolVersion":"{VERSION}","io.modelcontextprotocol/clientCapabilities":{capabilities},"io.modelcontextprotocol/clientInfo":{{"name":"it","version":"1"}}"#
        )
    }

    /// A request's text. `params` is an object's text; what it holds stays as it is, ours is put into its `_meta`.
    pub fn message(&self, id: &str, method: &str, params: &str) -> String {
        let meta = self.meta();
        let params = match params.split_once(r#""_meta":{"#) {
            Some((before, after)) => {
                let comma = if after.trim_start().starts_with('}') { "" } else { "," };
                format!(r#"{before}"_meta":{{{meta}{comma}{after}"#)
            }
            None => {
                let rest = params.strip_prefix('{').expect("params are an object");
                let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
                format!(r#"{{"_meta":{{{meta}}}{comma}{rest}"#)
            }
        };
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
    }

    /// The headers that belong to a request. Names are given as they are; `encoded` them yourself where they need it.
    pub fn headers(method: &str, params: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
            ("mcp-protocol-version", VERSION.to_owned()),
            ("mcp-method", method.to_owned()),
        ];
        let key = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _ => return headers,
        };
        let params: Value = serde_json::from_str(params).unwrap_or_default();
        if let Some(name) = params[key].as_str() {
            headers.push(("mcp-name", plasm_mcp::wire::headers::encode(name).into_owned()));
        }
        headers
    }

    /// Sends exactly this body under these headers.
    pub async fn raw(&self, headers: &[(&str, &str)], body: impl Into<exchange::Content>) -> Answer {
        exchange::request(self.address, "POST", &self.path, headers, body).await
    }

    /// Sends a request with an id (its JSON text) of the caller's, under the right headers and `more`.
    pub async fn send_with(&self, id: &str, method: &str, params: &str, more: &[(&str, &str)]) -> Answer {
        let headers = Self::headers(method, params);
        let mut all: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
        all.retain(|(name, _)| !more.iter().any(|(other, _)| other == name));
        all.extend(more);
        self.raw(&all, self.message(id, method, params)).await
    }

    pub async fn send(&self, id: &str, method: &str, params: &str) -> Answer {
        self.send_with(id, method, params, &[]).await
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
