//! `plasm_read_run_artifact`: rows of a stored result, page by page, for who reads; and `plasm_ui_read_run`, the same rows
//! for the run explorer.

use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{
    Inner,
    answer::{self, Answer},
    table,
};
use crate::{
    execute::{
        artifacts::{ArtifactError, MOST_ROWS, Rows, Uri, Wanted, Which},
        fault::Fault,
        logical::Handle,
    },
    mcp::Caller,
};

/// Rows of a page for which no number is asked.
const ROWS: u64 = 100;
/// Most bytes of a page's text; a row that is larger comes alone.
const BYTES: usize = 48 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    logical_session_ref: String,
    #[serde(default)]
    artifact_uri: Option<String>,
    #[serde(default)]
    run_id: Option<String>,
    #[serde(default)]
    columns: Option<Vec<String>>,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    limit: Option<u64>,
}

impl Inner {
    /// A page of rows. `plain`: its text says where the rows are, and not the rows.
    pub(super) async fn rows(&self, caller: &Caller, ask: Ask, plain: bool) -> Result<Answer, Fault> {
        let owner = self.owner(caller);
        let held = self.session(&owner, &ask.logical_session_ref).await?;
        let which = which(&ask, &held.handle)?;
        if ask.limit == Some(0) {
            return Err(bad("limit is at least 1"));
        }
        let wanted = Wanted {
            columns: ask.columns,
            offset: ask.offset,
            limit: Some(ask.limit.unwrap_or(ROWS).min(MOST_ROWS)),
        };
        let found = self.artifacts.find(&held, &owner, &which).await?;
        self.may_call(caller, found.operations())?;
        let mut rows = found.rows(&wanted).await?;
        let text = shown(&mut rows, plain);
        let uri = Uri { session: held.handle.clone(), which: Which::Number(rows.number) };
        let structured = json!({
            "run_id": rows.run_id,
            "artifact_uri": uri.to_string(),
            "label": rows.label,
            "columns": rows.columns,
            "rows": rows.rows,
            "offset": rows.offset,
            "total": rows.total,
            "next_offset": rows.next_offset,
            "coverage": rows.coverage,
        });
        Ok(answer::said(&text, structured, None))
    }
}

fn bad(message: &str) -> Fault {
    Fault::new("bad_arguments", message, "give the arguments that the tool's input schema names")
}

/// What is asked for, if it is of that session. Of another's nobody learns whether it is there.
fn which(ask: &Ask, session: &Handle) -> Result<Which, Fault> {
    match (&ask.artifact_uri, &ask.run_id) {
        (Some(uri), None) => {
            let uri = Uri::parse(uri).ok_or(ArtifactError::Uri)?;
            match uri.session == *session {
                true => Ok(uri.which),
                false => Err(ArtifactError::Unknown.into()),
            }
        }
        (None, Some(run)) => Ok(Which::run(run).ok_or(ArtifactError::Unknown)?),
        _ => Err(bad("give exactly one of artifact_uri and run_id")),
    }
}

/// The rows as text. Those that have no room in it are left for the next page.
fn shown(rows: &mut Rows, plain: bool) -> String {
    let label = table::safe(&rows.label);
    if rows.text && !plain {
        let text = rows.rows.first().and_then(|row| row.first()).and_then(Json::as_str);
        return format!("## {label} (text)\n{}\n", text.unwrap_or_default());
    }
    let mut lines = String::new();
    let mut fit = 0;
    for row in &rows.rows {
        let line = table::line(row);
        if fit > 0 && lines.len() + line.len() > BYTES {
            break;
        }
        lines += &line;
        fit += 1;
    }
    rows.rows.truncate(fit);
    let end = rows.offset + fit as u64;
    rows.next_offset = (end < rows.total).then_some(end);
    let place = match fit {
        0 => format!("none of {} rows", rows.total),
        _ => format!("rows {} to {end} of {}", rows.offset + 1, rows.total),
    };
    let mut text = format!("## {label} ({place})\n");
    if !plain {
        text += &format!("{}{lines}\n", table::head(&rows.columns));
    }
    text += &format!("coverage: {}\n", rows.coverage);
    if let Some(next) = rows.next_offset {
        text += &format!("more: the same call with offset {next}\n");
    }
    text
}
