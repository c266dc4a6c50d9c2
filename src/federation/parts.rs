//! The members' lists of one kind, side by side, and what is made of them once and kept: by the addresses of the lists,
//! which its sources keep as long as nothing changed.

use crate::mcp::Listing;
use moka::sync::Cache;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// A list a member, in configuration order; `None` where none is known.
pub(super) type Parts = Vec<Option<Arc<Listing>>>;

/// Most bytes of lists that are kept for one kind of view: callers with lists of their own each have one.
const KEPT: u64 = 64 * 1024 * 1024;
/// What an entry of a list costs besides its text, in bytes.
const ENTRY: usize = 256;
const IDLE: Duration = Duration::from_secs(600);

/// Values that were derived from lists. Each value must hold the lists it was made of, so that their addresses stay theirs.
pub(super) struct Derived<T>(Cache<Vec<usize>, Arc<T>>);

/// Names what a value is derived from.
pub(super) type Key = SmallVec<[usize; 16]>;

impl<T: Send + Sync + 'static> Derived<T> {
    /// `weigh` tells how many bytes a value keeps alive.
    pub(super) fn new(weigh: fn(&T) -> usize) -> Derived<T> {
        let weigher = move |_: &Vec<usize>, value: &Arc<T>| u32::try_from(weigh(value)).unwrap_or(u32::MAX);
        Derived(Cache::builder().weigher(weigher).max_capacity(KEPT).time_to_idle(IDLE).build())
    }

    /// What was derived from what `key` names, made now where it was not.
    pub(super) fn of(&self, key: Key, make: impl FnOnce() -> T) -> Arc<T> {
        // Not `get_with`: making is pure and short, and nobody should wait for another's.
        if let Some(known) = self.0.get(key.as_slice()) {
            return known;
        }
        let made = Arc::new(make());
        self.0.insert(key.into_vec(), made.clone());
        made
    }
}

/// What tells these lists from any others while they are held.
pub(super) fn addresses(parts: &Parts) -> impl Iterator<Item = usize> + '_ {
    parts.iter().map(|part| part.as_ref().map_or(0, |list| Arc::as_ptr(list) as usize))
}

/// About how many bytes these lists keep alive.
pub(super) fn weight(parts: &Parts) -> usize {
    let items = parts.iter().flatten().flat_map(|list| list.items());
    ENTRY + items.map(|item| item.body.text().len() + ENTRY).sum::<usize>()
}
