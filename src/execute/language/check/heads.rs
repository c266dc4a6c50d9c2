//! What a flow begins with: an entity, one of its rows, a binding, a text.

use super::*;
use crate::execute::{
    language::typed::Given,
    names::{self, SymbolKind},
};

/// What a name at the beginning of a flow, or before a key, stands for.
pub(super) enum Found {
    Entity(EntityId),
    Binding(usize),
}

impl Checker<'_> {
    pub(super) fn head(&mut self, flow: &Flow) -> Checked<(Origin, Shape)> {
        let named = match &flow.head {
            Head::Text(text) => return Ok((Origin::Text(text.text.clone()), Shape::Text)),
            Head::Named(named) => named,
        };
        let entity = match self.resolve(named)? {
            Found::Entity(entity) => entity,
            Found::Binding(index) => {
                let Some(args) = &named.args else {
                    let mut shape = self.bound[index].rhs.shape.clone();
                    if let Shape::Rows(rows) = &mut shape {
                        // What a binding asks is settled: a filter on it is not pushed into it.
                        rows.asked.clear();
                    }
                    return Ok((Origin::Binding(index), shape));
                };
                return Err(self.binding_called(named, args));
            }
        };
        let keyless = self.key_names(entity).is_empty();
        let Some(args) = &named.args else {
            if keyless {
                return Ok((Origin::Sole(entity), Shape::Rows(self.rows_of(entity, true))));
            }
            let mut rows = self.rows_of(entity, false);
            rows.asked = self.operations(entity, Kind::Query);
            return Ok((Origin::All(entity), Shape::Rows(rows)));
        };
        let key: Vec<(String, Given)> = self.key(entity, named, args, Some(flow))?;
        Ok((Origin::One { entity, key }, Shape::Rows(self.rows_of(entity, true))))
    }

    pub(super) fn resolve(&self, named: &Named) -> Checked<Found> {
        let name = &named.name;
        if let Some(api) = &named.api {
            return self.qualified(api, name).map(Found::Entity);
        }
        if let Some(index) = self.binding(&name.text) {
            return Ok(Found::Binding(index));
        }
        match names::symbol_kind(&name.text) {
            Some(SymbolKind::Entity) => return self.entity_symbol(name).map(Found::Entity),
            Some(_) => return Err(self.member_as_head(name)),
            None => {}
        }
        let all: Vec<EntityId> = self.scope.ids().filter(|id| self.scope.name(*id) == name.text).collect();
        match all.as_slice() {
            [one] => Ok(Found::Entity(*one)),
            [] => Err(self.unknown_entity(name)),
            many => {
                let ways: Vec<String> =
                    many.iter().map(|id| format!("{}::{}", self.scope.seed(*id).api, name.text)).collect();
                let message = format!("{} is an entity of several catalogs", name.text);
                let hint = format!("write {}", ways.join(" or "));
                Err(self.fault(Code::AmbiguousEntity, name.span, message, hint))
            }
        }
    }

    fn qualified(&self, api: &Name, name: &Name) -> Checked<EntityId> {
        let found = self.scope.ids().find(|id| {
            let seed = self.scope.seed(*id);
            seed.api == api.text && seed.entity == name.text
        });
        found.ok_or_else(|| {
            let all: Vec<String> = self
                .scope
                .ids()
                .map(|id| format!("{}::{}", self.scope.seed(id).api, self.scope.name(id)))
                .collect();
            let written = format!("{}::{}", api.text, name.text);
            let near = names::nearest(&written, all.iter().map(String::as_str));
            let message = format!("there is no entity {written}");
            let hint = format!("there are {}", listed(all.iter().map(String::as_str)));
            let span = api.span.to(name.span);
            let fault = self.fault(Code::UnknownEntity, span, message, hint);
            match near {
                Some(near) => fault.edit(Edit::replace(span, near)),
                None => fault,
            }
        })
    }

    fn entity_symbol(&self, name: &Name) -> Checked<EntityId> {
        let number = name.text[1..].parse::<usize>().unwrap_or(0);
        let known = self.scope.ledger.entities.len();
        match number {
            number if (1..=known).contains(&number) => Ok(EntityId(number - 1)),
            _ => {
                let symbols: Vec<String> =
                    self.scope.ids().map(|id| format!("e{} ({})", id.0 + 1, self.scope.name(id))).collect();
                let hint = format!("there are {}", listed(symbols.iter().map(String::as_str)));
                let message = format!("{} is no symbol of this session", name.text);
                Err(self.fault(Code::UnknownSymbol, name.span, message, hint))
            }
        }
    }

    /// `r1` or `m1` where an entity must stand.
    fn member_as_head(&self, name: &Name) -> Fault {
        let ledger = &self.scope.ledger;
        let (members, what) = match names::symbol_kind(&name.text) {
            Some(SymbolKind::Relation) => (&ledger.relations, "relation"),
            _ => (&ledger.methods, "method"),
        };
        let number = name.text[1..].parse::<usize>().unwrap_or(0);
        match number.checked_sub(1).and_then(|index| members.get(index)) {
            Some(member) => {
                let message =
                    format!("{} is the {what} {} of {}", name.text, member.name, member.owner.entity);
                let hint = format!(
                    "it follows a row of {}, as in {}(…).{}",
                    member.owner.entity, member.owner.entity, name.text
                );
                self.fault(Code::SymbolOwner, name.span, message, hint)
            }
            None => {
                let message = format!("{} is no symbol of this session", name.text);
                let hint = "a statement begins with an entity or a binding";
                self.fault(Code::UnknownSymbol, name.span, message, hint)
            }
        }
    }

    fn unknown_entity(&self, name: &Name) -> Fault {
        let entities: Vec<&str> = self.scope.ids().map(|id| self.scope.name(id)).collect();
        let labels = self.bound.iter().map(|bound| bound.label.as_str());
        let near = names::nearest(&name.text, entities.iter().copied().chain(labels));
        let message = format!("there is no entity and no binding {}", name.text);
        let hint = match near {
            Some(near) => format!("did you mean {near}? Entities of this session: {}", listed(entities)),
            None => format!("entities of this session: {}", listed(entities)),
        };
        let fault = self.fault(Code::UnknownEntity, name.span, message, hint);
        match near {
            Some(near) => fault.edit(Edit::replace(name.span, near)),
            None => fault,
        }
    }

    /// `fire(name, id)`.
    fn binding_called(&self, named: &Named, args: &Args) -> Fault {
        let label = &named.name.text;
        let inside = Span::new(args.span.start + 1, args.span.end.saturating_sub(1)).text(self.source);
        let fields =
            args.items.iter().all(|arg| arg.name.is_none() && matches!(arg.value.kind, ValueKind::Path(_)));
        let (hint, becomes) = match (args.items.is_empty(), fields) {
            (true, _) => (format!("write {label}"), String::new()),
            (_, true) => (format!("columns stand in brackets: {label}[{inside}]"), format!("[{inside}]")),
            _ => (format!("write {label} | filter({inside})"), format!(" | filter({inside})")),
        };
        let message = format!("{label} is a binding, and a binding is not called");
        let fault = self.fault(Code::BindingCalled, named.span, message, hint);
        fault.edit(Edit::replace(args.span, becomes))
    }
}
