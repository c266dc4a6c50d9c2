//! What a dropped legacy call leaves to do: a closed connection cancels nothing there, so the upstream is told
//! (2025-11-25 cancellation). A modern upstream takes the closed exchange for the cancel.

use super::exchange::Exchange;
use crate::mcp::Trail;
use crate::upstream::transport::{Outgoing, Route};
use crate::wire::{Era, Id, Method, Raw, envelope};
use std::sync::Arc;

/// Tells a legacy upstream that a request of ours is given up, unless disarmed before it is dropped.
pub(super) struct GiveUp(Option<Begun>);

struct Begun {
    exchange: Arc<Exchange>,
    route: Route,
    id: Id,
    trail: Option<Arc<Trail>>,
}

impl GiveUp {
    /// `initialize` is never cancelled: it goes before a version is negotiated.
    pub(super) fn watch(exchange: &Arc<Exchange>, route: &Route, request: &Outgoing) -> GiveUp {
        let legacy = route.version.is_some_and(|v| v.era() == Era::Legacy);
        GiveUp(legacy.then(|| Begun {
            exchange: exchange.clone(),
            route: route.clone(),
            id: request.id.clone(),
            trail: request.trail.clone(),
        }))
    }

    /// For what is no request.
    pub(super) fn none() -> GiveUp {
        GiveUp(None)
    }

    /// The request came to its end; there is nothing to give up.
    pub(super) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for GiveUp {
    fn drop(&mut self) {
        let Some(Begun { exchange, route, id, trail }) = self.0.take() else { return };
        // Another process goes on with what is dropped here.
        if trail.is_some_and(|trail| trail.is_let_go()) {
            return;
        }
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let mut params = Raw::trusted(r#"{"reason":"the caller gave the call up"}"#);
        params.insert_member(0, "requestId", id.token());
        let message = envelope::write_notification(&Method::Cancelled, &params);
        let tasks = exchange.tasks.clone();
        tasks.spawn(async move {
            if let Err(error) = exchange.send(route, message).await {
                tracing::debug!(%error, "an upstream was not told of a cancel");
            }
        });
    }
}
