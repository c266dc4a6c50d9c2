//! JSON with one way to be written (RFC 8785): what digests of catalogs and plans are made of.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::Value as Json;

/// The SHA-256 of the canonical JSON, in 64 lower-case hexadecimal characters.
pub fn sha256(value: &Json) -> String {
    let mut hex = String::with_capacity(64);
    for byte in digest(&SHA256, canonical(value).as_bytes()).as_ref() {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// Keys in the order of their UTF-16 code units, no white space. Numbers are written as `serde_json` writes them, which
/// differs from RFC 8785 only for floats beyond 1e16.
pub fn canonical(value: &Json) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

fn write(value: &Json, to: &mut String) {
    match value {
        Json::Array(items) => {
            to.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    to.push(',');
                }
                write(item, to);
            }
            to.push(']');
        }
        Json::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            to.push('{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                if index > 0 {
                    to.push(',');
                }
                let _ = write!(to, "{}:", Json::String(key.clone()));
                write(item, to);
            }
            to.push('}');
        }
        leaf => {
            let _ = write!(to, "{leaf}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_value_has_one_text() {
        let value = json!({"b": [1, 2.5, null], "a": {"z": "\u{e9}\"", "\u{fb33}": 1, "\u{1f600}": 2}});
        let want = "{\"a\":{\"z\":\"\u{e9}\\\"\",\"\u{1f600}\":2,\"\u{fb33}\":1},\"b\":[1,2.5,null]}";
        assert_eq!(canonical(&value), want);
    }

    #[test]
    fn the_digest_is_that_of_any_other_tool() {
        // printf '{"a":1}' | sha256sum
        let want = "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862";
        assert_eq!(sha256(&json!({"a": 1})), want);
    }
}
