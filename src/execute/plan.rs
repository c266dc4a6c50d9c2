//! The plan of a typed program: a graph of what is read, computed here, and written; what of it is asked upstream and what is
//! left to do; how much at most; and what a person should look at. Made without a call to any source.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{
    canonical,
    catalog::{Catalogs, EffectClass, Kind},
    instant::Instant,
    language::{ProgramError, Span, typed::Typed},
    symbols::Scope,
};

mod bounds;
mod build;
mod render;
mod values;

pub use render::lines;

/// The form of plans.
pub const VERSION: u32 = 1;
/// Most rows that one read brings in.
pub const MOST_ROWS: u64 = 10_000;
/// Most pages that one read asks for.
pub const MOST_PAGES: u64 = 1_000;
/// Most rows that are written one by one.
pub const MOST_WRITES: u64 = 100;
/// Rows whose fields are fetched one by one before a person is asked.
pub const MOST_FETCHED: u64 = 200;

/// What a program will do. `nodes` are in an order in which each follows what it needs.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    pub version: u32,
    /// The digests of the catalogs that it uses.
    pub catalogs: BTreeMap<String, String>,
    pub nodes: Vec<Node>,
    pub roots: Vec<Root>,
    pub warnings: Vec<String>,
    pub effects: Vec<Effect>,
    /// The most requests of the whole plan.
    pub requests: u64,
    pub verdict: Verdict,
}

/// A result.
#[derive(Clone, Debug, Serialize)]
pub struct Root {
    pub label: String,
    pub node: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Ok,
    /// A person should look at the warnings.
    Review,
    /// It cannot be run as it is.
    Blocked,
}

#[derive(Clone, Debug, Serialize)]
pub struct Node {
    pub id: usize,
    pub op: Op,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity: Option<String>,
    /// The catalog's operation that is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// The nodes whose rows or values it takes; where it takes rows, the first has them.
    pub inputs: Vec<usize>,
    /// The nodes that must have ended before: writes, in program order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<usize>,
    /// What it is given.
    #[serde(skip_serializing_if = "Json::is_null")]
    pub args: Json,
    /// The conditions that the source carries out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pushed: Vec<Json>,
    /// The conditions that are carried out here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub residual: Vec<Json>,
    /// The columns after it.
    pub cols: Vec<String>,
    /// Fields that no operation before it returns: fetched by `get`, one request a row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fetched: Vec<String>,
    /// The number of rows that a read stops at, as one more is not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The rows that a page of it should have, where the program says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u64>,
    pub card: Card,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<EffectClass>,
    pub bounds: Bounds,
    /// Whether its source is known to leave out rows.
    #[serde(skip)]
    pub partial: bool,
    #[serde(serialize_with = "span")]
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    Query,
    Search,
    Get,
    /// An identity without a read: the one of a keyless entity, or of one without `get`.
    Identity,
    /// Along a relation: embedded rows, a bound query, or a reference.
    Hop,
    Filter,
    Sort,
    Limit,
    PageSize,
    Distinct,
    Singleton,
    Group,
    Columns,
    Text,
    Render,
    Call,
    /// A call for each row.
    Each,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Card {
    One,
    Many,
    Text,
}

/// The most rows that come out, and the most requests that are made for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bounds {
    pub rows: u64,
    pub requests: u64,
}

/// A write.
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    pub node: usize,
    pub api: String,
    pub entity: String,
    pub method: String,
    pub class: EffectClass,
    pub idempotent: bool,
    /// The most calls.
    pub calls: u64,
}

impl Plan {
    /// SHA-256 of the canonical JSON of what it does: labels, places and warnings aside.
    pub fn hash(&self) -> String {
        let mut nodes = json!(self.nodes);
        for node in nodes.as_array_mut().into_iter().flatten() {
            if let Some(node) = node.as_object_mut() {
                node.remove("span");
            }
        }
        let roots: Vec<usize> = self.roots.iter().map(|root| root.node).collect();
        canonical::sha256(&json!({
            "version": self.version, "catalogs": self.catalogs, "nodes": nodes, "roots": roots
        }))
    }

    /// Whether every node only reads, so that it may be run at once.
    pub fn only_reads(&self) -> bool {
        self.effects.is_empty()
    }

    /// The operations that it may call, each as `<api>.<operation>`.
    pub fn operations(&self, catalogs: &Catalogs) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for node in &self.nodes {
            let Some(api) = &node.api else { continue };
            let catalog = catalogs.get(api).map(|loaded| &loaded.catalog);
            let fetches = catalog.zip(node.entity.as_ref()).filter(|_| !node.fetched.is_empty());
            let gets = fetches.and_then(|(catalog, entity)| catalog.operation(entity, Kind::Get));
            let calls = node.operation.as_deref().into_iter().chain(gets.map(|(id, _)| id));
            found.extend(calls.map(|operation| format!("{api}.{operation}")));
        }
        found
    }

    /// Whether each node follows what it needs.
    pub fn is_ordered(&self) -> bool {
        let known = |node: &Node| node.inputs.iter().chain(&node.after).all(|input| *input < node.id);
        self.nodes.iter().enumerate().all(|(index, node)| node.id == index && known(node))
            && self.roots.iter().all(|root| root.node < self.nodes.len())
    }
}

/// The plan of a typed program. `now` is the instant that `now()` and `ago()` freeze to.
pub fn plan(
    typed: &Typed,
    source: &str,
    scope: &Scope,
    catalogs: &Catalogs,
    now: Instant,
) -> Result<Plan, Box<ProgramError>> {
    let (mut plan, uses) = build::build(typed, source, scope, now)?;
    let apis = plan.nodes.iter().filter_map(|node| node.api.clone());
    plan.catalogs = apis
        .filter_map(|api| catalogs.get(&api).map(|loaded| (api.clone(), loaded.digest.clone())))
        .collect();
    bounds::settle(&mut plan, &uses, scope);
    debug_assert!(plan.is_ordered(), "a plan is built in program order");
    Ok(plan)
}

fn span<S: serde::Serializer>(span: &Span, to: S) -> Result<S::Ok, S::Error> {
    [span.start, span.end].serialize(to)
}

#[cfg(test)]
mod tests;
