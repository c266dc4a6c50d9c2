//! The way of a session's own messages to its newest GET stream, where that is open on another pod: appended to the
//! stream's log, where that pod finds them, or sent to it by letter where the stream has none.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::LiveSession;
use super::letter::Letter;
use super::outlet::{Refused, Stored};
use super::places::{Lead, Place};
use super::writers::News;
use crate::mcp::StoreAway;

/// The pause before a message is tried again that the store did not take.
const AGAIN: Duration = Duration::from_millis(500);

/// What became of a message.
enum Handed {
    /// That pod has it, or its stream's log.
    Over,
    /// The stream is there no more.
    Moved,
    /// The store is away, or that pod takes no more letters for now.
    Away,
    /// The session has ended.
    Ended,
}

impl LiveSession {
    /// A notification for the session's newest GET stream, on whichever pod. If too many wait, the oldest are lost.
    pub fn tell(self: &Arc<Self>, message: Bytes) {
        self.queue.push(message, false);
        self.route();
    }

    /// Whether it is known where the session's streams are open, if any is. Error: the store is away, and with it whatever
    /// is to be told on a stream elsewhere.
    pub async fn reach(self: &Arc<Self>) -> Result<(), StoreAway> {
        if self.queue.lead() == Lead::Nobody { self.look().await } else { Ok(()) }
    }

    /// A request or an answer for the session's newest GET stream, on whichever pod. False: no stream is open, and none
    /// takes it. Where too much waits unread, the streams end.
    pub async fn put(self: &Arc<Self>, message: Bytes) -> bool {
        // With the store away, what is known here has to do.
        let _ = self.reach().await;
        if self.queue.lead() == Lead::Nobody {
            return false;
        }
        let kept = self.queue.push(message, true);
        self.route();
        kept
    }

    /// A message that another pod sent here, for a stream that it believes to be the newest.
    pub(super) fn forwarded(self: &Arc<Self>, message: Bytes, must: bool) {
        self.queue.push(message, must);
        self.route();
    }

    /// Sees to it that what waits here for a stream elsewhere goes there.
    pub(super) fn route(self: &Arc<Self>) {
        if !self.queue.waits_for_others() || !self.routing.begin() {
            return;
        }
        let session = self.clone();
        self.shared.tasks.spawn(async move {
            loop {
                session.hand_over_all().await;
                if session.routing.is_over() {
                    return;
                }
            }
        });
    }

    async fn hand_over_all(self: &Arc<Self>) {
        if self.queue.lead() == Lead::Nobody {
            // What nobody has told us of yet. Who opens one later is told of, for the record is watched from here on.
            let _ = self.look().await;
        }
        while let Some((taken, place)) = self.queue.next_elsewhere() {
            match self.hand_over(&place, taken.text(), taken.must()).await {
                Handed::Over => taken.done(),
                Handed::Ended => return,
                Handed::Moved => {
                    drop(taken);
                    if self.look_again().await.is_err() {
                        self.rest().await;
                    }
                }
                Handed::Away => {
                    drop(taken);
                    self.rest().await;
                }
            }
            if self.ended().is_cancelled() {
                return;
            }
        }
    }

    async fn hand_over(self: &Arc<Self>, place: &Place, message: Bytes, must: bool) -> Handed {
        let (session, stream) = (self.session_id().0.clone(), place.stream.clone());
        let news = Letter::News { session: session.clone(), stream, news: News::More };
        let letter = Letter::Message { session, must, text: message.clone() };
        if has_log(&place.stream) {
            // Whether the pod lives is asked before, so that nothing is left with a stream that nobody reads.
            match self.shared.mail(&place.pod, &news).await {
                Ok(true) => {}
                Ok(false) => return self.gone(place).await,
                Err(_) => return Handed::Away,
            }
            let event = Stored { message: Some(message), last: false };
            match self.append(&place.stream, &event, Some(self.still_there(place))).await {
                Ok(Some(_)) => {
                    // Where it cannot be put, the stream's log is read at its next message.
                    let _ = self.shared.mail(&place.pod, &news).await;
                    return Handed::Over;
                }
                // More than may be kept: it goes without an id.
                Ok(None) => {}
                Err(Refused::Moved) => return Handed::Moved,
                Err(Refused::Ended) => return Handed::Ended,
            }
        }
        match self.shared.mail(&place.pod, &letter).await {
            Ok(true) => Handed::Over,
            Ok(false) => self.gone(place).await,
            Err(_) => Handed::Away,
        }
    }

    async fn gone(self: &Arc<Self>, place: &Place) -> Handed {
        tracing::debug!(pod = %place.pod, "a stream went with its pod");
        self.bury(place).await;
        Handed::Moved
    }

    async fn rest(&self) {
        let _ = timeout(AGAIN, self.ended().cancelled()).await;
    }
}

/// Streams of HTTP+SSE have none: see `listen`.
pub(super) fn has_log(stream: &str) -> bool {
    stream.starts_with('g')
}
