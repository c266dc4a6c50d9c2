//! The admin port: probes and metrics, never on the public listener.

use crate::lifecycle::Lifecycle;
use crate::telemetry::metrics;
use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Answers a request on the admin port. `/livez`: the process serves; `/readyz`: it takes new clients;
/// `/metrics`: Prometheus' text format.
pub fn answer(lifecycle: &Lifecycle, request: &Request<Body>) -> Response {
    if !matches!(*request.method(), http::Method::GET | http::Method::HEAD) {
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, HEAD")], "GET only\n")
            .into_response();
    }
    match request.uri().path() {
        "/livez" => (StatusCode::OK, "live\n").into_response(),
        "/readyz" if lifecycle.is_ready() => (StatusCode::OK, "ready\n").into_response(),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response(),
        "/metrics" => {
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics().exposition())
                .into_response()
        }
        _ => (StatusCode::NOT_FOUND, "no such page: /livez, /readyz and /metrics are here\n").into_response(),
    }
}
