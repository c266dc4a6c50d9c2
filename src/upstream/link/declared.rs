//! Who we say we are upstream: a link of one caller declares the caller, a shared one declares plasm-mcp.

use crate::mcp::Caller;
use crate::wire::{Era, json};
use bytes::Bytes;

/// Our own `Implementation`.
pub(super) const OURS: &str =
    concat!(r#"{"name":"plasm-mcp","title":"plasm-mcp","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// `clientInfo` and `capabilities` as JSON.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declared {
    pub(super) info: Bytes,
    pub(super) capabilities: Bytes,
    /// The capabilities in the `initialize` of a legacy session.
    pub(super) in_session: Bytes,
}

impl Declared {
    /// plasm-mcp, which answers nothing.
    pub(super) fn ourselves() -> Declared {
        let none = Bytes::from_static(b"{}");
        Declared { info: Bytes::from_static(OURS.as_bytes()), capabilities: none.clone(), in_session: none }
    }

    /// The caller, with those of its capabilities that the gateway can bring an answer for. One that has no session
    /// and speaks a legacy version can be asked nothing; nor can a modern one by a legacy session, which asks while the
    /// call is open, and as often as not on a stream that nobody reads: told so, the upstream does not wait in vain.
    pub(super) fn of(caller: &Caller) -> Declared {
        let modern = caller.version.era() == Era::Modern;
        const ASKS: &[&str] = &["elicitation", "sampling", "roots", "extensions"];
        const NONE: &[&str] = &["extensions"];
        let (asks, in_session) = match (modern, caller.session.id()) {
            (true, _) => (ASKS, NONE),
            (false, Some(_)) => (ASKS, ASKS),
            (false, None) => (NONE, NONE),
        };
        let all = caller.client.capabilities();
        let info = caller.client.info.as_ref().map(|info| info.to_bytes());
        Declared {
            info: info.unwrap_or(Bytes::from_static(OURS.as_bytes())),
            capabilities: pick(&all, asks),
            in_session: pick(&all, in_session),
        }
    }
}

/// The object with these members only, where they are objects.
fn pick(object: &Bytes, keys: &[&str]) -> Bytes {
    let mut out = Vec::with_capacity(object.len());
    out.push(b'{');
    for m in json::lax_members(object, 0).unwrap_or_default() {
        if object[m.value.start as usize] != b'{' || !keys.iter().any(|key| m.is(key)) {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(&object[m.whole.start as usize..m.whole.end as usize]);
    }
    out.push(b'}');
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_we_can_answer_is_declared() {
        let all = Bytes::from_static(
            br#"{"tasks":{},"roots":{"listChanged":true},"sampling":null,"elicitation":{}}"#,
        );
        assert_eq!(
            pick(&all, &["elicitation", "sampling", "roots"]),
            r#"{"roots":{"listChanged":true},"elicitation":{}}"#
        );
        assert_eq!(pick(&all, &[]), "{}");
    }

    #[test]
    fn our_own_name_is_json() {
        let ours: serde_json::Value = serde_json::from_str(OURS).unwrap();
        assert_eq!(ours["name"], "plasm-mcp");
    }
}
