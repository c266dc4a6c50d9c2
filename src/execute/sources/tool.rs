//! A tool of an MCP upstream, called as an operation. What asks for input is refused; a definition that is no longer the one
//! first seen is told, or refused where its catalog says so.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value as Json, json};
use tokio::time::Instant;

use super::{
    Ask, SourceError, SourceErrorKind,
    answer::{Document, excerpt, failure, is_write},
    request::unfit,
};
use crate::{
    execute::{
        canonical,
        catalog::{Operation, ToolsDigest},
    },
    mcp::{Age, Backend, Call, Cancel, Fault, Kind, Outcome, Reason},
    wire::{Method, Raw, params::Params},
};

/// Longest time for one call whose catalog does not say.
const WITHIN: Duration = Duration::from_secs(60);
/// Most definitions that are remembered.
const MOST_SEEN: usize = 10_000;

/// The upstreams that tools are called at.
pub trait Upstreams: Send + Sync + 'static {
    /// Who answers calls of that tool to a caller of that profile; `None`: nobody, or the profile does not have the tool.
    fn tool(&self, profile: &str, upstream: &str, tool: &str) -> Option<Arc<dyn Backend>>;

    /// The id of the upstream at that URL.
    fn at(&self, url: &str) -> Option<String>;
}

/// The tools of one source: where they are, and what was seen of their definitions.
pub(super) struct Tools {
    upstreams: Arc<dyn Upstreams>,
    upstream: String,
    on_change: ToolsDigest,
    within: Duration,
    seen: Mutex<HashMap<String, String>>,
}

impl Tools {
    pub fn new(
        upstreams: Arc<dyn Upstreams>,
        upstream: String,
        on_change: ToolsDigest,
        timeout_ms: Option<u64>,
    ) -> Tools {
        let within = timeout_ms.map_or(WITHIN, Duration::from_millis);
        Tools { upstreams, upstream, on_change, within, seen: Mutex::default() }
    }

    /// What the tool said, and what is to be told of its definition.
    pub async fn call(
        &self,
        ask: &Ask,
        operation: &Operation,
        tool: &str,
        arguments: Map<String, Json>,
    ) -> Result<(Document, Vec<String>), SourceError> {
        let upstream = &self.upstream;
        let backend = self.upstreams.tool(&ask.caller.profile, upstream, tool);
        let backend = backend.ok_or_else(|| {
            unfit(format!("upstream {upstream} does not offer {tool} here; an operator decides that"))
        })?;
        let deadline = Instant::now() + self.within;
        let late = || {
            failure(SourceErrorKind::Timeout, format!("upstream {upstream} did not answer in time"), false)
        };
        let warnings = tokio::time::timeout_at(deadline, self.definition(ask, &*backend, tool)).await;
        let warnings = warnings.map_err(|_| late())??;
        let raw = Raw::of(&json!({"name": tool, "arguments": arguments}));
        let call = Call {
            caller: ask.caller.clone(),
            method: Method::ToolsCall,
            params: Params::read(raw).map_err(unfit)?,
            progress: None,
            resume: None,
            trail: None,
            cancel: Cancel::never(),
            deadline,
            watch: None,
        };
        let outcome = async { backend.call(call).await.outcome().await };
        let write = is_write(operation);
        let outcome = tokio::time::timeout_at(deadline, outcome).await;
        match outcome.map_err(|_| SourceError { uncertain: write, ..late() })? {
            Outcome::Result(result) => Ok((read(operation, &result)?, warnings)),
            Outcome::InputRequired(_) => Err(unfit(format!(
                "{tool} asks its user for input before it goes on, which a program cannot give: call the tool itself"
            ))),
            Outcome::Error(fault) => Err(fallen(&fault, write)),
        }
    }

    /// Whether the tool's definition is the one first seen; what to tell where it is not.
    async fn definition(
        &self,
        ask: &Ask,
        backend: &dyn Backend,
        tool: &str,
    ) -> Result<Vec<String>, SourceError> {
        let listing = match backend.known(&ask.caller, Kind::Tool) {
            Some(listing) => listing,
            None => {
                let asked = backend.list(ask.caller.clone(), Kind::Tool, Age::Known).await;
                asked.map_err(|fault| fallen(&fault, false))?
            }
        };
        let Some(item) = listing.find(tool) else {
            return Err(unfit(format!("upstream {} has no tool {tool}", self.upstream)));
        };
        let body: Json = item.body.read().unwrap_or_default();
        let digest = canonical::sha256(&json!([body.get("inputSchema"), body.get("outputSchema")]));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MOST_SEEN && !seen.contains_key(tool) {
            return Ok(Vec::new());
        }
        let first = seen.entry(tool.to_owned()).or_insert_with(|| digest.clone());
        if *first == digest {
            return Ok(Vec::new());
        }
        let changed = format!(
            "upstream {} has changed what {tool} takes or gives since its catalog was read",
            self.upstream
        );
        match self.on_change {
            ToolsDigest::Warn => Ok(vec![changed]),
            ToolsDigest::Pin => {
                Err(unfit(format!("{changed}, and the catalog refuses that (tools_digest: pin)")))
            }
        }
    }
}

/// A tool's result by what locators start from. Errors: the tool failed.
fn read(operation: &Operation, result: &Raw) -> Result<Document, SourceError> {
    let write = is_write(operation);
    let result: Json = result.read().map_err(|_| {
        failure(SourceErrorKind::Shape, "the tool's result is no JSON that can be read", write)
    })?;
    let content = result.get("content").and_then(Json::as_array).into_iter().flatten();
    let mut texts =
        content.filter(|block| block["type"] == "text").filter_map(|block| block["text"].as_str());
    let first = texts.next();
    let text = first.map(|first| std::iter::once(first).chain(texts).collect::<Vec<_>>().join("\n"));
    if result.get("isError") == Some(&Json::Bool(true)) {
        let said = excerpt(text.as_deref().unwrap_or("it does not say why"));
        // A tool that says it failed may have done a part.
        return Err(failure(SourceErrorKind::Status, format!("the tool failed: {said}"), write));
    }
    Ok(Document {
        json: result.get("structuredContent").filter(|structured| !structured.is_null()).cloned(),
        json_text: first.and_then(|first| serde_json::from_str(first).ok()),
        text: text.map(Json::String),
    })
}

/// What a call's fault is to whoever wrote the program.
fn fallen(fault: &Fault, write: bool) -> SourceError {
    let reason = match fault {
        Fault::Upstream(error) => {
            let error: Json = error.read().unwrap_or_default();
            let said = excerpt(error["message"].as_str().unwrap_or("it does not say why"));
            // It was not begun where it could not be read or is not known (JSON-RPC 2.0, 5.1); any other may have done a part.
            let unread = matches!(error["code"].as_i64(), Some(-32700 | -32602..=-32600));
            let uncertain = write && !unread;
            return failure(
                SourceErrorKind::Status,
                format!("the upstream refused the call: {said}"),
                uncertain,
            );
        }
        Fault::Ours(reason) => reason,
    };
    let (kind, uncertain) = match reason {
        Reason::Connect { .. }
        | Reason::Credential { .. }
        | Reason::Insufficient { .. }
        | Reason::MissingScope(_) => (SourceErrorKind::Auth, false),
        Reason::Busy { .. } | Reason::Full | Reason::Crowded => (SourceErrorKind::Rate(None), false),
        Reason::Unreachable { .. } | Reason::StoreAway => (SourceErrorKind::Timeout, false),
        Reason::Timeout { .. } | Reason::OutcomeUnknown { .. } | Reason::Lost { .. } | Reason::Cancelled => {
            (SourceErrorKind::Timeout, write)
        }
        Reason::TooLarge { .. } => (SourceErrorKind::TooLarge, write),
        Reason::Garbage { .. } => (SourceErrorKind::Shape, write),
        _ => (SourceErrorKind::Status, false),
    };
    failure(kind, reason.to_string(), uncertain)
}
