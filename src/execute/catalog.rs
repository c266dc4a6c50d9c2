//! A catalog types one source: its entities, their fields and relations, and the operations that reach them. One YAML file
//! each; read, checked as a whole, and known by a digest. Knows nothing of programs.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::config::Ordered;

mod check;
mod lint;
mod load;
mod locator;
mod operation;
mod short;
mod source;
mod types;

pub use load::{CatalogError, Catalogs, Loaded, load_file, load_folder, read, schema};
pub use locator::{Hop, Input, Locator, Root, placeholders};
pub use operation::{Coverage, Effect, EffectClass, Graphql, Http, Kind, Mcp, Operation, Pages, Returns};
pub use source::{Auth, Limits, Source, ToolsDigest};
pub use types::{Arg, Base, Domain, Field, Holds, Need, Op, TimeWire};

/// One catalog, as its file says.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// Its id, the `api` of seeds: a lower-case letter, then at most 39 of a-z, 0-9, `_` and `-`.
    #[serde(rename = "catalog")]
    #[schemars(regex(pattern = r"^[a-z][a-z0-9_-]{0,39}$"))]
    pub id: String,
    /// Counted up by its author.
    pub revision: u64,
    pub title: String,
    /// What it is good for; searched by `discover_capabilities`.
    pub about: Option<String>,
    /// Other words for it, for searches.
    #[serde(default)]
    pub aliases: Vec<String>,
    pub source: Source,
    /// Value domains by name.
    #[serde(default)]
    pub types: Ordered<Domain>,
    pub entities: Ordered<Entity>,
    #[serde(default)]
    pub operations: Ordered<Operation>,
}

/// A kind of thing that a source has.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entity {
    /// What it is, for searches and the teaching table.
    pub about: Option<String>,
    /// The fields that identify one; empty: there is one alone.
    pub key: Vec<String>,
    pub fields: Ordered<Field>,
    #[serde(default)]
    pub relations: Ordered<Relation>,
}

/// A way from an entity's rows to another's: exactly one of `embed`, `query` with `bind`, and `ref`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Relation {
    /// The entity it leads to.
    pub to: String,
    /// Whether to many of them.
    #[serde(default)]
    pub many: bool,
    pub about: Option<String>,
    /// They stand in the row itself.
    pub embed: Option<Embed>,
    /// An operation of kind `query` finds them.
    pub query: Option<String>,
    /// The query's arguments, each from a field of this entity.
    #[serde(default)]
    pub bind: Ordered<String>,
    /// A field of this entity holds the other's identity.
    #[serde(rename = "ref")]
    pub by_ref: Option<String>,
}

/// Rows within a row.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embed {
    pub rows: Locator,
    /// Where each part of the other's key lies in such a row.
    pub key: Ordered<Locator>,
}

impl Catalog {
    pub fn entity(&self, name: &str) -> Option<&Entity> {
        self.entities.get(name)
    }

    /// The entity's operations with their ids, in file order.
    pub fn operations_of<'a>(&'a self, entity: &'a str) -> impl Iterator<Item = (&'a str, &'a Operation)> {
        self.operations.iter().filter(move |(_, operation)| operation.entity == entity && operation.enabled)
    }

    /// The entity's first operation of that kind.
    pub fn operation(&self, entity: &str, kind: Kind) -> Option<(&str, &Operation)> {
        self.operations.iter().find(|(_, one)| one.entity == entity && one.enabled && one.kind == kind)
    }

    /// The entity's methods, in file order: the name in programs, the operation's id, the operation.
    pub fn methods<'a>(&'a self, entity: &'a str) -> impl Iterator<Item = (&'a str, &'a str, &'a Operation)> {
        self.operations_of(entity)
            .filter(|(_, operation)| !operation.kind.is_read())
            .map(|(id, operation)| (operation.name.as_deref().unwrap_or(id), id, operation))
    }

    /// The domain of what a field or an argument holds; `None` where it holds an entity's identity.
    pub fn domain(&self, holds: &Holds) -> Option<Domain> {
        match holds {
            Holds::Ref(_) => None,
            Holds::Inline(domain) => Some(domain.clone()),
            Holds::Named(name) => {
                self.types.get(name).cloned().or_else(|| Base::of_name(name).map(Domain::of))
            }
        }
    }
}

#[cfg(test)]
mod tests;
