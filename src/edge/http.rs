//! One HTTP request: where it goes, whether it is admitted, what era it is.

use super::era::{self, Taken};
use super::gate::{Gate, Mount};
use super::given::Given;
use super::legacy::exchange::Takes;
use super::legacy::peer::Peer;
use super::modern_headers::Misformed;
use super::said::{Came, Said};
use super::{body, guard, legacy, limited, modern, seen};
use crate::auth::Denied;
use crate::http1::{Fields, Request};
use crate::limits::Admitted;
use crate::mcp::Access;
use crate::policy::Admission;
use crate::wire::envelope::Body as Content;
use crate::wire::headers::Accepted;
use crate::wire::{Message, Refused, code, envelope};
use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, Either, Ready, ready};
use futures_util::{FutureExt, poll};
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method as Verb, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Limited};
use std::future::Future;
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

/// What is done about a request, once all that its head says was asked.
enum Way {
    /// It is refused, and no page may read why.
    Refused(Response<Body>),
    Answered(Response<Body>),
    /// A page beside MCP.
    Page,
    /// A call is to be made, and its answer told what is left of the caller's limits.
    Call(Next, Option<Box<Admitted>>),
}

/// A call that is to be made. Nothing of the request's head is needed for it.
pub enum Next {
    Modern(modern::Asked),
    Legacy(Peer, Takes, Message),
}

/// Answers any request on the public listener.
pub async fn serve(gate: Arc<Gate>, head: Request, mut body: Body, peer: SocketAddr) -> Given {
    let came = Came { head: &head, said: Said::of(&head.fields), peer };
    let origin = came.said.origin();
    // Such a client sends its body once it is given leave, which reading would give.
    let waits = came.said.expects();
    let limit = gate.rules.request_bytes;
    let mut response = match way(&gate, &came, &mut body).await {
        Way::Refused(response) => response,
        Way::Answered(response) => guard::cors(origin, response),
        Way::Page => Box::pin(super::site::answer(gate, head, &mut body)).await,
        Way::Call(next, told) => {
            // What is a part of the connection's buffer is not kept while the call runs.
            drop(head);
            let given = match next {
                Next::Modern(asked) => modern::respond(&gate, asked).await,
                Next::Legacy(peer, takes, message) => legacy::take(peer, takes, message).await,
            };
            if matches!(given, Given::Plain { .. }) && told.is_none() && origin.is_none() {
                return given;
            }
            let mut response = given.into_response(&gate);
            limited::told(told, response.headers_mut());
            guard::cors(origin, response)
        }
    };
    let refused = response.status().is_client_error() && response.status() != StatusCode::REQUEST_TIMEOUT;
    if refused && !body.is_end_stream() && (waits || !Box::pin(read_off(body, limit)).await) {
        // There may be more of the body still: the connection cannot serve another request.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response.into()
}

async fn way(gate: &Arc<Gate>, came: &Came<'_>, body: &mut Body) -> Way {
    let Came { head, said, peer } = came;
    let authority = head.target.authority().map(|authority| authority.as_str());
    if let Err((status, why)) = guard::admit_host(&gate.rules, said, authority) {
        return Way::Refused(body::refusal(gate, status, why));
    }
    if !gate.site.is_empty() && gate.site.find(head.target.path()).is_some() {
        return match limited::too_many_strangers(gate, *peer, head.fields.map()) {
            Some(refusal) => Way::Refused(refusal),
            None => Way::Page,
        };
    }
    if said.origin().is_some()
        && let Err((status, why)) = guard::admit_origin(&gate.rules, head.fields.map())
    {
        return Way::Refused(body::refusal(gate, status, why));
    }
    let place = place(gate.rules.public_path.as_deref(), head.target.path());
    if let (Place::Endpoint(profile), &Verb::POST) = (&place, &head.method)
        && let Some(mount) = gate.mount(profile)
    {
        let shown = head.fields.all(&header::AUTHORIZATION);
        return match gate.auth.admit(&mount.name, head.target.path(), shown).await {
            Ok(access) => match mount.door.admit(&access) {
                Admission::In => post(gate, mount, access, said, body).await,
                refused => Way::Answered(kept_out(gate, &mount, &access, refused, head.fields.map())),
            },
            Err(denied) => Way::Answered(denied_to(gate, denied, profile, *peer, head.fields.map())),
        };
    }
    // What is not sent all the time is kept out of the future that every request moves about.
    Way::Answered(Box::pin(route_other(gate, came, body)).await)
}

async fn route_other(gate: &Arc<Gate>, came: &Came<'_>, body: &mut Body) -> Response<Body> {
    let Came { head, said, peer } = came;
    let place = place(gate.rules.public_path.as_deref(), head.target.path());
    let profile = match place {
        Place::Health if head.method == Verb::GET => return health(gate),
        Place::Health => return not_allowed(gate, "GET"),
        Place::Nowhere => {
            return body::refusal(gate, StatusCode::NOT_FOUND, "no such endpoint; MCP is at /mcp");
        }
        Place::Endpoint(profile) | Place::Sse(profile) | Place::Message(profile) => profile,
    };
    if head.method == Verb::OPTIONS {
        let mut response = body::empty(gate, StatusCode::NO_CONTENT);
        guard::preflight(head.fields.map(), response.headers_mut());
        return response;
    }
    let Some(mount) = gate.mount(profile) else {
        return no_such_profile(gate);
    };
    let shown = head.fields.all(&header::AUTHORIZATION);
    let access = match gate.auth.admit(&mount.name, head.target.path(), shown).await {
        Ok(access) => access,
        Err(denied) => return denied_to(gate, denied, profile, *peer, head.fields.map()),
    };
    match mount.door.admit(&access) {
        Admission::In => {}
        refused => return kept_out(gate, &mount, &access, refused, head.fields.map()),
    }
    if head.method == Verb::GET
        && let Err(refusal) = limited::ask_to_listen(gate, &mount, &access).await
    {
        return refusal;
    }
    let stateless = gate.rules.stateless;
    match (place, head.method.clone()) {
        (Place::Sse(_) | Place::Message(_), _) if stateless => {
            let why = "HTTP+SSE needs a session, and none is kept here; MCP is at /mcp";
            body::refusal(gate, StatusCode::NOT_FOUND, why)
        }
        (Place::Endpoint(_), verb) if stateless && verb != Verb::POST => not_allowed(gate, "POST"),
        (Place::Endpoint(_), Verb::GET) => legacy::get(gate.clone(), mount, access, said).await,
        (Place::Endpoint(_), Verb::DELETE) => legacy::delete(gate.clone(), mount, access, said).await,
        (Place::Endpoint(_), _) => not_allowed(gate, "GET, POST, DELETE"),
        (Place::Sse(_), Verb::GET) => super::http_sse::open(gate.clone(), mount, access, head).await,
        (Place::Message(_), Verb::POST) => match received(gate, said, body).await {
            Ok(text) => super::http_sse::message(gate.clone(), mount, access, head, text).await,
            Err(refusal) => refusal,
        },
        (Place::Sse(_), _) => not_allowed(gate, "GET"),
        (_, _) => not_allowed(gate, "POST"),
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
    // What nearly all ask for, whatever the public path is.
    if path == "/mcp" {
        return Place::Endpoint("");
    }
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
    gate: &Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    said: &Said<'_>,
    body: &mut Body,
) -> Way {
    let accepted = said.accepted();
    if let Accepted { json: false, stream: false } = accepted {
        let why = "Accept must admit application/json and text/event-stream";
        return Way::Answered(body::refusal(gate, StatusCode::NOT_ACCEPTABLE, why));
    }
    if let Some(refusal) = limited::refused_unread(gate, &mount, &access, said) {
        return Way::Answered(refusal);
    }
    let text = match received(gate, said, body).await {
        Ok(text) => text,
        Err(refusal) => return Way::Answered(refusal),
    };
    let content = match envelope::read_body(text, gate.rules.depth) {
        Ok(content) => content,
        Err(refused) => return Way::Answered(malformed(gate, &refused)),
    };
    let told = match gate.limits {
        None => None,
        Some(_) => match Box::pin(limited::ask(gate, &mount, &access, &content)).await {
            Ok(admitted) => admitted,
            Err(refusal) => return Way::Answered(refusal),
        },
    };
    match take(gate, mount, access, said, accepted, content).await {
        Ok(next) => Way::Call(next, told),
        Err(mut response) => {
            limited::told(told, response.headers_mut());
            Way::Answered(response)
        }
    }
}

/// What is known at once, mostly, and else has to be waited for. A future for both would be moved with every request.
pub type Soon<'a, T> = Either<Ready<T>, BoxFuture<'a, T>>;

pub fn now<'a, T>(known: T) -> Soon<'a, T> {
    Either::Left(ready(known))
}

pub fn later<'a, T>(known: impl Future<Output = T> + Send + 'a) -> Soon<'a, T> {
    Either::Right(known.boxed())
}

/// Takes what was read by the era that it is of: the call that it asks for, or the answer to what is none.
fn take<'a>(
    gate: &'a Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    said: &'a Said<'_>,
    accepted: Accepted,
    content: Content,
) -> Soon<'a, Result<Next, Response<Body>>> {
    let message = match content {
        Content::One(message) => message,
        Content::Batch(batch) => {
            return later(async move { Err(legacy::batch(gate, mount, access, said, batch).await) });
        }
    };
    let (method, params) = match &message {
        Message::Request(r) => (Some(&r.method), Some(&r.params)),
        Message::Notification(n) => (Some(&n.method), Some(&n.params)),
        Message::Response(_) => (None, None),
    };
    match era::decide(said, method, params, !gate.rules.stateless) {
        Taken::Modern => modern::asked(gate, mount, &access, said, accepted.stream, message),
        Taken::ModernWithoutMeta => {
            let why = format!("_meta must carry {:?}", crate::wire::meta::VERSION);
            let fault = Misformed { code: code::INVALID_PARAMS, why, data: None };
            now(Err(modern::misformed(gate, id_of(&message), fault)))
        }
        Taken::BadVersion => {
            let why = "MCP-Protocol-Version names no version that is known here".into();
            let refused = Refused { id: id_of(&message).cloned(), code: code::INVALID_REQUEST, why };
            now(Err(malformed(gate, &refused)))
        }
        Taken::Handshake => {
            later(
                async move { Err(legacy::initialize(gate.clone(), mount, access, said.fields, message).await) },
            )
        }
        Taken::Session => legacy::named(gate, mount, access, said, legacy::takes(accepted, false), message),
        Taken::Sessionless(version) => {
            let peer = legacy::unnamed(gate, &mount, access, said.fields, version, &message);
            now(peer.map(|peer| Next::Legacy(peer, legacy::takes(accepted, false), message)))
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
async fn received(gate: &Gate, said: &Said<'_>, body: &mut Body) -> Result<Bytes, Response<Body>> {
    if !said.is_json() {
        return Err(body::refusal(
            gate,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json",
        ));
    }
    read(gate, said.length(), body, gate.rules.request_bytes).await
}

/// The whole body, of `limit` bytes at most, in time. `length`: what it was announced to have.
pub async fn read(
    gate: &Gate,
    length: Option<u64>,
    body: &mut Body,
    limit: usize,
) -> Result<Bytes, Response<Body>> {
    if length.is_some_and(|n| n > limit as u64) {
        return Err(too_large(gate, limit));
    }
    let mut whole = pin!(collected(body, limit));
    // Most come with their head: then there is nothing to wait for, and no timer to set.
    let read = match poll!(&mut whole) {
        Poll::Ready(read) => Ok(read),
        // In a box, as is else what is seldom: the future is moved with every request.
        Poll::Pending => Box::pin(tokio::time::timeout(gate.rules.body_read, whole)).await,
    };
    match read {
        Ok(Ok(whole)) => Ok(whole),
        Ok(Err(Broken::TooLarge)) => Err(too_large(gate, limit)),
        Ok(Err(Broken::Off)) => Err(body::refusal(gate, StatusCode::BAD_REQUEST, "the body broke off")),
        Err(_) => {
            let why = "the body did not arrive in time";
            let mut late = body::refusal(gate, StatusCode::REQUEST_TIMEOUT, why);
            late.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            Err(late)
        }
    }
}

/// A body that is no larger is copied out of a buffer that it shares, which the connection can then use again at once.
const COPIED: usize = 2 << 10;

/// Why there is no whole body.
enum Broken {
    TooLarge,
    Off,
}

/// The whole of a body. One that came in one piece, and is not small, is not copied.
async fn collected(body: &mut Body, limit: usize) -> Result<Bytes, Broken> {
    let Some(first) = data(body, limit).await? else { return Ok(Bytes::new()) };
    let second = match body.is_end_stream() {
        true => None,
        false => data(body, limit - first.len()).await?,
    };
    let Some(second) = second else {
        let copied = first.len() <= COPIED && !first.is_unique();
        return Ok(if copied { Bytes::copy_from_slice(&first) } else { first });
    };
    let mut whole = BytesMut::from(first);
    whole.extend_from_slice(&second);
    while let Some(more) = data(body, limit - whole.len()).await? {
        whole.extend_from_slice(&more);
    }
    Ok(whole.freeze())
}

/// The next piece of a body, of `most` bytes; `None` at its end.
async fn data(body: &mut Body, most: usize) -> Result<Option<Bytes>, Broken> {
    loop {
        let Some(frame) = body.frame().await else { return Ok(None) };
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) if data.len() > most => return Err(Broken::TooLarge),
            Ok(Ok(data)) => return Ok(Some(data)),
            // Trailers.
            Ok(Err(_)) => {}
            Err(_) => return Err(Broken::Off),
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
pub fn forwarded(gate: &Gate, fields: &Fields) -> Vec<(HeaderName, HeaderValue)> {
    // Most want none.
    if gate.rules.forward.is_empty() {
        return Vec::new();
    }
    let (wanted, map) = (gate.rules.forward.iter(), fields.map());
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
