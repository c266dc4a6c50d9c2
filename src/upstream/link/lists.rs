//! The lists of an upstream, kept for routing at any age and for answering while they are fresh.

use super::flights::Flights;
use super::{Age, Arc, Caller, Fault, Inner, Kind, Listing, Method};
use crate::wire::Era;
use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use moka::sync::Cache;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// KiB of listed items that one link keeps.
const ROOM: u64 = 64 << 10;
const IDLE: Duration = Duration::from_secs(3600);

type Asking = Flights<(Key, u64), Result<Arc<Listing>, Fault>>;

/// Whose list it is, in which era it is asked for (a server of both may list other things in each), and of what.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The caller by [`Session::key`](crate::mcp::Session::key); empty for what holds for all.
    who: Arc<str>,
    era: Era,
    kind: Kind,
}

impl Key {
    pub(super) fn of(caller: &Caller, kind: Kind) -> Key {
        Key { who: caller.session.key().clone(), era: caller.version.era(), kind }
    }
}

/// A list as it was read, and whether its upstream says of it that it is this caller's alone.
pub(super) struct Fetched {
    pub(super) listing: Listing,
    pub(super) said_private: bool,
}

pub(super) struct Lists {
    kept: Cache<Key, Arc<Dated>>,
    all: Arc<str>,
    /// Grows when a kind of list is said to have changed: what was asked for before is stale.
    epochs: [AtomicU64; 4],
    asking: Arc<Asking>,
    /// Of each kind the list that was looked up last: calls in a row are mostly of one kind of caller.
    last: [ArcSwapOption<Looked>; 4],
    /// Grows with each list that is kept: what was looked up before may be another now.
    kept_so_far: AtomicU64,
}

struct Looked {
    key: Key,
    listing: Arc<Listing>,
    kept_so_far: u64,
}

struct Dated {
    listing: Arc<Listing>,
    at: Instant,
    epoch: u64,
}

impl Lists {
    pub(super) fn new() -> Lists {
        let size = |_: &Key, dated: &Arc<Dated>| {
            let bytes: usize = dated.listing.items().iter().map(|item| 128 + item.body.len()).sum();
            u32::try_from(bytes / 1024 + 1).unwrap_or(u32::MAX)
        };
        Lists {
            kept: Cache::builder().max_capacity(ROOM).weigher(size).time_to_idle(IDLE).build(),
            all: "".into(),
            epochs: Default::default(),
            asking: Flights::new(),
            last: Default::default(),
            kept_so_far: AtomicU64::new(0),
        }
    }

    /// The last known list, of any age.
    pub(super) fn known(&self, key: &Key) -> Option<Arc<Listing>> {
        let kept_so_far = self.kept_so_far.load(Ordering::Acquire);
        let slot = &self.last[key.kind as usize];
        if let Some(last) = slot.load().as_ref().filter(|l| l.kept_so_far == kept_so_far && l.key == *key) {
            return Some(last.listing.clone());
        }
        let listing = self.dated(key)?.listing.clone();
        slot.store(Some(Arc::new(Looked { key: key.clone(), listing: listing.clone(), kept_so_far })));
        Some(listing)
    }

    fn dated(&self, key: &Key) -> Option<Arc<Dated>> {
        self.kept.get(&self.for_all(key)).or_else(|| self.kept.get(key))
    }

    fn for_all(&self, key: &Key) -> Key {
        Key { who: self.all.clone(), ..*key }
    }

    fn fresh(&self, key: &Key) -> Option<Arc<Listing>> {
        let dated = self.dated(key)?;
        let age = dated.at.elapsed().as_millis() as u64;
        let fresh = dated.epoch == self.epoch(key.kind) && age < dated.listing.ttl_ms;
        fresh.then(|| dated.listing.clone())
    }

    /// The list that is known already, where nothing changed: what others derived from it holds on.
    fn same_or_new(&self, key: &Key, listing: Listing) -> Arc<Listing> {
        let known = self.known(key).filter(|known| {
            let bodies =
                |listing: &Listing| listing.items().iter().map(|item| item.body.text().clone()).collect();
            let whole = |listing: &Listing| listing.whole.as_ref().map(|whole| whole.text().clone());
            let (theirs, ours): (Vec<_>, Vec<_>) = (bodies(known), bodies(&listing));
            (known.ttl_ms, known.private) == (listing.ttl_ms, listing.private)
                && whole(known) == whole(&listing)
                && known.left_out == listing.left_out
                && theirs == ours
        });
        known.unwrap_or_else(|| Arc::new(listing))
    }

    fn epoch(&self, kind: Kind) -> u64 {
        self.epochs[kind as usize].load(Ordering::Acquire)
    }

    /// A list of this kind has changed.
    pub(super) fn stale(&self, kind: Kind) {
        self.epochs[kind as usize].fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn stale_all(&self) {
        Kind::ALL.into_iter().for_each(|kind| self.stale(kind));
    }

    /// Keeps what calls are to find, and nobody is to be answered with.
    pub(super) fn keep_stale(&self, key: &Key, listing: &Arc<Listing>) {
        self.keep(key, listing, false, self.epoch(key.kind), Instant::now());
    }

    fn keep(&self, key: &Key, listing: &Arc<Listing>, said_private: bool, epoch: u64, at: Instant) {
        let dated = Arc::new(Dated { listing: listing.clone(), at, epoch });
        if listing.private {
            self.kept.insert(key.clone(), dated);
            if said_private {
                // What once held for all holds no longer.
                self.kept.invalidate(&self.for_all(key));
            }
        } else {
            self.kept.insert(self.for_all(key), dated);
        }
        self.kept_so_far.fetch_add(1, Ordering::AcqRel);
    }
}

impl Inner {
    /// Boxed, for a call may have to list, and a list is a call.
    pub(super) fn list(
        self: Arc<Self>,
        caller: Arc<Caller>,
        kind: Kind,
        age: Age,
    ) -> BoxFuture<'static, Result<Arc<Listing>, Fault>> {
        self.list_now(caller, kind, age).boxed()
    }

    async fn list_now(
        self: Arc<Self>,
        caller: Arc<Caller>,
        kind: Kind,
        age: Age,
    ) -> Result<Arc<Listing>, Fault> {
        let key = Key::of(&caller, kind);
        let held = match age {
            Age::Fresh => self.lists.fresh(&key),
            Age::Known => self.lists.known(&key),
        };
        if let Some(listing) = held {
            return Ok(listing);
        }
        // Who asks after a change does not wait for an answer from before it.
        let epoch = self.lists.epoch(kind);
        let (link, name) = (self.clone(), key.clone());
        let work = move || async move {
            let at = Instant::now();
            let Fetched { listing, said_private } = link.fetch(&caller, kind).await?;
            let listing = link.lists.same_or_new(&name, listing);
            link.lists.keep(&name, &listing, said_private, epoch, at);
            Ok(listing)
        };
        self.lists.asking.join((key, epoch), work).await
    }

    /// Takes note of what a notification of the upstream says of its lists.
    pub(super) fn heard(&self, method: &Method) {
        match method {
            Method::ToolsChanged => self.lists.stale(Kind::Tool),
            Method::PromptsChanged => self.lists.stale(Kind::Prompt),
            Method::ResourcesChanged => {
                self.lists.stale(Kind::Resource);
                self.lists.stale(Kind::Template);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(private: bool, ttl_ms: u64) -> Arc<Listing> {
        let mut listing = Listing::new(Kind::Tool, Vec::new());
        (listing.private, listing.ttl_ms) = (private, ttl_ms);
        Arc::new(listing)
    }

    fn key(who: &str, era: Era) -> Key {
        Key { who: who.into(), era, kind: Kind::Tool }
    }

    #[test]
    fn a_private_list_is_its_callers_alone_and_a_public_one_everybodys_of_its_era() {
        let lists = Lists::new();
        let (a, b) = (key("a", Era::Modern), key("b", Era::Modern));
        lists.keep(&a, &listing(false, 60_000), false, 0, Instant::now());
        assert!(lists.fresh(&b).is_some());
        assert!(lists.fresh(&key("b", Era::Legacy)).is_none());
        assert!(lists.fresh(&Key { kind: Kind::Prompt, ..b.clone() }).is_none());
        lists.keep(&a, &listing(true, 60_000), true, 0, Instant::now());
        assert!(lists.fresh(&a).is_some());
        assert!(lists.known(&b).is_none());
    }

    #[test]
    fn what_changed_or_has_no_time_to_live_is_known_and_not_fresh() {
        let lists = Lists::new();
        let a = key("a", Era::Legacy);
        lists.keep(&a, &listing(true, 0), false, 0, Instant::now());
        assert!(lists.fresh(&a).is_none() && lists.known(&a).is_some());
        lists.keep(&a, &listing(true, 60_000), false, 0, Instant::now());
        assert!(lists.fresh(&a).is_some());
        lists.stale(Kind::Tool);
        assert!(lists.fresh(&a).is_none() && lists.known(&a).is_some());
    }
}
