//! The legacy edges of a real gateway before real upstreams: sessions, their streams, their calls; clients without a
//! session; HTTP+SSE. Field cases by their ids, as far as one pod shows them.

mod calls;
mod http_sse;
mod sessions;
mod stateless;
mod streams;

use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::gateway::legacy::Legacy;
use crate::harness::Fixture;
use serde_json::{Value, json};
use std::time::Duration;

/// A gateway before one upstream of the legacy era.
fn before_legacy() -> (Fixture, Gateway) {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    (fixture, gateway)
}

async fn client(gateway: &Gateway, capabilities: Value) -> Legacy {
    Legacy::begin(gateway.address, "/mcp", "2025-11-25", capabilities).await
}

fn params(tool: &str, arguments: Value) -> String {
    json!({ "name": tool, "arguments": arguments }).to_string()
}

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {message}"))
}

/// The next event that carries a message, with its id.
async fn event(stream: &mut Answer) -> (String, Value) {
    loop {
        let event = stream.event().await.expect("the stream goes on");
        if !event.data.is_empty() {
            let message = serde_json::from_slice(&event.data).expect("messages are JSON");
            return (event.id.expect("an event of a session has an id"), message);
        }
    }
}

/// Asks again and again, for what happens by itself and is not told.
async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    crate::gateway::exchange::soon(what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}
