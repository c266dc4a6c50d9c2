//! Connecting an account: a link for one caller and one use, a page, the way to the upstream's authorisation server and back
//! (OAuth 2.1 with PKCE; RFC 8707, RFC 9207). Nobody else is asked anything before the caller has shown who they are.

mod flow;

use super::user::Account;
use super::{Shared, Specs};
use crate::auth::browser::{Browser, cookies::Cookies};
use crate::auth::form::Form;
use crate::auth::pages::{Asked, Pages, Readers, answer, not_allowed};
use crate::auth::{anonymous, html, now, random_text};
use crate::mcp::{Principal, StoreAway, UpstreamId};
use crate::sealing::Purpose;
use bytes::Bytes;
use flow::Stopped;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::SET_COOKIE;
use http::{Method, Response, StatusCode};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

const PREFIX: &str = "/connect/";
pub(super) const CALLBACK: &str = "/connect/callback";
pub(super) const DOCUMENT: &str = "/connect/client.json";
const BEGIN: &str = "/connect/begin";
/// How long a link, and then a login at the upstream, may take its user.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longest path of a link.
const LONGEST: usize = 8 << 10;

/// What a link is for. Sealed for its principal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Link {
    /// Tells it from any other, so that it is used once; made where it is given out.
    #[serde(default)]
    id: String,
    /// Seconds since the epoch.
    #[serde(default)]
    until: u64,
    upstream: String,
    /// What the upstream asked for, and where its metadata stands, by its own word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
}

impl Link {
    pub(super) fn to(upstream: &UpstreamId) -> Link {
        Link { id: String::new(), until: 0, upstream: upstream.to_string(), scopes: None, metadata: None }
    }
}

impl Shared {
    /// A link that only this principal can use, once; `None` where no address of ours is known.
    pub(super) fn link(&self, principal: &Principal, wanted: &Link) -> Option<Arc<str>> {
        let base = self.base.as_deref()?;
        let link = Link { id: random_text(), until: now() + PATIENCE.as_secs(), ..wanted.clone() };
        let plain = serde_json::to_vec(&link).expect("a struct of strings has a JSON form");
        let sealed = self.keyring.seal(Purpose::ConnectLink, &link_aad(principal), &plain);
        Some(format!("{base}{PREFIX}{sealed}").into())
    }
}

fn link_aad(principal: &Principal) -> Vec<u8> {
    format!("link {}", principal.identity()).into_bytes()
}

/// The pages on which accounts are connected.
pub struct Connect {
    shared: Arc<Shared>,
    specs: Specs,
    base: Arc<str>,
    /// Who is at a browser; without it everyone is the same.
    browser: Option<Arc<Browser>>,
    cookies: Cookies,
}

impl Connect {
    pub(super) fn new(
        shared: Arc<Shared>,
        specs: Specs,
        base: Arc<str>,
        browser: Option<Arc<Browser>>,
    ) -> Connect {
        let cookies = Cookies { secure: base.starts_with("https://") };
        Connect { shared, specs, base, browser, cookies }
    }

    /// Who is at this browser. Errors: the answer by which they log in first.
    async fn who(&self, asked: &Asked) -> Result<Arc<Principal>, Response<Bytes>> {
        let Some(browser) = &self.browser else { return Ok(anonymous().principal.clone()) };
        match browser.visitor(&asked.headers).await {
            Ok(Some(visitor)) => Ok(visitor.principal),
            Ok(None) => {
                let query = asked.query.as_ref().map_or(String::new(), |query| format!("?{query}"));
                Err(browser.ask(&asked.headers, &format!("{}{query}", asked.path), false).await)
            }
            Err(StoreAway) => Err(html::store_away()),
        }
    }

    fn account(&self, principal: &Arc<Principal>, upstream: &str) -> Option<Account> {
        let spec = self.specs.find(upstream)?;
        Some(Account { shared: self.shared.clone(), spec, principal: principal.clone() })
    }

    /// What a link leads to: what is about to happen, and the way on.
    async fn show(&self, asked: &Asked) -> Result<Response<Bytes>, Response<Bytes>> {
        // Before anything is kept for whoever asks.
        let sealed = asked.path.strip_prefix(PREFIX).filter(|sealed| sealed.len() <= LONGEST);
        let sealed = sealed.ok_or_else(not_yours)?;
        let principal = self.who(asked).await?;
        let opened = self.shared.keyring.open(Purpose::ConnectLink, &link_aad(&principal), sealed);
        let link = opened.ok().and_then(|plain| serde_json::from_slice::<Link>(&plain).ok());
        let link = link.filter(|link| link.until > now()).ok_or_else(not_yours)?;
        let account = self.account(&principal, &link.upstream).ok_or_else(not_yours)?;
        let (browser, cookie) = self.cookies.browser(&asked.headers);
        let plain = serde_json::to_vec(&link).expect("a struct of strings has a JSON form");
        let ticket = self.shared.keyring.seal(Purpose::ConnectLink, &begin_aad(&browser, &principal), &plain);
        let title = format!("Connect {}", link.upstream);
        let text = format!(
            "You are about to connect your account at {} ({}), so that calls that you make through this gateway are made in \
             its name. You can disconnect it at any time.",
            link.upstream,
            account.spec.url.host_str().unwrap_or_default()
        );
        let on = format!("{BEGIN}?t={ticket}");
        let mut page = html::message(StatusCode::OK, &title, &text, Some((&on, "Continue")));
        if let Some(cookie) = cookie {
            page.headers_mut().append(SET_COOKIE, cookie);
        }
        Ok(page)
    }

    /// Sends the browser to the upstream's authorisation server.
    async fn begin(&self, asked: &Asked) -> Result<Response<Bytes>, Response<Bytes>> {
        let principal = self.who(asked).await?;
        let form = Form::read(asked.query.as_deref().unwrap_or_default().as_bytes()).unwrap_or_default();
        let (browser, _) = self.cookies.browser(&asked.headers);
        let aad = begin_aad(&browser, &principal);
        let ticket = form.get("t").and_then(|t| self.shared.keyring.open(Purpose::ConnectLink, &aad, t).ok());
        let link = ticket.and_then(|plain| serde_json::from_slice::<Link>(&plain).ok());
        let link = link.filter(|link| link.until > now()).ok_or_else(not_yours)?;
        let account = self.account(&principal, &link.upstream).ok_or_else(not_yours)?;
        match self.set_out(&account, &link, &browser).await {
            Ok(url) => Ok(html::see_other(&url)),
            Err(stopped) => Err(said(&link.upstream, stopped)),
        }
    }

    /// Takes what the authorisation server sends the browser back with.
    async fn callback(&self, asked: &Asked) -> Result<Response<Bytes>, Response<Bytes>> {
        let principal = self.who(asked).await?;
        let form = Form::read(asked.query.as_deref().unwrap_or_default().as_bytes());
        let form = form.map_err(|_| said("", Stopped::Stale))?;
        let (browser, _) = self.cookies.browser(&asked.headers);
        match self.arrive(&principal, &browser, &form).await {
            Ok(upstream) => {
                tracing::info!(upstream, "an account was connected");
                let text = "You can close this page, and go on where you came from.";
                Ok(html::message(StatusCode::OK, &format!("{upstream} is connected"), text, None))
            }
            Err((upstream, stopped)) => Err(said(&upstream, stopped)),
        }
    }
}

fn begin_aad(browser: &str, principal: &Principal) -> Vec<u8> {
    format!("begin {}:{browser}{}", browser.len(), principal.identity()).into_bytes()
}

fn not_yours() -> Response<Bytes> {
    let text = "This link is too old, has been used, or was made for somebody else. Make the call again that gave it to you, and \
                open the new link in a browser in which you are logged in as yourself.";
    html::message(StatusCode::FORBIDDEN, "This link does not work", text, None)
}

/// Why nothing was connected, for whoever is at the browser.
fn said(upstream: &str, stopped: Stopped) -> Response<Bytes> {
    let status = match stopped {
        Stopped::Used => return not_yours(),
        Stopped::Away => return html::store_away(),
        Stopped::Stale | Stopped::Mixed | Stopped::Denied => StatusCode::FORBIDDEN,
        Stopped::Server(_) => StatusCode::BAD_GATEWAY,
    };
    tracing::info!(upstream, why = %stopped, "an account was not connected");
    let text = format!("{stopped}. Make the call again that gave you the link, to get another.");
    html::message(status, "The account was not connected", &text, None)
}

impl Pages for Connect {
    fn readers(&self, path: &str) -> Option<Readers> {
        match path {
            _ if self.specs.is_empty() => None,
            DOCUMENT => Some(Readers::Programs),
            _ => path.starts_with(PREFIX).then_some(Readers::Browsers),
        }
    }

    fn answer(self: Arc<Self>, asked: Asked) -> BoxFuture<'static, Response<Bytes>> {
        async move {
            // HEAD is asked by what looks before it goes, and must use up nothing.
            if asked.verb != Method::GET {
                return not_allowed("GET");
            }
            let answered = match asked.path.as_str() {
                DOCUMENT => {
                    let document = self.shared.document(&self.base).to_string();
                    return answer(StatusCode::OK, "application/json", document);
                }
                CALLBACK => self.callback(&asked).await,
                BEGIN => self.begin(&asked).await,
                _ => self.show(&asked).await,
            };
            answered.unwrap_or_else(|refused| refused)
        }
        .boxed()
    }
}
