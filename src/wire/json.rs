//! A strict JSON scanner (RFC 8259): checks a text once and tells where its members are. Builds nothing.

mod scan;

use super::Span;
use std::borrow::Cow;
use std::collections::HashSet;

/// What is wrong with a text, for the `-32700` and `-32600` answers. Offsets are bytes from the text's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("not JSON at byte {0}")]
    Syntax(usize),
    #[error("not UTF-8 at byte {0}")]
    Utf8(usize),
    #[error("nested deeper than {0} levels")]
    Depth(u16),
    #[error("a key is given twice at byte {0}")]
    Duplicate(usize),
    #[error("not an object at byte {0}")]
    NotObject(usize),
}

/// Where a scan stopped, and so that it failed. In one word, for most of what a scan does is to pass on where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stop(pub(super) usize);

pub(super) type Scanned = Result<usize, Stop>;

impl Stop {
    /// Of what is nested too deep it counts that alone, and no text ends there.
    pub(super) const DEEP: Stop = Stop(usize::MAX);

    /// What it means of a text that may be nested `depth` levels.
    pub(super) fn error(self, depth: u16) -> JsonError {
        match self {
            Stop::DEEP => JsonError::Depth(depth),
            Stop(at) => JsonError::Syntax(at),
        }
    }
}

/// Checks that `text` is exactly one JSON value in UTF-8, no deeper than `depth`; gives the value's span.
pub fn check(text: &[u8], depth: u16) -> Result<Span, JsonError> {
    whole(text, depth, |start| value(text, start, depth))
}

/// As [`check`], of the text whose one value `scan` gives the end of.
pub(super) fn whole(text: &[u8], depth: u16, scan: impl FnOnce(usize) -> Scanned) -> Result<Span, JsonError> {
    utf8(text)?;
    let start = space(text, 0);
    let end = scan(start).map_err(|stop| stop.error(depth))?;
    if space(text, end) != text.len() {
        return Err(JsonError::Syntax(end));
    }
    Ok(start as u32..end as u32)
}

/// One member of an object: the key as it stands between its quotes, and where key and value are.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    key: &'a [u8],
    /// Whether the key has escapes: nearly none has, and then it is compared as it stands.
    escaped: bool,
    /// The whole member, from the key's opening quote to the value's end.
    pub whole: Span,
    pub value: Span,
}

impl<'a> Member<'a> {
    /// The key with its escapes resolved. A lone surrogate becomes U+FFFD: such a key is none of ours.
    pub fn key(&self) -> Cow<'a, str> {
        unescape(self.key)
    }

    /// Whether the key is `name`, in whatever spelling.
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        if self.escaped { self.key() == name } else { self.key == name.as_bytes() }
    }

    /// Which of `names` the key is, in whatever spelling.
    #[inline]
    pub fn among(&self, names: &[&str]) -> Option<usize> {
        match self.escaped {
            true => names.iter().position(|name| self.key() == *name),
            false => names.iter().position(|name| self.key == name.as_bytes()),
        }
    }

    /// Whether the key differs from `name` by the case of its letters alone.
    #[inline]
    pub fn is_case_variant_of(&self, name: &str) -> bool {
        if self.escaped {
            let key = self.key();
            key != name && key.eq_ignore_ascii_case(name)
        } else {
            self.key.len() == name.len() && differs_by_case(self.key, name.as_bytes())
        }
    }
}

fn differs_by_case(key: &[u8], name: &[u8]) -> bool {
    key != name && key.eq_ignore_ascii_case(name)
}

/// The members of the object that starts at `at` of an already checked text. Not an object: `NotObject`. Keys given twice
/// are all there: whether they may be is for the reader to ask of [`unique`], for an upstream's are not ours to police.
pub fn lax_members(text: &[u8], at: u32) -> Result<Vec<Member<'_>>, JsonError> {
    let mut found = Vec::with_capacity(8);
    each_member(text, at as usize, |m| {
        found.push(m);
        Ok(())
    })?;
    Ok(found)
}

/// The elements of the array that starts at `at` of an already checked text; `None` where it is no array.
pub fn elements(text: &[u8], at: u32) -> Option<Vec<Span>> {
    let mut i = at as usize;
    if text.get(i) != Some(&b'[') {
        return None;
    }
    let mut found = Vec::new();
    i = space(text, i + 1);
    if text.get(i) == Some(&b']') {
        return Some(found);
    }
    loop {
        let end = skip(text, i)?;
        found.push(i as u32..end as u32);
        i = space(text, end);
        match text.get(i) {
            Some(b',') => i = space(text, i + 1),
            _ => return Some(found),
        }
    }
}

/// The text of the JSON string at `span`, escapes resolved; `None` where the value is no string.
pub fn string<'a>(text: &'a [u8], span: &Span) -> Option<Cow<'a, str>> {
    let inner = between_quotes(text, span)?;
    let start = span.start as usize + 1;
    if scan::is_simple(text, start, start + inner.len()) {
        // SAFETY: ASCII is UTF-8.
        return Some(Cow::Borrowed(unsafe { std::str::from_utf8_unchecked(inner) }));
    }
    Some(unescape(inner))
}

/// Whether the value at `span` is the string `what`, in whatever spelling.
#[inline]
pub fn says(text: &[u8], span: &Span, what: &str) -> bool {
    let Some(inner) = between_quotes(text, span) else { return false };
    // An escape makes it longer.
    inner == what.as_bytes() || inner.len() > what.len() && inner.contains(&b'\\') && unescape(inner) == what
}

fn between_quotes<'a>(text: &'a [u8], span: &Span) -> Option<&'a [u8]> {
    match &text[span.start as usize..span.end as usize] {
        [b'"', inner @ .., b'"'] => Some(inner),
        _ => None,
    }
}

/// `text` as a JSON string token, quotes included.
pub fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("a string always has a JSON form")
}

/// Refuses a key that is given twice, whatever its spelling.
pub fn unique(found: &[Member<'_>]) -> Result<(), JsonError> {
    if found.len() <= 12 && found.iter().all(|m| !m.escaped) {
        for (i, m) in found.iter().enumerate() {
            if found[..i].iter().any(|n| n.key == m.key) {
                return Err(JsonError::Duplicate(m.whole.start as usize));
            }
        }
        return Ok(());
    }
    let mut seen = HashSet::with_capacity(found.len());
    for m in found {
        if !seen.insert(m.key()) {
            return Err(JsonError::Duplicate(m.whole.start as usize));
        }
    }
    Ok(())
}

fn each_member<'a>(
    text: &'a [u8],
    at: usize,
    mut visit: impl FnMut(Member<'a>) -> Result<(), JsonError>,
) -> Result<usize, JsonError> {
    if text.get(at) != Some(&b'{') {
        return Err(JsonError::NotObject(at));
    }
    let mut i = space(text, at + 1);
    if text.get(i) == Some(&b'}') {
        return Ok(i + 1);
    }
    loop {
        let key_end = skip_string(text, i).ok_or(JsonError::Syntax(i))?;
        let start = space(text, space(text, key_end) + 1);
        let end = skip(text, start).ok_or(JsonError::Syntax(start))?;
        let key = &text[i + 1..key_end - 1];
        visit(Member {
            escaped: key.contains(&b'\\'),
            key,
            whole: i as u32..end as u32,
            value: start as u32..end as u32,
        })?;
        i = space(text, end);
        match text.get(i) {
            Some(b',') => i = space(text, i + 1),
            Some(b'}') => return Ok(i + 1),
            _ => return Err(JsonError::Syntax(i)),
        }
    }
}

/// The bytes at which the depth may change, or a string begins.
const STRUCTURE: [bool; 256] = {
    let mut table = [false; 256];
    let marks = *b"{}[]\"";
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    table
};

/// The end of the value at `at` of a text that was checked: nothing is checked again, only where it ends. Of an
/// unchecked text it gives some end or none, and never panics.
fn skip(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b'"' => skip_string(text, at),
        b'{' | b'[' => {
            let mut depth = 0u32;
            let mut i = at;
            loop {
                i += text.get(i..)?.iter().position(|&b| STRUCTURE[b as usize])?;
                match text[i] {
                    b'"' => {
                        i = skip_string(text, i)?;
                        continue;
                    }
                    b'{' | b'[' => depth += 1,
                    _ => {
                        depth = depth.checked_sub(1)?;
                        if depth == 0 {
                            return Some(i + 1);
                        }
                    }
                }
                i += 1;
            }
        }
        _ => {
            let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
            let length = text[at..].iter().position(ends).unwrap_or(text.len() - at);
            (length > 0).then_some(at + length)
        }
    }
}

/// The end of the string at `at` of a checked text.
#[inline]
fn skip_string(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut i = at + 1;
    loop {
        i = scan::plain(text, i);
        match text.get(i)? {
            b'"' => return Some(i + 1),
            b'\\' => i += 2,
            _ => return None,
        }
    }
}

#[inline]
fn space(text: &[u8], at: usize) -> usize {
    next(text, at).1
}

/// The first byte from `at` on that is no space, and where it is. At the text's end it is 0, which begins and ends nothing.
#[inline(always)]
pub(super) fn next(text: &[u8], at: usize) -> (u8, usize) {
    match text.get(at) {
        Some(&byte) if byte > b' ' => (byte, at),
        _ => after_space(text, at),
    }
}

fn after_space(text: &[u8], at: usize) -> (u8, usize) {
    let mut i = at;
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(i) {
        i += 1;
    }
    (byte(text, i), i)
}

#[inline(always)]
fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}

/// The end of the value at `at`, whose first byte is to be a value's.
#[inline]
pub(super) fn value(text: &[u8], at: usize, depth: u16) -> Scanned {
    match byte(text, at) {
        b'"' => quoted(text, at),
        b'{' | b'[' => nested(text, at, depth),
        _ => scalar(text, at),
    }
}

/// The end of the value at `at` that is neither string, object nor array.
#[inline]
fn scalar(text: &[u8], at: usize) -> Scanned {
    match byte(text, at) {
        b'-' | b'0'..=b'9' => number(text, at),
        b't' => word(text, at, b"true"),
        b'f' => word(text, at, b"false"),
        b'n' => word(text, at, b"null"),
        _ => Err(Stop(at)),
    }
}

/// The end of the object or array at `at`. Iterative, so that no text, however deep, can exhaust the stack.
fn nested(text: &[u8], at: usize, depth: u16) -> Scanned {
    // A bit for each level that is open, the innermost lowest: whether it is an object.
    let mut objects = 0u64;
    let mut levels = 0;
    let mut i = at;
    loop {
        // A value starts at i, in an object after its key.
        if objects & 1 == 1 {
            i = key(text, i)?.value;
        }
        i = match byte(text, i) {
            b'"' => quoted(text, i)?,
            open @ (b'{' | b'[') => {
                if levels == depth {
                    return Err(Stop::DEEP);
                }
                let (first, inner) = next(text, i + 1);
                if first == closing(open == b'{') {
                    inner + 1
                } else if levels == u64::BITS as u16 {
                    // No more bits: the rest of the levels are another call's.
                    nested(text, i, depth - levels)?
                } else {
                    levels += 1;
                    objects = objects << 1 | u64::from(open == b'{');
                    i = inner;
                    continue;
                }
            }
            _ => scalar(text, i)?,
        };
        // A value ended before i: close levels, or go on to the next value.
        loop {
            if levels == 0 {
                return Ok(i);
            }
            let (after, at) = next(text, i);
            i = at + 1;
            if after == b',' {
                i = space(text, i);
                break;
            }
            if after != closing(objects & 1 == 1) {
                return Err(Stop(at));
            }
            levels -= 1;
            objects >>= 1;
        }
    }
}

#[inline(always)]
fn closing(object: bool) -> u8 {
    if object { b'}' } else { b']' }
}

/// A member's key that was scanned.
pub(super) struct Key {
    /// The end of its text, which began after the quote.
    pub end: usize,
    /// Whether there are escapes in it.
    pub escaped: bool,
    /// Where the member's value starts.
    pub value: usize,
}

/// The key whose quote is to be at `at`.
#[inline(always)]
pub(super) fn key(text: &[u8], at: usize) -> Result<Key, Stop> {
    if byte(text, at) != b'"' {
        return Err(Stop(at));
    }
    let end = scan::plain(text, at + 1);
    match text.get(end..).and_then(<[u8]>::first_chunk) {
        // As nearly all write it.
        Some([b'"', b':', first]) if *first > b' ' => Ok(Key { end, escaped: false, value: end + 2 }),
        _ => odd_key(text, end),
    }
}

/// As [`key`], of which the first byte that is not plain is at `at`.
fn odd_key(text: &[u8], at: usize) -> Result<Key, Stop> {
    let escaped = byte(text, at) != b'"';
    let end = if escaped { self::escaped(text, at)? } else { at + 1 };
    let (colon, at) = next(text, end);
    if colon != b':' {
        return Err(Stop(at));
    }
    Ok(Key { end: end - 1, escaped, value: space(text, at + 1) })
}

/// Nearly every text is plain ASCII, which is quicker to see.
fn utf8(text: &[u8]) -> Result<(), JsonError> {
    match scan::is_ascii(text) {
        true => Ok(()),
        false => std::str::from_utf8(text).map(drop).map_err(|e| JsonError::Utf8(e.valid_up_to())),
    }
}

/// The end of the string token at `at`.
#[inline(always)]
fn quoted(text: &[u8], at: usize) -> Scanned {
    if byte(text, at) != b'"' {
        return Err(Stop(at));
    }
    let end = scan::plain(text, at + 1);
    match byte(text, end) {
        b'"' => Ok(end + 1),
        _ => escaped(text, end),
    }
}

/// The end of the string token whose first byte that is not plain is at `at`.
#[cold]
fn escaped(text: &[u8], at: usize) -> Scanned {
    let mut i = at;
    loop {
        match text.get(i) {
            Some(b'"') => return Ok(i + 1),
            Some(b'\\') => {}
            _ => return Err(Stop(i)),
        }
        match text.get(i + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => i += 2,
            Some(b'u') if hex4(text, i + 2).is_some() => i += 6,
            _ => return Err(Stop(i)),
        }
        i = scan::plain(text, i);
    }
}

fn hex4(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at + 4)?;
    digits.iter().try_fold(0u16, |n, &d| Some(n << 4 | (d as char).to_digit(16)? as u16))
}

fn word(text: &[u8], at: usize, word: &[u8]) -> Scanned {
    if text[at..].starts_with(word) { Ok(at + word.len()) } else { Err(Stop(at)) }
}

fn number(text: &[u8], at: usize) -> Scanned {
    let digits = |mut i: usize| {
        while text.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    let mut i = at + usize::from(text[at] == b'-');
    i = match text.get(i) {
        Some(b'0') => i + 1,
        Some(b'1'..=b'9') => digits(i),
        _ => return Err(Stop(i)),
    };
    if text.get(i) == Some(&b'.') {
        let end = digits(i + 1);
        if end == i + 1 {
            return Err(Stop(end));
        }
        i = end;
    }
    if let Some(b'e' | b'E') = text.get(i) {
        let start = i + 1 + usize::from(matches!(text.get(i + 1), Some(b'+' | b'-')));
        let end = digits(start);
        if end == start {
            return Err(Stop(end));
        }
        i = end;
    }
    Ok(i)
}

fn unescape(inner: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).map_or_else(|_| String::from_utf8_lossy(inner), Cow::Borrowed);
    }
    let mut out = String::with_capacity(inner.len());
    let mut i = 0;
    while i < inner.len() {
        let plain = memchr::memchr(b'\\', &inner[i..]).unwrap_or(inner.len() - i);
        out.push_str(&String::from_utf8_lossy(&inner[i..i + plain]));
        i += plain;
        let Some(&kind) = inner.get(i + 1) else { break };
        i += 2;
        match kind {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let first = hex4(inner, i).unwrap_or(0xFFFD);
                i += 4;
                let low = (0xD800..0xDC00).contains(&first).then(|| pair(inner, i)).flatten();
                if low.is_some() {
                    i += 6;
                }
                let units = [Some(first), low];
                out.extend(char::decode_utf16(units.into_iter().flatten()).map(|c| c.unwrap_or('\u{FFFD}')));
            }
            other => out.push(other as char),
        }
    }
    Cow::Owned(out)
}

/// The low surrogate escaped at `at`, where there is one.
fn pair(inner: &[u8], at: usize) -> Option<u16> {
    (inner.get(at..at + 2)? == b"\\u")
        .then(|| hex4(inner, at + 2))
        .flatten()
        .filter(|u| (0xDC00..0xE000).contains(u))
}

#[cfg(test)]
mod tests;
