//! The two small notations of a catalog's mappings: where in an answer a value lies, and what of a call is sent.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// What a locator starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// `$`: the answer's JSON, or the row's.
    Document,
    /// `structured`: `structuredContent` of a tool's result.
    Structured,
    /// `json_text`: the JSON in the first text of a tool's result.
    JsonText,
    /// `text`: the texts of a tool's result.
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    Key(String),
    /// `*`: each element.
    Each,
}

/// Where a value lies: `$.items.*`, `structured.notes`. An absent key is null, never an error of the notation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Locator {
    pub root: Root,
    pub hops: Vec<Hop>,
    /// Of the URL or path that lies there one segment alone, counted from its end: `$.repository_url/-2`. What is no text,
    /// or has fewer segments, is null.
    pub segment: Option<usize>,
}

impl Locator {
    /// The key of that name of the document: where a field lies unless its catalog says otherwise.
    pub fn key(name: &str) -> Self {
        Self { root: Root::Document, hops: vec![Hop::Key(name.to_owned())], segment: None }
    }

    /// Whether it may find more than one value.
    pub fn is_many(&self) -> bool {
        self.hops.contains(&Hop::Each)
    }
}

impl Locator {
    /// What lies there, below what its root stands for: of a place with `*` a list of all that is found, else the value, or
    /// null.
    pub fn value(&self, root: &Json) -> Json {
        let mut found = Vec::new();
        collect(&self.hops, root, &mut found);
        let taken = |value: &Json| match self.segment {
            Some(back) => segment(value, back),
            None => value.clone(),
        };
        match self.is_many() {
            true => found.into_iter().map(taken).collect(),
            false => found.pop().map(taken).unwrap_or_default(),
        }
    }
}

/// A segment of a URL or path, as it is written there: `back` from its end, a slash there aside.
fn segment(value: &Json, back: usize) -> Json {
    let path = value.as_str().and_then(|text| text.split(['?', '#']).next()).unwrap_or_default();
    let mut segments = path.trim_end_matches('/').rsplit('/');
    segments.nth(back.saturating_sub(1)).filter(|segment| !segment.is_empty()).map_or(Json::Null, Json::from)
}

fn collect<'j>(hops: &[Hop], value: &'j Json, found: &mut Vec<&'j Json>) {
    match (hops.split_first(), value) {
        (None, value) => found.push(value),
        (Some((Hop::Key(key), rest)), value) => {
            value.get(key).into_iter().for_each(|inside| collect(rest, inside, found));
        }
        (Some((Hop::Each, rest)), Json::Array(items)) => {
            items.iter().for_each(|item| collect(rest, item, found));
        }
        (Some((Hop::Each, rest)), Json::Object(map)) => {
            map.values().for_each(|item| collect(rest, item, found));
        }
        _ => {}
    }
}

#[derive(Debug, thiserror::Error)]
#[error("expected a place such as $, $.name, $.items.* or $.url/-1, found {0:?}")]
pub struct BadLocator(String);

impl TryFrom<String> for Locator {
    type Error = BadLocator;

    fn try_from(text: String) -> Result<Self, BadLocator> {
        // A digit after the sign: `/-1` to `/-9`.
        let counted = |back: &str| back.parse().ok().filter(|back| (1..=9).contains(back));
        let (place, segment) = match text.rsplit_once("/-") {
            Some((place, back)) if counted(back).is_some() => (place, counted(back)),
            _ => (text.as_str(), None),
        };
        let mut parts = place.split('.');
        let root = match parts.next() {
            Some("$") => Root::Document,
            Some("structured") => Root::Structured,
            Some("json_text") => Root::JsonText,
            Some("text") => Root::Text,
            _ => return Err(BadLocator(text)),
        };
        let named = |part: &str| {
            !part.is_empty()
                && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '@' | ':' | '/'))
        };
        let hops = parts
            .map(|part| match part {
                "*" => Some(Hop::Each),
                part => named(part).then(|| Hop::Key(part.to_owned())),
            })
            .collect::<Option<Vec<_>>>();
        match hops {
            Some(hops) => Ok(Self { root, hops, segment }),
            None => Err(BadLocator(text)),
        }
    }
}

impl From<Locator> for String {
    fn from(locator: Locator) -> String {
        locator.to_string()
    }
}

impl fmt::Display for Locator {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self.root {
            Root::Document => "$",
            Root::Structured => "structured",
            Root::JsonText => "json_text",
            Root::Text => "text",
        })?;
        self.hops.iter().try_for_each(|hop| match hop {
            Hop::Key(key) => write!(to, ".{key}"),
            Hop::Each => to.write_str(".*"),
        })?;
        self.segment.map_or(Ok(()), |back| write!(to, "/-{back}"))
    }
}

impl JsonSchema for Locator {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Locator".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": r"^(\$|structured|json_text|text)(\.(\*|[^.\s]+))*$"})
    }
}

/// What is sent of a call: `args.state`, `key.id`, `text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Arg(String),
    Key(String),
    /// The words of a search.
    Text,
}

impl Input {
    pub fn parse(text: &str) -> Option<Self> {
        let named =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match text.split_once('.') {
            None if text == "text" => Some(Input::Text),
            Some(("args", name)) if named(name) => Some(Input::Arg(name.to_owned())),
            Some(("key", name)) if named(name) => Some(Input::Key(name.to_owned())),
            _ => None,
        }
    }
}

/// The inputs between braces in a request line: `GET /projects/{args.project}/issues`. `Err` is what stands in braces and is
/// no input.
pub fn placeholders(line: &str) -> Result<Vec<Input>, String> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((_, after)) = rest.split_once('{') {
        let Some((inside, after)) = after.split_once('}') else { return Err(after.to_owned()) };
        found.push(Input::parse(inside).ok_or_else(|| inside.to_owned())?);
        rest = after;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_locator_is_written_as_it_was_read() {
        for text in [
            "$",
            "$.generation.name",
            "$.types.*.type",
            "structured.notes",
            "json_text",
            "text",
            "$.a.url/-2",
            "$/-1",
        ] {
            assert_eq!(Locator::try_from(text.to_owned()).unwrap().to_string(), text);
        }
        for text in ["", "name", "$.", "$..a", "$.a b", "$name", "other.x"] {
            assert!(Locator::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn only_inputs_stand_in_braces() {
        let want = vec![Input::Arg("project".to_owned()), Input::Key("id".to_owned())];
        assert_eq!(placeholders("GET /p/{args.project}/i/{key.id}"), Ok(want));
        assert_eq!(placeholders("GET /p/{project}"), Err("project".to_owned()));
        assert_eq!(placeholders("GET /p/{key.id"), Err("key.id".to_owned()));
    }

    #[test]
    fn what_lies_at_a_place_is_found_and_else_null() {
        let raw = json!({"a": {"b": 1}, "items": [{"x": {"n": 1}}, {"y": 2}, {"x": {"n": 3}}], "map": {"k": {"v": 1}, "l": {"v": 2}},
            "url": "https://api.example.com/repos/octocat/Hello-World/?page=2", "paths": ["/w/x", "y", 3]});
        for (place, want) in [
            ("$", raw.clone()),
            ("$.a.b", json!(1)),
            ("$.a.c.d", Json::Null),
            ("$.items.*.x.n", json!([1, 3])),
            ("$.map.*.v", json!([1, 2])),
            ("$.a.b.*", json!([])),
            ("$.url/-1", json!("Hello-World")),
            ("$.url/-2", json!("octocat")),
            ("$.url/-9", Json::Null),
            ("$.a.b/-1", Json::Null),
            ("$.paths.*/-1", json!(["x", "y", null])),
        ] {
            let at = Locator::try_from(place.to_owned()).unwrap();
            assert_eq!(at.value(&raw), want, "{place}");
        }
    }
}
