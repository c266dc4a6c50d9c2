//! Requests of one run: so many at once, the same `get` made once, none begun after the deadline, each counted.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use serde_json::json;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use super::{AT_ONCE, GRACE, MOST_BYTES, Progress, Stop, Tell, raw::size};
use crate::execute::{
    canonical::canonical,
    fault::Fault,
    sources::{Ask, Page, SourceError, SourceErrorKind, Sources},
};

type Answer = Result<Arc<Page>, SourceError>;

/// Most bytes of answers that are kept for who asks the same again.
const MOST_KEPT: usize = 16 << 20;

/// A `get` that was asked for.
enum Same {
    /// As long as somebody waits for it: given up by all, it holds no slot.
    Asked(WeakShared<BoxFuture<'static, Answer>>),
    Known(Answer),
}

pub(super) struct Asks {
    sources: Arc<dyn Sources>,
    slots: Arc<Semaphore>,
    /// `get`s by what they ask, so that each is made once.
    same: Mutex<HashMap<String, Same>>,
    kept: AtomicUsize,
    /// Writes so far: what was read before one may be otherwise after it.
    written: AtomicU64,
    requests: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicUsize,
    /// Bytes of the copies that are made of rows, for the caller or for a template: the same row may be shown many times.
    copied: AtomicUsize,
    steps: AtomicUsize,
    of_steps: usize,
    deadline: Instant,
    tell: Option<Tell>,
}

impl Asks {
    pub fn new(sources: Arc<dyn Sources>, deadline: Instant, of_steps: usize, tell: Option<Tell>) -> Asks {
        Asks {
            sources,
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            same: Mutex::default(),
            kept: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            bytes: AtomicUsize::new(0),
            copied: AtomicUsize::new(0),
            steps: AtomicUsize::new(0),
            of_steps,
            deadline,
            tell,
        }
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// A page of a read.
    pub async fn page(&self, ask: Ask) -> Result<Page, Missing> {
        let asked = self.begin(ask);
        match timeout_at(self.deadline, asked).await {
            Ok(answer) => {
                self.counted();
                answer.map_err(Missing::Failed)
            }
            Err(_) => Err(Missing::Late),
        }
    }

    /// One row by its key.
    pub async fn get(&self, ask: Ask) -> Result<Arc<Page>, Missing> {
        let written = self.written.load(Ordering::Relaxed);
        let key = canonical(&json!([ask.catalog.id, &*ask.operation, ask.key, ask.args, written]));
        let (asked, first) = match self.known(&key) {
            Some(Ok(answer)) => return answer.map_err(Missing::Failed),
            Some(Err(asked)) => (asked, false),
            None => {
                let asked = self.begin(ask).map(|answer| answer.map(Arc::new)).boxed().shared();
                self.keep(&key, asked.downgrade().map(Same::Asked));
                (asked, true)
            }
        };
        let Ok(answer) = timeout_at(self.deadline, asked).await else { return Err(Missing::Late) };
        if first {
            let bytes = answer.iter().flat_map(|page| &page.rows).map(size).sum::<usize>();
            if self.kept.fetch_add(bytes, Ordering::Relaxed) + bytes <= MOST_KEPT {
                self.keep(&key, Some(Same::Known(answer.clone())));
            }
            self.counted();
        }
        answer.map_err(Missing::Failed)
    }

    /// What is known of a `get`: its answer, or that it is under way.
    fn known(&self, key: &str) -> Option<Result<Answer, Shared<BoxFuture<'static, Answer>>>> {
        match self.same.lock().unwrap_or_else(PoisonError::into_inner).get(key)? {
            Same::Asked(asked) => asked.upgrade().map(Err),
            Same::Known(answer) => Some(Ok(answer.clone())),
        }
    }

    fn keep(&self, key: &str, what: Option<Same>) {
        if let Some(what) = what {
            self.same.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), what);
        }
    }

    /// A write. Once begun it is waited for beyond the deadline, so that its outcome is known.
    pub async fn write(&self, ask: Ask) -> Result<Page, Missing> {
        if self.is_late() {
            return Err(Missing::Late);
        }
        self.written.fetch_add(1, Ordering::Relaxed);
        let answer = timeout_at(self.deadline + GRACE, self.begin(ask)).await;
        // What was read while it was under way may be of before it.
        self.written.fetch_add(1, Ordering::Relaxed);
        self.counted();
        match answer {
            Ok(answer) => answer.map_err(Missing::Failed),
            Err(_) => Err(Missing::Failed(SourceError {
                kind: SourceErrorKind::Timeout,
                message: "the source has not answered in the time that a run has".to_owned(),
                uncertain: true,
            })),
        }
    }

    fn begin(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        let (sources, slots) = (Arc::clone(&self.sources), Arc::clone(&self.slots));
        async move {
            // The slots are never closed.
            let _slot = slots.acquire_owned().await.ok();
            sources.ask(ask).await
        }
        .boxed()
    }

    fn counted(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.told();
    }

    /// A step of the plan has ended.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.told();
    }

    fn told(&self) {
        if let Some(tell) = &self.tell {
            tell(Progress {
                requests: self.requests(),
                rows: self.rows.load(Ordering::Relaxed),
                steps: self.steps.load(Ordering::Relaxed),
                of_steps: self.of_steps,
            });
        }
    }

    /// Counts a row that is held. `Err`: the run holds too much.
    pub fn held(&self, bytes: usize) -> Result<(), Fault> {
        self.rows.fetch_add(1, Ordering::Relaxed);
        self.more(bytes)
    }

    /// Counts values that are held beside the rows that were read. `Err`: the run holds too much.
    pub fn more(&self, bytes: usize) -> Result<(), Fault> {
        if self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= MOST_BYTES {
            return Ok(());
        }
        let message = format!("the rows of one run have more than {} MiB", MOST_BYTES >> 20);
        Err(Fault::new("too_large", message, "say how many rows with | limit(n), or narrow them by a filter"))
    }

    /// Counts what is about to be copied: `bytes` says how much, and may stop where that is more than it is given. `Err`: it
    /// is too much and is not to be copied; what is smaller still may be.
    pub fn copies(&self, bytes: impl FnOnce(usize) -> usize) -> Result<(), Fault> {
        let bytes = bytes(MOST_BYTES.saturating_sub(self.copied.load(Ordering::Relaxed)));
        let add = |copied: usize| copied.checked_add(bytes).filter(|copied| *copied <= MOST_BYTES);
        if self.copied.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok() {
            return Ok(());
        }
        let message = format!("the results of one run have more than {} MiB", MOST_BYTES >> 20);
        Err(Fault::new("too_large", message, "choose fewer columns, or say how many rows with | limit(n)"))
    }
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(super) enum Missing {
    Failed(SourceError),
    Late,
}

impl From<Missing> for Stop {
    fn from(missing: Missing) -> Stop {
        match missing {
            Missing::Failed(error) => Stop::Failed(fault(&error, false)),
            Missing::Late => Stop::Late,
        }
    }
}

/// What a source's failure is to the caller. A write is never said to be retryable: a run writes once.
pub(super) fn fault(error: &SourceError, write: bool) -> Fault {
    let (code, hint, again) = match error.kind {
        SourceErrorKind::NotFound => ("not_found", "check the key", false),
        SourceErrorKind::Auth => ("upstream_auth", "the login to this source is missing or refused", false),
        SourceErrorKind::Rate(_) => ("upstream_rate", "wait, or ask for fewer rows", true),
        SourceErrorKind::Timeout => ("upstream_timeout", "run it again, or ask for fewer rows", true),
        SourceErrorKind::Status => ("upstream_status", "check what was asked", false),
        SourceErrorKind::TooLarge => ("too_large", "ask for fewer rows a page, with | page_size(n)", false),
        SourceErrorKind::Shape => ("upstream_status", "the catalog no longer fits the source", false),
    };
    let hint = match (write, error.uncertain) {
        (true, true) => "it may have been carried out: read before you plan it again",
        _ => hint,
    };
    let fault = Fault::new(code, error.message.clone(), hint);
    if again && !write { fault.retryable() } else { fault }
}
