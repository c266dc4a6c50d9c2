//! The catalogs that are served, and those that were: sessions go on with the ones that their symbols are of.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::execute::catalog::{Catalogs, Loaded};

/// Catalogs that are no longer served are kept at most so many; the longest out of service go.
const MOST: usize = 64;

pub(super) struct Shelf {
    inner: Mutex<Inner>,
    /// No session lives longer.
    kept: Duration,
}

struct Inner {
    served: Arc<Catalogs>,
    /// In the order in which they went out of service.
    past: Vec<(Instant, Loaded)>,
}

impl Shelf {
    pub(super) fn new(served: Arc<Catalogs>, kept: Duration) -> Shelf {
        Shelf { inner: Mutex::new(Inner { served, past: Vec::new() }), kept }
    }

    pub(super) fn served(&self) -> Arc<Catalogs> {
        Arc::clone(&self.lock().served)
    }

    /// Serves others from now on.
    pub(super) fn serve(&self, catalogs: Arc<Catalogs>) {
        let mut inner = self.lock();
        let was = std::mem::replace(&mut inner.served, Arc::clone(&catalogs));
        let stays = |loaded: &Loaded| served(&catalogs, &loaded.catalog.id, &loaded.digest);
        let gone: Vec<_> = was.iter().filter(|(_, loaded)| !stays(loaded)).collect();
        let now = Instant::now();
        inner.past.extend(gone.into_iter().map(|(_, loaded)| (now, loaded.clone())));
        let over = inner.past.len().saturating_sub(MOST);
        inner.past.drain(..over);
        inner.past.retain(|(since, _)| now.duration_since(*since) < self.kept);
    }

    /// The catalogs of a session: those of its digests. `None` where one is not at hand.
    pub(super) fn pinned(&self, digests: &BTreeMap<String, String>) -> Option<Catalogs> {
        let inner = self.lock();
        let mut pinned = Catalogs::default();
        for (api, digest) in digests {
            let loaded = match inner.served.get(api) {
                Some(loaded) if loaded.digest == *digest => loaded,
                _ => {
                    let is = |loaded: &&Loaded| loaded.catalog.id == *api && loaded.digest == *digest;
                    inner.past.iter().rev().map(|(_, loaded)| loaded).find(is)?
                }
            };
            pinned.add(loaded.clone());
        }
        Some(pinned)
    }
}

impl Shelf {
    /// Held for a few moves alone, never over an await.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn served(catalogs: &Catalogs, api: &str, digest: &str) -> bool {
    catalogs.get(api).is_some_and(|loaded| loaded.digest == digest)
}
