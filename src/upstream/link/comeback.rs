//! Looks when an upstream that could not be reached is back, so that those who hold standing calls learn of it.

use super::handshake::{self, Party};
use super::health::{jittered, pause};
use super::trouble::Trouble;
use super::{Arc, Inner};
use crate::upstream::transport::TransportError;
use tokio::time::sleep;

impl Inner {
    /// Asks again and again, with longer pauses, until the upstream answers. Called once an outage.
    pub(super) fn await_return(self: &Arc<Self>) {
        let (weak, over) = (Arc::downgrade(self), self.over.clone());
        self.tasks.spawn(async move {
            for rounds in 0.. {
                tokio::select! {
                    () = sleep(jittered(pause(rounds))) => {}
                    () = over.cancelled() => return,
                }
                let Some(link) = weak.upgrade() else { return };
                // Somebody's call may have found out already.
                if link.health.is_up() {
                    return;
                }
                let answers = tokio::select! {
                    answers = link.answers() => answers,
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
            self.lists.stale_all();
        }
    }

    /// Whether anything answers, be it that it does not understand.
    async fn answers(&self) -> bool {
        let Some(http) = &self.reach.http else {
            return match &self.reach.channels {
                Some(dial) => dial.dial("").await.is_ok(),
                None => false,
            };
        };
        match handshake::discover(http, &Party::ourselves(), self.config.probe_timeout).await {
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
}
