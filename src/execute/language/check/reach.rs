//! Whether what a program asks can be asked of its sources: each set of all rows needs a query whose scope is given.

use super::{
    super::typed::{Call, Condition},
    *,
};
use crate::execute::catalog::{Need, Op, Operation};

pub(super) fn check(typed: &Typed, scope: &Scope) -> Checked<()> {
    let flows = typed.bindings.iter().map(|bound| &bound.rhs).chain(&typed.roots);
    flows.map(|rhs| &rhs.flow).try_for_each(|flow| reach(flow, scope))
}

fn reach(flow: &TypedFlow, scope: &Scope) -> Checked<()> {
    only_upstream(flow)?;
    let Origin::All(entity) = flow.origin else { return Ok(()) };
    if let Some(TypedKind::Search { .. } | TypedKind::Call(Call { .. })) =
        flow.steps.first().map(|step| &step.kind)
    {
        return Ok(());
    }
    query(flow, entity, scope).map(drop)
}

/// The query that finds all rows of an entity: the first whose scope and needed arguments the filters give.
pub(in crate::execute) fn query<'s>(
    flow: &TypedFlow,
    entity: EntityId,
    scope: &'s Scope,
) -> Checked<(&'s str, &'s Operation)> {
    let (catalog, name) = (scope.catalog(entity), scope.name(entity));
    let given = equalities(flow);
    let mut best: Option<Vec<&str>> = None;
    let seed = &scope.ledger.entities[entity.0];
    for (id, operation) in catalog.operations_of(&seed.entity).filter(|(_, one)| one.kind == Kind::Query) {
        let needed = operation.args.iter().filter(|(_, arg)| arg.need != Need::Optional);
        let missing: Vec<&str> = needed.map(|(arg, _)| arg).filter(|arg| !given.contains(arg)).collect();
        if missing.is_empty() {
            return Ok((id, operation));
        }
        if best.as_ref().is_none_or(|best| missing.len() < best.len()) {
            best = Some(missing);
        }
    }
    let fault = |code, message: String, hint: String| {
        Err(ProgramError::new(Phase::Reach, code, flow.head, message, hint))
    };
    let Some(missing) = best else {
        let shape = catalog.entity(name);
        let one = shape.map_or(1, |shape| shape.key.len());
        let ways = ways_to(scope, entity);
        return match catalog.operation(name, Kind::Get) {
            Some(_) => {
                let key = if one == 1 { "(\"…\")" } else { "(…)" };
                fault(
                    Code::KeyMissing,
                    format!("all rows of {name} cannot be asked for"),
                    format!("name one, {name}{key}{ways}"),
                )
            }
            None => fault(
                Code::KeyMissing,
                format!("rows of {name} cannot be asked for by themselves"),
                match ways.strip_prefix(", or ") {
                    Some(ways) => format!("reach them along a relation: {ways}"),
                    None => "no relation of this session leads to them either".to_owned(),
                },
            ),
        };
    };
    let parts: Vec<String> = missing
        .iter()
        .map(|arg| match catalog.operations_of(&seed.entity).find_map(|(_, one)| one.args.get(arg)) {
            Some(arg_of) => match &arg_of.holds {
                Holds::Ref(to) => format!("{arg} = {to}(\"…\")"),
                _ => format!("{arg} = …"),
            },
            None => format!("{arg} = …"),
        })
        .collect();
    let message = format!("rows of {name} are asked for within {}", listed(missing.iter().copied()));
    let hint = format!("write {name} | filter({}){}", parts.join(", "), ways_to(scope, entity));
    fault(Code::ScopeMissing, message, hint)
}

/// An argument that is no field can be asked of the source alone: as a condition of its own, and once.
fn only_upstream(flow: &TypedFlow) -> Checked<()> {
    fn walk<'c>(condition: &'c Condition, alone: bool, seen: &mut Vec<&'c str>) -> Checked<()> {
        match condition {
            Condition::And(all) => all.iter().try_for_each(|one| walk(one, alone, seen)),
            Condition::Or(any) => any.iter().try_for_each(|one| walk(one, false, seen)),
            Condition::Not(inside) => walk(inside, false, seen),
            Condition::Compare { column, span, .. } if column.only_arg => {
                let name = column.path[0].as_str();
                if alone && !seen.contains(&name) {
                    seen.push(name);
                    return Ok(());
                }
                let message = format!("{name} is no field: only the source can compare it, and once");
                let hint = format!("give {name} one condition of its own, not within or and not");
                Err(ProgramError::new(Phase::Reach, Code::Operator, *span, message, hint))
            }
            Condition::Compare { .. } | Condition::Null { .. } => Ok(()),
        }
    }
    let mut seen = Vec::new();
    let filters = flow.steps.iter().filter_map(|step| match &step.kind {
        TypedKind::Filter(all) => Some(all),
        _ => None,
    });
    filters.flatten().try_for_each(|condition| walk(condition, true, &mut seen))
}

/// The relations that lead to an entity, for a hint.
fn ways_to(scope: &Scope, to: EntityId) -> String {
    let mut ways = Vec::new();
    for from in scope.ids().filter(|id| scope.seed(*id).api == scope.seed(to).api) {
        let shape = scope.catalog(from).entity(scope.name(from));
        for (relation, found) in shape.into_iter().flat_map(|shape| shape.relations.iter()) {
            if found.to == scope.name(to) {
                ways.push(format!("{}(…).{relation}", scope.name(from)));
            }
        }
    }
    if ways.is_empty() { String::new() } else { format!(", or {}", ways.join(", ")) }
}

/// The names that the filters before any other change of the rows hold to one value.
fn equalities(flow: &TypedFlow) -> Vec<&str> {
    fn of<'c>(condition: &'c Condition, found: &mut Vec<&'c str>) {
        match condition {
            Condition::And(all) => all.iter().for_each(|one| of(one, found)),
            Condition::Compare { column, op: Op::Eq, .. } if column.path.len() == 1 => {
                found.push(&column.path[0])
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for step in &flow.steps {
        match &step.kind {
            TypedKind::Filter(all) => all.iter().for_each(|one| of(one, &mut found)),
            TypedKind::Sort(_) | TypedKind::PageSize(_) => {}
            _ => break,
        }
    }
    found
}
