//! Traces of calls: a server span for what a client asked, under it a client span for what an upstream was asked, and the W3C
//! context between them, after OpenTelemetry's semantic conventions for MCP. Off, none of it is touched but one flag.

mod carried;

pub use carried::Carried;

use super::audit::{profile, without_query};
use super::outbox::Outbox;
use super::watch::{Detail, End, Target, Who};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use opentelemetry::trace::{Status, TraceContextExt, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan, SpanData, SpanExporter, SpanProcessor,
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The target of our spans. Logs have nothing of them.
pub const TARGET: &str = "plasm_mcp::span";
/// How long a batch of spans waits for more.
const LINGER: Duration = Duration::from_secs(1);

/// What a client's trace context counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parents {
    /// Its trace goes on.
    Follow,
    /// A trace of our own is linked to it.
    Link,
    Ignore,
}

/// What is traced.
pub struct Settings {
    /// The part of calls that is traced where the caller does not say, from 0 to 1.
    pub sample: f64,
    pub parents: Parents,
    /// Most ended spans that wait.
    pub queue: usize,
    pub resource: Resource,
}

/// Traces, while they are on. There is one in a process, as there is one subscriber.
struct On {
    parents: Parents,
    outbox: Arc<Outbox<SpanData>>,
    provider: SdkTracerProvider,
}

static ON: OnceLock<On> = OnceLock::new();

pub(super) fn are_on() -> bool {
    ON.get().is_some()
}

/// Begins to trace; gives the tracer for [`logs::begin`](super::logs::begin). A second call changes nothing.
pub fn begin<E: SpanExporter + 'static>(settings: Settings, mut exporter: E) -> SdkTracer {
    let on = ON.get_or_init(|| {
        exporter.set_resource(&settings.resource);
        let exporter = Arc::new(exporter);
        let deliver = move |spans: Arc<Vec<SpanData>>| -> BoxFuture<'static, Result<(), String>> {
            let exporter = exporter.clone();
            async move { exporter.export(spans.to_vec()).await.map_err(|error| error.to_string()) }.boxed()
        };
        let outbox = Arc::new(Outbox::new("spans", settings.queue, LINGER, deliver));
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Ended(outbox.clone()))
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sample))))
            .with_resource(settings.resource)
            .build();
        On { parents: settings.parents, outbox, provider }
    });
    on.provider.tracer("plasm-mcp")
}

/// Resolves once all spans that have ended are delivered, or lost.
pub async fn flush() {
    if let Some(on) = ON.get() {
        on.outbox.flush().await;
    }
}

/// Puts ended spans into the outbox.
#[derive(Debug)]
struct Ended(Arc<Outbox<SpanData>>);

impl SpanProcessor for Ended {
    fn on_start(&self, _: &mut SdkSpan, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.0.put(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// The server span of a call.
pub(super) struct Traced {
    span: tracing::Span,
    baggage: Option<Arc<str>>,
}

/// The span of the upstream's part of a call, and what is to be sent along.
#[derive(Clone)]
pub struct Onward {
    span: tracing::Span,
    sent: Arc<Sent>,
}

/// A trace context on its way: for `_meta` (2026-07-28 basic, *OpenTelemetry trace context*), as JSON, and for HTTP.
#[derive(Debug, Default)]
pub struct Sent {
    pub meta: Vec<(&'static str, Bytes)>,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl Traced {
    /// `None` where traces are off.
    pub(super) fn begin(who: &dyn Who, method: &'static str, detail: &Detail) -> Option<Traced> {
        let on = ON.get()?;
        let name = named(method, detail.target.as_ref());
        let span =
            tracing::info_span!(target: TARGET, parent: None, "call", otel.name = name, otel.kind = "server");
        // What the message says goes before what the request around it says (semantic conventions, *Context propagation*).
        let [near, far] = [&detail.meta, &detail.http];
        let parent = near.span().or(far.span());
        match on.parents {
            Parents::Follow => {
                if let Some(parent) = parent {
                    let _ = span.set_parent(Context::new().with_remote_span_context(parent.clone()));
                }
                if let (Some(near), Some(far)) = (near.span(), far.span())
                    && near != far
                {
                    span.add_link(far.clone());
                }
            }
            Parents::Link => parent.into_iter().for_each(|parent| span.add_link(parent.clone())),
            Parents::Ignore => {}
        }
        let baggage = match on.parents {
            Parents::Ignore => None,
            _ => near.baggage().or(far.baggage()).cloned(),
        };
        let set = |key: &'static str, value: &str| span.set_attribute(key, value.to_owned());
        about(&span, method, detail.target.as_ref());
        set("mcp.protocol.version", who.version());
        if let Some(session) = who.session() {
            set("mcp.session.id", &session);
        }
        set("jsonrpc.request.id", detail.id.trim_matches('"'));
        transported(&span, detail.transport);
        set("plasm.tenant", who.tenant());
        set("plasm.profile", profile(who.profile()));
        if let Some(client) = who.client() {
            set("plasm.client", &client);
        }
        Some(Traced { span, baggage })
    }

    pub(super) fn trace_id(&self) -> Option<String> {
        Some(self.span.context().span().span_context().trace_id().to_string())
    }

    /// The client span of what is asked of an upstream; its own name of the tool.
    pub(super) fn onward(
        &self,
        method: &'static str,
        upstream: &str,
        tool: Option<&str>,
        transport: &'static str,
    ) -> Option<Onward> {
        let target = tool.map(|tool| Target::Tool(tool.to_owned()));
        let name = named(method, target.as_ref());
        let span = tracing::info_span!(target: TARGET, parent: &self.span, "onward", otel.name = name, otel.kind = "client");
        about(&span, method, target.as_ref());
        transported(&span, transport);
        span.set_attribute("plasm.upstream", upstream.to_owned());
        let sent = Sent::of(&span.context(), self.baggage.as_deref());
        Some(Onward { span, sent: Arc::new(sent) })
    }

    pub(super) fn end(&self, end: &End) {
        ended(&self.span, end.outcome);
        if let Some(code) = end.code {
            self.span.set_attribute("rpc.response.status_code", code.to_string());
        }
    }
}

impl Onward {
    pub fn sent(&self) -> &Arc<Sent> {
        &self.sent
    }

    /// What is logged within is an event of the span.
    pub fn span(&self) -> &tracing::Span {
        &self.span
    }

    pub(super) fn end(self, outcome: &'static str) {
        ended(&self.span, outcome);
    }
}

/// A call of another pod's caller passes here on its way to an upstream that this pod has: a span under theirs, which ends
/// when it is dropped. `None` where traces are off or nothing came with it.
pub fn relayed(headers: &[(HeaderName, HeaderValue)], method: &str) -> Option<tracing::Span> {
    ON.get()?;
    let carried = Carried::of(|key| {
        let value = headers.iter().find(|(name, _)| name.as_str() == key)?;
        value.1.to_str().ok().map(Into::into)
    });
    let parent = carried.span()?.clone();
    let span =
        tracing::info_span!(target: TARGET, parent: None, "relay", otel.name = "relay", otel.kind = "server");
    let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    span.set_attribute("mcp.method.name", method.to_owned());
    Some(span)
}

/// `{method} {target}` where the target is one of few (semantic conventions, *Span name*).
fn named(method: &str, target: Option<&Target>) -> String {
    match target {
        Some(Target::Tool(name) | Target::Prompt(name)) => {
            let name: String = name.chars().take(64).collect();
            format!("{method} {name}")
        }
        _ => method.to_owned(),
    }
}

fn about(span: &tracing::Span, method: &'static str, target: Option<&Target>) {
    span.set_attribute("mcp.method.name", method);
    let bounded = |text: &str| text.chars().take(256).collect::<String>();
    match target {
        Some(Target::Tool(name)) => {
            span.set_attribute("gen_ai.tool.name", bounded(name));
            span.set_attribute("gen_ai.operation.name", "execute_tool");
        }
        Some(Target::Prompt(name)) => span.set_attribute("gen_ai.prompt.name", bounded(name)),
        Some(Target::Uri(uri)) => span.set_attribute("mcp.resource.uri", bounded(without_query(uri))),
        None => {}
    }
}

/// Semantic conventions, *Recording MCP transport*.
fn transported(span: &tracing::Span, transport: &'static str) {
    match transport {
        "stdio" => span.set_attribute("network.transport", "pipe"),
        _ => {
            span.set_attribute("network.transport", "tcp");
            span.set_attribute("network.protocol.name", "http");
        }
    }
}

fn ended(span: &tracing::Span, outcome: &'static str) {
    if !matches!(outcome, "ok" | "input_required" | "closed") {
        span.set_attribute("error.type", outcome);
        span.set_status(Status::error(outcome));
    }
}

/// What a gateway says of itself to a collector. What the environment says (`OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`)
/// goes before.
pub fn resource(instance: String) -> Resource {
    let said = Resource::builder().build();
    let ours = [
        ("service.name", "plasm-mcp".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", instance),
    ];
    let unsaid = |key: &'static str| {
        let value = said.get(&key.into()).map(|value| value.to_string());
        value.is_none_or(|value| key == "service.name" && value.starts_with("unknown_service"))
    };
    let ours = ours.into_iter().filter(|(key, _)| unsaid(key)).map(|(key, value)| KeyValue::new(key, value));
    Resource::builder().with_attributes(ours.collect::<Vec<_>>()).build()
}
