//! The faults of the tree: each with its place, what to write, and where it can be, the change that corrects it.

use super::*;

impl Parser<'_> {
    pub(super) fn fault(
        &self,
        code: Code,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Fault {
        ProgramError::new(Phase::Tree, code, span, message, hint)
    }

    /// Something that no rule names stands where something else must.
    pub(super) fn expected(&self, wanted: &str) -> Fault {
        let (tok, span) = (self.tok(), self.span());
        if let Tok::Punct("*" | "&" | "!") = tok {
            let hint = "name the columns one by one, or leave the brackets out for all of them";
            return self.fault(Code::BadChar, span, format!("{} means nothing here", tok.describe()), hint);
        }
        let message = format!("expected {wanted}, found {}", tok.describe());
        let fault = self.fault(Code::Syntax, span, message, format!("put {wanted} here"));
        match tok {
            // The statement goes on on the next line: only `|`, `.` and `=>` may begin one.
            Tok::Sep if span.text(self.source) == "\n" && !matches!(self.next(), Tok::End) => {
                fault.edit(Edit::replace(span, " "))
            }
            _ => fault,
        }
    }

    pub(super) fn unclosed(&self, open: Span, wanted: &str) -> Fault {
        match self.tok() {
            Tok::End => {
                let message = format!("{} is never closed", open.text(self.source));
                self.fault(Code::Syntax, open, message, format!("close it: expected {wanted}"))
            }
            _ => self.expected(wanted),
        }
    }

    pub(super) fn opaque(&self, text: &str) -> Fault {
        let message = format!("{text} is a symbol of an older kind, and means nothing");
        self.fault(Code::OpaqueSymbol, self.span(), message, "write fields by their names, as in [name, id]")
    }

    /// A statement is whole, and something follows on its line.
    pub(super) fn left_over(&mut self, statement: &Statement) -> Fault {
        let (span, before) = (self.span(), self.last());
        match self.tok() {
            Tok::Punct("{") => self.brace_filter(before),
            Tok::Punct("(") => {
                let inside = self.skip_parens();
                let hint = "columns stand in brackets, [name, id]";
                let fault = self.fault(Code::FieldsInParens, inside, "parentheses do not follow here", hint);
                let text = inside.text(self.source);
                let edit = Edit::replace(inside, format!("[{}]", &text[1..text.len().max(2) - 1]));
                if text.ends_with(')') { fault.edit(edit) } else { fault }
            }
            Tok::Name(_) | Tok::Str(_) | Tok::Heredoc { .. } | Tok::Num(_) => {
                let message = "a statement ends before it, and nothing separates the two";
                let hint = "write one statement a line, the roots last";
                let fault = self.fault(Code::Flattened, span, message, hint);
                fault.edit(Edit::replace(Span::new(before.end, span.start), "\n"))
            }
            _ if matches!(statement, Statement::Bind { .. }) => self.expected("the end of the statement"),
            _ => self.expected("the end of the statement, or `,` and another root"),
        }
    }

    /// The span of the parentheses that open here.
    fn skip_parens(&mut self) -> Span {
        let start = self.span();
        let mut depth = 0;
        loop {
            match self.tok() {
                Tok::Punct("(") => depth += 1,
                Tok::Punct(")") => depth -= 1,
                Tok::End => return start.to(self.last()),
                _ => {}
            }
            let span = self.bump();
            if depth == 0 {
                return start.to(span);
            }
        }
    }

    pub(super) fn roots_are_last(&self, statements: &[Statement]) -> Parsed<()> {
        let Some((last, before)) = statements.split_last() else {
            let message = "the program is empty";
            return Err(self.fault(Code::NoRoots, self.span(), message, "write what it should return"));
        };
        let early = before.iter().find_map(|statement| match statement {
            Statement::Roots(roots) => Some(roots),
            Statement::Bind { .. } => None,
        });
        if let Some(roots) = early {
            return Err(self.roots_not_last(roots, statements));
        }
        let Statement::Bind { label, .. } = last else { return Ok(()) };
        let message = "the program returns nothing: its last statement is a binding";
        let hint = format!("end with the roots, such as {}", label.text);
        let end = self.source.trim_end().trim_end_matches(';').len();
        // A closing line of a heredoc or a comment ends with its line.
        let fault = self.fault(Code::NoRoots, label.span, message, hint);
        Err(fault.edit(Edit::replace(Span::new(end, self.source.len()), format!("\n{}", label.text))))
    }

    fn roots_not_last(&self, roots: &[Rhs], statements: &[Statement]) -> Fault {
        let span = roots[0].span.to(roots[roots.len() - 1].span);
        let message = "it is no binding, and more statements follow";
        let hint = "give it a label, or put all roots last, separated by commas";
        let fault = self.fault(Code::RootsNotLast, span, message, hint);
        if statements.iter().any(writes) {
            // The order of writes is their own.
            return fault;
        }
        let mut lines = Vec::new();
        let mut last = Vec::new();
        for statement in statements {
            match statement {
                Statement::Bind { label, rhs } => lines.push(label.span.to(rhs.span).text(self.source)),
                Statement::Roots(roots) => last.extend(roots.iter().map(|root| root.span.text(self.source))),
            }
        }
        let roots = last.join(", ");
        lines.push(&roots);
        fault.edit(Edit::replace(Span::new(0, self.source.len()), lines.join("\n")))
    }

    pub(super) fn no_return(&self) -> Fault {
        let span = self.span();
        let next = self.tokens[self.at + 1].span;
        let hint = "the last statement is what the program returns; leave the word out";
        let fault = self.fault(Code::NoReturn, span, "there is no return", hint);
        fault.edit(Edit::delete(Span::new(span.start, next.start)))
    }

    pub(super) fn declared(&self, word: &str) -> Fault {
        let span = self.span();
        let next = self.tokens[self.at + 1].span;
        let message = format!("{word} begins no binding");
        let fault = self.fault(Code::Flattened, span, message, "write label = …");
        fault.edit(Edit::delete(Span::new(span.start, next.start)))
    }

    pub(super) fn bad_label(&self, text: &str, span: Span) -> Fault {
        let message = match names::is_symbol(text) {
            true => format!("{text} has the form of a symbol, so it cannot be a label"),
            false => format!("{text} is a word of the language, so it cannot be a label"),
        };
        self.fault(Code::BadLabel, span, message, "choose another name, such as rows")
    }

    pub(super) fn bad_left_side(&self, roots: &[Rhs]) -> Fault {
        let span = roots[0].span.to(self.last());
        let hint = "write label = …, with one plain name";
        self.fault(Code::BadLabel, span, "a label is one plain name", hint)
    }

    pub(super) fn cursor_outside(&self) -> Fault {
        let hint = "_ is the row of rows => _.method(…); elsewhere name the field or the binding";
        self.fault(Code::CursorOutside, self.span(), "_ means nothing outside of `=>`", hint)
    }

    pub(super) fn literal_root(&self, span: Span) -> Fault {
        let hint = "a statement begins with an entity or a binding; values stand in arguments and filters";
        self.fault(Code::LiteralRoot, span, "a value alone is no statement", hint)
    }

    /// `Type{name = "x"}`.
    pub(super) fn brace_filter(&mut self, before: Span) -> Fault {
        let open = self.span();
        let from = self.at;
        let mut depth = 0;
        let mut edits = vec![Edit::replace(Span::new(before.end, open.end), " | filter(")];
        let mut close = None;
        for token in &self.tokens[from..] {
            match token.tok {
                Tok::Punct("{" | "(" | "[") => depth += 1,
                Tok::Punct("}" | ")" | "]") => depth -= 1,
                Tok::Punct(":") if depth == 1 => edits.push(Edit::replace(token.span, " =")),
                _ => {}
            }
            if depth == 0 {
                close = Some(token.span);
                break;
            }
        }
        let hint = "write | filter(field = value)";
        let span = open.to(close.unwrap_or(open));
        let mut fault = self.fault(Code::BraceFilter, span, "braces filter nothing", hint);
        if let Some(close) = close {
            edits.push(Edit::replace(close, ")"));
            for edit in edits {
                fault = fault.edit(edit);
            }
        }
        fault
    }

    /// `Type.limit(3)`.
    pub(super) fn dot_stage(&self, dot: Span, name: &Name) -> Fault {
        let text = &name.text;
        let message = format!("{text} is a stage, and a dot goes to a relation or a method");
        let fault = self.fault(Code::DotStage, name.span, message, format!("write | {text}(…)"));
        let fault = fault.edit(Edit::replace(Span::new(dot.start, name.span.start), " | "));
        match (text.as_str(), self.is("(")) {
            ("singleton" | "distinct", false) => fault.edit(Edit::insert(name.span.end, "()")),
            _ => fault,
        }
    }

    /// `Type(id < 5)`.
    pub(super) fn predicate_as_key(&mut self, open: Span) -> Fault {
        let span = self.span();
        let hint = "conditions stand in | filter(…); parentheses hold the key alone";
        let fault = self.fault(Code::KeyField, span, "a key is given with `=`", hint);
        fault.edit(Edit::insert(open.start, " | filter"))
    }

    pub(super) fn each_effect(&self, span: Span) -> Fault {
        let message = "after `=>` stands one call of a method";
        let hint =
            "write rows => _.method(…), or rows => Entity.method(…); relations are followed before `=>`";
        self.fault(Code::EachEffect, span, message, hint)
    }

    pub(super) fn after_effect(&self) -> Fault {
        let message = "nothing follows the method of `=>`";
        let hint = "bind it, done = rows => _.method(…), and go on with done";
        self.fault(Code::EachEffect, self.span(), message, hint)
    }

    pub(super) fn no_predicate(&self, span: Span, hint: &str) -> Fault {
        self.fault(Code::Predicate, span, "it is no comparison of a field with a value", hint)
    }

    pub(super) fn unnamed_aggregate(&self) -> Fault {
        let (span, message) = (self.span(), "an aggregate needs a name");
        let called = match (self.tok(), self.next()) {
            (Tok::Name(name), Tok::Punct("(")) => Some(name.clone()),
            _ => None,
        };
        let Some(called) = called else {
            let hint = "write n = count(), or top = max(score)";
            return self.fault(Code::UnnamedAggregate, span, message, hint);
        };
        let name = match (called.as_str(), self.ahead(2)) {
            ("count", _) => "n".to_owned(),
            (_, Tok::Name(field)) => format!("{called}_{field}"),
            _ => called.clone(),
        };
        let hint = if called == "count" {
            format!("write {name} = count()")
        } else {
            format!("write {name} = {called}(…)")
        };
        let fault = self.fault(Code::UnnamedAggregate, span, message, hint);
        fault.edit(Edit::insert(span.start, format!("{name} = ")))
    }

    pub(super) fn bare_aggregate(&self, function: Function, span: Span) -> Fault {
        let hint = match function {
            Function::Count => "write count()".to_owned(),
            other => format!("write {}(field)", other.name()),
        };
        let fault = self.fault(Code::BadCount, span, "an aggregate has parentheses", hint);
        if function == Function::Count { fault.edit(Edit::insert(span.end, "()")) } else { fault }
    }

    pub(super) fn render_heredoc(&self, span: Span) -> Fault {
        let hint = "write | render <<T, the template on the next lines, then T alone on a line";
        self.fault(Code::HeredocOpen, span, "render takes a heredoc", hint)
    }

    pub(super) fn stage_needs_parens(&self, name: &Name) -> Fault {
        let text = &name.text;
        let message = format!("{text} has parentheses");
        let fault = self.fault(Code::Syntax, name.span, message, format!("write {text}(…)"));
        match (text.as_str(), self.tok()) {
            ("singleton" | "distinct", _) => fault.edit(Edit::insert(name.span.end, "()")),
            ("limit" | "page_size", Tok::Num(number)) => {
                fault.edit(Edit::replace(Span::new(name.span.end, self.span().end), format!("({number})")))
            }
            _ => fault,
        }
    }

    pub(super) fn empty_stage(&self, name: &Name, span: Span) -> Fault {
        let text = name.text.as_str();
        let (code, hint) = match text {
            "filter" => (Code::Predicate, "write filter(name = \"x\")"),
            "search" => (Code::MissingArg, "write search(\"words\")"),
            "sort" => (Code::MissingArg, "write sort(field desc)"),
            "group_by" => (Code::MissingArg, "write group_by(field, n = count())"),
            "aggregate" => (Code::UnnamedAggregate, "write aggregate(n = count())"),
            _ => (Code::MissingArg, "write a number of rows"),
        };
        let fault = self.fault(code, span, format!("{text} needs something in its parentheses"), hint);
        match text {
            "filter" | "sort" => fault,
            "aggregate" => fault.edit(Edit::replace(span, "(n = count())")),
            _ => fault,
        }
    }
}

fn writes(statement: &Statement) -> bool {
    let writes = |rhs: &Rhs| {
        rhs.effect.is_some() || rhs.flow.steps.iter().any(|step| matches!(step.kind, StepKind::Call { .. }))
    };
    match statement {
        Statement::Bind { rhs, .. } => writes(rhs),
        Statement::Roots(roots) => roots.iter().any(writes),
    }
}
