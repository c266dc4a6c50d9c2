//! What Redis answers, as what the store gives. A reply of a shape that no Redis of ours gives counts as no answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use fred::types::Value;

use super::script::{FIELD, REVISION};
use crate::store::{Record, StoreError};

pub(super) fn odd() -> StoreError {
    tracing::warn!("Redis gave a reply of an unknown shape");
    StoreError::Away
}

/// The bytes of a string, without copying.
pub(super) fn bytes(value: Value) -> Option<Bytes> {
    match value {
        Value::String(text) => Some(text.into_inner()),
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

pub(super) fn text(value: &Value) -> Option<&str> {
    std::str::from_utf8(value.as_bytes()?).ok()
}

pub(super) fn integer(value: &Value) -> Result<u64, StoreError> {
    value.as_i64().and_then(|number| u64::try_from(number).ok()).ok_or_else(odd)
}

pub(super) fn integers(value: Value) -> Result<Vec<u64>, StoreError> {
    list(value)?.iter().map(integer).collect()
}

fn list(value: Value) -> Result<Vec<Value>, StoreError> {
    match value {
        Value::Array(list) => Ok(list),
        Value::Null => Ok(Vec::new()),
        _ => Err(odd()),
    }
}

/// A map: as RESP3 has it, or as scripts give it, flat.
fn pairs(value: Value) -> Result<Vec<(Bytes, Value)>, StoreError> {
    if let Value::Map(map) = value {
        return Ok(map.inner().into_iter().map(|(key, value)| (key.into_bytes(), value)).collect());
    }
    let mut flat = list(value)?.into_iter();
    let mut pairs = Vec::new();
    while let Some(key) = flat.next() {
        pairs.push((bytes(key).ok_or_else(odd)?, flat.next().ok_or_else(odd)?));
    }
    Ok(pairs)
}

/// A record from all its hash's fields; `None` where there are none, for then there is no key.
pub(super) fn record(value: Value) -> Result<Option<Record>, StoreError> {
    let (mut rev, mut fields) = (None, BTreeMap::new());
    for (name, value) in pairs(value)? {
        if name == REVISION {
            rev = Some(integer(&value)?);
            continue;
        }
        let name = name.strip_prefix(&[FIELD]).and_then(|name| std::str::from_utf8(name).ok());
        fields.insert(Arc::from(name.ok_or_else(odd)?), bytes(value).ok_or_else(odd)?);
    }
    match rev {
        Some(rev) => Ok(Some(Record { rev, fields: Arc::new(fields) })),
        None if fields.is_empty() => Ok(None),
        None => Err(odd()),
    }
}

/// Slots from the first to the last, and the master that has them.
pub(super) struct Slots {
    pub range: (u16, u16),
    pub host: String,
    pub port: u16,
}

/// From `CLUSTER SLOTS`.
pub(super) fn slots(value: Value) -> Result<Vec<Slots>, StoreError> {
    let of = |entry| {
        let mut parts = list(entry)?.into_iter();
        let number = |value: Option<Value>| {
            let number = integer(&value.ok_or_else(odd)?)?;
            u16::try_from(number).map_err(|_| odd())
        };
        let range = (number(parts.next())?, number(parts.next())?);
        let mut master = list(parts.next().ok_or_else(odd)?)?.into_iter();
        let host = master.next().as_ref().and_then(text).ok_or_else(odd)?.to_owned();
        Ok(Slots { range, host, port: number(master.next())? })
    };
    list(value)?.into_iter().map(of).collect()
}

/// From `XINFO STREAM`: the newest id ever given, and the oldest that is kept (the next one, if none is).
pub(super) fn stream(value: Value) -> Result<(u64, u64), StoreError> {
    let (mut last, mut first) = (None, None);
    for (name, value) in pairs(value)? {
        match &name[..] {
            b"last-generated-id" => last = Some(id(&value)?),
            b"first-entry" => first = list(value)?.first().map(id).transpose()?,
            _ => {}
        }
    }
    let last = last.ok_or_else(odd)?;
    Ok((last, first.unwrap_or(last + 1)))
}

/// From `XRANGE`: numbered events.
pub(super) fn events(value: Value) -> Result<Vec<(u64, Bytes)>, StoreError> {
    let entries = entries(value)?.into_iter();
    entries.map(|(id, event)| Ok((number(&id).ok_or_else(odd)?, event))).collect()
}

/// The entries of a stream, each of one field, with their ids as they are.
pub(super) fn entries(value: Value) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
    let entry = |entry| {
        let mut parts = list(entry)?.into_iter();
        let (Some(id), Some(fields)) = (parts.next().and_then(bytes), parts.next()) else {
            return Err(odd());
        };
        let event = pairs(fields)?.pop().and_then(|(_, event)| bytes(event)).ok_or_else(odd)?;
        Ok((id, event))
    };
    list(value)?.into_iter().map(entry).collect()
}

/// From `XREAD` of one stream; none where it waited in vain.
pub(super) fn read(value: Value) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
    let stream = match value {
        Value::Map(map) => map.inner().into_values().next(),
        other => match list(other)?.into_iter().next() {
            Some(Value::Array(mut named)) if named.len() == 2 => named.pop(),
            None => None,
            Some(_) => return Err(odd()),
        },
    };
    stream.map_or(Ok(Vec::new()), entries)
}

fn id(value: &Value) -> Result<u64, StoreError> {
    value.as_bytes().and_then(number).ok_or_else(odd)
}

/// `0-7` is 7.
fn number(id: &[u8]) -> Option<u64> {
    std::str::from_utf8(id).ok()?.strip_prefix("0-")?.parse().ok()
}
