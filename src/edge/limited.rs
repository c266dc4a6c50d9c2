//! Requests of callers that have limits: asked for once their methods are known, and told what is left. And what is refused by a
//! limit, whoever asks.

use super::body;
use super::gate::{Gate, Mount};
use super::said::Said;
use super::seen;
use crate::limits::{Admitted, Asked, Class, Refused};
use crate::mcp::Access;
use crate::telemetry::metrics;
use crate::wire::envelope::Body as Content;
use crate::wire::{Message, Method, Request};
use axum::body::Body;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use prometheus::IntCounter;
use std::net::SocketAddr;
use std::sync::OnceLock;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LEFT: HeaderName = HeaderName::from_static("ratelimit");

/// A body longer than this is not read for one who would be refused, though what it holds is not known: it may be an answer,
/// which is never refused, but answers are short.
const LONG: u64 = 64 << 10;

/// The refusal of a request that nobody need read, for it would be refused whatever it holds.
pub fn refused_unread(
    gate: &Gate,
    mount: &Mount,
    access: &Access,
    said: &Said<'_>,
) -> Option<Response<Body>> {
    let limits = gate.limits.as_ref()?;
    let (method, length) = (said.any_method().map(Method::parse), said.length());
    let refused = match &method {
        // A client that says another method here than in its message is refused for that.
        Some(method) if !method.is_notification() => {
            limits.refuses(&access.principal, &mount.name, Some(Class::of(method)))?
        }
        Some(_) => return None,
        None if length.is_none_or(|length| length > LONG) => {
            limits.refuses(&access.principal, &mount.name, None)?
        }
        None => return None,
    };
    Some(refusal(gate, &refused))
}

/// Asks whether the limits of its caller admit what was read. Error: the answer where they do not.
pub async fn ask(
    gate: &Gate,
    mount: &Mount,
    access: &Access,
    content: &Content,
) -> Result<Option<Box<Admitted>>, Response<Body>> {
    let asked = match content {
        Content::One(message) => of_message(message),
        Content::Batch(members) => members
            .iter()
            .filter_map(|member| member.as_ref().ok())
            .map(of_message)
            .fold(Asked::default(), |mut all, one| {
                all.join(one);
                all
            }),
    };
    admitted(gate, mount, access, asked).await.map(|admitted| admitted.map(Box::new))
}

/// Asks for requests that come by HTTP+SSE.
pub async fn ask_for(
    gate: &Gate,
    mount: &Mount,
    access: &Access,
    requests: &[Request],
) -> Result<(), Response<Body>> {
    let mut asked = Asked::default();
    requests.iter().for_each(|request| asked.add(Class::of(&request.method)));
    admitted(gate, mount, access, asked).await.map(drop)
}

/// Asks for the opening of a stream.
pub async fn ask_to_listen(gate: &Gate, mount: &Mount, access: &Access) -> Result<(), Response<Body>> {
    admitted(gate, mount, access, Asked::one(Class::Control)).await.map(drop)
}

async fn admitted(
    gate: &Gate,
    mount: &Mount,
    access: &Access,
    asked: Asked,
) -> Result<Option<Admitted>, Response<Body>> {
    let Some(limits) = gate.limits.as_ref().filter(|_| !asked.is_empty()) else { return Ok(None) };
    let admitted = limits.ask(&access.principal, &mount.name, asked).await;
    admitted.map(Some).map_err(|refused| {
        let response = refusal(gate, &refused);
        let why = "over a limit, or limits cannot be counted";
        seen::refused(gate, response.status(), why, &mount.name, Some(access), &HeaderMap::new());
        response
    })
}

/// A client's answer and its cancel end what goes on already: they are never refused.
fn of_message(message: &Message) -> Asked {
    match message {
        Message::Request(request) => Asked::one(Class::of(&request.method)),
        Message::Notification(note) if note.method != Method::Cancelled => Asked::one(Class::Control),
        Message::Notification(_) | Message::Response(_) => Asked::default(),
    }
}

/// Tells a caller what is left of its limits, where there are any.
pub fn told(admitted: Option<Box<Admitted>>, map: &mut HeaderMap) {
    let Some(admitted) = admitted else { return };
    let Admitted { policy, left } = *admitted;
    if !policy.is_empty() {
        map.insert(POLICY, policy);
        map.insert(LEFT, left);
    }
}

fn refusal(gate: &Gate, refused: &Refused) -> Response<Body> {
    match refused {
        Refused::Spent { after: Some(after), policy, left, .. } => {
            let mut response = too_many(gate, *after);
            told(
                Some(Box::new(Admitted { policy: policy.clone(), left: left.clone() })),
                response.headers_mut(),
            );
            response
        }
        Refused::Spent { after: None, .. } => {
            let why = "more requests in one batch than the limit admits at once; send fewer";
            body::refusal(gate, StatusCode::TOO_MANY_REQUESTS, why)
        }
        Refused::Away => {
            let why = "the state store is out of reach; try again";
            body::refusal(gate, StatusCode::SERVICE_UNAVAILABLE, why)
        }
    }
}

/// Whoever is refused is refused often: its message is written once.
fn too_many(gate: &Gate, after: u64) -> Response<Body> {
    static MESSAGE: OnceLock<Bytes> = OnceLock::new();
    static COUNTED: OnceLock<IntCounter> = OnceLock::new();
    let status = StatusCode::TOO_MANY_REQUESTS;
    let message = MESSAGE.get_or_init(|| {
        let why = "too many requests; try again when Retry-After says";
        body::refusal_message(status, why)
    });
    COUNTED.get_or_init(|| metrics().refused.with_label_values(&[status.as_str()])).inc();
    let mut response = body::json(gate, status, message.clone());
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
    response
}

/// The refusal of one who asks too often without a login, from the same address.
pub fn too_many_strangers(gate: &Gate, peer: SocketAddr, map: &HeaderMap) -> Option<Response<Body>> {
    let after = gate.strangers.count(peer, map).err()?;
    let why = "too many requests without a valid token from this address";
    seen::refused(gate, StatusCode::TOO_MANY_REQUESTS, why, "", None, map);
    Some(too_many(gate, after))
}
