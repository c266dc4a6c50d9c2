//! The audit: one event a call, whatever becomes of it, to standard output or a collector. Who calls what, where it went, how
//! it ended; of arguments only what the policy names, redacted. Never waits: see `outbox`.

mod event;
mod redact;

use super::meters::Meters;
use super::outbox::{Deliver, Outbox};
use super::watch::{Target, Who};
pub(super) use event::{profile, without_query};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{LogBatch, LogExporter, SdkLoggerProvider};
use redact::Redact;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// How long the collector's batches wait for more.
const LINGER: Duration = Duration::from_secs(1);

/// A call that is over.
pub struct Call {
    pub who: Arc<dyn Who>,
    pub method: &'static str,
    pub target: Option<Target>,
    pub upstream: Option<Arc<Meters>>,
    pub outcome: &'static str,
    pub code: Option<i64>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub took: Duration,
    pub trace: Option<String>,
    pub arguments: Option<Arguments>,
    pub transport: &'static str,
}

/// A request that was refused before it became a call.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// The HTTP status.
    pub status: u16,
    pub why: &'static str,
    pub profile: &'a str,
    /// Tenant and subject, where they are known.
    pub principal: Option<(&'a str, &'a str)>,
    pub agent: Option<&'a str>,
}

/// What is written of a call's arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// JSON, redacted.
    Text(Arc<str>),
    /// They are longer than may be written, or no JSON object.
    Omitted(usize),
}

/// Whose arguments are written, and what of them is not.
pub struct Policy {
    /// Of `<upstream>__<tool>`.
    pub tools: Box<dyn Fn(&str) -> bool + Send + Sync>,
    pub bytes: usize,
    /// Names of arguments, besides those that usually hold secrets.
    pub redact: Vec<String>,
}

pub struct Audit {
    outbox: Outbox<Event>,
    tools: Box<dyn Fn(&str) -> bool + Send + Sync>,
    redact: Redact,
}

enum Event {
    Call(SystemTime, Box<Call>),
    Refused(SystemTime, Box<Turned>),
}

/// [`Refused`], to keep.
struct Turned {
    status: u16,
    why: &'static str,
    profile: String,
    principal: Option<(String, String)>,
    agent: Option<String>,
}

impl Audit {
    /// To standard output, one JSON object a line.
    pub fn to_stdout(policy: Policy, queue: usize) -> Audit {
        Audit::to_writer(policy, queue, tokio::io::stdout())
    }

    fn to_writer(policy: Policy, queue: usize, out: impl AsyncWrite + Send + Unpin + 'static) -> Audit {
        Audit::new(policy, Outbox::new("audit", queue, Duration::ZERO, Lines(out)))
    }

    /// To a collector, a log record each.
    pub fn to_collector<E: LogExporter + 'static>(
        policy: Policy,
        queue: usize,
        mut exporter: E,
        resource: &Resource,
    ) -> Audit {
        exporter.set_resource(resource);
        let exporter = Arc::new(exporter);
        // It makes records, and hands them to nobody.
        let logger =
            SdkLoggerProvider::builder().with_resource(resource.clone()).build().logger("plasm-mcp.audit");
        let scope = opentelemetry::InstrumentationScope::builder("plasm-mcp.audit").build();
        let deliver = move |events: Arc<Vec<Event>>| -> BoxFuture<'static, Result<(), String>> {
            let (exporter, logger, scope) = (exporter.clone(), logger.clone(), scope.clone());
            async move {
                let records: Vec<_> = events
                    .iter()
                    .map(|event| {
                        let mut record = logger.create_log_record();
                        event.record(&mut record);
                        record
                    })
                    .collect();
                let batch: Vec<_> = records.iter().map(|record| (record, &scope)).collect();
                exporter.export(LogBatch::new(&batch)).await.map_err(|error| error.to_string())
            }
            .boxed()
        };
        Audit::new(policy, Outbox::new("audit", queue, LINGER, deliver))
    }

    fn new(policy: Policy, outbox: Outbox<Event>) -> Audit {
        Audit { outbox, tools: policy.tools, redact: Redact::new(policy.bytes, policy.redact) }
    }

    /// Whether arguments of this tool are written.
    pub(super) fn wants_arguments(&self, upstream: &str, tool: &str) -> bool {
        (self.tools)(&format!("{upstream}__{tool}"))
    }

    pub(super) fn arguments(&self, text: &[u8]) -> Arguments {
        self.redact.arguments(text)
    }

    pub(super) fn call(&self, call: Call) {
        self.outbox.put(Event::Call(SystemTime::now(), Box::new(call)));
    }

    pub(super) fn refused(&self, refused: Refused<'_>) {
        let bounded = |text: &str| text.chars().take(128).collect::<String>();
        let turned = Turned {
            status: refused.status,
            why: refused.why,
            profile: bounded(refused.profile),
            principal: refused.principal.map(|(tenant, subject)| (bounded(tenant), bounded(subject))),
            agent: refused.agent.map(bounded),
        };
        self.outbox.put(Event::Refused(SystemTime::now(), Box::new(turned)));
    }

    /// Resolves once all that was said before is out, or lost.
    pub async fn flush(&self) {
        self.outbox.flush().await;
    }
}

/// Writes events as lines.
struct Lines<W>(W);

impl<W: AsyncWrite + Send + Unpin + 'static> Deliver<Event> for Lines<W> {
    fn deliver<'a>(&'a mut self, events: &'a Arc<Vec<Event>>) -> BoxFuture<'a, Result<(), String>> {
        let mut lines = Vec::with_capacity(events.len() * 512);
        events.iter().for_each(|event| event.write(&mut lines));
        let written = async move {
            self.0.write_all(&lines).await?;
            self.0.flush().await
        };
        written.map_err(|error: std::io::Error| error.to_string()).boxed()
    }
}

impl Event {
    /// As a log record: the same fields as attributes.
    fn record(&self, record: &mut impl LogRecord) {
        let line = self.line();
        record.set_timestamp(self.at());
        record.set_observed_timestamp(self.at());
        record.set_event_name(line.event());
        record.set_severity_number(Severity::Info);
        record.set_severity_text("INFO");
        record.set_body(AnyValue::from(line.event()));
        let fields = serde_json::to_value(&line).unwrap_or_default();
        for (key, value) in fields.as_object().into_iter().flatten().filter(|(key, _)| *key != "time") {
            let value: AnyValue = match value {
                serde_json::Value::String(text) => AnyValue::from(text.clone()),
                serde_json::Value::Number(number) => match number.as_i64() {
                    Some(whole) => AnyValue::from(whole),
                    None => AnyValue::from(number.as_f64().unwrap_or_default()),
                },
                other => AnyValue::from(other.to_string()),
            };
            record.add_attribute(key.clone(), value);
        }
    }
}

#[cfg(test)]
mod tests;
