//! The end of a pod: what is in flight is carried out, what can go on elsewhere goes there, and nothing is cut.

mod handover;

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::gateway::Gateway;
use crate::gateway::exchange::{Answer, request, soon};
use crate::gateway::http_sse::HttpSse;
use crate::harness::{Fixture, comes_true};

const V: &str = "2025-11-25";

/// A gateway that takes its time to be seen leaving.
fn gateway(upstream: &Fixture, propagation: &str) -> Gateway {
    Gateway::start(json!({
        "drain": { "propagation": propagation },
        "upstreams": { "up": { "url": upstream.url } },
    }))
}

async fn text(gateway: &Gateway, verb: &str, path: &str) -> (u16, String) {
    let mut answer = request(gateway.admin(), verb, path, &[], "").await;
    (answer.status, String::from_utf8_lossy(&answer.bytes().await).trim().to_owned())
}

async fn stage_is(gateway: &Gateway, stage: &str) {
    comes_true(stage, || async { text(gateway, "GET", "/drain").await.1 == stage }).await;
}

/// What is left of a stream, as it is written.
async fn rest(stream: &mut Answer) -> String {
    let mut rest = String::new();
    while let Some(chunk) = stream.chunk().await {
        rest.push_str(&String::from_utf8_lossy(&chunk));
    }
    rest
}

/// `plasm-mcp drain`, and its exit code.
async fn drain(admin: &str, wait: &str) -> Option<i32> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"));
    command.args(["drain", "--admin", admin, "--wait", wait]).stderr(Stdio::null());
    let ended = tokio::task::spawn_blocking(move || command.status().expect("it runs"));
    ended.await.expect("it was waited for").code()
}

#[tokio::test]
async fn a_pod_that_leaves_says_so_and_serves_new_connections_until_that_is_known() {
    let upstream = Fixture::listening("--http", &[]);
    let mut gateway = gateway(&upstream, "1s");
    // It answers there a moment before it listens.
    let ready = async || text(&gateway, "GET", "/readyz").await == (200, "ready".to_owned());
    crate::harness::comes_true("it is ready", ready).await;
    assert_eq!(text(&gateway, "GET", "/drain").await, (200, "ready".to_owned()));
    assert_eq!(text(&gateway, "POST", "/drain").await, (202, "leaving".to_owned()));
    assert_eq!(text(&gateway, "GET", "/readyz").await, (503, "draining".to_owned()));
    assert_eq!(text(&gateway, "GET", "/livez").await, (200, "live".to_owned()));
    let answer = gateway.request("GET", "/health", &[], "").await;
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    gateway.modern().call("echo", json!({ "text": "x" })).await;
    stage_is(&gateway, "drained").await;
    assert!(TcpStream::connect(gateway.address).await.is_err(), "nobody takes connections");
    assert_eq!(text(&gateway, "GET", "/livez").await.0, 200, "it waits to be told to end");
    gateway.terminate();
    assert_eq!(soon("its end", gateway.ended()).await.code(), Some(0));
}

#[tokio::test]
async fn a_connection_that_a_proxy_keeps_serves_one_more_request_and_is_told_to_close() {
    let upstream = Fixture::listening("--http", &[]);
    let gateway = gateway(&upstream, "2s");
    let mut kept = TcpStream::connect(gateway.address).await.expect("it listens");
    let mut ask = async || {
        kept.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("it is open");
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            assert_ne!(kept.read_buf(&mut answer).await.expect("it answers"), 0, "it was closed");
        }
        String::from_utf8_lossy(&answer).to_lowercase()
    };
    assert!(!ask().await.contains("connection: close"));
    assert_eq!(text(&gateway, "POST", "/drain").await.0, 202);
    stage_is(&gateway, "draining").await;
    assert!(soon("an answer", ask()).await.contains("connection: close"));
    stage_is(&gateway, "drained").await;
}

#[tokio::test]
async fn streams_close_in_order_and_calls_are_carried_out() {
    let upstream = Fixture::listening("--http", &[]);
    let mut gateway = gateway(&upstream, "60s");
    let mut listen = gateway
        .modern()
        .send("5", "subscriptions/listen", r#"{"notifications":{"toolsListChanged":true}}"#)
        .await;
    let acknowledged = listen.message().await.expect("it is acknowledged");
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let legacy = gateway.legacy(V).await;
    let mut get = legacy.stream(None).await;
    let primed = get.event().await.expect("a first event").id.expect("with an id");
    let slow = r#"{"name":"slow_echo","arguments":{"text":"late","ms":1500}}"#;
    let modern = gateway.modern();
    let (mut json, mut streamed, ()) = tokio::join!(
        modern.send_with("7", "tools/call", slow, &[("accept", "application/json")]),
        legacy.send(
            "8",
            "tools/call",
            r#"{"name":"progress","arguments":{"steps":5,"ms":300},"_meta":{"progressToken":1}}"#
        ),
        async {
            comes_true("the calls are on their way", || async {
                upstream.seen_of("tools/call").await.len() == 2
            })
            .await;
            // On loopback nobody routes to it: a signal alone waits for nobody.
            gateway.terminate();
        },
    );
    let last = listen.answer().await;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(5), &json!("complete")));
    assert!(listen.event().await.is_none());
    let farewell = rest(&mut get).await;
    assert!(farewell.contains(&format!("id: {primed}\nretry: ")), "{farewell:?}");
    assert_eq!(json.header("connection"), Some("close"));
    assert_eq!(json.answer().await["result"]["content"][0]["text"], "late");
    // Nobody else could go on with it: without Redis an answer's stream stays.
    assert_eq!(streamed.answer().await["result"]["content"][0]["text"], "5 steps");
    assert_eq!(soon("its end", gateway.ended()).await.code(), Some(0));
}

#[tokio::test]
async fn a_stream_of_http_sse_closes_after_the_answers_that_it_waits_for() {
    let upstream = Fixture::listening("--http", &[]);
    let mut gateway = gateway(&upstream, "60s");
    let mut client = HttpSse::begin(gateway.address, "/mcp", json!({})).await;
    client.send("9", "tools/call", r#"{"name":"slow_echo","arguments":{"text":"late","ms":1500}}"#).await;
    comes_true("the call is on its way", || async { upstream.seen_of("tools/call").await.len() == 1 }).await;
    gateway.terminate();
    assert_eq!(client.stream.answer().await["result"]["content"][0]["text"], "late");
    let farewell = rest(&mut client.stream).await;
    assert!(farewell.contains("retry: "), "{farewell:?}");
    assert_eq!(soon("its end", gateway.ended()).await.code(), Some(0));
}

#[tokio::test]
async fn the_second_signal_ends_a_pod_at_once() {
    let upstream = Fixture::listening("--http", &[]);
    let mut gateway = gateway(&upstream, "60s");
    let modern = gateway.modern();
    let never = tokio::spawn(async move {
        modern.send("7", "tools/call", r#"{"name":"never","arguments":{}}"#).await.status
    });
    comes_true("the call is on its way", || async { upstream.seen_of("tools/call").await.len() == 1 }).await;
    gateway.terminate();
    stage_is(&gateway, "draining").await;
    gateway.terminate();
    assert_eq!(soon("its end", gateway.ended()).await.code(), Some(0));
    never.abort();
}

#[tokio::test]
async fn the_drain_command_says_by_its_exit_code_how_it_went() {
    let upstream = Fixture::listening("--http", &[]);
    let mut gateway = gateway(&upstream, "50ms");
    let admin = format!("http://{}", gateway.admin());
    assert_eq!(drain("http://127.0.0.1:9/x", "1s").await, Some(2));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port");
    assert_eq!(drain(&nobody.to_string(), "1s").await, Some(1), "nobody is there");
    let modern = gateway.modern();
    let slow = r#"{"name":"slow_echo","arguments":{"text":"late","ms":3000}}"#;
    let call = tokio::spawn(async move { modern.send("7", "tools/call", slow).await.answer().await });
    comes_true("the call is on its way", || async { upstream.seen_of("tools/call").await.len() == 1 }).await;
    assert_eq!(drain(&admin, "200ms").await, Some(4), "a call is in flight");
    let told = tokio::spawn(async move { drain(&admin, "20s").await });
    assert_eq!(call.await.expect("it is answered")["result"]["content"][0]["text"], "late");
    assert_eq!(told.await.expect("it ends"), Some(0));
    gateway.terminate();
    tokio::time::timeout(Duration::from_secs(20), gateway.ended()).await.expect("nothing holds it up");
}
