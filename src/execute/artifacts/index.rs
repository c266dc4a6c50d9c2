//! What a session has stored: numbers, sizes and runs, in one small record, by which the bounds of a session hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The artifacts of a session that have not ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Index {
    /// The number that was given last. Numbers are never given twice.
    pub last: u64,
    pub kept: BTreeMap<u64, Entry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub run: String,
    pub bytes: u64,
    /// Milliseconds since 1970.
    pub ends: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
}

impl Index {
    /// Takes in one more, and gives what has to go for it: what has ended, then the oldest. Rows that were asked for now are
    /// worth more than those of long ago, and a session that is full would be of no more use.
    pub fn add(&mut self, entry: Entry, now: u64, most: usize, most_bytes: u64) -> (u64, Vec<(u64, Entry)>) {
        let mut gone: Vec<(u64, Entry)> = self.kept.extract_if(.., |_, kept| kept.ends <= now).collect();
        let mut bytes: u64 = self.kept.values().map(|kept| kept.bytes).sum::<u64>() + entry.bytes;
        while self.kept.len() >= most || bytes > most_bytes {
            let Some(oldest) = self.kept.pop_first() else { break };
            bytes -= oldest.1.bytes;
            gone.push(oldest);
        }
        self.last += 1;
        self.kept.insert(self.last, entry);
        (self.last, gone)
    }

    pub fn of_run(&self, run: &str) -> Option<u64> {
        self.kept.iter().find(|(_, kept)| kept.run == run).map(|(number, _)| *number)
    }
}
