//! Stages: what each needs of the rows before it, and what it leaves.

use super::{
    super::typed::{Column as Found, Given, TypedAggregate},
    keys::did,
    *,
};
use crate::execute::{names, template};

/// What other languages call what a stage does, and what to write here.
const MEANT: [(&str, &str); 18] = [
    ("select", "columns stand in brackets, [name, id]"),
    ("project", "columns stand in brackets, [name, id]"),
    ("fields", "columns stand in brackets, [name, id]"),
    ("pick", "columns stand in brackets, [name, id]"),
    ("map", "columns stand in brackets, [name, id]"),
    ("where", "write | filter(…)"),
    ("order_by", "write | sort(field desc)"),
    ("orderBy", "write | sort(field desc)"),
    ("order", "write | sort(field desc)"),
    ("sort_by", "write | sort(field desc)"),
    ("take", "write | limit(n)"),
    ("head", "write | limit(n)"),
    ("top", "write | limit(n)"),
    ("first", "write | limit(1)"),
    ("unique", "write | distinct()"),
    ("count", "write | aggregate(n = count())"),
    ("one", "write | singleton()"),
    ("each", "write rows => _.method(…)"),
];

impl Checker<'_> {
    pub(super) fn stage(
        &mut self,
        flow: &Flow,
        index: usize,
        mut rows: Rows,
        stage: &Stage,
        bare: bool,
    ) -> Checked<(TypedKind, Shape)> {
        let span = flow.steps[index].span;
        if let Stage::Other { name, inside } = stage {
            return Err(self.unknown_stage(&rows, name, *inside, span));
        }
        if let Stage::Search(words) = stage {
            return self.search(flow, index, rows, words, bare);
        }
        if rows.one && !matches!(stage, Stage::Singleton | Stage::Render(_)) {
            let hint = "leave it out: there is one row already; a condition belongs before, on many";
            let fault = self.fault(Code::OneRow, span, "the stage is for many rows, and this is one", hint);
            // A condition that is left out changes what is meant; an order or a number of rows does not.
            let idle = !matches!(stage, Stage::Filter(_) | Stage::GroupBy(_) | Stage::Aggregate(_));
            return Err(if idle { fault.edit(Edit::delete(self.with_gap(span))) } else { fault });
        }
        let kind = match stage {
            Stage::Filter(all) => {
                let all = all.iter().map(|one| self.condition(&rows, one)).collect::<Checked<_>>()?;
                return Ok((TypedKind::Filter(all), Shape::Rows(rows)));
            }
            Stage::PageSize(value) => {
                return Ok((TypedKind::PageSize(self.whole(value)?), Shape::Rows(rows)));
            }
            Stage::Sort(orders) => {
                let column = |order: &Order| Ok((self.column(&rows, &order.path)?, order.desc));
                let orders = orders.iter().map(column).collect::<Checked<_>>()?;
                return Ok((TypedKind::Sort(orders), Shape::Rows(rows)));
            }
            Stage::Limit(value) => TypedKind::Limit(self.whole(value)?),
            Stage::Distinct(paths) => {
                let columns = paths.iter().map(|path| self.column(&rows, path)).collect::<Checked<_>>()?;
                TypedKind::Distinct(columns)
            }
            Stage::Singleton => {
                rows.one = true;
                TypedKind::Singleton
            }
            Stage::GroupBy(groups) => return self.group(&rows, groups),
            Stage::Aggregate(aggregates) => {
                let groups: Vec<Group> = aggregates.iter().cloned().map(Group::Aggregate).collect();
                return self.group(&rows, &groups);
            }
            Stage::Render(text) => {
                self.template(text)?;
                return Ok((TypedKind::Render(text.text.clone()), Shape::Text));
            }
            Stage::Search(_) | Stage::Other { .. } => unreachable!("answered above"),
        };
        // What is asked upstream is settled by now: a filter further on is evaluated here.
        rows.asked.clear();
        Ok((kind, Shape::Rows(rows)))
    }

    /// A stage's span with the white space before it.
    fn with_gap(&self, span: Span) -> Span {
        let before = &self.source[..span.start];
        Span::new(before.trim_end().len(), span.end)
    }

    fn search(
        &mut self,
        flow: &Flow,
        index: usize,
        mut rows: Rows,
        words: &Value,
        bare: bool,
    ) -> Checked<(TypedKind, Shape)> {
        let span = flow.steps[index].span;
        let Some(entity) = rows.entity.filter(|_| bare) else {
            let hint = "write Entity | search(\"…\") first, the other stages after it";
            let message = "search comes first, on an entity";
            let fault = self.fault(Code::SearchPlace, span, message, hint);
            return Err(match &flow.head {
                Head::Named(named) if index > 0 && named.args.is_none() => {
                    let moved = format!(" {}", span.text(self.source));
                    fault.edit(Edit::insert(named.span.end, moved)).edit(Edit::delete(self.with_gap(span)))
                }
                _ => fault,
            });
        };
        let operations = self.operations(entity, Kind::Search);
        let Some(operation) = operations.into_iter().next() else {
            let of = self.scope.name(entity);
            let message = format!("{of} has no search");
            let text = rows.columns.iter().find(|column| is_text(&column.ty));
            let field = text.map_or("field", |column| column.name.as_str());
            let hint = format!("write {of} | filter({field} ~ {})", words.span.text(self.source));
            let fault = self.fault(Code::NoSearch, span, message, hint);
            return Err(match text {
                Some(_) => {
                    let filter = format!("| filter({field} ~ {})", words.span.text(self.source));
                    fault.edit(Edit::replace(span, filter))
                }
                None => fault,
            });
        };
        let words: Given = self.value(words, &Ty::Domain(Domain::of(Base::Text)))?;
        rows.asked = vec![operation.clone()];
        Ok((TypedKind::Search { operation, words }, Shape::Rows(rows)))
    }

    /// A number of rows.
    fn whole(&self, value: &Value) -> Checked<u64> {
        match &value.kind {
            ValueKind::Number(number) if number.as_u64().is_some_and(|number| number > 0) => {
                Ok(number.as_u64().unwrap_or(1))
            }
            _ => {
                let message = "expected a whole number of rows, 1 at least";
                let fault = self.fault(Code::TypeMismatch, value.span, message, "write a number, such as 10");
                Err(match &value.kind {
                    ValueKind::Text(text) if text.text.parse::<u64>().is_ok() => {
                        fault.edit(Edit::replace(value.span, text.text.as_str()))
                    }
                    _ => fault,
                })
            }
        }
    }

    fn group(&mut self, rows: &Rows, groups: &[Group]) -> Checked<(TypedKind, Shape)> {
        let (mut by, mut aggregates, mut columns) = (Vec::new(), Vec::new(), Vec::<NamedColumn>::new());
        for group in groups {
            let (name, span, ty) = match group {
                Group::By(path) => {
                    let column = self.column(rows, path)?;
                    let ty = column.ty.clone();
                    by.push(column);
                    (path.text(), path.span, ty)
                }
                Group::Aggregate(aggregate) => {
                    let (column, ty) = self.aggregated(rows, aggregate)?;
                    let name = aggregate.name.text.clone();
                    let function = aggregate.function;
                    aggregates.push(TypedAggregate { name: name.clone(), function, column });
                    (name, aggregate.name.span, ty)
                }
            };
            self.once(&columns, &name, span)?;
            columns.push(NamedColumn { name, ty, nullable: true });
        }
        let one = by.is_empty();
        let rows = Rows { one, entity: None, columns, asked: Vec::new() };
        Ok((TypedKind::Group { by, aggregates }, Shape::Rows(rows)))
    }

    /// No two columns have one name.
    fn once(&self, columns: &[NamedColumn], name: &str, span: Span) -> Checked<()> {
        if columns.iter().any(|column| column.name == name) {
            let message = format!("two columns have the name {name}");
            return Err(self.fault(Code::DupArg, span, message, "give each a name of its own"));
        }
        Ok(())
    }

    fn aggregated(&self, rows: &Rows, aggregate: &Aggregate) -> Checked<(Option<Found>, Ty)> {
        let int = Ty::Domain(Domain::of(Base::Int));
        let Some(path) = &aggregate.path else { return Ok((None, int)) };
        let column = self.column(rows, path)?;
        let base = match &column.ty {
            Ty::Domain(domain) => Some(domain.base),
            Ty::Ref { .. } => None,
        };
        let sums = matches!(base, Some(Base::Int | Base::Float | Base::Json));
        let orders = sums || matches!(base, Some(Base::Datetime | Base::Date | Base::String));
        let (fits, wanted) = match aggregate.function {
            Function::Sum | Function::Avg => (sums, "a number"),
            _ => (orders, "a number, a time or a short text"),
        };
        if !fits {
            let message =
                format!("{} takes {wanted}, and {} is none", aggregate.function.name(), path.text());
            let numbers = rows.columns.iter().filter(|column| matches!(&column.ty, Ty::Domain(domain) if matches!(domain.base, Base::Int | Base::Float)));
            let hint = format!("numbers here: {}", listed(numbers.map(|column| column.name.as_str())));
            return Err(self.fault(Code::TypeMismatch, path.span, message, hint));
        }
        let ty = match aggregate.function {
            Function::Avg => Ty::Domain(Domain::of(Base::Float)),
            _ => column.ty.clone(),
        };
        Ok((Some(column), ty))
    }

    pub(super) fn columns(&mut self, mut rows: Rows, columns: &[Column]) -> Checked<(TypedKind, Shape)> {
        let (mut kept, mut named) = (Vec::new(), Vec::<NamedColumn>::new());
        for column in columns {
            let found = self.column(&rows, &column.path)?;
            let (name, span) = match &column.label {
                Some(label) => (label.text.clone(), label.span),
                None => (column.path.text(), column.path.span),
            };
            self.once(&named, &name, span)?;
            let nullable = rows.columns.iter().any(|have| have.name == found.path[0] && have.nullable);
            named.push(NamedColumn { name: name.clone(), ty: found.ty.clone(), nullable });
            kept.push((found, name));
        }
        rows.columns = named;
        rows.asked.clear();
        Ok((TypedKind::Columns(kept), Shape::Rows(rows)))
    }

    fn template(&self, text: &Text) -> Checked<()> {
        let environment = template::environment();
        let broken = |line: usize, message: String| {
            // The heredoc's first line is its opening.
            let body = text.span.text(self.source);
            let start: usize = body.split_inclusive('\n').take(line).map(str::len).sum();
            let length = body[start..].lines().next().map_or(0, str::len);
            let span = Span::new(text.span.start + start, text.span.start + start + length);
            let hint = "a template has {{ row.name }}, {% for row in rows %} … {% endfor %}, and the variable rows alone";
            self.fault(Code::Template, span, message, hint)
        };
        let template = environment.template_from_str(&text.text).map_err(|error| {
            let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
            broken(error.line().unwrap_or(1), format!("the template cannot be read: {detail}"))
        })?;
        if let Some((line, why)) = template::refused(&text.text) {
            return Err(broken(line, why));
        }
        let known = |name: &str| matches!(name, "rows" | "range" | "loop");
        let mut undeclared: Vec<String> =
            template.undeclared_variables(false).into_iter().filter(|name| !known(name)).collect();
        undeclared.sort();
        match undeclared.first() {
            Some(name) => {
                let line = text.text.lines().position(|line| line.contains(name.as_str())).unwrap_or(0) + 1;
                Err(broken(line, format!("the template names {name}, which there is not")))
            }
            None => Ok(()),
        }
    }

    fn unknown_stage(&self, rows: &Rows, name: &Name, inside: Option<Span>, step: Span) -> Fault {
        let text = &name.text;
        if let Some(entity) = rows.entity {
            let shape = self.scope.catalog(entity).entity(self.scope.name(entity));
            let is_symbol = names::symbol_kind(text) == Some(names::SymbolKind::Relation);
            if is_symbol || shape.is_some_and(|shape| shape.relations.get(text).is_some()) {
                let message = format!("{text} is a relation, and a relation follows a dot");
                let fault = self.fault(Code::RelationAsStage, name.span, message, format!("write .{text}"));
                return match inside {
                    None => fault.edit(Edit::replace(self.with_gap(step.to(name.span)), format!(".{text}"))),
                    Some(_) => fault,
                };
            }
        }
        let meant = MEANT.iter().find(|(theirs, _)| theirs == text).map(|(_, ours)| *ours);
        let hint = match meant {
            Some(meant) => meant.to_owned(),
            None => format!("{}there are {}", did(text, names::STAGES), listed(names::STAGES)),
        };
        let fault = self.fault(Code::UnknownStage, name.span, format!("{text} is no stage"), hint);
        let inside = inside.map(|inside| inside.text(self.source)).unwrap_or_default();
        let becomes = match text.as_str() {
            "select" | "project" | "fields" | "pick" => Some(format!("[{inside}]")),
            "where" => Some(format!(" | filter({inside})")),
            "order_by" | "orderBy" | "order" | "sort_by" => Some(format!(" | sort({inside})")),
            "take" | "head" | "top" => Some(format!(" | limit({inside})")),
            "first" if inside.is_empty() => Some(" | limit(1)".to_owned()),
            "unique" => Some(format!(" | distinct({inside})")),
            "one" => Some(" | singleton()".to_owned()),
            "count" => Some(" | aggregate(n = count())".to_owned()),
            _ => names::nearest(text, names::STAGES).map(|near| format!(" | {near}({inside})")),
        };
        match becomes {
            Some(becomes) => fault.edit(Edit::replace(self.with_gap(step), becomes)),
            None => fault,
        }
    }
}

fn is_text(ty: &Ty) -> bool {
    matches!(ty, Ty::Domain(domain) if matches!(domain.base, Base::String | Base::Text))
}
