//! What is seen of the gateway from outside, from the configuration: logs, traces, the audit.

use super::{StartError, outbound};
use crate::config::{AuditTo, Config, LogFormat, Parents, Traces, glob};
use crate::egress::{Egress, Named};
use crate::telemetry::audit::{Audit, Policy};
use crate::telemetry::logs::{self, Form};
use crate::telemetry::{Lookout, traces};
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// How long the last of it may take to be delivered when the process ends.
const LAST: Duration = Duration::from_secs(3);

/// Begins to log and, where the configuration says so, to trace. Errors: a filter, an address or a file that cannot be used.
pub fn begin(config: &Config) -> Result<(), StartError> {
    let tracer = match config.telemetry.traces {
        Traces::Off => None,
        // The switch that every OpenTelemetry SDK knows.
        Traces::Otlp if std::env::var("OTEL_SDK_DISABLED").is_ok_and(|v| v.eq_ignore_ascii_case("true")) => {
            None
        }
        Traces::Otlp => {
            let settings = traces::Settings {
                sample: config.telemetry.sample,
                parents: match config.telemetry.parents {
                    Parents::Follow => traces::Parents::Follow,
                    Parents::Link => traces::Parents::Link,
                    Parents::Ignore => traces::Parents::Ignore,
                },
                queue: config.telemetry.queue as usize,
                resource: resource(),
            };
            let exporter =
                SpanExporter::builder().with_http().with_http_client(Collector(outbound::egress(config)?));
            let exporter = exporter.with_retry_policy(RetryPolicy::disabled());
            let exporter = match endpoint(config, "v1/traces") {
                Some(endpoint) => exporter.with_endpoint(endpoint),
                None => exporter,
            };
            Some(traces::begin(settings, exporter.build().map_err(unusable)?))
        }
    };
    let form = match config.log.format {
        LogFormat::Auto => Form::Auto,
        LogFormat::Text => Form::Text,
        LogFormat::Json => Form::Json,
    };
    logs::begin(&config.log.filter, form, tracer)
        .map_err(|error| StartError::Setting { key: "log.filter".to_owned(), why: error.to_string() })
}

/// What is watched of calls. Errors as [`begin`].
pub(super) fn lookout(config: &Config) -> Result<Arc<Lookout>, StartError> {
    let audit = &config.audit;
    let tools = audit.arguments.clone();
    let policy = Policy {
        tools: Box::new(move |tool| tools.iter().any(|pattern| glob::matches(pattern, tool))),
        bytes: audit.argument_bytes,
        redact: audit.redact.clone(),
    };
    let queue = config.telemetry.queue as usize;
    Ok(Lookout::new(match audit.to {
        AuditTo::Off => None,
        AuditTo::Stdout => Some(Audit::to_stdout(policy, queue)),
        AuditTo::Otlp => {
            let exporter =
                LogExporter::builder().with_http().with_http_client(Collector(outbound::egress(config)?));
            let exporter = exporter.with_retry_policy(RetryPolicy::disabled());
            let exporter = match endpoint(config, "v1/logs") {
                Some(endpoint) => exporter.with_endpoint(endpoint),
                None => exporter,
            };
            Some(Audit::to_collector(policy, queue, exporter.build().map_err(unusable)?, &resource()))
        }
    }))
}

/// Delivers what was said, as far as anybody takes it in time. For the end of the process.
pub async fn end(lookout: &Lookout) {
    let last = async { tokio::join!(traces::flush(), lookout.flush()) };
    if tokio::time::timeout(LAST, last).await.is_err() {
        tracing::warn!("what was left to tell of calls is not taken in time");
    }
}

fn endpoint(config: &Config, signal: &str) -> Option<String> {
    config.telemetry.endpoint.as_ref().map(|base| format!("{}/{signal}", base.trim_end_matches('/')))
}

/// Kubernetes names the pod by its host name; elsewhere the process is told apart by its number.
fn resource() -> opentelemetry_sdk::Resource {
    traces::resource(std::env::var("HOSTNAME").unwrap_or_else(|_| std::process::id().to_string()))
}

fn unusable(error: ExporterBuildError) -> StartError {
    StartError::Setting { key: "telemetry.endpoint".to_owned(), why: error.to_string() }
}

/// The way to the collector.
#[derive(Clone)]
struct Collector(Egress);

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Collector")
    }
}

/// Written out, for the trait is made by a macro that we do not use.
impl HttpClient for Collector {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let answer = self.0.send(request, Named::ByUs).await?;
            let mut response = Response::new(answer.body);
            *response.status_mut() = answer.status;
            *response.headers_mut() = answer.headers;
            Ok(response)
        })
    }
}
