//! The time, nearly: a few milliseconds late at most, and several times cheaper to ask for than the exact one. For deadlines,
//! ages and lives, which are far longer than that. Knows nothing of what is timed.

use std::time::Duration;
use tokio::time::Instant;

/// An instant that was a few milliseconds ago at most, and never is to come.
pub fn lately() -> Instant {
    system::lately()
}

/// How long ago `then` was.
pub fn since(then: Instant) -> Duration {
    lately().saturating_duration_since(then)
}

/// Milliseconds since 1970, by this machine's clock.
pub fn unix_ms() -> u64 {
    system::unix_ms()
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Duration, Instant};
    use std::cell::Cell;
    use std::sync::OnceLock;

    /// Seconds and nanoseconds.
    type Shown = (libc::time_t, libc::c_long);

    thread_local! {
        /// The last tick that this thread was shown, and when that was.
        static LAST: Cell<(Shown, Option<Instant>)> = const { Cell::new(((0, 0), None)) };
    }

    /// What a clock of the kernel shows; nothing where it fails, which it does for clocks that there are not.
    fn shown(clock: libc::clockid_t) -> Shown {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: clock_gettime writes the struct that it is given, which lives here, and touches nothing else.
        unsafe { libc::clock_gettime(clock, &mut time) };
        (time.tv_sec, time.tv_nsec)
    }

    fn duration((seconds, nanos): Shown) -> Duration {
        Duration::new(seconds.max(0) as u64, nanos.clamp(0, 999_999_999) as u32)
    }

    fn shows(clock: libc::clockid_t) -> Duration {
        duration(shown(clock))
    }

    pub(super) fn lately() -> Instant {
        // Between two ticks it is asked for many times.
        let tick = shown(libc::CLOCK_MONOTONIC_COARSE);
        match LAST.get() {
            (last, Some(at)) if last == tick => at,
            _ => {
                let at = instant(duration(tick));
                LAST.set((tick, Some(at)));
                at
            }
        }
    }

    /// When the coarse clock showed this.
    fn instant(tick: Duration) -> Instant {
        // `Instant` is of the monotonic clock, whose last tick the coarse one shows.
        static AT: OnceLock<(Instant, Duration)> = OnceLock::new();
        let (at, shown) = AT.get_or_init(|| {
            let coarse = shows(libc::CLOCK_MONOTONIC_COARSE);
            let (now, exact) = (Instant::now(), shows(libc::CLOCK_MONOTONIC));
            (now.checked_sub(exact.saturating_sub(coarse)).unwrap_or(now), coarse)
        });
        *at + tick.saturating_sub(*shown)
    }

    pub(super) fn unix_ms() -> u64 {
        let (seconds, nanos) = shown(libc::CLOCK_REALTIME_COARSE);
        seconds.max(0) as u64 * 1_000 + nanos.max(0) as u64 / 1_000_000
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Duration, Instant};
    use std::time::{SystemTime, UNIX_EPOCH};

    pub(super) fn lately() -> Instant {
        Instant::now()
    }

    pub(super) fn unix_ms() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn the_time_is_nearly_that_of_the_exact_clocks_and_never_ahead_of_them() {
        for _ in 0..1000 {
            let (before, near, after) = (Instant::now(), lately(), Instant::now());
            assert!(near <= after, "{:?} ahead", near - after);
            assert!(before.saturating_duration_since(near) < Duration::from_millis(100));
            let near = unix_ms();
            let exact = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
            assert!(near <= exact && exact - near < 100, "{near} for {exact}");
        }
    }
}
