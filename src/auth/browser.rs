//! People at a browser: who they are, by a login at an OpenID Connect provider or by name and password; their session; and
//! what their forms must bring back. Knows nothing of OAuth clients and upstreams.

pub mod cookies;
mod oidc;
mod users;

pub use oidc::{Oidc, OidcError, Settings as OidcSettings};
pub use users::{PasswordError, User, Users, hash_password};

use super::holdings::{Holdings, Kind};
use super::pages::{Asked, Pages, Readers, not_allowed};
use super::{Revocable, Revoked, digest_text, html, now, random_text};
use crate::auth::form::Form;
use crate::mcp::{Principal, StoreAway};
use crate::sealing::{Keyring, Purpose};
use crate::store::{Key, Store, Sure, Write};
use bytes::Bytes;
use cookies::Cookies;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// How long a login, or a form, may take its user.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longest path with its query that a login comes back to, in bytes: it is kept for whoever asks.
const LONGEST: usize = 12 << 10;

/// Where people prove who they are.
pub enum Login {
    Oidc(Box<Oidc>),
    Users(Users),
}

/// Who has proved who they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Person {
    /// Unique among those who log in here.
    pub subject: String,
    pub tenant: String,
    /// How they know themselves: a name or an e-mail address.
    pub name: String,
    /// What access tokens of theirs say besides.
    pub claims: Map<String, Value>,
}

/// Who is at a browser.
#[derive(Clone, Debug)]
pub struct Visitor {
    pub principal: Arc<Principal>,
    pub person: Person,
    /// Names their session; not a secret.
    pub session: String,
}

/// What a session keeps.
#[derive(Serialize, Deserialize)]
struct Session {
    person: Person,
}

/// A value that goes through a browser and comes back within [`PATIENCE`].
#[derive(Serialize, Deserialize)]
struct Ticket<T> {
    until: u64,
    value: T,
}

/// What browsers are known by. One instance a gateway.
pub struct Browser {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    holdings: Holdings,
    revoked: Revoked,
    login: Login,
    /// The issuer of the principals: the one that stands in their access tokens.
    issuer: Arc<str>,
    cookies: Cookies,
    /// How long a session lasts.
    life: Duration,
}

impl Browser {
    /// `base`: scheme, host and port under which browsers reach the gateway. `issuer`: who issues the access tokens of the
    /// same people, so that they are the same principals here and there.
    pub fn new(
        store: Arc<dyn Store>,
        keyring: Arc<Keyring>,
        revoked: Revoked,
        login: Login,
        base: &str,
        issuer: &str,
        life: Duration,
    ) -> Browser {
        let cookies = Cookies { secure: base.starts_with("https://") };
        let holdings = Holdings::new(store.clone());
        Browser { store, keyring, holdings, revoked, login, issuer: issuer.into(), cookies, life }
    }

    /// Who sends this request; `None`: nobody who is logged in.
    pub async fn visitor(&self, headers: &HeaderMap) -> Result<Option<Visitor>, StoreAway> {
        let Some(sealed) = self.cookies.session(headers) else { return Ok(None) };
        let Ok(secret) = self.keyring.open(Purpose::Browser, b"session", sealed) else { return Ok(None) };
        let session = digest_text(&secret);
        let record = self.store.get(session_key(&session)).await.map_err(|_| StoreAway)?;
        let kept = record.as_ref().and_then(|record| record.field("d"));
        let opened = kept.and_then(|kept| {
            let kept = std::str::from_utf8(kept).ok()?;
            let plain = self.keyring.open(Purpose::Browser, session.as_bytes(), kept).ok()?;
            serde_json::from_slice::<Session>(&plain).ok()
        });
        let visitor =
            opened.map(|Session { person }| Visitor { principal: self.principal(&person), person, session });
        Ok(visitor.filter(|visitor| !self.revoked.has(Revocable::Principal(&visitor.principal))))
    }

    /// Asks whoever is at the browser to log in, and to come back to `back`: a path of ours with its query. `anew`: as
    /// somebody else than before.
    pub async fn ask(&self, headers: &HeaderMap, back: &str, anew: bool) -> Response<Bytes> {
        if back.len() > LONGEST {
            let text =
                "The address of this page is too long. Go back to where you came from and begin again.";
            return html::message(StatusCode::URI_TOO_LONG, "That did not work", text, None);
        }
        let (browser, cookie) = self.cookies.browser(headers);
        let mut response = match &self.login {
            Login::Users(_) => self.form(&browser, back, "", None),
            Login::Oidc(oidc) => match oidc.start(&self.store, &self.keyring, &browser, back, anew).await {
                Ok(url) => html::see_other(url.as_str()),
                Err(error) => failed(error, back),
            },
        };
        if let Some(cookie) = cookie {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
        response
    }

    /// What a form must bring back to count as sent by this visitor from a page of ours (CSRF). `what`: which form.
    pub fn token(&self, visitor: &Visitor, what: &str) -> String {
        self.seal(&format!("{what} {}", visitor.session), &())
    }

    /// Whether a form was.
    pub fn is_own(&self, visitor: &Visitor, what: &str, token: Option<&str>) -> bool {
        token.is_some_and(|token| self.open::<()>(&format!("{what} {}", visitor.session), token).is_some())
    }

    /// A value for a page of this visitor, and for them alone.
    pub fn seal_for<T: Serialize>(&self, visitor: &Visitor, what: &str, value: &T) -> String {
        self.seal(&format!("{what} {}", visitor.session), value)
    }

    /// The value that [`Browser::seal_for`] sealed for them, within ten minutes.
    pub fn open_for<T: DeserializeOwned>(&self, visitor: &Visitor, what: &str, sealed: &str) -> Option<T> {
        self.open(&format!("{what} {}", visitor.session), sealed)
    }

    /// Ends a session of this principal.
    pub async fn end(&self, principal: &Principal, session: &str) -> Result<(), StoreAway> {
        // The index says whose it is: nobody ends another's.
        if !self.holdings.has(principal, Kind::Session, session).await? {
            return Ok(());
        }
        let drop = vec![(session_key(session), Write::Drop)];
        self.store.commit(vec![], drop, Sure::Master).await.map_err(|_| StoreAway)?;
        self.holdings.remove(principal, Kind::Session, session).await
    }

    /// Ends all sessions of a principal that are known to be theirs.
    pub async fn end_all(store: &Arc<dyn Store>, of: &Principal) -> Result<(), StoreAway> {
        let holdings = Holdings::new(store.clone());
        for session in holdings.list(of, Kind::Session).await? {
            let drop = vec![(session_key(&session.id), Write::Drop)];
            store.commit(vec![], drop, Sure::Master).await.map_err(|_| StoreAway)?;
            holdings.remove(of, Kind::Session, &session.id).await?;
        }
        Ok(())
    }

    /// What principals have here.
    pub fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    fn principal(&self, person: &Person) -> Arc<Principal> {
        Arc::new(Principal::minted(&person.tenant, &self.issuer, &person.subject))
    }

    fn seal<T: Serialize>(&self, aad: &str, value: &T) -> String {
        let ticket = Ticket { until: now() + PATIENCE.as_secs(), value };
        let plain = serde_json::to_vec(&ticket).expect("tickets are maps of plain values");
        self.keyring.seal(Purpose::Browser, aad.as_bytes(), &plain)
    }

    fn open<T: DeserializeOwned>(&self, aad: &str, sealed: &str) -> Option<T> {
        let plain = self.keyring.open(Purpose::Browser, aad.as_bytes(), sealed).ok()?;
        let ticket: Ticket<T> = serde_json::from_slice(&plain).ok()?;
        (ticket.until >= now()).then_some(ticket.value)
    }

    fn form(&self, browser: &str, back: &str, user: &str, error: Option<&str>) -> Response<Bytes> {
        let ticket = self.seal(&format!("login {browser}"), &back);
        let status = if error.is_some() { StatusCode::FORBIDDEN } else { StatusCode::OK };
        let fields = minijinja::context! { ticket, user => html::plain(user), error };
        html::page(status, "login", "Log in", fields)
    }

    /// A new session, and on to where the login was asked for.
    async fn welcome(&self, headers: &HeaderMap, person: Person, back: &str) -> Response<Bytes> {
        let secret = random_text();
        let session = digest_text(secret.as_bytes());
        let principal = self.principal(&person);
        if self.revoked.has(Revocable::Principal(&principal)) {
            let text = "Your access to this gateway has ended. Its operator can tell you more.";
            return html::message(StatusCode::FORBIDDEN, "You cannot log in", text, None);
        }
        let kept = serde_json::to_vec(&Session { person }).expect("sessions are maps of plain values");
        let kept = self.keyring.seal(Purpose::Browser, session.as_bytes(), &kept);
        let key = session_key(&session);
        let writes = vec![(key.clone(), Write::set("d", kept)), (key, Write::Live(self.life))];
        let agent = cookies::agent(headers);
        let listed = self.holdings.add(&principal, Kind::Session, &session, agent.into(), self.life).await;
        if listed.is_err() || self.store.commit(vec![], writes, Sure::Master).await.is_err() {
            return html::store_away();
        }
        let mut response = html::see_other(back);
        let sealed = self.keyring.seal(Purpose::Browser, b"session", secret.as_bytes());
        response.headers_mut().append(header::SET_COOKIE, self.cookies.set_session(&sealed, self.life));
        response
    }

    async fn password(&self, users: &Users, asked: &Asked) -> Response<Bytes> {
        let (browser, _) = self.cookies.browser(&asked.headers);
        let form = Form::of_body(&asked.headers, &asked.body).unwrap_or_default();
        let ticket = form.get("ticket").and_then(|ticket| self.open(&format!("login {browser}"), ticket));
        let Some(back): Option<String> = ticket else { return stale() };
        let (user, password) =
            (form.get("user").unwrap_or_default(), form.get("password").unwrap_or_default());
        match users.check(&self.store, user, password).await {
            Ok(Some(person)) => self.welcome(&asked.headers, person, &back).await,
            Ok(None) => {
                self.form(&browser, &back, user, Some("This name and this password do not belong together."))
            }
            Err(users::NotNow::Often(after)) => {
                let mut response =
                    self.form(&browser, &back, user, Some("Too many tries. Please wait a minute."));
                *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs() + 1));
                response
            }
            Err(users::NotNow::Away) => html::store_away(),
        }
    }

    async fn callback(&self, oidc: &Oidc, asked: &Asked) -> Response<Bytes> {
        let Ok(form) = Form::read(asked.query.as_deref().unwrap_or_default().as_bytes()) else {
            return stale();
        };
        let (browser, _) = self.cookies.browser(&asked.headers);
        match oidc.finish(&self.store, &self.keyring, &browser, &form).await {
            Ok((person, back)) => self.welcome(&asked.headers, person, &back).await,
            Err((error, back)) => failed(error, back.as_deref().unwrap_or("/account")),
        }
    }

    async fn leave(&self, asked: &Asked) -> Response<Bytes> {
        let form = Form::of_body(&asked.headers, &asked.body).unwrap_or_default();
        let visitor = match self.visitor(&asked.headers).await {
            Ok(visitor) => visitor,
            Err(StoreAway) => return html::store_away(),
        };
        let back = form.get("back").filter(|back| is_ours(back));
        if let Some(visitor) = visitor {
            if !self.is_own(&visitor, "logout", form.get("csrf")) {
                return stale();
            }
            if self.end(&visitor.principal, &visitor.session).await.is_err() {
                return html::store_away();
            }
        }
        let mut response = match back {
            Some(back) => {
                let asks = self.ask(&asked.headers, back, true).await;
                html::onward(asks, "Log in", "You are being taken to the login.")
            }
            None => {
                let again = Some(("/account", "Log in again"));
                html::message(StatusCode::OK, "You are logged out", "You can close this page.", again)
            }
        };
        response.headers_mut().append(header::SET_COOKIE, self.cookies.forget_session());
        response
    }
}

impl Pages for Browser {
    fn readers(&self, path: &str) -> Option<Readers> {
        let ours = match &self.login {
            Login::Oidc(_) => path == "/login/callback",
            Login::Users(_) => path == "/login",
        };
        (ours || path == "/logout").then_some(Readers::Browsers)
    }

    fn answer(self: Arc<Self>, asked: Asked) -> BoxFuture<'static, Response<Bytes>> {
        async move {
            match (&self.login, asked.path.as_str(), &asked.verb) {
                (_, "/logout", &Method::POST) => self.leave(&asked).await,
                (Login::Users(users), "/login", &Method::POST) => self.password(users, &asked).await,
                (Login::Oidc(oidc), "/login/callback", &Method::GET) => self.callback(oidc, &asked).await,
                (_, "/login/callback", _) => not_allowed("GET"),
                _ => not_allowed("POST"),
            }
        }
        .boxed()
    }
}

/// A form, or an answer of the provider, that is not of this browser, or too old.
pub fn stale() -> Response<Bytes> {
    let text = "This page is too old, or was opened in another browser. Go back to where you came from and begin again.";
    html::message(StatusCode::FORBIDDEN, "That did not work", text, None)
}

fn failed(error: OidcError, back: &str) -> Response<Bytes> {
    if error == OidcError::Store {
        return html::store_away();
    }
    tracing::info!(%error, "a login at the provider failed");
    let status = match error {
        OidcError::Unreachable => StatusCode::BAD_GATEWAY,
        OidcError::Often => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::FORBIDDEN,
    };
    html::message(status, "The login failed", &format!("{error}."), Some((back, "Try again")))
}

/// Whether it is a path here, as browsers read it.
fn is_ours(back: &str) -> bool {
    let plain = back.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    plain && back.starts_with('/') && !back.starts_with("//")
}

fn session_key(session: &str) -> Key {
    Key::new(format!("oauth:s:{session}"), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere_after_a_login() {
        assert!(is_ours("/authorize?a=b") && is_ours("/"));
        for elsewhere in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "",
            "authorize",
            "/a\nb",
            "/\t/evil",
        ] {
            assert!(!is_ours(elsewhere), "{elsewhere:?}");
        }
    }
}
