//! A link to an upstream of either era, against the fixture and against servers that misbehave.

mod calls;
mod changes;
mod channels;
pub mod hostile;
mod lists;
mod manners;
mod sessions;
mod takeover;

use crate::harness::{Fixture, comes_true};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http_body_util::BodyExt;
use plasm_mcp::mcp::{
    Access, Backend, Call, Caller, Client, Event, Note, Outcome, Principal, Reply, Session, SessionId,
    StoreAway, UpstreamId,
};
use plasm_mcp::upstream::client::HttpClient;
use plasm_mcp::upstream::connect::Connector;
use plasm_mcp::upstream::http::{Http, HttpConfig};
use plasm_mcp::upstream::link::{Link, LinkConfig, Reach};
use plasm_mcp::wire::params::Params;
use plasm_mcp::wire::{Method, Raw, Version};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const LIMIT: usize = 8 << 20;

/// What the store would keep of one caller: every pod sees the same.
#[derive(Clone)]
struct Kept {
    id: Option<SessionId>,
    key: Arc<str>,
    state: Arc<Mutex<HashMap<UpstreamId, Bytes>>>,
}

impl Kept {
    fn session(key: &str) -> Kept {
        Kept { id: Some(SessionId(key.into())), ..Kept::pooled(key) }
    }

    /// The identity of a caller without a transport session.
    fn pooled(key: &str) -> Kept {
        Kept { id: None, key: key.into(), state: Arc::default() }
    }

    fn stored(&self) -> Option<Value> {
        let state = self.state.lock().unwrap();
        state.get(&upstream_id()).map(|bytes| serde_json::from_slice(bytes).unwrap())
    }
}

impl Session for Kept {
    fn id(&self) -> Option<&SessionId> {
        self.id.as_ref()
    }

    fn key(&self) -> &Arc<str> {
        &self.key
    }

    fn load(&self, of: &UpstreamId) -> BoxFuture<'static, Result<Option<Bytes>, StoreAway>> {
        let state = self.state.lock().unwrap().get(of).cloned();
        Box::pin(async { Ok(state) })
    }

    fn swap(
        &self,
        of: &UpstreamId,
        was: Option<Bytes>,
        now: Option<Bytes>,
    ) -> BoxFuture<'static, Result<bool, StoreAway>> {
        let mut state = self.state.lock().unwrap();
        let same = state.get(of) == was.as_ref();
        match now {
            Some(now) if same => drop(state.insert(of.clone(), now)),
            None if same => drop(state.remove(of)),
            _ => {}
        }
        Box::pin(async move { Ok(same) })
    }
}

fn upstream_id() -> UpstreamId {
    UpstreamId::new("up").unwrap()
}

fn caller(version: Version, kept: &Kept, capabilities: Value) -> Arc<Caller> {
    Arc::new(Caller {
        access: Arc::new(Access::open(Arc::new(Principal::minted("t", "i", &kept.key)))),
        profile: "".into(),
        client: Arc::new(Client {
            info: Some(Raw::trusted(r#"{"name":"tester","version":"9"}"#)),
            capabilities: Some(Raw::of(&capabilities)),
            ..Client::default()
        }),
        version,
        session: Arc::new(kept.clone()),
    })
}

fn all() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

fn modern(key: &str) -> Arc<Caller> {
    caller(Version::MODERN, &Kept::pooled(key), all())
}

fn legacy(key: &str) -> Arc<Caller> {
    caller(Version::NEWEST_LEGACY, &Kept::session(key), all())
}

fn config() -> LinkConfig {
    LinkConfig { request_timeout: Duration::from_secs(10), ..LinkConfig::new(upstream_id()) }
}

fn link(url: &str) -> Link {
    link_as(url, config())
}

fn link_as(url: &str, config: LinkConfig) -> Link {
    let client = HttpClient::new(Connector::straight(Duration::from_secs(5)));
    let http = HttpConfig { url: url.parse().unwrap(), headers: Vec::new(), cookies: false, limit: LIMIT };
    let http = Some(Arc::new(Http::new(client, http)) as _);
    Link::new(config, Reach { http, channels: None, channels_era: None, credentials: None })
}

fn call(caller: &Arc<Caller>, method: Method, mut params: Value) -> Call {
    if caller.version == Version::MODERN {
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "tester", "version": "9" });
        let capabilities = caller.client.capabilities.as_ref().unwrap().read().unwrap();
        meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    }
    call_with(caller, method, Params::read(Raw::of(&params)).unwrap())
}

fn call_with(caller: &Arc<Caller>, method: Method, params: Params) -> Call {
    Call {
        caller: caller.clone(),
        method,
        progress: params.progress(),
        params,
        resume: None,
        trail: None,
        watch: None,
        cancel: CancellationToken::new().into(),
        deadline: Instant::now() + Duration::from_secs(20),
    }
}

fn tool(caller: &Arc<Caller>, name: &str, arguments: Value) -> Call {
    call(caller, Method::ToolsCall, json!({ "name": name, "arguments": arguments }))
}

/// The result of a call that is to succeed.
async fn result(link: &Link, call: Call) -> Value {
    match outcome(link, call).await {
        Outcome::Result(result) => result.read().unwrap(),
        other => panic!("no result: {other:?}"),
    }
}

async fn outcome(link: &Link, call: Call) -> Outcome {
    link.call(call).await.outcome().await
}

/// The word of our own fault that a call is to end in.
async fn fault(link: &Link, call: Call) -> &'static str {
    word(outcome(link, call).await)
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Error(plasm_mcp::mcp::Fault::Ours(reason)) => reason.word(),
        other => panic!("no fault of ours: {other:?}"),
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// The next event that is to be a note of this method.
async fn note(events: &mut BoxStream<'static, Event>) -> Note {
    match tokio::time::timeout(Duration::from_secs(15), events.next()).await.expect("an event in time") {
        Some(Event::Note(note)) => note,
        Some(Event::Ask(ask)) => panic!("an ask: {:?}", ask.method),
        Some(Event::Pause) => panic!("a pause"),
        Some(Event::Done(outcome)) => panic!("done: {outcome:?}"),
        None => panic!("a reply that ended without an outcome"),
    }
}

fn events(reply: Reply) -> BoxStream<'static, Event> {
    reply.into_events()
}

/// What the fixture tells of itself at `/_stats` and `/_seen`.
async fn look(fixture: &Fixture, at: &str) -> Value {
    let url = fixture.url.rsplit_once('/').unwrap().0;
    let client = HttpClient::new(Connector::straight(Duration::from_secs(5)));
    let request = http::Request::get(format!("{url}/{at}")).body(Default::default()).unwrap();
    let response = client.request(request).await.unwrap();
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

/// The bodies of the requests of this JSON-RPC method that the fixture saw, with their headers.
async fn seen(fixture: &Fixture, method: &str) -> Vec<(Value, Value)> {
    let all = look(fixture, "_seen").await;
    let parse = |entry: &Value| {
        let body: Value = serde_json::from_str(entry["body"].as_str()?).ok()?;
        (body["method"] == method).then(|| (body, entry["headers"].clone()))
    };
    all.as_array().unwrap().iter().filter_map(parse).collect()
}
