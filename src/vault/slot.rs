//! Where a credential rests: a record in the store, sealed for whoever it belongs to, and renewed by one pod while the others
//! wait. The record is asked from the pod's cache, so that a call costs no round trip.

use super::Shared;
use super::held::Held;
use crate::auth::digest_text;
use crate::mcp::StoreAway;
use crate::sealing::Purpose;
use crate::store::{Check, Commit, Key, Record, Sure, Write};
use crate::upstream::credentials::Lack;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, sleep};

/// Fields of the record: the sealed token, whose token it is (in the clear, and bound to the seal), and the lease.
const SEALED: &str = "v";
const ISSUER: &str = "i";
const LEASE: &str = "l";
/// A credential that nobody asked for in so long is forgotten.
const LIFE: Duration = Duration::from_secs(90 * 24 * 3600);
/// One renewal has so long before another pod takes it over: longer than a request to a token endpoint may take.
const LEASED: Duration = Duration::from_secs(20);
/// How long a call waits for a renewal, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(25);
const LOOK: Duration = Duration::from_millis(60);
/// For how long a renewed credential is offered to a store that does not take it.
const KEPT: Duration = Duration::from_secs(600);

/// One credential's place.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub key: Key,
    /// Whose it is and for which upstream: bound to what is sealed, with its issuer.
    pub owner: String,
}

/// How a credential is renewed.
pub(super) trait Renewal: Send + Sync + 'static {
    /// Another one in place of `was`. Errors: why there is none, and whether what is held is void.
    fn renew(&self, was: Option<Arc<Held>>) -> BoxFuture<'static, Result<Held, Fruitless>>;
}

/// A renewal that gave nothing.
#[derive(Debug)]
pub(super) struct Fruitless {
    pub lack: Lack,
    /// What is held will not do any more: it is forgotten.
    pub void: bool,
}

impl Shared {
    /// What is held, from this pod's cache of the record; `None` where nothing is, or nothing that opens.
    pub(super) async fn held(&self, slot: &Slot) -> Result<Option<Arc<Held>>, StoreAway> {
        let record = self.store.near(slot.key.clone()).await.map_err(|_| StoreAway)?;
        Ok(record.and_then(|record| self.open(slot, &record)))
    }

    /// Another credential than the one marked `refused`, renewed once for all who wait, here and on other pods.
    pub(super) async fn renewed(
        self: &Arc<Self>,
        slot: Slot,
        refused: Option<u64>,
        renewal: Arc<dyn Renewal>,
    ) -> Result<Arc<Held>, Lack> {
        let (shared, key) = (self.clone(), slot.key.clone());
        self.renewals.join(key, || async move { shared.renew(&slot, refused, &*renewal).await }).await
    }

    async fn renew(
        self: &Arc<Self>,
        slot: &Slot,
        refused: Option<u64>,
        renewal: &dyn Renewal,
    ) -> Result<Arc<Held>, Lack> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let record = self.store.get(slot.key.clone()).await.map_err(|_| Lack::StoreAway)?;
            let held = record.as_ref().and_then(|record| self.open(slot, record));
            if let Some(held) = held.as_ref().filter(|held| held.is_fresh() && Some(held.mark) != refused) {
                return Ok(held.clone());
            }
            let leased = record.as_ref().and_then(|record| record.field(LEASE)).cloned();
            if leased.as_ref().is_some_and(|lease| ends(lease) > millis()) {
                sleep(LOOK).await;
                continue;
            }
            let mine = Bytes::from(format!("{} {:016x}", millis() + LEASED.as_millis() as u64, random()));
            let sealed = record.as_ref().and_then(|record| record.field(SEALED)).cloned();
            let checks = vec![
                (slot.key.clone(), Check::Field(LEASE.into(), leased)),
                (slot.key.clone(), Check::Field(SEALED.into(), sealed.clone())),
            ];
            let life = if sealed.is_some() { LIFE } else { LEASED };
            let writes = [Write::set(LEASE, mine.clone()), Write::Live(life)];
            match self.commit(slot, checks, writes).await? {
                true => {}
                false => continue,
            }
            let outcome = renewal.renew(held.clone()).await;
            let ours = vec![(slot.key.clone(), Check::field(LEASE, mine))];
            match outcome {
                Ok(next) => {
                    let next = Arc::new(next);
                    let sure = if next.refresh.is_some() { Sure::Replicas } else { Sure::Master };
                    match self.commit_as(slot, ours, self.writes(slot, &next), sure).await {
                        Ok(true) => return Ok(next),
                        // What was written meanwhile by others, or taken away by its owner, counts.
                        Ok(false) => {}
                        Err(_) => {
                            // What it was renewed by may be used up: this one is the only one.
                            if let Some(was) = sealed {
                                self.keep(slot.clone(), was, next.clone());
                            }
                            return Ok(next);
                        }
                    }
                }
                Err(Fruitless { lack, void }) => {
                    let end = if void || sealed.is_none() { Write::Drop } else { Write::unset(LEASE) };
                    self.commit(slot, ours, [end]).await.ok();
                    return match held.filter(|held| !void && held.is_alive() && Some(held.mark) != refused) {
                        // Its end is near, and it holds until then.
                        Some(held) if !matches!(lack, Lack::Bad) => Ok(held),
                        _ => Err(lack),
                    };
                }
            }
        }
        Err(Lack::Unreachable("the credential was not renewed in time".into()))
    }

    /// Holds `next` in place of `was` as soon as the store takes it, unless something else is held by then. It does not matter
    /// who has the lease: with `was` they renew nothing.
    fn keep(self: &Arc<Self>, slot: Slot, was: Bytes, next: Arc<Held>) {
        let (shared, until) = (self.clone(), Instant::now() + KEPT);
        tokio::spawn(async move {
            while Instant::now() < until {
                sleep(LOOK).await;
                let checks = vec![(slot.key.clone(), Check::field(SEALED, was.clone()))];
                let writes = shared.writes(&slot, &next);
                if shared.commit_as(&slot, checks, writes, Sure::Replicas).await.is_ok() {
                    return;
                }
            }
            tracing::warn!(key = ?slot.key, "a renewed credential is lost, for the store did not take it");
        });
    }

    /// Holds a credential from now on, whatever was held.
    pub(super) async fn hold(&self, slot: &Slot, held: &Held) -> Result<(), StoreAway> {
        self.commit(slot, Vec::new(), self.writes(slot, held)).await.map(drop).map_err(|_| StoreAway)
    }

    /// Forgets what is held; gives it where there was something.
    pub(super) async fn forget(&self, slot: &Slot) -> Result<Option<Arc<Held>>, StoreAway> {
        let taken = self.store.take(slot.key.clone(), Sure::Master).await.map_err(|_| StoreAway)?;
        Ok(taken.and_then(|record| self.open(slot, &record)))
    }

    fn writes(&self, slot: &Slot, held: &Held) -> [Write; 4] {
        let plain = serde_json::to_vec(held).expect("a struct of strings and numbers has a JSON form");
        let sealed = self.keyring.seal(Purpose::Vault, &bound(slot, &held.issuer), &plain);
        let life = held.life().map_or(LIFE, |life| Duration::from_secs(life.max(1)));
        [
            Write::set(SEALED, sealed),
            Write::set(ISSUER, held.issuer.clone()),
            Write::unset(LEASE),
            Write::Live(life),
        ]
    }

    async fn commit(
        &self,
        slot: &Slot,
        checks: Vec<(Key, Check)>,
        writes: impl IntoIterator<Item = Write>,
    ) -> Result<bool, Lack> {
        self.commit_as(slot, checks, writes, Sure::Master).await
    }

    async fn commit_as(
        &self,
        slot: &Slot,
        checks: Vec<(Key, Check)>,
        writes: impl IntoIterator<Item = Write>,
        sure: Sure,
    ) -> Result<bool, Lack> {
        let writes = writes.into_iter().map(|write| (slot.key.clone(), write)).collect();
        match self.store.commit(checks, writes, sure).await {
            Ok(commit) => Ok(matches!(commit, Commit::Done(_))),
            Err(_) => Err(Lack::StoreAway),
        }
    }

    fn open(&self, slot: &Slot, record: &Record) -> Option<Arc<Held>> {
        if let Some((rev, held)) = self.opened.get(&slot.key)
            && rev == record.rev
        {
            return Some(held);
        }
        let sealed = std::str::from_utf8(record.field(SEALED)?).ok()?;
        let issuer = std::str::from_utf8(record.field(ISSUER)?).ok()?;
        let plain = self.keyring.open(Purpose::Vault, &bound(slot, issuer), sealed);
        let plain = plain
            .inspect_err(|why| tracing::warn!(key = ?slot.key, %why, "a held credential does not open"))
            .ok()?;
        let held: Arc<Held> = Arc::new(serde_json::from_slice(&plain).ok()?);
        self.opened.insert(slot.key.clone(), (record.rev, held.clone()));
        if !self.keyring.is_current(sealed) {
            self.reseal(slot, record, &held);
        }
        Some(held)
    }

    /// Seals again what an older key sealed: a hint of use, which the next use repeats where it fails.
    fn reseal(&self, slot: &Slot, record: &Record, held: &Held) {
        let checks = vec![(slot.key.clone(), Check::Rev(record.rev))];
        let [sealed, ..] = self.writes(slot, held);
        let commit = self.store.commit(checks, vec![(slot.key.clone(), sealed)], Sure::Master);
        tokio::spawn(async move {
            if let Err(error) = commit.await {
                tracing::debug!(%error, "a credential was not sealed anew");
            }
        });
    }
}

/// What a seal is bound to. The length keeps the parts apart.
fn bound(slot: &Slot, issuer: &str) -> Vec<u8> {
    format!("{}:{}{issuer}", slot.owner.len(), slot.owner).into_bytes()
}

/// When a lease ends, in milliseconds since the epoch; at once where it cannot be read.
fn ends(lease: &Bytes) -> u64 {
    let text = std::str::from_utf8(lease).unwrap_or_default();
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system's random source does not fail once it is seeded");
    u64::from_be_bytes(bytes)
}

/// A name that says nothing, for a key.
pub(super) fn hidden(text: &str) -> String {
    digest_text(text.as_bytes())
}

#[cfg(test)]
mod tests;
