//! What is told again each time it is said, one telling after another: however often it is said meanwhile, one more follows.

use std::sync::atomic::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const TELLING: u8 = 1;
/// Said again since the telling began.
const AGAIN: u8 = 2;

/// Whether something is being told.
#[derive(Default)]
pub struct Telling(AtomicU8);

impl Telling {
    /// It was said. True: the caller is to tell it, until [`Telling::is_over`].
    pub fn begin(&self) -> bool {
        let next = |now| Some(if now == IDLE { TELLING } else { AGAIN });
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(IDLE)
    }

    /// It was told. False: it was said again meanwhile, and is to be told once more.
    pub fn is_over(&self) -> bool {
        let next = |now| Some(if now == AGAIN { TELLING } else { IDLE });
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) != Ok(AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_while_it_is_told_is_told_once_more() {
        let telling = Telling::default();
        assert!(telling.begin() && !telling.begin() && !telling.begin());
        assert!(!telling.is_over() && telling.is_over());
        assert!(telling.begin() && telling.is_over());
    }
}
