//! Credentials for upstreams: the gateway's own and its callers', come by over OAuth, sealed in the store, renewed by one pod
//! for all. Knows nothing of MCP's messages, nor of what its credentials are borne to.

mod challenge;
mod client;
mod connect;
mod exchange;
mod held;
mod listed;
mod metadata;
mod ours;
mod slot;
mod spec;
mod token;
mod user;

pub use connect::Connect;
pub use spec::{Spec, SpecError};

use crate::auth::browser::Browser;
use crate::config::CredentialKind;
use crate::egress::Egress;
use crate::mcp::{Principal, StoreAway, UpstreamId};
use crate::sealing::Keyring;
use crate::store::{Key, Store};
use crate::upstream::credentials::{Credentials, Lack};
use crate::upstream::link::flights::Flights;
use held::Held;
use moka::sync::Cache;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use user::Account;

/// Credentials that this pod has at hand, and for how long after their last use.
const AT_HAND: u64 = 100_000;
const IDLE: Duration = Duration::from_secs(30 * 60);
/// How long it is believed that an upstream needs an account.
const BELIEVED: Duration = Duration::from_secs(60);

/// What a vault needs.
pub struct Settings {
    pub store: Arc<dyn Store>,
    pub keyring: Arc<Keyring>,
    /// The client for whatever an upstream, or its authorisation server, names.
    pub egress: Egress,
    /// Scheme, host and port under which browsers reach the gateway; without it nobody can connect an account.
    pub base: Option<Arc<str>>,
}

/// All credentials of a gateway. Cheap to clone.
#[derive(Clone)]
pub struct Vault {
    shared: Arc<Shared>,
    specs: Specs,
}

/// The upstreams at which callers connect accounts, by id. Clones are one.
#[derive(Clone, Default)]
struct Specs(Arc<Mutex<BTreeMap<UpstreamId, Arc<Spec>>>>);

/// An account that a principal has connected.
#[derive(Clone, Debug)]
pub struct Connected {
    pub upstream: UpstreamId,
    /// The host of the server that gave its token.
    pub at: String,
    /// When it was connected, in seconds since the epoch.
    pub since: u64,
}

struct Shared {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    egress: Egress,
    base: Option<Arc<str>>,
    /// What upstreams asked of callers who have no account connected, or one that is refused, for a while: they need not be
    /// asked again.
    wanted: Cache<Key, user::Wanted>,
    /// What was unsealed, by its record's revision.
    opened: Cache<Key, (u64, Arc<Held>)>,
    renewals: Arc<Flights<Key, Result<Arc<Held>, Lack>>>,
}

impl Vault {
    pub fn new(settings: Settings) -> Vault {
        let Settings { store, keyring, egress, base } = settings;
        let opened = Cache::builder().max_capacity(AT_HAND).time_to_idle(IDLE).build();
        let wanted = Cache::builder().max_capacity(AT_HAND).time_to_live(BELIEVED).build();
        let shared = Shared { store, keyring, egress, base, wanted, opened, renewals: Flights::new() };
        Vault { shared: Arc::new(shared), specs: Specs::default() }
    }

    /// The credentials for an upstream; `None` where its headers are all.
    pub fn credentials(&self, spec: Spec) -> Option<Arc<dyn Credentials>> {
        let spec = Arc::new(spec);
        match spec.kind {
            CredentialKind::None => None,
            CredentialKind::ClientCredentials => {
                Some(Arc::new(ours::ClientCredentials::new(self.shared.clone(), spec)))
            }
            CredentialKind::TokenExchange => {
                Some(Arc::new(exchange::Exchanges { shared: self.shared.clone(), spec }))
            }
            CredentialKind::Oauth => {
                self.specs.put(spec.clone());
                Some(Arc::new(user::Accounts { shared: self.shared.clone(), spec }))
            }
        }
    }
}

impl Vault {
    /// The pages on which accounts are connected, for those who are at a browser; without one everyone is the same. `None`
    /// where nobody could reach them.
    pub fn pages(&self, browser: Option<Arc<Browser>>) -> Option<Connect> {
        let base = self.shared.base.clone()?;
        Some(Connect::new(self.shared.clone(), self.specs.clone(), base, browser))
    }

    /// Whether callers can connect accounts.
    pub fn connects(&self) -> bool {
        self.shared.base.is_some()
    }

    /// The accounts that a principal has connected.
    pub async fn connected(&self, principal: &Arc<Principal>) -> Result<Vec<Connected>, StoreAway> {
        let mut found = Vec::new();
        for spec in self.specs.all() {
            let account = Account { shared: self.shared.clone(), spec, principal: principal.clone() };
            if let Some(held) = self.shared.held(&account.slot()).await? {
                let host =
                    url::Url::parse(&held.issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
                let at = host.unwrap_or_default();
                found.push(Connected { upstream: account.spec.upstream.clone(), at, since: held.connected });
            }
        }
        Ok(found)
    }

    /// Forgets all accounts of a principal, as [`Vault::disconnect`] does.
    pub async fn disconnect_all(&self, principal: &Arc<Principal>) -> Result<(), StoreAway> {
        for spec in self.specs.all() {
            self.disconnect(principal, spec.upstream.as_str()).await?;
        }
        Ok(())
    }

    /// Forgets a principal's account at an upstream, on all pods, and has its server forget the token (RFC 7009). False: there
    /// was none.
    pub async fn disconnect(&self, principal: &Arc<Principal>, upstream: &str) -> Result<bool, StoreAway> {
        let Some(spec) = self.specs.find(upstream) else { return Ok(false) };
        let account = Account { shared: self.shared.clone(), spec, principal: principal.clone() };
        let Some(held) = self.shared.forget(&account.slot()).await? else { return Ok(false) };
        tracing::info!(upstream, "an account was disconnected");
        if let Some(endpoint) = held.revocation.clone() {
            let shared = self.shared.clone();
            tokio::spawn(async move {
                let (named, client) = (account.spec.named(&endpoint), account.spec.current(&held.client));
                let token = held.refresh.as_ref().map_or(held.access(), |refresh| refresh.expose());
                token::revoke(&shared.egress, named, &endpoint, &client, &held.issuer, token).await;
            });
        }
        Ok(true)
    }
}

impl Specs {
    fn put(&self, spec: Arc<Spec>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(spec.upstream.clone(), spec);
    }

    fn find(&self, upstream: &str) -> Option<Arc<Spec>> {
        let id = UpstreamId::new(upstream)?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn all(&self) -> Vec<Arc<Spec>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Vault")
    }
}

/// Where something of an upstream rests.
fn key(of: &str, upstream: &UpstreamId) -> Key {
    Key::new(format!("vault:{of}"), upstream.as_str())
}
