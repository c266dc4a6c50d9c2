//! Transports that share one channel between callers, against real processes and sockets.

mod children;
mod processes;
mod sse;

use bytes::Bytes;
use futures_util::StreamExt;
use plasm_mcp::config::Secret;
use plasm_mcp::mcp::UpstreamId;
use plasm_mcp::upstream::channel::MessageLimits;
use plasm_mcp::upstream::child::{ChildSpec, Grace};
use plasm_mcp::upstream::pool::{Pool, PoolLimits};
use plasm_mcp::upstream::transport::{Answer, Incoming, Outgoing, Route, Transport, TransportError};
use plasm_mcp::wire::{Id, Message, Method, Raw};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const LIMITS: PoolLimits = PoolLimits { most: 4, idle: Duration::from_secs(600), shared: false };

fn child(command: &str, args: &[&str]) -> ChildSpec {
    ChildSpec {
        name: UpstreamId::new("test").unwrap(),
        command: command.to_owned(),
        args: args.iter().map(|a| a.to_string()).collect(),
        env: Vec::new(),
        cwd: None,
        limits: MessageLimits { bytes: 1 << 20, depth: 128 },
        grace: Grace { input_end: Duration::from_millis(300), term: Duration::from_millis(300) },
    }
}

fn shell(script: &str) -> ChildSpec {
    child("sh", &["-c", script])
}

fn secret(text: &str) -> Secret {
    serde_json::from_value(json!(text)).unwrap()
}

fn pool(spec: ChildSpec) -> Pool {
    Pool::new(Arc::new(spec), LIMITS)
}

fn route() -> Route {
    Route { version: None, session: None, who: "somebody".into(), headers: Vec::new(), bearer: None }
}

fn request(id: &str, method: &str, params: Value) -> Outgoing {
    Outgoing {
        id: Id::of_str(id),
        method: Method::parse(method),
        progress: params["_meta"].get("progressToken").map(|token| token.to_string().into()),
        params: Raw::of(&params),
        name: None,
        trail: None,
        deadline: Instant::now() + Duration::from_secs(20),
    }
}

type Messages = futures_util::stream::BoxStream<'static, Result<Incoming, TransportError>>;

/// The messages that come back for a request, as one stream whatever their number.
async fn sent(to: &dyn Transport, request: Outgoing) -> Result<Messages, TransportError> {
    Ok(match to.request(route(), request).await?.answer {
        Answer::One(one) => futures_util::stream::iter([Ok(one)]).boxed(),
        Answer::Stream(items) => items,
    })
}

/// The result of a request that is answered without a question; an error object where it failed.
async fn result(to: &dyn Transport, id: &str, method: &str, params: Value) -> Result<Value, TransportError> {
    let mut messages = sent(to, request(id, method, params)).await?;
    while let Some(item) = messages.next().await {
        if let Message::Response(response) = item?.message {
            let (Ok(part) | Err(part)) = response.outcome;
            return Ok(part.read().unwrap());
        }
    }
    panic!("a stream without its response");
}

async fn tell(to: &dyn Transport, message: Value) {
    to.send(route(), Bytes::from(message.to_string())).await.unwrap();
}

/// The legacy handshake, with capabilities to be asked.
async fn initialize(to: &dyn Transport) {
    let hello = json!({
        "protocolVersion": "2024-11-05",
        "capabilities": { "elicitation": {}, "sampling": {}, "roots": {} },
        "clientInfo": { "name": "test", "version": "1" },
    });
    let said = result(to, "hello", "initialize", hello).await.unwrap();
    assert_eq!(said["serverInfo"]["name"], "fixture");
    tell(to, json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
}

/// What any legacy channel to the fixture shows: answers, progress, a question in a call, a change of the list.
async fn a_legacy_upstream_does_it_all(to: &dyn Transport) {
    initialize(to).await;
    let echoed =
        result(to, "e", "tools/call", json!({ "name": "echo", "arguments": { "a": 1.0 } })).await.unwrap();
    assert_eq!(echoed["structuredContent"].to_string(), r#"{"a":1.0}"#);

    let params =
        json!({ "name": "progress", "arguments": { "steps": 3 }, "_meta": { "progressToken": "tok" } });
    let messages = sent(to, request("p", "tools/call", params)).await.unwrap();
    let kinds: Vec<_> = messages.map(|item| kind(&item.unwrap().message)).collect().await;
    assert_eq!(
        kinds,
        ["notifications/progress", "notifications/progress", "notifications/progress", "response"]
    );

    let params = json!({ "name": "ask_elicitation", "arguments": {} });
    let mut messages = sent(to, request("q", "tools/call", params)).await.unwrap();
    let Message::Request(ask) = messages.next().await.unwrap().unwrap().message else {
        panic!("no question")
    };
    assert_eq!(ask.method, Method::Elicit);
    let id: Value = serde_json::from_slice(ask.id.token()).unwrap();
    let answer = json!({ "action": "accept", "content": { "text": "yes" } });
    tell(to, json!({ "jsonrpc": "2.0", "id": id, "result": answer })).await;
    assert_eq!(kind(&messages.next().await.unwrap().unwrap().message), "response");

    let mut standing = to.standing(route(), None).await.unwrap().unwrap();
    result(to, "add", "tools/call", json!({ "name": "add_tool", "arguments": { "name": "new" } }))
        .await
        .unwrap();
    assert_eq!(kind(&standing.next().await.unwrap().unwrap().message), "notifications/tools/list_changed");
}

fn kind(message: &Message) -> String {
    match message {
        Message::Request(ask) => ask.method.as_str().to_owned(),
        Message::Notification(note) => note.method.as_str().to_owned(),
        Message::Response(_) => "response".to_owned(),
    }
}

/// A call that has begun and is then dropped is cancelled upstream.
async fn a_dropped_call_ends_upstream(to: &dyn Transport) {
    initialize(to).await;
    let token = json!({ "progressToken": "t" });
    let params = json!({ "name": "progress", "arguments": { "steps": 1000, "ms": 20 }, "_meta": token });
    let mut running = sent(to, request("p", "tools/call", params)).await.unwrap();
    running.next().await.unwrap().unwrap();
    drop(running);
    // The call notes its end in its own time, so the question is asked until it has.
    let stats = json!({ "name": "stats", "arguments": {} });
    let cancels = async || {
        let stats = result(to, "s", "tools/call", stats.clone()).await.unwrap();
        stats["structuredContent"]["cancels"].as_array().unwrap().len()
    };
    while cancels().await == 0 {}
    assert_eq!(cancels().await, 1);
}
