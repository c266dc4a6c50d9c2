//! Puts the rooms together: from the configuration to a gateway that serves, and to its end.

mod artifacts;
mod catalogs;
mod documents;
mod drafts;
mod internal;
mod limits;
mod links;
mod login;
mod objects;
mod outbound;
mod people;
mod reload;
mod revoke;
mod rules;
mod surfaces;
mod upstreams;
pub mod watching;

pub use artifacts::{access, artifacts};
pub use catalogs::{Served, Shelf};
pub use documents::{DocumentError, document};
pub use links::Links;
pub use login::Login;
pub use upstreams::link;

use crate::config::{Config, Secret};
use crate::edge::Gate;
use crate::edge::body::Signature;
use crate::edge::callers::Callers;
use crate::edge::legacy;
use crate::edge::listener::{self, Bounds, Ends};
use crate::egress::Egress;
use crate::execute::artifacts::{Access, Artifacts};
use crate::execute::logical::{self, Logical};
use crate::lifecycle::{Lifecycle, Plan};
use crate::mcp::Places;
use crate::policy;
use crate::relay::{self, Relay};
use crate::sealing::{KeyMaterial, Keyring};
use crate::session::{self, Sessions};
use crate::store::{Measured, Memory, PodId, Redis, Store, redis};
use crate::vault::{self, Vault};
use crate::{admin, auth};
use admin::Inside;
use arc_swap::ArcSwap;
use axum::body::Body;
use http::{HeaderValue, Request};
use revoke::Revoke;
use secrecy::SecretString;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Bytes that the memory store may hold: some 200,000 idle sessions, and bounded whatever happens.
const MEMORY_STORE: usize = 512 << 20;

/// Connections to the admin port: probes and scrapes, and no more.
const PROBERS: usize = 64;

/// How long clients wait at most for this pod to be within the others' reach, when it starts.
const HEARS_WITHIN: Duration = Duration::from_secs(5);

/// Why the gateway could not start. Each says which setting to look at.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{what} {address}: {error}; set another by {flag}", flag = flag(what))]
    Bind { what: &'static str, address: SocketAddr, error: std::io::Error },
    #[error("{key}: {why}")]
    Setting { key: String, why: String },
    #[error("store.redis_url: {0}")]
    Store(#[from] redis::StartError),
}

/// A gateway that listens. Dropping it ends nothing: its tasks run until the lifecycle says so.
pub struct House {
    /// The gate of the configuration that is in effect.
    gates: Arc<ArcSwap<Gate>>,
    pub lifecycle: Lifecycle,
    links: Arc<Links>,
    login: Arc<Login>,
    inside: Arc<Inside>,
    /// Stored results, and how often those whose time is over are swept.
    artifacts: (Artifacts, Duration),
    plan: Plan,
    public: TcpListener,
    admin: TcpListener,
    /// Where other pods reach this one, where there are others.
    internal: Option<TcpListener>,
}

impl House {
    /// Builds the rooms and binds the listeners. `demo` adds the built-in upstream.
    pub async fn build(config: &Config, demo: bool) -> Result<House, StartError> {
        let public = bind("listen", config.listen).await?;
        let admin = bind("admin_listen", config.admin_listen).await?;
        let internal = internal::bind(config).await?;
        let lifecycle = Lifecycle::default();
        let address = internal.as_ref().map(|(_, address)| address.as_str());
        let store = store(config).await?;
        let at = public.local_addr().unwrap_or(config.listen);
        let keyring = Arc::new(keyring(config)?);
        let login = Login::new(config, store.clone(), keyring.clone(), at)?;
        // The port is known by now, where the configuration left it open.
        let here = Config { listen: at, ..config.clone() };
        let reached =
            Reached { base: outbound::base(&here), internal: address, egress: login.egress.clone() };
        let (mut gate, links) = gate_among(config, demo, &lifecycle, store, keyring, reached)?;
        // Who was shut out is not let in by a pod that has just begun.
        login.revoked.catch_up().await;
        (gate.auth, gate.site) = login.build(config, links.vault())?;
        let internal = internal.map(|(listener, _)| listener);
        let (gates, links) = (Arc::new(ArcSwap::from_pointee(gate)), Arc::new(links));
        let login = Arc::new(login);
        let revoke = Revoke::new(&login, links.vault(), &gates);
        let pages: Vec<Arc<dyn admin::Page>> =
            vec![Arc::new(revoke), Arc::new(admin::Usage), Arc::new(admin::Attachments)];
        let inside = Arc::new(Inside::new(admin_token(config)?, pages));
        let artifacts = (links.programs().artifacts.clone(), config.artifacts.sweep);
        let plan = plan(config);
        Ok(House { gates, lifecycle, links, login, inside, artifacts, plan, public, admin, internal })
    }

    /// Where clients reach it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.public.local_addr()
    }

    pub fn admin_address(&self) -> std::io::Result<SocketAddr> {
        self.admin.local_addr()
    }

    /// Serves until the lifecycle ends it.
    pub async fn serve(self) {
        let House { gates, lifecycle, links, login, inside, artifacts, plan, public, admin, internal } = self;
        let gate = gates.load_full();
        let lookout = gate.lookout.clone();
        let bounds = Bounds {
            head: gate.rules.header_bytes,
            head_time: gate.rules.header_read,
            connections: PROBERS,
            neighbours: None,
        };
        let probes = lifecycle.clone();
        let of_admin = bounds.clone();
        let admin = async {
            let answer = move |request: Request<Body>, peer| {
                let (lifecycle, inside) = (probes.clone(), inside.clone());
                async move {
                    match request.uri().path().starts_with("/admin/") {
                        true => inside.answer(peer, request).await,
                        false => admin::answer(&lifecycle, plan, peer, &request),
                    }
                }
            };
            // Probes are answered to the very end.
            listener::serve(admin, of_admin, answer, Ends::at(&lifecycle.over)).await;
        };
        // To the end of the last call: its answers and cancels come this way.
        let hears = AbortOnDropHandle::new(tokio::spawn(gate.sessions.clone().hear()));
        gate.tasks.spawn(legacy::sweep(gate.clone()));
        let (artifacts, every) = artifacts;
        gate.tasks.spawn(artifacts::sweep(artifacts, every, lifecycle.leaving.clone()));
        let internal = internal::serve(internal, links.relay(), bounds, lifecycle.over.clone());
        let over = lifecycle.over.clone();
        let public = async {
            let tasks = gate.tasks.clone();
            if timeout(HEARS_WITHIN, gate.sessions.hears()).await.is_err() {
                tracing::warn!("other pods do not reach this one yet: the store is slow");
            }
            lifecycle.set_ready();
            listener::public(public, gates, lifecycle.clone()).await;
            // Calls whose client went away finish too, within the same budget.
            tasks.close();
            tokio::select! {
                () = tasks.wait() => {}
                () = over.cancelled() => {}
            }
            lifecycle.settled().await;
            over.cancel();
        };
        tokio::join!(public, admin, internal);
        // While the links end, so does the lease: nothing is sent here any more.
        drop((hears, login));
        links.hang_up().await;
        watching::end(&lookout).await;
    }
}

/// How the pod ends where it is told to drain.
pub fn plan(config: &Config) -> Plan {
    Plan { propagation: config.drain.propagation, budget: config.drain.budget }
}

/// How it ends where a signal comes first: on loopback nobody routes to it who would have to learn of it.
pub fn plan_at_signal(config: &Config) -> Plan {
    let alone = config.listen.ip().is_loopback();
    let plan = plan(config);
    Plan { propagation: if alone { Duration::ZERO } else { plan.propagation }, ..plan }
}

/// The flag of a setting.
fn flag(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

async fn bind(what: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|error| StartError::Bind { what, address, error })
}

/// The store that the configuration names: Redis, or this process's memory.
pub async fn store(config: &Config) -> Result<Arc<dyn Store>, StartError> {
    let Some(url) = &config.store.redis_url else { return Ok(Arc::new(Memory::new(MEMORY_STORE))) };
    let setting = |why: String| StartError::Setting { key: "store.redis_url".to_owned(), why };
    let url = url.reveal().map_err(|error| setting(error.to_string()))?;
    let settings = redis::Settings { tls: outbound::files(&config.store.tls), ..redis::Settings::new(url) };
    match Redis::connect(settings).await {
        Ok(redis) => Ok(Arc::new(Measured::new(Arc::new(redis)))),
        Err(redis::StartError::Tls(error)) => Err(outbound::file("store", error)),
        Err(error) => Err(error.into()),
    }
}

/// What all edges share, stdio included, and the links behind it.
pub fn gate(
    config: &Config,
    demo: bool,
    lifecycle: &Lifecycle,
    store: Arc<dyn Store>,
) -> Result<(Gate, Links), StartError> {
    // No page is served here; where the configuration names the gateway that does, accounts are connected there.
    let base = config.public_url.as_ref().and_then(|_| outbound::base(config));
    let reached = Reached { base, internal: None, egress: outbound::egress(config)? };
    gate_among(config, demo, lifecycle, store, Arc::new(keyring(config)?), reached)
}

/// What the execute surfaces of all profiles keep.
#[derive(Clone)]
pub struct Programs {
    pub logical: Logical,
    pub artifacts: Artifacts,
    /// How clients are told to read results.
    pub access: Access,
    /// Of runs that write, which end before the pod does.
    pub tasks: TaskTracker,
}

/// How a pod is reached, and how it reaches strangers.
struct Reached<'a> {
    /// By browsers: scheme, host and port.
    base: Option<Arc<str>>,
    /// By other pods.
    internal: Option<&'a str>,
    egress: Egress,
}

/// As [`gate`], for a pod that is reached there.
fn gate_among(
    config: &Config,
    demo: bool,
    lifecycle: &Lifecycle,
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    reached: Reached<'_>,
) -> Result<(Gate, Links), StartError> {
    let rules = rules::of(config)?;
    let sessions = session::Settings {
        life: config.sessions.ttl,
        cap: config.sessions.per_principal as usize,
        ..session::Settings::default()
    };
    let pod = PodId::random();
    let replica = HeaderValue::from_str(pod.as_str()).expect("a pod's name is letters and digits");
    let sessions = Sessions::new(pod.clone(), store.clone(), keyring.clone(), sessions);
    let Reached { base, internal, egress } = reached;
    let relay = internal.map(|address| {
        Relay::new(relay::Settings {
            store: store.clone(),
            keyring: keyring.clone(),
            me: pod.clone(),
            address: address.to_owned(),
            message: upstreams::message_limits(config),
            largest: config.limits.request_bytes + internal::MARGIN,
            draining: lifecycle.draining.clone(),
            tasks: sessions.tasks().clone(),
        })
    });
    let ground = policy::Ground { store: store.clone(), keyring: keyring.clone(), egress: egress.clone() };
    // Where people log in elsewhere alone, nobody at a browser could show who they are.
    let base = base.filter(|_| !config.auth.is_on() || config.auth.login.is_on());
    let vault = Vault::new(vault::Settings { store: store.clone(), keyring: keyring.clone(), egress, base });
    let programs = Programs {
        logical: Logical::new(pod, store.clone(), Arc::default(), logical::Settings::default()),
        artifacts: artifacts::artifacts(config, store.clone())?,
        access: artifacts::access(config),
        tasks: sessions.tasks().clone(),
    };
    let routes = Arc::new(ArcSwap::default());
    let links = Links::new(demo, relay, vault, ground, programs);
    links.serve(config, &routes)?;
    let limits = limits::of(config, &store, sessions.tasks());
    let strangers = Arc::new(limits::strangers(config)?);
    let gate = Gate {
        routes,
        callers: Callers::default(),
        places: Places::new(rules.calls),
        rules,
        tasks: sessions.tasks().clone(),
        sessions,
        store,
        keyring,
        signature: Signature::of(replica),
        auth: Arc::new(auth::Auth::open()),
        site: Arc::default(),
        limits,
        strangers,
        own: auth::anonymous(),
        lookout: watching::lookout(config)?,
        lifecycle: lifecycle.clone(),
    };
    Ok((gate, links))
}

/// What opens the operator's pages from other machines.
fn admin_token(config: &Config) -> Result<Option<SecretString>, StartError> {
    let setting = |why: String| StartError::Setting { key: "admin_token".to_owned(), why };
    config.admin_token.as_ref().map(|token| token.reveal().map_err(|e| setting(e.to_string()))).transpose()
}

fn keyring(config: &Config) -> Result<Keyring, StartError> {
    match config.sealing.keys.is_empty() {
        true => Ok(Keyring::random()),
        false => ring("sealing.keys", &config.sealing.keys),
    }
}

/// The keyring that a list of secrets is.
fn ring(setting: &str, keys: &[Secret]) -> Result<Keyring, StartError> {
    let wrong = |index: usize, why: String| StartError::Setting { key: format!("{setting}[{index}]"), why };
    let keys = keys.iter().enumerate().map(|(index, key)| {
        let secret = key.reveal().map_err(|error| wrong(index, error.to_string()))?;
        KeyMaterial::from_text(&secret).map_err(|error| wrong(index, error.to_string()))
    });
    Keyring::new(keys.collect::<Result<Vec<_>, _>>()?).map_err(|error| wrong(0, error.to_string()))
}
