//! Values of a call: what a parameter takes, as JSON Schema, and whether what is given is of it.

use serde_json::{Map, Value as Json, json};

use crate::execute::{
    catalog::{Base, Catalog, Domain, Holds},
    fault::Fault,
    instant::{self, Instant},
    language::is_uuid,
};

/// What one parameter takes.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    kind: Kind,
    about: Option<String>,
    /// Whether several may be given, of which one has to fit.
    pub many: bool,
    /// How it is compared, where that is not equality.
    pub by: Option<&'static str>,
}

#[derive(Clone, Debug)]
enum Kind {
    Domain(Domain),
    /// The parts of the key of an entity that has several.
    Parts(Vec<(String, Domain)>),
}

impl Slot {
    pub fn of(catalog: &Catalog, holds: &Holds, about: Option<&str>) -> Slot {
        Slot { kind: kind(catalog, holds), about: about.map(str::to_owned), many: false, by: None }
    }

    pub fn text(about: &str) -> Slot {
        let kind = Kind::Domain(Domain::of(Base::String));
        Slot { kind, about: Some(about.to_owned()), many: false, by: None }
    }

    pub fn number(least: u64, most: u64, about: &str) -> Slot {
        let bounds = Domain { min: Some(least as f64), max: Some(most as f64), ..Domain::of(Base::Int) };
        Slot { kind: Kind::Domain(bounds), about: Some(about.to_owned()), many: false, by: None }
    }

    pub fn schema(&self) -> Json {
        let one = schema_of(&self.kind);
        let mut schema = match self.many {
            true => json!({"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}),
            false => one,
        };
        let by = self.by.map(|by| format!("Compared by {by}."));
        let about: Vec<String> = self.about.iter().cloned().chain(by).collect();
        if !about.is_empty() {
            schema["description"] = json!(about.join(" "));
        }
        schema
    }

    /// The value as runs take it. Errors: it is none of these, by the parameter's name.
    pub fn read(&self, name: &str, value: Json) -> Result<Json, Fault> {
        match value {
            Json::Array(items) if self.many => items
                .into_iter()
                .map(|item| read(&self.kind, name, item))
                .collect::<Result<_, _>>()
                .map(Json::Array),
            one => read(&self.kind, name, one),
        }
    }
}

fn kind(catalog: &Catalog, holds: &Holds) -> Kind {
    let domain = |holds: &Holds| catalog.domain(holds).unwrap_or_else(|| Domain::of(Base::Json));
    let Holds::Ref(to) = holds else { return Kind::Domain(domain(holds)) };
    let entity = catalog.entity(to);
    let part = |name: &String| {
        let field = entity.and_then(|entity| entity.fields.get(name));
        (name.clone(), field.map_or_else(|| Domain::of(Base::Json), |field| domain(&field.holds)))
    };
    let parts: Vec<_> = entity.into_iter().flat_map(|entity| &entity.key).map(part).collect();
    match <[_; 1]>::try_from(parts) {
        Ok([(_, domain)]) => Kind::Domain(domain),
        Err(parts) => Kind::Parts(parts),
    }
}

/// The schema of what a field holds.
pub(super) fn schema(catalog: &Catalog, holds: &Holds) -> Json {
    schema_of(&kind(catalog, holds))
}

fn schema_of(kind: &Kind) -> Json {
    match kind {
        Kind::Domain(domain) => of_domain(domain),
        Kind::Parts(parts) => {
            let properties: Map<String, Json> =
                parts.iter().map(|(name, domain)| (name.clone(), of_domain(domain))).collect();
            let required: Vec<&String> = parts.iter().map(|(name, _)| name).collect();
            json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
        }
    }
}

fn of_domain(domain: &Domain) -> Json {
    let mut schema = match domain.base {
        Base::String | Base::Text => json!({"type": "string"}),
        Base::Int => json!({"type": "integer"}),
        Base::Float => json!({"type": "number"}),
        Base::Bool => json!({"type": "boolean"}),
        Base::Datetime => json!({"type": "string", "format": "date-time"}),
        Base::Date => json!({"type": "string", "format": "date"}),
        Base::Uuid => json!({"type": "string", "format": "uuid"}),
        Base::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Base::Enum => json!({"type": "string", "enum": domain.values}),
        Base::Json => json!({}),
    };
    let number = |bound: f64| if bound.fract() == 0.0 { json!(bound as i64) } else { json!(bound) };
    for (key, bound) in [("minimum", domain.min), ("maximum", domain.max)] {
        if let Some(bound) = bound.filter(|_| matches!(domain.base, Base::Int | Base::Float)) {
            schema[key] = number(bound);
        }
    }
    if let Some(most) = domain.max_len.filter(|_| matches!(domain.base, Base::String | Base::Text)) {
        schema["maxLength"] = json!(most);
    }
    schema
}

/// A schema in a few words, for results.
pub(super) fn worded(schema: &Json, nullable: bool, about: Option<&str>) -> String {
    let kind = match (&schema["enum"], schema["format"].as_str(), schema["type"].as_str()) {
        (Json::Array(values), ..) => {
            let values: Vec<&str> = values.iter().filter_map(Json::as_str).collect();
            format!("one of {}", values.join(", "))
        }
        (_, Some(format), _) => format.to_owned(),
        (_, _, Some(kind)) => kind.to_owned(),
        _ => "anything".to_owned(),
    };
    let null = if nullable { " or null" } else { "" };
    match about {
        Some(about) => format!("{kind}{null}: {about}"),
        None => format!("{kind}{null}"),
    }
}

fn read(kind: &Kind, name: &str, value: Json) -> Result<Json, Fault> {
    match (kind, value) {
        (Kind::Domain(domain), value) => of_kind(domain, name, value),
        (Kind::Parts(parts), Json::Object(mut given)) => {
            let mut key = Map::new();
            for (part, domain) in parts {
                let name = format!("{name}.{part}");
                let value = given.remove(part).ok_or_else(|| missing(&name))?;
                key.insert(part.clone(), of_kind(domain, &name, value)?);
            }
            match given.keys().next() {
                Some(other) => {
                    Err(unknown(&format!("{name}.{other}"), parts.iter().map(|(part, _)| part.as_str())))
                }
                None => Ok(Json::Object(key)),
            }
        }
        (Kind::Parts(parts), _) => {
            let parts: Vec<&str> = parts.iter().map(|(part, _)| part.as_str()).collect();
            Err(mismatch(name, &format!("an object of {}", parts.join(", "))))
        }
    }
}

pub(super) fn missing(name: &str) -> Fault {
    Fault::new("missing_arg", format!("{name} is needed"), "give it")
}

pub(super) fn unknown<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Fault {
    let known: Vec<&str> = known.collect();
    Fault::new(
        "unknown_arg",
        format!("there is no parameter {name}"),
        format!("there are {}", known.join(", ")),
    )
}

fn mismatch(name: &str, expected: &str) -> Fault {
    Fault::new("type_mismatch", format!("{name} takes {expected}"), "give it as the input schema says")
}

fn of_kind(domain: &Domain, name: &str, value: Json) -> Result<Json, Fault> {
    let wrong = |expected: &str| Err(mismatch(name, expected));
    match (domain.base, &value) {
        (Base::Json, _) => Ok(value),
        (Base::String | Base::Text, Json::String(text)) => match domain.max_len {
            Some(most) if text.chars().count() as u64 > most => {
                wrong(&format!("a text of at most {most} characters"))
            }
            _ => Ok(value),
        },
        (Base::Bytes, Json::String(_)) | (Base::Bool, Json::Bool(_)) => Ok(value),
        (Base::Int, Json::Number(number)) => match whole(number) {
            Some(float) => within(domain, name, float).map(|()| match number.is_f64() {
                true => json!(float as i64),
                false => Json::Number(number.clone()),
            }),
            None => wrong("a whole number"),
        },
        (Base::Float, Json::Number(number)) => {
            within(domain, name, number.as_f64().unwrap_or_default()).map(|()| value)
        }
        (Base::Datetime, Json::String(text)) => match Instant::parse(text) {
            Some(at) => Ok(json!(at.rfc3339())),
            None => wrong("an instant as of RFC 3339, such as 2026-11-30T12:00:00Z"),
        },
        (Base::Date, Json::String(text)) if instant::is_day(text) => Ok(value),
        (Base::Uuid, Json::String(text)) if is_uuid(text) => Ok(value),
        (Base::Enum, Json::String(text)) => match domain.values.contains(text) {
            true => Ok(value),
            false => Err(Fault::new(
                "enum_value",
                format!("{name} has no value {text:?}"),
                format!("there are {}", domain.values.join(", ")),
            )),
        },
        (Base::Int, _) => wrong("a whole number"),
        (Base::Float, _) => wrong("a number"),
        (Base::Bool, _) => wrong("true or false"),
        (Base::Date, _) => wrong("a day, such as 2026-11-30"),
        (Base::Uuid, _) => wrong("a UUID"),
        _ => wrong("a text"),
    }
}

fn within(domain: &Domain, name: &str, number: f64) -> Result<(), Fault> {
    let least = domain.min.filter(|least| number < *least).map(|least| format!("at least {least}"));
    let most = domain.max.filter(|most| number > *most).map(|most| format!("at most {most}"));
    match least.or(most) {
        Some(bound) => Err(mismatch(name, &format!("a number of {bound}"))),
        None => Ok(()),
    }
}

/// A number that is whole; with a fraction or an exponent it counts as far as it is exact.
fn whole(number: &serde_json::Number) -> Option<f64> {
    let exact = |float: &f64| !number.is_f64() || float.fract() == 0.0 && float.abs() < 9e15;
    number.as_f64().filter(exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_is_taken_as_it_was_given_or_not_at_all() {
        let number = |text: &str| serde_json::from_str(text).unwrap();
        for (text, taken) in [
            ("7", true),
            ("-9223372036854775808", true),
            ("18446744073709551615", true),
            ("2.0", true),
            ("1e3", true),
            ("18446744073709551616", false),
            ("1e17", false),
            ("1.5", false),
        ] {
            assert_eq!(whole(&number(text)).is_some(), taken, "{text}");
        }
    }
}
