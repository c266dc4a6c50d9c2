//! Where URIs stand in results and list items, and their replacement in place: the one exception to carrying JSON
//! untouched, and only in profiles of several members. A byte search decides whether a value is read at all.

use crate::wire::json::{self, Member};
use crate::wire::{Method, Raw, Span};
use memchr::memmem;
use std::sync::Arc;

/// Writes what clients see of the URIs found in a value.
pub(super) fn replace(raw: &mut Raw, found: Vec<(Span, String)>, shown: impl Fn(&str) -> Arc<str>) {
    for (span, uri) in found {
        let now = shown(&uri);
        if *now != *uri {
            raw.edit(span, json::quote(&now));
        }
    }
}

/// Rewrites the URI of `notifications/resources/updated`.
pub(super) fn updated(params: &mut Raw, shown: impl Fn(&str) -> Arc<str>) {
    let found = member(params.text(), 0, "uri").and_then(|span| text_at(params, span));
    replace(params, found.into_iter().collect(), shown);
}

/// The URIs of a tool's app (MCP Apps, SEP-1865): `_meta.ui.resourceUri`, and the older flat key.
pub(super) fn app_uris(body: &Raw) -> Vec<(Span, String)> {
    app_spans(body.text()).into_iter().filter_map(|span| text_at(body, span)).collect()
}

fn app_spans(text: &[u8]) -> Vec<Span> {
    if memmem::find(text, b"resourceUri").is_none() {
        return Vec::new();
    }
    let Some(meta) = member(text, 0, "_meta") else { return Vec::new() };
    let nested = member(text, meta.start, "ui").and_then(|ui| member(text, ui.start, "resourceUri"));
    let flat = member(text, meta.start, "ui/resourceUri");
    [nested, flat].into_iter().flatten().collect()
}

/// The URIs that a result names: links and embedded resources in content, `contents[].uri`, an app's URI in `_meta`.
pub(super) fn uris_of_result(method: &Method, raw: &Raw) -> Vec<(Span, String)> {
    let text = raw.text();
    let mut found = Vec::new();
    match method {
        Method::ResourcesRead => {
            for content in elements(text, member(text, 0, "contents")) {
                found.extend(member(text, content.start, "uri"));
            }
        }
        // The type of every block with a URI, and both keys of an app's, have the word in them.
        Method::ToolsCall | Method::PromptsGet if memmem::find(text, b"resource").is_some() => {
            for block in elements(text, member(text, 0, "content")) {
                found.extend(uri_of_block(text, block.start));
            }
            for message in elements(text, member(text, 0, "messages")) {
                let content = member(text, message.start, "content");
                match content.clone().map(|c| text[c.start as usize]) {
                    Some(b'[') => {
                        found.extend(
                            elements(text, content).iter().filter_map(|b| uri_of_block(text, b.start)),
                        );
                    }
                    Some(b'{') => found.extend(content.and_then(|block| uri_of_block(text, block.start))),
                    _ => {}
                }
            }
        }
        _ => {}
    }
    if *method == Method::ToolsCall {
        found.extend(app_spans(text));
    }
    found.into_iter().filter_map(|span| text_at(raw, span)).collect()
}

/// The URI of a content block that is a link or an embedded resource.
fn uri_of_block(text: &[u8], at: u32) -> Option<Span> {
    let members = json::lax_members(text, at).ok()?;
    let find = |key: &str| members.iter().find(|m: &&Member<'_>| m.is(key)).map(|m| m.value.clone());
    match &*json::string(text, &find("type")?)? {
        "resource_link" => find("uri"),
        "resource" => member(text, find("resource")?.start, "uri"),
        _ => None,
    }
}

/// The value of a key of the object at `at`; `None` where there is no such key, or no object.
pub(super) fn member(text: &[u8], at: u32, key: &str) -> Option<Span> {
    json::lax_members(text, at).ok()?.into_iter().find(|m| m.is(key)).map(|m| m.value)
}

fn elements(text: &[u8], array: Option<Span>) -> Vec<Span> {
    array.and_then(|span| json::elements(text, span.start)).unwrap_or_default()
}

fn text_at(raw: &Raw, span: Span) -> Option<(Span, String)> {
    let text = raw.string(&span)?.into_owned();
    Some((span, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(method: Method, text: &'static str) -> String {
        let mut raw = Raw::trusted(text);
        let found = uris_of_result(&method, &raw);
        replace(&mut raw, found, |uri| format!("b+{uri}").into());
        String::from_utf8(raw.to_bytes().to_vec()).unwrap()
    }

    #[test]
    fn every_named_uri_is_replaced_in_place_and_nothing_else() {
        let tool = r#"{ "content":[{"type":"text","text":"\"resource_link\" x:1"},{"uri":"x:1", "type":"resource_link","n":1.0},
            {"type":"resource","resource":{"uri":"x:\u0032","text":"x:2"}}],"structuredContent":{"type":"resource","uri":"x:1"}}"#;
        let want =
            tool.replace(r#"{"uri":"x:1", "#, r#"{"uri":"b+x:1", "#).replace(r#""x:\u0032""#, r#""b+x:2""#);
        assert_eq!(spliced(Method::ToolsCall, tool), want);
        let prompt = r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"x:1"}}},{"content":[{"type":"resource_link","uri":"x:2"}]}]}"#;
        assert_eq!(spliced(Method::PromptsGet, prompt), prompt.replace("x:", "b+x:"));
        let read = r#"{"contents":[{"uri":"x:1","text":"x:1"},{"text":""},7]}"#;
        assert_eq!(spliced(Method::ResourcesRead, read), read.replacen("x:1", "b+x:1", 1));
    }

    #[test]
    fn what_is_not_of_the_form_passes_as_it_is() {
        for text in [
            r#"{"content":"resource","messages":[1,{"content":7}]}"#,
            r#"{"content":[{"type":"resource","resource":null},{"type":"resource_link","uri":7}]}"#,
            r#"{"resource":1,"_meta":{"ui":"resourceUri"}}"#,
        ] {
            assert_eq!(spliced(Method::ToolsCall, text), text);
        }
    }
}
