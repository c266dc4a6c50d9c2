//! One slot of the memory store: the keys of some tags, judged and written under one lock. Knows no locks, tasks or
//! waiting; the time is told to it.

use foldhash::HashMap as Map;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::ledger::Ledger;
use super::post::Post;
use crate::store::{Check, Commit, Events, Grant, Heard, Key, Rate, Record, StoreError, Write};

/// What keeping a key, and a field or an event, costs beside its bytes: maps, pointers, counts. Rough, on the high side.
const KEY_COST: usize = 256;
const PART_COST: usize = 96;

pub(super) struct Slot {
    entries: Map<Key, Entry>,
    /// What expires, soonest first. The number tells apart what expires at one instant.
    expiries: BTreeMap<(Instant, u64), Key>,
    expiry: u64,
    /// No record that is gone from this slot had a higher revision: new ones begin above it.
    highest: u64,
    ledger: Arc<Ledger>,
    post: Arc<Post>,
}

struct Entry {
    held: Held,
    /// The bytes accounted for it.
    size: usize,
    expires: Option<(Instant, u64)>,
}

enum Held {
    /// `watched`: read by `near`, so its next change is announced.
    Record {
        rev: u64,
        fields: Arc<BTreeMap<Arc<str>, Bytes>>,
        watched: bool,
    },
    Stream {
        last: u64,
        events: VecDeque<(u64, Bytes)>,
    },
    /// A limit that is full again at this instant.
    Limit {
        full: Instant,
    },
}

#[derive(PartialEq)]
enum Kind {
    Record,
    Stream,
    Limit,
}

impl Slot {
    pub(super) fn new(ledger: Arc<Ledger>, post: Arc<Post>) -> Self {
        Slot { entries: Map::default(), expiries: BTreeMap::new(), expiry: 0, highest: 0, ledger, post }
    }

    pub(super) fn get(&mut self, key: &Key, now: Instant) -> Result<Option<Record>, StoreError> {
        match self.alive(key, now).map(|entry| &entry.held) {
            None => Ok(None),
            Some(Held::Record { rev, fields, .. }) => Ok(Some(Record { rev: *rev, fields: fields.clone() })),
            Some(_) => Err(StoreError::Kind(key.clone())),
        }
    }

    /// Reads in place, for there is nothing nearer; but the next change is announced, as with a cache.
    pub(super) fn near(&mut self, key: &Key, now: Instant) -> Result<Option<Record>, StoreError> {
        // What has expired is left to the sweep: this is asked for with every call of a session, and looks once.
        let Some(entry) = self.entries.get_mut(key).filter(|e| e.expires.is_none_or(|(at, _)| at > now))
        else {
            return Ok(None);
        };
        match &mut entry.held {
            Held::Record { rev, fields, watched } => {
                *watched = true;
                Ok(Some(Record { rev: *rev, fields: fields.clone() }))
            }
            _ => Err(StoreError::Kind(key.clone())),
        }
    }

    pub(super) fn take(&mut self, key: &Key, now: Instant) -> Result<Option<Record>, StoreError> {
        let record = self.get(key, now)?;
        self.remove(key);
        Ok(record)
    }

    pub(super) fn events(
        &mut self,
        key: &Key,
        after: u64,
        most: u32,
        now: Instant,
    ) -> Result<Option<Events>, StoreError> {
        let (last, events) = match self.alive(key, now).map(|entry| &entry.held) {
            None => return Ok(None),
            Some(Held::Stream { last, events }) => (*last, events),
            Some(_) => return Err(StoreError::Kind(key.clone())),
        };
        let kept_from = events.front().map_or(last + 1, |(id, _)| *id);
        let whole = after <= last && kept_from <= after.saturating_add(1);
        let begin = events.partition_point(|(id, _)| *id <= after);
        let list = events.range(begin..).take(most as usize).cloned().collect();
        Ok(Some(Events { list, last, whole }))
    }

    pub(super) fn admit(&mut self, key: &Key, rate: Rate, now: Instant) -> Result<Grant, StoreError> {
        let was = match self.alive(key, now).map(|entry| &entry.held) {
            None => None,
            Some(Held::Limit { full }) => Some(*full),
            Some(_) => return Err(StoreError::Kind(key.clone())),
        };
        let (grant, then) = rate.judge(was, now);
        if then == was {
            return Ok(grant);
        }
        // A limit that is full again says nothing, so it is kept only until then.
        match then {
            None => self.remove(key),
            Some(full) => {
                if was.is_none() {
                    self.ledger.reserve(key_size(key))?;
                }
                let limit = Held::Limit { full };
                self.entries
                    .entry(key.clone())
                    .or_insert_with(|| Entry::new(key, Held::Limit { full }))
                    .held = limit;
                self.expire(key, Some(full));
            }
        }
        Ok(grant)
    }

    /// All keys have tags of this slot. Refusals come before the first write, so that a commit is whole or nothing.
    pub(super) fn commit(
        &mut self,
        checks: &[(Key, Check)],
        writes: &[(Key, Write)],
        now: Instant,
    ) -> Result<Commit, StoreError> {
        for (index, (key, check)) in checks.iter().enumerate() {
            if !self.holds(key, check, now)? {
                return Ok(Commit::Failed { check: index });
            }
        }
        self.fits(writes, now)?;
        let most = writes.iter().map(|(key, write)| most_growth(key, write)).sum();
        self.ledger.reserve(most)?;
        let mut grown = 0;
        let mut raised = Vec::new();
        let ids: Vec<Option<u64>> = writes
            .iter()
            .map(|(key, write)| match write {
                Write::Set(name, value) => {
                    grown += self.set(key, name, value, &mut raised);
                    None
                }
                Write::Unset(name) => {
                    self.unset(key, name, &mut raised);
                    None
                }
                Write::Drop => {
                    self.remove(key);
                    None
                }
                Write::Live(life) => {
                    self.live(key, *life, now);
                    None
                }
                Write::Append { event, keep } => {
                    let (id, bytes) = self.append(key, event, *keep);
                    grown += bytes;
                    Some(id)
                }
            })
            .collect();
        self.ledger.release(most - grown);
        let number = |((key, _), id): (&(Key, Write), Option<u64>)| id.unwrap_or_else(|| self.rev(key));
        Ok(Commit::Done(writes.iter().zip(ids).map(number).collect()))
    }

    /// Removes what has expired, at most so many keys, and says how many.
    pub(super) fn sweep(&mut self, now: Instant, most: usize) -> usize {
        let mut swept = 0;
        while swept < most
            && let Some((&(at, _), key)) = self.expiries.first_key_value()
            && at <= now
        {
            let key = key.clone();
            self.remove(&key);
            swept += 1;
        }
        if self.entries.capacity() > 1024 && self.entries.len() < self.entries.capacity() / 8 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
        swept
    }
}

// --- What a commit asks first ---

impl Slot {
    fn holds(&mut self, key: &Key, check: &Check, now: Instant) -> Result<bool, StoreError> {
        let entry = self.alive(key, now);
        match check {
            Check::Absent => return Ok(entry.is_none()),
            Check::Present => return Ok(entry.is_some()),
            Check::Rev(_) | Check::Field(..) => {}
        }
        let record = self.get(key, now)?;
        Ok(match check {
            Check::Rev(rev) => record.is_some_and(|record| record.rev == *rev),
            Check::Field(name, value) => {
                record.as_ref().and_then(|record| record.field(name)) == value.as_ref()
            }
            Check::Absent | Check::Present => unreachable!("answered above"),
        })
    }

    /// Refuses writes of one kind to keys that hold, or would by then hold, another.
    fn fits(&mut self, writes: &[(Key, Write)], now: Instant) -> Result<(), StoreError> {
        for (index, (key, write)) in writes.iter().enumerate() {
            let wanted = match write {
                Write::Set(..) | Write::Unset(_) => Kind::Record,
                Write::Append { .. } => Kind::Stream,
                Write::Drop | Write::Live(_) => continue,
            };
            let earlier = writes[..index].iter().rev().filter(|(other, _)| other == key);
            let made = earlier.filter_map(|(_, write)| match write {
                Write::Set(..) => Some(Some(Kind::Record)),
                Write::Append { .. } => Some(Some(Kind::Stream)),
                Write::Drop => Some(None),
                Write::Live(life) if life.is_zero() => Some(None),
                Write::Unset(_) | Write::Live(_) => None,
            });
            let held = match made.into_iter().next() {
                Some(made) => made,
                None => self.alive(key, now).map(|entry| entry.held.kind()),
            };
            if held.is_some_and(|held| held != wanted) {
                return Err(StoreError::Kind(key.clone()));
            }
        }
        Ok(())
    }
}

// --- The writes: their kinds fit, their room is reserved; each returns the bytes that it took of it ---

impl Slot {
    fn set<'a>(&mut self, key: &'a Key, name: &Arc<str>, value: &Bytes, raised: &mut Vec<&'a Key>) -> usize {
        let first = self.highest + 1;
        let new = !self.entries.contains_key(key);
        let entry = self.entries.entry(key.clone()).or_insert_with(|| {
            Entry::new(key, Held::Record { rev: first, fields: Arc::default(), watched: false })
        });
        let Held::Record { rev, fields, watched } = &mut entry.held else { return 0 };
        // Copied, so that a slice does not keep alive the whole request that it was cut from.
        let was = Arc::make_mut(fields).insert(name.clone(), Bytes::copy_from_slice(value));
        let freed = was.map_or(0, |was| part_size(name, &was));
        let part = part_size(name, value);
        entry.size = entry.size + part - freed;
        self.ledger.release(freed);
        if !raised.contains(&key) {
            raised.push(key);
            *rev += u64::from(!new);
        }
        announce(&self.post, key, watched);
        if new { part + key_size(key) } else { part }
    }

    fn unset<'a>(&mut self, key: &'a Key, name: &Arc<str>, raised: &mut Vec<&'a Key>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let Held::Record { rev, fields, watched } = &mut entry.held else { return };
        if !fields.contains_key(name) {
            return;
        }
        let freed = Arc::make_mut(fields).remove(name).map_or(0, |was| part_size(name, &was));
        entry.size -= freed;
        self.ledger.release(freed);
        if !raised.contains(&key) {
            raised.push(key);
            *rev += 1;
        }
        announce(&self.post, key, watched);
    }

    fn append(&mut self, key: &Key, event: &Bytes, keep: u32) -> (u64, usize) {
        let new = !self.entries.contains_key(key);
        let entry = self
            .entries
            .entry(key.clone())
            .or_insert_with(|| Entry::new(key, Held::Stream { last: 0, events: VecDeque::new() }));
        let Held::Stream { last, events } = &mut entry.held else { return (0, 0) };
        *last += 1;
        let id = *last;
        events.push_back((id, Bytes::copy_from_slice(event)));
        let mut freed = 0;
        while events.len() > keep.max(1) as usize {
            freed += events.pop_front().map_or(0, |(_, event)| part_size("", &event));
        }
        let part = part_size("", event);
        entry.size = entry.size + part - freed;
        self.ledger.release(freed);
        (id, if new { part + key_size(key) } else { part })
    }

    fn live(&mut self, key: &Key, life: Duration, now: Instant) {
        if life.is_zero() {
            self.remove(key);
        } else {
            self.expire(key, now.checked_add(life));
        }
    }
}

// --- Keys and their ends ---

impl Slot {
    /// What is under the key and has not expired.
    fn alive(&mut self, key: &Key, now: Instant) -> Option<&mut Entry> {
        if self.entries.get(key)?.expires.is_some_and(|(at, _)| at <= now) {
            self.remove(key);
        }
        self.entries.get_mut(key)
    }

    fn rev(&self, key: &Key) -> u64 {
        match self.entries.get(key).map(|entry| &entry.held) {
            Some(Held::Record { rev, .. }) => *rev,
            _ => 0,
        }
    }

    fn expire(&mut self, key: &Key, at: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let Some(was) = entry.expires.take() {
            self.expiries.remove(&was);
        }
        if let Some(at) = at {
            self.expiry += 1;
            entry.expires = Some((at, self.expiry));
            self.expiries.insert((at, self.expiry), key.clone());
        }
    }

    fn remove(&mut self, key: &Key) {
        let Some(entry) = self.entries.remove(key) else { return };
        if let Some(expires) = entry.expires {
            self.expiries.remove(&expires);
        }
        self.ledger.release(entry.size);
        if let Held::Record { rev, mut watched, .. } = entry.held {
            self.highest = self.highest.max(rev);
            announce(&self.post, key, &mut watched);
        }
    }
}

impl Entry {
    fn new(key: &Key, held: Held) -> Self {
        Entry { held, size: key_size(key), expires: None }
    }
}

impl Held {
    fn kind(&self) -> Kind {
        match self {
            Held::Record { .. } => Kind::Record,
            Held::Stream { .. } => Kind::Stream,
            Held::Limit { .. } => Kind::Limit,
        }
    }
}

fn announce(post: &Post, key: &Key, watched: &mut bool) {
    if std::mem::take(watched) {
        post.say(Heard::Changed(key.clone()));
    }
}

fn key_size(key: &Key) -> usize {
    key.tag.len() + key.rest.len() + KEY_COST
}

fn part_size(name: &str, value: &Bytes) -> usize {
    name.len() + value.len() + PART_COST
}

fn most_growth(key: &Key, write: &Write) -> usize {
    match write {
        Write::Set(name, value) => key_size(key) + part_size(name, value),
        Write::Append { event, .. } => key_size(key) + part_size("", event),
        Write::Unset(_) | Write::Drop | Write::Live(_) => 0,
    }
}
