//! From a request to its principal. Until a login is configured, everyone on loopback is the same anonymous one.

pub mod account;
pub mod api_key;
pub mod browser;
pub mod form;
pub mod holdings;
pub mod html;
pub mod jwks;
pub mod jwt;
pub mod keys;
mod known;
pub mod metadata;
pub mod pages;
pub mod resources;
pub mod revoked;
pub mod server;

pub use keys::{KeySet, Keys};
pub use revoked::{Revocable, RevokeError, Revoked};

use crate::mcp::{Access, CallerToken, Principal, Scopes};
use crate::telemetry::metrics;
use api_key::ApiKeys;
use aws_lc_rs::digest::SHA256;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::BoxFuture;
use http::StatusCode;
use http::header::HeaderValue;
use jwt::{Issuer, Refused};
use known::{Digest, Known};
use metadata::{Metadata, Wrong};
use smallvec::SmallVec;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// The claim of our own access tokens that names all tokens of one authorisation.
pub const FAMILY: &str = "plasm_family";

/// Counts what may make a verified token void: other keys, another configuration, a revocation. A token that was verified in another
/// epoch is verified anew. Cheap to clone; clones are one.
#[derive(Clone, Debug, Default)]
pub struct Epoch(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    number: AtomicU64,
    told: Notify,
}

impl Epoch {
    pub fn now(&self) -> u64 {
        self.0.number.load(Ordering::Acquire)
    }

    pub fn advance(&self) {
        self.0.number.fetch_add(1, Ordering::AcqRel);
        self.0.told.notify_waiters();
    }

    /// Resolves when it is not `number` any more.
    async fn left(&self, number: u64) {
        loop {
            let mut told = pin!(self.0.told.notified());
            // What is told from here on is not missed.
            told.as_mut().enable();
            if self.now() != number {
                return;
            }
            told.await;
        }
    }
}

/// Seconds since the epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// 256 random bits in URL-safe base64.
pub(crate) fn random_text() -> String {
    let mut bits = [0; 32];
    aws_lc_rs::rand::fill(&mut bits).expect("the system's random source does not fail once it is seeded");
    URL_SAFE_NO_PAD.encode(bits)
}

/// SHA-256 in URL-safe base64.
pub(crate) fn digest_text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes))
}

/// Who may come in, and as whom.
pub struct Auth {
    /// Whom everyone is where no login is configured.
    open: Arc<Access>,
    /// What those who come in must show; `None`: nothing.
    login: Option<Login>,
}

/// Whose tokens are taken.
pub struct Settings {
    pub issuers: Vec<Issuer>,
    pub api_keys: ApiKeys,
    /// Seconds by which the clocks of issuers may differ from ours.
    pub skew: u64,
    /// How long a verified token is remembered.
    pub remember: Duration,
    pub metadata: Arc<Metadata>,
    pub revoked: Revoked,
    pub epoch: Epoch,
    /// Whether callers' tokens are kept as long as they are remembered, for upstreams whose credential is exchanged for
    /// them.
    pub exchanges: bool,
}

struct Login {
    settings: Settings,
    /// Verified tokens by their digest and the profile that they opened.
    known: Known,
    /// Whether another configuration is in effect.
    retired: AtomicBool,
}

/// Why a request is not let in: its HTTP answer, all but the body's form (RFC 6750 3).
#[derive(Debug)]
pub struct Denied {
    /// 401 or 403; 400 for what shows two tokens; 503 where it cannot be known.
    pub status: StatusCode,
    /// The value of `WWW-Authenticate`.
    pub challenge: Option<HeaderValue>,
    /// What to change, for people. It names no token.
    pub why: &'static str,
}

/// What a request shows.
enum Shown<'a> {
    Nothing,
    /// Not looked at yet; see [`readable`].
    Token(&'a [u8]),
    /// More than one, or none that can be read.
    Confused,
}

impl Auth {
    /// No login: everyone is the same anonymous principal.
    pub fn open() -> Auth {
        Auth { open: anonymous(), login: None }
    }

    /// Everyone shows a token.
    pub fn new(settings: Settings) -> Auth {
        let (known, retired) = (Known::default(), AtomicBool::new(false));
        Auth { open: anonymous(), login: Some(Login { settings, known, retired }) }
    }

    /// Who asks for the endpoint of `profile` (`""`: the default one) at `path`. A token that is known costs one digest and waits for
    /// nothing.
    pub async fn admit<'a>(
        &self,
        profile: &str,
        path: &str,
        authorization: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Arc<Access>, Denied> {
        let Some(login) = &self.login else { return Ok(self.open.clone()) };
        let confused =
            || login.confused(profile, path, "a request shows one token, as Authorization: Bearer");
        let token = match shown(authorization) {
            Shown::Token(token) => token,
            Shown::Nothing => return Err(login.denied(profile, path, None)),
            Shown::Confused => return Err(confused()),
        };
        let digest = digest(profile, token);
        if let Some(access) = login.known.get(&digest, login.settings.epoch.now()) {
            return Ok(access);
        }
        // What is known was readable, so this is asked of what is not.
        let token = readable(token).ok_or_else(confused)?;
        Box::pin(login.verified(profile, path, token, digest)).await
    }

    /// Says that another configuration is in effect: those who come in by this one ask anew.
    pub fn retire(&self) {
        if let Some(login) = &self.login {
            login.retired.store(true, Ordering::Release);
            login.settings.epoch.advance();
        }
    }

    /// Resolves when what was let in may go on no longer: for streams, which stay. `None`: nobody logs in, so nothing ends. `lasts`: not
    /// at the token's end, but only where it was revoked.
    pub fn ended(self: &Arc<Self>, access: &Arc<Access>, lasts: bool) -> Option<BoxFuture<'static, ()>> {
        self.login.as_ref()?;
        let (auth, access) = (self.clone(), access.clone());
        Some(Box::pin(async move {
            let Some(login) = &auth.login else { return };
            let until = access.until.filter(|_| !lasts);
            loop {
                let epoch = login.settings.epoch.now();
                if login.has_revoked(&access) || until.is_some_and(|until| until <= now()) {
                    return;
                }
                let left = login.settings.epoch.left(epoch);
                match until {
                    // A little at a time, for the clock may be set.
                    Some(until) => {
                        let rest = Duration::from_secs(until.saturating_sub(now()).clamp(1, 3600));
                        let _ = tokio::time::timeout(rest, left).await;
                    }
                    None => left.await,
                }
            }
        }))
    }

    /// The answer to one who is let in and lacks scopes for what it asked of `profile` (RFC 6750 3.1): the challenge names all that
    /// the client is to ask for next, for it asks for no more than it is told (2025-11-25 authorization, *Step-Up*).
    pub fn step_up(&self, profile: &str, access: &Access, lacks: &Scopes) -> Denied {
        let challenge = self.login.as_ref().map(|login| {
            let metadata = &login.settings.metadata;
            let all = metadata.needs(profile).chain(access.scopes.iter()).chain(lacks.iter());
            let wrong = Wrong { error: "insufficient_scope", why: TOO_LITTLE };
            metadata.challenge(profile, None, &all.map(Arc::from).collect(), Some(wrong))
        });
        Denied { status: StatusCode::FORBIDDEN, challenge, why: TOO_LITTLE }
    }
}

const TOO_LITTLE: &str = "the access token lacks a scope that this needs";

impl Login {
    /// Whether what was let in is to be let in no more, whatever its token says.
    fn has_revoked(&self, access: &Access) -> bool {
        let Settings { issuers, revoked, .. } = &self.settings;
        self.retired.load(Ordering::Acquire)
            || revoked.has(Revocable::Principal(&access.principal))
            || match &*access.principal.issuer {
                api_key::ISSUER => api_key::id(access).is_some_and(|id| revoked.has(Revocable::ApiKey(id))),
                id => issuers.iter().any(|issuer| issuer.id == id && issuer.has_revoked(access, revoked)),
            }
    }

    async fn verified(
        &self,
        profile: &str,
        path: &str,
        token: &str,
        digest: Digest,
    ) -> Result<Arc<Access>, Denied> {
        let Settings { issuers, api_keys, skew, metadata, revoked, epoch, exchanges, .. } = &self.settings;
        // Before anything is looked at: what changes meanwhile makes this void.
        let epoch = epoch.now();
        let verified = match token.starts_with(api_key::PREFIX) {
            true => api_keys.verify(token, revoked).map_err(Refused::Invalid),
            false => {
                let audiences = metadata.audiences(profile);
                let verified = jwt::verify(issuers, token, &audiences, *skew, revoked).await;
                verified.map(|access| {
                    let kept = exchanges.then(|| CallerToken::new(token));
                    Arc::new(Access { token: kept, ..access })
                })
            }
        };
        let count = |outcome| metrics().auth.with_label_values(&[outcome]).inc();
        let gone = |access: &Arc<Access>| revoked.has(Revocable::Principal(&access.principal));
        let verified = verified.and_then(|access| match gone(&access) {
            true => Err(Refused::Invalid("whose token this is was shut out")),
            false => Ok(access),
        });
        let access = match verified {
            Ok(access) => access,
            Err(Refused::Invalid(why)) => {
                count("refused");
                tracing::debug!(why, profile, "a token is not taken");
                return Err(self.denied(profile, path, Some(why)));
            }
            Err(Refused::Unknown) => {
                count("unknown");
                let why = "the keys of the token's issuer cannot be had at this time";
                return Err(Denied { status: StatusCode::SERVICE_UNAVAILABLE, challenge: None, why });
            }
        };
        count("verified");
        Ok(self.known.put(digest, access, epoch, self.settings.remember.as_secs()))
    }

    /// 401, with what was wrong with the token where one was shown.
    fn denied(&self, profile: &str, path: &str, wrong: Option<&'static str>) -> Denied {
        let metadata = &self.settings.metadata;
        let needs = metadata.needs(profile).map(Arc::from).collect();
        let said = wrong.map(|why| Wrong { error: "invalid_token", why });
        Denied {
            status: StatusCode::UNAUTHORIZED,
            challenge: Some(metadata.challenge(profile, Some(path), &needs, said)),
            why: wrong.unwrap_or("log in first: the WWW-Authenticate header says where"),
        }
    }

    /// 400: who reads it could take it for one request or another.
    fn confused(&self, profile: &str, path: &str, why: &'static str) -> Denied {
        let wrong = Wrong { error: "invalid_request", why };
        let metadata = &self.settings.metadata;
        let challenge = metadata.challenge(profile, Some(path), &Scopes::default(), Some(wrong));
        Denied { status: StatusCode::BAD_REQUEST, challenge: Some(challenge), why }
    }
}

/// `Authorization: Bearer` and nothing else: a token in the query would stand in logs (RFC 6750 2.3, 5.3).
fn shown<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Shown<'a> {
    let Some(value) = values.next() else { return Shown::Nothing };
    if values.next().is_some() {
        return Shown::Confused;
    }
    match value.iter().position(|byte| *byte == b' ').map(|at| value.split_at(at)) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(b"bearer") => Shown::Token(unpadded(token)),
        _ if value.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) => Shown::Nothing,
        _ => Shown::Confused,
    }
}

/// Without the spaces around it.
fn unpadded(mut token: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = token {
        token = rest;
    }
    token
}

/// The text of one token.
fn readable(token: &[u8]) -> Option<&str> {
    let whole = token.iter().all(|byte| matches!(byte, b'\t' | b'!'..=b'~') && *byte != b',');
    str::from_utf8(token).ok().filter(|token| whole && !token.is_empty())
}

/// What a token is remembered by, for one profile.
fn digest(profile: &str, token: &[u8]) -> Digest {
    // No header holds a line break. In one piece, for which the library needs no context of its own.
    let mut text = SmallVec::<[u8; 1024]>::new();
    for part in [profile.as_bytes(), b"\n", token] {
        text.extend_from_slice(part);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(aws_lc_rs::digest::digest(&SHA256, &text).as_ref());
    digest
}

/// Who calls where no login is configured, and on stdio, where whoever started the process is the user.
pub fn anonymous() -> Arc<Access> {
    Arc::new(Access::open(Arc::new(Principal::minted("", "", "anonymous"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a request with these values of `Authorization` comes to: its token, `None` for nothing, `Err` for more or less than one.
    fn read(values: &[&[u8]]) -> Result<Option<String>, ()> {
        match shown(values.iter().copied()) {
            Shown::Nothing => Ok(None),
            Shown::Token(token) => readable(token).map(|token| Some(token.to_owned())).ok_or(()),
            Shown::Confused => Err(()),
        }
    }

    #[test]
    fn one_bearer_token_is_read_and_what_is_more_or_less_than_one_is_refused() {
        let token = Ok(Some("a.b-c".to_owned()));
        for whole in [&b"Bearer a.b-c"[..], b"bearer a.b-c", b"BEARER   a.b-c  "] {
            assert_eq!(read(&[whole]), token, "{whole:?}");
        }
        for other in [&b"Basic YTpi"[..], b"Bearer", b"a.b-c", b"", b" Bearer a"] {
            assert_eq!(read(&[other]), Ok(None), "{other:?}");
        }
        for bad in [&b"Bearer "[..], b"Bearer a b", b"Bearer a,b", b"Bearer a\xff", b"Basic \xff", b"\xff"] {
            assert_eq!(read(&[bad]), Err(()), "{bad:?}");
        }
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[b"Bearer a", b"Bearer a"]), Err(()));
    }
}
