//! What a `subscriptions/listen` asks for, and what its acknowledgement honours (2026-07-28, *SubscriptionFilter*).

use crate::federation::splice;
use crate::mcp::Note;
use crate::wire::{Span, json};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::federation) struct Filter {
    pub(in crate::federation) tools: bool,
    pub(in crate::federation) prompts: bool,
    pub(in crate::federation) resources: bool,
    /// `resourceSubscriptions`, sorted: the same filter is the same bytes.
    pub(in crate::federation) uris: BTreeSet<String>,
}

impl Filter {
    /// Reads the filter at `span`; what has another form than the schema's counts as not asked for.
    pub(in crate::federation) fn read(text: &[u8], span: &Span) -> Filter {
        let field = |key: &str| splice::member(text, span.start, key);
        let is_true =
            |key: &str| field(key).is_some_and(|v| &text[v.start as usize..v.end as usize] == b"true");
        let uris =
            field("resourceSubscriptions").and_then(|v| json::elements(text, v.start)).unwrap_or_default();
        Filter {
            tools: is_true("toolsListChanged"),
            prompts: is_true("promptsListChanged"),
            resources: is_true("resourcesListChanged"),
            uris: uris.iter().filter_map(|uri| json::string(text, uri)).map(|uri| uri.into_owned()).collect(),
        }
    }

    /// The filter of an `acknowledged` note.
    pub(in crate::federation) fn of_note(note: &Note) -> Filter {
        let text = note.params.to_bytes();
        let span = splice::member(&text, 0, "notifications");
        span.map(|span| Filter::read(&text, &span)).unwrap_or_default()
    }

    pub(in crate::federation) fn is_empty(&self) -> bool {
        *self == Filter::default()
    }

    pub(in crate::federation) fn to_json(&self) -> String {
        let flags = [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ];
        let mut members: Vec<String> =
            flags.iter().filter(|(on, _)| *on).map(|(_, key)| format!("\"{key}\":true")).collect();
        if !self.uris.is_empty() {
            let uris: Vec<String> = self.uris.iter().map(|uri| json::quote(uri)).collect();
            members.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
        }
        format!("{{{}}}", members.join(","))
    }
}
