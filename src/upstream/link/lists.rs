//! The lists of an upstream, kept for routing at any age and for answering while they are fresh.

use super::flights::Flights;
use super::{Age, Arc, Caller, Fault, Inner, Kind, Listing, Method};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use moka::sync::Cache;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// KiB of listed items that one link keeps.
const ROOM: u64 = 64 << 10;
const IDLE: Duration = Duration::from_secs(3600);

type Key = (Arc<str>, Kind);
type Asking = Flights<(Arc<str>, Kind, u64), Result<Arc<Listing>, Fault>>;

pub(super) struct Lists {
    /// By caller ([`Session::key`](crate::mcp::Session::key)); what holds for all under the empty key.
    kept: Cache<Key, Arc<Dated>>,
    all: Arc<str>,
    /// Grows when a kind of list is said to have changed: what was asked for before is stale.
    epochs: [AtomicU64; 4],
    asking: Arc<Asking>,
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
        }
    }

    /// The last known list for a caller, of any age.
    pub(super) fn known(&self, caller: &Arc<str>, kind: Kind) -> Option<Arc<Listing>> {
        self.dated(caller, kind).map(|dated| dated.listing.clone())
    }

    fn dated(&self, caller: &Arc<str>, kind: Kind) -> Option<Arc<Dated>> {
        self.kept.get(&(self.all.clone(), kind)).or_else(|| self.kept.get(&(caller.clone(), kind)))
    }

    fn fresh(&self, caller: &Arc<str>, kind: Kind) -> Option<Arc<Listing>> {
        let dated = self.dated(caller, kind)?;
        let age = dated.at.elapsed().as_millis() as u64;
        let fresh = dated.epoch == self.epoch(kind) && age < dated.listing.ttl_ms;
        fresh.then(|| dated.listing.clone())
    }

    /// The list that is known already, where nothing changed: what others derived from it holds on.
    fn same_or_new(&self, caller: &Arc<str>, listing: Listing) -> Arc<Listing> {
        let known = self.known(caller, listing.kind).filter(|known| {
            let bodies =
                |listing: &Listing| listing.items().iter().map(|item| item.body.text().clone()).collect();
            let whole = |listing: &Listing| listing.whole.as_ref().map(|whole| whole.text().clone());
            let (theirs, ours): (Vec<_>, Vec<_>) = (bodies(known), bodies(&listing));
            (known.ttl_ms, known.private) == (listing.ttl_ms, listing.private)
                && whole(known) == whole(&listing)
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

    fn keep(&self, caller: &Arc<str>, listing: &Arc<Listing>, epoch: u64, at: Instant) {
        let kind = listing.kind;
        let dated = Arc::new(Dated { listing: listing.clone(), at, epoch });
        if listing.private {
            self.kept.insert((caller.clone(), kind), dated);
            // What once held for all holds no longer.
            self.kept.invalidate(&(self.all.clone(), kind));
        } else {
            self.kept.insert((self.all.clone(), kind), dated);
        }
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
        let key = caller.session.key().clone();
        let held = match age {
            Age::Fresh => self.lists.fresh(&key, kind),
            Age::Known => self.lists.known(&key, kind),
        };
        if let Some(listing) = held {
            return Ok(listing);
        }
        // Who asks after a change does not wait for an answer from before it.
        let epoch = self.lists.epoch(kind);
        let (link, who) = (self.clone(), key.clone());
        let work = move || async move {
            let at = Instant::now();
            let listing = link.fetch(&caller, kind).await?;
            let listing = link.lists.same_or_new(&who, listing);
            link.lists.keep(&who, &listing, epoch, at);
            Ok(listing)
        };
        self.lists.asking.join((key, kind, epoch), work).await
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

    #[test]
    fn a_private_list_is_its_callers_alone_and_a_public_one_everybodys() {
        let lists = Lists::new();
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        lists.keep(&a, &listing(false, 60_000), 0, Instant::now());
        assert!(lists.fresh(&b, Kind::Tool).is_some());
        assert!(lists.fresh(&b, Kind::Prompt).is_none());
        lists.keep(&a, &listing(true, 60_000), 0, Instant::now());
        assert!(lists.fresh(&a, Kind::Tool).is_some());
        assert!(lists.known(&b, Kind::Tool).is_none());
    }

    #[test]
    fn what_changed_or_has_no_time_to_live_is_known_and_not_fresh() {
        let lists = Lists::new();
        let a: Arc<str> = "a".into();
        lists.keep(&a, &listing(true, 0), 0, Instant::now());
        assert!(lists.fresh(&a, Kind::Tool).is_none() && lists.known(&a, Kind::Tool).is_some());
        lists.keep(&a, &listing(true, 60_000), 0, Instant::now());
        assert!(lists.fresh(&a, Kind::Tool).is_some());
        lists.stale(Kind::Tool);
        assert!(lists.fresh(&a, Kind::Tool).is_none() && lists.known(&a, Kind::Tool).is_some());
    }
}
