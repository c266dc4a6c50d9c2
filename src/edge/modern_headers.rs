//! The headers of a modern request, held against its body (2026-07-28 transports, *Server Validation*).

use super::gate::Rules;
use super::said::Said;
use crate::mcp::{Backend, Caller, Kind};
use crate::wire::headers::{self, HeaderError};
use crate::wire::params::Params;
use crate::wire::{Era, Id, Method, Raw, Span, Version, code, envelope, param_headers};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;
use std::borrow::Cow;

/// A fault in the request's own form: always HTTP 400.
#[derive(Debug)]
pub struct Misformed {
    pub code: i32,
    pub why: String,
    pub data: Option<serde_json::Value>,
}

impl Misformed {
    /// The error response to the request.
    pub fn message(self, id: Option<&Id>) -> Bytes {
        let error = super::answer::error_object(self.code, &self.why, self.data);
        envelope::write_response(id, Err(&error))
    }
}

fn mismatch(why: impl Into<String>) -> Misformed {
    Misformed { code: code::HEADER_MISMATCH, why: why.into(), data: None }
}

fn params_fault(why: impl Into<String>) -> Misformed {
    Misformed { code: code::INVALID_PARAMS, why: why.into(), data: None }
}

/// The version of a modern request, once its `_meta` and version header are in order. The second value tells that
/// header and body differed and the configuration says to follow the body.
pub fn version(rules: &Rules, said: &Said<'_>, params: &Params) -> Result<(Version, bool), Misformed> {
    let header = said.version();
    let newest = Version::MODERN.as_str();
    if header == Ok(Some(newest)) && params.meta.as_ref().is_some_and(|m| reads(params, &m.version, newest)) {
        return Ok((described(params, Version::MODERN)?, false));
    }
    let stated = stated(params)?;
    let header = match header {
        Ok(Some(header)) => header,
        Ok(None) => return Err(mismatch("the MCP-Protocol-Version header is missing")),
        Err(e) => return Err(mismatch(format!("MCP-Protocol-Version: {e}"))),
    };
    let legacy_header = || Version::parse(header).is_some_and(|v| v.era() == Era::Legacy);
    let mixed = header != stated;
    if mixed && !(rules.follow_meta && legacy_header()) {
        return Err(mismatch("MCP-Protocol-Version differs from the version in _meta"));
    }
    Ok((known(params, &stated)?, mixed))
}

/// The version of a modern request by its `_meta` alone, which must be in order: what decides where there are no headers.
pub fn spoken(params: &Params) -> Result<Version, Misformed> {
    known(params, &stated(params)?)
}

/// The version that `_meta` states, where the rest of it is in order too.
fn known(params: &Params, stated: &str) -> Result<Version, Misformed> {
    let version = Version::parse(stated).filter(|v| v.era() == Era::Modern).ok_or_else(|| Misformed {
        code: code::UNSUPPORTED_VERSION,
        why: "unsupported protocol version".into(),
        data: Some(json!({"supported": Version::ALL.map(|v| v.as_str()), "requested": stated})),
    })?;
    described(params, version)
}

/// The version of a request, where its `_meta` says what the client can do.
fn described(params: &Params, version: Version) -> Result<Version, Misformed> {
    match params.meta.as_ref().and_then(|meta| meta.capabilities.as_ref()) {
        Some(span) if params.raw.text()[span.start as usize] == b'{' => Ok(version),
        _ => Err(params_fault(format!("_meta must carry an object {:?}", crate::wire::meta::CAPABILITIES))),
    }
}

fn stated(params: &Params) -> Result<Cow<'_, str>, Misformed> {
    let meta = params.meta.as_ref().ok_or_else(|| params_fault("_meta is missing"))?;
    meta.version
        .as_ref()
        .and_then(|span| params.raw.string(span))
        .ok_or_else(|| params_fault(format!("_meta must carry a string {:?}", crate::wire::meta::VERSION)))
}

/// Whether the string at `span` is this one, and written as it is: what nearly all are.
fn reads(params: &Params, span: &Option<Span>, text: &str) -> bool {
    let Some(span) = span else { return false };
    let token = &params.raw.text()[span.start as usize..span.end as usize];
    matches!(token, [b'"', plain @ .., b'"'] if plain == text.as_bytes()) && !text.contains('\\')
}

/// `Mcp-Method` and `Mcp-Name` against the body. `lenient` (a mixed version header that is followed) lets them be
/// absent, never different.
pub fn names(said: &Said<'_>, method: &Method, params: &Params, lenient: bool) -> Result<(), Misformed> {
    match said.method() {
        Ok(Some(header)) if header == method.as_str() => {}
        Ok(None) if lenient => {}
        Ok(None) => return Err(mismatch("the Mcp-Method header is missing")),
        Ok(Some(_)) => return Err(mismatch("Mcp-Method differs from the method in the body")),
        Err(e) => return Err(mismatch(format!("Mcp-Method: {e}"))),
    }
    let (field, what) = match method {
        Method::ToolsCall | Method::PromptsGet => (&params.name, "name"),
        Method::ResourcesRead => (&params.uri, "uri"),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => (&params.task_id, "taskId"),
        _ => return Ok(()),
    };
    let header = said.name();
    if let Ok(Some(header)) = &header
        && reads(params, field, header)
    {
        return Ok(());
    }
    let body =
        params.string(field).ok_or_else(|| params_fault(format!("params must carry a string {what:?}")))?;
    match header {
        Ok(Some(header)) if header == body => Ok(()),
        Ok(None) if lenient => Ok(()),
        Ok(None) => Err(mismatch("the Mcp-Name header is missing")),
        Ok(Some(_)) => Err(mismatch(format!("Mcp-Name differs from params.{what}"))),
        Err(e @ (HeaderError::Differing | HeaderError::Malformed)) => Err(mismatch(format!("Mcp-Name: {e}"))),
    }
}

/// `Mcp-Param-*` against the arguments of a tool whose schema asks for them. Lists where the tool is not known yet.
pub async fn params(
    backend: &dyn Backend,
    caller: &std::sync::Arc<Caller>,
    map: &HeaderMap,
    params: &Params,
    lenient: bool,
) -> Result<(), Misformed> {
    let known = match backend.known(caller, Kind::Tool) {
        Some(known) => Some(known),
        None => backend.list(caller.clone(), Kind::Tool, crate::mcp::Age::Known).await.ok(),
    };
    let Some(known) = known.filter(|known| known.bears_headers()) else { return Ok(()) };
    let item = params.name().and_then(|name| known.find(&name));
    let Some(item) = item.filter(|item| !item.headers.is_empty()) else {
        return Ok(());
    };
    let arguments =
        params.arguments.as_ref().map_or_else(|| Raw::trusted("{}"), |span| params.raw.part(span));
    for param in item.headers.iter() {
        let shown = &param.header;
        let header = headers::decoded(map, shown).map_err(|e| mismatch(format!("{shown}: {e}")))?;
        match (header, param_headers::argument(&arguments, &param.path)) {
            (None, None) => {}
            (Some(header), Some(argument)) if param_headers::agree(&header, &argument) => {}
            (None, Some(_)) if lenient => {}
            (None, Some(_)) => return Err(mismatch(format!("{shown} is missing"))),
            (Some(_), _) => return Err(mismatch(format!("{shown} differs from the argument"))),
        }
    }
    Ok(())
}
