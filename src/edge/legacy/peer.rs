//! A legacy client as one message finds it: its session or none, and who calls. And the refusals that name sessions.

use crate::edge::gate::{Gate, Mount};
use crate::edge::said::{Said, text};
use crate::edge::{answer, body, http as requests, seen};
use crate::http1::Fields;
use crate::mcp::{Access, Caller, Client};
use crate::session::{Facts, Found, LiveSession, Transport};
use crate::telemetry::{Carried, Watch};
use crate::wire::params::Params;
use crate::wire::{Id, Method, Version, code, envelope};
use arc_swap::Guard;
use axum::body::Body;
use http::header;
use http::{Response, StatusCode};
use std::ops::Deref;
use std::sync::Arc;

#[derive(Clone)]
pub struct Peer(Arc<Parts>);

/// One allocation, for it is handed about by each call.
pub struct Parts {
    pub gate: Arc<Gate>,
    pub mount: Arc<Mount>,
    pub caller: Arc<Caller>,
    /// `None`: served from the principal alone; nothing can be asked, subscribed to or resumed.
    pub session: Option<Arc<LiveSession>>,
    /// The trace context of the HTTP request.
    carried: Carried,
}

impl Deref for Peer {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Peer {
    /// The session that `Mcp-Session-Id` names. Errors: the answer that says why not, under the request's id.
    pub async fn named(
        gate: Arc<Gate>,
        mount: Arc<Mount>,
        access: Arc<Access>,
        said: &Said<'_>,
        id: Option<&Id>,
    ) -> Result<Peer, Response<Body>> {
        let name = said.session().ok().flatten().unwrap_or_default();
        Peer::of(gate, mount, access, said.fields, name, Transport::Streamable, id).await
    }

    /// The session of this name, where it lives on `transport`.
    pub async fn of(
        gate: Arc<Gate>,
        mount: Arc<Mount>,
        access: Arc<Access>,
        fields: &Fields,
        name: &str,
        transport: Transport,
        id: Option<&Id>,
    ) -> Result<Peer, Response<Body>> {
        let found = gate.sessions.find(name, &access.principal, &mount.name).await;
        Peer::found(gate, mount, access, fields, found, transport, id)
    }

    /// The same of a session that was looked for.
    pub fn found(
        gate: Arc<Gate>,
        mount: Arc<Mount>,
        access: Arc<Access>,
        fields: &Fields,
        found: Found,
        transport: Transport,
        id: Option<&Id>,
    ) -> Result<Peer, Response<Body>> {
        let session = match found {
            Found::Found(session) => session,
            Found::Unknown => return Err(not_found(&gate, id)),
            Found::Away => return Err(store_away(&gate, id)),
        };
        let facts = session.facts();
        match facts.transport == transport {
            true => Ok(Peer::with(gate, mount, access, fields, session, facts)),
            false => Err(not_found(&gate, id)),
        }
    }

    /// The peer of a session that is at hand.
    pub fn holding(
        gate: &Arc<Gate>,
        mount: &Arc<Mount>,
        access: Arc<Access>,
        fields: &Fields,
        session: Arc<LiveSession>,
    ) -> Peer {
        let facts = session.facts();
        Peer::with(gate.clone(), mount.clone(), access, fields, session, facts)
    }

    /// The same, with what the session's record says.
    fn with(
        gate: Arc<Gate>,
        mount: Arc<Mount>,
        access: Arc<Access>,
        fields: &Fields,
        session: Arc<LiveSession>,
        facts: Guard<Arc<Facts>>,
    ) -> Peer {
        let forwarded = requests::forwarded(&gate, fields);
        let client = if forwarded.is_empty() {
            facts.client.clone()
        } else {
            Arc::new(Client { headers: forwarded, ..(*facts.client).clone() })
        };
        let caller = Arc::new(Caller {
            access,
            profile: mount.name.clone(),
            client,
            version: facts.version,
            session: session.clone(),
        });
        drop(facts);
        let carried = seen::carried(&gate, fields);
        Peer(Arc::new(Parts { gate, mount, caller, session: Some(session), carried }))
    }

    /// A client without a session.
    pub fn without(
        gate: &Arc<Gate>,
        mount: &Arc<Mount>,
        access: Arc<Access>,
        fields: &Fields,
        version: Version,
    ) -> Peer {
        let client = Arc::new(Client {
            headers: requests::forwarded(gate, fields),
            user_agent: user_agent(fields),
            ..Client::default()
        });
        let session = gate.sessions.pooled(access.principal.clone(), mount.name.clone(), client.clone());
        let caller = Arc::new(Caller { access, profile: mount.name.clone(), client, version, session });
        let carried = seen::carried(gate, fields);
        let (gate, mount) = (gate.clone(), mount.clone());
        Peer(Arc::new(Parts { gate, mount, caller, session: None, carried }))
    }

    /// A request of it arrives.
    pub fn arrives(&self, request: (&Method, &Params, &Id)) -> Arc<Watch> {
        let sse = |session: &Arc<LiveSession>| session.facts().transport == Transport::Sse;
        let transport = match &self.session {
            Some(session) if self.gate.lookout.is_curious() && sse(session) => "sse",
            _ => "http",
        };
        seen::arrives(&self.gate, &self.caller, request, (transport, &self.carried))
    }

    /// Whether [`Peer::touch`] would do anything now.
    pub fn is_to_be_touched(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_to_be_touched())
    }

    /// Counts as a use of the session. Without the store it lives on by what it had.
    pub async fn touch(&self) {
        if let Some(session) = &self.session {
            let _ = session.touch().await;
        }
    }
}

pub fn user_agent(fields: &Fields) -> Option<Arc<str>> {
    fields.get(&header::USER_AGENT).and_then(text).map(Into::into)
}

/// The one answer for sessions that are unknown, ended, malformed, foreign or of another profile. No challenge: clients
/// would take it for a login that failed.
pub fn not_found(gate: &Gate, id: Option<&Id>) -> Response<Body> {
    refused(gate, StatusCode::NOT_FOUND, id, code::SESSION_NOT_FOUND, "Session not found")
}

/// Nothing is known of the session: never "not found".
pub fn store_away(gate: &Gate, id: Option<&Id>) -> Response<Body> {
    let why = "the state store is out of reach; try again";
    refused(gate, StatusCode::SERVICE_UNAVAILABLE, id, code::INTERNAL, why)
}

/// A JSON-RPC error under an HTTP status.
pub fn refused(gate: &Gate, status: StatusCode, id: Option<&Id>, code: i32, why: &str) -> Response<Body> {
    let error = answer::error_object(code, why, None);
    body::json(gate, status, envelope::write_response(id, Err(&error)))
}
