//! The legacy HTTP edge (2025-11-25 and older Streamable HTTP): sessions begun by `initialize`, answers as JSON or as
//! streams that can be resumed, and clients that name no session.

pub mod exchange;
pub mod hello;
pub mod peer;
mod running;
pub mod standing;
pub mod streams;
mod ways;

use super::body;
use super::dispatch;
use super::era;
use super::gate::{Gate, Mount};
use super::given::Given;
use super::http::{self as requests, Next, Soon};
use super::said::Said;
use crate::http1::Fields;
use crate::mcp::{Access, Note, Session as _};
use crate::session::{Answered, Deleted, Ended, Resumed, Transport};
use crate::telemetry::{evidence, metrics};
use crate::wire::headers::Accepted;
use crate::wire::{
    self, Id, Message, Method, Notification, Refused, Request, Version, code, envelope, headers,
};
use axum::body::Body;
use bytes::Bytes;
use exchange::{Answer, Takes};
use http::{Response, StatusCode};
use peer::Peer;
use std::sync::Arc;
use tokio::time::MissedTickBehavior;

pub use hello::initialize;

/// The call of a message that names a session. Error: the answer where there is no such session.
pub fn named<'a>(
    gate: &'a Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    said: &'a Said<'_>,
    takes: Takes,
    message: Message,
) -> Soon<'a, Result<Next, Response<Body>>> {
    let name = said.session().ok().flatten().unwrap_or_default();
    let peer = move |found, mount, access, message: &Message| {
        Peer::found(gate.clone(), mount, access, said.fields, found, Transport::Streamable, id_of(message))
    };
    let Some(found) = gate.sessions.at_hand(name, &access.principal, &mount.name) else {
        return requests::later(async move {
            let found = gate.sessions.find(name, &access.principal, &mount.name).await;
            used(peer(found, mount, access, &message)?, takes, message).await
        });
    };
    match peer(found, mount, access, &message) {
        Ok(peer) if is_initialized(&message) || !peer.is_to_be_touched() => {
            requests::now(Ok(Next::Legacy(peer, takes, message)))
        }
        Ok(peer) => requests::later(used(peer, takes, message)),
        Err(refusal) => requests::now(Err(refusal)),
    }
}

/// A message counts as a use of its session, unless it ends the handshake.
async fn used(peer: Peer, takes: Takes, message: Message) -> Result<Next, Response<Body>> {
    if !is_initialized(&message) {
        peer.touch().await;
    }
    Ok(Next::Legacy(peer, takes, message))
}

/// Who sends a message without a session, for clients that send their session's id never back. Error: the answer where they are
/// not served.
pub fn unnamed(
    gate: &Arc<Gate>,
    mount: &Arc<Mount>,
    access: Arc<Access>,
    fields: &Fields,
    version: Version,
    message: &Message,
) -> Result<Peer, Response<Body>> {
    match gate.rules.sessionless {
        true => Ok(Peer::without(gate, mount, access, fields, version)),
        false => Err(session_required(gate, id_of(message))),
    }
}

/// Answers a message.
pub async fn take(peer: Peer, takes: Takes, message: Message) -> Given {
    match message {
        Message::Request(request) => {
            // A client that opens its stream and calls at once counts on hearing what the call brings about.
            if let Some(session) = peer.session.as_ref().filter(|session| session.is_deaf_yet())
                && matches!(request.method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead)
            {
                Box::pin(session.heard_at_all()).await;
            }
            let answer = exchange::answer_one(&peer, request, takes).await;
            respond(&peer, answer)
        }
        Message::Notification(note) => {
            notified(&peer, note);
            body::empty(&peer.gate, StatusCode::ACCEPTED).into()
        }
        Message::Response(response) => Box::pin(answered(&peer, response)).await.into(),
    }
}

/// The client's answer to a request of ours.
pub async fn answered(peer: &Peer, response: wire::Response) -> Response<Body> {
    let answered = match &peer.session {
        Some(session) => session.answer(response).await,
        None => Answered::Unknown,
    };
    let why = match answered {
        Answered::Delivered => return body::empty(&peer.gate, StatusCode::ACCEPTED),
        Answered::Away => return peer::store_away(&peer.gate, None),
        Answered::Unknown => "the response answers no request of this session that waits for an answer",
        Answered::Lost => "the call that asked was lost; its stream says so",
    };
    peer::refused(&peer.gate, StatusCode::BAD_REQUEST, None, code::INVALID_REQUEST, why)
}

/// A batch, which only 2025-03-26 has; each member is taken by itself.
pub async fn batch(
    gate: &Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    said: &Said<'_>,
    batch: Vec<Result<Message, Refused>>,
) -> Response<Body> {
    let Ok(version) = era::version_header(said) else { return bad_version(gate) };
    let peer = if !gate.rules.stateless && said.has_session() {
        match Peer::named(gate.clone(), mount, access, said, None).await {
            Ok(peer) => peer,
            Err(refusal) => return refusal,
        }
    } else if gate.rules.sessionless {
        Peer::without(gate, &mount, access, said.fields, version.unwrap_or(Version::UNSAID))
    } else {
        return session_required(gate, None);
    };
    if !peer.caller.version.has_batches() {
        let why = "batches are of protocol version 2025-03-26 alone; send one message";
        return peer::refused(gate, StatusCode::BAD_REQUEST, None, code::INVALID_REQUEST, why);
    }
    peer.touch().await;
    let (requests, ready) = unpack(&peer, batch).await;
    if requests.is_empty() && ready.is_empty() {
        return body::empty(gate, StatusCode::ACCEPTED);
    }
    let answer = exchange::answer(&peer, requests.into(), ready, takes(said.accepted(), true)).await;
    respond(&peer, answer).into_response(gate)
}

/// The requests of a batch, and the answers to what is none. Notifications and responses are taken on the way.
pub async fn unpack(peer: &Peer, batch: Vec<Result<Message, Refused>>) -> (Vec<Request>, Vec<Bytes>) {
    let (mut requests, mut ready) = (Vec::new(), Vec::new());
    for member in batch {
        match member {
            Ok(Message::Request(request)) => match misplaced(&request) {
                None => requests.push(request),
                Some(why) => ready.push(error(Some(&request.id), code::INVALID_REQUEST, why)),
            },
            Ok(Message::Notification(note)) => notified(peer, note),
            // The batch has one status, so an answer that nobody waits for cannot be refused by itself.
            Ok(Message::Response(response)) => drop(answered(peer, response).await),
            Err(refused) => ready.push(error(refused.id.as_ref(), refused.code, &refused.why)),
        }
    }
    (requests, ready)
}

/// What may not be part of a batch.
fn misplaced(request: &Request) -> Option<&'static str> {
    if request.method == Method::Initialize {
        return Some("initialize may not be part of a batch");
    }
    let modern = request.params.meta.as_ref().is_some_and(|meta| meta.is_modern());
    modern.then_some("a request of protocol version 2026-07-28 stands alone")
}

fn error(id: Option<&Id>, code: i32, why: &str) -> Bytes {
    envelope::write_response(id, Err(&super::answer::error_object(code, why, None)))
}

/// A session's stream from us, or the rest of a stream that broke.
pub async fn get(gate: Arc<Gate>, mount: Arc<Mount>, access: Arc<Access>, said: &Said<'_>) -> Response<Body> {
    if !said.has_session() {
        // At once: clients that never had a session go on without the stream.
        return requests::not_allowed(&gate, "POST");
    }
    if era::version_header(said).is_err() {
        return bad_version(&gate);
    }
    if !headers::accepts(said.map(), "text", "event-stream") {
        return body::refusal(&gate, StatusCode::NOT_ACCEPTABLE, "Accept must admit text/event-stream");
    }
    let peer = match Peer::named(gate.clone(), mount, access, said, None).await {
        Ok(peer) => peer,
        Err(refusal) => return refusal,
    };
    peer.touch().await;
    let Some(session) = &peer.session else { return peer::not_found(&gate, None) };
    let last = said.map().get(&headers::LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default());
    let listener = match last.filter(|id| !id.is_empty()).map(|id| session.resume(id)) {
        Some(Some(Resumed::Answer(follower))) => return streams::resumed(&peer, follower),
        Some(Some(Resumed::Standing(listener))) => listener,
        Some(None) => {
            let why = "Last-Event-ID names no event of this session";
            return peer::refused(&gate, StatusCode::BAD_REQUEST, None, code::INVALID_REQUEST, why);
        }
        None => session.listen(),
    };
    let listener = listener.announced().await;
    standing::attend(&peer);
    streams::standing(&peer, listener)
}

/// Ends a session.
pub async fn delete(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    said: &Said<'_>,
) -> Response<Body> {
    if !said.has_session() {
        return session_required(&gate, None);
    }
    if era::version_header(said).is_err() {
        return bad_version(&gate);
    }
    let name = said.session().ok().flatten().unwrap_or_default();
    // In a task of its own: a client that goes away at once must not leave open upstream what nobody else can end.
    let deleting = {
        let (gate, name) = (gate.clone(), name.to_owned());
        async move {
            match gate.sessions.delete(&name, &access.principal, &mount.name).await {
                Deleted::Ended(ended) => {
                    metrics().sessions.with_label_values(&["deleted"]).inc();
                    end_upstream(&gate, ended);
                    body::empty(&gate, StatusCode::NO_CONTENT)
                }
                Deleted::Unknown => peer::not_found(&gate, None),
                Deleted::Away => peer::store_away(&gate, None),
            }
        }
    };
    // It does not panic, and is not aborted while there is a runtime.
    gate.tasks.spawn(deleting).await.unwrap_or_else(|_| peer::store_away(&gate, None))
}

/// Ends what was open upstream for a session that has ended. The client need not wait for it.
pub fn end_upstream(gate: &Arc<Gate>, ended: Arc<Ended>) {
    evidence::closed(ended.key());
    if let Some(mount) = gate.mount(ended.profile()) {
        gate.tasks.spawn(async move { mount.backend.end(ended).await });
    }
}

/// Ends upstream what sessions that are over had opened, until the pod drains. Each is ended by one pod.
pub async fn sweep(gate: Arc<Gate>) {
    let mut beat = tokio::time::interval(gate.sessions.sweep_every());
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = beat.tick() => {}
            () = gate.lifecycle.draining.cancelled() => return,
        }
        let end = |ended: Arc<Ended>| {
            let mount = gate.mount(ended.profile());
            async move {
                metrics().sessions.with_label_values(&["expired"]).inc();
                evidence::closed(ended.key());
                if let Some(mount) = mount {
                    mount.backend.end(ended).await;
                }
            }
        };
        if gate.sessions.sweep(end).await.is_err() {
            tracing::debug!("sessions that are over were not looked for: the store is away");
        }
    }
}

/// A notification of the client.
pub fn notified(peer: &Peer, note: Notification) {
    let Some(session) = &peer.session else { return };
    match note.method {
        Method::Cancelled => {
            if let Some(id) = note.params.token(&note.params.request_id) {
                if peer.gate.rules.shared {
                    let session = session.clone();
                    peer.gate.tasks.spawn(async move {
                        let came_to = session.cancel_everywhere(&id).await;
                        tracing::debug!(?came_to, "the client cancelled a call");
                    });
                } else {
                    let came_to = session.cancel(&id);
                    tracing::debug!(?came_to, "the client cancelled a call");
                }
            }
        }
        Method::RootsChanged => {
            let (mount, caller, session) = (peer.mount.clone(), peer.caller.clone(), session.clone());
            if session.roots().begin() {
                let note = Note { method: note.method, params: note.params.raw.clone(), at: None };
                peer.gate
                    .tasks
                    .spawn(async move { dispatch::tell(&mount, &caller, note, session.roots()).await });
            }
        }
        // `initialized` needs nothing; others are accepted and not run.
        _ => {}
    }
}

fn respond(peer: &Peer, answer: Answer) -> Given {
    let gate = &peer.gate;
    match answer {
        Answer::Whole(status, message) => Given::json(gate, status, message),
        Answer::Lacking(scopes, message) => body::forbidden(gate, &peer.caller, &scopes, message).into(),
        Answer::Resumable(follower) => streams::answering(peer, follower).into(),
        Answer::Passing(messages) => streams::passing(peer, messages).into(),
        Answer::Nothing => body::empty(gate, StatusCode::ACCEPTED).into(),
    }
}

/// How a client takes answers that accepts this.
pub fn takes(accepted: Accepted, batch: bool) -> Takes {
    let Accepted { json, stream } = accepted;
    Takes { json, stream, batch }
}

fn is_initialized(message: &Message) -> bool {
    matches!(message, Message::Notification(note) if note.method == Method::Initialized)
}

fn session_required(gate: &Gate, id: Option<&Id>) -> Response<Body> {
    let why = "Mcp-Session-Id is required; begin with initialize";
    peer::refused(gate, StatusCode::BAD_REQUEST, id, code::INVALID_REQUEST, why)
}

fn bad_version(gate: &Gate) -> Response<Body> {
    let why = "MCP-Protocol-Version names no version that is known here";
    peer::refused(gate, StatusCode::BAD_REQUEST, None, code::INVALID_REQUEST, why)
}

fn id_of(message: &Message) -> Option<&Id> {
    match message {
        Message::Request(request) => Some(&request.id),
        Message::Response(_) | Message::Notification(_) => None,
    }
}
