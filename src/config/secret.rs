//! Secrets and variables: values that stand in the environment or a file, and `${…}` in text as MCP clients write it.
//! A secret is read when it is used, so a rotated file is seen, and shows its value to nobody who only prints it.

use std::{fmt, path::PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error, ser::SerializeMap};

/// How a redacted value is shown.
pub(super) const REDACTED: &str = "***";

/// A value that is not to be seen: `{env: NAME}`, `{file: PATH}`, or text in which `${env:NAME}` may stand.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Source);

#[derive(Clone, PartialEq, Eq)]
enum Source {
    Environment(String),
    File(PathBuf),
    Text(Template),
}

/// Why a secret has no value. Names the place of the secret, never what it holds.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// Unset, empty where a whole value was asked for, or not UTF-8.
    #[error("the environment variable {0} is not set")]
    Unset(String),
    #[error("{}: cannot be read: {why}", .file.display())]
    Unreadable { file: PathBuf, why: std::io::Error },
    #[error("{}: is empty", .0.display())]
    Empty(PathBuf),
}

impl Secret {
    /// The value now: from the process's environment or the file (without its last line break).
    pub fn reveal(&self) -> Result<SecretString, SecretError> {
        self.reveal_from(&|name| std::env::var(name).ok())
    }

    pub(super) fn reveal_from(&self, environment: Lookup<'_>) -> Result<SecretString, SecretError> {
        match &self.0 {
            Source::Environment(name) => environment(name)
                .filter(|value| !value.is_empty())
                .map(SecretString::from)
                .ok_or_else(|| SecretError::Unset(name.clone())),
            Source::File(file) => {
                let mut text = std::fs::read_to_string(file)
                    .map_err(|why| SecretError::Unreadable { file: file.clone(), why })?;
                text.truncate(text.trim_end_matches(['\r', '\n']).len());
                if text.is_empty() { Err(SecretError::Empty(file.clone())) } else { Ok(text.into()) }
            }
            Source::Text(template) => template.fill(environment).map(SecretString::from),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Environment(name) => write!(to, "Secret(env {name})"),
            Source::File(file) => write!(to, "Secret(file {})", file.display()),
            Source::Text(template) => write!(to, "Secret({})", template.redacted()),
        }
    }
}

impl Serialize for Secret {
    /// Shows where the value stands; what stands in the configuration itself is [`REDACTED`].
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = match &self.0 {
            Source::Text(template) => return to.serialize_str(&template.redacted()),
            _ => to.serialize_map(Some(1))?,
        };
        match &self.0 {
            Source::Environment(name) => map.serialize_entry("env", name)?,
            Source::File(file) => map.serialize_entry("file", file)?,
            Source::Text(_) => unreachable!("answered above"),
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Environment { env: String },
            File { file: PathBuf },
        }
        Ok(Self(match Written::deserialize(from)? {
            Written::Text(text) => Source::Text(Template::parse(&text).map_err(D::Error::custom)?),
            Written::Environment { env } => Source::Environment(env),
            Written::File { file } => Source::File(file),
        }))
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        secret_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// The schema of one secret.
pub(super) fn secret_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-format": "secret", "anyOf": [{ "type": "string" }, reference("env"), reference("file")] })
}

/// The schema of a list of secrets of which none may stand in the configuration itself.
pub(super) fn secret_refs_schema(_: &mut SchemaGenerator) -> Schema {
    let item =
        serde_json::json!({ "x-format": "secret-ref", "anyOf": [reference("env"), reference("file")] });
    json_schema!({ "type": "array", "items": item })
}

fn reference(key: &str) -> serde_json::Value {
    serde_json::json!({
        "type": "object", "properties": { key: { "type": "string" } },
        "required": [key], "additionalProperties": false
    })
}

/// Where variables are looked up.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Text with variables: `${env:NAME}` (Cursor, VS Code), `${NAME}` and `${NAME:-default}` (Claude Code), `${userHome}`;
/// `$${` writes a `${` that is meant as such.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Variable { written: String, name: String, default: Option<String> },
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            if rest[..start].ends_with('$') {
                literal.push_str(&rest[..start - 1]);
                literal.push_str("${");
                rest = &rest[start + 2..];
                continue;
            }
            let end =
                rest[start..].find('}').ok_or("a \"${\" without its \"}\"; write \"$${\" for a plain one")?;
            let written = &rest[start..=start + end];
            literal.push_str(&rest[..start]);
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(variable(written)?);
            rest = &rest[start + end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self(parts))
    }

    pub fn fill(&self, environment: Lookup<'_>) -> Result<String, SecretError> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Literal(literal) => text.push_str(literal),
                Part::Variable { name, default, .. } => {
                    let value = environment(name).filter(|value| default.is_none() || !value.is_empty());
                    match value.or_else(|| default.clone()) {
                        Some(value) => text.push_str(&value),
                        None => return Err(SecretError::Unset(name.clone())),
                    }
                }
            }
        }
        Ok(text)
    }

    /// The variables as written, everything else hidden.
    fn redacted(&self) -> String {
        self.0
            .iter()
            .map(|part| match part {
                Part::Literal(_) => REDACTED,
                Part::Variable { default: Some(_), .. } => REDACTED,
                Part::Variable { written, .. } => written,
            })
            .collect()
    }
}

/// One `${…}`.
fn variable(written: &str) -> Result<Part, String> {
    let inner = &written[2..written.len() - 1];
    let part = |name: &str, default: Option<&str>| Part::Variable {
        written: written.to_owned(),
        name: name.to_owned(),
        default: default.map(str::to_owned),
    };
    let is_name = |name: &str, lower: bool| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| {
                byte == b'_'
                    || byte.is_ascii_uppercase()
                    || byte.is_ascii_digit()
                    || lower && byte.is_ascii_lowercase()
            })
    };
    if inner == "userHome" {
        return Ok(part("HOME", None));
    }
    if let Some(name) = inner.strip_prefix("env:").filter(|name| is_name(name, true)) {
        return Ok(part(name, None));
    }
    let (name, default) =
        inner.split_once(":-").map_or((inner, None), |(name, default)| (name, Some(default)));
    if is_name(name, false) {
        return Ok(part(name, default));
    }
    if inner.starts_with("input:") {
        return Err(format!("{written} asks a person, and a gateway has none to ask; use ${{env:NAME}}"));
    }
    Err(format!(
        "{written} is no variable known here; use ${{env:NAME}}, or write \"$${{\" for a plain \"${{\""
    ))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "TOKEN" => Some("t0p".to_owned()),
            "HOME" => Some("/home/u".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_filled_as_each_client_writes_them() {
        let cases = [
            ("Bearer ${env:TOKEN}", Ok("Bearer t0p")),
            ("${TOKEN}${TOKEN}", Ok("t0pt0p")),
            ("${NONE:-x}/${EMPTY:-y}", Ok("x/y")),
            ("${userHome}/f", Ok("/home/u/f")),
            ("$${TOKEN} $HOME", Ok("${TOKEN} $HOME")),
            ("${NONE}", Err("the environment variable NONE is not set")),
            (
                "${input:key}",
                Err("${input:key} asks a person, and a gateway has none to ask; use ${env:NAME}"),
            ),
            (
                "${workspaceFolder}",
                Err(
                    "${workspaceFolder} is no variable known here; use ${env:NAME}, or write \"$${\" for a plain \"${\"",
                ),
            ),
            ("${TOKEN", Err("a \"${\" without its \"}\"; write \"$${\" for a plain one")),
        ];
        for (text, want) in cases {
            let got = Template::parse(text)
                .and_then(|template| template.fill(&environment).map_err(|error| error.to_string()));
            assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn a_secret_shows_where_it_stands_and_never_what_it_is() {
        let cases = [
            (r#""sk-123""#, r#""***""#, "sk-123"),
            (r#""Bearer ${env:TOKEN}""#, r#""***${env:TOKEN}""#, "Bearer t0p"),
            (r#""${NONE:-sk-123}""#, r#""***""#, "sk-123"),
            (r#"{"env":"TOKEN"}"#, r#"{"env":"TOKEN"}"#, "t0p"),
        ];
        for (written, shown, value) in cases {
            let secret: Secret = serde_json::from_str(written).unwrap();
            assert_eq!(serde_json::to_string(&secret).unwrap(), shown);
            assert!(!format!("{secret:?}").contains("sk-123"));
            assert_eq!(secret.reveal_from(&environment).unwrap().expose_secret(), value);
        }
    }

    #[test]
    fn a_file_is_read_at_each_use_without_its_line_break() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let secret: Secret = serde_json::from_value(serde_json::json!({ "file": file })).unwrap();
        assert!(matches!(secret.reveal(), Err(SecretError::Unreadable { .. })));
        for value in ["first", "second"] {
            std::fs::write(&file, format!("{value}\n")).unwrap();
            assert_eq!(secret.reveal().unwrap().expose_secret(), value);
        }
    }

    #[test]
    fn an_empty_variable_or_file_is_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "\n").unwrap();
        let written = [serde_json::json!({ "env": "EMPTY" }), serde_json::json!({ "file": file })];
        for secret in written {
            assert!(serde_json::from_value::<Secret>(secret).unwrap().reveal_from(&environment).is_err());
        }
    }
}
