//! The arithmetic of shared limits: GCRA, the leaky bucket that is one instant. Where that instant is kept is the store's.

use std::time::Duration;

use tokio::time::Instant;

/// A limit and what is asked of it: `burst` units at once, then one more each `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The time in which one unit comes back, in whole microseconds. Zero: no limit.
    pub every: Duration,
    /// The most units that can be had at once.
    pub burst: u32,
    /// The units asked for. Zero asks how many are left; more than `burst` is never granted.
    pub cost: u32,
}

/// A limit's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Granted; so many units are left now.
    Yes { left: u32 },
    /// Refused, at no cost; the same will be granted after this long if nobody else asks. `Duration::MAX`: never.
    No { after: Duration },
}

/// No span is longer, so that instants do not overflow.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

impl Rate {
    /// Judges at `now` a limit that would be full again at `full` (`None`: it is full), and says when it will be then.
    pub(crate) fn judge(&self, full: Option<Instant>, now: Instant) -> (Grant, Option<Instant>) {
        if self.every.is_zero() {
            return (Grant::Yes { left: self.burst }, None);
        }
        if self.cost > self.burst {
            return (Grant::No { after: Duration::MAX }, full);
        }
        let room = self.span(self.burst);
        let used = full.map_or(Duration::ZERO, |full| full.saturating_duration_since(now));
        let then = used + self.span(self.cost);
        if then > room {
            return (Grant::No { after: then - room }, full);
        }
        let left = (room - then).as_nanos() / self.every.as_nanos();
        (Grant::Yes { left: u32::try_from(left).unwrap_or(u32::MAX) }, (!then.is_zero()).then(|| now + then))
    }

    fn span(&self, units: u32) -> Duration {
        self.every.saturating_mul(units).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_then_one_a_period() {
        let rate = Rate { every: SECOND, burst: 3, cost: 1 };
        let start = Instant::now();
        let (mut full, mut granted) = (None, Vec::new());
        for tenth in 0..=50 {
            let (grant, then) = rate.judge(full, start + SECOND / 10 * tenth);
            full = then;
            if matches!(grant, Grant::Yes { .. }) {
                granted.push(tenth);
            }
        }
        assert_eq!(granted, [0, 1, 2, 10, 20, 30, 40, 50]);
    }

    #[test]
    fn a_refusal_says_when_and_keeps_its_word() {
        let rate = Rate { every: SECOND, burst: 5, cost: 4 };
        let start = Instant::now();
        let (grant, full) = rate.judge(None, start);
        assert_eq!(grant, Grant::Yes { left: 1 });
        let (grant, full) = rate.judge(full, start);
        assert_eq!(grant, Grant::No { after: 3 * SECOND });
        let just_before = start + 3 * SECOND - Duration::from_micros(1);
        assert_eq!(rate.judge(full, just_before).0, Grant::No { after: Duration::from_micros(1) });
        assert_eq!(rate.judge(full, start + 3 * SECOND).0, Grant::Yes { left: 0 });
    }

    #[test]
    fn the_edges_of_a_rate() {
        let now = Instant::now();
        let judge = |rate: Rate| rate.judge(None, now).0;
        assert_eq!(judge(Rate { every: SECOND, burst: 3, cost: 4 }), Grant::No { after: Duration::MAX });
        assert_eq!(judge(Rate { every: SECOND, burst: 3, cost: 0 }), Grant::Yes { left: 3 });
        assert_eq!(judge(Rate { every: SECOND, burst: 0, cost: 0 }), Grant::Yes { left: 0 });
        assert_eq!(judge(Rate { every: Duration::ZERO, burst: 1, cost: 9 }), Grant::Yes { left: 1 });
        let endless = Rate { every: Duration::MAX, burst: u32::MAX, cost: u32::MAX };
        assert_eq!(judge(endless), Grant::Yes { left: 0 });
    }
}
