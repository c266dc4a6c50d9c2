//! What the whole gateway must show, from clients of every kind to upstreams of every kind: that they are served as one,
//! that the loss of one is the loss of one, and that nobody gets what is another's.

mod asks;
mod changes;
mod crowd;
mod four;
mod hostile;
pub mod stall;

use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::gateway::http_sse::HttpSse;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::harness::{Fixture, comes_true, fixture_program};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tempfile::TempDir;

const V: &str = "2025-11-25";

/// The kinds of upstreams, which are also their ids, in the order of the configuration.
const KINDS: [&str; 4] = ["legacy", "modern", "sse", "stdio"];

/// One upstream of each kind.
struct Four {
    legacy: Option<Fixture>,
    modern: Option<Fixture>,
    sse: Option<Fixture>,
    /// Where each of these listens, also while it is away.
    urls: [String; 3],
    /// Holds the program of the child, which can be taken away.
    folder: TempDir,
    stdio_era: &'static str,
    more: Vec<&'static str>,
}

impl Four {
    fn start(stdio_era: &'static str, more: &[&'static str]) -> Four {
        let start = |listener, era| Fixture::listening(listener, &[&["--era", era], more].concat());
        let (legacy, modern, sse) =
            (start("--http", "legacy"), start("--http", "modern"), start("--sse", "legacy"));
        let four = Four {
            urls: [&legacy, &modern, &sse].map(|fixture| fixture.url.clone()),
            legacy: Some(legacy),
            modern: Some(modern),
            sse: Some(sse),
            folder: tempfile::tempdir().expect("a temporary folder"),
            stdio_era,
            more: more.to_vec(),
        };
        std::os::unix::fs::symlink(fixture_program(), four.program()).expect("a link can be made");
        four
    }

    fn program(&self) -> std::path::PathBuf {
        self.folder.path().join("server")
    }

    fn config(&self) -> Value {
        let [legacy, modern, sse] = &self.urls;
        let args = [&["--stdio", "--era", self.stdio_era], &self.more[..]].concat();
        // Looked for so often that a test need not wait for it.
        let health = json!({ "longest_pause": "1s" });
        json!({ "upstreams": {
            "legacy": { "url": legacy, "health": health },
            "modern": { "url": modern, "health": health },
            "sse": { "url": sse, "health": health },
            "stdio": { "command": self.program(), "args": args, "health": health },
        }})
    }

    fn place(&mut self, kind: &str) -> (&mut Option<Fixture>, usize) {
        match kind {
            "legacy" => (&mut self.legacy, 0),
            "modern" => (&mut self.modern, 1),
            _ => (&mut self.sse, 2),
        }
    }

    /// Ends one, so that it cannot be reached or started.
    fn kill(&mut self, kind: &str, gateway: &Gateway) {
        if kind == "stdio" {
            std::fs::remove_file(self.program()).expect("the link is there");
            gateway.kill_children();
        } else {
            *self.place(kind).0 = None;
        }
    }

    fn revive(&mut self, kind: &str) {
        if kind == "stdio" {
            std::os::unix::fs::symlink(fixture_program(), self.program()).expect("a link can be made");
            return;
        }
        let more = self.more.clone();
        let (listener, era) = match kind {
            "sse" => ("--sse", "legacy"),
            era => ("--http", era),
        };
        let at = self.place(kind).1;
        let url = self.urls[at].clone();
        let (_, rest) = url.split_once("://").expect("a URL");
        let address = rest.split('/').next().expect("an address").to_owned();
        *self.place(kind).0 = Some(Fixture::at(listener, &address, &[&["--era", era], &more[..]].concat()));
    }
}

/// A client's stream of what it is told unasked, whatever kind of client it is.
enum Ear {
    /// A session's GET stream.
    Legacy(Box<Answer>),
    Sse(Box<HttpSse>),
    Modern(Box<Answer>),
}

impl Ear {
    /// One of each kind that HTTP has; each listens to all lists and these resources.
    async fn each(address: SocketAddr, uris: &[&str]) -> Vec<Ear> {
        vec![Ear::get(address, uris).await, Ear::sse(address, uris).await, Ear::listen(address, uris).await]
    }

    async fn get(address: SocketAddr, uris: &[&str]) -> Ear {
        let client = Legacy::begin(address, "/mcp", V, json!({})).await;
        for uri in uris {
            client.result("resources/subscribe", json!({ "uri": uri })).await;
        }
        Ear::Legacy(Box::new(client.stream(None).await))
    }

    async fn sse(address: SocketAddr, uris: &[&str]) -> Ear {
        let mut client = HttpSse::begin(address, "/mcp", json!({})).await;
        for uri in uris {
            client.send("\"s\"", "resources/subscribe", &json!({ "uri": uri }).to_string()).await;
            assert!(client.answer("\"s\"").await["result"].is_object());
        }
        Ear::Sse(Box::new(client))
    }

    async fn listen(address: SocketAddr, uris: &[&str]) -> Ear {
        let client = Modern::new(address, "/mcp", json!({}));
        let filter = json!({ "notifications": {
            "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
            "resourceSubscriptions": uris,
        }});
        let mut stream = client.send("\"l\"", "subscriptions/listen", &filter.to_string()).await;
        let first = stream.message().await.expect("it is acknowledged");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        let agreed = &first["params"]["notifications"];
        assert_eq!(agreed["resourceSubscriptions"].as_array().map_or(0, Vec::len), uris.len(), "{first}");
        Ear::Modern(Box::new(stream))
    }

    /// The next notification, in short: its last words, and the URI where it has one.
    async fn hear(&mut self) -> String {
        let message = match self {
            Ear::Legacy(stream) => stream.message().await.expect("the stream stands"),
            Ear::Sse(client) => client.hear().await,
            Ear::Modern(stream) => stream.message().await.expect("the stream stands"),
        };
        short(&message)
    }

    fn name(&self) -> &'static str {
        match self {
            Ear::Legacy(_) => "a GET stream",
            Ear::Sse(_) => "HTTP+SSE",
            Ear::Modern(_) => "subscriptions/listen",
        }
    }
}

fn short(message: &Value) -> String {
    let method = message["method"].as_str().unwrap_or_else(|| panic!("no notification: {message}"));
    let method = method.trim_start_matches("notifications/");
    match message["params"]["uri"].as_str() {
        Some(uri) => format!("{method} {uri}"),
        None => method.to_owned(),
    }
}

/// Every tool, page by page.
async fn all_tools(client: &Modern) -> Vec<String> {
    let mut names = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.result("tools/list", params).await;
        let tools = page["tools"].as_array().expect("a list");
        names.extend(tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()));
        match page.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return names,
        }
    }
}
