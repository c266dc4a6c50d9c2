//! What is measured of calls: their number, time and size, and the same for each upstream. Every label is bounded: methods
//! that are not of the protocol are `other`, and upstreams are those of the configuration.

use super::metrics::metrics;
use super::tally::{Tallies, Tally};
use super::usage::{self, Row};
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Seconds, from what a call costs that is answered here to the longest that one may take.
const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// How many of what is observed are one second.
const NANOS: f64 = 1e9;
const BYTES: [f64; 8] = [256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262_144.0, 1_048_576.0, 4_194_304.0];

/// The two eras as labels, in the order of `era` below.
pub(super) const ERAS: [&str; 2] = ["legacy", "modern"];

/// What all calls are counted by.
pub(super) struct Calls {
    /// By era, method, outcome and upstream (`""` where none was asked).
    pub calls: IntCounterVec,
    /// Of nanoseconds, as all times here.
    pub seconds: Tallies,
    pub in_flight: [IntGauge; 2],
    pub bytes_in: Arc<Tally>,
    pub bytes_out: Arc<Tally>,
    upstream_seconds: Tallies,
    /// Most calls are of tools.
    pub tool_seconds: [Arc<Tally>; 2],
}

pub(super) fn calls() -> &'static Calls {
    static CALLS: OnceLock<Calls> = OnceLock::new();
    CALLS.get_or_init(|| {
        let calls = IntCounterVec::new(
            Opts::new("plasm_calls_total", "Calls answered."),
            &["era", "method", "outcome", "upstream"],
        );
        let tallies = |name: &str, help: &str, bounds: &[f64], unit: f64, labels: &[&str]| {
            metrics().registered(Tallies::new(name, help, labels, bounds, unit))
        };
        let flights = IntGaugeVec::new(
            Opts::new("plasm_calls_in_flight", "Calls that are being answered, standing streams aside."),
            &["era"],
        );
        let flights = metrics().registered(flights);
        let seconds = tallies(
            "plasm_call_seconds",
            "Time from a call's arrival to its answer.",
            &SECONDS,
            NANOS,
            &["era", "method"],
        );
        let bytes = tallies(
            "plasm_message_bytes",
            "Sizes of calls' params and of their answers.",
            &BYTES,
            1.0,
            &["direction"],
        );
        let calls = metrics().registered(calls);
        // Prometheus sees an increase only of what was there before.
        for era in ERAS {
            calls.with_label_values(&[era, "tools/call", "gateway_busy", ""]);
        }
        Calls {
            calls,
            tool_seconds: ERAS.map(|era| seconds.with(&[era, "tools/call"])),
            seconds,
            in_flight: ERAS.map(|era| flights.with_label_values(&[era])),
            bytes_in: bytes.with(&["in"]),
            bytes_out: bytes.with(&["out"]),
            upstream_seconds: tallies(
                "plasm_upstream_seconds",
                "Time that an upstream took for a call.",
                &SECONDS,
                NANOS,
                &["upstream"],
            ),
        }
    })
}

/// What is measured of one upstream. There is one for each id in a process, whatever its configuration was meanwhile.
pub struct Meters {
    id: Arc<str>,
    pub(super) seconds: Arc<Tally>,
    /// Calls of tools that succeeded, by era: most calls are that, and their counters are looked up once.
    pub(super) tools_ok: [IntCounter; 2],
    usage: usage::Upstream,
}

impl Meters {
    /// Those of the upstream of this id.
    pub fn of(id: &str) -> Arc<Meters> {
        static ALL: OnceLock<RwLock<HashMap<Arc<str>, Arc<Meters>>>> = OnceLock::new();
        let all = ALL.get_or_init(RwLock::default);
        let mut all = all.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(id) {
            return known.clone();
        }
        let (calls, id) = (calls(), Arc::<str>::from(id));
        let meters = Arc::new(Meters {
            seconds: calls.upstream_seconds.with(&[&*id]),
            tools_ok: ERAS.map(|era| calls.calls.with_label_values(&[era, "tools/call", "ok", &*id])),
            usage: usage::Upstream::new(id.clone()),
            id: id.clone(),
        });
        all.insert(id, meters.clone());
        meters
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The usage of a tenant's calls of `tool`: its name as the upstream gives it.
    pub(super) fn row(&self, tenant: &Arc<str>, tool: &str) -> Arc<Row> {
        self.usage.row(tenant, tool)
    }
}
