//! How people log in at a browser, and our own authorisation server, from the configuration.

use super::{Login, StartError};
use crate::auth::browser::{self, Browser, Oidc, Person, User, Users};
use crate::auth::jwt::{Issuer, Source, Tenant};
use crate::auth::keys::Keys;
use crate::auth::metadata::Metadata;
use crate::auth::resources::Resources;
use crate::auth::server::keys::SigningKeys;
use crate::auth::server::redirects::{Policy, Vendor};
use crate::auth::server::{Ground, Server, Settings};
use crate::config::{BrowserLogin, Config, LoginUser, Redirects, Secret};
use crate::sealing::Keyring;
use jsonwebtoken::Algorithm;
use secrecy::SecretString;
use serde_json::Value;
use std::sync::Arc;

/// The claim of our own access tokens that names the tenant.
const TENANT: &str = "tenant";
/// The tenant of people where no tenant is configured.
const ONE_TENANT: &str = "default";

/// Who people are at a browser; `None`: nobody logs in there. `origin`: where the gateway is reached.
pub fn browser(login: &Login, config: &Config, origin: &str) -> Result<Option<Arc<Browser>>, StartError> {
    let settings = &config.auth.login;
    if !settings.is_on() {
        return Ok(None);
    }
    let way = match settings.oidc.issuer.is_some() {
        true => browser::Login::Oidc(Box::new(provider(login, config, origin)?)),
        false => browser::Login::Users(users(settings)?),
    };
    // The issuer of the access tokens of the same people.
    let issuer = match (config.auth.server.enabled, &settings.oidc.issuer) {
        (false, Some(provider)) => provider,
        _ => origin,
    };
    let (store, keyring) = (login.store.clone(), login.keyring.clone());
    let revoked = login.revoked.clone();
    Ok(Some(Arc::new(Browser::new(store, keyring, revoked, way, origin, issuer, settings.session))))
}

fn provider(login: &Login, config: &Config, origin: &str) -> Result<Oidc, StartError> {
    let oidc = &config.auth.login.oidc;
    let issuer = oidc.issuer.clone().unwrap_or_default();
    let secret = oidc.client_secret.as_ref();
    let secret = secret.map(|secret| reveal("auth.login.oidc.client_secret", secret)).transpose()?;
    let (mut tenant, mut claim) = (oidc.tenant.clone(), oidc.tenant_claim.clone());
    // Where the provider's own tokens are taken, people are the same principals at a browser as by them.
    let known = config.auth.issuers.iter().find(|(_, known)| known.issuer == issuer);
    if let Some((name, known)) = known.filter(|_| !config.auth.server.enabled) {
        tenant = known.tenant.clone().unwrap_or_else(|| name.to_owned());
        claim = known.tenant_claim.clone();
    }
    if tenant.is_empty() {
        tenant = ONE_TENANT.to_owned();
    }
    let settings = browser::OidcSettings {
        issuer,
        client_id: oidc.client_id.clone(),
        client_secret: secret,
        scopes: oidc.scopes.clone(),
        callback: format!("{origin}/login/callback"),
        tenant,
        tenant_claim: claim,
        claims: oidc.claims.clone(),
    };
    Ok(Oidc::new(settings, login.egress.clone()))
}

fn users(login: &BrowserLogin) -> Result<Users, StartError> {
    let users = login.users.iter().map(|(name, user)| {
        let key = format!("auth.login.users.{name}.password");
        let missing =
            || StartError::Setting { key: key.clone(), why: "is needed; plasm-mcp password makes it".into() };
        let hash = reveal(&key, user.password.as_ref().ok_or_else(missing)?)?;
        let wrong =
            |error: browser::PasswordError| StartError::Setting { key: key.clone(), why: error.to_string() };
        User::new(person(name, user), &hash).map_err(wrong)
    });
    Ok(Users::new(users.collect::<Result<_, _>>()?))
}

fn person(name: &str, user: &LoginUser) -> Person {
    let tenant = if user.tenant.is_empty() { ONE_TENANT } else { &user.tenant };
    Person {
        subject: name.to_owned(),
        tenant: tenant.to_owned(),
        name: user.name.clone().unwrap_or_else(|| name.to_owned()),
        claims: user
            .claims
            .iter()
            .map(|(name, value)| (name.to_owned(), Value::from(value.as_str())))
            .collect(),
    }
}

/// What signs our access tokens; `None`: our authorisation server is off.
pub fn signing_keys(login: &Login, config: &Config) -> Result<Option<Arc<SigningKeys>>, StartError> {
    let server = &config.auth.server;
    if !server.enabled {
        return Ok(None);
    }
    if server.signing_keys.is_empty() {
        return Ok(Some(login.random.get_or_init(|| Arc::new(SigningKeys::random())).clone()));
    }
    let key = |index: usize| format!("auth.server.signing_keys[{index}]");
    let secrets = server.signing_keys.iter().enumerate().map(|(index, secret)| reveal(&key(index), secret));
    let keys = SigningKeys::read(&secrets.collect::<Result<Vec<_>, _>>()?);
    let wrong = |(index, error): (usize, _)| StartError::Setting { key: key(index), why: format!("{error}") };
    keys.map_err(wrong).map(|keys| Some(Arc::new(keys)))
}

/// Our authorisation server as an issuer whose tokens are taken.
pub fn as_issuer(login: &Login, keys: &SigningKeys, origin: &str) -> Issuer {
    Issuer {
        id: origin.to_owned(),
        keys: Source::Own(Arc::new(Keys::new(keys.verifying(), login.epoch.clone()))),
        algorithms: vec![Algorithm::EdDSA, Algorithm::ES256],
        audiences: Vec::new(),
        tenant: Tenant::Claim(TENANT.to_owned()),
        required: Vec::new(),
    }
}

/// Our authorisation server.
pub fn server(
    login: &Login,
    config: &Config,
    keys: Arc<SigningKeys>,
    browser: Arc<Browser>,
    metadata: Arc<Metadata>,
) -> Result<Arc<Server>, StartError> {
    let server = &config.auth.server;
    let vendors = server.all_vendors().into_iter().map(|(name, vendor)| Vendor {
        name,
        redirects: vendor.redirects,
        documents: vendor.documents,
    });
    let profiles = config.served_profiles();
    let of_parts = profiles.iter().flat_map(|(_, profile, _)| {
        let scopes = &profile.scopes;
        [&scopes.tools, &scopes.prompts, &scopes.resources].into_iter().flat_map(|parts| parts.iter())
    });
    let mut known = metadata.offered();
    known.extend(of_parts.flat_map(|(_, scopes)| scopes.iter().cloned()));
    let known = known.into_iter().filter(|scope| server.scopes.get(scope).is_none());
    let known = known.map(|scope| (scope, String::new()));
    let told = server.scopes.iter().map(|(scope, words)| (scope.to_owned(), words.clone()));
    let settings = Settings {
        issuer: metadata.origin().into(),
        keys,
        client_ids: client_ids(login, &server.client_id_keys)?,
        policy: Policy { vendors: vendors.collect(), open: server.redirects == Redirects::Open },
        registration: server.registration,
        documents: server.client_metadata,
        scopes: told.chain(known).collect(),
        access: server.access_ttl,
        refresh: server.refresh_ttl,
        longest: server.refresh_max,
        grace: server.refresh_grace,
    };
    let ground = Ground {
        store: login.store.clone(),
        keyring: login.keyring.clone(),
        revoked: login.revoked.clone(),
        egress: login.egress.clone(),
        browser,
        resources: Resources::new(metadata),
    };
    Ok(Arc::new(Server::new(settings, ground)))
}

fn client_ids(login: &Login, keys: &[Secret]) -> Result<Arc<Keyring>, StartError> {
    match keys.is_empty() {
        true => Ok(login.keyring.clone()),
        false => super::ring("auth.server.client_id_keys", keys).map(Arc::new),
    }
}

fn reveal(key: &str, secret: &Secret) -> Result<SecretString, StartError> {
    secret.reveal().map_err(|error| StartError::Setting { key: key.to_owned(), why: error.to_string() })
}
