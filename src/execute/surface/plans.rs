//! `plasm`: checks and plans a program without asking any source, and keeps the plan to be run. With `mode: auto`, what only
//! reads is run at once.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{
    Inner,
    answer::{self, Answer},
    runs::{Asked, Notes, Run},
};
use crate::{
    execute::{
        fault::Fault,
        instant::Instant,
        language,
        logical::{Held, Owner, Remembered},
        plan::{self, Plan, Verdict},
    },
    mcp::{Call, Caller},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    logical_session_ref: String,
    program: String,
    #[serde(default)]
    mode: Mode,
    /// For those who read what was called; it changes nothing.
    #[serde(default, rename = "reasoning")]
    _reasoning: Option<String>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Plan,
    Auto,
}

impl Inner {
    pub(super) async fn plan(&self, call: &Call, ask: Ask, notes: Option<Notes>) -> Result<Answer, Fault> {
        let owner = self.owner(&call.caller);
        let held = self.session(&owner, &ask.logical_session_ref).await?;
        let (plan, remembered) = self.planned(&call.caller, &held, &owner, &ask.program)?;
        if ask.mode == Mode::Auto && plan.only_reads() && plan.verdict == Verdict::Ok {
            let asked = Asked { held, owner, way: self.way(&call.caller), notes };
            return Ok(self.read(call, Run::new(asked, plan, remembered)).await);
        }
        let run_ref = match plan.verdict {
            Verdict::Blocked => None,
            Verdict::Ok | Verdict::Review => {
                Some(self.logical.remember(&held, &remembered).await?.to_string())
            }
        };
        Ok(dry_run(&plan, run_ref.as_deref(), ask.mode))
    }

    /// The plan of a program, now, where the caller may call everything that it calls.
    pub(super) fn planned(
        &self,
        caller: &Caller,
        held: &Held,
        owner: &Owner,
        program: &str,
    ) -> Result<(Plan, Remembered), Fault> {
        let wrong = |error: Box<language::ProgramError>| answer::of_program(*error, program);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
        let now = Instant { seconds, nanos: since.subsec_nanos() };
        let typed = language::check(program, &held.scope).map_err(wrong)?;
        let plan = plan::plan(&typed, program, &held.scope, &held.catalogs, now).map_err(wrong)?;
        self.admitted(caller, &plan, &plan.operations(&held.catalogs))?;
        let remembered = Remembered::of(held, owner, program, now, &plan);
        Ok((plan, remembered))
    }
}

fn dry_run(plan: &Plan, run_ref: Option<&str>, mode: Mode) -> Answer {
    let mut text = "Dry run: nothing was asked of any source.\n".to_owned();
    text += &plan::lines(plan);
    if mode == Mode::Auto {
        text += match plan.only_reads() {
            true => "Not run at once: look at the warnings first.\n",
            false => "Not run at once: it writes. Show the writes to whoever has to allow them.\n",
        };
    }
    match run_ref {
        Some(run_ref) => text += &format!("run_ref: {run_ref}\nRun it with plasm_run within 15 minutes.\n"),
        None => text += "It cannot be run as it is: change the program by the warnings.\n",
    }
    let structured = json!({
        "run_ref": run_ref,
        "verdict": plan.verdict,
        "effects": plan.effects,
        "bounds": {"requests": plan.requests, "rows": most_rows(plan)},
        "roots": plan.roots.iter().map(|root| &root.label).collect::<Vec<_>>(),
        "warnings": plan.warnings,
    });
    let structured = match structured {
        Json::Object(mut members) => {
            members.retain(|_, value| !value.is_null());
            Json::Object(members)
        }
        other => other,
    };
    answer::said(&text, structured, Some(json!({"dry_run": true, "plan": plan})))
}

/// The most rows of all roots.
fn most_rows(plan: &Plan) -> u64 {
    let rows = plan.roots.iter().filter_map(|root| plan.nodes.get(root.node)).map(|node| node.bounds.rows);
    rows.fold(0, u64::saturating_add)
}
