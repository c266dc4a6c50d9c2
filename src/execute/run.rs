//! Carries out a plan: asks the sources, computes what is left to do here, and writes in program order. Knows neither the
//! protocol nor the store: a run is given its plan, its sources and how long it may take, and gives back rows.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{
    catalog::{Catalogs, EffectClass},
    fault::Fault,
    plan::Plan,
    sources::{PageRef, Sources},
};
use crate::mcp::Caller;

mod asks;
mod compare;
mod conditions;
mod engine;
mod fetch;
mod groups;
mod hops;
mod outcome;
mod raw;
mod reads;
mod render;
mod stages;
mod table;
mod values;
mod writes;

/// Most bytes of rows that one run holds, as they would be written in JSON.
pub const MOST_BYTES: usize = 64 << 20;
/// Requests of one run that are under way at once; each source has limits of its own beside.
pub const AT_ONCE: usize = 16;
/// Rows of one hop, or of one fetch of fields, that are under way at once.
pub(in crate::execute) const ROWS_AT_ONCE: usize = 8;
/// How long a write that has begun is waited for beyond the deadline.
pub const GRACE: Duration = Duration::from_secs(10);

/// How a plan is to be run.
pub struct RunSettings {
    /// Which run it is: idempotency keys are derived from it, so that the same run never writes twice.
    pub run: Arc<str>,
    /// After so long no more is begun; what is finished comes back, and where the rest begins.
    pub deadline: Duration,
    /// Goes on where an earlier run of the same plan stopped.
    pub from: Option<Cursor>,
    pub progress: Option<Tell>,
    /// Asked once, before the first write. `None`: the run is claimed already.
    pub claim: Option<Arc<dyn Claim>>,
}

impl RunSettings {
    /// A run from the beginning that nobody watches.
    pub fn new(run: impl Into<Arc<str>>, deadline: Duration) -> Self {
        Self { run: run.into(), deadline, from: None, progress: None, claim: None }
    }
}

/// Told after each request. It must not block.
pub type Tell = Arc<dyn Fn(Progress) + Send + Sync>;

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Progress {
    pub requests: u64,
    pub rows: u64,
    /// The steps of the plan that have ended.
    pub steps: usize,
    pub of_steps: usize,
}

/// The right to write, of which there is one a run.
pub trait Claim: Send + Sync + 'static {
    /// `Ok` once it is sure that nobody else writes for this run; else nothing is written.
    fn confirm(&self) -> BoxFuture<'static, Result<(), Fault>>;
}

/// Where a later run of the same plan goes on. It lies in the store in between.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The places of the roots that it brings.
    pub roots: Vec<usize>,
    /// The read that does not begin at its first row; `None`: each begins anew.
    pub read: Option<ReadFrom>,
}

/// A read, and where its next row lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadFrom {
    pub node: usize,
    pub place: Position,
}

/// A row's place among a source's pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// `None`: the first.
    pub page: Option<PageRef>,
    /// The rows of that page before it.
    pub skip: u64,
}

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// What is finished of the roots, in the program's order.
    pub roots: Vec<RootRows>,
    /// The roots that are not, for lack of time; they can be run again.
    pub rest: Option<Cursor>,
    /// Every write of the plan, in its order.
    pub writes: Vec<WriteReport>,
    pub failed: Option<Failure>,
    pub warnings: Vec<String>,
    pub requests: u64,
}

/// Why a run did not do all that it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step of the plan, whose span says where in the program.
    pub node: usize,
    pub fault: Fault,
}

/// One result.
#[derive(Clone, Debug)]
pub struct RootRows {
    /// Its place among the plan's roots.
    pub root: usize,
    pub label: String,
    pub node: usize,
    pub result: Shown,
    pub coverage: Covered,
    /// Where more of it begins, if there is more and it can be gone on with.
    pub next: Option<Cursor>,
    /// Columns in which a source gave values that are not of their type; they are shown as they came.
    pub lossy: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    Rows { columns: Vec<ColumnShown>, rows: Vec<Vec<Json>> },
    Text(String),
}

/// A column: its name, and what it holds (a base of catalogs, or the name of an entity whose identity it is).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnShown {
    pub name: String,
    #[serde(rename = "type")]
    pub holds: String,
}

/// Whether the rows are all there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Covered {
    #[default]
    Complete,
    Unknown,
    Partial,
}

impl fmt::Display for Covered {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Covered::Complete => "complete",
            Covered::Unknown => "unknown",
            Covered::Partial => "partial",
        })
    }
}

/// What became of a write, or of the writes of `rows => …`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WriteReport {
    pub node: usize,
    pub api: String,
    pub entity: String,
    pub method: String,
    pub class: EffectClass,
    /// The identities of the rows that were written, in order; null where none is known.
    pub done: Vec<Json>,
    /// The one at which it stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<WriteFailed>,
    /// Those that were not begun. Where it is not known which: none, and `waits` is set.
    pub pending: Vec<Json>,
    /// Not begun at all, as something before it failed.
    pub waits: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WriteFailed {
    pub row: Json,
    pub message: String,
    /// It may have been carried out all the same.
    pub uncertain: bool,
}

/// Runs a plan. What fails is in the result. Dropping the future ends the run: what is read is given up, and a write that is
/// under way may or may not be carried out, so who must know its outcome lets it end.
pub async fn run(
    plan: Arc<Plan>,
    catalogs: Arc<Catalogs>,
    sources: Arc<dyn Sources>,
    caller: Arc<Caller>,
    settings: RunSettings,
) -> Finished {
    engine::Engine::new(plan, catalogs, sources, caller, settings).run().await
}

/// Why a step has no output.
#[derive(Clone, Debug)]
pub(in crate::execute::run) enum Stop {
    Failed(Fault),
    /// There was no time for it.
    Late,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Failed(fault)
    }
}

type Ran<T> = Result<T, Stop>;

#[cfg(test)]
mod tests;
