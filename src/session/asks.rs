//! Requests that we send to a session's client, and the way of their answers. An id is sealed: it opens in its session
//! and for its principal alone, until it expires. It names the pod that asked: that pod alone takes the answer, so it
//! counts once, wherever it comes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::facts::now;
use super::letter::Letter;
use super::outlet::Outlet;
use super::post::Unsaid;
use super::{LiveSession, lock};
use crate::mcp::Fault;
use crate::sealing::Purpose;
use crate::store::PodId;
use crate::wire::{Id, Raw, Response};

type Answer = oneshot::Sender<Result<Raw, Fault>>;
pub(super) type Number = [u8; 16];
/// An id of ours is far shorter; longer ones are not worth opening.
const LONGEST_ID: usize = 256;

#[derive(Default)]
pub(super) struct Asks {
    pending: Mutex<HashMap<Number, Answer>>,
}

impl Asks {
    pub(super) fn refuse_all(&self) {
        // A dropped answer refuses.
        lock(&self.pending).clear();
    }

    /// An answer that came for a request of this pod. False: nothing waits for it, or not any more.
    pub(super) fn answer(&self, number: &Number, outcome: Result<Bytes, Bytes>) -> bool {
        let Some(answer) = lock(&self.pending).remove(number) else { return false };
        let outcome = outcome.map(Raw::trusted).map_err(|error| Fault::Upstream(Raw::trusted(error)));
        // Who asked may have given up meanwhile; the client did its part.
        let _ = answer.send(outcome);
        true
    }
}

/// A request that waits for its answer. Dropping it refuses, and whatever comes later is unknown.
pub struct Asking {
    session: Arc<LiveSession>,
    number: Number,
    id: Id,
}

/// What became of a client's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    Delivered,
    /// Not an id of ours for this session and principal, expired, or answered before: 400.
    Unknown,
    /// The pod that asked is gone, and its call with it: 400.
    Lost,
    /// It could not be told to the pod that asked, or that does not say what became of it: 503.
    Away,
}

/// What the id of a request says.
struct Asked {
    number: Number,
    pod: PodId,
    /// The stream that the request was sent on, where it was the stream of a call.
    stream: Option<Arc<str>>,
}

impl LiveSession {
    /// The id to send a request under, whose answer goes to `answer` if it comes within `life`. `stream`: of the call
    /// that asks, where it has one of its own.
    pub fn ask(self: &Arc<Self>, answer: Answer, life: Duration, stream: Option<&Outlet>) -> Asking {
        let mut number = Number::default();
        aws_lc_rs::rand::fill(&mut number)
            .expect("the system's random source does not fail once it is seeded");
        let expires = now().saturating_add(life.as_millis() as u64);
        let stream = stream.map(|outlet| &**outlet.name()).unwrap_or_default();
        let from = format!("{} {stream}", self.shared.post.me);
        let plain = [&number[..], &expires.to_be_bytes(), from.as_bytes()].concat();
        let sealed = self.shared.keyring.seal(Purpose::RequestId, &self.bound(), &plain);
        lock(&self.asks.pending).insert(number, answer);
        // The session may have ended before the line above: then nobody refuses it but we.
        if self.ended().is_cancelled() {
            self.asks.refuse_all();
        }
        Asking { session: self.clone(), number, id: Id::of_str(&sealed) }
    }

    /// The client's answer to a request that some pod sent it. It has been taken there when this says so.
    pub async fn answer(&self, response: Response) -> Answered {
        let Some(asked) = response.id.as_ref().and_then(|id| self.opened(id)) else {
            return Answered::Unknown;
        };
        let outcome = response.outcome.map(|raw| raw.to_bytes()).map_err(|raw| raw.to_bytes());
        let taken = if asked.pod == self.shared.post.me {
            Ok(self.asks.answer(&asked.number, outcome))
        } else {
            let (session, number) = (self.session_id().0.clone(), asked.number);
            let letter = |reply| Letter::Answer { session, number, outcome, reply };
            self.shared.ask_pod(&asked.pod, letter).await
        };
        match taken {
            Ok(true) => Answered::Delivered,
            Ok(false) => Answered::Unknown,
            Err(Unsaid::Away) => Answered::Away,
            Err(Unsaid::Gone) => {
                tracing::debug!(pod = %asked.pod, stream = ?asked.stream, "a client answers a pod that is gone");
                Answered::Lost
            }
        }
    }

    fn opened(&self, id: &Id) -> Option<Asked> {
        let id = id.as_str().filter(|id| id.len() <= LONGEST_ID)?;
        let plain = self.shared.keyring.open(Purpose::RequestId, &self.bound(), &id).ok()?;
        let (number, rest) = plain.split_first_chunk()?;
        let (expires, from) = rest.split_first_chunk()?;
        let (pod, stream) = std::str::from_utf8(from).ok()?.split_once(' ')?;
        let stream = (!stream.is_empty()).then(|| stream.into());
        let asked = Asked { number: *number, pod: PodId::named(pod), stream };
        (u64::from_be_bytes(*expires) > now()).then_some(asked)
    }
}

impl Asking {
    /// A JSON string.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Whether nothing waits any more: answered, or refused.
    pub fn is_over(&self) -> bool {
        lock(&self.session.asks.pending).get(&self.number).is_none_or(oneshot::Sender::is_closed)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        lock(&self.session.asks.pending).remove(&self.number);
    }
}
