//! Who uses what: calls, failures, bytes and time by tenant, tool and upstream, since the process began. Bounded: a tenant has
//! [`PER_TENANT`] rows and all have [`ALL`]; what is beyond is counted in one row of that tenant, or of all.

use super::metrics::metrics;
use foldhash::HashMap as Map;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, Opts};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// Rows of one tenant at one upstream: more tools than that are most likely names that a client made up.
const PER_TENANT: usize = 256;
/// Rows of all.
const ALL: usize = 5_000;
/// Longest name of a tool that has a row of its own, in bytes.
const LONGEST: usize = 128;
/// What is counted together.
const OTHERS: &str = "(others)";

/// What was used.
#[derive(Default)]
pub struct Row {
    pub(super) calls: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    pub(super) micros: AtomicU64,
}

impl Row {
    pub(super) fn count(&self, failed: bool, bytes_in: u64, bytes_out: u64, took: Duration) {
        self.calls.fetch_add(1, Relaxed);
        if failed {
            self.errors.fetch_add(1, Relaxed);
        }
        self.bytes_in.fetch_add(bytes_in, Relaxed);
        self.bytes_out.fetch_add(bytes_out, Relaxed);
        self.micros.fetch_add(took.as_micros().try_into().unwrap_or(u64::MAX), Relaxed);
    }
}

/// A row as it is told.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Used {
    pub tenant: Arc<str>,
    pub upstream: Arc<str>,
    pub tool: Arc<str>,
    pub calls: u64,
    pub errors: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub seconds: f64,
}

type Tools = Map<Arc<str>, Arc<Row>>;

/// The rows of one upstream, by tenant and tool.
pub(super) struct Upstream {
    id: Arc<str>,
    tenants: RwLock<Map<Arc<str>, Tools>>,
}

/// All rows in the order in which they were made.
#[derive(Default)]
struct Table {
    rows: Mutex<Vec<Listed>>,
    many: AtomicUsize,
}

struct Listed {
    tenant: Arc<str>,
    upstream: Arc<str>,
    tool: Arc<str>,
    row: Arc<Row>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        metrics().register(Box::new(Usage::new()));
        Table::default()
    })
}

impl Upstream {
    pub(super) fn new(id: Arc<str>) -> Upstream {
        Upstream { id, tenants: RwLock::default() }
    }

    pub(super) fn row(&self, tenant: &Arc<str>, tool: &str) -> Arc<Row> {
        let known = self.tenants.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = known.get(tenant).and_then(|tools| tools.get(tool)) {
            return row.clone();
        }
        drop(known);
        let mut tenants = self.tenants.write().unwrap_or_else(PoisonError::into_inner);
        let table = table();
        let full = table.many.load(Relaxed) >= ALL;
        let tenant: Arc<str> = match full && !tenants.contains_key(tenant) {
            true => OTHERS.into(),
            false => tenant.clone(),
        };
        let tools = tenants.entry(tenant.clone()).or_default();
        let fits = !full && tools.len() < PER_TENANT && tool.len() <= LONGEST;
        let tool: Arc<str> = if fits { tool.into() } else { OTHERS.into() };
        let id = &self.id;
        let make = || {
            let row = Arc::new(Row::default());
            table.many.fetch_add(1, Relaxed);
            let mut rows = table.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let (tenant, upstream, tool) = (tenant.clone(), id.clone(), tool.clone());
            rows.push(Listed { tenant, upstream, tool, row: row.clone() });
            row
        };
        tools.entry(tool.clone()).or_insert_with(make).clone()
    }
}

/// All that was used, by tenant, upstream and tool.
pub fn used() -> Vec<Used> {
    let rows = table().rows.lock().unwrap_or_else(PoisonError::into_inner);
    let mut used: Vec<_> = rows
        .iter()
        .map(|Listed { tenant, upstream, tool, row }| Used {
            tenant: tenant.clone(),
            upstream: upstream.clone(),
            tool: tool.clone(),
            calls: row.calls.load(Relaxed),
            errors: row.errors.load(Relaxed),
            bytes_in: row.bytes_in.load(Relaxed),
            bytes_out: row.bytes_out.load(Relaxed),
            seconds: row.micros.load(Relaxed) as f64 / 1e6,
        })
        .collect();
    drop(rows);
    used.sort_by(|a, b| (&a.tenant, &a.upstream, &a.tool).cmp(&(&b.tenant, &b.upstream, &b.tool)));
    used
}

/// The table as metrics, written at each scrape.
struct Usage {
    calls: IntCounterVec,
    bytes: IntCounterVec,
    millis: IntCounterVec,
}

impl Usage {
    fn new() -> Usage {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels).expect("the name and labels are valid")
        };
        Usage {
            calls: counters(
                "plasm_usage_calls_total",
                "Calls of upstreams' tools, by who made them.",
                &["tenant", "upstream", "tool", "outcome"],
            ),
            bytes: counters(
                "plasm_usage_bytes_total",
                "Bytes of calls' params and answers, by who made them.",
                &["tenant", "upstream", "direction"],
            ),
            millis: counters(
                "plasm_usage_milliseconds_total",
                "Time that calls took, by who made them.",
                &["tenant", "upstream"],
            ),
        }
    }
}

impl Collector for Usage {
    fn desc(&self) -> Vec<&Desc> {
        [&self.calls, &self.bytes, &self.millis].into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // A scrape beside another would add twice.
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        for vec in [&self.calls, &self.bytes, &self.millis] {
            vec.reset();
        }
        let mut sums: BTreeMap<(Arc<str>, Arc<str>), [u64; 3]> = BTreeMap::new();
        for row in used() {
            let Used { tenant, upstream, tool, calls, errors, .. } = &row;
            for (outcome, many) in [("ok", calls.saturating_sub(*errors)), ("error", *errors)] {
                self.calls.with_label_values(&[tenant, upstream, tool, outcome]).inc_by(many);
            }
            let sum = sums.entry((tenant.clone(), upstream.clone())).or_default();
            let more = [row.bytes_in, row.bytes_out, (row.seconds * 1e3) as u64];
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        for ((tenant, upstream), [bytes_in, bytes_out, millis]) in sums {
            self.bytes.with_label_values(&[&*tenant, &*upstream, "in"]).inc_by(bytes_in);
            self.bytes.with_label_values(&[&*tenant, &*upstream, "out"]).inc_by(bytes_out);
            self.millis.with_label_values(&[&*tenant, &*upstream]).inc_by(millis);
        }
        [&self.calls, &self.bytes, &self.millis].into_iter().flat_map(Collector::collect).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_makes_up_names_of_tools_fills_its_own_tenants_rows_alone() {
        let upstream = Upstream::new("usage-test".into());
        let (noisy, quiet) = (Arc::<str>::from("noisy"), Arc::<str>::from("quiet"));
        for n in 0..PER_TENANT * 2 {
            upstream.row(&noisy, &format!("t{n}")).count(false, 1, 2, Duration::from_millis(3));
        }
        upstream.row(&noisy, &"x".repeat(LONGEST + 1)).count(false, 1, 2, Duration::ZERO);
        upstream.row(&quiet, "t").count(true, 5, 7, Duration::from_secs(1));
        let used: Vec<_> = used().into_iter().filter(|row| &*row.upstream == "usage-test").collect();
        assert_eq!(used.len(), PER_TENANT + 2);
        let of = |tenant: &str, tool: &str| {
            used.iter().find(|row| &*row.tenant == tenant && &*row.tool == tool).unwrap()
        };
        assert_eq!(of("noisy", OTHERS).calls as usize, PER_TENANT + 1);
        let row = of("quiet", "t");
        assert_eq!((row.calls, row.errors, row.bytes_in, row.bytes_out, row.seconds), (1, 1, 5, 7, 1.0));
        let text = String::from_utf8(metrics().exposition()).unwrap();
        let series =
            r#"plasm_usage_calls_total{outcome="error",tenant="quiet",tool="t",upstream="usage-test"} 1"#;
        assert!(text.contains(series), "{text}");
    }
}
