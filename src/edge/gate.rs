//! What all edges of a pod share: the profiles that answer, the rules of the listeners, and the rooms behind them.

use super::body::Signature;
use super::callers::Callers;
use crate::auth::Auth;
use crate::auth::pages::Site;
use crate::lifecycle::Lifecycle;
use crate::limits::{Limits, Strangers};
use crate::mcp::{Access, Backend, Places};
use crate::policy::Door;
use crate::sealing::Keyring;
use crate::session::Sessions;
use crate::store::Store;
use crate::telemetry::Lookout;
use crate::wire::Raw;
use arc_swap::ArcSwap;
use foldhash::HashMap as Map;
use std::sync::Arc;
use std::time::Duration;

/// A profile as it is served: its name and what answers for it.
pub struct Mount {
    /// `""` for the default profile at `/mcp`.
    pub name: Arc<str>,
    pub backend: Arc<dyn Backend>,
    /// Who may come in. Whoever started the process by a pipe need not ask.
    pub door: Door,
}

/// The profiles by name. Replaced as a whole when the configuration changes.
#[derive(Default)]
pub struct Routes {
    pub mounts: Map<Arc<str>, Arc<Mount>>,
}

/// The rules of the client side, from the configuration.
#[derive(Clone, Debug)]
pub struct Rules {
    pub request_bytes: usize,
    pub header_bytes: usize,
    pub depth: u16,
    pub page_items: usize,
    /// Most calls in flight in this pod.
    pub calls: usize,
    /// Most connections of one address; 0: any number.
    pub connections_per_address: u32,
    pub call: Duration,
    pub header_read: Duration,
    pub body_read: Duration,
    /// A POST without an answer after this time becomes an SSE stream.
    pub open_after: Duration,
    /// Longest silence on a stream before a comment line.
    pub keep_alive: Duration,
    /// Whether legacy requests without a session id are served.
    pub sessionless: bool,
    /// Whether no sessions are kept: every legacy request is one without a session.
    pub stateless: bool,
    /// Whether modern `_meta` under a legacy version header is followed rather than refused.
    pub follow_meta: bool,
    /// Admitted `Host` and `Origin` values; `*` admits any.
    pub hosts: Vec<String>,
    pub origins: Vec<String>,
    /// Whether other pods can go on with the sessions of this one.
    pub shared: bool,
    /// A second path at which the endpoint answers, besides `/mcp`.
    pub public_path: Option<String>,
    /// Request headers that some upstream wants forwarded.
    pub forward: Vec<http::HeaderName>,
}

/// One configuration's view: with another, new requests get another gate over the same rooms.
pub struct Gate {
    /// Shared by the gates of one pod.
    pub routes: Arc<ArcSwap<Routes>>,
    pub rules: Rules,
    pub store: Arc<dyn Store>,
    pub sessions: Sessions,
    pub keyring: Arc<Keyring>,
    /// This pod's name on every response.
    pub signature: Signature,
    /// Who may come in, and as whom.
    pub auth: Arc<Auth>,
    /// What is asked for beside MCP: logins, registrations, the user's own pages.
    pub site: Arc<Site>,
    /// What callers may use; `None` where nothing is limited.
    pub limits: Option<Arc<Limits>>,
    /// How often addresses may ask without a login.
    pub strangers: Arc<Strangers>,
    /// Whoever started the process, where it speaks to them alone.
    pub own: Arc<Access>,
    /// The modern callers seen of late.
    pub callers: Callers,
    /// A place for each call in flight in this pod.
    pub places: Arc<Places>,
    /// What runs on without a socket: calls of sessions whose client went away, standing calls, ends upstream.
    pub tasks: tokio_util::task::TaskTracker,
    /// What is watched of calls.
    pub lookout: Arc<Lookout>,
    /// When streams move to other pods, and answers ask to close their connection.
    pub lifecycle: Lifecycle,
}

impl Gate {
    /// The gate of a changed configuration.
    pub fn ruled(&self, rules: Rules) -> Gate {
        let places = match rules.calls == self.rules.calls {
            true => self.places.clone(),
            false => Places::new(rules.calls),
        };
        Gate {
            routes: self.routes.clone(),
            rules,
            store: self.store.clone(),
            sessions: self.sessions.clone(),
            keyring: self.keyring.clone(),
            signature: self.signature.clone(),
            auth: self.auth.clone(),
            site: self.site.clone(),
            limits: self.limits.clone(),
            strangers: self.strangers.clone(),
            own: self.own.clone(),
            // What headers bring may differ now.
            callers: Callers::default(),
            places,
            tasks: self.tasks.clone(),
            lookout: self.lookout.clone(),
            lifecycle: self.lifecycle.clone(),
        }
    }

    pub fn mount(&self, profile: &str) -> Option<Arc<Mount>> {
        self.routes.load().mounts.get(profile).cloned()
    }
}

/// Our own name and version, as results carry it.
pub fn server_info() -> &'static Raw {
    static INFO: std::sync::OnceLock<Raw> = std::sync::OnceLock::new();
    INFO.get_or_init(|| {
        Raw::of(&serde_json::json!({"name": "plasm-mcp", "title": "plasm-mcp gateway", "version": env!("CARGO_PKG_VERSION")}))
    })
}
