//! Settings from variables `PLASM_MCP_…`: the key's path in capitals, its parts joined by `_`. Maps of upstreams and
//! profiles are for files only.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{
    check::type_of,
    problem::{Origin, Place, Problem, did_you_mean},
    tree::{Node, Value},
};

pub(super) const PREFIX: &str = "PLASM_MCP_";
/// Variables that name files; the command line reads them.
pub(super) const FILE_VARIABLES: [&str; 2] = ["PLASM_MCP_CONFIG", "PLASM_MCP_MCP_JSON"];

/// A setting that one text can give.
pub(super) struct Leaf<'a> {
    pub path: Vec<&'a str>,
    pub schema: &'a Json,
}

impl Leaf<'_> {
    /// Named after the key, save where runbooks already had a name for it.
    pub fn variable(&self) -> String {
        match self.schema["x-variable"].as_str() {
            Some(name) => name.to_owned(),
            None => format!("{PREFIX}{}", self.path.join("_").to_uppercase()),
        }
    }
}

/// All settings that a variable or flag can give: scalars and lists of text outside the maps.
pub(super) fn leaves(schema: &Json) -> Vec<Leaf<'_>> {
    fn walk<'a>(schema: &'a Json, path: &[&'a str], found: &mut Vec<Leaf<'a>>) {
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let path = [path, &[key.as_str()]].concat();
            match type_of(property) {
                "object" => walk(property, &path, found),
                "array" if property["items"]["anyOf"].is_array() => {}
                "array" if type_of(&property["items"]) == "object" => {}
                _ => found.push(Leaf { path, schema: property }),
            }
        }
    }
    let mut found = Vec::new();
    walk(schema, &[], &mut found);
    found
}

/// The tree that the variables make, and a warning for each that is ours by its prefix but sets nothing.
pub(super) fn overlay(variables: &[(String, String)], schema: &Json) -> (Node, Vec<Problem>) {
    let leaves = leaves(schema);
    let mut tree = Node::map();
    let mut warnings = Vec::new();
    for (name, text) in variables.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        let place = Place { origin: Arc::new(Origin::Environment(name.clone())), line: 0, column: 0 };
        match leaves.iter().find(|leaf| leaf.variable() == *name) {
            // An empty variable is how charts and compose files leave a setting alone.
            Some(_) if text.is_empty() => {}
            Some(leaf) => set(&mut tree, &leaf.path, typed(text, leaf.schema, place)),
            None if FILE_VARIABLES.contains(&name.as_str()) || is_service_link(name, text) => {}
            None => {
                let known: Vec<String> = leaves.iter().map(Leaf::variable).collect();
                let near = did_you_mean(name, known.iter().map(String::as_str));
                let message = format!("no setting has this name{near}");
                warnings.push(Problem { place: Some(place), path: Default::default(), message });
            }
        }
    }
    (tree, warnings)
}

/// Sets a value with its place on the last key, where problems look for it.
pub(super) fn set(tree: &mut Node, path: &[&str], node: Node) {
    let place = node.place.clone();
    tree.set(path, node);
    let (last, parents) = path.split_last().expect("a leaf has a key");
    let parent = parents.iter().fold(tree, |at, key| at.entry(key));
    if let Value::Map(entries) = &mut parent.value {
        entries
            .iter_mut()
            .filter(|entry| entry.key == *last)
            .for_each(|entry| entry.place.clone_from(&place));
    }
}

/// The text as the type that the setting has; text that does not fit stays text, and the check says so.
pub(super) fn typed(text: &str, schema: &Json, place: Place) -> Node {
    let value = match type_of(schema) {
        // Who sets a variable writes 1 as often as true.
        "boolean" => match text {
            "1" => Ok(true),
            "0" => Ok(false),
            text => text.parse(),
        }
        .map_or_else(|_| Value::Text(text.to_owned()), Value::Bool),
        "integer" => text.parse().map_or_else(|_| Value::Text(text.to_owned()), Value::Integer),
        "array" => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::List(items.map(|item| Node::text(item, Some(place.clone()))).collect())
        }
        _ => Value::Text(text.to_owned()),
    };
    Node { value, place: Some(place) }
}

/// Kubernetes puts variables into each pod for each Service; one named `plasm-mcp` makes `PLASM_MCP_PORT` and more.
fn is_service_link(name: &str, text: &str) -> bool {
    ["_SERVICE_HOST", "_SERVICE_PORT", "_TCP", "_UDP"].iter().any(|part| name.contains(part))
        || name.ends_with("_PORT") && text.contains("://")
}
