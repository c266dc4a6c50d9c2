//! Names for our requests upstream: unique over pods and restarts, for the callers' own ids and tokens never leave us.

use crate::wire::Id;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A new id: the process's random prefix and a count. It serves as the progress token of its request as well.
pub(super) fn next() -> Id {
    Id::counted(prefix(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn prefix() -> &'static str {
    static PREFIX: OnceLock<String> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let mut random = [0u8; 6];
        aws_lc_rs::rand::fill(&mut random)
            .expect("the system's random source does not fail once it is seeded");
        let mut text = String::with_capacity(13);
        for byte in random {
            write!(text, "{byte:02x}").expect("writing to a string does not fail");
        }
        text.push('-');
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_ids_are_equal_and_all_bear_the_prefix_of_the_process() {
        let (a, b) = (next(), next());
        assert_ne!(a, b);
        assert!(a.as_str().unwrap().starts_with(prefix()) && b.as_str().unwrap().starts_with(prefix()));
        assert_eq!(prefix().len(), 13);
    }
}
