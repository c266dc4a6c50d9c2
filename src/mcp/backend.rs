//! Everything that answers MCP calls: an upstream link, the federation of several, later the execute surface.

use super::{Call, Caller, Fault, Kind, Listing, Note, Reason, Reply, Session, Track, UpstreamId};
use crate::wire::Raw;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// What a backend says of itself to one caller.
#[derive(Debug, Clone)]
pub struct About {
    /// Its name and version (`Implementation`).
    pub server_info: Option<Raw>,
    /// Server capabilities, an object.
    pub capabilities: Raw,
    pub instructions: Option<String>,
    /// How long a client may keep this, in milliseconds.
    pub ttl_ms: u64,
    /// Whether it depends on who asked.
    pub private: bool,
    /// The upstreams that could not be asked.
    pub missing: Vec<UpstreamId>,
}

/// How old a list may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Age {
    /// A client asked for it: within the time to live that its source gave, else asked for now.
    Fresh,
    /// It serves to route: the last known one; asked for only where none is known.
    Known,
}

pub trait Backend: Send + Sync + 'static {
    fn id(&self) -> &UpstreamId;

    /// Capabilities, identity and instructions for this caller.
    fn about(&self, caller: Arc<Caller>) -> BoxFuture<'static, Result<Arc<About>, Fault>>;

    /// A whole list for this caller: all upstream pages followed, with a guard against cursor loops.
    fn list(
        &self,
        caller: Arc<Caller>,
        kind: Kind,
        age: Age,
    ) -> BoxFuture<'static, Result<Arc<Listing>, Fault>>;

    /// The last known list without asking anyone: what the path of a call may look at.
    fn known(&self, caller: &Caller, kind: Kind) -> Option<Arc<Listing>>;

    /// Everything but lists and `server/discover`.
    fn call(&self, call: Call) -> BoxFuture<'static, Reply>;

    /// Goes on with a call that another pod began and cannot end, after the last event of `track`. It is never made a
    /// second time: what cannot go on ends in a fault. Of `call` the params are not needed.
    fn take_over(&self, call: Call, track: Track) -> BoxFuture<'static, Reply> {
        let fault = Reason::lost(&call.method, track.upstream);
        std::future::ready(Reply::fault(fault)).boxed()
    }

    /// A client's notification (`roots/list_changed`), already known to be ours to pass on.
    fn tell(&self, caller: Arc<Caller>, note: Note) -> BoxFuture<'static, Result<(), Fault>>;

    /// The session was deleted: end what was opened upstream for it, once.
    fn end(&self, session: Arc<dyn Session>) -> BoxFuture<'static, ()>;
}
