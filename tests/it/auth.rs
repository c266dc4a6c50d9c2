//! Who is let in: tokens of a real issuer with real keys, keys of machines, and those who try it with other things.

mod admission;
mod attacks;
mod command;
mod field_cases;
pub mod issuer;
mod keys;
mod pods;
mod streams;

use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use issuer::Issuer;
use serde_json::{Value, json};

/// Where clients believe the gateway to be: nothing of it is taken from the request.
pub const ORIGIN: &str = "https://mcp.example.com";
/// The resource that is the default profile.
pub const RESOURCE: &str = "https://mcp.example.com/mcp";

/// A configuration with this issuer, the built-in upstream at `/mcp` and `/mcp/dev`, and `more` besides.
pub fn config(issuer: &Issuer, more: Value) -> Value {
    let mut config = json!({
        "public_url": ORIGIN,
        "auth": { "issuers": { "test": issuer.config() } },
        "profiles": { "dev": {} },
    });
    merge(&mut config, more);
    config
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

pub fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// A modern `tools/list` under these headers.
pub async fn list(gateway: &Gateway, path: &str, headers: &[(&str, &str)]) -> Answer {
    let client = Modern::new(gateway.address, path, json!({}));
    client.send_with("1", "tools/list", "{}", headers).await
}

/// As [`list`], with this token.
pub async fn list_as(gateway: &Gateway, path: &str, token: &str) -> Answer {
    list(gateway, path, &[("authorization", &bearer(token))]).await
}

/// Headers by name.
type Fields<'a> = &'a [(&'a str, &'a str)];

/// What is asked of the gateway by each verb and way in: method, path, headers.
const WAYS: [(&str, &str, Fields); 9] = [
    (
        "POST",
        "/mcp",
        &[("content-type", "application/json"), ("accept", "application/json, text/event-stream")],
    ),
    (
        "POST",
        "/mcp/",
        &[("content-type", "application/json"), ("accept", "application/json, text/event-stream")],
    ),
    (
        "POST",
        "/mcp/dev",
        &[("content-type", "application/json"), ("accept", "application/json, text/event-stream")],
    ),
    ("GET", "/mcp", &[("accept", "text/event-stream"), ("mcp-session-id", "x")]),
    ("DELETE", "/mcp", &[("mcp-session-id", "x")]),
    ("HEAD", "/mcp", &[]),
    ("GET", "/mcp/sse", &[("accept", "text/event-stream")]),
    ("GET", "/sse", &[("accept", "text/event-stream")]),
    ("POST", "/message?sessionId=x", &[("content-type", "application/json")]),
];

/// The challenge's parameters.
fn challenge(answer: &Answer) -> Vec<(String, String)> {
    let text =
        answer.header("www-authenticate").unwrap_or_else(|| panic!("a challenge beside {}", answer.status));
    let rest = text.strip_prefix("Bearer ").unwrap_or_else(|| panic!("a challenge: {text}"));
    let parameter = |part: &str| {
        let (name, value) = part.split_once("=\"").unwrap_or_else(|| panic!("a parameter: {part}"));
        (name.to_owned(), value.trim_end_matches('"').to_owned())
    };
    rest.split(", ").map(parameter).collect()
}

fn parameter(answer: &Answer, name: &str) -> Option<String> {
    challenge(answer).into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// A session of this token.
async fn session(gateway: &Gateway, token: &str) -> Legacy {
    Legacy::begin_as(gateway.address, "/mcp", "2025-11-25", json!({}), Some(bearer(token))).await
}
