//! The HTTP+SSE edge (2024-11-05).

use super::body;
use super::gate::{Gate, Mount};
use axum::body::Body;
use bytes::Bytes;
use http::{Response, StatusCode, request};
use std::sync::Arc;

pub async fn open(gate: Arc<Gate>, _: Arc<Mount>, _: &request::Parts) -> Response<Body> {
    body::refusal(&gate, StatusCode::NOT_FOUND, "no HTTP+SSE edge yet")
}

pub async fn message(gate: Arc<Gate>, _: Arc<Mount>, _: &request::Parts, _: Bytes) -> Response<Body> {
    body::refusal(&gate, StatusCode::NOT_FOUND, "no HTTP+SSE edge yet")
}
