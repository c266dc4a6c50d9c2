//! Calls of methods, one at a time or one a row, and their arguments.

use super::{
    super::typed::{Call, Each, EachTarget, Given},
    heads::Found,
    keys::did,
    members::Member,
    *,
};
use crate::execute::{
    catalog::{Need, Operation},
    names,
};

impl Checker<'_> {
    /// `alone`: the call's step, if nothing follows it in its flow.
    pub(super) fn method(
        &mut self,
        rows: Rows,
        name: &Name,
        args: &Args,
        bare: bool,
        alone: Option<Span>,
    ) -> Checked<(TypedKind, Shape)> {
        let Some(entity) = rows.entity else { return Err(self.no_identity(name.span)) };
        let method = match self.member(entity, name)? {
            Member::Method(method) => method,
            Member::Relation(relation) => return Err(self.relation_called(name, args, &relation)),
            _ => return Err(self.unknown_method(entity, name)),
        };
        let Some((id, kind)) = self.operation(entity, &method) else {
            return Err(self.unknown_method(entity, name));
        };
        match (kind, bare, rows.one) {
            (Kind::Create, true, _) => {}
            (Kind::Create, false, _) => {
                let of = self.scope.name(entity);
                let message = format!("{method} makes a row; it is called on no row");
                let hint = format!("write {of}.{}({})", name.text, self.args_skeleton(entity, &method));
                return Err(self.fault(Code::UnknownMethod, name.span, message, hint));
            }
            (_, _, true) => {}
            (_, bare, false) => {
                let message = format!("{method} needs one row, and these are many");
                let hint = format!(
                    "write rows => _.{}(…) for one call a row, or {}",
                    name.text,
                    self.key_skeleton(self.scope.name(entity), &self.key_names(entity))
                );
                let fault = self.fault(Code::WriteNeedsRow, name.span, message, hint);
                return Err(match alone {
                    // All there is, unasked, is never meant.
                    Some(step) if !bare => fault.edit(Edit::insert(step.start, " => _")),
                    _ => fault,
                });
            }
        }
        let args = self.args(entity, &method, &id, args)?;
        let call = Call { entity, operation: id, args, span: name.span };
        Ok((TypedKind::Call(call), Shape::Rows(self.rows_of(entity, true))))
    }

    pub(super) fn each(&mut self, effect: &Effect) -> Checked<Each> {
        let (entity, target) = match &effect.target {
            Target::Cursor => match self.cursor.as_ref().and_then(|row| row.entity) {
                Some(entity) => (entity, EachTarget::Row),
                None => return Err(self.no_identity(effect.span)),
            },
            Target::Named(named) => match (self.resolve(named)?, &named.args) {
                (Found::Entity(entity), None) if self.key_names(entity).is_empty() => {
                    (entity, EachTarget::Key(Vec::new()))
                }
                (Found::Entity(entity), None) => (entity, EachTarget::Entity),
                (Found::Entity(entity), Some(args)) => {
                    (entity, EachTarget::Key(self.key(entity, named, args, None)?))
                }
                (Found::Binding(_), _) => {
                    let hint = "write _.method(…) for the row at hand, or Entity.method(…)";
                    let message = format!("{} is a binding", named.name.text);
                    return Err(self.fault(Code::EachEffect, named.span, message, hint));
                }
            },
        };
        let name = &effect.name;
        let method = match (self.member(entity, name)?, &effect.args) {
            (Member::Method(method), _) => method,
            (Member::Nothing, Some(_)) => return Err(self.unknown_method(entity, name)),
            (member, args) => {
                let message =
                    format!("{} is no method, and after `=>` stands one call of a method", name.text);
                let hint =
                    "write rows => _.method(…); relations and columns are taken before `=>`, or without it";
                let fault = self.fault(Code::EachEffect, name.span, message, hint);
                // `rows => _.labels` is `rows.labels`, and of a field `rows[title]`.
                let before = self.source[..effect.span.start].trim_end();
                let start = before.strip_suffix("=>").map(|before| before.trim_end().len());
                let becomes = match member {
                    Member::Relation(_) => format!(".{}", name.text),
                    _ => format!("[{}]", name.text),
                };
                return Err(match (start, matches!(target, EachTarget::Row) && args.is_none()) {
                    (Some(start), true) => {
                        fault.edit(Edit::replace(Span::new(start, name.span.end), becomes))
                    }
                    _ => fault,
                });
            }
        };
        let Some(args) = &effect.args else {
            let message = format!("{method} is a method, and a method has parentheses");
            let hint = format!("write {}({})", name.text, self.args_skeleton(entity, &method));
            let fault = self.fault(Code::MethodNeedsParens, name.span, message, hint);
            return Err(fault.edit(Edit::insert(name.span.end, "()")));
        };
        let Some((id, kind)) = self.operation(entity, &method) else {
            return Err(self.unknown_method(entity, name));
        };
        match (kind, &target) {
            (Kind::Create, EachTarget::Entity) => {}
            (Kind::Create, _) => {
                let of = self.scope.name(entity);
                let message = format!("{method} makes a row; it is called on no row");
                let hint =
                    format!("write rows => {of}.{}(…), with _.field for what the row gives", name.text);
                return Err(self.fault(Code::EachEffect, name.span, message, hint));
            }
            (_, EachTarget::Entity) => {
                let message = format!("{method} needs one row");
                let hint = format!("write rows => _.{}(…)", name.text);
                return Err(self.fault(Code::WriteNeedsRow, name.span, message, hint));
            }
            _ => {}
        }
        let args = self.args(entity, &method, &id, args)?;
        Ok(Each { target, call: Call { entity, operation: id, args, span: effect.span } })
    }

    /// The id and the kind of the operation behind a method.
    fn operation(&self, entity: EntityId, method: &str) -> Option<(String, Kind)> {
        let mut methods = self.scope.catalog(entity).methods(self.scope.name(entity));
        methods.find(|(name, _, _)| *name == method).map(|(_, id, operation)| (id.to_owned(), operation.kind))
    }

    fn declared(&self, entity: EntityId, id: &str) -> Option<&Operation> {
        self.scope.catalog(entity).operations.get(id)
    }

    fn args(
        &mut self,
        entity: EntityId,
        method: &str,
        id: &str,
        args: &Args,
    ) -> Checked<Vec<(String, Given)>> {
        let Some(operation) = self.declared(entity, id).cloned() else { return Ok(Vec::new()) };
        let skeleton = self.args_skeleton(entity, method);
        let mut given: Vec<(String, Given)> = Vec::new();
        for arg in &args.items {
            let Some(name) = &arg.name else {
                let hint = format!("write {method}({skeleton})");
                let fault = self.fault(Code::PositionalArg, arg.span, "an argument needs its name", hint);
                let only = operation.args.keys().next().filter(|_| operation.args.len() == 1);
                return Err(match only {
                    Some(only) => fault.edit(Edit::insert(arg.span.start, format!("{only} = "))),
                    None => fault,
                });
            };
            let Some(declared) = operation.args.get(&name.text) else {
                let known: Vec<&str> = operation.args.keys().collect();
                let message = format!("{method} has no argument {}", name.text);
                let hint = format!(
                    "{}there are {}",
                    did(&name.text, known.iter().copied()),
                    listed(known.iter().copied())
                );
                let fault = self.fault(Code::UnknownArg, name.span, message, hint);
                return Err(match names::nearest(&name.text, known) {
                    Some(near) => fault.edit(Edit::replace(name.span, near)),
                    None => fault,
                });
            };
            if given.iter().any(|(have, _)| *have == name.text) {
                let message = format!("{} is given twice", name.text);
                return Err(self.fault(Code::DupArg, name.span, message, "give it once"));
            }
            let is_null = matches!(arg.value.kind, ValueKind::Null);
            let value = match is_null && declared.need == Need::Optional {
                true => Given::Json(serde_json::Value::Null),
                false => self.value(&arg.value, &self.ty(entity, &declared.holds))?,
            };
            given.push((name.text.clone(), value));
        }
        let missing: Vec<&str> = operation
            .args
            .iter()
            .filter(|(name, arg)| arg.need != Need::Optional && !given.iter().any(|(have, _)| have == name))
            .map(|(name, _)| name)
            .collect();
        if missing.is_empty() {
            return Ok(given);
        }
        let message = format!("{method} needs {}", listed(missing));
        Err(self.fault(Code::MissingArg, args.span, message, format!("write {method}({skeleton})")))
    }

    /// `project = Project("…"), title = "…"`: what must be given, then `…` if more may be.
    pub(super) fn args_skeleton(&self, entity: EntityId, method: &str) -> String {
        let Some(operation) = self.operation(entity, method).and_then(|(id, _)| self.declared(entity, &id))
        else {
            return "…".to_owned();
        };
        let mut parts: Vec<String> = Vec::new();
        for (name, arg) in operation.args.iter().filter(|(_, arg)| arg.need != Need::Optional) {
            parts.push(format!("{name} = {}", self.example(&self.ty(entity, &arg.holds))));
        }
        if parts.is_empty() {
            let first = operation.args.iter().next();
            parts.extend(
                first.map(|(name, arg)| format!("{name} = {}", self.example(&self.ty(entity, &arg.holds)))),
            );
        }
        if operation.args.len() > parts.len() {
            parts.push("…".to_owned());
        }
        parts.join(", ")
    }

    /// A value of that kind, as it is written.
    pub(super) fn example(&self, ty: &Ty) -> String {
        match ty {
            Ty::Ref { entity, .. } => format!("{entity}(\"…\")"),
            Ty::Domain(domain) => match domain.base {
                Base::Int | Base::Float => "1".to_owned(),
                Base::Bool => "true".to_owned(),
                Base::Enum => format!("{:?}", domain.values.first().map_or("…", String::as_str)),
                Base::Datetime => "ago(\"30d\")".to_owned(),
                Base::Date => "\"2026-11-30\"".to_owned(),
                Base::Uuid => "\"6f9619ff-8b86-4011-b42d-00cf4fc964ff\"".to_owned(),
                Base::Json => "{…}".to_owned(),
                _ => "\"…\"".to_owned(),
            },
        }
    }

    fn unknown_method(&self, entity: EntityId, name: &Name) -> Fault {
        let catalog = self.scope.catalog(entity);
        let methods: Vec<&str> = catalog.methods(self.scope.name(entity)).map(|(name, _, _)| name).collect();
        let message = format!("{} has no method {}", self.scope.name(entity), name.text);
        let meant = match name.text.as_str() {
            "select" | "fields" | "pick" | "map" => "columns stand in brackets, [name, id]; ",
            "where" | "find" => "conditions stand in | filter(…); ",
            "get" | "by_id" | "fetch" => "one row is written as Entity(\"key\"); ",
            "list" | "all" | "query" => "all rows are written as the entity alone; ",
            "first" | "take" | "head" | "top" => "the first rows are | limit(n); ",
            "order_by" | "orderBy" => "an order is | sort(field desc); ",
            "count" | "sum" => "write | aggregate(n = count()); ",
            _ => "",
        };
        let methods_shown = listed(methods.iter().copied());
        let hint = format!("{meant}{}methods: {methods_shown}", did(&name.text, methods.iter().copied()));
        let fault = self.fault(Code::UnknownMethod, name.span, message, hint);
        match names::nearest(&name.text, methods) {
            Some(near) if meant.is_empty() => fault.edit(Edit::replace(name.span, near)),
            _ => fault,
        }
    }
}
