//! What was revoked before its end: API keys, token families, clients, single tokens, principals. Asked without waiting; known on every pod
//! within a second of being written, and never forgotten for the store's being away. Knows nothing of what the ids stand for.

use super::{Epoch, now};
use crate::mcp::Principal;
use crate::store::{Key, Record, Store, StoreError, Sure, Write};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Records over which the ids are spread: one that changes is read whole by every pod.
const SHARDS: u8 = 8;
/// How often the records are looked at. What did not change is in this pod's cache, so that looking costs no round trip.
const LOOK: Duration = Duration::from_millis(200);
/// Seconds for which an id is kept after its end, for pods whose clocks differ.
const GRACE: u64 = 120;
/// Most ids, so that nobody fills the memory by revoking. Each is for as long as what it revokes could be used.
const MOST: usize = 200_000;
/// Says that a record is there although nothing in it is revoked: what is absent is not cached.
const HERE: &str = "";

/// What can be revoked. Each kind's ids are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocable<'a> {
    /// An API key, by its id.
    ApiKey(&'a str),
    /// All tokens that came of one authorisation, by the family's id (claim [`FAMILY`](super::FAMILY)).
    Family(&'a str),
    /// All tokens of an OAuth client of our authorisation server, by its id.
    Client(&'a str),
    /// One token, by its issuer and `jti`.
    Token { issuer: &'a str, id: &'a str },
    /// All that lets a principal in, and whatever comes of it.
    Principal(&'a Principal),
}

impl Revocable<'_> {
    /// Long ids (sealed ones of clients) are digested.
    fn name(&self) -> String {
        use Revocable::*;
        let (kind, id) = match self {
            ApiKey(id) => ("key", (*id).to_owned()),
            Family(id) => ("family", (*id).to_owned()),
            Client(id) => ("client", (*id).to_owned()),
            Token { issuer, id } => ("token", format!("{}:{issuer}{id}", issuer.len())),
            Principal(who) => ("principal", who.identity()),
        };
        match id.len() <= 64 {
            true => format!("{kind}:{id}"),
            false => format!("{kind}#{}", super::digest_text(id.as_bytes())),
        }
    }
}

/// The revoked ids that this pod knows of. Cheap to clone.
#[derive(Clone)]
pub struct Revoked {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    /// Until when each id is revoked, in seconds since the epoch.
    ids: RwLock<HashMap<String, u64>>,
    /// Whether the store may lack something that is known here.
    unsaid: AtomicBool,
    epoch: Epoch,
}

/// Why a revocation may not have reached the other pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RevokeError {
    /// Here it is in effect; the others learn of it when the store is back, as long as this pod lives.
    #[error("the state store is out of reach")]
    Away,
    #[error("there are too many revocations")]
    Full,
}

impl Revoked {
    /// Knows nothing yet. `epoch` advances with each id that is new here.
    pub fn new(store: Arc<dyn Store>, epoch: Epoch) -> Revoked {
        Revoked {
            shared: Arc::new(Shared { store, ids: RwLock::default(), unsaid: AtomicBool::new(false), epoch }),
        }
    }

    /// Whether it is revoked, as far as is known here. It waits for nothing.
    pub fn has(&self, what: Revocable<'_>) -> bool {
        let ids = self.shared.ids.read().unwrap_or_else(PoisonError::into_inner);
        // Nothing is revoked, most of the time.
        !ids.is_empty() && ids.contains_key(&what.name())
    }

    /// Revokes until `until` (seconds since the epoch), when what it names ends by itself. In effect here at once. `Ok`: the store has
    /// it, and all pods know it within a second.
    pub async fn revoke(&self, what: Revocable<'_>, until: u64) -> Result<(), RevokeError> {
        let name = what.name();
        let until = until.max(now());
        if !self.shared.learn([(name.clone(), until)]) {
            return Err(RevokeError::Full);
        }
        let key = key(shard(&name));
        let write = Write::set(name, Bytes::from(until.to_string()));
        let written = self.shared.store.commit(vec![], vec![(key, write)], Sure::Replicas).await;
        match written {
            // The master has it, and each pod that knows it sees that it stays.
            Ok(_) | Err(StoreError::Unconfirmed) => Ok(()),
            Err(error) => {
                self.shared.unsaid.store(true, Ordering::Relaxed);
                // What was not written is, as soon as there is room.
                Err(if error == StoreError::Full { RevokeError::Full } else { RevokeError::Away })
            }
        }
    }

    /// Learns of the others' revocations until it is dropped: for a task of its own, which begins before clients are served.
    pub async fn follow(self) {
        let mut seen = [None; SHARDS as usize];
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            self.look(&mut seen).await;
        }
    }

    /// Reads the records once: before clients are served, so that a pod that starts knows what the others do.
    pub async fn catch_up(&self) {
        self.look(&mut [None; SHARDS as usize]).await;
    }

    async fn look(&self, seen: &mut [Option<u64>; SHARDS as usize]) {
        if self.shared.unsaid.swap(false, Ordering::Relaxed) {
            *seen = [None; SHARDS as usize];
        }
        for (number, seen) in (0..SHARDS).zip(seen) {
            match self.shared.store.near(key(number)).await {
                Ok(Some(record)) if *seen == Some(record.rev) => {}
                Ok(record) => {
                    *seen = record.as_ref().map(|record| record.rev);
                    self.shared.merge(number, record).await;
                }
                // What is known stays known.
                Err(_) => {
                    self.shared.unsaid.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
    }
}

impl Shared {
    /// Learns what a record says, and writes back what it lacks (a store that was emptied, a failover) and drops what is over.
    async fn merge(&self, number: u8, record: Option<Record>) {
        let now = now();
        let mut writes = Vec::new();
        let mut there = HashMap::new();
        for (name, until) in record.iter().flat_map(|record| record.fields.iter()) {
            if &**name == HERE {
                continue;
            }
            match std::str::from_utf8(until).ok().and_then(|until| until.parse::<u64>().ok()) {
                Some(until) if until + GRACE > now => drop(there.insert(name.to_string(), until)),
                _ => writes.push(Write::unset(name.clone())),
            }
        }
        let lacks: Vec<(String, u64)> = {
            let mut ids = self.ids.write().unwrap_or_else(PoisonError::into_inner);
            ids.retain(|_, until| *until + GRACE > now);
            let ours = ids.iter().filter(|(name, until)| shard(name) == number && **until > now);
            ours.filter(|(name, _)| !there.contains_key(*name)).map(|(n, u)| (n.clone(), *u)).collect()
        };
        self.learn(there);
        writes
            .extend(lacks.into_iter().map(|(name, until)| Write::set(name, Bytes::from(until.to_string()))));
        if record.is_none() {
            writes.push(Write::set(HERE, Bytes::new()));
        }
        if !writes.is_empty() {
            let writes = writes.into_iter().map(|write| (key(number), write)).collect();
            if self.store.commit(vec![], writes, Sure::Master).await.is_err() {
                self.unsaid.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether there was room.
    fn learn(&self, found: impl IntoIterator<Item = (String, u64)>) -> bool {
        let mut ids = self.ids.write().unwrap_or_else(PoisonError::into_inner);
        let (mut news, mut room) = (false, true);
        for (name, until) in found {
            if let Some(known) = ids.get_mut(&name) {
                *known = until.max(*known);
            } else if ids.len() < MOST {
                ids.insert(name, until);
                news = true;
            } else {
                room = false;
            }
        }
        drop(ids);
        if news {
            self.epoch.advance();
        }
        if !room {
            tracing::error!("more than {MOST} revocations: the newest are not in effect");
        }
        room
    }
}

fn key(shard: u8) -> Key {
    Key::new(format!("revoked:{shard}"), "")
}

fn shard(name: &str) -> u8 {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, name.as_bytes()).as_ref()[0] % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;

    fn pod(store: &Arc<dyn Store>) -> Revoked {
        Revoked::new(store.clone(), Epoch::default())
    }

    fn store() -> Arc<dyn Store> {
        Arc::new(Memory::new(1 << 20))
    }

    #[tokio::test]
    async fn what_one_pod_revokes_the_others_know_after_a_look_and_only_that() {
        let store = store();
        let (one, two) = (pod(&store), pod(&store));
        two.catch_up().await;
        let was = two.shared.epoch.now();
        one.revoke(Revocable::ApiKey("ci"), now() + 60).await.unwrap();
        assert!(one.has(Revocable::ApiKey("ci")), "at once where it was revoked");
        two.catch_up().await;
        assert!(two.has(Revocable::ApiKey("ci")));
        assert_ne!(two.shared.epoch.now(), was, "what was verified before is verified anew");
        for other in [Revocable::ApiKey("cj"), Revocable::Client("ci"), Revocable::Family("ci")] {
            assert!(!two.has(other), "{other:?}");
        }
        let started_later = pod(&store);
        started_later.catch_up().await;
        assert!(started_later.has(Revocable::ApiKey("ci")));
    }

    #[tokio::test]
    async fn a_store_that_lost_its_records_gets_them_back_from_those_who_know() {
        let store = store();
        let one = pod(&store);
        let long = "c".repeat(3000);
        one.revoke(Revocable::Client(&long), now() + 60).await.unwrap();
        for number in 0..SHARDS {
            let drop = vec![(key(number), Write::Drop)];
            store.commit(vec![], drop, Sure::Master).await.unwrap();
        }
        one.catch_up().await;
        assert!(one.has(Revocable::Client(&long)), "what is known stays known");
        let two = pod(&store);
        two.catch_up().await;
        assert!(two.has(Revocable::Client(&long)));
    }

    #[tokio::test]
    async fn ids_are_dropped_when_what_they_revoke_has_ended() {
        let store = store();
        let name: Arc<str> = "key:old".into();
        let long_ago = Bytes::from((now() - GRACE - 1).to_string());
        let write = vec![(key(shard(&name)), Write::set(name.clone(), long_ago))];
        store.commit(vec![], write, Sure::Master).await.unwrap();
        let one = pod(&store);
        one.catch_up().await;
        assert!(!one.has(Revocable::ApiKey("old")));
        let record = store.get(key(shard(&name))).await.unwrap().unwrap();
        assert_eq!(record.field(&name), None);
    }
}
