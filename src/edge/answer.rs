//! What an outcome looks like on the wire: JSON-RPC codes and HTTP statuses by era, in this one place.

use crate::mcp::{Fault, Outcome, Reason, Scopes};
use crate::wire::{Era, Method, Raw, Version, code, json};
use http::StatusCode;
use serde_json::{Value, json as value};

/// A rendered outcome: the HTTP status where the answer is one JSON body, and the result or error.
pub struct Rendered {
    pub status: StatusCode,
    pub outcome: Result<Raw, Raw>,
}

impl Rendered {
    fn ok(result: Raw) -> Rendered {
        Rendered { status: StatusCode::OK, outcome: Ok(result) }
    }

    fn error(status: StatusCode, error: Raw) -> Rendered {
        Rendered { status, outcome: Err(error) }
    }

    pub fn as_ref(&self) -> Result<&Raw, &Raw> {
        self.outcome.as_ref()
    }

    /// The JSON-RPC code of an error.
    pub fn code(&self) -> Option<i64> {
        self.outcome.as_ref().err().and_then(code_of).map(i64::from)
    }
}

/// The scopes that the caller of this outcome lacks, where that is all that is wrong.
pub fn lacks(outcome: &Outcome) -> Option<&Scopes> {
    match outcome {
        Outcome::Error(Fault::Ours(Reason::MissingScope(scopes))) => Some(scopes),
        _ => None,
    }
}

/// Renders the outcome of `method` for a client that speaks `version`. Results pass as they are (what a modern client
/// needs in them is filled in by [`fill`](super::fill)); `InputRequired` must have been resealed before.
pub fn render(version: Version, method: &Method, outcome: Outcome) -> Rendered {
    match outcome {
        Outcome::Result(result) => Rendered::ok(result),
        Outcome::InputRequired(asked) if version.era() == Era::Modern => Rendered::ok(asked.result),
        // A legacy client cannot take it, and its turn to be asked has passed.
        Outcome::InputRequired(asked) => {
            ours(version, method, Reason::CannotBridge { upstream: asked.upstream, ask: Method::Elicit })
        }
        Outcome::Error(Fault::Upstream(error)) => upstream_error(version, method, error),
        Outcome::Error(Fault::Ours(reason)) => ours(version, method, reason),
    }
}

fn ours(version: Version, method: &Method, reason: Reason) -> Rendered {
    let modern = version.era() == Era::Modern;
    let (status, code) = match &reason {
        Reason::MethodNotFound if modern => (StatusCode::NOT_FOUND, code::METHOD_NOT_FOUND),
        Reason::MethodNotFound => (StatusCode::OK, code::METHOD_NOT_FOUND),
        Reason::UnknownResource(_) if !modern => (StatusCode::OK, code::RESOURCE_NOT_FOUND),
        Reason::InvalidParams(_)
        | Reason::UnknownTool(_)
        | Reason::UnknownPrompt(_)
        | Reason::UnknownResource(_)
        | Reason::BadCursor
        | Reason::BadState => (StatusCode::OK, code::INVALID_PARAMS),
        Reason::HeaderMismatch(_) if modern => (StatusCode::BAD_REQUEST, code::HEADER_MISMATCH),
        Reason::MissingCapability(_) if modern => (StatusCode::BAD_REQUEST, code::MISSING_CAPABILITY),
        Reason::MissingScope(_) => (StatusCode::FORBIDDEN, code::refused(403)),
        Reason::Connect { by_url: true, .. } if !modern => (StatusCode::OK, code::URL_ELICITATION),
        Reason::Crowded => (StatusCode::TOO_MANY_REQUESTS, code::refused(429)),
        Reason::StoreAway | Reason::Full => (StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL),
        _ if *method == Method::ToolsCall => return Rendered::ok(tool_error(&reason)),
        _ => (StatusCode::OK, code::INTERNAL),
    };
    Rendered::error(status, error_object(code, &reason.to_string(), data_of(&reason)))
}

/// A failed tool call as a result: a model reads it and can act on it; an error would be the host's business.
fn tool_error(reason: &Reason) -> Raw {
    let facts = facts(reason);
    Raw::of(&value!({
        "content": [{"type": "text", "text": reason.to_string()}],
        "isError": true,
        "_meta": {"plasm/error": facts},
    }))
}

fn facts(reason: &Reason) -> Value {
    let mut facts = value!({"reason": reason.word(), "retryable": reason.is_retryable()});
    if let Some(upstream) = reason.upstream() {
        facts["upstream"] = upstream.as_str().into();
    }
    match reason {
        Reason::MissingScope(scopes) => facts["scopes"] = scopes.iter().collect(),
        Reason::Refused(ruling) | Reason::NeedsApproval(ruling) | Reason::Unapproved(ruling) => {
            facts["by"] = (*ruling.by).into();
            facts["why"] = ruling.why.as_str().into();
            if let Some(instead) = &ruling.instead {
                facts["instead"] = instead.as_str().into();
            }
        }
        Reason::Connect { url, .. } => facts["url"] = (**url).into(),
        _ => {}
    }
    facts
}

fn data_of(reason: &Reason) -> Option<Value> {
    match reason {
        Reason::MissingCapability(required) => {
            Some(value!({"requiredCapabilities": required.read::<Value>().unwrap_or_default()}))
        }
        Reason::Connect { upstream, url, by_url: true } => {
            // The last part of the link tells it from any other.
            let id = url.rsplit('/').next().map(|sealed| sealed.chars().rev().take(24).collect::<String>());
            let message = super::connect::message(upstream);
            let asked = value!({"mode": "url", "elicitationId": id, "url": **url, "message": message});
            let mut data = facts(reason);
            data["elicitations"] = value!([asked]);
            Some(data)
        }
        Reason::UnknownResource(uri) => Some(value!({"uri": uri, "reason": reason.word()})),
        _ => Some(facts(reason)),
    }
}

/// An upstream's error passes as it is, but for codes that mean something else, or nothing, to the client's era
/// (PROTOCOL, *reserved codes between eras*).
fn upstream_error(version: Version, method: &Method, error: Raw) -> Rendered {
    let modern = version.era() == Era::Modern;
    match (code_of(&error), modern) {
        (Some(code::METHOD_NOT_FOUND), true) if *method != Method::ToolsCall => {
            Rendered::error(StatusCode::NOT_FOUND, error)
        }
        (Some(code::MISSING_CAPABILITY), true) => Rendered::error(StatusCode::BAD_REQUEST, error),
        (Some(code::RESOURCE_NOT_FOUND), true) => {
            Rendered::error(StatusCode::OK, recoded(&error, code::INVALID_PARAMS))
        }
        (
            Some(
                code::SESSION_NOT_FOUND
                | code::URL_ELICITATION
                | code::HEADER_MISMATCH
                | code::UNSUPPORTED_VERSION,
            ),
            true,
        )
        | (
            Some(
                code::HEADER_MISMATCH
                | code::MISSING_CAPABILITY
                | code::UNSUPPORTED_VERSION
                | code::SESSION_NOT_FOUND,
            ),
            false,
        ) => {
            let original = error.read::<Value>().unwrap_or_default();
            let why = "the upstream answered with an error that does not apply to this client";
            let data = value!({"reason": "upstream_error", "error": original});
            Rendered::error(StatusCode::OK, error_object(code::INTERNAL, why, Some(data)))
        }
        _ => Rendered::error(StatusCode::OK, error),
    }
}

fn code_of(error: &Raw) -> Option<i32> {
    let text = error.text();
    let member = json::lax_members(text, 0).ok()?.into_iter().find(|m| m.is("code"))?;
    std::str::from_utf8(&text[member.value.start as usize..member.value.end as usize]).ok()?.parse().ok()
}

fn recoded(error: &Raw, code: i32) -> Raw {
    let mut error = error.clone();
    let found = json::lax_members(error.text(), 0)
        .ok()
        .and_then(|members| members.into_iter().find(|m| m.is("code")).map(|m| m.value));
    if let Some(span) = found {
        error.edit(span, code.to_string());
    }
    error
}

/// A JSON-RPC error object of ours.
pub fn error_object(code: i32, message: &str, data: Option<Value>) -> Raw {
    let mut object = value!({"code": code, "message": message});
    if let Some(data) = data {
        object["data"] = data;
    }
    Raw::of(&object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::{Ruling, UpstreamId};

    fn shown(version: Version, method: &Method, outcome: Outcome) -> (u16, String) {
        let rendered = render(version, method, outcome);
        let text = match &rendered.outcome {
            Ok(raw) | Err(raw) => String::from_utf8(raw.to_bytes().to_vec()).unwrap(),
        };
        (rendered.status.as_u16(), text)
    }

    #[test]
    fn one_fault_looks_as_each_era_and_method_wants_it() {
        let (old, new) = (Version::V2025_11_25, Version::V2026_07_28);
        let up = UpstreamId::new("files").unwrap();
        let gone =
            || Outcome::Error(Reason::Unreachable { upstream: up.clone(), why: "refused".into() }.into());
        let uri = || Outcome::Error(Reason::UnknownResource("x:y".into()).into());
        let theirs = |text: &'static str| Outcome::Error(Fault::Upstream(Raw::trusted(text)));
        let scope = || Outcome::Error(Reason::MissingScope(Scopes::read("b a")).into());
        let refused = || {
            let ruling = Ruling { by: "r".into(), why: "no".into(), instead: Some("Ask ops".into()) };
            Outcome::Error(Reason::Refused(Box::new(ruling)).into())
        };
        let table = [
            (new, Method::ToolsCall, gone(), 200, "\"isError\":true"),
            (old, Method::ResourcesRead, gone(), 200, "\"code\":-32603"),
            (new, Method::ResourcesRead, uri(), 200, "\"code\":-32602"),
            (old, Method::ResourcesRead, uri(), 200, "\"code\":-32002"),
            (new, Method::Other("x".into()), Outcome::Error(Reason::MethodNotFound.into()), 404, "-32601"),
            (old, Method::Other("x".into()), Outcome::Error(Reason::MethodNotFound.into()), 200, "-32601"),
            (new, Method::ToolsCall, Outcome::Error(Reason::StoreAway.into()), 503, "-32603"),
            (old, Method::ToolsCall, Outcome::Error(Reason::Full.into()), 503, "\"retryable\":true"),
            (new, Method::ToolsCall, scope(), 403, r#""scopes":["a","b"]"#),
            (old, Method::PromptsGet, scope(), 403, r#""reason":"insufficient_scope""#),
            (old, Method::ToolsCall, refused(), 200, r#""instead":"Ask ops""#),
            (
                new,
                Method::ResourcesRead,
                theirs(r#"{"code":-32002,"message":"m","x":1.0}"#),
                200,
                r#"{"code":-32602,"message":"m","x":1.0}"#,
            ),
            (old, Method::ToolsCall, theirs(r#"{"code":-32021,"message":"m"}"#), 200, "\"code\":-32603"),
            (
                new,
                Method::ToolsCall,
                theirs(r#"{"code":-32021,"message":"m"}"#),
                400,
                r#"{"code":-32021,"message":"m"}"#,
            ),
            (
                new,
                Method::ToolsCall,
                theirs(r#"{ "code" : 7, "message":"m" }"#),
                200,
                r#"{ "code" : 7, "message":"m" }"#,
            ),
        ];
        for (version, method, outcome, status, part) in table {
            let (got, text) = shown(version, &method, outcome);
            assert!(got == status && text.contains(part), "{version} {method:?}: {got} {text}");
        }
    }
}
