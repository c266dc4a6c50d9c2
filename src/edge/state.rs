//! `requestState` of multi-round requests: an upstream's own state, sealed with where it came from and for whom.

use crate::mcp::{Call, InputRequired, Reason, Resume, UpstreamId};
use crate::sealing::{Keyring, Purpose};
use crate::wire::json;
use crate::wire::params::Params;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a client may take to answer.
const LIFE: Duration = Duration::from_secs(600);

#[derive(serde::Serialize, serde::Deserialize)]
struct Sealed {
    /// Seconds since the epoch after which it is void.
    until: u64,
    upstream: String,
    /// The upstream's `requestState`, as a JSON token.
    state: String,
}

/// Seals the upstream's state in place. What came without state stays without: routing needs none, and a client must
/// not send one that it was not given.
pub fn seal(keyring: &Keyring, call: &Call, mut asked: InputRequired) -> InputRequired {
    let Some(span) = asked.state.take() else { return asked };
    let state =
        String::from_utf8_lossy(&asked.result.text()[span.start as usize..span.end as usize]).into_owned();
    let sealed =
        Sealed { until: now() + LIFE.as_secs(), upstream: asked.upstream.as_str().to_owned(), state };
    let plain = serde_json::to_vec(&sealed).expect("a struct of strings has a JSON form");
    let text = keyring.seal(Purpose::RequestState, &bound(call), &plain);
    asked.result.edit(span, json::quote(&text));
    asked
}

/// Takes a retry apart: whose state it brings back, unsealed. `None` for a request that is no retry, or one whose
/// upstream gave no state.
pub fn open(keyring: &Keyring, call: &Call) -> Result<Option<Arc<Resume>>, Reason> {
    let params = &call.params;
    let Some(span) = &params.state else { return Ok(None) };
    let text = params.raw.string(span).ok_or(Reason::BadState)?;
    let plain = keyring.open(Purpose::RequestState, &bound(call), &text).map_err(|_| Reason::BadState)?;
    let sealed: Sealed = serde_json::from_slice(&plain).map_err(|_| Reason::BadState)?;
    if sealed.until < now() {
        return Err(Reason::BadState);
    }
    let upstream = UpstreamId::new(&sealed.upstream).ok_or(Reason::BadState)?;
    let answers = params.answers.as_ref().map_or_else(Default::default, |span| params.raw.part(span));
    Ok(Some(Arc::new(Resume { upstream, state: Some(Bytes::from(sealed.state)), answers })))
}

/// A state opens for the same principal, profile, method and target alone (2026-07-28 MRTR, *Server Requirements*).
fn bound(call: &Call) -> Vec<u8> {
    let target = |p: &Params| p.name().or_else(|| p.uri()).map(|t| t.into_owned()).unwrap_or_default();
    let caller = &call.caller;
    format!(
        "{}/{}/{}/{}",
        caller.principal.identity(),
        caller.profile,
        call.method.as_str(),
        target(&call.params)
    )
    .into_bytes()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
