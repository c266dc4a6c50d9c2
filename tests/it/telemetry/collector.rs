//! A collector of OpenTelemetry: takes OTLP over HTTP as protobuf, and keeps it.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value as Any};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span as Proto;
use prost::Message;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

use crate::harness::comes_true;

#[derive(Default)]
struct Taken {
    spans: Vec<Span>,
    logs: Vec<LogRecord>,
    /// Attributes of the last resource that came.
    resource: Vec<KeyValue>,
    /// `Authorization` of the requests.
    credentials: Vec<String>,
}

pub struct Collector {
    pub url: String,
    taken: Arc<Mutex<Taken>>,
    status: Arc<AtomicU16>,
}

/// A span, as tests ask for it.
#[derive(Clone, Debug)]
pub struct Span {
    pub trace: String,
    pub id: String,
    /// `""`: none.
    pub parent: String,
    pub name: String,
    /// 2 server, 3 client.
    pub kind: i32,
    pub links: Vec<String>,
    pub failed: bool,
    attributes: Vec<KeyValue>,
}

impl Span {
    fn of(span: Proto) -> Span {
        Span {
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            kind: span.kind,
            links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
            failed: span.status.as_ref().is_some_and(|status| status.code == 2),
            name: span.name,
            attributes: span.attributes,
        }
    }

    pub fn get(&self, key: &str) -> Option<String> {
        attribute(&self.attributes, key)
    }
}

pub fn attribute(all: &[KeyValue], key: &str) -> Option<String> {
    let value = all.iter().find(|one| one.key == key)?.value.as_ref()?.value.as_ref()?;
    Some(match value {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(number) => number.to_string(),
        Any::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Collector {
    pub async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let (taken, status) = (Arc::<Mutex<Taken>>::default(), Arc::new(AtomicU16::new(200)));
        let (keep, answer) = (taken.clone(), status.clone());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (keep, answer) = (keep.clone(), answer.clone());
                let service =
                    hyper::service::service_fn(move |request| take(request, keep.clone(), answer.clone()));
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(socket), service),
                );
            }
        });
        Collector { url, taken, status }
    }

    /// Answers with this status from now on.
    pub fn answers(&self, status: u16) {
        self.status.store(status, Ordering::SeqCst);
    }

    pub fn spans(&self) -> Vec<Span> {
        self.taken.lock().unwrap().spans.clone()
    }

    pub fn logs(&self) -> Vec<LogRecord> {
        self.taken.lock().unwrap().logs.clone()
    }

    pub fn resource(&self, key: &str) -> Option<String> {
        attribute(&self.taken.lock().unwrap().resource, key)
    }

    pub fn credentials(&self) -> Vec<String> {
        self.taken.lock().unwrap().credentials.clone()
    }

    /// The span of this kind in a trace, once it is there.
    pub async fn span(&self, trace: &str, kind: i32) -> Span {
        let find = || self.spans().into_iter().find(|span| span.trace == trace && span.kind == kind);
        comes_true("the span is delivered", || async { find().is_some() }).await;
        find().expect("it was there")
    }
}

async fn take(
    request: Request<Incoming>,
    taken: Arc<Mutex<Taken>>,
    status: Arc<AtomicU16>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let mut response = Response::new(Full::default());
    let status = StatusCode::from_u16(status.load(Ordering::SeqCst)).expect("a status");
    *response.status_mut() = status;
    let Ok(body) = body.collect().await else { return Ok(response) };
    if !status.is_success() {
        return Ok(response);
    }
    assert_eq!(head.headers["content-type"], "application/x-protobuf");
    let mut taken = taken.lock().unwrap();
    let shown = head.headers.get("authorization").and_then(|value| value.to_str().ok());
    taken.credentials.extend(shown.map(str::to_owned));
    match head.uri.path() {
        "/v1/traces" => {
            let request = ExportTraceServiceRequest::decode(body.to_bytes()).expect("OTLP traces");
            for of in request.resource_spans {
                taken.resource = of.resource.map(|resource| resource.attributes).unwrap_or_default();
                taken.spans.extend(of.scope_spans.into_iter().flat_map(|scope| scope.spans).map(Span::of));
            }
        }
        "/v1/logs" => {
            let request = ExportLogsServiceRequest::decode(body.to_bytes()).expect("OTLP logs");
            for of in request.resource_logs {
                taken.logs.extend(of.scope_logs.into_iter().flat_map(|scope| scope.log_records));
            }
        }
        other => panic!("nothing is sent to {other}"),
    }
    Ok(response)
}
