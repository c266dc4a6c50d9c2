//! The HTTP+SSE edge (2024-11-05): one stream a session, which `GET …/sse` opens and all answers go to, and
//! `POST …/message` beside it. Every reply says that the transport is deprecated.

use super::gate::{Gate, Mount};
use super::legacy::exchange;
use super::legacy::hello;
use super::legacy::peer::{self, Peer};
use super::legacy::{self, standing, streams};
use super::{body, http as requests, limited};
use crate::http1::{self, Fields};
use crate::mcp::{Access, Client};
use crate::session::{ChangeError, OpenError, Transport};
use crate::wire::envelope::Body as Content;
use crate::wire::sse::{self, SseEvent};
use crate::wire::{Message, Method, Request, Version, code, envelope, headers};
use axum::body::Body;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// When the transport was superseded (RFC 9745: seconds since 1970), and when it may go (RFC 8594).
const DEPRECATED: HeaderValue = HeaderValue::from_static("@1742947200");
const SUNSET: HeaderValue = HeaderValue::from_static("Fri, 31 Dec 2027 23:59:59 GMT");
const MIGRATION: HeaderValue = HeaderValue::from_static(
    "<https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#backwards-compatibility>; rel=\"deprecation\"",
);

/// How often the pod of a stream looks for calls that were lost on others.
const LOOK: Duration = Duration::from_secs(10);

/// Opens the stream, and the session with it.
pub async fn open(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    head: &http1::Request,
) -> Response<Body> {
    deprecated(stream(gate, mount, access, head).await)
}

async fn stream(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    head: &http1::Request,
) -> Response<Body> {
    let fields = &head.fields;
    if !headers::accepts(fields.map(), "text", "event-stream") {
        return body::refusal(&gate, StatusCode::NOT_ACCEPTABLE, "Accept must admit text/event-stream");
    }
    // What the client says of itself comes later, in `initialize`.
    let client = Client { user_agent: peer::user_agent(fields), ..Client::default() };
    let version = Version::V2024_11_05;
    let session = match hello::open(&gate, &mount, &access, version, client, Transport::Sse).await {
        Ok(session) => session,
        Err(OpenError::Away(_) | OpenError::TooLarge(_)) => return peer::store_away(&gate, None),
    };
    let endpoint = SseEvent {
        event: Some("endpoint".to_owned()),
        data: endpoint(head.target.path(), session.session_id().as_str()),
        ..SseEvent::default()
    };
    let listener = session.listen_without_ids().announced().await;
    let peer = Peer::holding(&gate, &mount, access, fields, session);
    gate.tasks.spawn(attend_when_begun(peer.clone(), fields.clone()));
    gate.tasks.spawn(tell_of_lost(peer.clone()));
    streams::sse(&peer, sse::write(&endpoint), listener)
}

/// What concerns the session reaches its stream from when the client has been welcomed, by way of any pod.
async fn attend_when_begun(peer: Peer, fields: Fields) {
    let Some(session) = peer.session.clone() else { return };
    let mut open = session.listeners();
    tokio::select! {
        () = session.begun() => {
            standing::attend(&Peer::holding(&peer.gate, &peer.mount, peer.caller.access.clone(), &fields, session.clone()));
        }
        _ = open.wait_for(|open| *open == 0) => {}
        () = session.ended().cancelled() => {}
    }
}

/// Says what became of calls that ran on a pod that is lost, while the stream is open.
async fn tell_of_lost(peer: Peer) {
    let Some(session) = peer.session.clone() else { return };
    let mut open = session.listeners();
    let mut suspects = HashSet::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = open.wait_for(|open| *open == 0) => return,
            () = session.ended().cancelled() => return,
        }
        for noted in session.lost_pending(&mut suspects).await {
            exchange::say_lost(&peer, &session, &noted).await;
        }
    }
}

/// Where messages are sent: beside the stream, as the client knows it.
fn endpoint(path: &str, session: &str) -> Bytes {
    let path = path.strip_suffix('/').unwrap_or(path);
    let base = path.strip_suffix("sse").unwrap_or(path);
    format!("{base}message?session_id={session}").into()
}

/// Takes a message of a session; its answer goes to the session's stream.
pub async fn message(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    head: &http1::Request,
    text: Bytes,
) -> Response<Body> {
    deprecated(take(gate, mount, access, head, text).await)
}

async fn take(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    head: &http1::Request,
    text: Bytes,
) -> Response<Body> {
    let Some(name) = session_named(head.target.query().unwrap_or_default()) else {
        let why = "session_id is required; it is in the endpoint event of the stream";
        return peer::refused(&gate, StatusCode::BAD_REQUEST, None, code::INVALID_REQUEST, why);
    };
    let peer =
        match Peer::of(gate.clone(), mount.clone(), access.clone(), &head.fields, name, Transport::Sse, None)
            .await
        {
            Ok(peer) => peer,
            Err(refusal) => return refusal,
        };
    let (requests, ready) = match envelope::read_body(text, gate.rules.depth) {
        Ok(Content::One(Message::Request(request))) => (vec![request], Vec::new()),
        Ok(Content::One(Message::Response(response))) => {
            peer.touch().await;
            return legacy::answered(&peer, response).await;
        }
        Ok(Content::One(message)) => legacy::unpack(&peer, vec![Ok(message)]).await,
        Ok(Content::Batch(batch)) if peer.caller.version.has_batches() => legacy::unpack(&peer, batch).await,
        Ok(Content::Batch(_)) => {
            let why = "batches are of protocol version 2025-03-26 alone; send one message";
            return peer::refused(&gate, StatusCode::BAD_REQUEST, None, code::INVALID_REQUEST, why);
        }
        Err(refused) => return requests::malformed(&gate, &refused),
    };
    if let Err(refusal) = limited::ask_for(&gate, &mount, &access, &requests).await {
        return refusal;
    }
    if !matches!(&requests[..], [request] if request.method == Method::Initialize) {
        peer.touch().await;
    }
    let Some(session) = peer.session.clone() else { return peer::not_found(&gate, None) };
    if !requests.is_empty() && session.reach().await.is_err() {
        // Its answer would have no way to the stream.
        return peer::store_away(&gate, requests.first().map(|request| &request.id));
    }
    match &requests[..] {
        [request] if request.method == Method::Initialize => begin(peer, &head.fields, request).await,
        [] if ready.is_empty() => body::empty(&gate, StatusCode::ACCEPTED),
        _ => {
            exchange::answer_on_stream(peer, session, requests.into(), ready);
            body::empty(&gate, StatusCode::ACCEPTED)
        }
    }
}

/// `initialize`, in a session that its stream began.
async fn begin(peer: Peer, fields: &Fields, request: &Request) -> Response<Body> {
    let Some(session) = peer.session.clone() else { return peer::not_found(&peer.gate, None) };
    let (version, client) = match hello::read(&request.params, fields, &request.id) {
        Ok(read) => read,
        Err(message) => {
            session.put(message).await;
            return body::empty(&peer.gate, StatusCode::ACCEPTED);
        }
    };
    let gate = peer.gate.clone();
    match session.describe(version, &client).await {
        Ok(()) => {}
        Err(ChangeError::Away(_)) => return peer::store_away(&gate, None),
        Err(ChangeError::Ended) => return peer::not_found(&gate, None),
        Err(ChangeError::TooLarge(why)) => {
            let why = why.to_string();
            return peer::refused(
                &gate,
                StatusCode::BAD_REQUEST,
                Some(&request.id),
                code::INVALID_PARAMS,
                &why,
            );
        }
    }
    let (peer, id, params) = (
        Peer::holding(&gate, &peer.mount, peer.caller.access.clone(), fields, session.clone()),
        request.id.clone(),
        request.params.clone(),
    );
    gate.tasks.spawn(async move {
        session.put(hello::answer(&peer, &id, &params).await.1).await;
    });
    body::empty(&gate, StatusCode::ACCEPTED)
}

/// `session_id` of a query, or `sessionId`, as other servers write it. Ours needs no unescaping.
fn session_named(query: &str) -> Option<&str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| matches!(*key, "session_id" | "sessionId")).map(|(_, value)| value)
}

fn deprecated(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("deprecation"), DEPRECATED);
    headers.insert(HeaderName::from_static("sunset"), SUNSET);
    headers.append(http::header::LINK, MIGRATION);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_sent_beside_the_stream() {
        for (path, want) in [
            ("/sse", "/message?session_id=s"),
            ("/mcp/sse/", "/mcp/message?session_id=s"),
            ("/plasm/mcp/dev/sse", "/plasm/mcp/dev/message?session_id=s"),
        ] {
            assert_eq!(endpoint(path, "s"), want);
        }
        assert_eq!(session_named("a=b&session_id=x"), Some("x"));
        assert_eq!(session_named("sessionId=y"), Some("y"));
        assert_eq!(session_named("session_idx=y"), None);
    }
}
