//! What the gateway reads of a result: the fields it fills in where a peer of the other era lacks them.

use super::meta::SERVER_INFO;
use super::outline::{Found, Outline, Rule};
use super::{Raw, Span, json};
use std::sync::Arc;

pub(super) const KEYS: [&str; 8] =
    ["resultType", "ttlMs", "cacheScope", "nextCursor", "requestState", "inputRequests", "_meta", "isError"];
pub(super) const META_KEYS: [&str; 1] = [SERVER_INFO];

/// Where the fields of a result stand that the protocol owns. Spans speak of the result's text.
#[derive(Clone, Debug, Default)]
pub struct ResultView {
    pub result_type: Option<Span>,
    pub ttl: Option<Span>,
    pub scope: Option<Span>,
    pub next_cursor: Option<Span>,
    pub request_state: Option<Span>,
    pub input_requests: Option<Span>,
    pub meta: Option<Span>,
    pub server_info: Option<Span>,
    /// Of a tool's result.
    pub is_error: Option<Span>,
}

impl ResultView {
    /// Reads a result, which is an object (the envelope saw to it). One that came in a message was read with that.
    pub fn of(result: &Raw) -> Arc<ResultView> {
        if let Some(noted) = result.noted() {
            return noted.clone();
        }
        let (text, nothing) = (result.text(), Outline::none());
        let found = Rule::Lax.read(text, 0, 0, &KEYS, &nothing).unwrap_or_default();
        Arc::new(ResultView::read(text, 0, found, &nothing))
    }

    /// What was noted of the result that begins at `base` of its message; `None` where it is to be looked for.
    pub(super) fn noted(text: &[u8], base: u32, outline: &Outline) -> Option<ResultView> {
        Some(ResultView::read(text, base, outline.noted(base)?.found(base), outline))
    }

    fn read(text: &[u8], base: u32, found: Found<{ KEYS.len() }>, outline: &Outline) -> ResultView {
        let [result_type, ttl, scope, next_cursor, request_state, input_requests, meta, is_error] = found;
        let inner = |meta: &Span| Rule::Lax.read(text, base + meta.start, base, &META_KEYS, outline).ok();
        let (meta, server_info) = match meta.as_ref().and_then(inner) {
            Some([server_info]) => (meta, server_info),
            // No object is as none.
            None => (None, None),
        };
        ResultView {
            result_type,
            ttl,
            scope,
            next_cursor,
            request_state,
            input_requests,
            meta,
            server_info,
            is_error,
        }
    }

    /// Whether the result of `tools/call` says that the tool failed.
    pub fn is_failure(result: &Raw) -> bool {
        let says = |view: &ResultView| {
            view.is_error
                .as_ref()
                .is_some_and(|at| result.text()[at.start as usize..at.end as usize] == *b"true")
        };
        says(&ResultView::of(result))
    }

    /// Whether the call is not over: the client is to answer and call again (2026-07-28 MRTR).
    pub fn is_input_required(&self, result: &Raw) -> bool {
        self.result_type.as_ref().is_some_and(|at| json::says(result.text(), at, "input_required"))
    }
}
