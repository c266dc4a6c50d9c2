//! Conditions on a call's arguments, read where they stand: no tree is made of them, and only what a rule speaks of is
//! looked at. Where two readers could see two things (a key twice, or in two spellings), nothing is decided.

use crate::config::{Condition, glob};
use crate::wire::{Span, json};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::HashSet;
use std::fmt;

/// Arguments that the gateway and a server may read differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("arguments: a key is given twice, or differs by case from one that a rule speaks of")]
pub(super) struct Ambiguous;

/// Whether a condition holds of these arguments, an object as JSON; `None` where the call has none.
pub(super) fn holds(condition: &Condition, arguments: Option<&[u8]>) -> Result<bool, Ambiguous> {
    let found = match arguments {
        Some(text) => find(text, &condition.at)?.map(|span| &text[span.start as usize..span.end as usize]),
        None => None,
    };
    Ok(says(condition, found) != condition.not)
}

fn says(condition: &Condition, value: Option<&[u8]>) -> bool {
    if condition.exists.is_some_and(|wanted| wanted != value.is_some()) {
        return false;
    }
    let Some(value) = value else {
        let asks_more = condition.equals.is_some()
            || !condition.glob.is_empty()
            || condition.prefix.is_some()
            || condition.min.is_some()
            || condition.max.is_some();
        return !asks_more;
    };
    let text = || json::string(value, &(0..value.len() as u32));
    condition.equals.as_ref().is_none_or(|wanted| equals(wanted, value))
        && (condition.glob.is_empty()
            || text().is_some_and(|text| condition.glob.iter().any(|pattern| glob::matches(pattern, &text))))
        && condition
            .prefix
            .as_ref()
            .is_none_or(|prefix| text().is_some_and(|text| text.starts_with(prefix.as_str())))
        && condition.min.is_none_or(|least| number(value).is_some_and(|number| number >= least))
        && condition.max.is_none_or(|most| most_is(value, most))
}

fn equals(wanted: &Value, value: &[u8]) -> bool {
    match wanted {
        Value::String(wanted) => {
            json::string(value, &(0..value.len() as u32)).is_some_and(|text| text == wanted.as_str())
        }
        Value::Number(wanted) => match (wanted.as_i64(), integer(value)) {
            (Some(wanted), Some(number)) => i128::from(wanted) == number,
            _ => wanted.as_f64().is_some_and(|wanted| number(value) == Some(wanted)),
        },
        Value::Bool(wanted) => value == if *wanted { &b"true"[..] } else { b"false" },
        _ => false,
    }
}

fn most_is(value: &[u8], most: f64) -> bool {
    // A large integer may round down to the bound that it is above.
    match integer(value) {
        Some(number) if most.fract() == 0.0 && most.abs() < 1e30 => number <= most as i128,
        _ => number(value).is_some_and(|number| number <= most),
    }
}

fn integer(value: &[u8]) -> Option<i128> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The number that the value is; one too large for it is infinite.
fn number(value: &[u8]) -> Option<f64> {
    let begins = value.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
    if begins { std::str::from_utf8(value).ok()?.parse().ok() } else { None }
}

/// Where the value stands that a JSON pointer (RFC 6901) names.
pub(super) fn find(text: &[u8], pointer: &str) -> Result<Option<Span>, Ambiguous> {
    let mut at = 0..text.len() as u32;
    for step in pointer.split('/').skip(1) {
        let next = match text.get(at.start as usize) {
            Some(b'{') => member(text, at.start, &step.replace("~1", "/").replace("~0", "~"))?,
            Some(b'[') => element(text, at.start, step),
            _ => None,
        };
        match next {
            Some(next) => at = next,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

fn member(text: &[u8], at: u32, key: &str) -> Result<Option<Span>, Ambiguous> {
    let members = json::lax_members(text, at).unwrap_or_default();
    if members.iter().any(|m| m.is_case_variant_of(key)) {
        return Err(Ambiguous);
    }
    let mut found = members.iter().filter(|m| m.is(key));
    match (found.next(), found.next()) {
        (Some(_), Some(_)) => Err(Ambiguous),
        (only, _) => Ok(only.map(|m| m.value.clone())),
    }
}

fn element(text: &[u8], at: u32, step: &str) -> Option<Span> {
    let plain = step == "0" || (!step.starts_with('0') && step.bytes().all(|b| b.is_ascii_digit()));
    let index = step.parse::<usize>().ok().filter(|_| plain)?;
    json::elements(text, at)?.into_iter().nth(index)
}

/// Whether all readers of a JSON text read the same: no key twice at any depth, no number beyond a double's range, no half of
/// a surrogate pair. Some parsers refuse these, others go on with what they make of them.
pub(super) fn one_meaning(text: &[u8]) -> bool {
    serde_json::from_slice::<Plain>(text).is_ok()
}

/// A value that was looked at and dropped.
struct Plain;

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Plain, D::Error> {
        deserializer.deserialize_any(Plain)
    }
}

impl<'de> Visitor<'de> for Plain {
    type Value = Plain;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON that means one thing")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_unit<E: Error>(self) -> Result<Plain, E> {
        Ok(Plain)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Plain, A::Error> {
        while items.next_element::<Plain>()?.is_some() {}
        Ok(Plain)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Plain, A::Error> {
        let mut keys = HashSet::new();
        while let Some((key, Plain)) = members.next_entry::<String, Plain>()? {
            if !keys.insert(key) {
                return Err(A::Error::custom("a key is given twice"));
            }
        }
        Ok(Plain)
    }
}

/// What is the same for the same arguments, in whatever order their keys stand, and for no others: the values as written.
pub(super) fn told_apart(text: &[u8]) -> Vec<u8> {
    let Ok(members) = json::lax_members(text, 0) else { return text.to_vec() };
    let part = |from: u32, to: u32| text[from as usize..to as usize].trim_ascii_end();
    let key = |m: &json::Member<'_>| {
        let head = part(m.whole.start, m.value.start);
        head.strip_suffix(b":").unwrap_or(head).trim_ascii_end()
    };
    let mut members: Vec<_> =
        members.iter().map(|m| (key(m), &text[m.value.start as usize..m.value.end as usize])).collect();
    members.sort_by_key(|(key, _)| *key);
    let mut told = Vec::with_capacity(text.len());
    told.push(b'{');
    for (key, value) in members {
        for piece in [key, b":", value, b","] {
            told.extend_from_slice(piece);
        }
    }
    told.push(b'}');
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TEXT: &[u8] = br#"{"path":"/w/a\u002fb","n":9007199254740993,"f":1e3,"on":true,"list":[{"id":"x"},7],"a/b":{"~":null},"deep":{"k":1,"k":2,"J":1}}"#;

    #[test]
    fn a_pointer_finds_what_stands_there_and_refuses_what_two_readers_read_differently() {
        let shown = |pointer: &str| {
            let found = find(TEXT, pointer).map(|found| {
                found.map(|span| {
                    String::from_utf8_lossy(&TEXT[span.start as usize..span.end as usize]).into_owned()
                })
            });
            found.map_err(|_| "ambiguous")
        };
        let table = [
            ("/n", Ok(Some("9007199254740993"))),
            ("/list/0/id", Ok(Some("\"x\""))),
            ("/list/1", Ok(Some("7"))),
            ("/list/01", Ok(None)),
            ("/list/-", Ok(None)),
            ("/a~1b/~0", Ok(Some("null"))),
            ("/none/x", Ok(None)),
            ("/path/x", Ok(None)),
            ("/deep/k", Err("ambiguous")),
            ("/deep/j", Err("ambiguous")),
            ("/Path", Err("ambiguous")),
            ("/deep/z", Ok(None)),
        ];
        for (pointer, want) in table {
            assert_eq!(shown(pointer), want.map(|want: Option<&str>| want.map(str::to_owned)), "{pointer}");
        }
    }

    #[test]
    fn arguments_that_readers_read_differently_are_found_at_any_depth() {
        for text in [
            r#"{"x":1e999}"#,
            r#"{"x":["\ud800"]}"#,
            r#"{"\udc00":1}"#,
            r#"{"x":[{"a":1,"a":2}]}"#,
            r#"{"x":{"a":1,"\u0061":2}}"#,
        ] {
            assert!(json::check(text.as_bytes(), 9).is_ok() && !one_meaning(text.as_bytes()), "{text}");
        }
        for text in
            ["{}", "null", r#"{"a":[1,-2.5e3,184467440737095516160,"\ud83d\ude00é",null,true,{"a":{}}]}"#]
        {
            assert!(one_meaning(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn the_order_of_keys_makes_no_other_arguments_and_everything_else_does() {
        let told = |text: &str| told_apart(text.as_bytes());
        assert_eq!(told(r#"{"a":1,"b":"x:"}"#), told(r#"{ "b" : "x:" , "a":1 }"#));
        let all = [
            r#"{"path":"/a","x":1e999}"#,
            r#"{"path":"/b","x":1e999}"#,
            r#"{"path":"/a","x":"\ud800"}"#,
            r#"{"path":"/a","x":"\ud801"}"#,
            r#"{"n":184467440737095516160}"#,
            r#"{"n":184467440737095516161}"#,
            r#"{"a":1,"b":2}"#,
            r#"{"a":2,"b":1}"#,
            "{}",
            "[]",
            "null",
        ];
        let told: HashSet<_> = all.into_iter().map(told).collect();
        assert_eq!(told.len(), all.len());
    }

    #[test]
    fn conditions_hold_of_what_they_name() {
        let condition = |value: Value| -> Condition { serde_json::from_value(value).unwrap() };
        let table = [
            (json!({"at": "/path", "prefix": "/w/"}), true),
            (json!({"at": "/path", "glob": ["/w/a/*"]}), true),
            (json!({"at": "/path", "glob": ["/etc/*"], "not": true}), true),
            (json!({"at": "/path", "equals": "/w/a/b"}), true),
            (json!({"at": "/n", "equals": 9007199254740993u64}), true),
            (json!({"at": "/n", "equals": 9007199254740992u64}), false),
            (json!({"at": "/n", "max": 9007199254740992f64}), false),
            (json!({"at": "/f", "min": 1000, "max": 1000}), true),
            (json!({"at": "/f", "max": 999.5}), false),
            (json!({"at": "/on", "equals": true}), true),
            (json!({"at": "/on", "equals": "true"}), false),
            (json!({"at": "/path", "min": 0}), false),
            (json!({"at": "/none", "exists": false}), true),
            (json!({"at": "/none", "glob": ["*"]}), false),
            (json!({"at": "/none", "glob": ["*"], "not": true}), true),
            (json!({"at": "/list", "exists": true}), true),
        ];
        for (value, want) in table {
            assert_eq!(holds(&condition(value.clone()), Some(TEXT)), Ok(want), "{value}");
        }
        assert_eq!(holds(&condition(json!({"at": "/x", "exists": false})), None), Ok(true));
        assert_eq!(holds(&condition(json!({"at": "/f", "max": 1})), Some(br#"{"f":1e999}"#)), Ok(false));
        assert!(holds(&condition(json!({"at": "/deep/k", "equals": 1})), Some(TEXT)).is_err());
    }
}
