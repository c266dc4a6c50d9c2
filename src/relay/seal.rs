//! The head of a request from pod to pod: what is asked and of which channel, sealed. Whoever lacks the keyring makes none,
//! and none that is changed, of another body, for another pod, older than [`LIFE`] or seen before opens. The body itself
//! and the answer are neither hidden nor sealed: the listener belongs on the pods' own network.

use crate::sealing::{Keyring, Purpose};
use crate::store::PodId;
use crate::upstream::transport::{Outgoing, Route};
use crate::wire::{Id, Method, Raw, Version};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// Where requests are posted to. The number is the form of heads and frames.
pub(super) const PATH: &str = "/relay/1";
/// How far the clocks of two pods, and the time on the way, may be apart.
const LIFE: Duration = Duration::from_secs(30);
/// Requests that are remembered in each of two spans of [`SPAN`], some 40 MiB: more are refused.
const MOST: usize = 1 << 20;
/// What was seen is remembered for at least so long: longer than it would open.
const SPAN: Duration = Duration::from_secs(2 * LIFE.as_secs() + 5);

/// What another pod wants of a channel.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum Want {
    /// What was agreed on it, for the owner and the introduction in the body.
    Agreed,
    /// An answer to the request whose params are the body.
    Request {
        route: SentRoute,
        id: String,
        method: String,
        progress: Option<String>,
        /// Milliseconds that it may take.
        within: u64,
    },
    /// That the message in the body is sent.
    Send { route: SentRoute },
    /// The messages that belong to no request.
    Standing { route: SentRoute },
}

/// A [`Route`] on its way. A channel has no session but itself.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct SentRoute {
    version: Option<String>,
    who: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, Vec<u8>)>,
}

impl SentRoute {
    pub(super) fn of(route: &Route) -> SentRoute {
        SentRoute {
            version: route.version.map(|version| version.as_str().to_owned()),
            who: route.who.to_string(),
            headers: sent_headers(&route.headers),
        }
    }

    pub(super) fn read(self) -> Route {
        Route {
            version: self.version.as_deref().and_then(Version::parse),
            session: None,
            who: self.who.into(),
            headers: read_headers(self.headers),
            // The pod that has the channel has its credential.
            bearer: None,
        }
    }
}

pub(super) fn sent_headers(headers: &[(HeaderName, HeaderValue)]) -> Vec<(String, Vec<u8>)> {
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

pub(super) fn read_headers(sent: Vec<(String, Vec<u8>)>) -> Vec<(HeaderName, HeaderValue)> {
    let read =
        |(name, value): (String, Vec<u8>)| Some((name.parse().ok()?, HeaderValue::from_bytes(&value).ok()?));
    sent.into_iter().filter_map(read).collect()
}

impl Want {
    /// An [`Outgoing`] on its way; its params are the body. A channel has no use for its name.
    pub(super) fn request(route: &Route, request: &Outgoing) -> Want {
        let text = |token: &[u8]| String::from_utf8_lossy(token).into_owned();
        let within = request.deadline.saturating_duration_since(Instant::now());
        Want::Request {
            route: SentRoute::of(route),
            id: text(request.id.token()),
            method: request.method.as_str().to_owned(),
            progress: request.progress.as_deref().map(text),
            within: within.as_millis().try_into().unwrap_or(u64::MAX),
        }
    }

    /// The request that it is, with these params; `None` where it is another want.
    pub(super) fn outgoing(self, params: Bytes) -> Option<(Route, Outgoing)> {
        let Want::Request { route, id, method, progress, within } = self else { return None };
        let id = Bytes::from(id);
        let request = Outgoing {
            id: Id::read(&id, &(0..id.len() as u32))?,
            method: Method::parse(&method),
            params: Raw::trusted(params),
            name: None,
            // A channel has no event ids, so nobody goes on with its answers elsewhere.
            trail: None,
            progress: progress.map(Bytes::from),
            // No deadline is further off than a year: a clock has its bounds.
            deadline: Instant::now() + Duration::from_millis(within.min(365 * 24 * 3_600_000)),
        };
        Some((route.read(), request))
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    /// The pod that it is for.
    to: Arc<str>,
    /// When it was sealed, in milliseconds since 1970 by the sender's clock.
    at: u64,
    /// Another one for each request.
    once: [u64; 2],
    /// SHA-256 of the body.
    body: String,
    /// The name of the channel's lease.
    lease: Arc<str>,
    want: Want,
}

/// A head that opened and was not seen before.
#[derive(Debug)]
pub(super) struct Opened {
    body: String,
    pub(super) lease: Arc<str>,
    pub(super) want: Want,
}

impl Opened {
    /// Whether this is the body that the head was sealed with.
    pub(super) fn is_of(&self, body: &[u8]) -> bool {
        self.body == hash(body)
    }
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("it is not sealed by this gateway's keyring")]
    Foreign,
    #[error("it is from another time; do the pods' clocks differ?")]
    Stale,
    #[error("it is for another pod")]
    Misdirected,
    #[error("it was seen before")]
    Replayed,
    #[error("its body is not what was sealed")]
    Body,
    #[error("more requests than can be told apart")]
    Full,
}

pub(super) fn seal(keyring: &Keyring, to: &PodId, lease: &Arc<str>, want: Want, body: &[u8]) -> String {
    let [a, b, c, d, e, f, g, h, rest @ ..] = random();
    let once = [[a, b, c, d, e, f, g, h], rest].map(u64::from_le_bytes);
    let body = hash(body);
    let head = Head { to: to.as_str().into(), at: now(), once, body, lease: lease.clone(), want };
    let plain = serde_json::to_vec(&head).expect("a struct of strings and numbers has a JSON form");
    keyring.seal(Purpose::Internal, PATH.as_bytes(), &plain)
}

/// Opens a head that is for `me`, once.
pub(super) fn open(keyring: &Keyring, seen: &Seen, me: &PodId, sealed: &str) -> Result<Opened, Refusal> {
    let opened = keyring.open(Purpose::Internal, PATH.as_bytes(), sealed);
    let plain = opened.map_err(|_| Refusal::Foreign)?;
    let head: Head = serde_json::from_slice(&plain).map_err(|_| Refusal::Foreign)?;
    if *head.to != *me.as_str() {
        return Err(Refusal::Misdirected);
    }
    if now().abs_diff(head.at) > LIFE.as_millis() as u64 {
        return Err(Refusal::Stale);
    }
    seen.first(head.once, Instant::now())?;
    Ok(Opened { body: head.body, lease: head.lease, want: head.want })
}

/// The requests that were taken of late, so that none is taken twice.
#[derive(Default)]
pub(super) struct Seen {
    spans: Mutex<Spans>,
}

#[derive(Default)]
struct Spans {
    since: Option<Instant>,
    now: HashSet<[u64; 2]>,
    before: HashSet<[u64; 2]>,
}

impl Seen {
    fn first(&self, once: [u64; 2], now: Instant) -> Result<(), Refusal> {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *spans.since.get_or_insert(now);
        if now.duration_since(since) >= SPAN {
            spans.before = std::mem::take(&mut spans.now);
            if now.duration_since(since) >= SPAN * 2 {
                spans.before.clear();
            }
            spans.since = Some(now);
        }
        if spans.before.contains(&once) {
            return Err(Refusal::Replayed);
        }
        if spans.now.len() >= MOST {
            return Err(Refusal::Full);
        }
        if spans.now.insert(once) { Ok(()) } else { Err(Refusal::Replayed) }
    }
}

fn hash(body: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, body))
}

/// 128 random bits as text.
pub(super) fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(random())
}

fn random() -> [u8; 16] {
    let mut bits = [0; 16];
    aws_lc_rs::rand::fill(&mut bits).expect("the system's random source does not fail once it is seeded");
    bits
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> SentRoute {
        let header = ("x-a".parse().unwrap(), HeaderValue::from_bytes(b"\xe9").unwrap());
        let (version, who) = (Some(Version::MODERN), "s:1".into());
        SentRoute::of(&Route { version, session: None, who, headers: vec![header], bearer: None })
    }

    #[test]
    fn a_request_opens_once_where_it_is_meant_to() {
        let (ring, seen, me) = (Keyring::random(), Seen::default(), PodId::random());
        let seal = |to: &PodId| seal(&ring, to, &"l".into(), Want::Send { route: route() }, b"body");
        let sealed = seal(&me);
        let head = open(&ring, &seen, &me, &sealed).unwrap();
        assert!(head.is_of(b"body") && !head.is_of(b"bodY"));
        let Want::Send { route } = head.want else { panic!("another want") };
        let route = route.read();
        assert_eq!((route.version, &*route.who), (Some(Version::MODERN), "s:1"));
        assert_eq!(route.headers[0].1.as_bytes(), b"\xe9");
        assert_eq!(open(&ring, &seen, &me, &sealed).unwrap_err(), Refusal::Replayed);
        assert_eq!(open(&ring, &seen, &PodId::random(), &seal(&me)).unwrap_err(), Refusal::Misdirected);
        assert_eq!(open(&Keyring::random(), &seen, &me, &seal(&me)).unwrap_err(), Refusal::Foreign);
        let other = ring.seal(Purpose::Cursor, PATH.as_bytes(), b"{}");
        assert_eq!(open(&ring, &seen, &me, &other).unwrap_err(), Refusal::Foreign);
        let elsewhere = ring.seal(Purpose::Internal, b"/relay/0", b"{}");
        assert_eq!(open(&ring, &seen, &me, &elsewhere).unwrap_err(), Refusal::Foreign);
    }

    #[test]
    fn a_request_of_another_time_is_refused() {
        let (ring, seen, me) = (Keyring::random(), Seen::default(), PodId::random());
        let seal = |at: u64| {
            let want = Want::Standing { route: route() };
            let (once, body) = ([at, 7], hash(b""));
            let head = Head { to: me.as_str().into(), at, once, body, lease: "l".into(), want };
            ring.seal(Purpose::Internal, PATH.as_bytes(), &serde_json::to_vec(&head).unwrap())
        };
        let life = LIFE.as_millis() as u64;
        for at in [now() - life - 1000, now() + life + 60_000] {
            assert_eq!(open(&ring, &seen, &me, &seal(at)).unwrap_err(), Refusal::Stale);
        }
        assert!(open(&ring, &seen, &me, &seal(now() - life / 2)).is_ok());
    }

    #[test]
    fn what_was_seen_is_remembered_for_longer_than_it_opens_and_not_for_ever() {
        let (seen, begun) = (Seen::default(), Instant::now());
        seen.first([0, 1], begun).unwrap();
        let then = begun + SPAN - Duration::from_secs(1);
        seen.first([1, 1], then).unwrap();
        assert_eq!(seen.first([1, 1], then + LIFE * 2), Err(Refusal::Replayed));
        assert_eq!(seen.first([1, 1], then + SPAN * 4), Ok(()));
    }
}
