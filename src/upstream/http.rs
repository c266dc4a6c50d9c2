//! Streamable HTTP, both eras: a POST a message, answered by one JSON body or a stream of events. The hot path of the
//! gateway: the answer's body is collected once, scanned once and passed on as a slice of itself.

mod body;
mod events;
mod exchange;
mod giveup;
mod jar;
mod posts;
mod strays;

use super::client::HttpClient;
use super::transport::{Answered, Incoming, Outgoing, Route, Sent, Transport, TransportError};
use bytes::Bytes;
use exchange::Exchange;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use giveup::GiveUp;
use std::sync::Arc;

/// An upstream's address and how it is spoken to.
#[derive(Clone, Debug)]
pub struct HttpConfig {
    pub url: http::Uri,
    /// Sent with every request: the configuration's own headers, credentials among them.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// Keeps the upstream's cookies and sends them back, for load balancers that pin by cookie. One jar for all
    /// callers: not for upstreams that log in by cookie.
    pub cookies: bool,
    /// Bytes of one message of the upstream, or of one event.
    pub limit: usize,
}

/// The largest message of an upstream unless configured otherwise (PROTOCOL, *Eras*).
pub const MESSAGE_LIMIT: usize = 16 << 20;

/// An MCP endpoint over Streamable HTTP. Cheap to share: it holds no session and no caller.
pub struct Http {
    exchange: Arc<Exchange>,
}

impl Http {
    pub fn new(client: HttpClient, config: HttpConfig) -> Http {
        Http { exchange: Arc::new(Exchange::new(client, config)) }
    }
}

impl Transport for Http {
    fn request(&self, route: Route, request: Outgoing) -> Sent<Answered> {
        Exchange::request(GiveUp::watch(self.exchange.clone(), route, request)).boxed()
    }

    fn resume(&self, route: Route, request: Outgoing, after: Bytes) -> Sent<Answered> {
        self.exchange.clone().resume(route, request, after).boxed()
    }

    fn send(&self, route: Route, message: Bytes) -> Sent<()> {
        self.exchange.clone().send(route, message).boxed()
    }

    fn standing(
        &self,
        route: Route,
        after: Option<Bytes>,
    ) -> Sent<Option<BoxStream<'static, Result<Incoming, TransportError>>>> {
        self.exchange.clone().standing(route, after).boxed()
    }

    fn close(&self, route: Route) -> Sent<()> {
        self.exchange.clone().close(route).boxed()
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        std::future::pending().boxed()
    }
}
