//! Upstreams that break the rules, by a socket that says exactly what it is told to.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How the server answers `tools/call`, given the request's id. The rest it does properly, as a modern server.
pub type Manner = fn(String) -> BoxFuture<'static, Answer>;

pub enum Answer {
    /// Bytes, then the connection's end.
    Close(Vec<u8>),
    /// Bytes, and then nothing, for as long as the client holds on.
    Hang(Vec<u8>),
    /// A line without an end.
    Endless,
}

pub struct Server {
    pub url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub async fn start(manner: Manner) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, manner));
            }
        });
        Server { url, task }
    }
}

async fn serve(mut socket: TcpStream, manner: Manner) {
    while let Some(body) = request(&mut socket).await {
        let id = body["id"].to_string();
        let result = match body["method"].as_str().unwrap_or_default() {
            "tools/call" => {
                match manner(id).await {
                    Answer::Close(bytes) => drop(socket.write_all(&bytes).await),
                    Answer::Hang(bytes) => {
                        socket.write_all(&bytes).await.ok();
                        socket.read_exact(&mut [0]).await.ok();
                    }
                    Answer::Endless => {
                        socket.write_all(STREAM.as_bytes()).await.ok();
                        socket.write_all(b"data: ").await.ok();
                        while socket.write_all(&[b'x'; 65536]).await.is_ok() {}
                    }
                }
                return;
            }
            "server/discover" => r#""supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}"#,
            _ => r#""tools":[]"#,
        };
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete",{result}}}}}"#);
        socket.write_all(&json_answer(&text)).await.ok();
    }
}

async fn request(socket: &mut TcpStream) -> Option<Value> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..end]).to_ascii_lowercase();
            let length =
                head.lines().find_map(|l| l.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
            if read.len() >= end + 4 + length {
                return serde_json::from_slice(&read[end + 4..end + 4 + length]).ok();
            }
        }
        let mut more = [0; 8192];
        match socket.read(&mut more).await {
            Ok(n) if n > 0 => read.extend_from_slice(&more[..n]),
            _ => return None,
        }
    }
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

fn json_answer(text: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
    format!("{head}{}\r\n\r\n{text}", text.len()).into_bytes()
}

pub fn stream(text: &str) -> Vec<u8> {
    format!("{STREAM}{text}").into_bytes()
}

async fn told(manner: Manner) -> &'static str {
    let server = Server::start(manner).await;
    fault(&link(&server.url), tool(&modern("m"), "t", json!({}))).await
}

macro_rules! answers {
    ($answer:expr) => {
        |_| Box::pin(async { $answer })
    };
}

#[tokio::test]
async fn what_is_not_mcp_is_told_as_garbage() {
    let answers: [Manner; 7] = [
        answers!(Answer::Close(json_answer("this is not JSON {"))),
        answers!(Answer::Close(json_answer(""))),
        answers!(Answer::Close(json_answer(r#"{"jsonrpc":"2.0","id":"nobody's","result":{}}"#))),
        answers!(Answer::Close(json_answer(&"[".repeat(100_000)))),
        answers!(Answer::Close(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 3\r\n\r\n<p>".into()
        )),
        answers!(Answer::Close(
            b"HTTP/1.1 500 Oops\r\ncontent-length: 20\r\n\r\nerror at /srv/x.rs:1".into()
        )),
        answers!(Answer::Close(stream("data: this is not JSON {\n\n"))),
    ];
    for (number, manner) in answers.into_iter().enumerate() {
        assert_eq!(told(manner).await, "upstream_garbage", "answer {number}");
    }
}

#[tokio::test]
async fn what_breaks_off_after_it_began_leaves_the_outcome_unknown() {
    let answers: [Manner; 4] = [
        answers!(Answer::Close(Vec::new())),
        answers!(Answer::Close(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n{".into()
        )),
        answers!(Answer::Close(stream(": nothing yet\n\n"))),
        answers!(Answer::Close(stream(
            "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n"
        ))),
    ];
    for (number, manner) in answers.into_iter().enumerate() {
        assert_eq!(told(manner).await, "outcome_unknown", "answer {number}");
    }
}

#[tokio::test]
async fn who_never_answers_is_waited_for_until_the_deadline_and_no_longer() {
    let answers: [Manner; 3] = [
        answers!(Answer::Hang(Vec::new())),
        answers!(Answer::Hang(json_answer("").split_last_chunk::<4>().unwrap().0.into())),
        answers!(Answer::Hang(stream(": nothing yet\n\n"))),
    ];
    for (number, manner) in answers.into_iter().enumerate() {
        let server = Server::start(manner).await;
        let link = link(&server.url);
        let mut call = tool(&modern("m"), "t", json!({}));
        call.deadline = Instant::now() + Duration::from_millis(500);
        assert_eq!(fault(&link, call).await, "upstream_timeout", "answer {number}");
    }
}

#[tokio::test]
async fn b069_a_line_without_end_and_a_body_too_large_are_cut_off_at_the_bound() {
    assert_eq!(told(answers!(Answer::Endless)).await, "upstream_too_large");
    let large: Manner = answers!(Answer::Hang(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900000000\r\n\r\n{".into()
    ));
    assert_eq!(told(large).await, "upstream_too_large");
}

#[tokio::test]
async fn b069_a_result_of_five_mebibytes_comes_whole() {
    for options in [&["--era", "modern"][..], &["--era", "legacy", "--always-sse"]] {
        let fixture = Fixture::listening("--http", options);
        let result =
            result(&link(&fixture.url), tool(&modern("m"), "big", json!({ "bytes": 5 << 20 }))).await;
        assert_eq!(text(&result).len(), 5 << 20);
    }
}

#[tokio::test]
async fn b059_a_message_over_several_lines_with_a_comment_between_is_one_message() {
    let manner: Manner = |id| {
        Box::pin(async move {
            Answer::Close(stream(&format!(
                "id: 7\r\ndata: {{\"jsonrpc\":\"2.0\",\r\n: keep\r\ndata: \"id\":{id},\"result\":{{\"content\":[]}}}}\r\n\r\n"
            )))
        })
    };
    let server = Server::start(manner).await;
    let result = result(&link(&server.url), tool(&modern("m"), "t", json!({}))).await;
    assert_eq!(result, json!({ "content": [] }));
}

/// A legacy server that closes the stream of a request and answers on the next stream that is opened.
async fn astray(mut socket: TcpStream, asked: tokio::sync::watch::Sender<String>) {
    let mut read = [0; 8192];
    let n = socket.read(&mut read).await.unwrap_or(0);
    let text = String::from_utf8_lossy(&read[..n]).into_owned();
    if let Some((_, id)) = text.split_once(r#""id":"#) {
        socket.write_all(&stream("id: 1\nretry: 600000\ndata: \n\n")).await.ok();
        drop(socket);
        let end = id.find(['}', ',']).unwrap();
        asked.send_replace(id[..end].to_owned());
        return;
    }
    let id = asked.subscribe().wait_for(|id| !id.is_empty()).await.unwrap().clone();
    let answer = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"late\":true}}}}\n\n");
    socket.write_all(&stream(&answer)).await.ok();
    socket.read_exact(&mut [0]).await.ok();
}

#[tokio::test]
async fn an_answer_that_comes_on_another_stream_of_the_session_is_taken_for_what_it_is() {
    use plasm_mcp::upstream::transport::{Answer, Outgoing, Route, Transport};
    use plasm_mcp::wire::{Id, Message};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let asked = tokio::sync::watch::Sender::new(String::new());
    let serving = tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(astray(socket, asked.clone()));
        }
    });
    let config = HttpConfig { url: url.parse().unwrap(), headers: Vec::new(), cookies: false, limit: LIMIT };
    let http = Http::new(HttpClient::new(Connector::straight(Duration::from_secs(5))), config);
    let route = Route {
        version: Some(Version::NEWEST_LEGACY),
        session: None,
        who: "w".into(),
        headers: Vec::new(),
        bearer: None,
    };
    let request = Outgoing {
        id: Id::of_str("asked-1"),
        method: Method::ToolsCall,
        params: Raw::trusted(r#"{"name":"t"}"#),
        name: None,
        progress: None,
        trail: None,
        deadline: Instant::now() + Duration::from_secs(20),
    };
    let answered = http.request(route.clone(), request).await.unwrap();
    let Answer::Stream(messages) = answered.answer else { panic!("no stream") };
    // The stream is read on: it is closed, and to be asked for again in ten minutes.
    let mut answer = std::pin::pin!(messages.filter_map(async |item| item.ok()));
    let standing = async {
        let mut standing = http.standing(route, None).await.unwrap().expect("a stream");
        let other = standing.next().await;
        panic!("the standing stream is not for {other:?}");
    };
    let came = tokio::select! {
        came = answer.next() => came.expect("an answer"),
        () = standing => unreachable!("it panics"),
    };
    let Message::Response(response) = came.message else { panic!("no response") };
    assert_eq!(response.outcome.unwrap().text(), r#"{"late":true}"#);
    serving.abort();
}

#[tokio::test]
async fn an_upstream_that_fails_again_and_again_is_not_asked_for_a_while() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let link = link(&format!("http://127.0.0.1:{port}/mcp"));
    for _ in 0..5 {
        assert_eq!(fault(&link, tool(&modern("m"), "t", json!({}))).await, "upstream_unreachable");
    }
    let began = Instant::now();
    let Outcome::Error(told) = outcome(&link, tool(&modern("m"), "t", json!({}))).await else { panic!() };
    assert!(format!("{told:?}").contains("too often"), "{told:?}");
    assert!(began.elapsed() < Duration::from_millis(50));
}

#[tokio::test]
async fn a_full_house_is_told_as_busy() {
    let hangs: Manner = answers!(Answer::Hang(Vec::new()));
    let server = Server::start(hangs).await;
    let config = LinkConfig { most_calls: 1, queue_wait: Duration::from_millis(50), ..config() };
    let link = link_as(&server.url, config);
    let first = tokio::spawn(link.call(tool(&modern("m"), "t", json!({}))));
    comes_true("the first call holds the place", async || {
        tokio::task::yield_now().await;
        fault_within(&link, Duration::from_millis(300)).await == Some("upstream_busy")
    })
    .await;
    first.abort();
}

/// The fault of a call that is given so much time.
async fn fault_within(link: &Link, within: Duration) -> Option<&'static str> {
    let mut call = tool(&modern("m"), "t", json!({}));
    call.deadline = Instant::now() + within;
    Some(fault(link, call).await)
}
