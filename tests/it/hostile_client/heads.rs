//! Wrong media types, origins, hosts, paths and verbs; what a browser asks first; heads that are too long or never end.

use super::*;
use crate::gateway::exchange::soon;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn wrong_media_types_are_refused_and_their_other_spellings_are_not() {
    let gateway = Gateway::demo(json!({}));
    let client = gateway.modern();
    let body = || client.message("1", "tools/list", "{}");
    for kind in [
        None,
        Some("text/plain"),
        Some("application/x-www-form-urlencoded"),
        Some("application/jsonx"),
        Some(""),
    ] {
        let answer = client.raw(&headers_but(&[("content-type", kind)]), body()).await;
        refused(answer, 415).await;
    }
    for kind in ["application/json; charset=utf-8", "Application/JSON", "application/json ; a=b"] {
        let answer = client.raw(&headers_but(&[("content-type", Some(kind))]), body()).await;
        assert_eq!(answer.status, 200, "{kind}");
    }
    for accept in ["text/html", "image/*", "application/xml, text/plain", ""] {
        let answer = client.raw(&headers_but(&[("accept", Some(accept))]), body()).await;
        refused(answer, 406).await;
    }
    for accept in
        [None, Some("*/*"), Some("application/*"), Some("APPLICATION/JSON;q=0.1"), Some("text/event-stream")]
    {
        let answer = client.raw(&headers_but(&[("accept", accept)]), body()).await;
        assert_eq!(answer.status, 200, "{accept:?}");
    }
    gateway.still_serves().await;
}

#[tokio::test]
async fn foreign_origins_and_hosts_are_refused_before_anything_is_read() {
    let gateway = Gateway::demo(
        json!({ "allowed_origins": ["https://app.example.com"], "allowed_hosts": ["mcp.example.com"] }),
    );
    let client = gateway.modern();
    let body = || client.message("1", "tools/list", "{}");
    for origin in [
        "https://evil.example",
        "null",
        "http://localhost.evil.example",
        "https://app.example.com.evil.example",
        "http://app.example.com",
        "x",
    ] {
        let answer = client.raw(&headers_but(&[("origin", Some(origin))]), body()).await;
        assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}");
        refused(answer, 403).await;
        let asked = [("origin", origin), ("access-control-request-method", "POST")];
        let answer = gateway.request("OPTIONS", "/mcp", &asked, "").await;
        assert_eq!(answer.header("access-control-allow-origin"), None, "{origin}");
        refused(answer, 403).await;
    }
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "xmcp.example.com",
        "10.0.0.1",
    ] {
        let answer = client.raw(&headers_but(&[("host", Some(host))]), body()).await;
        refused(answer, 421).await;
    }
    // One good name beside a bad one is none: who else reads the request may go by the other.
    for two in [["127.0.0.1", "evil.example"], ["evil.example", "127.0.0.1"]] {
        let headers = headers_but(&[("host", Some(two[0])), ("host", Some(two[1]))]);
        refused(client.raw(&headers, body()).await, 421).await;
    }
    let answer = gateway.request("POST", "http://evil.example/mcp", &headers_but(&[]), body()).await;
    refused(answer, 421).await;
    let origins = [("origin", Some("http://localhost")), ("origin", Some("https://evil.example"))];
    refused(client.raw(&headers_but(&origins), body()).await, 403).await;
    for host in ["localhost", "mcp.example.com", "MCP.example.com:443", "[::1]:1"] {
        assert_eq!(client.raw(&headers_but(&[("host", Some(host))]), body()).await.status, 200, "{host}");
    }
    for origin in ["https://app.example.com", "http://localhost:5173", "http://127.0.0.1"] {
        assert_eq!(
            client.raw(&headers_but(&[("origin", Some(origin))]), body()).await.status,
            200,
            "{origin}"
        );
    }
    gateway.still_serves().await;
}

#[tokio::test]
async fn b108_browsers_may_send_every_protocol_header_and_read_what_they_need() {
    let gateway = Gateway::demo(json!({}));
    let asked = "authorization, content-type, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, mcp-param-region, last-event-id";
    let origin = ("origin", "http://localhost:6274");
    let preflight =
        [origin, ("access-control-request-method", "POST"), ("access-control-request-headers", asked)];
    for path in ["/mcp", "/mcp/", "/sse", "/message"] {
        let answer = gateway.request("OPTIONS", path, &preflight, "").await;
        assert_eq!(answer.status, 204, "{path}");
        let allowed: Vec<_> =
            answer.header("access-control-allow-headers").unwrap().split(',').map(str::trim).collect();
        for name in asked.split(", ") {
            assert!(allowed.contains(&name), "{path}: {name} in {allowed:?}");
        }
        for verb in ["GET", "POST", "DELETE"] {
            assert!(answer.header("access-control-allow-methods").unwrap().contains(verb), "{path}: {verb}");
        }
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin.1), "{path}");
    }
    let client = gateway.modern();
    let listed = client.send_with("1", "tools/list", "{}", &[origin]).await;
    let unknown =
        gateway.request("POST", "/nowhere", &headers_but(&[("origin", Some(origin.1))]), LIST).await;
    let refused =
        client.raw(&headers_but(&[("origin", Some(origin.1)), ("accept", Some("x/y"))]), LIST).await;
    for (answer, status) in [(listed, 200), (unknown, 404), (refused, 406)] {
        assert_eq!(answer.status, status);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin.1), "{status}");
        let exposed = answer.header("access-control-expose-headers").unwrap().to_lowercase();
        for name in ["mcp-session-id", "www-authenticate", "mcp-protocol-version"] {
            assert!(exposed.contains(name), "{status}: {name} in {exposed}");
        }
    }
}

#[tokio::test]
async fn unknown_paths_are_404_and_known_ones_answer_with_and_without_the_slash() {
    let gateway = Gateway::demo(json!({ "public_path": "/plasm/mcp" }));
    for path in [
        "/",
        "/mcpx",
        "/MCP",
        "/mcp/no-such-profile",
        "/mcp/a/b/c",
        "/mcp/../etc/passwd",
        "/plasm",
        "/%6dcp",
        "/readyz",
        "/metrics",
        "/admin",
        "//mcp",
    ] {
        for verb in ["GET", "POST"] {
            refused(gateway.request(verb, path, &headers_but(&[]), LIST).await, 404).await;
        }
    }
    for path in ["/mcp", "/mcp/", "/mcp?x=1", "/plasm/mcp", "/plasm/mcp/"] {
        let client = Modern::new(gateway.address, path, json!({}));
        let mut answer = client.send("1", "tools/list", "{}").await;
        assert_eq!((answer.status, answer.header("location")), (200, None), "{path}");
        assert!(answer.json().await["result"]["tools"].is_array(), "{path}");
    }
    gateway.still_serves().await;
}

#[tokio::test]
async fn verbs_that_mean_nothing_here_are_405_with_what_is_allowed() {
    let gateway = Gateway::demo(json!({}));
    let table = [
        ("PUT", "/mcp"),
        ("PATCH", "/mcp"),
        ("TRACE", "/mcp"),
        ("PUT", "/mcp/"),
        ("BREW", "/mcp"),
        ("POST", "/health"),
        ("DELETE", "/health"),
        ("POST", "/sse"),
        ("GET", "/message"),
        ("GET", "/mcp"),
    ];
    for (verb, path) in table {
        let answer = gateway.request(verb, path, &[("accept", "text/event-stream")], "").await;
        let allow = answer.header("allow").unwrap_or_default().to_owned();
        assert!(!allow.is_empty() && !allow.split(", ").any(|a| a == verb), "{verb} {path}: {allow}");
        refused(answer, 405).await;
    }
    // A HEAD has no body to say it in.
    let mut head = gateway.request("HEAD", "/mcp", &[], "").await;
    assert_eq!((head.status, head.bytes().await.len()), (405, 0));
    gateway.still_serves().await;
}

/// What comes back for raw bytes, until the gateway closes the connection.
async fn until_closed(gateway: &Gateway, parts: &[&[u8]]) -> String {
    let mut socket = TcpStream::connect(gateway.address).await.unwrap();
    for part in parts {
        socket.write_all(part).await.unwrap();
    }
    let mut said = Vec::new();
    // A reset ends it as well: what was read before counts.
    let _ = soon("the end of the connection", socket.read_to_end(&mut said)).await;
    String::from_utf8(said).unwrap()
}

#[tokio::test]
async fn a_head_beyond_the_limit_is_431_and_one_within_it_is_read() {
    let gateway = Gateway::demo(json!({ "limits": { "header_bytes": "16KiB" } }));
    let client = gateway.modern();
    let long = "x".repeat(12 << 10);
    assert_eq!(client.send_with("1", "tools/list", "{}", &[("x-long", &long)]).await.status, 200);
    let longer = "x".repeat(20 << 10);
    let answer = client.send_with("1", "tools/list", "{}", &[("x-long", &longer)]).await;
    assert_eq!(answer.status, 431);
    // Many short ones are as good as one long one.
    let names: Vec<_> = (0..200).map(|n| format!("x-{n}")).collect();
    let many: Vec<_> = names.iter().map(|name| (&**name, "1")).collect();
    assert_eq!(client.send_with("1", "tools/list", "{}", &many).await.status, 431);
    // One that never ends is not waited for.
    let endless = [b"GET /health HTTP/1.1\r\nx: ", "y".repeat(64 << 10).as_bytes()].concat();
    let mut socket = TcpStream::connect(gateway.address).await.unwrap();
    let mut said = Vec::new();
    // It may close before all is written.
    let _ = socket.write_all(&endless).await;
    let _ = soon("the end of the connection", socket.read_to_end(&mut said)).await;
    assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 431 "), "{}", String::from_utf8_lossy(&said));
    gateway.still_serves().await;
}

#[tokio::test]
async fn what_is_not_http_gets_400_and_the_connection_closes() {
    let gateway = Gateway::demo(json!({}));
    let host = format!("Host: {}\r\n", gateway.address);
    let table: &[&[u8]] = &[
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: a b\r\nBad Header: x\r\n\r\n",
    ];
    for text in table {
        let said = until_closed(&gateway, &[text]).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 400 "), "{said}");
    }
    let chunks = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nnot a size\r\n";
    let said = until_closed(&gateway, &[b"POST /mcp HTTP/1.1\r\n", host.as_bytes(), chunks]).await;
    assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
    // Without a Host nobody is meant.
    let said = until_closed(&gateway, &[b"GET /health HTTP/1.0\r\n\r\n"]).await;
    assert!(said.contains(" 421 "), "{said}");
    gateway.still_serves().await;
}

#[tokio::test]
async fn connections_that_say_nothing_or_half_a_head_are_closed_in_time_and_harm_nobody() {
    let gateway = Gateway::demo(json!({ "timeouts": { "header_read": "1s" } }));
    let mut idle = Vec::new();
    for n in 0..200 {
        let mut socket = TcpStream::connect(gateway.address).await.unwrap();
        if n % 2 == 0 {
            socket.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
        }
        idle.push(socket);
    }
    gateway.still_serves().await;
    // One that drips goes no further than one that is silent.
    let mut slow = idle.remove(0);
    let (mut read, mut write) = slow.split();
    let drip = async {
        loop {
            if write.write_all(b"x").await.is_err() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let mut said = Vec::new();
    tokio::select! {
        () = drip => unreachable!("it drips for ever"),
        _ = soon("the end of a dripping head", read.read_to_end(&mut said)) => {}
    }
    for mut socket in idle {
        let _ = soon("the end of an idle connection", socket.read_to_end(&mut said)).await;
    }
    gateway.still_serves().await;
}
