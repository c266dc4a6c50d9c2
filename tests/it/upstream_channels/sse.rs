//! HTTP+SSE upstreams: the fixture, and servers that are wrong in one thing each.

use super::*;
use crate::harness::Fixture;
use plasm_mcp::upstream::client::HttpClient;
use plasm_mcp::upstream::connect::Connector;
use plasm_mcp::upstream::sse_client::SseSpec;
use plasm_mcp::upstream::transport::Dial;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn pool(url: &str) -> Pool {
    let spec = SseSpec {
        bearer: None,
        name: UpstreamId::new("test").unwrap(),
        url: url.parse().unwrap(),
        headers: vec![(http::header::AUTHORIZATION, http::HeaderValue::from_static("Bearer ours"))],
        client: HttpClient::new(Connector::straight(Duration::from_secs(5))),
        limits: MessageLimits { bytes: 1 << 20, depth: 128 },
        start_timeout: Duration::from_millis(500),
    };
    Pool::new(Arc::new(spec), LIMITS)
}

/// A server of raw bytes: what each connection is answered, in order, once its request's head is there. Connections
/// stay open until the server is dropped. Gives the heads that it saw.
struct Script {
    url: String,
    task: tokio::task::JoinHandle<(Vec<String>, Vec<TcpStream>)>,
}

impl Script {
    async fn new(answers: &[&str]) -> Script {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/x/sse", listener.local_addr().unwrap());
        let answers: Vec<String> = answers.iter().map(|a| a.to_string()).collect();
        let task = tokio::spawn(async move {
            let (mut heads, mut open) = (Vec::new(), Vec::new());
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.windows(4).any(|w| w == b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                stream.write_all(answer.as_bytes()).await.unwrap();
                heads.push(String::from_utf8(head).unwrap());
                open.push(stream);
            }
            (heads, open)
        });
        Script { url, task }
    }
}

const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n";

async fn refused(answer: &str) -> TransportError {
    let script = Script::new(&[answer]).await;
    let pool = pool(&script.url);
    match pool.dial("a").await {
        Ok(_) => panic!("it was taken: {answer}"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn an_http_sse_server_answers_reports_asks_and_announces() {
    let fixture = Fixture::listening("--sse", &[]);
    let pool = pool(&fixture.url);
    let to = pool.dial("a").await.unwrap();
    a_legacy_upstream_does_it_all(&*to).await;
    pool.hang_up().await;
    assert!(result(&*to, "late", "tools/list", json!({})).await.unwrap_err().surely_not_begun());
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_an_http_sse_server() {
    let fixture = Fixture::listening("--sse", &[]);
    let pool = pool(&fixture.url);
    let to = pool.dial("a").await.unwrap();
    a_dropped_call_ends_upstream(&*to).await;
    pool.hang_up().await;
}

#[tokio::test]
async fn a_stream_that_ends_breaks_its_calls_and_the_channel_is_gone() {
    let fixture = Fixture::listening("--sse", &[]);
    let pool = pool(&fixture.url);
    let to = pool.dial("a").await.unwrap();
    initialize(&*to).await;
    let call = to.request(route(), request("n", "tools/call", json!({ "name": "never", "arguments": {} })));
    let call = tokio::spawn(call);
    result(&*to, "e", "tools/call", json!({ "name": "echo", "arguments": {} })).await.unwrap();
    drop(fixture);
    to.gone().await;
    assert!(matches!(call.await.unwrap().map(|_| ()), Err(TransportError::Broken)));
}

#[tokio::test]
async fn answers_that_are_no_channel_are_refused() {
    let other = format!("{STREAM}event: endpoint\ndata: http://127.0.0.2:1/message\n\n");
    assert!(matches!(refused(&other).await, TransportError::Garbage(_)));
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    assert!(matches!(refused(json).await, TransportError::Garbage(_)));
    let none = "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(refused(none).await, TransportError::Refused { status: 405, .. }));
    let moved = "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n";
    assert!(matches!(refused(moved).await, TransportError::Refused { status: 302, .. }));
    let silent = format!("{STREAM}: nothing more\n\n");
    assert!(matches!(refused(&silent).await, TransportError::Unreachable(_)));
    let endless = format!("{STREAM}data: {}", "x".repeat(2 << 20));
    assert!(matches!(refused(&endless).await, TransportError::TooLarge(_)));
}

#[tokio::test]
async fn messages_are_posted_where_the_event_says_with_our_headers() {
    let stream = format!("{STREAM}event: endpoint\ndata: message?s=1\n\n");
    let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let script = Script::new(&[&stream, busy]).await;
    let pool = pool(&script.url);
    let to = pool.dial("a").await.unwrap();
    let failed = result(&*to, "1", "tools/list", json!({})).await;
    assert!(matches!(failed, Err(TransportError::Refused { status: 503, .. })));
    let (heads, _open) = script.task.await.unwrap();
    assert!(heads[0].starts_with("GET /x/sse HTTP/1.1\r\n"), "{}", heads[0]);
    assert!(heads[1].starts_with("POST /x/message?s=1 HTTP/1.1\r\n"), "{}", heads[1]);
    assert!(heads.iter().all(|head| head.to_lowercase().contains("\r\nauthorization: bearer ours\r\n")));
}

#[tokio::test]
async fn a_session_that_the_server_forgot_ends_the_channel_and_nothing_began() {
    let stream = format!("{STREAM}event: endpoint\ndata: /message\n\n");
    let forgot = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    let script = Script::new(&[&stream, forgot]).await;
    let pool = pool(&script.url);
    let to = pool.dial("a").await.unwrap();
    let failed = result(&*to, "1", "tools/call", json!({})).await.unwrap_err();
    assert!(failed.surely_not_begun(), "{failed}");
    to.gone().await;
}
