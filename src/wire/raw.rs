//! Checked JSON that is carried, not rebuilt: a slice of the buffer it arrived in, and the few spans we own.

use super::Span;
use super::json::{self, JsonError};
use super::results::Gist;
use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;
use std::borrow::Cow;

type Edits = SmallVec<[(Span, Bytes); 2]>;

/// Checked JSON, a slice of the buffer it arrived in. Edits replace spans as it is written; all other bytes stay.
///
/// Spans always speak of the text as it arrived, so that edits of several rooms compose.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    text: Bytes,
    /// Of most none is edited, and all are handed on a good many times: so they are small.
    edits: Option<Box<Edits>>,
    /// Of a result: what was noted of it when the message was read that it came in.
    gist: Option<Gist>,
}

impl Raw {
    /// Takes text that is known to be one JSON value: checked by [`json::check`], or written by ourselves.
    pub fn trusted(text: impl Into<Bytes>) -> Raw {
        Raw { text: text.into(), edits: None, gist: None }
    }

    /// Checks `text` and takes the value in it. Errors: not exactly one JSON value, or deeper than `depth`.
    pub fn parse(text: Bytes, depth: u16) -> Result<Raw, JsonError> {
        let span = json::check(&text, depth)?;
        Ok(Raw::trusted(text.slice(span.start as usize..span.end as usize)))
    }

    /// The JSON form of a value of our own.
    pub fn of<T: serde::Serialize + ?Sized>(value: &T) -> Raw {
        Raw::trusted(serde_json::to_vec(value).expect("our own values always have a JSON form"))
    }

    /// A result of which this was noted.
    pub(super) fn result(text: Bytes, gist: Option<Gist>) -> Raw {
        Raw { gist, ..Raw::trusted(text) }
    }

    /// What was noted of a result as it was read.
    pub(super) fn gist(&self) -> Option<Gist> {
        self.gist
    }

    /// The text as it arrived, edits not applied: what spans speak of.
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// A part of the text as it arrived, as JSON of its own; shares the buffer.
    pub fn part(&self, span: &Span) -> Raw {
        Raw::trusted(self.text.slice(span.start as usize..span.end as usize))
    }

    /// The same value in a buffer of its own, for what outlives the message it came in.
    pub fn detached(&self) -> Raw {
        Raw { text: Bytes::copy_from_slice(&self.text), ..self.clone() }
    }

    /// The string at `span`, escapes resolved; `None` where the value is no string.
    pub fn string(&self, span: &Span) -> Option<Cow<'_, str>> {
        json::string(&self.text, span)
    }

    /// The value at `span` as it will be written: what replaced exactly that span, else what stands there. Edits
    /// within the span are not seen.
    pub fn written(&self, span: &Span) -> Bytes {
        let edit = self.replaced(span);
        edit.map_or_else(|| self.part(span).text, Bytes::clone)
    }

    /// The string that [`Raw::written`] gives; `None` where it is none.
    pub fn written_string(&self, span: &Span) -> Option<Cow<'_, str>> {
        match self.replaced(span) {
            Some(with) => json::string(with, &(0..with.len() as u32)),
            None => self.string(span),
        }
    }

    /// What stands where exactly that span was.
    fn replaced(&self, span: &Span) -> Option<&Bytes> {
        self.edits().iter().find(|(s, _)| s == span && s.start < s.end).map(|(_, with)| with)
    }

    fn edits(&self) -> &[(Span, Bytes)] {
        self.edits.as_deref().map_or(&[], SmallVec::as_slice)
    }

    /// The same object, edits applied, without the members of these names. A copy: not for the path of every call.
    pub fn without(&self, keys: &[&str]) -> Raw {
        let text = self.to_bytes();
        let mut out = BytesMut::with_capacity(text.len());
        out.extend_from_slice(b"{");
        let members = json::lax_members(&text, 0).unwrap_or_default();
        for m in members.iter().filter(|m| !keys.iter().any(|key| m.is(key))) {
            if out.len() > 1 {
                out.extend_from_slice(b",");
            }
            out.extend_from_slice(&text[m.whole.start as usize..m.whole.end as usize]);
        }
        out.extend_from_slice(b"}");
        Raw::trusted(out.freeze())
    }

    /// Writes `with` where `span` stood. An equal span edited again takes the newer text; an empty span inserts,
    /// after whatever was inserted there before. Spans must not overlap otherwise.
    pub fn edit(&mut self, span: Span, with: impl Into<Bytes>) {
        debug_assert!(span.start <= span.end && span.end as usize <= self.text.len());
        let with = with.into();
        let edits = self.edits.get_or_insert_default();
        if span.start < span.end
            && let Some(old) = edits.iter_mut().find(|(s, _)| *s == span)
        {
            old.1 = with;
            return;
        }
        let at = edits.partition_point(|(s, _)| (s.start, s.end) <= (span.start, span.end));
        debug_assert!(at == 0 || edits[at - 1].0.end <= span.start, "edits overlap");
        edits.insert(at, (span, with));
    }

    /// Adds `"key":value` as the first member of the object that starts at `at`. `value` is JSON.
    pub fn insert_member(&mut self, at: u32, key: &str, value: &[u8]) {
        let inner = at + 1;
        let bare = self.text[inner as usize..].iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'}');
        let first = !self.edits().iter().any(|(s, _)| *s == (inner..inner));
        let mut member = BytesMut::with_capacity(key.len() + value.len() + 4);
        // Insertions stand in the order they came: before members each brings the comma after it, in an object
        // without any, each but the first brings the one before it.
        if bare && !first {
            member.extend_from_slice(b",");
        }
        member.extend_from_slice(json::quote(key).as_bytes());
        member.extend_from_slice(b":");
        member.extend_from_slice(value);
        if !bare {
            member.extend_from_slice(b",");
        }
        self.edit(inner..inner, member.freeze());
    }

    pub fn is_edited(&self) -> bool {
        self.edits.is_some()
    }

    /// Bytes of the written form.
    pub fn len(&self) -> usize {
        self.edits().iter().fold(self.text.len(), |n, (s, with)| n - (s.end - s.start) as usize + with.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the written form.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        match self.is_edited() {
            true => self.pieces(|piece| out.extend_from_slice(piece)),
            false => out.extend_from_slice(&self.text),
        }
    }

    /// The written form; shares the buffer where nothing was edited.
    pub fn to_bytes(&self) -> Bytes {
        if !self.is_edited() {
            return self.text.clone();
        }
        let mut out = Vec::with_capacity(self.len());
        self.write(&mut out);
        out.into()
    }

    /// The same value with its edits applied, so that spans speak of the new text.
    pub fn flat(&self) -> Raw {
        Raw::trusted(self.to_bytes())
    }

    /// Reads the written form as a type of ours. For small parts off the hot path.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.to_bytes())
    }

    fn pieces(&self, mut give: impl FnMut(&[u8])) {
        let mut at = 0;
        for (span, with) in self.edits() {
            give(&self.text[at..span.start as usize]);
            give(with);
            at = span.end as usize;
        }
        give(&self.text[at..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_compose_and_leave_every_other_byte_alone() {
        let mut raw = Raw::trusted(&br#"{ "a" : 1.0, "b":"x" }"#[..]);
        raw.edit(17..20, "\"long\"");
        raw.edit(8..11, "2");
        raw.edit(17..20, "\"y\"");
        assert_eq!((raw.written(&(17..20)), raw.written(&(1..4))), ("\"y\"".into(), " \"a".into()));
        assert_eq!(&raw.to_bytes()[..], br#"{ "a" : 2, "b":"y" }"#);
        assert_eq!(raw.len(), raw.to_bytes().len());
        assert_eq!(&raw.flat().text()[..], br#"{ "a" : 2, "b":"y" }"#);
    }

    #[test]
    fn members_are_left_out_wherever_they_stand() {
        let raw = Raw::trusted(r#"{"a":1, "b":{"a":2} ,"c":3}"#);
        assert_eq!(raw.without(&["a"]).to_bytes(), r#"{"b":{"a":2},"c":3}"#);
        assert_eq!(raw.without(&["b", "c"]).to_bytes(), r#"{"a":1}"#);
        assert_eq!(raw.without(&["a", "b", "c"]).to_bytes(), "{}");
    }

    #[test]
    fn members_are_inserted_into_full_and_empty_objects() {
        for (text, want) in [
            ("{}", r#"{"k":1,"l":2}"#),
            ("{ }", r#"{"k":1,"l":2 }"#),
            (r#"{"a":0}"#, r#"{"k":1,"l":2,"a":0}"#),
        ] {
            let mut raw = Raw::trusted(text);
            raw.insert_member(0, "k", b"1");
            raw.insert_member(0, "l", b"2");
            assert_eq!(raw.to_bytes(), want);
        }
    }
}
