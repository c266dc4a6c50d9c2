//! A catalog from the tools that an MCP server lists. Lists of things with an identity become entities with queries, and tools
//! that take such an identity are theirs; what else says its result's form is an entity of its own with one method; the rest
//! are methods of the server's own entity.

use serde_json::Value as Json;

use super::{
    Draft,
    named::{self, Taken, prose},
    parts::{Entity, Parts},
    schema::{self, Schema, can_be_located, fields_of, key_of},
    sheet::{Sheet, map, some},
    things::{Found, Things},
};
use crate::{execute::catalog::CatalogError, mcp::Listing};

/// Longest description of a method, in characters.
const LONGEST: usize = 200;

/// The server whose tools are drafted.
#[derive(Clone, Debug)]
pub struct Server<'a> {
    /// The catalog's id is made of it: the upstream's.
    pub name: &'a str,
    pub title: Option<&'a str>,
    /// Its address; `None`: it is an upstream of the configuration, of that name.
    pub url: Option<&'a str>,
    /// Whether tools that are not said to read only may be called: not before a person looked at the draft, but at start-up,
    /// where every tool is served as it is.
    pub writes: bool,
}

/// Drafts a catalog of all tools that were listed.
pub fn of_tools(server: &Server<'_>, tools: &Listing) -> Result<Draft, CatalogError> {
    let tools: Vec<Json> = tools.items().iter().filter_map(|item| item.body.read().ok()).collect();
    let parts = Parts::new(server.name, server.title, ("Tools", "tool"));
    let mut drafting = Drafting { server, parts, things: Things::default() };
    // What there is, before what is done to it.
    let rest: Vec<&Json> = tools.iter().filter(|tool| !drafting.listed(tool)).collect();
    rest.into_iter().for_each(|tool| drafting.tool(tool));
    let source = match server.url {
        Some(url) => ("url", url),
        None => ("upstream", server.name),
    };
    drafting.parts.finish(&[], map([("kind", "mcp".into()), (source.0, source.1.into())]))
}

struct Drafting<'a> {
    server: &'a Server<'a>,
    parts: Parts<'a>,
    things: Things,
}

/// Where a method belongs, and what it gives.
struct Method {
    entity: String,
    name: String,
    kind: &'static str,
    /// What the tool calls the identity that it is called on, and the field that holds it.
    key: Option<(String, String)>,
    gives: (&'static str, &'static str),
}

/// What a tool takes, as a catalog says it.
struct Args {
    args: Vec<(String, Sheet)>,
    /// What is sent: the tool's name of each, and `args.…`.
    sent: Vec<(String, Sheet)>,
    /// About how much of them is taught.
    taught: usize,
}

impl Drafting<'_> {
    /// Drafts a tool that lists things; false: it is none.
    fn listed(&mut self, tool: &Json) -> bool {
        let (Some(name), output) = (tool["name"].as_str(), &tool["outputSchema"]) else { return false };
        tool["annotations"]["readOnlyHint"] == true && self.query(name, tool, Schema::new(output, output))
    }

    fn tool(&mut self, tool: &Json) {
        let Some(name) = tool["name"].as_str() else { return };
        let output = &tool["outputSchema"];
        let output = Schema::new(output, output);
        let fields = fields_of(output).0;
        match self.things.of(name, tool, &fields, &self.parts.entities) {
            Some(found) => self.method_of_a_thing(name, tool, found, !fields.is_empty()),
            None if fields.is_empty() => self.method_of_the_server(name, tool),
            None => self.method_alone(name, tool, output, fields),
        }
    }

    fn method_of_a_thing(&mut self, name: &str, tool: &Json, found: Found, row: bool) {
        let Entity { name: entity, key, .. } = &self.parts.entities[found.at];
        let (entity, key) = (entity.clone(), found.key.map(|wire| (wire, key[0].clone())));
        if !found.gets {
            let kind = if key.is_some() { "action" } else { "create" };
            let gives = if row { ("row", "structured") } else { ("ack", "text") };
            return self.method(name, tool, Method { entity, name: found.method, kind, key, gives });
        }
        let sent = key.map(|(wire, field)| (wire, format!("key.{field}").into()));
        let id = self.parts.ids.name(name, "tool");
        let operation = some([
            ("kind", Some("get".into())),
            ("entity", Some(entity.into())),
            ("about", about(tool).map(Into::into)),
            (
                "mcp",
                Some(map([("tool", name.into()), ("arguments", map(sent)), ("row", "structured".into())])),
            ),
        ]);
        self.parts.operations.push((id, operation));
    }

    /// A tool that only reads and gives one list of things that have an identity.
    fn query(&mut self, name: &str, tool: &Json, output: Schema<'_>) -> bool {
        let lists = output.properties();
        let mut lists = lists.iter().filter_map(|(list, of)| Some((list, output.to(of).rows()?)));
        let (Some((list, rows)), None) = (lists.next(), lists.next()) else { return false };
        let Some(wire) = key_of(rows, &named::singular(list)).filter(|_| can_be_located(list)) else {
            return false;
        };
        let (fields, wires) = fields_of(rows);
        let Some(key) = wires.iter().position(|one| *one == wire).map(|at| fields[at].0.clone()) else {
            return false;
        };
        let input = &tool["inputSchema"];
        let takes = Schema::new(input, input);
        let cursor = cursor_of(takes, output);
        let size = cursor.as_ref().and_then(|_| size_of(takes));
        let about = about(tool);
        let wanted = named::pascal(&named::singular(list));
        let is_same =
            |have: &Entity| have.name == wanted && have.key == [key.clone()] && have.fields == fields;
        let same = self.parts.entities.iter().position(is_same).filter(|at| self.things.has(*at));
        let at = match same {
            Some(at) => at,
            None => {
                let entity = self.parts.taken.entity(&wanted);
                let about = prose(rows.at["description"].as_str().unwrap_or_default(), LONGEST)
                    .or_else(|| about.clone());
                let relations = Vec::new();
                let entity = Entity { name: entity, about, key: vec![key], fields, relations };
                self.things.add(self.parts.entities.len(), &entity, &named::singular(list), &wire);
                self.parts.entities.push(entity);
                self.parts.entities.len() - 1
            }
        };
        let words = words_of(takes).filter(|_| self.things.first_search(at));
        let cursors = cursor.iter().map(|(send, _)| send).chain(size.iter().map(|(send, _)| send));
        let ours: Vec<&str> = cursors.chain(&words).map(String::as_str).collect();
        let mut args = args(input, &ours);
        args.sent.extend(words.iter().map(|words| (words.clone(), "text".into())));
        let entity = self.parts.entities[at].name.clone();
        let pages = cursor.map(|(send, take)| {
            some([
                ("style", Some("cursor".into())),
                ("send", Some(send.into())),
                ("take", Some(format!("structured.{take}").into())),
                ("size", size.as_ref().and_then(|(_, most)| *most).map(Into::into)),
                ("size_param", size.map(|(send, _)| send.into())),
            ])
        });
        let returns = map([("coverage", if pages.is_some() { "exhaustive" } else { "unknown" }.into())]);
        let mapping = map([
            ("tool", name.into()),
            ("arguments", map(args.sent)),
            ("rows", format!("structured.{list}.*").into()),
        ]);
        let id = self.parts.ids.name(name, "tool");
        let operation = some([
            ("kind", Some(if words.is_some() { "search" } else { "query" }.into())),
            ("entity", Some(entity.into())),
            ("about", about.map(Into::into)),
            ("text", words.map(Into::into)),
            ("args", (!args.args.is_empty()).then(|| map(args.args))),
            ("returns", Some(returns)),
            ("mcp", Some(mapping)),
            ("pages", pages),
        ]);
        self.parts.operations.push((id, operation));
        true
    }

    /// A tool that says what it gives: an entity of which there is one, with that tool for its method.
    fn method_alone(&mut self, name: &str, tool: &Json, output: Schema<'_>, fields: Vec<(String, Sheet)>) {
        let entity = self.parts.taken.entity(name);
        let mut methods = Taken::default();
        fields.iter().for_each(|(field, _)| drop(methods.name(field, "value")));
        let method = match methods.has(name) {
            true => methods.name(&format!("{name}_tool"), "tool"),
            false => methods.name(name, "tool"),
        };
        let about =
            prose(output.at["description"].as_str().unwrap_or_default(), LONGEST).or_else(|| about(tool));
        let (key, relations) = (Vec::new(), Vec::new());
        self.parts.entities.push(Entity { name: entity.clone(), about, key, fields, relations });
        let gives = ("row", "structured");
        self.method(name, tool, Method { entity, name: method, kind: "action", key: None, gives });
    }

    fn method_of_the_server(&mut self, name: &str, tool: &Json) {
        let taught = 80 + name.len() + args(&tool["inputSchema"], &[]).taught;
        let (entity, method) = self.parts.own(name, taught);
        let gives = ("ack", "text");
        self.method(name, tool, Method { entity, name: method, kind: "action", key: None, gives });
    }

    fn method(&mut self, name: &str, tool: &Json, method: Method) {
        let Method { entity, name: method, kind, key, gives } = method;
        let ours: Vec<&str> = key.iter().map(|(wire, _)| wire.as_str()).collect();
        let mut args = args(&tool["inputSchema"], &ours);
        args.sent.extend(key.map(|(wire, field)| (wire, format!("key.{field}").into())));
        let (class, idempotent) = effect(tool);
        let id = self.parts.ids.name(name, "tool");
        let enabled = class == "read" || self.server.writes;
        let mapping = map([("tool", name.into()), ("arguments", map(args.sent)), (gives.0, gives.1.into())]);
        let operation = some([
            ("kind", Some(kind.into())),
            ("entity", Some(entity.into())),
            ("name", (method != id).then(|| method.into())),
            ("about", about(tool).map(Into::into)),
            ("args", (!args.args.is_empty()).then(|| map(args.args))),
            (
                "effect",
                Some(some([("class", Some(class.into())), ("idempotent", idempotent.then(|| true.into()))])),
            ),
            ("enabled", (!enabled).then(|| false.into())),
            ("mcp", Some(mapping)),
        ]);
        if !enabled {
            self.parts
                .notes
                .push(format!("{id}: disabled until somebody has looked at its effect ({class})"));
        }
        self.parts.operations.push((id, operation));
    }
}

fn about(tool: &Json) -> Option<String> {
    let said = [&tool["description"], &tool["title"], &tool["annotations"]["title"]];
    said.into_iter().find_map(|text| prose(text.as_str()?, LONGEST))
}

/// The class of a tool's effect and whether it is idempotent, as its annotations say. A tool that says nothing of itself writes;
/// one that says that it does not only read takes away unless it denies that (the specification's default).
fn effect(tool: &Json) -> (&'static str, bool) {
    let hints = &tool["annotations"];
    let class = match (hints["readOnlyHint"].as_bool(), hints["destructiveHint"].as_bool()) {
        (Some(true), _) => "read",
        (_, Some(true)) | (Some(false), None) => "destructive",
        (_, Some(false)) | (None, None) => "write",
    };
    (class, class != "read" && hints["idempotentHint"] == true)
}

/// The arguments of a tool but those that are not a program's to give.
fn args(input: &Json, but: &[&str]) -> Args {
    let input = Schema::new(input, input);
    let mut found = Args { args: Vec::new(), sent: Vec::new(), taught: 0 };
    let (mut taken, required) = (Taken::default(), input.required());
    for (wire, raw) in input.properties().into_iter().filter(|(wire, _)| !but.contains(&wire.as_str())) {
        let of = input.to(raw);
        let name = taken.name(&wire, "value");
        let need = required.contains(&*wire).then_some("required");
        let sheet = schema::argument(of, raw, need, (name != wire).then_some(wire.as_str()));
        found.taught += name.len() + 24;
        found.sent.push((wire, format!("args.{name}").into()));
        found.args.push((name, sheet));
    }
    found
}

/// How many rows a page has: the argument that takes it, and the most that it may say.
fn size_of(input: Schema<'_>) -> Option<(String, Option<u64>)> {
    let names =
        ["page_size", "pageSize", "per_page", "perPage", "limit", "max_results", "maxResults", "first"];
    names.into_iter().find_map(|name| {
        let of = input.property(name).filter(|_| !input.requires(name))?;
        let counts = matches!(of.kind(), Some("integer" | "number"));
        counts.then(|| (name.to_owned(), of.at["maximum"].as_u64().filter(|most| *most > 0)))
    })
}

/// The one argument that is needed, where that is the words of a search.
fn words_of(input: Schema<'_>) -> Option<String> {
    let named = input.properties().into_iter().map(|(name, _)| name);
    let needed: Vec<String> = named.filter(|name| input.requires(name)).collect();
    let [only] = needed.as_slice() else { return None };
    let words = matches!(only.as_str(), "query" | "q" | "text" | "search" | "keywords" | "words" | "term");
    (words && input.property(only)?.kind() == Some("string")).then(|| only.clone())
}

/// How a list is gone on with: the argument that takes a cursor, and where the next one lies.
fn cursor_of(input: Schema<'_>, output: Schema<'_>) -> Option<(String, String)> {
    let send = ["cursor", "page_token", "pageToken", "after"].into_iter().find(|name| {
        input.property(name).is_some_and(|of| of.kind() == Some("string")) && !input.requires(name)
    })?;
    let take = ["nextCursor", "next_cursor", "nextPageToken", "next_page_token", "cursor"]
        .into_iter()
        .find(|name| output.property(name).is_some_and(|of| of.kind() == Some("string")))?;
    Some((send.to_owned(), take.to_owned()))
}
