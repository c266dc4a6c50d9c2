//! How the store begins: the connections, and what is asked of a server before it is trusted with sessions.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::prelude::{
    Config, ConnectionConfig, ErrorKind, PerformanceConfig, ReconnectPolicy, Server, TcpConfig,
};
use fred::types::config::{
    HostMapping, ReconnectError, TlsConfig, TlsConnector, TlsHostMapping, UnresponsiveConfig,
};
use fred::types::{ConnectHandle, RespVersion};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{broadcast, watch};
use tokio_util::task::AbortOnDropHandle;

use super::cache::Cache;
use super::line::{Line, To, Trouble};
use super::{Redis, Shared, guard, reply};
use crate::store::Health;
use crate::tls::{self, TlsError};

/// How long connecting, logging in and asking may take at the start, all in all.
const STARTED_WITHIN: Duration = Duration::from_secs(15);
/// A connection on which nothing was answered for this long is given up.
const DEAD_AFTER: Duration = Duration::from_secs(4);
/// The wait before a client is begun again that ended though it should not.
const AGAIN: Duration = Duration::from_millis(500);
/// Commands that wait to be written to a connection at most.
const QUEUED: usize = 10_000;
/// Invalidations and sayings that wait for this process at most; more, and a gap stands for them.
const TOLD: usize = 8192;

/// Which Redis, and how it is asked.
pub struct Settings {
    /// `redis://user:password@host:port/db`, with TLS `rediss://…`, `redis-cluster://…`, or
    /// `redis-sentinel://user:password@host:port?sentinelServiceName=name`.
    pub url: SecretString,
    /// Whom to trust, in place of the system's authorities, and who we are, where the URL says TLS.
    pub tls: tls::Files,
    /// What all keys and the bus begin with.
    pub prefix: String,
    /// How long one answer may take; after that the store is away for whoever asked.
    pub within: Duration,
}

impl Settings {
    /// The usual prefix and time limit.
    pub fn new(url: SecretString) -> Self {
        Settings {
            url,
            tls: tls::Files::default(),
            prefix: "plasm".to_owned(),
            within: Duration::from_secs(2),
        }
    }
}

/// Why a Redis cannot be the store. No text holds a password.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("is not a URL of Redis ({0}); it looks like redis://user:password@host:6379")]
    Url(String),
    #[error("has no TLS (rediss://…), and store.tls names files for it")]
    Plain,
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("Redis cannot be reached: {0}")]
    Unreachable(String),
    #[error("Redis refuses the login: {0}")]
    Login(String),
    #[error("{server} is Redis {version}, and 7.0 is the oldest that serves")]
    Old { server: String, version: String },
    #[error(
        "{server} has maxmemory-policy {policy} and would drop sessions when its memory is full; set it to noeviction"
    )]
    Evicts { server: String, policy: String },
    #[error("{server} does not let this user ask for INFO, so its memory policy is unknown: {why}")]
    Unknown { server: String, why: String },
}

impl Redis {
    /// Connects, and asks each server whether it fits. To be called within a Tokio runtime.
    ///
    /// # Errors
    /// [`StartError`], within seconds. Once it has begun, a Redis that goes away is waited for.
    pub async fn connect(settings: Settings) -> Result<Self, StartError> {
        let late = || StartError::Unreachable(format!("no answer within {} s", STARTED_WITHIN.as_secs()));
        tokio::time::timeout(STARTED_WITHIN, begin(settings)).await.map_err(|_| late())?
    }
}

async fn begin(settings: Settings) -> Result<Redis, StartError> {
    let plain = client(&settings)?;
    let (near, sure) = (plain.clone_new(), plain.clone_new());
    let mut kept = Vec::new();
    for client in [&plain, &near, &sure] {
        let running = client.init().await.map_err(|error| refused(&error))?;
        kept.push(keep(client.clone(), running));
    }
    let line = |client| Line::new(client, settings.within);
    let shared = Arc::new(Shared {
        plain: line(plain),
        near: line(near),
        sure: line(sure),
        prefix: settings.prefix,
        cache: Cache::new(),
        bus: broadcast::Sender::new(TOLD),
        health: watch::Sender::new(Health::Away),
        hearings: Mutex::new(HashMap::new()),
        replicated: AtomicBool::new(false),
        _kept: kept,
    });
    fits(&shared.plain).await?;
    let guard = tokio::spawn(guard::watch(shared.clone()));
    Ok(Redis { shared, _guard: AbortOnDropHandle::new(guard) })
}

/// Runs a client's connections for as long as this is held. The client comes back by itself after all that it expects; if
/// it ends over something else, it is begun again.
pub(super) fn keep(client: Client, running: ConnectHandle) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut running = AbortOnDropHandle::new(running);
        loop {
            let ended = (&mut running).await;
            tracing::warn!(?ended, "a connection to Redis ended and is begun again");
            running = loop {
                tokio::time::sleep(AGAIN).await;
                if let Ok(begun) = client.init().await {
                    break AbortOnDropHandle::new(begun);
                }
            };
        }
    }))
}

fn client(settings: &Settings) -> Result<Client, StartError> {
    let mut config = Config::from_url(settings.url.expose_secret())
        .map_err(|error| StartError::Url(error.kind().to_str().to_owned()))?;
    let hosts: Vec<Server> = config.server.hosts();
    match &mut config.tls {
        Some(tls) => secure(tls, settings, hosts.first())?,
        None if settings.tls != tls::Files::default() => return Err(StartError::Plain),
        None => {}
    }
    config.version = RespVersion::RESP3;
    config.fail_fast = true;
    let connection = ConnectionConfig {
        connection_timeout: settings.within,
        internal_command_timeout: settings.within,
        max_command_buffer_len: QUEUED,
        unresponsive: UnresponsiveConfig {
            max_timeout: Some(DEAD_AFTER.max(settings.within * 2)),
            interval: Duration::from_secs(1),
        },
        tcp: TcpConfig { nodelay: Some(true), ..TcpConfig::default() },
        // A master that became a replica, or is not ready, is left for the one that is.
        reconnect_errors: vec![
            ReconnectError::ClusterDown,
            ReconnectError::Loading,
            ReconnectError::ReadOnly,
            ReconnectError::MasterDown,
        ],
        ..ConnectionConfig::default()
    };
    let performance = PerformanceConfig {
        default_command_timeout: settings.within,
        broadcast_channel_capacity: TOLD,
        ..PerformanceConfig::default()
    };
    // Without end, for the store outlives outages; but nobody waits for it: commands fail at once meanwhile.
    let policy = ReconnectPolicy::new_exponential(0, 50, 1000, 2);
    Ok(Client::new(config, Some(performance), Some(connection), Some(policy)))
}

/// Puts our authorities and our identity into the TLS that the URL asks for.
fn secure(tls: &mut TlsConfig, settings: &Settings, first: Option<&Server>) -> Result<(), StartError> {
    let identity = settings.tls.identity()?;
    if let Some(ca) = &settings.tls.ca {
        let mut roots = RootCertStore::empty();
        tls::trust(&mut roots, ca)?;
        tls.connector = tls::client(roots, identity).into();
    } else if let (Some(identity), TlsConnector::Rustls(system)) = (identity, &tls.connector) {
        let mut client = ClientConfig::clone(system.config());
        client.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
        tls.connector = client.into();
    }
    // The nodes of a cluster name each other by address, and their certificates the cluster by its name.
    if let Some(name) =
        first.map(|server| server.host.to_string()).filter(|host| host.parse::<IpAddr>().is_err())
    {
        tls.hostnames = TlsHostMapping::Custom(Arc::new(Named(name)));
    }
    Ok(())
}

/// The name by which all nodes of a cluster are known.
#[derive(Debug)]
struct Named(String);

impl HostMapping for Named {
    fn map(&self, _: &IpAddr, _: &str) -> Option<String> {
        Some(self.0.clone())
    }
}

fn refused(error: &fred::error::Error) -> StartError {
    let why = error.details().to_owned();
    match error.kind() {
        ErrorKind::Auth => StartError::Login(why),
        _ if why.starts_with("NOAUTH") || why.starts_with("WRONGPASS") || why.starts_with("NOPERM") => {
            StartError::Login(why)
        }
        _ => StartError::Unreachable(match untrusted(&why) {
            Some(because) => format!("its certificate is refused ({because})"),
            None => why,
        }),
    }
}

/// Why a certificate was refused, from an error that was turned into text as programmers read it.
fn untrusted(why: &str) -> Option<&str> {
    let (_, because) = why.split_once("InvalidCertificate(")?;
    because.split([')', ' ', '{']).next()
}

/// Asks by `INFO`, for `CONFIG` is often forbidden.
async fn fits(line: &Line) -> Result<(), StartError> {
    for node in line.nodes() {
        let server = format!("{}:{}", node.host, node.port);
        let ask = async |section: &str| match line
            .ask("INFO", To::Node(node.clone()), vec![section.into()])
            .await
        {
            Ok(info) => Ok(reply::text(&info).unwrap_or_default().to_owned()),
            Err(Trouble::Said(why)) => Err(StartError::Unknown { server: server.clone(), why }),
            Err(Trouble::Away) => Err(StartError::Unreachable(format!("{server} does not answer INFO"))),
        };
        let about = ask("server").await?;
        let version = value(&about, "redis_version").unwrap_or("of an unknown version").to_owned();
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < 7) {
            return Err(StartError::Old { server, version });
        }
        let memory = ask("memory").await?;
        let policy = value(&memory, "maxmemory_policy").unwrap_or("unknown").to_owned();
        if policy != "noeviction" {
            return Err(StartError::Evicts { server, policy });
        }
    }
    Ok(())
}

/// A value of `INFO`'s text.
pub(super) fn value<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}
