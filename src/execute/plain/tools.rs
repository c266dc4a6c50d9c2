//! A tool for each operation: its name, what it takes and gives, and what it does to the world.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Map, Value as Json, json};

use super::values::{self, Slot};
use crate::execute::{
    canonical,
    catalog::{Catalog, Catalogs, EffectClass, Entity, Kind, Need, Op, Operation},
    surface::{annotations, output},
};

/// Longest name of a tool (2025-11-25 tools, *Tool Names* allows 128; many hosts take 64).
const LONGEST_NAME: usize = 64;
/// Rows that a list gives where the call does not say, and the most that it may ask for.
pub(super) const ROWS: u64 = 50;
pub(super) const MOST_ROWS: u64 = 1_000;

/// What stands for a parameter of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Param {
    /// A part of the key.
    Key(String),
    Arg(String),
    /// The words of a search.
    Text,
    Limit,
    /// Where a list goes on.
    Cursor,
}

#[derive(Clone, Debug)]
pub(super) struct Given {
    pub name: String,
    pub is: Param,
    pub needed: bool,
    pub slot: Slot,
}

/// One operation as a tool.
#[derive(Clone, Debug)]
pub(super) struct Tool {
    pub name: Arc<str>,
    pub api: String,
    pub digest: String,
    pub operation: String,
    pub takes: Vec<Given>,
    pub definition: Json,
}

/// The tools of all operations that are enabled, in the order of catalogs and files.
pub(super) fn of(catalogs: &Catalogs) -> Vec<Tool> {
    let (mut names, mut tools) = (BTreeSet::new(), Vec::new());
    for (_, loaded) in catalogs.iter() {
        for (id, operation) in loaded.catalog.operations.iter().filter(|(_, one)| one.enabled) {
            let Some(entity) = loaded.catalog.entity(&operation.entity) else { continue };
            let plain = plain(&loaded.catalog, operation, id);
            let name = match names.contains(&plain) {
                // Of two of a kind the later is called by its own id.
                true => fitted(&format!("{}__{}_{id}", loaded.catalog.id, operation.entity)),
                false => plain,
            };
            if !names.insert(name.clone()) {
                continue;
            }
            let takes = takes(&loaded.catalog, entity, operation);
            let definition = definition(&name, &loaded.catalog, entity, operation, &takes);
            tools.push(Tool {
                name: name.into(),
                api: loaded.catalog.id.clone(),
                digest: loaded.digest.clone(),
                operation: id.to_owned(),
                takes,
                definition,
            });
        }
    }
    tools
}

fn plain(catalog: &Catalog, operation: &Operation, id: &str) -> String {
    let verb = match operation.kind {
        Kind::Get => "get",
        Kind::Query => "list",
        Kind::Search => "search",
        _ => operation.name.as_deref().unwrap_or(id),
    };
    fitted(&format!("{}__{}_{verb}", catalog.id, operation.entity))
}

/// A name that is short enough: of a longer one its beginning, and a digest of all of it.
fn fitted(name: &str) -> String {
    let plain: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    match plain.len() > LONGEST_NAME {
        true => format!("{}_{}", &plain[..LONGEST_NAME - 9], &canonical::sha256(&json!(plain))[..8]),
        false => plain,
    }
}

fn takes(catalog: &Catalog, entity: &Entity, operation: &Operation) -> Vec<Given> {
    let mut takes = Vec::new();
    let is_arg = |name: &str| operation.args.get(name).is_some();
    let keyed = matches!(operation.kind, Kind::Get | Kind::Update | Kind::Delete | Kind::Action);
    for part in entity.key.iter().filter(|_| keyed) {
        let Some(field) = entity.fields.get(part) else { continue };
        let name = if is_arg(part) { format!("key_{part}") } else { part.clone() };
        let slot = Slot::of(catalog, &field.holds, field.about.as_deref());
        takes.push(Given { name, is: Param::Key(part.clone()), needed: true, slot });
    }
    for (name, arg) in operation.args.iter() {
        let mut slot = Slot::of(catalog, &arg.holds, arg.about.as_deref());
        let (one, many) = (arg.ops.first().filter(|op| **op != Op::Eq), arg.ops.contains(&Op::In));
        slot.many = many;
        // What a value is compared by, where that is not equality: `since` of a field.
        slot.by = one.filter(|op| **op != Op::In && arg.ops.len() == 1).map(|op| op.text());
        let needed = arg.need != Need::Optional;
        takes.push(Given { name: name.to_owned(), is: Param::Arg(name.to_owned()), needed, slot });
    }
    let free = |names: [&str; 2]| names.into_iter().find(|name| !is_arg(name)).unwrap_or(names[1]).to_owned();
    if operation.kind == Kind::Search {
        let slot = Slot::text("What to look for.");
        takes.push(Given { name: free(["query", "search_words"]), is: Param::Text, needed: true, slot });
    }
    if matches!(operation.kind, Kind::Query | Kind::Search) {
        let slot = Slot::number(1, MOST_ROWS, &format!("Rows at most; {ROWS} where it is left out."));
        takes.push(Given { name: free(["limit", "most_rows"]), is: Param::Limit, needed: false, slot });
        let slot = Slot::text("Where to go on: next of an earlier answer to the same arguments.");
        takes.push(Given { name: free(["cursor", "next_cursor"]), is: Param::Cursor, needed: false, slot });
    }
    takes
}

fn definition(
    name: &str,
    catalog: &Catalog,
    entity: &Entity,
    operation: &Operation,
    takes: &[Given],
) -> Json {
    let mut properties = Map::new();
    for given in takes {
        properties.insert(given.name.clone(), given.slot.schema());
    }
    let needed: Vec<&str> =
        takes.iter().filter(|given| given.needed).map(|given| given.name.as_str()).collect();
    let mut input = json!({"type": "object", "properties": properties, "additionalProperties": false});
    if !needed.is_empty() {
        input["required"] = json!(needed);
    }
    let class = match operation.kind.is_read() {
        true => EffectClass::Read,
        false => operation.effect.as_ref().map_or(EffectClass::Write, |effect| effect.class),
    };
    let reads = class == EffectClass::Read;
    let idempotent = reads || operation.effect.as_ref().is_some_and(|effect| effect.idempotent);
    let title = title(catalog, operation, name);
    json!({
        "name": name,
        "title": title,
        "description": description(catalog, entity, operation, class),
        "inputSchema": input,
        "outputSchema": output(results(catalog, entity, operation)),
        "annotations": annotations(&title, reads, class == EffectClass::Destructive, idempotent, true),
    })
}

fn title(catalog: &Catalog, operation: &Operation, name: &str) -> String {
    let verb = name.rsplit_once(&format!("{}_", operation.entity)).map_or(name, |(_, verb)| verb);
    let short: String = catalog.title.chars().take(40).collect();
    format!("{short}: {} {}", operation.entity, verb.replace('_', " "))
}

fn description(catalog: &Catalog, entity: &Entity, operation: &Operation, class: EffectClass) -> String {
    let what = match operation.kind {
        Kind::Get => format!("Reads one {} by its key.", operation.entity),
        Kind::Query => format!("Lists rows of {}.", operation.entity),
        Kind::Search => format!("Finds rows of {} by words.", operation.entity),
        _ if class == EffectClass::Read => {
            format!("Asks something of {}; it changes nothing.", operation.entity)
        }
        _ => format!("Changes {}.", operation.entity),
    };
    let said = operation.about.as_deref().or(entity.about.as_deref()).map(str::trim).unwrap_or_default();
    let stop = if said.is_empty() || said.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{said}{stop} {what} ({})", catalog.title).trim().to_owned()
}

/// What comes back, as far as is known: fields that the operation returns.
fn results(catalog: &Catalog, entity: &Entity, operation: &Operation) -> Json {
    let mut fields = Map::new();
    for (name, field) in entity.fields.iter() {
        let is_key = entity.key.iter().any(|part| part == name);
        if is_key || operation.returns(name) {
            let mut schema = values::schema(catalog, &field.holds);
            // What a source gives that is not of its type is given as it came: a type is said, not promised.
            schema = json!({"description": values::worded(&schema, field.nullable, field.about.as_deref())});
            fields.insert(name.to_owned(), schema);
        }
    }
    let row = json!({"type": "object", "properties": fields});
    json!({
        "rows": {"type": "array", "items": row},
        "next": {"type": "string", "description": "There is more: give it as the cursor."},
        "coverage": {"enum": ["complete", "partial", "unknown"], "description": "Whether the rows are all there are."},
        "warnings": {"type": "array", "items": {"type": "string"}},
    })
}
