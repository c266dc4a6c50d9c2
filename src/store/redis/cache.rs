//! What this pod has read of records, for as long as Redis would tell it of a change. It knows no connections: that they
//! stand, and what changed, is told to it.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::store::{Key, Record};

/// The bytes that are cached at most, about; the least used go first.
const MOST: u64 = 64 << 20;
/// How long anything is kept: the bound of serving in an outage.
const KEPT: Duration = Duration::from_secs(300);
/// What keeping a record costs beside its bytes, about.
const COST: usize = 256;
/// Keys of one shard share an epoch: enough that a change of one seldom keeps another from being cached.
const SHARDS: usize = 256;

pub(super) struct Cache {
    records: moka::sync::Cache<Key, Record>,
    /// Each grows with each change that is told of a key of its shard. Filling compares it and inserts under one lock, for
    /// invalidations arrive on another task than the reads that they are about.
    epochs: Vec<Mutex<u64>>,
    hasher: RandomState,
    trusted: AtomicBool,
}

/// The epoch before a read.
pub(super) struct Mark(u64);

impl Cache {
    pub(super) fn new() -> Self {
        let weight = |key: &Key, record: &Record| -> u32 {
            let fields = record.fields.iter().map(|(name, value)| name.len() + value.len() + 64);
            (key.tag.len() + key.rest.len() + COST + fields.sum::<usize>()).try_into().unwrap_or(u32::MAX)
        };
        Cache {
            records: moka::sync::Cache::builder()
                .max_capacity(MOST)
                .weigher(weight)
                .time_to_live(KEPT)
                .build(),
            epochs: (0..SHARDS).map(|_| Mutex::new(0)).collect(),
            hasher: RandomState::new(),
            trusted: AtomicBool::new(false),
        }
    }

    /// Lets go of what has been kept long enough, which a cache that nobody uses does not do by itself.
    pub(super) fn tidy(&self) {
        self.records.run_pending_tasks();
    }

    /// The record, if it is cached and the cache is trusted.
    pub(super) fn get(&self, key: &Key) -> Option<Record> {
        if self.trusted.load(SeqCst) { self.records.get(key) } else { None }
    }

    /// What was cached when trust ended.
    pub(super) fn left_over(&self, key: &Key) -> Option<Record> {
        self.records.get(key)
    }

    /// To be taken before a read that may fill the cache; `None` while it is not trusted.
    pub(super) fn mark(&self, key: &Key) -> Option<Mark> {
        let epoch = *self.epoch(key);
        self.trusted.load(SeqCst).then_some(Mark(epoch))
    }

    /// Keeps what was read, unless something changed since the mark.
    pub(super) fn fill(&self, key: &Key, mark: Mark, record: &Record) {
        // Copied, so that a record does not keep alive the whole buffer that it was read from.
        let fields = record.fields.iter().map(|(name, value)| (name.clone(), Bytes::copy_from_slice(value)));
        let own = Record { rev: record.rev, fields: Arc::new(fields.collect()) };
        let epoch = self.epoch(key);
        if *epoch == mark.0 && self.trusted.load(SeqCst) {
            self.records.insert(key.clone(), own);
        }
    }

    /// The key has changed.
    pub(super) fn forget(&self, key: &Key) {
        let mut epoch = self.epoch(key);
        *epoch += 1;
        self.records.invalidate(key);
    }

    /// From now on changes are told again. What was cached before may be old, and so may be what is being read.
    pub(super) fn trust(&self) {
        self.clear();
        self.trusted.store(true, SeqCst);
    }

    /// Changes are no longer told.
    pub(super) fn distrust(&self) {
        self.trusted.store(false, SeqCst);
    }

    /// Changes were missed.
    pub(super) fn clear(&self) {
        for epoch in &self.epochs {
            *lock(epoch) += 1;
        }
        self.records.invalidate_all();
    }

    fn epoch(&self, key: &Key) -> MutexGuard<'_, u64> {
        lock(&self.epochs[self.hasher.hash_one(key) as usize % SHARDS])
    }
}

/// Nothing under these locks panics.
fn lock(epoch: &Mutex<u64>) -> MutexGuard<'_, u64> {
    epoch.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rev: u64) -> Record {
        Record { rev, fields: Arc::default() }
    }

    #[test]
    fn a_record_that_changed_while_it_was_read_is_not_cached() {
        let (cache, key) = (Cache::new(), Key::new("s", "t"));
        cache.trust();
        let mark = cache.mark(&key).unwrap();
        cache.forget(&key);
        cache.fill(&key, mark, &record(1));
        assert_eq!(cache.get(&key), None);
        cache.fill(&key, cache.mark(&key).unwrap(), &record(2));
        assert_eq!(cache.get(&key), Some(record(2)));
        cache.forget(&key);
        assert_eq!(cache.get(&key), None);
    }

    #[test]
    fn without_trust_nothing_is_given_or_kept() {
        let (cache, key) = (Cache::new(), Key::new("s", "t"));
        assert!(cache.mark(&key).is_none());
        cache.trust();
        let mark = cache.mark(&key).unwrap();
        cache.fill(&key, cache.mark(&key).unwrap(), &record(1));
        cache.distrust();
        assert_eq!((cache.get(&key), cache.left_over(&key)), (None, Some(record(1))));
        cache.trust();
        assert_eq!(cache.get(&key), None, "trust begins anew");
        cache.fill(&key, mark, &record(1));
        assert_eq!(cache.get(&key), None, "read before the gap");
    }
}
