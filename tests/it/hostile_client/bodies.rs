//! Bodies that are too large, too slow or broken off.

use super::*;
use crate::gateway::exchange::{Content, soon};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const MIB: usize = 1 << 20;

/// A good request of exactly `size` bytes.
fn of_size(client: &Modern, size: usize) -> String {
    let call = |text: &str| {
        client.message("1", "tools/call", &format!(r#"{{"name":"echo","arguments":{{"text":"{text}"}}}}"#))
    };
    let text = call(&"x".repeat(size - call("").len()));
    assert_eq!(text.len(), size);
    text
}

fn in_chunks(text: String) -> Content {
    let bytes = Bytes::from(text);
    let cut: Vec<Bytes> =
        (0..bytes.len()).step_by(60_000).map(|at| bytes.slice(at..bytes.len().min(at + 60_000))).collect();
    Content::Chunks(stream::iter(cut).boxed())
}

#[tokio::test]
async fn b070_a_body_of_one_byte_more_than_the_limit_is_413_with_and_without_its_length() {
    let gateway = Gateway::demo(json!({ "limits": { "request_bytes": "64KiB" } }));
    let client = gateway.modern();
    let headers = headers_but(&[("mcp-method", Some("tools/call")), ("mcp-name", Some("echo"))]);
    for size in [64 << 10, (64 << 10) + 1] {
        for chunked in [false, true] {
            let text = of_size(&client, size);
            let content = if chunked { in_chunks(text) } else { Content::from(text) };
            let answer = client.raw(&headers, content).await;
            if size <= 64 << 10 {
                assert_eq!(answer.status, 200, "{size} {chunked}");
            } else {
                refused(answer, 413).await;
            }
        }
    }
    gateway.still_serves().await;
}

#[tokio::test]
async fn bodies_of_10_mb_are_413_and_the_answer_is_readable_for_who_sends_all_first() {
    let gateway = Gateway::demo(json!({}));
    let client = gateway.modern();
    let headers = headers_but(&[("mcp-method", Some("tools/call")), ("mcp-name", Some("echo"))]);
    for _ in 0..3 {
        refused(client.raw(&headers, of_size(&client, 10 * MIB)).await, 413).await;
        refused(client.raw(&headers, in_chunks(of_size(&client, 10 * MIB))).await, 413).await;
    }
    // A client that reads nothing before it has written everything must not find the connection reset.
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        gateway.address,
        10 * MIB
    );
    let mut socket = TcpStream::connect(gateway.address).await.unwrap();
    soon("a write", socket.write_all(head.as_bytes())).await.unwrap();
    soon("a write", socket.write_all(&vec![b' '; 10 * MIB])).await.expect("it is read to its end");
    let mut said = Vec::new();
    soon("the answer", socket.read_to_end(&mut said)).await.expect("the connection ends in order");
    assert!(said.starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&said));
    gateway.still_serves().await;
}

#[tokio::test]
async fn a_refusal_is_readable_for_who_sends_a_large_body_first() {
    let gateway = Gateway::demo(json!({}));
    let (ours, json, path) = (gateway.address.to_string(), "Content-Type: application/json", "/mcp");
    let table = [
        ("POST", path, &*ours, "Origin: https://elsewhere.example", 403),
        ("POST", "/mcp/no-such", &*ours, json, 404),
        ("POST", "/nowhere", &*ours, json, 404),
        ("PUT", path, &*ours, json, 405),
        ("POST", path, &*ours, "Accept: text/html", 406),
        ("POST", path, &*ours, "Content-Type: text/plain", 415),
        ("POST", path, "elsewhere.example", json, 421),
    ];
    for (verb, path, host, header, status) in table {
        let size = 10 * MIB;
        let head =
            format!("{verb} {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\nContent-Length: {size}\r\n\r\n");
        let mut socket = TcpStream::connect(gateway.address).await.unwrap();
        soon("a write", socket.write_all(head.as_bytes())).await.unwrap();
        soon("a write", socket.write_all(&vec![b' '; size])).await.expect("it is read to its end");
        // The connection is as good as before.
        let next = format!("GET /health HTTP/1.1\r\nHost: {ours}\r\nConnection: close\r\n\r\n");
        soon("a write", socket.write_all(next.as_bytes())).await.unwrap();
        let mut said = Vec::new();
        soon("the answers", socket.read_to_end(&mut said)).await.expect("the connection ends in order");
        let said = String::from_utf8_lossy(&said);
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{said}");
        assert!(said.ends_with(r#"{"status":"ok"}"#), "{status}: {said}");
    }
    // Who waits for leave to send is told without it.
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {ours}\r\nExpect: 100-continue\r\nContent-Length: {MIB}\r\n\r\n"
    );
    let mut socket = TcpStream::connect(gateway.address).await.unwrap();
    soon("a write", socket.write_all(head.as_bytes())).await.unwrap();
    let mut said = Vec::new();
    soon("the answer", socket.read_to_end(&mut said)).await.expect("the connection ends in order");
    assert!(said.starts_with(b"HTTP/1.1 415 "), "{}", String::from_utf8_lossy(&said));
    gateway.still_serves().await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_408_and_one_that_breaks_off_harms_nobody() {
    let gateway = Gateway::demo(json!({ "timeouts": { "body_read": "300ms" } }));
    let head = |length: usize| {
        format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n",
            gateway.address
        )
    };
    let mut sockets = Vec::new();
    for _ in 0..50 {
        let mut socket = TcpStream::connect(gateway.address).await.unwrap();
        socket.write_all((head(100) + "{\"jsonrpc\":").as_bytes()).await.unwrap();
        sockets.push(socket);
    }
    gateway.still_serves().await;
    for mut socket in sockets {
        let mut said = Vec::new();
        let _ = soon("the answer to half a body", socket.read_to_end(&mut said)).await;
        assert!(said.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&said));
    }
    for _ in 0..50 {
        let mut socket = TcpStream::connect(gateway.address).await.unwrap();
        socket.write_all((head(100) + "{\"jsonrpc\":").as_bytes()).await.unwrap();
    }
    gateway.still_serves().await;
    // One that comes byte by byte, never quite silent, has the same time.
    let mut socket = TcpStream::connect(gateway.address).await.unwrap();
    socket.write_all(head(1 << 20).as_bytes()).await.unwrap();
    let (mut read, mut write) = socket.split();
    let trickle = async {
        while write.write_all(b" ").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let mut said = Vec::new();
    let answer = soon("the answer to a trickle", read.read_to_end(&mut said));
    tokio::select! {
        _ = answer => {}
        () = trickle => {}
    }
    assert!(said.starts_with(b"HTTP/1.1 408 "), "{}", String::from_utf8_lossy(&said));
}
