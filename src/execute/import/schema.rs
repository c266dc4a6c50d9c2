//! From JSON Schema to the types of a catalog. What no type says is `json`: anything.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::{
    named::{Taken, prose},
    sheet::{Sheet, map},
};

/// Most references that are followed one after the other.
const DEEPEST: usize = 8;
/// Most schemas that one is all of.
const MOST_PARTS: usize = 64;
/// Longest description of a field or an argument, in characters.
const LONGEST: usize = 120;
/// Most members of an object whose form is told.
const MOST_MEMBERS: usize = 12;
/// Most members of an enum that are taught; with more it is text.
const MOST_VALUES: usize = 60;

/// A schema within the document that its references lead through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schema<'a> {
    pub document: &'a Json,
    pub at: &'a Json,
}

impl<'a> Schema<'a> {
    pub fn new(document: &'a Json, at: &'a Json) -> Self {
        Self { document, at }.settled()
    }

    /// Past references and past unions with null.
    fn settled(mut self) -> Self {
        for _ in 0..DEEPEST {
            let next = match self.at.get("$ref").and_then(Json::as_str) {
                Some(to) => to.strip_prefix('#').and_then(|pointer| self.document.pointer(pointer)),
                None => self.only_one(),
            };
            match next {
                Some(next) => self.at = next,
                None => break,
            }
        }
        self
    }

    /// The one member of a union that is not null.
    fn only_one(&self) -> Option<&'a Json> {
        let union = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| self.at.get(key)?.as_array())?;
        let mut rest = union.iter().filter(|one| one["type"] != "null");
        let only = rest.next()?;
        (rest.next().is_none() && self.at.get("properties").is_none()).then_some(only)
    }

    /// Its type's name, null aside.
    pub fn kind(&self) -> Option<&'a str> {
        match &self.at["type"] {
            Json::String(kind) => Some(kind),
            Json::Array(kinds) => {
                let mut kinds = kinds.iter().filter_map(Json::as_str).filter(|kind| *kind != "null");
                kinds.next().filter(|_| kinds.next().is_none())
            }
            _ if self.at.get("properties").is_some() => Some("object"),
            _ => None,
        }
    }

    pub fn describes(&self) -> Option<String> {
        prose(self.at["description"].as_str()?, LONGEST)
    }

    /// Its properties, those of `allOf` included however deep, in the order of their names in each.
    pub fn properties(&self) -> Vec<(String, &'a Json)> {
        let (mut names, mut found) = (BTreeSet::new(), Vec::new());
        for part in self.parts() {
            for (name, of) in part["properties"].as_object().into_iter().flatten() {
                if names.insert(name) {
                    found.push((name.clone(), of));
                }
            }
        }
        found
    }

    /// What of its form is said in how many places: those of `allOf`, then itself. Each once, whatever refers to what.
    fn parts(&self) -> Vec<&'a Json> {
        fn walk<'a>(
            of: Schema<'a>,
            deep: usize,
            seen: &mut BTreeSet<*const Json>,
            found: &mut Vec<&'a Json>,
        ) {
            if deep > DEEPEST || !seen.insert(std::ptr::from_ref(of.at)) {
                return;
            }
            for part in of.at["allOf"].as_array().into_iter().flatten() {
                if seen.len() >= MOST_PARTS {
                    break;
                }
                walk(of.to(part), deep + 1, seen, found);
            }
            found.push(of.at);
        }
        let mut found = Vec::new();
        walk(*self, 0, &mut BTreeSet::new(), &mut found);
        found
    }

    pub fn property(&self, name: &str) -> Option<Schema<'a>> {
        self.properties().into_iter().find(|(have, _)| have == name).map(|(_, of)| self.to(of))
    }

    pub fn to(&self, at: &'a Json) -> Schema<'a> {
        Schema::new(self.document, at)
    }

    /// The properties that are always there.
    pub fn required(&self) -> BTreeSet<&'a str> {
        let all = self.parts().into_iter().filter_map(|at| at["required"].as_array());
        all.flatten().filter_map(Json::as_str).collect()
    }

    pub fn requires(&self, name: &str) -> bool {
        self.required().contains(name)
    }

    /// What each element of it is, where it is a list of objects.
    pub fn rows(&self) -> Option<Schema<'a>> {
        let items = (self.kind() == Some("array")).then(|| self.at.get("items"))??;
        let items = self.to(items);
        (!items.properties().is_empty()).then_some(items)
    }

    /// The keys of a catalog that say its domain: `type: int`, or `base: enum, values: […]`.
    pub fn domain(&self) -> Vec<(&'static str, Sheet)> {
        if let Some(values) = self.values() {
            return vec![("base", "enum".into()), ("values", Json::from(values).into())];
        }
        let bounds = |base: &'static str| {
            let number = |key: &str| self.at[key].as_f64().filter(|bound| bound.abs() < 1e15);
            let (min, max) = (number("minimum"), number("maximum"));
            if min.zip(max).is_some_and(|(min, max)| min > max) || (min.is_none() && max.is_none()) {
                return vec![("type", base.into())];
            }
            let tidy =
                |bound: f64| if bound.fract() == 0.0 { Json::from(bound as i64) } else { Json::from(bound) };
            let parts = [
                ("base", Some(base.into())),
                ("min", min.map(|n| tidy(n).into())),
                ("max", max.map(|n| tidy(n).into())),
            ];
            parts.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
        };
        let base = match (self.kind(), self.at["format"].as_str()) {
            (Some("integer"), _) => return bounds("int"),
            (Some("number"), _) => return bounds("float"),
            (Some("boolean"), _) => "bool",
            (Some("string"), Some("date-time")) => "datetime",
            (Some("string"), Some("date")) => "date",
            (Some("string"), Some("byte" | "binary")) => "bytes",
            (Some("string"), _) => "string",
            _ => "json",
        };
        vec![("type", base.into())]
    }

    /// The members of an enum of texts.
    fn values(&self) -> Option<Vec<String>> {
        let one = self.at.get("const").map(std::slice::from_ref);
        let all = one.or_else(|| self.at["enum"].as_array().map(Vec::as_slice))?;
        let mut values: Vec<String> = Vec::new();
        for value in all.iter().filter(|value| !value.is_null()) {
            let text = value.as_str()?;
            if prose(text, usize::MAX).as_deref() != Some(text) {
                return None;
            }
            if !values.iter().any(|have| have == text) {
                values.push(text.to_owned());
            }
        }
        (1..=MOST_VALUES).contains(&values.len()).then_some(values)
    }

    /// The form of a list or an object, `[{name, tags?}]`; none where it says none, and of what has another type.
    fn form(&self) -> Option<String> {
        let members = |of: Schema<'a>| {
            let properties = of.properties();
            let names = properties.iter().take(MOST_MEMBERS).map(|(name, _)| match of.requires(name) {
                true => name.clone(),
                false => format!("{name}?"),
            });
            let names: Vec<String> = names.collect();
            (!names.is_empty()).then(|| format!("{{{}}}", names.join(", ")))
        };
        match self.kind()? {
            "object" => members(*self),
            "array" => {
                let items = self.to(self.at.get("items")?);
                Some(format!("[{}]", members(items).or_else(|| items.kind().map(str::to_owned))?))
            }
            _ => None,
        }
    }

    pub fn is_null_too(&self, raw: &Json) -> bool {
        let among = |at: &Json| {
            at["type"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "null"))
                || at["nullable"] == true
                || ["anyOf", "oneOf"].iter().any(|key| {
                    at[*key].as_array().is_some_and(|union| union.iter().any(|one| one["type"] == "null"))
                })
        };
        among(raw) || among(self.at)
    }
}

/// A field of an entity: its type, `nullable` unless every row has it, and where it lies if not under its name.
pub(super) fn field(of: Schema<'_>, raw: &Json, always: bool, at: Option<String>) -> Sheet {
    let mut parts = of.domain();
    if !always || of.is_null_too(raw) {
        parts.push(("nullable", true.into()));
    }
    parts.extend(at.map(|at| ("at", at.into())));
    parts.extend(describes(of, raw).map(|about| ("about", about.into())));
    match parts.as_slice() {
        [("type", only)] => only.clone(),
        _ => map(parts),
    }
}

/// An argument: its type, how much it is needed, and what the source calls it if not the same.
pub(super) fn argument(of: Schema<'_>, raw: &Json, need: Option<&str>, wire: Option<&str>) -> Sheet {
    let mut parts = of.domain();
    parts.extend(need.map(|need| ("need", need.into())));
    parts.extend(wire.map(|wire| ("wire", wire.into())));
    let about = describes(of, raw);
    // What has no type of a catalog is told by its form.
    let about = match of.form() {
        Some(form) => Some(about.map_or(form.clone(), |about| format!("{form}: {about}"))),
        None => about,
    };
    parts.extend(about.and_then(|about| prose(&about, LONGEST)).map(|about| ("about", about.into())));
    match parts.as_slice() {
        [("type", only)] => only.clone(),
        _ => map(parts),
    }
}

/// The fields, and beside them what the server calls each.
pub(super) fn fields_of(row: Schema<'_>) -> (Vec<(String, Sheet)>, Vec<String>) {
    let (mut taken, required) = (Taken::default(), row.required());
    let properties = row.properties().into_iter().filter(|(wire, _)| can_be_located(wire));
    properties
        .map(|(wire, raw)| {
            let name = taken.name(&wire, "value");
            let at = (name != wire).then(|| format!("$.{wire}"));
            ((name, field(row.to(raw), raw, required.contains(&*wire), at)), wire)
        })
        .unzip()
}

/// The field by which rows are told apart.
pub(super) fn key_of(rows: Schema<'_>, entity: &str) -> Option<String> {
    let own = [format!("{entity}_id"), format!("{entity}Id")];
    let known = ["id", "uuid", "key", "slug", "uri", "path"].map(str::to_owned);
    let is_key = |name: &String| {
        let of = rows.property(name)?;
        (matches!(of.kind(), Some("string" | "integer")) && (name == "id" || rows.requires(name)))
            .then(|| name.clone())
    };
    known.iter().take(1).chain(&own).chain(&known[1..]).find_map(is_key)
}

pub(super) fn describes(of: Schema<'_>, raw: &Json) -> Option<String> {
    raw["description"].as_str().and_then(|text| prose(text, LONGEST)).or_else(|| of.describes())
}

/// Whether a locator can name that key.
pub(super) fn can_be_located(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '@' | ':' | '/'))
}
