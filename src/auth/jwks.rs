//! An issuer's keys, fetched: kept while they are fresh, used on while the issuer is away, fetched once for all who wait, and
//! not at the whim of whoever makes up key ids. Knows nothing of tokens.

use super::Epoch;
use super::keys::{KeySet, Keys};
use crate::egress::{Egress, Named};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Keys older than this are fetched again, beside the calls that they serve meanwhile: so long can a key be in use here that its
/// issuer has withdrawn.
const FRESH: Duration = Duration::from_secs(300);
/// How long an issuer that is away is believed by its last word.
const STALE: Duration = Duration::from_secs(24 * 3600);
/// Shortest time between two fetches, whatever tokens name: an issuer publishes a key before it signs with it.
const COOL_DOWN: Duration = Duration::from_secs(10);
/// As [`COOL_DOWN`], where there are no keys at all as yet.
const RETRY: Duration = Duration::from_secs(1);

/// Where the keys of an issuer are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its identifier, which its metadata must repeat.
    pub issuer: String,
    /// Where its keys are; `None`: its metadata says it.
    pub url: Option<String>,
}

/// The keys of one issuer, and when they were last asked for.
pub struct Jwks {
    source: Source,
    egress: Egress,
    keys: Keys,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the keys in use were fetched.
    fetched: Option<Instant>,
    /// When a fetch last began.
    tried: Option<Instant>,
    running: Option<Shared<BoxFuture<'static, bool>>>,
    /// The document in use: the same again is no change.
    document: Vec<u8>,
}

impl Jwks {
    /// Has no keys before the first fetch.
    pub fn new(source: Source, egress: Egress, epoch: Epoch) -> Arc<Jwks> {
        Arc::new(Jwks { source, egress, keys: Keys::new(KeySet::default(), epoch), state: Mutex::default() })
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The keys in use; `None` where there are none that may still be believed. Old ones are fetched again meanwhile.
    pub fn now(self: &Arc<Self>) -> Option<Arc<KeySet>> {
        let age = self.lock().fetched.map(|fetched| fetched.elapsed());
        if age.is_none_or(|age| age > FRESH) {
            // The fetch runs by itself.
            drop(self.begin());
        }
        age.filter(|age| *age <= STALE).map(|_| self.keys.now())
    }

    /// Fetches the keys again, once for all who wait, unless that was tried a moment ago. Whether there may be others now.
    pub async fn renewed(self: &Arc<Self>) -> bool {
        match self.begin() {
            Some(running) => running.await,
            None => false,
        }
    }

    fn begin(self: &Arc<Self>) -> Option<Shared<BoxFuture<'static, bool>>> {
        let mut state = self.lock();
        if let Some(running) = &state.running {
            return Some(running.clone());
        }
        let pause = if state.fetched.is_some() { COOL_DOWN } else { RETRY };
        if state.tried.is_some_and(|tried| tried.elapsed() < pause) {
            return None;
        }
        state.tried = Some(Instant::now());
        // A task of its own, bounded by the client's time: whoever began it may go away.
        let fetching = tokio::spawn(self.clone().fetch());
        let running = fetching.map(|came| came.unwrap_or(false)).boxed().shared();
        state.running = Some(running.clone());
        Some(running)
    }

    async fn fetch(self: Arc<Self>) -> bool {
        let found = self.look().await;
        let mut state = self.lock();
        state.running = None;
        match found {
            Ok((document, set)) => {
                state.fetched = Some(Instant::now());
                if state.document != document {
                    tracing::info!(issuer = self.source.issuer, keys = ?set, "an issuer's keys");
                    state.document = document;
                    self.keys.replace(set);
                }
                true
            }
            Err(why) => {
                let known = state.fetched.is_some();
                tracing::warn!(issuer = self.source.issuer, why, known, "an issuer's keys cannot be had");
                false
            }
        }
    }

    async fn look(&self) -> Result<(Vec<u8>, KeySet), &'static str> {
        let url = match &self.source.url {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let document = self.get(&url).await.ok_or("no key set at its jwks_uri")?;
        let set = KeySet::read(&document).map_err(|_| "what is at its jwks_uri is no key set")?;
        match set.is_empty() {
            true => Err("its key set has no key that could verify a token"),
            false => Ok((document, set)),
        }
    }

    /// Where the issuer's metadata says that its keys are (RFC 8414 3, OpenID Connect Discovery 4).
    async fn discover(&self) -> Result<String, &'static str> {
        let issuer = &self.source.issuer;
        for url in well_known(issuer) {
            let Some(document) = self.get(&url).await else { continue };
            let Ok(metadata) = serde_json::from_slice::<Value>(&document) else { continue };
            if metadata["issuer"].as_str() != Some(issuer) {
                return Err("its metadata names another issuer");
            }
            let keys = metadata["jwks_uri"].as_str().ok_or("its metadata has no jwks_uri")?;
            if issuer.starts_with("https://") && !keys.starts_with("https://") {
                return Err("its jwks_uri is not https");
            }
            return Ok(keys.to_owned());
        }
        Err("it has no metadata")
    }

    async fn get(&self, url: &str) -> Option<Vec<u8>> {
        match self.egress.get(url, Named::ByUs).await {
            Ok(answer) if answer.status.is_success() => Some(answer.body.to_vec()),
            Ok(answer) => {
                tracing::debug!(url, status = answer.status.as_u16(), "an issuer's document");
                None
            }
            Err(error) => {
                tracing::debug!(url, %error, "an issuer's document");
                None
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where an issuer's metadata may be, in the order in which it is asked for.
pub fn well_known(issuer: &str) -> Vec<String> {
    let plain = issuer.strip_suffix('/').unwrap_or(issuer);
    let Some((scheme, rest)) = plain.split_once("://") else { return Vec::new() };
    let (host, path) = match rest.split_once('/') {
        Some((host, path)) => (host, format!("/{path}")),
        None => (rest, String::new()),
    };
    let mut urls = vec![
        format!("{scheme}://{host}/.well-known/oauth-authorization-server{path}"),
        format!("{plain}/.well-known/openid-configuration"),
    ];
    if !path.is_empty() {
        urls.push(format!("{scheme}://{host}/.well-known/openid-configuration{path}"));
    }
    urls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_looked_for_where_each_specification_puts_it() {
        assert_eq!(
            well_known("https://a.example"),
            [
                "https://a.example/.well-known/oauth-authorization-server",
                "https://a.example/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            well_known("https://a.example/realms/x/"),
            [
                "https://a.example/.well-known/oauth-authorization-server/realms/x",
                "https://a.example/realms/x/.well-known/openid-configuration",
                "https://a.example/.well-known/openid-configuration/realms/x"
            ]
        );
    }
}
