//! One connection to an upstream. It has no task of its own: whoever awaits a response, or reads its body, drives it. So a
//! call goes out and comes back within its own task, and what nobody awaits any more is closed by being dropped.

use super::host_of;
use super::pool::Pool;
use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tokio::time::Instant;

/// What a connection runs over.
pub(super) trait Socket: Read + Write + Unpin + Send {}

impl<T: Read + Write + Unpin + Send> Socket for T {}

type Wire = http1::Connection<Box<dyn Socket>, Full<Bytes>>;

pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` once it has ended.
    wire: Option<Wire>,
    /// Any URI of its server.
    to: Uri,
    pub(super) host: HeaderValue,
    /// Whether a proxy of plain HTTP is at its other end, which must be told the whole URI.
    pub(super) proxied: bool,
    pub(super) opened: Instant,
    /// Up to a tenth, by lot.
    pub(super) lot: f32,
}

/// A request that got no response.
pub(super) struct Failed {
    pub(super) error: hyper::Error,
    /// The request, where nothing of it was sent.
    pub(super) unsent: Option<Request<Full<Bytes>>>,
}

impl Connection {
    pub(super) async fn begin(
        socket: Box<dyn Socket>,
        to: Uri,
        proxied: bool,
    ) -> Result<Box<Connection>, hyper::Error> {
        let (sender, wire) = http1::handshake(socket).await?;
        let host = host_of(&to);
        let lot = (RandomState::new().hash_one(host.as_bytes()) % 1000) as f32 / 10_000.0;
        let opened = Instant::now();
        Ok(Box::new(Connection { sender, wire: Some(wire), to, host, proxied, opened, lot }))
    }

    /// Whether it goes to the server that `uri` names.
    pub(super) fn serves(&self, uri: &Uri) -> bool {
        let ours = self.to.authority().map(Authority::as_str);
        self.to.scheme() == uri.scheme() && ours == uri.authority().map(Authority::as_str)
    }

    /// Whether it waits for a request.
    pub(super) fn is_ready(&self) -> bool {
        self.wire.is_some() && self.sender.is_ready()
    }

    /// Reads and writes what there is to read and write.
    fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(wire) = &mut self.wire
            && Pin::new(wire).poll(context).is_ready()
        {
            self.wire = None;
        }
    }

    /// Sends a request and awaits the head of its response.
    pub(super) async fn exchange(
        mut self: Box<Self>,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Box<Connection>), Failed> {
        // The response comes by what is driven here: it needs no waker of its own, and no part of the task's budget, for
        // whose sake alone it would wait.
        let response = tokio::task::unconstrained(self.sender.try_send_request(request));
        let mut response = pin!(response);
        let answered = poll_fn(|context| {
            self.drive(context);
            response.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        });
        match answered.await {
            Ok(response) => Ok((response, self)),
            Err(mut failed) => Err(Failed { unsent: failed.take_message(), error: failed.into_error() }),
        }
    }
}

/// The body of a response. Read to its end it gives the connection back to the pool.
pub struct Body {
    incoming: Incoming,
    /// Until the end of the body.
    held: Option<(Box<Connection>, Arc<Pool>)>,
}

impl Body {
    pub(super) fn new(incoming: Incoming, connection: Box<Connection>, pool: &Arc<Pool>) -> Body {
        let mut body = Body { incoming, held: Some((connection, pool.clone())) };
        if body.incoming.is_end_stream() {
            body.give_back();
        }
        body
    }

    fn give_back(&mut self) {
        if let Some((connection, pool)) = self.held.take() {
            pool.give(connection);
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some((connection, _)) = &mut self.held {
            connection.drive(context);
        }
        // As with the head: it comes by what was just driven.
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(&mut Context::from_waker(Waker::noop())));
        match &frame {
            Some(Ok(_)) if !self.incoming.is_end_stream() => {}
            Some(Ok(_)) | None => self.give_back(),
            Some(Err(_)) => self.held = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
