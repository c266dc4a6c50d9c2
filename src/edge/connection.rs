//! One connection of a client: a request after the other is read, answered, and its answer written, by one task. What comes
//! meanwhile waits; a client that goes ends what is done for it. Knows no MCP.

use super::feed::{self, Feed};
use super::given::Given;
use super::heads::{Answering, Heads};
use super::outlet::Outlet;
use crate::http1::{
    Frames, Framing, Head, HeadError, HeadReader, Misframed, Part, Request, write_head, write_plain,
};
use crate::telemetry::metrics;
use axum::body::{Body, HttpBody};
use bytes::{Buf, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Response, Version};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

/// A client that takes no byte of an answer for so long is gone: a stream that it can resume is resumed.
const WRITE_TIME: Duration = Duration::from_secs(60);
/// Room for one read, at least and at most.
const READ: usize = 8 << 10;
const LARGE_READ: usize = 128 << 10;
/// A body that is no larger is copied out of the buffer that it came in, which can then be used again at once.
const COPIED: usize = 2 << 10;
const LEAVE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
/// What is read of one whose request was not read to its end, and for how long: a connection that closes while bytes of the
/// client are unread is reset, and it would never see the answer (RFC 9112 9.6).
const READ_OFF: u64 = 256 << 10;
const READ_OFF_TIME: Duration = Duration::from_secs(1);

pub struct Connection {
    socket: TcpStream,
    reader: HeadReader,
    /// What was read and is not yet taken.
    input: BytesMut,
    outlet: Outlet,
    /// Bytes that may wait to be taken: no more is read meanwhile.
    most: usize,
    /// The client has closed its side, after what is still to be taken.
    closed: bool,
    /// How long its heads are waited for.
    heads: Arc<Heads>,
}

/// A request that is being answered.
struct Asked {
    method: Method,
    version: Version,
    lasts: bool,
    /// Nobody read its body to the end.
    unread: bool,
    /// Where its body is still to come.
    rest: Option<Rest>,
}

/// What answers a request, what is known of that, and the mark that it is being answered.
type Begun<A> = (Pin<Box<A>>, Asked, Answering);

/// A body that is to come.
struct Rest {
    feed: Feed,
    framing: Framing,
    /// The client waits for leave to send it.
    waits: bool,
}

impl Connection {
    /// Whose heads have at most so many bytes.
    pub fn new(socket: TcpStream, head: usize, heads: Arc<Heads>) -> Connection {
        let most = head.max(8192);
        Connection {
            socket,
            reader: HeadReader::new(most),
            input: BytesMut::new(),
            outlet: Outlet::new(WRITE_TIME),
            most,
            closed: false,
            heads,
        }
    }

    /// Serves until the client has gone, or nothing is under way and `closing` is set. A connection that breaks is the peer's
    /// business; what was lost on it is known to the rooms that wrote.
    pub async fn serve<F, A>(&mut self, answer: &F, closing: &AtomicBool)
    where
        F: Fn(Request, Body) -> A,
        A: Future<Output: Into<Given>>,
    {
        // What is large is made and moved within a poll: a value that an await follows has its place here for good, and an idle
        // connection, or a stream, would hold it.
        loop {
            let begun = poll_fn(|context| self.poll_begin(answer, closing, context)).await;
            let (mut work, mut asked, answering) = match begun {
                Ok(Some(begun)) => begun,
                Ok(None) => break,
                Err(why) => {
                    if Box::pin(self.refuse(why)).await.is_ok() {
                        Box::pin(self.part()).await;
                    }
                    return;
                }
            };
            let written = poll_fn(|context| {
                let worked = ready!(self.poll_work(work.as_mut(), &mut asked.rest, context));
                let Some(given) = worked else { return Poll::Ready(None) };
                // Of a body that nobody read, the rest would be taken for the next head.
                asked.unread = asked.rest.as_ref().is_some_and(|rest| !rest.feed.is_whole());
                asked.lasts &= !asked.unread && !closing.load(Relaxed);
                Poll::Ready(self.write(given.into(), &mut asked).ok())
            });
            let Some((body, frames)) = written.await else { return };
            drop(work);
            if self.send(body, frames).await.is_err() {
                return;
            }
            drop(answering);
            if asked.unread {
                return Box::pin(self.part()).await;
            }
            if !asked.lasts {
                break;
            }
        }
        let _ = self.socket.shutdown().await;
    }

    /// The next request, and what answers it: in a box of its own, which is gone with the answer. None where no more is to come.
    fn poll_begin<F, A>(
        &mut self,
        answer: &F,
        closing: &AtomicBool,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Begun<A>>, HeadError>>
    where
        F: Fn(Request, Body) -> A,
    {
        let Some(head) = ready!(self.poll_head(closing, context))? else { return Poll::Ready(Ok(None)) };
        let answering = self.heads.came();
        let (request, body, asked) = self.begin(head);
        Poll::Ready(Ok(Some((Box::pin(answer(request, body)), asked, answering))))
    }

    /// Writes the head of an answer, and what of its body is there. Error: the body is not as long as it says.
    fn write(&mut self, given: Given, asked: &mut Asked) -> Result<(Body, Frames), Misframed> {
        let (output, about) = (&mut self.outlet.output, (&asked.method, asked.version));
        match given {
            Given::Plain { lines, message } => {
                let length = message.len() as u64;
                let mut frames = write_plain(about, &lines, length, &mut asked.lasts, output.head());
                frames.push(message, output)?;
                Ok((Body::empty(), frames))
            }
            Given::Whole(response) => {
                let (parts, body) = response.into_parts();
                let known = body.size_hint().exact();
                Ok((body, write_head(about, &parts, known, &mut asked.lasts, output.head())))
            }
        }
    }

    /// The next head; none where no more is to come.
    fn poll_head(
        &mut self,
        closing: &AtomicBool,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Head>, HeadError>> {
        loop {
            // Empty lines before a request mean nothing (RFC 9112 2.2).
            while let [b'\r' | b'\n', ..] = self.input[..] {
                self.input.advance(1);
            }
            if !self.input.is_empty()
                && let Some(head) = self.reader.read(&mut self.input)?
            {
                return Poll::Ready(Ok(Some(head)));
            }
            match self.poll_read(READ, context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Ok(None)),
                Poll::Pending if closing.load(Relaxed) && self.input.is_empty() => {
                    return Poll::Ready(Ok(None));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Reads something. Errors: `UnexpectedEof` where the client has closed.
    fn poll_read(&mut self, expected: usize, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closed {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        // Without a look at the buffer, which an idle connection need not have.
        ready!(self.socket.poll_read_ready(context))?;
        self.input.reserve(expected.clamp(READ, LARGE_READ));
        match ready!(poll_read_buf(Pin::new(&mut self.socket), context, &mut self.input))? {
            0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Ready when the client has gone. What it sends meanwhile is kept, up to a bound: who goes after more than that, or after
    /// further requests, is missed when there is something to write.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while !self.closed && self.input.len() < self.most {
            match ready!(self.poll_read(READ, context)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !self.input.is_empty() => {
                    self.closed = true;
                }
                Err(_) => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }

    /// The request of a head, with its body, or the reader's end of that.
    fn begin(&mut self, head: Head) -> (Request, Body, Asked) {
        let Head { request, framing, lasts, waits } = head;
        let (method, version) = (request.method.clone(), request.version);
        let (body, rest) = match framing {
            Framing::Nothing | Framing::Sized(0) => (Body::empty(), None),
            Framing::Sized(length) if length <= self.input.len() as u64 => {
                (Body::from(self.taken(length as usize)), None)
            }
            framing => {
                let length = match framing {
                    Framing::Sized(length) => Some(length),
                    _ => None,
                };
                let (feed, fed) = feed::new(length);
                (Body::new(fed), Some(Rest { feed, framing, waits }))
            }
        };
        (request, body, Asked { method, version, lasts, unread: false, rest })
    }

    fn taken(&mut self, length: usize) -> Bytes {
        if length > COPIED {
            return self.input.split_to(length).freeze();
        }
        let body = Bytes::copy_from_slice(&self.input[..length]);
        self.input.advance(length);
        body
    }

    /// The answer; none when the client has gone.
    fn poll_work<A: Future>(
        &mut self,
        mut work: Pin<&mut A>,
        rest: &mut Option<Rest>,
        context: &mut Context<'_>,
    ) -> Poll<Option<A::Output>> {
        loop {
            if let Poll::Ready(response) = work.as_mut().poll(context) {
                return Poll::Ready(Some(response));
            }
            match rest.as_mut().filter(|rest| rest.feed.is_open()) {
                Some(rest) => ready!(self.poll_feed(rest, context)),
                None => return self.poll_gone(context).map(|()| None),
            }
        }
    }

    /// Ready when whoever reads the body has something new to look at.
    fn poll_feed(&mut self, rest: &mut Rest, context: &mut Context<'_>) -> Poll<()> {
        ready!(rest.feed.poll_wanted(context));
        let here = context.waker().clone();
        loop {
            match rest.framing.take(&mut self.input) {
                Ok(Part::Data(piece)) => {
                    rest.feed.give(piece, &here);
                    if rest.framing.is_over() {
                        rest.feed.end(true, Some(&here));
                        self.shrink();
                    }
                    return Poll::Ready(());
                }
                Ok(Part::More) => {}
                ended => {
                    rest.feed.end(ended.is_ok(), Some(&here));
                    self.shrink();
                    return Poll::Ready(());
                }
            }
            if std::mem::take(&mut rest.waits) {
                self.outlet.output.head().extend_from_slice(LEAVE);
            }
            if !self.outlet.output.is_clear() {
                // What cannot be written now goes out before the answer at the latest.
                let _ = self.outlet.poll_send(&mut self.socket, context);
            }
            if ready!(self.poll_read(rest.framing.expected(), context)).is_err() {
                rest.feed.end(false, Some(&here));
                return Poll::Ready(());
            }
        }
    }

    /// A buffer that grew with a large body is not kept for what follows.
    fn shrink(&mut self) {
        self.input = BytesMut::from(&self.input[..]);
    }

    /// Writes what there is, and the body as it comes. Errors: the client has gone, or the body broke off.
    async fn send(&mut self, mut body: Body, mut frames: Frames) -> io::Result<()> {
        let mut ended = frames.is_over();
        poll_fn(|context| self.poll_send(&mut body, &mut frames, &mut ended, context)).await
    }

    fn poll_send(
        &mut self,
        body: &mut Body,
        frames: &mut Frames,
        ended: &mut bool,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut asked = false;
        loop {
            while !*ended && !asked && !self.outlet.output.is_full() {
                match Pin::new(&mut *body).poll_frame(context) {
                    Poll::Ready(Some(Ok(frame))) => {
                        if let Ok(piece) = frame.into_data() {
                            frames.push(piece, &mut self.outlet.output).map_err(io::Error::other)?;
                        }
                        *ended = frames.is_over();
                    }
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(io::Error::other(error))),
                    Poll::Ready(None) => {
                        frames.end(&mut self.outlet.output).map_err(io::Error::other)?;
                        *ended = true;
                    }
                    Poll::Pending => asked = true,
                }
            }
            if !self.outlet.output.is_clear() {
                ready!(self.outlet.poll_send(&mut self.socket, context))?;
            } else if *ended {
                return Poll::Ready(Ok(()));
            } else if asked {
                return self.poll_stands(context);
            }
        }
    }

    /// While a stream says nothing it costs its own state and no more.
    fn poll_stands(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outlet.output.release();
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        self.poll_gone(context).map(|()| Err(io::ErrorKind::UnexpectedEof.into()))
    }

    /// Answers a head that cannot be understood. Nothing that follows it can.
    async fn refuse(&mut self, why: HeadError) -> io::Result<()> {
        let status = why.status();
        metrics().refused.with_label_values(&[status.as_str()]).inc();
        let (mut head, ()) = Response::new(()).into_parts();
        head.status = status;
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        let text = format!("{why}\n");
        let out = self.outlet.output.head();
        let about = (&Method::GET, Version::HTTP_11);
        write_head(about, &head, Some(text.len() as u64), &mut false, out);
        out.extend_from_slice(text.as_bytes());
        poll_fn(|context| self.outlet.poll_send(&mut self.socket, context)).await
    }

    /// Closes after an answer that the client may not have come to read, for it is still writing.
    async fn part(&mut self) {
        if self.socket.shutdown().await.is_ok() {
            let read_off = async {
                let mut rest = (&mut self.socket).take(READ_OFF);
                tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
            };
            let _ = tokio::time::timeout(READ_OFF_TIME, read_off).await;
        }
    }
}

#[cfg(test)]
mod tests;
