//! What the gateway reads of a result: the fields it fills in where a peer of the other era lacks them.

use super::meta::SERVER_INFO;
use super::outline::{Found, Outline, Rule};
use super::{Raw, Span, json};

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
    pub fn of(result: &Raw) -> ResultView {
        if let Some(noted) = result.noted() {
            return noted.clone();
        }
        let nothing = Outline::none();
        let found = Rule::Lax.read(result.text(), 0, &KEYS, &nothing).map(|(found, _)| found);
        ResultView::read(result.text(), 0, found.unwrap_or_default(), &nothing)
    }

    /// What was noted of the result that begins at `base` of its message; `None` where it is to be looked for.
    pub(super) fn noted(text: &[u8], base: u32, outline: &Outline) -> Option<ResultView> {
        Some(ResultView::read(text, base, outline.found(base)?, outline))
    }

    fn read(text: &[u8], base: u32, found: Found<{ KEYS.len() }>, outline: &Outline) -> ResultView {
        let from_base = |span: Span| span.start - base..span.end - base;
        let [.., meta, _] = &found;
        let inner = meta.as_ref().map(|meta| Rule::Lax.read(text, meta.start, &META_KEYS, outline));
        let [result_type, ttl, scope, next_cursor, request_state, input_requests, meta, is_error] =
            found.map(|span| span.map(from_base));
        let (meta, server_info) = match inner {
            Some(Ok(([server_info], _))) => (meta, server_info.map(from_base)),
            // No object is as none.
            Some(Err(_)) | None => (None, None),
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
        result.noted().map_or_else(|| says(&ResultView::of(result)), says)
    }

    /// Whether the call is not over: the client is to answer and call again (2026-07-28 MRTR).
    pub fn is_input_required(&self, result: &Raw) -> bool {
        self.result_type.as_ref().is_some_and(|at| json::says(result.text(), at, "input_required"))
    }
}
