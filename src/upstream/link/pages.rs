//! A whole list: all pages followed, each item found in the page that it came in.

use super::begin::Job;
use super::lists::Fetched;
use super::trouble::code_of;
use super::{Arc, Caller, Fault, Inner, Kind, Listing, hello};
use crate::mcp::{CONNECT_TOOL, Item, Reason};
use crate::wire::results::ResultView;
use crate::wire::{Raw, code, json, param_headers};
use std::collections::HashSet;

/// Pages of one list; an upstream that gives more is counting, not listing.
const PAGES: usize = 1_000;
/// Bytes of one list over all its pages.
const BYTES: usize = 64 << 20;
/// Characters that are logged of why an item is left out.
const LOGGED: usize = 200;

impl Inner {
    /// Asks for a list, page by page. Errors: the upstream's, and a list that does not end.
    pub(super) async fn fetch(self: &Arc<Self>, caller: &Arc<Caller>, kind: Kind) -> Result<Fetched, Fault> {
        let mut items = Vec::new();
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        let (mut bytes, mut whole, mut ttl_ms) = (0, None, u64::MAX);
        let (mut private, mut said_private) = (false, false);
        let mut left_out = Vec::new();
        for number in 0..PAGES {
            let params = cursor.as_ref().map(|c| Raw::trusted(format!(r#"{{"cursor":{}}}"#, json::quote(c))));
            let job = Job::own(self, caller, kind.method(), params);
            let page = match self.result_of(&job).await {
                Ok(page) => page,
                // What a server has not, it often does not know how to list.
                Err(Fault::Upstream(error))
                    if number == 0 && code_of(&error) == Some(code::METHOD_NOT_FOUND.into()) =>
                {
                    let listing = Listing::new(kind, Vec::new());
                    return Ok(Fetched { listing, said_private: false });
                }
                Err(fault) => return Err(fault),
            };
            bytes += page.len();
            let before = left_out.len();
            self.take(&page, kind, &mut items, &mut left_out)?;
            let untouched = left_out.len() == before;
            if items.len() > self.config.most_items || bytes > BYTES {
                return Err(self.endless(format!("a list of more than {} items", self.config.most_items)));
            }
            let view = ResultView::of(&page);
            ttl_ms = ttl_ms.min(hello::ttl(&view, &page));
            let scope = hello::scope(&view, &page);
            private |= scope != Some("public");
            said_private |= scope == Some("private");
            let next = view.next_cursor.as_ref().and_then(|span| page.string(span)).map(|c| c.into_owned());
            let Some(next) = next else {
                whole = (number == 0 && untouched).then_some(page);
                cursor = None;
                break;
            };
            if !seen.insert(next.clone()) {
                return Err(self.endless("a cursor that leads back".to_owned()));
            }
            cursor = Some(next);
        }
        if cursor.is_some() {
            return Err(self.endless(format!("a list of more than {PAGES} pages")));
        }
        let mut listing = Listing::new(kind, items);
        (listing.whole, listing.ttl_ms, listing.private) = (whole, ttl_ms, private);
        listing.left_out = left_out;
        if self.is_personal() {
            // What a page says of itself may be wider.
            (listing.whole, listing.ttl_ms, listing.private) = (None, 0, true);
        }
        Ok(Fetched { listing, said_private })
    }

    fn endless(&self, why: String) -> Fault {
        Reason::Garbage { upstream: self.id().clone(), why: why.into() }.into()
    }

    /// Takes the items of a page; of those that cannot be listed the names, empty where they have none.
    fn take(
        &self,
        page: &Raw,
        kind: Kind,
        items: &mut Vec<Item>,
        left_out: &mut Vec<Arc<str>>,
    ) -> Result<(), Fault> {
        let text = page.text();
        let members = json::lax_members(text, 0).unwrap_or_default();
        let list = members.iter().find(|m| m.is(kind.items_key()));
        let list = list.and_then(|m| json::elements(text, m.value.start));
        let Some(list) = list else {
            let why = format!("a list without {}", kind.items_key()).into();
            return Err(Reason::Garbage { upstream: self.id().clone(), why }.into());
        };
        let before = left_out.len();
        let mut first = None;
        for span in list {
            match item(page.part(&span), kind) {
                Ok(item) => items.push(item),
                Err(Unfit { name, why }) => {
                    first.get_or_insert(why);
                    left_out.push(name.unwrap_or_default());
                }
            }
        }
        if let Some(why) = first {
            // One line a page, and not a long one: an upstream may list what it likes.
            let (why, items) = (why.chars().take(LOGGED).collect::<String>(), left_out.len() - before);
            tracing::warn!(upstream = %self.id(), ?kind, items, why, "listed items are left out");
        }
        Ok(())
    }
}

/// Why an item cannot be listed, and what it is called where that can be read.
#[derive(Debug)]
struct Unfit {
    name: Option<Arc<str>>,
    why: String,
}

/// Reads one listed item: its name, and which arguments of a tool travel as headers.
fn item(body: Raw, kind: Kind) -> Result<Item, Unfit> {
    let nameless = |why: String| Unfit { name: None, why };
    let text = body.text();
    let members = json::lax_members(text, 0).map_err(|_| nameless("no object".to_owned()))?;
    let find = |key: &str| members.iter().find(|m| m.is(key)).map(|m| m.value.clone());
    let span = find(kind.name_key()).ok_or_else(|| nameless(format!("no {}", kind.name_key())))?;
    let name = body.string(&span).ok_or_else(|| nameless(format!("{} is no string", kind.name_key())))?;
    let name: Arc<str> = name.into();
    if kind == Kind::Tool && *name == *CONNECT_TOOL {
        return Err(Unfit { why: format!("tool {name}: the name is the gateway's own"), name: Some(name) });
    }
    let headers = match find("inputSchema").filter(|_| kind == Kind::Tool) {
        Some(schema) => param_headers::of_schema(&body.part(&schema))
            .map_err(|invalid| Unfit { name: Some(name.clone()), why: format!("tool {name}: {invalid}") })?,
        None => Vec::new(),
    };
    Ok(Item { name, name_span: span, headers: headers.into(), body: body.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_found_by_its_name_and_a_tool_with_invalid_headers_is_none() {
        let read = |text: &'static str, kind| item(Raw::trusted(text), kind);
        let tool = read(r#"{"title":"x","name":"a\u0062"}"#, Kind::Tool).unwrap();
        assert_eq!(
            (&*tool.name, tool.body.part(&tool.name_span).text().as_ref()),
            ("ab", &br#""a\u0062""#[..])
        );
        assert_eq!(&*read(r#"{"uri":"x:y","name":"n"}"#, Kind::Resource).unwrap().name, "x:y");
        let good = read(
            r#"{"name":"t","inputSchema":{"properties":{"r":{"type":"string","x-mcp-header":"R"}}}}"#,
            Kind::Tool,
        );
        assert_eq!(good.unwrap().headers.len(), 1);
        for (bad, name) in [
            (
                r#"{"name":"t","inputSchema":{"properties":{"r":{"type":"number","x-mcp-header":"R"}}}}"#,
                Some("t"),
            ),
            (r#"{"name":7}"#, None),
            (r#"{"title":"t"}"#, None),
            ("7", None),
        ] {
            assert_eq!(read(bad, Kind::Tool).unwrap_err().name.as_deref(), name, "{bad}");
        }
    }
}
