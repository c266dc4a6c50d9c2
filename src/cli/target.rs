//! Which server a client command speaks to, and as what: the flags that they share.

use crate::config::{self, parse_duration};
use crate::wire::Version;
use serde_json::{Value, json};
use std::time::Duration;

/// The words of a client command and the flags that say whom it speaks to.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Target {
    /// The server's URL, then what the command takes; no URL where a command is given after --
    #[arg(value_name = "URL|WORD")]
    words: Vec<String>,
    /// Start this program and speak to it on its standard streams
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// A bearer token: the text, @FILE, or ${env:NAME}
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// A header sent with every request, such as "X-Key: abc" or "X-Key: ${env:KEY}"; may be given more than once
    #[arg(long, value_name = "NAME: VALUE")]
    header: Vec<String>,
    /// The protocol era to speak; auto finds out what the server speaks
    #[arg(long, value_enum, default_value = "auto")]
    era: Era,
    /// The capabilities that this client declares: JSON, or @FILE. What the server then asks is answered by
    /// --continuation
    #[arg(long, value_name = "JSON|@FILE")]
    capabilities: Option<String>,
    /// Longest time for one request, such as 30s or 5m
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    timeout: Duration,
    /// Print JSON for scripts: the server's own, unchanged
    #[arg(long)]
    pub json: bool,
    /// Log to stderr what happens on the way, progress and a started program's own stderr among it
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Era {
    #[default]
    Auto,
    Modern,
    Legacy,
}

/// The command line cannot be used; the text says what is wrong with it. Exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

pub fn usage(why: impl Into<String>) -> Usage {
    Usage(why.into())
}

pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a time such as 500ms, 30s or 5m".to_owned())
}

impl Target {
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The words besides the URL.
    pub fn words(&self) -> &[String] {
        if self.command.is_empty() { self.words.get(1..).unwrap_or_default() } else { &self.words }
    }

    /// What the server is called in messages: its URL or its program.
    pub fn name(&self) -> String {
        if self.command.is_empty() {
            self.words.first().cloned().unwrap_or_default()
        } else {
            self.command.join(" ")
        }
    }

    /// The version of the era that is spoken where the server leaves the choice.
    pub fn version(&self) -> Version {
        match self.era {
            Era::Auto | Era::Modern => Version::MODERN,
            Era::Legacy => Version::NEWEST_LEGACY,
        }
    }

    /// The declared capabilities, an object.
    pub fn capabilities(&self) -> Result<Value, Usage> {
        match &self.capabilities {
            None => Ok(json!({})),
            Some(text) => object(text, "--capabilities"),
        }
    }

    /// The server as an upstream of a configuration.
    pub fn upstream(&self) -> Result<config::Upstream, Usage> {
        let mut upstream = json!({
            "era": match self.era { Era::Auto => "auto", Era::Modern => "modern", Era::Legacy => "legacy" },
        });
        match self.command.split_first() {
            Some((program, args)) => {
                upstream["command"] = json!(program);
                upstream["args"] = json!(args);
                // A program that a person starts gets the person's environment.
                let names = std::env::vars_os().filter_map(|(name, value)| {
                    let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
                    (!value.is_empty()).then(|| (name.clone(), json!({"env": name})))
                });
                upstream["env"] = Value::Object(names.collect());
            }
            None => {
                let url = self.words.first().ok_or_else(|| usage("give the server's URL, or -- COMMAND"))?;
                if !(url.starts_with("http://") || url.starts_with("https://")) {
                    return Err(usage(format!("{url:?} is not the URL of a server (http:// or https://)")));
                }
                upstream["url"] = json!(url);
                upstream["headers"] = self.headers()?;
            }
        }
        let mut upstream: config::Upstream =
            serde_json::from_value(upstream).map_err(|error| usage(error.to_string()))?;
        upstream.timeout = Some(self.timeout);
        upstream.start_timeout = self.timeout;
        upstream.connect_timeout = self.timeout.min(upstream.connect_timeout);
        Ok(upstream)
    }

    fn headers(&self) -> Result<Value, Usage> {
        let mut headers = serde_json::Map::new();
        for header in &self.header {
            let (name, value) = header
                .split_once(':')
                .ok_or_else(|| usage(format!("--header {header:?}: expected \"NAME: VALUE\"")))?;
            headers.insert(name.trim().to_owned(), json!(value.trim()));
        }
        if let Some(token) = &self.token {
            let token = match token.strip_prefix('@') {
                Some(file) => text_of(file, "--token")?.trim().to_owned(),
                None => token.clone(),
            };
            headers.insert("Authorization".to_owned(), json!(format!("Bearer {token}")));
        }
        Ok(Value::Object(headers))
    }
}

/// The JSON object that an argument is, or that the file after its `@` holds; `-` is standard input.
pub fn object(text: &str, flag: &str) -> Result<Value, Usage> {
    let text = match text.strip_prefix('@') {
        Some(file) => text_of(file, flag)?,
        None if text == "-" => text_of(text, flag)?,
        None => text.to_owned(),
    };
    match serde_json::from_str(&text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(usage(format!("{flag}: expected a JSON object"))),
        Err(error) => Err(usage(format!("{flag}: {error}"))),
    }
}

fn text_of(file: &str, flag: &str) -> Result<String, Usage> {
    let text =
        if file == "-" { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    text.map_err(|error| usage(format!("{flag}: {file}: {error}")))
}

/// `KEY=VALUE` words as an object. A value that is JSON is that; any other is a string.
pub fn pairs(words: &[String]) -> Result<Value, Usage> {
    let mut object = serde_json::Map::new();
    for word in words {
        let (key, value) = pair(word)?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        object.insert(key.to_owned(), value);
    }
    Ok(Value::Object(object))
}

/// As [`pairs`], all of them strings: what prompts and completions take.
pub fn text_pairs(words: &[String]) -> Result<Value, Usage> {
    let pairs = words.iter().map(|word| pair(word).map(|(key, value)| (key.to_owned(), json!(value))));
    Ok(Value::Object(pairs.collect::<Result<_, _>>()?))
}

pub fn pair(word: &str) -> Result<(&str, &str), Usage> {
    word.split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| usage(format!("{word:?}: expected KEY=VALUE")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        target: Target,
    }

    fn target(args: &[&str]) -> Target {
        Command::try_parse_from(std::iter::once("x").chain(args.iter().copied())).unwrap().target
    }

    #[test]
    fn a_server_is_a_url_or_a_command_and_the_other_words_are_the_commands() {
        let by_url = target(&["http://a/mcp", "echo", "text=x"]);
        assert_eq!(
            (by_url.name().as_str(), by_url.words()),
            ("http://a/mcp", &["echo".into(), "text=x".into()][..])
        );
        assert_eq!(by_url.upstream().unwrap().url.as_deref(), Some("http://a/mcp"));
        let by_command = target(&["echo", "--", "npx", "-y", "server"]);
        assert_eq!(by_command.words(), ["echo"]);
        let upstream = by_command.upstream().unwrap();
        assert_eq!((upstream.command.as_deref(), upstream.args.join(" ")), (Some("npx"), "-y server".into()));
        assert!(target(&["echo"]).upstream().is_err() && target(&[]).upstream().is_err());
    }

    #[test]
    fn a_token_is_a_header_that_nobody_sees() {
        let upstream = target(&["http://a/", "--token", "t0k", "--header", "X-A: b: c"]).upstream().unwrap();
        let value = |name| {
            secrecy::ExposeSecret::expose_secret(&upstream.headers.get(name).unwrap().reveal().unwrap())
                .to_owned()
        };
        assert_eq!((value("Authorization").as_str(), value("X-A").as_str()), ("Bearer t0k", "b: c"));
        assert!(!format!("{upstream:?}").contains("t0k"));
        assert!(target(&["http://a/", "--header", "x"]).upstream().is_err());
    }

    #[test]
    fn a_value_is_json_where_it_can_be() {
        let words = ["n=1", "s=x y", "t=\"1\"", "a=[1,2]", "e=", "u=a=b"].map(String::from);
        assert_eq!(
            pairs(&words).unwrap(),
            json!({"n": 1, "s": "x y", "t": "1", "a": [1, 2], "e": "", "u": "a=b"})
        );
        assert_eq!(text_pairs(&words[..1]).unwrap(), json!({"n": "1"}));
        assert!(pairs(&["x".into()]).is_err() && pairs(&["=x".into()]).is_err());
    }
}
