//! Stages: what stands after `|`.

use super::*;

impl Parser<'_> {
    pub(super) fn stage(&mut self) -> Parsed<Stage> {
        let name = self.name("a stage")?;
        match name.text.as_str() {
            "filter" => self.filter(&name),
            "search" => self.inside(&name, |it, _| it.value().map(Stage::Search)),
            "limit" => self.inside(&name, |it, _| it.value().map(Stage::Limit)),
            "page_size" => self.inside(&name, |it, _| it.value().map(Stage::PageSize)),
            "singleton" => self.inside(&name, |_, _| Ok(Stage::Singleton)),
            "sort" => self.inside(&name, |it, open| it.listed(open, Self::order).map(Stage::Sort)),
            "distinct" => self.inside(&name, |it, open| match it.is(")") {
                true => Ok(Stage::Distinct(Vec::new())),
                false => it.listed(open, |it| it.path("a field")).map(Stage::Distinct),
            }),
            "group_by" => self.inside(&name, |it, open| it.listed(open, Self::group).map(Stage::GroupBy)),
            "aggregate" => {
                self.inside(&name, |it, open| it.listed(open, Self::aggregate).map(Stage::Aggregate))
            }
            "render" => self.render(&name),
            _ => self.other(name),
        }
    }

    /// What stands in the parentheses of a stage.
    fn inside<T>(&mut self, name: &Name, parse: impl FnOnce(&mut Self, Span) -> Parsed<T>) -> Parsed<T> {
        if !self.is("(") {
            return Err(self.stage_needs_parens(name));
        }
        let open = self.bump();
        if self.is(")") && !matches!(name.text.as_str(), "singleton" | "distinct") {
            return Err(self.empty_stage(name, open.to(self.span())));
        }
        let parsed = parse(self, open)?;
        match self.take(")") {
            Some(_) => Ok(parsed),
            None => Err(self.unclosed(open, "`)`")),
        }
    }

    /// One or more, separated by commas.
    fn listed<T>(&mut self, open: Span, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take(",").is_some() {
            if self.is(")") {
                break;
            }
            items.push(item(self)?);
        }
        if self.is(")") { Ok(items) } else { Err(self.unclosed(open, "`,` or `)`")) }
    }

    fn filter(&mut self, name: &Name) -> Parsed<Stage> {
        self.inside(name, |it, _| {
            let mut all = vec![it.predicate()?];
            while it.take(",").is_some() {
                if it.is(")") {
                    break;
                }
                all.push(it.predicate()?);
            }
            if it.is(")") { Ok(Stage::Filter(all)) } else { Err(it.after_predicate()) }
        })
    }

    fn order(&mut self) -> Parsed<Order> {
        let path = self.path("a field")?;
        let desc = match self.tok() {
            Tok::Name(word) if word == "desc" || word == "asc" => {
                let desc = word == "desc";
                self.bump();
                desc
            }
            _ => false,
        };
        match (self.tok(), self.next()) {
            // `sort(id, desc)`: the order is no field.
            (Tok::Punct(","), Tok::Name(word)) if word == "desc" || word == "asc" => {
                let span = self.span();
                let hint = format!("write {} {word}: the order stands behind its field", path.text());
                let fault = self.fault(Code::SortComma, span, "a comma stands between field and order", hint);
                Err(fault.edit(Edit::delete(span)))
            }
            (Tok::Name(_), _) => {
                let before = self.last();
                let hint = "separate the fields with commas: sort(a desc, b)";
                let fault = self.fault(Code::SortComma, self.span(), "a comma is missing before it", hint);
                Err(fault.edit(Edit::insert(before.end, ",")))
            }
            _ => Ok(Order { path, desc }),
        }
    }

    fn group(&mut self) -> Parsed<Group> {
        let is_aggregate = match (self.tok(), self.next()) {
            (_, Tok::Punct("=" | "(")) => true,
            (Tok::Name(_), _) => false,
            _ => return Err(self.expected("a field or an aggregate")),
        };
        if is_aggregate {
            self.aggregate().map(Group::Aggregate)
        } else {
            self.path("a field").map(Group::By)
        }
    }

    /// `n = count()`, `top = max(score)`.
    fn aggregate(&mut self) -> Parsed<Aggregate> {
        if !matches!(self.next(), Tok::Punct("=")) {
            return Err(self.unnamed_aggregate());
        }
        let name = self.name("the aggregate's name")?;
        self.bump();
        let called = self.name("count(), sum, avg, min or max")?;
        let Some(function) = Function::of_name(&called.text) else {
            let hint = "there are count(), sum(field), avg(field), min(field) and max(field)";
            let message = format!("{} is no aggregate", called.text);
            return Err(self.fault(Code::BadCount, called.span, message, hint));
        };
        let Some(open) = self.take("(") else { return Err(self.bare_aggregate(function, called.span)) };
        if function == Function::Count {
            let from = self.span();
            while !matches!(self.tok(), Tok::Punct(")") | Tok::Sep | Tok::End) {
                self.bump();
            }
            let inside = from.to(self.last());
            if self.is(")") && from != self.span() {
                let message = "count() takes nothing: it counts rows";
                let hint = "write count(); to count what is not null, filter first";
                let fault = self.fault(Code::BadCount, inside, message, hint);
                return Err(fault.edit(Edit::delete(inside)));
            }
        } else if self.is(")") {
            let hint = format!("write {}(field)", function.name());
            return Err(self.fault(Code::BadCount, called.span, "it needs a field", hint));
        }
        let path = match function {
            Function::Count => None,
            _ => Some(self.path("a field")?),
        };
        match self.take(")") {
            Some(_) => Ok(Aggregate { name, function, path }),
            None => Err(self.unclosed(open, "`)`")),
        }
    }

    fn render(&mut self, name: &Name) -> Parsed<Stage> {
        match self.tok() {
            Tok::Heredoc { .. } => self.text().map(Stage::Render),
            Tok::Str(text) => {
                let span = self.span();
                let edit = Edit::replace(span, format!("<<T\n{text}\nT\n"));
                Err(self.render_heredoc(span).edit(edit))
            }
            Tok::Punct("(") => Err(self.render_heredoc(self.span())),
            _ => Err(self.render_heredoc(name.span)),
        }
    }

    /// A word that is no stage: what is in its parentheses is skipped, and judged with the types.
    fn other(&mut self, name: Name) -> Parsed<Stage> {
        let mut inside = None;
        if self.is("(") {
            let open = self.bump();
            let mut depth = 1;
            loop {
                match self.tok() {
                    Tok::Punct("(" | "[" | "{") => depth += 1,
                    Tok::Punct(")" | "]" | "}") => depth -= 1,
                    Tok::End => return Err(self.unclosed(open, "`)`")),
                    _ => {}
                }
                let span = self.bump();
                if depth == 0 {
                    inside = Some(Span::new(open.end, span.start));
                    break;
                }
            }
        }
        Ok(Stage::Other { name, inside })
    }
}
