//! The life of a pod: ready, then told to leave, then draining, then over. What each stage means to a room, the room
//! knows; this says when. Imports nothing of ours.

mod signals;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// How a pod ends. Durations are of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// How long it serves as before once it has said that it leaves: whoever routes to it must learn of it first.
    pub propagation: Duration,
    /// How long calls in flight may go on after that.
    pub budget: Duration,
}

/// How far a pod has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It does not serve yet.
    Starting,
    Ready,
    /// It serves as before, and says that it is not ready.
    Leaving,
    /// It takes no connection; streams move on; calls in flight finish.
    Draining,
    /// Nothing is in flight any more.
    Drained,
}

/// The stages that tasks wait for, each after the one before. Clones share them.
#[derive(Clone, Default)]
pub struct Lifecycle {
    /// The pod is to end, and whoever routes to it is to learn of it: answers ask to close their connection.
    pub leaving: CancellationToken,
    /// No connection is accepted, and streams that can go on elsewhere close.
    pub draining: CancellationToken,
    /// Nobody has asked for anything for a while: connections without a request close.
    pub quiet: CancellationToken,
    /// The time for calls in flight is over.
    pub over: CancellationToken,
    /// Nothing is in flight.
    drained: CancellationToken,
    /// The process is to end, and not only to drain.
    told: CancellationToken,
    ready: Arc<AtomicBool>,
    plan: Arc<OnceLock<(Plan, Instant)>>,
    /// A request has come while the pod drains.
    heard: Arc<Notify>,
}

impl Lifecycle {
    /// The pod serves.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Whether new clients are welcome.
    pub fn is_ready(&self) -> bool {
        self.stage() == Stage::Ready
    }

    pub fn stage(&self) -> Stage {
        match () {
            () if self.drained.is_cancelled() => Stage::Drained,
            () if self.draining.is_cancelled() => Stage::Draining,
            () if self.leaving.is_cancelled() => Stage::Leaving,
            () if self.ready.load(Ordering::Acquire) => Stage::Ready,
            () => Stage::Starting,
        }
    }

    /// Whether answers are to ask for their connection to be closed. Costs nothing while the pod serves.
    pub fn is_leaving(&self) -> bool {
        self.plan.get().is_some() && self.leaving.is_cancelled()
    }

    /// How long silence lasts before whoever routes to this pod has learned that it leaves.
    pub fn linger(&self) -> Duration {
        self.plan.get().map_or(Duration::ZERO, |(plan, _)| plan.propagation)
    }

    /// How long ago the pod was told to drain, and how long it may take at most.
    pub fn draining_for(&self) -> Option<(Duration, Duration)> {
        self.plan.get().map(|(plan, begun)| (begun.elapsed(), plan.propagation + plan.budget))
    }

    /// Counts a request against the silence after which idle connections close. Costs nothing while the pod serves.
    pub fn heard(&self) {
        // Every request comes here: the plan is there before anything begins, and is seen without a lock.
        if self.plan.get().is_some() && self.draining.is_cancelled() {
            self.heard.notify_one();
        }
    }

    /// Begins to drain; the later stages follow by themselves. The first plan holds: a second call changes nothing.
    pub fn drain(&self, plan: Plan) {
        if self.plan.set((plan, Instant::now())).is_ok() {
            self.leaving.cancel();
            let (lifecycle, over) = (self.clone(), self.over.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = lifecycle.stages(plan) => {}
                    () = over.cancelled() => {}
                }
            });
        }
    }

    async fn stages(&self, plan: Plan) {
        tracing::info!(
            propagation_s = plan.propagation.as_secs_f32(),
            budget_s = plan.budget.as_secs_f32(),
            "told to end: not ready for new clients"
        );
        tokio::time::sleep(plan.propagation).await;
        self.draining.cancel();
        tracing::info!("draining: no connection is taken any more");
        let end = Instant::now() + plan.budget;
        let silence = async {
            while timeout(plan.propagation, self.heard.notified()).await.is_ok() {}
            self.quiet.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = silence => {}
            () = sleep_until(end) => {}
        }
        if self.stage() < Stage::Drained {
            tracing::warn!("calls in flight have had their time");
        }
        self.over.cancel();
    }

    /// Nothing is in flight any more. Resolves when the process may end: at once where a signal said so, else when one
    /// comes (who drained this pod may watch it, and stop it then), or when its time is over.
    pub async fn settled(&self) {
        self.drained.cancel();
        tracing::info!("nothing is in flight any more");
        tokio::select! {
            () = self.told.cancelled() => {}
            () = self.over.cancelled() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { propagation: Duration::from_millis(200), budget: Duration::from_secs(600) };

    #[tokio::test]
    async fn the_stages_follow_one_another_and_a_second_drain_begins_nothing_anew() {
        let pod = Lifecycle::default();
        assert_eq!(pod.stage(), Stage::Starting);
        pod.set_ready();
        assert_eq!(pod.stage(), Stage::Ready);
        let begun = Instant::now();
        pod.drain(PLAN);
        assert_eq!((pod.stage(), pod.is_ready()), (Stage::Leaving, false));
        pod.drain(Plan { propagation: Duration::from_secs(600), ..PLAN });
        pod.draining.cancelled().await;
        assert!(begun.elapsed() >= PLAN.propagation);
        assert_eq!((pod.stage(), pod.over.is_cancelled()), (Stage::Draining, false));
    }

    #[tokio::test]
    async fn idle_connections_close_after_a_silence_as_long_as_the_propagation() {
        let pod = Lifecycle::default();
        pod.drain(PLAN);
        pod.draining.cancelled().await;
        tokio::time::sleep(PLAN.propagation / 2).await;
        let asked = Instant::now();
        pod.heard();
        pod.quiet.cancelled().await;
        assert!(asked.elapsed() >= PLAN.propagation);
        assert!(!pod.over.is_cancelled(), "silence ends no call");
    }

    #[tokio::test]
    async fn calls_have_their_budget_and_no_more() {
        let pod = Lifecycle::default();
        pod.drain(Plan { budget: Duration::from_millis(50), propagation: Duration::ZERO });
        pod.over.cancelled().await;
        assert!(pod.draining.is_cancelled());
    }

    #[tokio::test]
    async fn a_drained_pod_stays_to_be_seen_until_it_is_told_to_end() {
        let pod = Lifecycle::default();
        pod.drain(PLAN);
        let mut settled = std::pin::pin!(pod.settled());
        assert!(timeout(Duration::from_millis(50), &mut settled).await.is_err());
        assert_eq!(pod.stage(), Stage::Drained);
        pod.told.cancel();
        settled.await;
    }
}
