//! What the gateway reads of `params`: the spans of the few fields that route a message, and nothing else.

use super::meta::Meta;
use super::outline::{Outline, Rule};
use super::{Raw, Span, json};
use bytes::Bytes;
use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A message's params as they came, and where the fields stand that we read. Spans speak of `raw.text()`. Clones share
/// them, until one is edited.
#[derive(Clone, Debug)]
pub struct Params(Arc<Fields>);

/// What [`Params`] hold.
#[derive(Clone, Debug)]
pub struct Fields {
    pub raw: Raw,
    pub name: Option<Span>,
    pub uri: Option<Span>,
    pub cursor: Option<Span>,
    pub arguments: Option<Span>,
    pub meta: Option<Meta>,
    /// `requestState` of a multi-round retry (2026-07-28 MRTR).
    pub state: Option<Span>,
    /// `inputResponses` of a multi-round retry.
    pub answers: Option<Span>,
    /// `ref` of a completion.
    pub reference: Option<Span>,
    /// `notifications` of `subscriptions/listen`.
    pub filter: Option<Span>,
    /// `requestId` of `notifications/cancelled`.
    pub request_id: Option<Span>,
    /// `progressToken` of `notifications/progress`.
    pub progress_token: Option<Span>,
    /// `taskId` of the tasks extension.
    pub task_id: Option<Span>,
}

pub(super) const KEYS: [&str; 12] = [
    "name",
    "uri",
    "cursor",
    "arguments",
    "_meta",
    "requestState",
    "inputResponses",
    "ref",
    "notifications",
    "requestId",
    "progressToken",
    "taskId",
];
/// Where `_meta` is among them.
const META: usize = 4;
/// Keys of `ref` and of `notifications`, by which it is decided what a caller may speak of.
const REF_KEYS: [&str; 3] = ["type", "name", "uri"];
const FILTER_KEYS: [&str; 4] =
    ["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions"];

impl Params {
    /// A message without params. They are written as `{}`, which every method takes for none.
    pub fn none() -> Params {
        Params(Arc::new(Fields::of(Raw::trusted("{}"), |_| None)))
    }

    /// Reads an object of our own making, or one whose edits were applied.
    pub fn read(raw: Raw) -> Result<Params, String> {
        let text = raw.to_bytes();
        let all = 0..text.len() as u32;
        Params::at(&text, &all, Rule::Lax, &Outline::none())
    }

    pub(super) fn at(whole: &Bytes, span: &Span, rule: Rule, outline: &Outline) -> Result<Params, String> {
        let base = span.start;
        let raw = Raw::trusted(whole.slice(base as usize..span.end as usize));
        let (mut fields, meta) = match outline.noted(base) {
            Some(noted) => (Fields::of(raw, |key| noted.value(key, base)), noted.value(META, base)),
            None => {
                let found = rule.look(whole, base, base, &KEYS).map_err(|why| format!("params: {why}"))?;
                (Fields::of(raw, |key| found[key].clone()), found[META].clone())
            }
        };
        let mut parts = Parts { whole, base, rule, outline, fault: None };
        fields.meta = parts.meta(&meta);
        parts.have_one_meaning("arguments", &fields.arguments, &[]);
        parts.have_one_meaning("ref", &fields.reference, &REF_KEYS);
        parts.have_one_meaning("notifications", &fields.filter, &FILTER_KEYS);
        match parts.fault {
            Some((_, why)) => Err(why),
            None => Ok(Params(Arc::new(fields))),
        }
    }
}

impl Fields {
    /// Of what stands where; `value` gives it by the place in [`KEYS`]. `_meta` is read by itself.
    #[inline]
    fn of(raw: Raw, value: impl Fn(usize) -> Option<Span>) -> Fields {
        Fields {
            raw,
            name: value(0),
            uri: value(1),
            cursor: value(2),
            arguments: value(3),
            meta: None,
            state: value(5),
            answers: value(6),
            reference: value(7),
            filter: value(8),
            request_id: value(9),
            progress_token: value(10),
            task_id: value(11),
        }
    }
}

/// The parts of params that are looked into.
struct Parts<'a> {
    whole: &'a [u8],
    base: u32,
    rule: Rule,
    outline: &'a Outline,
    /// The one that stands first in the text, in whatever order they are found.
    fault: Option<(u32, String)>,
}

impl Parts<'_> {
    fn meta(&mut self, at: &Option<Span>) -> Option<Meta> {
        let at = at.as_ref()?;
        match Meta::at(self.whole, at, self.rule, self.base, self.outline) {
            Ok(meta) => meta,
            Err(why) => {
                self.note(at, why);
                None
            }
        }
    }

    /// Finds fault with a client's object in which two readers could read two things.
    fn have_one_meaning<const N: usize>(&mut self, part: &str, at: &Option<Span>, keys: &[&'static str; N]) {
        let Some(at) = at.as_ref().filter(|_| self.rule == Rule::Strict) else { return };
        let start = self.base + at.start;
        if self.whole[start as usize] == b'{'
            && let Err(why) = self.rule.read(self.whole, start, self.base, keys, self.outline)
        {
            self.note(at, format!("{part}: {why}"));
        }
    }

    fn note(&mut self, at: &Span, why: String) {
        if self.fault.as_ref().is_none_or(|(first, _)| at.start < *first) {
            self.fault = Some((at.start, why));
        }
    }
}

impl Deref for Params {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.0
    }
}

/// Params that are shared are copied before they are edited.
impl DerefMut for Params {
    fn deref_mut(&mut self) -> &mut Fields {
        Arc::make_mut(&mut self.0)
    }
}

impl Params {
    /// The string at one of the fields; `None` where the field is absent or no string.
    pub fn string(&self, span: &Option<Span>) -> Option<Cow<'_, str>> {
        self.raw.string(span.as_ref()?)
    }

    /// As [`Params::string`], with what [`Params::set`] wrote there: what a peer will read, and so what `Mcp-Name` says.
    pub fn written(&self, span: &Option<Span>) -> Option<String> {
        self.raw.written_string(span.as_ref()?).map(Cow::into_owned)
    }

    /// `params.name` as it came, edits aside.
    pub fn name(&self) -> Option<Cow<'_, str>> {
        self.string(&self.name)
    }

    pub fn uri(&self) -> Option<Cow<'_, str>> {
        self.string(&self.uri)
    }

    /// The raw token at a field, edits aside.
    pub fn token(&self, span: &Option<Span>) -> Option<Bytes> {
        span.as_ref().map(|s| self.raw.text().slice(s.start as usize..s.end as usize))
    }

    /// The caller's progress token, its JSON type kept.
    pub fn progress(&self) -> Option<Bytes> {
        self.token(&self.meta.as_ref()?.progress_token)
    }

    /// Writes another string where `span` stands.
    pub fn set(&mut self, span: &Span, text: &str) {
        self.raw.edit(span.clone(), json::quote(text));
    }

    /// Adds `"key":value` to `_meta`, and `_meta` itself where there is none.
    pub fn add_meta(&mut self, members: &[(&str, Bytes)]) {
        match self.meta.as_ref().map(|meta| meta.whole.start) {
            Some(at) => {
                for (key, value) in members {
                    self.raw.insert_member(at, key, value);
                }
            }
            None => {
                let mut meta = Raw::trusted("{}");
                for (key, value) in members {
                    meta.insert_member(0, key, value);
                }
                self.raw.insert_member(0, "_meta", &meta.to_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_that_route_are_found_and_edits_leave_the_rest() {
        let raw = Raw::trusted(
            r#"{"arguments":{"name":"no"},"name":"a\u00e9","_meta":{"progressToken":7,"x":[ ]}}"#,
        );
        let mut p = Params::read(raw).unwrap();
        assert_eq!(p.name().unwrap(), "aé");
        assert_eq!(p.progress().unwrap(), "7");
        let name = p.name.clone().unwrap();
        p.set(&name, "b");
        assert_eq!((p.name().unwrap(), p.written(&p.name).unwrap()), ("aé".into(), "b".into()));
        p.add_meta(&[("k", Bytes::from_static(b"1"))]);
        assert_eq!(
            p.raw.to_bytes(),
            r#"{"arguments":{"name":"no"},"name":"b","_meta":{"k":1,"progressToken":7,"x":[ ]}}"#
        );
    }

    #[test]
    fn spans_speak_of_the_params_wherever_they_stand_in_their_message() {
        let text = r#" {"jsonrpc":"2.0","id":1,"method":"m","params": {"name":"a","_meta": {"progressToken":7,"io.modelcontextprotocol/protocolVersion":"v"},"ref":{"uri":"x"}}}"#;
        for read in [crate::wire::envelope::read, crate::wire::envelope::read_upstream] {
            let Ok(crate::wire::Message::Request(request)) = read(text.into(), 9) else { panic!() };
            let p = request.params;
            let meta = p.meta.clone().unwrap();
            assert_eq!(p.string(&p.name).unwrap(), "a");
            assert_eq!(p.progress().unwrap(), "7");
            assert_eq!(p.string(&meta.version).unwrap(), "v");
            assert!(p.token(&Some(meta.whole)).unwrap().starts_with(b"{\"progressToken"));
            assert_eq!(p.token(&p.reference).unwrap(), r#"{"uri":"x"}"#);
        }
    }

    #[test]
    fn each_field_is_that_of_its_key() {
        let text = format!("{{{}}}", KEYS.map(|key| format!(r#""{key}":{{"own {key}":1}}"#)).join(","));
        let p = Params::read(Raw::trusted(text)).unwrap();
        let fields = [
            &p.name,
            &p.uri,
            &p.cursor,
            &p.arguments,
            &p.meta.as_ref().map(|meta| meta.whole.clone()),
            &p.state,
            &p.answers,
            &p.reference,
            &p.filter,
            &p.request_id,
            &p.progress_token,
            &p.task_id,
        ];
        for (key, field) in KEYS.iter().zip(fields) {
            assert_eq!(p.token(field).unwrap(), format!(r#"{{"own {key}":1}}"#));
        }
        assert_eq!(KEYS[META], "_meta");
    }

    #[test]
    fn what_a_caller_may_speak_of_has_one_meaning() {
        let read = |params: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{params}}}"#);
            crate::wire::envelope::read(text.into(), 9).map(drop).map_err(|refused| refused.code)
        };
        for twice in [
            r#"{"ref":{"type":"ref/prompt","name":"a","name":"b"}}"#,
            r#"{"ref":{"type":"ref/prompt","type":"ref/resource"}}"#,
            r#"{"ref":{"uri":"x:1","ur\u0069":"x:2"}}"#,
            r#"{"ref":{"uri":"x:1","URI":"x:2"}}"#,
            r#"{"notifications":{"resourceSubscriptions":[],"resourceSubscriptions":["x:1"]}}"#,
            r#"{"notifications":{"ResourceSubscriptions":["x:1"]}}"#,
        ] {
            assert_eq!(read(twice), Err(-32600), "{twice}");
        }
        for once in [
            r#"{"ref":{"type":"ref/prompt","name":"a","title":"A","own":{"a":1,"a":2}}}"#,
            r#"{"ref":7,"notifications":null}"#,
            r#"{"notifications":{"resourceSubscriptions":["x:1"],"own":true}}"#,
            r#"{"arguments":{"ref":{"a":1,"a":2}}}"#,
        ] {
            assert_eq!(read(once), Ok(()), "{once}");
        }
    }

    #[test]
    fn of_several_faults_the_first_in_the_text_is_told() {
        let twice = r#"{"a":1,"a":2}"#;
        let parts = ["arguments", "_meta", "ref", "notifications"];
        for first in parts {
            let others = parts.iter().filter(|part| **part != first);
            let members: String = others.map(|part| format!(r#","{part}":{twice}"#)).collect();
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"{first}":{twice}{members}}}}}"#);
            let why = crate::wire::envelope::read(text.into(), 9).unwrap_err().why;
            assert!(why.starts_with(&format!("{first}: ")), "{first}: {why}");
        }
    }

    #[test]
    fn meta_is_made_where_there_is_none() {
        let mut p = Params::none();
        p.add_meta(&[("a", Bytes::from_static(b"1")), ("b", Bytes::from_static(b"2"))]);
        assert_eq!(p.raw.to_bytes(), r#"{"_meta":{"a":1,"b":2}}"#);
    }
}
