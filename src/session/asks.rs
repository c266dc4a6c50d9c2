//! Requests that we send to a session's client, and the way of their answers. An id is sealed: it opens in its session
//! and for its principal alone, until it expires, and counts once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use super::facts::now;
use super::{LiveSession, lock};
use crate::mcp::Fault;
use crate::sealing::Purpose;
use crate::wire::{Id, Raw, Response};

type Answer = oneshot::Sender<Result<Raw, Fault>>;
type Number = [u8; 16];
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
}

impl LiveSession {
    /// The id to send a request under, whose answer goes to `answer` if it comes within `life`.
    pub fn ask(self: &Arc<Self>, answer: Answer, life: Duration) -> Asking {
        let mut number = Number::default();
        aws_lc_rs::rand::fill(&mut number)
            .expect("the system's random source does not fail once it is seeded");
        let expires = now().saturating_add(life.as_millis() as u64);
        let plain = [&number[..], &expires.to_be_bytes()].concat();
        let sealed = self.shared.keyring.seal(Purpose::RequestId, &self.bound(), &plain);
        lock(&self.asks.pending).insert(number, answer);
        // The session may have ended before the line above: then nobody refuses it but we.
        if self.ended().is_cancelled() {
            self.asks.refuse_all();
        }
        Asking { session: self.clone(), number, id: Id::of_str(&sealed) }
    }

    /// The client's answer to a request of ours.
    pub fn answer(&self, response: Response) -> Answered {
        let answer = response.id.as_ref().and_then(|id| self.opened(id));
        let Some(answer) = answer.and_then(|number| lock(&self.asks.pending).remove(&number)) else {
            return Answered::Unknown;
        };
        // Who asked may have given up meanwhile; the client did its part.
        let _ = answer.send(response.outcome.map_err(Fault::Upstream));
        Answered::Delivered
    }

    fn opened(&self, id: &Id) -> Option<Number> {
        let id = id.as_str().filter(|id| id.len() <= LONGEST_ID)?;
        let plain = self.shared.keyring.open(Purpose::RequestId, &self.bound(), &id).ok()?;
        let (number, expires) = plain.split_first_chunk()?;
        (u64::from_be_bytes(expires.try_into().ok()?) > now()).then_some(*number)
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
