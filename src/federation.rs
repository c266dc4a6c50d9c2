//! Many backends as one: a profile's members, the names their things bear, whole merged lists, and the way of each call
//! to its owner. Knows backends by [`mcp::Backend`](crate::mcp::Backend) alone, never how one is reached; pages and
//! their sealed cursors are the edge's.

mod about;
mod composite;
mod faults;
mod forward;
mod listen;
mod lists;
mod names;
mod naming;
mod parts;
mod silence;
mod splice;
mod switch;
mod template;
mod uris;

#[cfg(test)]
mod tests;

pub use composite::Composite;
pub use switch::{Switch, Touched};

use crate::config::Globs;
use crate::mcp::Backend;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One backend of a profile, and what the configuration says of it there.
pub struct Member {
    pub backend: Arc<dyn Backend>,
    /// New names of tools, by the name that the backend gives them. A new name that clients could not use, or that an
    /// earlier rename of the profile took, counts as none.
    pub rename: BTreeMap<String, String>,
    /// Which of its tools exist, by the names that the backend gives them.
    pub tools: Globs,
    /// Its tools keep their names beside those of others, the profile's patterns do not count for them, and one other member
    /// keeps its names beside it.
    pub own_names: bool,
    /// URIs that start with one of these are this member's even where it does not list them.
    pub uri_prefixes: Vec<String>,
    /// The longest that a list or a self-description of this member may hold up those of the others.
    pub limit: Duration,
}

/// A virtual server: which members, which of their tools, and what the model is told.
pub struct Profile {
    /// As in the URL's path; only for logs and as the composite's id where it has several members.
    pub name: Arc<str>,
    /// In the order of the configuration, which decides the order of lists and who owns a URI.
    pub members: Vec<Member>,
    /// Which tools it has, matched against `<upstream>__<tool>` with the name that the backend gives the tool.
    pub tools: Globs,
    /// Instructions for the model in place of those of the members.
    pub instructions: Option<String>,
}
