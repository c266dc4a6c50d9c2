//! Tokens that were verified a moment ago, by their digest: a look costs a read lock and waits for nobody for long. Bounded; holds no
//! token.

use super::now;
use crate::clock;
use crate::mcp::Access;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

/// Parts with a lock each: a power of two.
const SHARDS: usize = 16;
/// Most tokens of one part. More push all of it out, and are verified anew as they come.
const MOST: usize = 8192;

/// What a token is known by, with the profile that it opened.
pub type Digest = [u8; 32];

#[derive(Default)]
pub struct Known {
    shards: [RwLock<HashMap<Digest, Verified, BuildHasherDefault<Head>>>; SHARDS],
}

struct Verified {
    access: Arc<Access>,
    /// Seconds since the epoch until which it is known.
    until: u64,
    epoch: u64,
}

impl Known {
    /// What the token of this digest was let in with, where that was in this epoch and is not over.
    pub fn get(&self, digest: &Digest, epoch: u64) -> Option<Arc<Access>> {
        let shard = self.shard(digest).read().unwrap_or_else(PoisonError::into_inner);
        let verified = shard.get(digest).filter(|verified| verified.epoch == epoch)?;
        // Lives of tokens are of seconds: the time may be a little late.
        (verified.until > clock::unix_ms() / 1000).then(|| verified.access.clone())
    }

    /// Knows a token for so many seconds, or until it ends. `epoch`: when its verification began. Comes back with what is known: where the
    /// token was verified before, to the same end, that is the `Access` of then, so that who kept it need not compare what is in it.
    pub fn put(&self, digest: Digest, access: Arc<Access>, epoch: u64, seconds: u64) -> Arc<Access> {
        let now = now();
        let until = access.until.unwrap_or(u64::MAX).min(now.saturating_add(seconds));
        if until <= now {
            return access;
        }
        let mut shard = self.shard(&digest).write().unwrap_or_else(PoisonError::into_inner);
        let before = shard.get(&digest).map(|known| &known.access).filter(|before| **before == access);
        let access = before.cloned().unwrap_or(access);
        if shard.len() >= MOST {
            shard.retain(|_, known| known.until > now && known.epoch == epoch);
            if shard.len() >= MOST {
                shard.clear();
            }
        }
        shard.insert(digest, Verified { access: access.clone(), until, epoch });
        access
    }

    fn shard(&self, digest: &Digest) -> &RwLock<HashMap<Digest, Verified, BuildHasherDefault<Head>>> {
        &self.shards[usize::from(digest[31]) % SHARDS]
    }
}

/// The head of a digest is as good as a hash of it. Whoever would choose it has to have tokens signed for that.
#[derive(Default)]
struct Head(u64);

impl Hasher for Head {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(head) = bytes.first_chunk() {
            self.0 = u64::from_ne_bytes(*head);
        }
    }

    // The length that precedes an array's bytes says nothing.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Principal;

    fn access(until: Option<u64>) -> Arc<Access> {
        let principal = Arc::new(Principal::minted("t", "i", "s"));
        Arc::new(Access { until, ..Access::open(principal) })
    }

    #[test]
    fn a_token_is_known_in_its_epoch_and_no_longer_than_it_lasts() {
        let known = Known::default();
        known.put([1; 32], access(None), 7, 60);
        assert!(known.get(&[1; 32], 7).is_some());
        assert!(known.get(&[1; 32], 8).is_none(), "another epoch");
        assert!(known.get(&[2; 32], 7).is_none(), "another token");
        known.put([3; 32], access(Some(now())), 7, 60);
        assert!(known.get(&[3; 32], 7).is_none(), "it has ended");
        known.put([4; 32], access(None), 7, 0);
        assert!(known.get(&[4; 32], 7).is_none(), "nothing is to be remembered");
    }

    #[test]
    fn a_token_that_is_verified_again_is_known_by_what_it_was_known_by() {
        let known = Known::default();
        let first = known.put([1; 32], access(None), 7, 60);
        let again = known.put([1; 32], access(None), 8, 60);
        assert!(Arc::ptr_eq(&first, &again));
        assert!(known.get(&[1; 32], 8).is_some_and(|known| Arc::ptr_eq(&known, &first)));
        assert!(known.get(&[1; 32], 7).is_none(), "in the new epoch alone");
        let other = known.put([1; 32], access(Some(now() + 60)), 9, 60);
        assert!(!Arc::ptr_eq(&first, &other), "it is let in with something else");
        assert!(known.get(&[1; 32], 9).is_some_and(|known| Arc::ptr_eq(&known, &other)));
    }

    #[test]
    fn however_many_come_no_more_are_kept_than_there_is_room_for() {
        let (known, access) = (Known::default(), access(None));
        let digest = |n: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&n.to_ne_bytes());
            digest
        };
        for n in 0..3 * MOST {
            known.put(digest(n), access.clone(), 1, 60);
        }
        assert!(known.shards.iter().all(|shard| shard.read().unwrap().len() <= MOST));
        assert!(known.get(&digest(3 * MOST - 1), 1).is_some(), "the newest is among them");
    }
}
