//! Prometheus metrics. Every label has a bounded set of values, whatever clients and upstreams send.

use prometheus::core::Collector;
use prometheus::{
    Encoder, Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};
use std::sync::OnceLock;

pub struct Metrics {
    registry: Registry,
    /// Open streams, by kind: `get`, `listen`, `post`, `sse`.
    pub streams: IntGaugeVec,
    /// Legacy sessions opened and ended, by what happened.
    pub sessions: IntCounterVec,
    /// Whether an upstream answers: 1 or 0.
    pub upstream_up: IntGaugeVec,
    /// Requests sent upstream, by upstream and how they ended.
    pub upstream_requests: IntCounterVec,
    /// Requests from pod to pod for an upstream's channel, by what became of them: `sent`, `taken`, `refused`.
    pub relayed: IntCounterVec,
    /// Lists served without a part, by the upstream whose part it was.
    pub list_parts_missing: IntCounterVec,
    /// Readings of a changed configuration, by what came of them.
    pub config_reloads: IntCounterVec,
    /// Requests refused before they became calls, by HTTP status.
    pub refused: IntCounterVec,
    /// Tokens that were looked at, by what came of it; those that are remembered are not looked at.
    pub auth: IntCounterVec,
    /// Requests refused by a limit, by the limit and by what they do.
    pub limited: IntCounterVec,
    /// How limits are counted now: 1 at one of `shared`, `local`, `closed`.
    pub limits_mode: IntGaugeVec,
    /// Questions to the store about limits, by what came of them: `granted`, `partly`, `refused`, `away`.
    pub limit_leases: IntCounterVec,
    /// Requests for things that policy speaks of, by what was decided: `allow`, `deny`, `approve`, `scope`, `changed`.
    pub policy_decisions: IntCounterVec,
    /// Questions to the policy webhook: `answered`, `remembered`, `failed`.
    pub policy_webhook: IntCounterVec,
    /// Definitions of tools that were found changed, by upstream.
    pub pins_changed: IntCounterVec,
    /// Requests that were not let in, by HTTP status.
    pub auth_denied: IntCounterVec,
    /// The pod's stage: 0 starting, 1 ready, 2 leaving, 3 draining, 4 drained.
    pub drain_stage: IntGauge,
    /// How long ago the pod was told to drain, and how long it may take; 0 where it was not.
    pub drain_seconds: Gauge,
    pub drain_limit_seconds: Gauge,
    /// Requests that deviate from the specification and were served by a switch of the configuration.
    pub compat: IntCounterVec,
    /// Sweeps of the object store that this pod carried out: `done`, `failed`; and the objects that they deleted.
    pub artifact_sweeps: IntCounterVec,
    pub artifacts_swept: IntCounter,
}

/// This process's metrics.
pub fn metrics() -> &'static Metrics {
    static METRICS: OnceLock<Metrics> = OnceLock::new();
    METRICS.get_or_init(Metrics::new)
}

impl Metrics {
    fn new() -> Metrics {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let vec =
                IntCounterVec::new(Opts::new(name, help), labels).expect("the name and labels are valid");
            registry.register(Box::new(vec.clone())).expect("each name is registered once");
            vec
        };
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let vec = IntGaugeVec::new(Opts::new(name, help), labels).expect("the name and labels are valid");
            registry.register(Box::new(vec.clone())).expect("each name is registered once");
            vec
        };
        let gauge = |name: &str, help: &str| {
            let gauge = Gauge::new(name, help).expect("the name is valid");
            registry.register(Box::new(gauge.clone())).expect("each name is registered once");
            gauge
        };
        let stage = IntGauge::new(
            "plasm_drain_stage",
            "The pod's stage: 0 starting, 1 ready, 2 leaving, 3 draining, 4 drained.",
        )
        .expect("the name is valid");
        registry.register(Box::new(stage.clone())).expect("each name is registered once");
        let auth_denied = counters("plasm_auth_denied_total", "Requests that were not let in.", &["status"]);
        for status in ["401", "403", "503"] {
            auth_denied.with_label_values(&[status]);
        }
        let config_reloads =
            counters("plasm_config_reloads_total", "Readings of a changed configuration.", &["outcome"]);
        // Prometheus sees an increase only of what was there before.
        for outcome in ["applied", "refused", "unchanged"] {
            config_reloads.with_label_values(&[outcome]);
        }
        let artifact_sweeps =
            counters("plasm_artifact_sweeps_total", "Sweeps of the object store by this pod.", &["outcome"]);
        for outcome in ["done", "failed"] {
            artifact_sweeps.with_label_values(&[outcome]);
        }
        let swept =
            IntCounter::new("plasm_artifacts_swept_total", "Objects deleted when their time was over.")
                .expect("the name is valid");
        registry.register(Box::new(swept.clone())).expect("each name is registered once");
        Metrics {
            artifact_sweeps,
            artifacts_swept: swept,
            auth_denied,
            drain_stage: stage,
            drain_seconds: gauge("plasm_drain_seconds", "How long ago the pod was told to drain."),
            drain_limit_seconds: gauge("plasm_drain_limit_seconds", "How long its drain may take."),
            streams: gauges("plasm_streams", "Open streams.", &["kind"]),
            sessions: counters("plasm_sessions_total", "Legacy sessions, by event.", &["event"]),
            config_reloads,
            auth: counters("plasm_auth_total", "Tokens looked at.", &["outcome"]),
            upstream_up: gauges("plasm_upstream_up", "Whether an upstream answers.", &["upstream"]),
            upstream_requests: counters(
                "plasm_upstream_requests_total",
                "Requests sent upstream.",
                &["upstream", "outcome"],
            ),
            relayed: counters(
                "plasm_relayed_total",
                "Requests from pod to pod for an upstream's channel.",
                &["outcome"],
            ),
            list_parts_missing: counters(
                "plasm_list_parts_missing_total",
                "Lists served without an upstream's part.",
                &["upstream"],
            ),
            refused: counters(
                "plasm_requests_refused_total",
                "Requests refused before dispatch.",
                &["status"],
            ),
            limited: counters("plasm_limited_total", "Requests refused by a limit.", &["limit", "class"]),
            limits_mode: gauges("plasm_limits_mode", "How limits are counted now.", &["mode"]),
            limit_leases: counters(
                "plasm_limit_leases_total",
                "Questions to the store about limits.",
                &["outcome"],
            ),
            policy_decisions: counters(
                "plasm_policy_decisions_total",
                "Requests for things that policy speaks of.",
                &["decision"],
            ),
            policy_webhook: counters(
                "plasm_policy_webhook_total",
                "Questions to the policy webhook.",
                &["outcome"],
            ),
            pins_changed: counters(
                "plasm_tool_definitions_changed_total",
                "Definitions of tools that were found changed.",
                &["upstream"],
            ),
            compat: counters("plasm_compat_total", "Deviating requests served by a switch.", &["switch"]),
            registry,
        }
    }

    /// Registers what is counted in a file of its own. Once for each name.
    pub fn register(&self, collector: Box<dyn Collector>) {
        self.registry.register(collector).expect("each name is registered once");
    }

    /// As [`Metrics::register`]; gives back what was made.
    pub fn registered<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let made = made.expect("the name and labels are valid");
        self.register(Box::new(made.clone()));
        made
    }

    /// The text exposition format.
    pub fn exposition(&self) -> Vec<u8> {
        let mut out = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut out).expect("a vector takes any text");
        out
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_counted_is_exposed() {
        super::metrics().compat.with_label_values(&["test"]).inc();
        let text = String::from_utf8(super::metrics().exposition()).unwrap();
        assert!(text.contains("plasm_compat_total{switch=\"test\"} 1"), "{text}");
    }
}
