//! What a run asks of a catalog's source, and what comes back: one request, one page. Who reaches sources implements
//! [`Sources`]; who runs plans knows nothing of HTTP, GraphQL or MCP.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::catalog::Catalog;
use crate::mcp::Caller;

mod answer;
mod login;
mod pages;
mod reached;
mod request;
mod send;
mod tool;
mod turn;

pub use login::{Accounts, Refused, Secrets};
pub use reached::{Reached, Settings};
pub use tool::Upstreams;

/// One request of an operation: values by the catalog's names, checked and in the forms of its types.
#[derive(Clone)]
pub struct Ask {
    pub catalog: Arc<Catalog>,
    /// The operation's id.
    pub operation: Arc<str>,
    /// The identity that it is called on (`key.NAME`).
    pub key: Map<String, Json>,
    /// What is given to it (`args.NAME`); an argument that is not given is absent.
    pub args: Map<String, Json>,
    /// The words of a search.
    pub text: Option<String>,
    /// Where to go on; `None`: the first page.
    pub page: Option<PageRef>,
    /// Rows that one page should have; bounded by what the source takes.
    pub page_size: Option<u64>,
    /// For a source that takes a key by which it knows the same write again.
    pub idempotency_key: Option<String>,
    /// For whom.
    pub caller: Arc<Caller>,
}

/// Where the next page begins, in the source's own terms. Opaque to runs; it lies in the store between two of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PageRef(pub String);

/// One page of rows, or the one row.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// As the source gave them, in its order. Of an operation that brings no row: none.
    pub rows: Vec<Json>,
    /// `None`: there is no more.
    pub next: Option<PageRef>,
    /// What the source said of a call that brings no row.
    pub ack: Option<String>,
    /// For the reader of the result: a tool's definition that is no longer the catalog's, rows that a source left out.
    pub warnings: Vec<String>,
}

/// Why there is no page. `message` is for the agent: what happened and what to do, without secrets and without addresses
/// that the catalog does not name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    pub kind: SourceErrorKind,
    pub message: String,
    /// Of a write: whether it may have been carried out.
    pub uncertain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceErrorKind {
    /// There is no such thing (a `get` alone).
    NotFound,
    /// The login is missing or was refused.
    Auth,
    /// Too many requests; the wait that the source asked for.
    Rate(Option<Duration>),
    /// No answer in time, or no connection.
    Timeout,
    /// A status, an `errors` of GraphQL, or a tool's own failure.
    Status,
    /// An answer larger than the catalog's limit.
    TooLarge,
    /// An answer in which the rows do not lie where the catalog says.
    Shape,
}

/// All sources of the catalogs that are served.
pub trait Sources: Send + Sync + 'static {
    /// One request, within the source's limits. Dropping the future gives the request up.
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>>;
}

#[cfg(test)]
mod tests;
