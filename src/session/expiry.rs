//! The end of sessions that nobody uses any more. A record says when its session is over, and outlives it a little; an index
//! by that time lets any pod find those that are, take each record, once over all pods, and end upstream what it opened.
//!
//! A session stands in the index once: where it would end if it were never used again. Uses cost nothing there; a session
//! that is found alive when its time comes is put where it would end now.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};

use super::facts::{Facts, now};
use super::{Ended, FACTS, Sessions, Shared, cap};
use crate::mcp::{SessionId, StoreAway};
use crate::store::{Check, Grant, Key, Rate, Record, Sure, Write};

/// Sessions that end within this part of a life stand together in the index,
const PARTS: u32 = 48;
/// or within this, where lives are short.
const NARROWEST: Duration = Duration::from_secs(1);
/// Each such part lies in so many records, so that none grows large.
const SHARDS: u64 = 16;
/// So many parts a record outlives its session: what no pod looked at in that time expires unseen, and the upstream is left
/// to its own expiry.
const GRACE: u32 = 3;
/// The field of a session's record that says where it stands in the index.
pub(super) const NOTED: &str = "e";
/// Records that are looked at at once.
const AT_ONCE: usize = 16;

impl Shared {
    /// The time whose ends stand together.
    fn part(&self) -> Duration {
        (self.settings.life / PARTS).max(NARROWEST)
    }

    /// How long a record is kept after its session's last use.
    pub(super) fn kept(&self, facts: &Facts) -> Duration {
        self.life(facts.transport) + self.part() * GRACE
    }

    /// When a session is over, in milliseconds since 1970.
    fn end_of(&self, facts: &Facts) -> u64 {
        facts.touched.saturating_add(millis(self.life(facts.transport)))
    }

    /// Whether a session's life is over, though its record may still be there.
    pub(super) fn is_over(&self, facts: &Facts) -> bool {
        self.end_of(facts) <= now()
    }

    /// The part of time that a session ends in.
    pub(super) fn part_of(&self, facts: &Facts) -> u64 {
        self.end_of(facts) / millis(self.part())
    }

    /// The index's record for sessions that end then.
    fn index(&self, part: u64, shard: u64) -> Key {
        Key::new(format!("x:{part}:{shard}"), "")
    }

    /// Notes when a session would end. Where this fails, nobody ends it upstream.
    pub(super) async fn note_end(&self, id: &SessionId, part: u64) -> Result<(), StoreAway> {
        let key = self.index(part, shard(id));
        let swept =
            Duration::from_millis((part + 1).saturating_mul(millis(self.part())).saturating_sub(now()));
        let life = swept + self.part() * (GRACE + 1);
        let writes = vec![(key.clone(), Write::set(id.0.clone(), Bytes::new())), (key, Write::Live(life))];
        self.store.commit(Vec::new(), writes, Sure::Master).await.map(drop).map_err(|_| StoreAway)
    }

    /// A session has ended, and this was its record. Where this fails, its entry is looked at in vain when its time comes.
    pub(super) async fn forget_end(&self, id: &SessionId, record: &Record) {
        let noted = record.field(NOTED).and_then(|part| std::str::from_utf8(part).ok()?.parse().ok());
        if let Some(part) = noted {
            let writes = vec![(self.index(part, shard(id)), Write::unset(id.0.clone()))];
            let _ = self.store.commit(Vec::new(), writes, Sure::Master).await;
        }
    }
}

fn shard(id: &SessionId) -> u64 {
    id.0.bytes().fold(0, |sum, byte| sum + u64::from(byte)) % SHARDS
}

impl Sessions {
    /// How often [`Sessions::sweep`] is worth while.
    pub fn sweep_every(&self) -> Duration {
        self.shared.part() / 2
    }

    /// Finds the sessions that are over and gives each to `end`, once over all pods. Of all pods one does so in its time;
    /// for the others this does nothing.
    pub async fn sweep<F>(&self, end: impl Fn(Arc<Ended>) -> F) -> Result<(), StoreAway>
    where
        F: Future<Output = ()>,
    {
        let shared = &self.shared;
        let rate = Rate { every: self.sweep_every(), burst: 1, cost: 1 };
        let turn = shared.store.admit(Key::new("x", "turn"), rate).await.map_err(|_| StoreAway)?;
        if matches!(turn, Grant::No { .. }) {
            return Ok(());
        }
        let part = now() / millis(shared.part());
        for part in part.saturating_sub(u64::from(GRACE) + 1)..part {
            for shard in 0..SHARDS {
                self.sweep_index(shared.index(part, shard), &end).await?;
            }
        }
        Ok(())
    }

    async fn sweep_index<F>(&self, key: Key, end: &impl Fn(Arc<Ended>) -> F) -> Result<(), StoreAway>
    where
        F: Future<Output = ()>,
    {
        let store = &self.shared.store;
        let Some(record) = store.get(key.clone()).await.map_err(|_| StoreAway)? else { return Ok(()) };
        let ids: Vec<_> = record.fields.keys().cloned().map(SessionId).collect();
        let looked = stream::iter(ids).map(|id| async move {
            if let Some(ended) = self.look_at(&id).await? {
                end(ended).await;
            }
            Ok(id)
        });
        let mut looked = std::pin::pin!(looked.buffer_unordered(AT_ONCE));
        let mut done = Vec::new();
        while let Some(looked) = looked.next().await {
            done.push((key.clone(), Write::unset(looked?.0)));
        }
        if done.len() == record.fields.len() {
            // Nobody adds to what is past.
            done = vec![(key, Write::Drop)];
        }
        store.commit(Vec::new(), done, Sure::Master).await.map(drop).map_err(|_| StoreAway)
    }

    /// The session, if it is over and this call ended it. One that lives on is noted where it would end now.
    async fn look_at(&self, id: &SessionId) -> Result<Option<Arc<Ended>>, StoreAway> {
        let shared = &self.shared;
        let record = shared.store.get(shared.record(id)).await.map_err(|_| StoreAway)?;
        let Some(facts) = record.as_ref().and_then(|record| Facts::unpack(record.field(FACTS)?)) else {
            return Ok(None);
        };
        if !shared.is_over(&facts) {
            let (part, key) = (shared.part_of(&facts), shared.record(id));
            shared.note_end(id, part).await?;
            let noted = vec![(key.clone(), Write::set(NOTED, part.to_string()))];
            let noted = shared.store.commit(vec![(key, Check::Present)], noted, Sure::Master);
            return noted.await.map(|_| None).map_err(|_| StoreAway);
        }
        let ended = self.end(id).await?;
        if ended.is_some() {
            cap::leave(shared, &facts.owner, id).await;
        }
        Ok(ended)
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}
