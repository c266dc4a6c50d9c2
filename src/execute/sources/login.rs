//! How a request is logged in: a secret by its name, the gateway's own token by client credentials, or the caller's own
//! account. Knows not where secrets and accounts rest; shows them to nobody.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use http::{HeaderName, HeaderValue, Request, header};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use tokio::time::Instant;
use url::{Url, form_urlencoded};

use super::{SourceError, SourceErrorKind, answer::failure};
use crate::{
    egress::{Egress, Named},
    execute::catalog::Auth,
    mcp::Caller,
};

/// How long a token is taken for good whose server does not say, and how long before its end it is renewed.
const TOKEN_LIFE: Duration = Duration::from_secs(300);
const EARLY: Duration = Duration::from_secs(30);

/// Secrets by name.
pub type Secrets = BTreeMap<String, SecretString>;

/// How a source refused the token that a request bore.
#[derive(Clone, Debug)]
pub struct Refused {
    /// 401 or 403.
    pub status: u16,
    /// The values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
}

/// The accounts that callers have connected.
pub trait Accounts: Send + Sync + 'static {
    /// What a request of this caller bears in `Authorization`; `None`: it goes without, for nobody has said yet that it
    /// needs any. `refused`: how the request before was answered, that bore what was given for it.
    fn bearer(
        &self,
        connection: &str,
        caller: Arc<Caller>,
        refused: Option<Refused>,
    ) -> BoxFuture<'static, Result<Option<HeaderValue>, SourceError>>;
}

/// What one request bears.
#[derive(Default)]
pub(super) struct Bears {
    pub header: Option<(HeaderName, HeaderValue)>,
    pub query: Option<(String, SecretString)>,
}

/// The login of one source.
pub(super) struct Login {
    auth: Auth,
    secret: Option<SecretString>,
    accounts: Arc<dyn Accounts>,
    egress: Egress,
    /// The gateway's own token, asked for or known: who needs it meanwhile waits for the same answer.
    token: Mutex<Option<Asked>>,
}

type Asked = Shared<BoxFuture<'static, Result<Token, SourceError>>>;

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    until: Instant,
}

#[derive(Deserialize)]
struct Given {
    #[serde(deserialize_with = "secret")]
    access_token: SecretString,
    expires_in: Option<u64>,
}

fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<SecretString, D::Error> {
    String::deserialize(from).map(SecretString::from)
}

fn refused(message: impl Into<String>) -> SourceError {
    failure(SourceErrorKind::Auth, message, false)
}

impl Login {
    pub fn new(auth: Auth, secrets: &Secrets, accounts: Arc<dyn Accounts>, egress: Egress) -> Login {
        let named = if auth.is_per_user() { None } else { auth.secret() };
        let secret = named.and_then(|name| secrets.get(name)).cloned();
        Login { auth, secret, accounts, egress, token: Mutex::default() }
    }

    /// The parameter that bears a secret, where one does.
    pub fn parameter(&self) -> Option<&str> {
        if let Auth::Query { name, .. } = &self.auth { Some(name) } else { None }
    }

    /// Whether the text holds the secret: a source may say it back.
    pub fn is_shown_by(&self, text: &str) -> bool {
        self.secret.as_ref().is_some_and(|secret| text.contains(secret.expose_secret()))
    }

    /// What a request bears. `again`: how the one before was refused, and what it bore.
    pub async fn bears(
        &self,
        caller: &Arc<Caller>,
        again: Option<(Refused, Option<HeaderValue>)>,
    ) -> Result<Bears, SourceError> {
        let header = |name, value| Bears { header: Some((name, value)), query: None };
        Ok(match &self.auth {
            Auth::None => Bears::default(),
            Auth::Bearer { .. } => {
                header(header::AUTHORIZATION, hidden(&format!("Bearer {}", self.revealed()?))?)
            }
            Auth::Basic { user, .. } => {
                let pair = BASE64_STANDARD.encode(format!("{user}:{}", self.revealed()?));
                header(header::AUTHORIZATION, hidden(&format!("Basic {pair}"))?)
            }
            Auth::Header { name, .. } => {
                let name = name.parse().map_err(|_| refused("the login's header has no usable name"))?;
                header(name, hidden(self.revealed()?)?)
            }
            Auth::Query { name, .. } => {
                Bears { header: None, query: Some((name.clone(), self.revealed()?.into())) }
            }
            Auth::Oauth2 { connection, .. } => {
                let refused = again.map(|(refused, _)| refused);
                let bearer = self.accounts.bearer(connection, Arc::clone(caller), refused).await?;
                Bears { header: bearer.map(|value| (header::AUTHORIZATION, value)), query: None }
            }
            Auth::ClientCredentials { token_url, client_id, scopes, .. } => {
                let token = self.own(token_url, client_id, scopes, again.and_then(|(_, bore)| bore)).await?;
                header(header::AUTHORIZATION, token)
            }
        })
    }

    /// Whether another try may bear something else after a refusal.
    pub fn mends(&self) -> bool {
        matches!(self.auth, Auth::Oauth2 { .. } | Auth::ClientCredentials { .. })
    }

    fn revealed(&self) -> Result<&str, SourceError> {
        let name = self.auth.secret().unwrap_or_default();
        let secret = self.secret.as_ref().map(ExposeSecret::expose_secret);
        secret.ok_or_else(|| refused(format!("the gateway has no secret {name}; an operator sets it")))
    }

    /// The gateway's own token (RFC 6749, section 4.4), asked for once for all who wait.
    async fn own(
        &self,
        url: &str,
        client: &str,
        scopes: &[String],
        refused_one: Option<HeaderValue>,
    ) -> Result<HeaderValue, SourceError> {
        let request = token_request(url, client, self.revealed()?, scopes)?;
        let asked = {
            let mut held = self.token.lock().unwrap_or_else(PoisonError::into_inner);
            let good =
                |token: &Token| token.until > Instant::now() && refused_one.as_ref() != Some(&token.header);
            // One that is under way is good for all who need one.
            let same =
                held.as_ref().filter(|asked| asked.peek().is_none_or(|got| got.as_ref().is_ok_and(good)));
            match same.cloned() {
                Some(asked) => asked,
                None => {
                    let asked = ask_token(self.egress.clone(), request).boxed().shared();
                    held.insert(asked).clone()
                }
            }
        };
        asked.await.map(|token| token.header)
    }
}

fn token_request(
    url: &str,
    client: &str,
    secret: &str,
    scopes: &[String],
) -> Result<Request<Bytes>, SourceError> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    // RFC 6749 2.3.1: both are encoded as forms are.
    let pair = BASE64_STANDARD.encode(format!("{}:{}", encoded(client), encoded(secret)));
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if !scopes.is_empty() {
        form.append_pair("scope", &scopes.join(" "));
    }
    Request::post(url)
        .header(header::AUTHORIZATION, hidden(&format!("Basic {pair}"))?)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::ACCEPT, "application/json")
        .body(Bytes::from(form.finish()))
        .map_err(|_| refused("the address of the login is no URL"))
}

async fn ask_token(egress: Egress, request: Request<Bytes>) -> Result<Token, SourceError> {
    let answer = egress.send(request, Named::Listed).await.map_err(|error| {
        failure(SourceErrorKind::Timeout, format!("the login's server gives no token: {error}"), false)
    })?;
    if !answer.status.is_success() {
        let status = answer.status.as_u16();
        return Err(refused(format!("the login's server refused the gateway with {status}")));
    }
    let given: Given = serde_json::from_slice(&answer.body)
        .map_err(|_| refused("the login's server answered with no token"))?;
    let header = hidden(&format!("Bearer {}", given.access_token.expose_secret()))?;
    let life = given.expires_in.map_or(TOKEN_LIFE, |seconds| Duration::from_secs(seconds.min(86_400)));
    Ok(Token { header, until: Instant::now() + life.saturating_sub(EARLY) })
}

/// A header's value that is not shown.
fn hidden(text: &str) -> Result<HeaderValue, SourceError> {
    let mut value =
        HeaderValue::from_str(text).map_err(|_| refused("the login's secret cannot stand in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whether the two are at one scheme, host and port: what a login is for.
pub(super) fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}
