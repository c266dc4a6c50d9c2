//! The admin port: probes, metrics, the drain, and pages for the operator, never on the public listener.

mod inside;
mod seen;

pub use inside::{Inside, Page};
pub use seen::{Attachments, Usage};

use crate::lifecycle::{Lifecycle, Plan, Stage};
use crate::telemetry::metrics;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;

/// Answers a request of `peer` on the admin port. `/livez`: the process serves; `/readyz`: it takes new clients;
/// `/metrics`: Prometheus' text format; `/drain`: how far the pod has come, and by POST the order to drain by `plan`,
/// which is taken from this machine alone.
pub fn answer(lifecycle: &Lifecycle, plan: Plan, peer: SocketAddr, request: &Request<Body>) -> Response {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let stage = lifecycle.stage();
    match request.uri().path() {
        "/drain" if *request.method() == Method::POST => drain(lifecycle, plan, peer, request),
        "/drain" if !reads => not_allowed("GET, HEAD, POST", "GET and POST only\n"),
        "/drain" => (StatusCode::OK, named(stage)).into_response(),
        _ if !reads => not_allowed("GET, HEAD", "GET only\n"),
        "/livez" => (StatusCode::OK, "live\n").into_response(),
        "/readyz" if stage == Stage::Ready => (StatusCode::OK, "ready\n").into_response(),
        "/readyz" if stage == Stage::Starting => {
            (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response()
        }
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
        "/metrics" => {
            tell_drain(lifecycle);
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics().exposition())
                .into_response()
        }
        _ => (StatusCode::NOT_FOUND, "no such page: /livez, /readyz, /drain and /metrics are here\n")
            .into_response(),
    }
}

/// How far the pod has come, at each scrape: nothing else changes it.
fn tell_drain(lifecycle: &Lifecycle) {
    let (since, limit) = lifecycle.draining_for().unwrap_or_default();
    metrics().drain_stage.set(lifecycle.stage() as i64);
    metrics().drain_seconds.set(since.as_secs_f64());
    metrics().drain_limit_seconds.set(limit.as_secs_f64());
}

/// 202 with the stage that the pod is in from now on.
fn drain(lifecycle: &Lifecycle, plan: Plan, peer: SocketAddr, request: &Request<Body>) -> Response {
    // A page in a browser of this machine is not whoever runs the gateway; browsers name it in every POST.
    if !peer.ip().to_canonical().is_loopback() || request.headers().contains_key(header::ORIGIN) {
        let why = "a pod is drained from its own machine alone: plasm-mcp drain\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    lifecycle.drain(plan);
    (StatusCode::ACCEPTED, named(lifecycle.stage())).into_response()
}

/// The word for a stage, a line.
fn named(stage: Stage) -> &'static str {
    match stage {
        Stage::Starting => "starting\n",
        Stage::Ready => "ready\n",
        Stage::Leaving => "leaving\n",
        Stage::Draining => "draining\n",
        Stage::Drained => "drained\n",
    }
}

fn not_allowed(allow: &'static str, why: &'static str) -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allow)], why).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_pod_is_drained_from_its_own_machine_and_by_no_page() {
        let pod = Lifecycle::default();
        pod.set_ready();
        let plan = Plan { propagation: Duration::from_secs(60), budget: Duration::ZERO };
        let ask = |verb: Method, peer: &str, origin: Option<&str>| {
            let request = Request::builder().method(verb).uri("/drain");
            let request =
                origin.into_iter().fold(request, |request, origin| request.header("origin", origin));
            let request = request.body(Body::empty()).unwrap();
            answer(&pod, plan, peer.parse().unwrap(), &request).status().as_u16()
        };
        assert_eq!(ask(Method::POST, "10.0.0.1:5", None), 403);
        assert_eq!(ask(Method::POST, "127.0.0.1:5", Some("http://127.0.0.1:9090")), 403);
        assert_eq!(ask(Method::GET, "10.0.0.1:5", None), 200);
        assert_eq!(ask(Method::PUT, "127.0.0.1:5", None), 405);
        assert_eq!(pod.stage(), Stage::Ready);
        assert_eq!(ask(Method::POST, "[::ffff:127.0.0.1]:5", None), 202);
        assert_eq!(pod.stage(), Stage::Leaving);
        assert_eq!(ask(Method::POST, "[::1]:5", None), 202, "once more changes nothing");
    }
}
