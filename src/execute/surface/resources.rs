//! What the surface has to read: the pages of its MCP App, and stored results by their two URIs. A result is given whole, to
//! whom it belongs; to anybody else there is none.

use serde_json::{Value as Json, json};

use super::{Inner, ways};
use crate::{
    execute::{
        app::{MIME, PLAN_REVIEW, Page, RUN_EXPLORER},
        artifacts::{ArtifactError, Rows, Uri, Wanted},
        fault::Fault,
        logical::LogicalError,
    },
    mcp::{Call, Caller, Fault as CallFault, Reason, Reply, Ruling},
    wire::Raw,
};

/// The extension that the pages are of (SEP-1865).
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/ui";

const PAGES: [(Page, &str, &str); 2] =
    [(RUN_EXPLORER, "run-explorer", "Run explorer"), (PLAN_REVIEW, "plan-review", "Plan review")];

pub(super) fn definitions() -> Vec<Json> {
    PAGES
        .iter()
        .map(|(page, name, title)| {
            json!({
                "uri": page.uri,
                "name": name,
                "title": title,
                "mimeType": MIME,
                "_meta": ui(),
            })
        })
        .collect()
}

pub(super) fn templates() -> Vec<Json> {
    let template = |uri: &str, name: &str, description: &str| {
        json!({
            "uriTemplate": uri,
            "name": name,
            "title": "Stored result",
            "description": description,
            "mimeType": ways::mime(false),
        })
    };
    vec![
        template(
            "plasm://session/{session}/r/{n}",
            "result",
            "A stored result of a session, by its number: the artifact_uri of a run.",
        ),
        template(
            "plasm://execute/{session}/run/{run_id}",
            "run",
            "A stored result of a session, by the run_id of its run.",
        ),
    ]
}

/// What a page asks of its host: nothing from outside, and to be framed.
fn ui() -> Json {
    json!({"ui": {"prefersBorder": true}})
}

impl Inner {
    /// Answers `resources/read`.
    pub(super) async fn resource(&self, call: &Call) -> Reply {
        let uri = call.params.uri().unwrap_or_default().into_owned();
        if let Some((page, ..)) = PAGES.iter().find(|(page, ..)| page.uri == uri) {
            let content = json!({"uri": uri, "mimeType": MIME, "text": page.html, "_meta": ui()});
            // It changes with the release alone.
            let contents = json!({"contents": [content], "ttlMs": super::TTL_MS, "cacheScope": "public"});
            return Reply::result(Raw::of(&contents));
        }
        match self.artifact(&call.caller, &uri).await {
            Ok(content) => Reply::result(Raw::of(&json!({"contents": [content]}))),
            Err(fault) => Reply::fault(fault),
        }
    }

    /// A stored result, whole.
    async fn artifact(&self, caller: &Caller, text: &str) -> Result<Json, CallFault> {
        let unknown = || CallFault::from(Reason::UnknownResource(text.to_owned()));
        let uri = Uri::parse(text).ok_or_else(unknown)?;
        let owner = self.owner(caller);
        let held = match self.logical.load(&owner, uri.session.as_str()).await {
            Ok(held) => held,
            Err(LogicalError::Store(_)) => return Err(Reason::StoreAway.into()),
            Err(_) => return Err(unknown()),
        };
        let fault = |error: ArtifactError| match error {
            ArtifactError::Unknown => unknown(),
            error => {
                tracing::warn!(session = ?held.handle, %error, "a stored result is not to be had");
                Reason::StoreAway.into()
            }
        };
        let found = self.artifacts.find(&held, &owner, &uri.which).await.map_err(fault)?;
        self.may_call(caller, found.operations()).map_err(refused)?;
        let mut wanted = Wanted::default();
        let mut rows = found.rows(&wanted).await.map_err(fault)?;
        let mut whole = begun(&rows);
        // A page's rows are let go once they are text: parsed, all of them would take many times as much.
        while let (false, Some(next)) = (rows.text, rows.next_offset) {
            wanted.offset = next;
            rows = found.rows(&wanted).await.map_err(fault)?;
            whole += ",\n";
            whole += &lines(&rows);
        }
        if !rows.text {
            whole += "\n]}\n";
        }
        Ok(json!({"uri": text, "mimeType": ways::mime(rows.text), "text": whole}))
    }
}

/// One JSON object, a row a line, up to the end of these rows; of a text the text itself.
fn begun(rows: &Rows) -> String {
    if rows.text {
        let text = rows.rows.first().and_then(|row| row.first()).and_then(Json::as_str);
        return text.unwrap_or_default().to_owned();
    }
    let head = json!({
        "label": rows.label, "run_id": rows.run_id, "coverage": rows.coverage, "total": rows.total, "columns": rows.columns,
    });
    let mut text = head.to_string();
    text.truncate(text.len() - 1);
    text + ",\"rows\":[\n" + &lines(rows)
}

fn lines(rows: &Rows) -> String {
    let lines: Vec<String> = rows.rows.iter().map(|row| json!(row).to_string()).collect();
    lines.join(",\n")
}

fn refused(fault: Fault) -> CallFault {
    let ruling = Ruling { by: "catalogs".into(), why: fault.message, instead: Some(fault.hint) };
    Reason::Refused(Box::new(ruling)).into()
}
