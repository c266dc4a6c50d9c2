//! From text to tokens. Newlines that end no statement are gone afterwards: those in brackets, and those before `|`, `.` and
//! `=>`. Stops at the first thing that is no token.

use serde_json::Number;

use super::{
    error::{Code, Edit, Phase, ProgramError},
    span::Span,
    token::{Tok, Token},
};

type Fault = Box<ProgramError>;

/// Longest first, so that `=>` is not `=` and `>`.
const PUNCTS: [&str; 22] = [
    "::", "=>", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}", ",", ".", "|", ":", "=", "<", ">", "~", "&",
    "*", "!",
];

/// The tokens of a program, the last of which is `End`.
pub(super) fn tokens(source: &str) -> Result<Vec<Token>, Fault> {
    let mut lexer = Lexer { source, at: 0, depth: 0, tokens: Vec::new() };
    while lexer.step()? {}
    let end = source.len();
    lexer.tokens.push(Token { tok: Tok::End, span: Span::new(end, end) });
    Ok(join_lines(lexer.tokens, source))
}

/// Takes out separators that end nothing: at the start, after another, and newlines before what goes on with a statement.
fn join_lines(tokens: Vec<Token>, source: &str) -> Vec<Token> {
    let mut kept: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let goes_on = matches!(token.tok, Tok::Punct("|" | "." | "=>"));
        if let Some(last) = kept.last()
            && last.tok == Tok::Sep
            && ((goes_on && last.span.text(source) == "\n") || token.tok == Tok::End)
        {
            kept.pop();
        }
        let ends_nothing = kept.last().is_none_or(|last| last.tok == Tok::Sep);
        if token.tok == Tok::Sep && ends_nothing {
            // `;` before a newline ends the statement whatever the next line begins with.
            continue;
        }
        kept.push(token);
    }
    kept
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    /// Brackets that are open.
    depth: usize,
    tokens: Vec<Token>,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn push(&mut self, tok: Tok, length: usize) {
        self.tokens.push(Token { tok, span: Span::new(self.at, self.at + length) });
        self.at += length;
    }

    fn fault(&self, code: Code, length: usize, message: impl Into<String>, hint: impl Into<String>) -> Fault {
        ProgramError::new(Phase::Tokens, code, Span::new(self.at, self.at + length), message, hint)
    }

    /// Reads one token or what stands between tokens; `false` at the end.
    fn step(&mut self) -> Result<bool, Fault> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(false) };
        match first {
            ' ' | '\t' | '\r' => self.at += 1,
            '\n' if self.depth > 0 => self.at += 1,
            '\n' | ';' => self.push(Tok::Sep, 1),
            '#' => self.at += rest.find('\n').unwrap_or(rest.len()),
            '"' => self.string()?,
            _ if first.is_ascii_alphabetic() || first == '_' => self.name()?,
            _ if first.is_ascii_digit() => self.number()?,
            '-' if rest[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number()?,
            '<' if rest.starts_with("<<") => self.heredoc()?,
            '$' | '\u{2026}' => return Err(self.placeholder(first.len_utf8())),
            '.' if rest.starts_with("...") => return Err(self.placeholder(3)),
            '=' if rest.starts_with("==") => {
                let length = if rest.starts_with("===") { 3 } else { 2 };
                let fault = self.fault(Code::DoubleEquals, length, "`==` is no operator", "write one `=`");
                let span = fault.span;
                return Err(fault.edit(Edit::replace(span, "=")));
            }
            '\\' => return Err(self.backslash()),
            '\'' | '`' | '\u{2018}' | '\u{2019}' | '\u{201c}' | '\u{201d}' => {
                return Err(self.foreign_quote(first));
            }
            _ => match PUNCTS.into_iter().find(|punct| rest.starts_with(punct)) {
                Some(punct) => {
                    match punct {
                        "(" | "[" | "{" => self.depth += 1,
                        ")" | "]" | "}" => self.depth = self.depth.saturating_sub(1),
                        _ => {}
                    }
                    self.push(Tok::Punct(punct), punct.len());
                }
                None => return Err(self.bad_char(first)),
            },
        }
        Ok(true)
    }

    fn name(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // The id of a catalog may have hyphens, and stands before `::` alone.
        let long = rest.find(|c: char| !plain(c) && c != '-').unwrap_or(rest.len());
        let length = match rest[long..].starts_with("::") {
            true => long,
            false => rest.find(|c: char| !plain(c)).unwrap_or(rest.len()),
        };
        // There is no arithmetic, so `generation-i` can only be meant as a text.
        if length < long && rest[length + 1..].starts_with(|c: char| c.is_ascii_alphanumeric()) {
            let begins = self.depth == 0 && self.tokens.last().is_none_or(|last| last.tok == Tok::Sep);
            let after = rest[long..].trim_start_matches(' ');
            if begins && after.starts_with('=') && !after.starts_with("==") {
                let hint = format!("write {}", rest[..long].replace('-', "_"));
                return Err(self.fault(Code::BadLabel, long, "a label is one plain name", hint));
            }
            return Err(self.bare_word(&rest[..long], "a bare word, which is never a value"));
        }
        self.push(Tok::Name(rest[..length].to_owned()), length);
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        let bytes = rest.as_bytes();
        let digits =
            |from: usize| from + bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut end = digits(usize::from(bytes[0] == b'-'));
        if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
                end = digits(end + 1 + sign);
            }
        }
        let word = match rest[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || "_-:".contains(c)) {
            // `30d`, `2026-11-30`, `12:30`.
            true => rest[end..].find(|c: char| !c.is_ascii_alphanumeric() && !"_-:.+".contains(c)),
            false => Some(0),
        };
        let word = word.unwrap_or(rest.len() - end);
        match number(&rest[..end]) {
            Some(number) if word == 0 => {
                self.push(Tok::Num(number), end);
                Ok(())
            }
            _ => Err(self.bare_word(&rest[..end + word], "no number")),
        }
    }

    fn bare_word(&self, text: &str, what: &str) -> Fault {
        let hint = format!("text stands in quotes: \"{text}\"");
        let fault = self.fault(Code::BareWord, text.len(), format!("{text} is {what}"), hint);
        let span = fault.span;
        fault.edit(Edit::replace(span, format!("\"{text}\"")))
    }

    fn string(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        let mut escaped = false;
        for (index, c) in rest.char_indices().skip(1) {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    let text = &rest[..=index];
                    return match serde_json::from_str(text) {
                        Ok(value) => {
                            self.push(Tok::Str(value), text.len());
                            Ok(())
                        }
                        Err(_) => {
                            let message = "it is no JSON string: an escape in it is none of JSON's";
                            let fault =
                                self.fault(Code::BadString, text.len(), message, "write a backslash as \\\\");
                            let span = fault.span;
                            Err(fault.edit(Edit::replace(span, escape_backslashes(text))))
                        }
                    };
                }
                _ => {}
            }
        }
        let length = rest.find('\n').unwrap_or(rest.len());
        let hint = "close it with \"; text of several lines stands in a heredoc, <<TAG";
        Err(self.fault(Code::BadString, length.max(1), "the string is not closed on its line", hint))
    }

    fn heredoc(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        let line = rest.find('\n').unwrap_or(rest.len());
        let opening = &rest[2..line];
        let tag_length =
            opening.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(opening.len());
        let (tag, after) = opening.split_at(tag_length);
        if opening[tag_length..].starts_with("\\n") {
            self.at += 2 + tag_length;
            return Err(self.backslash());
        }
        if tag.is_empty() || !after.trim().is_empty() || line == rest.len() {
            return Err(self.bad_opening(opening, line));
        }
        let body = line + 1;
        let mut start = body;
        while start <= rest.len() {
            let end = rest[start..].find('\n').map_or(rest.len(), |length| start + length);
            if closes(&rest[start..end], tag) {
                let text = rest[body..start.max(body + 1) - 1].trim_end_matches('\r');
                let text = if start == body { "" } else { text };
                let tok = Tok::Heredoc { tag: tag.to_owned(), text: text.to_owned() };
                self.push(tok, start + tag.len());
                return Ok(());
            }
            start = end + 1;
        }
        Err(self.unclosed(tag, line, body))
    }

    fn bad_opening(&self, opening: &str, line: usize) -> Fault {
        let message = "<< is followed by a TAG (letters, digits, _) and the end of the line";
        let hint = "write <<TAG, the text on the next lines, then TAG alone on a line";
        let fault = self.fault(Code::HeredocOpen, line.max(2), message, hint);
        let word = opening.trim_start_matches(['-', '~', ' ', '"', '\'']);
        let tag: String = word.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let rest = word[tag.len()..].trim_start_matches(['"', '\'']).trim();
        match (tag.is_empty(), rest.is_empty()) {
            (false, true) if line < self.rest().len() => {
                let span = fault.span;
                fault.edit(Edit::replace(span, format!("<<{tag}")))
            }
            _ => fault,
        }
    }

    fn unclosed(&self, tag: &str, line: usize, body: usize) -> Fault {
        let message = format!("no line closes the heredoc {tag}");
        let hint = format!("close it with a line that holds only {tag}, from its first column");
        let fault = self.fault(Code::HeredocUnclosed, line, message, hint);
        // The closing line may be there, indented.
        let mut start = self.at + body;
        for text in self.source[start..].split_inclusive('\n') {
            let indent = text.len() - text.trim_start().len();
            if indent > 0 && closes(text.trim(), tag) {
                return fault.edit(Edit::delete(Span::new(start, start + indent)));
            }
            start += text.len();
        }
        let newline = if self.source.ends_with('\n') { "" } else { "\n" };
        fault.edit(Edit::insert(self.source.len(), format!("{newline}{tag}\n")))
    }

    fn placeholder(&self, length: usize) -> Fault {
        let rest = &self.rest()[length..];
        let word =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && !"_{}".contains(c)).unwrap_or(rest.len());
        let found = &self.rest()[..length + word];
        let message = format!("{found} is a placeholder, not a value");
        self.fault(Code::Placeholder, found.len(), message, "replace it with the value itself")
    }

    /// A backslash outside a string: the program came with its escapes.
    fn backslash(&self) -> Fault {
        let rest = self.rest();
        let next = rest[1..].chars().next();
        let span = Span::new(self.at, self.at + 1 + next.map_or(0, char::len_utf8));
        match next {
            Some('n' | 'r' | 't') => {
                let message = "a backslash and a letter stand where a line should end";
                let hint = "send real newlines: one statement a line";
                let mut fault = ProgramError::new(Phase::Tokens, Code::NewlineEscaped, span, message, hint);
                for edit in unescape(self.source, self.at) {
                    fault = fault.edit(edit);
                }
                fault
            }
            Some('"') => {
                let hint = "write the quotes without backslashes: the program is not JSON in JSON";
                let message = "a backslash stands before a quote";
                let mut fault = ProgramError::new(Phase::Tokens, Code::BadString, span, message, hint);
                for (index, _) in self.source.match_indices("\\\"") {
                    fault = fault.edit(Edit::delete(Span::new(index, index + 1)));
                }
                fault
            }
            _ => self.bad_char('\\'),
        }
    }

    fn foreign_quote(&self, first: char) -> Fault {
        let rest = self.rest();
        let inside = &rest[first.len_utf8()..];
        let close: &[char] = match first {
            '\u{201c}' | '\u{201d}' => &['\u{201d}', '\u{201c}', '"'],
            '\u{2018}' | '\u{2019}' => &['\u{2019}', '\u{2018}', '\''],
            '`' => &['`'],
            _ => &['\''],
        };
        let line = &inside[..inside.find('\n').unwrap_or(inside.len())];
        let message = format!("{first} begins no string");
        match line.find(close) {
            Some(end) => {
                let text = serde_json::Value::from(&line[..end]).to_string();
                let length = end + line[end..].chars().next().map_or(1, char::len_utf8) + first.len_utf8();
                let hint = format!("strings stand in double quotes: {text}");
                let fault = self.fault(Code::BadString, length, message, hint);
                let span = fault.span;
                fault.edit(Edit::replace(span, text))
            }
            None => self.fault(
                Code::BadString,
                first.len_utf8(),
                message,
                "strings stand in double quotes, \"…\"",
            ),
        }
    }

    fn bad_char(&self, c: char) -> Fault {
        let hint = match c {
            '/' | '-' if self.rest()[1..].starts_with(c) => "a comment begins with #",
            '+' | '-' | '/' | '%' | '^' => "there is no arithmetic; compute with aggregate, or after the run",
            '?' => "replace it with the value itself",
            '@' => "names are letters, digits and _",
            _ if c.is_whitespace() => "write a plain space",
            _ if c.is_alphabetic() => "names are letters, digits and _; other text stands in double quotes",
            _ => "it means nothing here; text stands in double quotes",
        };
        let fault =
            self.fault(Code::BadChar, c.len_utf8(), format!("{c:?} is no part of the language"), hint);
        let span = fault.span;
        if c.is_whitespace() { fault.edit(Edit::replace(span, " ")) } else { fault }
    }
}

/// A JSON number, a fraction to the nearest that there is: what is printed of it is read as the same.
fn number(text: &str) -> Option<Number> {
    let digits = text.trim_start_matches('-');
    if digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit() {
        return None;
    }
    let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
    whole.ok().or_else(|| text.parse().ok().and_then(Number::from_f64))
}

/// Whether a line closes the heredoc: only its tag, or its tag and then what goes on after it.
fn closes(line: &str, tag: &str) -> bool {
    line.strip_prefix(tag).is_some_and(|after| {
        let after = after.trim();
        after.is_empty() || after.starts_with([')', ']', '}', ',', '|', '['])
    })
}

/// The edits that make line ends of escapes outside of strings.
fn unescape(source: &str, from: usize) -> Vec<Edit> {
    let mut edits = Vec::new();
    let (mut quoted, mut at) = (false, from);
    while let Some(c) = source[at..].chars().next() {
        let next = source[at + c.len_utf8()..].chars().next();
        let mut length = c.len_utf8();
        match (c, next) {
            ('"', _) => quoted = !quoted,
            ('\\', Some(next)) => {
                length += next.len_utf8();
                let becomes = match next {
                    'n' => "\n",
                    'r' => "",
                    _ => " ",
                };
                if !quoted && matches!(next, 'n' | 'r' | 't') {
                    edits.push(Edit::replace(Span::new(at, at + length), becomes));
                }
            }
            _ => {}
        }
        at += length;
    }
    edits
}

/// A string with each backslash that begins no escape of JSON doubled.
fn escape_backslashes(text: &str) -> String {
    let mut fixed = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        fixed.push(c);
        if c != '\\' {
            continue;
        }
        match chars.peek() {
            Some('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => fixed.extend(chars.next()),
            _ => fixed.push('\\'),
        }
    }
    fixed
}
