//! What a run came to, as its caller is told: each root's result is stored, then shown as far as it fits, with where to read
//! the rest. A result that cannot be stored is shown all the same.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tokio::time::{Instant, timeout_at};

use super::{
    Inner,
    answer::{self, Answer},
    runs::Run,
    table::{self, Inline, Room},
    ways,
};
use crate::execute::{
    artifacts::Stored,
    fault::Fault,
    run::{Cursor, Finished, RootRows, Shown, WriteReport},
};

/// How long the results of one run may take to be stored, all together.
const STORING: Duration = Duration::from_secs(8);

/// A root's result, stored and shown.
struct Told {
    text: String,
    facts: Json,
    step: Json,
    paging: Json,
    omitted: usize,
    link: Option<Json>,
}

impl Inner {
    /// What a run came to, for its caller.
    pub(super) async fn told(&self, run: &Run, name: &str, finished: Finished) -> Answer {
        let Finished { roots, rest, writes, failed, warnings, requests } = finished;
        let (mut text, mut room) = (String::new(), Room::default());
        let (mut facts, mut steps, mut paging, mut links) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut omitted, mut run_id) = (0, None);
        let until = Instant::now() + STORING;
        let mut pages =
            self.kept(run, roots.iter().map(|root| root.next.as_ref()).chain([rest.as_ref()])).await;
        let rest = pages.pop().flatten();
        for (root, next) in roots.into_iter().zip(pages) {
            let stored = self.stored(run, &root, until).await;
            let told = root_told(run, name, &root, stored, next, &mut room);
            text += &told.text;
            omitted += told.omitted;
            // The run goes by the name of its first result: that one is read by it.
            run_id = run_id.or_else(|| told.facts["run_id"].as_str().map(str::to_owned));
            facts.push(told.facts);
            steps.push(told.step);
            paging.push(told.paging);
            links.extend(told.link);
        }
        for report in &writes {
            text += &written(report);
        }
        if let Some(rest) = &rest {
            text += &format!("Not finished in time; go on with plasm_run, run_ref {rest}\n");
        }
        for warning in &warnings {
            text += &format!("warning: {}\n", table::safe(warning));
        }
        let run_id = run_id.unwrap_or_else(|| name.to_owned());
        let mut structured = json!({"run_id": run_id, "roots": facts, "requests": requests});
        for (key, value) in [("writes", json!(writes)), ("warnings", json!(warnings))] {
            if value.as_array().is_some_and(|values| !values.is_empty()) {
                structured[key] = value;
            }
        }
        if let Some(rest) = rest {
            structured["continue_run_ref"] = json!(rest);
        }
        if let Some(failure) = &failed {
            structured["error"] = json!(failure.fault);
            text += &answer::worded(&failure.fault);
            text.push('\n');
        }
        let meta = json!({"steps": steps, "omitted_from_summary": omitted, "paging": paging});
        let mut answer = answer::said(&text, structured, Some(meta));
        if let Some(content) = answer["content"].as_array_mut() {
            content.extend(links);
        }
        if failed.is_some() {
            answer["isError"] = json!(true);
        }
        answer
    }

    /// Keeps a root's result. What it is named by is given out only where it is there.
    async fn stored(&self, run: &Run, root: &RootRows, until: Instant) -> Result<Stored, Fault> {
        let put = self.artifacts.put(&run.held, &run.owner, root, &run.operations);
        let stored = match timeout_at(until, put).await {
            Ok(stored) => stored.map_err(Fault::from),
            Err(_late) => {
                let hint = "run it again, if it only reads";
                Err(Fault::new("state_store_unavailable", "it could not be stored in time", hint).retryable())
            }
        };
        stored.inspect_err(|why| tracing::warn!(why = %why.message, "the result of a run is not stored"))
    }

    /// References to where reads go on, for those that do. Where none can be kept, the answer is given without.
    async fn kept<'a>(
        &self,
        run: &Run,
        from: impl Iterator<Item = Option<&'a Cursor>>,
    ) -> Vec<Option<String>> {
        let from: Vec<_> = from.collect();
        let on: Vec<Cursor> = from.iter().copied().flatten().cloned().collect();
        let pages = self.logical.pages(&run.held, &run.remembered, &on).await;
        let pages = pages.inspect_err(|why| tracing::warn!(%why, "places to go on from are not kept"));
        let mut pages = pages.unwrap_or_default().into_iter();
        from.iter().map(|from| from.and_then(|_| pages.next()).map(|page| page.to_string())).collect()
    }
}

fn root_told(
    run: &Run,
    name: &str,
    root: &RootRows,
    stored: Result<Stored, Fault>,
    next: Option<String>,
    room: &mut Room,
) -> Told {
    let Inline { mut text, rows, values, plain, omitted, cut } = table::inline(root, stored.is_ok(), room);
    let label = table::safe(&root.label);
    // A table ends at an empty line.
    text.push('\n');
    if omitted > 0 {
        text += &format!("({omitted} more rows are not shown)\n");
    }
    text += &format!("coverage: {}\n", root.coverage);
    if !root.lossy.is_empty() {
        text += &format!("not of their type: {}\n", table::safe(&root.lossy.join(", ")));
    }
    let run_id = stored.as_ref().map_or(name, |stored| &stored.run_id);
    let mut facts = json!({"label": root.label, "rows": rows, "coverage": root.coverage, "run_id": run_id});
    let mut step =
        json!({"run_id": run_id, "expr_preview": preview(run, root.node), "lossy_fields": root.lossy});
    match &root.result {
        Shown::Rows { columns, .. } => {
            facts["columns"] = json!(columns);
            facts["values"] = json!(values);
        }
        Shown::Text(_) => facts["text"] = json!(plain),
    }
    if !root.lossy.is_empty() {
        facts["lossy_fields"] = json!(root.lossy);
    }
    let mut link = None;
    match stored {
        Ok(stored) => {
            facts["artifact_uri"] = json!(stored.uri);
            step["artifact_uri"] = json!(stored.uri);
            text += &match cut {
                true => format!("the whole of {label}: {}\n", run.way.to(&stored.uri)),
                false => format!("stored: {}\n", stored.uri),
            };
            if cut && run.way.links() {
                link = Some(json!({
                    "type": "resource_link",
                    "uri": stored.uri,
                    "name": root.label,
                    "mimeType": ways::mime(matches!(root.result, Shown::Text(_))),
                }));
            }
        }
        Err(mut why) => {
            if !run.plan.only_reads() {
                why.hint = "it is not run again, for it writes: read anew what you need of it".to_owned();
                why.retryable = false;
            }
            text += &match cut {
                true => format!(
                    "not stored, so that only what stands above is left of it: {} ({}). {}\n",
                    why.message, why.code, why.hint
                ),
                false => format!("not stored: {} ({})\n", why.message, why.code),
            };
            facts["not_stored"] = json!(why);
        }
    }
    if let Some(next) = &next {
        text += &format!("more of {label}: plasm_run with run_ref {next}\n");
        facts["next_run_ref"] = json!(next);
    }
    text.push('\n');
    let paging = json!({"has_more": next.is_some(), "count": rows, "next_run_ref": next});
    Told { text, facts, step, paging, omitted, link }
}

/// The part of the program that a step is of, shortened.
fn preview(run: &Run, node: usize) -> String {
    let span = run.plan.nodes.get(node).map(|node| node.span);
    let text = span.map(|span| span.text(&run.remembered.program)).unwrap_or_default();
    text.chars().take(120).collect()
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
        text += &format!("; failed at {}{doubt}: {}", failed.row, table::safe(&failed.message));
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
