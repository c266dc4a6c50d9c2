use serde_json::json;

use super::*;
use crate::{
    execute::{
        language,
        symbols::{Ledger, Scope, Seed},
        teaching,
    },
    mcp::{Item, Kind, Listing},
    wire::{Raw, json as text},
};

fn listing(tools: serde_json::Value) -> Listing {
    let items = tools.as_array().unwrap().iter().map(|tool| {
        let body = Raw::of(tool);
        let members = text::lax_members(body.text(), 0).unwrap();
        let name_span = members.into_iter().find(|m| m.is("name")).unwrap().value;
        let name = body.string(&name_span).unwrap().into_owned().into();
        Item { name, body, name_span, headers: std::sync::Arc::new([]) }
    });
    Listing::new(Kind::Tool, items.collect())
}

fn drafted(tools: serde_json::Value) -> Draft {
    let server = Server { name: "notes", title: None, url: None, writes: true };
    of_tools(&server, &listing(tools)).unwrap_or_else(|error| panic!("{error}"))
}

/// Checks each expression that the teaching table of each entity has, and gives them all.
pub(super) fn taught(draft: &Draft) -> String {
    let mut catalogs = catalog::Catalogs::default();
    catalogs.add(draft.loaded.clone());
    let api = &draft.loaded.catalog.id;
    let mut all = String::new();
    for entity in draft.loaded.catalog.entities.keys() {
        let seed = Seed { api: api.clone(), entity: entity.to_owned() };
        let scope = Scope::of_seeds(&[seed], &catalogs).unwrap();
        let table = teaching::table(&scope, &Ledger::default()).unwrap();
        for row in table.lines().filter(|row| row.starts_with('e')) {
            let expression = row.split('\t').next().unwrap();
            if let Err(error) = language::check(expression, &scope) {
                panic!("{expression}: {}", error.render(expression));
            }
        }
        all += &table;
    }
    all
}

#[test]
fn a_list_of_things_is_a_query_a_result_of_some_form_an_entity_and_the_rest_are_methods() {
    let draft = drafted(json!([
        {
            "name": "list_notes", "description": "Notes of a folder.",
            "inputSchema": {"type": "object", "required": ["folder"], "properties": {
                "folder": {"type": "string"}, "cursor": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}}},
            "outputSchema": {"type": "object", "properties": {
                "notes": {"type": "array", "items": {"$ref": "#/$defs/Note"}}, "nextCursor": {"type": ["string", "null"]}},
                "$defs": {"Note": {"type": "object", "required": ["id"], "properties": {
                    "id": {"type": "string"}, "at": {"type": "string", "format": "date-time"}, "e1": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}}}},
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "weather", "inputSchema": {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]},
            "outputSchema": {"type": "object", "properties": {"weather": {"type": "string"}, "degrees": {"type": "number"}}},
            "annotations": {"readOnlyHint": true},
        },
        {"name": "wipe", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": false, "idempotentHint": true}},
        {"name": "add", "inputSchema": {"type": "object", "properties": {"tags": {"type": "array"}}, "required": ["tags"]}},
    ]));
    assert_eq!(draft.loaded.warnings, []);
    let table = taught(&draft);
    for want in [
        "e1 | filter(folder = \"…\")\tNote rows, all",
        "at datetime?, e1_value int?, id string",
        "city = \"Oslo\"",
        "destructive",
    ] {
        assert!(table.contains(want), "{want} is not in\n{table}\n{}", draft.yaml);
    }
    has_all(
        &draft.yaml,
        &[
            "send: cursor",
            "take: structured.nextCursor",
            "rows: structured.notes.*",
            "row: structured",
            "ack: text",
        ],
    );
}

fn has_all(yaml: &str, parts: &[&str]) {
    for part in parts {
        assert!(yaml.contains(part), "{part} is not in\n{yaml}");
    }
}

#[test]
fn names_that_cannot_be_written_or_collide_are_told_apart_and_sent_as_they_are() {
    let empty = json!({"type": "object"});
    let odd = json!({"type": "object", "required": ["a-b", "a.b", "limit", "7", "null"], "properties": {
        "a-b": {}, "a.b": {"type": "string"}, "limit": {"type": "integer"}, "7": {"type": "boolean"}, "null": {"type": "string"},
        "e1": {"type": "string", "description": "- a: {b}\n#c \u{7}"}}});
    let names = [
        "a-b",
        "a.b",
        "filter",
        "e1",
        "7up",
        "öl",
        "null",
        &"x".repeat(90),
        &"x".repeat(95),
        "notes",
        "Notes",
    ];
    let tools: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "inputSchema": if name.len() > 90 { &empty } else { &odd }}))
        .collect();
    let draft = drafted(json!(tools));
    assert_eq!(draft.loaded.warnings, []);
    taught(&draft);
    let catalog = &draft.loaded.catalog;
    let sent: Vec<&str> =
        catalog.operations.iter().map(|(_, one)| one.mcp.as_ref().unwrap().tool.as_str()).collect();
    assert_eq!(sent, names);
    let first = catalog.operations.iter().next().unwrap().1;
    let pairs: Vec<(&str, &str)> = first
        .mcp
        .iter()
        .flat_map(|to| to.arguments.iter())
        .map(|(wire, arg)| (wire, arg.as_str().unwrap()))
        .collect();
    assert_eq!(
        pairs,
        [
            ("7", "args.value_7"),
            ("a-b", "args.a_b"),
            ("a.b", "args.a_b_2"),
            ("e1", "args.e1_value"),
            ("limit", "args.limit_value"),
            ("null", "args.null_value")
        ]
    );
}

#[test]
fn the_same_tools_give_the_same_draft_and_hundreds_can_all_be_taught() {
    let tools: Vec<_> = (0..400)
        .map(|n| {
            let args: serde_json::Map<_, _> = (0..n % 9).map(|arg| (format!("argument_{arg}"), json!({"type": "string", "description": "What it is."}))).collect();
            json!({"name": format!("tool_number_{n}"), "description": "Does something that takes a while to tell. ".repeat(9), "inputSchema": {"type": "object", "properties": args}})
        })
        .collect();
    let (one, other) = (drafted(json!(tools)), drafted(json!(tools)));
    assert_eq!((&one.yaml, &one.loaded.digest), (&other.yaml, &other.loaded.digest));
    let table = taught(&one);
    assert_eq!(table.lines().filter(|row| row.contains(".m")).count(), 400);
    assert!(one.loaded.catalog.entities.len() > 1);
}

#[test]
fn a_draft_for_review_calls_nothing_that_may_write() {
    let server =
        Server { name: "notes", title: Some("Notes"), url: Some("https://notes.example/mcp"), writes: false };
    let tools = json!([{"name": "add", "inputSchema": {"type": "object"}}, {"name": "see", "annotations": {"readOnlyHint": true}, "inputSchema": {"type": "object"}}]);
    let draft = of_tools(&server, &listing(tools)).unwrap();
    let methods: Vec<&str> = draft.loaded.catalog.methods("Notes").map(|(name, _, _)| name).collect();
    assert_eq!(methods, ["see"]);
    assert_eq!(draft.notes, ["add: disabled until somebody has looked at its effect (write)"]);
    assert_eq!(drafted(json!([])).loaded.catalog.operations.len(), 0);
}

#[test]
fn tools_that_take_the_identity_of_a_listed_thing_are_its_own() {
    let note = json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "title": {"type": "string"}}});
    let list = json!({"type": "object", "properties": {"notes": {"type": "array", "items": note}, "next_cursor": {"type": "string"}}});
    let takes = |names: &[&str]| {
        let properties: serde_json::Map<_, _> =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": properties, "required": names})
    };
    let paged = json!({"type": "object", "required": ["query"], "properties": {
        "query": {"type": "string"}, "cursor": {"type": "string"}, "limit": {"type": "integer", "maximum": 50}}});
    let reads = json!({"readOnlyHint": true});
    let draft = drafted(json!([
        {"name": "delete_note", "inputSchema": takes(&["note_id"]), "annotations": {"destructiveHint": true}},
        {"name": "get_note", "inputSchema": takes(&["note_id"]), "outputSchema": note, "annotations": reads},
        {"name": "search_notes", "inputSchema": paged, "outputSchema": list, "annotations": reads},
        {"name": "list_notes", "inputSchema": {"type": "object"}, "outputSchema": list, "annotations": reads},
        {"name": "create_note", "inputSchema": takes(&["title"])},
        {"name": "export_notes", "inputSchema": {"type": "object", "properties": {"tags": {"type": "array", "items": {
            "type": "object", "properties": {"name": {"type": "string"}, "color": {"type": "string"}}, "required": ["name"]}}}}},
    ]));
    assert_eq!(draft.loaded.warnings, []);
    let names: Vec<&str> = draft.loaded.catalog.entities.keys().collect();
    assert_eq!(names, ["Note", "Notes"]);
    let table = taught(&draft);
    for want in [
        "e1(\"…\")\tone Note of notes by id",
        "e1\tNote rows, all",
        "e1 | search(\"…\")\tNote rows, by words",
        "e1(\"…\").m1()\tdelete_note; destructive",
        "e1.m2(title = \"…\")\tcreate_note; writes",
        "\texport_notes; optional: tags [{color?, name}]; writes",
    ] {
        assert!(table.contains(want), "{want} is not in\n{table}\n{}", draft.yaml);
    }
    has_all(&draft.yaml, &["note_id: key.id", "size_param: limit", "size: 50", "text: query", "query: text"]);
}
