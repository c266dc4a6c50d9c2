//! The internal listener takes nothing but what a pod sealed for it, once.

use super::*;
use crate::gateway::exchange;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Where a pod's internal listener is, by its log.
fn internal(pod: &Gateway) -> SocketAddr {
    let log = pod.log();
    let line = log.lines().find(|line| line.contains("other pods reach this one")).expect("it says so");
    let line: Value = serde_json::from_str(line).expect("the log is JSON");
    line["listen"].as_str().expect("an address").parse().expect("an address and a port")
}

async fn post(to: SocketAddr, path: &str, body: &str) -> u16 {
    exchange::request(to, "POST", path, &[], body).await.status
}

#[tokio::test]
async fn what_is_not_sealed_is_refused_and_harms_nobody() {
    let pods = Pods::before_a_child("legacy");
    let [here, there] = pods.clients(json!({}));
    here.call("count", json!({})).await;
    let to = internal(&pods.one);
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"count"}}"#;
    for (path, body, status) in [
        ("/relay/1", String::new(), 403),
        ("/relay/1", format!("\n{message}"), 403),
        ("/relay/1", format!("AQAAAAAAAAAA\n{message}"), 403),
        ("/relay/1", "A".repeat(1 << 20), 403),
        ("/relay/0", message.to_owned(), 404),
        ("/mcp", message.to_owned(), 404),
    ] {
        assert_eq!(post(to, path, &body).await, status, "{path} {}", &body[..body.len().min(40)]);
    }
    assert_eq!(exchange::request(to, "GET", "/relay/1", &[], "").await.status, 404);
    assert_eq!(text(&there.call("count", json!({})).await), "2");
}

/// Passes connections on to what is set later, and keeps what is sent by each.
async fn proxy(to: Arc<Mutex<Option<SocketAddr>>>, kept: Arc<Mutex<Vec<Vec<u8>>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let at = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let address = to.lock().expect("no holder panics").expect("it is set by now");
            let kept = kept.clone();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(address).await.expect("it listens");
                let (mut from_client, mut to_client) = client.split();
                let (mut from_server, mut to_server) = server.split();
                let place = {
                    let mut kept = kept.lock().expect("no holder panics");
                    kept.push(Vec::new());
                    kept.len() - 1
                };
                let up = async {
                    let mut buffer = vec![0; 64 << 10];
                    while let Ok(n @ 1..) = from_client.read(&mut buffer).await {
                        kept.lock().expect("no holder panics")[place].extend_from_slice(&buffer[..n]);
                        if to_server.write_all(&buffer[..n]).await.is_err() {
                            return;
                        }
                    }
                };
                tokio::select! {
                    () = up => {}
                    _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
                }
            });
        }
    });
    at
}

#[tokio::test]
async fn what_was_overheard_between_pods_does_nothing_when_it_is_sent_again_or_elsewhere() {
    let (to, kept) = (Arc::<Mutex<Option<SocketAddr>>>::default(), Arc::<Mutex<Vec<Vec<u8>>>>::default());
    let proxy = proxy(to.clone(), kept.clone()).await;
    let child =
        json!({ "command": fixture_program(), "args": ["--stdio", "--only-extra", "--era", "legacy"] });
    let pods = Pods::with(json!({
        "upstreams": { "up": child }, "internal_address": proxy.to_string(),
    }));
    *to.lock().expect("no holder panics") = Some(internal(&pods.one));
    let [here, there] = pods.clients(json!({}));
    assert_eq!(text(&here.call("count", json!({})).await), "1");
    assert_eq!(text(&there.call("count", json!({})).await), "2");
    let mut overheard = kept.lock().expect("no holder panics").clone();
    // A client may open a connection that it then does not need.
    overheard.retain(|said| !said.is_empty());
    assert!(!overheard.is_empty());
    for pod in [&pods.one, &pods.two] {
        for said in &overheard {
            let mut socket = TcpStream::connect(internal(pod)).await.expect("it listens");
            socket.write_all(said).await.expect("it reads");
            let mut answer = vec![0; 12];
            socket.read_exact(&mut answer).await.expect("it answers");
            let wanted: &[u8] = if std::ptr::eq(pod, &pods.one) { b"HTTP/1.1 403" } else { b"HTTP/1.1 421" };
            assert_eq!(answer, wanted);
        }
    }
    assert_eq!(text(&here.call("count", json!({})).await), "3", "nothing was carried out again");
}
