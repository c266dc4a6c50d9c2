//! The tree of a program: what is written, before anything is known of entities. Serialised, it is what tests compare: spans
//! are left out.

use serde::Serialize;
use serde_json::Number;

use super::span::Span;

#[derive(Clone, Debug, Serialize)]
pub struct Program {
    pub statements: Vec<Statement>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statement {
    /// `label = rhs`
    Bind { label: Name, rhs: Box<Rhs> },
    /// The results; the last statement alone.
    Roots(Vec<Rhs>),
}

/// A name, a symbol or a word, where it stands.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Name {
    pub text: String,
    #[serde(skip)]
    pub span: Span,
}

#[derive(Clone, Debug, Serialize)]
pub struct Rhs {
    pub flow: Flow,
    /// `=> …`: one write a row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    #[serde(skip)]
    pub span: Span,
}

#[derive(Clone, Debug, Serialize)]
pub struct Flow {
    pub head: Head,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    #[serde(skip)]
    pub span: Span,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// An entity or a binding.
    Named(Named),
    Text(Text),
}

/// `Type`, `tracker::Issue("i1")`, `fire`.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<Name>,
    pub name: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Args>,
    #[serde(skip)]
    pub span: Span,
}

/// What stands in parentheses, these included in the span.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Args {
    pub items: Vec<Arg>,
    #[serde(skip)]
    pub span: Span,
}

#[derive(Clone, Debug, Serialize)]
pub struct Arg {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    pub value: Value,
    #[serde(skip)]
    pub span: Span,
}

/// A string or a heredoc.
#[derive(Clone, Debug, Serialize)]
pub struct Text {
    pub text: String,
    /// The tag of a heredoc.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    #[serde(skip)]
    pub span: Span,
}

#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Value {
    pub kind: ValueKind,
    #[serde(skip)]
    pub span: Span,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueKind {
    Null,
    Bool(bool),
    Number(Number),
    Text(Text),
    List(Vec<Value>),
    Object(Vec<(Name, Value)>),
    /// A binding, or a field of its one row.
    Path(Path),
    /// `_`, the row at hand, or a field of it.
    Cursor(Vec<Name>),
    /// `Type("x")`: an identity.
    Entity(Named),
    Now,
    /// `ago("30d")`
    Ago(Text),
}

/// At least one name.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Path {
    pub parts: Vec<Name>,
    #[serde(skip)]
    pub span: Span,
}

impl Path {
    pub fn text(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join(".")
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Step {
    pub kind: StepKind,
    /// From the dot, bar or bracket on.
    #[serde(skip)]
    pub span: Span,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// `.relation`
    Hop(Name),
    /// `.method(…)`
    Call { name: Name, args: Args },
    /// `| stage`
    Stage(Stage),
    /// `[a, b as c]`
    Columns(Vec<Column>),
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Filter(Vec<Predicate>),
    Search(Value),
    Sort(Vec<Order>),
    Limit(Value),
    PageSize(Value),
    Distinct(Vec<Path>),
    Singleton,
    GroupBy(Vec<Group>),
    Aggregate(Vec<Aggregate>),
    Render(Text),
    /// A word that is no stage; what it is meant for is known with the types.
    Other {
        name: Name,
        /// What stands in its parentheses.
        #[serde(skip)]
        inside: Option<Span>,
    },
}

#[derive(Clone, Debug, Serialize)]
pub struct Column {
    pub path: Path,
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub label: Option<Name>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Order {
    pub path: Path,
    pub desc: bool,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    By(Path),
    Aggregate(Aggregate),
}

#[derive(Clone, Debug, Serialize)]
pub struct Aggregate {
    pub name: Name,
    pub function: Function,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Path>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Function {
    Count,
    Sum,
    Avg,
    Min,
    Max,
}

impl Function {
    pub const ALL: [(&'static str, Function); 5] = [
        ("count", Function::Count),
        ("sum", Function::Sum),
        ("avg", Function::Avg),
        ("min", Function::Min),
        ("max", Function::Max),
    ];

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(have, _)| *have == name).map(|(_, function)| *function)
    }

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, function)| *function == self).map_or("count", |(name, _)| name)
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicate {
    Or(Vec<Predicate>),
    And(Vec<Predicate>),
    Not(Box<Predicate>),
    Compare {
        path: Path,
        op: Compare,
        value: Value,
    },
    /// `path is null`, `path is not null`
    Null {
        path: Path,
        negated: bool,
    },
}

/// An operator and where it stands.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Compare {
    pub op: crate::execute::catalog::Op,
    #[serde(skip)]
    pub span: Span,
}

/// `_.update(…)`, `Issue.create(…)`
#[derive(Clone, Debug, Serialize)]
pub struct Effect {
    pub target: Target,
    pub name: Name,
    /// Not given: a fault that is named once the types are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Args>,
    #[serde(skip)]
    pub span: Span,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    Cursor,
    Named(Named),
}
