//! Who calls: the principal, the client as it describes itself, and what a link may keep for them.

use super::Nook;
use crate::wire::{Method, Raw, Version, json};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Who vouches for the principals of keys, among the issuers.
pub const KEYS: &str = "plasm:api-keys";

/// The one who calls, as authentication found it. Sessions, cursors and artifacts belong to a principal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Principal {
    pub tenant: Arc<str>,
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
}

impl Principal {
    /// For the `auth` room alone: a principal exists only after authentication.
    pub fn minted(tenant: &str, issuer: &str, subject: &str) -> Principal {
        Principal { tenant: tenant.into(), issuer: issuer.into(), subject: subject.into() }
    }

    /// Whether it may stand for several people: the one that everybody is where no login is configured, and the holders of a
    /// key.
    pub fn is_shared(&self) -> bool {
        self.issuer.is_empty() || &*self.issuer == KEYS
    }

    /// What tells this principal from any other, for keys and sealed values. Lengths keep the parts apart.
    pub fn identity(&self) -> String {
        let Principal { tenant, issuer, subject } = self;
        format!("{}:{tenant}{}:{issuer}{}:{subject}", tenant.len(), issuer.len(), subject.len())
    }
}

/// What a request is let in with: who calls, and what they may. Made by the `auth` room alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    pub principal: Arc<Principal>,
    pub scopes: Scopes,
    /// The token's claims; empty where no token was shown. What profiles and tenants are decided by.
    pub claims: Arc<serde_json::Map<String, serde_json::Value>>,
    /// The OAuth client that the token was given to (`client_id` or `azp`), where it says so.
    pub client: Option<Arc<str>>,
    /// Seconds since the epoch at which the access ends; `None`: it does not end by itself.
    pub until: Option<u64>,
    /// What it came with, where some upstream's credential is exchanged for it.
    pub token: Option<CallerToken>,
}

/// A caller's access token. It is for the token endpoint that the configuration names for exchanges alone: never for an
/// upstream, another pod, a record or a log.
#[derive(Clone)]
pub struct CallerToken(Arc<SecretString>);

impl CallerToken {
    pub fn new(token: &str) -> CallerToken {
        CallerToken(Arc::new(token.into()))
    }

    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl PartialEq for CallerToken {
    fn eq(&self, other: &CallerToken) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.expose() == other.expose()
    }
}

impl Eq for CallerToken {}

impl fmt::Debug for CallerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerToken(…)")
    }
}

impl Access {
    /// Of one who showed no token: no scopes, no claims.
    pub fn open(principal: Arc<Principal>) -> Access {
        Access {
            principal,
            scopes: Scopes::default(),
            claims: Arc::default(),
            client: None,
            until: None,
            token: None,
        }
    }
}

/// By the principal alone, which is quick: what else differs is told apart by `==`.
impl Hash for Access {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.principal.hash(state);
    }
}

/// Granted scopes (RFC 6749 3.3), each once and in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Scopes(Arc<[Arc<str>]>);

impl Scopes {
    /// From a `scope` parameter or claim: words between spaces.
    pub fn read(text: &str) -> Scopes {
        text.split(' ').filter(|word| !word.is_empty()).map(Arc::from).collect()
    }

    pub fn has(&self, scope: &str) -> bool {
        self.0.binary_search_by(|held| (**held).cmp(scope)).is_ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|scope| &**scope)
    }
}

impl FromIterator<Arc<str>> for Scopes {
    fn from_iter<I: IntoIterator<Item = Arc<str>>>(scopes: I) -> Scopes {
        Scopes(scopes.into_iter().collect::<BTreeSet<_>>().into_iter().collect())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iter().collect::<Vec<_>>().join(" "))
    }
}

/// The client as it describes itself: in `initialize` (legacy) or in each request's `_meta` (modern).
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// `clientInfo` as it came; absent where the client did not say.
    pub info: Option<Raw>,
    /// `capabilities` as they came; `{}` where none were declared.
    pub capabilities: Option<Raw>,
    pub user_agent: Option<Arc<str>>,
    /// Request headers that an upstream's `forward_headers` lists. Never `Authorization` or `Cookie`.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
}

impl Client {
    /// `clientInfo.name`, for logs: no more of it than a line should bear.
    pub fn name(&self) -> Option<String> {
        let text = self.info.as_ref()?.to_bytes();
        let member = json::lax_members(&text, 0).ok()?.into_iter().find(|m| m.is("name"))?;
        json::string(&text, &member.value).map(|name| name.chars().take(64).collect())
    }

    /// The declared capabilities as JSON, `{}` where none were declared.
    pub fn capabilities(&self) -> Bytes {
        self.capabilities.as_ref().map_or(Bytes::from_static(b"{}"), Raw::to_bytes)
    }

    /// Whether the client declared that it opens links for its user (`elicitation.url`).
    pub fn opens_urls(&self) -> bool {
        let text = self.capabilities();
        let object = |at: u32, key: &str| {
            let member = json::lax_members(&text, at).ok()?.into_iter().find(|m| m.is(key))?;
            (text[member.value.start as usize] == b'{').then_some(member.value.start)
        };
        object(0, "elicitation").and_then(|at| object(at, "url")).is_some()
    }

    /// Whether the client declared that it answers this kind of server request.
    pub fn answers(&self, ask: &Method) -> bool {
        let key = match ask {
            Method::Elicit => "elicitation",
            Method::Sample => "sampling",
            Method::RootsList => "roots",
            _ => return false,
        };
        let text = self.capabilities();
        json::lax_members(&text, 0)
            .is_ok_and(|members| members.iter().any(|m| m.is(key) && text[m.value.start as usize] == b'{'))
    }
}

/// Who calls, from where, and speaking what.
pub struct Caller {
    pub access: Arc<Access>,
    /// The profile's name; `""` is the default one at `/mcp`.
    pub profile: Arc<str>,
    pub client: Arc<Client>,
    /// Decides codes and fields, never routes.
    pub version: Version,
    /// A transport session, or the pooled identity of callers without one.
    pub session: Arc<dyn Session>,
}

impl Caller {
    pub fn principal(&self) -> &Arc<Principal> {
        &self.access.principal
    }
}

/// A transport session's id: at least 128 random bits in visible ASCII (2025-11-25 transports, *Session Management*).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionId(pub Arc<str>);

impl SessionId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Never in full: whoever reads a log must not be able to use the session.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…", self.0.get(..6).unwrap_or_default())
    }
}

/// An upstream's name in the configuration: `[a-z0-9-]{1,20}`, so that the first `__` of a tool's name splits uniquely.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(into = "Arc<str>", try_from = "Arc<str>")]
pub struct UpstreamId(Arc<str>);

impl UpstreamId {
    /// `None` where `id` is not of that form.
    pub fn new(id: &str) -> Option<UpstreamId> {
        let fits = (1..=20).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        fits.then(|| UpstreamId(id.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<UpstreamId> for Arc<str> {
    fn from(id: UpstreamId) -> Arc<str> {
        id.0
    }
}

impl TryFrom<Arc<str>> for UpstreamId {
    type Error = &'static str;

    fn try_from(id: Arc<str>) -> Result<UpstreamId, &'static str> {
        UpstreamId::new(&id).ok_or("no upstream's id")
    }
}

impl fmt::Display for UpstreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The store did not answer: nothing is known, and nothing may be called "not found".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the state store is out of reach")]
pub struct StoreAway;

/// What a link keeps for a caller (upstream session id, level, subscriptions): opaque, compare-and-set, on any pod.
pub trait Session: Send + Sync + 'static {
    /// The transport session's id; `None` for the pooled identity of callers without one.
    fn id(&self) -> Option<&SessionId>;

    /// Names whom the state is kept for: unique to one transport session or pooled identity. A cache key; never sent.
    fn key(&self) -> &Arc<str>;

    /// Where links may remember something of it in this pod.
    fn nook(&self) -> Option<&Nook> {
        None
    }

    /// The state kept for `of`; `None` where there is none.
    fn load(&self, of: &UpstreamId) -> BoxFuture<'static, Result<Option<Bytes>, StoreAway>>;

    /// Replaces the state for `of` where it still is `was`; `false` where another was quicker, or the session ended.
    fn swap(
        &self,
        of: &UpstreamId,
        was: Option<Bytes>,
        now: Option<Bytes>,
    ) -> BoxFuture<'static, Result<bool, StoreAway>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_count_only_where_they_are_declared_as_objects() {
        let client = |c: &'static str| Client { capabilities: Some(Raw::trusted(c)), ..Client::default() };
        assert!(client(r#"{"elicitation":{}}"#).answers(&Method::Elicit));
        assert!(!client(r#"{"elicitation":null}"#).answers(&Method::Elicit));
        assert!(!client(r#"{"sampling":{}}"#).answers(&Method::RootsList));
        assert!(!Client::default().answers(&Method::Sample));
        assert!(client(r#"{"elicitation":{"url":{}}}"#).opens_urls());
        assert!(!client(r#"{"elicitation":{"form":{}},"url":{}}"#).opens_urls());
    }

    #[test]
    fn upstream_ids_leave_the_double_underscore_to_the_names() {
        assert!(UpstreamId::new("git-hub-2").is_some());
        for bad in ["", "a_b", "A", "a.b", "abcdefghijklmnopqrstu"] {
            assert!(UpstreamId::new(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn scopes_are_words_each_once() {
        let scopes = Scopes::read("mcp:write  mcp:read mcp:write");
        assert_eq!(scopes.to_string(), "mcp:read mcp:write");
        assert!(scopes.has("mcp:read") && !scopes.has("mcp") && !scopes.has(""));
    }

    #[test]
    fn no_two_principals_share_an_identity() {
        let a = Principal::minted("a", "b", "c").identity();
        assert_ne!(a, Principal::minted("a1:b", "", "c").identity());
        assert_ne!(a, Principal::minted("", "ab", "c").identity());
    }
}
