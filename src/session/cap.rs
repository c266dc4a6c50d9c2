//! How many sessions a principal may have. The record `{p:<hash>}:ss` lists them by last use; it lies in another slot than
//! the sessions, so each step is idempotent and none needs the other: what is missing there comes back with the next use.

use std::sync::Arc;
use std::time::Duration;

use super::facts::{Facts, now};
use super::{Ended, Sessions, Shared, TOUCH_PART};
use crate::mcp::{SessionId, StoreAway};
use crate::store::{Commit, Key, Sure, Write};

/// Sessions that one opening ends at most, so that it never takes long.
const AT_ONCE: usize = 16;

fn key(owner: &str) -> Key {
    Key::new(format!("p:{owner}"), "ss")
}

/// When a session was last used, and whether it was used at all: `<milliseconds since 1970><u|n>`.
fn entry(touched: u64, used: bool) -> String {
    format!("{touched}{}", if used { 'u' } else { 'n' })
}

fn read(entry: &[u8]) -> Option<(bool, u64)> {
    let (last, digits) = entry.split_last()?;
    Some((*last == b'u', std::str::from_utf8(digits).ok()?.parse().ok()?))
}

/// What a principal's record held when this pod last read it. Each commit grows its revision by one and adds one session at
/// most, so that a later revision says how many there can be by then, and most openings read nothing.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    rev: u64,
    count: usize,
}

impl Seen {
    /// The most sessions that a record of this revision can hold.
    fn at_most(self, rev: u64) -> u64 {
        rev.checked_sub(self.rev).map_or(u64::MAX, |more| more.saturating_add(self.count as u64))
    }
}

/// Notes a use; gives the record's revision after it.
pub(super) async fn note(shared: &Shared, facts: &Facts, id: &SessionId) -> Result<u64, StoreAway> {
    let key = key(&facts.owner);
    let writes = vec![
        (key.clone(), Write::set(id.0.clone(), entry(facts.touched, facts.used))),
        (key, Write::Live(shared.settings.life)),
    ];
    match shared.store.commit(Vec::new(), writes, Sure::Master).await {
        Ok(Commit::Done(numbers)) => Ok(numbers.into_iter().max().unwrap_or(u64::MAX)),
        Ok(Commit::Failed { .. }) | Err(_) => Err(StoreAway),
    }
}

/// Notes a new session and ends what is over the cap: first what was never used, then what was not used for longest,
/// and last what runs a call or has a stream open in this pod.
pub(super) async fn admit(
    sessions: &Sessions,
    facts: &Facts,
    id: &SessionId,
) -> Result<Vec<Arc<Ended>>, StoreAway> {
    let shared = &*sessions.shared;
    let rev = note(shared, facts, id).await?;
    let seen = sessions.seen.get(&facts.owner);
    if seen.is_some_and(|seen| seen.at_most(rev) <= shared.settings.cap as u64) {
        return Ok(Vec::new());
    }
    let key = key(&facts.owner);
    let Some(record) = shared.store.get(key.clone()).await.map_err(|_| StoreAway)? else {
        return Ok(Vec::new());
    };
    let now_seen = Seen { rev: record.rev, count: record.fields.len() };
    sessions.seen.insert(facts.owner.clone(), now_seen);
    if record.fields.len() <= shared.settings.cap {
        return Ok(Vec::new());
    }
    // A use is noted once in a part of the life alone: what is in use here shows by its calls and streams.
    let busy = sessions.busy();
    let mut others: Vec<_> = record
        .fields
        .iter()
        .filter(|(other, _)| **other != id.0)
        .map(|(other, text)| (busy.contains(other), read(text).unwrap_or_default(), other.clone()))
        .collect();
    others.sort_unstable();
    let mut over = record.fields.len() - shared.settings.cap;
    // A touch may be written late by a part of the life; what is older than both has expired and costs no look.
    let late = shared.settings.life.saturating_add(shared.settings.life / TOUCH_PART);
    let expired = now().saturating_sub(millis(late));
    let mut gone = Vec::new();
    others.retain(|(_, (_, touched), other)| {
        let dead = *touched < expired;
        if dead {
            gone.push(other.clone());
        }
        !dead
    });
    over = over.saturating_sub(gone.len());
    let mut ended = Vec::new();
    for (_, _, other) in others.into_iter().take(over.min(AT_ONCE)) {
        match sessions.end(&SessionId(other.clone())).await {
            Ok(one) => ended.extend(one),
            Err(StoreAway) if ended.is_empty() => return Err(StoreAway),
            // Nobody else can end upstream what was taken so far. The next opening goes on.
            Err(StoreAway) => break,
        }
        gone.push(other);
    }
    let writes = gone.into_iter().map(|other| (key.clone(), Write::Unset(other))).collect();
    let written = shared.store.commit(Vec::new(), writes, Sure::Master).await;
    if written.is_err() && ended.is_empty() {
        return Err(StoreAway);
    }
    Ok(ended)
}

/// The sessions of a principal, and some that have expired.
pub(super) async fn all(shared: &Shared, owner: &str) -> Result<Vec<SessionId>, StoreAway> {
    let record = shared.store.get(key(owner)).await.map_err(|_| StoreAway)?;
    let fields = record.iter().flat_map(|record| record.fields.iter());
    Ok(fields.map(|(id, _)| SessionId(id.clone())).collect())
}

/// A session left by itself. Where this fails, its entry goes when it would have expired.
pub(super) async fn leave(shared: &Shared, owner: &str, id: &SessionId) {
    let writes = vec![(key(owner), Write::Unset(id.0.clone()))];
    let _ = shared.store.commit(Vec::new(), writes, Sure::Master).await;
}

fn millis(time: Duration) -> u64 {
    time.as_millis() as u64
}
