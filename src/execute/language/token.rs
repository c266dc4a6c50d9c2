//! The tokens of a program.

use super::span::Span;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tok {
    /// A name, a symbol or a word.
    Name(String),
    /// A JSON string, decoded.
    Str(String),
    Num(serde_json::Number),
    Heredoc {
        tag: String,
        text: String,
    },
    /// One of `( ) [ ] { } , . | : :: = => != ! < <= > >= ~ & *`.
    Punct(&'static str),
    /// A newline or `;` that ends a statement.
    Sep,
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub tok: Tok,
    pub span: Span,
}

impl Tok {
    /// As it is named in a message.
    pub(super) fn describe(&self) -> String {
        match self {
            Tok::Name(name) => name.clone(),
            Tok::Str(_) => "a string".to_owned(),
            Tok::Num(number) => number.to_string(),
            Tok::Heredoc { .. } => "a heredoc".to_owned(),
            Tok::Punct(text) => format!("`{text}`"),
            Tok::Sep => "the end of the line".to_owned(),
            Tok::End => "the end of the program".to_owned(),
        }
    }
}
