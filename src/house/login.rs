//! Who may come in, from the configuration: issuers and their keys, keys of machines, and what clients are told of it.

use super::{StartError, outbound, people};
use crate::auth::account::Account;
use crate::auth::api_key::{ApiKey, ApiKeys};
use crate::auth::jwks::{self, Jwks};
use crate::auth::jwt::{Issuer, Source, Tenant};
use crate::auth::keys::ALGORITHMS;
use crate::auth::metadata::{About, Metadata};
use crate::auth::pages::{Pages, Site};
use crate::auth::server::keys::SigningKeys;
use crate::auth::{Auth, Epoch, Revoked, Settings};
use crate::config::{self, Config, CredentialKind, DEFAULT_PROFILE};
use crate::egress::Egress;
use crate::sealing::Keyring;
use crate::store::Store;
use crate::vault::Vault;
use jsonwebtoken::Algorithm;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio_util::task::AbortOnDropHandle;

/// What stays while configurations change: the issuers' keys, what was revoked, the way to issuers.
pub struct Login {
    pub(super) epoch: Epoch,
    pub revoked: Revoked,
    pub egress: Egress,
    pub(super) store: Arc<dyn Store>,
    pub(super) keyring: Arc<Keyring>,
    /// What signs our own access tokens, where no key is configured.
    pub(super) random: OnceLock<Arc<SigningKeys>>,
    /// Where clients reach this gateway, where the configuration does not say it.
    origin: String,
    fetched: Mutex<Vec<Arc<Jwks>>>,
    /// Learns of revocations, from the first configuration on under which anybody logs in.
    follows: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Login {
    /// `address`: of the public listener.
    pub fn new(
        config: &Config,
        store: Arc<dyn Store>,
        keyring: Arc<Keyring>,
        address: SocketAddr,
    ) -> Result<Login, StartError> {
        let epoch = Epoch::default();
        Ok(Login {
            revoked: Revoked::new(store.clone(), epoch.clone()),
            store,
            keyring,
            random: OnceLock::new(),
            epoch,
            egress: outbound::egress(config)?,
            origin: format!("http://{address}"),
            fetched: Mutex::default(),
            follows: Mutex::default(),
        })
    }

    /// Who may come in by this configuration, and the pages that go with it. What was verified under another is verified anew.
    pub fn build(&self, config: &Config, vault: &Vault) -> Result<(Arc<Auth>, Arc<Site>), StartError> {
        let origin = config.public_url.clone().unwrap_or_else(|| self.origin.clone());
        // As it stands in metadata and tokens.
        let origin = url::Url::parse(&origin).map_or(origin, |url| url.origin().ascii_serialization());
        let auth = &config.auth;
        let browser = if auth.is_on() { people::browser(self, config, &origin)? } else { None };
        let connect = vault.pages(browser.clone()).map(|pages| Arc::new(pages) as Arc<dyn Pages>);
        if !auth.is_on() {
            return Ok((Arc::new(Auth::open()), Arc::new(Site::of(connect.into_iter().collect()))));
        }
        let signing = people::signing_keys(self, config)?;
        let own = signing.iter().map(|keys| people::as_issuer(self, keys, &origin));
        let others = auth.issuers.iter().map(|(name, issuer)| self.issuer(name, issuer));
        let issuers: Vec<Issuer> = own.chain(others).collect();
        let metadata = Arc::new(Metadata::new(About {
            origin: origin.clone(),
            public_path: config.public_path.clone(),
            servers: issuers.iter().map(|issuer| issuer.id.clone()).collect(),
            profiles: config
                .served_profiles()
                .into_iter()
                .map(|(name, profile, _)| {
                    let name = if name == DEFAULT_PROFILE { "" } else { name };
                    let required = profile.scopes.required.iter().map(|scope| Arc::from(&**scope));
                    (name.into(), required.collect())
                })
                .collect(),
            scopes: auth.scopes_supported.iter().map(|scope| Arc::from(&**scope)).collect(),
            name: auth.resource_name.clone(),
        }));
        let mut pages: Vec<Arc<dyn Pages>> = vec![metadata.clone()];
        pages.extend(connect);
        if let Some(browser) = browser {
            let server = match signing {
                Some(keys) => Some(people::server(self, config, keys, browser.clone(), metadata.clone())?),
                None => None,
            };
            let families = server.as_ref().map(|server| server.families().clone());
            let account = Account::new(browser.clone(), families, Some(Arc::new(vault.clone())));
            pages.extend([Arc::new(account) as Arc<dyn Pages>, browser]);
            pages.extend(server.map(|server| server as Arc<dyn Pages>));
        }
        let settings = Settings {
            issuers,
            api_keys: api_keys(auth)?,
            skew: auth.clock_skew.as_secs(),
            remember: auth.remember,
            metadata,
            revoked: self.revoked.clone(),
            epoch: self.epoch.clone(),
            exchanges: exchanges(config),
        };
        let mut follows = self.follows.lock().unwrap_or_else(PoisonError::into_inner);
        follows.get_or_insert_with(|| AbortOnDropHandle::new(tokio::spawn(self.revoked.clone().follow())));
        Ok((Arc::new(Auth::new(settings)), Arc::new(Site::of(pages))))
    }

    fn issuer(&self, name: &str, issuer: &config::Issuer) -> Issuer {
        let source = jwks::Source { issuer: issuer.issuer.clone(), url: issuer.jwks_url.clone() };
        let algorithms = match issuer.algorithms.is_empty() {
            true => ALGORITHMS.to_vec(),
            false => issuer.algorithms.iter().map(|algorithm| named(*algorithm)).collect(),
        };
        let tenant = match &issuer.tenant_claim {
            Some(claim) => Tenant::Claim(claim.clone()),
            None => Tenant::Always(issuer.tenant.as_deref().unwrap_or(name).into()),
        };
        Issuer {
            id: issuer.issuer.clone(),
            keys: Source::Fetched(self.jwks(source)),
            algorithms,
            audiences: issuer.audiences.clone(),
            tenant,
            required: issuer
                .required_claims
                .iter()
                .map(|(name, value)| (name.into(), value.clone()))
                .collect(),
        }
    }

    /// The keys of one source are fetched in one place, whatever configurations come and go.
    fn jwks(&self, source: jwks::Source) -> Arc<Jwks> {
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = fetched.iter().find(|known| *known.source() == source) {
            return known.clone();
        }
        let jwks = Jwks::new(source, self.egress.clone(), self.epoch.clone());
        fetched.push(jwks.clone());
        jwks
    }
}

/// Whether some upstream's credential is exchanged for its callers' tokens.
fn exchanges(config: &Config) -> bool {
    let mut upstreams = config.enabled_upstreams();
    upstreams.any(|(_, upstream)| upstream.auth.kind == CredentialKind::TokenExchange)
}

fn api_keys(auth: &config::Auth) -> Result<ApiKeys, StartError> {
    let keys = auth.api_keys.iter().map(|(id, key)| {
        let scopes = key.scopes.iter().map(|scope| Arc::from(&**scope)).collect();
        let subject = key.subject.as_deref().unwrap_or(id);
        let known = ApiKey::new(id, &key.hash, &key.tenant, subject, scopes, key.until());
        let wrong = || StartError::Setting {
            key: format!("auth.api_keys.{id}.hash"),
            why: "is no hash of plasm-mcp token hash".to_owned(),
        };
        Ok((id.into(), known.ok_or_else(wrong)?))
    });
    keys.collect()
}

fn named(algorithm: config::Algorithm) -> Algorithm {
    match algorithm {
        config::Algorithm::RS256 => Algorithm::RS256,
        config::Algorithm::RS384 => Algorithm::RS384,
        config::Algorithm::RS512 => Algorithm::RS512,
        config::Algorithm::PS256 => Algorithm::PS256,
        config::Algorithm::PS384 => Algorithm::PS384,
        config::Algorithm::PS512 => Algorithm::PS512,
        config::Algorithm::ES256 => Algorithm::ES256,
        config::Algorithm::ES384 => Algorithm::ES384,
        config::Algorithm::EdDSA => Algorithm::EdDSA,
    }
}
