//! The outer members of a message, noted in the same pass that checks its text: a message is scanned once.
//!
//! Noted is what is usual. An object of which more must be asked (a key escaped, given twice, or all but one that is
//! known) is left out, and whoever reads it looks for himself, with the care that it needs.

use super::familiar::Of;
use super::json::{self, JsonError, Key, Member, Scanned, Stop};
use super::{Span, envelope, meta, params, results};
use smallvec::SmallVec;

/// Whose text it is, and so how much it is trusted to mean one thing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Rule {
    Strict,
    Lax,
}

/// Where the values of the keys are that are read of an object: of each key the first.
pub(super) type Found<const N: usize> = [Option<Span>; N];

/// Why an object is not read.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub(super) enum Unclear {
    #[error(transparent)]
    Json(#[from] JsonError),
    /// It would be another key to us and the same to a lax reader.
    #[error("a key that differs from \"{0}\" by case")]
    Variant(&'static str),
}

impl Rule {
    /// Where the values of `keys` are in the object at `at`, noted in the outline or looked for; spans count from `base`.
    /// Errors: no object; of a client's, a key given twice, or one that differs by case alone from one of `keys`.
    #[inline]
    pub(super) fn read<const N: usize>(
        self,
        text: &[u8],
        at: u32,
        base: u32,
        keys: &[&'static str; N],
        outline: &Outline,
    ) -> Result<Found<N>, Unclear> {
        match outline.noted(at) {
            Some(noted) => Ok(noted.found(base)),
            None => self.look(text, at, base, keys),
        }
    }

    /// As [`Rule::read`], of what was not noted.
    #[cold]
    pub(super) fn look<const N: usize>(
        self,
        text: &[u8],
        at: u32,
        base: u32,
        keys: &[&'static str; N],
    ) -> Result<Found<N>, Unclear> {
        let members = json::lax_members(text, at)?;
        if self == Rule::Strict {
            json::unique(&members)?;
            let twin = |m: &Member<'_>| keys.iter().find(|key| m.is_case_variant_of(key));
            if let Some(key) = members.iter().find_map(twin) {
                return Err(Unclear::Variant(key));
            }
        }
        let mut found = [const { None }; N];
        for (n, member) in members.iter().filter_map(|m| Some((m.among(keys)?, m))) {
            found[n].get_or_insert(from_base(&member.value, base));
        }
        Ok(found)
    }
}

fn from_base(span: &Span, base: u32) -> Span {
    span.start - base..span.end - base
}

/// What was noted of a message's outer objects: of the message, of its `params` or `result`, and of their `_meta` and
/// `arguments`.
pub(super) struct Outline {
    rule: Rule,
    objects: [Noted; 4],
}

/// The most keys that are read of one kind of object.
const MOST: usize = 12;

/// An object, and where the values of its known keys are.
pub(super) struct Noted {
    at: u32,
    /// A bit for each key that is there.
    keys: u16,
    found: [Span; MOST],
}

/// Of no object: no message is so long.
const NOWHERE: u32 = u32::MAX;

/// How nearly all messages begin: up to the quote of the second key.
const BEGINNING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"";
const VERSION: &[u8] = b"\"2.0\"";

/// Which object of the message it is, and so which of its members matter.
#[derive(Clone, Copy)]
enum Level {
    Message,
    Params,
    Result,
    Meta,
    ResultMeta,
    Arguments,
}

impl Outline {
    /// An outline that knows nothing: whoever asks looks for himself.
    pub(super) fn none() -> Outline {
        Outline { rule: Rule::Lax, objects: [const { Noted::nothing() }; 4] }
    }

    /// Nothing yet of a text that is under this rule.
    pub(super) fn under(rule: Rule) -> Outline {
        Outline { rule, ..Outline::none() }
    }

    /// As [`json::check`], and notes the members on the way.
    pub(super) fn check(&mut self, text: &[u8], depth: u16) -> Result<Span, JsonError> {
        json::whole(text, depth, |start| match text.get(start) {
            Some(b'{') => self.object(text, start, depth, Level::Message),
            _ => json::value(text, start, depth),
        })
    }

    /// What was noted of the object at `at`.
    #[inline]
    pub(super) fn noted(&self, at: u32) -> Option<&Noted> {
        self.objects.iter().find(|noted| noted.at == at)
    }

    /// The end of the object at `at`, whose brace was seen; its members are noted, and those of the objects that matter in it.
    fn object(&mut self, text: &[u8], at: usize, depth: u16, level: Level) -> Scanned {
        let Some(depth) = depth.checked_sub(1) else { return Err(Stop::DEEP) };
        let slot = level.slot();
        (self.objects[slot].at, self.objects[slot].keys) = (at as u32, 0);
        let mut others = SmallVec::new();
        let usual = matches!(level, Level::Message) && text[at..].starts_with(BEGINNING);
        let (mut byte, mut i) = match usual {
            true => {
                let version = at + BEGINNING.len() - VERSION.len() - 2;
                self.objects[slot].first(0, version as u32..(version + VERSION.len()) as u32);
                (b'"', at + BEGINNING.len() - 1)
            }
            false => json::next(text, at + 1),
        };
        while byte != b'}' {
            let Key { end, escaped, value: start } = json::key(text, i)?;
            let key = &text[i + 1..end];
            let known = level.known(key);
            let end = match known.and_then(|n| level.of(n)) {
                Some(level) if text.get(start) == Some(&b'{') => self.inner(text, start, depth, level)?,
                _ => json::value(text, start, depth)?,
            };
            let usual = match known {
                Some(n) => self.objects[slot].first(n, start as u32..end as u32),
                None => !escaped && (self.rule == Rule::Lax || level.is_clear(key, &mut others)),
            };
            if !usual {
                self.objects[slot].at = NOWHERE;
            }
            (byte, i) = json::next(text, end);
            match byte {
                b',' => i = json::next(text, i + 1).1,
                b'}' => {}
                _ => return Err(Stop(i)),
            }
        }
        Ok(i + 1)
    }

    /// As [`Outline::object`], where it need not be scanned if it is the one that came last.
    fn inner(&mut self, text: &[u8], at: usize, depth: u16, level: Level) -> Scanned {
        let Some(of) = level.familiar() else { return self.object(text, at, depth, level) };
        let slot = level.slot();
        if let Some(end) = of.again(text, at, self.rule, depth, &mut self.objects[slot]) {
            return Ok(end);
        }
        let end = self.object(text, at, depth, level)?;
        let noted = &self.objects[slot];
        if noted.at == at as u32 {
            of.keep(text, at, end, self.rule, depth, noted);
        }
        Ok(end)
    }
}

impl Noted {
    /// The same of an object that stands so much further on.
    #[inline]
    pub(super) fn moved(&self, by: u32) -> Noted {
        // Of a key that is not there it counts nothing.
        let found =
            std::array::from_fn(|n| self.found[n].start.wrapping_add(by)..self.found[n].end.wrapping_add(by));
        Noted { at: self.at.wrapping_add(by), keys: self.keys, found }
    }

    pub(super) const fn nothing() -> Noted {
        Noted { at: NOWHERE, keys: 0, found: [const { 0..0 }; MOST] }
    }

    /// Where the values of its keys are, of which there are `N`; spans count from `base`.
    #[inline]
    pub(super) fn found<const N: usize>(&self, base: u32) -> Found<N> {
        std::array::from_fn(|n| self.value(n, base))
    }

    /// Where the value of one of its keys is, counted from `base`.
    #[inline]
    pub(super) fn value(&self, key: usize, base: u32) -> Option<Span> {
        (self.keys >> key & 1 == 1).then(|| from_base(&self.found[key], base))
    }

    /// Notes the value of a key. False where the key was there before.
    #[inline]
    fn first(&mut self, key: usize, value: Span) -> bool {
        let first = self.keys >> key & 1 == 0;
        if first {
            self.keys |= 1 << key;
            self.found[key] = value;
        }
        first
    }
}

impl Level {
    fn slot(self) -> usize {
        match self {
            Level::Message => 0,
            Level::Params | Level::Result => 1,
            Level::Meta | Level::ResultMeta => 2,
            Level::Arguments => 3,
        }
    }

    /// Whose object comes again and again as it was.
    fn familiar(self) -> Option<Of> {
        match self {
            Level::Meta => Some(Of::Request),
            Level::ResultMeta => Some(Of::Result),
            _ => None,
        }
    }

    /// What the object at the `n`th of this level's keys is, where it matters.
    #[inline]
    fn of(self, n: usize) -> Option<Level> {
        match (self, n) {
            (Level::Message, 3) => Some(Level::Params),
            (Level::Message, 4) => Some(Level::Result),
            (Level::Params, 3) => Some(Level::Arguments),
            (Level::Params, 4) => Some(Level::Meta),
            (Level::Result, 6) => Some(Level::ResultMeta),
            _ => None,
        }
    }

    /// Which of the level's keys it is, as it stands.
    #[inline]
    fn known(self, key: &[u8]) -> Option<usize> {
        match self {
            Level::Message => position(&envelope::KEYS, key),
            Level::Params => position(&params::KEYS, key),
            Level::Result => position(&results::KEYS, key),
            Level::Meta => position(&meta::KEYS, key),
            Level::ResultMeta => position(&results::META_KEYS, key),
            Level::Arguments => None,
        }
    }

    fn names(self) -> &'static [&'static str] {
        match self {
            Level::Message => &envelope::KEYS,
            Level::Params => &params::KEYS,
            Level::Result => &results::KEYS,
            Level::Meta => &meta::KEYS,
            Level::ResultMeta => &results::META_KEYS,
            Level::Arguments => &[],
        }
    }

    /// Whether a key that is not known is no other's twin: not one of the `others` again, and no case variant of a known one.
    /// Where there are many, it is not asked here.
    fn is_clear<'a>(self, key: &'a [u8], others: &mut SmallVec<[&'a [u8]; 12]>) -> bool {
        if others.len() == others.inline_size() {
            return false;
        }
        let twin = others.contains(&key)
            || self.names().iter().any(|name| name.as_bytes().eq_ignore_ascii_case(key));
        others.push(key);
        !twin
    }
}

#[inline(always)]
fn position<const N: usize>(keys: &'static [&'static str; N], key: &[u8]) -> Option<usize> {
    keys.iter().position(|name| name.as_bytes() == key)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Objects of few kinds of keys: known ones, those of another case, escaped ones, strangers; each also twice.
    fn object(inner: impl Strategy<Value = String> + Clone) -> impl Strategy<Value = String> {
        let key = prop_oneof![
            8 => proptest::sample::select(&["jsonrpc", "id", "method", "params", "result", "error"][..]),
            8 => proptest::sample::select(&["name", "uri", "arguments", "_meta", "progressToken", "resultType"][..]),
            2 => proptest::sample::select(&["ref", "notifications", "isError", meta::VERSION, meta::SERVER_INFO][..]),
            2 => proptest::sample::select(&["Params", "NAME", "_Meta", "own", "", "a", "b", "é"][..]),
            1 => proptest::sample::select(&["par\\u0061ms", "n\\u0061me", "\\u0061", "result\\u0054ype"][..]),
        ];
        let member = (key, inner).prop_map(|(key, value)| format!(r#""{key}":{value}"#));
        (proptest::collection::vec(member, 0..6), "[ \n]{0,1}")
            .prop_map(|(members, space)| format!("{{{space}{}{space}}}", members.join(&format!("{space},"))))
    }

    pub fn message() -> impl Strategy<Value = String> {
        let scalar =
            proptest::sample::select(&["\"2.0\"", "1", "\"x\"", "null", "[{\"a\":1}]", "{}", "\"\\n\""][..])
                .prop_map(str::to_owned);
        let second = prop_oneof![3 => scalar.clone(), 1 => object(scalar.clone())].boxed();
        let first = prop_oneof![2 => scalar, 3 => object(second)].boxed();
        let whole =
            prop_oneof![1 => Just(String::new()), 3 => Just(r#""jsonrpc":"2.0","method":"m","#.to_owned())];
        (whole, object(first)).prop_map(|(head, rest)| match rest.starts_with("{\"") {
            true => format!("{{{head}{}", &rest[1..]),
            false => rest,
        })
    }

    proptest! {
        #[test]
        fn an_outline_judges_as_a_check_does(
            text in message(),
            depth in 1u16..6,
            cut in 0usize..400,
            rule in prop_oneof![Just(Rule::Strict), Just(Rule::Lax)],
        ) {
            let judged = |text| Outline::under(rule).check(text, depth);
            prop_assert_eq!(judged(text.as_bytes()), json::check(text.as_bytes(), depth));
            let part = text.as_bytes().get(..cut).unwrap_or(text.as_bytes());
            prop_assert_eq!(judged(part), json::check(part, depth));
        }

        #[test]
        fn what_is_noted_of_a_message_is_what_a_look_finds(
            text in message(),
            rule in prop_oneof![Just(Rule::Strict), Just(Rule::Lax)],
        ) {
            let mut outline = Outline::under(rule);
            let span = outline.check(text.as_bytes(), 9).unwrap();
            let noted = rule.read(text.as_bytes(), span.start, 0, &envelope::KEYS, &outline);
            let looked = rule.look(text.as_bytes(), span.start, 0, &envelope::KEYS);
            prop_assert_eq!(noted, looked);
        }
    }

    #[test]
    fn however_many_keys_there_are_each_is_compared_with_a_few() {
        let (keys, mut others) = ((0..1000).map(|n| n.to_string()).collect::<Vec<_>>(), SmallVec::new());
        let clear = keys.iter().filter(|key| Level::Arguments.is_clear(key.as_bytes(), &mut others)).count();
        assert_eq!((clear, others.len(), others.spilled()), (12, 12, false));
    }

    #[test]
    fn each_object_that_matters_has_its_key() {
        let key = |level: Level, n: usize| level.names()[n];
        for (level, n, want) in [
            (Level::Message, 3, "params"),
            (Level::Message, 4, "result"),
            (Level::Params, 3, "arguments"),
            (Level::Params, 4, "_meta"),
            (Level::Result, 6, "_meta"),
        ] {
            assert!(level.of(n).is_some());
            assert_eq!(key(level, n), want);
        }
        assert_eq!(key(Level::Message, 0), "jsonrpc");
    }

    #[test]
    fn what_is_usual_is_noted_and_the_rest_is_not() {
        let noted = |text: &str, rule| {
            let mut outline = Outline::under(rule);
            let span = outline.check(text.as_bytes(), 9).unwrap();
            outline.noted(span.start).is_some()
        };
        let many = format!("{{{}\"z\":1}}", (0..13).map(|n| format!("\"k{n}\":1,")).collect::<String>());
        for (text, strict, lax) in [
            (r#"{"id":1,"own":2}"#, true, true),
            ("{}", true, true),
            (r#"{"id":1,"ID":2}"#, false, true),
            (r#"{"own":1,"own":2}"#, false, true),
            (&many, false, true),
            (r#"{"id":1,"id":2}"#, false, false),
            (r#"{"i\u0064":1}"#, false, false),
        ] {
            assert_eq!((noted(text, Rule::Strict), noted(text, Rule::Lax)), (strict, lax), "{text}");
        }
    }
}
