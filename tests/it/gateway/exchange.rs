//! One HTTP request on a connection of its own, and its answer as it arrives. Dropping the answer closes the connection.

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::HeaderMap;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use plasm_mcp::wire::sse::{Decoder, SseEvent};
use serde_json::Value;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// Longer than anything here takes on a busy machine; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(25);
const LARGEST_EVENT: usize = 64 << 20;

/// Waits for what must come.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come in {PATIENCE:?}"),
    }
}

/// A request's body: whole, with its length; or in chunks, without one.
pub enum Content {
    Whole(Bytes),
    Chunks(BoxStream<'static, Bytes>),
}

impl From<&str> for Content {
    fn from(text: &str) -> Content {
        Content::Whole(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content::Whole(text.into())
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Content {
        Content::Whole(bytes)
    }
}

/// An answer whose body is still to be read.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    body: Incoming,
    decoder: Decoder,
    events: VecDeque<SseEvent>,
    connection: AbortHandle,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Sends a request and waits for the head of its answer. `Host` is the address where the headers do not say it.
pub async fn request(
    to: SocketAddr,
    verb: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Content>,
) -> Answer {
    let mut request = http::Request::builder().method(verb).uri(path);
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        request = request.header("host", to.to_string());
    }
    for (name, value) in headers {
        request = request.header(*name, value.as_bytes());
    }
    let body = match body.into() {
        Content::Whole(bytes) => http_body_util::Full::new(bytes).boxed_unsync(),
        Content::Chunks(chunks) => {
            StreamBody::new(chunks.map(|chunk| Ok::<_, Infallible>(Frame::data(chunk)))).boxed_unsync()
        }
    };
    let request = request.body(body).expect("a request that can be written");
    let exchange = async {
        let socket = TcpStream::connect(to).await.expect("the server listens");
        let _ = socket.set_nodelay(true);
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.expect("a connection");
        let connection = tokio::spawn(connection).abort_handle();
        let response = sender.send_request(request).await.expect("an answer");
        (response, connection)
    };
    let (response, connection) = soon("the head of an answer", exchange).await;
    let (head, body) = response.into_parts();
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
        decoder: Decoder::new(LARGEST_EVENT),
        events: VecDeque::new(),
        connection,
    }
}

#[derive(serde::Deserialize)]
struct Kind {
    method: Option<serde::de::IgnoredAny>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("headers of ours are ASCII"))
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The rest of the body.
    pub async fn bytes(&mut self) -> Bytes {
        let whole = soon("the end of a body", (&mut self.body).collect()).await;
        whole.expect("a whole body").to_bytes()
    }

    pub async fn json(&mut self) -> Value {
        let bytes = self.bytes().await;
        serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{e} in {bytes:?}"))
    }

    /// The next bytes of the body, as they arrive, comments and all; `None` at its end.
    pub async fn chunk(&mut self) -> Option<Bytes> {
        let frame = soon("more of a body", self.body.frame()).await?.ok()?;
        Some(frame.into_data().unwrap_or_default())
    }

    /// The next event; `None` where the stream ends, by itself or broken.
    pub async fn event(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let frame = soon("the next event", self.body.frame()).await?.ok()?;
            let data = frame.into_data().unwrap_or_default();
            self.events.extend(self.decoder.push(&data).expect("an event within the bound"));
        }
    }

    /// What the next bytes bring: an event, or none as yet (a comment keeps the stream alive); `None` at its end.
    pub async fn events_or_comments(&mut self) -> Option<Option<SseEvent>> {
        if let Some(event) = self.events.pop_front() {
            return Some(Some(event));
        }
        let frame = self.body.frame().await?.ok()?;
        let data = frame.into_data().unwrap_or_default();
        self.events.extend(self.decoder.push(&data).expect("an event within the bound"));
        Some(self.events.pop_front())
    }

    /// The next event that carries a message.
    pub async fn message(&mut self) -> Option<Value> {
        let data = self.data().await?;
        Some(serde_json::from_slice(&data).unwrap_or_else(|e| panic!("{e} in {data:?}")))
    }

    async fn data(&mut self) -> Option<Bytes> {
        loop {
            let event = self.event().await?;
            if !event.data.is_empty() {
                return Some(event.data);
            }
        }
    }

    /// The bytes of the response to the request, in whichever form it came; what precedes it on a stream is passed over.
    pub async fn response(&mut self) -> Bytes {
        if !self.is_stream() {
            return self.bytes().await;
        }
        loop {
            let data = self.data().await.expect("a stream ends with its response");
            // No tree: some messages hold what a tree cannot.
            let kind: Kind = serde_json::from_slice(&data).expect("messages are JSON");
            if kind.method.is_none() {
                return data;
            }
        }
    }

    /// As [`Answer::response`], read.
    pub async fn answer(&mut self) -> Value {
        let bytes = self.response().await;
        serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{e} in {bytes:?}"))
    }
}

/// The result in a response, or the error as `Err`.
pub fn outcome(message: Value) -> Result<Value, Value> {
    match (message.get("result"), message.get("error")) {
        (Some(result), None) => Ok(result.clone()),
        (None, Some(error)) => Err(error.clone()),
        _ => panic!("no response: {message}"),
    }
}
