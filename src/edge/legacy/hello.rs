//! `initialize`: what a legacy client says of itself, and the session that begins with it.

use super::peer::{self, Peer};
use crate::edge::gate::{Gate, Mount};
use crate::edge::{self, answer, body, dispatch};
use crate::http1::Fields;
use crate::mcp::{Access, Client, Outcome, StoreAway};
use crate::session::{Deleted, LiveSession, OpenError, Transport};
use crate::telemetry::{End, metrics};
use crate::wire::params::Params;
use crate::wire::{Id, Message, Method, Raw, Version, code, envelope, headers};
use axum::body::Body;
use bytes::Bytes;
use http::header::HeaderValue;
use http::{Response, StatusCode};
use std::sync::Arc;

/// What `initialize` says, with the version that it gets. Negotiation goes by the body alone, whatever the headers say.
/// Error: the whole answer.
pub fn read(params: &Params, fields: &Fields, id: &Id) -> Result<(Version, Client), Bytes> {
    let (version, client) = edge::hello::heard(params, id)?;
    Ok((version, Client { user_agent: peer::user_agent(fields), ..client }))
}

/// Begins a session over Streamable HTTP.
pub async fn initialize(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    fields: &Fields,
    message: Message,
) -> Response<Body> {
    let Message::Request(request) = message else { return body::empty(&gate, StatusCode::ACCEPTED) };
    let id = request.id;
    let (version, client) = match read(&request.params, fields, &id) {
        Ok(read) => read,
        Err(message) => return body::json(&gate, StatusCode::OK, message),
    };
    if gate.rules.stateless {
        let (status, message) =
            answer(&Peer::without(&gate, &mount, access, fields, version), &id, &request.params).await;
        return body::json(&gate, status.unwrap_or(StatusCode::OK), message);
    }
    let session = match open(&gate, &mount, &access, version, client, Transport::Streamable).await {
        Ok(session) => session,
        Err(OpenError::Away(_)) => return peer::store_away(&gate, Some(&id)),
        Err(OpenError::TooLarge(why)) => {
            return peer::refused(&gate, StatusCode::OK, Some(&id), code::INVALID_PARAMS, &why.to_string());
        }
    };
    let peer = Peer::holding(&gate, &mount, access, fields, session.clone());
    let (status, message) = answer(&peer, &id, &request.params).await;
    let mut response = body::json(&gate, status.unwrap_or(StatusCode::OK), message);
    if status.is_none() {
        let name = HeaderValue::from_str(session.session_id().as_str());
        response.headers_mut().insert(&headers::SESSION_ID, name.expect("a session's id is visible ASCII"));
    } else {
        // A session that did not begin must not be left for the cap to find.
        let undoing = {
            let (gate, mount, access) = (gate.clone(), mount.clone(), peer.caller.access.clone());
            async move {
                let id = session.session_id().as_str();
                if let Deleted::Ended(ended) = gate.sessions.delete(id, &access.principal, &mount.name).await
                {
                    super::end_upstream(&gate, ended);
                }
            }
        };
        // It answers nothing, and goes on where the client does not wait.
        let _ = gate.tasks.spawn(undoing).await;
    }
    response
}

/// The answer to `initialize`; with a status where it is an error.
pub async fn answer(peer: &Peer, id: &Id, params: &Params) -> (Option<StatusCode>, Bytes) {
    let watch = peer.arrives((&Method::Initialize, params, id));
    let caller = peer.caller.clone();
    let version = caller.version;
    let (outcome, code, status, message) =
        match dispatch::handshake(&*peer.mount.backend, caller, peer.session.is_some()).await {
            Ok(result) => ("ok", None, None, envelope::write_response(Some(id), Ok::<&Raw, &Raw>(&result))),
            Err(fault) => {
                let outcome = Outcome::Error(fault);
                let word = outcome.word(&Method::Initialize);
                let rendered = answer::render(version, &Method::Initialize, outcome);
                let message = envelope::write_response(Some(id), rendered.as_ref());
                (word, rendered.code(), Some(rendered.status), message)
            }
        };
    watch.end(End { outcome, code, bytes: message.len() });
    (status, message)
}

/// Opens a session, and ends upstream those that had to end for it. In a task of its own: a client that goes away at once
/// must not leave open upstream what nobody else can end. Errors: see [`crate::session::Sessions::open`].
pub async fn open(
    gate: &Arc<Gate>,
    mount: &Arc<Mount>,
    access: &Arc<Access>,
    version: Version,
    client: Client,
    transport: Transport,
) -> Result<Arc<LiveSession>, OpenError> {
    let opening = {
        let (gate, mount, access) = (gate.clone(), mount.clone(), access.clone());
        async move {
            let opened =
                gate.sessions.open(&access.principal, &mount.name, version, &client, transport).await?;
            metrics().sessions.with_label_values(&["opened"]).inc();
            for ended in opened.ended {
                metrics().sessions.with_label_values(&["capped"]).inc();
                super::end_upstream(&gate, ended);
            }
            Ok(opened.session)
        }
    };
    // It does not panic, and is not aborted while there is a runtime.
    gate.tasks.spawn(opening).await.unwrap_or(Err(OpenError::Away(StoreAway)))
}
