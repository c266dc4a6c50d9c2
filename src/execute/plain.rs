//! The operations of catalogs as plain tools, one each: for clients that know no programs. A call is a plan of one step, run
//! as any other. Knows neither edges nor how a source is reached.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, ready},
};
use serde_json::{Map, Value as Json, json};
use tokio_util::task::TaskTracker;

use super::{
    catalog::{Catalogs, Source},
    fault::Fault,
    sources::Sources,
    surface::{self, Admits, answer},
};
use crate::{
    mcp::{
        About, Age, Backend, Call, Caller, Fault as CallFault, Kind, Listing, Note, Reason, Reply, Session,
        UpstreamId,
    },
    sealing::Keyring,
    wire::{Method, Raw},
};

mod calls;
mod tools;
mod values;

use tools::Tool;

/// How long clients may keep the list: it changes with the catalogs, which is told.
const TTL_MS: u64 = 60_000;

/// How a profile serves the operations of catalogs.
#[derive(Clone)]
pub struct Settings {
    /// Names its part among a profile's members.
    pub id: UpstreamId,
    /// Seals the places where lists go on: they lie with clients in between.
    pub keyring: Arc<Keyring>,
    /// The longest that one call works.
    pub run: Duration,
    /// Who may call what; `None`: everyone everything.
    pub admits: Option<Admits>,
    /// Writes that have begun, which are waited for before the pod ends.
    pub tasks: TaskTracker,
}

/// The tools of some catalogs.
#[derive(Clone)]
pub struct Plain(Arc<Inner>);

struct Inner {
    settings: Settings,
    catalogs: Arc<Catalogs>,
    sources: Arc<dyn Sources>,
    tools: Vec<Tool>,
    about: Arc<About>,
    lists: [Arc<Listing>; 4],
}

/// Of these catalogs those whose operations are tools here: sources that are MCP servers have their own.
pub fn published(catalogs: &Catalogs, admitted: impl Fn(&str) -> bool) -> Catalogs {
    let mut published = Catalogs::default();
    for (api, loaded) in catalogs.iter() {
        let has_tools = matches!(loaded.catalog.source, Source::Mcp { .. });
        if !has_tools && admitted(api) && loaded.catalog.operations.iter().any(|(_, one)| one.enabled) {
            published.add(loaded.clone());
        }
    }
    published
}

impl Plain {
    /// The tools of all of these catalogs' operations that are enabled.
    pub fn new(catalogs: Catalogs, sources: Arc<dyn Sources>, settings: Settings) -> Plain {
        let about = About {
            server_info: Some(Raw::of(
                &json!({"name": "plasm-catalogs", "version": env!("CARGO_PKG_VERSION")}),
            )),
            capabilities: Raw::of(&json!({"tools": {"listChanged": true}})),
            instructions: None,
            ttl_ms: TTL_MS,
            private: false,
            missing: Vec::new(),
        };
        let tools = tools::of(&catalogs);
        let lists = Kind::ALL.map(|kind| {
            let items = tools.iter().map(|tool| &tool.definition).filter(|_| kind == Kind::Tool);
            let mut listing = surface::listed(kind, items);
            listing.ttl_ms = TTL_MS;
            listing.private = settings.admits.is_some();
            Arc::new(listing)
        });
        let (about, catalogs) = (Arc::new(about), Arc::new(catalogs));
        Plain(Arc::new(Inner { settings, catalogs, sources, tools, about, lists }))
    }

    fn listing(&self, caller: &Caller, kind: Kind) -> Arc<Listing> {
        let whole = &self.0.lists[kind as usize];
        if kind != Kind::Tool || self.0.settings.admits.is_none() {
            return whole.clone();
        }
        let hidden: BTreeSet<&str> =
            self.0.tools.iter().filter(|tool| !self.0.admits(caller, tool)).map(|tool| &*tool.name).collect();
        if hidden.is_empty() {
            return whole.clone();
        }
        let items = whole.items().iter().filter(|item| !hidden.contains(&*item.name)).cloned().collect();
        let mut listing = Listing::new(kind, items);
        (listing.ttl_ms, listing.private) = (TTL_MS, true);
        Arc::new(listing)
    }
}

impl Inner {
    fn admits(&self, caller: &Caller, tool: &Tool) -> bool {
        let admits = self.settings.admits.as_ref();
        admits.is_none_or(|admits| admits.may(&caller.access, &tool.api, &tool.operation))
    }

    /// The result of a call of that tool.
    async fn called(self: Arc<Self>, at: usize, call: &Call) -> answer::Answer {
        let tool = &self.tools[at];
        if !self.admits(&call.caller, tool) {
            let hint = "it is not yours to call, as far as this gateway's policy says";
            let message = format!("not for this caller: {}", tool.name);
            return answer::fault(&Fault::new("seed_forbidden", message, hint));
        }
        let read = match surface::given::<Map<String, Json>>(call) {
            Ok(given) => self.read(at, call, given),
            Err(fault) => Err(fault),
        };
        match read {
            Ok(run) => answer::of(run.ran(call).await),
            Err(fault) => answer::fault(&fault),
        }
    }
}

impl Backend for Plain {
    fn id(&self) -> &UpstreamId {
        &self.0.settings.id
    }

    fn about(&self, _: Arc<Caller>) -> BoxFuture<'static, Result<Arc<About>, CallFault>> {
        ready(Ok(self.0.about.clone())).boxed()
    }

    fn list(
        &self,
        caller: Arc<Caller>,
        kind: Kind,
        _: Age,
    ) -> BoxFuture<'static, Result<Arc<Listing>, CallFault>> {
        ready(Ok(self.listing(&caller, kind))).boxed()
    }

    fn known(&self, caller: &Caller, kind: Kind) -> Option<Arc<Listing>> {
        Some(self.listing(caller, kind))
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        match call.method {
            Method::ToolsCall => {
                let name = call.params.name().unwrap_or_default();
                let Some(at) = self.0.tools.iter().position(|tool| *tool.name == *name) else {
                    return ready(Reply::fault(Reason::UnknownTool(name.into_owned()))).boxed();
                };
                let inner = self.0.clone();
                let outcome = async move {
                    tokio::select! {
                        answer = inner.called(at, &call) => Reply::result(Raw::of(&answer)),
                        () = call.cancel.cancelled() => Reply::fault(Reason::Cancelled),
                    }
                };
                outcome.boxed()
            }
            // Other catalogs are other tools: whoever puts them in place of these tells it.
            Method::Listen => {
                let filter = call.params.filter.as_ref().map(|span| call.params.raw.part(span));
                let asked: Json = filter.and_then(|filter| filter.read().ok()).unwrap_or_default();
                let honoured = match asked["toolsListChanged"] == true {
                    true => json!({"toolsListChanged": true}),
                    false => json!({}),
                };
                ready(surface::standing(&call, honoured)).boxed()
            }
            Method::ResourcesRead => {
                let uri = call.params.uri().unwrap_or_default().into();
                ready(Reply::fault(Reason::UnknownResource(uri))).boxed()
            }
            _ => ready(Reply::fault(Reason::MethodNotFound)).boxed(),
        }
    }

    fn tell(&self, _: Arc<Caller>, _: Note) -> BoxFuture<'static, Result<(), CallFault>> {
        ready(Ok(())).boxed()
    }

    fn end(&self, _: Arc<dyn Session>) -> BoxFuture<'static, ()> {
        ready(()).boxed()
    }
}

#[cfg(test)]
mod tests;
