//! The reading end of a stream: from any event of it to its end, out of the log and then as it is written. The reader
//! pulls; what it is too slow for waits in the log.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use tokio::sync::broadcast::{self, error::RecvError};

use super::LiveSession;
use super::listen::Listener;
use super::outlet::{Fed, Sent, Stored, log_key};
use crate::sealing::Purpose;

/// Events that are read from a log at once.
const PAGE: u32 = 64;
/// An event id of ours is far shorter; longer ones are not worth opening.
const LONGEST_ID: usize = 256;

/// What a reader of a stream gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message, with the id of its event where the client may resume after it.
    Message { id: Option<String>, message: Bytes },
    /// Events between the asked one and the next have been trimmed, or have expired. The next are sent after this.
    Trimmed,
    /// Whoever wrote the stream is gone before its end: nothing more will come.
    Lost,
}

/// Reads one stream. Ends after the stream's last message, with the session, after [`Frame::Lost`], and where its writer
/// hangs up.
pub struct Follower {
    session: Arc<LiveSession>,
    name: Arc<str>,
    /// The number of the last event that was given.
    at: u64,
    /// Read from the log and not given yet.
    read: VecDeque<(u64, Stored)>,
    /// Whether the log may hold what comes next.
    behind: bool,
    feed: Option<broadcast::Receiver<Fed>>,
    over: bool,
}

/// The stream that a `Last-Event-ID` names.
pub enum Resumed {
    /// One that answers a POST.
    Answer(Follower),
    /// One for the session's own messages.
    Standing(Listener),
}

impl LiveSession {
    /// The rest of the stream that this id is of. `None`: no id of this session and principal.
    pub fn resume(self: &Arc<Self>, last_event_id: &str) -> Option<Resumed> {
        if last_event_id.len() > LONGEST_ID {
            return None;
        }
        let plain = self.shared.keyring.open(Purpose::EventId, &self.bound(), last_event_id).ok()?;
        let (number, name) = plain.split_first_chunk()?;
        let (number, name) = (u64::from_be_bytes(*number), std::str::from_utf8(name).ok()?);
        if name.starts_with('g') {
            return Some(Resumed::Standing(Listener::again(self.clone(), name.into(), number)));
        }
        let feed = self.streams.feed(name);
        Some(Resumed::Answer(Follower {
            behind: true,
            at: number,
            ..Follower::new(self.clone(), name.into(), feed)
        }))
    }

    pub(super) fn event_id(&self, name: &str, number: u64) -> String {
        let plain = [&number.to_be_bytes()[..], name.as_bytes()].concat();
        self.shared.keyring.seal(Purpose::EventId, &self.bound(), &plain)
    }
}

impl Follower {
    fn new(session: Arc<LiveSession>, name: Arc<str>, feed: Option<broadcast::Receiver<Fed>>) -> Follower {
        Follower { session, name, at: 0, read: VecDeque::new(), behind: false, feed, over: false }
    }

    /// The reader that was there from the beginning.
    pub(super) fn first(
        session: Arc<LiveSession>,
        name: Arc<str>,
        feed: broadcast::Receiver<Fed>,
    ) -> Follower {
        Follower::new(session, name, Some(feed))
    }

    /// The id of what stands before the first event: to be sent at once, with no data, so that the client can resume a
    /// stream that broke before its first message (2025-11-25 transports, *Sending Messages*).
    pub fn priming_id(&self) -> String {
        self.session.event_id(&self.name, self.at)
    }

    pub fn into_stream(self) -> BoxStream<'static, Frame> {
        stream::unfold(self, |mut follower| async move {
            let frame = follower.next().await?;
            Some((frame, follower))
        })
        .boxed()
    }

    /// Must not be dropped before it resolves, or an event may be given twice or not at all; [`Follower::into_stream`]
    /// sees to it.
    async fn next(&mut self) -> Option<Frame> {
        let ended = self.session.ended().clone();
        while !self.over {
            if let Some((number, event)) = self.read.pop_front() {
                self.at = number;
                return self.give(Some(number), event);
            }
            if self.behind {
                if let Some(frame) = self.read_log().await {
                    return Some(frame);
                }
                continue;
            }
            let Some(feed) = &mut self.feed else {
                self.over = true;
                return Some(Frame::Lost);
            };
            let sent = tokio::select! {
                biased;
                sent = feed.recv() => sent,
                () = ended.cancelled() => return None,
            };
            match sent {
                Ok(Fed::Sent(Sent { number: Some(number), .. })) if number <= self.at => {}
                Ok(Fed::Sent(Sent { number: Some(number), .. })) if number > self.at + 1 => {
                    self.behind = true
                }
                Ok(Fed::HangUp) => return None,
                Ok(Fed::Sent(Sent { number, event })) => {
                    self.at = number.unwrap_or(self.at);
                    return self.give(number, event);
                }
                Err(RecvError::Lagged(_)) => self.behind = true,
                // The writer is gone: what it wrote last is in the log, if anywhere.
                Err(RecvError::Closed) => {
                    self.feed = None;
                    self.behind = true;
                }
            }
        }
        None
    }

    async fn read_log(&mut self) -> Option<Frame> {
        let key = log_key(self.session.session_id(), &self.name);
        let Ok(events) = self.session.shared.store.events(key, self.at, PAGE).await else {
            // The log is out of reach: what is still written can be given, what was cannot.
            self.behind = false;
            return (self.feed.is_some()).then_some(Frame::Trimmed);
        };
        let Some(events) = events else {
            self.behind = false;
            // A stream without a log has had no message yet, or has expired.
            let missed = self.at > 0 || self.feed.is_none();
            self.over = missed && self.feed.is_none();
            return missed.then_some(Frame::Trimmed);
        };
        self.behind = events.list.last().is_some_and(|(last, _)| *last < events.last);
        let trimmed = !events.whole;
        if trimmed {
            self.at = events.list.first().map_or(events.last, |(first, _)| first - 1);
        }
        self.read.extend(events.list.into_iter().map(|(number, event)| (number, Stored::read(&event))));
        if !self.behind && self.feed.is_none() && self.read.is_empty() && self.at >= events.last {
            // All was read and its writer is gone; whether that was the end, the last event said.
            self.over = self.at_end().await;
        }
        trimmed.then_some(Frame::Trimmed)
    }

    /// Whether the event that was last given, perhaps on another connection, ended the stream.
    async fn at_end(&self) -> bool {
        let Some(before) = self.at.checked_sub(1) else { return false };
        let key = log_key(self.session.session_id(), &self.name);
        match self.session.shared.store.events(key, before, 1).await {
            Ok(Some(events)) => events.list.first().is_some_and(|(_, event)| Stored::read(event).last),
            _ => false,
        }
    }

    fn give(&mut self, number: Option<u64>, event: Stored) -> Option<Frame> {
        self.over = event.last;
        let message = event.message?;
        Some(Frame::Message { id: number.map(|number| self.session.event_id(&self.name, number)), message })
    }
}
