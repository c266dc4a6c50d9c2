//! What the edges tell telemetry of a call: its arrival, with the trace context that came along. Reads a message's `_meta` only
//! where somebody wants to know.

use super::gate::Gate;
use crate::http1::Fields;
use crate::mcp::{Access, Caller};
use crate::telemetry::audit::Refused;
use crate::telemetry::{Carried, Detail, Target, Watch, metrics};
use crate::wire::params::Params;
use crate::wire::{Id, Method, json};
use http::{HeaderMap, StatusCode, header};
use std::sync::Arc;

/// The trace context of an HTTP request, where anybody asks for it.
pub fn carried(gate: &Gate, fields: &Fields) -> Carried {
    if gate.lookout.is_curious() { Carried::of_headers(fields.map()) } else { Carried::default() }
}

/// A request of a client arrives. `http`: what came with the HTTP request that it came in.
pub fn arrives(
    gate: &Gate,
    caller: &Arc<Caller>,
    (method, params, id): (&Method, &Params, &Id),
    (transport, http): (&'static str, &Carried),
) -> Arc<Watch> {
    let detail = || Detail {
        target: target(method, params),
        id: String::from_utf8_lossy(id.token()).chars().take(64).collect(),
        meta: of_meta(params),
        http: http.clone(),
        transport,
    };
    let standing = *method == Method::Listen;
    gate.lookout.watch(caller.clone(), method.label(), standing, params.raw.len(), detail)
}

/// A request is refused before it becomes a call. `access`: of one who is known.
pub fn refused(
    gate: &Gate,
    status: StatusCode,
    why: &'static str,
    profile: &str,
    access: Option<&Access>,
    map: &HeaderMap,
) {
    if status != StatusCode::TOO_MANY_REQUESTS {
        metrics().auth_denied.with_label_values(&[status.as_str()]).inc();
    }
    let principal = access.map(|access| (&*access.principal.tenant, &*access.principal.subject));
    let agent = map.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    gate.lookout.refused(Refused { status: status.as_u16(), why, profile, principal, agent });
}

fn target(method: &Method, params: &Params) -> Option<Target> {
    match method {
        Method::ToolsCall => Some(Target::Tool(params.name()?.into_owned())),
        Method::PromptsGet => Some(Target::Prompt(params.name()?.into_owned())),
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            Some(Target::Uri(params.uri()?.into_owned()))
        }
        _ => None,
    }
}

/// The trace context in `_meta` (2026-07-28 basic, *OpenTelemetry trace context*).
fn of_meta(params: &Params) -> Carried {
    let Some(meta) = &params.meta else { return Carried::default() };
    let text = params.raw.text();
    let members = json::lax_members(text, meta.whole.start).unwrap_or_default();
    Carried::of(|key| json::string(text, &members.iter().find(|m| m.is(key))?.value))
}
