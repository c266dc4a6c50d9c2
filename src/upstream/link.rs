//! A link: one upstream server as a [`Backend`], whatever its era and transport. It decides what the transports must
//! not know: which era is spoken, whose session a call goes in, what is listed and cached, and when to stop asking.

mod about;
mod answer;
mod ask;
mod begin;
mod call;
mod channels;
mod comeback;
mod connect;
mod declared;
mod dress;
mod filter;
pub mod flights;
mod handshake;
mod health;
mod hello;
mod hop;
mod ids;
mod kept;
mod listen;
mod lists;
mod local;
mod meet;
mod own;
mod pages;
mod reach;
mod renewal;
mod seen;
mod sessions;
mod shared;
mod speak;
mod takeover;
mod trouble;

pub use meet::Met;
pub use reach::{LinkConfig, Reach};

use crate::mcp::{
    About, Age, Backend, Call, Caller, Fault, Kind, Listing, Note, Outcome, Reply, Session, Track, UpstreamId,
};
use crate::telemetry::{Meters, metrics};
use crate::wire::{Method, Version};
use about::Abouts;
use arc_swap::ArcSwapOption;
use channels::Channels;
use flights::Flights;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use health::Health;
use lists::Lists;
use own::Owns;
use prometheus::IntCounter;
use sessions::Sessions;
use shared::Shared;
use speak::Spoken;
use std::sync::{Arc, Mutex};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use trouble::Trouble;

/// One upstream server. Dropping it ends its tasks; what is in flight ends with its own replies.
pub struct Link {
    inner: Arc<Inner>,
}

struct Inner {
    config: LinkConfig,
    reach: Reach,
    /// What the upstream speaks, once it is known.
    spoken: ArcSwapOption<Spoken>,
    /// When it was last asked again whether something else is spoken.
    probed_again: Mutex<Option<Instant>>,
    probes: Arc<Flights<(), Result<Spoken, Trouble>>>,
    abouts: Abouts,
    sessions: Sessions,
    shared: Shared,
    owns: Owns,
    channels: Channels,
    lists: Lists,
    health: Health,
    /// Requests that were answered, whatever the answer.
    answered: IntCounter,
    /// What its calls are measured by.
    meters: Arc<Meters>,
    tasks: TaskTracker,
    /// Cancelled when the link is dropped.
    over: CancellationToken,
}

impl Link {
    /// Nothing is sent before the first caller needs it.
    pub fn new(config: LinkConfig, reach: Reach) -> Link {
        let labels = [config.id.as_str(), "answered"];
        let answered = metrics().upstream_requests.with_label_values(&labels);
        metrics().upstream_up.with_label_values(&labels[..1]).set(1);
        let inner = Inner {
            spoken: ArcSwapOption::empty(),
            probed_again: Mutex::new(None),
            probes: Flights::new(),
            abouts: Abouts::new(reach.credentials.as_ref().is_some_and(|c| c.personal())),
            sessions: Sessions::new(),
            shared: Shared::new(),
            owns: Owns::default(),
            channels: Channels::new(),
            lists: Lists::new(),
            answered,
            meters: Meters::of(config.id.as_str()),
            health: Health::new(&config),
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
            config,
            reach,
        };
        Link { inner: Arc::new(inner) }
    }

    /// Whether the upstream answered when it was last asked. True before the first request.
    pub fn is_up(&self) -> bool {
        self.inner.health.is_up()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.inner.over.cancel();
    }
}

impl Inner {
    fn id(&self) -> &UpstreamId {
        &self.config.id
    }
}

impl Backend for Link {
    fn id(&self) -> &UpstreamId {
        self.inner.id()
    }

    fn about(&self, caller: Arc<Caller>) -> BoxFuture<'static, Result<Arc<About>, Fault>> {
        self.inner.clone().about_or_connect(caller).boxed()
    }

    fn list(
        &self,
        caller: Arc<Caller>,
        kind: Kind,
        age: Age,
    ) -> BoxFuture<'static, Result<Arc<Listing>, Fault>> {
        self.inner.clone().list_or_connect(caller, kind, age).boxed()
    }

    fn known(&self, caller: &Caller, kind: Kind) -> Option<Arc<Listing>> {
        self.inner.lists.known(&lists::Key::of(caller, kind))
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        self.inner.clone().call(call)
    }

    fn take_over(&self, call: Call, track: Track) -> BoxFuture<'static, Reply> {
        self.inner.clone().take_over(call, track).boxed()
    }

    fn tell(&self, caller: Arc<Caller>, note: Note) -> BoxFuture<'static, Result<(), Fault>> {
        self.inner.clone().tell(caller, note).boxed()
    }

    fn end(&self, session: Arc<dyn Session>) -> BoxFuture<'static, ()> {
        self.inner.clone().end(session).boxed()
    }
}
