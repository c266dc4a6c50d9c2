//! A token as it is held: with all that renewing it takes. Written only to be sealed.

use super::token::{Client, Given};
use crate::auth::now;
use crate::upstream::credentials::Token;
use http::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A token is renewed before its end by a tenth of its life, but not sooner than this, nor later: seconds.
const SOONEST: u64 = 60;
const LATEST: u64 = 5;

/// A secret that is written where it is sealed.
#[derive(Clone)]
pub(super) struct Sealable(SecretString);

impl Sealable {
    pub(super) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl From<String> for Sealable {
    fn from(text: String) -> Sealable {
        Sealable(text.into())
    }
}

impl Serialize for Sealable {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.expose())
    }
}

impl<'de> Deserialize<'de> for Sealable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Sealable, D::Error> {
        Ok(Sealable(String::deserialize(from)?.into()))
    }
}

/// A token and where it came from.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Held {
    /// Tells it from any other: random.
    pub mark: u64,
    access: Sealable,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<Sealable>,
    /// When it was given and when it ends, in seconds since the epoch; without an end it is held until it is refused.
    since: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
    /// What was asked for, which may be more than was granted.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Who gave it: its issuer, or the address of its token endpoint where nobody said who that is.
    pub issuer: String,
    pub endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation: Option<String>,
    pub client: Client,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// When the account was connected, in seconds since the epoch.
    pub connected: u64,
    /// Tells the account from any other that its caller connects; `None`: it is nobody's account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    account: Option<u64>,
}

/// Where a token comes from.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Source {
    pub issuer: String,
    pub endpoint: String,
    pub revocation: Option<String>,
    pub client: Client,
    pub resource: Option<String>,
    pub scopes: Vec<String>,
}

impl Held {
    pub(super) fn of(given: Given, source: Source) -> Held {
        let mut mark = [0; 8];
        aws_lc_rs::rand::fill(&mut mark).expect("the system's random source does not fail once it is seeded");
        let Source { issuer, endpoint, revocation, client, resource, scopes } = source;
        let now = now();
        Held {
            mark: u64::from_be_bytes(mark),
            access: given.access_token.into(),
            refresh: given.refresh_token.map(Sealable::from),
            since: now,
            until: given.expires_in.map(|life| now + life),
            scopes,
            issuer,
            endpoint,
            revocation,
            client,
            resource,
            connected: now,
            account: None,
        }
    }

    /// The same, as an account that was connected just now.
    pub(super) fn connected_now(self) -> Held {
        Held { account: Some(self.mark), ..self }
    }

    /// The one that came for this one's refresh token. An authorisation server that gives no new refresh token lets the old
    /// one stand (RFC 6749 6).
    pub(super) fn renewed(&self, given: Given) -> Held {
        let source = self.source();
        let next = Held::of(given, source);
        Held {
            refresh: next.refresh.clone().or_else(|| self.refresh.clone()),
            connected: self.connected,
            account: self.account,
            ..next
        }
    }

    pub(super) fn source(&self) -> Source {
        Source {
            issuer: self.issuer.clone(),
            endpoint: self.endpoint.clone(),
            revocation: self.revocation.clone(),
            client: self.client.clone(),
            resource: self.resource.clone(),
            scopes: self.scopes.clone(),
        }
    }

    /// The same, ending then at the latest: seconds since the epoch.
    pub(super) fn until(self, end: Option<u64>) -> Held {
        let until = self.until.into_iter().chain(end).min();
        Held { until, ..self }
    }

    /// For how long it is of use, where nothing renews it; in seconds.
    pub(super) fn life(&self) -> Option<u64> {
        self.until.filter(|_| self.refresh.is_none()).map(|until| until.saturating_sub(now()))
    }

    /// Whether it is far enough from its end.
    pub(super) fn is_fresh(&self) -> bool {
        self.until.is_none_or(|until| {
            let life = until.saturating_sub(self.since);
            now() + (life / 10).clamp(LATEST, SOONEST) < until
        })
    }

    /// Whether it can be used still.
    pub(super) fn is_alive(&self) -> bool {
        self.until.is_none_or(|until| now() < until)
    }

    pub(super) fn access(&self) -> &str {
        self.access.expose()
    }

    /// As a request bears it. `None`: no header can bear it.
    pub(super) fn token(&self) -> Option<Token> {
        let mut header = HeaderValue::try_from(format!("Bearer {}", self.access.expose())).ok()?;
        header.set_sensitive(true);
        Some(Token { header, mark: self.mark, account: self.account })
    }
}

/// Never its tokens.
impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held")
            .field("issuer", &self.issuer)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}
