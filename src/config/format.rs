//! The forms that text in the configuration may have, by the `x-format` and `x-key` that the schema gives them. Each
//! check says what was expected; none repeats a value that may hold a secret.

use std::net::SocketAddr;

use serde_json::Value as Json;

use super::{
    ObjectPlace,
    rates::Allowance,
    secret::Template,
    tree::{Node, Value},
    units,
};

/// Checks a value of that form; `Err` is the message.
pub(super) fn check(format: &str, node: &Node, schema: &Json) -> Result<(), String> {
    match format {
        "duration" => duration(node, schema),
        "size" => size(node, schema),
        "secret" => secret(node, true),
        "secret-ref" => secret(node, false),
        "json" => Ok(()),
        "number" => match node.value {
            Value::Integer(_) | Value::Float(_) => Ok(()),
            _ => Err(format!("expected a number, found {}", node.describe())),
        },
        _ => match &node.value {
            Value::Text(text) => check_text(format, text),
            _ => Err(format!("expected text, found {}", node.describe())),
        },
    }
}

/// Checks text of that form, which may be a map's key.
pub(super) fn check_text(format: &str, text: &str) -> Result<(), String> {
    let (fits, expected) = match format {
        "address" => (text.parse::<SocketAddr>().is_ok(), "an address and port such as 127.0.0.1:8080"),
        "http-url" => return http_url(text),
        "public-url" => (
            is_origin(text.strip_suffix('/').unwrap_or(text))
                && (text.starts_with("http://") || text.starts_with("https://")),
            "scheme, host and port without a path, such as https://mcp.example.com (the path is public_path)",
        ),
        "public-path" => (is_public_path(text), "a path such as /plasm/mcp, without a slash at its end"),
        "object-store" => {
            return ObjectPlace::parse(text).map(drop).map_err(|expected| format!("expected {expected}"));
        }
        "rate" => return text.parse::<Allowance>().map(drop),
        "host" => (text == "*" || is_host(text), "a host name, with or without :port, or *"),
        "network" => (text.parse::<ipnet::IpNet>().is_ok(), "a network such as 10.1.0.0/16 or fd00::/8"),
        "origin" => (
            text == "*" || text == "null" || is_origin(text),
            "an origin such as https://app.example.com, or *",
        ),
        "secret-name" => (
            (1..=64).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-/".contains(&byte)),
            "a name of 1 to 64 characters of A-Z, a-z, 0-9, _, ., - and /",
        ),
        "catalog-id" => (
            (1..=40).contains(&text.len())
                && text.starts_with(|first: char| first.is_ascii_lowercase())
                && text.bytes().all(|byte| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-'
                }),
            "a catalog's id: a letter of a-z, then a-z, 0-9, _ and -",
        ),
        "upstream-id" => (is_id(text, 20), "an id of 1 to 20 characters of a-z, 0-9 and -"),
        "profile-name" if matches!(text, "sse" | "message") => {
            return Err(format!("{text:?} is the name of a route, so no profile can bear it"));
        }
        "profile-name" => (is_id(text, 40), "a name of 1 to 40 characters of a-z, 0-9 and -"),
        "tool-name" => (
            (1..=60).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)),
            "a tool name of 1 to 60 characters of A-Z, a-z, 0-9, _, . and -",
        ),
        "key-hash" => (
            text.strip_prefix("sha256:").is_some_and(|hex| {
                hex.len() == 64
                    && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
            }),
            "sha256: and 64 hexadecimal digits, as plasm-mcp token hash prints it",
        ),
        "date" => (units::parse_date(text).is_some(), "a date such as 2027-01-31 or 2027-01-31T12:00:00Z"),
        "percent" => {
            (super::telemetry::percent::parse(text).is_some(), "a part of all such as 10%, from 0% to 100%")
        }
        "header-name" => (http::HeaderName::try_from(text).is_ok(), "the name of an HTTP header"),
        "pointer" => {
            (text.starts_with('/') && is_pointer(text), "a JSON pointer such as /path or /items/0/id")
        }
        "digest" => (
            text.len() == 43
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)),
            "a digest as plasm-mcp pins prints it",
        ),
        "variable-name" => {
            (!text.is_empty() && !text.contains(['=', '\0']), "the name of an environment variable")
        }
        other => unreachable!("the schema names an unknown form {other}"),
    };
    if fits { Ok(()) } else { Err(format!("expected {expected}, found {text:?}")) }
}

/// The address of an upstream. Text with variables is checked once they are filled.
pub(super) fn http_url(text: &str) -> Result<(), String> {
    if text.contains("${") {
        return Ok(());
    }
    let uri: http::Uri = text.parse().map_err(|_| "expected an http:// or https:// address".to_owned())?;
    match (uri.scheme_str(), uri.authority()) {
        (Some("http" | "https"), Some(authority)) if authority.as_str().contains('@') => {
            Err("an address holds no credentials; put them into headers".to_owned())
        }
        (Some("http" | "https"), Some(authority)) if !authority.host().is_empty() => Ok(()),
        _ => Err("expected an http:// or https:// address".to_owned()),
    }
}

fn duration(node: &Node, schema: &Json) -> Result<(), String> {
    let value = match &node.value {
        Value::Text(text) => units::parse_duration(text),
        _ => None,
    };
    let value = value.ok_or_else(|| {
        format!("expected a duration such as \"30s\", \"5m\" or \"250ms\", found {}", node.describe())
    })?;
    let bound = |key: &str| schema[key].as_str().and_then(units::parse_duration);
    within(value, bound("x-min"), bound("x-max"), units::show_duration)
}

fn size(node: &Node, schema: &Json) -> Result<(), String> {
    let value = match &node.value {
        Value::Text(text) => units::parse_size(text),
        Value::Integer(bytes) => u64::try_from(*bytes).ok(),
        _ => None,
    };
    let value = value.ok_or_else(|| {
        format!("expected a size such as \"4MiB\", \"32KiB\" or a number of bytes, found {}", node.describe())
    })?;
    let bound = |key: &str| schema[key].as_str().and_then(units::parse_size);
    within(value, bound("x-min"), bound("x-max"), units::show_size)
}

/// Says when a value is out of its bounds.
pub(super) fn within<T: PartialOrd + Copy>(
    value: T,
    least: Option<T>,
    most: Option<T>,
    show: impl Fn(T) -> String,
) -> Result<(), String> {
    match (least, most) {
        (Some(least), _) if value < least => {
            Err(format!("{} is below the least, {}", show(value), show(least)))
        }
        (_, Some(most)) if value > most => Err(format!("{} is above the most, {}", show(value), show(most))),
        _ => Ok(()),
    }
}

fn secret(node: &Node, inline: bool) -> Result<(), String> {
    match &node.value {
        Value::Text(text) if inline => Template::parse(text).map(drop),
        Value::Text(_) => {
            Err("this secret never stands in the file itself: write {env: NAME} or {file: PATH}".to_owned())
        }
        Value::Map(entries) => match entries.as_slice() {
            [one] if matches!(one.key.as_str(), "env" | "file") => match &one.node.value {
                Value::Text(text) if !text.is_empty() => Ok(()),
                _ => Err(format!("expected {{{}: …}} with a name, found none", one.key)),
            },
            _ => Err("expected {env: NAME} or {file: PATH}".to_owned()),
        },
        Value::Bool(_) | Value::Integer(_) | Value::Float(_) if inline => {
            Err("expected text, {env: NAME} or {file: PATH}; put quotes around the value".to_owned())
        }
        _ if inline => Err("expected text, {env: NAME} or {file: PATH}".to_owned()),
        _ => Err("expected {env: NAME} or {file: PATH}".to_owned()),
    }
}

/// Whether every `~` of a JSON pointer is an escape (RFC 6901 3).
fn is_pointer(text: &str) -> bool {
    text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

/// Whether it can be the id of a key of a machine.
pub fn is_key_id(text: &str) -> bool {
    is_id(text, 40)
}

fn is_id(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_host(text: &str) -> bool {
    !text.contains('@')
        && text.parse::<http::uri::Authority>().is_ok_and(|authority| !authority.host().is_empty())
}

fn is_origin(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte))
            && is_host(host)
    })
}

/// A path of plain segments that meets no other route.
fn is_public_path(text: &str) -> bool {
    let Some(path) = text.strip_prefix('/') else { return false };
    let segments: Vec<&str> = path.split('/').collect();
    let plain = |segment: &&str| {
        !segment.is_empty()
            && segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_~-".contains(&byte))
    };
    segments.iter().all(plain)
        && !matches!(segments.last(), Some(&("sse" | "message")))
        && !(segments[0] == "mcp" && segments.len() > 1)
        && segments != ["health"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_takes_what_it_should_and_nothing_else() {
        let cases: [(&str, &[&str], &[&str]); 11] = [
            ("address", &["127.0.0.1:0", "[::1]:80", "0.0.0.0:8080"], &["8080", ":8080", "localhost:80", ""]),
            (
                "http-url",
                &["http://a/mcp", "https://a.b:1/x?y=1", "http://[::1]:1/", "https://${env:HOST}/x"],
                &["a/mcp", "ftp://a", "http://", "http://u:p@a/", "/mcp", ""],
            ),
            (
                "public-url",
                &["https://a", "http://a:1", "https://a/"],
                &["https://a/mcp", "a", "wss://a", "https://"],
            ),
            (
                "public-path",
                &["/plasm/mcp", "/mcp", "/x"],
                &[
                    "plasm",
                    "/",
                    "/a/",
                    "/a//b",
                    "/a?b",
                    "/.well-known",
                    "/mcp/x",
                    "/a/sse",
                    "/health",
                    "/a/..",
                ],
            ),
            ("host", &["*", "a.example", "a:1", "[::1]:80"], &["", "http://a", "a/b", "u@a"]),
            (
                "origin",
                &["*", "https://a", "null", "vscode-webview://abc"],
                &["", "a.example", "https://a/b"],
            ),
            (
                "upstream-id",
                &["a", "file-system-2", &"a".repeat(20)[..]],
                &["", "A", "a_b", "ä", "aaaaaaaaaaaaaaaaaaaaa"],
            ),
            ("profile-name", &["default", "ops"], &["sse", "message", "Ops", ""]),
            ("tool-name", &["read_file", "a.b-c"], &["", "a b", "a/b", &"a".repeat(61)[..]]),
            ("header-name", &["x-api-key", "X-Api-Key"], &["", "x y", "ä"]),
            ("variable-name", &["PATH", "a.b"], &["", "A=B"]),
        ];
        for (format, good, bad) in cases {
            for text in good {
                assert_eq!(check_text(format, text), Ok(()), "{format}");
            }
            for text in bad {
                assert!(check_text(format, text).is_err(), "{format} {text}");
            }
        }
    }
}
