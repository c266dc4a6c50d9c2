//! The built-in upstream of `--demo`: a small MCP server inside the process, so that a newcomer has something to call.
//! It is a [`Backend`] like any other and knows no edge.

mod solar;

pub use solar::CATALOG;

use crate::mcp::{
    About, Age, Backend, Call, Caller, Event, Fault, Item, Kind, Listing, Note, Outcome, Reason, Reply,
    Session, UpstreamId,
};
use crate::wire::{Method, Raw, json};
use futures_util::future::{BoxFuture, ready};
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value, json as value};
use solar::Solar;
use std::sync::Arc;
use std::time::Duration;

/// Its id, where upstreams have theirs.
pub const DEMO: &str = "demo";

/// The demo server. Its lists never change.
pub struct Demo {
    id: UpstreamId,
    about: Arc<About>,
    lists: [Arc<Listing>; 4],
    solar: Solar,
}

const GUIDE: &str = "demo://guide";
/// How long a client may keep the lists: they change with the binary alone.
const TTL_MS: u64 = 60_000;

impl Default for Demo {
    fn default() -> Demo {
        let about = About {
            server_info: Some(Raw::of(&value!({"name": "plasm-demo", "version": env!("CARGO_PKG_VERSION")}))),
            capabilities: Raw::of(&value!({"tools": {}, "prompts": {}, "resources": {}, "completions": {}})),
            instructions: Some(
                "A demonstration server: ask it for planets, moons and missions, call echo, add or countdown, and read demo://guide."
                    .into(),
            ),
            ttl_ms: TTL_MS,
            private: false,
            missing: Vec::new(),
        };
        Demo {
            id: UpstreamId::new(DEMO).expect("the id has the form of ids"),
            about: Arc::new(about),
            lists: Kind::ALL.map(|kind| Arc::new(listing(kind))),
            solar: Solar::default(),
        }
    }
}

fn listing(kind: Kind) -> Listing {
    let items = match kind {
        Kind::Tool => tools(),
        Kind::Prompt => value!([{
            "name": "introduce",
            "title": "Introduce the gateway",
            "description": "Asks the model to explain this gateway to somebody.",
            "arguments": [{"name": "audience", "description": "Who is to understand it.", "required": true}],
        }]),
        Kind::Resource => value!([{
            "uri": GUIDE,
            "name": "guide",
            "title": "What to try",
            "description": "A short guide to the demonstration.",
            "mimeType": "text/markdown",
        }]),
        Kind::Template => value!([{
            "uriTemplate": "demo://square/{n}",
            "name": "square",
            "description": "The square of a whole number.",
            "mimeType": "text/plain",
        }]),
    };
    let items = items.as_array().into_iter().flatten().map(|item| {
        let body = Raw::of(item);
        let members = json::lax_members(body.text(), 0).unwrap_or_default();
        let name = members.into_iter().find(|m| m.is(kind.name_key()));
        let name_span = name.map(|m| m.value).expect("each item of the demo has its name");
        let name = body.string(&name_span).expect("names are strings").into_owned().into();
        Item { name, body, name_span, headers: Arc::new([]) }
    });
    let mut listing = Listing::new(kind, items.collect());
    listing.ttl_ms = TTL_MS;
    listing.private = false;
    listing
}

fn tools() -> Value {
    let quiet = value!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false});
    let first = value!([
        {
            "name": "echo",
            "title": "Echo",
            "description": "Gives its text back.",
            "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
            "annotations": quiet,
        },
        {
            "name": "add",
            "title": "Add",
            "description": "Adds numbers.",
            "inputSchema": {
                "type": "object",
                "properties": {"numbers": {"type": "array", "items": {"type": "number"}}},
                "required": ["numbers"],
            },
            "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
            "annotations": quiet,
        },
        {
            "name": "countdown",
            "title": "Count down",
            "description": "Counts down to zero, ten steps a second, and reports its progress.",
            "inputSchema": {
                "type": "object",
                "properties": {"from": {"type": "integer", "minimum": 1, "maximum": 100}},
                "required": ["from"],
            },
            "annotations": quiet,
        },
    ]);
    first.as_array().into_iter().flatten().cloned().chain(solar::tools()).collect()
}

impl Demo {
    fn tool(&self, call: &Call, name: &str) -> Reply {
        let arguments = call.params.arguments.as_ref().map(|span| call.params.raw.part(span));
        let arguments: Value = arguments.and_then(|raw| raw.read().ok()).unwrap_or_default();
        match name {
            "echo" => match arguments["text"].as_str() {
                Some(text) => Reply::result(said(text)),
                None => wrong("echo needs a string \"text\""),
            },
            "add" => match numbers(&arguments["numbers"]) {
                Some(numbers) => {
                    let sum: f64 = numbers.iter().sum();
                    Reply::result(Raw::of(&value!({
                        "content": [{"type": "text", "text": sum.to_string()}],
                        "structuredContent": {"sum": sum},
                    })))
                }
                None => wrong("add needs \"numbers\", an array of numbers"),
            },
            "countdown" => match arguments["from"].as_u64().filter(|n| (1..=100).contains(n)) {
                Some(from) => countdown(call, from),
                None => wrong("countdown needs \"from\", a whole number from 1 to 100"),
            },
            other => {
                let answer = self.solar.tool(&call.caller, other, &arguments);
                answer.unwrap_or_else(|| Reply::fault(Reason::UnknownTool(other.to_owned())))
            }
        }
    }

    fn read(&self, uri: &str) -> Reply {
        let (kind, text) = match uri.strip_prefix("demo://square/").map(str::parse::<i32>) {
            Some(Ok(n)) => ("text/plain", (i64::from(n) * i64::from(n)).to_string()),
            None if uri == GUIDE => ("text/markdown", include_str!("demo/guide.md").to_owned()),
            _ => return Reply::fault(Reason::UnknownResource(uri.to_owned())),
        };
        Reply::result(Raw::of(&value!({
            "contents": [{"uri": uri, "mimeType": kind, "text": text}],
            "ttlMs": TTL_MS,
            "cacheScope": "public",
        })))
    }
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}

fn said(text: &str) -> Raw {
    Raw::of(&value!({"content": [{"type": "text", "text": text}]}))
}

fn wrong(why: &str) -> Reply {
    Reply::result(Raw::of(&value!({"content": [{"type": "text", "text": why}], "isError": true})))
}

fn countdown(call: &Call, from: u64) -> Reply {
    let token = call.progress.clone();
    let cancel = call.cancel.token();
    let steps = stream::iter(1..=from).then(move |step| {
        let (token, cancel) = (token.clone(), cancel.clone());
        async move {
            let wait = tokio::time::sleep(Duration::from_millis(100));
            if cancel.run_until_cancelled(wait).await.is_none() {
                return Some(Event::Done(Outcome::Error(Reason::Cancelled.into())));
            }
            let mut params = Raw::of(&value!({"progress": step, "total": from}));
            params.insert_member(0, "progressToken", &token?);
            Some(Event::Note(Note { method: Method::Progress, params, at: None }))
        }
    });
    let end = stream::iter([Event::Done(Outcome::Result(said("Lift-off!")))]);
    let events = steps.filter_map(ready).chain(end);
    // Nothing follows an outcome, and a cancelled countdown has one already.
    let mut over = false;
    Reply::Stream(
        events
            .take_while(move |event| {
                let go_on = !over;
                over |= matches!(event, Event::Done(_));
                ready(go_on)
            })
            .boxed(),
    )
}

impl Backend for Demo {
    fn id(&self) -> &UpstreamId {
        &self.id
    }

    fn about(&self, _: Arc<Caller>) -> BoxFuture<'static, Result<Arc<About>, Fault>> {
        ready(Ok(self.about.clone())).boxed()
    }

    fn list(&self, _: Arc<Caller>, kind: Kind, _: Age) -> BoxFuture<'static, Result<Arc<Listing>, Fault>> {
        ready(Ok(self.lists[kind as usize].clone())).boxed()
    }

    fn known(&self, _: &Caller, kind: Kind) -> Option<Arc<Listing>> {
        Some(self.lists[kind as usize].clone())
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        let reply = match call.method {
            Method::ToolsCall => self.tool(&call, &call.params.name().unwrap_or_default()),
            Method::ResourcesRead => self.read(&call.params.uri().unwrap_or_default()),
            Method::PromptsGet if call.params.name().as_deref() == Some("introduce") => {
                let arguments = call.params.arguments.as_ref().map(|span| call.params.raw.part(span));
                let arguments: Value = arguments.and_then(|raw| raw.read().ok()).unwrap_or_default();
                let audience = arguments["audience"].as_str().unwrap_or("a newcomer");
                let text = format!("Explain to {audience} what an MCP gateway does, in three sentences.");
                Reply::result(Raw::of(&value!({
                    "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
                })))
            }
            Method::PromptsGet => {
                Reply::fault(Reason::UnknownPrompt(call.params.name().unwrap_or_default().into()))
            }
            Method::Complete => {
                let values = ["an engineer", "a manager", "a newcomer"];
                Reply::result(Raw::of(
                    &value!({"completion": {"values": values, "total": 3, "hasMore": false}}),
                ))
            }
            // Nothing here ever changes: the stream is honoured for nothing, and stays open.
            Method::Listen => {
                let agreed = Note {
                    method: Method::Acknowledged,
                    params: Raw::of(&value!({"notifications": {}})),
                    at: None,
                };
                let cancel = call.cancel.token();
                let end = stream::once(async move {
                    cancel.cancelled_owned().await;
                    Event::Done(Outcome::Result(Raw::trusted("{}")))
                });
                Reply::Stream(stream::iter([Event::Note(agreed)]).chain(end).boxed())
            }
            _ => Reply::fault(Reason::MethodNotFound),
        };
        ready(reply).boxed()
    }

    fn tell(&self, _: Arc<Caller>, _: Note) -> BoxFuture<'static, Result<(), Fault>> {
        ready(Ok(())).boxed()
    }

    fn end(&self, _: Arc<dyn Session>) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}
