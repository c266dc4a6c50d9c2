//! What goes out beside the calls and must not hold them up: audit events and spans, gathered and delivered in batches by a
//! task of their own. What finds the outbox full is dropped and counted; what cannot be delivered is counted, and said once.

use super::metrics::metrics;
use futures_util::future::BoxFuture;
use prometheus::{IntCounter, IntCounterVec, Opts};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};

/// Most of one delivery.
const BATCH: usize = 512;
/// How often a delivery is tried, and the pause before the second time; doubled before the third.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(500);

/// Delivers batches, one after the other.
pub(super) trait Deliver<T>: Send + 'static {
    /// The text of an error may be logged.
    fn deliver<'a>(&'a mut self, batch: &'a Arc<Vec<T>>) -> BoxFuture<'a, Result<(), String>>;
}

impl<T, F> Deliver<T> for F
where
    F: FnMut(Arc<Vec<T>>) -> BoxFuture<'static, Result<(), String>> + Send + 'static,
{
    fn deliver<'a>(&'a mut self, batch: &'a Arc<Vec<T>>) -> BoxFuture<'a, Result<(), String>> {
        self(batch.clone())
    }
}

/// The way out for one kind of thing.
#[derive(Debug)]
pub(super) struct Outbox<T> {
    sender: mpsc::Sender<Put<T>>,
    dropped: IntCounter,
}

#[derive(Debug)]
enum Put<T> {
    One(T),
    /// To be told once all before it was delivered, or could not be.
    Flush(oneshot::Sender<()>),
}

/// What became of what was put: `sent`, `dropped` or `failed`, by kind.
fn counter(kind: &'static str, outcome: &'static str) -> IntCounter {
    static COUNTED: OnceLock<IntCounterVec> = OnceLock::new();
    let counted = COUNTED.get_or_init(|| {
        let opts = Opts::new(
            "plasm_telemetry_total",
            "Audit events and spans: delivered, dropped because too many waited, or not taken by whom they are for.",
        );
        metrics().registered(IntCounterVec::new(opts, &["kind", "outcome"]))
    });
    counted.with_label_values(&[kind, outcome])
}

impl<T: Send + Sync + 'static> Outbox<T> {
    /// Holds at most `queue` things of a `kind`. A batch waits for more for `linger` at most.
    pub(super) fn new(
        kind: &'static str,
        queue: usize,
        linger: Duration,
        deliver: impl Deliver<T>,
    ) -> Outbox<T> {
        let (sender, puts) = mpsc::channel(queue);
        let [sent, failed, dropped] = ["sent", "failed", "dropped"].map(|outcome| counter(kind, outcome));
        let deliver = Box::new(deliver);
        tokio::spawn(Courier { kind, puts, linger, deliver, sent, failed, away: false }.run());
        Outbox { sender, dropped }
    }

    /// Never waits.
    pub(super) fn put(&self, one: T) {
        if self.sender.try_send(Put::One(one)).is_err() {
            self.dropped.inc();
        }
    }

    /// Resolves once all that was put before was delivered, or could not be.
    pub(super) async fn flush(&self) {
        let (done, is_done) = oneshot::channel();
        if self.sender.send(Put::Flush(done)).await.is_ok() {
            let _ = is_done.await;
        }
    }
}

/// The task that delivers. It ends with the outbox.
struct Courier<T> {
    kind: &'static str,
    puts: mpsc::Receiver<Put<T>>,
    linger: Duration,
    deliver: Box<dyn Deliver<T>>,
    sent: IntCounter,
    failed: IntCounter,
    /// The last delivery failed, and that was said.
    away: bool,
}

impl<T: Send + Sync + 'static> Courier<T> {
    async fn run(mut self) {
        loop {
            let mut batch = Vec::new();
            let mut waits = None;
            let mut until = None;
            while batch.len() < BATCH && waits.is_none() {
                let put = match until {
                    None => self.puts.recv().await,
                    Some(until) => match timeout_at(until, self.puts.recv()).await {
                        Ok(put) => put,
                        Err(_) => break,
                    },
                };
                match put {
                    Some(Put::One(one)) => {
                        until.get_or_insert_with(|| Instant::now() + self.linger);
                        batch.push(one);
                    }
                    Some(Put::Flush(done)) => waits = Some(done),
                    None if batch.is_empty() => return,
                    None => break,
                }
            }
            if !batch.is_empty() {
                self.send(Arc::new(batch)).await;
            }
            if let Some(done) = waits {
                let _ = done.send(());
            }
        }
    }

    async fn send(&mut self, batch: Arc<Vec<T>>) {
        let mut tried = 0;
        let why = loop {
            tried += 1;
            match self.deliver.deliver(&batch).await {
                Ok(()) => {
                    self.sent.inc_by(batch.len() as u64);
                    if std::mem::take(&mut self.away) {
                        tracing::info!(kind = self.kind, "telemetry is taken again");
                    }
                    return;
                }
                // While nobody takes it, each batch is tried once: the next is waiting.
                Err(why) if tried == TRIES || self.away => break why,
                Err(_) => sleep(PAUSE * tried).await,
            }
        };
        self.failed.inc_by(batch.len() as u64);
        if !std::mem::replace(&mut self.away, true) {
            tracing::warn!(
                kind = self.kind,
                why,
                "telemetry is not taken; calls go on, and what is lost is counted"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::sync::Mutex;
    use tokio::sync::Semaphore;

    fn outbox(kind: &'static str, gate: Arc<Semaphore>) -> (Outbox<u32>, Arc<Mutex<Vec<u32>>>) {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let deliver = {
            let taken = taken.clone();
            move |batch: Arc<Vec<u32>>| -> BoxFuture<'static, Result<(), String>> {
                let (taken, gate) = (taken.clone(), gate.clone());
                async move {
                    let _through = gate.acquire().await;
                    taken.lock().unwrap().extend(batch.iter());
                    Ok(())
                }
                .boxed()
            }
        };
        (Outbox::new(kind, 16, Duration::from_secs(3600), deliver), taken)
    }

    #[tokio::test]
    async fn a_flush_waits_for_all_that_was_put_before_it_and_for_no_linger() {
        let (outbox, taken) = outbox("test-flush", Arc::new(Semaphore::new(1)));
        (0..10).for_each(|n| outbox.put(n));
        outbox.flush().await;
        assert_eq!(*taken.lock().unwrap(), (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn who_puts_into_a_full_outbox_does_not_wait_and_is_counted() {
        let gate = Arc::new(Semaphore::new(0));
        let (outbox, taken) = outbox("test-full", gate.clone());
        (0..100).for_each(|n| outbox.put(n));
        assert_eq!(counter("test-full", "dropped").get(), 84);
        gate.add_permits(1);
        outbox.flush().await;
        assert_eq!(taken.lock().unwrap().len(), 16);
    }

    #[tokio::test]
    async fn what_nobody_takes_is_counted_and_not_kept() {
        let deliver = |_: Arc<Vec<u32>>| -> BoxFuture<'static, Result<(), String>> {
            async { Err("refused".to_owned()) }.boxed()
        };
        let outbox = Outbox::new("test-away", 16, Duration::ZERO, deliver);
        outbox.put(1);
        outbox.flush().await;
        outbox.put(2);
        outbox.flush().await;
        assert_eq!(counter("test-away", "failed").get(), 2);
    }
}
