//! Rows as bytes: one JSON array a line, in blocks that are read and verified one by one, so that a page of a large result
//! costs the blocks that it lies in.

use std::ops::Range;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::{BufMut as _, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{ArtifactError, LARGEST};

/// A block ends with the row that fills it.
const BLOCK: usize = 128 << 10;

/// Where some of the rows lie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Block {
    /// The first row that is not in it any more.
    pub to: u64,
    /// Where it ends, in bytes.
    pub end: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    pub hash: String,
}

/// The bytes of all rows, and their blocks. `TooLarge` as soon as they are.
pub(super) fn pack(rows: &[Vec<Json>]) -> Result<(Bytes, Vec<Block>), ArtifactError> {
    let mut bytes = BytesMut::new();
    let mut blocks = Vec::new();
    let mut begin = 0;
    for (at, row) in rows.iter().enumerate() {
        serde_json::to_writer((&mut bytes).writer(), row).map_err(|_| ArtifactError::TooLarge)?;
        bytes.put_u8(b'\n');
        if bytes.len() > LARGEST {
            return Err(ArtifactError::TooLarge);
        }
        if bytes.len() - begin >= BLOCK || at + 1 == rows.len() {
            blocks.push(Block { to: at as u64 + 1, end: bytes.len() as u64, hash: hash(&bytes[begin..]) });
            begin = bytes.len();
        }
    }
    Ok((bytes.freeze(), blocks))
}

/// A block's first row, and where its bytes lie.
pub(super) fn place(blocks: &[Block], at: usize) -> (u64, Range<u64>) {
    let (row, begin) = at.checked_sub(1).map_or((0, 0), |before| (blocks[before].to, blocks[before].end));
    (row, begin..blocks[at].end)
}

/// The rows of one block, if they are what was stored.
pub(super) fn unpack(block: &Block, bytes: &[u8]) -> Result<Vec<Vec<Json>>, ArtifactError> {
    if hash(bytes) != block.hash {
        return Err(ArtifactError::Damaged);
    }
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).map_err(|_| ArtifactError::Damaged)).collect()
}

pub(super) fn hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
