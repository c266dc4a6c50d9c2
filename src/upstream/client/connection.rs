//! One HTTP/1.1 connection to an upstream (RFC 9112). It has no task of its own: whoever awaits a response, or reads its
//! body, drives it. So a call goes out and comes back within its own task, and what nobody awaits any more is closed by
//! being dropped.

use super::head::{self, Head};
use super::socket::Socket;
use super::{Fields, Sending};
use crate::http1::{Framing, Part};
use crate::turns::Turn;
use bytes::{Bytes, BytesMut};
use http::uri::Authority;
use http::{Method, StatusCode, Uri};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

/// Room for one read, at least and at most.
const READ: usize = 8 << 10;
const LARGE_READ: usize = 128 << 10;
/// A body that is no larger is written as one with the head: copying it costs less than having the kernel gather both.
const SMALL: usize = 2 << 10;

pub(super) struct Connection {
    socket: Socket,
    /// What was read and is not yet taken.
    input: BytesMut,
    output: Output,
    /// Of the response that is under way.
    framing: Framing,
    /// Whether it may serve another request after this one.
    lasts: bool,
    /// Any URI of its server.
    to: Uri,
    turn: Turn,
    /// It takes no new request after this.
    pub(super) until: Instant,
}

/// A request on its way out.
#[derive(Default)]
struct Output {
    /// And a small body.
    head: BytesMut,
    /// A larger one.
    body: Bytes,
    /// Bytes of both that are gone.
    sent: usize,
    flushed: bool,
}

/// A request that got no response.
pub(super) struct Failed {
    pub(super) error: io::Error,
    /// Whether nothing of it was sent.
    pub(super) unsent: bool,
}

impl Connection {
    pub(super) fn new(socket: Socket, to: Uri, until: Instant) -> Box<Connection> {
        Box::new(Connection {
            socket,
            input: BytesMut::new(),
            output: Output::default(),
            framing: Framing::Nothing,
            lasts: true,
            to,
            turn: Turn::here(),
            until,
        })
    }

    /// Whether it goes to the server that `uri` names.
    pub(super) fn serves(&self, uri: &Uri) -> bool {
        let ours = self.to.authority().map(Authority::as_str);
        self.to.scheme() == uri.scheme() && ours == uri.authority().map(Authority::as_str)
    }

    /// Whether it may serve the next request: this one is sent and its response read, to the byte.
    pub(super) fn is_ready(&self) -> bool {
        self.lasts && self.output.flushed && self.framing.is_over() && self.input.is_empty()
    }

    /// Sends a request and awaits the head of its response.
    pub(super) async fn exchange(&mut self, request: &Sending<'_>) -> Result<(StatusCode, Fields), Failed> {
        self.output.begin(request);
        let mut begun = false;
        let head = poll_fn(|context| {
            let mut silent = false;
            if !begun {
                ready!(self.turn.poll(context));
                self.turn.over();
                begun = true;
                silent = self.still_open(context)?;
            }
            self.poll_head(context, silent)
        })
        .await;
        match head {
            Ok(Head { status, fields, framing, lasts }) => {
                let nothing = request.usual.method == Method::HEAD;
                self.framing = if nothing { Framing::Nothing } else { framing };
                self.lasts = lasts;
                Ok((status, fields))
            }
            Err(error) => Err(Failed { error, unsent: self.output.sent == 0 }),
        }
    }

    /// A server that closes an idle connection, or says anything on it, takes no more requests there. Whether the socket wakes
    /// by itself once there is something to read.
    fn still_open(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        if self.socket.poll_readable(context)?.is_pending() {
            return Ok(true);
        }
        match self.poll_read(context) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(())) => Err(io::ErrorKind::InvalidData.into()),
            Poll::Ready(Err(error)) => Err(error),
        }
    }

    /// `silent`: the socket wakes by itself once there is something to read.
    fn poll_head(&mut self, context: &mut Context<'_>, silent: bool) -> Poll<io::Result<Head>> {
        let sending = self.output.poll_send(&mut self.socket, context);
        if silent && !matches!(sending, Poll::Ready(Err(_))) {
            return Poll::Pending;
        }
        loop {
            if let Some(head) = head::read(&mut self.input)? {
                return Poll::Ready(Ok(head));
            }
            match self.poll_read(context) {
                Poll::Ready(Ok(())) => {}
                // Why it could not be sent says more than that nothing came back.
                Poll::Ready(Err(error)) => return Poll::Ready(Err(refused(sending).unwrap_or(error))),
                Poll::Pending => {
                    return refused(sending).map_or(Poll::Pending, |error| Poll::Ready(Err(error)));
                }
            }
        }
    }

    /// The next part of the response's body; `None` at its end.
    pub(super) fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if !self.output.flushed {
            // A server may answer before it has read all; what it never reads ends with the connection.
            let _ = self.output.poll_send(&mut self.socket, context);
        }
        loop {
            match self.framing.take(&mut self.input)? {
                Part::Data(data) => return Poll::Ready(Ok(Some(data))),
                Part::End => return Poll::Ready(Ok(None)),
                Part::More => match ready!(self.poll_read(context)) {
                    Ok(()) => {}
                    Err(error)
                        if error.kind() == io::ErrorKind::UnexpectedEof && self.framing.ends_by_close() =>
                    {
                        self.framing = Framing::Nothing;
                    }
                    Err(error) => return Poll::Ready(Err(error)),
                },
            }
        }
    }

    /// What is to come of the response's body, where its length is known and all of it is there.
    pub(super) fn take_whole(&mut self) -> Option<Bytes> {
        match self.framing {
            Framing::Sized(left) if self.output.flushed && self.input.len() as u64 >= left => {
                self.framing = Framing::Nothing;
                Some(self.input.split_to(left as usize).freeze())
            }
            _ => None,
        }
    }

    pub(super) fn framing(&self) -> &Framing {
        &self.framing
    }

    /// Reads something. Errors: `UnexpectedEof` where the server has closed.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input.reserve(self.framing.expected().clamp(READ, LARGE_READ));
        let read = ready!(self.socket.poll_read(context, &mut self.input))?;
        Poll::Ready(if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) })
    }
}

fn refused(sending: Poll<io::Result<()>>) -> Option<io::Error> {
    match sending {
        Poll::Ready(Err(error)) => Some(error),
        _ => None,
    }
}

impl Output {
    fn begin(&mut self, request: &Sending<'_>) {
        self.head.clear();
        request.usual.write(&request.own, request.body.len(), &mut self.head);
        self.body = match request.body.len() {
            ..=SMALL => {
                self.head.extend_from_slice(&request.body);
                Bytes::new()
            }
            _ => request.body.clone(),
        };
        (self.sent, self.flushed) = (0, false);
    }

    fn poll_send(&mut self, socket: &mut Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.head.len() + self.body.len() {
            let head = self.head.get(self.sent..).unwrap_or_default();
            let body = &self.body[self.sent.saturating_sub(self.head.len())..];
            let written = match (head, body) {
                ([], one) | (one, []) => socket.poll_write(context, one),
                both => {
                    let both = [IoSlice::new(both.0), IoSlice::new(both.1)];
                    socket.poll_write_vectored(context, &both)
                }
            };
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        if !self.flushed {
            ready!(socket.poll_flush(context))?;
            self.flushed = true;
            self.body = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}
