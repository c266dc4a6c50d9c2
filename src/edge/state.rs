//! `requestState` of multi-round requests: an upstream's own state, sealed with where it came from and for whom.

use crate::mcp::{Call, Caller, InputRequired, Reason, Resume, UpstreamId};
use crate::sealing::{Keyring, Purpose};
use crate::wire::params::Params;
use crate::wire::{Method, json};
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

/// Whose call may be asked for input, and what it calls.
pub struct Asker {
    pub caller: Arc<Caller>,
    method: Method,
    params: Params,
}

/// Seals the upstream's state in place. What came without state stays without: routing needs none, and a client must
/// not send one that it was not given.
pub fn seal(keyring: &Keyring, asker: &Asker, mut asked: InputRequired) -> InputRequired {
    let Some(span) = asked.state.take() else { return asked };
    let state =
        String::from_utf8_lossy(&asked.result.text()[span.start as usize..span.end as usize]).into_owned();
    let sealed =
        Sealed { until: now() + LIFE.as_secs(), upstream: asked.upstream.as_str().to_owned(), state };
    let plain = serde_json::to_vec(&sealed).expect("a struct of strings has a JSON form");
    let text = keyring.seal(Purpose::RequestState, &asker.bound(), &plain);
    asked.result.edit(span, json::quote(&text));
    asked
}

/// Takes a retry apart: whose state it brings back, unsealed. `None` for a request that is no retry, or one whose
/// upstream gave no state.
pub fn open(keyring: &Keyring, asker: &Asker) -> Result<Option<Arc<Resume>>, Reason> {
    let params = &asker.params;
    let Some(span) = &params.state else { return Ok(None) };
    let text = params.raw.string(span).ok_or(Reason::BadState)?;
    let plain = keyring.open(Purpose::RequestState, &asker.bound(), &text).map_err(|_| Reason::BadState)?;
    let sealed: Sealed = serde_json::from_slice(&plain).map_err(|_| Reason::BadState)?;
    if sealed.until < now() {
        return Err(Reason::BadState);
    }
    let upstream = UpstreamId::new(&sealed.upstream).ok_or(Reason::BadState)?;
    let answers = params.answers.as_ref().map_or_else(Default::default, |span| params.raw.part(span));
    Ok(Some(Arc::new(Resume { upstream, state: Some(Bytes::from(sealed.state)), answers })))
}

impl Asker {
    pub fn of(call: &Call) -> Asker {
        Asker { caller: call.caller.clone(), method: call.method.clone(), params: call.params.clone() }
    }

    /// A state opens for the same principal, profile, method and target alone (2026-07-28 MRTR, *Server Requirements*).
    fn bound(&self) -> Vec<u8> {
        let params = &self.params;
        let target = params.name().or_else(|| params.uri()).unwrap_or_default();
        let (principal, profile) = (self.caller.principal().identity(), &self.caller.profile);
        format!("{principal}/{profile}/{}/{target}", self.method.as_str()).into_bytes()
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
