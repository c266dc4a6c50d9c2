//! The outer members of a message, noted in the same pass that checks its text: a message is scanned once.

use super::{JsonError, Member, quoted_and_escaped, space, utf8, value};
use crate::wire::Span;
use smallvec::SmallVec;

/// The members of a message's outer objects, found in the one pass that checks the text: of the message, of its `params` or
/// `result`, and of their `_meta` and `arguments`.
pub struct Outline<'a> {
    /// By where the object begins. A handful.
    objects: SmallVec<[(u32, Vec<Member<'a>>); 3]>,
}

/// How deep in the message an object lies, and so which of its members matter.
#[derive(Clone, Copy)]
enum Level {
    Message,
    Params,
    Result,
    /// `_meta` and `arguments`: what they hold is noted no deeper.
    Last,
}

impl<'a> Outline<'a> {
    /// As [`check`], and notes the members on the way.
    pub fn check(text: &'a [u8], depth: u16) -> Result<(Span, Outline<'a>), JsonError> {
        utf8(text)?;
        let mut outline = Outline::none();
        let start = space(text, 0);
        let end = outline.object(text, start, depth, depth, Level::Message)?;
        if space(text, end) != text.len() {
            return Err(JsonError::Syntax(end));
        }
        Ok((start as u32..end as u32, outline))
    }

    /// An outline that knows nothing: whoever asks looks for himself.
    pub fn none() -> Outline<'a> {
        Outline { objects: SmallVec::new() }
    }

    /// The members of the object at `at`, where they were noted. Given once.
    pub fn take(&mut self, at: u32) -> Option<Vec<Member<'a>>> {
        let n = self.objects.iter().position(|(start, _)| *start == at)?;
        Some(self.objects.swap_remove(n).1)
    }

    /// The end of the value at `at`; if it is an object, its members are noted, and those of the objects that matter in it.
    fn object(
        &mut self,
        text: &'a [u8],
        at: usize,
        depth: u16,
        limit: u16,
        level: Level,
    ) -> Result<usize, JsonError> {
        if text.get(at) != Some(&b'{') {
            return value(text, at, depth, limit);
        }
        let Some(inner) = depth.checked_sub(1) else { return Err(JsonError::Depth(limit)) };
        let mut members = Vec::with_capacity(8);
        let mut i = space(text, at + 1);
        let end = if text.get(i) == Some(&b'}') {
            i + 1
        } else {
            loop {
                let (key_end, escaped) = quoted_and_escaped(text, i)?;
                let colon = space(text, key_end);
                if text.get(colon) != Some(&b':') {
                    return Err(JsonError::Syntax(colon));
                }
                let start = space(text, colon + 1);
                let key = &text[i + 1..key_end - 1];
                let end = match (level, key) {
                    (Level::Message, b"params") => self.object(text, start, inner, limit, Level::Params)?,
                    (Level::Message, b"result") => self.object(text, start, inner, limit, Level::Result)?,
                    (Level::Params, b"_meta" | b"arguments") | (Level::Result, b"_meta") => {
                        self.object(text, start, inner, limit, Level::Last)?
                    }
                    _ => value(text, start, inner, limit)?,
                };
                members.push(Member {
                    escaped,
                    key,
                    whole: i as u32..end as u32,
                    value: start as u32..end as u32,
                });
                i = space(text, end);
                match text.get(i) {
                    Some(b',') => i = space(text, i + 1),
                    Some(b'}') => break i + 1,
                    _ => return Err(JsonError::Syntax(i)),
                }
            }
        };
        self.objects.push((at as u32, members));
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{check, lax_members};
    use super::*;

    proptest::proptest! {
        #[test]
        fn an_outline_judges_as_a_check_does_and_finds_what_a_look_finds(
            text in r#"\{("(params|result|_meta|arguments|a)" ?: ?(\{"(_meta|arguments|b)":(\{("c":1)?\}|7|"x")\}|[0-9]{1,3}|\[\]|\{\})(, ?)?){0,3}\}?"#,
            depth in 1u16..5,
        ) {
            let outlined = Outline::check(text.as_bytes(), depth);
            proptest::prop_assert_eq!(outlined.as_ref().map(|o| o.0.clone()).map_err(|e| *e), check(text.as_bytes(), depth));
            if let Ok((span, mut outline)) = outlined {
                let spans = |members: Vec<Member<'_>>| members.into_iter().map(|m| (m.key().into_owned(), m.value)).collect::<Vec<_>>();
                let noted = outline.take(span.start).map(spans);
                proptest::prop_assert_eq!(noted, lax_members(text.as_bytes(), span.start).ok().map(spans));
                for (at, members) in outline.objects {
                    proptest::prop_assert_eq!(Some(spans(members)), lax_members(text.as_bytes(), at).ok().map(spans));
                }
            }
        }
    }
}
