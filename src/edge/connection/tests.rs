use super::super::listener::{Bounds, Ends, serve};
use super::*;
use http_body_util::BodyExt;
use std::sync::Mutex;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

/// A peer of a server that answers so.
async fn peer<F, A>(answer: F) -> (TcpStream, CancellationToken)
where
    F: Fn(http::Request<Body>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let over = CancellationToken::new();
    let bounds = Bounds { head: 8192, head_time: Duration::from_secs(60), connections: 1, neighbours: None };
    tokio::spawn(serve(listener, bounds, move |request, _| answer(request), Ends::at(&over)));
    (TcpStream::connect(address).await.unwrap(), over)
}

/// The peer of a server that answers with what it was told, after the method and the path.
async fn echo() -> (TcpStream, CancellationToken) {
    peer(async |request: http::Request<Body>| {
        let (head, body) = request.into_parts();
        match body.collect().await {
            Ok(body) => {
                let text = [format!("{} {} ", head.method, head.uri).as_bytes(), &body.to_bytes()].concat();
                Response::new(Body::from(text))
            }
            Err(_) => {
                let mut response = Response::new(Body::from("broken"));
                *response.status_mut() = http::StatusCode::BAD_REQUEST;
                response
            }
        }
    })
    .await
}

/// A server of streams, what they say, and the peer that has sent this request line.
async fn streaming(line: &str) -> (mpsc::Sender<Bytes>, TcpStream, CancellationToken) {
    let (say, said) = mpsc::channel::<Bytes>(1);
    let said = Arc::new(Mutex::new(Some(said)));
    let answer = move |_| {
        let stream = match said.lock().unwrap().take() {
            Some(said) => Body::from_stream(ReceiverStream::new(said).map(Ok::<_, std::convert::Infallible>)),
            None => Body::from("after"),
        };
        std::future::ready(Response::new(stream))
    };
    let (mut peer, over) = peer(answer).await;
    peer.write_all(format!("{line}\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    (say, peer, over)
}

async fn reads(peer: &mut TcpStream, until: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(until.as_bytes()) {
        assert_ne!(peer.read_buf(&mut read).await.unwrap(), 0, "{}", String::from_utf8_lossy(&read));
    }
    String::from_utf8(read).unwrap()
}

async fn says(peer: &mut TcpStream, text: &str) {
    peer.write_all(text.as_bytes()).await.unwrap();
}

async fn rest(peer: &mut TcpStream) -> String {
    let mut rest = String::new();
    peer.read_to_string(&mut rest).await.unwrap();
    rest
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_their_order() {
    let (mut peer, _over) = echo().await;
    let chunked =
        "POST /two HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nb\r\n2\r\nbb\r\n0\r\nx: y\r\n\r\n";
    let together =
        ["POST /one HTTP/1.1\r\ncontent-length: 1\r\n\r\na", chunked, "GET /three HTTP/1.1\r\n\r\n"];
    says(&mut peer, &together.concat()).await;
    let said = reads(&mut peer, "GET /three ").await;
    assert!(said.starts_with("HTTP/1.1 200 OK\r\ncontent-length: 11\r\ndate: "), "{said}");
    let at = ["POST /one aHTTP/1.1 200", "POST /two bbbHTTP/1.1 200"]
        .map(|part| said.find(part).expect("it is answered"));
    assert!(at[0] < at[1], "{said}");
    says(&mut peer, "GET /last HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    let last = rest(&mut peer).await;
    assert!(last.contains("\r\nconnection: close\r\n") && last.ends_with("GET /last "), "{last}");
}

#[tokio::test]
async fn a_body_that_comes_byte_by_byte_is_read_whole() {
    let (mut peer, _over) = echo().await;
    for text in [
        "POST /a HTTP/1.1\r\ncontent-length: 5\r\n\r\nabcde",
        "POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n",
    ] {
        for byte in text.as_bytes() {
            peer.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        reads(&mut peer, "POST /a abcde").await;
    }
    let large = "x".repeat(1 << 20);
    let (mut reading, mut writing) = peer.split();
    let text = format!("POST /a HTTP/1.1\r\ncontent-length: {}\r\n\r\n{large}", large.len());
    let mut read = Vec::new();
    let (written, ()) = tokio::join!(writing.write_all(text.as_bytes()), async {
        while !read.ends_with(large.as_bytes()) {
            assert_ne!(reading.read_buf(&mut read).await.unwrap(), 0);
        }
    });
    written.unwrap();
}

#[tokio::test]
async fn a_body_that_breaks_off_or_is_not_chunked_as_it_should_be_is_an_error_and_the_last_one() {
    for (text, closes) in [
        ("POST /a HTTP/1.1\r\ncontent-length: 5\r\n\r\nabc", true),
        ("POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc", false),
    ] {
        let (mut peer, _over) = echo().await;
        says(&mut peer, text).await;
        if closes {
            peer.shutdown().await.unwrap();
        }
        let said = rest(&mut peer).await;
        assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("\r\nconnection: close\r\n"), "{said}");
    }
}

#[tokio::test]
async fn who_waits_for_leave_gets_it_when_the_body_is_asked_for() {
    let (mut peer, _over) = echo().await;
    for _ in 0..2 {
        says(&mut peer, "POST /a HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n").await;
        assert_eq!(reads(&mut peer, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        says(&mut peer, "abc").await;
        assert!(reads(&mut peer, "POST /a abc").await.starts_with("HTTP/1.1 200 OK\r\n"));
    }
}

#[tokio::test]
async fn what_nobody_read_of_a_body_is_no_request() {
    let (mut peer, _over) = peer(async |_| Response::new(Body::from("unread"))).await;
    says(&mut peer, "POST /a HTTP/1.1\r\ncontent-length: 100\r\n\r\nGET /b HTTP/1.1\r\n\r\n").await;
    let mut said = Vec::new();
    // A reset ends it as well: what was read before counts.
    let _ = peer.read_to_end(&mut said).await;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("\r\nconnection: close\r\n") && said.ends_with("\r\n\r\nunread"), "{said}");
}

#[tokio::test]
async fn a_head_that_cannot_be_understood_is_told_so_and_the_connection_closes() {
    for (text, status, why) in [
        ("SSH-2.0-OpenSSH\r\n\r\n", 400, "no HTTP/1.1 request"),
        ("POST /a HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400, "Content-Length"),
        (
            "POST /a HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            400,
            "Transfer-Encoding",
        ),
        (&format!("GET /a HTTP/1.1\r\nx: {}", "y".repeat(100_000)), 431, "too long"),
    ] {
        let (mut peer, _over) = echo().await;
        says(&mut peer, text).await;
        let said = rest(&mut peer).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")) && said.contains(why), "{said}");
    }
}

#[tokio::test]
async fn an_older_client_is_answered_in_its_version_and_its_connection_lasts_where_it_asks_for_that() {
    let (mut peer, _over) = echo().await;
    says(&mut peer, "GET /a HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").await;
    let said = reads(&mut peer, "GET /a ").await;
    assert!(
        said.starts_with("HTTP/1.0 200 OK\r\n") && said.contains("\r\nconnection: keep-alive\r\n"),
        "{said}"
    );
    says(&mut peer, "GET /b HTTP/1.0\r\n\r\n").await;
    assert!(rest(&mut peer).await.ends_with("GET /b "));
}

#[tokio::test]
async fn nobody_sees_the_body_of_an_answer_to_head() {
    let (mut peer, _over) = echo().await;
    says(&mut peer, "HEAD /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    let said = rest(&mut peer).await;
    assert!(said.contains("content-length: 8\r\n") && said.matches("HTTP/1.1 200 OK").count() == 2, "{said}");
    assert!(!said.contains("HEAD /a") && said.ends_with("GET /b "), "{said}");
}

#[tokio::test]
async fn who_closes_after_several_requests_is_answered_all_of_them() {
    let (mut peer, _over) = peer(async |request: http::Request<Body>| {
        tokio::task::yield_now().await;
        Response::new(Body::from(request.uri().path().to_owned()))
    })
    .await;
    says(&mut peer, "GET /one HTTP/1.1\r\n\r\nGET /two HTTP/1.1\r\n\r\n\r\n").await;
    peer.shutdown().await.unwrap();
    let said = rest(&mut peer).await;
    assert!(said.contains("\r\n\r\n/one") && said.ends_with("\r\n\r\n/two"), "{said}");
}

#[tokio::test]
async fn a_client_that_goes_ends_what_is_done_for_it() {
    let (began, mut begun) = mpsc::channel::<mpsc::Sender<()>>(1);
    let answer = move |_| {
        let began = began.clone();
        async move {
            let (lives, mut ends) = mpsc::channel::<()>(1);
            began.send(lives).await.unwrap();
            ends.recv().await;
            Response::new(Body::empty())
        }
    };
    let (mut peer, _over) = peer(answer).await;
    says(&mut peer, "GET / HTTP/1.1\r\n\r\n").await;
    let lives = begun.recv().await.unwrap();
    drop(peer);
    lives.closed().await;
}

#[tokio::test]
async fn a_stream_is_chunks_as_they_come_and_another_request_follows_it() {
    let (say, mut peer, _over) = streaming("GET / HTTP/1.1").await;
    let head = reads(&mut peer, "\r\n\r\n").await;
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("\r\ntransfer-encoding: chunked\r\n"),
        "{head}"
    );
    assert!(head.contains("\r\ndate: "), "{head}");
    say.send("abc".into()).await.unwrap();
    assert_eq!(reads(&mut peer, "abc\r\n").await, "3\r\nabc\r\n");
    let long = "x".repeat(100_000);
    say.send(long.clone().into()).await.unwrap();
    assert_eq!(reads(&mut peer, "x\r\n").await, format!("186a0\r\n{long}\r\n"));
    // What comes meanwhile waits.
    says(&mut peer, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n").await;
    drop(say);
    let after = rest(&mut peer).await;
    assert!(after.starts_with("0\r\n\r\nHTTP/1.1 200 OK\r\n") && after.ends_with("after"), "{after}");
}

#[tokio::test]
async fn a_peer_that_closes_ends_the_stream_at_once() {
    let (say, mut peer, _over) = streaming("GET / HTTP/1.1").await;
    reads(&mut peer, "\r\n\r\n").await;
    drop(peer);
    say.closed().await;
}

#[tokio::test]
async fn an_older_client_gets_the_bytes_as_they_are() {
    let (say, mut peer, _over) = streaming("GET / HTTP/1.0").await;
    reads(&mut peer, "\r\n\r\n").await;
    say.send("abc".into()).await.unwrap();
    drop(say);
    assert_eq!(rest(&mut peer).await, "abc");
}

#[tokio::test]
async fn a_stream_is_cut_at_the_deadline() {
    let (say, mut peer, over) = streaming("GET / HTTP/1.1").await;
    reads(&mut peer, "\r\n\r\n").await;
    over.cancel();
    say.closed().await;
}

#[tokio::test]
async fn an_idle_connection_closes_when_asked_and_a_busy_one_after_its_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bounds = Bounds { head: 8192, head_time: Duration::from_secs(60), connections: 2, neighbours: None };
    let close = CancellationToken::new();
    let ends =
        Ends { stop: CancellationToken::new(), close: close.clone(), deadline: CancellationToken::new() };
    let (began, mut begun) = mpsc::channel(1);
    let answer = move |_: http::Request<Body>, _| {
        let began = began.clone();
        async move {
            let (end, ended) = tokio::sync::oneshot::channel::<()>();
            began.send(end).await.unwrap();
            ended.await.unwrap();
            Response::new(Body::from("done"))
        }
    };
    tokio::spawn(serve(listener, bounds, answer, ends));
    let (mut idle, mut busy) =
        (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
    for peer in [&mut idle, &mut busy] {
        // An empty line too many is no request.
        says(peer, "GET / HTTP/1.1\r\n\r\n\r\n").await;
        begun.recv().await.unwrap().send(()).unwrap();
        reads(peer, "done").await;
    }
    says(&mut busy, "GET / HTTP/1.1\r\n\r\n").await;
    let end = begun.recv().await.unwrap();
    close.cancel();
    assert_eq!(rest(&mut idle).await, "");
    end.send(()).unwrap();
    let last = rest(&mut busy).await;
    assert!(last.contains("\r\nconnection: close\r\n") && last.ends_with("done"), "{last}");
}
