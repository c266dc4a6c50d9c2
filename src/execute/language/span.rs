//! Places in a program.

/// Bytes `start..end` of the program, on character boundaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// From the start of this to the end of that.
    pub fn to(self, that: Span) -> Self {
        Self { start: self.start, end: that.end.max(self.start) }
    }

    /// The place just behind it.
    pub fn after(self) -> Self {
        Self { start: self.end, end: self.end }
    }

    pub fn text(self, source: &str) -> &str {
        source.get(self.start..self.end).unwrap_or_default()
    }
}

/// A line and a column as people count them: from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub col: usize,
}

/// Where a span begins.
pub fn place(source: &str, span: Span) -> Place {
    let before = source.get(..span.start).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let col = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Place { line, col }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_characters() {
        assert_eq!(place("a\n\u{e9}b", Span::new(4, 5)), Place { line: 2, col: 2 });
        assert_eq!(place("", Span::new(0, 0)), Place { line: 1, col: 1 });
    }
}
