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

#[tokio::test]
async fn a_proxy_is_asked_for_what_is_public_and_never_for_what_lies_inside() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    let (tell, mut told) = tokio::sync::mpsc::channel(16);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let read = socket.read(&mut head).await.unwrap_or(0);
            tell.send(String::from_utf8_lossy(&head[..read]).into_owned()).await.unwrap();
            let _ = socket.write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let inside = server(OK).await;
    let names = move |name: &str| match name {
        "public.example" => vec![SocketAddr::from(([1, 1, 1, 1], 443))],
        "inside.example" => vec![SocketAddr::from(([127, 0, 0, 1], inside))],
        "proxy.example" => vec![proxy],
        _ => Vec::new(),
    };
    let told_names = || Names::Told(Arc::new(names));
    let with = |reach: Reach| {
        Egress::by_names(reach, tls::public_roots(), told_names()).by(Proxy {
            url: format!("http://proxy.example:{}", proxy.port()).parse().unwrap(),
            login: Some("Basic eDp5".parse().unwrap()),
            stands_before: Arc::new(|url| url.host() != Some("localhost")),
        })
    };
    let closed = with(Reach::default());
    let refused = FetchError::Refused;
    let by_proxy = FetchError::Unreachable;
    let table = [
        ("https://public.example/x", Named::ByOthers, &by_proxy, Some("CONNECT public.example:443 ")),
        ("https://1.1.1.1/x", Named::ByOthers, &by_proxy, Some("CONNECT 1.1.1.1:443 ")),
        ("https://inside.example/x", Named::ByOthers, &refused, None),
        ("https://inside.example/x", Named::Listed, &refused, None),
        ("https://127.0.0.1/x", Named::Listed, &refused, None),
        // A name that no server here knows may be inside where the proxy is.
        ("https://unknown.example/x", Named::ByOthers, &by_proxy, None),
        ("https://unknown.example/x", Named::Listed, &by_proxy, Some("CONNECT unknown.example:443 ")),
        ("https://unknown.example/x", Named::ByUs, &by_proxy, Some("CONNECT unknown.example:443 ")),
    ];
    for (url, named, want, head) in table {
        assert_eq!(closed.get(url, named).await.as_ref().unwrap_err(), want, "{url} {named:?}");
        let seen = told.try_recv().ok();
        assert_eq!(seen.is_some(), head.is_some(), "{url} {named:?}: {seen:?}");
        if let (Some(seen), Some(head)) = (seen, head) {
            assert!(
                seen.starts_with(head) && seen.to_lowercase().contains("proxy-authorization: basic edp5"),
                "{seen}"
            );
        }
    }
    // Plain HTTP, which is spoken inside alone, and what lies inside go straight.
    let open = with(Reach { inside: vec!["127.0.0.0/8".parse().unwrap()] });
    for named in [Named::ByOthers, Named::ByUs] {
        assert_eq!(open.get(&format!("http://inside.example:{inside}/"), named).await.unwrap().body, "{}");
    }
    assert!(open.get("https://inside.example/", Named::Listed).await.is_err(), "it speaks no TLS");
    assert!(
        told.try_recv().is_err() && !format!("{:?}", closed.proxied.as_ref().unwrap().0).contains("edp5")
    );
}
