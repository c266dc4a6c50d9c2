//! What stands after a dot: a relation or a method, by its name or its symbol; and what else was meant where it is neither.

use super::{keys::did, *};
use crate::execute::{
    names::{self, SymbolKind},
    symbols::Member as Owned,
};

/// What a name after a dot is.
pub(super) enum Member {
    Relation(String),
    Method(String),
    Field,
    /// An argument of the entity's queries.
    Filter,
    Nothing,
}

impl Checker<'_> {
    /// What the entity has of that name or symbol.
    pub(super) fn member(&self, entity: EntityId, name: &Name) -> Checked<Member> {
        let ledger = &self.scope.ledger;
        match names::symbol_kind(&name.text) {
            Some(SymbolKind::Relation) => self.owned(entity, name, &ledger.relations).map(Member::Relation),
            Some(SymbolKind::Method) => self.owned(entity, name, &ledger.methods).map(Member::Method),
            _ => Ok(self.member_by_name(entity, &name.text)),
        }
    }

    fn member_by_name(&self, entity: EntityId, name: &str) -> Member {
        let catalog = self.scope.catalog(entity);
        let Some(shape) = catalog.entity(self.scope.name(entity)) else { return Member::Nothing };
        let is_arg = || {
            let queries =
                catalog.operations_of(self.scope.name(entity)).filter(|(_, one)| one.kind.is_read());
            queries.into_iter().any(|(_, one)| one.args.get(name).is_some())
        };
        if shape.relations.get(name).is_some() {
            Member::Relation(name.to_owned())
        } else if catalog.methods(self.scope.name(entity)).any(|(method, _, _)| method == name) {
            Member::Method(name.to_owned())
        } else if shape.fields.get(name).is_some() {
            Member::Field
        } else if is_arg() {
            Member::Filter
        } else {
            Member::Nothing
        }
    }

    fn owned(&self, entity: EntityId, name: &Name, members: &[Owned]) -> Checked<String> {
        let number = name.text[1..].parse::<usize>().unwrap_or(0);
        let seed = self.scope.seed(entity);
        match number.checked_sub(1).and_then(|index| members.get(index)) {
            Some(member) if member.owner == *seed => Ok(member.name.clone()),
            Some(member) => {
                let message = format!(
                    "{} is {} of {}, not of {}",
                    name.text, member.name, member.owner.entity, seed.entity
                );
                let hint = format!("{} has {}", seed.entity, self.members(entity));
                Err(self.fault(Code::SymbolOwner, name.span, message, hint))
            }
            None => {
                let message = format!("{} is no symbol of this session", name.text);
                let hint = format!("{} has {}", seed.entity, self.members(entity));
                Err(self.fault(Code::UnknownSymbol, name.span, message, hint))
            }
        }
    }

    /// The entity's relations and methods with their symbols, for a hint.
    fn members(&self, entity: EntityId) -> String {
        let ledger = &self.scope.ledger;
        let seed = self.scope.seed(entity);
        let of = |letter: char, members: &[Owned], after: &str| -> Vec<String> {
            let own = members.iter().enumerate().filter(|(_, member)| member.owner == *seed);
            own.map(|(index, member)| format!(".{}{after} ({letter}{})", member.name, index + 1)).collect()
        };
        let mut all = of('r', &ledger.relations, "");
        all.extend(of('m', &ledger.methods, "(…)"));
        if all.is_empty() {
            "no relations and no methods".to_owned()
        } else {
            listed(all.iter().map(String::as_str))
        }
    }

    /// The relation that a dot goes along: from where, its name, to where, and whether to many.
    pub(super) fn relation(
        &self,
        rows: &Rows,
        name: &Name,
        step: Span,
    ) -> Checked<(EntityId, String, EntityId, bool)> {
        let Some(entity) = rows.entity else { return Err(self.no_identity(name.span)) };
        match self.member(entity, name)? {
            Member::Relation(relation) => self.follow(entity, relation, name),
            Member::Method(method) => {
                let message = format!("{method} is a method, and a method has parentheses");
                let hint = format!("write .{}({})", name.text, self.args_skeleton(entity, &method));
                let fault = self.fault(Code::MethodNeedsParens, name.span, message, hint);
                Err(fault.edit(Edit::insert(name.span.end, "()")))
            }
            Member::Field => {
                let text = &name.text;
                let message = format!("{text} is a field, and a dot goes along a relation");
                let hint = format!(
                    "write [{text}] for the column, | filter({text} = …) for a condition; {} has {}",
                    self.scope.name(entity),
                    self.members(entity)
                );
                let fault = self.fault(Code::FieldNotRelation, name.span, message, hint);
                Err(fault.edit(Edit::replace(Span::new(step.start, name.span.end), format!("[{text}]"))))
            }
            Member::Filter => {
                let text = &name.text;
                let message = format!(
                    "{text} is a filter of {}, and a dot goes along a relation",
                    self.scope.name(entity)
                );
                let hint = format!(
                    "write | filter({text} = …); {} has {}",
                    self.scope.name(entity),
                    self.members(entity)
                );
                Err(self.fault(Code::FilterNotRelation, name.span, message, hint))
            }
            Member::Nothing => {
                let shape = self.scope.catalog(entity).entity(self.scope.name(entity));
                let relations: Vec<&str> = shape.into_iter().flat_map(|one| one.relations.keys()).collect();
                let message = format!("{} has no relation {}", self.scope.name(entity), name.text);
                let hint = format!(
                    "{}{} has {}",
                    did(&name.text, relations.iter().copied()),
                    self.scope.name(entity),
                    self.members(entity)
                );
                let fault = self.fault(Code::UnknownRelation, name.span, message, hint);
                Err(match names::nearest(&name.text, relations) {
                    Some(near) => fault.edit(Edit::replace(name.span, near)),
                    None => fault,
                })
            }
        }
    }

    fn follow(
        &self,
        entity: EntityId,
        relation: String,
        name: &Name,
    ) -> Checked<(EntityId, String, EntityId, bool)> {
        let shape = self.scope.catalog(entity).entity(self.scope.name(entity));
        let found = shape.and_then(|shape| shape.relations.get(&relation));
        let to = found.map(|found| found.to.as_str()).unwrap_or_default();
        match (found, self.scope.sibling(entity, to)) {
            (Some(found), Some(to)) => Ok((entity, relation, to, found.many)),
            _ => {
                let message = format!("{relation} leads to {to}, which this session does not have");
                let hint =
                    format!("open the context with the seed {}::{to} first", self.scope.seed(entity).api);
                Err(self.fault(Code::UnknownRelation, name.span, message, hint))
            }
        }
    }

    pub(super) fn no_identity(&self, span: Span) -> Fault {
        let message = "grouped rows are rows of no entity any more";
        let hint =
            "follow relations and call methods before group_by and aggregate, on a binding of the rows";
        self.fault(Code::NoIdentity, span, message, hint)
    }

    /// `.pokemon(limit = 3)`.
    pub(super) fn relation_called(&self, name: &Name, args: &Args, relation: &str) -> Fault {
        let mut stages = String::new();
        let mut derived = true;
        for arg in &args.items {
            let value = arg.value.span.text(self.source);
            match arg.name.as_ref().map(|name| name.text.as_str()) {
                Some(stage @ ("limit" | "page_size" | "search" | "sort")) => {
                    stages.push_str(&format!(" | {stage}({value})"));
                }
                Some(field) => stages.push_str(&format!(" | filter({field} = {value})")),
                None => derived = false,
            }
        }
        let message = format!("{relation} is a relation, and a relation is not called");
        let hint = format!("write .{}{stages}", name.text);
        let fault = self.fault(Code::RelationCalled, name.span, message, hint);
        if derived { fault.edit(Edit::replace(args.span, stages)) } else { fault }
    }
}
