//! A request as its hop wants it: our id and progress token, the other era's fields added or taken away, and what a
//! multi-round retry brings. All other bytes pass as they came.

use super::begin::Job;
use super::declared::Declared;
use super::{Arc, Inner, Method, Version, ids};
use crate::mcp::{Caller, Resume};
use crate::upstream::transport::Outgoing;
use crate::wire::meta::{self, Meta};
use crate::wire::params::Params;
use crate::wire::{Id, Raw, json};
use bytes::Bytes;

impl Inner {
    /// The request of a job at a modern or legacy hop. `level`: what a legacy caller asked for by `logging/setLevel`.
    pub(super) fn dress(&self, job: &Job, modern: bool, level: Option<&str>) -> Outgoing {
        let id = ids::next();
        let params = match modern {
            true => self.modern_params(job, &id, level),
            false => legacy_params(&job.params, &id),
        };
        let progress = job.params.meta.as_ref().and_then(|meta| meta.progress_token.as_ref());
        Outgoing {
            progress: progress.is_some().then(|| id.to_bytes()),
            id,
            method: job.method.clone(),
            params,
            name: job.name.clone().filter(|_| modern),
            trail: job.trail.clone(),
            deadline: job.deadline,
        }
    }

    fn modern_params(&self, job: &Job, id: &Id, level: Option<&str>) -> Raw {
        let params = &job.params;
        let mut raw = params.raw.clone();
        set_token(&mut raw, params.meta.as_ref(), id);
        if let Some(resume) = &job.resume {
            raw = resumed(raw, params, resume);
        }
        if params.meta.as_ref().is_some_and(Meta::is_modern) {
            return raw;
        }
        let mut members = own_meta(&self.declared(&job.caller));
        if let Some(level) = level {
            members.push((meta::LOG_LEVEL, json::quote(level).into()));
        }
        let mut params = params.clone();
        params.raw = raw;
        if params.meta.is_none() && memchr::memmem::find(params.raw.text(), b"\"_meta\"").is_some() {
            // `"_meta":null` is none; a second one beside it would be two.
            params = Params::read(params.raw.without(&["_meta"])).unwrap_or(params);
        }
        params.add_meta(&members);
        params.raw.clone()
    }

    /// Who we are to a modern upstream on behalf of a caller that does not say so in its own request.
    fn declared(&self, caller: &Caller) -> Declared {
        if self.config.stateless { Declared::ourselves() } else { Declared::of(caller) }
    }
}

/// The fields that each modern request bears (2026-07-28 basic, *_meta*).
fn own_meta(declared: &Declared) -> Vec<(&'static str, Bytes)> {
    vec![
        (meta::VERSION, json::quote(Version::MODERN.as_str()).into()),
        (meta::CLIENT_INFO, declared.info.clone()),
        (meta::CAPABILITIES, declared.capabilities.clone()),
    ]
}

fn set_token(raw: &mut Raw, meta: Option<&Meta>, id: &Id) {
    if let Some(span) = meta.and_then(|meta| meta.progress_token.clone()) {
        raw.edit(span, id.to_bytes());
    }
}

/// Puts the upstream's own state where ours travelled, and the answers where the caller could not put them itself.
fn resumed(mut raw: Raw, params: &Params, resume: &Resume) -> Raw {
    match (&params.state, &resume.state) {
        (Some(span), Some(state)) => raw.edit(span.clone(), state.clone()),
        (None, Some(state)) => raw.insert_member(0, "requestState", state),
        // The upstream gave no state: the member that bore ours must not reach it.
        (Some(_), None) => {
            let mut raw = raw.without(&["requestState"]);
            if params.answers.is_none() {
                raw.insert_member(0, "inputResponses", &resume.answers.to_bytes());
            }
            return raw;
        }
        (None, None) => {}
    }
    if params.answers.is_none() {
        raw.insert_member(0, "inputResponses", &resume.answers.to_bytes());
    }
    raw
}

/// What a legacy upstream gets: nothing of the modern era's own fields.
fn legacy_params(params: &Params, id: &Id) -> Raw {
    let modern = params.meta.as_ref().is_some_and(Meta::is_modern);
    if !modern && params.state.is_none() && params.answers.is_none() {
        let mut raw = params.raw.clone();
        set_token(&mut raw, params.meta.as_ref(), id);
        return raw;
    }
    let plain = params.raw.without(&["requestState", "inputResponses"]);
    let Ok(mut plain) = Params::read(plain.clone()) else { return plain };
    if let Some(meta) = &plain.meta {
        let mut kept = Raw::trusted(meta.without_protocol(plain.raw.text()));
        let text = kept.text().clone();
        let token =
            json::lax_members(&text, 0).unwrap_or_default().into_iter().find(|m| m.is("progressToken"));
        if let Some(token) = token {
            kept.edit(token.value, id.to_bytes());
        }
        let whole = meta.whole.clone();
        plain.raw.edit(whole, kept.to_bytes());
    }
    plain.raw.clone()
}

/// What `Mcp-Name` mirrors: the name, URI or task id as it goes upstream.
pub(super) fn name(method: &Method, params: &Params) -> Option<Arc<str>> {
    let span = match method {
        Method::ToolsCall | Method::PromptsGet => &params.name,
        Method::ResourcesRead => &params.uri,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => &params.task_id,
        _ => return None,
    };
    params.raw.written_string(span.as_ref()?).map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Params {
        Params::read(Raw::trusted(text)).unwrap()
    }

    fn id() -> Id {
        Id::of_str("our-1")
    }

    #[test]
    fn a_legacy_upstream_gets_none_of_the_modern_fields_and_our_token() {
        let params = read(
            r#"{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":7,"x":1},"arguments":{"z":1.0},"requestState":"s","inputResponses":{}}"#,
        );
        assert_eq!(
            legacy_params(&params, &id()).to_bytes(),
            r#"{"name":"t","_meta":{"progressToken":"our-1","x":1},"arguments":{"z":1.0}}"#
        );
        let params = read(r#"{ "name":"t", "_meta":{"progressToken":"a"} }"#);
        assert_eq!(
            legacy_params(&params, &id()).to_bytes(),
            r#"{ "name":"t", "_meta":{"progressToken":"our-1"} }"#
        );
    }

    #[test]
    fn a_retry_bears_the_upstreams_own_state() {
        let resume = |state: Option<&'static str>| Resume {
            upstream: crate::mcp::UpstreamId::new("up").unwrap(),
            state: state.map(Bytes::from),
            answers: Raw::trusted(r#"{"k":{}}"#),
        };
        let modern = read(r#"{"name":"t","requestState":"sealed","inputResponses":{"k":{}}}"#);
        let legacy = read(r#"{"name":"t"}"#);
        let table = [
            (&modern, Some(r#""own""#), r#"{"name":"t","requestState":"own","inputResponses":{"k":{}}}"#),
            (&modern, None, r#"{"name":"t","inputResponses":{"k":{}}}"#),
            (&legacy, Some(r#""own""#), r#"{"requestState":"own","inputResponses":{"k":{}},"name":"t"}"#),
            (&legacy, None, r#"{"inputResponses":{"k":{}},"name":"t"}"#),
        ];
        for (params, state, want) in table {
            assert_eq!(resumed(params.raw.clone(), params, &resume(state)).to_bytes(), want);
        }
    }

    #[test]
    fn the_name_header_mirrors_what_goes_upstream() {
        let mut params = read(r#"{"name":"up__t"}"#);
        let span = params.name.clone().unwrap();
        params.set(&span, "té");
        assert_eq!(name(&Method::ToolsCall, &params).as_deref(), Some("té"));
        assert_eq!(name(&Method::Complete, &params), None);
        assert_eq!(name(&Method::TasksGet, &read(r#"{"taskId":"9"}"#)).as_deref(), Some("9"));
    }
}
