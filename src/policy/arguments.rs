//! Conditions on a call's arguments, read where they stand: no tree is made of them, and only what a rule speaks of is
//! looked at. Where two readers could see two things (a key twice, or in two spellings), nothing is decided.

use crate::config::{Condition, glob};
use crate::wire::{Span, json};
use serde_json::Value;

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
