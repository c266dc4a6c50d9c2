//! The login at an OpenID Connect provider: code flow with PKCE, `state` and `nonce`, bound to the browser that began it. It
//! reaches the provider by the guarded client alone.

use super::{PATIENCE, Person};
use crate::auth::digest_text;
use crate::auth::form::Form;
use crate::egress::{Egress, FetchError, Named};
use crate::sealing::{Keyring, Purpose};
use crate::store::{Grant, Key, Rate, Store, Sure, Write};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use openidconnect::core::{
    CoreAuthPrompt, CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreIdToken,
    CoreJwsSigningAlgorithm as Alg, CoreProviderMetadata,
};
use openidconnect::{
    AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, HttpRequest, HttpResponse, IssuerUrl, Nonce,
    PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, Scope, TokenResponse,
};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use url::Url;

/// How long the provider's metadata and keys are used before they are read again.
const FRESH: Duration = Duration::from_secs(3600);
/// An unknown key makes them be read again, but not more often than this.
const AGAIN: Duration = Duration::from_secs(30);
/// Shortest time between two reads, whoever asks: anybody can begin a login.
const PAUSE: Duration = Duration::from_secs(10);
/// Logins that are begun, of all pods, in KiB of what is kept of them: anybody can begin one, and each is kept for
/// [`PATIENCE`]. A usual one is one KiB.
const BEGUN: Rate = Rate { every: Duration::from_millis(10), burst: 1_000, cost: 1 };
/// Signatures that ID tokens may bear, of those that the provider says it makes. HMAC and `none` are not among them.
const ALGORITHMS: [Alg; 9] = [
    Alg::RsaSsaPkcs1V15Sha256,
    Alg::RsaSsaPkcs1V15Sha384,
    Alg::RsaSsaPkcs1V15Sha512,
    Alg::RsaSsaPssSha256,
    Alg::RsaSsaPssSha384,
    Alg::RsaSsaPssSha512,
    Alg::EcdsaP256Sha256,
    Alg::EcdsaP384Sha384,
    Alg::EdDsa,
];

/// A provider, as configured.
pub struct Settings {
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<SecretString>,
    /// Besides `openid`.
    pub scopes: Vec<String>,
    /// Where the provider sends browsers back: `/login/callback` under our public URL.
    pub callback: String,
    /// The tenant of everyone, where no claim names it.
    pub tenant: String,
    /// The claim that names the tenant; nobody without it comes in.
    pub tenant_claim: Option<String>,
    /// Claims of the ID token that go into access tokens.
    pub claims: Vec<String>,
}

/// Why a login failed. For its user to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    #[error("The login provider cannot be reached")]
    Unreachable,
    #[error("This login is too old, or was begun in another browser")]
    Unknown,
    #[error("The login provider did not log you in")]
    Refused,
    #[error("The login provider's answer is not valid")]
    Invalid,
    #[error("Your account there does not belong to a tenant of this gateway")]
    Tenant,
    #[error("Very many people are logging in at the moment")]
    Often,
    #[error("The state store is out of reach")]
    Store,
}

type Ready = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The provider.
pub struct Oidc {
    settings: Arc<Settings>,
    egress: Egress,
    metadata: Arc<Mutex<Metadata>>,
}

/// What the provider's metadata said, and when it was last asked for.
#[derive(Default)]
struct Metadata {
    known: Option<Arc<Known>>,
    /// When a read last began.
    tried: Option<Instant>,
    running: Option<Reading>,
}

/// A read of it that all who need it wait for.
type Reading = Shared<BoxFuture<'static, Result<Arc<Known>, OidcError>>>;

struct Known {
    client: Ready,
    algorithms: Vec<Alg>,
    at: Instant,
}

/// A login that was begun: what the callback needs, under the digest of its `state`.
#[derive(Serialize, Deserialize)]
struct Begun {
    nonce: String,
    verifier: String,
    back: String,
    /// The digest of the browser that began it.
    browser: String,
}

impl Oidc {
    pub fn new(settings: Settings, egress: Egress) -> Oidc {
        Oidc { settings: Arc::new(settings), egress, metadata: Arc::default() }
    }

    /// Where to send a browser so that its user logs in. `anew`: as somebody else than before.
    pub async fn start(
        &self,
        store: &Arc<dyn Store>,
        keyring: &Keyring,
        browser: &str,
        back: &str,
        anew: bool,
    ) -> Result<Url, OidcError> {
        let known = self.known(FRESH).await?;
        let size = u32::try_from(back.len() / 1024).unwrap_or(u32::MAX).saturating_add(1);
        let rate = Rate { cost: size, ..BEGUN };
        match store.admit(Key::new("oauth:begun", ""), rate).await {
            Ok(Grant::Yes { .. }) => {}
            Ok(Grant::No { .. }) => return Err(OidcError::Often),
            Err(_) => return Err(OidcError::Store),
        }
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let flow = CoreAuthenticationFlow::AuthorizationCode;
        let mut request = known.client.authorize_url(flow, CsrfToken::new_random, Nonce::new_random);
        request = request.set_pkce_challenge(challenge);
        request = request.add_scopes(self.settings.scopes.iter().map(|scope| Scope::new(scope.clone())));
        if anew {
            request = request.add_prompt(CoreAuthPrompt::Login);
        }
        let (url, state, nonce) = request.url();
        let begun = Begun {
            nonce: nonce.secret().clone(),
            verifier: verifier.secret().clone(),
            back: back.to_owned(),
            browser: digest_text(browser.as_bytes()),
        };
        let state = digest_text(state.secret().as_bytes());
        let plain = serde_json::to_vec(&begun).expect("a begun login is a map of plain values");
        let sealed = keyring.seal(Purpose::Browser, state.as_bytes(), &plain);
        let writes = vec![(key(&state), Write::set("d", sealed)), (key(&state), Write::Live(PATIENCE))];
        store.commit(vec![], writes, Sure::Master).await.map_err(|_| OidcError::Store)?;
        Ok(url)
    }

    /// Who came back, and where they wanted to go. Errors come with that too, as far as it is known.
    pub async fn finish(
        &self,
        store: &Arc<dyn Store>,
        keyring: &Keyring,
        browser: &str,
        form: &Form,
    ) -> Result<(Person, String), (OidcError, Option<String>)> {
        let state = digest_text(form.get("state").unwrap_or_default().as_bytes());
        // Once only, on whichever pod.
        let taken = store.take(key(&state), Sure::Replicas).await.map_err(|_| (OidcError::Store, None))?;
        let begun = taken.as_ref().and_then(|record| record.field("d")).and_then(|sealed| {
            let sealed = std::str::from_utf8(sealed).ok()?;
            let plain = keyring.open(Purpose::Browser, state.as_bytes(), sealed).ok()?;
            serde_json::from_slice::<Begun>(&plain).ok()
        });
        let begun = begun.filter(|begun| begun.browser == digest_text(browser.as_bytes()));
        let Some(begun) = begun else { return Err((OidcError::Unknown, None)) };
        let back = begun.back.clone();
        match self.person(begun, form).await {
            Ok(person) => Ok((person, back)),
            Err(error) => Err((error, Some(back))),
        }
    }

    async fn person(&self, begun: Begun, form: &Form) -> Result<Person, OidcError> {
        // Of another issuer: somebody mixes providers up (RFC 9207).
        if form.get("iss").is_some_and(|issuer| issuer != self.settings.issuer) {
            return Err(OidcError::Invalid);
        }
        let code = form.get("code").filter(|_| form.get("error").is_none()).ok_or(OidcError::Refused)?;
        let known = self.known(FRESH).await?;
        let request = known.client.exchange_code(AuthorizationCode::new(code.to_owned()));
        let request = request.map_err(|_| OidcError::Invalid)?;
        let request = request.set_pkce_verifier(PkceCodeVerifier::new(begun.verifier));
        let http = |request| ask(self.egress.clone(), request);
        let answer = request.request_async(&http).await.map_err(|error| {
            tracing::info!(%error, "the login provider gave no token");
            OidcError::Invalid
        })?;
        let token = answer.id_token().ok_or(OidcError::Invalid)?;
        let nonce = Nonce::new(begun.nonce);
        let claims = match self.claims(&known, token, &nonce) {
            // Perhaps a new key: the provider's keys are read again, once.
            Err(ClaimsVerificationError::SignatureVerification(_)) => {
                let anew = self.known(AGAIN).await?;
                self.claims(&anew, token, &nonce)
            }
            claims => claims,
        };
        let claims = claims.map_err(|error| {
            tracing::info!(%error, "an ID token is not valid");
            OidcError::Invalid
        })?;
        self.known_as(claims)
    }

    /// The claims of an ID token that is the provider's, for us, of this login.
    fn claims(
        &self,
        known: &Known,
        token: &CoreIdToken,
        nonce: &Nonce,
    ) -> Result<Map<String, Value>, ClaimsVerificationError> {
        let verifier = known.client.id_token_verifier().set_allowed_algs(known.algorithms.clone());
        token.claims(&verifier, nonce)?;
        // Verified above: read as what it is, for its further claims may be anything.
        let text = token.to_string();
        let payload = text.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        payload
            .and_then(|payload| serde_json::from_slice(&payload).ok())
            .ok_or_else(|| ClaimsVerificationError::Other("its claims are no map".to_owned()))
    }

    fn known_as(&self, claims: Map<String, Value>) -> Result<Person, OidcError> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let subject = text("sub").ok_or(OidcError::Invalid)?.to_owned();
        let tenant = match &self.settings.tenant_claim {
            Some(claim) => text(claim).ok_or(OidcError::Tenant)?,
            None => &self.settings.tenant,
        };
        let name = ["email", "preferred_username", "name"].into_iter().find_map(text);
        let name = crate::auth::html::plain(name.unwrap_or(&subject));
        let kept = self.settings.claims.iter();
        let kept = kept.filter_map(|name| Some((name.clone(), claims.get(name)?.clone()))).collect();
        Ok(Person { tenant: tenant.to_owned(), name, claims: kept, subject })
    }

    /// The provider as its metadata describes it: read at most so long ago, if it can be had. Where that is only old, it is
    /// read again beside the logins that it serves meanwhile; a new key is waited for.
    async fn known(&self, fresh: Duration) -> Result<Arc<Known>, OidcError> {
        let (known, reading) = {
            let mut metadata = self.lock();
            let known = metadata.known.clone();
            if let Some(known) = known.as_ref().filter(|known| known.at.elapsed() < fresh) {
                return Ok(known.clone());
            }
            (known, self.begin(&mut metadata))
        };
        match (known, reading) {
            (Some(known), Some(reading)) if fresh < FRESH => Ok(reading.await.unwrap_or(known)),
            // The read goes on by itself.
            (Some(known), _) => Ok(known),
            (None, Some(reading)) => reading.await,
            (None, None) => Err(OidcError::Unreachable),
        }
    }

    /// Reads the metadata, once for all who wait; `None`: that was tried a moment ago.
    fn begin(&self, metadata: &mut Metadata) -> Option<Reading> {
        if let Some(reading) = &metadata.running {
            return Some(reading.clone());
        }
        if metadata.tried.is_some_and(|tried| tried.elapsed() < PAUSE) {
            return None;
        }
        metadata.tried = Some(Instant::now());
        let (settings, egress, kept) = (self.settings.clone(), self.egress.clone(), self.metadata.clone());
        // A task of its own, bounded by the client's time: whoever began it may go away.
        let reading = tokio::spawn(async move {
            let found = discover(&settings, egress).await.map(Arc::new);
            let mut metadata = kept.lock().unwrap_or_else(PoisonError::into_inner);
            metadata.running = None;
            // What it said before is better than nothing.
            if let Ok(known) = &found {
                metadata.known = Some(known.clone());
            }
            found
        });
        let reading = reading.map(|came| came.unwrap_or(Err(OidcError::Unreachable))).boxed().shared();
        metadata.running = Some(reading.clone());
        Some(reading)
    }

    fn lock(&self) -> MutexGuard<'_, Metadata> {
        self.metadata.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn discover(settings: &Settings, egress: Egress) -> Result<Known, OidcError> {
    let issuer = IssuerUrl::new(settings.issuer.clone()).map_err(|_| OidcError::Invalid)?;
    let http = |request| ask(egress.clone(), request);
    let metadata = CoreProviderMetadata::discover_async(issuer, &http).await.map_err(|error| {
        tracing::warn!(%error, "the login provider's metadata cannot be read");
        OidcError::Unreachable
    })?;
    let said = metadata.id_token_signing_alg_values_supported().clone();
    let algorithms = ALGORITHMS.into_iter().filter(|algorithm| said.contains(algorithm)).collect();
    let ways = metadata.token_endpoint_auth_methods_supported();
    let basic = ways.is_none_or(|ways| ways.contains(&CoreClientAuthMethod::ClientSecretBasic));
    let secret = settings.client_secret.as_ref();
    let secret = secret.map(|secret| ClientSecret::new(secret.expose_secret().to_owned()));
    let callback = RedirectUrl::new(settings.callback.clone()).map_err(|_| OidcError::Invalid)?;
    let id = ClientId::new(settings.client_id.clone());
    let client = CoreClient::from_provider_metadata(metadata, id, secret)
        .set_auth_type(if basic { AuthType::BasicAuth } else { AuthType::RequestBody })
        .set_redirect_uri(callback);
    Ok(Known { client, algorithms, at: Instant::now() })
}

/// One request to the provider, whose address the operator named.
async fn ask(egress: Egress, request: HttpRequest) -> Result<HttpResponse, FetchError> {
    let answer = egress.send(request.map(bytes::Bytes::from), Named::ByUs).await?;
    let mut response = HttpResponse::new(answer.body.to_vec());
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    Ok(response)
}

fn key(state: &str) -> Key {
    Key::new(format!("oauth:l:{state}"), "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::Reach;
    use serde_json::json;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    fn oidc(tenant_claim: Option<&str>) -> Oidc {
        at("https://login.example.com", tenant_claim)
    }

    fn at(issuer: &str, tenant_claim: Option<&str>) -> Oidc {
        let settings = Settings {
            issuer: issuer.into(),
            client_id: "plasm".into(),
            client_secret: None,
            scopes: vec![],
            callback: "https://mcp.example.com/login/callback".into(),
            tenant: "acme".into(),
            tenant_claim: tenant_claim.map(str::to_owned),
            claims: vec!["groups".into()],
        };
        Oidc::new(settings, Egress::new(Reach::default(), rustls::RootCertStore::empty()))
    }

    #[test]
    fn a_person_is_what_the_provider_says_and_belongs_to_a_tenant() {
        let claims = json!({"sub": "7", "email": "a@x.example", "org": "blue", "groups": ["g"], "secret": 1});
        let claims = claims.as_object().unwrap().clone();
        let person = oidc(None).known_as(claims.clone()).unwrap();
        assert_eq!((&*person.subject, &*person.tenant, &*person.name), ("7", "acme", "a@x.example"));
        assert_eq!(Value::from(person.claims), json!({"groups": ["g"]}));
        assert_eq!(oidc(Some("org")).known_as(claims.clone()).unwrap().tenant, "blue");
        assert_eq!(oidc(Some("hd")).known_as(claims), Err(OidcError::Tenant));
    }

    /// A provider, what it answers with (nothing: an error), and how often it was asked.
    async fn provider() -> (String, Arc<Mutex<String>>, Arc<AtomicU32>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (says, asked) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicU32::new(0)));
        let (answers, counts) = (says.clone(), asked.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 4096]).await;
                let body = answers.lock().unwrap().clone();
                counts.fetch_add(1, Ordering::SeqCst);
                let status = if body.is_empty() { 500 } else { 200 };
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
                let _ = stream.shutdown().await;
            }
        });
        (url, says, asked)
    }

    fn metadata(url: &str) -> String {
        json!({
            "issuer": url, "authorization_endpoint": format!("{url}/a"), "token_endpoint": format!("{url}/t"),
            "jwks_uri": format!("{url}/k"), "response_types_supported": ["code"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"], "keys": [],
        })
        .to_string()
    }

    #[tokio::test]
    async fn a_provider_that_is_away_is_asked_once_for_all_who_begin_to_log_in_and_then_left_alone() {
        let (url, _, asked) = provider().await;
        let oidc = at(&url, None);
        let all = futures_util::future::join_all((0..20).map(|_| oidc.known(FRESH))).await;
        assert!(all.iter().all(|one| matches!(one, Err(OidcError::Unreachable))));
        assert!(matches!(oidc.known(FRESH).await, Err(OidcError::Unreachable)));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn metadata_that_is_old_serves_on_while_the_provider_is_away() {
        let (url, says, asked) = provider().await;
        // Its keys are at the same place: the metadata is no less a key set for having more in it.
        *says.lock().unwrap() = metadata(&url);
        let oidc = at(&url, None);
        let first = oidc.known(FRESH).await.unwrap();
        says.lock().unwrap().clear();
        let before = asked.load(Ordering::SeqCst);
        // An hour later, as far as it is concerned.
        oidc.lock().tried = None;
        for _ in 0..20 {
            assert!(Arc::ptr_eq(&oidc.known(Duration::ZERO).await.unwrap(), &first));
        }
        assert_eq!(asked.load(Ordering::SeqCst), before + 1);
    }

    #[tokio::test]
    async fn logins_that_anybody_begins_do_not_fill_the_store() {
        let (url, says, _) = provider().await;
        *says.lock().unwrap() = metadata(&url);
        let oidc = at(&url, None);
        let store: Arc<dyn Store> = Arc::new(crate::store::Memory::new(64 << 20));
        let (keyring, large) = (Keyring::random(), "/".repeat(100 << 10));
        let mut begun = 0;
        while begun < 1_000 {
            match oidc.start(&store, &keyring, "b", &large, false).await {
                Ok(_) => begun += 1,
                Err(error) => {
                    assert_eq!(error, OidcError::Often);
                    break;
                }
            }
        }
        assert!(begun < 1_000, "{begun} of a hundred KiB each");
    }
}
