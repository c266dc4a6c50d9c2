//! What two pods hear at the same time while a session's standing call moves from the one to the other: an upstream that
//! speaks to every listener tells both. The next pod keeps what it hears until the one before it has passed on its last, and
//! tells of it only what the client was not told.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};

use super::LiveSession;
use super::outlet::{Stored, log_key};
use super::route::has_log;
use crate::wire::Method;

/// Events of a log that are compared at most; what is not is told, perhaps twice.
const COMPARED: u32 = 256;
/// So long after its turn has come a pod that is slow may still hear what the one before it has told.
const LATE: Duration = Duration::from_secs(2);
/// A store that is slower holds nothing up.
const PATIENCE: Duration = Duration::from_millis(500);

/// What was heard while it was another pod's turn to tell, in its order.
#[derive(Default)]
pub struct Overlap {
    /// How far the log was before this pod's call was made.
    begun: Option<Mark>,
    heard: Vec<(Option<Mark>, Bytes)>,
    /// What the pods before this one told since then and was not heard here yet, by its number in the log; until when.
    told: Vec<(u64, Bytes)>,
    late: Option<Instant>,
}

/// How far the log of the newest stream was.
#[derive(Clone, PartialEq, Eq)]
struct Mark {
    stream: Arc<str>,
    last: u64,
}

impl Overlap {
    /// Of a standing call that is about to be made.
    pub async fn begin(session: &LiveSession) -> Overlap {
        Overlap { begun: session.mark().await, ..Overlap::default() }
    }

    /// Keeps a notification. Whatever the stream's log gets from now on is told to the client after it happened.
    pub async fn keep(&mut self, session: &LiveSession, message: Bytes) {
        let mark = match self.begun {
            Some(_) if what_it_says(&message) == Says::Changed => session.mark().await,
            _ => None,
        };
        self.heard.push((mark, message));
    }

    pub fn len(&self) -> usize {
        self.heard.len()
    }

    /// After [`Overlap::turn`]: whether anything may still be heard that was told.
    pub fn is_of_use(&self) -> bool {
        !self.told.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.heard.is_empty()
    }

    /// It is this pod's turn: what the client has not been told of what was heard. One that says no more than what changed
    /// counts as told where an equal one was told after it was heard: the client has looked since. One that says more is
    /// the same as an equal one, whichever pod was quicker.
    pub async fn turn(&mut self, session: &LiveSession) -> Vec<Bytes> {
        let heard = std::mem::take(&mut self.heard);
        let Some(begun) = &self.begun else { return heard.into_iter().map(|(_, message)| message).collect() };
        let key = log_key(session.session_id(), &begun.stream);
        let told = session.shared.store.events(key, begun.last, COMPARED).await.ok().flatten();
        let told = told.map(|events| events.list).unwrap_or_default().into_iter();
        let mut told: Vec<_> =
            told.filter_map(|(number, event)| Some((number, Stored::read(&event).message?))).collect();
        let mut left = Vec::new();
        for (mark, message) in heard {
            let since = match mark {
                Some(mark) => (mark.stream == begun.stream).then_some(mark.last),
                None => (what_it_says(&message) == Says::More).then_some(begun.last),
            };
            let again = since
                .and_then(|since| told.iter().position(|(number, told)| *number > since && *told == message));
            match again {
                Some(at) => drop(told.remove(at)),
                None => left.push(message),
            }
        }
        told.retain(|(_, message)| what_it_says(message) == Says::More);
        (self.told, self.late) = (told, Some(Instant::now() + LATE));
        left
    }

    /// Whether the pod before this one told the client of this very thing, which is heard here after its turn has come.
    pub fn was_told(&mut self, message: &Bytes) -> bool {
        if self.told.is_empty() {
            return false;
        }
        if self.late.is_none_or(|late| Instant::now() > late) {
            self.told = Vec::new();
            return false;
        }
        let again = self.told.iter().position(|(_, told)| told == message);
        again.map(|at| self.told.remove(at)).is_some()
    }
}

/// What two equal notifications have in common.
#[derive(PartialEq, Eq)]
enum Says {
    /// That a list or a resource has changed: who looks after the later one has seen both changes.
    Changed,
    /// More than that: then they are one.
    More,
    /// Anything else, a log message: nothing.
    Other,
}

fn what_it_says(message: &Bytes) -> Says {
    let Ok(message) = serde_json::from_slice::<Value>(message) else { return Says::Other };
    let method = message["method"].as_str().unwrap_or_default();
    if method != Method::ResourceUpdated.as_str() && !method.ends_with("/list_changed") {
        return Says::Other;
    }
    let empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    let params = message["params"].as_object();
    match params.is_some_and(|params| params.iter().any(|(name, value)| name != "uri" && !empty(value))) {
        true => Says::More,
        false => Says::Changed,
    }
}

impl LiveSession {
    /// `None` where that is not known, or no stream with a log is open here.
    async fn mark(&self) -> Option<Mark> {
        let stream = self.queue.newest().filter(|stream| has_log(stream))?;
        let key = log_key(self.session_id(), &stream);
        let events = timeout(PATIENCE, self.shared.store.events(key, 0, 1)).await.ok()?.ok()?;
        let last = events.map_or(0, |events| events.last);
        Some(Mark { stream, last })
    }
}
