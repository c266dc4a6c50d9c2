//! What a modern client needs in a result and a legacy peer, or we, did not write: `resultType`, `ttlMs`,
//! `cacheScope`, `serverInfo`. Filled in where they lack; never changed where they stand.

use super::gate::server_info;
use crate::wire::results::{Gist, ResultView};
use crate::wire::{Method, Raw, meta};

/// Fills in a complete result of `method` for a modern client.
pub fn modern(method: &Method, mut result: Raw) -> Raw {
    if result.is_edited() {
        result = result.flat();
    }
    let gist = Gist::of(&result);
    match (gist.meta, gist.has_server) {
        (_, true) => {}
        (Some(at), false) => result.insert_member(at, meta::SERVER_INFO, server_info().text()),
        (None, false) => {
            let mut own = Raw::trusted("{}");
            own.insert_member(0, meta::SERVER_INFO, server_info().text());
            result.insert_member(0, "_meta", &own.to_bytes());
        }
    }
    if !gist.has_type {
        result.insert_member(0, "resultType", b"\"complete\"");
    }
    if method.is_cacheable() && !gist.is_input_required {
        let view = ResultView::of(&result);
        // What did not say how long it may be kept may not be kept.
        if view.ttl.is_none() {
            result.insert_member(0, "ttlMs", b"0");
        }
        if view.scope.is_none() {
            result.insert_member(0, "cacheScope", b"\"private\"");
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lacks_is_filled_in_and_what_stands_is_left() {
        let fill = |method: Method, text: &'static str| {
            String::from_utf8(modern(&method, Raw::trusted(text)).to_bytes().to_vec()).unwrap()
        };
        let got = fill(Method::ResourcesRead, r#"{"contents":[ ],"_meta":{"a":1}}"#);
        assert!(got.ends_with(r#""contents":[ ],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"plasm-mcp","title":"plasm-mcp gateway","version":"0.1.0"},"a":1}}"#), "{got}");
        assert!(got.starts_with(r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","#), "{got}");
        let whole = r#"{"resultType":"complete","ttlMs":5,"cacheScope":"public","tools":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"x","version":"1"}}}"#;
        assert_eq!(fill(Method::ToolsList, whole), whole);
        let asked = fill(Method::ResourcesRead, r#"{"resultType":"input_required","requestState":"s"}"#);
        assert!(!asked.contains("ttlMs"), "{asked}");
    }
}
