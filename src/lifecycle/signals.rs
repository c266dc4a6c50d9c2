//! What SIGTERM and SIGINT do to a pod: the first drains it, the second ends it.

use super::{Lifecycle, Plan, Stage};
use tokio::signal::unix::{SignalKind, signal};

impl Lifecycle {
    /// Drains at SIGTERM or SIGINT, and ends then; a pod that drains already goes on from where it stands. The second
    /// signal ends it at once. Signals are listened for from here on, before the future is first polled.
    ///
    /// # Errors
    /// The system gives no more handlers.
    pub fn obey_signals(self, plan: Plan) -> std::io::Result<impl Future<Output = ()> + Send + 'static> {
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(async move {
            for first in [true, false] {
                tokio::select! {
                    _ = term.recv() => {}
                    _ = int.recv() => {}
                    () = self.over.cancelled() => return,
                }
                if first {
                    if self.stage() > Stage::Ready {
                        tracing::info!("told to end while draining: going on");
                    }
                    self.told.cancel();
                    self.drain(plan);
                } else {
                    self.over.cancel();
                    tracing::info!("told to end again: ending now");
                }
            }
        })
    }
}
