//! One HTTP request on a connection of its own, so that a balancer chooses anew each time and no idle connection is lost
//! in a race with its server's end. Every failure is a text: it is counted and told, never repeated here.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use plasm_mcp::wire::sse::{Decoder, SseEvent};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

/// Longest wait for the head of an answer: longer than any call here takes, as it opens a stream before.
const HEAD: Duration = Duration::from_secs(40);
/// Longest silence on a stream: the gateway writes a comment each 25 s.
const SILENCE: Duration = Duration::from_secs(40);
const LARGEST_EVENT: usize = 16 << 20;

pub type Header<'a> = (&'a str, &'a str);

/// Where requests go.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    path: String,
}

impl Target {
    /// Of an `http://ADDRESS:PORT/PATH`.
    pub fn parse(url: &str) -> Result<Target, String> {
        let rest = url.strip_prefix("http://").ok_or("only http:// is spoken here")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = host.parse().map_err(|error| format!("{host}: {error}"))?;
        Ok(Target { address, path: format!("/{path}") })
    }

    pub fn with_path(&self, path: impl Into<String>) -> Target {
        Target { address: self.address, path: path.into() }
    }
}

/// An answer whose body is still to be read. Dropped, it closes the connection.
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

pub async fn request(
    to: &Target,
    verb: &str,
    headers: &[Header<'_>],
    body: String,
) -> Result<Answer, String> {
    let mut request =
        http::Request::builder().method(verb).uri(&to.path).header("host", to.address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
    let exchange = async {
        let socket = TcpStream::connect(to.address).await.map_err(|error| format!("connecting: {error}"))?;
        let _ = socket.set_nodelay(true);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket))
            .await
            .map_err(|error| format!("connecting: {error}"))?;
        let connection = tokio::spawn(connection).abort_handle();
        let response = sender.send_request(request).await.map_err(|error| format!("no answer: {error}"))?;
        Ok::<_, String>((response, connection))
    };
    let (response, connection) =
        timeout(HEAD, exchange).await.map_err(|_| format!("no answer within {HEAD:?}"))??;
    let (head, body) = response.into_parts();
    Ok(Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body,
        decoder: Decoder::new(LARGEST_EVENT),
        events: VecDeque::new(),
        connection,
    })
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn replica(&self) -> String {
        self.header("plasm-replica").unwrap_or("-").to_owned()
    }

    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The whole body as JSON.
    pub async fn json(mut self) -> Result<Value, String> {
        let whole = timeout(SILENCE, (&mut self.body).collect()).await.map_err(|_| "the body never ends")?;
        let bytes = whole.map_err(|error| format!("the body broke off: {error}"))?.to_bytes();
        serde_json::from_slice(&bytes).map_err(|_| format!("no JSON: {}", String::from_utf8_lossy(&bytes)))
    }

    /// What it says, for a report.
    pub async fn told(mut self) -> String {
        let body = timeout(Duration::from_secs(5), (&mut self.body).collect()).await;
        let bytes = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).chars().take(200).collect()
    }

    /// The next event; `None` where the stream ends, in order or broken. A silence of more than `SILENCE` is an error.
    pub async fn event(&mut self) -> Result<Option<SseEvent>, String> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let frame = timeout(SILENCE, self.body.frame()).await;
            let frame = frame.map_err(|_| format!("a silence of more than {SILENCE:?}"))?;
            let Some(Ok(frame)) = frame else { return Ok(None) };
            let data = frame.into_data().unwrap_or_default();
            self.events.extend(self.decoder.push(&data).map_err(|error| error.to_string())?);
        }
    }
}
