//! Structured logs on stderr: text for a person's terminal, one JSON object a line elsewhere.

use super::traces;
use opentelemetry_sdk::trace::SdkTracer;
use std::io::IsTerminal;
use tracing::Level;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::time::SystemTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// How lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Text,
    Json,
    /// Text on a terminal, JSON elsewhere.
    Auto,
}

/// The filter is not one (`level` or `target=level,…`).
#[derive(Debug, thiserror::Error)]
#[error("log filter {filter:?}: {why}")]
pub struct BadFilter {
    filter: String,
    why: String,
}

/// Begins to log. Always on stderr, for stdout may be a protocol. `tracer`: where spans of calls go, and warnings within them.
/// Called once; a second call changes nothing.
pub fn begin(filter: &str, form: Form, tracer: Option<SdkTracer>) -> Result<(), BadFilter> {
    let parsed = EnvFilter::builder()
        .parse(filter)
        .map_err(|e| BadFilter { filter: filter.to_owned(), why: e.to_string() })?;
    let terminal = std::io::stderr().is_terminal();
    let json = form == Form::Json || (form == Form::Auto && !terminal);
    // It would say so on stderr itself, and panic in whoever logs where nobody reads that any more.
    let lines = tracing_subscriber::fmt::layer()
        .with_timer(SystemTime)
        .with_writer(std::io::stderr)
        .log_internal_errors(false)
        .with_ansi(terminal);
    let lines: Box<dyn Layer<Registry> + Send + Sync> =
        if json { lines.json().flatten_event(true).boxed() } else { lines.boxed() };
    // A test process begins more than once; the first one stays.
    let _ = match tracer {
        None => tracing_subscriber::registry().with(lines).with(parsed).try_init(),
        Some(tracer) => {
            let spans = tracing_opentelemetry::layer()
                .with_tracer(tracer)
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_tracked_inactivity(false)
                .with_context_activation(false);
            let ours = filter_fn(|of| match of.is_span() {
                true => of.target() == traces::TARGET,
                false => *of.level() <= Level::WARN && of.target().starts_with("plasm_mcp"),
            });
            let lines = lines.with_filter(parsed.and(filter_fn(|of| of.target() != traces::TARGET)));
            tracing_subscriber::registry().with(lines.and_then(spans.with_filter(ours))).try_init()
        }
    };
    Ok(())
}
