//! Keys: what stands in parentheses after an entity, and nothing else.

use super::{
    super::typed::{Given, Ty},
    *,
};
use crate::execute::{names, symbols::EntityId};

impl Checker<'_> {
    pub(super) fn key_names(&self, entity: EntityId) -> Vec<String> {
        let found = self.scope.catalog(entity).entity(self.scope.name(entity));
        found.map(|entity| entity.key.clone()).unwrap_or_default()
    }

    /// The parts of the key, in the entity's order. `flow`: the flow that begins with it, if one does.
    pub(super) fn key(
        &mut self,
        entity: EntityId,
        named: &Named,
        args: &Args,
        flow: Option<&Flow>,
    ) -> Checked<Vec<(String, Given)>> {
        let names = self.key_names(entity);
        let columns = self.rows_of(entity, true).columns;
        let is_field = |name: &str| columns.iter().any(|column| column.name == name);
        if args.items.is_empty() {
            let written = named.name.text.as_str();
            let hint = format!("write {written} for all rows, or {}", self.key_skeleton(written, &names));
            let fault = self.fault(Code::EmptyKey, args.span, "the parentheses hold no key", hint);
            return Err(fault.edit(Edit::delete(args.span)));
        }
        let bare = |arg: &Arg| match (&arg.name, &arg.value.kind) {
            (None, ValueKind::Path(path)) if self.binding(&path.parts[0].text).is_none() => {
                Some(path.parts[0].text.clone())
            }
            _ => None,
        };
        let words: Vec<Option<String>> = args.items.iter().map(bare).collect();
        if words.iter().flatten().any(|word| is_field(word)) && words.iter().all(Option::is_some) {
            return Err(self.fields_in_parens(named, args, flow));
        }
        let named_args = args.items.iter().filter(|arg| arg.name.is_some()).count();
        if named_args == 0 {
            if let ([arg], [name]) = (args.items.as_slice(), names.as_slice()) {
                return Ok(vec![(name.clone(), self.key_part(entity, name, &arg.value)?)]);
            }
            let message = format!(
                "the key of {} is {}",
                self.scope.name(entity),
                listed(names.iter().map(String::as_str))
            );
            let hint = format!("write {}", self.key_skeleton(&named.name.text, &names));
            return Err(self.fault(Code::KeyArity, args.span, message, hint));
        }
        let mut parts: Vec<(String, Given)> = Vec::new();
        for arg in &args.items {
            let Some(name) = &arg.name else {
                let hint = format!("name each part: {}", self.key_skeleton(&named.name.text, &names));
                return Err(self.fault(Code::KeyArity, arg.span, "a part of the key has no name", hint));
            };
            if !names.contains(&name.text) {
                return Err(self.no_key(entity, named, args, name, is_field(&name.text)));
            }
            if parts.iter().any(|(have, _)| *have == name.text) {
                let message = format!("{} is given twice", name.text);
                return Err(self.fault(Code::DupArg, name.span, message, "give it once"));
            }
            let given = self.key_part(entity, &name.text, &arg.value)?;
            parts.push((name.text.clone(), given));
        }
        let missing: Vec<&str> = names
            .iter()
            .filter(|name| !parts.iter().any(|(have, _)| have == *name))
            .map(String::as_str)
            .collect();
        if !missing.is_empty() {
            let message = format!("the key lacks {}", listed(missing));
            let hint = format!(
                "write {}, or | filter(…) for rows by some of it",
                self.key_skeleton(&named.name.text, &names)
            );
            return Err(self.fault(Code::KeyMissing, args.span, message, hint));
        }
        parts.sort_by_key(|(name, _)| names.iter().position(|have| have == name));
        Ok(parts)
    }

    fn key_part(&mut self, entity: EntityId, name: &str, value: &Value) -> Checked<Given> {
        let columns = self.rows_of(entity, true).columns;
        let ty = columns.into_iter().find(|column| column.name == name).map(|column| column.ty);
        let ty = ty.unwrap_or(Ty::Domain(Domain::of(Base::String)));
        // A row's own identity, where its key has one part: `Project(p)` is what `p` is.
        self.value(value, &ty)
    }

    /// `Type("…")`, `Repo(owner = "…", name = "…")`.
    pub(super) fn key_skeleton(&self, written: &str, names: &[String]) -> String {
        match names {
            [] => written.to_owned(),
            [_] => format!("{written}(\"…\")"),
            many => {
                let parts: Vec<String> = many.iter().map(|name| format!("{name} = …")).collect();
                format!("{written}({})", parts.join(", "))
            }
        }
    }

    /// `Type(name, id) | limit(3)`.
    fn fields_in_parens(&self, named: &Named, args: &Args, flow: Option<&Flow>) -> Fault {
        let inside = Span::new(args.span.start + 1, args.span.end.saturating_sub(1)).text(self.source);
        let written = Span::new(named.span.start, args.span.start).text(self.source);
        let (code, message) = (Code::FieldsInParens, "parentheses hold a key, and these are fields");
        let Some(flow) = flow else {
            let hint = self.key_skeleton(written, &[String::new()]);
            return self.fault(code, args.span, message, format!("write {hint}"));
        };
        let steps = Span::new(args.span.end, flow.span.end).text(self.source);
        let hint = format!("columns stand in brackets, at the end: {written}{steps}[{inside}]");
        let fault = self.fault(code, args.span, message, hint);
        let stays = |step: &Step| {
            matches!(
                step.kind,
                StepKind::Stage(
                    Stage::Filter(_)
                        | Stage::Search(_)
                        | Stage::Sort(_)
                        | Stage::Limit(_)
                        | Stage::PageSize(_)
                        | Stage::Distinct(_)
                        | Stage::Singleton
                )
            )
        };
        match flow.steps.iter().all(stays) {
            true => {
                fault.edit(Edit::delete(args.span)).edit(Edit::insert(flow.span.end, format!("[{inside}]")))
            }
            false => fault,
        }
    }

    /// `Issue(title = "x")`.
    fn no_key(&self, entity: EntityId, named: &Named, args: &Args, name: &Name, is_field: bool) -> Fault {
        let names = self.key_names(entity);
        let columns = self.rows_of(entity, true).columns;
        let known = columns.iter().map(|column| column.name.as_str());
        let is_arg = self.operations(entity, Kind::Query).iter().any(|id| {
            let operation = self.scope.catalog(entity).operations.get(id);
            operation.is_some_and(|operation| operation.args.get(&name.text).is_some())
        });
        let inside = Span::new(args.span.start + 1, args.span.end.saturating_sub(1)).text(self.source);
        if !is_field && !is_arg {
            let message = format!("{} has no field {}", self.scope.name(entity), name.text);
            let hint = format!("{}there are {}", did(&name.text, known.clone()), listed(known.clone()));
            let fault = self.fault(Code::UnknownField, name.span, message, hint);
            return match names::nearest(&name.text, known) {
                Some(near) => fault.edit(Edit::replace(name.span, near)),
                None => fault,
            };
        }
        let message = format!(
            "{} is no part of the key, which is {}",
            name.text,
            listed(names.iter().map(String::as_str))
        );
        let written = &named.name.text;
        let hint = format!("write {}, or {written} | filter({inside})", self.key_skeleton(written, &names));
        let fault = self.fault(Code::KeyField, name.span, message, hint);
        fault.edit(Edit::insert(args.span.start, " | filter"))
    }
}

/// `did you mean x? `, or nothing.
pub(super) fn did<'n>(written: &str, known: impl IntoIterator<Item = &'n str>) -> String {
    names::nearest(written, known).map(|near| format!("did you mean {near}? ")).unwrap_or_default()
}
