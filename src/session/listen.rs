//! A session's GET stream: what belongs to no POST, from the session's queue into the stream's log and out; and what other
//! pods put into that log. Also the one stream of HTTP+SSE, which has no log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::follow::Frame;
use super::outlet::{Refused, Stored, log_key};
use super::places::renewal;
use super::queue::Taken;
use super::route::has_log;
use super::writers::Ear;
use super::{LiveSession, random_text};

/// Events that are read from a log at once.
const PAGE: u32 = 64;
/// The pause before a log is read again that is out of reach.
const AWAY: Duration = Duration::from_secs(1);

/// An open GET stream. While it is the newest of its session, the session's messages go to it.
pub struct Listener {
    session: Arc<LiveSession>,
    /// `g…`: with a log, hence with event ids. `h…`: without.
    name: Arc<str>,
    seat: u64,
    /// That other pods put something into the log.
    ear: Ear,
    /// The number of the last event that was given.
    at: u64,
    read: VecDeque<(u64, Bytes)>,
    /// Whether the log holds what the client has not seen.
    behind: bool,
    /// When the log is read again that was out of reach.
    again: Option<Instant>,
    /// When the other pods are told again that the stream is open.
    renew: Instant,
    /// It is to end where it stands.
    until: CancellationToken,
}

impl LiveSession {
    /// A new GET stream of Streamable HTTP.
    pub fn listen(self: &Arc<Self>) -> Listener {
        let name: Arc<str> = format!("g{}", random_text::<6>()).into();
        self.streams.note_log(&name, self.shared.settings.backlog_life);
        Listener::new(self.clone(), name)
    }

    /// The stream of HTTP+SSE.
    pub fn listen_without_ids(self: &Arc<Self>) -> Listener {
        Listener::new(self.clone(), format!("h{}", random_text::<6>()).into())
    }
}

impl Listener {
    fn new(session: Arc<LiveSession>, name: Arc<str>) -> Listener {
        let ear = session.streams.ear(&name);
        let seat = session.queue.sit(name.clone());
        let renew = Instant::now() + renewal(session.shared.settings.backlog_life);
        Listener {
            session,
            name,
            seat,
            ear,
            at: 0,
            read: VecDeque::new(),
            behind: false,
            again: None,
            renew,
            until: CancellationToken::new(),
        }
    }

    /// The stream goes on after this event.
    pub(super) fn again(session: Arc<LiveSession>, name: Arc<str>, at: u64) -> Listener {
        let mut listener = Listener::new(session, name);
        (listener.at, listener.behind) = (at, true);
        listener
    }

    /// Makes the stream known to the other pods, as the newest: to be awaited before the client learns that it is open. For
    /// a bounded time, and without the store it is open here alone.
    pub async fn announced(self) -> Listener {
        self.session.hold(self.seat, false).await;
        self
    }

    /// As [`Follower::priming_id`](super::Follower::priming_id); `None` for HTTP+SSE.
    pub fn priming_id(&self) -> Option<String> {
        has_log(&self.name).then(|| self.session.event_id(&self.name, self.at))
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
        let session = self.session.clone();
        loop {
            if let Some((number, message)) = self.read.pop_front() {
                self.at = number;
                return Some(self.frame(Some(number), message));
            }
            if std::mem::take(&mut self.behind) {
                match self.read_log().await {
                    Ok(None) => {}
                    Ok(Some(frame)) => return Some(frame),
                    Err(Away) => self.again = Some(Instant::now() + AWAY),
                }
                continue;
            }
            let later = async {
                match self.again {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                taken = session.queue.next(self.seat) => {
                    if let Some(frame) = self.take(taken?).await {
                        return Some(frame);
                    }
                }
                () = session.ended().cancelled() => return None,
                _ = self.ear.next() => self.behind = true,
                () = self.until.cancelled() => return None,
                () = later => {
                    self.again = None;
                    self.behind = true;
                }
                () = tokio::time::sleep_until(self.renew) => {
                    self.renew = Instant::now() + renewal(session.shared.settings.backlog_life);
                    session.hold(self.seat, true).await;
                }
            }
        }
    }

    /// A message of the session becomes the stream's next.
    async fn take(&mut self, taken: Taken) -> Option<Frame> {
        let message = taken.text();
        if !has_log(&self.name) {
            taken.done();
            return Some(self.frame(None, message));
        }
        let held = self.session.queue.holds(self.seat);
        let (session, name) = (self.session.clone(), self.name.clone());
        let event = Stored { message: Some(message.clone()), last: false };
        // In a task of its own: a socket that closes meanwhile must not leave it both in the log and to the next stream.
        let logged = self.session.shared.tasks.spawn(async move {
            let also = held.map(|held| session.still_held(held));
            let logged = session.append(&name, &event, also).await;
            if logged.is_ok() {
                taken.done();
            } else {
                // Its stream may be closed by now, and then nobody else sees to it that it goes where the newest is.
                drop(taken);
                session.route();
            }
            logged
        });
        match logged.await {
            // Other pods put something before it: it comes with that.
            Ok(Ok(Some(number))) if number > self.at + 1 => {
                self.behind = true;
                None
            }
            Ok(Ok(number)) => {
                self.at = number.unwrap_or(self.at);
                Some(self.frame(number, message))
            }
            // Another pod has the stream by now, or it is known to nobody: then it is made known again.
            Ok(Err(Refused::Moved)) => {
                let looked = self.session.look_again().await;
                if looked.is_err() {
                    tokio::time::sleep(AWAY).await;
                } else {
                    self.session.hold(self.seat, true).await;
                }
                None
            }
            Ok(Err(Refused::Ended)) | Err(_) => {
                // The session's end is seen at once.
                self.session.close();
                None
            }
        }
    }

    async fn read_log(&mut self) -> Result<Option<Frame>, Away> {
        if !has_log(&self.name) {
            return Ok(None);
        }
        let key = log_key(self.session.session_id(), &self.name);
        let events = self.session.shared.store.events(key, self.at, PAGE).await.map_err(|_| Away)?;
        let Some(events) = events else {
            // Nothing was ever sent on it, or what was has expired.
            return Ok((std::mem::take(&mut self.at) > 0).then_some(Frame::Trimmed));
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
        Ok((!events.whole).then_some(Frame::Trimmed))
    }

    fn frame(&self, number: Option<u64>, message: Bytes) -> Frame {
        Frame::Message { id: number.map(|number| self.session.event_id(&self.name, number)), message }
    }
}

/// The log is out of reach.
struct Away;

impl Drop for Listener {
    fn drop(&mut self) {
        let session = &self.session;
        if has_log(&self.name) {
            session.streams.note_log(&self.name, session.shared.settings.backlog_life);
        }
        if let Some(held) = session.queue.leave(self.seat) {
            let session = session.clone();
            self.session.shared.tasks.spawn(async move {
                session.let_go(&held).await;
                // What waits is for a stream elsewhere, if there is one; and who opens one later is heard of.
                let _ = session.look().await;
                session.route();
            });
        } else {
            session.route();
        }
    }
}
