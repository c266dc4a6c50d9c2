//! `x-mcp-header`: which arguments of a tool travel as `Mcp-Param-*` headers (2026-07-28 transports,
//! *Custom Headers from Tool Parameters*).

use super::{Raw, json};
use std::collections::HashSet;

/// One annotated argument: where it stands in the arguments, and under which header it travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamHeader {
    /// The chain of `properties` keys from the arguments' root.
    pub path: Vec<String>,
    /// The full header name, lower case: `mcp-param-region`.
    pub header: http::HeaderName,
}

/// Why a tool's annotations are invalid, and the tool with them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("x-mcp-header {0:?} is not a field name")]
    Name(String),
    #[error("x-mcp-header {0:?} is given twice")]
    Twice(String),
    #[error("x-mcp-header {0:?} stands at a parameter that is no string, integer or boolean")]
    Kind(String),
    #[error("x-mcp-header stands where no chain of properties leads")]
    Place,
}

const KEY: &str = "x-mcp-header";

/// The annotated arguments of a tool's `inputSchema`, in the schema's order. Most tools have none, which a byte
/// search finds without reading the schema.
pub fn of_schema(schema: &Raw) -> Result<Vec<ParamHeader>, Invalid> {
    let text = schema.to_bytes();
    // An escaped spelling of the key would hide from the search, and is read all the same.
    if memchr::memmem::find(&text, KEY.as_bytes()).is_none() && memchr::memmem::find(&text, b"\\u").is_none()
    {
        return Ok(Vec::new());
    }
    let Ok(schema) = serde_json::from_slice::<serde_json::Value>(&text) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    walk(&schema, &mut Vec::new(), false, &mut found)?;
    let mut seen = HashSet::new();
    for param in &found {
        if !seen.insert(param.header.clone()) {
            return Err(Invalid::Twice(param.header.as_str()["mcp-param-".len()..].to_owned()));
        }
    }
    Ok(found)
}

fn walk(
    schema: &serde_json::Value,
    path: &mut Vec<String>,
    annotatable: bool,
    found: &mut Vec<ParamHeader>,
) -> Result<(), Invalid> {
    let Some(schema) = schema.as_object() else { return Ok(()) };
    if let Some(name) = schema.get(KEY) {
        if !annotatable {
            return Err(Invalid::Place);
        }
        let name = name.as_str().ok_or_else(|| Invalid::Name(name.to_string()))?;
        let kind = schema.get("type").and_then(|t| t.as_str());
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return Err(Invalid::Kind(name.to_owned()));
        }
        let header = format!("mcp-param-{}", name.to_ascii_lowercase());
        let header = http::HeaderName::from_bytes(header.as_bytes()).ok().filter(|_| !name.is_empty());
        let header = header.ok_or_else(|| Invalid::Name(name.to_owned()))?;
        found.push(ParamHeader { path: path.clone(), header });
    }
    for (key, value) in schema {
        if key == "properties" && (path.is_empty() || annotatable) {
            for (property, sub) in value.as_object().into_iter().flatten() {
                path.push(property.clone());
                walk(sub, path, true, found)?;
                path.pop();
            }
        } else if !matches!(key.as_str(), "const" | "enum" | "default" | "examples") && holds(value) {
            return Err(Invalid::Place);
        }
    }
    Ok(())
}

/// Whether an annotation stands anywhere below: it would be where no chain of properties leads.
fn holds(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Object(map) => map.contains_key(KEY) || map.values().any(holds),
        serde_json::Value::Array(items) => items.iter().any(holds),
        _ => false,
    }
}

/// The header text of the argument at `path`; `None` where it is absent, null, or no primitive.
pub fn argument(arguments: &Raw, path: &[String]) -> Option<String> {
    let text = arguments.text();
    let mut at = 0..text.len() as u32;
    for key in path {
        at = json::lax_members(text, at.start).ok()?.into_iter().find(|m| m.is(key))?.value;
    }
    let token = &text[at.start as usize..at.end as usize];
    match token.first()? {
        b'"' => json::string(text, &at).map(|s| s.into_owned()),
        b'n' | b'{' | b'[' => None,
        _ => Some(String::from_utf8_lossy(token).into_owned()),
    }
}

/// Whether a header says what the argument says: integers compare as numbers (`1.0` is `1`), all else as text.
pub fn agree(header: &str, argument: &str) -> bool {
    if header == argument {
        return true;
    }
    match (header.parse::<f64>(), argument.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b && a.fract() == 0.0 && a.abs() < 9007199254740992.0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(schema: &str) -> Result<Vec<(String, String)>, Invalid> {
        let found = of_schema(&Raw::trusted(schema.to_owned()))?;
        Ok(found.into_iter().map(|p| (p.path.join("."), p.header.to_string())).collect())
    }

    #[test]
    fn annotations_are_found_along_chains_of_properties_and_refused_elsewhere() {
        let ok = read(
            r#"{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"},
                "o":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}"#,
        )
        .unwrap();
        assert!(
            ok.contains(&("r".into(), "mcp-param-region".into()))
                && ok.contains(&("o.n".into(), "mcp-param-n".into()))
        );
        for (bad, want) in [
            (r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#, Invalid::Kind("A".into())),
            (r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#, Invalid::Name("".into())),
            (r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#, Invalid::Name("a b".into())),
            (
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
                Invalid::Twice("a".into()),
            ),
            (r#"{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}"#, Invalid::Place),
            (r#"{"oneOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#, Invalid::Place),
            (r#"{"x-mcp-header":"A","type":"string"}"#, Invalid::Place),
        ] {
            assert_eq!(read(bad), Err(want), "{bad}");
        }
        assert_eq!(read(r#"{"type":"object"}"#), Ok(vec![]));
    }

    #[test]
    fn arguments_are_read_at_their_path_and_numbers_compare_as_numbers() {
        let args = Raw::trusted(r#"{"o":{"n":42},"s":"x","z":null}"#);
        let at = |p: &[&str]| argument(&args, &p.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        assert_eq!(at(&["o", "n"]).as_deref(), Some("42"));
        assert_eq!(at(&["s"]).as_deref(), Some("x"));
        assert_eq!(at(&["z"]), None);
        assert_eq!(at(&["o"]), None);
        assert!(agree("42", "42.0") && !agree("42", "43") && !agree("a", "A"));
    }
}
