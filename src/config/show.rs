//! The effective configuration as text for people, without what must not be seen.

use super::{
    Config, Loaded,
    secret::REDACTED,
    tree::{Node, Value},
};

/// Why a configuration cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    #[error("the configuration cannot be written as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
    #[error("the configuration cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// YAML with every setting, the defaults too; a comment names those that environment and flags gave.
pub fn to_yaml(loaded: &Loaded) -> Result<String, ShowError> {
    let mut text: String =
        loaded.overridden.iter().map(|(path, origin)| format!("# {path}: from {origin}\n")).collect();
    text.push_str(&serde_saphyr::to_string(&redacted(&loaded.config)?)?);
    Ok(text)
}

/// The same as JSON, without comments.
pub fn to_json(loaded: &Loaded) -> Result<String, ShowError> {
    Ok(serde_json::to_string_pretty(&redacted(&loaded.config)?)?)
}

/// Secrets hide themselves as they are written; what is left are keys in addresses and arguments.
fn redacted(config: &Config) -> Result<Node, ShowError> {
    let mut root: Node = serde_json::from_str(&serde_json::to_string(config)?)?;
    let upstreams = match root.get_mut("upstreams").map(|upstreams| &mut upstreams.value) {
        Some(Value::Map(upstreams)) => upstreams.as_mut_slice(),
        _ => &mut [],
    };
    for upstream in upstreams {
        if let Some(Value::Text(url)) = upstream.node.get_mut("url").map(|url| &mut url.value) {
            *url = redact_url(url);
        }
        if let Some(Value::List(args)) = upstream.node.get_mut("args").map(|args| &mut args.value) {
            redact_args(args);
        }
    }
    Ok(root)
}

/// Hides the values of an address's query.
fn redact_url(url: &str) -> String {
    let Some((address, query)) = url.split_once('?') else { return url.to_owned() };
    let hidden: Vec<String> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) => format!("{key}={}", hide(value)),
            None => hide(pair),
        })
        .collect();
    format!("{address}?{}", hidden.join("&"))
}

/// Hides the argument that belongs to a flag whose name speaks of a secret: `--api-key X`, `--token=X`.
fn redact_args(args: &mut [Node]) {
    let mut follows = false;
    for arg in args {
        let Value::Text(text) = &mut arg.value else { continue };
        let (name, value) =
            text.split_once('=').map_or((text.as_str(), None), |(name, value)| (name, Some(value)));
        let lower = name.to_ascii_lowercase();
        let speaks = ["key", "token", "secret", "password", "auth", "credential", "header"]
            .iter()
            .any(|word| lower.contains(word));
        match value {
            Some(value) if speaks => *text = format!("{name}={}", hide(value)),
            _ if follows => *text = hide(text),
            _ => {
                follows = speaks && text.starts_with('-');
                continue;
            }
        }
        follows = false;
    }
}

/// A variable is shown, for it hides its value itself.
fn hide(text: &str) -> String {
    if text.starts_with("${") && text.ends_with('}') && !text.contains(":-") {
        text.to_owned()
    } else {
        REDACTED.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_secret_arguments_are_hidden_and_the_rest_is_shown() {
        assert_eq!(redact_url("https://a/mcp"), "https://a/mcp");
        assert_eq!(redact_url("https://a/mcp?k=sk-1&t=${env:T}&sk-2"), "https://a/mcp?k=***&t=${env:T}&***");
        let mut args: Vec<Node> = [
            "-y",
            "pkg",
            "--api-key",
            "sk-1",
            "--token=sk-2",
            "--dir",
            "/a",
            "--key",
            "${env:K}",
            "API_KEY=sk-3",
        ]
        .map(|arg| Node::text(arg, None))
        .to_vec();
        redact_args(&mut args);
        assert_eq!(
            serde_json::to_string(&args).unwrap(),
            r#"["-y","pkg","--api-key","***","--token=***","--dir","/a","--key","${env:K}","API_KEY=***"]"#
        );
    }
}
