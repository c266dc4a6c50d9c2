//! Stored results: rows that are too many for an answer, kept for a day and read page by page. Small ones lie in the store,
//! as they are; larger ones in an object store. Knows nothing of how a client asks for them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::logical::{Held, Owner, random};
use super::run::{ColumnShown, Covered, RootRows, Shown};
use crate::{
    clock::unix_ms,
    store::{Check, Commit, Key, Store, Sure, Write},
};

mod access;
mod blocks;
mod error;
mod index;
mod objects;
mod uri;

pub use access::{Access, AccessMode, Resolved};
pub use error::ArtifactError;
pub use objects::Objects;
pub use uri::{Uri, Which};

/// Largest artifact, in bytes of its rows.
pub const LARGEST: usize = 16 << 20;
/// The store takes up to so many bytes of one; they are kept as they are, uncompressed.
pub const SMALL: usize = 256 << 10;
/// A session's artifacts: so many, and so many bytes of rows together. The oldest give way.
pub const MOST: usize = 256;
pub const MOST_BYTES: u64 = 64 << 20;
/// How long an artifact is kept, by the store's clock.
pub const LIFE: Duration = Duration::from_secs(24 * 3_600);
/// Rows and bytes of one page, whatever was asked for. A row that is larger comes alone.
pub const MOST_ROWS: u64 = 1_000;
pub const PAGE_BYTES: usize = 256 << 10;

/// Rounds against others who store in the same session.
const ROUNDS: usize = 16;
const HEAD: &str = "h";
const ROWS: &str = "r";
const INDEX: &str = "x";

/// The artifacts of all sessions. Cheap to clone.
#[derive(Clone)]
pub struct Artifacts {
    store: Arc<dyn Store>,
    objects: Option<Objects>,
}

/// Where a result was stored. It is there, as it was given, when this is given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub n: u64,
    pub run_id: String,
    pub uri: String,
    pub canonical_uri: String,
    pub bytes: u64,
}

/// Which rows are wanted.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// In this order; `None`: all.
    pub columns: Option<Vec<String>>,
    pub offset: u64,
    /// `None`: as many as a page takes.
    pub limit: Option<u64>,
}

/// Rows of a stored result.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    pub number: u64,
    pub run_id: String,
    pub label: String,
    pub columns: Vec<ColumnShown>,
    pub rows: Vec<Vec<Json>>,
    pub offset: u64,
    /// How many rows are stored.
    pub total: u64,
    /// Where the next page begins, if there are more.
    pub next_offset: Option<u64>,
    pub coverage: Covered,
    /// The result is text: one row of one column.
    pub text: bool,
}

/// A stored result, of which nothing is given out yet.
pub struct Found<'a> {
    objects: Option<&'a Objects>,
    n: u64,
    head: Head,
    here: Option<Bytes>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    owner: Arc<str>,
    operations: BTreeSet<String>,
    run: String,
    label: String,
    columns: Vec<ColumnShown>,
    coverage: Covered,
    text: bool,
    blocks: Vec<blocks::Block>,
    object: Option<String>,
}

impl Artifacts {
    /// Without `objects`, nothing above [`SMALL`] can be kept.
    pub fn new(store: Arc<dyn Store>, objects: Option<Objects>) -> Artifacts {
        Artifacts { store, objects }
    }

    /// Keeps a result of these operations. What was cancelled in between leaves at most an object that the sweep finds.
    pub async fn put(
        &self,
        held: &Held,
        owner: &Owner,
        root: &RootRows,
        operations: &BTreeSet<String>,
    ) -> Result<Stored, ArtifactError> {
        let text = matches!(root.result, Shown::Text(_));
        let (columns, (bytes, blocks)) = match &root.result {
            Shown::Rows { columns, rows } => (columns.clone(), blocks::pack(rows)?),
            Shown::Text(text) => {
                let column = ColumnShown { name: "text".into(), holds: "text".into() };
                (vec![column], blocks::pack(&[vec![Json::from(text.as_str())]])?)
            }
        };
        let size = bytes.len() as u64;
        let object = match (bytes.len() > SMALL, &self.objects) {
            (false, _) => None,
            (true, Some(objects)) => {
                Some(objects.put(&owner.tenant, &held.handle, LIFE, bytes.clone()).await?)
            }
            (true, None) => return Err(ArtifactError::NoObjects),
        };
        let run = format!("r_{}", random());
        let head = Head {
            owner: Arc::clone(&owner.owns),
            operations: operations.clone(),
            run: run.clone(),
            label: root.label.clone(),
            columns,
            coverage: root.coverage,
            text,
            blocks,
            object: object.clone(),
        };
        let entry = index::Entry { run, bytes: size, ends: unix_ms() + LIFE.as_millis() as u64, object };
        let n = self.commit(held, entry.clone(), &head, bytes).await?;
        let named = |which| Uri { session: held.handle.clone(), which }.to_string();
        Ok(Stored {
            n,
            uri: named(Which::Number(n)),
            canonical_uri: named(Which::Run(entry.run.clone())),
            run_id: entry.run,
            bytes: size,
        })
    }

    /// Writes the record, and what the session knows of it, at one instant.
    async fn commit(
        &self,
        held: &Held,
        entry: index::Entry,
        head: &Head,
        bytes: Bytes,
    ) -> Result<u64, ArtifactError> {
        let all = key(held, "a");
        for _ in 0..ROUNDS {
            let (mut index, check) = match self.store.get(all.clone()).await? {
                Some(record) => (read::<index::Index>(record.field(INDEX))?, Check::Rev(record.rev)),
                None => (index::Index::default(), Check::Absent),
            };
            let (n, gone) = index.add(entry.clone(), unix_ms(), MOST, MOST_BYTES);
            let one = number(held, n);
            let mut writes: Vec<_> = gone.iter().map(|(n, _)| (number(held, *n), Write::Drop)).collect();
            writes.push((one.clone(), Write::set(HEAD, json(head))));
            if head.object.is_none() {
                writes.push((one.clone(), Write::set(ROWS, bytes.clone())));
            }
            writes.push((one, Write::Live(LIFE)));
            writes.push((all.clone(), Write::set(INDEX, json(&index))));
            // As long as its session may live: a number that was given is never given again.
            writes.push((all.clone(), Write::Live(8 * LIFE)));
            let done = self.store.commit(vec![(all.clone(), check)], writes, Sure::Master).await?;
            if let Commit::Done(_) = done {
                if let Some(objects) = &self.objects {
                    for name in gone.iter().filter_map(|(_, entry)| entry.object.as_deref()) {
                        objects.drop(name).await;
                    }
                }
                return Ok(n);
            }
        }
        Err(ArtifactError::Busy)
    }

    /// Rows of a result of that session, for whom nothing else is to be looked at.
    pub async fn read(
        &self,
        held: &Held,
        owner: &Owner,
        which: &Which,
        wanted: &Wanted,
    ) -> Result<Rows, ArtifactError> {
        self.find(held, owner, which).await?.rows(wanted).await
    }

    /// A result of that session. `held` was loaded for `owner`, and the artifact must be theirs too. Whether they may still
    /// read it is to be looked at before its rows are asked for, which say of a wrong column what the right ones are.
    pub async fn find(&self, held: &Held, owner: &Owner, which: &Which) -> Result<Found<'_>, ArtifactError> {
        let n = match which {
            Which::Number(n) => *n,
            Which::Run(run) => {
                let record = self.store.get(key(held, "a")).await?.ok_or(ArtifactError::Unknown)?;
                read::<index::Index>(record.field(INDEX))?.of_run(run).ok_or(ArtifactError::Unknown)?
            }
        };
        let record = self.store.get(number(held, n)).await?.ok_or(ArtifactError::Unknown)?;
        let head: Head = read(record.field(HEAD))?;
        if head.owner != owner.owns {
            return Err(ArtifactError::Unknown);
        }
        Ok(Found { objects: self.objects.as_ref(), n, head, here: record.field(ROWS).cloned() })
    }

    pub fn has_objects(&self) -> bool {
        self.objects.is_some()
    }

    /// Whether the object store answers, where there is one.
    pub async fn at_hand(&self) -> Result<(), ArtifactError> {
        match &self.objects {
            Some(objects) => objects.at_hand().await,
            None => Ok(()),
        }
    }

    /// Deletes the objects whose time is over, and says how many there were; `None` where another pod has done so within
    /// `turn`.
    pub async fn sweep(&self, turn: Duration) -> Result<Option<usize>, ArtifactError> {
        match &self.objects {
            Some(objects) => objects.sweep(&*self.store, turn).await,
            None => Ok(None),
        }
    }
}

impl Found<'_> {
    /// The operations that brought it, each as `<api>.<operation>`: who may not call one may not read it either.
    pub fn operations(&self) -> &BTreeSet<String> {
        &self.head.operations
    }

    pub async fn rows(&self, wanted: &Wanted) -> Result<Rows, ArtifactError> {
        let head = &self.head;
        let picked = picked(&head.columns, wanted.columns.as_deref())?;
        let total = head.blocks.last().map_or(0, |block| block.to);
        let offset = wanted.offset.min(total);
        let end = total.min(offset.saturating_add(wanted.limit.unwrap_or(MOST_ROWS).min(MOST_ROWS)));
        let mut rows = Vec::new();
        let mut bytes = 0;
        let first = head.blocks.partition_point(|block| block.to <= offset);
        'blocks: for at in first..head.blocks.len() {
            let (row, range) = blocks::place(&head.blocks, at);
            if row >= end {
                break;
            }
            let text = self.bytes(range).await?;
            for (row, mut cells) in (row..).zip(blocks::unpack(&head.blocks[at], &text)?) {
                if row < offset {
                    continue;
                }
                if row >= end {
                    break 'blocks;
                }
                let cells: Vec<Json> =
                    picked.iter().map(|at| cells.get_mut(*at).map_or(Json::Null, Json::take)).collect();
                bytes += json(&cells).len();
                if bytes > PAGE_BYTES && !rows.is_empty() {
                    break 'blocks;
                }
                rows.push(cells);
            }
        }
        let next = offset + rows.len() as u64;
        let columns = picked.iter().map(|at| head.columns[*at].clone()).collect();
        Ok(Rows {
            number: self.n,
            run_id: head.run.clone(),
            label: head.label.clone(),
            columns,
            rows,
            offset,
            total,
            next_offset: (next < total).then_some(next),
            coverage: head.coverage,
            text: head.text,
        })
    }

    async fn bytes(&self, range: std::ops::Range<u64>) -> Result<Bytes, ArtifactError> {
        match (&self.head.object, &self.here) {
            (Some(name), _) => self.objects.ok_or(ArtifactError::NoObjects)?.get(name, range).await,
            (None, Some(here)) if range.end <= here.len() as u64 => {
                Ok(here.slice(range.start as usize..range.end as usize))
            }
            (None, _) => Err(ArtifactError::Damaged),
        }
    }
}

/// The places of the wanted columns; each once.
fn picked(have: &[ColumnShown], wanted: Option<&[String]>) -> Result<Vec<usize>, ArtifactError> {
    let Some(wanted) = wanted else { return Ok((0..have.len()).collect()) };
    let mut picked = Vec::new();
    for asked in wanted {
        let at = have.iter().position(|column| column.name == *asked).ok_or_else(|| {
            let have = have.iter().map(|column| column.name.clone()).collect();
            ArtifactError::Column { asked: asked.clone(), have }
        })?;
        if !picked.contains(&at) {
            picked.push(at);
        }
    }
    Ok(picked)
}

fn key(held: &Held, rest: &str) -> Key {
    Key::new(held.handle.as_str(), rest)
}

fn number(held: &Held, n: u64) -> Key {
    key(held, &format!("a:{n}"))
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("a struct of strings, numbers and lists has a JSON form").into()
}

fn read<T: for<'de> Deserialize<'de>>(field: Option<&Bytes>) -> Result<T, ArtifactError> {
    field.and_then(|bytes| serde_json::from_slice(bytes).ok()).ok_or(ArtifactError::Damaged)
}

#[cfg(test)]
mod tests;
