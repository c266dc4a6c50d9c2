//! What the pods share: records with conditional commits, streams, limits, letters and a bus, behind one trait that
//! memory and Redis give alike. It knows nothing of MCP; to it, fields and events are opaque bytes.

mod key;
mod measured;
pub mod memory;
mod rate;
pub mod redis;

pub use key::{Key, PodId, Topic};
pub use measured::Measured;
pub use memory::Memory;
pub use rate::{Grant, Rate};
pub use redis::Redis;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use tokio::sync::watch;

/// What every question to a store comes back as. Nothing happens before it is polled.
pub type Fut<T> = BoxFuture<'static, Result<T, StoreError>>;

/// Why a store gave no answer. That something is absent is an answer, never an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or did not answer in time. A write may or may not have taken effect.
    #[error("the store is away")]
    Away,
    /// The store, or a pod's inbox, has no room. Nothing was written.
    #[error("the store is full")]
    Full,
    /// Written on the master, but not confirmed by the replicas that [`Sure::Replicas`] asked for.
    #[error("written, but not confirmed by a replica")]
    Unconfirmed,
    /// The keys of one commit have different tags, hence may live on different nodes. Nothing was written.
    #[error("keys of one commit lie apart: {0} and {1}")]
    Apart(Key, Key),
    /// The key holds another kind (record, stream, limit) than the operation is for. Nothing was written.
    #[error("{0} holds another kind of value")]
    Kind(Key),
}

/// A hash of opaque fields. It may have no fields at all and yet be present.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    /// Grows by one with each commit that changes a field. A record that comes after a dropped or expired one begins
    /// above every revision that the key had before, so a revision never stands for two states.
    pub rev: u64,
    /// Field values come back byte for byte as they were set.
    pub fields: Arc<BTreeMap<Arc<str>, Bytes>>,
}

impl Record {
    /// The bytes of one field.
    pub fn field(&self, name: &str) -> Option<&Bytes> {
        self.fields.get(name)
    }
}

/// Names and sizes only: field values may be secrets.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record rev {} ", self.rev)?;
        f.debug_map().entries(self.fields.iter().map(|(name, value)| (name, value.len()))).finish()
    }
}

/// A condition of a commit on one key. All are judged before the first write.
#[derive(Clone)]
pub enum Check {
    /// Nothing, of any kind, is under the key.
    Absent,
    /// Something, of any kind, is under the key.
    Present,
    /// The record is there and has exactly this revision.
    Rev(u64),
    /// The record's field has exactly these bytes; `None`: the field, or the whole record, is absent.
    Field(Arc<str>, Option<Bytes>),
}

impl Check {
    /// The field `name` holds exactly `value`.
    pub fn field(name: impl Into<Arc<str>>, value: impl Into<Bytes>) -> Self {
        Check::Field(name.into(), Some(value.into()))
    }

    /// There is no field `name`.
    pub fn no_field(name: impl Into<Arc<str>>) -> Self {
        Check::Field(name.into(), None)
    }
}

/// One write of a commit. Writes are done in their order.
#[derive(Clone)]
pub enum Write {
    /// Sets a field; makes the record if the key is free. The record's expiry, if any, stays.
    Set(Arc<str>, Bytes),
    /// Removes a field. The record stays, be it empty; an absent record stays absent.
    Unset(Arc<str>),
    /// Removes whatever is under the key.
    Drop,
    /// The key expires this long from now, by the store's clock, to the millisecond; zero drops it at once. Does nothing where the key is absent, so it comes after the `Set` or `Append` that makes the key. A key
    /// that never had a `Live` does not expire.
    Live(Duration),
    /// Appends to the stream under the key, making it if the key is free, and keeps the newest `keep` events (at
    /// least one). Ids are 1, 2, 3 … in each stream.
    Append { event: Bytes, keep: u32 },
}

impl Write {
    /// Sets the field `name` to `value`.
    pub fn set(name: impl Into<Arc<str>>, value: impl Into<Bytes>) -> Self {
        Write::Set(name.into(), value.into())
    }

    /// Removes the field `name`.
    pub fn unset(name: impl Into<Arc<str>>) -> Self {
        Write::Unset(name.into())
    }
}

/// What became of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// All was written. One number a write, in their order: an `Append`'s event id; for any other write, the record's
    /// revision after the commit, 0 where the key then holds no record.
    Done(Vec<u64>),
    /// Nothing was written, for this check (its index, the first that failed) did not hold: read again, merge, retry.
    Failed { check: usize },
}

/// How sure a write must be before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sure {
    /// The master has it. A failover may lose it.
    Master,
    /// A replica has it too, where the store has replicas; otherwise [`StoreError::Unconfirmed`]. For what guards an
    /// outside effect: a claim, a code, a state that is used once.
    Replicas,
}

/// What [`Store::events`] found in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Events {
    /// Ids and events after the asked one, in ascending order, at most as many as asked for.
    pub list: Vec<(u64, Bytes)>,
    /// The id of the newest event ever appended; greater than the last of `list` if there are more to read.
    pub last: u64,
    /// False if events between the asked id and the first of `list` have been trimmed, or if the asked id was never
    /// given out by this stream.
    pub whole: bool,
}

/// What reaches a pod from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// Said on the bus, by any pod, this one too. A hint: it may be lost (then a [`Heard::Gap`] follows, as far as the
    /// loss can be noticed).
    Said(Topic, Bytes),
    /// A letter to this pod: each once, in the order in which they were accepted.
    Mail(Bytes),
    /// A record that was read here by [`Store::near`] has been written, dropped or has expired. Once: the next change is
    /// announced only if `near` has read it again. May be spurious.
    Changed(Key),
    /// Something may have been missed: drop what is cached, read again what is watched.
    Gap,
}

/// Whether the store answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    Up,
    Away,
}

/// The shared state of all pods. Every method may be called from any task; equal calls on different pods see the same.
pub trait Store: Send + Sync + 'static {
    /// The record under `key`, from the master. Errors: `Away`, `Kind`.
    fn get(&self, key: Key) -> Fut<Option<Record>>;

    /// As [`Store::get`], from this pod's cache where that is trusted. It may be old by the time an invalidation needs to
    /// arrive. A miss fills the cache unless the key changed meanwhile; absence is not cached, nor announced.
    /// While the store is away, what was cached before may still be given, for minutes.
    fn near(&self, key: Key) -> Fut<Option<Record>>;

    /// What [`Store::near`] says, where nothing need be waited for; `None`: it is to be asked.
    fn glance(&self, _: &Key) -> Option<Result<Option<Record>, StoreError>> {
        None
    }

    /// All of `writes` if all of `checks` hold, else none, at one instant. All keys must have one tag, otherwise
    /// [`StoreError::Apart`]. Errors: all.
    fn commit(&self, checks: Vec<(Key, Check)>, writes: Vec<(Key, Write)>, sure: Sure) -> Fut<Commit>;

    /// Reads a record and drops it at one instant: of any number of takers, one gets it. Errors: `Away`, `Unconfirmed`
    /// (taken and lost), `Kind`.
    fn take(&self, key: Key, sure: Sure) -> Fut<Option<Record>>;

    /// Asks a shared limit for `rate.cost` units, by the store's clock (GCRA). A refusal costs nothing. Errors: `Away`,
    /// `Full`, `Kind`.
    fn admit(&self, key: Key, rate: Rate) -> Fut<Grant>;

    /// The events of a stream with ids above `after` (0: from the oldest kept), at most `most`. `None`: there is no such
    /// stream, or it has expired. Errors: `Away`, `Kind`.
    fn events(&self, key: Key, after: u64, most: u32) -> Fut<Option<Events>>;

    /// Puts a letter into a pod's inbox if the pod's lease stands; false: the pod is gone, and nobody will read it.
    /// Errors: `Away` (it may have been put), `Full` (the inbox is at its bound).
    fn mail(&self, to: PodId, letter: Bytes) -> Fut<bool>;

    /// Says something small on the bus. That it was said does not mean that anyone heard. Errors: `Away`.
    fn say(&self, topic: Topic, what: Bytes) -> Fut<()>;

    /// Opens this pod's inbox and the bus. The first thing heard is a [`Heard::Gap`]: from then on the lease stands and
    /// nothing is missed in silence. The lease stands while the stream is held and polled, and ends soon after it is
    /// dropped. The stream does not end by itself, save when the same pod opens a second one, which takes over.
    fn hear(&self, me: PodId) -> BoxStream<'static, Heard>;

    /// Whether the store answers, as last seen.
    fn health(&self) -> watch::Receiver<Health>;
}

/// The tag of a commit, and so its slot: every store asks here first. `None` where there are no keys.
pub(crate) fn one_tag<'a>(
    checks: &'a [(Key, Check)],
    writes: &'a [(Key, Write)],
) -> Result<Option<&'a Arc<str>>, StoreError> {
    let mut keys = checks.iter().map(|(key, _)| key).chain(writes.iter().map(|(key, _)| key));
    let Some(first) = keys.next() else { return Ok(None) };
    match keys.find(|key| key.tag != first.tag) {
        Some(other) => Err(StoreError::Apart(first.clone(), other.clone())),
        None => Ok(Some(&first.tag)),
    }
}
