//! Operations of a catalog: what each does to which entity, its arguments, its mapping to the source, and how it pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::{locator::Locator, types::Arg};
use crate::config::Ordered;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One row by its key.
    Get,
    /// Rows, by arguments.
    Query,
    /// Rows, by words.
    Search,
    Create,
    Update,
    Delete,
    /// Anything else that is done.
    Action,
}

impl Kind {
    pub fn is_read(self) -> bool {
        matches!(self, Kind::Get | Kind::Query | Kind::Search)
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    pub kind: Kind,
    /// The entity it belongs to.
    pub entity: String,
    /// The method's name in programs; for all that are not reads. By default the operation's own.
    pub name: Option<String>,
    /// What it does, for the teaching table.
    pub about: Option<String>,
    #[serde(default)]
    pub args: Ordered<Arg>,
    /// The source's name for the words of a search.
    pub text: Option<String>,
    pub returns: Option<Returns>,
    /// What it does to the world; for all that are not reads.
    pub effect: Option<Effect>,
    /// `false`: not to be called; imported writes are, until a person confirms them.
    #[serde(default = "enabled")]
    pub enabled: bool,
    pub http: Option<Http>,
    pub graphql: Option<Graphql>,
    pub mcp: Option<Mcp>,
    #[serde(default)]
    pub pages: Pages,
}

fn enabled() -> bool {
    true
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Returns {
    /// The fields and embedded relations that stand in each row; others are fetched by `get`. Not given: all.
    pub fields: Option<Vec<String>>,
    #[serde(default)]
    pub coverage: Coverage,
}

/// Whether the rows are all there are, once the pages are at their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Coverage {
    #[default]
    Exhaustive,
    /// The source leaves out some (a search's best matches).
    Partial,
    Unknown,
}

/// What an operation does to the world.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    pub class: EffectClass,
    /// The same call again changes nothing more.
    #[serde(default)]
    pub idempotent: bool,
    /// The header that takes an idempotency key.
    pub idempotency_header: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EffectClass {
    /// It changes nothing, though it is called like a method.
    Read,
    Write,
    /// It takes something away.
    Destructive,
}

/// A request of an HTTP API.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Verb and path under the base URL, with `{key.…}` and `{args.…}`.
    pub send: String,
    /// Parameters: an input (`args.state`, `key.id`, `text`), a number, true, false, or `{const: TEXT}`.
    #[serde(default)]
    pub query: Ordered<Json>,
    /// Headers, by the same rule.
    #[serde(default)]
    pub headers: Ordered<Json>,
    /// A JSON body, whose leaves go by the same rule. What is not given is left out.
    pub body: Option<Json>,
    /// Where the one row lies in the answer.
    pub row: Option<Locator>,
    /// Where the rows lie in the answer.
    pub rows: Option<Locator>,
}

/// A GraphQL document. `errors` in the answer are failures.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Graphql {
    pub document: String,
    #[serde(default)]
    pub variables: Ordered<Json>,
    pub row: Option<Locator>,
    pub rows: Option<Locator>,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    pub tool: String,
    #[serde(default)]
    pub arguments: Ordered<Json>,
    pub row: Option<Locator>,
    pub rows: Option<Locator>,
    /// What is said of a call that brings no row.
    pub ack: Option<Locator>,
}

/// How the rows come in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(tag = "style", rename_all = "snake_case", deny_unknown_fields)]
pub enum Pages {
    /// All at once.
    #[default]
    None,
    /// Pages by number; the last is the first that is not full.
    Page {
        page: String,
        #[serde(default = "one")]
        start: u64,
        size: u64,
        size_param: Option<String>,
        more: Option<Locator>,
    },
    /// By the number of rows to skip.
    Offset { offset: String, limit: String, size: u64, more: Option<Locator> },
    /// By an opaque cursor taken from each answer.
    Cursor {
        send: String,
        take: Locator,
        size: Option<u64>,
        size_param: Option<String>,
        more: Option<Locator>,
    },
    /// By the header `Link` with `rel="next"` (RFC 8288).
    Link { size: Option<u64>, size_param: Option<String> },
    /// By a URL in each answer.
    NextUrl { take: Locator, size: Option<u64>, size_param: Option<String> },
    /// GraphQL's connections: `pageInfo {hasNextPage endCursor}` at `info`.
    Relay { after: String, first: Option<String>, size: u64, info: Locator },
}

fn one() -> u64 {
    1
}

impl Pages {
    /// The most rows of one page, where it is known.
    pub fn size(&self) -> Option<u64> {
        match self {
            Pages::None => None,
            Pages::Page { size, .. } | Pages::Offset { size, .. } | Pages::Relay { size, .. } => Some(*size),
            Pages::Cursor { size, .. } | Pages::Link { size, .. } | Pages::NextUrl { size, .. } => *size,
        }
    }
}

impl Operation {
    /// Where its rows or its row lie.
    pub fn locator(&self) -> Option<&Locator> {
        let http = self.http.as_ref().map(|to| (&to.row, &to.rows));
        let graphql = self.graphql.as_ref().map(|to| (&to.row, &to.rows));
        let mcp = self.mcp.as_ref().map(|to| (&to.row, &to.rows));
        let (row, rows) = http.or(graphql).or(mcp)?;
        row.as_ref().or(rows.as_ref())
    }

    /// Whether each row it returns holds that field or embedded relation.
    pub fn returns(&self, field: &str) -> bool {
        let listed = self.returns.as_ref().and_then(|returns| returns.fields.as_ref());
        listed.is_none_or(|fields| fields.iter().any(|have| have == field))
    }

    pub fn coverage(&self) -> Coverage {
        self.returns.as_ref().map(|returns| returns.coverage).unwrap_or_default()
    }
}
