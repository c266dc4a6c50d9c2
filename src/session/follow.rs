//! The reading end of a stream: from any event of it to its end, out of the log and then as it is written, here or on
//! another pod. The reader pulls; what it is too slow for waits in the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::time::Instant;

use super::LiveSession;
use super::claim::{Heir, Succession};
use super::listen::Listener;
use super::outlet::{Fed, Sent, Stored, log_key};
use super::writers::{self, Ear, News, Writer};
use crate::sealing::Purpose;
use crate::store::PodId;

/// Events that are read from a log at once.
const PAGE: u32 = 64;
/// An event id of ours is far shorter; longer ones are not worth opening.
const LONGEST_ID: usize = 256;

/// The pause before a log is read again that is out of reach.
const AWAY: Duration = Duration::from_secs(1);

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
    /// Begun after an event that may have been the last: its kind is still to be looked at.
    resumed: bool,
    source: Source,
    /// Goes on with the stream where its writer is gone.
    heir: Option<Heir>,
    over: bool,
}

/// Where news of a stream come from, while its log has no more.
enum Source {
    /// It is written here.
    Here(broadcast::Receiver<Fed>),
    /// Who writes it is to be found out.
    Unknown,
    /// Another pod writes it.
    There(Ear, PodId),
    /// That pod ends this connection, once the log has no more.
    HungUp,
    /// That pod does not write it any more, or is gone itself, which was seen when the time is there.
    Gone(PodId, Option<Instant>),
    /// Nobody writes it any more.
    Lost,
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
        let source = self.streams.feed(name).map_or(Source::Unknown, Source::Here);
        let follower = Follower::new(self.clone(), name.into(), source);
        Some(Resumed::Answer(Follower { behind: true, resumed: true, at: number, ..follower }))
    }

    pub(super) fn event_id(&self, name: &str, number: u64) -> String {
        let plain = [&number.to_be_bytes()[..], name.as_bytes()].concat();
        self.shared.keyring.seal(Purpose::EventId, &self.bound(), &plain)
    }
}

impl Follower {
    fn new(session: Arc<LiveSession>, name: Arc<str>, source: Source) -> Follower {
        let (read, behind) = (VecDeque::new(), false);
        Follower { session, name, at: 0, read, behind, resumed: false, source, heir: None, over: false }
    }

    /// The reader that was there from the beginning.
    pub(super) fn first(
        session: Arc<LiveSession>,
        name: Arc<str>,
        feed: broadcast::Receiver<Fed>,
    ) -> Follower {
        Follower::new(session, name, Source::Here(feed))
    }

    /// Should the writer's pod be gone, `heir` goes on with the stream, unless another pod is quicker.
    pub fn with_heir(self, heir: Heir) -> Follower {
        Follower { heir: Some(heir), ..self }
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
            match &mut self.source {
                Source::Here(feed) => {
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
                        Err(RecvError::Closed) => self.turn_to(Source::Unknown),
                    }
                }
                Source::Unknown => {
                    let session = self.session.clone();
                    let source = match session.streams.feed(&self.name) {
                        Some(feed) => Source::Here(feed),
                        None => match writers::origin(&self.name) {
                            Some(pod) => self.ask_writer(pod, None).await,
                            None => Source::Lost,
                        },
                    };
                    self.turn_to(source);
                }
                Source::There(ear, pod) => {
                    let again = self.session.shared.settings.again;
                    let news = tokio::select! {
                        news = ear.next() => Some(news),
                        () = tokio::time::sleep(again) => None,
                        () = ended.cancelled() => return None,
                    };
                    match news {
                        Some(News::More) => self.behind = true,
                        Some(News::HangUp) => self.turn_to(Source::HungUp),
                        Some(News::Gone) => {
                            let pod = pod.clone();
                            self.turn_to(Source::Gone(pod, None));
                        }
                        None => self.turn_to(Source::Unknown),
                    }
                }
                Source::HungUp => return None,
                Source::Gone(pod, since) => {
                    let (pod, since) = (pod.clone(), *since);
                    let source = self.look_for_another(pod, since).await;
                    self.turn_to(source);
                }
                Source::Lost => {
                    self.over = true;
                    return Some(Frame::Lost);
                }
            }
        }
        None
    }

    /// Asks a pod that may write the stream to tell of more. `since`: it seemed gone since then.
    async fn ask_writer(&self, pod: PodId, since: Option<Instant>) -> Source {
        match self.session.ask_writer(&self.name, &pod).await {
            Writer::There(ear) => return Source::There(ear, pod),
            Writer::Here => {
                if let Some(feed) = self.session.streams.feed(&self.name) {
                    return Source::Here(feed);
                }
            }
            Writer::Gone => {}
        }
        Source::Gone(pod, Some(since.unwrap_or_else(Instant::now)))
    }

    /// A pod does not write the stream any more: another does, or nobody, and then this one may.
    async fn look_for_another(&mut self, gone: PodId, since: Option<Instant>) -> Source {
        let session = self.session.clone();
        match session.successor(&self.name).await {
            Succession::Other(by) if by != gone => return self.ask_writer(by, None).await,
            Succession::Other(_) => {}
            Succession::Unknown => return Source::Lost,
            Succession::Mine(_) | Succession::Away => {
                self.pause(AWAY).await;
                return Source::Unknown;
            }
        }
        // The record names a pod that is gone.
        let Some(heir) = self.heir.clone() else { return Source::Lost };
        if let Some(since) = since
            && since.elapsed() < session.shared.settings.grace
        {
            self.pause(session.shared.settings.grace).await;
            return self.ask_writer(gone, Some(since)).await;
        }
        let name = self.name.clone();
        // A task of its own: who reads may go meanwhile, and what was taken must be gone on with.
        let taking = session.shared.tasks.clone().spawn(async move {
            match session.succeed(&name, &gone).await {
                Succession::Mine(inherited) => {
                    let feed = inherited.outlet.subscribe();
                    heir(inherited);
                    Some(feed)
                }
                _ => None,
            }
        });
        match taking.await {
            Ok(Some(feed)) => Source::Here(feed),
            // Another was quicker, or the store is away.
            _ => {
                self.pause(AWAY).await;
                Source::Unknown
            }
        }
    }

    async fn pause(&mut self, pause: Duration) {
        let ended = self.session.ended();
        let _ = tokio::time::timeout(pause, ended.cancelled()).await;
        self.over |= ended.is_cancelled();
    }

    /// News come from elsewhere from now on; what came before is in the log.
    fn turn_to(&mut self, source: Source) {
        self.source = source;
        self.behind = true;
    }

    async fn read_log(&mut self) -> Option<Frame> {
        let key = log_key(self.session.session_id(), &self.name);
        let Ok(events) = self.session.shared.store.events(key, self.at, PAGE).await else {
            if let Source::Here(_) = self.source {
                // What is still written can be given, what was cannot.
                self.behind = false;
                return Some(Frame::Trimmed);
            }
            let ended = self.session.ended();
            let _ = tokio::time::timeout(AWAY, ended.cancelled()).await;
            self.over = ended.is_cancelled();
            return None;
        };
        let Some(events) = events else {
            self.behind = false;
            // A stream without a log has had no message yet, or has expired.
            let missed = std::mem::take(&mut self.at) > 0;
            return missed.then_some(Frame::Trimmed);
        };
        self.behind = events.list.last().is_some_and(|(last, _)| *last < events.last);
        let trimmed = !events.whole;
        if trimmed {
            self.at = events.list.first().map_or(events.last, |(first, _)| first - 1);
        }
        self.read.extend(events.list.into_iter().map(|(number, event)| (number, Stored::read(&event))));
        if self.resumed && self.read.is_empty() && !matches!(self.source, Source::Here(_)) {
            self.resumed = false;
            // All was seen; whether that was the end, the last event said.
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
        (self.over, self.resumed) = (event.last, false);
        let message = event.message?;
        Some(Frame::Message { id: number.map(|number| self.session.event_id(&self.name, number)), message })
    }
}
