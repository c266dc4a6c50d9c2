//! Why nothing came of a request upstream, and what the caller is told of it.

use crate::mcp::{Fault, Reason, UpstreamId};
use crate::upstream::credentials::Lack;
use crate::upstream::transport::TransportError;
use crate::wire::{Raw, code, json};
use std::borrow::Cow;

/// What went wrong before there was an answer to pass on.
#[derive(Clone, Debug)]
pub(super) enum Trouble {
    Way(TransportError),
    /// A JSON-RPC error to a request of our own (a probe, a handshake).
    Said(Raw),
    Fault(Fault),
}

impl From<TransportError> for Trouble {
    fn from(error: TransportError) -> Trouble {
        Trouble::Way(error)
    }
}

impl From<Reason> for Trouble {
    fn from(reason: Reason) -> Trouble {
        Trouble::Fault(reason.into())
    }
}

impl Trouble {
    /// `safe`: that the request was begun and not answered leaves nothing in doubt.
    pub(super) fn into_fault(self, upstream: &UpstreamId, safe: bool) -> Fault {
        match self {
            Trouble::Way(error) => fault(upstream, error, safe),
            Trouble::Said(error) => Fault::Upstream(error),
            Trouble::Fault(fault) => fault,
        }
    }

    /// As the failure of a way to the upstream, for the link of another pod that goes by way of this one.
    pub(super) fn into_way(self) -> TransportError {
        match self {
            Trouble::Way(error) => error,
            Trouble::Said(error) | Trouble::Fault(Fault::Upstream(error)) => {
                TransportError::Refused { status: 400, error: Some(error) }
            }
            Trouble::Fault(Fault::Ours(Reason::StoreAway)) => TransportError::StoreAway,
            Trouble::Fault(Fault::Ours(reason)) => TransportError::Garbage(reason.to_string().into()),
        }
    }

    /// The JSON-RPC error code, where the upstream gave one.
    pub(super) fn code(&self) -> Option<i64> {
        match self {
            Trouble::Way(TransportError::Refused { error: Some(error), .. }) | Trouble::Said(error) => {
                code_of(error)
            }
            _ => None,
        }
    }

    /// Whether the upstream's answer could only come from one of the other era than was supposed: a modern request
    /// that a modern server would have understood, or the reverse.
    pub(super) fn speaks_of_another_era(&self, modern: bool) -> bool {
        match (self.code(), modern) {
            (Some(code), true) => {
                let known = (-32700..=-32600).contains(&code) || (-32029..=-32020).contains(&code);
                code == i64::from(code::UNSUPPORTED_VERSION)
                    || !known && matches!(self, Trouble::Way(TransportError::Refused { .. }))
            }
            // A modern server misses what each request must bear, and says so by the general code; legacy servers
            // give it with status 200.
            (Some(code), false) => {
                is_modern_code(code)
                    || code == i64::from(code::INVALID_PARAMS)
                        && matches!(self, Trouble::Way(TransportError::Refused { status: 400, .. }))
            }
            (None, _) => {
                matches!(self, Trouble::Way(TransportError::Refused { status: 400 | 404..=406 | 415, .. }))
            }
        }
    }
}

/// Codes that only a modern server knows (2026-07-28 basic, *Error Codes*).
pub(super) fn is_modern_code(code: i64) -> bool {
    [code::HEADER_MISMATCH, code::MISSING_CAPABILITY, code::UNSUPPORTED_VERSION]
        .map(i64::from)
        .contains(&code)
}

/// `code` of a JSON-RPC error object.
pub(super) fn code_of(error: &Raw) -> Option<i64> {
    let text = error.text();
    let members = json::lax_members(text, 0).ok()?;
    let code = members.iter().find(|m| m.is("code"))?;
    let token = &text[code.value.start as usize..code.value.end as usize];
    std::str::from_utf8(token).ok()?.parse().ok()
}

fn fault(upstream: &UpstreamId, error: TransportError, safe: bool) -> Fault {
    let upstream = upstream.clone();
    let unreachable = |why: Cow<'static, str>| Reason::Unreachable { upstream: upstream.clone(), why }.into();
    match error {
        TransportError::Unreachable(why) => unreachable(why),
        TransportError::Refused { status: 401 | 403, .. } => Reason::Credential { upstream }.into(),
        TransportError::Refused { status: 429, .. } | TransportError::Busy => {
            Reason::Busy { upstream }.into()
        }
        TransportError::Refused { status: status @ 502..=504, .. } => {
            unreachable(format!("it answered with status {status}").into())
        }
        TransportError::Refused { error: Some(error), .. } => Fault::Upstream(error),
        TransportError::Refused { status, error: None } => {
            Reason::Garbage { upstream, why: format!("status {status}").into() }.into()
        }
        TransportError::SessionGone => unreachable("it does not keep the session it gave".into()),
        TransportError::StoreAway | TransportError::Credential(Lack::StoreAway) => Reason::StoreAway.into(),
        TransportError::Credential(Lack::Connect { url }) => {
            Reason::Connect { upstream, url, by_url: false }.into()
        }
        TransportError::Credential(Lack::Insufficient) => Reason::Insufficient { upstream }.into(),
        TransportError::Credential(Lack::Bad | Lack::OtherAccount) => Reason::Credential { upstream }.into(),
        TransportError::Credential(Lack::Unreachable(why)) => unreachable(why),
        TransportError::Timeout => Reason::Timeout { upstream }.into(),
        TransportError::Garbage(why) => Reason::Garbage { upstream, why }.into(),
        TransportError::TooLarge(limit) => Reason::TooLarge { upstream, limit }.into(),
        // It was to be gone on with, and nobody did.
        TransportError::Paused | TransportError::Broken if safe => {
            unreachable("it broke off before its answer".into())
        }
        TransportError::Paused | TransportError::Broken => Reason::OutcomeUnknown { upstream }.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, error: Option<&'static str>) -> Trouble {
        Trouble::Way(TransportError::Refused { status, error: error.map(Raw::trusted) })
    }

    #[test]
    fn another_era_is_told_from_an_error_of_the_same() {
        let table = [
            // A modern request:
            (refused(400, Some(r#"{"code":-32022,"message":""}"#)), true, true),
            (refused(400, Some(r#"{"code":-32602,"message":""}"#)), true, false),
            (refused(404, Some(r#"{"code":-32601,"message":""}"#)), true, false),
            (refused(400, Some(r#"{"code":-32000,"message":"No valid session"}"#)), true, true),
            (refused(400, None), true, true),
            (refused(500, None), true, false),
            (Trouble::Said(Raw::trusted(r#"{"code":-32000,"message":"of a tool"}"#)), true, false),
            // A legacy one:
            (refused(400, Some(r#"{"code":-32020,"message":""}"#)), false, true),
            (refused(400, Some(r#"{"code":-32602,"message":""}"#)), false, true),
            (refused(400, Some(r#"{"code":-32000,"message":""}"#)), false, false),
            (refused(405, None), false, true),
            (Trouble::Way(TransportError::Timeout), false, false),
        ];
        for (trouble, modern, want) in table {
            assert_eq!(
                trouble.speaks_of_another_era(modern),
                want,
                "{trouble:?} to a modern request: {modern}"
            );
        }
    }

    #[test]
    fn a_call_that_may_have_been_carried_out_is_not_called_unreachable() {
        let id = UpstreamId::new("up").unwrap();
        let reason = |safe| match fault(&id, TransportError::Broken, safe) {
            Fault::Ours(reason) => reason.word(),
            Fault::Upstream(_) => unreachable!(),
        };
        assert_eq!(reason(false), "outcome_unknown");
        assert_eq!(reason(true), "upstream_unreachable");
    }
}
