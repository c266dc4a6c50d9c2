//! The right to run what writes: one a plan. Whoever has it says every few seconds that it runs; before the first write it is
//! made sure on the replicas; what became of it is recorded. What is left behind in the midst of writing is never run again.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value as Json;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Held, Logical, LogicalError, Owner, RunRef,
    handle::random,
    record::{RECORD, json},
};
use crate::{
    execute::{fault::Fault, run::Claim},
    store::{Check, Commit, Key, Store, StoreError, Sure, Write},
};

/// Which call has it.
const BY: &str = "by";
/// Who planned it.
const WHO: &str = "who";
/// That its first write may have begun.
const BEGUN: &str = "begun";
/// What became of it.
const OUTCOME: &str = "outcome";
/// That its pod went away while it wrote.
const LOST: &str = "lost";
/// A lease is renewed this often in its time.
const RENEWALS: u32 = 3;
/// How often an outcome is offered to a store that does not take it, and how long is waited in between.
const OFFERS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(500);
/// Rounds against others who wish to have it.
const ROUNDS: usize = 8;

/// What is known of a run.
pub(super) enum Claimed {
    Nobody,
    /// Its pod went away before it wrote anything: it is free again for whoever takes it from that call.
    Left(Bytes),
    Done(Json),
}

/// A run that is this call's. Dropped without an outcome, it is lost: nobody runs it again once its first write may have begun.
pub struct RunClaim {
    shared: Arc<Shared>,
    name: Arc<str>,
    renews: AbortOnDropHandle<()>,
}

struct Shared {
    store: Arc<dyn Store>,
    run: Key,
    lease: Key,
    by: Bytes,
    run_life: Duration,
    lease_life: Duration,
}

impl fmt::Debug for RunClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunClaim({})", self.name)
    }
}

impl Logical {
    /// What has become of a run. One whose pod went away while it wrote is marked as lost.
    pub(super) async fn look(
        &self,
        held: &Held,
        owner: &Owner,
        name: &RunRef,
    ) -> Result<Claimed, LogicalError> {
        let (run, lease) = keys(held, name);
        for _ in 0..ROUNDS {
            let Some(record) = self.store.get(run.clone()).await? else { return Ok(Claimed::Nobody) };
            if record.field(WHO).is_none_or(|who| who != owner.who.as_bytes()) {
                return Err(LogicalError::UnknownRef);
            }
            if let Some(outcome) = record.field(OUTCOME) {
                let outcome = serde_json::from_slice(outcome).map_err(|_| LogicalError::OutcomeUnknown)?;
                return Ok(Claimed::Done(outcome));
            }
            if record.field(LOST).is_some() {
                return Err(LogicalError::OutcomeUnknown);
            }
            if self.store.get(lease.clone()).await?.is_some() {
                return Err(LogicalError::AlreadyRunning);
            }
            let by = record.field(BY).cloned().unwrap_or_default();
            if record.field(BEGUN).is_none() {
                return Ok(Claimed::Left(by));
            }
            let mut checks = free(&run, &lease, by);
            checks.push((run.clone(), Check::no_field(OUTCOME)));
            let lost = vec![(run.clone(), Write::set(LOST, "1"))];
            if let Commit::Done(_) = self.store.commit(checks, lost, Sure::Master).await? {
                tracing::warn!(session = ?held.handle, run = &**name.name(), "a run was lost while it wrote");
                return Err(LogicalError::OutcomeUnknown);
            }
        }
        Err(LogicalError::Busy)
    }

    /// Makes a run this call's.
    pub(super) async fn claim(
        &self,
        held: &Held,
        owner: &Owner,
        name: &RunRef,
        plan: &Key,
        mut found: Claimed,
    ) -> Result<RunClaim, LogicalError> {
        let (run, lease) = keys(held, name);
        let by = Bytes::from(format!("{} {}", self.me, random()));
        for _ in 0..ROUNDS {
            let mut checks = match found {
                Claimed::Nobody => vec![(run.clone(), Check::Absent)],
                Claimed::Left(was) => {
                    let mut checks = free(&run, &lease, was);
                    checks.push((run.clone(), Check::no_field(BEGUN)));
                    checks.push((run.clone(), Check::no_field(OUTCOME)));
                    checks
                }
                Claimed::Done(_) => return Err(LogicalError::Busy),
            };
            let taken = checks.len();
            checks.push((plan.clone(), Check::Present));
            checks.push((held.key(RECORD), Check::Present));
            let shared = Shared {
                store: Arc::clone(&self.store),
                run: run.clone(),
                lease: lease.clone(),
                by: by.clone(),
                run_life: self.settings.run,
                lease_life: self.settings.lease,
            };
            let mut writes = vec![
                (run.clone(), Write::set(BY, by.clone())),
                (run.clone(), Write::set(WHO, Bytes::copy_from_slice(owner.who.as_bytes()))),
                (run.clone(), Write::Live(self.settings.run)),
            ];
            writes.extend(shared.leased());
            match self.store.commit(checks, writes, Sure::Master).await? {
                Commit::Done(_) => return Ok(RunClaim::new(shared, Arc::clone(name.name()))),
                Commit::Failed { check } if check >= taken => return Err(LogicalError::RefExpired),
                Commit::Failed { .. } => found = self.look(held, owner, name).await?,
            }
            if let Claimed::Done(_) = found {
                // It ended in the meantime: the next call gets its outcome.
                return Err(LogicalError::AlreadyRunning);
            }
        }
        Err(LogicalError::Busy)
    }
}

impl RunClaim {
    fn new(shared: Shared, name: Arc<str>) -> RunClaim {
        let shared = Arc::new(shared);
        let renews = AbortOnDropHandle::new(tokio::spawn(Arc::clone(&shared).renew()));
        RunClaim { shared, name, renews }
    }

    /// Which run it is: what idempotency keys are derived from, and the `run_id` of its artifacts.
    pub fn run_id(&self) -> &Arc<str> {
        &self.name
    }

    /// To be asked before the first write.
    pub fn before_writing(&self) -> Arc<dyn Claim> {
        Arc::clone(&self.shared) as Arc<dyn Claim>
    }

    /// Records what became of it, for whoever asks again. It is offered to the store for ten seconds; where that does not
    /// take it, the run's outcome is unknown to all others.
    pub async fn finish(self, outcome: &Json) -> Result<(), LogicalError> {
        let outcome = json(outcome);
        let shared = &self.shared;
        let mut away = StoreError::Away;
        for _ in 0..OFFERS {
            let writes = vec![
                (shared.run.clone(), Write::set(OUTCOME, outcome.clone())),
                (shared.run.clone(), Write::Live(shared.run_life)),
                (shared.lease.clone(), Write::Drop),
            ];
            match shared.store.commit(shared.mine(), writes, Sure::Replicas).await {
                Ok(Commit::Done(_)) | Err(StoreError::Unconfirmed) => return Ok(()),
                Ok(Commit::Failed { .. }) => return Err(LogicalError::RefExpired),
                Err(error) => away = error,
            }
            tokio::time::sleep(BETWEEN).await;
        }
        Err(away.into())
    }

    /// Gives it back: nothing was written, nor can it have been.
    pub async fn release(self) -> Result<(), LogicalError> {
        let RunClaim { shared, renews, .. } = self;
        drop(renews);
        let writes = vec![(shared.run.clone(), Write::Drop), (shared.lease.clone(), Write::Drop)];
        shared.store.commit(shared.mine(), writes, Sure::Master).await?;
        Ok(())
    }
}

impl Shared {
    fn mine(&self) -> Vec<(Key, Check)> {
        vec![(self.run.clone(), Check::field(BY, self.by.clone()))]
    }

    fn leased(&self) -> [(Key, Write); 2] {
        let set = Write::set(BY, self.by.clone());
        [(self.lease.clone(), set), (self.lease.clone(), Write::Live(self.lease_life))]
    }

    /// Says that it runs, until it is over or another's.
    async fn renew(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.lease_life / RENEWALS).await;
            let mut checks = self.mine();
            checks.push((self.run.clone(), Check::no_field(OUTCOME)));
            // A store that is away is asked again.
            if let Ok(Commit::Failed { .. }) =
                self.store.commit(checks, self.leased().into(), Sure::Master).await
            {
                return;
            }
        }
    }

    async fn confirmed(&self) -> Result<(), LogicalError> {
        let mut checks = self.mine();
        checks.push((self.run.clone(), Check::no_field(OUTCOME)));
        let mut writes = vec![(self.run.clone(), Write::set(BEGUN, "1"))];
        writes.extend(self.leased());
        match self.store.commit(checks, writes, Sure::Replicas).await? {
            Commit::Done(_) => Ok(()),
            // This pod was taken for gone, and another runs it.
            Commit::Failed { .. } => Err(LogicalError::AlreadyRunning),
        }
    }
}

impl Claim for Shared {
    fn confirm(&self) -> BoxFuture<'static, Result<(), Fault>> {
        let shared = Shared {
            store: Arc::clone(&self.store),
            run: self.run.clone(),
            lease: self.lease.clone(),
            by: self.by.clone(),
            ..*self
        };
        async move { shared.confirmed().await.map_err(Fault::from) }.boxed()
    }
}

/// Nobody runs what that call had.
fn free(run: &Key, lease: &Key, by: Bytes) -> Vec<(Key, Check)> {
    vec![(run.clone(), Check::field(BY, by)), (lease.clone(), Check::Absent)]
}

fn keys(held: &Held, name: &RunRef) -> (Key, Key) {
    let run = format!("run:{}", name.name());
    (held.key(&run), held.key(&format!("{run}:lease")))
}
