//! One HTTP request: where it goes, whether it is admitted, what era it is.

use super::era::{self, Taken};
use super::gate::{Gate, Mount};
use super::modern_headers::Misformed;
use super::{body, guard, limited, modern, seen};
use crate::auth::Denied;
use crate::mcp::Access;
use crate::policy::Admission;
use crate::wire::envelope::Body as Content;
use crate::wire::headers::Accepted;
use crate::wire::{Message, Refused, code, envelope, headers};
use axum::BoxError;
use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use futures_util::poll;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method as Verb, Request, Response, StatusCode, Uri, request};
use http_body::Frame;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
enum Place<'a> {
    /// The MCP endpoint of a profile; `""` is the default one.
    Endpoint(&'a str),
    /// The event stream of HTTP+SSE (2024-11-05), and where its messages are sent.
    Sse(&'a str),
    Message(&'a str),
    Health,
    Nowhere,
}

/// Answers any request on the public listener.
pub async fn serve(gate: Arc<Gate>, request: Request<Body>, peer: SocketAddr) -> Response<Body> {
    let (parts, mut body) = request.into_parts();
    // Such a client sends its body once it is given leave, which reading would give.
    let waits = parts.headers.contains_key(header::EXPECT);
    let limit = gate.rules.request_bytes;
    let mut response = answer(gate, parts, &mut body, peer).await;
    let refused = response.status().is_client_error() && response.status() != StatusCode::REQUEST_TIMEOUT;
    if refused && !body.is_end_stream() && (waits || !Box::pin(read_off(body, limit)).await) {
        // There may be more of the body still: the connection cannot serve another request.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn answer(gate: Arc<Gate>, parts: request::Parts, body: &mut Body, peer: SocketAddr) -> Response<Body> {
    let origin = parts.headers.get(header::ORIGIN).cloned();
    if let Err((status, why)) = guard::admit_host(&gate.rules, &parts.headers, authority(&parts)) {
        return body::refusal(&gate, status, why);
    }
    if !gate.site.is_empty() && gate.site.find(parts.uri.path()).is_some() {
        if let Some(refusal) = limited::too_many_strangers(&gate, peer, &parts.headers) {
            return refusal;
        }
        return Box::pin(super::site::answer(gate, parts, body)).await;
    }
    let admitted = match origin {
        Some(_) => guard::admit_origin(&gate.rules, &parts.headers),
        None => Ok(()),
    };
    let mut response = match admitted {
        Ok(()) => route(gate, parts, body, peer).await,
        Err((status, why)) => return body::refusal(&gate, status, why),
    };
    guard::cors(origin, response.headers_mut());
    response
}

fn authority(parts: &request::Parts) -> Option<&str> {
    parts.uri.authority().map(|authority| authority.as_str())
}

/// What is not sent all the time is kept out of the future that every request moves about.
async fn route(
    gate: Arc<Gate>,
    mut parts: request::Parts,
    body: &mut Body,
    peer: SocketAddr,
) -> Response<Body> {
    let place = place(gate.rules.public_path.as_deref(), parts.uri.path());
    if let (Place::Endpoint(profile), &Verb::POST) = (&place, &parts.method)
        && let Some(mount) = gate.mount(profile)
    {
        return match gate.auth.admit(&mount.name, parts.uri.path(), &parts.headers).await {
            Ok(access) => match mount.door.admit(&access) {
                Admission::In => {
                    // Like the headers later on: what is a part of the connection's buffer is not kept while the call runs.
                    parts.uri = Uri::default();
                    post(gate, mount, access, parts.headers, body).await
                }
                refused => kept_out(&gate, &mount, &access, refused, &parts.headers),
            },
            Err(denied) => denied_to(&gate, denied, profile, peer, &parts.headers),
        };
    }
    Box::pin(route_other(gate, &parts, body, peer)).await
}

async fn route_other(
    gate: Arc<Gate>,
    parts: &request::Parts,
    body: &mut Body,
    peer: SocketAddr,
) -> Response<Body> {
    let place = place(gate.rules.public_path.as_deref(), parts.uri.path());
    let profile = match place {
        Place::Health if parts.method == Verb::GET => return health(&gate),
        Place::Health => return not_allowed(&gate, "GET"),
        Place::Nowhere => {
            return body::refusal(&gate, StatusCode::NOT_FOUND, "no such endpoint; MCP is at /mcp");
        }
        Place::Endpoint(profile) | Place::Sse(profile) | Place::Message(profile) => profile,
    };
    if parts.method == Verb::OPTIONS {
        let mut response = body::empty(&gate, StatusCode::NO_CONTENT);
        guard::preflight(&parts.headers, response.headers_mut());
        return response;
    }
    let Some(mount) = gate.mount(profile) else {
        return no_such_profile(&gate);
    };
    let access = match gate.auth.admit(&mount.name, parts.uri.path(), &parts.headers).await {
        Ok(access) => access,
        Err(denied) => return denied_to(&gate, denied, profile, peer, &parts.headers),
    };
    match mount.door.admit(&access) {
        Admission::In => {}
        refused => return kept_out(&gate, &mount, &access, refused, &parts.headers),
    }
    if parts.method == Verb::GET
        && let Err(refusal) = limited::ask_to_listen(&gate, &mount, &access).await
    {
        return refusal;
    }
    let stateless = gate.rules.stateless;
    match (place, parts.method.clone()) {
        (Place::Sse(_) | Place::Message(_), _) if stateless => {
            let why = "HTTP+SSE needs a session, and none is kept here; MCP is at /mcp";
            body::refusal(&gate, StatusCode::NOT_FOUND, why)
        }
        (Place::Endpoint(_), verb) if stateless && verb != Verb::POST => not_allowed(&gate, "POST"),
        (Place::Endpoint(_), Verb::GET) => {
            super::legacy::get(gate, mount, access, parts.headers.clone()).await
        }
        (Place::Endpoint(_), Verb::DELETE) => {
            super::legacy::delete(gate, mount, access, parts.headers.clone()).await
        }
        (Place::Endpoint(_), _) => not_allowed(&gate, "GET, POST, DELETE"),
        (Place::Sse(_), Verb::GET) => super::http_sse::open(gate, mount, access, parts).await,
        (Place::Message(_), Verb::POST) => match received(&gate, &parts.headers, body).await {
            Ok(text) => super::http_sse::message(gate, mount, access, parts, text).await,
            Err(refusal) => refusal,
        },
        (Place::Sse(_), _) => not_allowed(&gate, "GET"),
        (_, _) => not_allowed(&gate, "POST"),
    }
}

fn no_such_profile(gate: &Gate) -> Response<Body> {
    body::refusal(gate, StatusCode::NOT_FOUND, "no such profile")
}

/// The answer to one who is known and may not enter this profile. For whom there is none, it is as if it did not exist.
fn kept_out(
    gate: &Gate,
    mount: &Mount,
    access: &Access,
    refused: Admission,
    map: &HeaderMap,
) -> Response<Body> {
    let (status, response) = match refused {
        Admission::Lacks(scopes) => {
            let denied = gate.auth.step_up(&mount.name, access, &scopes);
            (denied.status, body::challenged(gate, denied))
        }
        Admission::In | Admission::Unknown => (StatusCode::NOT_FOUND, no_such_profile(gate)),
    };
    seen::refused(gate, status, "the profile does not admit the caller", &mount.name, Some(access), map);
    response
}

/// The answer to one who is not let in; who comes without a valid token too often is not told even that.
fn denied_to(
    gate: &Gate,
    denied: Denied,
    profile: &str,
    peer: SocketAddr,
    map: &HeaderMap,
) -> Response<Body> {
    let stranger = denied.status == StatusCode::UNAUTHORIZED;
    let refusal = stranger.then(|| limited::too_many_strangers(gate, peer, map)).flatten();
    refusal.unwrap_or_else(|| body::denied(gate, denied, profile, map))
}

/// `/mcp`, `/mcp/{profile}`, the public path in their place, and the HTTP+SSE pair at the root and under each; all
/// with or without a trailing slash, for a redirect would lose bodies and tokens on the way.
fn place<'a>(public: Option<&str>, path: &'a str) -> Place<'a> {
    let path = path.strip_suffix('/').unwrap_or(path);
    let below = |base: &str| {
        path.strip_prefix(base).filter(|rest| !base.is_empty() && (rest.is_empty() || rest.starts_with('/')))
    };
    let rest = match public.and_then(|p| below(p.trim_end_matches('/'))).or_else(|| below("/mcp")) {
        Some(rest) => rest,
        None => {
            return match path {
                "/health" => Place::Health,
                "/sse" => Place::Sse(""),
                "/message" => Place::Message(""),
                _ => Place::Nowhere,
            };
        }
    };
    // One slash alone: `/mcp//dev` would be another path to a proxy that guards `/mcp/dev`.
    let mut parts = rest.strip_prefix('/').unwrap_or(rest).split('/');
    match (parts.next().unwrap_or_default(), parts.next(), parts.next()) {
        ("sse", None, _) => Place::Sse(""),
        ("message", None, _) => Place::Message(""),
        (profile, None, _) => Place::Endpoint(profile),
        (profile, Some("sse"), None) => Place::Sse(profile),
        (profile, Some("message"), None) => Place::Message(profile),
        _ => Place::Nowhere,
    }
}

fn health(gate: &Gate) -> Response<Body> {
    body::json(gate, StatusCode::OK, Bytes::from_static(b"{\"status\":\"ok\"}"))
}

const NOT_ALLOWED: &str = "this method is not allowed here; MCP messages are sent by POST";

/// 405 with what is allowed, at once.
pub fn not_allowed(gate: &Gate, allow: &'static str) -> Response<Body> {
    let mut response = body::refusal(gate, StatusCode::METHOD_NOT_ALLOWED, NOT_ALLOWED);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

async fn post(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    map: HeaderMap,
    body: &mut Body,
) -> Response<Body> {
    if let Accepted { json: false, stream: false } = Accepted::of(&map) {
        let why = "Accept must admit application/json and text/event-stream";
        return body::refusal(&gate, StatusCode::NOT_ACCEPTABLE, why);
    }
    if let Some(refusal) = limited::refused_unread(&gate, &mount, &access, &map) {
        return refusal;
    }
    let text = match received(&gate, &map, body).await {
        Ok(text) => text,
        Err(refusal) => return refusal,
    };
    let content = match envelope::read_body(text, gate.rules.depth) {
        Ok(content) => content,
        Err(refused) => return malformed(&gate, &refused),
    };
    if gate.limits.is_some() {
        return Box::pin(limited::answer(gate, mount, access, map, content)).await;
    }
    take(gate, mount, access, map, content).await
}

/// Answers what was read, by the era that it is of.
pub async fn take(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    map: HeaderMap,
    content: Content,
) -> Response<Body> {
    let message = match content {
        Content::One(message) => message,
        Content::Batch(batch) => {
            return Box::pin(super::legacy::batch(gate, mount, access, map, batch)).await;
        }
    };
    let (method, params) = match &message {
        Message::Request(r) => (Some(&r.method), Some(&r.params)),
        Message::Notification(n) => (Some(&n.method), Some(&n.params)),
        Message::Response(_) => (None, None),
    };
    match era::decide(&map, method, params, !gate.rules.stateless) {
        Taken::Modern => modern::answer(gate, mount, access, map, message).await,
        Taken::ModernWithoutMeta => {
            let why = format!("_meta must carry {:?}", crate::wire::meta::VERSION);
            modern::misformed(
                &gate,
                id_of(&message),
                Misformed { code: code::INVALID_PARAMS, why, data: None },
            )
        }
        Taken::BadVersion => {
            let why = "MCP-Protocol-Version names no version that is known here";
            malformed(
                &gate,
                &Refused { id: id_of(&message).cloned(), code: code::INVALID_REQUEST, why: why.into() },
            )
        }
        Taken::Handshake => Box::pin(super::legacy::initialize(gate, mount, access, map, message)).await,
        Taken::Session => super::legacy::post(gate, mount, access, map, message).await,
        Taken::Sessionless(version) => {
            Box::pin(super::legacy::sessionless(gate, mount, access, map, message, version)).await
        }
    }
}

fn id_of(message: &Message) -> Option<&crate::wire::Id> {
    match message {
        Message::Request(r) => Some(&r.id),
        Message::Response(r) => r.id.as_ref(),
        Message::Notification(_) => None,
    }
}

/// HTTP 400 with the JSON-RPC error of a text that is no message.
pub fn malformed(gate: &Gate, refused: &Refused) -> Response<Body> {
    let error = super::answer::error_object(refused.code, &refused.why, None);
    body::json(gate, StatusCode::BAD_REQUEST, envelope::write_response(refused.id.as_ref(), Err(&error)))
}

/// A JSON body, whole, within the limits of size and time.
async fn received(gate: &Gate, map: &HeaderMap, body: &mut Body) -> Result<Bytes, Response<Body>> {
    if !headers::is_json(map) {
        return Err(body::refusal(
            gate,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json",
        ));
    }
    read(gate, map, body, gate.rules.request_bytes).await
}

/// The whole body, of `limit` bytes at most, in time.
pub async fn read(
    gate: &Gate,
    map: &HeaderMap,
    body: &mut Body,
    limit: usize,
) -> Result<Bytes, Response<Body>> {
    let length = map.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|n| n > limit as u64) {
        return Err(too_large(gate, limit));
    }
    let mut whole = pin!(collected(Limited::new(body, limit)));
    // Most come with their head: then there is nothing to wait for, and no timer to set.
    let read = match poll!(&mut whole) {
        Poll::Ready(read) => Ok(read),
        Poll::Pending => tokio::time::timeout(gate.rules.body_read, whole).await,
    };
    match read {
        Ok(Ok(whole)) => Ok(whole),
        Ok(Err(e)) if e.is::<LengthLimitError>() => Err(too_large(gate, limit)),
        Ok(Err(_)) => Err(body::refusal(gate, StatusCode::BAD_REQUEST, "the body broke off")),
        Err(_) => {
            let why = "the body did not arrive in time";
            let mut late = body::refusal(gate, StatusCode::REQUEST_TIMEOUT, why);
            late.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            Err(late)
        }
    }
}

/// A body that is no larger is copied out of the buffer that it came in, which the connection can then use again at once.
const COPIED: usize = 2 << 10;

/// The whole of a body. One that came in one piece, and is not small, is not copied.
async fn collected(mut body: Limited<&mut Body>) -> Result<Bytes, BoxError> {
    let Some(first) = data(&mut body).await? else { return Ok(Bytes::new()) };
    let Some(second) = data(&mut body).await? else {
        return Ok(if first.len() <= COPIED { Bytes::copy_from_slice(&first) } else { first });
    };
    let mut whole = BytesMut::from(first);
    whole.extend_from_slice(&second);
    while let Some(more) = data(&mut body).await? {
        whole.extend_from_slice(&more);
    }
    Ok(whole.freeze())
}

/// The next piece of a body; `None` at its end.
async fn data(body: &mut Limited<&mut Body>) -> Result<Option<Bytes>, BoxError> {
    loop {
        match body.frame().await.transpose()?.map(Frame::into_data) {
            Some(Ok(data)) => return Ok(Some(data)),
            // Trailers.
            Some(Err(_)) => {}
            None => return Ok(None),
        }
    }
}

/// What of a body is read before a request is refused: so many times the limit, for so long.
const READ_OFF: usize = 8;
const READ_OFF_TIME: Duration = Duration::from_secs(5);

/// Reads on and keeps nothing; whether that was all. A connection that closes while bytes of the client are unread is reset, and a client that
/// writes all before it reads, as most do, would never see why (RFC 9112 9.6).
async fn read_off(body: Body, limit: usize) -> bool {
    let mut rest = Limited::new(body, limit.saturating_mul(READ_OFF));
    let all = async {
        loop {
            match rest.frame().await {
                Some(Ok(_)) => {}
                Some(Err(_)) => return false,
                None => return true,
            }
        }
    };
    tokio::time::timeout(READ_OFF_TIME, all).await.unwrap_or(false)
}

fn too_large(gate: &Gate, limit: usize) -> Response<Body> {
    body::refusal(gate, StatusCode::PAYLOAD_TOO_LARGE, &format!("the body is larger than {limit} bytes"))
}

/// The client's headers that the configuration forwards to some upstream.
pub fn forwarded(gate: &Gate, map: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let wanted = gate.rules.forward.iter();
    wanted.flat_map(|name| map.get_all(name).iter().map(|value| (name.clone(), value.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_answer_under_each_path_with_and_without_the_slash() {
        let public = Some("/plasm/mcp");
        let table = [
            ("/mcp", Place::Endpoint("")),
            ("/mcp/", Place::Endpoint("")),
            ("/mcp/dev", Place::Endpoint("dev")),
            ("/mcp/dev/", Place::Endpoint("dev")),
            ("/plasm/mcp", Place::Endpoint("")),
            ("/plasm/mcp/dev", Place::Endpoint("dev")),
            ("/plasm/mcp/dev/sse", Place::Sse("dev")),
            ("/mcp/sse", Place::Sse("")),
            ("/mcp/message", Place::Message("")),
            ("/mcp/dev/message", Place::Message("dev")),
            ("/sse", Place::Sse("")),
            ("/message", Place::Message("")),
            ("/health", Place::Health),
            ("/mcpx", Place::Nowhere),
            ("/", Place::Nowhere),
            ("", Place::Nowhere),
            ("/mcp/a/b/c", Place::Nowhere),
            ("/mcp//dev", Place::Nowhere),
            ("//mcp/dev", Place::Nowhere),
        ];
        for (path, want) in table {
            assert_eq!(place(public, path), want, "{path}");
        }
        assert_eq!(place(None, "/plasm/mcp"), Place::Nowhere);
    }
}
