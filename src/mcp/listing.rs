//! What a backend lists: items as they came, found by name.

use super::UpstreamId;
use crate::wire::param_headers::ParamHeader;
use crate::wire::{Method, Raw, Span};
use foldhash::{HashMap as Map, HashMapExt};
use std::sync::Arc;

/// The tool that a link shows to a caller who has to connect an account at its upstream. The gateway's own: no upstream's tool
/// bears it, and no filter of tools hides it.
pub const CONNECT_TOOL: &str = "plasm_connect";

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    Tool,
    Prompt,
    Resource,
    Template,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Tool, Kind::Prompt, Kind::Resource, Kind::Template];

    pub fn method(self) -> Method {
        match self {
            Kind::Tool => Method::ToolsList,
            Kind::Prompt => Method::PromptsList,
            Kind::Resource => Method::ResourcesList,
            Kind::Template => Method::TemplatesList,
        }
    }

    pub fn of_method(method: &Method) -> Option<Kind> {
        Some(match method {
            Method::ToolsList => Kind::Tool,
            Method::PromptsList => Kind::Prompt,
            Method::ResourcesList => Kind::Resource,
            Method::TemplatesList => Kind::Template,
            _ => return None,
        })
    }

    /// The list's key in the result.
    pub fn items_key(self) -> &'static str {
        match self {
            Kind::Tool => "tools",
            Kind::Prompt => "prompts",
            Kind::Resource => "resources",
            Kind::Template => "resourceTemplates",
        }
    }

    /// The member that names an item.
    pub fn name_key(self) -> &'static str {
        match self {
            Kind::Tool | Kind::Prompt => "name",
            Kind::Resource => "uri",
            Kind::Template => "uriTemplate",
        }
    }

    /// The server capability that a list belongs to.
    pub fn capability(self) -> &'static str {
        match self {
            Kind::Tool => "tools",
            Kind::Prompt => "prompts",
            Kind::Resource | Kind::Template => "resources",
        }
    }
}

/// One listed thing, as it came.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name (tools, prompts), URI (resources) or URI template.
    pub name: Arc<str>,
    pub body: Raw,
    /// Where the name stands in `body.text()`, quotes included.
    pub name_span: Span,
    /// Which arguments travel as headers; tools only, most have none.
    pub headers: Arc<[ParamHeader]>,
}

/// One whole list: all pages, in the order they came.
#[derive(Debug)]
pub struct Listing {
    pub kind: Kind,
    items: Vec<Item>,
    index: Map<Arc<str>, usize>,
    bears_headers: bool,
    /// The result as it came, where it was one page from one upstream and nothing was changed: it passes unchanged.
    pub whole: Option<Raw>,
    /// How long it may be kept, in milliseconds: the smallest of its parts; 0 where a part did not say.
    pub ttl_ms: u64,
    /// Whether it depends on who asked.
    pub private: bool,
    /// The names of what was listed and may not be used: tools whose annotations are invalid (2026-07-28 tools,
    /// *x-mcp-header*). Empty names for what has none.
    pub left_out: Vec<Arc<str>>,
    /// The upstreams whose part is missing.
    pub missing: Vec<UpstreamId>,
}

impl Listing {
    /// A list of these items. Of equal names the first is found by name.
    pub fn new(kind: Kind, items: Vec<Item>) -> Listing {
        let mut index = Map::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            index.entry(item.name.clone()).or_insert(at);
        }
        let bears_headers = items.iter().any(|item| !item.headers.is_empty());
        let (left_out, missing) = (Vec::new(), Vec::new());
        let (whole, ttl_ms, private) = (None, 0, true);
        Listing { kind, items, index, bears_headers, whole, ttl_ms, private, left_out, missing }
    }

    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Whether arguments of any item travel as headers: of most lists none does, and then no name need be looked up.
    pub fn bears_headers(&self) -> bool {
        self.bears_headers
    }

    pub fn find(&self, name: &str) -> Option<&Item> {
        self.index.get(name).map(|at| &self.items[*at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_found_by_its_method() {
        for kind in Kind::ALL {
            assert_eq!(Kind::of_method(&kind.method()), Some(kind));
        }
        assert_eq!(Kind::of_method(&Method::ToolsCall), None);
    }
}
