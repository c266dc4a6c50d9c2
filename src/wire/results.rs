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

/// What is asked of each result on its way: so much is noted of one that comes in a message, and goes with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gist {
    /// Where its `_meta` begins, if that is an object.
    pub meta: Option<u32>,
    /// Whether it says which server it is of.
    pub has_server: bool,
    pub has_type: bool,
    /// Whether the call is not over: the client is to answer and call again (2026-07-28 MRTR).
    pub is_input_required: bool,
    /// Of a tool's result: whether it says that the tool failed.
    pub is_failure: bool,
}

impl Gist {
    pub fn of(result: &Raw) -> Gist {
        result.gist().unwrap_or_else(|| Gist::from(&ResultView::of(result), result.text(), 0))
    }

    /// What was noted of the result that begins at `base` of its message; `None` where it is to be looked for.
    pub(super) fn noted(text: &[u8], base: u32, outline: &Outline) -> Option<Gist> {
        let found = outline.noted(base)?.found(base);
        Some(Gist::from(&ResultView::read(text, base, found, outline), text, base))
    }

    #[inline]
    fn from(view: &ResultView, text: &[u8], base: u32) -> Gist {
        let there = |span: &Span| span.start + base..span.end + base;
        let is_input_required = |at: &Span| json::says(text, &there(at), "input_required");
        let is_true = |at: &Span| text[there(at).start as usize] == b't';
        Gist {
            meta: view.meta.as_ref().map(|meta| meta.start),
            has_server: view.server_info.is_some(),
            has_type: view.result_type.is_some(),
            is_input_required: view.result_type.as_ref().is_some_and(is_input_required),
            is_failure: view.is_error.as_ref().is_some_and(is_true),
        }
    }
}

impl ResultView {
    /// Reads a result, which is an object (the envelope saw to it).
    pub fn of(result: &Raw) -> ResultView {
        let (text, nothing) = (result.text(), Outline::none());
        let found = Rule::Lax.read(text, 0, 0, &KEYS, &nothing).unwrap_or_default();
        ResultView::read(text, 0, found, &nothing)
    }

    #[inline]
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
}
