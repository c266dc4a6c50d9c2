//! The execute surface as one backend: the tools by which an agent finds entities, opens a session over them, plans programs
//! and runs them. Knows neither edges nor how a source is reached.

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _, StreamExt as _,
    future::{BoxFuture, ready},
    stream,
};
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use tokio_util::task::TaskTracker;

use super::{
    artifacts::{self, Artifacts, Resolved},
    fault::Fault,
    logical::{Held, Logical, Owner},
    plan::Plan,
    sources::Sources,
};
use crate::{
    config::Globs,
    mcp::{
        About, Access, Age, Backend, Call, Caller, Event, Fault as CallFault, Item, Kind, Listing, Note,
        Outcome, Reason, Reply, Session, UpstreamId,
    },
    wire::{Method, Raw, json as text},
};

pub(in crate::execute) mod answer;
mod context;
mod discover;
mod plans;
mod resources;
mod results;
mod runs;
mod shown;
mod stored;
mod table;
mod tools;
mod ways;

use answer::Answer;
pub(in crate::execute) use runs::random;
pub(in crate::execute) use tools::{annotations, output};

/// How long clients may keep lists: they change with the release alone.
const TTL_MS: u64 = 60_000;

/// Who may call which operation of which catalog (its id, and the operation's): what policy says, asked at each plan, run and
/// read of a result. What one may not call they are not shown either.
#[derive(Clone)]
pub struct Admits(Arc<Judge>);

type Judge = dyn Fn(&Arc<Access>, &str, &str) -> bool + Send + Sync;

impl Admits {
    pub fn by(judge: impl Fn(&Arc<Access>, &str, &str) -> bool + Send + Sync + 'static) -> Admits {
        Admits(Arc::new(judge))
    }

    pub fn may(&self, access: &Arc<Access>, api: &str, operation: &str) -> bool {
        (self.0)(access, api, operation)
    }
}

impl fmt::Debug for Admits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admits(…)")
    }
}

/// How a profile serves the surface.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names its part among a profile's members.
    pub id: UpstreamId,
    /// The catalogs that it admits, by id.
    pub catalogs: Globs,
    /// Whether the sessions of a tenant are all its principals'.
    pub shared: bool,
    /// Where runs that write are held, whoever waits for them: the pod does not end before them.
    pub tasks: TaskTracker,
    /// The longest that one run works before it answers with what is finished.
    pub run: Duration,
    /// Who may call what of them.
    pub admits: Admits,
    /// What the operator says of how clients read stored results.
    pub artifacts: artifacts::Access,
}

impl Settings {
    /// All catalogs, everything in them for everyone, each principal's sessions its own, and an answer within 300 seconds.
    pub fn new(id: UpstreamId) -> Settings {
        Settings {
            id,
            catalogs: Globs::default(),
            shared: false,
            tasks: TaskTracker::new(),
            run: Duration::from_secs(280),
            admits: Admits::by(|_, _, _| true),
            artifacts: artifacts::Access::default(),
        }
    }
}

/// The surface of one profile.
#[derive(Clone)]
pub struct Surface(Arc<Inner>);

struct Inner {
    settings: Settings,
    logical: Logical,
    artifacts: Artifacts,
    sources: Arc<dyn Sources>,
    /// By transport: the way that was chosen for it.
    ways: moka::sync::Cache<String, Resolved>,
    about: Arc<About>,
    lists: [Arc<Listing>; 4],
}

impl Surface {
    /// `artifacts` lie in the store that `logical` is in.
    pub fn new(
        logical: Logical,
        artifacts: Artifacts,
        sources: Arc<dyn Sources>,
        settings: Settings,
    ) -> Surface {
        let about = About {
            server_info: Some(Raw::of(
                &json!({"name": "plasm-execute", "version": env!("CARGO_PKG_VERSION")}),
            )),
            capabilities: Raw::of(
                &json!({"tools": {}, "resources": {}, "extensions": {(resources::EXTENSION): {}}}),
            ),
            instructions: Some(tools::INSTRUCTIONS.to_owned()),
            ttl_ms: TTL_MS,
            private: false,
            missing: Vec::new(),
        };
        let lists = Kind::ALL.map(|kind| Arc::new(listing(kind)));
        let ways = moka::sync::Cache::new(ways::REMEMBERED);
        let about = Arc::new(about);
        Surface(Arc::new(Inner { settings, logical, artifacts, sources, ways, about, lists }))
    }

    /// The names of the tools, none of which needs a prefix among a profile's other members.
    pub fn tool_names() -> impl Iterator<Item = &'static str> {
        tools::NAMES.into_iter()
    }
}

impl Inner {
    fn owner(&self, caller: &Caller) -> Owner {
        Owner::of(caller, self.settings.shared)
    }

    fn admits(&self, api: &str) -> bool {
        self.settings.catalogs.admits(api)
    }

    /// The session of a handle. Whether the profile admits its catalogs still is looked at of each plan.
    async fn session(&self, owner: &Owner, handle: &str) -> Result<Arc<Held>, Fault> {
        Ok(self.logical.load(owner, handle).await?)
    }

    /// Whether the caller may, by now, call everything that a plan calls.
    fn admitted(&self, caller: &Caller, plan: &Plan, operations: &BTreeSet<String>) -> Result<(), Fault> {
        forbidden(plan.catalogs.keys().filter(|api| !self.admits(api)).cloned().collect())?;
        self.may_call(caller, operations)
    }

    /// Whether the caller may, by now, call every one of these operations.
    fn may_call(&self, caller: &Caller, operations: &BTreeSet<String>) -> Result<(), Fault> {
        let refused = |named: &&String| {
            let (api, operation) = named.split_once('.').unwrap_or((named.as_str(), ""));
            !self.admits(api) || !(self.settings.admits.0)(&caller.access, api, operation)
        };
        forbidden(operations.iter().filter(refused).cloned().collect())
    }

    async fn tool(self: Arc<Self>, name: &str, call: &Call, tell: Option<runs::Notes>) -> Answer {
        match name {
            tools::DISCOVER => answer::of(given(call).map(|ask| self.discover(&call.caller, &ask))),
            tools::CONTEXT => match given(call) {
                Ok(ask) => answer::of(self.context(&call.caller, ask).await),
                Err(fault) => answer::fault(&fault),
            },
            tools::PLAN => match given(call) {
                Ok(ask) => answer::of(self.plan(call, ask, tell).await),
                Err(fault) => answer::fault(&fault),
            },
            tools::RUN => match given(call) {
                Ok(ask) => answer::of(self.run(call, ask, tell).await),
                Err(fault) => answer::fault(&fault),
            },
            _ => match given(call) {
                Ok(ask) => answer::of(self.rows(&call.caller, ask, name == tools::PAGE).await),
                Err(fault) => answer::fault(&fault),
            },
        }
    }

    /// The answer of a tool, with its progress where that was asked for.
    fn called(self: Arc<Self>, name: &'static str, call: Call) -> BoxFuture<'static, Reply> {
        let (notes, told) = match call.progress.clone() {
            Some(token) => {
                let (notes, told) = runs::notes(token);
                (Some(notes), Some(told))
            }
            None => (None, None),
        };
        let outcome = async move {
            tokio::select! {
                answer = self.tool(name, &call, notes) => Outcome::Result(Raw::of(&answer)),
                () = call.cancel.cancelled() => Outcome::Error(Reason::Cancelled.into()),
            }
        };
        match told {
            None => outcome.map(Reply::One).boxed(),
            Some(told) => ready(Reply::Stream(runs::beside(told, outcome.boxed()).boxed())).boxed(),
        }
    }
}

/// The arguments of a call, read as the tool takes them.
pub(in crate::execute) fn given<T: DeserializeOwned>(call: &Call) -> Result<T, Fault> {
    let arguments = call.params.arguments.as_ref().map(|span| call.params.raw.part(span));
    let read = arguments.unwrap_or_else(|| Raw::trusted("{}")).read();
    read.map_err(|why| {
        let hint = "give the arguments that the tool's input schema names";
        Fault::new("bad_arguments", format!("the arguments cannot be read: {why}"), hint)
    })
}

fn forbidden(apis: Vec<String>) -> Result<(), Fault> {
    match apis.is_empty() {
        true => Ok(()),
        false => Err(Fault::new(
            "seed_forbidden",
            format!("not for this caller: {}", apis.join(", ")),
            "discover_capabilities shows what is",
        )),
    }
}

fn listing(kind: Kind) -> Listing {
    let items = match kind {
        Kind::Tool => tools::definitions(),
        Kind::Resource => resources::definitions(),
        Kind::Template => resources::templates(),
        Kind::Prompt => Vec::new(),
    };
    let mut listing = listed(kind, &items);
    listing.ttl_ms = TTL_MS;
    listing.private = false;
    listing
}

/// A list of what these define.
pub(in crate::execute) fn listed<'i>(kind: Kind, items: impl IntoIterator<Item = &'i Json>) -> Listing {
    let items = items.into_iter().map(|item| {
        let body = Raw::of(item);
        let members = text::lax_members(body.text(), 0).unwrap_or_default();
        let name = members.into_iter().find(|member| member.is(kind.name_key()));
        let name_span = name.map(|member| member.value).expect("each tool has its name");
        let name = body.string(&name_span).expect("names are strings").into_owned().into();
        Item { name, body, name_span, headers: Arc::new([]) }
    });
    Listing::new(kind, items.collect())
}

/// A standing stream of what does not change by itself: it stays open, and nothing comes.
pub(in crate::execute) fn standing(call: &Call, honoured: Json) -> Reply {
    let params = Raw::of(&json!({ "notifications": honoured }));
    let agreed = Note { method: Method::Acknowledged, params, at: None };
    let cancel = call.cancel.token();
    let end = stream::once(async move {
        cancel.cancelled_owned().await;
        Event::Done(Outcome::Result(Raw::trusted("{}")))
    });
    Reply::Stream(stream::iter([Event::Note(agreed)]).chain(end).boxed())
}

impl Backend for Surface {
    fn id(&self) -> &UpstreamId {
        &self.0.settings.id
    }

    fn about(&self, caller: Arc<Caller>) -> BoxFuture<'static, Result<Arc<About>, CallFault>> {
        // A session begins with this, and so it is logged once for it.
        self.0.way(&caller);
        ready(Ok(self.0.about.clone())).boxed()
    }

    fn list(
        &self,
        _: Arc<Caller>,
        kind: Kind,
        _: Age,
    ) -> BoxFuture<'static, Result<Arc<Listing>, CallFault>> {
        ready(Ok(self.0.lists[kind as usize].clone())).boxed()
    }

    fn known(&self, _: &Caller, kind: Kind) -> Option<Arc<Listing>> {
        Some(self.0.lists[kind as usize].clone())
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        let reply = match call.method {
            Method::ToolsCall => {
                let name = call.params.name().unwrap_or_default();
                match tools::NAMES.into_iter().find(|known| *known == name) {
                    Some(name) => return self.0.clone().called(name, call),
                    None => Reply::fault(Reason::UnknownTool(name.into_owned())),
                }
            }
            Method::Listen => standing(&call, json!({})),
            Method::ResourcesRead => {
                let inner = self.0.clone();
                let read = async move {
                    tokio::select! {
                        reply = inner.resource(&call) => reply,
                        () = call.cancel.cancelled() => Reply::fault(Reason::Cancelled),
                    }
                };
                return read.boxed();
            }
            _ => Reply::fault(Reason::MethodNotFound),
        };
        ready(reply).boxed()
    }

    fn tell(&self, _: Arc<Caller>, _: Note) -> BoxFuture<'static, Result<(), CallFault>> {
        ready(Ok(())).boxed()
    }

    fn end(&self, _: Arc<dyn Session>) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

/// Text in the result's content beside what stands in `structuredContent`.
fn text_block(text: &str) -> Json {
    json!([{"type": "text", "text": text}])
}

#[cfg(test)]
mod tests;
