//! The typed program: the tree with every name resolved and every value checked. What a plan is made from.

use serde_json::Value as Json;

use super::{ast::Function, span::Span};
use crate::execute::{
    catalog::{Domain, Op},
    symbols::EntityId,
};

#[derive(Clone, Debug)]
pub struct Typed {
    /// In program order; a binding sees those before it.
    pub bindings: Vec<Bound>,
    pub roots: Vec<TypedRhs>,
}

#[derive(Clone, Debug)]
pub struct Bound {
    pub label: String,
    pub rhs: TypedRhs,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct TypedRhs {
    pub flow: TypedFlow,
    pub each: Option<Each>,
    pub shape: Shape,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub struct TypedFlow {
    pub origin: Origin,
    /// The head's place.
    pub head: Span,
    pub steps: Vec<TypedStep>,
}

/// Where a flow's rows come from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// All that the source has, by a query or, where `| search` follows, by a search.
    All(EntityId),
    /// One by its key, in the order of the entity's key.
    One {
        entity: EntityId,
        key: Vec<(String, Given)>,
    },
    /// The one of an entity without key.
    Sole(EntityId),
    /// A binding, by its place among them.
    Binding(usize),
    Text(String),
}

#[derive(Clone, Debug)]
pub struct TypedStep {
    pub kind: TypedKind,
    pub span: Span,
    /// What is there after it.
    pub shape: Shape,
}

#[derive(Clone, Debug)]
pub enum TypedKind {
    /// A relation of the rows' entity, by name.
    Hop {
        from: EntityId,
        relation: String,
    },
    Call(Call),
    Filter(Vec<Condition>),
    /// The id of the search operation, and its words.
    Search {
        operation: String,
        words: Given,
    },
    Sort(Vec<(Column, bool)>),
    Limit(u64),
    PageSize(u64),
    Distinct(Vec<Column>),
    Singleton,
    /// Grouped by the columns; by none: all rows are one group.
    Group {
        by: Vec<Column>,
        aggregates: Vec<TypedAggregate>,
    },
    Render(String),
    /// Columns and their new names.
    Columns(Vec<(Column, String)>),
}

/// A call of a method.
#[derive(Clone, Debug)]
pub struct Call {
    pub entity: EntityId,
    /// The operation's id.
    pub operation: String,
    pub args: Vec<(String, Given)>,
    pub span: Span,
}

/// `=> …`: the call for each row.
#[derive(Clone, Debug)]
pub struct Each {
    /// The row it is called on: the row at hand, one by its key, or none (a create).
    pub target: EachTarget,
    pub call: Call,
}

#[derive(Clone, Debug)]
pub enum EachTarget {
    Row,
    Key(Vec<(String, Given)>),
    Entity,
}

/// A column of rows, as it is found in them.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The column's name, and keys within its value.
    pub path: Vec<String>,
    pub ty: Ty,
    /// An argument of the query alone: it can be asked upstream, and is no field of the rows.
    pub only_arg: bool,
}

#[derive(Clone, Debug)]
pub struct TypedAggregate {
    pub name: String,
    pub function: Function,
    pub column: Option<Column>,
}

#[derive(Clone, Debug)]
pub enum Condition {
    Or(Vec<Condition>),
    And(Vec<Condition>),
    Not(Box<Condition>),
    Compare { column: Column, op: Op, value: Given, span: Span },
    Null { column: Column, negated: bool },
}

/// A value that was checked against what takes it.
#[derive(Clone, Debug)]
pub enum Given {
    Json(Json),
    List(Vec<Given>),
    Object(Vec<(String, Given)>),
    /// A field of a binding's one row; no path: its identity, or its text.
    Binding {
        index: usize,
        path: Vec<String>,
    },
    /// A field of the row at hand; no path: its identity.
    Cursor(Vec<String>),
    /// An identity: each part of the key.
    Identity {
        entity: EntityId,
        key: Vec<(String, Given)>,
    },
    /// The instant of the plan, less that many seconds.
    Now {
        before: u64,
    },
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Ty {
    Domain(Domain),
    /// An identity of an entity of that catalog.
    Ref {
        api: String,
        entity: String,
    },
}

/// What a flow is after a step.
#[derive(Clone, Debug)]
pub enum Shape {
    Text,
    Rows(Rows),
}

#[derive(Clone, Debug)]
pub struct Rows {
    pub one: bool,
    /// Whose rows they are; `None` once they are grouped.
    pub entity: Option<EntityId>,
    pub columns: Vec<Named>,
    /// The operations whose arguments a filter here may use: those that may still be asked.
    pub asked: Vec<String>,
}

/// A column by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    pub name: String,
    pub ty: Ty,
    pub nullable: bool,
}
