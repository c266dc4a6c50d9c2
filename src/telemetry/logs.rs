//! Structured logs on stderr: text for a person's terminal, one JSON object a line elsewhere.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::SystemTime;

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

/// Begins to log. Always on stderr, for stdout may be a protocol. Called once; a second call changes nothing.
pub fn begin(filter: &str, form: Form) -> Result<(), BadFilter> {
    let parsed = EnvFilter::builder()
        .parse(filter)
        .map_err(|e| BadFilter { filter: filter.to_owned(), why: e.to_string() })?;
    let terminal = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_timer(SystemTime)
        .with_writer(std::io::stderr)
        // It would say so on stderr itself, and panic in whoever logs where nobody reads that any more.
        .log_internal_errors(false)
        .with_ansi(terminal);
    let json = form == Form::Json || (form == Form::Auto && !terminal);
    // A test process begins more than once; the first one stays.
    let _ = if json { builder.json().flatten_event(true).try_init() } else { builder.try_init() };
    Ok(())
}
