//! Our authorisation server, for sites whose identity provider speaks neither client metadata documents nor dynamic
//! registration: OAuth 2.1 with PKCE, RFC 8707, 9207, 7591, 7009, 8414. All its state is in the store, so any pod takes any
//! request. Knows nothing of MCP but its resources' URLs.

mod answers;
mod authorize;
pub mod clients;
mod codes;
mod documents;
mod exchange;
pub mod families;
pub mod keys;
mod metadata;
pub mod redirects;
mod registration;
mod request;

use super::browser::{Browser, Person};
use super::pages::{Asked, Pages, Readers, not_allowed};
use super::resources::{Resource, Resources};
use super::revoked::Revoked;
use super::{FAMILY, now, random_text};
use crate::egress::Egress;
use crate::mcp::Scopes;
use crate::sealing::Keyring;
use crate::store::Store;
use bytes::Bytes;
use clients::Clients;
use codes::Codes;
use documents::Documents;
use families::Families;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Method, Response};
use keys::SigningKeys;
use redirects::Policy;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The scope that asks for a refresh token (OpenID Connect Core 11). It goes into no access token.
pub const OFFLINE: &str = "offline_access";

/// What the server is told by the configuration.
pub struct Settings {
    /// Scheme, host and port under which it is reached: its identifier.
    pub issuer: Arc<str>,
    pub keys: Arc<SigningKeys>,
    /// Seals client ids; kept longer than other keys.
    pub client_ids: Arc<Keyring>,
    pub policy: Policy,
    /// Whether clients may register (RFC 7591).
    pub registration: bool,
    /// Whether client metadata documents are read.
    pub documents: bool,
    /// Scopes that may be asked for besides those of the profiles, each with words for the consent page.
    pub scopes: Vec<(String, String)>,
    /// How long an access token is good.
    pub access: Duration,
    /// How long a refresh token is good after its last use.
    pub refresh: Duration,
    /// And after the login that it came of.
    pub longest: Duration,
    /// How long a refresh token that was used may be shown again, by who did not get the answer.
    pub grace: Duration,
}

/// The rooms that it stands on.
pub struct Ground {
    pub store: Arc<dyn Store>,
    pub keyring: Arc<Keyring>,
    pub revoked: Revoked,
    pub egress: Egress,
    pub browser: Arc<Browser>,
    pub resources: Resources,
}

/// The authorisation server.
pub struct Server {
    issuer: Arc<str>,
    keys: Arc<SigningKeys>,
    policy: Policy,
    registration: bool,
    scopes: Vec<(String, String)>,
    access: Duration,
    clients: Clients,
    codes: Codes,
    families: Arc<Families>,
    browser: Arc<Browser>,
    resources: Resources,
}

/// What a person allowed a client: the root of a family of tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The client's id.
    pub client: String,
    /// Its name and the host of its address, for the person's own page.
    pub name: String,
    pub host: String,
    pub person: Person,
    /// The one audience of its tokens.
    pub resource: String,
    pub scope: String,
    /// Whether there are refresh tokens.
    pub refresh: bool,
}

impl Server {
    pub fn new(settings: Settings, ground: Ground) -> Server {
        let Ground { store, keyring, revoked, egress, browser, resources } = ground;
        let policy = settings.policy.clone();
        let documents = || Documents::new(store.clone(), keyring.clone(), egress, policy);
        let documents = settings.documents.then(documents);
        let families = Families::new(
            store.clone(),
            keyring.clone(),
            revoked.clone(),
            families::Lives {
                access: settings.access,
                refresh: settings.refresh,
                longest: settings.longest,
                grace: settings.grace,
            },
        );
        Server {
            clients: Clients::new(settings.client_ids, revoked, documents, settings.policy.clone()),
            codes: Codes::new(store, keyring),
            families: Arc::new(families),
            issuer: settings.issuer,
            keys: settings.keys,
            policy: settings.policy,
            registration: settings.registration,
            scopes: settings.scopes,
            access: settings.access,
            browser,
            resources,
        }
    }

    /// The families of tokens, for whoever lists and ends them.
    pub fn families(&self) -> &Arc<Families> {
        &self.families
    }

    /// Of what a client asks for, what there is for this resource; where that is nothing, what it takes to come in. For a
    /// client that asks for `openid` out of habit must not end with a token that opens nothing.
    fn granted(&self, asked: &str, resource: &Resource) -> Scopes {
        let known = |scope: &str| {
            self.scopes.iter().any(|(name, _)| name == scope)
                || resource.scopes.iter().any(|own| own == scope)
        };
        let granted: Scopes =
            Scopes::read(asked).iter().filter(|scope| known(scope)).map(Arc::from).collect();
        match granted == Scopes::default() {
            false => granted,
            true => resource.scopes.iter().map(|scope| Arc::from(scope.as_str())).collect(),
        }
    }

    /// A new access token (RFC 9068), and its life in seconds.
    fn access_token(&self, grant: &Grant, scope: &str, family: &str) -> (String, u64) {
        let (now, life) = (now(), self.access.as_secs());
        let mut claims: Map<String, Value> = grant.person.claims.clone();
        let own = json!({
            "iss": &*self.issuer, "sub": grant.person.subject, "aud": grant.resource, "client_id": grant.client, "scope": scope,
            "tenant": grant.person.tenant, "jti": random_text(), "iat": now, "exp": now + life, FAMILY: family,
        });
        // Last, so that no claim of the provider stands in place of one of ours.
        claims.extend(own.as_object().cloned().unwrap_or_default());
        (self.keys.sign(&claims), life)
    }
}

impl Pages for Server {
    fn readers(&self, path: &str) -> Option<Readers> {
        match path {
            "/authorize" => Some(Readers::Browsers),
            "/token" | "/revoke" | "/jwks.json" => Some(Readers::Programs),
            "/register" => self.registration.then_some(Readers::Programs),
            path => self.is_metadata(path).then_some(Readers::Programs),
        }
    }

    fn answer(self: Arc<Self>, asked: Asked) -> BoxFuture<'static, Response<Bytes>> {
        async move {
            let reads = matches!(asked.verb, Method::GET | Method::HEAD);
            match asked.path.as_str() {
                "/authorize" if reads => self.authorize(&asked).await,
                "/authorize" if asked.verb == Method::POST => self.decide(&asked).await,
                "/token" if asked.verb == Method::POST => self.exchange(&asked).await,
                "/revoke" if asked.verb == Method::POST => self.revoke(&asked).await,
                "/register" if asked.verb == Method::POST => self.register(&asked),
                "/authorize" => not_allowed("GET, POST"),
                "/token" | "/revoke" | "/register" => not_allowed("POST"),
                _ if !reads => not_allowed("GET"),
                "/jwks.json" => metadata::document(self.keys.jwks()),
                path => metadata::document(self.metadata(path)),
            }
        }
        .boxed()
    }
}
