//! The requests that come before any call: a discovery, and `initialize` with what follows it.

use super::declared::Declared;
use super::kept::Kept;
use super::trouble::Trouble;
use super::{About, Arc, Caller, Inner, Method, hello, ids};
use crate::upstream::credentials::Bearer;
use crate::upstream::introduction::Introduction;
use crate::upstream::transport::{Answer, Answered, Outgoing, Route, Transport, TransportError};
use crate::wire::{Message, Raw, Version, envelope, json, meta};
use bytes::Bytes;
use futures_util::StreamExt;
use std::time::Duration;
use tokio::time::Instant;

/// On whose behalf a handshake is made: a caller, or the link itself.
pub(super) struct Party {
    pub(super) declared: Declared,
    pub(super) who: Arc<str>,
    pub(super) headers: Vec<(http::HeaderName, http::HeaderValue)>,
    pub(super) bearer: Option<Bearer>,
}

impl Inner {
    /// The party for a caller: the caller itself, or the link where one session serves all.
    pub(super) fn party(&self, caller: &Caller) -> Party {
        if self.config.stateless {
            return self.ourselves();
        }
        Party {
            declared: Declared::of(caller),
            who: caller.session.key().clone(),
            headers: self.forwarded(caller),
            bearer: self.bearer(caller),
        }
    }

    /// The party that the gateway is itself, with its own credential where it has one.
    pub(super) fn ourselves(&self) -> Party {
        let bearer = self.reach.credentials.as_ref().and_then(|credentials| credentials.of(None));
        Party { bearer, ..Party::ourselves() }
    }

    /// The result of `server/discover`, not yet checked.
    pub(super) async fn discover(
        &self,
        transport: &Arc<dyn Transport>,
        caller: &Caller,
        within: Duration,
    ) -> Result<Raw, Trouble> {
        discover(transport, &self.party(caller), within).await
    }

    /// `initialize` and `notifications/initialized`: a session of the upstream, and what it is.
    pub(super) async fn initialize(
        &self,
        transport: &Arc<dyn Transport>,
        party: &Party,
    ) -> Result<(Kept, About), Trouble> {
        let params = Raw::trusted(format!(
            r#"{{"protocolVersion":"{}","capabilities":{},"clientInfo":{}}}"#,
            Version::NEWEST_LEGACY,
            utf8(&party.declared.in_session),
            utf8(&party.declared.info),
        ));
        let route = party.route(None);
        let answered = ask(transport, route, Method::Initialize, params, self.config.request_timeout).await?;
        let session = answered.1;
        let (version, about) = hello::initialized(&answered.0).map_err(TransportError::Garbage)?;
        let route = Route { session: session.clone(), ..party.route(Some(version)) };
        let message = envelope::write_notification(&Method::Initialized, &Raw::trusted("{}"));
        match transport.send(route, message).await {
            Ok(()) => {}
            // It gave the session all the same; what it does with the session will be seen.
            Err(TransportError::Refused { status, .. }) => {
                tracing::warn!(upstream = %self.id(), status, "an upstream refused notifications/initialized");
            }
            Err(error) => return Err(error.into()),
        }
        Ok((Kept::negotiated(version, session), about))
    }
}

impl Party {
    pub(super) fn ourselves() -> Party {
        Party { declared: Declared::ourselves(), who: "".into(), headers: Vec::new(), bearer: None }
    }

    /// As another pod would have to introduce it.
    pub(super) fn introduction(&self, kept: &Kept) -> Introduction {
        let Party { declared, who, headers, bearer: _ } = self;
        Introduction {
            info: declared.info.clone(),
            capabilities: declared.capabilities.clone(),
            in_session: declared.in_session.clone(),
            who: who.clone(),
            headers: headers.clone(),
            kept: kept.write(),
        }
    }

    pub(super) fn introduced(by: &Introduction) -> Party {
        let Introduction { info, capabilities, in_session, who, headers, .. } = by;
        let declared = Declared {
            info: info.clone(),
            capabilities: capabilities.clone(),
            in_session: in_session.clone(),
        };
        // A channel bears what the pod bears that opens it.
        Party { declared, who: who.clone(), headers: headers.clone(), bearer: None }
    }

    pub(super) fn route(&self, version: Option<Version>) -> Route {
        let (who, headers, bearer) = (self.who.clone(), self.headers.clone(), self.bearer.clone());
        Route { version, session: None, who, headers, bearer }
    }
}

pub(super) async fn discover(
    transport: &Arc<dyn Transport>,
    party: &Party,
    within: Duration,
) -> Result<Raw, Trouble> {
    let meta = format!(
        r#"{{"_meta":{{"{}":"{}","{}":{},"{}":{}}}}}"#,
        meta::VERSION,
        Version::MODERN,
        meta::CLIENT_INFO,
        utf8(&party.declared.info),
        meta::CAPABILITIES,
        utf8(&party.declared.capabilities),
    );
    let route = party.route(Some(Version::MODERN));
    Ok(ask(transport, route, Method::Discover, Raw::trusted(meta), within).await?.0)
}

/// A request of the link itself. What comes besides its answer is let go.
pub(super) async fn ask(
    transport: &Arc<dyn Transport>,
    route: Route,
    method: Method,
    params: Raw,
    within: Duration,
) -> Result<(Raw, Option<crate::upstream::transport::UpstreamSessionId>), Trouble> {
    let request = Outgoing {
        id: ids::next(),
        method,
        params,
        name: None,
        progress: None,
        trail: None,
        deadline: Instant::now() + within,
    };
    let Answered { answer, session } = transport.request(route, request).await?;
    let message = match answer {
        Answer::One(incoming) => incoming.message,
        Answer::Stream(mut messages) => loop {
            match messages.next().await {
                Some(Ok(incoming)) if matches!(incoming.message, Message::Response(_)) => {
                    break incoming.message;
                }
                Some(Ok(_) | Err(TransportError::Paused)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Err(TransportError::Broken.into()),
            }
        },
    };
    match message {
        Message::Response(response) => match response.outcome {
            Ok(result) => Ok((result, session)),
            Err(error) => Err(Trouble::Said(error)),
        },
        _ => Err(TransportError::Garbage("a message that is no answer".into()).into()),
    }
}

/// A request of the link itself that takes one string, in an open session.
pub(super) async fn set(
    transport: &Arc<dyn Transport>,
    route: Route,
    method: Method,
    key: &str,
    value: &str,
    within: Duration,
) -> Result<Raw, Trouble> {
    let params = Raw::trusted(format!(r#"{{{}:{}}}"#, json::quote(key), json::quote(value)));
    Ok(ask(transport, route, method, params, within).await?.0)
}

/// Checked JSON is UTF-8.
fn utf8(json: &Bytes) -> &str {
    std::str::from_utf8(json).unwrap_or("{}")
}
