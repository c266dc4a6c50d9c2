//! Names that programs may write, and the words that mean something by themselves.

pub use crate::config::{did_you_mean, nearest};

/// What stands after `|`.
pub const STAGES: [&str; 10] = [
    "filter",
    "search",
    "sort",
    "limit",
    "page_size",
    "distinct",
    "singleton",
    "group_by",
    "aggregate",
    "render",
];

/// Words of predicates, values and orders.
const WORDS: [&str; 13] =
    ["and", "or", "not", "in", "is", "null", "true", "false", "as", "asc", "desc", "return", "_"];

pub fn is_stage(name: &str) -> bool {
    STAGES.contains(&name)
}

pub fn is_word(name: &str) -> bool {
    WORDS.contains(&name)
}

/// At most 64 of letters, digits and `_`, no digit first.
pub fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The kinds of symbols that sessions number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SymbolKind {
    /// `e1`: an entity.
    Entity,
    /// `r1`: a relation.
    Relation,
    /// `m1`: a method.
    Method,
    /// `p1`: what older programs had for fields; never taught, always refused.
    Opaque,
}

/// The kind of symbol that a name has the form of.
pub fn symbol_kind(name: &str) -> Option<SymbolKind> {
    let (letter, digits) = (name.chars().next()?, name.get(1..)?);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    match letter {
        'e' => Some(SymbolKind::Entity),
        'r' => Some(SymbolKind::Relation),
        'm' => Some(SymbolKind::Method),
        'p' => Some(SymbolKind::Opaque),
        _ => None,
    }
}

pub fn is_symbol(name: &str) -> bool {
    symbol_kind(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_one_letter_and_a_number() {
        assert_eq!(symbol_kind("e12"), Some(SymbolKind::Entity));
        assert_eq!(symbol_kind("p1"), Some(SymbolKind::Opaque));
        for name in ["e", "ex1", "x1", "e1a", "", "é1"] {
            assert_eq!(symbol_kind(name), None, "{name}");
        }
    }
}
