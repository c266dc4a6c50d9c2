//! From tokens to the tree, by recursive descent: statements, flows and effects here, the rest in `parser/`. It knows no
//! entity: what needs the types to be told apart is left to them.

use super::{
    LARGEST,
    ast::*,
    error::{Code, Edit, Phase, ProgramError},
    lexer::tokens,
    span::Span,
    token::{Tok, Token},
};
use crate::execute::names::{self, SymbolKind};

mod faults;
mod predicate;
mod stage;
mod value;

type Fault = Box<ProgramError>;
type Parsed<T> = Result<T, Fault>;

/// Deepest nesting of values and predicates.
const DEEPEST: usize = 64;
/// Most results of one program: each is a table of the reply, and is stored.
const MOST_ROOTS: usize = 64;

/// The tree of a program, or the first error of its tokens, then of its tree.
pub fn parse(source: &str) -> Result<Program, Box<ProgramError>> {
    if source.len() > LARGEST {
        let message = format!("the program is larger than {LARGEST} bytes");
        let span = Span::new(0, 0);
        return Err(ProgramError::new(Phase::Tokens, Code::Syntax, span, message, "run it in parts"));
    }
    let tokens = tokens(source)?;
    Parser { source, tokens, at: 0, in_effect: false, depth: 0 }.program()
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    at: usize,
    /// Whether `_` means something here.
    in_effect: bool,
    depth: usize,
}

impl Parser<'_> {
    fn tok(&self) -> &Tok {
        &self.tokens[self.at].tok
    }

    fn span(&self) -> Span {
        self.tokens[self.at].span
    }

    /// The token after this one.
    fn next(&self) -> &Tok {
        self.ahead(1)
    }

    fn ahead(&self, by: usize) -> &Tok {
        &self.tokens[(self.at + by).min(self.tokens.len() - 1)].tok
    }

    /// The span of the token before this one.
    fn last(&self) -> Span {
        self.at.checked_sub(1).map_or(Span::default(), |at| self.tokens[at].span)
    }

    /// Goes on to the next token; the end stays.
    fn bump(&mut self) -> Span {
        let span = self.span();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        span
    }

    fn is(&self, punct: &str) -> bool {
        matches!(self.tok(), Tok::Punct(have) if *have == punct)
    }

    fn next_is(&self, punct: &str) -> bool {
        matches!(self.next(), Tok::Punct(have) if *have == punct)
    }

    fn take(&mut self, punct: &str) -> Option<Span> {
        self.is(punct).then(|| self.bump())
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.tok(), Tok::Name(have) if have == word)
    }

    fn take_word(&mut self, word: &str) -> Option<Span> {
        self.is_word(word).then(|| self.bump())
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEEPEST {
            let message = format!("brackets are nested deeper than {DEEPEST}");
            return Err(self.fault(Code::Syntax, self.span(), message, "bind the inner parts first"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// A name that is no opaque symbol.
    fn name(&mut self, wanted: &str) -> Parsed<Name> {
        let Tok::Name(text) = self.tok() else { return Err(self.expected(wanted)) };
        let text = text.clone();
        if names::symbol_kind(&text) == Some(SymbolKind::Opaque) {
            return Err(self.opaque(&text));
        }
        Ok(Name { text, span: self.bump() })
    }

    fn program(mut self) -> Parsed<Program> {
        let mut statements = Vec::new();
        while *self.tok() != Tok::End {
            let statement = self.statement()?;
            match self.tok() {
                Tok::Sep => drop(self.bump()),
                Tok::End => {}
                _ => return Err(self.left_over(&statement)),
            }
            statements.push(statement);
        }
        self.roots_are_last(&statements)?;
        Ok(Program { statements })
    }

    fn statement(&mut self) -> Parsed<Statement> {
        if let Tok::Name(text) = self.tok() {
            let text = text.clone();
            if self.next_is("=") {
                return self.binding(text);
            }
            if text == "return" {
                return Err(self.no_return());
            }
            if matches!(text.as_str(), "let" | "const" | "var") && matches!(self.ahead(2), Tok::Punct("=")) {
                return Err(self.declared(&text));
            }
        }
        let mut roots = vec![self.rhs()?];
        while self.take(",").is_some() {
            if roots.len() == MOST_ROOTS {
                let message = format!("a program returns at most {MOST_ROOTS} results");
                return Err(self.fault(Code::Syntax, self.span(), message, "run it in parts"));
            }
            roots.push(self.rhs()?);
        }
        if self.is("=") {
            return Err(self.bad_left_side(&roots));
        }
        match roots.iter().find(|root| root.effect.is_none() && root.flow.steps.is_empty()) {
            Some(Rhs { flow: Flow { head: Head::Text(text), .. }, .. }) => Err(self.literal_root(text.span)),
            _ => Ok(Statement::Roots(roots)),
        }
    }

    fn binding(&mut self, text: String) -> Parsed<Statement> {
        let span = self.span();
        if names::is_symbol(&text) || names::is_word(&text) {
            return Err(self.bad_label(&text, span));
        }
        let label = Name { text, span: self.bump() };
        self.bump();
        let rhs = self.rhs()?;
        if self.is(",") {
            let hint = "one statement a line; the roots come last, separated by commas";
            return Err(self.fault(Code::Flattened, self.span(), "a binding has one value", hint));
        }
        Ok(Statement::Bind { label, rhs: Box::new(rhs) })
    }

    fn rhs(&mut self) -> Parsed<Rhs> {
        let start = self.span();
        if self.is("=>") {
            let hint = "rows => _.method(…): the rows come first";
            return Err(self.fault(Code::EachSource, start, "`=>` has no rows before it", hint));
        }
        let flow = self.flow()?;
        let effect = match self.take("=>") {
            Some(_) => Some(self.effect()?),
            None => None,
        };
        Ok(Rhs { flow, effect, span: start.to(self.last()) })
    }

    fn flow(&mut self) -> Parsed<Flow> {
        let start = self.span();
        let head = self.head()?;
        let mut steps = Vec::new();
        loop {
            let from = self.span();
            let kind = if self.is(".") {
                self.dotted()?
            } else if self.take("|").is_some() {
                StepKind::Stage(self.stage()?)
            } else if self.is("[") {
                StepKind::Columns(self.columns()?)
            } else {
                break;
            };
            steps.push(Step { kind, span: from.to(self.last()) });
        }
        Ok(Flow { head, steps, span: start.to(self.last()) })
    }

    fn head(&mut self) -> Parsed<Head> {
        match self.tok() {
            Tok::Str(_) | Tok::Heredoc { .. } => Ok(Head::Text(self.text()?)),
            Tok::Name(name) if name == "_" => Err(self.cursor_outside()),
            Tok::Name(name) if matches!(name.as_str(), "true" | "false" | "null") => {
                Err(self.literal_root(self.span()))
            }
            Tok::Name(_) => self.named().map(Head::Named),
            Tok::Num(_) | Tok::Punct("{" | "[") => Err(self.literal_root(self.span())),
            _ => Err(self.expected("an entity or a binding")),
        }
    }

    /// An entity or a binding, with what stands in parentheses after it.
    fn named(&mut self) -> Parsed<Named> {
        let first = self.name("an entity or a binding")?;
        let start = first.span;
        let (api, name) = match self.take("::") {
            Some(_) => (Some(first), self.name("an entity of that catalog")?),
            None => (None, first),
        };
        if self.is("{") {
            return Err(self.brace_filter(name.span));
        }
        let args = if self.is("(") { Some(self.args()?) } else { None };
        Ok(Named { api, name, args, span: start.to(self.last()) })
    }

    /// `.relation` or `.method(…)`.
    fn dotted(&mut self) -> Parsed<StepKind> {
        let dot = self.bump();
        let name = self.name("a relation or a method")?;
        if names::is_stage(&name.text) {
            return Err(self.dot_stage(dot, &name));
        }
        if self.is("{") {
            return Err(self.brace_filter(name.span));
        }
        match self.is("(") {
            true => Ok(StepKind::Call { args: self.args()?, name }),
            false => Ok(StepKind::Hop(name)),
        }
    }

    /// What stands in parentheses: values, with names or without.
    fn args(&mut self) -> Parsed<Args> {
        let open = self.bump();
        let mut items = Vec::new();
        while !self.is(")") {
            items.push(self.arg(open)?);
            if self.take(",").is_none() && !self.is(")") {
                return Err(self.unclosed(open, "`,` or `)`"));
            }
        }
        Ok(Args { items, span: open.to(self.bump()) })
    }

    fn arg(&mut self, open: Span) -> Parsed<Arg> {
        let start = self.span();
        let mut name = None;
        if let Tok::Name(text) = self.tok() {
            let text = text.clone();
            match self.next() {
                Tok::Punct("=") => {
                    name = Some(self.name("an argument")?);
                    self.bump();
                }
                Tok::Punct(":") => {
                    let colon = self.tokens[self.at + 1].span;
                    let hint = format!("write {text} = …");
                    let fault = self.fault(Code::Syntax, colon, "an argument is given with `=`", hint);
                    return Err(fault.edit(Edit::replace(colon, " =")));
                }
                Tok::Punct("<" | "<=" | ">" | ">=" | "~" | "!=") => return Err(self.predicate_as_key(open)),
                _ => {}
            }
        }
        let value = self.value()?;
        Ok(Arg { name, value, span: start.to(self.last()) })
    }

    fn columns(&mut self) -> Parsed<Vec<Column>> {
        let open = self.bump();
        if self.is("]") {
            let span = open.to(self.span());
            let hint = "name the columns, [name, id], or leave the brackets out";
            let fault = self.fault(Code::EmptyProjection, span, "the brackets name no column", hint);
            return Err(fault.edit(Edit::delete(span)));
        }
        let mut columns = Vec::new();
        loop {
            if let Tok::Str(text) = self.tok() {
                let fault = self.expected("a column, without quotes");
                let edit = Edit::replace(self.span(), text.clone());
                return Err(if names::is_name(text) { fault.edit(edit) } else { fault });
            }
            let path = self.path("a column")?;
            let label = match self.take_word("as") {
                Some(_) => Some(self.name("the column's new name")?),
                None => None,
            };
            columns.push(Column { path, label });
            if self.take("]").is_some() {
                return Ok(columns);
            }
            if self.take(",").is_none() {
                return Err(self.unclosed(open, "`,` or `]`"));
            }
            if self.take("]").is_some() {
                return Ok(columns);
            }
        }
    }

    fn path(&mut self, wanted: &str) -> Parsed<Path> {
        let mut parts = vec![self.name(wanted)?];
        while self.take(".").is_some() {
            parts.push(self.name("a field")?);
        }
        let span = parts[0].span.to(self.last());
        Ok(Path { parts, span })
    }

    fn effect(&mut self) -> Parsed<Effect> {
        let start = self.span();
        let was = std::mem::replace(&mut self.in_effect, true);
        let effect = self.effect_itself(start);
        self.in_effect = was;
        effect
    }

    fn effect_itself(&mut self, start: Span) -> Parsed<Effect> {
        let target = match self.tok() {
            Tok::Name(name) if name == "_" => {
                self.bump();
                Target::Cursor
            }
            Tok::Name(_) => Target::Named(self.named()?),
            _ => return Err(self.each_effect(start)),
        };
        if self.take(".").is_none() {
            return Err(self.each_effect(start.to(self.last())));
        }
        let name = self.name("a method")?;
        let args = if self.is("(") { Some(self.args()?) } else { None };
        let span = start.to(self.last());
        if matches!(self.tok(), Tok::Punct("." | "|" | "[" | "=>")) {
            return Err(self.after_effect());
        }
        Ok(Effect { target, name, args, span })
    }
}
