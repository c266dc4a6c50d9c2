use super::*;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that gives this answer to each connection.
async fn server(answer: &'static [u8]) -> u16 {
    server_at("127.0.0.1:0", answer).await.port()
}

async fn server_at(address: &str, answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let _ = socket.read(&mut [0; 4096]).await;
                let _ = socket.write_all(answer).await;
            });
        }
    });
    address
}

fn egress(inside: &[&str]) -> Egress {
    let inside = inside.iter().map(|net| net.parse().unwrap()).collect();
    Egress::new(Reach { inside }, tls::public_roots())
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_as_an_address_is() {
    let port = server(OK).await;
    let closed = egress(&[]);
    for host in ["localhost", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1"] {
        let url = format!("https://{host}:{port}/x");
        assert_eq!(closed.get(&url, Named::ByOthers).await.unwrap_err(), FetchError::Refused, "{url}");
    }
    let open = egress(&["127.0.0.0/8"]);
    assert_eq!(open.get(&format!("http://localhost:{port}/"), Named::ByOthers).await.unwrap().body, "{}");
    assert_eq!(closed.get(&format!("http://127.0.0.1:{port}/"), Named::ByUs).await.unwrap().body, "{}");
}

#[tokio::test]
async fn urls_of_strangers_are_https_and_bare() {
    let closed = egress(&[]);
    for url in ["http://example.com/", "ftp://example.com/", "https://user@example.com/", "/x", "https:///x"]
    {
        assert_eq!(closed.get(url, Named::ByOthers).await.unwrap_err(), FetchError::Url, "{url}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_large_answer_not_read() {
    let moved =
        server(b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n").await;
    let open = egress(&["127.0.0.0/8"]);
    let answer = open.get(&format!("http://127.0.0.1:{moved}/"), Named::ByOthers).await.unwrap();
    assert_eq!(answer.status, StatusCode::FOUND);
    let large = server(b"HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n").await;
    let error = open.get(&format!("http://127.0.0.1:{large}/"), Named::ByOthers).await.unwrap_err();
    assert_eq!(error, FetchError::TooLarge);
}

/// A name server that says another thing each time (DNS rebinding): what is connected to counts, not what was said before.
#[tokio::test]
async fn a_name_that_leads_elsewhere_the_second_time_gains_nothing() {
    const CLOSED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    let admitted = server_at("127.0.0.1:0", CLOSED).await;
    let forbidden = server_at("127.0.0.2:0", b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret").await;
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let told = move |_: &str| match count.fetch_add(1, Ordering::SeqCst) {
        0 => vec![admitted],
        1 => vec![forbidden],
        // One that may be reached does not carry another through.
        _ => vec![forbidden, admitted],
    };
    let reach = Reach { inside: vec!["127.0.0.1/32".parse().unwrap()] };
    let open = Egress::by_names(reach, tls::public_roots(), Names::Told(Arc::new(told)));
    let get = || open.get("http://rebinding.example/", Named::ByOthers);
    assert_eq!(get().await.unwrap().body, "{}");
    assert_eq!(get().await.unwrap_err(), FetchError::Refused);
    assert_eq!(get().await.unwrap().body, "{}");
    assert_eq!(asked.load(Ordering::SeqCst), 3, "a name is resolved at each connection");
}
