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
/// And so many of one id: an upstream that changes its tools all the time ends no sessions but its own.
const MOST_OF_ONE: usize = 8;

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
        for (id, loaded) in gone {
            inner.past.retain(|(_, one)| one.catalog.id != *id || one.digest != loaded.digest);
            inner.past.push((now, loaded.clone()));
            let of_one = |(_, one): &(Instant, Loaded)| one.catalog.id == *id;
            if inner.past.iter().filter(|one| of_one(one)).count() > MOST_OF_ONE
                && let Some(first) = inner.past.iter().position(of_one)
            {
                inner.past.remove(first);
            }
        }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::execute::catalog::load_folder;

    #[tokio::test]
    async fn a_catalog_that_changes_all_the_time_takes_no_other_s_place() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/catalogs");
        let all = load_folder(&folder).unwrap();
        let of = |id: &str, digest: String| Loaded { digest, ..all.get(id).unwrap().clone() };
        let serving = |tracker: &str, poke: String| {
            let mut catalogs = Catalogs::default();
            assert!(catalogs.add(of("tracker", tracker.to_owned())) && catalogs.add(of("pokeapi", poke)));
            Arc::new(catalogs)
        };
        let shelf = Shelf::new(serving("old", "0".into()), Duration::from_secs(3_600));
        (1..=200).for_each(|n| shelf.serve(serving("new", n.to_string())));
        let pinned = |api: &str, digest: &str| {
            shelf.pinned(&BTreeMap::from([(api.to_owned(), digest.to_owned())])).is_some()
        };
        assert!(pinned("tracker", "old") && pinned("tracker", "new"));
        assert!(pinned("pokeapi", "200") && pinned("pokeapi", "192") && !pinned("pokeapi", "191"));
    }
}
