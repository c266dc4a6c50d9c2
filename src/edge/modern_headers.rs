//! The headers of a modern request, held against its body (2026-07-28 transports, *Server Validation*).

use super::gate::Rules;
use super::said::Said;
use crate::mcp::Listing;
use crate::wire::headers::{self, HeaderError};
use crate::wire::params::Params;
use crate::wire::{Era, Id, Method, Raw, Span, Version, code, envelope, param_headers};
use bytes::Bytes;
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
    // As nearly all write it.
    if said.is_version(Version::MODERN)
        && let [b'"', stated @ .., b'"'] =
            token(params, params.meta.as_ref().and_then(|m| m.version.as_ref()))
        && stated == Version::MODERN.as_str().as_bytes()
    {
        return Ok((described(params, Version::MODERN)?, false));
    }
    let stated = stated(params)?;
    let header = match said.version() {
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

/// What stands at `span`, as it is written.
fn token<'a>(params: &'a Params, span: Option<&Span>) -> &'a [u8] {
    span.map_or(&[], |span| &params.raw.text()[span.start as usize..span.end as usize])
}

/// `Mcp-Method` and `Mcp-Name` against the body. `lenient` (a mixed version header that is followed) lets them be
/// absent, never different.
pub fn names(said: &Said<'_>, method: &Method, params: &Params, lenient: bool) -> Result<(), Misformed> {
    if !said.is_method(method) {
        match said.method() {
            Ok(Some(header)) if header == method.as_str() => {}
            Ok(None) if lenient => {}
            Ok(None) => return Err(mismatch("the Mcp-Method header is missing")),
            Ok(Some(_)) => return Err(mismatch("Mcp-Method differs from the method in the body")),
            Err(e) => return Err(mismatch(format!("Mcp-Method: {e}"))),
        }
    }
    let (field, what) = match method {
        Method::ToolsCall | Method::PromptsGet => (&params.name, "name"),
        Method::ResourcesRead => (&params.uri, "uri"),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => (&params.task_id, "taskId"),
        _ => return Ok(()),
    };
    if let [b'"', name @ .., b'"'] = token(params, field.as_ref())
        && said.is_name(name)
    {
        return Ok(());
    }
    let body =
        params.string(field).ok_or_else(|| params_fault(format!("params must carry a string {what:?}")))?;
    match said.name() {
        Ok(Some(header)) if header == body => Ok(()),
        Ok(None) if lenient => Ok(()),
        Ok(None) => Err(mismatch("the Mcp-Name header is missing")),
        Ok(Some(_)) => Err(mismatch(format!("Mcp-Name differs from params.{what}"))),
        Err(e @ (HeaderError::Differing | HeaderError::Malformed)) => Err(mismatch(format!("Mcp-Name: {e}"))),
    }
}

/// `Mcp-Param-*` against the arguments of a tool whose schema, as these tools are known, asks for them.
pub fn params(known: &Listing, said: &Said<'_>, params: &Params, lenient: bool) -> Result<(), Misformed> {
    if !known.bears_headers() {
        return Ok(());
    }
    let item = params.name().and_then(|name| known.find(&name));
    let Some(item) = item.filter(|item| !item.headers.is_empty()) else {
        return Ok(());
    };
    let arguments =
        params.arguments.as_ref().map_or_else(|| Raw::trusted("{}"), |span| params.raw.part(span));
    for param in item.headers.iter() {
        let shown = &param.header;
        let header = headers::decoded(said.map(), shown).map_err(|e| mismatch(format!("{shown}: {e}")))?;
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
