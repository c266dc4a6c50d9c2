//! Whether an upstream answers: a circuit breaker over its calls, and a bound on how many are made at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

/// Failures in a row after which calls are refused for a while.
const THRESHOLD: u32 = 5;
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// A trial whose caller left without telling how it went is forgotten after this.
const TRIAL: Duration = Duration::from_secs(30);

/// The breaker. Only failures of the way count (no connection, a gateway's error), never what a tool does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Breaker {
    /// Calls pass; so many failed in a row.
    Closed { failures: u32 },
    /// Calls are refused until then.
    Open { until: Instant, rounds: u32 },
    /// One call tries whether the upstream is back.
    Trying { since: Instant, rounds: u32 },
}

impl Breaker {
    /// Whether a call may pass now, and the state after it.
    fn admit(self, now: Instant) -> (bool, Breaker) {
        match self {
            Breaker::Closed { .. } => (true, self),
            Breaker::Open { until, rounds } if now >= until => (true, Breaker::Trying { since: now, rounds }),
            Breaker::Trying { since, rounds } if now >= since + TRIAL => {
                (true, Breaker::Trying { since: now, rounds })
            }
            Breaker::Open { .. } | Breaker::Trying { .. } => (false, self),
        }
    }

    fn failed(self, now: Instant) -> Breaker {
        match self {
            Breaker::Closed { failures } if failures + 1 < THRESHOLD => {
                Breaker::Closed { failures: failures + 1 }
            }
            Breaker::Closed { .. } => Breaker::open(now, 0),
            Breaker::Trying { rounds, .. } => Breaker::open(now, rounds + 1),
            // Calls that were under way when it opened tell nothing new.
            Breaker::Open { .. } => self,
        }
    }

    fn open(now: Instant, rounds: u32) -> Breaker {
        Breaker::Open { until: now + pause(rounds), rounds }
    }
}

/// The wait before attempt `rounds + 1`: doubling, bounded.
pub(super) fn pause(rounds: u32) -> Duration {
    SHORTEST.saturating_mul(1 << rounds.min(8)).min(LONGEST)
}

/// `wait` with up to a quarter more, so that what failed at once is not tried again at once.
pub(super) fn jittered(wait: Duration) -> Duration {
    let mut random = [0u8; 1];
    aws_lc_rs::rand::fill(&mut random).expect("the system's random source does not fail once it is seeded");
    wait + wait.mul_f64(f64::from(random[0]) / 1024.0)
}

pub(super) struct Health {
    breaker: Mutex<Breaker>,
    /// Whether the breaker is anything but closed without failures: what the path of a good call looks at.
    troubled: AtomicBool,
    up: AtomicBool,
    /// How many outages are over.
    returns: watch::Sender<u64>,
    room: Arc<Semaphore>,
    queue_wait: Duration,
}

/// A place among the calls that are made at once; given back when dropped.
pub(super) type Place = OwnedSemaphorePermit;

impl Health {
    pub(super) fn new(most_calls: usize, queue_wait: Duration) -> Health {
        Health {
            breaker: Mutex::new(Breaker::Closed { failures: 0 }),
            troubled: AtomicBool::new(false),
            up: AtomicBool::new(true),
            returns: watch::Sender::new(0),
            room: Arc::new(Semaphore::new(most_calls)),
            queue_wait,
        }
    }

    /// Whether a call may be made, or is refused for the upstream failed too often of late.
    pub(super) fn admit(&self) -> bool {
        if !self.troubled.load(Ordering::Acquire) {
            return true;
        }
        let mut breaker = self.breaker.lock().expect("no holder of the breaker panics");
        let (pass, next) = breaker.admit(Instant::now());
        *breaker = next;
        pass
    }

    /// The upstream answered. Whether that ended an outage.
    pub(super) fn well(&self) -> bool {
        if !self.troubled.load(Ordering::Acquire) {
            return false;
        }
        *self.breaker.lock().expect("no holder of the breaker panics") = Breaker::Closed { failures: 0 };
        self.troubled.store(false, Ordering::Release);
        let back = !self.up.swap(true, Ordering::AcqRel);
        if back {
            self.returns.send_modify(|returns| *returns += 1);
        }
        back
    }

    /// The upstream could not be reached. Whether that began an outage: somebody is then to look when it is back.
    pub(super) fn ill(&self) -> bool {
        let mut breaker = self.breaker.lock().expect("no holder of the breaker panics");
        *breaker = breaker.failed(Instant::now());
        self.troubled.store(true, Ordering::Release);
        self.up.swap(false, Ordering::AcqRel)
    }

    /// Whether the upstream answered when it was last asked.
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    /// Changes each time that an outage is over.
    pub(super) fn returns(&self) -> watch::Receiver<u64> {
        self.returns.subscribe()
    }

    /// Waits for a place, for a bounded time: a queue that does not move is an answer too.
    pub(super) async fn enter(&self, deadline: Instant) -> Option<Place> {
        if let Ok(place) = self.room.clone().try_acquire_owned() {
            return Some(place);
        }
        let until = deadline.min(Instant::now() + self.queue_wait);
        timeout_at(until, self.room.clone().acquire_owned()).await.ok()?.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_lets_one_try_and_waits_longer_each_time() {
        let now = Instant::now();
        let mut breaker = Breaker::Closed { failures: 0 };
        for _ in 1..THRESHOLD {
            breaker = breaker.failed(now);
            assert!(breaker.admit(now).0);
        }
        breaker = breaker.failed(now);
        assert!(!breaker.admit(now).0);
        let (pass, trying) = breaker.admit(now + SHORTEST);
        assert!(pass && !trying.admit(now + SHORTEST).0, "one alone tries");
        assert!(trying.admit(now + SHORTEST + TRIAL).0, "a lost trial does not shut it for good");
        let Breaker::Open { until, .. } = trying.failed(now) else { panic!() };
        assert_eq!(until, now + SHORTEST * 2);
        assert_eq!(pause(30), LONGEST);
    }

    #[tokio::test]
    async fn an_outage_begins_once_and_ends_once() {
        let health = Health::new(1, Duration::ZERO);
        assert!(!health.well());
        assert!(health.ill() && !health.ill());
        assert!(!health.is_up());
        assert!(health.well() && !health.well());
        assert!(health.is_up() && health.admit());
    }

    #[tokio::test]
    async fn a_full_house_is_told_and_a_place_given_back_is_taken() {
        let health = Health::new(1, Duration::ZERO);
        let soon = Instant::now() + Duration::from_secs(5);
        let place = health.enter(soon).await.unwrap();
        assert!(health.enter(soon).await.is_none());
        drop(place);
        assert!(health.enter(soon).await.is_some());
    }
}
