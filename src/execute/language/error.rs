//! What is wrong with a program: one code of the catalogue, the place, what to write instead.

use std::fmt::Write as _;

use super::span::{Place, Span, place};

macro_rules! codes {
    ($($variant:ident $text:literal,)*) => {
        /// The error catalogue. Each code's text is what programs see.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($variant,)* }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            pub fn text(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }
        }
    };
}

codes! {
    FieldsInParens "fields_in_parens",
    BindingCalled "binding_called",
    FieldNotRelation "field_not_relation",
    FilterNotRelation "filter_not_relation",
    OpaqueSymbol "opaque_symbol",
    DotStage "dot_stage",
    BraceFilter "brace_filter",
    BareWord "bare_word",
    BadString "bad_string",
    DoubleEquals "double_equals",
    Flattened "flattened",
    NewlineEscaped "newline_escaped",
    RootsNotLast "roots_not_last",
    NoRoots "no_roots",
    NoReturn "no_return",
    UnknownEntity "unknown_entity",
    UnknownSymbol "unknown_symbol",
    UnknownRelation "unknown_relation",
    UnknownMethod "unknown_method",
    UnknownField "unknown_field",
    UnknownArg "unknown_arg",
    UnknownStage "unknown_stage",
    AmbiguousEntity "ambiguous_entity",
    SymbolOwner "symbol_owner",
    RelationCalled "relation_called",
    RelationAsStage "relation_as_stage",
    RelationInPath "relation_in_path",
    MethodNeedsParens "method_needs_parens",
    KeyField "key_field",
    KeyMissing "key_missing",
    KeyArity "key_arity",
    EmptyKey "empty_key",
    MissingArg "missing_arg",
    PositionalArg "positional_arg",
    DupArg "dup_arg",
    ScopeMissing "scope_missing",
    WriteNeedsRow "write_needs_row",
    EachEffect "each_effect",
    EachSource "each_source",
    CursorOutside "cursor_outside",
    OneRow "one_row",
    NoIdentity "no_identity",
    ManyInValue "many_in_value",
    SearchPlace "search_place",
    NoSearch "no_search",
    SortComma "sort_comma",
    UnnamedAggregate "unnamed_aggregate",
    BadCount "bad_count",
    EmptyProjection "empty_projection",
    Predicate "predicate",
    BadLabel "bad_label",
    Rebind "rebind",
    HeredocOpen "heredoc_open",
    HeredocUnclosed "heredoc_unclosed",
    Placeholder "placeholder",
    LiteralRoot "literal_root",
    BadChar "bad_char",
    TypeMismatch "type_mismatch",
    Operator "operator",
    EnumValue "enum_value",
    Template "template",
    // What no rule above names: a bracket left open, a word where none can stand, a program that is too large.
    Syntax "syntax",
}

/// The steps of checking; the first error of the first step that has one is what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Tokens,
    Tree,
    Types,
    /// Whether what is asked can be asked of the source.
    Reach,
}

/// A change of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub span: Span,
    pub text: String,
}

impl Edit {
    pub fn replace(span: Span, text: impl Into<String>) -> Self {
        Self { span, text: text.into() }
    }

    pub fn insert(at: usize, text: impl Into<String>) -> Self {
        Self { span: Span::new(at, at), text: text.into() }
    }

    pub fn delete(span: Span) -> Self {
        Self { span, text: String::new() }
    }
}

/// Why a program is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}; {hint}", .code.text())]
pub struct ProgramError {
    pub code: Code,
    pub phase: Phase,
    pub span: Span,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: String,
    /// The corrected program; it is accepted as it stands.
    pub fix: Option<String>,
    /// What leads to the correction, for this error alone.
    pub(super) edits: Vec<Edit>,
}

impl ProgramError {
    pub(super) fn new(
        phase: Phase,
        code: Code,
        span: Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Box<Self> {
        let (message, hint) = (message.into(), hint.into());
        Box::new(Self { code, phase, span, message, hint, fix: None, edits: Vec::new() })
    }

    pub(super) fn edit(mut self: Box<Self>, edit: Edit) -> Box<Self> {
        self.edits.push(edit);
        self
    }

    pub fn place(&self, source: &str) -> Place {
        place(source, self.span)
    }

    /// For people: the code and the place, the line with what is meant underlined, the hint, the correction.
    pub fn render(&self, source: &str) -> String {
        let Place { line, col } = self.place(source);
        let written = source.split('\n').nth(line - 1).unwrap_or_default().trim_end_matches('\r');
        let shown = written.replace('\t', " ");
        let rest = shown.chars().count().saturating_sub(col - 1);
        let width = self.span.text(source).chars().take_while(|c| *c != '\n').count().clamp(1, rest.max(1));
        let margin = " ".repeat(line.to_string().len());
        let mut text = format!("error[{}] at {line}:{col}: {}\n", self.code.text(), self.message);
        let _ = writeln!(text, "{line} | {shown}");
        let _ = writeln!(text, "{margin} | {}{}", " ".repeat(col - 1), "^".repeat(width));
        let _ = writeln!(text, "{margin} = {}", self.hint);
        if let Some(fix) = &self.fix {
            let _ = writeln!(text, "{margin} = write:");
            for line in fix.lines() {
                let _ = writeln!(text, "{margin} |   {line}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_the_line_and_what_is_meant() {
        let mut error = ProgramError::new(
            Phase::Types,
            Code::BareWord,
            Span::new(12, 19),
            "pikachu is no value",
            "put it in quotes: \"pikachu\"",
        );
        error.fix = Some("x = 1\nType(\"pikachu\")".to_owned());
        insta::assert_snapshot!(error.render("x = 1\n\tType(pikachu)"), @r#"
        error[bare_word] at 2:7: pikachu is no value
        2 |  Type(pikachu)
          |       ^^^^^^^
          = put it in quotes: "pikachu"
          = write:
          |   x = 1
          |   Type("pikachu")
        "#);
    }

    #[test]
    fn a_place_at_the_end_is_shown_too() {
        let error =
            ProgramError::new(Phase::Tree, Code::NoRoots, Span::new(2, 2), "no roots", "end with roots");
        assert!(error.render("a\n").contains("2 | \n  | ^\n"));
    }
}
