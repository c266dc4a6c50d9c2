//! A session's GET stream: what belongs to no POST, from the session's queue into the stream's log and out. Also the one
//! stream of HTTP+SSE, which has no log.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::follow::Frame;
use super::outlet::{KEEP_PART, Stored, log_key};
use super::{LiveSession, random_text};

/// Events that are read from a log at once.
const PAGE: u32 = 64;

/// An open GET stream. While it is the newest of its session, the session's messages go to it.
pub struct Listener {
    session: Arc<LiveSession>,
    /// `None`: without a log, hence without event ids.
    name: Option<Arc<str>>,
    seat: u64,
    /// The number of the last event that was given.
    at: u64,
    read: VecDeque<(u64, Bytes)>,
    /// Whether the log holds what the client has not seen.
    behind: bool,
    /// It is to end where it stands.
    until: CancellationToken,
}

impl LiveSession {
    /// A new GET stream of Streamable HTTP.
    pub fn listen(self: &Arc<Self>) -> Listener {
        let name: Arc<str> = format!("g{}", random_text::<6>()).into();
        self.streams.note_log(&name, self.shared.settings.backlog_life);
        Listener::new(self.clone(), Some(name))
    }

    /// The stream of HTTP+SSE.
    pub fn listen_without_ids(self: &Arc<Self>) -> Listener {
        Listener::new(self.clone(), None)
    }
}

impl Listener {
    fn new(session: Arc<LiveSession>, name: Option<Arc<str>>) -> Listener {
        let seat = session.queue.sit();
        let until = CancellationToken::new();
        Listener { session, name, seat, at: 0, read: VecDeque::new(), behind: false, until }
    }

    /// The stream goes on after this event.
    pub(super) fn again(session: Arc<LiveSession>, name: Arc<str>, at: u64) -> Listener {
        let mut listener = Listener::new(session, Some(name));
        (listener.at, listener.behind) = (at, true);
        listener
    }

    /// As [`Follower::priming_id`](super::Follower::priming_id); `None` for HTTP+SSE.
    pub fn priming_id(&self) -> Option<String> {
        self.name.as_ref().map(|name| self.session.event_id(name, self.at))
    }

    pub fn session(&self) -> &Arc<LiveSession> {
        &self.session
    }

    /// Ends the stream once the token says so, after what waits for it and between two messages: to drop it in the middle
    /// of one could give that one to the next stream again.
    pub fn until(mut self, until: CancellationToken) -> Listener {
        self.until = until;
        self
    }

    pub fn into_stream(self) -> BoxStream<'static, Frame> {
        stream::unfold(self, |mut listener| async move {
            let frame = listener.next().await?;
            Some((frame, listener))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((number, message)) = self.read.pop_front() {
                self.at = number;
                return Some(self.frame(Some(number), message));
            }
            if !std::mem::take(&mut self.behind) {
                break;
            }
            if let Some(frame) = self.read_log().await {
                return Some(frame);
            }
        }
        let session = self.session.clone();
        let mut keep = tokio::time::interval(session.shared.settings.backlog_life / KEEP_PART);
        keep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        keep.reset();
        let taken = loop {
            tokio::select! {
                biased;
                taken = session.queue.next(self.seat) => break taken?,
                () = session.ended().cancelled() => return None,
                () = self.until.cancelled() => return None,
                _ = keep.tick() => {
                    // An idle stream's log must not expire under the client's last id.
                    if let (Some(name), true) = (&self.name, self.at > 0) {
                        session.keep_log(name).await;
                    }
                }
            }
        };
        let message = taken.text();
        let number = match &self.name {
            Some(name) => {
                let event = Stored { message: Some(message.clone()), last: false };
                session.log(name, &event).await.ok()?
            }
            None => None,
        };
        taken.done();
        self.at = number.unwrap_or(self.at);
        Some(self.frame(number, message))
    }

    async fn read_log(&mut self) -> Option<Frame> {
        let name = self.name.as_ref()?;
        let key = log_key(self.session.session_id(), name);
        let events = self.session.shared.store.events(key, self.at, PAGE).await.ok().flatten();
        let Some(events) = events else {
            // Nothing was ever sent on it, or what was is out of reach.
            return (self.at > 0).then_some(Frame::Trimmed);
        };
        if !events.whole {
            self.at = events.list.first().map_or(events.last, |(first, _)| first - 1);
        }
        self.behind = events.list.last().is_some_and(|(last, _)| *last < events.last);
        let messages = events
            .list
            .into_iter()
            .filter_map(|(number, event)| Stored::read(&event).message.map(|message| (number, message)));
        self.read.extend(messages);
        (!events.whole).then_some(Frame::Trimmed)
    }

    fn frame(&self, number: Option<u64>, message: Bytes) -> Frame {
        let id = self.name.as_ref().zip(number).map(|(name, number)| self.session.event_id(name, number));
        Frame::Message { id, message }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.session.streams.note_log(name, self.session.shared.settings.backlog_life);
        }
        self.session.queue.leave(self.seat);
    }
}
