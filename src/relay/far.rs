//! A channel that another pod has, as a transport: each request is one of HTTP to that pod, and its answer streams back.
//! Dropping the answer closes that connection, which gives the request up over there.

use super::frames::{Frame, Frames, SentIntroduction};
use super::lease::Lease;
use super::seal::{self, PATH, SentRoute, Want};
use super::{Arc, Relay};
use crate::telemetry::metrics;
use crate::upstream::introduction::{Agreed, Introduction};
use crate::upstream::transport::{
    Answer, Answered, Incoming, Outgoing, Route, Sent, Transport, TransportError,
};
use crate::wire::{Message, Method};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{Request, StatusCode};
use http_body_util::StreamBody;
use hyper::body;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Pods are near one another.
const CONNECT: Duration = Duration::from_secs(2);
/// A pod says that it has taken a request as soon as it has read it.
const TAKEN: Duration = Duration::from_secs(10);
/// Shorter than the time after which the other pod closes idle connections.
const IDLE: Duration = Duration::from_secs(30);
/// The owner's clock ends a request at its deadline; this pod's ends it where the owner fails to.
const GRACE: Duration = Duration::from_secs(2);
/// The longest that a message without an answer may wait over there.
const SENDING: Duration = Duration::from_secs(35);

/// The sealed head and the message, neither copied.
type Content = StreamBody<stream::Iter<std::array::IntoIter<Result<body::Frame<Bytes>, Infallible>, 2>>>;
pub(super) type Client = hyper_util::client::legacy::Client<HttpConnector, Content>;

pub(super) fn client() -> Client {
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(tcp)
}

/// What the end of the way to another pod says of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// It has no such channel, by its own word or because the process is no more: whoever wants it may have it.
    Gone,
    /// The channel or the way broke off: to be tried again.
    Broken,
    /// The pod cannot be reached, and may live: its lease must end first.
    Silent,
}

pub(super) struct Far {
    core: Arc<Core>,
}

struct Core {
    relay: Arc<Relay>,
    lease: Lease,
    /// Whose channel it is, as links name it.
    owner: Arc<str>,
    gone: CancellationToken,
    lost: OnceLock<Lost>,
    used: Mutex<Instant>,
}

impl Far {
    pub(super) fn new(relay: Arc<Relay>, lease: Lease, owner: Arc<str>) -> Far {
        let (gone, lost) = (CancellationToken::new(), OnceLock::new());
        Far { core: Arc::new(Core { relay, lease, owner, gone, lost, used: Mutex::new(Instant::now()) }) }
    }

    pub(super) fn lease(&self) -> &Lease {
        &self.core.lease
    }

    /// Why it can no longer be used; `None` while it can.
    pub(super) fn lost(&self) -> Option<Lost> {
        self.core.lost.get().copied()
    }

    pub(super) fn used(&self) -> Instant {
        *self.core.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is no longer needed.
    pub(super) fn end(&self) {
        self.core.end(Lost::Broken);
    }
}

impl Core {
    fn end(&self, lost: Lost) {
        let _ = self.lost.set(lost);
        self.gone.cancel();
    }

    /// Takes note of what an error says of the channel.
    fn note(&self, error: &TransportError) {
        match error {
            TransportError::Unreachable(_) => self.end(Lost::Gone),
            TransportError::Broken => self.end(Lost::Broken),
            _ => {}
        }
    }

    /// Sends a want; gives what is answered. Errors: it was not taken, or it is not known whether it was (`Broken`).
    async fn post(&self, want: Want, body: Bytes, within: Instant) -> Result<Frames, TransportError> {
        let settings = &self.relay.settings;
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut head = seal::seal(&settings.keyring, &self.lease.pod, &self.lease.name, want, &body);
        head.push('\n');
        let frames = [head.into(), body].map(|bytes| Ok(body::Frame::data(bytes)));
        let request = Request::post(format!("http://{}{PATH}", self.lease.address))
            .body(StreamBody::new(stream::iter(frames)));
        let Ok(request) = request else {
            self.end(Lost::Silent);
            return Err(TransportError::Unreachable("the pod that has it named no address".into()));
        };
        let taken = timeout_at(within.min(Instant::now() + TAKEN), self.relay.client.request(request)).await;
        let response = match taken {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_connect() => {
                let lost = if was_refused(&error) { Lost::Gone } else { Lost::Silent };
                tracing::debug!(pod = %self.lease.pod, ?lost, "the pod that has a channel is not reached");
                self.end(lost);
                return Err(TransportError::Unreachable("the pod that has it is not reached".into()));
            }
            Ok(Err(_)) => {
                self.end(Lost::Broken);
                return Err(TransportError::Broken);
            }
            Err(_) => {
                self.end(Lost::Silent);
                return Err(TransportError::Broken);
            }
        };
        match response.status() {
            StatusCode::OK => {
                metrics().relayed.with_label_values(&["sent"]).inc();
                Ok(Frames::new(response.into_body(), settings.message))
            }
            StatusCode::GONE | StatusCode::MISDIRECTED_REQUEST => {
                self.end(Lost::Gone);
                Err(TransportError::Unreachable("the pod that had it has it no more".into()))
            }
            StatusCode::SERVICE_UNAVAILABLE => Err(TransportError::Busy),
            status => {
                tracing::warn!(pod = %self.lease.pod, %status, "another pod does not take what is its to do");
                self.end(Lost::Silent);
                Err(TransportError::Unreachable("the pod that has it does not take it".into()))
            }
        }
    }
}

/// Nobody listens at the address: the process is no more.
fn was_refused(error: &hyper_util::client::legacy::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        if kind == Some(io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = error.source();
    }
    false
}

impl Transport for Far {
    fn request(&self, route: Route, request: Outgoing) -> Sent<Answered> {
        let core = self.core.clone();
        Box::pin(async move {
            let within = request.deadline + GRACE;
            let want = Want::request(&route, &request);
            let mut frames = core.post(want, request.params.to_bytes(), within).await?;
            let first = timeout_at(within, frames.message()).await.unwrap_or(Err(TransportError::Timeout));
            let first = first.inspect_err(|error| core.note(error))?;
            let answer = match first.message {
                Message::Response(_) => Answer::One(first),
                _ => {
                    // A subscription outlives the deadline of its acknowledgement.
                    let within = (request.method != Method::Listen).then_some(within);
                    let rest = core.noting(frames.rest(within));
                    Answer::Stream(stream::iter([Ok(first)]).chain(rest).boxed())
                }
            };
            Ok(Answered { answer, session: None })
        })
    }

    fn send(&self, route: Route, message: Bytes) -> Sent<()> {
        let core = self.core.clone();
        Box::pin(async move {
            let want = Want::Send { route: SentRoute::of(&route) };
            let within = Instant::now() + SENDING;
            let mut frames = core.post(want, message, within).await?;
            let sent = timeout_at(within, frames.next()).await.unwrap_or(Err(TransportError::Timeout));
            sent.inspect_err(|error| core.note(error)).map(drop)
        })
    }

    /// From now on, as on any channel: nothing is replayed.
    fn standing(
        &self,
        route: Route,
        _: Option<Bytes>,
    ) -> Sent<Option<BoxStream<'static, Result<Incoming, TransportError>>>> {
        let core = self.core.clone();
        Box::pin(async move {
            let want = Want::Standing { route: SentRoute::of(&route) };
            let within = Instant::now() + SENDING;
            let mut frames = core.post(want, Bytes::new(), within).await?;
            let begun = timeout_at(within, frames.next()).await.unwrap_or(Err(TransportError::Timeout));
            begun.inspect_err(|error| core.note(error))?;
            Ok(Some(core.noting(frames.rest(None)).boxed()))
        })
    }

    /// A channel has no session but itself, and it is its owner's to end.
    fn close(&self, _: Route) -> Sent<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.core.gone.clone().cancelled_owned())
    }

    fn agreed(&self, introduction: Introduction) -> Sent<Option<Agreed>> {
        let core = self.core.clone();
        Box::pin(async move {
            let body = SentIntroduction::write(&core.owner, &introduction);
            // How long opening may take is the owner's to know; that it lives, its beats tell.
            let within = Instant::now() + TAKEN;
            let mut frames = core.post(Want::Agreed, body, within).await?;
            match frames.next().await.inspect_err(|error| core.note(error))? {
                Frame::Agreed(agreed) => Ok(Some(agreed)),
                _ => Err(TransportError::Garbage("another pod speaks otherwise".into())),
            }
        })
    }
}

impl Core {
    fn noting(
        self: Arc<Self>,
        items: impl stream::Stream<Item = Result<Incoming, TransportError>> + Send + 'static,
    ) -> impl stream::Stream<Item = Result<Incoming, TransportError>> + Send + 'static {
        items.inspect(move |item| {
            if let Err(error) = item {
                self.note(error);
            }
        })
    }
}
