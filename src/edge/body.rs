//! Response bodies: a message whole, or a stream of server-sent events that is fed as it is read.

use super::gate::Gate;
use super::seen;
use crate::auth::Denied;
use crate::mcp::{Caller, Scopes};
use crate::telemetry::metrics;
use axum::body::Body;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use std::convert::Infallible;

pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const UNBUFFERED: HeaderValue = HeaderValue::from_static("no");
const UNCACHED: HeaderValue = HeaderValue::from_static("no-cache, no-transform");
/// Seconds after which what was refused for lack of room, or of the store, is worth trying again.
const SOON: HeaderValue = HeaderValue::from_static("1");
static REPLICA: HeaderName = HeaderName::from_static("plasm-replica");

/// A pod's name as its answers bear it: `Plasm-Replica`.
#[derive(Clone)]
pub struct Signature {
    name: HeaderValue,
    /// All headers of an answer that is JSON, which most are: to copy them costs less than to put them together.
    json: HeaderMap,
    /// The same as lines of a head.
    lines: Bytes,
}

impl Signature {
    pub fn of(name: HeaderValue) -> Signature {
        let json = [(header::CONTENT_TYPE, JSON), (REPLICA.clone(), name.clone())];
        let json: HeaderMap = json.into_iter().collect();
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat()
        };
        let lines = json.iter().flat_map(line).collect();
        Signature { name, json, lines }
    }

    /// The headers of an answer that is JSON, as lines of its head.
    pub fn lines(&self) -> &Bytes {
        &self.lines
    }
}

/// A JSON-RPC message as the whole answer.
pub fn json(gate: &Gate, status: StatusCode, message: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::from(message));
    *response.status_mut() = status;
    *response.headers_mut() = gate.signature.json.clone();
    advised(gate, response)
}

/// An answer without a body.
pub fn empty(gate: &Gate, status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    signed(gate, response)
}

/// An SSE stream of already written events. Dropping the body drops `events`: the client is gone. `kind` is the
/// stream's label among the metrics: `post`, `listen`, `get` or `sse`.
pub fn events(
    gate: &Gate,
    kind: &'static str,
    events: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    let open = Open::new(kind);
    let counted = events.map(move |event| {
        let _counted = &open;
        Ok::<_, Infallible>(event)
    });
    let mut response = Response::new(Body::from_stream(counted));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, UNCACHED);
    headers.insert("x-accel-buffering", UNBUFFERED);
    signed(gate, response)
}

/// A refusal before the era is known: a JSON-RPC error without id, with the HTTP status as its code.
pub fn refusal(gate: &Gate, status: StatusCode, why: &str) -> Response<Body> {
    metrics().refused.with_label_values(&[status.as_str()]).inc();
    json(gate, status, refusal_message(status, why))
}

/// What such a refusal says.
pub fn refusal_message(status: StatusCode, why: &str) -> Bytes {
    let error = super::answer::error_object(crate::wire::code::refused(status.as_u16()), why, None);
    crate::wire::envelope::write_response(None, Err(&error))
}

/// An outcome whose caller lacks scopes that it can be granted: the message, and a challenge beside it.
pub fn forbidden(gate: &Gate, caller: &Caller, lacks: &Scopes, message: Bytes) -> Response<Body> {
    let denied = gate.auth.step_up(&caller.profile, &caller.access, lacks);
    let mut response = json(gate, denied.status, message);
    if let Some(challenge) = denied.challenge {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The answer to one who is not let in.
pub fn denied(gate: &Gate, denied: Denied, profile: &str, map: &HeaderMap) -> Response<Body> {
    seen::refused(gate, denied.status, denied.why, profile, None, map);
    challenged(gate, denied)
}

/// As [`denied`], where that was told already.
pub fn challenged(gate: &Gate, denied: Denied) -> Response<Body> {
    let mut response = refusal(gate, denied.status, denied.why);
    if let Some(challenge) = denied.challenge {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// An open stream, counted while it lives.
struct Open(prometheus::IntGauge);

impl Open {
    fn new(kind: &'static str) -> Open {
        let gauge = metrics().streams.with_label_values(&[kind]);
        gauge.inc();
        Open(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// An answer that bears this pod's name.
pub fn signed(gate: &Gate, mut response: Response<Body>) -> Response<Body> {
    response.headers_mut().insert(&REPLICA, gate.signature.name.clone());
    advised(gate, response)
}

/// An answer with what its client is to do next, where that is not to go on as before.
fn advised(gate: &Gate, mut response: Response<Body>) -> Response<Body> {
    if matches!(response.status(), StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        response.headers_mut().insert(header::RETRY_AFTER, SOON);
    }
    if gate.lifecycle.is_leaving() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
