//! One way to reach an upstream server. A transport moves messages and knows nothing of eras, lists or health.

use super::client::ClientError;
use super::credentials::{Bearer, Lack};
use super::introduction::{Agreed, Introduction};
use crate::mcp::Trail;
use crate::wire::{Id, Message, Method, Raw, Version};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use tokio::time::Instant;

/// The id that a legacy upstream gave its session. Not to be confused with a session of ours.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct UpstreamSessionId(pub Arc<str>);

impl fmt::Debug for UpstreamSessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.0.get(..6).unwrap_or_default())
    }
}

/// On whose behalf, and as what, a message goes upstream.
#[derive(Clone, Debug)]
pub struct Route {
    /// The version of this hop, which is the upstream's and not the client's. `None` before it is negotiated.
    pub version: Option<Version>,
    pub session: Option<UpstreamSessionId>,
    /// Whose call it is ([`mcp::Session::key`](crate::mcp::Session::key)): asks that name no call go to the only one in flight.
    pub who: Arc<str>,
    /// Headers of this caller and call: `Mcp-Param-*`, and what the configuration forwards. For transports that have headers.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// The credential of whoever it is sent for; `None`: it bears none but what the configuration gives to all.
    pub bearer: Option<Bearer>,
}

/// A request of ours.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Unique in this process, with a random prefix of it.
    pub id: Id,
    pub method: Method,
    pub params: Raw,
    /// What `Mcp-Name` carries, which the modern era alone has, where the method has it: the name, URI or task id as the upstream
    /// knows it.
    pub name: Option<Arc<str>>,
    /// The progress token in `params`, where there is one: ours, unique like the id.
    pub progress: Option<Bytes>,
    /// Where the event ids of the answer are noted, where anyone may go on with its stream elsewhere.
    pub trail: Option<Arc<Trail>>,
    pub deadline: Instant,
}

/// A message of the upstream, with the id of the event that it came in, where it came in one.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub message: Message,
    pub at: Option<Bytes>,
}

/// What comes back for a request: in order, its response last, always. A stream that ends sooner gives `Broken`.
/// Dropping it gives the request up; the transport then tells the upstream in its way (closes the exchange, or sends
/// `notifications/cancelled` where the request is legacy or the channel is shared).
pub enum Answer {
    One(Incoming),
    Stream(BoxStream<'static, Result<Incoming, TransportError>>),
}

pub struct Answered {
    pub answer: Answer,
    /// The session that the upstream named in this answer (`Mcp-Session-Id`), where it did.
    pub session: Option<UpstreamSessionId>,
}

pub type Sent<T> = BoxFuture<'static, Result<T, TransportError>>;

pub trait Transport: Send + Sync + 'static {
    /// Sends a request. Fails before the answer's first byte, or gives the answer.
    fn request(&self, route: Route, request: Outgoing) -> Sent<Answered>;

    /// Goes on with the answer to a request that another process sent, after the event `after`: of `request` the id, the
    /// trail and the deadline count. Fails where the transport has no such streams, or the upstream knows no more of it.
    fn resume(&self, route: Route, request: Outgoing, after: Bytes) -> Sent<Answered> {
        drop((route, request, after));
        std::future::ready(Err(TransportError::Broken)).boxed()
    }

    /// Sends a notification, or the answer to a server request: a whole JSON-RPC message.
    fn send(&self, route: Route, message: Bytes) -> Sent<()>;

    /// The messages that belong to no request: the legacy GET stream, or what a shared channel brings besides
    /// answers. `after`: the last event id seen, where the upstream gave one. `Ok(None)`: it has no such stream (405, 501).
    fn standing(
        &self,
        route: Route,
        after: Option<Bytes>,
    ) -> Sent<Option<BoxStream<'static, Result<Incoming, TransportError>>>>;

    /// Ends the upstream's session (`DELETE`), where the transport has one. Once.
    fn close(&self, route: Route) -> Sent<()>;

    /// Resolves when the transport can carry nothing more (child gone, channel closed); never for plain HTTP.
    fn gone(&self) -> BoxFuture<'static, ()>;

    /// What was agreed with the upstream by whoever opened this channel, who opens it for the one introduced where
    /// nobody did. `None`: agreeing is the dialler's own, as it is on all transports that lead to the upstream itself.
    fn agreed(&self, _: Introduction) -> Sent<Option<Agreed>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// How a link comes by the transport that carries somebody's messages.
///
/// Plain HTTP gives the same transport to all. Shared channels (stdio children, HTTP+SSE) belong to somebody, start
/// when first needed and end: whoever dialled before dials again once `gone()` resolves, and until then gets the same
/// `Arc`, so that what was negotiated on a channel can be kept under its address.
pub trait Dial: Send + Sync + 'static {
    /// The transport of `who`: those with one key share one channel, so it must hold all that may not be shared
    /// (profile, principal, credential, declared capabilities). Errors: [`Unreachable`](TransportError::Unreachable)
    /// where it does not start or started too often of late, [`Busy`](TransportError::Busy) where no more may start.
    fn dial(&self, who: &str) -> Sent<Arc<dyn Transport>>;

    /// Ends all channels and what stands behind them; resolves when that is done. Later dials are refused.
    fn hang_up(&self) -> BoxFuture<'static, ()>;
}

/// What went wrong on the way.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransportError {
    #[error("not reachable: {0}")]
    Unreachable(Cow<'static, str>),
    /// HTTP status other than success, with the JSON-RPC error in its body where there was one.
    #[error("refused with status {status}")]
    Refused { status: u16, error: Option<Raw> },
    /// A legacy session that the upstream does not know (any more): 404 on a request with a session id.
    #[error("the upstream does not know the session")]
    SessionGone,
    #[error("no answer in time")]
    Timeout,
    #[error("not MCP: {0}")]
    Garbage(Cow<'static, str>),
    #[error("a message of more than {0} bytes")]
    TooLarge(usize),
    /// The connection ended after the request was sent and before its answer was whole.
    #[error("broke off before the answer")]
    Broken,
    /// The upstream closed the stream of an answer before its end, and said when to ask for the rest. Alone among these it
    /// is no end: the stream goes on with the rest.
    #[error("closed in mid-call, to be resumed")]
    Paused,
    /// Bulkhead or queue full: nothing was sent.
    #[error("too many calls at once")]
    Busy,
    /// It needs a credential, and there is none that helps. Nothing of it was done.
    #[error("{0}")]
    Credential(Lack),
    /// Whose the channel is cannot be looked up: the store is away. Nothing was sent.
    #[error("the state store is out of reach")]
    StoreAway,
}

impl From<ClientError> for TransportError {
    fn from(error: ClientError) -> TransportError {
        match error {
            ClientError::Connect(why) => TransportError::Unreachable(why.to_string().into()),
            ClientError::Broken(_) => TransportError::Broken,
        }
    }
}

impl TransportError {
    /// Whether the request cannot have begun upstream, so that sending it again is safe whatever it does, and worth while:
    /// a store that is away was waited for.
    pub fn surely_not_begun(&self) -> bool {
        matches!(self, TransportError::Unreachable(_) | TransportError::SessionGone | TransportError::Busy)
    }
}
