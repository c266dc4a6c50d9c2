//! Readers that stop reading, and upstreams that do not stop writing.

use super::*;
use crate::upstream_link::hostile::{self, Manner, Server};
use futures_util::future::join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

/// What all stalled clients together may cost: far less than what is sent to them.
const BOUND: usize = 160 << 20;
/// What the flooding upstream sends for one call.
const FLOOD: usize = 24 << 20;

/// The profile of the upstream whose clients do not read.
const BAD: &str = "/mcp/bad";

/// A gateway with that profile, and another upstream for everybody else.
fn before(bad: &str, good: &Fixture) -> Gateway {
    Gateway::start(json!({
        "upstreams": { "bad": { "url": bad }, "good": { "url": good.url } },
        "profiles": { "bad": { "upstreams": ["bad"] } },
    }))
}

/// A legacy session there.
async fn session(gateway: &Gateway) -> Legacy {
    Legacy::begin(gateway.address, BAD, V, json!({})).await
}

/// Sends a request and never reads what comes.
pub async fn stalled(
    address: SocketAddr,
    verb: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(address).await.expect("it listens");
    let mut head = format!("{verb} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.expect("it reads");
    stream
}

/// A stalled call of a modern client.
async fn modern(gateway: &Gateway, params: &str) -> TcpStream {
    let client = gateway.modern();
    let headers = Modern::headers("tools/call", params);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
    stalled(gateway.address, "POST", BAD, &headers, &client.message("1", "tools/call", params)).await
}

/// A stalled call of a session, or of a legacy client without one.
async fn legacy(gateway: &Gateway, session: Option<&str>, params: &str) -> TcpStream {
    let mut headers = vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", V),
    ];
    headers.extend(session.map(|session| ("mcp-session-id", session)));
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    stalled(gateway.address, "POST", BAD, &headers, &body).await
}

/// Log messages of a kilobyte each, and no answer.
fn flood() -> Vec<u8> {
    let event = format!(
        "data: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"info\",\"data\":\"{}\"}}}}\n\n",
        "x".repeat(900)
    );
    hostile::stream(&event.repeat(FLOOD / event.len()))
}

/// That others are served: both eras, each of these upstreams.
async fn others_are_served(gateway: &Gateway, client: &Legacy) {
    for n in 0..10 {
        let arguments = json!({ "text": n.to_string(), "ms": 0 });
        let (old, new) = tokio::join!(client.call("good__slow_echo", arguments.clone()), async {
            gateway.modern().call("good__slow_echo", arguments.clone()).await
        });
        assert_eq!(
            (&old["content"][0]["text"], &new["content"][0]["text"]),
            (&json!(n.to_string()), &json!(n.to_string()))
        );
    }
    let fresh = gateway.legacy(V).await;
    assert_eq!(
        fresh.call("good__slow_echo", json!({ "text": "new", "ms": 0 })).await["content"][0]["text"],
        "new"
    );
}

#[tokio::test]
async fn readers_that_stall_under_a_flood_harm_nobody_and_cost_little() {
    let manner: Manner = |_| Box::pin(async { hostile::Answer::Hang(flood()) });
    let server = Server::start(manner).await;
    let good = Fixture::listening("--http", &["--era", "legacy", "--only-extra"]);
    let gateway = before(&server.url, &good);
    let client = gateway.legacy(V).await;
    others_are_served(&gateway, &client).await;
    let was = gateway.memory();
    let params = r#"{"name":"t","arguments":{},"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}"#;
    let plain = r#"{"name":"t","arguments":{}}"#;
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(modern(&gateway, params).await);
        let session = session(&gateway).await.session;
        held.push(legacy(&gateway, session.as_deref(), plain).await);
        held.push(legacy(&gateway, None, plain).await);
    }
    // HTTP+SSE: the stream is not read, and calls are posted.
    let mut sse = Vec::new();
    for _ in 0..4 {
        let stream = HttpSse::begin(gateway.address, BAD, json!({})).await;
        stream.send("1", "tools/call", plain).await;
        sse.push(stream);
    }
    for _ in 0..10 {
        others_are_served(&gateway, &client).await;
    }
    let grown = gateway.memory().saturating_sub(was);
    assert!(
        grown < BOUND,
        "{} MiB for {} readers of {} MiB each",
        grown >> 20,
        held.len() + sse.len(),
        FLOOD >> 20
    );
}

#[tokio::test]
async fn large_results_that_nobody_reads_harm_nobody_and_cost_what_they_are_at_most() {
    const BIG: usize = 4 << 20;
    const MANY: usize = 16;
    let good = Fixture::listening("--http", &["--era", "legacy", "--only-extra"]);
    let streams = Fixture::listening("--http", &["--era", "legacy", "--only-extra", "--always-sse"]);
    let gateway = before(&streams.url, &good);
    let client = gateway.legacy(V).await;
    let was = gateway.memory();
    let params = json!({ "name": "big", "arguments": { "bytes": BIG } }).to_string();
    let session = session(&gateway).await.session;
    let mut held = Vec::new();
    for _ in 0..MANY {
        held.push(modern(&gateway, &params).await);
        held.push(legacy(&gateway, session.as_deref(), &params).await);
    }
    let sse = HttpSse::begin(gateway.address, BAD, json!({})).await;
    for _ in 0..4 * MANY {
        sse.send("1", "tools/call", &params).await;
    }
    let mut most = 0;
    for _ in 0..10 {
        others_are_served(&gateway, &client).await;
        most = gateway.memory().max(most);
    }
    // While they come, each may stand in a buffer as it is read and in another as it is written.
    let grown = most.saturating_sub(was);
    assert!(grown < 6 * MANY * BIG * 2 + BOUND, "{} MiB", grown >> 20);
    // Once all have come, what nobody reads is kept once, and what was needed on the way is given back.
    comes_true("what was needed on the way is given back", async || {
        // The allocator gives back as it is used.
        others_are_served(&gateway, &client).await;
        gateway.memory().saturating_sub(was) < 3 * MANY * BIG + BOUND
    })
    .await;
    drop((held, sse));
    others_are_served(&gateway, &client).await;
}

#[tokio::test]
async fn large_results_on_streams_that_can_be_resumed_do_not_fill_the_store_for_others() {
    let good = Fixture::listening("--http", &["--era", "legacy", "--only-extra"]);
    let streams = Fixture::listening("--http", &["--era", "legacy", "--only-extra", "--always-sse"]);
    let gateway = before(&streams.url, &good);
    let client = gateway.legacy(V).await;
    let greedy = session(&gateway).await;
    // More than the memory store holds, and all of it is read.
    for round in 0..12 {
        let calls = (0..4).map(async |_| {
            let result = greedy.call("big", json!({ "bytes": 15 << 20 })).await;
            assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(15 << 20));
        });
        join_all(calls).await;
        if round % 4 == 3 {
            others_are_served(&gateway, &client).await;
        }
    }
    let mebibytes = gateway.memory() >> 20;
    assert!(mebibytes < 700, "{mebibytes} MiB");
}
