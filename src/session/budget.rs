//! What this pod's streams may put into the store: no client's streams may fill it, or nobody could begin a session.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::lock;

/// What keeping an event costs beside its bytes, about.
const ENVELOPE: usize = 128;
/// Bytes of one moment are counted together.
const MOMENT: Duration = Duration::from_secs(1);

/// Counts the bytes of the events that may still be kept.
#[derive(Default)]
pub(super) struct Budget {
    spent: Mutex<Spent>,
}

#[derive(Default)]
struct Spent {
    moments: VecDeque<(Instant, usize)>,
    total: usize,
}

impl Budget {
    /// Whether an event of so many bytes may be kept for `life`, with at most `most` bytes of all events.
    pub(super) fn admits(&self, bytes: usize, life: Duration, most: usize) -> bool {
        let (bytes, now) = (bytes + ENVELOPE, Instant::now());
        let mut spent = lock(&self.spent);
        while let Some((at, gone)) = spent.moments.front().copied()
            && now.duration_since(at) > life
        {
            spent.moments.pop_front();
            spent.total -= gone;
        }
        if spent.total + bytes > most {
            return false;
        }
        spent.total += bytes;
        match spent.moments.back_mut() {
            Some((at, sum)) if now.duration_since(*at) < MOMENT => *sum += bytes,
            _ => spent.moments.push_back((now, bytes)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_no_more_makes_room() {
        let budget = Budget::default();
        let most = 2 * (100 + ENVELOPE);
        let long = Duration::from_secs(60);
        assert!(budget.admits(100, long, most) && budget.admits(100, long, most));
        assert!(!budget.admits(100, long, most));
        let spent = Instant::now();
        while spent.elapsed() < Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        assert!(budget.admits(100, Duration::from_millis(1), most));
    }
}
