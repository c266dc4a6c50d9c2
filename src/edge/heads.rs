//! How long a client may keep its connection waiting for the head of a request, idle or in the middle of one. A timer for
//! each head, set and unset with each request, would cost more than the wait is worth: a connection has one, which looks when
//! the time may have come. While one request follows the other it looks often, and what answers them needs no timers of its own
//! (`ticks`). Knows nothing of what heads say.

use crate::clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The longest tick of a kernel's clock, in milliseconds, and one for what was rounded down.
const TICK: u64 = 11;
/// In place of a time: a request is being answered.
const ANSWERING: u64 = u64::MAX;
/// How often a busy connection looks, and what makes it one: so many requests from one look to the next.
const LOOK: Duration = Duration::from_millis(40);
const BUSY: u32 = 8;

/// The wait of one connection for its heads.
pub struct Heads {
    longest: Duration,
    born: Instant,
    /// Since when a head is waited for, in milliseconds after `born`; or [`ANSWERING`].
    since: AtomicU64,
    /// Heads that came; counted by the connection's task alone.
    came: AtomicU32,
    /// When the last of eight came, in milliseconds after `born`.
    eighth: AtomicU64,
    /// That the connection is busy, and whether it looks often for that.
    busy: Notify,
    looks: AtomicBool,
}

impl Heads {
    pub fn new(longest: Duration) -> Arc<Heads> {
        Arc::new(Heads {
            longest,
            born: Instant::now(),
            since: AtomicU64::new(0),
            came: AtomicU32::new(0),
            eighth: AtomicU64::new(0),
            busy: Notify::new(),
            looks: AtomicBool::new(false),
        })
    }

    /// A head has come: the next one is waited for when the mark is dropped.
    pub fn came(self: &Arc<Self>) -> Answering {
        self.since.store(ANSWERING, Ordering::Release);
        let came = self.came.load(Ordering::Relaxed).wrapping_add(1);
        self.came.store(came, Ordering::Relaxed);
        if came.is_multiple_of(BUSY) && !self.looks() {
            let now = clock::since(self.born).as_millis() as u64;
            if now.saturating_sub(self.eighth.load(Ordering::Relaxed)) < LOOK.as_millis() as u64 {
                self.busy.notify_one();
            }
            self.eighth.store(now, Ordering::Relaxed);
        }
        Answering(self.clone())
    }

    /// Whether the connection's task is woken soon whatever happens, and so ticks.
    pub fn looks(&self) -> bool {
        self.looks.load(Ordering::Relaxed)
    }

    /// Resolves once a head was waited for too long. To be polled before what answers, in the same task: where that ticks no
    /// longer, it is polled once more and learns of it.
    pub async fn overdue(&self) {
        let mut seen = 0;
        loop {
            let now = Instant::now();
            let due = match self.since.load(Ordering::Acquire) {
                // The next wait begins after this, and ends after that.
                ANSWERING => now + self.longest,
                since => self.born + Duration::from_millis(since) + self.longest,
            };
            if due <= now {
                return;
            }
            let came = self.came.load(Ordering::Relaxed);
            let busy = self.looks() && came.wrapping_sub(std::mem::replace(&mut seen, came)) >= BUSY;
            self.looks.store(busy, Ordering::Relaxed);
            if busy {
                sleep_until(due.min(now + LOOK)).await;
                continue;
            }
            tokio::select! {
                () = sleep_until(due) => {}
                () = self.busy.notified() => {
                    // Enough came already for the first look.
                    seen = self.came.load(Ordering::Relaxed).wrapping_sub(BUSY);
                    self.looks.store(true, Ordering::Relaxed);
                }
            }
        }
    }
}

/// While this lives, the client waits and not the connection.
pub struct Answering(Arc<Heads>);

impl Drop for Answering {
    fn drop(&mut self) {
        // That clock is late by a tick at most: no head has less time than it is given.
        let since = clock::since(self.0.born).as_millis() as u64 + TICK;
        self.0.since.store(since, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::poll;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;
    use tokio::time::timeout;

    const LONGEST: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn the_time_runs_between_answers_and_not_while_one_is_made() {
        let heads = Heads::new(LONGEST);
        let answering = heads.came();
        let mut overdue = pin!(heads.overdue());
        assert!(timeout(LONGEST * 4, &mut overdue).await.is_err());
        let answered = Instant::now();
        drop(answering);
        overdue.await;
        assert!(answered.elapsed() >= LONGEST, "a head has all of its time");
    }

    #[tokio::test]
    async fn a_busy_connection_looks_often_until_a_request_takes_its_time() {
        let heads = Heads::new(Duration::from_secs(3600));
        let mut overdue = pin!(heads.overdue());
        assert!(poll!(&mut overdue).is_pending() && !heads.looks());
        for _ in 0..BUSY {
            heads.came();
        }
        assert!(poll!(&mut overdue).is_pending() && heads.looks(), "many came at once");
        let answering = heads.came();
        // Nothing else wakes this task: it looks, finds no more than one, and leaves that to its own timers.
        let looked = poll_fn(|context| match overdue.as_mut().poll(context) {
            Poll::Pending if heads.looks() => Poll::Pending,
            other => Poll::Ready(other.is_pending()),
        });
        assert!(looked.await, "it is not overdue");
        drop(answering);
    }

    #[tokio::test]
    async fn a_connection_with_a_request_now_and_then_does_not_look() {
        let heads = Heads::new(Duration::from_secs(3600));
        let mut overdue = pin!(heads.overdue());
        for _ in 0..BUSY * 3 {
            heads.came();
            tokio::time::sleep(LOOK / 4).await;
            assert!(poll!(&mut overdue).is_pending() && !heads.looks());
        }
    }
}
