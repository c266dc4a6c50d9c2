//! From the tree to the typed program: every name resolved, every value held against what takes it. Statements and flows
//! here, the rest in `check/`; each walks in the order of the source, so that the first fault is the one that is said.

use super::{
    ast::*,
    error::{Code, Edit, Phase, ProgramError},
    span::Span,
    typed::{
        Bound, Named as NamedColumn, Origin, Rows, Shape, Ty, Typed, TypedFlow, TypedKind, TypedRhs,
        TypedStep,
    },
};
use crate::execute::{
    catalog::{Base, Domain, Holds, Kind},
    symbols::{EntityId, Scope},
};

mod call;
mod heads;
mod keys;
mod members;
mod paths;
mod predicates;
mod reach;
mod stages;
mod values;

pub(in crate::execute) use values::is_uuid;

pub(in crate::execute) use reach::query;

type Fault = Box<ProgramError>;
type Checked<T> = Result<T, Fault>;

/// The typed program, or the first error of its types, then of what its sources can be asked.
pub(super) fn check(program: &Program, source: &str, scope: &Scope) -> Checked<Typed> {
    let mut checker = Checker { scope, source, bound: Vec::new(), cursor: None };
    let mut roots = Vec::new();
    for statement in &program.statements {
        match statement {
            Statement::Bind { label, rhs } => checker.bind(label, rhs)?,
            Statement::Roots(all) => {
                for root in all {
                    roots.push(checker.rhs(root)?);
                }
            }
        }
    }
    let typed = Typed { bindings: checker.bound, roots };
    reach::check(&typed, scope)?;
    Ok(typed)
}

struct Checker<'a> {
    scope: &'a Scope,
    source: &'a str,
    bound: Vec<Bound>,
    /// The row that `_` is.
    cursor: Option<Rows>,
}

impl Checker<'_> {
    fn fault(&self, code: Code, span: Span, message: impl Into<String>, hint: impl Into<String>) -> Fault {
        ProgramError::new(Phase::Types, code, span, message, hint)
    }

    fn bind(&mut self, label: &Name, rhs: &Rhs) -> Checked<()> {
        if self.scope.ids().any(|id| self.scope.name(id) == label.text) {
            let message = format!("{} is an entity, so it cannot be a label", label.text);
            let hint = format!("choose another name, such as {}s", label.text.to_lowercase());
            return Err(self.fault(Code::BadLabel, label.span, message, hint));
        }
        if self.binding(&label.text).is_some() {
            let message = format!("{} is bound already", label.text);
            let hint = "a label is bound once; choose another name";
            return Err(self.fault(Code::Rebind, label.span, message, hint));
        }
        let rhs = self.rhs(rhs)?;
        self.bound.push(Bound { label: label.text.clone(), rhs, span: label.span });
        Ok(())
    }

    fn binding(&self, label: &str) -> Option<usize> {
        self.bound.iter().position(|bound| bound.label == label)
    }

    fn rhs(&mut self, rhs: &Rhs) -> Checked<TypedRhs> {
        let (flow, shape) = self.flow(&rhs.flow)?;
        let Some(effect) = &rhs.effect else {
            return Ok(TypedRhs { flow, each: None, shape, span: rhs.span });
        };
        let Shape::Rows(rows) = shape else {
            let hint = "rows => _.method(…): rows of an entity come before it";
            return Err(self.fault(Code::EachSource, rhs.flow.span, "a text has no rows", hint));
        };
        self.cursor = Some(Rows { one: true, ..rows });
        let each = self.each(effect);
        self.cursor = None;
        let each = each?;
        // What comes back is the row as it is afterwards, whatever columns were kept of it before.
        let shape = Shape::Rows(self.rows_of(each.call.entity, false));
        Ok(TypedRhs { flow, each: Some(each), shape, span: rhs.span })
    }

    fn flow(&mut self, flow: &Flow) -> Checked<(TypedFlow, Shape)> {
        let (origin, mut shape) = self.head(flow)?;
        let head = match &flow.head {
            Head::Named(named) => named.span,
            Head::Text(text) => text.span,
        };
        let mut typed = TypedFlow { origin, head, steps: Vec::with_capacity(flow.steps.len()) };
        for (index, step) in flow.steps.iter().enumerate() {
            let bare = index == 0 && matches!(typed.origin, Origin::All(_));
            let (kind, after) = self.step(flow, index, shape, bare)?;
            shape = after.clone();
            typed.steps.push(TypedStep { kind, span: step.span, shape: after });
        }
        Ok((typed, shape))
    }

    /// `bare`: the rows are an entity's, and nothing was done with them yet.
    fn step(&mut self, flow: &Flow, index: usize, shape: Shape, bare: bool) -> Checked<(TypedKind, Shape)> {
        let step = &flow.steps[index];
        let rows = match shape {
            Shape::Rows(rows) => rows,
            Shape::Text => {
                let hint = "a text is a value: give it to an argument, or return it";
                return Err(self.fault(Code::TypeMismatch, step.span, "a text has no rows", hint));
            }
        };
        match &step.kind {
            StepKind::Hop(name) => self.hop(rows, name, step.span),
            StepKind::Call { name, args } => {
                let last = index + 1 == flow.steps.len();
                self.method(rows, name, args, bare, last.then_some(step.span))
            }
            StepKind::Columns(columns) => self.columns(rows, columns),
            StepKind::Stage(stage) => self.stage(flow, index, rows, stage, bare),
        }
    }

    /// All columns of an entity.
    fn rows_of(&self, entity: EntityId, one: bool) -> Rows {
        let catalog = self.scope.catalog(entity);
        let fields = catalog.entity(self.scope.name(entity)).into_iter().flat_map(|one| one.fields.iter());
        let columns = fields
            .map(|(name, field)| NamedColumn {
                name: name.to_owned(),
                ty: self.ty(entity, &field.holds),
                nullable: field.nullable,
            })
            .collect();
        Rows { one, entity: Some(entity), columns, asked: Vec::new() }
    }

    /// What a field or an argument of the entity's catalog holds.
    fn ty(&self, entity: EntityId, holds: &Holds) -> Ty {
        match holds {
            Holds::Ref(to) => Ty::Ref { api: self.scope.seed(entity).api.clone(), entity: to.clone() },
            other => {
                let domain = self.scope.catalog(entity).domain(other);
                Ty::Domain(domain.unwrap_or_else(|| Domain::of(Base::Json)))
            }
        }
    }

    fn hop(&mut self, rows: Rows, name: &Name, step: Span) -> Checked<(TypedKind, Shape)> {
        let (from, relation, to, many) = self.relation(&rows, name, step)?;
        let catalog = self.scope.catalog(from);
        let found = catalog.entity(self.scope.name(from)).and_then(|entity| entity.relations.get(&relation));
        let mut after = self.rows_of(to, rows.one && !many);
        after.asked = found.and_then(|relation| relation.query.clone()).into_iter().collect();
        Ok((TypedKind::Hop { from, relation }, Shape::Rows(after)))
    }

    /// The ids of the entity's operations of that kind.
    fn operations(&self, entity: EntityId, kind: Kind) -> Vec<String> {
        let operations = self.scope.catalog(entity).operations_of(self.scope.name(entity));
        operations.filter(|(_, one)| one.kind == kind).map(|(id, _)| id.to_owned()).collect()
    }
}

/// Names for a hint, at most a dozen.
fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    match names.len() {
        0 => "none".to_owned(),
        1..=12 => names.join(", "),
        more => format!("{}, … ({} more)", names[..12].join(", "), more - 12),
    }
}
