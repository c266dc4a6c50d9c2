//! A store whose answers are measured: how long they take, how they fail, and whether it is there. What a pod's cache answers
//! is none of the store's doing, and is not.

use super::{
    Check, Commit, Events, Fut, Grant, Health, Heard, Key, PodId, Rate, Record, Store, StoreError, Sure,
    Topic, Write,
};
use crate::telemetry::metrics;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::BoxStream;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Seconds, from a round trip within a rack to the longest that one is waited for.
const SECONDS: [f64; 12] = [0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];
const ASKED: [&str; 7] = ["get", "commit", "take", "admit", "events", "mail", "say"];

pub struct Measured {
    of: Arc<dyn Store>,
    _follows: AbortOnDropHandle<()>,
}

struct Measures {
    seconds: [Histogram; 7],
    errors: IntCounterVec,
    up: IntGauge,
    lost: prometheus::IntCounter,
}

fn measures() -> &'static Measures {
    static MEASURES: OnceLock<Measures> = OnceLock::new();
    MEASURES.get_or_init(|| {
        let opts = HistogramOpts::new("plasm_store_seconds", "Time that the store took for a command.");
        let seconds = metrics().registered(HistogramVec::new(opts.buckets(SECONDS.to_vec()), &["asked"]));
        let errors = Opts::new("plasm_store_errors_total", "Commands that the store did not carry out.");
        let errors = metrics().registered(IntCounterVec::new(errors, &["asked", "error"]));
        for asked in ASKED {
            errors.with_label_values(&[asked, "away"]);
        }
        let up = IntGauge::new("plasm_store_up", "Whether the store answers, as this pod sees it.");
        let lost = prometheus::IntCounter::new("plasm_store_lost_total", "Times that the store went away.");
        Measures {
            seconds: ASKED.map(|asked| seconds.with_label_values(&[asked])),
            errors,
            up: metrics().registered(up),
            lost: metrics().registered(lost),
        }
    })
}

impl Measured {
    pub fn new(of: Arc<dyn Store>) -> Measured {
        let mut health = of.health();
        let follows = async move {
            let mut was = true;
            loop {
                let is = *health.borrow_and_update() == Health::Up;
                measures().up.set(is.into());
                if was && !is {
                    measures().lost.inc();
                }
                was = is;
                if health.changed().await.is_err() {
                    return;
                }
            }
        };
        Measured { of, _follows: AbortOnDropHandle::new(tokio::spawn(follows)) }
    }
}

/// `n`: of [`ASKED`].
fn measured<T: Send + 'static>(n: usize, answer: Fut<T>) -> Fut<T> {
    async move {
        let began = Instant::now();
        let answer = answer.await;
        measures().seconds[n].observe(began.elapsed().as_secs_f64());
        if let Err(error) = &answer {
            measures().errors.with_label_values(&[ASKED[n], word(error)]).inc();
        }
        answer
    }
    .boxed()
}

fn word(error: &StoreError) -> &'static str {
    match error {
        StoreError::Away => "away",
        StoreError::Unconfirmed => "unconfirmed",
        StoreError::Full => "full",
        _ => "other",
    }
}

impl Store for Measured {
    fn get(&self, key: Key) -> Fut<Option<Record>> {
        measured(0, self.of.get(key))
    }

    fn near(&self, key: Key) -> Fut<Option<Record>> {
        self.of.near(key)
    }

    fn glance(&self, key: &Key) -> Option<Result<Option<Record>, StoreError>> {
        self.of.glance(key)
    }

    fn commit(&self, checks: Vec<(Key, Check)>, writes: Vec<(Key, Write)>, sure: Sure) -> Fut<Commit> {
        measured(1, self.of.commit(checks, writes, sure))
    }

    fn take(&self, key: Key, sure: Sure) -> Fut<Option<Record>> {
        measured(2, self.of.take(key, sure))
    }

    fn admit(&self, key: Key, rate: Rate) -> Fut<Grant> {
        measured(3, self.of.admit(key, rate))
    }

    fn events(&self, key: Key, after: u64, most: u32) -> Fut<Option<Events>> {
        measured(4, self.of.events(key, after, most))
    }

    fn mail(&self, to: PodId, letter: Bytes) -> Fut<bool> {
        measured(5, self.of.mail(to, letter))
    }

    fn say(&self, topic: Topic, what: Bytes) -> Fut<()> {
        measured(6, self.of.say(topic, what))
    }

    fn hear(&self, me: PodId) -> BoxStream<'static, Heard> {
        self.of.hear(me)
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.of.health()
    }
}
