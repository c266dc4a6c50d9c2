//! The connection of a standing stream once its head is written: hyper's server gives it up, with the buffers and the state
//! that it keeps for a next request, and what follows is chunks alone (RFC 9112 7.1). A stream that says nothing for hours
//! then costs its own state and no more. Knows no MCP.

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{Response, Version};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// In the extensions of a response: its body is a stream that may stand for long, and its connection need serve no other
/// request after it.
#[derive(Clone, Copy)]
pub struct Standing;

/// Between the server of a connection and whoever takes it over from it.
#[derive(Default)]
pub struct Handoff {
    /// The stream of the answer that is under way, if that is a standing one.
    stream: Mutex<Option<Body>>,
    /// The server has written the head, and asks for what follows.
    asked: AtomicBool,
    /// And all that it wrote has gone out.
    clear: AtomicBool,
}

impl Handoff {
    /// Keeps the stream of a standing answer back. Older clients know no chunks, and are left to the server.
    pub fn keep(self: &Arc<Self>, version: Version, mut answer: Response<Body>) -> Response<Body> {
        if answer.extensions_mut().remove::<Standing>().is_none() || version != Version::HTTP_11 {
            return answer;
        }
        let (head, body) = answer.into_parts();
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = Some(body);
        Response::from_parts(head, Body::new(Kept(self.clone())))
    }

    /// The stream, once the server has nothing left to write.
    pub fn take(&self) -> Option<Body> {
        let clear = self.clear.load(Relaxed);
        clear.then(|| self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()).flatten()
    }
}

/// What the server gets for the body: it never says anything, and never ends.
struct Kept(Arc<Handoff>);

impl http_body::Body for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        // Nobody needs to be woken: who drives the connection looks after each step.
        self.0.asked.store(true, Relaxed);
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// A socket that sees when all that was written has gone out.
pub struct Seen<T> {
    io: T,
    handoff: Arc<Handoff>,
}

impl<T> Seen<T> {
    pub fn new(io: T, handoff: Arc<Handoff>) -> Seen<T> {
        Seen { io, handoff }
    }
}

impl<T: Read + Unpin> Read for Seen<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, into)
    }
}

impl<T: Write + Unpin> Write for Seen<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    /// hyper flushes the socket when its own buffer is empty.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        if matches!(flushed, Poll::Ready(Ok(()))) && self.handoff.asked.load(Relaxed) {
            self.handoff.clear.store(true, Relaxed);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, bytes)
    }
}

/// Sends the stream to its end, and closes. Ends at once when the peer is gone; what it may still ask on this connection is not
/// answered, as if the answer had said so (RFC 9112 9.3.2).
pub async fn send<T: Read + Write + Unpin>(io: Seen<T>, mut stream: Body) {
    let mut io = TokioIo::new(io);
    loop {
        let frame = tokio::select! {
            () = gone(&mut io) => return,
            frame = stream.frame() => frame,
        };
        let sent = match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => io.write_all(&chunk(&data)).await,
                _ => continue,
            },
            // A stream that breaks off has no last chunk.
            Some(Err(_)) => return,
            None => {
                let _ = io.write_all(b"0\r\n\r\n").await;
                let _ = io.shutdown().await;
                return;
            }
        };
        if sent.is_err() || io.flush().await.is_err() {
            return;
        }
    }
}

fn chunk(data: &[u8]) -> Bytes {
    let size = format!("{:x}\r\n", data.len());
    let mut chunk = BytesMut::with_capacity(size.len() + data.len() + 2);
    chunk.extend_from_slice(size.as_bytes());
    chunk.extend_from_slice(data);
    chunk.extend_from_slice(b"\r\n");
    chunk.freeze()
}

/// Resolves when the peer has closed.
async fn gone<T: Read + Write + Unpin>(io: &mut TokioIo<Seen<T>>) {
    let mut more = [0; 64];
    while matches!(io.read(&mut more).await, Ok(1..)) {}
}

#[cfg(test)]
mod tests {
    use super::super::listener::{Bounds, Ends, serve};
    use super::*;
    use std::time::Duration;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc;
    use tokio_stream::StreamExt as _;
    use tokio_stream::wrappers::ReceiverStream;
    use tokio_util::sync::CancellationToken;

    /// A server of one standing stream, what it says, and the peer that has sent this request line.
    async fn standing(line: &str) -> (mpsc::Sender<Bytes>, TcpStream, CancellationToken) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let over = CancellationToken::new();
        let bounds =
            Bounds { head: 8192, head_time: Duration::from_secs(60), connections: 1, neighbours: None };
        let (say, said) = mpsc::channel::<Bytes>(1);
        let said = Arc::new(Mutex::new(Some(said)));
        let answer = move |_, _| {
            let said = said.lock().unwrap().take().expect("one request");
            let stream = ReceiverStream::new(said).map(Ok::<_, std::convert::Infallible>);
            let mut response = Response::new(Body::from_stream(stream));
            response.extensions_mut().insert(Standing);
            std::future::ready(response)
        };
        tokio::spawn(serve(listener, bounds, answer, Ends::at(&over)));
        let mut peer = TcpStream::connect(address).await.unwrap();
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

    #[tokio::test]
    async fn a_standing_stream_is_chunks_as_they_come_and_ends_in_order() {
        let (say, mut peer, _over) = standing("GET / HTTP/1.1").await;
        let head = reads(&mut peer, "\r\n\r\n").await.to_lowercase();
        assert!(
            head.starts_with("http/1.1 200 ok\r\n") && head.contains("\r\ntransfer-encoding: chunked\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\ndate: "), "{head}");
        say.send("abc".into()).await.unwrap();
        assert_eq!(reads(&mut peer, "abc\r\n").await, "3\r\nabc\r\n");
        let long = "x".repeat(100_000);
        say.send(long.clone().into()).await.unwrap();
        assert_eq!(reads(&mut peer, "x\r\n").await, format!("186a0\r\n{long}\r\n"));
        drop(say);
        let mut rest = String::new();
        peer.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "0\r\n\r\n");
    }

    #[tokio::test]
    async fn a_peer_that_closes_ends_the_stream_at_once() {
        let (say, mut peer, _over) = standing("GET / HTTP/1.1").await;
        reads(&mut peer, "\r\n\r\n").await;
        drop(peer);
        say.closed().await;
    }

    #[tokio::test]
    async fn an_older_client_gets_the_bytes_as_they_are() {
        let (say, mut peer, _over) = standing("GET / HTTP/1.0").await;
        reads(&mut peer, "\r\n\r\n").await;
        say.send("abc".into()).await.unwrap();
        drop(say);
        let mut rest = String::new();
        peer.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, "abc");
    }

    #[tokio::test]
    async fn a_standing_stream_is_cut_at_the_deadline() {
        let (say, mut peer, over) = standing("GET / HTTP/1.1").await;
        reads(&mut peer, "\r\n\r\n").await;
        over.cancel();
        say.closed().await;
    }
}
