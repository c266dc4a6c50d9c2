//! A catalog from the tools that an MCP server lists. Lists of things with an identity become entities with queries; what
//! else says its result's form, an entity of its own with one method; the rest are methods of the server's own entity.

use serde_json::Value as Json;

use super::{
    Draft,
    named::{self, Taken, prose},
    parts::{Entity, Parts},
    schema::{self, Schema, can_be_located, fields_of, key_of},
    sheet::{Sheet, map, some},
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
    let mut drafting = Drafting { server, parts: Parts::new(server.name, server.title, ("Tools", "tool")) };
    tools.iter().for_each(|tool| drafting.tool(tool));
    let source = match server.url {
        Some(url) => ("url", url),
        None => ("upstream", server.name),
    };
    drafting.parts.finish(&[], map([("kind", "mcp".into()), (source.0, source.1.into())]))
}

struct Drafting<'a> {
    server: &'a Server<'a>,
    parts: Parts<'a>,
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
    fn tool(&mut self, tool: &Json) {
        let Some(name) = tool["name"].as_str() else { return };
        let output = &tool["outputSchema"];
        let output = Schema::new(output, output);
        if tool["annotations"]["readOnlyHint"] == true && self.query(name, tool, output) {
            return;
        }
        let fields = fields(output);
        if fields.is_empty() {
            self.method_of_the_server(name, tool)
        } else {
            self.method_alone(name, tool, output, fields)
        }
    }

    /// A tool that only reads and gives one list of things that have an identity.
    fn query(&mut self, name: &str, tool: &Json, output: Schema<'_>) -> bool {
        let lists = output.properties();
        let mut lists = lists.iter().filter_map(|(list, of)| Some((list, output.to(of).rows()?)));
        let (Some((list, rows)), None) = (lists.next(), lists.next()) else { return false };
        let Some(key) = key_of(rows, &named::singular(list)).filter(|_| can_be_located(list)) else {
            return false;
        };
        let (fields, wires) = fields_of(rows);
        let Some(key) = wires.iter().position(|wire| *wire == key).map(|at| fields[at].0.clone()) else {
            return false;
        };
        let input = &tool["inputSchema"];
        let cursor = cursor_of(Schema::new(input, input), output);
        let args = args(input, cursor.as_ref().map(|(send, _)| send.as_str()));
        let about = about(tool);
        let wanted = named::pascal(&named::singular(list));
        let same = self
            .parts
            .entities
            .iter()
            .find(|have| have.name == wanted && have.key == [key.clone()] && have.fields == fields);
        let entity = match same {
            Some(have) => have.name.clone(),
            None => {
                let entity = self.parts.taken.entity(&wanted);
                let about = prose(rows.at["description"].as_str().unwrap_or_default(), LONGEST)
                    .or_else(|| about.clone());
                let relations = Vec::new();
                self.parts.entities.push(Entity {
                    name: entity.clone(),
                    about,
                    key: vec![key],
                    fields,
                    relations,
                });
                entity
            }
        };
        let pages = cursor.map(|(send, take)| {
            map([
                ("style", "cursor".into()),
                ("send", send.into()),
                ("take", format!("structured.{take}").into()),
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
            ("kind", Some("query".into())),
            ("entity", Some(entity.into())),
            ("about", about.map(Into::into)),
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
        self.action(entity, method, name, tool, ("row", "structured"));
    }

    fn method_of_the_server(&mut self, name: &str, tool: &Json) {
        let taught = 80 + name.len() + args(&tool["inputSchema"], None).taught;
        let (entity, method) = self.parts.own(name, taught);
        self.action(entity, method, name, tool, ("ack", "text"));
    }

    fn action(
        &mut self,
        entity: String,
        method: String,
        name: &str,
        tool: &Json,
        gives: (&'static str, &str),
    ) {
        let args = args(&tool["inputSchema"], None);
        let (class, idempotent) = effect(tool);
        let id = self.parts.ids.name(name, "tool");
        let enabled = class == "read" || self.server.writes;
        let mapping = map([("tool", name.into()), ("arguments", map(args.sent)), (gives.0, gives.1.into())]);
        let operation = some([
            ("kind", Some("action".into())),
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

/// The arguments of a tool but one, which is the place of its pages.
fn args(input: &Json, but: Option<&str>) -> Args {
    let input = Schema::new(input, input);
    let mut found = Args { args: Vec::new(), sent: Vec::new(), taught: 0 };
    let (mut taken, required) = (Taken::default(), input.required());
    for (wire, raw) in input.properties().into_iter().filter(|(wire, _)| Some(wire.as_str()) != but) {
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

/// The fields of a result; none where it says nothing of its form.
fn fields(output: Schema<'_>) -> Vec<(String, Sheet)> {
    fields_of(output).0
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
