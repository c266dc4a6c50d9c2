//! The store that pods share: Redis 7 or newer, alone, behind Sentinels or as a cluster, with the semantics of the trait.
//! Each question has one time limit and is never asked twice by itself; four scripts do what must be done at one instant.
//! It must not know what is kept in it.
//!
//! A user needs, on keys and channels under the prefix: hashes, streams, `GET`, `SET`, `DEL`, `TYPE`, `EXISTS`, `PEXPIRE`,
//! `EVAL`, `EVALSHA`, `TIME`, `PUBLISH`, `SUBSCRIBE`; and `CLIENT`, `INFO`, `PING`, `WAIT`, with a cluster `CLUSTER SLOTS`, behind Sentinels `ROLE`.

mod cache;
mod guard;
mod inbox;
mod line;
mod reply;
mod script;
mod start;

pub use start::{Settings, StartError};

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fred::types::Value;
use futures_util::FutureExt as _;
use futures_util::stream::BoxStream;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::cache::Cache;
use self::line::{Line, Trouble};
use super::{
    Check, Commit, Events, Fut, Grant, Health, Heard, Key, PodId, Rate, Record, Store, StoreError, Sure,
};
use super::{Topic, Write, one_tag};

/// Letters that wait in one inbox at most; one more is refused.
const LETTERS: u32 = 4096;
/// How long an inbox outlives its last letter: well over any pause after which its pod may still come back for it.
const INBOX_LIFE: Duration = Duration::from_secs(600);
/// How long a write that must be sure waits for a replica.
const CONFIRMED_WITHIN: Duration = Duration::from_millis(500);
/// Redis counts a life in milliseconds that must not overflow; nothing of ours lives longer than this.
const LONGEST_LIFE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// The Redis store. What its futures and streams need lives on with them; its watching ends when it is dropped.
pub struct Redis {
    shared: Arc<Shared>,
    _guard: AbortOnDropHandle<()>,
}

struct Shared {
    prefix: String,
    /// For all that neither blocks nor is watched.
    plain: Line,
    /// Reads for the cache, hears invalidations and the bus: what was read here is told here.
    near: Line,
    /// For writes that are confirmed by `WAIT`, which blocks its connection.
    sure: Line,
    cache: Cache,
    bus: broadcast::Sender<Heard>,
    health: watch::Sender<Health>,
    /// The hearing of each pod of this process: a second one takes over.
    hearings: Mutex<HashMap<PodId, CancellationToken>>,
    /// Set once a replica was seen: then their absence is a fault, not the set-up.
    replicated: AtomicBool,
    _kept: Vec<AbortOnDropHandle<()>>,
}

impl Store for Redis {
    fn get(&self, key: Key) -> Fut<Option<Record>> {
        let shared = self.shared.clone();
        async move { shared.read(&shared.plain, &key).await }.boxed()
    }

    fn near(&self, key: Key) -> Fut<Option<Record>> {
        let shared = self.shared.clone();
        async move { shared.near(&key).await }.boxed()
    }

    fn commit(&self, checks: Vec<(Key, Check)>, writes: Vec<(Key, Write)>, sure: Sure) -> Fut<Commit> {
        let shared = self.shared.clone();
        async move { shared.commit(&checks, &writes, sure).await }.boxed()
    }

    fn take(&self, key: Key, sure: Sure) -> Fut<Option<Record>> {
        let shared = self.shared.clone();
        async move {
            let taken = shared.written(&script::TAKE, &[&key], Vec::new(), sure).await;
            let (reply, confirmed) = taken.map_err(|trouble| trouble.of(&key))?;
            let record = reply::record(reply)?;
            if record.is_some() && !confirmed { Err(StoreError::Unconfirmed) } else { Ok(record) }
        }
        .boxed()
    }

    fn admit(&self, key: Key, rate: Rate) -> Fut<Grant> {
        let shared = self.shared.clone();
        async move { shared.admit(&key, rate).await }.boxed()
    }

    fn events(&self, key: Key, after: u64, most: u32) -> Fut<Option<Events>> {
        let shared = self.shared.clone();
        async move { shared.events(&key, after, most).await }.boxed()
    }

    fn mail(&self, to: PodId, letter: Bytes) -> Fut<bool> {
        let shared = self.shared.clone();
        async move {
            let (lease, inbox) = inbox::keys(&to);
            let args = vec![letter.into(), LETTERS.into(), millis(INBOX_LIFE)];
            let put = shared.run(&shared.plain, &script::MAIL, &[&lease, &inbox], args).await;
            match reply::integer(&put.map_err(|trouble| trouble.of(&inbox))?)? {
                2 => Err(StoreError::Full),
                put => Ok(put == 1),
            }
        }
        .boxed()
    }

    fn say(&self, topic: Topic, what: Bytes) -> Fut<()> {
        let shared = self.shared.clone();
        async move {
            let channel = shared.channel();
            let slot = line::slot(&channel);
            let args = vec![channel.into(), guard::said(&topic, &what).into()];
            shared.plain.ask("PUBLISH", slot, args).await.map(drop).map_err(|_| StoreError::Away)
        }
        .boxed()
    }

    fn hear(&self, me: PodId) -> BoxStream<'static, Heard> {
        inbox::hear(self.shared.clone(), me)
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.shared.health.subscribe()
    }
}

impl Shared {
    fn channel(&self) -> String {
        format!("{}:bus", self.prefix)
    }

    async fn read(&self, line: &Line, key: &Key) -> Result<Option<Record>, StoreError> {
        let name = key.render(&self.prefix);
        let asked = line.ask("HGETALL", line::slot(&name), vec![name.into()]);
        reply::record(asked.await.map_err(|trouble| trouble.of(key))?)
    }

    async fn near(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        if let Some(record) = self.cache.get(key) {
            return Ok(Some(record));
        }
        let Some(mark) = self.cache.mark(key) else { return self.far(key).await };
        let record = self.read(&self.near, key).await?;
        if let Some(record) = &record {
            self.cache.fill(key, mark, record);
        }
        Ok(record)
    }

    /// A read while the cache is not trusted. With the store away, what was cached before goes on for as long as the cache
    /// keeps it: calls of known sessions outlive an outage.
    async fn far(&self, key: &Key) -> Result<Option<Record>, StoreError> {
        let left = self.cache.left_over(key);
        let away = *self.health.borrow() == Health::Away;
        match left {
            Some(_) if away => Ok(left),
            _ => match self.read(&self.plain, key).await {
                Err(StoreError::Away) if left.is_some() => Ok(left),
                other => other,
            },
        }
    }

    async fn commit(
        &self,
        checks: &[(Key, Check)],
        writes: &[(Key, Write)],
        sure: Sure,
    ) -> Result<Commit, StoreError> {
        if one_tag(checks, writes)?.is_none() {
            return Ok(Commit::Done(Vec::new()));
        }
        let sure = if writes.is_empty() { Sure::Master } else { sure };
        let (keys, args) = script::commit(checks, writes);
        let asked = self.written(&script::COMMIT, &keys, args, sure);
        // The script tells another kind by itself; that an error did is for the first key.
        let (reply, confirmed) = asked.await.map_err(|trouble| trouble.of(keys[0]))?;
        let mut numbers = reply::integers(reply)?.into_iter();
        match (numbers.next(), numbers.next()) {
            (Some(0), Some(check)) => Ok(Commit::Failed { check: check as usize }),
            (Some(2), Some(index)) => {
                let key = keys.get((index as usize).wrapping_sub(1)).ok_or(StoreError::Away)?;
                Err(StoreError::Kind((*key).clone()))
            }
            (Some(1), _) if !confirmed => Err(StoreError::Unconfirmed),
            (Some(1), first) => Ok(Commit::Done(first.into_iter().chain(numbers).collect())),
            _ => Err(reply::odd()),
        }
    }

    async fn admit(&self, key: &Key, rate: Rate) -> Result<Grant, StoreError> {
        let every = rate.every.min(LONGEST_LIFE).as_micros() as u64;
        if every == 0 {
            return Ok(Grant::Yes { left: rate.burst });
        }
        if rate.cost > rate.burst {
            return Ok(Grant::No { after: Duration::MAX });
        }
        let span = |units: u32| every.saturating_mul(u64::from(units)).min(LONGEST_LIFE.as_micros() as u64);
        let args = [every, span(rate.burst), span(rate.cost)].map(|micros| micros.to_string().into());
        let judged = self.run(&self.plain, &script::ADMIT, &[key], args.to_vec()).await;
        match reply::integers(judged.map_err(|trouble| trouble.of(key))?)?[..] {
            [1, left] => Ok(Grant::Yes { left: u32::try_from(left).unwrap_or(u32::MAX) }),
            [0, after] => Ok(Grant::No { after: Duration::from_micros(after) }),
            _ => Err(reply::odd()),
        }
    }

    /// The end is asked first and both in one flight, so that what comes in between is among the events.
    async fn events(&self, key: &Key, after: u64, most: u32) -> Result<Option<Events>, StoreError> {
        let name = key.render(&self.prefix);
        let slot = line::slot(&name);
        let about = self.plain.ask("XINFO", slot, vec!["STREAM".into(), name.clone().into()]);
        let range = vec![name.into(), format!("(0-{after}").into(), "+".into(), "COUNT".into(), most.into()];
        let listed = async {
            if most == 0 { Ok(Value::Array(Vec::new())) } else { self.plain.ask("XRANGE", slot, range).await }
        };
        let (about, listed) = tokio::join!(about, listed);
        let (last, first) = match about {
            Ok(about) => reply::stream(about)?,
            Err(Trouble::Said(said)) if said.contains("no such key") => return Ok(None),
            Err(trouble) => return Err(trouble.of(key)),
        };
        let list = reply::events(listed.map_err(|trouble| trouble.of(key))?)?;
        let last = list.last().map_or(last, |(id, _)| last.max(*id));
        let from = list.first().map_or(first, |(id, _)| *id);
        let whole = after <= last && from <= after.saturating_add(1);
        Ok(Some(Events { list, last, whole }))
    }

    async fn run(
        &self,
        line: &Line,
        script: &script::Script,
        keys: &[&Key],
        args: Vec<Value>,
    ) -> Result<Value, Trouble> {
        script.run(line, keys.iter().map(|key| key.render(&self.prefix)).collect(), args).await
    }

    /// Runs a script that writes; and whether that is as sure as was asked for.
    async fn written(
        &self,
        script: &script::Script,
        keys: &[&Key],
        args: Vec<Value>,
        sure: Sure,
    ) -> Result<(Value, bool), Trouble> {
        if sure == Sure::Master {
            return Ok((self.run(&self.plain, script, keys, args).await?, true));
        }
        let slot = line::slot(&keys[0].render(&self.prefix));
        let line = &self.sure;
        let (before, reply, about) = tokio::join!(
            line.ask("CLIENT", slot, vec!["ID".into()]),
            self.run(line, script, keys, args),
            line.ask("INFO", slot, vec!["replication".into()]),
        );
        let reply = reply?;
        // From here on it is written; what fails now only leaves it unconfirmed.
        let replicas = about
            .ok()
            .as_ref()
            .and_then(reply::text)
            .map(|info| start::value(info, "connected_slaves") != Some("0"));
        match replicas {
            Some(false) => return Ok((reply, !self.replicated.load(Relaxed))),
            Some(true) => self.replicated.store(true, Relaxed),
            None => return Ok((reply, false)),
        }
        // WAIT is about its own connection: after a reconnect it would know nothing of the write.
        let (waited, after) = tokio::join!(
            line.ask("WAIT", slot, vec![1.into(), millis(CONFIRMED_WITHIN)]),
            line.ask("CLIENT", slot, vec!["ID".into()]),
        );
        let same = matches!((before, after), (Ok(before), Ok(after)) if before == after);
        let confirmed =
            waited.ok().and_then(|count| reply::integer(&count).ok()).is_some_and(|count| count > 0);
        Ok((reply, same && confirmed))
    }
}

/// A span for Redis, in whole milliseconds, at least one.
fn millis(span: Duration) -> Value {
    let millis = span.min(LONGEST_LIFE).as_nanos().div_ceil(1_000_000).max(1);
    millis.to_string().into()
}
