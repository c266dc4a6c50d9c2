//! Holds a source's tree against the schema: unknown keys, wrong types, bounds. Finds everything, not only the first.

use serde_json::Value as Json;

use super::{
    format,
    problem::{KeyPath, Place, Problem, did_you_mean},
    tree::{Entry, Node, Value},
};

/// What one walk over a tree found.
#[derive(Default)]
pub(super) struct Findings {
    pub problems: Vec<Problem>,
    /// Keys that no setting bears, kept apart because other programs' files may have them.
    pub unknown: Vec<Problem>,
}

/// Checks a whole tree.
pub(super) fn check(root: &Node, schema: &Json) -> Findings {
    let mut findings = Findings::default();
    findings.node(root, schema, &KeyPath::default(), root.place.as_ref());
    findings
}

impl Findings {
    fn node(&mut self, node: &Node, schema: &Json, path: &KeyPath, place: Option<&Place>) {
        if let Some(form) = schema["x-format"].as_str() {
            if let Err(message) = format::check(form, node, schema) {
                self.problem(place, path, message);
            }
            return;
        }
        let allowed = words(schema);
        match (type_of(schema), &node.value) {
            ("object", Value::Map(entries)) => self.map(entries, schema, path),
            ("array", Value::List(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.node(item, &schema["items"], &path.item(index), item.place.as_ref().or(place));
                }
            }
            ("string", Value::Text(text)) if allowed.is_empty() || allowed.contains(&text.as_str()) => {}
            ("integer", Value::Integer(number)) => {
                let bound = |key: &str| schema[key].as_i64();
                let show = |number: i64| number.to_string();
                if let Err(message) = format::within(*number, bound("minimum"), bound("maximum"), show) {
                    self.problem(place, path, message);
                }
            }
            ("boolean", Value::Bool(_)) => {}
            (kind, _) => {
                let near = match &node.value {
                    Value::Text(text) => did_you_mean(text, allowed.iter().copied()),
                    _ => String::new(),
                };
                // Arguments written as one text may hold a secret, so what stands for a list or map is not repeated.
                let found = match (kind, &node.value) {
                    ("object" | "array", Value::Text(_)) => "text".to_owned(),
                    _ => node.describe(),
                };
                let message = format!("expected {}, found {found}{near}", expected(kind, &allowed));
                self.problem(place, path, message);
            }
        }
    }

    fn map(&mut self, entries: &[Entry], schema: &Json, path: &KeyPath) {
        let known = schema["properties"].as_object();
        for entry in entries {
            let path = path.then(&entry.key);
            let place = entry.place.as_ref();
            if let Some(property) = known.and_then(|known| known.get(&entry.key)) {
                self.node(&entry.node, property, &path, place);
            } else if schema["additionalProperties"].is_object() {
                if let Some(form) = schema["x-key"].as_str()
                    && let Err(message) = format::check_text(form, &entry.key)
                {
                    self.problem(place, &path, message);
                }
                self.node(&entry.node, &schema["additionalProperties"], &path, place);
            } else {
                let near = did_you_mean(&entry.key, known.into_iter().flatten().map(|(key, _)| key.as_str()));
                let message = format!("unknown key{near}");
                self.unknown.push(Problem { place: place.cloned(), path, message });
            }
        }
    }

    fn problem(&mut self, place: Option<&Place>, path: &KeyPath, message: String) {
        self.problems.push(Problem { place: place.cloned(), path: path.clone(), message });
    }
}

/// The type a schema names, `null` aside: keys without a value are taken out before.
pub(super) fn type_of(schema: &Json) -> &str {
    match &schema["type"] {
        Json::String(kind) => kind,
        Json::Array(kinds) => {
            kinds.iter().filter_map(Json::as_str).find(|kind| *kind != "null").unwrap_or("")
        }
        // An enumeration whose words are described one by one has no type of its own.
        _ => "string",
    }
}

/// The words of an enumeration; empty: any text.
pub(super) fn words(schema: &Json) -> Vec<&str> {
    let listed = schema["enum"].as_array().into_iter().flatten().filter_map(Json::as_str);
    let described = schema["oneOf"].as_array().into_iter().flatten().filter_map(|one| one["const"].as_str());
    listed.chain(described).collect()
}

fn expected(kind: &str, words: &[&str]) -> String {
    match kind {
        "object" => "a map".to_owned(),
        "array" => "a list".to_owned(),
        "integer" => "a whole number".to_owned(),
        "boolean" => "true or false".to_owned(),
        _ if words.is_empty() => "text (in quotes where it looks like something else)".to_owned(),
        _ => format!("one of {}", words.join(", ")),
    }
}
