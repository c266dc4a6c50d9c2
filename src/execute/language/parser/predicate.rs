//! Predicates: what stands in `filter(…)`. `not` binds closest, then `and`, then `or`.

use super::*;
use crate::execute::catalog::Op;

/// The words that other languages have for what stands here.
const COMPARISONS: [(&str, &str); 8] = [
    ("like", "~"),
    ("ilike", "~"),
    ("contains", "~"),
    ("matches", "~"),
    ("eq", "="),
    ("ne", "!="),
    ("equals", "="),
    ("includes", "~"),
];

impl Parser<'_> {
    pub(super) fn predicate(&mut self) -> Parsed<Predicate> {
        self.deeper(|it| {
            let mut any = vec![it.and()?];
            while it.take_word("or").is_some() {
                any.push(it.and()?);
            }
            Ok(if any.len() == 1 { any.remove(0) } else { Predicate::Or(any) })
        })
    }

    fn and(&mut self) -> Parsed<Predicate> {
        let mut all = vec![self.not()?];
        while self.take_word("and").is_some() {
            all.push(self.not()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Predicate::And(all) })
    }

    fn not(&mut self) -> Parsed<Predicate> {
        if self.is_word("not") && !self.next_is("=") {
            self.bump();
            return self.deeper(Self::not_inside).map(|inside| Predicate::Not(Box::new(inside)));
        }
        self.not_inside()
    }

    fn not_inside(&mut self) -> Parsed<Predicate> {
        let Some(open) = self.take("(") else { return self.comparison() };
        let inside = self.predicate()?;
        match self.take(")") {
            Some(_) => Ok(inside),
            None if matches!(self.tok(), Tok::End) => Err(self.unclosed(open, "`)`")),
            None => Err(self.after_predicate()),
        }
    }

    fn comparison(&mut self) -> Parsed<Predicate> {
        match self.tok() {
            Tok::Name(name) if name == "_" => return Err(self.cursor_outside()),
            Tok::Name(word) if matches!(word.as_str(), "and" | "or" | "true" | "false" | "null") => {
                return Err(self.no_predicate(self.span(), "a comparison begins with a field"));
            }
            Tok::Name(_) => {}
            Tok::Punct("!") => {
                let span = self.span();
                let fault = self.no_predicate(span, "`!` is written not");
                return Err(fault.edit(Edit::replace(span, "not ")));
            }
            Tok::End => return Err(self.expected("a comparison")),
            _ => return Err(self.no_predicate(self.span(), "a comparison begins with a field")),
        }
        let path = self.path("a field")?;
        let start = self.span();
        if self.take_word("is").is_some() {
            let negated = self.take_word("not").is_some();
            return match self.take_word("null") {
                Some(_) => Ok(Predicate::Null { path, negated }),
                None => Err(self.no_predicate(start, "`is` is followed by null or not null")),
            };
        }
        let op = match self.tok() {
            Tok::Punct("=") => Op::Eq,
            Tok::Punct("!=") => Op::Ne,
            Tok::Punct("<") => Op::Lt,
            Tok::Punct("<=") => Op::Le,
            Tok::Punct(">") => Op::Gt,
            Tok::Punct(">=") => Op::Ge,
            Tok::Punct("~") => Op::Has,
            Tok::Name(word) if word == "in" => Op::In,
            _ => return Err(self.no_operator(&path)),
        };
        self.bump();
        // `<>`, `=~`, `!~`: operators of other languages.
        if let Tok::Punct(second @ ("=" | "<" | ">" | "~")) = *self.tok()
            && !matches!(self.ahead(2), Tok::Punct(">"))
        {
            let span = start.to(self.span());
            let becomes = match (op, second) {
                (Op::Lt, ">") => "!=",
                (Op::Eq, "~") => "~",
                (Op::Eq, ">") => ">=",
                (Op::Eq, "<") => "<=",
                _ => return Err(self.no_predicate(span, "there are =, !=, <, <=, >, >=, ~, in and is null")),
            };
            let fault = self.no_predicate(span, &format!("write {becomes}"));
            return Err(fault.edit(Edit::replace(span, becomes)));
        }
        let value = self.value()?;
        Ok(Predicate::Compare { path, op: Compare { op, span: start }, value })
    }

    /// A field, and then nothing that compares it.
    fn no_operator(&mut self, path: &Path) -> Fault {
        let (text, span) = (path.text(), self.span());
        match self.tok() {
            Tok::Punct(":") => {
                let fault = self.no_predicate(span, &format!("write {text} = …"));
                fault.edit(Edit::replace(span, " ="))
            }
            Tok::Name(word) if word == "not" && matches!(self.next(), Tok::Name(word) if word == "in") => {
                let fault = self.no_predicate(span, &format!("write not ({text} in […])"));
                let end = self.closing_bracket();
                match end {
                    Some(end) => fault
                        .edit(Edit::insert(path.span.start, "not ("))
                        .edit(Edit::delete(Span::new(path.span.end, span.end)))
                        .edit(Edit::insert(end, ")")),
                    None => fault,
                }
            }
            Tok::Name(word) => {
                match COMPARISONS.iter().find(|(theirs, _)| word.eq_ignore_ascii_case(theirs)) {
                    Some((_, ours)) => self
                        .no_predicate(span, &format!("write {text} {ours} …"))
                        .edit(Edit::replace(span, *ours)),
                    None => self.no_predicate(span, &format!("compare the field: {text} = …")),
                }
            }
            Tok::Punct("(") => self.no_predicate(
                path.span,
                "there are no functions here: field, operator, value, as in name ~ \"ice\"",
            ),
            _ => self.no_predicate(path.span, &format!("compare the field with a value: {text} = …")),
        }
    }

    /// The end of the bracket that opens at the second token from here.
    fn closing_bracket(&self) -> Option<usize> {
        let mut depth = 0usize;
        for token in self.tokens.get(self.at + 2..)? {
            match token.tok {
                Tok::Punct("[") => depth += 1,
                Tok::Punct("]") if depth == 1 => return Some(token.span.end),
                Tok::Punct("]") => depth = depth.checked_sub(1)?,
                _ if depth == 0 => return None,
                _ => {}
            }
        }
        None
    }

    /// Something after a whole predicate that goes on with none.
    pub(super) fn after_predicate(&mut self) -> Fault {
        let span = self.span();
        let (length, becomes) = match (self.tok(), self.next()) {
            (Tok::Punct("&"), Tok::Punct("&")) => (2, "and"),
            (Tok::Punct("|"), Tok::Punct("|")) => (2, "or"),
            (Tok::Punct("&"), _) => (1, "and"),
            (Tok::Punct("|"), _) => (1, "or"),
            (Tok::Name(word), _) if word.eq_ignore_ascii_case("and") => (word.len(), "and"),
            (Tok::Name(word), _) if word.eq_ignore_ascii_case("or") => (word.len(), "or"),
            (Tok::Name(_), _) => {
                let fault = self.no_predicate(span, "separate comparisons with a comma (and), or with or");
                return fault.edit(Edit::insert(self.last().end, ","));
            }
            (Tok::End, _) => return self.expected("`)`"),
            _ => return self.no_predicate(span, "separate comparisons with a comma (and), or with or"),
        };
        let span = Span::new(span.start, span.start + length);
        self.no_predicate(span, &format!("write {becomes}")).edit(Edit::replace(span, becomes))
    }
}
