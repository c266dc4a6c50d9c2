//! A session's record, and a session as one pod holds it: read once for each revision.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Handle, LogicalError, Owner, shelf::Shelf};
use crate::{
    execute::{
        catalog::Catalogs,
        symbols::{Ledger, Scope},
    },
    store::{Key, Record, Write},
};

/// Where what of a session lies, all under its handle.
pub(super) const RECORD: &str = "s";
/// Who had it, for longer than it lives.
pub(super) const TRACE: &str = "o";
/// The record's fields.
const HEAD: &str = "h";
const LEDGER: &str = "l";
const OWNER: &str = "o";

pub(super) fn key(handle: &Handle, rest: &str) -> Key {
    Key::new(handle.tag(), rest)
}

/// What a session is, but for its symbols.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Head {
    pub owner: Arc<str>,
    pub intent: Arc<str>,
    /// Milliseconds since 1970.
    pub born: u64,
    pub revision: u64,
    /// The digests of the catalogs that its symbols are of.
    pub catalogs: BTreeMap<String, String>,
}

/// A session, as its record says, with the catalogs that its symbols are of.
#[derive(Debug)]
pub struct Held {
    pub handle: Handle,
    /// Grows by one with each wave of seeds that added something.
    pub revision: u64,
    pub intent: Arc<str>,
    /// What programs may name.
    pub scope: Scope,
    /// The catalogs of the scope, in the form in which the symbols were given.
    pub catalogs: Arc<Catalogs>,
    /// Their digests.
    pub digests: BTreeMap<String, String>,
    pub(super) head: Head,
    /// The record's revision in the store.
    pub(super) rev: u64,
}

impl Held {
    pub(super) fn read(handle: &Handle, record: &Record, shelf: &Shelf) -> Result<Held, LogicalError> {
        let (head, ledger) = unpacked(record).ok_or_else(|| {
            tracing::error!(session = ?handle, "the record of a logical session cannot be read");
            LogicalError::Expired
        })?;
        Held::of(handle.clone(), head, ledger, record.rev, shelf)
    }

    pub(super) fn of(
        handle: Handle,
        head: Head,
        ledger: Ledger,
        rev: u64,
        shelf: &Shelf,
    ) -> Result<Held, LogicalError> {
        let catalogs = shelf.pinned(&head.catalogs).ok_or(LogicalError::Void)?;
        let scope = Scope::new(ledger, &catalogs).map_err(|_| LogicalError::Void)?;
        Ok(Held {
            handle,
            revision: head.revision,
            intent: Arc::clone(&head.intent),
            scope,
            catalogs: Arc::new(catalogs),
            digests: head.catalogs.clone(),
            head,
            rev,
        })
    }

    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        self.head.owner == owner.owns
    }

    pub(super) fn key(&self, rest: &str) -> Key {
        key(&self.handle, rest)
    }
}

/// Whether the record, whatever else it says, is of that owner. One that cannot be read is nobody's.
pub(super) fn is_of(record: &Record, owner: &Owner) -> bool {
    let head = record.field(HEAD).and_then(|head| serde_json::from_slice::<Head>(head).ok());
    head.is_some_and(|head| head.owner == owner.owns)
}

fn unpacked(record: &Record) -> Option<(Head, Ledger)> {
    let head = serde_json::from_slice(record.field(HEAD)?).ok()?;
    Some((head, serde_json::from_slice(record.field(LEDGER)?).ok()?))
}

/// The writes that make the record say this.
pub(super) fn packed(key: &Key, head: &Head, ledger: &Ledger) -> Vec<(Key, Write)> {
    vec![(key.clone(), Write::set(HEAD, json(head))), (key.clone(), Write::set(LEDGER, json(ledger)))]
}

pub(super) fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("a struct of strings, numbers and lists has a JSON form").into()
}

/// What stays of a session after its end: whose it was.
pub(super) fn trace(owner: &Owner) -> Write {
    Write::set(OWNER, Bytes::copy_from_slice(owner.owns.as_bytes()))
}

pub(super) fn traced(record: &Record, owner: &Owner) -> bool {
    record.field(OWNER).is_some_and(|was| was == owner.owns.as_bytes())
}
