//! How values compare. Numbers by what they are, texts by their code points, instants as instants, lists part by part;
//! null is no value, and compares with nothing. For an order, null comes last, and values of different kinds by kind.

use std::cmp::Ordering;

use serde_json::{Number, Value as Json};

use super::table::Type;
use crate::execute::{catalog::Base, instant::Instant};

/// How two values of a type compare; `None`: not at all.
pub(super) fn compared(a: &Json, b: &Json, ty: &Type) -> Option<Ordering> {
    match (a, b) {
        (Json::Null, _) | (_, Json::Null) => None,
        (Json::Bool(a), Json::Bool(b)) => Some(a.cmp(b)),
        (Json::Number(a), Json::Number(b)) => Some(numbers(a, b)),
        (Json::String(a), Json::String(b)) => {
            if is_time(ty)
                && let (Some(a), Some(b)) = (Instant::parse(a), Instant::parse(b))
            {
                return Some(a.cmp(&b));
            }
            Some(a.cmp(b))
        }
        (Json::Array(_), Json::Array(_)) | (Json::Object(_), Json::Object(_)) => Some(ordered(a, b, ty)),
        _ => None,
    }
}

/// One order of all values.
pub(super) fn ordered(a: &Json, b: &Json, ty: &Type) -> Ordering {
    if let Some(order) = rank(a).cmp(&rank(b)).is_ne().then(|| rank(a).cmp(&rank(b))) {
        return order;
    }
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            let parts = a.iter().zip(b).map(|(a, b)| ordered(a, b, ty));
            parts.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
        }
        (Json::Object(a), Json::Object(b)) => {
            let parts = a.iter().zip(b).map(|((a, x), (b, y))| a.cmp(b).then_with(|| ordered(x, y, ty)));
            parts.fold(Ordering::Equal, Ordering::then).then(a.len().cmp(&b.len()))
        }
        _ => compared(a, b, ty).unwrap_or(Ordering::Equal),
    }
}

fn rank(value: &Json) -> u8 {
    match value {
        Json::Bool(_) => 0,
        Json::Number(_) => 1,
        Json::String(_) => 2,
        Json::Array(_) => 3,
        Json::Object(_) => 4,
        Json::Null => 5,
    }
}

fn is_time(ty: &Type) -> bool {
    matches!(ty, Type::Base(Base::Datetime | Base::Date))
}

pub(super) fn numbers(a: &Number, b: &Number) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return a.cmp(&b);
    }
    if let (Some(a), Some(b)) = (a.as_u64(), b.as_u64()) {
        return a.cmp(&b);
    }
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
        _ => Ordering::Equal,
    }
}

/// Appends what two values have in common exactly if they are equal: for sets of values.
pub(super) fn mark(value: &Json, to: &mut Vec<u8>) {
    match value {
        Json::Null => to.push(b'n'),
        Json::Bool(value) => to.push(if *value { b't' } else { b'f' }),
        Json::Number(number) => {
            // 1 and 1.0 are one number.
            let whole = number.as_i64().or_else(|| {
                number
                    .as_f64()
                    .filter(|float| float.fract() == 0.0 && float.abs() < 9e15)
                    .map(|float| float as i64)
            });
            to.push(b'#');
            match whole {
                Some(whole) => to.extend_from_slice(&whole.to_be_bytes()),
                None => to.extend_from_slice(number.to_string().as_bytes()),
            }
            to.push(b';');
        }
        Json::String(text) => {
            to.push(b'"');
            to.extend_from_slice(&text.len().to_be_bytes());
            to.extend_from_slice(text.as_bytes());
        }
        Json::Array(items) => {
            to.push(b'[');
            items.iter().for_each(|item| mark(item, to));
            to.push(b']');
        }
        Json::Object(map) => {
            to.push(b'{');
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            for (key, item) in entries {
                mark(&Json::from(key.as_str()), to);
                mark(item, to);
            }
            to.push(b'}');
        }
    }
}
