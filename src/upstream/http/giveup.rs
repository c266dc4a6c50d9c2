//! What a dropped legacy call leaves to do: a closed connection cancels nothing there, so the upstream is told
//! (2025-11-25 cancellation). A modern upstream takes the closed exchange for the cancel.

use super::exchange::Exchange;
use crate::upstream::transport::{Outgoing, Route};
use crate::wire::{Era, Method, Raw, envelope};
use std::sync::Arc;

/// A request under way: tells a legacy upstream that it is given up, unless disarmed before it is dropped.
pub(super) struct GiveUp {
    pub(super) exchange: Arc<Exchange>,
    pub(super) route: Route,
    pub(super) request: Outgoing,
    armed: bool,
}

impl GiveUp {
    /// `initialize` is never cancelled: it goes before a version is negotiated.
    pub(super) fn watch(exchange: Arc<Exchange>, route: Route, request: Outgoing) -> GiveUp {
        let armed = route.version.is_some_and(|v| v.era() == Era::Legacy);
        GiveUp { exchange, route, request, armed }
    }

    /// The request came to its end; there is nothing to give up.
    pub(super) fn disarm(&mut self) {
        self.armed = false;
    }
}

impl Drop for GiveUp {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        // Another process goes on with what is dropped here.
        if self.request.trail.as_ref().is_some_and(|trail| trail.is_let_go()) {
            return;
        }
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let mut params = Raw::trusted(r#"{"reason":"the caller gave the call up"}"#);
        params.insert_member(0, "requestId", self.request.id.token());
        let message = envelope::write_notification(&Method::Cancelled, &params);
        let (exchange, route) = (self.exchange.clone(), self.route.clone());
        let tasks = exchange.tasks.clone();
        tasks.spawn(async move {
            if let Err(error) = exchange.send(route, message).await {
                tracing::debug!(%error, "an upstream was not told of a cancel");
            }
        });
    }
}
