//! One request on its way to a backend.

use super::{Caller, Trail, UpstreamId};
use crate::telemetry::Watch;
use crate::wire::Method;
use crate::wire::params::Params;
use crate::wire::raw::Raw;
use bytes::Bytes;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A request: params as they came (with the edits made on the way), and whose it is.
///
/// A standing stream is a call that does not end: its method is [`Method::Listen`] and its params hold the filter
/// of `subscriptions/listen`, whatever the client's era; the first event is the `acknowledged` note that names what
/// the backend honours.
#[derive(Clone)]
pub struct Call {
    pub caller: Arc<Caller>,
    pub method: Method,
    pub params: Params,
    /// The caller's progress token, its JSON type kept. A link sends a token of its own and gives this one back.
    pub progress: Option<Bytes>,
    /// This call continues one that ended in `InputRequired`.
    pub resume: Option<Arc<Resume>>,
    /// Where it is to be written how far the call has come upstream: of a call whose stream another pod may go on with.
    pub trail: Option<Arc<Trail>>,
    /// Explicit cancel; dropping the [`Reply`](super::Reply) cancels as well.
    pub cancel: Cancel,
    pub deadline: Instant,
    /// What is seen of it from outside. Of calls that no client made there is none.
    pub watch: Option<Arc<Watch>>,
}

/// What a multi-round retry brings back (2026-07-28 MRTR).
pub struct Resume {
    /// Who asked.
    pub upstream: UpstreamId,
    /// That upstream's own `requestState`, a JSON string, unsealed; `None` where it gave none.
    pub state: Option<Bytes>,
    /// `inputResponses` as they came.
    pub answers: Raw,
}

/// An explicit cancel of a call, where anyone can give one.
#[derive(Clone, Default)]
pub struct Cancel(Option<CancellationToken>);

impl Cancel {
    /// For calls that end with their reply alone.
    pub fn never() -> Cancel {
        Cancel(None)
    }

    /// The token of it; one that nobody cancels where nobody can.
    pub fn token(&self) -> CancellationToken {
        self.0.clone().unwrap_or_default()
    }

    /// What `future` gives; `None` where the call is cancelled before that.
    pub async fn unless<F: Future>(&self, mut future: Pin<&mut F>) -> Option<F::Output> {
        let mut cancelled = pin!(self.cancelled());
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(given) => Poll::Ready(Some(given)),
            Poll::Pending if self.0.is_none() => Poll::Pending,
            Poll::Pending => cancelled.as_mut().poll(context).map(|()| None),
        })
        .await
    }

    /// Resolves once the call is cancelled.
    pub async fn cancelled(&self) {
        match &self.0 {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    }
}

impl From<CancellationToken> for Cancel {
    fn from(token: CancellationToken) -> Cancel {
        Cancel(Some(token))
    }
}
