//! The store of one process: the semantics of the shared one, with nothing installed and nothing kept over a restart.
//! Bounded: beyond its cap, writes are refused and nothing is evicted. It must not know what is kept in it.

mod ledger;
mod post;
mod slot;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::stream::BoxStream;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::task::AbortOnDropHandle;

use self::ledger::Ledger;
use self::post::Post;
use self::slot::Slot;
use crate::clock;

use super::{
    Check, Commit, Events, Fut, Grant, Health, Heard, Key, PodId, Rate, Record, Store, StoreError, Sure,
};
use super::{Topic, Write, one_tag};

/// Keys of one tag lie in one slot, under one lock, which is never held over an await. More slots, less waiting.
const SLOTS: usize = 16;
/// How often what has expired is removed. Reads never see it, whether it has been removed or not.
const SWEEP: Duration = Duration::from_secs(1);
/// The most that is removed under one lock by the sweep, and beside one write; so nobody waits long.
const SWEPT_AT_ONCE: usize = 256;
const SWEPT_BY_A_WRITE: usize = 8;

/// The memory store. What its futures and streams need lives on with them; its sweeping ends when it is dropped.
pub struct Memory {
    shared: Arc<Shared>,
    health: watch::Sender<Health>,
    _sweeper: AbortOnDropHandle<()>,
}

struct Shared {
    slots: [Mutex<Slot>; SLOTS],
    ledger: Arc<Ledger>,
    post: Arc<Post>,
}

impl Memory {
    /// A store that holds at most about `cap` bytes (keys, values and an estimate of what keeping them costs). To be called
    /// within a Tokio runtime, where its sweeping runs.
    pub fn new(cap: usize) -> Self {
        let ledger = Arc::new(Ledger::new(cap));
        let post = Arc::new(Post::new(ledger.clone()));
        let slots = std::array::from_fn(|_| Mutex::new(Slot::new(ledger.clone(), post.clone())));
        let shared = Arc::new(Shared { slots, ledger, post });
        let sweeper = tokio::spawn(sweep_for_ever(shared.clone()));
        Memory { shared, health: watch::Sender::new(Health::Up), _sweeper: AbortOnDropHandle::new(sweeper) }
    }

    /// The bytes that are accounted for now, letters not yet read included.
    pub fn used(&self) -> usize {
        self.shared.ledger.used()
    }

    /// Answers with what `act` finds in the key's slot. Nothing happens before the future is polled.
    fn within<T, F>(&self, key: Key, act: F) -> Fut<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Slot, &Key, Instant) -> Result<T, StoreError> + Send + 'static,
    {
        let shared = self.shared.clone();
        async move { act(&mut shared.slot(&key.tag), &key, Instant::now()) }.boxed()
    }
}

impl Store for Memory {
    fn get(&self, key: Key) -> Fut<Option<Record>> {
        self.within(key, |slot, key, now| slot.get(key, now))
    }

    fn near(&self, key: Key) -> Fut<Option<Record>> {
        let shared = self.shared.clone();
        async move { shared.slot(&key.tag).near(&key, clock::lately()) }.boxed()
    }

    fn glance(&self, key: &Key) -> Option<Result<Option<Record>, StoreError>> {
        Some(self.shared.slot(&key.tag).near(key, clock::lately()))
    }

    fn commit(&self, checks: Vec<(Key, Check)>, writes: Vec<(Key, Write)>, _: Sure) -> Fut<Commit> {
        let shared = self.shared.clone();
        async move {
            let Some(tag) = one_tag(&checks, &writes)? else { return Ok(Commit::Done(Vec::new())) };
            shared.commit(tag, &checks, &writes)
        }
        .boxed()
    }

    fn take(&self, key: Key, _: Sure) -> Fut<Option<Record>> {
        self.within(key, |slot, key, now| slot.take(key, now))
    }

    fn admit(&self, key: Key, rate: Rate) -> Fut<Grant> {
        self.within(key, move |slot, key, now| {
            slot.sweep(now, SWEPT_BY_A_WRITE);
            slot.admit(key, rate, now)
        })
    }

    fn events(&self, key: Key, after: u64, most: u32) -> Fut<Option<Events>> {
        self.within(key, move |slot, key, now| slot.events(key, after, most, now))
    }

    fn mail(&self, to: PodId, letter: Bytes) -> Fut<bool> {
        let post = self.shared.post.clone();
        async move { post.mail(&to, &letter) }.boxed()
    }

    fn say(&self, topic: Topic, what: Bytes) -> Fut<()> {
        let post = self.shared.post.clone();
        async move {
            post.say(Heard::Said(topic, Bytes::copy_from_slice(&what)));
            Ok(())
        }
        .boxed()
    }

    fn hear(&self, me: PodId) -> BoxStream<'static, Heard> {
        Box::pin(self.shared.post.clone().hear(me))
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }
}

impl Shared {
    fn slot(&self, tag: &str) -> MutexGuard<'_, Slot> {
        // Whoever chose tags for one slot would wait for himself.
        let sum = |bytes: &[u8]| {
            bytes.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)))
        };
        let sum = tag.as_bytes().last_chunk::<8>().map_or_else(|| sum(tag.as_bytes()), |last| sum(last));
        lock(&self.slots[sum % SLOTS])
    }

    fn commit(
        &self,
        tag: &str,
        checks: &[(Key, Check)],
        writes: &[(Key, Write)],
    ) -> Result<Commit, StoreError> {
        let attempt = || {
            let now = Instant::now();
            let mut slot = self.slot(tag);
            slot.sweep(now, SWEPT_BY_A_WRITE);
            slot.commit(checks, writes, now)
        };
        match attempt() {
            // Other slots may hold what has expired since the last sweep.
            Err(StoreError::Full) if self.sweep() > 0 => attempt(),
            other => other,
        }
    }

    /// Removes all that has expired, in all slots, and says how much that was.
    fn sweep(&self) -> usize {
        let mut swept = 0;
        for slot in &self.slots {
            loop {
                let some = lock(slot).sweep(Instant::now(), SWEPT_AT_ONCE);
                swept += some;
                if some < SWEPT_AT_ONCE {
                    break;
                }
            }
        }
        swept
    }
}

async fn sweep_for_ever(shared: Arc<Shared>) {
    let mut beat = tokio::time::interval(SWEEP);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        shared.sweep();
    }
}

/// Nothing under these locks is meant to panic; if it does, one lost request must not take the store along.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
