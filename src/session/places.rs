//! Where a session's GET streams are open, over all pods: `{sid}:g` has a field for each, with its pod and its age, and
//! names the pod whose standing call feeds them. Pods that have anything of the session here watch it. An entry whose pod
//! is gone, or that nobody renewed, counts for nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::timeout;

use super::facts::now;
use super::outlet::KEEP_PART;
use super::queue::Held;
use super::{LiveSession, RECORD, Shared};
use crate::mcp::{SessionId, StoreAway};
use crate::store::{Check, Commit, Health, Key, PodId, Record, Sure, Write};

/// A session's places among its keys: `{sid}:g`.
pub(super) const PLACES: &str = "g";
/// The field that names the pod whose standing call feeds the streams. No stream is named so.
const ATTENDS: &str = "a";
/// In its place: no pod does any more, and what came since is not known.
const NOBODY: &str = "-";
/// The field that names the pod to which the one before it has handed them, once that had passed on the last that came.
const HANDED: &str = "b";
/// How long that may take. A pod that is gone says nothing.
const HANDING: Duration = Duration::from_secs(5);
/// A stream is not kept from opening for longer by a store that is slow.
const PATIENCE: Duration = Duration::from_secs(1);
/// A stream that was opened at the same time elsewhere is outdone so many times at most.
const TRIES: usize = 3;

/// A GET stream that is open on some pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) stream: Arc<str>,
    pub(super) pod: PodId,
    /// The greater, the newer: milliseconds since 1970 when it was opened, and more than any that was known then.
    pub(super) age: u64,
    /// The field as it stands.
    pub(super) value: Bytes,
}

/// Whose the session's messages are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lead {
    /// This pod has the newest GET stream.
    Here,
    /// That one has.
    Elsewhere(PodId),
    /// No GET stream is known to be open.
    Nobody,
}

impl Place {
    fn read(stream: &Arc<str>, value: &Bytes) -> Option<(Place, u64)> {
        let mut parts = std::str::from_utf8(value).ok()?.split(' ');
        let (pod, age, renewed) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let pod = PodId::named(pod);
        Some((Place { stream: stream.clone(), pod, age, value: value.clone() }, renewed))
    }

    fn write(pod: &PodId, age: u64) -> Bytes {
        format!("{pod} {age} {}", now()).into()
    }
}

/// What the record says.
#[derive(Default)]
struct Read {
    /// `None`: there is no record.
    rev: Option<u64>,
    places: Vec<Place>,
    attends: Option<PodId>,
    handed: Option<PodId>,
}

impl Read {
    fn of(record: &Record, life: Duration) -> Read {
        let expired = now().saturating_sub(life.as_millis() as u64);
        let fields = record.fields.iter().filter(|(name, _)| ![ATTENDS, HANDED].contains(&&***name));
        let places = fields
            .filter_map(|(stream, value)| Place::read(stream, value))
            .filter(|(_, renewed)| *renewed > expired)
            .map(|(place, _)| place)
            .collect();
        let pod = |field| record.field(field).and_then(|pod| std::str::from_utf8(pod).ok()).map(PodId::named);
        Read { rev: Some(record.rev), places, attends: pod(ATTENDS), handed: pod(HANDED) }
    }
}

impl Shared {
    /// Another pod believes that a stream is open here, and it is not: what says so goes, and that pod looks again.
    pub(super) async fn deny(&self, session: &SessionId, stream: &str) {
        let key = Key::new(session.0.clone(), PLACES);
        let Ok(Some(record)) = self.store.get(key.clone()).await else { return };
        let places = Read::of(&record, self.settings.backlog_life).places;
        let wrong = places.into_iter().find(|place| &*place.stream == stream && place.pod == self.post.me);
        if let Some(wrong) = wrong {
            let checks = vec![(key.clone(), Check::field(wrong.stream.clone(), wrong.value))];
            let _ = self.store.commit(checks, vec![(key, Write::Unset(wrong.stream))], Sure::Master).await;
        }
    }
}

impl LiveSession {
    fn places_key(&self) -> Key {
        Key::new(self.session_id().0.clone(), PLACES)
    }

    fn read_places(&self, record: Option<Record>) -> Read {
        record.map_or_else(Read::default, |record| Read::of(&record, self.shared.settings.backlog_life))
    }

    /// Takes in where streams are open. Those of this pod that are open elsewhere by now end here.
    fn learn_places(self: &Arc<Self>, read: Read, from_master: bool) {
        let me = &self.shared.post.me;
        // At one instant, so that nothing older comes after.
        let also = || {
            self.attends.send_if_modified(|attends| {
                let changed = *attends != read.attends;
                *attends = read.attends;
                changed
            });
            self.handed.send_if_modified(|handed| {
                let changed = *handed != read.handed;
                *handed = read.handed;
                changed
            });
        };
        let Some(closed) = self.queue.learn(me, read.rev, from_master, read.places, also) else { return };
        for held in closed {
            let session = self.clone();
            self.shared.tasks.spawn(async move { session.let_go(&held).await });
        }
    }

    /// Looks where streams are open, in the cache where that is trusted, and hears of the next change.
    pub(super) async fn look(self: &Arc<Self>) -> Result<(), StoreAway> {
        let record = self.shared.store.near(self.places_key()).await.map_err(|_| StoreAway)?;
        self.learn_places(self.read_places(record), false);
        Ok(())
    }

    /// As [`LiveSession::look`], past the cache.
    pub(super) async fn look_again(self: &Arc<Self>) -> Result<(), StoreAway> {
        let record = self.shared.store.get(self.places_key()).await.map_err(|_| StoreAway)?;
        self.learn_places(self.read_places(record), true);
        Ok(())
    }

    /// Whether anything here depends on where streams are open.
    pub(super) fn minds_places(&self) -> bool {
        self.queue.minds() || self.attending()
    }

    /// Makes a stream known as this pod's and the newest, or as still open; it goes on without that where the store is
    /// away.
    pub(super) async fn hold(self: &Arc<Self>, seat: u64, renew: bool) {
        if *self.shared.store.health().borrow() == Health::Away {
            return;
        }
        // In a task of its own: what was written and not noted here would stand for a stream that nobody reads.
        let session = self.clone();
        let holding = self.shared.tasks.spawn(async move { session.try_hold(seat, renew).await });
        if timeout(PATIENCE, holding).await.is_err() {
            tracing::debug!(session = ?self.session_id(), "a stream is not known to other pods yet");
        }
    }

    async fn try_hold(self: &Arc<Self>, seat: u64, renew: bool) {
        let life = self.shared.settings.backlog_life;
        for _ in 0..TRIES {
            let Some((stream, age)) = self.queue.aged(seat, !renew) else { return };
            let value = Place::write(&self.shared.post.me, age);
            let key = self.places_key();
            let mut writes =
                vec![(key.clone(), Write::Set(stream.clone(), value.clone())), (key, Write::Live(life))];
            // An idle stream's log must not expire under the client's last id.
            writes.push((super::outlet::log_key(self.session_id(), &stream), Write::Live(life)));
            let checks = vec![(self.record(), Check::Present)];
            match self.shared.store.commit(checks, writes, Sure::Master).await {
                Ok(Commit::Done(revs)) => self.queue.changed(revs.first().copied().unwrap_or(0)),
                Ok(Commit::Failed { .. }) => return self.close(),
                Err(_) => return,
            }
            if !self.queue.held(seat, value.clone()) {
                // It was closed meanwhile.
                return self.let_go(&Held { stream, value }).await;
            }
            let looked = self.look().await;
            if looked.is_err() || renew || self.queue.lead() == Lead::Here {
                return self.route();
            }
        }
    }

    /// A stream is no more open here. Another pod, or another connection, may have it by now: that stays.
    pub(super) async fn let_go(&self, held: &Held) {
        let key = self.places_key();
        let checks = vec![(key.clone(), Check::field(held.stream.clone(), held.value.clone()))];
        let writes = vec![(key, Write::Unset(held.stream.clone()))];
        // Where this fails, it goes when nobody renews it.
        if let Ok(Commit::Done(revs)) = self.shared.store.commit(checks, writes, Sure::Master).await {
            self.queue.changed(revs.first().copied().unwrap_or(0));
        }
    }

    /// What must hold of a stream for this pod to send on it: that no other has it.
    pub(super) fn still_held(&self, held: Held) -> (Key, Check) {
        (self.places_key(), Check::field(held.stream, held.value))
    }

    /// The same of a stream of another pod.
    pub(super) fn still_there(&self, place: &Place) -> (Key, Check) {
        (self.places_key(), Check::field(place.stream.clone(), place.value.clone()))
    }

    /// A pod is gone, and its stream with it.
    pub(super) async fn bury(self: &Arc<Self>, place: &Place) {
        self.let_go(&Held { stream: place.stream.clone(), value: place.value.clone() }).await;
    }

    /// Makes all streams of this pod known again: what knew of them may have been lost.
    pub(super) async fn hold_all(self: &Arc<Self>) {
        for seat in self.queue.seats() {
            self.hold(seat, true).await;
        }
    }

    /// The keys that end with the session, besides its logs.
    pub(super) fn places_to_drop(&self) -> Option<Key> {
        self.minds_places().then(|| self.places_key())
    }
}

// --- Who feeds the streams ---

impl LiveSession {
    /// Whose the session's messages are, as far as is known here.
    pub fn lead(&self) -> watch::Receiver<Lead> {
        self.queue.watch_lead()
    }

    /// This pod's standing call is acknowledged, and from now on feeds the session's streams: another's may end. True: what
    /// came before may have been missed, for no pod handed the streams over. `None`: it is another pod's turn by now. `has_turn` says at each moment
    /// whether it is this one's.
    pub(super) async fn attends_here(
        self: &Arc<Self>,
        has_turn: &AtomicBool,
    ) -> Result<Option<bool>, StoreAway> {
        let me = &self.shared.post.me;
        let key = self.places_key();
        // Past what is known here: that another took over may not have been heard yet.
        let before = self.shared.store.get(key.clone()).await.map_err(|_| StoreAway)?;
        let before = self.read_places(before).attends;
        if let Lead::Elsewhere(newest) = self.queue.lead()
            && before.as_ref() == Some(&newest)
        {
            // Too late: it is that pod's turn already.
            // What this pod had, it has still to hand on.
            let _ = self.look().await;
            return Ok(None);
        }
        // What another handed to this pod before is not about this time.
        self.handed.send_replace(None);
        let writes = vec![
            (key.clone(), Write::set(ATTENDS, me.as_str().to_owned())),
            (key.clone(), Write::Unset(HANDED.into())),
            (key, Write::Live(self.shared.settings.backlog_life)),
        ];
        let checks = vec![(Key::new(self.session_id().0.clone(), RECORD), Check::Present)];
        match self.shared.store.commit(checks, writes, Sure::Master).await {
            Ok(Commit::Done(revs)) => self.queue.changed(revs.first().copied().unwrap_or(0)),
            // The session has ended.
            Ok(Commit::Failed { .. }) => return Ok(None),
            Err(_) => return Err(StoreAway),
        }
        // Of nobody, or of this pod by an earlier call whose end it could not say, there is nothing to wait for.
        let from = before.as_ref().filter(|pod| *pod != me && pod.as_str() != NOBODY);
        has_turn.store(from.is_none(), Ordering::Relaxed);
        let _ = self.look().await;
        let missed = match from {
            None => before.is_some(),
            Some(_) => timeout(HANDING, self.handed_here()).await.is_err(),
        };
        has_turn.store(true, Ordering::Relaxed);
        Ok(Some(missed))
    }

    async fn handed_here(&self) {
        let me = &self.shared.post.me;
        // Its sender is ours.
        let _ = self.handed.subscribe().wait_for(|handed| handed.as_ref() == Some(me)).await;
    }

    /// What this pod's standing call heard is passed on to the last, and another pod's goes on.
    pub(super) async fn hand_on(&self) {
        let Some(other) = self.attends.borrow().clone() else { return };
        self.say_of_attending(&other, HANDED, &other).await;
    }

    /// This pod's standing call has ended, and no other has taken over.
    pub(super) async fn leave_off(&self) {
        self.say_of_attending(&self.shared.post.me.clone(), ATTENDS, &PodId::named(NOBODY)).await;
    }

    /// Where it is `attends` that feeds the streams still. What is not said is taken for a gap.
    async fn say_of_attending(&self, attends: &PodId, field: &'static str, pod: &PodId) {
        let key = self.places_key();
        let checks = vec![(key.clone(), Check::field(ATTENDS, attends.as_str().to_owned()))];
        let writes = vec![(key, Write::set(field, pod.as_str().to_owned()))];
        if let Ok(Commit::Done(revs)) = self.shared.store.commit(checks, writes, Sure::Master).await {
            self.queue.changed(revs.first().copied().unwrap_or(0));
        }
    }

    /// Resolves once the newest stream is on another pod, and a standing call there feeds it.
    pub(super) async fn relieved(&self) {
        self.attended_elsewhere(|lead| matches!(lead, Lead::Elsewhere(_))).await;
    }

    /// Resolves once a standing call of another pod feeds the streams, though the newest is here.
    pub(super) async fn outdone(&self) {
        self.attended_elsewhere(|lead| *lead == Lead::Here).await;
    }

    async fn attended_elsewhere(&self, counts: impl Fn(&Lead) -> bool) {
        let (mut lead, mut attends) = (self.lead(), self.attends.subscribe());
        loop {
            let there = counts(&lead.borrow_and_update());
            let other = attends
                .borrow_and_update()
                .as_ref()
                .is_some_and(|pod| *pod != self.shared.post.me && pod.as_str() != NOBODY);
            if there && other {
                return;
            }
            // Both senders live in this handle.
            tokio::select! {
                _ = lead.changed() => {}
                _ = attends.changed() => {}
            }
        }
    }
}

/// How often a stream that stays open is made known again.
pub(super) fn renewal(life: Duration) -> Duration {
    life / KEEP_PART
}
