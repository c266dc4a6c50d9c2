//! From a source's rows to an entity's fields: where each lies, and what it is in the form of its type. A value that is not
//! of its type is kept as it came, and its column is known to have such.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value as Json};

use super::table::{Column, Of, Rows, Type};
use crate::execute::{
    catalog::{Base, Domain, Embed, Entity, Holds, Locator, TimeWire},
    instant::{self, Instant},
};

/// How rows of an entity are read from what a source gave.
#[derive(Clone, Debug)]
pub(super) struct Form {
    pub of: Of,
    fields: Vec<Wanted>,
    within: Vec<(String, Locator)>,
}

#[derive(Clone, Debug)]
struct Wanted {
    name: String,
    at: Locator,
    holds: Read,
}

/// What a field's value is read as.
#[derive(Clone, Debug)]
enum Read {
    Domain(Domain),
    /// An identity: the parts of the key, with what each holds.
    Ref(String, Vec<(String, Domain)>),
}

impl Read {
    fn ty(&self) -> Type {
        match self {
            Read::Domain(domain) => Type::Base(domain.base),
            Read::Ref(entity, _) => Type::Ref(entity.clone()),
        }
    }
}

impl Form {
    /// Rows of that entity with the fields and relations that `comes` says, and its key always. `relations` are the embedded
    /// ones that something looks at. `embed`: the rows stand in another's.
    pub fn new(of: Of, comes: &dyn Fn(&str) -> bool, relations: &[String], embed: Option<&Embed>) -> Form {
        let none = Form { of: of.clone(), fields: Vec::new(), within: Vec::new() };
        let Some(entity) = of.entity() else { return none };
        let wanted = |(name, _): &(&str, _)| comes(name) || is_key(entity, name);
        let fields = entity.fields.iter().filter(wanted).map(|(name, field)| {
            let part = embed.and_then(|embed| embed.key.get(name));
            let at = part.or(field.at.as_ref()).cloned().unwrap_or_else(|| Locator::key(name));
            Wanted { name: name.to_owned(), at, holds: read_as(&of, &field.holds) }
        });
        let within = relations.iter().filter(|name| comes(name)).filter_map(|name| {
            let embed = entity.relations.get(name)?.embed.as_ref()?;
            Some((name.clone(), embed.rows.clone()))
        });
        Form { of: of.clone(), fields: fields.collect(), within: within.collect() }
    }

    /// No rows, with the columns of the form.
    pub fn empty(&self) -> Rows {
        let column =
            |wanted: &Wanted| Column { name: wanted.name.clone(), ty: wanted.holds.ty(), cells: Vec::new() };
        Rows {
            of: Some(self.of.clone()),
            columns: self.fields.iter().map(column).collect(),
            within: self.within.iter().map(|(name, _)| (name.clone(), Vec::new())).collect(),
            len: 0,
            lossy: BTreeSet::new(),
        }
    }

    /// One row more. `key`: the identity by which it was asked for; parts that it does not say itself are taken from there.
    /// Gives about how many bytes it has.
    pub fn read(&self, raw: &Json, key: Option<&Map<String, Json>>, rows: &mut Rows) -> usize {
        let mut bytes = 0;
        for (wanted, column) in self.fields.iter().zip(&mut rows.columns) {
            let (mut cell, fits) = wanted.holds.value(wanted.at.value(raw));
            if !fits {
                rows.lossy.insert(wanted.name.clone());
            }
            if cell.is_null()
                && let Some(part) = key.and_then(|key| key.get(&wanted.name))
            {
                cell = part.clone();
            }
            bytes += size(&cell);
            column.cells.push(cell);
        }
        for ((_, at), (_, cells)) in self.within.iter().zip(&mut rows.within) {
            let cell = match at.value(raw) {
                Json::Array(items) if at.is_many() || at.hops.is_empty() => Json::Array(items),
                Json::Null => Json::Array(Vec::new()),
                one => Json::Array(vec![one]),
            };
            bytes += size(&cell);
            cells.push(cell);
        }
        rows.len += 1;
        bytes
    }

    /// A row of which nothing but its key is known.
    pub fn bare(&self, key: &Map<String, Json>, rows: &mut Rows) -> usize {
        self.read(&Json::Null, Some(key), rows)
    }
}

fn is_key(entity: &Entity, name: &str) -> bool {
    entity.key.iter().any(|part| part == name)
}

fn read_as(of: &Of, holds: &Holds) -> Read {
    let domain = |holds: &Holds| of.catalog.domain(holds).unwrap_or_else(|| Domain::of(Base::Json));
    match holds {
        Holds::Ref(to) => {
            let entity = of.catalog.entity(to);
            let part = |name: &String| {
                let field = entity.and_then(|entity| entity.fields.get(name));
                (name.clone(), field.map_or_else(|| Domain::of(Base::Json), |field| domain(&field.holds)))
            };
            let parts = entity.into_iter().flat_map(|entity| &entity.key).map(part);
            Read::Ref(to.clone(), parts.collect())
        }
        holds => Read::Domain(domain(holds)),
    }
}

impl Read {
    fn value(&self, raw: Json) -> (Json, bool) {
        match self {
            Read::Domain(domain) => normal(raw, domain),
            Read::Ref(_, parts) => match (parts.as_slice(), raw) {
                (_, Json::Null) => (Json::Null, true),
                ([(name, domain)], Json::Object(mut map)) => {
                    normal(map.remove(name).unwrap_or_default(), domain)
                }
                ([(_, domain)], raw) => normal(raw, domain),
                (parts, Json::Object(mut map)) => {
                    let mut fits = true;
                    let mut part = |(name, domain): &(String, Domain)| {
                        let (value, fit) = normal(map.remove(name).unwrap_or_default(), domain);
                        fits &= fit;
                        (name.clone(), value)
                    };
                    let key = parts.iter().map(&mut part).collect();
                    (Json::Object(key), fits)
                }
                (_, raw) => (raw, false),
            },
        }
    }
}

/// A value in the form of its domain: instants in RFC 3339 and UTC, numbers as numbers, identifiers as text. `false`: it is
/// none of the domain, and as it came.
pub(super) fn normal(raw: Json, domain: &Domain) -> (Json, bool) {
    let normal = match (domain.base, &raw) {
        (_, Json::Null) | (Base::Json, _) => return (raw, true),
        (Base::Datetime, raw) => {
            moment(raw, domain.wire.unwrap_or_default()).map(|at| Json::from(at.rfc3339()))
        }
        (Base::Date, Json::String(text)) => text.get(..10).filter(|day| instant::is_day(day)).map(Json::from),
        (Base::Int, Json::Number(number)) if number.is_i64() || number.is_u64() => return (raw, true),
        (Base::Int, Json::Number(number)) => number
            .as_f64()
            .filter(|float| float.fract() == 0.0 && float.abs() < 9e15)
            .map(|float| Json::from(float as i64)),
        (Base::Int, Json::String(text)) => text.trim().parse::<i64>().ok().map(Json::from),
        (Base::Float, Json::Number(_)) => return (raw, true),
        (Base::Float, Json::String(text)) => {
            text.trim().parse::<f64>().ok().and_then(Number::from_f64).map(Json::Number)
        }
        (Base::Bool, Json::Bool(_)) => return (raw, true),
        (Base::Bool, Json::String(text)) => text.to_ascii_lowercase().parse::<bool>().ok().map(Json::from),
        (Base::Bool, Json::Number(number)) => match number.as_u64() {
            Some(number @ (0 | 1)) => Some(Json::from(number == 1)),
            _ => None,
        },
        (Base::Uuid, Json::String(text)) => Some(Json::from(text.to_ascii_lowercase())),
        (Base::String | Base::Text | Base::Enum | Base::Bytes, Json::String(_)) => return (raw, true),
        (Base::String | Base::Text | Base::Enum, Json::Number(number)) => {
            Some(Json::from(number.to_string()))
        }
        (Base::String | Base::Text | Base::Enum, Json::Bool(value)) => Some(Json::from(value.to_string())),
        _ => None,
    };
    match normal {
        Some(normal) => (normal, true),
        None => (raw, false),
    }
}

fn moment(raw: &Json, wire: TimeWire) -> Option<Instant> {
    let per_second = match wire {
        TimeWire::Rfc3339 => return Instant::parse(raw.as_str()?),
        TimeWire::Unix => 1,
        TimeWire::UnixMs => 1_000,
    };
    let number = match raw {
        Json::String(text) => text.trim().parse::<Number>().ok()?,
        raw => raw.as_number()?.clone(),
    };
    if let Some(whole) = number.as_i64() {
        let nanos = whole.rem_euclid(per_second) * (1_000_000_000 / per_second);
        return Some(Instant { seconds: whole.div_euclid(per_second), nanos: u32::try_from(nanos).ok()? });
    }
    let seconds = number.as_f64().filter(|float| float.abs() < 1e14)? / per_second as f64;
    let nanos = ((seconds - seconds.floor()) * 1e9) as u32;
    Some(Instant { seconds: seconds.floor() as i64, nanos: nanos.min(999_999_999) })
}

/// A value as an argument or a key of that kind is written upstream.
pub(super) fn wired(value: Json, of: &Of, holds: &Holds) -> Json {
    if let Json::Array(items) = value {
        return items.into_iter().map(|item| wired(item, of, holds)).collect();
    }
    let Some(domain) = of.catalog.domain(holds) else { return value };
    match (domain.base, &value) {
        (Base::Date, Json::String(text)) => text.get(..10).map_or(Json::Null, Json::from),
        (Base::Datetime, Json::String(text)) => match (Instant::parse(text), domain.wire.unwrap_or_default())
        {
            (Some(at), TimeWire::Unix) => Json::from(at.seconds),
            (Some(at), TimeWire::UnixMs) => {
                Json::from(at.seconds.saturating_mul(1_000) + i64::from(at.nanos / 1_000_000))
            }
            (Some(at), TimeWire::Rfc3339) => Json::from(at.rfc3339()),
            (None, _) => value,
        },
        _ => value,
    }
}

/// About how many bytes a value has in JSON.
pub(super) fn size(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) => 4,
        Json::Number(_) => 8,
        Json::String(text) => text.len() + 2,
        Json::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Json::Object(map) => map.iter().map(|(key, item)| key.len() + size(item) + 4).sum::<usize>() + 2,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_in_the_form_of_their_type() {
        let unix = Domain { wire: Some(TimeWire::Unix), ..Domain::of(Base::Datetime) };
        let unix_ms = Domain { wire: Some(TimeWire::UnixMs), ..Domain::of(Base::Datetime) };
        let of = Domain::of;
        for (domain, raw, want) in [
            (&unix, json!(1_764_504_000), json!("2025-11-30T12:00:00Z")),
            (&unix, json!("1764504000"), json!("2025-11-30T12:00:00Z")),
            (&unix, json!(1_764_504_000.25), json!("2025-11-30T12:00:00.25Z")),
            (&unix_ms, json!(1_764_504_000_250_i64), json!("2025-11-30T12:00:00.25Z")),
            (&unix_ms, json!(-1), json!("1969-12-31T23:59:59.999Z")),
            (&of(Base::Datetime), json!("2026-11-30"), json!("2026-11-30T00:00:00Z")),
            (&of(Base::Date), json!("2026-11-30T23:00:00Z"), json!("2026-11-30")),
            (&of(Base::Int), json!("12"), json!(12)),
            (&of(Base::Int), json!(12.0), json!(12)),
            (&of(Base::Float), json!("1.5"), json!(1.5)),
            (&of(Base::Bool), json!("True"), json!(true)),
            (&of(Base::Bool), json!(0), json!(false)),
            (&of(Base::String), json!(7), json!("7")),
            (
                &of(Base::Uuid),
                json!("6F9619FF-8B86-4011-B42D-00CF4FC964FF"),
                json!("6f9619ff-8b86-4011-b42d-00cf4fc964ff"),
            ),
            (&of(Base::Json), json!({"a": [1]}), json!({"a": [1]})),
            (&of(Base::Int), Json::Null, Json::Null),
        ] {
            assert_eq!(normal(raw.clone(), domain), (want, true), "{raw} as {}", domain.base.name());
        }
        for (domain, raw) in [
            (&unix, json!("soon")),
            (&of(Base::Datetime), json!(12)),
            (&of(Base::Date), json!("30.11.2026")),
            (&of(Base::Int), json!(1.5)),
            (&of(Base::Int), json!("many")),
            (&of(Base::Bool), json!(2)),
            (&of(Base::String), json!(["a"])),
        ] {
            assert_eq!(normal(raw.clone(), domain), (raw.clone(), false), "{raw} as {}", domain.base.name());
        }
    }
}
