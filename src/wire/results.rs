//! What the gateway reads of a result: the fields it fills in where a peer of the other era lacks them.

use super::meta::SERVER_INFO;
use super::{Raw, Span, json};

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
}

impl ResultView {
    /// Reads a result, which is an object (the envelope saw to it).
    pub fn of(result: &Raw) -> ResultView {
        let text = result.text();
        let mut view = ResultView::default();
        for m in json::lax_members(text, 0).unwrap_or_default() {
            let slots = [
                ("resultType", &mut view.result_type),
                ("ttlMs", &mut view.ttl),
                ("cacheScope", &mut view.scope),
                ("nextCursor", &mut view.next_cursor),
                ("requestState", &mut view.request_state),
                ("inputRequests", &mut view.input_requests),
                ("_meta", &mut view.meta),
            ];
            if let Some((_, slot)) = slots.into_iter().find(|(key, _)| m.is(key)) {
                slot.get_or_insert(m.value);
            }
        }
        if let Some(meta) = view.meta.clone().filter(|m| text[m.start as usize] == b'{') {
            view.server_info = json::lax_members(text, meta.start)
                .unwrap_or_default()
                .into_iter()
                .find(|m| m.is(SERVER_INFO))
                .map(|m| m.value);
        } else {
            view.meta = None;
        }
        view
    }

    /// Whether the call is not over: the client is to answer and call again (2026-07-28 MRTR).
    pub fn is_input_required(&self, result: &Raw) -> bool {
        self.result_type.as_ref().and_then(|s| result.string(s)).is_some_and(|t| t == "input_required")
    }
}
