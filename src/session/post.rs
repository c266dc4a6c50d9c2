//! What this pod hears of the others, and what it sends them: letters, the bus, changed records, gaps. One loop hears;
//! nothing in it waits, for all of the pod's mail passes here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::letter::{LONGEST, Letter, ReplyTo};
use super::places::{Lead, PLACES};
use super::route::has_log;
use super::telling::Telling;
use super::writers::News;
use super::{LiveSession, RECORD, Sessions, Shared, cancels, facts::Facts, lock};
use crate::mcp::SessionId;
use crate::store::{Heard, Key, PodId};

/// How long a pod is waited for that took a letter. One that hangs for longer is not to hold up a client.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long an answer waits for another pod to listen for what its request subscribed to.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(1);
/// What pods say to one question, until it is looked at.
const COLLECTED: usize = 16;
/// How often handles that nobody uses are let go: a cache that nobody uses does not do so by itself.
const TIDY: Duration = Duration::from_secs(5);
/// Sessions that are read again at one time after a gap.
const AT_ONCE: usize = 32;

/// This pod among the others.
pub(super) struct Post {
    pub(super) me: PodId,
    /// Who waits for a reply to a letter, by its ticket.
    waiting: Mutex<HashMap<u64, oneshot::Sender<bool>>>,
    /// Who collects what several pods say to one question, by its ticket.
    collecting: Mutex<HashMap<u64, mpsc::Sender<(PodId, bool)>>>,
    next: AtomicU64,
    /// That something may have been missed.
    gap: Telling,
    /// Whether anything was ever heard: then letters to this pod arrive.
    hears: watch::Sender<bool>,
}

/// Why nobody has said what came of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsaid {
    /// The pod is gone, and nobody will read it.
    Gone,
    /// The store did not take it, or the pod says nothing: nothing is known.
    Away,
}

impl Post {
    pub(super) fn new(me: PodId) -> Post {
        Post {
            me,
            waiting: Mutex::default(),
            collecting: Mutex::default(),
            next: AtomicU64::new(1),
            gap: Telling::default(),
            hears: watch::Sender::new(false),
        }
    }
}

impl Post {
    /// Where all pods can say something to one question, until the first of these is dropped.
    pub(super) fn collect(&self) -> (Collects<'_>, mpsc::Receiver<(PodId, bool)>) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, said) = mpsc::channel(COLLECTED);
        lock(&self.collecting).insert(ticket, sender);
        (Collects { post: self, ticket }, said)
    }
}

impl Collects<'_> {
    pub(super) fn to(&self) -> ReplyTo {
        ReplyTo { pod: self.post.me.clone(), ticket: self.ticket }
    }
}

impl Sessions {
    /// Hears until it is dropped: for a task of its own, which begins before clients are served and ends after their
    /// calls. While it runs, letters to this pod arrive.
    pub fn hear(self) -> impl Future<Output = ()> + Send + 'static {
        let mut heard = self.shared.store.hear(self.shared.post.me.clone());
        async move {
            let mut tidy = tokio::time::interval(TIDY);
            tidy.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let heard = tokio::select! {
                    heard = heard.next() => heard,
                    _ = tidy.tick() => {
                        self.kept.run_pending_tasks();
                        continue;
                    }
                };
                let Some(heard) = heard else { break };
                self.shared.post.hears.send_if_modified(|hears| !std::mem::replace(hears, true));
                self.heard(heard);
            }
            tracing::warn!("another process hears in this pod's name");
        }
    }

    /// Resolves once letters to this pod arrive: who is to wait for an answer from another pod must be reached by it.
    pub async fn hears(&self) {
        // Its sender is ours.
        let _ = self.shared.post.hears.subscribe().wait_for(|hears| *hears).await;
    }

    fn heard(&self, heard: Heard) {
        match heard {
            Heard::Mail(text) => match Letter::read(&text) {
                Some(letter) => self.take(letter),
                None => tracing::debug!(bytes = text.len(), "a letter of a kind that is not known here"),
            },
            Heard::Said(topic, what) if topic.as_str() == cancels::TOPIC => {
                if let Some(Letter::Cancels { session, call, reply }) = Letter::read(&what) {
                    self.cancels(session, call, reply);
                }
            }
            Heard::Said(..) => {}
            Heard::Changed(key) if &*key.rest == RECORD || &*key.rest == PLACES => self.changed(&key),
            Heard::Changed(_) => {}
            Heard::Gap => self.gap(),
        }
    }

    fn take(&self, letter: Letter) {
        match letter {
            Letter::Answer { session, number, outcome, reply } => {
                let good = self
                    .held(&SessionId(session))
                    .is_some_and(|session| session.asks.answer(&number, outcome));
                self.shared.reply(reply, good);
            }
            Letter::Follow { session, stream, pod } => self.followed(session, stream, pod),
            Letter::News { session, stream, news } => self.told(SessionId(session), stream, news),
            Letter::Message { session, must, text } => {
                if let Some(session) = self.held(&SessionId(session)) {
                    session.forwarded(text, must);
                }
            }
            Letter::Runs { ticket, pod, one } => {
                if let Some(collects) = lock(&self.shared.post.collecting).get(&ticket) {
                    // Of so many, one more changes nothing.
                    let _ = collects.try_send((pod, one));
                }
            }
            Letter::Cancel { session, call } => self.cancel(session, &call),
            // Said on the bus alone.
            Letter::Cancels { .. } => {}
            Letter::TakeUp { session, reply } => self.take_up(session, reply),
            Letter::Came { ticket, good } => {
                if let Some(waits) = lock(&self.shared.post.waiting).remove(&ticket) {
                    // Who waited may have given up.
                    let _ = waits.send(good);
                }
            }
        }
    }

    fn told(&self, id: SessionId, stream: Arc<str>, news: News) {
        let session = self.held(&id);
        if let Some(session) = &session {
            session.streams.told(&stream, news);
        }
        if has_log(&stream) && session.is_none_or(|session| !session.queue.has(&stream)) {
            let shared = self.shared.clone();
            self.shared.tasks.spawn(async move { shared.deny(&id, &stream).await });
        }
    }

    /// Reads the record again where anything is here of the session, so that the next change is told as well.
    fn changed(&self, key: &Key) {
        let Some(session) = self.held(&SessionId(key.tag.clone())) else { return };
        if session.refreshing.begin() {
            let sessions = self.clone();
            self.shared.tasks.spawn(async move {
                loop {
                    sessions.refresh(&session).await;
                    if session.refreshing.is_over() {
                        return;
                    }
                }
            });
        }
    }

    /// What is held here may have changed unheard.
    fn gap(&self) {
        if self.shared.post.gap.begin() {
            let sessions = self.clone();
            self.shared.tasks.spawn(async move {
                loop {
                    let live: Vec<_> = sessions.live();
                    futures_util::stream::iter(live)
                        .for_each_concurrent(AT_ONCE, async |session| {
                            sessions.refresh(&session).await;
                            sessions.recover(&session).await;
                            session.streams.told_all(News::More);
                        })
                        .await;
                    if sessions.shared.post.gap.is_over() {
                        return;
                    }
                }
            });
        }
    }

    /// As [`Sessions::refresh`], past what is known: after a failover the store may know less.
    async fn recover(&self, session: &Arc<LiveSession>) {
        if session.is_busy() {
            let _ = session.reread().await;
        }
        if session.minds_places() {
            let _ = session.look_again().await;
            session.hold_all().await;
            session.route();
        }
    }

    /// Learns what the record says now. With the store away nothing is learnt; a gap follows when it is back.
    async fn refresh(&self, session: &Arc<LiveSession>) {
        match self.shared.store.near(session.record()).await {
            Ok(Some(record)) => {
                if let Some(facts) =
                    Facts::read(&record).filter(|facts| facts.packed != session.facts().packed)
                {
                    session.learn(facts);
                }
                if session.minds_places() {
                    let _ = session.look().await;
                    session.route();
                }
            }
            Ok(None) => {
                self.forget(&session.session_id().0);
                session.drop_logs().await;
            }
            Err(_) => {}
        }
    }
}

impl Sessions {
    /// Another pod changed what a session subscribes to, and its client waits until that is listened for.
    fn take_up(&self, session: Arc<str>, reply: ReplyTo) {
        let Some(session) = self.held(&SessionId(session)) else { return self.shared.reply(reply, false) };
        let shared = self.shared.clone();
        self.shared.tasks.spawn(async move {
            // It may not have been told yet that the record changed.
            let known = session.reread().await.unwrap_or(false);
            session.changes().taken_up().await;
            let _ = shared.mail(&reply.pod, &Letter::Came { ticket: reply.ticket, good: known }).await;
        });
    }
}

impl LiveSession {
    /// Resolves once all changes of the subscriptions so far are listened for, on the pod that feeds the session's streams;
    /// when nobody listens; or when it has taken too long (1 s).
    pub async fn taken_up(self: &Arc<Self>) {
        if self.changes().is_heard() {
            return self.changes().taken_up().await;
        }
        let _ = self.look().await;
        let Lead::Elsewhere(pod) = self.queue.lead() else { return };
        let session = self.session_id().0.clone();
        let taken_up = self.shared.ask_pod(&pod, |reply| Letter::TakeUp { session, reply });
        let _ = tokio::time::timeout(TAKEN_UP_WITHIN, taken_up).await;
    }
}

impl Shared {
    /// Puts a letter into a pod's inbox. False: the pod is gone, and nobody will read it.
    pub(super) async fn mail(&self, to: &PodId, letter: &Letter) -> Result<bool, Unsaid> {
        let text = letter.write();
        if text.len() > LONGEST {
            tracing::warn!(bytes = text.len(), "a letter to another pod is too long");
            return Err(Unsaid::Away);
        }
        self.store.mail(to.clone(), text).await.map_err(|_| Unsaid::Away)
    }

    /// Sends a letter and waits for what comes of it, for a bounded time.
    pub(super) async fn ask_pod(
        &self,
        to: &PodId,
        letter: impl FnOnce(ReplyTo) -> Letter,
    ) -> Result<bool, Unsaid> {
        let ticket = self.post.next.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        lock(&self.post.waiting).insert(ticket, sender);
        let _waits = Waits { post: &self.post, ticket };
        if !self.mail(to, &letter(ReplyTo { pod: self.post.me.clone(), ticket })).await? {
            return Err(Unsaid::Gone);
        }
        match tokio::time::timeout(PATIENCE, reply).await {
            Ok(Ok(good)) => Ok(good),
            Ok(Err(_)) | Err(_) => Err(Unsaid::Away),
        }
    }

    fn reply(self: &Arc<Self>, to: ReplyTo, good: bool) {
        let shared = self.clone();
        self.tasks.spawn(async move {
            // Where it fails, the other's patience ends it.
            let _ = shared.mail(&to.pod, &Letter::Came { ticket: to.ticket, good }).await;
        });
    }
}

/// Ends the collecting of what pods say.
pub(super) struct Collects<'p> {
    post: &'p Post,
    ticket: u64,
}

impl Drop for Collects<'_> {
    fn drop(&mut self) {
        lock(&self.post.collecting).remove(&self.ticket);
    }
}

/// Ends the wait for a reply.
struct Waits<'p> {
    post: &'p Post,
    ticket: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        lock(&self.post.waiting).remove(&self.ticket);
    }
}
