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
    system::unix().as_millis() as u64
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Duration, Instant};
    use std::sync::OnceLock;

    /// What a clock of the kernel shows; nothing where it fails, which it does for clocks that there are not.
    fn shows(clock: libc::clockid_t) -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: clock_gettime writes the struct that it is given, which lives here, and touches nothing else.
        unsafe { libc::clock_gettime(clock, &mut time) };
        Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
    }

    pub(super) fn lately() -> Instant {
        // `Instant` is of the monotonic clock, whose last tick the coarse one shows.
        static AT: OnceLock<(Instant, Duration)> = OnceLock::new();
        let (at, shown) = AT.get_or_init(|| {
            let coarse = shows(libc::CLOCK_MONOTONIC_COARSE);
            let (now, exact) = (Instant::now(), shows(libc::CLOCK_MONOTONIC));
            (now.checked_sub(exact.saturating_sub(coarse)).unwrap_or(now), coarse)
        });
        *at + shows(libc::CLOCK_MONOTONIC_COARSE).saturating_sub(*shown)
    }

    pub(super) fn unix() -> Duration {
        shows(libc::CLOCK_REALTIME_COARSE)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::{Duration, Instant};
    use std::time::{SystemTime, UNIX_EPOCH};

    pub(super) fn lately() -> Instant {
        Instant::now()
    }

    pub(super) fn unix() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
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
