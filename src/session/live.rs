//! One session as this pod holds it: its facts as last read, the calls that run in it, what waits for an answer, and its
//! streams. The record in the store is the session; this is a handle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arc_swap::{ArcSwap, Guard};
use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::asks::Asks;
use super::calls::Calls;
use super::changes::Changes;
use super::facts::{self, Facts, TooLarge, now, short_hash};
use super::outlet::Streams;
use super::places::Lead;
use super::queue::Queue;
use super::telling::Telling;
use super::{FACTS, Shared, TOUCH_PART, cap, lock};
use crate::mcp::{Client, Nook, Principal, Session, SessionId, StoreAway, UpstreamId};
use crate::store::{Check, Commit, Key, PodId, Record, StoreError, Sure, Write};
use crate::wire::Version;

/// How often a change of the facts is tried against others who change them.
const TRIES: usize = 16;
/// The pause before a pod says again that it feeds the streams: two that do so at once must come to know of each other.
const SETTLED: std::time::Duration = std::time::Duration::from_millis(100);
/// The pause before it says so again to a store that did not take it.
const AWAY: std::time::Duration = std::time::Duration::from_millis(500);

pub struct LiveSession {
    pub(super) shared: Arc<Shared>,
    id: SessionId,
    /// Of its record.
    record: Key,
    key: Arc<str>,
    facts: ArcSwap<Facts>,
    nook: Nook,
    /// That other facts were learnt.
    learnt: Notify,
    changes: Arc<Changes>,
    /// When this handle was last put among those that are kept, in milliseconds since 1970.
    kept_at: AtomicU64,
    /// Whether a touch is under way in this pod; a second one would only fail.
    touching: AtomicBool,
    /// That the client's roots changed.
    roots: Telling,
    /// That the record changed.
    pub(super) refreshing: Telling,
    /// That messages wait for a stream elsewhere.
    pub(super) routing: Telling,
    /// The pod whose standing call feeds the session's streams, as last heard.
    pub(super) attends: watch::Sender<Option<PodId>>,
    /// And which one it was told to take over from the one before it.
    pub(super) handed: watch::Sender<Option<PodId>>,
    /// Whether a task of this pod sees to that, where it is this pod's to do.
    attending: AtomicBool,
    /// Whether that was waited for once.
    awaited: AtomicBool,
    ended: CancellationToken,
    /// The same, for those who do not wait for it.
    over: AtomicBool,
    /// Whose it is, once its owner was here.
    owner: OnceLock<Principal>,
    pub(super) calls: Calls,
    pub(super) asks: Asks,
    pub(super) streams: Streams,
    pub(super) queue: Arc<Queue>,
}

/// Why something about a session was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Away(#[from] StoreAway),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("the session has ended")]
    Ended,
}

impl LiveSession {
    pub(super) fn new(shared: Arc<Shared>, id: SessionId, facts: Facts) -> LiveSession {
        let key = format!("s:{}", short_hash(id.0.as_bytes())).into();
        let queue = Queue::new(shared.settings.queue);
        LiveSession {
            record: shared.record(&id),
            shared,
            id,
            key,
            facts: ArcSwap::from_pointee(facts),
            nook: Nook::default(),
            learnt: Notify::new(),
            changes: Arc::default(),
            kept_at: AtomicU64::new(now()),
            touching: AtomicBool::new(false),
            roots: Telling::default(),
            refreshing: Telling::default(),
            routing: Telling::default(),
            attends: watch::Sender::default(),
            handed: watch::Sender::default(),
            attending: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            ended: CancellationToken::new(),
            over: AtomicBool::new(false),
            owner: OnceLock::new(),
            calls: Calls::default(),
            asks: Asks::default(),
            streams: Streams::default(),
            queue,
        }
    }

    /// Whether it is this principal's. It never becomes another's.
    pub(super) fn belongs_to(&self, principal: &Principal) -> bool {
        if self.owner.get() == Some(principal) {
            return true;
        }
        let belongs = self.facts.load().owner == facts::owner(principal);
        if belongs {
            // The first to know it is as good as any.
            let _ = self.owner.set(principal.clone());
        }
        belongs
    }

    pub fn session_id(&self) -> &SessionId {
        &self.id
    }

    /// Whether it is time to put this handle among those that are kept again: so long after the last time.
    pub(super) fn is_to_be_kept(&self, every: std::time::Duration) -> bool {
        let (now, then) = (now(), self.kept_at.load(Ordering::Relaxed));
        let due = now.saturating_sub(then) >= every.as_millis() as u64 && !self.is_over();
        if due {
            self.kept_at.store(now, Ordering::Relaxed);
        }
        due
    }

    /// What the record said when it was last read here.
    pub fn facts(&self) -> Guard<Arc<Facts>> {
        self.facts.load()
    }

    /// Resolves once the session is known to have ended.
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Whether it is known to have ended.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The changes of the subscriptions, whoever made them.
    pub fn changes(&self) -> &Arc<Changes> {
        &self.changes
    }

    /// The right to be the one task of this pod that feeds the session's GET streams, while that is this pod's to do;
    /// `None` where there is one.
    pub fn attend(self: &Arc<Self>) -> Option<Attending> {
        (!self.attending.swap(true, Ordering::AcqRel)).then(|| Attending(self.clone()))
    }

    pub(super) fn attending(&self) -> bool {
        self.attending.load(Ordering::Acquire)
    }

    /// Whether a stream was opened here of late, and what concerns the session does not reach it yet: a call that is made now
    /// may have its upstream say what nobody hears. True until [`LiveSession::heard_at_all`] was awaited.
    pub fn is_deaf_yet(&self) -> bool {
        !self.awaited.load(Ordering::Acquire) && self.attending()
    }

    /// Resolves once this pod's standing call is acknowledged, or after 1 s; at once when it is asked again.
    pub async fn heard_at_all(&self) {
        self.changes.taken_up_at_all().await;
        self.awaited.store(true, Ordering::Release);
    }

    /// Whether upstreams are being told that the client's roots changed.
    pub fn roots(&self) -> &Telling {
        &self.roots
    }

    /// Whether a call runs here.
    pub fn is_calling(&self) -> bool {
        self.calls.any()
    }

    /// Whether a call runs or a GET stream is open here.
    pub(super) fn is_busy(&self) -> bool {
        *self.listeners().borrow() > 0 || self.is_calling()
    }

    /// Counts as a use: extends the life where a part of it has passed since anyone's touch, and else costs nothing.
    /// Errors: the store is away; the session lives on by what it had.
    pub async fn touch(&self) -> Result<(), StoreAway> {
        match self.to_extend() {
            Some(facts) => Box::pin(self.extend(facts)).await,
            None => Ok(()),
        }
    }

    /// Whether a touch would do anything now.
    pub fn is_to_be_touched(&self) -> bool {
        self.is_due(&self.facts.load())
    }

    fn is_due(&self, facts: &Facts) -> bool {
        let part = self.shared.life(facts.transport) / TOUCH_PART;
        !facts.used || now().saturating_sub(facts.touched) >= part.as_millis() as u64
    }

    /// The facts, where it is time to extend the life that they speak of and nobody in this pod does.
    fn to_extend(&self) -> Option<Arc<Facts>> {
        let facts = self.facts.load();
        (self.is_due(&facts) && !self.touching.swap(true, Ordering::AcqRel)).then(|| Guard::into_inner(facts))
    }

    async fn extend(&self, was: Arc<Facts>) -> Result<(), StoreAway> {
        // Also where whoever asked goes away in the middle of it.
        let _over = Touching(&self.touching);
        let facts = Facts { touched: now(), used: true, ..(*was).clone() }.pack();
        match self.write(&was, &facts, Some(self.shared.kept(&facts))).await? {
            Some(rev) => {
                self.learn(Facts { rev, ..facts.clone() });
                cap::note(&self.shared, &facts, &self.id).await.map(drop)
            }
            // Another touched or changed it, or it has ended.
            None => self.reread().await.map(drop),
        }
    }

    /// What the client says in `initialize`, for a session that was there before it (HTTP+SSE).
    pub async fn describe(&self, version: Version, client: &Client) -> Result<(), ChangeError> {
        self.change(|facts| facts.describe(version, client)).await
    }

    pub async fn set_level(&self, level: &str) -> Result<(), ChangeError> {
        self.change(|facts| {
            facts.level = Some(level.into());
            Ok(())
        })
        .await
    }

    pub async fn subscribe(&self, uri: &str) -> Result<(), ChangeError> {
        self.change(|facts| facts.subscribe(uri)).await
    }

    pub async fn unsubscribe(&self, uri: &str) -> Result<(), ChangeError> {
        self.change(|facts| {
            facts.unsubscribe(uri);
            Ok(())
        })
        .await
    }

    async fn change(&self, edit: impl Fn(&mut Facts) -> Result<(), TooLarge>) -> Result<(), ChangeError> {
        for _ in 0..TRIES {
            let was = self.facts.load_full();
            let mut facts = (*was).clone();
            edit(&mut facts)?;
            let facts = facts.pack();
            if facts.packed == was.packed {
                return Ok(());
            }
            if let Some(rev) = self.write(&was, &facts, None).await? {
                self.learn(Facts { rev, ..facts });
                return Ok(());
            }
            if !self.reread().await? {
                return Err(ChangeError::Ended);
            }
        }
        // Others change it faster than we can read: as good as out of reach.
        Err(StoreAway.into())
    }

    /// Replaces the facts, and gives the record's revision; `None` where they are others by now.
    async fn write(
        &self,
        was: &Facts,
        facts: &Facts,
        life: Option<std::time::Duration>,
    ) -> Result<Option<u64>, StoreAway> {
        let key = self.record();
        let checks = vec![(key.clone(), Check::field(FACTS, was.packed.clone()))];
        let mut writes = vec![(key.clone(), Write::set(FACTS, facts.packed.clone()))];
        writes.extend(life.map(|life| (key, Write::Live(life))));
        match self.shared.store.commit(checks, writes, Sure::Master).await {
            Ok(Commit::Done(revs)) => Ok(Some(revs.first().copied().unwrap_or(was.rev))),
            Ok(Commit::Failed { .. }) => Ok(None),
            Err(_) => Err(StoreAway),
        }
    }

    /// Reads the record from its master; false, and ended, where there is none.
    pub(super) async fn reread(&self) -> Result<bool, StoreAway> {
        let record = self.shared.store.get(self.record()).await.map_err(|_| StoreAway)?;
        match record.as_ref().and_then(Facts::read) {
            Some(facts) => {
                // Whatever was known: a master that a failover made may have lost the last change.
                let was = self.facts.swap(Arc::new(facts));
                self.tell_learnt(&was);
                Ok(true)
            }
            None => {
                self.close();
                Ok(false)
            }
        }
    }

    /// Takes in what the record says, unless that is older than what is known.
    pub(super) fn learn(&self, facts: Facts) {
        let facts = Arc::new(facts);
        let newer = |held: &Arc<Facts>| if facts.rev >= held.rev { facts.clone() } else { held.clone() };
        let was = self.facts.rcu(newer);
        if facts.rev >= was.rev {
            self.tell_learnt(&was);
        }
    }

    fn tell_learnt(&self, was: &Facts) {
        if was.subscriptions != self.facts.load().subscriptions {
            self.changes.made();
        }
        self.learnt.notify_waiters();
    }

    /// Resolves once the client has described itself and gone on from there, on whichever pod (HTTP+SSE, whose sessions
    /// are there before that).
    pub async fn begun(&self) {
        loop {
            let mut learnt = std::pin::pin!(self.learnt.notified());
            learnt.as_mut().enable();
            if self.facts().has_begun() {
                return;
            }
            // A change is told of what was read here alone. With the store away, a gap follows when it is back.
            match self.shared.store.near(self.record()).await {
                Ok(Some(record)) => match Facts::read(&record) {
                    Some(facts) if facts.packed != self.facts().packed => self.learn(facts),
                    _ => learnt.await,
                },
                Ok(None) | Err(_) => learnt.await,
            }
        }
    }

    /// The session has ended: its streams end, its calls are cancelled, its asks refused.
    pub(super) fn close(&self) {
        self.over.store(true, Ordering::Release);
        self.ended.cancel();
        self.calls.end();
        self.asks.refuse_all();
    }

    pub(super) fn record(&self) -> Key {
        self.record.clone()
    }

    /// What its record says, from nearby.
    pub(super) async fn glance(&self) -> Result<Option<Record>, StoreError> {
        match self.at_a_glance() {
            Some(read) => read,
            None => self.shared.store.near(self.record()).await,
        }
    }

    /// The same, where the store need not be waited for.
    pub(super) fn at_a_glance(&self) -> Option<Result<Option<Record>, StoreError>> {
        self.shared.store.glance(&self.record)
    }

    /// What sealed values of this session are bound to: they open for its principal, in it alone.
    pub(super) fn bound(&self) -> Vec<u8> {
        [self.id.0.as_bytes(), b" ", self.facts().owner.as_bytes()].concat()
    }
}

/// A touch that is under way.
struct Touching<'a>(&'a AtomicBool);

impl Drop for Touching<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Held by the task that feeds the session's GET streams. See [`LiveSession::attend`].
pub struct Attending(Arc<LiveSession>);

impl Attending {
    pub fn session(&self) -> &Arc<LiveSession> {
        &self.0
    }

    /// Resolves once the session's newest GET stream is this pod's: then it is to hold the standing call.
    pub async fn wanted(&self) {
        // Its sender is the session's.
        let _ = self.0.lead().wait_for(|lead| *lead == Lead::Here).await;
    }

    /// From here on the pod holds the standing call, until this is dropped.
    pub fn begin(&self) -> Feeding<'_> {
        self.0.changes.listen();
        Feeding { of: self, missed: Notify::new(), settled: Notify::new(), has_turn: AtomicBool::new(false) }
    }

    /// The standing call has ended here and goes on nowhere.
    pub async fn leave_off(&self) {
        self.0.leave_off().await;
    }
}

impl Drop for Attending {
    fn drop(&mut self) {
        self.0.attending.store(false, Ordering::Release);
    }
}

/// While this pod holds the standing call of the session.
pub struct Feeding<'a> {
    of: &'a Attending,
    missed: Notify,
    /// Whether the pod before this one has passed on all that it heard, or will no more.
    settled: Notify,
    /// Whether it is this pod's turn, as far as it is known: nobody else's is handed on from here.
    has_turn: AtomicBool,
}

impl Feeding<'_> {
    /// Resolves once another pod has the newest GET stream and its standing call has taken over. To be polled: it also
    /// tells the others that the call of this pod has.
    pub async fn relieved(&self) {
        let session = &self.of.0;
        let told = async {
            session.changes.acknowledged().await;
            loop {
                match Box::pin(session.attends_here(&self.has_turn)).await {
                    Ok(Some(missed)) => {
                        if missed {
                            self.missed.notify_one();
                        }
                        self.settled.notify_one();
                    }
                    Ok(None) => {}
                    // What comes is told here at least.
                    Err(StoreAway) => {
                        self.settled.notify_one();
                        tokio::time::sleep(AWAY).await;
                        continue;
                    }
                }
                // Where a newer stream was opened here before another pod's call stood, that one must give way.
                session.outdone().await;
                tokio::time::sleep(SETTLED).await;
            }
        };
        tokio::select! {
            () = told => {}
            () = session.relieved() => {}
        }
    }

    /// Resolves where changes may have been missed before this standing call stood, as [`Feeding::relieved`] finds out.
    pub async fn missed(&self) {
        self.missed.notified().await;
    }

    /// Resolves, once, when it is this pod's turn: what its standing call hears comes after all that the one before it heard.
    pub async fn settled(&self) {
        self.settled.notified().await;
    }

    /// After [`Feeding::relieved`]: all that came here has been told, and goes before what the next pod tells.
    pub async fn hand_over(&self) {
        // Else who has it hands it to whom it is to go to by now.
        if self.has_turn.load(Ordering::Relaxed) {
            self.of.0.queue.emptied().await;
            self.of.0.hand_on().await;
        }
    }
}

impl Drop for Feeding<'_> {
    fn drop(&mut self) {
        self.of.0.changes.deaf();
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        let mut live = lock(&self.shared.live);
        // A newer handle may have taken the place.
        if live.get(&self.id.0).is_some_and(|held| held.strong_count() == 0) {
            live.remove(&self.id.0);
        }
    }
}

fn field_of(of: &UpstreamId) -> Arc<str> {
    format!("u:{of}").into()
}

impl Session for LiveSession {
    fn id(&self) -> Option<&SessionId> {
        Some(&self.id)
    }

    fn key(&self) -> &Arc<str> {
        &self.key
    }

    fn nook(&self) -> Option<&Nook> {
        Some(&self.nook)
    }

    fn load(&self, of: &UpstreamId) -> BoxFuture<'static, Result<Option<Bytes>, StoreAway>> {
        let (near, field) = (self.shared.store.near(self.record()), field_of(of));
        async move {
            let record = near.await.map_err(|_| StoreAway)?;
            Ok(record.and_then(|record| record.field(&field).cloned()))
        }
        .boxed()
    }

    fn swap(
        &self,
        of: &UpstreamId,
        was: Option<Bytes>,
        now: Option<Bytes>,
    ) -> BoxFuture<'static, Result<bool, StoreAway>> {
        let (key, field) = (self.record(), field_of(of));
        let checks = vec![(key.clone(), Check::Present), (key.clone(), Check::Field(field.clone(), was))];
        let write = match now {
            Some(now) => Write::Set(field, now),
            None => Write::Unset(field),
        };
        let commit = self.shared.store.commit(checks, vec![(key, write)], Sure::Master);
        async move { commit.await.map(|commit| matches!(commit, Commit::Done(_))).map_err(|_| StoreAway) }
            .boxed()
    }
}

/// A session that has ended, with what links kept for it: enough to end it upstream.
pub struct Ended {
    id: SessionId,
    key: Arc<str>,
    profile: Arc<str>,
    kept: Mutex<BTreeMap<Arc<str>, Bytes>>,
}

impl Ended {
    pub(super) fn new(id: SessionId, record: &Record) -> Ended {
        let kept = record.fields.iter().filter(|(name, _)| name.starts_with("u:"));
        let kept = kept.map(|(name, state)| (name.clone(), state.clone())).collect();
        let key = format!("s:{}", short_hash(id.0.as_bytes())).into();
        let facts = record.field(FACTS).and_then(Facts::unpack);
        let profile = facts.map_or_else(|| "".into(), |facts| facts.profile);
        Ended { id, key, profile, kept: Mutex::new(kept) }
    }

    /// The profile whose upstreams it was open at.
    pub fn profile(&self) -> &Arc<str> {
        &self.profile
    }
}

impl Session for Ended {
    fn id(&self) -> Option<&SessionId> {
        Some(&self.id)
    }

    fn key(&self) -> &Arc<str> {
        &self.key
    }

    fn load(&self, of: &UpstreamId) -> BoxFuture<'static, Result<Option<Bytes>, StoreAway>> {
        std::future::ready(Ok(lock(&self.kept).get(&field_of(of)).cloned())).boxed()
    }

    fn swap(
        &self,
        of: &UpstreamId,
        was: Option<Bytes>,
        now: Option<Bytes>,
    ) -> BoxFuture<'static, Result<bool, StoreAway>> {
        let mut kept = lock(&self.kept);
        let field = field_of(of);
        let holds = kept.get(&field) == was.as_ref();
        if holds {
            match now {
                Some(now) => kept.insert(field, now),
                None => kept.remove(&field),
            };
        }
        std::future::ready(Ok(holds)).boxed()
    }
}
