//! What the gateway reads of a result: the fields it fills in where a peer of the other era lacks them.

use super::json::Member;
use super::meta::SERVER_INFO;
use super::{Raw, Span, json};

const KEYS: [&str; 8] =
    ["resultType", "ttlMs", "cacheScope", "nextCursor", "requestState", "inputRequests", "_meta", "isError"];

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
        let text = result.text();
        let members = json::lax_members(text, 0).unwrap_or_default();
        ResultView::read(members, 0, |at| json::lax_members(text, at).ok())
    }

    /// From the members of the result that begins at `base` of its message. `inner` gives those of the object that begins
    /// somewhere in the message, `None` where no object does.
    pub(super) fn read<'a>(
        members: Vec<Member<'a>>,
        base: u32,
        inner: impl FnOnce(u32) -> Option<Vec<Member<'a>>>,
    ) -> ResultView {
        let from_base = |span: Span| span.start - base..span.end - base;
        let mut found: [Option<Span>; KEYS.len()] = Default::default();
        for (n, m) in members.into_iter().filter_map(|m| Some((m.among(&KEYS)?, m))) {
            found[n].get_or_insert(from_base(m.value));
        }
        let [result_type, ttl, scope, next_cursor, request_state, input_requests, meta, is_error] = found;
        let mut view = ResultView {
            result_type,
            ttl,
            scope,
            next_cursor,
            request_state,
            input_requests,
            meta,
            server_info: None,
            is_error,
        };
        match view.meta.as_ref().and_then(|meta| inner(base + meta.start)) {
            Some(meta) => {
                let info = meta.into_iter().find(|m| m.is(SERVER_INFO));
                view.server_info = info.map(|m| from_base(m.value));
            }
            None => view.meta = None,
        }
        view
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
        self.result_type.as_ref().and_then(|s| result.string(s)).is_some_and(|t| t == "input_required")
    }
}
