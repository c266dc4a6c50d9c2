//! What a legacy client says of itself in `initialize`.

use super::answer;
use crate::mcp::{Client, Outcome, Reason};
use crate::wire::params::Params;
use crate::wire::{Id, Method, Version, envelope, json};
use bytes::Bytes;

/// The version that is negotiated and the client as it describes itself (2025-11-25 lifecycle, *Initialization*).
/// Errors: no version is asked for. A client without a description or capabilities is taken as it is.
fn read(params: &Params) -> Result<(Version, Client), Reason> {
    let text = params.raw.text();
    let members = json::lax_members(text, 0).unwrap_or_default();
    let find = |key: &str| members.iter().find(|m| m.is(key)).map(|m| m.value.clone());
    let object = |key: &str| {
        find(key).filter(|span| text[span.start as usize] == b'{').map(|span| params.raw.part(&span))
    };
    let asked = find("protocolVersion");
    let asked = asked.and_then(|span| params.raw.string(&span).map(|v| v.into_owned()));
    let asked =
        asked.ok_or(Reason::InvalidParams("initialize must carry a string \"protocolVersion\"".into()))?;
    let client =
        Client { info: object("clientInfo"), capabilities: object("capabilities"), ..Client::default() };
    Ok((Version::negotiate(&asked), client))
}

/// As [`read`]. Errors: the answer to the request of this id.
pub fn heard(params: &Params, id: &Id) -> Result<(Version, Client), Bytes> {
    read(params).map_err(|reason| {
        let outcome = Outcome::Error(reason.into());
        let rendered = answer::render(Version::NEWEST_LEGACY, &Method::Initialize, outcome);
        envelope::write_response(Some(id), rendered.as_ref())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Raw;

    #[test]
    fn a_client_gets_the_version_it_asks_for_or_our_newest_legacy_one() {
        let read = |text: &'static str| read(&Params::read(Raw::trusted(text)).unwrap());
        let (version, client) =
            read(r#"{"protocolVersion":"2025-03-26","capabilities":{"roots":{}},"clientInfo":{"name":"c"}}"#)
                .unwrap();
        assert_eq!((version, client.name().as_deref()), (Version::V2025_03_26, Some("c")));
        assert_eq!(client.capabilities(), r#"{"roots":{}}"#);
        for newer in
            [r#"{"protocolVersion":"2026-07-28"}"#, r#"{"protocolVersion":"2099-01-01","clientInfo":7}"#]
        {
            assert_eq!(read(newer).unwrap().0, Version::NEWEST_LEGACY);
        }
        assert!(read(r#"{"protocolVersion":1}"#).is_err() && read("{}").is_err());
    }
}
