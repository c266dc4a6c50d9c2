//! Whether an upstream answers: a circuit breaker over its calls, and a bound on how many are made at once.

use super::LinkConfig;
use crate::mcp::{Place, Places};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

const SHORTEST: Duration = Duration::from_secs(1);
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

    fn failed(self, now: Instant, patience: Patience) -> Breaker {
        match self {
            Breaker::Closed { failures } if failures + 1 < patience.failures => {
                Breaker::Closed { failures: failures + 1 }
            }
            Breaker::Closed { .. } => Breaker::open(now, 0, patience),
            Breaker::Trying { rounds, .. } => Breaker::open(now, rounds + 1, patience),
            // Calls that were under way when it opened tell nothing new.
            Breaker::Open { .. } => self,
        }
    }

    fn open(now: Instant, rounds: u32, patience: Patience) -> Breaker {
        Breaker::Open { until: now + patience.pause(rounds), rounds }
    }
}

/// How much of an upstream is borne with.
#[derive(Clone, Copy, Debug)]
struct Patience {
    /// Failures in a row after which calls are refused for a while.
    failures: u32,
    longest: Duration,
}

impl Patience {
    /// The wait before attempt `rounds + 1`: doubling, bounded.
    fn pause(self, rounds: u32) -> Duration {
        SHORTEST.saturating_mul(1 << rounds.min(16)).min(self.longest)
    }
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
    room: Arc<Places>,
    queue_wait: Duration,
    patience: Patience,
}

impl Health {
    pub(super) fn new(config: &LinkConfig) -> Health {
        Health {
            breaker: Mutex::new(Breaker::Closed { failures: 0 }),
            troubled: AtomicBool::new(false),
            up: AtomicBool::new(true),
            returns: watch::Sender::new(0),
            room: Places::new(config.most_calls),
            queue_wait: config.queue_wait,
            patience: Patience { failures: config.failures, longest: config.longest_pause },
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
        *breaker = breaker.failed(Instant::now(), self.patience);
        self.troubled.store(true, Ordering::Release);
        self.up.swap(false, Ordering::AcqRel)
    }

    /// The wait before the upstream is looked for the `rounds + 1`st time.
    pub(super) fn pause(&self, rounds: u32) -> Duration {
        self.patience.pause(rounds)
    }

    /// Whether the upstream answered when it was last asked.
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    /// Changes each time that an outage is over.
    pub(super) fn returns(&self) -> watch::Receiver<u64> {
        self.returns.subscribe()
    }

    /// Resolves at a moment in which no place is taken.
    pub(super) async fn empty(&self) {
        self.room.empty().await;
    }

    /// A place, where there is one now.
    pub(super) fn enter_now(&self, tenant: &str) -> Option<Place> {
        self.room.take(tenant).ok()
    }

    /// Waits for a place, for a bounded time: a queue that does not move is an answer too.
    pub(super) async fn enter(&self, tenant: &str, deadline: Instant) -> Option<Place> {
        let until = deadline.min(Instant::now() + self.queue_wait);
        timeout_at(until, self.room.wait(tenant)).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_lets_one_try_and_waits_longer_each_time() {
        let now = Instant::now();
        let mut breaker = Breaker::Closed { failures: 0 };
        let patience = Patience { failures: 3, longest: Duration::from_secs(9) };
        for _ in 1..patience.failures {
            breaker = breaker.failed(now, patience);
            assert!(breaker.admit(now).0);
        }
        breaker = breaker.failed(now, patience);
        assert!(!breaker.admit(now).0);
        let (pass, trying) = breaker.admit(now + SHORTEST);
        assert!(pass && !trying.admit(now + SHORTEST).0, "one alone tries");
        assert!(trying.admit(now + SHORTEST + TRIAL).0, "a lost trial does not shut it for good");
        let Breaker::Open { until, .. } = trying.failed(now, patience) else { panic!() };
        assert_eq!(until, now + SHORTEST * 2);
        assert_eq!(patience.pause(30), patience.longest);
    }

    /// Room for one call at a time, and nobody waits.
    fn narrow() -> Health {
        let id = crate::mcp::UpstreamId::new("u").unwrap();
        Health::new(&LinkConfig { most_calls: 1, queue_wait: Duration::ZERO, ..LinkConfig::new(id) })
    }

    #[tokio::test]
    async fn an_outage_begins_once_and_ends_once() {
        let health = narrow();
        assert!(!health.well());
        assert!(health.ill() && !health.ill());
        assert!(!health.is_up());
        assert!(health.well() && !health.well());
        assert!(health.is_up() && health.admit());
    }

    #[tokio::test]
    async fn a_full_house_is_told_and_a_place_given_back_is_taken() {
        let health = narrow();
        let soon = Instant::now() + Duration::from_secs(5);
        let place = health.enter("", soon).await.unwrap();
        assert!(health.enter("", soon).await.is_none());
        drop(place);
        assert!(health.enter("", soon).await.is_some());
    }
}
