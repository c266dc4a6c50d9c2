//! Reads a response's body whole, within a bound.

use crate::upstream::client;
use crate::upstream::transport::TransportError;
use bytes::{Bytes, BytesMut};
use http_body::Body;
use std::future::poll_fn;

/// The whole body. One that came in one piece is not copied.
pub(super) async fn collect(mut body: client::Body, limit: usize) -> Result<Bytes, TransportError> {
    // The length is known before the first byte where the upstream says it.
    let said = body.size_hint().lower();
    if said > limit as u64 {
        return Err(TransportError::TooLarge(limit));
    }
    if let Some(whole) = body.take_whole() {
        return Ok(whole);
    }
    let mut first = Bytes::new();
    let mut more: Option<BytesMut> = None;
    while !body.is_end_stream() {
        let data = poll_fn(|context| body.poll_data(context)).await.map_err(|_| TransportError::Broken)?;
        let Some(data) = data else { break };
        if first.is_empty() && more.is_none() {
            first = data;
        } else {
            let more = more.get_or_insert_with(|| {
                let mut whole = BytesMut::with_capacity((said as usize).max(first.len() + data.len()));
                whole.extend_from_slice(&first);
                whole
            });
            more.extend_from_slice(&data);
        }
        if more.as_ref().map_or(first.len(), |more| more.len()) > limit {
            return Err(TransportError::TooLarge(limit));
        }
    }
    Ok(more.map_or(first, BytesMut::freeze))
}
