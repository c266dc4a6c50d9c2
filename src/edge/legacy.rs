//! The legacy HTTP edge (2025-11-25 and older).

use super::body;
use super::gate::{Gate, Mount};
use crate::wire::{Message, Refused, Version};
use axum::body::Body;
use http::{HeaderMap, Response, StatusCode};
use std::sync::Arc;

pub async fn get(gate: Arc<Gate>, _: Arc<Mount>, _: HeaderMap) -> Response<Body> {
    super::http::not_allowed(&gate, "POST, DELETE")
}

pub async fn delete(gate: Arc<Gate>, _: Arc<Mount>, _: HeaderMap) -> Response<Body> {
    super::http::not_allowed(&gate, "POST")
}

pub async fn batch(
    gate: Arc<Gate>,
    _: Arc<Mount>,
    _: HeaderMap,
    _: Vec<Result<Message, Refused>>,
) -> Response<Body> {
    body::refusal(&gate, StatusCode::BAD_REQUEST, "no legacy edge yet")
}

pub async fn initialize(gate: Arc<Gate>, _: Arc<Mount>, _: HeaderMap, _: Message) -> Response<Body> {
    body::refusal(&gate, StatusCode::BAD_REQUEST, "no legacy edge yet")
}

pub async fn post(gate: Arc<Gate>, _: Arc<Mount>, _: HeaderMap, _: Message) -> Response<Body> {
    body::refusal(&gate, StatusCode::BAD_REQUEST, "no legacy edge yet")
}

pub async fn sessionless(
    gate: Arc<Gate>,
    _: Arc<Mount>,
    _: HeaderMap,
    _: Message,
    _: Version,
) -> Response<Body> {
    body::refusal(&gate, StatusCode::BAD_REQUEST, "no legacy edge yet")
}
