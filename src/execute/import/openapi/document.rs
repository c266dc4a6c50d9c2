//! An OpenAPI document as far as a catalog is concerned: its operations with what each takes and answers, references within
//! the document followed. Knows nothing of entities.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::{
    super::{named::prose, schema::Schema},
    paths::Template,
};

/// Most references that are followed one after the other.
const DEEPEST: usize = 8;
/// Longest description of an operation, in characters.
const LONGEST: usize = 200;
const VERBS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum In {
    Path,
    Query,
    Header,
}

/// A parameter beside the path.
#[derive(Clone, Debug)]
pub(super) struct Param<'a> {
    pub name: &'a str,
    pub place: In,
    pub required: bool,
    pub schema: Schema<'a>,
    /// Where its schema stands: what is said there goes before what it refers to.
    pub raw: &'a Json,
    /// Of lists that are written as one text: what stands between their members.
    pub joined: Option<char>,
}

/// What a request brings along.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a> {
    pub schema: Schema<'a>,
    pub raw: &'a Json,
    pub required: bool,
    /// Its media type, where that is not `application/json`.
    pub media: Option<&'a str>,
}

/// What an operation answers when it succeeds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer<'a> {
    Json {
        schema: Schema<'a>,
        raw: &'a Json,
        /// Its media type, where that is not `application/json`.
        media: Option<&'a str>,
    },
    /// It has no content, or the document says nothing of it.
    Nothing,
    /// No JSON.
    Other(&'a str),
}

/// One operation.
#[derive(Clone, Debug)]
pub(super) struct Called<'a> {
    /// In capitals.
    pub verb: String,
    pub path: Template,
    /// `operationId`, or verb and path.
    pub id: String,
    /// It has no `operationId`.
    pub is_unnamed: bool,
    pub about: Option<String>,
    /// Those beside the path.
    pub params: Vec<Param<'a>>,
    in_path: Vec<Param<'a>>,
    pub body: Option<Body<'a>>,
    pub answer: Answer<'a>,
    /// Its answer names the next page in the header `Link`.
    pub links: bool,
    pub security: Option<&'a Json>,
}

impl<'a> Called<'a> {
    /// As a note names it.
    pub fn line(&self) -> String {
        format!("{} {}", self.verb, self.path.line)
    }

    /// The path's parameter of that name, where the document declares it.
    pub fn in_path(&self, name: &str) -> Option<&Param<'a>> {
        self.in_path.iter().find(|param| param.name == name)
    }
}

/// The document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Document<'a>(pub &'a Json);

impl<'a> Document<'a> {
    /// Past references to parts of the document that are no schemas.
    pub fn at(&self, mut at: &'a Json) -> &'a Json {
        for _ in 0..DEEPEST {
            let Some(to) = at.get("$ref").and_then(Json::as_str).and_then(|to| to.strip_prefix('#')) else {
                break;
            };
            let Some(next) = self.0.pointer(to) else { break };
            at = next;
        }
        at
    }

    pub fn schema(&self, at: &'a Json) -> Schema<'a> {
        Schema::new(self.0, at)
    }

    /// All operations, shorter paths first, and what of the document none can be made of.
    pub fn operations(&self, within: &[String], notes: &mut Vec<String>) -> Vec<Called<'a>> {
        let mut found = Vec::new();
        let paths = self.0["paths"].as_object().into_iter().flatten();
        let wanted = |line: &str| within.is_empty() || within.iter().any(|prefix| line.starts_with(prefix));
        for (line, item) in paths.filter(|(line, _)| wanted(line) && !line.starts_with("x-")) {
            let item = self.at(item);
            let Some(path) = Template::parse(line) else {
                notes.push(format!("{line}: left out, a request line cannot have this path"));
                continue;
            };
            if item.get("servers").is_some() {
                notes.push(format!("{line}: left out, it has servers of its own"));
                continue;
            }
            for verb in ["head", "options", "trace"].iter().filter(|verb| item.get(**verb).is_some()) {
                notes
                    .push(format!("{} {line}: left out, nothing is read or done by it", verb.to_uppercase()));
            }
            for verb in VERBS {
                if let Some(operation) = item.get(verb) {
                    found.extend(self.operation(verb, &path, item, operation, notes));
                }
            }
        }
        found.sort_by_key(|one| one.path.len());
        found
    }

    fn operation(
        &self,
        verb: &str,
        path: &Template,
        item: &'a Json,
        operation: &'a Json,
        notes: &mut Vec<String>,
    ) -> Option<Called<'a>> {
        let line = format!("{} {}", verb.to_uppercase(), path.line);
        if operation.get("servers").is_some() {
            notes.push(format!("{line}: left out, it has servers of its own"));
            return None;
        }
        if operation.get("callbacks").is_some() {
            notes.push(format!("{line}: its callbacks are left out, nothing here takes calls"));
        }
        let (mut params, mut in_path) = (Vec::new(), Vec::new());
        for raw in self.params(item, operation) {
            match self.param(raw) {
                Ok(Some(param)) if param.place == In::Path => in_path.push(param),
                Ok(Some(param)) => params.push(param),
                Ok(None) => {}
                Err((name, why)) if raw["required"] == true => {
                    notes.push(format!("{line}: left out, it needs {name}, and {why}"));
                    return None;
                }
                Err((name, why)) => notes.push(format!("{line}: {name} is left out, {why}")),
            }
        }
        let body = match self.body(operation) {
            Ok(body) => body,
            Err(why) => {
                notes.push(format!("{line}: left out, {why}"));
                return None;
            }
        };
        let (answer, links) = self.answer(operation);
        let said =
            ["summary", "description"].iter().find_map(|key| prose(operation[*key].as_str()?, LONGEST));
        let about = match operation["deprecated"] == true {
            true => prose(&format!("Deprecated. {}", said.unwrap_or_default()), LONGEST),
            false => said,
        };
        let named = operation["operationId"].as_str().map(str::trim).filter(|id| !id.is_empty());
        let id = named.map_or_else(|| format!("{verb}_{}", path.words()), str::to_owned);
        Some(Called {
            verb: verb.to_uppercase(),
            path: path.clone(),
            id,
            is_unnamed: named.is_none(),
            about,
            params,
            in_path,
            body,
            answer,
            links,
            security: operation.get("security"),
        })
    }

    /// Its parameters, and those of its path that it does not say anew.
    fn params(&self, item: &'a Json, operation: &'a Json) -> Vec<&'a Json> {
        let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
        for all in [operation, item] {
            for raw in all["parameters"].as_array().into_iter().flatten() {
                let raw = self.at(raw);
                if seen.insert((raw["in"].as_str(), raw["name"].as_str())) {
                    found.push(raw);
                }
            }
        }
        found
    }

    /// `Err`: its name, and why it cannot be sent; `None`: there is nothing to send.
    fn param(&self, raw: &'a Json) -> Result<Option<Param<'a>>, (&'a str, &'static str)> {
        let name = raw["name"].as_str().filter(|name| !name.is_empty()).ok_or(("", "it has no name"))?;
        let place = match raw["in"].as_str() {
            Some("path") => In::Path,
            Some("query") => In::Query,
            // 3.0.4 and 3.1.1 4.7.12: such headers are not described here, and are to be ignored.
            Some("header")
                if ["accept", "content-type", "authorization"].contains(&&*name.to_lowercase()) =>
            {
                return Ok(None);
            }
            Some("header") if is_header(name) => In::Header,
            Some("cookie") => return Err((name, "no cookies are sent")),
            _ => return Err((name, "it stands in no place that is known")),
        };
        if place == In::Query && name.contains(char::is_control) {
            return Err(("a parameter", "its name cannot be sent"));
        }
        let of_content = raw["content"].as_object().and_then(|content| content.values().next());
        let raw_schema = of_content.map_or(&raw["schema"], |media| &media["schema"]);
        let schema = self.schema(raw_schema);
        let written = (schema.kind() == Some("object")).then_some("it is written by several parameters");
        if let Some(why) = written.filter(|_| of_content.is_none()) {
            return Err((name, why));
        }
        let apart = raw["explode"] == false || place != In::Query;
        let joined = match (schema.kind(), raw["style"].as_str()) {
            _ if of_content.is_some() => None,
            (Some("array"), Some("spaceDelimited")) => Some(' '),
            (Some("array"), Some("pipeDelimited")) => Some('|'),
            (Some("array"), _) if apart => Some(','),
            _ => None,
        };
        Ok(Some(Param { name, place, required: raw["required"] == true, schema, raw: raw_schema, joined }))
    }

    /// `Err`: why it cannot be sent.
    fn body(&self, operation: &'a Json) -> Result<Option<Body<'a>>, String> {
        let Some(body) = operation.get("requestBody") else { return Ok(None) };
        let body = self.at(body);
        // Without a word of it a body is not needed (4.8.13.1).
        let required = body["required"] == true;
        let Some(content) = body["content"].as_object().filter(|content| !content.is_empty()) else {
            return Ok(None);
        };
        let Some((media, of)) = json_of(content) else {
            let types: Vec<&str> = content.keys().map(String::as_str).collect();
            return Err(format!("its body is no JSON ({})", types.join(", ")));
        };
        let raw = &of["schema"];
        Ok(Some(Body { schema: self.schema(raw), raw, required, media: unusual(media) }))
    }

    fn answer(&self, operation: &'a Json) -> (Answer<'a>, bool) {
        let all = operation["responses"].as_object();
        let good = all.into_iter().flatten().filter(|(code, _)| code.starts_with('2')).map(|(_, one)| one);
        let mut good: Vec<&Json> = good.map(|one| self.at(one)).collect();
        if good.is_empty() {
            good.extend(operation["responses"].get("default").map(|one| self.at(one)));
        }
        let links = good.iter().any(|one| {
            one["headers"]
                .as_object()
                .is_some_and(|all| all.keys().any(|name| name.eq_ignore_ascii_case("link")))
        });
        let contents =
            || good.iter().filter_map(|one| one["content"].as_object()).filter(|of| !of.is_empty());
        if let Some((media, of)) = contents().find_map(json_of) {
            let raw = &of["schema"];
            return (Answer::Json { schema: self.schema(raw), raw, media: unusual(media) }, links);
        }
        match contents().flat_map(|content| content.keys()).next() {
            Some(media) => (Answer::Other(media), links),
            None => (Answer::Nothing, links),
        }
    }

    /// References that lead out of the document, and those that lead nowhere in it.
    pub fn references(&self) -> (BTreeSet<&'a str>, BTreeSet<&'a str>) {
        let (mut outside, mut nowhere) = (BTreeSet::new(), BTreeSet::new());
        let mut left = vec![self.0];
        while let Some(at) = left.pop() {
            match at {
                Json::Array(items) => left.extend(items),
                Json::Object(map) => {
                    if let Some(to) = map.get("$ref").and_then(Json::as_str) {
                        match to.strip_prefix('#') {
                            None => drop(outside.insert(to)),
                            Some(to) if self.0.pointer(to).is_none() => drop(nowhere.insert(to)),
                            Some(_) => {}
                        }
                    }
                    // What stands for a value is no part of the description.
                    let values = ["example", "examples", "default", "enum", "const"];
                    let inside = map
                        .iter()
                        .filter(|(key, _)| !values.contains(&key.as_str()) && !key.starts_with("x-"));
                    left.extend(inside.map(|(_, value)| value));
                }
                _ => {}
            }
        }
        (outside, nowhere)
    }
}

/// The JSON among what a body may be, plain JSON before other kinds.
fn json_of(content: &serde_json::Map<String, Json>) -> Option<(&str, &Json)> {
    let plain = |media: &str| media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let find = |fits: &dyn Fn(&str) -> bool| {
        content.iter().find(|(media, _)| fits(&plain(media))).map(|(media, of)| (media.as_str(), of))
    };
    find(&|media| media == "application/json").or_else(|| {
        find(&|media| matches!(media, "*/*" | "application/*" | "text/json") || media.ends_with("+json"))
    })
}

/// A media type that has to be said.
fn unusual(media: &str) -> Option<&str> {
    media.split(';').next().map(str::trim).filter(|media| media.ends_with("+json"))
}

fn is_header(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}
