//! `plasm_run`: carries out what was planned, or a program that only reads. What writes is run once, to its end, whoever waits
//! for it, and its outcome is recorded before it is told.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture, stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use tokio::{sync::mpsc, time::Instant};

use super::{Inner, answer::Answer, ways::Way};
use crate::{
    execute::{
        fault::Fault,
        logical::{Begun, Held, LogicalError, Owner, Remembered, RunClaim},
        plan::Plan,
        run::{self, Finished, Progress, RunSettings, Tell, WriteReport},
    },
    mcp::{Call, Caller, Event, Note, Outcome},
    wire::{Method, Raw},
};

/// Progress that waits to be written; what does not fit is let go, for the next says more.
const WAITING: usize = 16;
/// What of a call's time is left for the answer.
const MARGIN: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    logical_session_ref: String,
    #[serde(default)]
    run_ref: Option<String>,
    #[serde(default)]
    program: Option<String>,
}

/// What is recorded of a run that writes.
#[derive(Serialize, Deserialize)]
struct Recorded<A, O> {
    answer: A,
    operations: O,
}

/// What is to be run.
pub(super) struct Run {
    pub(super) held: Arc<Held>,
    pub(super) owner: Owner,
    pub(super) plan: Arc<Plan>,
    pub(super) remembered: Remembered,
    /// What it may call, as its results are kept with.
    pub(super) operations: BTreeSet<String>,
    pub(super) way: Way,
    notes: Option<Notes>,
}

/// For whom and how something is run.
pub(super) struct Asked {
    pub(super) held: Arc<Held>,
    pub(super) owner: Owner,
    pub(super) way: Way,
    pub(super) notes: Option<Notes>,
}

impl Run {
    pub(super) fn new(asked: Asked, plan: Plan, remembered: Remembered) -> Run {
        let Asked { held, owner, way, notes } = asked;
        let operations = plan.operations(&held.catalogs);
        Run { held, owner, plan: Arc::new(plan), remembered, operations, way, notes }
    }
}

/// Where a call's progress is told.
#[derive(Clone)]
pub(super) struct Notes {
    token: Bytes,
    to: mpsc::Sender<Note>,
}

pub(super) fn notes(token: Bytes) -> (Notes, mpsc::Receiver<Note>) {
    let (to, told) = mpsc::channel(WAITING);
    (Notes { token, to }, told)
}

impl Notes {
    fn tell(self) -> Tell {
        Arc::new(move |progress: Progress| {
            let Progress { requests, rows, steps, of_steps } = progress;
            let message = format!("step {steps} of {of_steps}, {requests} requests, {rows} rows");
            // Requests alone grow with each telling, as progress must (2025-11-25 progress).
            let mut params = Raw::of(&json!({"progress": requests, "message": message}));
            params.insert_member(0, "progressToken", &self.token);
            // Full: the client reads slowly, and the next says more.
            let _ = self.to.try_send(Note { method: Method::Progress, params, at: None });
        })
    }
}

/// Progress until the outcome, which nothing follows.
pub(super) fn beside(
    told: mpsc::Receiver<Note>,
    outcome: BoxFuture<'static, Outcome>,
) -> impl Stream<Item = Event> {
    let events = stream::unfold(Some((told, outcome)), |state| async move {
        let (mut told, mut outcome) = state?;
        tokio::select! {
            biased;
            Some(note) = told.recv() => Some((vec![Event::Note(note)], Some((told, outcome)))),
            outcome = &mut outcome => {
                let waiting = std::iter::from_fn(|| told.try_recv().ok()).map(Event::Note);
                Some((waiting.chain([Event::Done(outcome)]).collect(), None))
            }
        }
    });
    events.flat_map(stream::iter)
}

impl Inner {
    pub(super) async fn run(
        self: Arc<Self>,
        call: &Call,
        ask: Ask,
        notes: Option<Notes>,
    ) -> Result<Answer, Fault> {
        let owner = self.owner(&call.caller);
        let held = self.session(&owner, &ask.logical_session_ref).await?;
        let way = self.way(&call.caller);
        let asked = Asked { held: Arc::clone(&held), owner: owner.clone(), way, notes };
        match (ask.run_ref, ask.program) {
            (Some(run_ref), None) => match self.logical.begin_run(&held, &owner, &run_ref).await? {
                Begun::Done(outcome) => self.again(&call.caller, outcome),
                Begun::Reads(plan, remembered) => {
                    self.admitted(&call.caller, &plan, &plan.operations(&held.catalogs))?;
                    Ok(self.read(call, Run::new(asked, *plan, *remembered)).await)
                }
                Begun::Writes(plan, remembered, claim) => {
                    let operations = plan.operations(&held.catalogs);
                    if let Err(fault) = self.admitted(&call.caller, &plan, &operations) {
                        claim.release().await?;
                        return Err(fault);
                    }
                    self.write(call, Run::new(asked, *plan, *remembered), claim).await
                }
            },
            (None, Some(program)) => {
                let (plan, remembered) = self.planned(&call.caller, &held, &owner, &program)?;
                if !plan.only_reads() {
                    return Err(Fault::new(
                        "run_ref_needed",
                        "a program that writes is run by the run_ref of its plan alone",
                        "plan it with plasm, and run its run_ref",
                    ));
                }
                Ok(self.read(call, Run::new(asked, plan, remembered)).await)
            }
            _ => Err(Fault::new(
                "bad_arguments",
                "plasm_run takes either a run_ref or a program",
                "give the run_ref of a plan or of a page; or a program that only reads",
            )),
        }
    }

    /// Carries out what only reads. Dropped, it asks for nothing more.
    pub(super) async fn read(&self, call: &Call, run: Run) -> Answer {
        let settings = RunSettings::new(random(), self.deadline(call));
        let name = Arc::clone(&settings.run);
        let finished = self.carried_out(&run, call.caller.clone(), settings).await;
        self.told(&run, &name, finished).await
    }

    /// Carries out what writes, to its end, whether this call is waited for or not.
    async fn write(self: Arc<Self>, call: &Call, run: Run, claim: RunClaim) -> Result<Answer, Fault> {
        let (caller, deadline) = (call.caller.clone(), self.deadline(call));
        let tasks = self.settings.tasks.clone();
        let written = tasks.spawn(async move {
            let name = Arc::clone(claim.run_id());
            let mut settings = RunSettings::new(Arc::clone(&name), deadline);
            settings.claim = Some(claim.before_writing());
            let finished = self.carried_out(&run, caller, settings).await;
            let untouched = finished.failed.is_some() && finished.writes.iter().all(untouched);
            let answer = self.told(&run, &name, finished).await;
            let recorded = match untouched {
                true => claim.release().await,
                false => {
                    claim.finish(&json!(Recorded { answer: &answer, operations: &run.operations })).await
                }
            };
            if let Err(why) = recorded {
                tracing::warn!(run = &*name, %why, "what became of a run is not recorded");
            }
            answer
        });
        written.await.map_err(|_| {
            let hint = "read what is there; plan again only what is missing";
            Fault::new("outcome_unknown", "the run broke off: what was written is not known", hint)
        })
    }

    /// What was recorded of a run, for one who may still call all that it called.
    fn again(&self, caller: &Caller, outcome: Json) -> Result<Answer, Fault> {
        let recorded: Recorded<Answer, BTreeSet<String>> =
            serde_json::from_value(outcome).map_err(|_| LogicalError::OutcomeUnknown)?;
        self.may_call(caller, &recorded.operations)?;
        Ok(recorded.answer)
    }

    async fn carried_out(&self, run: &Run, caller: Arc<Caller>, mut settings: RunSettings) -> Finished {
        settings.from = run.remembered.from.clone();
        settings.progress = run.notes.clone().map(Notes::tell);
        let catalogs = Arc::clone(&run.held.catalogs);
        let run = run::run(Arc::clone(&run.plan), catalogs, Arc::clone(&self.sources), caller, settings);
        run.boxed().await
    }

    /// How long a run of this call may work.
    fn deadline(&self, call: &Call) -> Duration {
        let left = call.deadline.saturating_duration_since(Instant::now());
        left.saturating_sub(MARGIN).min(self.settings.run)
    }
}

/// Whether it is certain that nothing of it was written.
fn untouched(report: &WriteReport) -> bool {
    report.done.is_empty() && report.failed.is_none()
}

/// Names a run that nothing is recorded of.
pub(in crate::execute) fn random() -> String {
    let mut bits = [0u8; 16];
    aws_lc_rs::rand::fill(&mut bits).expect("the system's random source does not fail once it is seeded");
    format!("{:032x}", u128::from_be_bytes(bits))
}
