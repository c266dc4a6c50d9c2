//! Places for calls at something that takes so many at a time, shared fairly among tenants: while there are several, none
//! gets so many that none is left for another.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Tenants that are told apart. Two that fall into one row share what one would get.
const ROWS: usize = 128;

/// A tenant holds at most so many times what is free: alone against quiet ones, two places in three.
const OF_FREE: usize = 2;

/// The places.
pub struct Places {
    room: Arc<Semaphore>,
    places: u32,
    rows: Box<[Row]>,
    /// Whether calls of more than one row were seen: a tenant that is alone gets all.
    several: AtomicBool,
    /// One more than the row that was seen first; 0: none yet.
    first: AtomicU32,
}

#[derive(Default)]
struct Row {
    held: AtomicU32,
    /// A place of this row was given back.
    given: Notify,
}

/// A place; given back when dropped.
pub struct Place {
    places: Arc<Places>,
    row: usize,
    _permit: OwnedSemaphorePermit,
}

/// Why there is no place at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// All are taken.
    Full,
    /// This tenant has its share.
    Share,
}

impl Places {
    pub fn new(places: usize) -> Arc<Places> {
        let places = places.min(Semaphore::MAX_PERMITS);
        Arc::new(Places {
            room: Arc::new(Semaphore::new(places)),
            places: places.try_into().unwrap_or(u32::MAX),
            rows: (0..ROWS).map(|_| Row::default()).collect(),
            several: AtomicBool::new(false),
            first: AtomicU32::new(0),
        })
    }

    /// A place for a call of this tenant, if there is one for it now.
    pub fn take(self: &Arc<Self>, tenant: &str) -> Result<Place, NoPlace> {
        self.take_in(self.row(tenant))
    }

    /// Waits for a place for a call of this tenant. Waiting is the caller's to bound.
    pub async fn wait(self: &Arc<Self>, tenant: &str) -> Place {
        let row = self.row(tenant);
        loop {
            match self.take_in(row) {
                Ok(place) => return place,
                Err(NoPlace::Share) => self.rows[row].given.notified().await,
                Err(NoPlace::Full) => {
                    let permit = self.room.clone().acquire_owned().await;
                    return self.place(row, permit.expect("the semaphore is never closed"));
                }
            }
        }
    }

    /// Resolves at a moment in which no place is taken.
    pub async fn empty(&self) {
        // It is never closed.
        let _ = self.room.acquire_many(self.places).await;
    }

    fn take_in(self: &Arc<Self>, row: usize) -> Result<Place, NoPlace> {
        if self.several.load(Ordering::Relaxed) {
            let (held, free) = (self.rows[row].held.load(Ordering::Acquire), self.room.available_permits());
            if held as usize >= OF_FREE * free {
                return Err(if free == 0 && held == 0 { NoPlace::Full } else { NoPlace::Share });
            }
        }
        let permit = self.room.clone().try_acquire_owned().map_err(|_| NoPlace::Full)?;
        Ok(self.place(row, permit))
    }

    fn place(self: &Arc<Self>, row: usize, permit: OwnedSemaphorePermit) -> Place {
        self.rows[row].held.fetch_add(1, Ordering::AcqRel);
        Place { places: self.clone(), row, _permit: permit }
    }

    fn row(&self, tenant: &str) -> usize {
        let row = match tenant {
            "" => 0,
            tenant => {
                let mut hasher = DefaultHasher::new();
                tenant.hash(&mut hasher);
                hasher.finish() as usize % ROWS
            }
        };
        if !self.several.load(Ordering::Relaxed) {
            let mark = row as u32 + 1;
            let seen = self.first.compare_exchange(0, mark, Ordering::Relaxed, Ordering::Relaxed);
            if seen.is_err_and(|first| first != mark) {
                self.several.store(true, Ordering::Relaxed);
            }
        }
        row
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let row = &self.places.rows[self.row];
        row.held.fetch_sub(1, Ordering::AcqRel);
        row.given.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn fill(places: &Arc<Places>, tenant: &str) -> Vec<Place> {
        std::iter::from_fn(|| places.take(tenant).ok()).collect()
    }

    #[test]
    fn a_tenant_that_is_alone_gets_all_places() {
        let places = Places::new(30);
        let held = fill(&places, "a");
        assert_eq!(held.len(), 30);
        assert_eq!(places.take("a").err(), Some(NoPlace::Full));
    }

    #[test]
    fn beside_a_greedy_tenant_there_is_always_a_place_for_another() {
        let places = Places::new(30);
        drop(places.take("quiet"));
        let greedy = fill(&places, "greedy");
        assert_eq!(greedy.len(), 20);
        assert_eq!(places.take("greedy").err(), Some(NoPlace::Share));
        assert!(fill(&places, "quiet").len() >= 6);
        drop(greedy);
        assert!(places.take("quiet").is_ok());
    }

    #[tokio::test]
    async fn who_waits_for_its_share_gets_the_place_that_it_gives_back_itself() {
        let places = Places::new(3);
        drop(places.take("quiet"));
        let mut held = fill(&places, "greedy");
        let mut waits = std::pin::pin!(places.wait("greedy"));
        assert!((&mut waits).now_or_never().is_none());
        let quiet = places.take("quiet").unwrap();
        drop(quiet);
        assert!((&mut waits).now_or_never().is_none(), "its share is what it was");
        held.pop();
        assert!(waits.now_or_never().is_some());
    }

    #[tokio::test]
    async fn all_are_free_once_all_are_given_back() {
        let places = Places::new(2);
        let held = fill(&places, "a");
        assert!(places.empty().now_or_never().is_none());
        drop(held);
        assert!(places.empty().now_or_never().is_some());
        assert!(places.take("b").is_ok());
    }
}
