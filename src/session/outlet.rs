//! The writing end of a stream that answers a POST. What is sent is appended to the stream's log in the store, then told
//! to whoever follows it here; the writer waits for no reader.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use super::claim::{Claim, Unsent, claim_key};
use super::follow::Follower;
use super::writers::{self, Ear, News, Readers, Told};
use super::{LiveSession, lock};
use crate::mcp::SessionId;
use crate::store::{Check, Commit, Key, Sure, Write};

/// Events that a follower may lag behind before it reads the log again.
const FEED: usize = 32;

/// Logs of one session that are remembered, to be dropped with it; older ones expire by themselves.
const LOGS: usize = 4096;

/// A log that is written or read is kept alive each time this part of its life has passed.
pub(super) const KEEP_PART: u32 = 3;

/// What a log holds: how the event ends or goes on, then the message.
const MORE: u8 = 0;
const LAST: u8 = 1;
/// The stream ends with no further message (a cancelled call).
const END: u8 = 2;

/// The streams of a session that are written here, and those that are read here.
#[derive(Default)]
pub(super) struct Streams {
    open: Mutex<HashMap<Arc<str>, Arc<Line>>>,
    /// What is told of streams that other pods write and this one reads.
    told: Mutex<HashMap<Arc<str>, watch::Sender<Told>>>,
    /// Names of the logs of this handle, oldest first, with when they were last begun or ended.
    logs: Mutex<VecDeque<(Instant, Arc<str>)>>,
}

/// Who follows one stream.
pub(super) struct Line {
    /// Here.
    feed: broadcast::Sender<Fed>,
    /// On other pods.
    pub(super) readers: Arc<Readers>,
}

/// What those who follow here are given.
#[derive(Clone, Debug)]
pub(super) enum Fed {
    Sent(Sent),
    /// The connection ends, the stream goes on: to be resumed.
    HangUp,
}

/// One event on its way to those who follow here.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// Its number in the log; `None` where the store did not take it: then it has no id.
    pub(super) number: Option<u64>,
    pub(super) event: Stored,
}

/// An event as the log holds it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    /// `None`: the stream only ends.
    pub(super) message: Option<Bytes>,
    pub(super) last: bool,
}

impl Stored {
    pub(super) fn write(&self) -> Bytes {
        let kind = match (&self.message, self.last) {
            (Some(_), false) => MORE,
            (Some(_), true) => LAST,
            (None, _) => END,
        };
        let message = self.message.as_deref().unwrap_or_default();
        let mut event = BytesMut::with_capacity(message.len() + 1);
        event.put_u8(kind);
        event.put_slice(message);
        event.freeze()
    }

    pub(super) fn read(event: &Bytes) -> Stored {
        let kind = event.first().copied().unwrap_or(END);
        Stored { message: (kind != END).then(|| event.slice(1..)), last: kind != MORE }
    }
}

/// Where an answer's messages go. A stream that is dropped without [`Outlet::finish`] has lost its writer, and its
/// followers are told so.
pub struct Outlet {
    session: Arc<LiveSession>,
    name: Arc<str>,
    line: Arc<Line>,
    claim: Claim,
    finished: bool,
}

impl LiveSession {
    /// A new stream, and its first reader. Nothing is written to the store before the first message.
    pub fn stream(self: &Arc<Self>) -> (Outlet, Follower) {
        let name = writers::name(&self.shared.post.me);
        let (feed, follows) = broadcast::channel(FEED);
        let line = Arc::new(Line { feed, readers: Arc::default() });
        lock(&self.streams.open).insert(name.clone(), line.clone());
        self.streams.note_log(&name, self.shared.settings.backlog_life);
        let follower = Follower::first(self.clone(), name.clone(), follows);
        let claim = Claim::default();
        (Outlet { session: self.clone(), name, line, claim, finished: false }, follower)
    }

    /// Appends to the log of a GET stream where `also` holds, and gives the event's number: `Ok(None)` where the store did
    /// not take it.
    pub(super) async fn append(
        &self,
        name: &str,
        event: &Stored,
        also: Option<(Key, Check)>,
    ) -> Result<Option<u64>, Refused> {
        let settings = &self.shared.settings;
        let event = event.write();
        if !self.shared.budget.admits(event.len(), settings.backlog_life, settings.backlog_bytes) {
            return if self.ended().is_cancelled() { Err(Refused::Ended) } else { Ok(None) };
        }
        let key = log_key(self.session_id(), name);
        let checks = std::iter::once((self.record(), Check::Present)).chain(also).collect();
        let writes = vec![
            (key.clone(), Write::Append { event, keep: settings.backlog }),
            (key, Write::Live(settings.backlog_life)),
        ];
        match self.shared.store.commit(checks, writes, Sure::Master).await {
            Ok(Commit::Done(numbers)) => Ok(numbers.first().copied()),
            Ok(Commit::Failed { check: 0 }) => Err(Refused::Ended),
            Ok(Commit::Failed { .. }) => Err(Refused::Moved),
            Err(_) => Ok(None),
        }
    }
}

/// Why an event has no place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The session has ended.
    Ended,
    /// What else was asked for does not hold: the stream is another pod's.
    Moved,
}

impl LiveSession {
    /// Extends the life of a log, where there is one: it must not expire, and be numbered anew, under an open stream.
    pub(super) async fn keep_log(&self, name: &str) {
        let keys = [log_key(self.session_id(), name), claim_key(self.session_id(), name)];
        let writes = keys.map(|key| (key, Write::Live(self.shared.settings.backlog_life))).to_vec();
        // Tried again in a while.
        let _ = self.shared.store.commit(Vec::new(), writes, Sure::Master).await;
    }

    /// The session has ended, and nobody may read its streams again.
    pub(super) async fn drop_logs(&self) {
        let logs = std::mem::take(&mut *lock(&self.streams.logs));
        let id = self.session_id();
        let logs = logs.into_iter().flat_map(|(_, name)| [log_key(id, &name), claim_key(id, &name)]);
        let drops: Vec<_> = logs.chain(self.places_to_drop()).map(|key| (key, Write::Drop)).collect();
        if drops.is_empty() {
            return;
        }
        // They expire by themselves where this fails.
        let _ = self.shared.store.commit(Vec::new(), drops, Sure::Master).await;
    }
}

impl Outlet {
    /// The writing end of a stream that another pod began.
    pub(super) fn again(session: &Arc<LiveSession>, name: &Arc<str>, claim: Claim) -> Outlet {
        let (feed, _) = broadcast::channel(FEED);
        let line = Arc::new(Line { feed, readers: Arc::default() });
        lock(&session.streams.open).insert(name.clone(), line.clone());
        session.streams.note_log(name, session.shared.settings.backlog_life);
        Outlet { session: session.clone(), name: name.clone(), line, claim, finished: false }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Notes, with the next event or [`Outlet::flush`], what another pod needs to go on with the stream: a value by name,
    /// the last one counts.
    pub fn note(&self, field: impl Into<Arc<str>>, value: Bytes) {
        self.claim.note(field.into(), value);
    }

    /// Writes what is noted and not written yet. Costs nothing where there is nothing.
    pub async fn flush(&self) -> Result<(), Unsent> {
        if self.claim.has_notes() {
            self.session.write_log(&self.name, &self.claim, None).await?;
        }
        Ok(())
    }

    /// Sends a message that others follow.
    pub async fn send(&self, message: Bytes) -> Result<(), Unsent> {
        self.put(Stored { message: Some(message), last: false }).await
    }

    /// Never resolves: keeps the stream's log alive for as long as it is polled. To be selected beside the wait for the
    /// next message.
    pub async fn kept(&self) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(self.session.shared.settings.backlog_life / KEEP_PART).await;
            self.session.keep_log(&self.name).await;
        }
    }

    /// Ends the stream with the answer, or with nothing (a cancelled call gets no answer).
    pub async fn finish(mut self, message: Option<Bytes>) -> Result<(), Unsent> {
        self.put(Stored { message, last: true }).await?;
        self.finished = true;
        Ok(())
    }

    async fn put(&self, event: Stored) -> Result<(), Unsent> {
        let number = self.session.write_log(&self.name, &self.claim, Some(&event)).await?;
        // An error means only that nobody reads at this time; the log has it.
        let _ = self.line.feed.send(Fed::Sent(Sent { number, event }));
        self.session.tell_readers(&self.name, &self.line.readers, News::More);
        Ok(())
    }

    /// What is sent from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Fed> {
        self.line.feed.subscribe()
    }

    /// Ends the connections that follow, after what they were sent; their clients resume.
    pub fn hang_up(&self) {
        // Nobody follows: nobody is to be let go.
        let _ = self.line.feed.send(Fed::HangUp);
        self.session.tell_readers(&self.name, &self.line.readers, News::HangUp);
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        {
            let mut open = lock(&self.session.streams.open);
            // It may have come back to this pod meanwhile.
            if open.get(&self.name).is_some_and(|line| Arc::ptr_eq(line, &self.line)) {
                open.remove(&self.name);
            }
        }
        if !self.finished {
            self.session.tell_readers(&self.name, &self.line.readers, News::Gone);
        }
    }
}

impl Streams {
    /// The live end of a stream, where it is written here.
    pub(super) fn feed(&self, name: &str) -> Option<broadcast::Receiver<Fed>> {
        lock(&self.open).get(name).map(|line| line.feed.subscribe())
    }

    /// Who follows a stream, where it is written here.
    pub(super) fn line(&self, name: &str) -> Option<Arc<Line>> {
        lock(&self.open).get(name).cloned()
    }

    /// Hears what is told of a stream from now on.
    pub(super) fn ear(&self, name: &Arc<str>) -> Ear {
        let mut told = lock(&self.told);
        told.retain(|other, told| other == name || told.receiver_count() > 0);
        Ear::new(told.entry(name.clone()).or_default().subscribe())
    }

    /// Something was told of a stream; nobody may listen any more.
    pub(super) fn told(&self, name: &str, news: News) {
        if let Some(told) = lock(&self.told).get(name) {
            told.send_modify(|told| told.note(news));
        }
    }

    /// As [`Streams::told`], of all streams that are listened for.
    pub(super) fn told_all(&self, news: News) {
        for told in lock(&self.told).values() {
            told.send_modify(|told| told.note(news));
        }
    }

    /// Remembers that there is such a log, for as long as it lives.
    pub(super) fn note_log(&self, name: &Arc<str>, life: std::time::Duration) {
        let mut logs = lock(&self.logs);
        let now = Instant::now();
        while logs.len() >= LOGS || logs.front().is_some_and(|(begun, _)| now.duration_since(*begun) > life) {
            logs.pop_front();
        }
        logs.push_back((now, name.clone()));
    }
}

pub(super) fn log_key(id: &SessionId, name: &str) -> Key {
    Key::new(id.0.clone(), format!("x:{name}"))
}
