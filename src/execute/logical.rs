//! Logical sessions: what an agent has been taught, its plans, and the runs of them, in the store, so that any pod goes on
//! with any of them. Knows nothing of transports; whoever calls says for whom.

use std::{sync::Arc, time::Duration};

use super::catalog::Catalogs;
use crate::{
    clock::unix_ms,
    store::{Check, Commit, PodId, Store, Sure, Write},
};

mod claim;
mod error;
mod handle;
mod open;
mod owner;
mod plans;
mod record;
mod shelf;

pub use claim::RunClaim;
pub use error::LogicalError;
pub(super) use handle::random;
pub use handle::{Handle, RunRef};
pub use open::{Added, Continuity, Open, Opened};
pub use owner::Owner;
pub use plans::{Begun, Remembered};
pub use record::Held;

/// Longest intent, in bytes.
pub const LONGEST_INTENT: usize = 4 << 10;
/// Sessions that a pod holds, read, at most, and how long unused: they save reading the record's text again.
const HELD: u64 = 10_000;
const IDLE: Duration = Duration::from_secs(600);
/// A session's life is extended when this part of it has passed since this pod did so.
const TOUCH_PART: u32 = 96;

/// How long things live, by the store's clock.
#[derive(Clone, Debug)]
pub struct Settings {
    /// After its last use.
    pub life: Duration,
    /// However much it is used.
    pub whole_life: Duration,
    /// That a session has been is known for so long after it was opened.
    pub trace: Duration,
    pub plan: Duration,
    pub page: Duration,
    /// A run's claim and its outcome.
    pub run: Duration,
    /// A run whose pod does not say for so long that it is under way is taken for lost.
    pub lease: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        const HOUR: u64 = 3_600;
        Settings {
            life: Duration::from_secs(24 * HOUR),
            whole_life: Duration::from_secs(7 * 24 * HOUR),
            trace: Duration::from_secs(8 * 24 * HOUR),
            plan: Duration::from_secs(900),
            page: Duration::from_secs(HOUR),
            run: Duration::from_secs(24 * HOUR),
            lease: Duration::from_secs(15),
        }
    }
}

/// All logical sessions, as this pod sees them. Cheap to clone.
#[derive(Clone)]
pub struct Logical {
    me: PodId,
    store: Arc<dyn Store>,
    shelf: Arc<shelf::Shelf>,
    settings: Settings,
    held: moka::sync::Cache<(Handle, u64), Arc<Held>>,
    /// The sessions whose life this pod has extended lately.
    touched: moka::sync::Cache<Handle, ()>,
}

impl Logical {
    pub fn new(me: PodId, store: Arc<dyn Store>, catalogs: Arc<Catalogs>, settings: Settings) -> Logical {
        let held = moka::sync::Cache::builder().max_capacity(HELD).time_to_idle(IDLE).build();
        let touched = moka::sync::Cache::builder()
            .max_capacity(10 * HELD)
            .time_to_live(settings.life / TOUCH_PART)
            .build();
        let shelf = Arc::new(shelf::Shelf::new(catalogs, settings.whole_life));
        Logical { me, store, shelf, settings, held, touched }
    }

    /// The catalogs that are served now.
    pub fn catalogs(&self) -> Arc<Catalogs> {
        self.shelf.served()
    }

    /// Serves others from now on. Sessions go on with those that their symbols are of, while this process lives.
    pub fn serve(&self, catalogs: Arc<Catalogs>) {
        self.shelf.serve(catalogs);
        // The same catalog may lead elsewhere, or be asked less, from now on.
        self.held.invalidate_all();
    }

    /// The session of a handle, as it is now: one read of the store. Its life begins anew.
    pub async fn load(&self, owner: &Owner, handle: &str) -> Result<Arc<Held>, LogicalError> {
        let handle = Handle::parse(handle).ok_or(LogicalError::Unknown)?;
        let held = self.found(owner, &handle).await?.ok_or(LogicalError::Unknown)?;
        self.touch(&held).await;
        Ok(held)
    }

    /// `None`: there is none, nor was there, or it is another's.
    async fn found(&self, owner: &Owner, handle: &Handle) -> Result<Option<Arc<Held>>, LogicalError> {
        let key = record::key(handle, record::RECORD);
        let mut record = self.store.get(key.clone()).await?;
        if record.is_none() {
            let trace = self.store.get(record::key(handle, record::TRACE)).await?;
            if !trace.is_some_and(|trace| record::traced(&trace, owner)) {
                return Ok(None);
            }
            // Both are written at once, perhaps between the two reads: it has been only if it is not there after its trace.
            record = self.store.get(key).await?;
        }
        let record = record.ok_or(LogicalError::Expired)?;
        let at = (handle.clone(), record.rev);
        let held = match self.held.get(&at) {
            Some(held) => held,
            None => {
                if !record::is_of(&record, owner) {
                    return Ok(None);
                }
                let held = Arc::new(Held::read(handle, &record, &self.shelf)?);
                self.held.insert(at, Arc::clone(&held));
                held
            }
        };
        match held.is_of(owner) {
            true if self.left(&held.head).is_zero() => Err(LogicalError::Expired),
            true => Ok(Some(held)),
            false => Ok(None),
        }
    }

    /// How long a session may live from now on, if it is not used again.
    fn left(&self, head: &record::Head) -> Duration {
        let age = Duration::from_millis(unix_ms().saturating_sub(head.born));
        self.settings.life.min(self.settings.whole_life.saturating_sub(age))
    }

    /// Extends a session's life, unless that was done lately. Where it fails, the next use does.
    async fn touch(&self, held: &Held) {
        if self.touched.contains_key(&held.handle) {
            return;
        }
        let key = held.key(record::RECORD);
        let live = vec![(key.clone(), Write::Live(self.left(&held.head)))];
        let done = self.store.commit(vec![(key, Check::Present)], live, Sure::Master).await;
        if matches!(done, Ok(Commit::Done(_))) {
            self.touched.insert(held.handle.clone(), ());
        }
    }
}
