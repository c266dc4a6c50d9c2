//! `plasm_run`: carries out what was planned, or a program that only reads. What writes is run once, to its end, whoever waits
//! for it, and its outcome is recorded before it is told.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture, stream};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Inner,
    answer::{self, Answer},
    table::{self, Room},
};
use crate::{
    execute::{
        fault::Fault,
        logical::{Begun, Held, Remembered, RunClaim},
        plan::Plan,
        run::{self, Cursor, Finished, Progress, RunSettings, Shown, Tell, WriteReport},
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

/// What is to be run.
pub(super) struct Run {
    held: Arc<Held>,
    plan: Arc<Plan>,
    remembered: Remembered,
    notes: Option<Notes>,
}

impl Run {
    pub(super) fn new(held: Arc<Held>, plan: Plan, remembered: Remembered, notes: Option<Notes>) -> Run {
        Run { held, plan: Arc::new(plan), remembered, notes }
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
        match (ask.run_ref, ask.program) {
            (Some(run_ref), None) => match self.logical.begin_run(&held, &owner, &run_ref).await? {
                Begun::Done(outcome) => Ok(outcome),
                Begun::Reads(plan, remembered) => {
                    self.admitted(&plan)?;
                    Ok(self.read(call, Run::new(held, *plan, *remembered, notes)).await)
                }
                Begun::Writes(plan, remembered, claim) => {
                    if let Err(fault) = self.admitted(&plan) {
                        claim.release().await?;
                        return Err(fault);
                    }
                    self.write(call, Run::new(held, *plan, *remembered, notes), claim).await
                }
            },
            (None, Some(program)) => {
                let (plan, remembered) = self.planned(&held, &owner, &program)?;
                if !plan.only_reads() {
                    return Err(Fault::new(
                        "run_ref_needed",
                        "a program that writes is run by the run_ref of its plan alone",
                        "plan it with plasm, and run its run_ref",
                    ));
                }
                Ok(self.read(call, Run::new(held, plan, remembered, notes)).await)
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
        let written = tokio::spawn(async move {
            let name = Arc::clone(claim.run_id());
            let mut settings = RunSettings::new(Arc::clone(&name), deadline);
            settings.claim = Some(claim.before_writing());
            let finished = self.carried_out(&run, caller, settings).await;
            let untouched = finished.failed.is_some() && finished.writes.iter().all(untouched);
            let answer = self.told(&run, &name, finished).await;
            let recorded = match untouched {
                true => claim.release().await,
                false => claim.finish(&answer).await,
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

    /// A reference to where a read goes on. Where none can be kept, the answer is given without.
    async fn kept(&self, run: &Run, from: Option<Cursor>) -> Option<String> {
        let page = self.logical.page(&run.held, &run.remembered, from?).await;
        let page = page.inspect_err(|why| tracing::warn!(%why, "a place to go on from is not kept"));
        page.ok().map(|page| page.to_string())
    }

    /// What a run came to, for its caller.
    async fn told(&self, run: &Run, name: &str, finished: Finished) -> Answer {
        let Finished { roots, rest, writes, failed, warnings, requests } = finished;
        let (mut text, mut room) = (String::new(), Room::default());
        let (mut structured, mut steps, mut paging) = (Vec::new(), Vec::new(), Vec::new());
        let mut omitted = 0;
        for root in roots {
            let next = self.kept(run, root.next.clone()).await;
            let shown = table::inline(&root, &mut room);
            text += &shown.text;
            if let Some(next) = &next {
                text += &format!("more of {}: plasm_run with run_ref {next}\n", root.label);
            }
            omitted += shown.omitted;
            let mut facts = json!({"label": root.label, "rows": shown.rows, "coverage": root.coverage});
            match &root.result {
                Shown::Rows { columns, .. } => {
                    facts["columns"] = json!(columns);
                    facts["values"] = json!(shown.values);
                }
                Shown::Text(_) => facts["text"] = json!(shown.text),
            }
            if let Some(next) = &next {
                facts["next_run_ref"] = json!(next);
            }
            paging.push(json!({"has_more": next.is_some(), "count": shown.rows, "next_run_ref": next}));
            steps.push(json!({"run_id": name, "expr_preview": self.preview(run, root.node), "lossy_fields": root.lossy}));
            structured.push(facts);
        }
        for report in &writes {
            text += &written(report);
        }
        let rest = self.kept(run, rest).await;
        if let Some(rest) = &rest {
            text += &format!("Not finished in time; go on with plasm_run, run_ref {rest}\n");
        }
        for warning in &warnings {
            text += &format!("warning: {warning}\n");
        }
        let mut facts = json!({"run_id": name, "roots": structured, "requests": requests});
        for (key, value) in [("writes", json!(writes)), ("warnings", json!(warnings))] {
            if value.as_array().is_some_and(|values| !values.is_empty()) {
                facts[key] = value;
            }
        }
        if let Some(rest) = rest {
            facts["continue_run_ref"] = json!(rest);
        }
        if let Some(failure) = &failed {
            facts["error"] = json!(failure.fault);
            text += &answer::worded(&failure.fault);
            text.push('\n');
        }
        let meta = json!({"steps": steps, "omitted_from_summary": omitted, "paging": paging});
        let mut answer = answer::said(&text, facts, Some(meta));
        if failed.is_some() {
            answer["isError"] = json!(true);
        }
        answer
    }

    /// The part of the program that a step is of, shortened.
    fn preview(&self, run: &Run, node: usize) -> Json {
        let span = run.plan.nodes.get(node).map(|node| node.span);
        let text = span.map(|span| span.text(&run.remembered.program)).unwrap_or_default();
        Json::String(text.chars().take(120).collect())
    }
}

/// Whether it is certain that nothing of it was written.
fn untouched(report: &WriteReport) -> bool {
    report.done.is_empty() && report.failed.is_none()
}

fn written(report: &WriteReport) -> String {
    let WriteReport { api, entity, method, done, failed, pending, waits, .. } = report;
    let mut text = format!("{api}::{entity}.{method}: {} done", done.len());
    let known: Vec<String> = done.iter().filter(|one| !one.is_null()).take(25).map(Json::to_string).collect();
    if !known.is_empty() {
        text += &format!(" ({})", known.join(", "));
    }
    if let Some(failed) = failed {
        let doubt = if failed.uncertain { ", which may have been carried out all the same" } else { "" };
        text += &format!("; failed at {}{doubt}: {}", failed.row, failed.message);
    }
    if !pending.is_empty() {
        text += &format!("; {} not begun", pending.len());
    }
    if *waits {
        text += "; not begun";
    }
    text.push('\n');
    text
}

/// Names a run that nothing is recorded of.
fn random() -> String {
    let mut bits = [0u8; 16];
    aws_lc_rs::rand::fill(&mut bits).expect("the system's random source does not fail once it is seeded");
    format!("{:032x}", u128::from_be_bytes(bits))
}
