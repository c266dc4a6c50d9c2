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
            match is_time(ty).then(|| (Instant::parse(a), Instant::parse(b))) {
                Some((Some(a), Some(b))) => Some(a.cmp(&b)),
                // What is no instant compares with none.
                Some((Some(_), None) | (None, Some(_))) => None,
                _ => Some(a.cmp(b)),
            }
        }
        (Json::Array(_), Json::Array(_)) | (Json::Object(_), Json::Object(_)) => Some(ordered(a, b, ty)),
        _ => None,
    }
}

/// One order of all values: total, as sorting needs it.
pub(super) fn ordered(a: &Json, b: &Json, ty: &Type) -> Ordering {
    let by_kind = rank(a).cmp(&rank(b));
    if by_kind.is_ne() {
        return by_kind;
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
        // Of a text that is an instant and one that is not, the instant comes first.
        (Json::String(a), Json::String(b)) if is_time(ty) => match (Instant::parse(a), Instant::parse(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (a_time, b_time) => b_time.is_some().cmp(&a_time.is_some()).then_with(|| a.cmp(b)),
        },
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

/// Whole numbers are held against others as they are, not as the nearest float: rounding would make the order contradict itself.
fn numbers(a: &Number, b: &Number) -> Ordering {
    let whole = |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => with_float(a, b.as_f64().unwrap_or(0.0)),
        (None, Some(b)) => with_float(b, a.as_f64().unwrap_or(0.0)).reverse(),
        (None, None) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
    }
}

fn with_float(whole: i128, float: f64) -> Ordering {
    // Beyond these bounds no whole number of JSON is.
    if float.abs() >= 1e20 {
        return if float > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let floor = float.floor();
    whole.cmp(&(floor as i128)).then(if float > floor { Ordering::Less } else { Ordering::Equal })
}

/// Appends what two values have in common exactly if they are equal: for sets of values.
pub(super) fn mark(value: &Json, to: &mut Vec<u8>) {
    match value {
        Json::Null => to.push(b'n'),
        Json::Bool(value) => to.push(if *value { b't' } else { b'f' }),
        Json::Number(number) => {
            // 1 and 1.0 are one number.
            let whole =
                number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)).or_else(|| {
                    let float = number.as_f64()?;
                    (float.fract() == 0.0 && float.abs() < 1e20).then_some(float as i128)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn values() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            (-3..4_i64).prop_map(Json::from),
            (-6..7_i64).prop_map(|half| Json::from(half as f64 / 2.0)),
            prop_oneof![
                Just(json!(9_007_199_254_740_992_i64)),
                Just(json!(9_007_199_254_740_993_i64)),
                Just(json!(9_007_199_254_740_992.0)),
                Just(json!(u64::MAX)),
                Just(json!(i64::MIN)),
                Just(json!(1e30)),
            ],
            prop_oneof![
                Just("2026-11-30T12:00:00Z"),
                Just("2026-11-30T13:00:00+02:00"),
                Just("2026-11-30T12:00:00.5Z"),
                Just("2026"),
                Just("x"),
                Just(""),
            ]
            .prop_map(Json::from),
        ];
        leaf.prop_recursive(2, 8, 3, |inside| {
            prop_oneof![
                prop::collection::vec(inside.clone(), 0..3).prop_map(Json::Array),
                prop::collection::btree_map("[ab]", inside, 0..3)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_order_never_contradicts_itself(a in values(), b in values(), c in values(), time in any::<bool>()) {
            let ty = Type::Base(if time { Base::Datetime } else { Base::Json });
            prop_assert_eq!(ordered(&a, &b, &ty), ordered(&b, &a, &ty).reverse());
            prop_assert_eq!(ordered(&a, &a, &ty), Ordering::Equal);
            if ordered(&a, &b, &ty).is_le() && ordered(&b, &c, &ty).is_le() {
                prop_assert!(ordered(&a, &c, &ty).is_le(), "{} {} {}", a, b, c);
            }
            if let Some(order) = compared(&a, &b, &ty) {
                prop_assert_eq!(order, ordered(&a, &b, &ty));
            }
        }

        #[test]
        fn values_are_one_in_a_set_exactly_if_they_are_equal(a in values(), b in values()) {
            let marked = |value: &Json| {
                let mut marks = Vec::new();
                mark(value, &mut marks);
                marks
            };
            let equal = ordered(&a, &b, &Type::Base(Base::Json)).is_eq();
            prop_assert_eq!(marked(&a) == marked(&b), equal);
        }
    }
}
