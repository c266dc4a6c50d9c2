//! The life of a pod: ready, then told to end, then ended. Imports nothing of ours.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The stages that tasks wait for. Clones share them.
#[derive(Clone, Default)]
pub struct Lifecycle {
    /// The pod is to end: streams close, answers ask to close their connection, no connection is accepted.
    pub draining: CancellationToken,
    /// The time for calls in flight is over.
    pub over: CancellationToken,
    ready: std::sync::Arc<AtomicBool>,
}

impl Lifecycle {
    /// The pod serves.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) && !self.draining.is_cancelled()
    }

    /// Begins to drain; `over` follows after `budget`. A second call changes nothing.
    pub fn drain(&self, budget: Duration) {
        if self.draining.is_cancelled() {
            return;
        }
        self.draining.cancel();
        let over = self.over.clone();
        tokio::spawn(async move {
            tokio::time::sleep(budget).await;
            over.cancel();
        });
    }

    /// Drains at SIGTERM or SIGINT; at the second signal ends at once. Signals are listened for from here on, before the
    /// future is first polled.
    pub fn obey_signals(
        self,
        budget: Duration,
    ) -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(async move {
            for first in [true, false] {
                tokio::select! {
                    _ = term.recv() => {}
                    _ = int.recv() => {}
                    () = self.over.cancelled() => return,
                }
                if first {
                    self.drain(budget);
                    tracing::info!(budget_s = budget.as_secs(), "told to end: draining");
                } else {
                    self.over.cancel();
                    tracing::info!("told to end again: ending now");
                }
            }
        })
    }
}
