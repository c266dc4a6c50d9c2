//! A catalog from an OpenAPI document (3.0 and 3.1): pairs of paths become entities with get and query, the rest methods. What
//! writes is disabled until a person has looked at it, and what cannot be said is listed at the head of the draft.

use std::path::Path;

use serde_json::Value as Json;
use url::Url;

use super::{
    Draft,
    named::{self, Taken, prose},
    parts::Parts,
    schema::Schema,
    sheet::{map, some},
};
use crate::{
    config::{ConfigError, read_yaml},
    execute::catalog::CatalogError,
};

mod document;
mod lists;
mod made;
mod paths;
mod security;
mod things;

use document::{Answer, Called, Document};
use lists::Rows;
use made::{Made, Of};
use things::Things;

/// Largest document, in bytes.
pub const LARGEST: usize = 16 << 20;
/// Most operations of one catalog.
const MOST: usize = 1_500;

/// What is known of an API beside its document.
#[derive(Clone, Copy, Debug, Default)]
pub struct Api<'a> {
    /// The catalog's id is made of it; by default of the document's title.
    pub name: Option<&'a str>,
    /// Where its paths begin; by default the document's first server.
    pub base_url: Option<&'a str>,
    /// Where the document lies: what a relative server is relative to.
    pub from: Option<&'a Url>,
    /// Beginnings of the paths that are wanted; empty: all.
    pub within: &'a [String],
}

/// Why there is no draft.
#[derive(Debug, thiserror::Error)]
pub enum OpenApiError {
    #[error("the document has more than {LARGEST} bytes")]
    TooLarge,
    #[error("{0}")]
    Unreadable(ConfigError),
    #[error("it is no JSON: {0}")]
    NoJson(serde_json::Error),
    #[error("expected an OpenAPI document of version 3.0 or 3.1, found {0}")]
    Version(String),
    #[error("references out of the document are not followed: bundle it into one file first ({})", .0.join(", "))]
    Outside(Vec<String>),
    #[error("the document names no absolute server: give where its paths begin with --base-url")]
    NoServer,
    #[error("{0} is no http:// or https:// address without credentials")]
    BadServer(String),
    #[error("{0} operations are more than one catalog has ({MOST}): choose some with --path")]
    TooMany(usize),
    #[error("the draft is no catalog: {0}")]
    Draft(#[from] CatalogError),
}

/// Drafts a catalog from the text of a document, JSON or YAML; `file` is its name in messages.
pub fn of_openapi(text: &str, file: &Path, api: &Api<'_>) -> Result<Draft, OpenApiError> {
    if text.len() > LARGEST {
        return Err(OpenApiError::TooLarge);
    }
    let json: Json = match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).map_err(OpenApiError::NoJson)?,
        false => read_yaml(text, file).map_err(OpenApiError::Unreadable)?,
    };
    let document = Document(&json);
    let version = version(&json)?;
    let (outside, nowhere) = document.references();
    if !outside.is_empty() {
        return Err(OpenApiError::Outside(outside.into_iter().take(5).map(shown).collect()));
    }
    let mut notes: Vec<String> = nowhere
        .iter()
        .map(|to| format!("#{to}: this reference leads nowhere, anything is taken there"))
        .collect();
    let base = base(&json, api, &mut notes)?;
    let calls = document.operations(api.within, &mut notes);
    if calls.len() > MOST {
        return Err(OpenApiError::TooMany(calls.len()));
    }
    for key in ["webhooks", "x-webhooks"].iter().filter(|key| json.get(**key).is_some()) {
        notes.push(format!("{key}: left out, nothing here takes calls"));
    }
    let title = json["info"]["title"].as_str().and_then(|title| prose(title, 120));
    let name = api.name.map(str::to_owned).or_else(|| title.clone()).unwrap_or_else(|| "api".to_owned());
    let auth = security::auth(document, &calls, &named::api(&name), &mut notes);
    let mut drafting = Drafting {
        parts: Parts::new(&name, title.as_deref(), ("Operations", "call")),
        things: Things::new(document),
        made: Vec::new(),
        notes,
    };
    drafting.reads(&calls);
    drafting.others(&calls);
    drafting.relations();
    let source = some([("kind", Some("http".into())), ("base_url", Some(base.into())), ("auth", auth)]);
    let of = format!(
        "Drafted from an OpenAPI {version} document: {} {}",
        title.as_deref().unwrap_or("without a title"),
        json["info"]["version"].as_str().unwrap_or_default()
    );
    Ok(drafting.finish(of.trim_end(), source)?)
}

fn shown(text: &str) -> String {
    prose(text, 120).unwrap_or_default()
}

fn version(document: &Json) -> Result<String, OpenApiError> {
    let wrong = |found: &str| Err(OpenApiError::Version(shown(found)));
    match (&document["openapi"], &document["swagger"]) {
        (Json::String(version), _) if version.starts_with("3.0") || version.starts_with("3.1") => {
            Ok(shown(version))
        }
        (Json::String(version), _) => wrong(&format!("version {version}")),
        (_, Json::Null) => wrong("something else"),
        _ => wrong("Swagger 2.0: convert it first"),
    }
}

/// Where paths begin.
fn base(document: &Json, api: &Api<'_>, notes: &mut Vec<String>) -> Result<String, OpenApiError> {
    let servers = document["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let address = |server: &Json| {
        let mut url = server["url"].as_str()?.to_owned();
        for (name, variable) in server["variables"].as_object().into_iter().flatten() {
            url = url.replace(&format!("{{{name}}}"), variable["default"].as_str().unwrap_or_default());
        }
        Some(url)
    };
    let first = servers.first().and_then(address).unwrap_or_else(|| "/".to_owned());
    let text = api.base_url.map_or(first, str::to_owned);
    let url = match (Url::parse(&text), api.from) {
        (Ok(url), _) => url,
        (Err(_), Some(from)) if api.base_url.is_none() => {
            from.join(&text).map_err(|_| OpenApiError::BadServer(shown(&text)))?
        }
        (Err(_), _) if api.base_url.is_none() => return Err(OpenApiError::NoServer),
        _ => return Err(OpenApiError::BadServer(shown(&text))),
    };
    let bare = url.username().is_empty() && url.password().is_none();
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() || !bare {
        return Err(OpenApiError::BadServer(shown(&text)));
    }
    if url.scheme() == "http" {
        notes.push("servers: plain HTTP is spoken only with networks that catalogs.inside names".to_owned());
    }
    for other in servers.iter().skip(1).filter_map(address) {
        notes.push(format!("servers: {} is left out, a source has one base URL", shown(&other)));
    }
    let mut url = url;
    url.set_query(None);
    url.set_fragment(None);
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

pub(super) struct Drafting<'a> {
    parts: Parts<'a>,
    things: Things<'a>,
    made: Vec<Made<'a>>,
    notes: Vec<String>,
}

impl<'a> Drafting<'a> {
    fn note(&mut self, called: &Called<'_>, what: &str) {
        self.notes.push(format!("{}: {what}", called.line()));
    }

    /// Everything that is read: what paths name one of, then lists, then what is neither.
    fn reads(&mut self, calls: &'a [Called<'a>]) {
        let gets = || calls.iter().filter(|one| one.verb == "GET");
        for called in gets().filter(|called| called.path.is_item()) {
            self.item(called);
        }
        let mut rest = Vec::new();
        for called in gets() {
            if self.made.iter().any(|made| std::ptr::eq(made.called, called)) {
                continue;
            }
            let about = called.path.about().unwrap_or_default();
            let listed = lists::rows(&called.answer, about).and_then(|rows| self.list(called, rows));
            if listed.is_none() {
                rest.push(called);
            }
        }
        rest.into_iter().for_each(|called| self.single(called));
    }

    /// One of many, by its path.
    fn item(&mut self, called: &'a Called<'a>) {
        let Answer::Json { schema, .. } = called.answer else { return };
        let is_list = schema.rows().is_some();
        if is_list || schema.properties().is_empty() || called.params.iter().any(|one| one.required) {
            return;
        }
        let about = named::singular(called.path.about().unwrap_or_default());
        let (at, form) = lists::row(schema, &about);
        self.get(called, at, form);
    }

    fn get(&mut self, called: &'a Called<'a>, at: String, form: Schema<'a>) {
        let (thing, unsaid) = self.things.of_path(&mut self.parts.taken, called, form);
        if let Some(param) = unsaid {
            let what = format!(
                "which property of a row is {param} is not plain: lists give no key unless its field gets an at"
            );
            self.note(called, &what);
        }
        let left: Vec<&str> = called.params.iter().map(|one| one.name).collect();
        if !left.is_empty() {
            self.note(called, &format!("{} left out, one is read by its key alone", left.join(", ")));
        }
        let id = self.parts.ids.name(&called.id, "get");
        let keyed = self.things.all[thing].key.len();
        self.made.push(Made {
            keyed,
            locator: Some(("row", at)),
            ..Made::new(called, id, "get", Of::Thing(thing))
        });
    }

    /// Rows of an entity. `None`: nothing tells them apart.
    fn list(&mut self, called: &'a Called<'a>, rows: Rows<'a>) -> Option<()> {
        let words = lists::words(called).map(|param| param.name.to_owned());
        let kind = if words.is_some() { "search" } else { "query" };
        let paging = lists::paging(called);
        let mut needed: Vec<String> = called.path.params().into_iter().map(str::to_owned).collect();
        let beside = called.params.iter().filter(|one| one.required && Some(one.name) != words.as_deref());
        needed.extend(
            beside
                .filter(|one| !paging.sent.iter().any(|sent| sent == one.name))
                .map(|one| one.name.to_owned()),
        );
        needed.sort();
        let paired = self.things.all.iter().position(|thing| {
            thing.item.as_ref().is_some_and(|item| called.path.lists(item)) && !thing.props.is_empty()
        });
        let formed = self.things.of_form(rows.of).filter(|thing| {
            let names: Vec<String> = called.path.params().into_iter().map(str::to_owned).collect();
            self.things.all[*thing].is_known_by(rows.of, &names)
        });
        // Of two queries that need the same only the first would ever be asked: the other is of an entity of its own.
        let asked = |thing: &usize| {
            !self.made.iter().any(|made| {
                matches!(made.of, Of::Thing(of) if of == *thing)
                    && made.kind == kind
                    && (kind == "search" || made.needed == needed)
            })
        };
        let thing = match paired.or(formed).filter(asked) {
            Some(thing) => thing,
            None => {
                let second = (paired.is_some() || formed.is_some()).then(|| called.path.tail(0)).flatten();
                self.things.of_rows(&mut self.parts.taken, called, rows.of, second)?
            }
        };
        let args = self.scope(thing, called);
        let known = self.things.all[thing].is_known_by(rows.of, &args);
        if known {
            self.things.also(rows.of, thing);
        } else {
            self.note(called, "its rows do not say their whole key");
        }
        if let Some(note) = paging.note {
            self.note(called, note);
        }
        let id = self.parts.ids.name(&called.id, "list");
        self.made.push(Made {
            path_args: args,
            locator: Some(("rows", rows.at)),
            rows: Some(rows.of),
            needed,
            paging,
            words,
            ..Made::new(called, id, kind, Of::Thing(thing))
        });
        Some(())
    }

    /// What is called the parameters of a list's path: parts of the key where they are such.
    fn scope(&mut self, thing: usize, called: &Called<'a>) -> Vec<String> {
        let thing = &mut self.things.all[thing];
        let pair = thing.item.as_ref().is_some_and(|item| called.path.lists(item));
        let mut taken = Taken::default();
        let params = called.path.params();
        params
            .iter()
            .enumerate()
            .map(|(number, param)| match thing.key.get(number).filter(|_| pair) {
                Some(part) => taken.name(&part.name, "value"),
                None => {
                    let free =
                        if thing.is_rows(param) { format!("{param}_value") } else { (*param).to_owned() };
                    let name = taken.name(&free, "value");
                    if !thing.members.has(&name) {
                        thing.members.name(&name, "value");
                    }
                    name
                }
            })
            .collect()
    }

    /// A read of one thing, or of what has no form that is known.
    fn single(&mut self, called: &'a Called<'a>) {
        let (schema, raw) = match called.answer {
            Answer::Json { schema, raw, .. } => (schema, raw),
            Answer::Other(media) => {
                return self.note(called, &format!("left out, its answer is no JSON ({})", shown(media)));
            }
            Answer::Nothing => return self.method(called, "read"),
        };
        if !lists::is_said(raw) {
            self.note(called, "what it answers is not said: its value is anything");
        } else if schema.rows().is_some() {
            self.note(called, "nothing tells its rows apart: they are one value");
        }
        let about = named::singular(called.path.about().unwrap_or_default());
        let takes = called.params.iter().any(|one| one.required || !called.path.is_item());
        match takes {
            false => {
                let (at, form) = lists::row(schema, &about);
                self.get(called, at, form)
            }
            true => self.alone(called, "read", schema),
        }
    }

    /// A method with an entity of its own, whose fields are what it answers.
    fn alone(&mut self, called: &'a Called<'a>, class: &'static str, form: Schema<'a>) {
        let thing = self.things.of_answer(&mut self.parts.taken, called, form);
        let method = self.things.all[thing].members.name(&made::method_name(called, 0), "call");
        let id = self.parts.ids.name(&called.id, "call");
        self.made.push(Made {
            path_args: made::path_args(called, 0),
            method: Some(method),
            class: Some(class),
            locator: Some(("row", "$".to_owned())),
            ..Made::new(called, id, "action", Of::Thing(thing))
        });
    }

    /// A method of what its path names, or of the API's own entity.
    fn method(&mut self, called: &'a Called<'a>, class: &'static str) {
        let id = self.parts.ids.name(&called.id, "call");
        match self.things.owner(&called.path) {
            Some(thing) => {
                let len = self.things.all[thing].item.as_ref().map_or(0, |item| item.len());
                let wanted = made::method_name(called, len);
                let method = self.things.all[thing].members.name(&wanted, "call");
                let keyed = self.things.all[thing].key.len();
                let row = self.row_of(called, thing);
                if row.is_none() && matches!(called.answer, Answer::Json { .. }) {
                    self.note(called, "what it answers is left out, it is no row of what it is called on");
                }
                self.made.push(Made {
                    keyed,
                    path_args: made::path_args(called, keyed),
                    method: Some(method),
                    class: Some(class),
                    locator: row,
                    ..Made::new(called, id, "action", Of::Thing(thing))
                });
            }
            None => self.made.push(Made {
                path_args: made::path_args(called, 0),
                class: Some(class),
                ..Made::new(called, id, "action", Of::Own)
            }),
        }
    }

    /// Where the row lies that an operation on an entity answers, if it answers one.
    fn row_of(&self, called: &Called<'a>, thing: usize) -> Option<(&'static str, String)> {
        let Answer::Json { schema, .. } = called.answer else { return None };
        let about = named::singular(called.path.about().unwrap_or_default());
        let (at, form) = lists::row(schema, &about);
        (self.things.of_form(form) == Some(thing)).then_some(("row", at))
    }

    /// Everything that is no GET.
    fn others(&mut self, calls: &'a [Called<'a>]) {
        for called in calls.iter().filter(|one| one.verb != "GET") {
            if let Answer::Other(media) = called.answer {
                self.note(called, &format!("what it answers is left out, it is no JSON ({})", shown(media)));
            }
            let class = if called.verb == "DELETE" { "destructive" } else { "write" };
            let on = self.things.read_by(&called.path);
            let of_list = self.made.iter().find_map(|made| match made.of {
                Of::Thing(thing) if made.kind == "query" && made.called.path.is_like(&called.path) => {
                    Some(thing)
                }
                _ => None,
            });
            let listed = of_list.or_else(|| {
                let lists = |thing: &things::Thing<'_>| {
                    thing.item.as_ref().is_some_and(|item| called.path.lists(item))
                };
                self.things.all.iter().position(lists)
            });
            let answered = match called.answer {
                Answer::Json { schema, .. } => self.things.of_form(lists::row(schema, "").1),
                _ => None,
            };
            match (called.verb.as_str(), on, listed) {
                ("PUT" | "PATCH" | "DELETE", Some(thing), _) => self.on(called, thing, class),
                ("POST", None, Some(thing)) => self.create(called, thing, "create"),
                _ if self
                    .things
                    .owner(&called.path)
                    .is_some_and(|thing| !self.things.all[thing].key.is_empty()) =>
                {
                    self.method(called, class)
                }
                _ => match (answered, called.answer) {
                    (Some(thing), _) if called.verb != "DELETE" => {
                        self.create(called, thing, &made::method_name(called, 0))
                    }
                    (_, Answer::Json { schema, raw, .. }) if lists::is_said(raw) => {
                        self.alone(called, class, schema)
                    }
                    _ => self.method(called, class),
                },
            }
        }
    }

    /// Changes one, or takes it away.
    fn on(&mut self, called: &'a Called<'a>, thing: usize, class: &'static str) {
        let (kind, wanted) = match called.verb.as_str() {
            "DELETE" => ("delete", "delete"),
            "PUT" if self.things.all[thing].members.has("update") => ("update", "replace"),
            _ => ("update", "update"),
        };
        let row = self.row_of(called, thing).filter(|_| kind == "update");
        let method = self.things.all[thing].members.name(wanted, "call");
        let id = self.parts.ids.name(&called.id, "call");
        let keyed = self.things.all[thing].key.len();
        self.made.push(Made {
            keyed,
            method: Some(method),
            class: Some(class),
            locator: row,
            ..Made::new(called, id, kind, Of::Thing(thing))
        });
    }

    /// Makes one.
    fn create(&mut self, called: &'a Called<'a>, thing: usize, wanted: &str) {
        let args = self.scope(thing, called);
        let row = self.row_of(called, thing);
        let method = self.things.all[thing].members.name(wanted, "call");
        let id = self.parts.ids.name(&called.id, "call");
        self.made.push(Made {
            path_args: args,
            method: Some(method),
            class: Some("write"),
            locator: row,
            ..Made::new(called, id, "create", Of::Thing(thing))
        });
    }

    /// From what a path names to what is listed within it.
    fn relations(&mut self) {
        for at in 0..self.made.len() {
            let made = &self.made[at];
            let (Of::Thing(to), "query") = (&made.of, made.kind) else { continue };
            let path = &made.called.path;
            let beside = made.needed.len() > path.params().len();
            let Some(from) = self.things.owner(path).filter(|_| !beside) else { continue };
            let whole = self.things.all[from].key.len() == path.params().len();
            let len = self.things.all[from].item.as_ref().map_or(0, |item| item.len());
            let Some(name) = path.tail(len).filter(|_| whole && !made.path_args.is_empty()) else { continue };
            let bind: Vec<_> = made
                .path_args
                .iter()
                .zip(&self.things.all[from].key)
                .map(|(arg, part)| (arg.clone(), part.name.clone().into()))
                .collect();
            let sheet = map([
                ("to", self.things.all[*to].name.clone().into()),
                ("many", true.into()),
                ("query", made.id.clone().into()),
                ("bind", map(bind)),
            ]);
            let from = &mut self.things.all[from];
            let name = from.members.name(&name, "list");
            from.bound.push((name, sheet));
        }
    }

    fn finish(mut self, of: &str, source: super::sheet::Sheet) -> Result<Draft, CatalogError> {
        made::in_order(&mut self.made);
        for thing in 0..self.things.all.len() {
            self.parts.entities.push(self.things.entity(thing));
            let left = &self.things.all[thing].left;
            if !left.is_empty() {
                let note = format!(
                    "{}: {} properties are no fields: {}",
                    self.things.all[thing].name,
                    left.len(),
                    left.join(", ")
                );
                self.notes.push(note);
            }
        }
        let mut disabled = 0;
        for made in std::mem::take(&mut self.made) {
            disabled += usize::from(made.is_disabled());
            let (id, sheet) = made.sheet(&self.things, &mut self.parts);
            self.parts.operations.push((id, sheet));
        }
        let mut head: Vec<String> = prose(of, 200).into_iter().collect();
        if disabled > 0 {
            head.push(format!(
                "Disabled until somebody has looked at their effects (enabled: false): {disabled} operations."
            ));
        }
        self.notes = self.notes.iter().filter_map(|note| prose(note, 400)).collect();
        if !self.notes.is_empty() {
            head.push(
                "What the document says and this catalog does not, and what has to be looked at:".to_owned(),
            );
            head.extend(self.notes.iter().map(|note| format!("- {note}")));
        }
        self.parts.notes = self.notes;
        if disabled > 0 {
            self.parts.notes.insert(
                0,
                format!("{disabled} operations are disabled until somebody has looked at their effects"),
            );
        }
        self.parts.finish(&head, source)
    }
}

#[cfg(test)]
mod tests;
