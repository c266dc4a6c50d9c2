//! Who opens the session in place of one that an upstream forgot: every call on every pod finds that out at once, and one
//! of them begins anew. The turn is a mark in what is kept for the caller, so that it needs no lock and ends by itself.

use super::kept::Opened;
use super::{Arc, Caller, UpstreamId};
use crate::mcp::Reason;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A turn that led to nothing for so long is over: its pod is gone. Should it be slow instead, the loser of the two ends
/// its session, as ever.
const LONGEST: Duration = Duration::from_secs(10);

/// That somebody is about to open a session in place of the one that stands beside this.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    #[serde(rename = "b")]
    by: u64,
    /// Milliseconds since 1970, by the clock of whoever began.
    #[serde(rename = "t")]
    at: u64,
}

pub(super) enum Turn {
    /// It is ours; this is what is kept now, with our mark.
    Mine(Box<Opened>),
    /// Somebody else is at it, or has done it.
    Others,
}

/// One wish to begin anew.
pub(super) struct Renewal {
    by: u64,
}

impl Renewal {
    pub(super) fn new() -> Renewal {
        let mut bits = [0; 8];
        aws_lc_rs::rand::fill(&mut bits).expect("the system's random source does not fail once it is seeded");
        // A number that every JSON reader keeps whole.
        Renewal { by: u64::from_be_bytes(bits) >> 11 }
    }

    /// Takes the turn to replace `lost`, or finds it taken.
    pub(super) async fn turn(
        &self,
        caller: &Arc<Caller>,
        upstream: &UpstreamId,
        lost: Opened,
    ) -> Result<Turn, Reason> {
        let now = now();
        match lost.kept.renewing {
            Some(mark) if mark.by == self.by => return Ok(Turn::Mine(Box::new(lost))),
            Some(mark) if now.saturating_sub(mark.at) < LONGEST.as_millis() as u64 => {
                return Ok(Turn::Others);
            }
            _ => {}
        }
        let marked = lost.kept.marked(Some(Mark { by: self.by, at: now }));
        let mine = Opened::swap(caller, upstream, lost.was, &marked).await?;
        Ok(mine.map_or(Turn::Others, |mine| Turn::Mine(Box::new(mine))))
    }

    /// Nothing came of it: the next may try at once.
    pub(super) async fn give_up(&self, caller: &Arc<Caller>, upstream: &UpstreamId, mine: Opened) {
        let unmarked = mine.kept.marked(None);
        // Where this fails, the mark ends by itself.
        let _ = Opened::swap(caller, upstream, mine.was, &unmarked).await;
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
