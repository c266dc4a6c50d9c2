//! How much one source is asked: so many requests at once and so many a second, first come first served; too long a queue
//! is refused rather than joined.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

use super::{SourceError, SourceErrorKind, answer::failure};
use crate::execute::catalog::Limits;

/// Requests at once to a source whose catalog does not say.
const AT_ONCE: u32 = 8;
/// Most requests that wait for one source.
const MOST_WAITING: usize = 1_000;
/// Longest wait for a turn.
const LONGEST: Duration = Duration::from_secs(60);

pub(super) struct Turns {
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// Between the beginnings of two requests.
    apart: Option<Duration>,
    /// When the next request may begin.
    next: Mutex<Instant>,
}

/// Counts one that waits, as long as it does.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turns {
    pub fn new(limits: &Limits) -> Turns {
        let at_once = limits.concurrency.unwrap_or(AT_ONCE).max(1);
        Turns {
            slots: Arc::new(Semaphore::new(at_once as usize)),
            waiting: AtomicUsize::new(0),
            apart: limits
                .rps
                .filter(|rps| rps.is_finite() && *rps > 0.0)
                .map(|rps| Duration::from_secs_f64((1.0 / rps).min(60.0))),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits for a turn; who gives up its request gives back its place in the queue.
    pub async fn turn(&self) -> Result<OwnedSemaphorePermit, SourceError> {
        let full = || failure(SourceErrorKind::Rate(None), "too many requests wait for this source", false);
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.waiting);
        if before >= MOST_WAITING {
            return Err(full());
        }
        let slot = tokio::time::timeout(LONGEST, Arc::clone(&self.slots).acquire_owned()).await;
        // The slots are never closed.
        let Ok(Ok(slot)) = slot else { return Err(full()) };
        if let Some(apart) = self.apart {
            let begins = {
                let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
                let begins = (*next).max(Instant::now());
                if begins.duration_since(Instant::now()) > LONGEST {
                    return Err(full());
                }
                *next = begins + apart;
                begins
            };
            sleep_until(begins).await;
        }
        Ok(slot)
    }
}
