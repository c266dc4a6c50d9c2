//! A hash for maps in memory that are asked with every call, by a name or an id: several times cheaper than the standard one. It
//! is keyed anew in each process, so that nobody can choose names that meet in one place. Knows no maps.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// Makes the hashers of this process.
#[derive(Clone, Copy, Default)]
pub struct Keyed;

/// A map by such a hash.
pub type Map<K, V> = std::collections::HashMap<K, V, Keyed>;

/// The state of one hash.
pub struct Folds {
    state: u64,
    key: u64,
}

impl BuildHasher for Keyed {
    type Hasher = Folds;

    fn build_hasher(&self) -> Folds {
        static KEYS: OnceLock<(u64, u64)> = OnceLock::new();
        let (state, key) = *KEYS.get_or_init(|| {
            let random = RandomState::new();
            // No word times an even one depends on all of its bits.
            (random.hash_one(0), random.hash_one(1) | 1)
        });
        Folds { state, key }
    }
}

/// Both halves of the product, so that each bit of either depends on all of both.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight))
}

fn half(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |four| u32::from_le_bytes(*four).into())
}

impl Hasher for Folds {
    fn write(&mut self, bytes: &[u8]) {
        let (mut state, key, mut rest) = (self.state ^ bytes.len() as u64, self.key, bytes);
        while rest.len() > 16 {
            state = fold(state ^ word(rest), key ^ word(&rest[8..]));
            rest = &rest[16..];
        }
        // What is left, by two pieces that meet or overlap; their number of bytes was taken account of.
        let (first, last) = match rest {
            [] => (0, 0),
            [one] => (u64::from(*one), 0),
            [one, .., other] if rest.len() < 4 => {
                (u64::from(*one) << 8 | u64::from(rest[1]), u64::from(*other))
            }
            _ if rest.len() < 8 => (half(rest), half(&rest[rest.len() - 4..])),
            _ => (word(rest), word(&rest[rest.len() - 8..])),
        };
        self.state = fold(state ^ first, key ^ last);
    }

    /// What ends a text, mostly: its length counts already.
    fn write_u8(&mut self, byte: u8) {
        self.state = self.state.rotate_left(7) ^ u64::from(byte);
    }

    fn write_u64(&mut self, word: u64) {
        self.state = fold(self.state ^ word, self.key);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        fold(self.state, self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn names_that_differ_little_lie_far_apart() {
        let names = (0..20_000).map(|n| format!("tool_{n}"));
        let names: Vec<_> = names.chain((0..2_000).map(|n| "a".repeat(n))).collect();
        let hashes: Vec<_> = names.iter().map(|name| Keyed.hash_one(name.as_str())).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), names.len());
        // A map takes its places from the lowest bits, and tells what meets there apart by the highest.
        for shift in [0, 57] {
            let mut lots = [0usize; 128];
            hashes.iter().for_each(|hash| lots[(hash >> shift) as usize & 127] += 1);
            let fair = names.len() / 128;
            assert!(lots.iter().all(|many| (fair / 2..fair * 2).contains(many)), "{shift}: {lots:?}");
        }
    }

    #[test]
    fn texts_in_a_row_are_told_apart_where_one_ends() {
        let rows = [["ab", "c"], ["a", "bc"], ["", "abc"], ["abc", ""], ["c", "ab"]];
        let hashes: HashSet<_> = rows.iter().map(|row| Keyed.hash_one(row)).collect();
        assert_eq!(hashes.len(), rows.len());
    }

    proptest! {
        #[test]
        fn each_byte_counts_wherever_it_stands(
            bytes in prop::collection::vec(any::<u8>(), 1..80),
            at in any::<prop::sample::Index>(),
            by in 1..=255u8,
        ) {
            let mut other = bytes.clone();
            let at = at.index(bytes.len());
            other[at] ^= by;
            prop_assert_eq!(Keyed.hash_one(&bytes), Keyed.hash_one(bytes.clone()));
            prop_assert_ne!(Keyed.hash_one(&bytes), Keyed.hash_one(&other));
        }
    }
}
