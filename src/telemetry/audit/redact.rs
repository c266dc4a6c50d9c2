//! Arguments without what must not be written: values under names that usually hold secrets, and values that look like secrets
//! whatever their name.

use super::Arguments;
use serde_json::Value;

const REDACTED: &str = "[redacted]";
/// Parts of names, in lower case and without `-`, `_`, `.` and spaces.
const NAMES: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "authorization",
    "credential",
    "cookie",
    "bearer",
    "signature",
    "otp",
];
/// What tokens of known issuers begin with.
const PREFIXES: [&str; 20] = [
    "sk-",
    "pk-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xapp-",
    "ya29.",
    "AIza",
    "AKIA",
    "ASIA",
    "plasm_",
    "npm_",
    "hf_",
];
/// Shorter words are no tokens.
const SHORTEST: usize = 12;

pub(super) struct Redact {
    bytes: usize,
    names: Vec<String>,
}

impl Redact {
    /// `bytes`: the most that is written. `names`: of arguments, whole, in any case.
    pub(super) fn new(bytes: usize, names: Vec<String>) -> Redact {
        Redact { bytes, names: names.iter().map(|name| folded(name)).collect() }
    }

    pub(super) fn arguments(&self, text: &[u8]) -> Arguments {
        let omitted = Arguments::Omitted(text.len());
        // Far longer ones are not even read.
        if text.len() > self.bytes.saturating_mul(4) {
            return omitted;
        }
        let Ok(mut value) = serde_json::from_slice::<Value>(text) else { return omitted };
        self.redact(&mut value);
        let text = value.to_string();
        if text.len() > self.bytes { omitted } else { Arguments::Text(text.into()) }
    }

    fn redact(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    match self.is_secret(name) {
                        true => *value = REDACTED.into(),
                        false => self.redact(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact(item)),
            Value::String(text) if looks_secret(text) => *value = REDACTED.into(),
            _ => {}
        }
    }

    fn is_secret(&self, name: &str) -> bool {
        let name = folded(name);
        NAMES.iter().any(|part| name.contains(part)) || self.names.contains(&name)
    }
}

fn folded(name: &str) -> String {
    let kept = name.chars().filter(|c| !matches!(c, '-' | '_' | '.' | ' '));
    kept.flat_map(char::to_lowercase).collect()
}

fn looks_secret(text: &str) -> bool {
    if text.contains("-----BEGIN ") {
        return true;
    }
    let mut words = text.split(|c: char| c.is_whitespace() || "\"'`,;=<>()[]{}".contains(c)).peekable();
    while let Some(word) = words.next() {
        if matches!(word, "Bearer" | "Basic" | "bearer" | "basic")
            && words.peek().is_some_and(|next| next.len() >= 8)
        {
            return true;
        }
        if word.len() < SHORTEST {
            continue;
        }
        let jwt = word.starts_with("eyJ") && word.bytes().filter(|b| *b == b'.').count() >= 2;
        let login = word.split_once("://").is_some_and(|(_, rest)| {
            rest.split('/')
                .next()
                .and_then(|host| host.split_once('@'))
                .is_some_and(|(user, _)| user.contains(':'))
        });
        if jwt || login || PREFIXES.iter().any(|prefix| word.starts_with(prefix)) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_by_name_and_by_look_and_the_rest_stays() {
        let redact = Redact::new(4096, vec!["Card Number".to_owned()]);
        let table = [
            (r#"{"q":"rust"}"#, r#"{"q":"rust"}"#),
            (
                r#"{"Api-Key":"a","n":[{"DB_PASSWORD":{"x":1}}]}"#,
                r#"{"Api-Key":"[redacted]","n":[{"DB_PASSWORD":"[redacted]"}]}"#,
            ),
            (r#"{"card_number":4111,"page":2}"#, r#"{"card_number":"[redacted]","page":2}"#),
            (r#"{"note":"use ghp_0123456789abcdef please"}"#, r#"{"note":"[redacted]"}"#),
            (r#"{"h":"Authorization: Bearer abcdefgh"}"#, r#"{"h":"[redacted]"}"#),
            (r#"{"j":"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln"}"#, r#"{"j":"[redacted]"}"#),
            (r#"{"u":"postgres://me:pw@db/x"}"#, r#"{"u":"[redacted]"}"#),
            (r#"{"u":"https://example.com/a@b:c"}"#, r#"{"u":"https://example.com/a@b:c"}"#),
            (r#"{"pem":"-----BEGIN PRIVATE KEY-----\nx"}"#, r#"{"pem":"[redacted]"}"#),
            (r#"{"t":"the bearer of news"}"#, r#"{"t":"the bearer of news"}"#),
        ];
        for (text, want) in table {
            assert_eq!(redact.arguments(text.as_bytes()), Arguments::Text(want.into()), "{text}");
        }
    }

    #[test]
    fn what_is_too_long_is_not_written_in_part() {
        let redact = Redact::new(64, Vec::new());
        for many in [64, 10_000] {
            let text = format!(r#"{{"q":"{}"}}"#, "x".repeat(many));
            assert_eq!(redact.arguments(text.as_bytes()), Arguments::Omitted(text.len()));
        }
    }
}
