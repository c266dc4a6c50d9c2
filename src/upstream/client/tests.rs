use super::*;
use http::Response;
use http_body_util::BodyExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A server that answers each request with this text, so many on one connection before it closes that. It counts the
/// connections, and tells of each that its peer closed.
struct Server {
    url: String,
    connections: Arc<AtomicUsize>,
    closed: mpsc::Receiver<()>,
}

impl Server {
    async fn new(answer: &'static str, requests: usize) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/path?query", listener.local_addr().unwrap());
        let connections = Arc::new(AtomicUsize::new(0));
        let (closing, closed) = mpsc::channel(64);
        let count = connections.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let closing = closing.clone();
                tokio::spawn(async move {
                    let mut socket = BufReader::new(socket);
                    for _ in 0..requests {
                        let mut line = String::new();
                        while line != "\r\n" {
                            line.clear();
                            if socket.read_line(&mut line).await.unwrap_or(0) == 0 {
                                let _ = closing.send(()).await;
                                return;
                            }
                        }
                        socket.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        Server { url, connections, closed }
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    async fn ask(&self, client: &HttpClient) -> Result<Response<Body>, ClientError> {
        client.request(Request::get(&self.url).body(Bytes::new()).unwrap()).await
    }

    async fn answer(&self, client: &HttpClient) -> Bytes {
        self.ask(client).await.unwrap().into_body().collect().await.unwrap().to_bytes()
    }
}

fn client() -> HttpClient {
    HttpClient::new(Connector::straight(Duration::from_secs(5)))
}

const SIZED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n";
const EMPTY: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
const LAST: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_connection_whose_response_was_read_serves_the_next_request() {
    for (answer, want, connections) in [(SIZED, "ok", 1), (CHUNKED, "ok", 1), (EMPTY, "", 1), (LAST, "ok", 3)]
    {
        let (server, client) = (Server::new(answer, usize::MAX).await, client());
        for _ in 0..3 {
            assert_eq!(server.answer(&client).await, want);
        }
        assert_eq!(server.connections(), connections, "{answer}");
    }
}

#[tokio::test]
async fn a_body_of_known_length_is_taken_whole_once_it_is_there_and_its_connection_serves_on() {
    for (answer, whole) in [(SIZED, Some("ok")), (CHUNKED, None), (EMPTY, None)] {
        let (server, client) = (Server::new(answer, usize::MAX).await, client());
        for _ in 0..2 {
            let mut body = server.ask(&client).await.unwrap().into_body();
            assert_eq!(body.take_whole().as_deref(), whole.map(str::as_bytes), "{answer}");
            body.collect().await.unwrap();
        }
        assert_eq!(server.connections(), 1, "{answer}");
    }
}

#[tokio::test]
async fn a_response_that_is_dropped_closes_its_connection() {
    let (mut server, client) = (Server::new(SIZED, usize::MAX).await, client());
    drop(server.ask(&client).await.unwrap());
    server.closed.recv().await.unwrap();
    assert_eq!((server.answer(&client).await, server.connections()), ("ok".into(), 2));
}

#[tokio::test]
async fn a_connection_that_ended_while_it_was_idle_costs_no_request() {
    let (server, client) = (Server::new(SIZED, 1).await, client());
    for _ in 0..20 {
        assert_eq!(server.answer(&client).await, "ok");
    }
    assert_eq!(server.connections(), 20);
}

#[tokio::test]
async fn a_connection_that_breaks_before_its_response_is_told_and_not_tried_again() {
    let (server, client) = (Server::new("HTTP/1.1 200", 1).await, client());
    assert!(matches!(server.ask(&client).await, Err(ClientError::Broken(_))));
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_apart() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", taken.local_addr().unwrap());
    drop(taken);
    let asked = client().request(Request::get(url).body(Bytes::new()).unwrap()).await;
    assert!(matches!(asked, Err(ClientError::Connect(ConnectError::Refused))));
}

#[tokio::test]
async fn a_connection_that_waits_for_long_is_closed() {
    let mut server = Server::new(SIZED, usize::MAX).await;
    let pool = Pool::of(Duration::from_millis(50), Duration::from_secs(300));
    let client = HttpClient { pool: Arc::new(pool), ..client() };
    assert_eq!(server.answer(&client).await, "ok");
    server.closed.recv().await.unwrap();
}

#[tokio::test]
async fn a_connection_takes_no_request_beyond_its_age() {
    let server = Server::new(SIZED, usize::MAX).await;
    for (age, connections) in [(Duration::from_secs(3600), 1), (Duration::ZERO, 4)] {
        let client = client().aged(age);
        for _ in 0..3 {
            assert_eq!(server.answer(&client).await, "ok");
        }
        assert_eq!(server.connections(), connections, "{age:?}");
    }
}
