//! Columns: which of the rows' a path names, and what it holds.

use super::{super::typed::Column as Found, keys::did, *};
use crate::execute::names;

impl Checker<'_> {
    /// A column of the rows at hand.
    pub(super) fn column(&self, rows: &Rows, path: &Path) -> Checked<Found> {
        let first = &path.parts[0];
        if path.parts.len() > 1
            && let Some(column) = rows.columns.iter().find(|column| column.name == path.text())
        {
            return Ok(Found { path: vec![column.name.clone()], ty: column.ty.clone(), only_arg: false });
        }
        let Some(column) = rows.columns.iter().find(|column| column.name == first.text) else {
            return Err(self.no_column(rows, path));
        };
        let ty = self.within(&column.ty, path)?;
        Ok(Found { path: path.parts.iter().map(|part| part.text.clone()).collect(), ty, only_arg: false })
    }

    /// What the rest of a path finds in a column's value.
    pub(super) fn within(&self, ty: &Ty, path: &Path) -> Checked<Ty> {
        let Some(second) = path.parts.get(1) else { return Ok(ty.clone()) };
        match ty {
            Ty::Domain(domain) if domain.base == Base::Json => Ok(Ty::Domain(Domain::of(Base::Json))),
            Ty::Ref { api, entity } => {
                let to = self.scope.ids().find(|id| {
                    let seed = self.scope.seed(*id);
                    seed.api == *api && seed.entity == *entity
                });
                let key = to.map(|to| self.key_names(to)).unwrap_or_default();
                if path.parts.len() == 2 && key.contains(&second.text) {
                    let columns = to.map(|to| self.rows_of(to, true).columns).unwrap_or_default();
                    let ty =
                        columns.into_iter().find(|column| column.name == second.text).map(|column| column.ty);
                    return Ok(ty.unwrap_or(Ty::Domain(Domain::of(Base::String))));
                }
                let message = format!("{} holds the key of a {entity}, not its fields", path.parts[0].text);
                let hint =
                    format!("follow the relation to {entity} first, and bind it: other = row.relation");
                Err(self.fault(Code::RelationInPath, second.span, message, hint))
            }
            Ty::Domain(domain) => {
                let message = format!("{} is {}, and has no fields", path.parts[0].text, domain.base.name());
                let hint = format!("write {}", path.parts[0].text);
                let fault = self.fault(Code::UnknownField, second.span, message, hint);
                Err(fault.edit(Edit::delete(Span::new(path.parts[0].span.end, path.span.end))))
            }
        }
    }

    /// A path that begins with no column.
    pub(super) fn no_column(&self, rows: &Rows, path: &Path) -> Fault {
        let name = &path.parts[0];
        let text = &name.text;
        let known: Vec<&str> = rows.columns.iter().map(|column| column.name.as_str()).collect();
        let entity =
            rows.entity.map(|entity| (self.scope.catalog(entity).entity(self.scope.name(entity)), entity));
        if let Some((Some(shape), entity)) = entity {
            let of = self.scope.name(entity);
            let symbol = match names::symbol_kind(text) {
                Some(names::SymbolKind::Relation) => self.member(entity, name).is_ok(),
                _ => shape.relations.get(text).is_some(),
            };
            if symbol {
                let message = format!("{text} is a relation of {of}, not a field");
                let hint = format!("bind the hop first: other = rows.{text}, then other[…]");
                return self.fault(Code::RelationInPath, name.span, message, hint);
            }
            if shape.fields.get(text).is_some() {
                let message = format!("{text} is not among the columns that were kept");
                let hint = format!("the columns here are {}", listed(known.iter().copied()));
                return self.fault(Code::UnknownField, name.span, message, hint);
            }
        }
        let of = entity.map_or("these rows", |(_, entity)| self.scope.name(entity));
        let has = if entity.is_some() { "has" } else { "have" };
        let message = format!("{of} {has} no field {text}");
        let hint = format!("{}there are {}", did(text, known.iter().copied()), listed(known.iter().copied()));
        let fault = self.fault(Code::UnknownField, name.span, message, hint);
        match names::nearest(text, known) {
            Some(near) => fault.edit(Edit::replace(name.span, near)),
            None => fault,
        }
    }
}
