//! Drafts of catalogs: from the tools that an MCP server lists, and from an OpenAPI document. The same input gives the same
//! draft, and every draft passes the check of catalogs. Knows nothing of how either was come by.

use std::path::Path;

use super::catalog::{self, CatalogError, Loaded};

mod mcp;
mod named;
mod noun;
mod openapi;
mod parts;
mod schema;
mod sheet;
mod things;

pub use mcp::{Server, of_tools};
pub use named::api as catalog_id;
pub use openapi::{Api, LARGEST, OpenApiError, of_openapi};
use sheet::Sheet;

/// A catalog that was drafted.
#[derive(Clone, Debug)]
pub struct Draft {
    pub loaded: Loaded,
    /// Its file.
    pub yaml: String,
    /// For who reviews it: what was left out, and what has to be looked at.
    pub notes: Vec<String>,
}

/// Writes the file, with these lines of comment before it, and reads it again as any other.
fn finish(head: &[String], sheet: &Sheet, notes: Vec<String>) -> Result<Draft, CatalogError> {
    let mut yaml: String = head.iter().map(|line| format!("# {line}\n")).collect();
    yaml += &sheet.yaml();
    let loaded = catalog::read(&yaml, Path::new("draft"))?;
    Ok(Draft { loaded, yaml, notes })
}

#[cfg(test)]
mod tests;
