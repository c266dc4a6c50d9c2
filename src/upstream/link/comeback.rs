//! Looks when an upstream that could not be reached is back, so that those who hold standing calls learn of it.

use super::handshake::{self, Party};
use super::health::jittered;
use super::trouble::Trouble;
use super::{Arc, Inner};
use crate::telemetry::metrics;
use crate::upstream::transport::{Transport, TransportError};
use std::time::Duration;
use tokio::time::sleep;

impl Inner {
    /// The upstream could not be reached, for this reason.
    pub(super) fn is_ill(self: &Arc<Self>, why: &TransportError) {
        if self.health.ill() {
            tracing::warn!(upstream = %self.id(), %why, "an upstream is away");
            self.tell_health(false);
            self.await_return();
        }
    }

    fn tell_health(&self, up: bool) {
        metrics().upstream_up.with_label_values(&[self.id().as_str()]).set(up.into());
    }

    /// Asks again and again, with longer pauses, until the upstream answers. Called once an outage.
    fn await_return(self: &Arc<Self>) {
        // Channels are started by those who need them, standing calls among them; none is started to look.
        let Some(http) = self.reach.http.clone() else { return };
        let within = self.config.probe_timeout;
        let (weak, over) = (Arc::downgrade(self), self.over.clone());
        self.tasks.spawn(async move {
            for rounds in 0.. {
                let Some(wait) = weak.upgrade().map(|link| jittered(link.health.pause(rounds))) else {
                    return;
                };
                tokio::select! {
                    () = sleep(wait) => {}
                    () = over.cancelled() => return,
                }
                let Some(link) = weak.upgrade() else { return };
                // Somebody's call may have found out already.
                if link.health.is_up() {
                    return;
                }
                let answers = tokio::select! {
                    answers = answers(&http, within) => answers,
                    () = over.cancelled() => return,
                };
                if answers {
                    link.is_well();
                    return;
                }
            }
        });
    }

    /// The upstream answered. After an outage its lists may be others.
    pub(super) fn is_well(&self) {
        if self.health.well() {
            tracing::info!(upstream = %self.id(), "an upstream is back");
            self.tell_health(true);
            self.lists.stale_all();
        }
    }
}

/// Whether anything answers, be it that it does not understand.
async fn answers(http: &Arc<dyn Transport>, within: Duration) -> bool {
    match handshake::discover(http, &Party::ourselves(), within).await {
        Err(Trouble::Way(error)) => !matches!(
            error,
            TransportError::Unreachable(_)
                | TransportError::Timeout
                | TransportError::Broken
                | TransportError::Refused { status: 502..=504, .. }
        ),
        _ => true,
    }
}
