//! The program language: from text to tokens, to a tree, to a typed program, or to one error with its place, a hint and,
//! where it can be derived, the corrected program. Knows the entities and symbols of a session, and nothing of how a
//! program is carried out.

use super::symbols::Scope;

mod ast;
mod check;
mod error;
mod fix;
mod lexer;
mod parser;
mod printer;
mod span;
mod token;
pub mod typed;

pub use ast::*;
pub(super) use check::{is_uuid, query};
pub use error::{Code, Phase, ProgramError};
pub use parser::parse;
pub use printer::print;
pub use span::{Place, Span, place};

/// Largest program, in bytes.
pub const LARGEST: usize = 64 << 10;

/// The typed program, or its first error by phase, then by place.
pub fn check(source: &str, scope: &Scope) -> Result<typed::Typed, Box<ProgramError>> {
    once(source, scope).map_err(|error| fix::correct(source, error, |text| once(text, scope).map(drop)))
}

fn once(source: &str, scope: &Scope) -> Result<typed::Typed, Box<ProgramError>> {
    check::check(&parse(source)?, source, scope)
}

#[cfg(test)]
mod tests;
