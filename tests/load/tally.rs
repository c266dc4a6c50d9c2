//! What is counted while the load runs, and the report of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Failures that are told in full; all are counted.
const TOLD: usize = 100;

pub struct Tally {
    began: Instant,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    calls: BTreeMap<&'static str, Calls>,
    counts: BTreeMap<&'static str, u64>,
    gaps: BTreeMap<&'static str, Vec<Duration>>,
    replicas: HashMap<String, u64>,
    failures: Vec<Value>,
}

#[derive(Default)]
struct Calls {
    took: Vec<Duration>,
    failed: u64,
}

impl Tally {
    pub fn new() -> Tally {
        Tally { began: Instant::now(), kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn answered(&self, replica: &str) {
        *self.kept().replicas.entry(replica.to_owned()).or_default() += 1;
    }

    pub fn done(&self, kind: &'static str, took: Duration) {
        self.kept().calls.entry(kind).or_default().took.push(took);
    }

    /// A call, or what else should have worked. `replica`: who had it, as far as is known.
    pub fn failed(&self, kind: &'static str, replica: &str, why: &str) {
        let at = self.began.elapsed().as_secs_f64();
        let mut kept = self.kept();
        kept.calls.entry(kind).or_default().failed += 1;
        if kept.failures.len() < TOLD {
            let at = (at * 1000.0).round() / 1000.0;
            kept.failures.push(json!({ "at_s": at, "what": kind, "replica": replica, "why": why }));
        }
    }

    pub fn count(&self, what: &'static str, more: u64) {
        *self.kept().counts.entry(what).or_default() += more;
    }

    /// A stream of this kind was not there for so long.
    pub fn gap(&self, kind: &'static str, long: Duration) {
        self.kept().gaps.entry(kind).or_default().push(long);
    }

    pub fn report(&self) -> Value {
        let mut kept = self.kept();
        let mut calls = serde_json::Map::new();
        let (mut done, mut failed) = (0, 0);
        for (kind, calls_of) in &mut kept.calls {
            done += calls_of.took.len() as u64;
            failed += calls_of.failed;
            let shares = percentiles(&mut calls_of.took);
            let figures = json!({
                "done": calls_of.took.len(), "failed": calls_of.failed,
                "p50_ms": shares[0], "p99_ms": shares[1], "longest_ms": shares[2],
            });
            calls.insert((*kind).to_owned(), figures);
        }
        let mut gaps = serde_json::Map::new();
        for (kind, gaps_of) in &mut kept.gaps {
            let shares = percentiles(gaps_of);
            let figures = json!({ "times": gaps_of.len(), "p50_ms": shares[0], "longest_ms": shares[2] });
            gaps.insert((*kind).to_owned(), figures);
        }
        json!({
            "seconds": self.began.elapsed().as_secs(),
            "done": done, "failed": failed, "calls": calls, "counts": kept.counts, "gaps": gaps,
            "replicas": kept.replicas, "failures": kept.failures,
        })
    }
}

/// The median, the 99th percentile and the largest, in milliseconds.
fn percentiles(of: &mut [Duration]) -> [f64; 3] {
    of.sort_unstable();
    [50, 99, 100].map(|share| {
        let at = (of.len() * share).div_ceil(100).saturating_sub(1);
        of.get(at).map_or(0.0, |took| (took.as_secs_f64() * 10_000.0).round() / 10.0)
    })
}

/// Numbers that must come one after the other, each once.
#[derive(Default)]
pub struct Numbers {
    /// The last one that came, or that everybody after it is waited for.
    pub last: u64,
    pub doubled: u64,
    pub lost: u64,
    /// Missing, but it was said that something may have been missed.
    pub made_up: u64,
    /// Missing so far.
    missing: u64,
    /// It was said so, and no number has come since.
    excused: bool,
    begun: bool,
}

impl Numbers {
    /// Those after this one must come. It itself may be on its way.
    pub fn after(number: u64) -> Numbers {
        Numbers { last: number, ..Numbers::default() }
    }

    pub fn came(&mut self, number: u64) {
        let (first, excused) = (!std::mem::replace(&mut self.begun, true), std::mem::take(&mut self.excused));
        if number > self.last {
            let skipped = number - self.last - 1;
            *if excused { &mut self.made_up } else { &mut self.missing } += skipped;
            self.last = number;
        } else if !(first && number == self.last) {
            self.doubled += 1;
        }
    }

    /// A notification without a number: after a gap, in place of all that may have been missed.
    pub fn excuse(&mut self) {
        self.made_up += std::mem::take(&mut self.missing);
        self.excused = true;
    }

    /// No more come than this one.
    pub fn end(&mut self, last: u64) {
        self.lost += std::mem::take(&mut self.missing) + last.saturating_sub(self.last);
    }
}
