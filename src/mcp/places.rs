//! Places for calls at something that takes so many at a time, shared fairly among tenants: while there are several, none
//! gets so many that none is left for another.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, oneshot};

/// Tenants that are told apart. Two that fall into one row share what one would get.
const ROWS: usize = 128;

/// A tenant holds at most so many times what is free: alone against quiet ones, two places in three.
const OF_FREE: usize = 2;

/// The places.
pub struct Places {
    places: usize,
    free: AtomicUsize,
    rows: Box<[AtomicUsize]>,
    /// Whether calls of more than one row were seen: a tenant that is alone gets all.
    several: AtomicBool,
    /// One more than the row that was seen first; 0: none yet.
    first: AtomicU32,
    /// How many are in the queue, some of whom may wait no more. Who gives a place back looks at it after that, and who waits
    /// looks for a place after having counted themselves here: one of the two sees the other.
    waiting: AtomicUsize,
    queue: Mutex<Queue>,
    /// All places were free for a moment.
    emptied: Notify,
}

/// Who waits, by row: rows take turns, and within one whoever came first is first.
#[derive(Default)]
struct Queue(VecDeque<(usize, VecDeque<oneshot::Sender<Place>>)>);

/// A place; given back when dropped.
pub struct Place {
    places: Arc<Places>,
    row: usize,
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
        Arc::new(Places {
            places,
            free: AtomicUsize::new(places),
            rows: (0..ROWS).map(|_| AtomicUsize::new(0)).collect(),
            several: AtomicBool::new(false),
            first: AtomicU32::new(0),
            waiting: AtomicUsize::new(0),
            queue: Mutex::default(),
            emptied: Notify::new(),
        })
    }

    /// A place for a call of this tenant, if there is one for it now.
    pub fn take(self: &Arc<Self>, tenant: &str) -> Result<Place, NoPlace> {
        self.take_in(self.row(tenant))
    }

    /// Waits for a place for a call of this tenant. Waiting is the caller's to bound.
    pub async fn wait(self: &Arc<Self>, tenant: &str) -> Place {
        let row = self.row(tenant);
        if let Ok(place) = self.take_in(row) {
            return place;
        }
        let (give, given) = oneshot::channel();
        {
            let mut queue = self.queue.lock().expect("no holder of the queue panics");
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let gone = queue.join(row, give);
            self.waiting.fetch_sub(gone, Ordering::SeqCst);
        }
        // One may have been given back before this call was seen to wait.
        self.hand_out();
        given.await.expect("who waits is in the queue until it was given a place")
    }

    /// Resolves after a moment in which no place was taken.
    pub async fn empty(&self) {
        let mut emptied = pin!(self.emptied.notified());
        // From here on no such moment is missed.
        emptied.as_mut().enable();
        if self.free.load(Ordering::SeqCst) != self.places {
            emptied.await;
        }
    }

    fn take_in(self: &Arc<Self>, row: usize) -> Result<Place, NoPlace> {
        let free = self.free.load(Ordering::SeqCst);
        if free == 0 {
            return Err(NoPlace::Full);
        }
        if self.several.load(Ordering::Relaxed)
            && self.rows[row].load(Ordering::Acquire) >= free.saturating_mul(OF_FREE)
        {
            return Err(NoPlace::Share);
        }
        let less = |free: usize| free.checked_sub(1);
        self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).map_err(|_| NoPlace::Full)?;
        self.rows[row].fetch_add(1, Ordering::AcqRel);
        Ok(Place { places: self.clone(), row })
    }

    /// Gives what is free to those who wait and may have it: the row whose turn it is first. Afterwards nobody waits for a place
    /// that they could have, for taking one only ever lessens what others may.
    fn hand_out(self: &Arc<Self>) {
        // What nobody waited for any more is given back without the lock.
        let mut spurned = Vec::new();
        let mut queue = self.queue.lock().expect("no holder of the queue panics");
        let may = |(at, (row, _)): (usize, &(usize, _))| Some((at, self.take_in(*row).ok()?));
        while let Some((at, mut place)) = queue.0.iter().enumerate().find_map(may) {
            let (row, mut line) = queue.0.remove(at).expect("it was found there");
            let unwanted = loop {
                let Some(give) = line.pop_front() else { break Some(place) };
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                match give.send(place) {
                    Ok(()) => break None,
                    Err(back) => place = back,
                }
            };
            spurned.extend(unwanted);
            if !line.is_empty() {
                queue.0.push_back((row, line));
            }
        }
        drop(queue);
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

impl Queue {
    /// Puts one at the end of its row's line. How many were taken from that line who wait no more.
    fn join(&mut self, row: usize, give: oneshot::Sender<Place>) -> usize {
        let Some((_, line)) = self.0.iter_mut().find(|(of, _)| *of == row) else {
            self.0.push_back((row, [give].into()));
            return 0;
        };
        let gone = line.iter().take_while(|give| give.is_closed()).count();
        line.drain(..gone);
        line.push_back(give);
        gone
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let places = &self.places;
        places.rows[self.row].fetch_sub(1, Ordering::AcqRel);
        places.free.fetch_add(1, Ordering::SeqCst);
        if places.waiting.load(Ordering::SeqCst) > 0 {
            places.hand_out();
        }
        // Not while anybody waits: they have it now.
        if places.free.load(Ordering::SeqCst) == places.places {
            places.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use tokio::task::unconstrained;

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
    async fn who_holds_one_gets_another_that_a_stranger_gives_back() {
        let places = Places::new(6);
        drop(places.take("quiet"));
        let long = places.take("a").unwrap();
        let mut others = fill(&places, "b");
        others.extend(fill(&places, "c"));
        others.extend(fill(&places, "d"));
        assert_eq!(places.take("quiet").err(), Some(NoPlace::Full));
        let mut waits = std::pin::pin!(places.wait("a"));
        assert!((&mut waits).now_or_never().is_none());
        others.pop();
        assert!(waits.now_or_never().is_some());
        drop(long);
    }

    #[tokio::test]
    async fn many_that_wait_for_one_tenant_leave_the_others_their_turn_and_their_share() {
        let places = Places::new(30);
        let mut held = fill(&places, "b");
        assert_eq!(held.len(), 30);
        // They are polled by hand, more of them than a task may in one go.
        let wait = |tenant| Box::pin(unconstrained(places.wait(tenant)));
        let mut greedy: Vec<_> = (0..1000).map(|_| wait("greedy")).collect();
        assert!(greedy.iter_mut().all(|waits| waits.now_or_never().is_none()));
        let mut quiet = wait("quiet");
        assert!((&mut quiet).now_or_never().is_none());
        held.truncate(28);
        assert!(quiet.now_or_never().is_some(), "the second that was free is another's");
        held.clear();
        let got = greedy.iter_mut().filter_map(|waits| waits.now_or_never()).collect::<Vec<_>>();
        assert_eq!(got.len(), 20);
        assert!(fill(&places, "quiet").len() >= 6);
    }

    #[tokio::test]
    async fn a_place_is_not_lost_with_those_who_wait_no_more() {
        let places = Places::new(1);
        let held = places.take("a").unwrap();
        let mut gone: Vec<_> = ["a", "b", "b"].map(|tenant| Box::pin(places.wait(tenant))).into();
        assert!(gone.iter_mut().all(|waits| waits.now_or_never().is_none()));
        let mut waits = std::pin::pin!(places.wait("c"));
        assert!((&mut waits).now_or_never().is_none());
        let last = gone.pop();
        gone.clear();
        drop(held);
        assert!((&mut waits).now_or_never().is_none(), "it is given to the one before");
        drop(last);
        assert!(waits.now_or_never().is_some());
        assert!(places.empty().now_or_never().is_some());
        assert_eq!(places.waiting.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nobody_waits_while_there_is_a_place() {
        let places = Places::new(1);
        let calls = (0..8).map(|n| {
            let places = places.clone();
            tokio::spawn(async move {
                for _ in 0..2000 {
                    let place = places.wait(&n.to_string()).await;
                    tokio::task::yield_now().await;
                    drop(place);
                }
            })
        });
        let calls = futures_util::future::join_all(calls);
        let done = tokio::time::timeout(std::time::Duration::from_secs(30), calls).await;
        assert!(done.is_ok(), "a place was given back and nobody got it");
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
