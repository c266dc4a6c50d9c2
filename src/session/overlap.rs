//! What two pods hear at the same time while a session's standing call moves from the one to the other: an upstream that
//! speaks to every listener tells both. The next pod keeps what it hears until the one before it has passed on its last, and
//! tells of it only what the client was not told since.

use std::sync::Arc;

use bytes::Bytes;

use super::LiveSession;
use super::outlet::{Stored, log_key};
use super::route::has_log;

/// Events of a log that are compared at most; what is not is told, perhaps twice.
const COMPARED: u32 = 256;

/// What was heard while it was another pod's turn to tell, in its order.
#[derive(Default)]
pub struct Overlap {
    heard: Vec<(Option<Mark>, Bytes)>,
}

/// How far the log of the newest stream was when something was heard.
#[derive(Clone, PartialEq, Eq)]
struct Mark {
    stream: Arc<str>,
    last: u64,
}

impl Overlap {
    /// Keeps a notification. Whatever the stream's log gets from now on is told to the client after it happened.
    pub async fn keep(&mut self, session: &LiveSession, message: Bytes) {
        let mark = session.mark().await;
        self.heard.push((mark, message));
    }

    pub fn len(&self) -> usize {
        self.heard.len()
    }

    pub fn is_empty(&self) -> bool {
        self.heard.is_empty()
    }

    /// What the client has not been told since it was heard. An equal notification that was told later tells as much, for
    /// it says that something has changed, and not what.
    pub async fn untold(self, session: &LiveSession) -> Vec<Bytes> {
        let Some(first) = self.heard.iter().find_map(|(mark, _)| mark.clone()) else {
            return self.heard.into_iter().map(|(_, message)| message).collect();
        };
        let key = log_key(session.session_id(), &first.stream);
        let told = session.shared.store.events(key, first.last, COMPARED).await.ok().flatten();
        let mut told: Vec<(u64, Bytes)> = told.map(|events| events.list).unwrap_or_default();
        let mut left = Vec::new();
        for (mark, message) in self.heard {
            let since = mark.filter(|mark| mark.stream == first.stream).map(|mark| mark.last);
            let again = since.and_then(|since| {
                told.iter().position(|(number, event)| {
                    *number > since && Stored::read(event).message.as_ref() == Some(&message)
                })
            });
            match again {
                Some(at) => drop(told.remove(at)),
                None => left.push(message),
            }
        }
        left
    }
}

impl LiveSession {
    /// `None` where that is not known, or no stream with a log is open here.
    async fn mark(&self) -> Option<Mark> {
        let stream = self.queue.newest().filter(|stream| has_log(stream))?;
        let key = log_key(self.session_id(), &stream);
        let last = self.shared.store.events(key, 0, 1).await.ok()?.map_or(0, |events| events.last);
        Some(Mark { stream, last })
    }
}
