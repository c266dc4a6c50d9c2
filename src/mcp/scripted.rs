//! A backend for tests that says what it is told to say, and remembers what it was asked.

use super::{
    About, Access, Age, Backend, Call, Caller, Client, Event, Fault, Item, Kind, Listing, Note, Outcome,
    Principal, Reason, Reply, Session, SessionId, StoreAway, UpstreamId,
};
use crate::wire::params::Params;
use crate::wire::{Method, Raw, Version, json};
use bytes::Bytes;
use futures_util::future::{BoxFuture, pending, ready};
use futures_util::stream::unfold;
use futures_util::{FutureExt, StreamExt};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Whether it answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    /// Refuses everything as unreachable.
    Down,
    /// Never answers.
    Hangs,
}

type Answer = Box<dyn Fn(&Call) -> Reply + Send + Sync>;

pub(crate) struct Scripted {
    id: UpstreamId,
    said: Mutex<Said>,
    answer: Answer,
    /// Each call's method and its params as written.
    calls: Mutex<Vec<(Method, String)>>,
    pub(crate) lists: AtomicUsize,
    pub(crate) told: AtomicUsize,
    pub(crate) ended: AtomicUsize,
    streams: mpsc::Sender<Listener>,
}

struct Said {
    health: Health,
    capabilities: &'static str,
    instructions: Option<String>,
    lists: HashMap<Kind, Arc<Listing>>,
    /// What was handed out: `known` never asks.
    known: HashMap<Kind, Arc<Listing>>,
}

/// A standing stream that somebody opened: what it asks for, and the way to speak into it. Dropping `say` ends it.
pub(crate) struct Listener {
    pub(crate) params: String,
    pub(crate) say: mpsc::Sender<Event>,
}

impl Listener {
    pub(crate) async fn note(&self, method: Method, params: &'static str) {
        let note = Note { method, params: Raw::trusted(params), at: Some(Bytes::from_static(b"at")) };
        assert!(self.say.send(Event::Note(note)).await.is_ok(), "the stream is still read");
    }

    pub(crate) async fn acknowledge(&self, filter: &str) {
        let params = Raw::trusted(format!("{{\"notifications\":{filter}}}"));
        let note = Note { method: Method::Acknowledged, params, at: None };
        assert!(self.say.send(Event::Note(note)).await.is_ok(), "the stream is still read");
    }
}

impl Scripted {
    /// A backend and the streams that will be opened at it. Until told otherwise it offers nothing, and answers every
    /// call with `{"by":<id>,"method":…,"params":…}`.
    pub(crate) fn new(id: &str) -> (Scripted, mpsc::Receiver<Listener>) {
        let (streams, opened) = mpsc::channel(16);
        let said = Said {
            health: Health::Up,
            capabilities: "{}",
            instructions: None,
            lists: HashMap::new(),
            known: HashMap::new(),
        };
        let id = UpstreamId::new(id).expect("tests use ids of the right form");
        let of = id.clone();
        let echo = move |call: &Call| {
            let params = String::from_utf8_lossy(&call.params.raw.to_bytes()).into_owned();
            let method = call.method.as_str();
            Reply::result(Raw::trusted(format!(
                "{{\"by\":\"{of}\",\"method\":\"{method}\",\"params\":{params}}}"
            )))
        };
        let scripted = Scripted {
            id,
            said: Mutex::new(said),
            answer: Box::new(echo),
            calls: Mutex::default(),
            lists: AtomicUsize::new(0),
            told: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            streams,
        };
        (scripted, opened)
    }

    pub(crate) fn answering(mut self, answer: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Scripted {
        self.answer = Box::new(answer);
        self
    }

    pub(crate) fn offering(self, capabilities: &'static str, instructions: Option<&str>) -> Scripted {
        {
            let mut said = self.said.lock().unwrap();
            said.capabilities = capabilities;
            said.instructions = instructions.map(str::to_owned);
        }
        self
    }

    /// It lists these items, given as JSON, from now on; public, for a minute.
    pub(crate) fn listing(self, kind: Kind, items: &[&str]) -> Scripted {
        self.list_now(kind, listing(kind, items));
        self
    }

    pub(crate) fn list_now(&self, kind: Kind, list: Listing) {
        self.said.lock().unwrap().lists.insert(kind, Arc::new(list));
    }

    pub(crate) fn set(&self, health: Health) {
        self.said.lock().unwrap().health = health;
    }

    /// What it was called with, since it was last asked.
    pub(crate) fn calls(&self) -> Vec<(Method, String)> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    /// Forgets what it was called with.
    pub(crate) fn forget(&self) {
        self.calls.lock().unwrap().clear();
    }

    fn away<T: Send + 'static>(&self, health: Health) -> Option<BoxFuture<'static, Result<T, Fault>>> {
        let upstream = self.id.clone();
        match health {
            Health::Up => None,
            Health::Down => Some(
                ready(Err(Reason::Unreachable { upstream, why: "connection refused".into() }.into())).boxed(),
            ),
            Health::Hangs => Some(pending().boxed()),
        }
    }
}

impl Backend for Scripted {
    fn id(&self) -> &UpstreamId {
        &self.id
    }

    fn about(&self, _: Arc<Caller>) -> BoxFuture<'static, Result<Arc<About>, Fault>> {
        let said = self.said.lock().unwrap();
        if let Some(away) = self.away(said.health) {
            return away;
        }
        let about = About {
            server_info: Some(Raw::of(&serde_json::json!({"name": self.id.as_str(), "version": "1"}))),
            capabilities: Raw::trusted(said.capabilities),
            instructions: said.instructions.clone(),
            ttl_ms: 60_000,
            private: false,
            missing: Vec::new(),
        };
        ready(Ok(Arc::new(about))).boxed()
    }

    fn list(&self, _: Arc<Caller>, kind: Kind, age: Age) -> BoxFuture<'static, Result<Arc<Listing>, Fault>> {
        let mut said = self.said.lock().unwrap();
        if let Some(known) = said.known.get(&kind).filter(|_| age == Age::Known) {
            return ready(Ok(known.clone())).boxed();
        }
        self.lists.fetch_add(1, Ordering::SeqCst);
        if let Some(away) = self.away(said.health) {
            return away;
        }
        let list = said.lists.get(&kind).cloned().unwrap_or_else(|| Arc::new(listing(kind, &[])));
        said.known.insert(kind, list.clone());
        ready(Ok(list)).boxed()
    }

    fn known(&self, _: &Caller, kind: Kind) -> Option<Arc<Listing>> {
        self.said.lock().unwrap().known.get(&kind).cloned()
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        let params = String::from_utf8(call.params.raw.to_bytes().to_vec()).expect("params are checked JSON");
        self.calls.lock().unwrap().push((call.method.clone(), params.clone()));
        if let Some(away) = self.away(self.said.lock().unwrap().health) {
            return away
                .map(|never: Result<(), Fault>| Reply::One(Outcome::Error(never.unwrap_err())))
                .boxed();
        }
        if call.method != Method::Listen {
            return ready((self.answer)(&call)).boxed();
        }
        let (say, said) = mpsc::channel(16);
        let streams = self.streams.clone();
        async move {
            if streams.send(Listener { params, say }).await.is_err() {
                return Reply::fault(Reason::MethodNotFound);
            }
            let events = unfold(Some(said), |said| async move {
                let mut said = said?;
                match said.recv().await {
                    Some(event @ Event::Done(_)) => Some((event, None)),
                    Some(event) => Some((event, Some(said))),
                    None => Some((Event::Done(Outcome::Result(Raw::trusted("{}"))), None)),
                }
            });
            Reply::Stream(events.boxed())
        }
        .boxed()
    }

    fn tell(&self, _: Arc<Caller>, _: Note) -> BoxFuture<'static, Result<(), Fault>> {
        self.told.fetch_add(1, Ordering::SeqCst);
        let health = self.said.lock().unwrap().health;
        self.away(health).unwrap_or_else(|| ready(Ok(())).boxed())
    }

    fn end(&self, _: Arc<dyn Session>) -> BoxFuture<'static, ()> {
        self.ended.fetch_add(1, Ordering::SeqCst);
        ready(()).boxed()
    }
}

/// A public list of items given as JSON, good for a minute.
pub(crate) fn listing(kind: Kind, items: &[&str]) -> Listing {
    let items = items.iter().map(|body| {
        let body = Raw::trusted(body.to_string());
        let members = json::lax_members(body.text(), 0).expect("tests list objects");
        let name_span =
            members.iter().find(|m| m.is(kind.name_key())).expect("tests name items").value.clone();
        let name = body.string(&name_span).expect("a name is a string").into();
        Item { name, name_span, body, headers: Arc::new([]) }
    });
    let mut listing = Listing::new(kind, items.collect());
    listing.private = false;
    listing.ttl_ms = 60_000;
    listing
}

/// A session that keeps nothing.
struct Nothing(Arc<str>);

impl Session for Nothing {
    fn id(&self) -> Option<&SessionId> {
        None
    }

    fn key(&self) -> &Arc<str> {
        &self.0
    }

    fn load(&self, _: &UpstreamId) -> BoxFuture<'static, Result<Option<Bytes>, StoreAway>> {
        ready(Ok(None)).boxed()
    }

    fn swap(
        &self,
        _: &UpstreamId,
        _: Option<Bytes>,
        _: Option<Bytes>,
    ) -> BoxFuture<'static, Result<bool, StoreAway>> {
        ready(Ok(false)).boxed()
    }
}

pub(crate) fn caller() -> Arc<Caller> {
    caller_of(Version::MODERN)
}

pub(crate) fn caller_of(version: Version) -> Arc<Caller> {
    Arc::new(Caller {
        access: Arc::new(Access::open(Arc::new(Principal::minted("", "", "somebody")))),
        profile: "".into(),
        client: Arc::new(Client::default()),
        version,
        session: Arc::new(Nothing("somebody".into())),
    })
}

pub(crate) fn call(method: Method, params: &str) -> Call {
    Call {
        caller: caller(),
        method,
        params: Params::read(Raw::trusted(params.to_owned())).expect("tests send objects"),
        progress: None,
        resume: None,
        trail: None,
        cancel: CancellationToken::new().into(),
        deadline: Instant::now() + Duration::from_secs(30),
        watch: None,
    }
}
