//! From an answer to rows: where they lie, what a status means, what a GraphQL or MCP answer says of a failure. No I/O.

use http::{HeaderMap, StatusCode, header};
use serde_json::Value as Json;
use std::time::Duration;

use super::{SourceError, SourceErrorKind};
use crate::execute::catalog::{Hop, Kind, Locator, Operation, Root};

/// Longest excerpt of what a source says of a failure, in characters.
const EXCERPT: usize = 300;

/// What a source answered, by what locators start from.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// The JSON of the answer; of a tool's result its `structuredContent`.
    pub json: Option<Json>,
    /// Of a tool's result: the JSON in its first text.
    pub json_text: Option<Json>,
    /// Of a tool's result: its texts.
    pub text: Option<Json>,
}

impl Document {
    fn root(&self, root: Root) -> Option<&Json> {
        match root {
            Root::Document => self.json.as_ref().or(self.json_text.as_ref()),
            Root::Structured => self.json.as_ref(),
            Root::JsonText => self.json_text.as_ref(),
            Root::Text => self.text.as_ref(),
        }
    }

    /// What lies there, or null.
    pub fn value(&self, at: &Locator) -> Json {
        self.root(at.root).map(|root| at.value(root)).unwrap_or_default()
    }
}

pub(super) fn failure(kind: SourceErrorKind, message: impl Into<String>, uncertain: bool) -> SourceError {
    SourceError { kind, message: message.into(), uncertain }
}

/// Whether the operation changes anything.
pub(super) fn is_write(operation: &Operation) -> bool {
    use crate::execute::catalog::EffectClass::Read;
    !operation.kind.is_read() && operation.effect.as_ref().is_none_or(|effect| effect.class != Read)
}

/// The rows of an answer that was given, or its one row.
pub(super) fn rows(operation: &Operation, document: &Document) -> Result<Vec<Json>, SourceError> {
    let Some(at) = operation.locator() else { return Ok(Vec::new()) };
    let many = matches!(operation.kind, Kind::Query | Kind::Search);
    let wrong = || {
        let what = if many { "rows" } else { "row" };
        let message = format!("the answer has no {what} at {at}, where the catalog says");
        Err(failure(SourceErrorKind::Shape, message, is_write(operation)))
    };
    let Some(root) = document.root(at.root) else {
        // A write that is answered with nothing was carried out.
        return if is_write(operation) && nothing(document) { Ok(Vec::new()) } else { wrong() };
    };
    if !many {
        return match at.value(root) {
            Json::Null if operation.kind == Kind::Get => {
                Err(failure(SourceErrorKind::NotFound, "there is no such thing", false))
            }
            Json::Null => wrong(),
            row => Ok(vec![row]),
        };
    }
    // What should hold the rows is there, or is null: an empty list in some languages.
    let before = at.hops.iter().position(|hop| *hop == Hop::Each).unwrap_or(at.hops.len());
    let holder = at.hops[..before].iter().try_fold(root, |value, hop| match hop {
        Hop::Key(key) => value.get(key),
        Hop::Each => None,
    });
    match (holder, at.is_many()) {
        (Some(Json::Null), _) => Ok(Vec::new()),
        (Some(Json::Array(_) | Json::Object(_)), true) | (Some(Json::Array(_)), false) => {
            match at.value(root) {
                Json::Array(rows) => Ok(rows),
                _ => wrong(),
            }
        }
        _ => wrong(),
    }
}

fn nothing(document: &Document) -> bool {
    document.json.is_none() && document.json_text.is_none()
}

/// What a status says that is no success.
pub(super) fn status(
    operation: &Operation,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> SourceError {
    let write = is_write(operation);
    let wait = retry_after(headers);
    let spent = headers.get("x-ratelimit-remaining").is_some_and(|left| left == "0");
    let (kind, uncertain) = match status.as_u16() {
        404 | 410 if operation.kind == Kind::Get => (SourceErrorKind::NotFound, false),
        429 => (SourceErrorKind::Rate(wait), false),
        403 if spent || wait.is_some() => (SourceErrorKind::Rate(wait), false),
        401 | 403 | 407 => (SourceErrorKind::Auth, false),
        408 => (SourceErrorKind::Timeout, false),
        503 if wait.is_some() => (SourceErrorKind::Rate(wait), write),
        504 => (SourceErrorKind::Timeout, write),
        501 => (SourceErrorKind::Status, false),
        500.. => (SourceErrorKind::Status, write),
        // Where it leads to is what became of it.
        301..=303 => (SourceErrorKind::Status, write),
        _ => (SourceErrorKind::Status, false),
    };
    let said = said(body).map(|said| format!(": {said}")).unwrap_or_default();
    let reason = status.canonical_reason().map(|reason| format!(" {reason}")).unwrap_or_default();
    failure(kind, format!("the source answered {}{reason}{said}", status.as_u16()), uncertain)
}

/// `Retry-After` in seconds (RFC 9110 10.2.3); dates are as good as none.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// What an error's body says, in the words that APIs have for it.
fn said(body: &[u8]) -> Option<String> {
    let json: Json = serde_json::from_slice(body).ok()?;
    let at = |value: &Json, key: &str| value.get(key).and_then(Json::as_str).map(str::to_owned);
    let keys = ["message", "detail", "error_description", "title", "error", "reason"];
    let found = keys.iter().find_map(|key| at(&json, key));
    found.or_else(|| at(json.get("error")?, "message")).map(|text| excerpt(&text))
}

/// A stranger's words, on one line and not too many.
pub(super) fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What the `errors` say of a GraphQL request whose status is no success, where they say more than that status: some servers
/// refuse what is too much, or a login, with 400.
pub(super) fn graphql_refused(operation: &Operation, body: &[u8]) -> Option<SourceError> {
    operation.graphql.as_ref()?;
    let error = graphql_errors(operation, &serde_json::from_slice(body).ok()?)?;
    (error.kind != SourceErrorKind::Status).then_some(error)
}

/// What the `errors` of a GraphQL answer say. `None`: there are none.
pub(super) fn graphql_errors(operation: &Operation, json: &Json) -> Option<SourceError> {
    let errors = match json.get("errors")? {
        Json::Null => return None,
        Json::Array(errors) if errors.is_empty() => return None,
        Json::Array(errors) => errors.clone(),
        other => vec![other.clone()],
    };
    let text = |key: &str| errors.iter().filter_map(|error| error.get(key)?.as_str()).collect::<Vec<_>>();
    let codes: Vec<String> = errors
        .iter()
        .filter_map(|error| error.get("extensions").and_then(|more| more.get("code")).or(error.get("type")))
        .filter_map(|code| code.as_str().map(str::to_ascii_uppercase))
        .collect();
    let has = |names: &[&str]| codes.iter().any(|code| names.contains(&code.as_str()));
    // A field that failed may stand beside others that were carried out.
    let data = json.get("data").is_some_and(|data| !data.is_null());
    let kind = match () {
        () if has(&["RATE_LIMITED", "RATELIMITED", "THROTTLED"]) => SourceErrorKind::Rate(None),
        () if has(&["UNAUTHENTICATED", "AUTHENTICATION_ERROR", "FORBIDDEN"]) => SourceErrorKind::Auth,
        () if has(&["NOT_FOUND"]) && operation.kind == Kind::Get => SourceErrorKind::NotFound,
        () => SourceErrorKind::Status,
    };
    let said = excerpt(&text("message").join("; "));
    Some(failure(kind, format!("the source answered with errors: {said}"), is_write(operation) && data))
}
