//! What clients are shown of a tool in place of what its server says, and what each call of it bears. Done by splices: all
//! that is not overridden stays the server's.

use crate::config;
use crate::mcp::{Item, Reason};
use crate::wire::params::Params;
use crate::wire::{Raw, Span, json};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The overrides of one upstream's tools, by the names that it gives them.
#[derive(Default)]
pub(super) struct Overrides(BTreeMap<String, Arc<Override>>);

pub(super) struct Override {
    title: Option<String>,
    description: Option<String>,
    hidden: Vec<String>,
    /// With their JSON.
    fixed: Vec<(String, Bytes)>,
}

impl Overrides {
    pub(super) fn of(upstream: &config::Upstream) -> Overrides {
        let one = |(tool, over): (&str, &config::Override)| {
            let fixed = over.fixed.iter().map(|(name, value)| (name.to_owned(), value.to_string().into()));
            let over = Override {
                title: over.title.clone(),
                description: over.description.clone(),
                hidden: over.hidden.clone(),
                fixed: fixed.collect(),
            };
            (tool.to_owned(), Arc::new(over))
        };
        Overrides(upstream.overrides.iter().map(one).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, tool: &str) -> Option<&Arc<Override>> {
        self.0.get(tool)
    }
}

impl Override {
    fn takes_away(&self, argument: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == argument)
            || self.fixed.iter().any(|(fixed, _)| fixed == argument)
    }

    /// The tool as clients see it.
    pub(super) fn show(&self, item: &Item) -> Item {
        let mut body = item.body.flat();
        let text = body.text().clone();
        let find = |at: u32, key: &str| member(&text, at, key);
        for (key, value) in [("title", &self.title), ("description", &self.description)] {
            let Some(value) = value else { continue };
            match find(0, key) {
                Some(span) => body.edit(span, json::quote(value)),
                None => body.insert_member(0, key, json::quote(value).as_bytes()),
            }
        }
        // Older clients show this title.
        let older = find(0, "annotations").and_then(|annotations| find(annotations.start, "title"));
        if let (Some(title), Some(span)) = (&self.title, older) {
            body.edit(span, json::quote(title));
        }
        let schema = find(0, "inputSchema").filter(|_| !self.hidden.is_empty() || !self.fixed.is_empty());
        if let Some(schema) = schema {
            if let Some(properties) = find(schema.start, "properties") {
                let keys: Vec<&str> = self.taken().collect();
                let left = body.part(&properties).without(&keys);
                body.edit(properties, left.to_bytes());
            }
            if let Some(required) = find(schema.start, "required") {
                let left = self.left_of(&text, &required);
                body.edit(required, left);
            }
        }
        let body = body.flat();
        let name_span = member(body.text(), 0, "name").unwrap_or_else(|| item.name_span.clone());
        let kept = |header: &&crate::wire::param_headers::ParamHeader| {
            header.path.first().is_none_or(|argument| !self.takes_away(argument))
        };
        let headers = item.headers.iter().filter(kept).cloned().collect();
        Item { name: item.name.clone(), body, name_span, headers }
    }

    fn taken(&self) -> impl Iterator<Item = &str> {
        self.hidden.iter().map(String::as_str).chain(self.fixed.iter().map(|(name, _)| name.as_str()))
    }

    /// A list of names without those that are taken away.
    fn left_of(&self, text: &[u8], names: &Span) -> BytesMut {
        let mut left = BytesMut::from(&b"["[..]);
        for name in json::elements(text, names.start).unwrap_or_default() {
            if json::string(text, &name).is_some_and(|name| self.takes_away(&name)) {
                continue;
            }
            if left.len() > 1 {
                left.extend_from_slice(b",");
            }
            left.extend_from_slice(&text[name.start as usize..name.end as usize]);
        }
        left.extend_from_slice(b"]");
        left
    }

    /// The params of a call with what each call bears. Errors: the client gives an argument that it is not to give.
    pub(super) fn apply(&self, params: &Params) -> Result<Params, Reason> {
        if self.hidden.is_empty() && self.fixed.is_empty() {
            return Ok(params.clone());
        }
        let unreadable = || Reason::InvalidParams("the arguments cannot be read".into());
        let mut whole = Params::read(params.raw.flat()).map_err(|_| unreadable())?;
        let given = whole.arguments.clone().filter(|span| whole.raw.text()[span.start as usize] == b'{');
        let text = whole.raw.text().clone();
        let given_members = given.as_ref().and_then(|span| json::lax_members(&text, span.start).ok());
        if let Some(m) = given_members.iter().flatten().find(|m| self.takes_away(&m.key())) {
            return Err(Reason::InvalidParams(format!("this tool has no argument {:?}", m.key()).into()));
        }
        if self.fixed.is_empty() {
            return Ok(params.clone());
        }
        let mut arguments = given.as_ref().map_or_else(|| Raw::trusted("{}"), |span| whole.raw.part(span));
        for (name, value) in &self.fixed {
            arguments.insert_member(0, name, value);
        }
        match whole.arguments.clone() {
            Some(span) => whole.raw.edit(span, arguments.to_bytes()),
            None => whole.raw.insert_member(0, "arguments", &arguments.to_bytes()),
        }
        Params::read(whole.raw.flat()).map_err(|_| unreadable())
    }
}

fn member(text: &[u8], at: u32, key: &str) -> Option<Span> {
    json::lax_members(text, at).ok()?.into_iter().find(|m| m.is(key)).map(|m| m.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Kind;
    use crate::mcp::scripted::listing;
    use serde_json::json;

    fn over() -> Arc<Override> {
        let upstream: config::Upstream = serde_json::from_value(json!({"overrides": {"t": {
            "title": "T", "description": "D", "hidden": ["debug"], "fixed": {"n": {"x": 1}, "repo": "a/b"},
        }}}))
        .unwrap();
        Overrides::of(&upstream).get("t").unwrap().clone()
    }

    #[test]
    fn a_tool_is_shown_as_it_was_overridden_and_else_as_it_came() {
        let body = r#"{ "name" : "t","description":"old","annotations":{"title":"x"},"inputSchema":{"type":"object","properties":{"repo":{"type":"string"},"q":{"type" : "string"},"debug":{}},"required":["repo","q"]},"x-own":1.0}"#;
        let item = over().show(&listing(Kind::Tool, &[body]).items()[0]);
        let want = r#"{"title":"T", "name" : "t","description":"D","annotations":{"title":"T"},"inputSchema":{"type":"object","properties":{"q":{"type" : "string"}},"required":["q"]},"x-own":1.0}"#;
        assert_eq!(item.body.to_bytes(), want);
        assert_eq!(item.body.string(&item.name_span).unwrap(), "t");
    }

    #[test]
    fn calls_bear_what_is_fixed_and_may_not_give_what_is_taken_away() {
        let apply = |text: &'static str| {
            over().apply(&Params::read(Raw::trusted(text)).unwrap()).map(|params| params.raw.to_bytes())
        };
        let table = [
            (
                r#"{"name":"t","arguments":{"q":1.0}}"#,
                r#"{"name":"t","arguments":{"n":{"x":1},"repo":"a/b","q":1.0}}"#,
            ),
            (r#"{"name":"t","arguments":{}}"#, r#"{"name":"t","arguments":{"n":{"x":1},"repo":"a/b"}}"#),
            (r#"{"name":"t"}"#, r#"{"arguments":{"n":{"x":1},"repo":"a/b"},"name":"t"}"#),
            (r#"{"name":"t","arguments":null}"#, r#"{"name":"t","arguments":{"n":{"x":1},"repo":"a/b"}}"#),
        ];
        for (text, want) in table {
            assert_eq!(apply(text).unwrap(), want);
        }
        for text in
            [r#"{"name":"t","arguments":{"repo":"c"}}"#, r#"{"name":"t","arguments":{"de\u0062ug":1}}"#]
        {
            assert!(matches!(apply(text), Err(Reason::InvalidParams(_))), "{text}");
        }
    }
}
