//! What a legacy client says of itself in `initialize`.

use crate::mcp::{Client, Reason};
use crate::wire::params::Params;
use crate::wire::{Version, json};

/// The version that is negotiated and the client as it describes itself (2025-11-25 lifecycle, *Initialization*).
/// Errors: no version is asked for. A client without a description or capabilities is taken as it is.
pub fn read(params: &Params) -> Result<(Version, Client), Reason> {
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
