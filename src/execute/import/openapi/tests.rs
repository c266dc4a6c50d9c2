//! Documents in tests/openapi beside the drafts that are made of them; `UPDATE=1` writes those anew.

use std::{path::PathBuf, sync::Mutex};

use futures_util::{FutureExt, future::BoxFuture};
use serde_json::json;

use super::*;
use crate::{
    execute::{
        catalog::{Catalogs, Kind},
        import::tests::taught,
        instant::Instant,
        language, plan, run,
        sources::{Ask, Page, SourceError, Sources},
        symbols::{Scope, Seed},
    },
    mcp::scripted,
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openapi").join(name)
}

fn of(text: &str, api: &Api<'_>) -> Result<Draft, OpenApiError> {
    of_openapi(text, Path::new("api.yaml"), api)
}

fn drafted(name: &str, api: &Api<'_>) -> Draft {
    of(&std::fs::read_to_string(file(name)).unwrap(), api).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A document with these paths.
fn document(paths: serde_json::Value) -> serde_json::Value {
    json!({"openapi": "3.0.3", "info": {"title": "Things"}, "servers": [{"url": "https://things.example"}], "paths": paths})
}

/// A GET that answers that.
fn get(schema: serde_json::Value) -> serde_json::Value {
    json!({"get": {"responses": {"200": {"content": {"application/json": {"schema": schema}}}}}})
}

#[test]
fn documents_become_the_drafts_that_stand_beside_them() {
    let update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    let from = Url::parse("https://petstore.example/api/v3/openapi.json").unwrap();
    for (name, api) in [
        ("forge.yaml", Api { name: Some("forge"), ..Api::default() }),
        ("petstore.json", Api { name: Some("petstore"), from: Some(&from), ..Api::default() }),
        ("ledger.yaml", Api::default()),
    ] {
        let draft = drafted(name, &api);
        assert_eq!(draft.loaded.warnings, [], "{name}");
        let beside = file(&format!("{}.catalog.yaml", name.split('.').next().unwrap()));
        if update {
            std::fs::write(&beside, &draft.yaml).unwrap();
        }
        let want = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(draft.yaml, want, "{name}: if that is meant, run again with UPDATE=1");
        assert_eq!(drafted(name, &api).yaml, draft.yaml);
        taught(&draft);
        // With all that writes confirmed it is a catalog still, and every line that it teaches a program.
        let confirmed = crate::execute::catalog::read(
            &draft.yaml.replace("enabled: false", "enabled: true"),
            Path::new("confirmed"),
        );
        let confirmed = Draft { loaded: confirmed.unwrap(), ..draft };
        assert_eq!(confirmed.loaded.warnings, [], "{name}");
        taught(&confirmed);
    }
}

#[test]
fn nothing_that_may_write_can_be_called_before_somebody_looked_at_it() {
    for name in ["forge.yaml", "ledger.yaml"] {
        let draft = drafted(name, &Api::default());
        let mut writes = 0;
        for (id, one) in draft.loaded.catalog.operations.iter() {
            let verb = one.http.as_ref().unwrap().send.split(' ').next().unwrap();
            assert_eq!(one.enabled, verb == "GET", "{id}");
            writes += usize::from(verb != "GET");
        }
        assert!(
            writes > 0 && draft.notes[0].starts_with(&format!("{writes} operations are disabled")),
            "{:?}",
            draft.notes
        );
    }
}

/// A source that knows one repository and two issues, which say neither owner nor repository.
#[derive(Default)]
struct Forge(Mutex<Vec<String>>);

impl Sources for Forge {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        self.0.lock().unwrap().push(format!("{} {} {}", ask.operation, json!(ask.key), json!(ask.args)));
        let rows = match &*ask.operation {
            "issues_list_for_repo" => vec![
                json!({"number": 1, "title": "a", "user": {"login": "ann"}}),
                json!({"number": 2, "title": "b", "user": null}),
            ],
            "issues_get" => vec![json!({"number": ask.key["issue_number"], "title": "whole"})],
            "users_get_by_username" => vec![json!({"login": ask.key["login"], "id": 7})],
            other => panic!("{other}"),
        };
        std::future::ready(Ok(Page { rows, ..Page::default() })).boxed()
    }
}

#[tokio::test]
async fn rows_of_a_list_have_the_part_of_their_key_that_the_list_was_asked_within() {
    let draft = drafted("forge.yaml", &Api { name: Some("forge"), ..Api::default() });
    let mut catalogs = Catalogs::default();
    catalogs.add(draft.loaded.clone());
    let seeds: Vec<Seed> = ["Issue", "Repository", "User"]
        .map(|entity| Seed { api: "forge".into(), entity: entity.into() })
        .into();
    let scope = Scope::of_seeds(&seeds, &catalogs).unwrap();
    let program =
        "i = Repository(owner = \"o\", name = \"r\").issues\ni[owner, repo, number], i.user[login, id]";
    let typed = language::check(program, &scope)
        .unwrap_or_else(|error| panic!("{}\n{}", error.render(program), draft.yaml));
    let now = Instant::parse("2026-11-30T12:00:00Z").unwrap();
    let plan = plan::plan(&typed, program, &scope, &catalogs, now).unwrap();
    let forge = std::sync::Arc::new(Forge::default());
    let settings = run::RunSettings::new("r".to_owned(), std::time::Duration::from_secs(60));
    let sources: std::sync::Arc<dyn Sources> = forge.clone();
    let finished =
        run::run(plan.into(), std::sync::Arc::new(catalogs), sources, scripted::caller(), settings).await;
    assert!(finished.failed.is_none(), "{:?}", finished.failed);
    let run::Shown::Rows { rows, .. } = &finished.roots[0].result else { panic!() };
    assert_eq!(json!(rows), json!([["o", "r", 1], ["o", "r", 2]]));
    assert_eq!(
        *forge.0.lock().unwrap(),
        [
            "issues_list_for_repo {} {\"owner\":\"o\",\"repo\":\"r\"}",
            "users_get_by_username {\"login\":\"ann\"} {}",
        ]
    );
}

#[test]
fn references_within_may_go_round_and_those_without_are_refused() {
    let node = json!({"type": "object", "required": ["id"], "properties": {
        "id": {"type": "string"}, "parent": {"$ref": "#/components/schemas/Node"}, "children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}}});
    let mut round = document(
        json!({"/nodes/{id}": get(json!({"$ref": "#/components/schemas/Node"})), "/loop/{id}": get(json!({"$ref": "#/components/schemas/Loop"})), "/void": get(json!({"$ref": "#/components/schemas/Void"}))}),
    );
    round["components"] = json!({"schemas": {"Node": node, "Loop": {"$ref": "#/components/schemas/Other"}, "Other": {"$ref": "#/components/schemas/Loop"},
        "Knot": {"allOf": [{"$ref": "#/components/schemas/Knot"}, {"$ref": "#/components/schemas/Node"}]}}});
    let draft = of(&round.to_string(), &Api::default()).unwrap();
    let relations: Vec<&str> = draft.loaded.catalog.entity("Node").unwrap().relations.keys().collect();
    assert_eq!(relations, ["children", "parent"]);
    assert!(
        draft
            .notes
            .iter()
            .any(|note| note.contains("#/components/schemas/Void: this reference leads nowhere")),
        "{:?}",
        draft.notes
    );
    assert!(draft.yaml.contains("leads nowhere"));
    round["components"]["schemas"]["Node"]["properties"]["far"] =
        json!({"$ref": "https://elsewhere.example/node.json#/Node"});
    // What is a value, or a property's name, refers to nothing.
    round["components"]["schemas"]["Node"]["example"] = json!({"$ref": "other.json"});
    let error = of(&round.to_string(), &Api::default()).unwrap_err();
    assert!(
        matches!(&error, OpenApiError::Outside(all) if *all == ["https://elsewhere.example/node.json#/Node"]),
        "{error}"
    );
}

#[test]
fn hostile_documents_end_soon_and_in_a_draft_or_an_error() {
    // Each refers to all others, and each is all others.
    let names: Vec<String> = (0..60).map(|n| format!("S{n}")).collect();
    let all: Vec<_> =
        names.iter().map(|name| json!({"$ref": format!("#/components/schemas/{name}")})).collect();
    let schemas: serde_json::Map<_, _> = names
        .iter()
        .map(|name| {
            let props: serde_json::Map<_, _> = names
                .iter()
                .map(|other| (other.clone(), json!({"$ref": format!("#/components/schemas/{other}")})))
                .collect();
            (name.clone(), json!({"allOf": all, "properties": props}))
        })
        .collect();
    let paths: serde_json::Map<_, _> = names
        .iter()
        .map(|name| (format!("/{name}/{{id}}"), get(json!({"$ref": format!("#/components/schemas/{name}")}))))
        .collect();
    let mut knot = document(paths.into());
    knot["components"] = json!({"schemas": schemas});
    assert_eq!(of(&knot.to_string(), &Api::default()).unwrap().loaded.catalog.entities.len(), 60);

    let many: serde_json::Map<_, _> =
        (0..1_501).map(|n| (format!("/p{n}"), get(json!({"type": "string"})))).collect();
    assert!(matches!(
        of(&document(many.into()).to_string(), &Api::default()),
        Err(OpenApiError::TooMany(1_501))
    ));
    let some = ["/p7".to_owned()];
    let many: serde_json::Map<_, _> =
        (0..1_501).map(|n| (format!("/p{n}"), get(json!({"type": "string"})))).collect();
    let within = Api { within: &some, ..Api::default() };
    assert_eq!(of(&document(many.into()).to_string(), &within).unwrap().loaded.catalog.operations.len(), 111);

    let props: serde_json::Map<_, _> =
        (0..5_000).map(|n| (format!("p {n}"), json!({"type": "string", "enum": vec!["x"; 100]}))).collect();
    let wide = json!({"type": "object", "properties": props});
    let wide = document(json!({"/wide/{id}": get(wide)}));
    assert!(of(&wide.to_string(), &Api::default()).is_ok());

    let deep = "{\"a\":".repeat(100_000);
    assert!(matches!(of(&deep, &Api::default()), Err(OpenApiError::NoJson(_))));
    let laughs = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\ne: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\ng: [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n";
    assert!(matches!(of(laughs, &Api::default()), Err(OpenApiError::Unreadable(_))));
    assert!(matches!(of(&" ".repeat(LARGEST + 1), &Api::default()), Err(OpenApiError::TooLarge)));
}

#[test]
fn words_of_a_document_stay_within_their_comment_and_their_text() {
    let mut odd = document(
        json!({"/a/{id}\n": get(json!({"type": "string"})), "/b": get(json!({"type": "object", "description": "x\nkey: [evil]", "properties": {"a: b\nc": {"type": "string"}, "limit": {"type": "string"}, "e1": {"type": "string"}}}))}),
    );
    odd["info"]["title"] = json!("Odd\ncatalog: evil");
    odd["info"]["version"] = json!("1\nrevision: 7");
    let draft = of(&odd.to_string(), &Api::default()).unwrap();
    assert_eq!((draft.loaded.catalog.id.as_str(), draft.loaded.catalog.revision), ("odd_catalog__evil", 1));
    let fields: Vec<&str> =
        draft.loaded.catalog.entities.iter().flat_map(|(_, one)| one.fields.keys()).collect();
    assert_eq!(fields, ["e1_value", "limit_value"]);
    assert!(draft.notes.iter().any(|note| note.starts_with("/a/{id} : left out")), "{:?}", draft.notes);
}

#[test]
fn what_is_no_document_of_a_known_version_or_has_no_server_is_told() {
    for (text, want) in [
        ("swagger: '2.0'", "Swagger 2.0"),
        ("openapi: 4.0.0", "version 4.0.0"),
        ("openapi: 3", "something else"),
        ("[]", "something else"),
        ("openapi: 3.0.0\npaths: {}", "--base-url"),
        ("openapi: 3.0.0\nservers: [{url: 'ftp://x.example'}]", "no http:// or https:// address"),
        ("openapi: 3.0.0\nservers: [{url: 'https://u:p@x.example'}]", "without credentials"),
        ("openapi: [", "api.yaml"),
        ("{", "no JSON"),
    ] {
        let error = of(text, &Api::default()).map(|draft| draft.yaml).unwrap_err().to_string();
        assert!(error.contains(want), "{text}: {error}");
    }
    let given = Api { base_url: Some("https://x.example/v1/"), ..Api::default() };
    let draft = of("openapi: 3.1.0\npaths: {}", &given).unwrap();
    assert_eq!(draft.loaded.catalog.source.url(), Some(("base_url", "https://x.example/v1")));
}

#[test]
fn pages_are_taken_by_what_a_document_shows_plainly() {
    let row = json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}});
    let list = json!({"type": "array", "items": row});
    let object = |more: serde_json::Value| {
        let mut of = json!({"type": "object", "properties": {"items": list}});
        of["properties"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        of
    };
    let int = |name: &str, bounds: serde_json::Value| {
        let mut schema = json!({"type": "integer"});
        schema.as_object_mut().unwrap().extend(bounds.as_object().unwrap().clone());
        json!({"name": name, "in": "query", "schema": schema})
    };
    let text = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    for (params, answer, want) in [
        (
            vec![int("page", json!({"minimum": 0})), int("per_page", json!({"maximum": 500}))],
            list.clone(),
            "style: page\n      page: page\n      start: 0\n      size: 100\n      size_param: per_page\n",
        ),
        (
            vec![int("offset", json!({})), int("limit", json!({"default": 20}))],
            list.clone(),
            "style: offset\n      offset: offset\n      limit: limit\n      size: 20\n",
        ),
        (
            vec![int("skip", json!({})), int("limit", json!({}))],
            object(json!({"has_more": {"type": "boolean"}})),
            "size: 50\n      more: $.has_more\n",
        ),
        (
            vec![text("page_token"), int("page_size", json!({}))],
            object(json!({"nextPageToken": {"type": "string"}})),
            "style: cursor\n      send: page_token\n      take: $.nextPageToken\n      size_param: page_size\n",
        ),
        (
            vec![text("after")],
            object(json!({"meta": {"type": "object", "properties": {"next_cursor": {"type": "string"}}}})),
            "take: $.meta.next_cursor\n",
        ),
        (
            vec![int("page", json!({}))],
            object(json!({"next": {"type": "string", "format": "uri", "nullable": true}})),
            "style: next_url\n      take: $.next\n",
        ),
        (vec![int("page", json!({}))], list.clone(), "coverage: unknown\n"),
        (vec![int("offset", json!({})), int("limit", json!({}))], list.clone(), "coverage: unknown\n"),
    ] {
        let mut paths = json!({"/rows": get(answer)});
        paths["/rows"]["get"]["parameters"] = json!(params);
        let draft = of(&document(paths).to_string(), &Api::default()).unwrap();
        assert!(draft.yaml.contains(want), "{want} is not in\n{}", draft.yaml);
        let query = draft.loaded.catalog.operation("Row", Kind::Query).unwrap().1;
        assert_eq!(draft.loaded.warnings, []);
        assert_eq!(query.args.len(), if want.starts_with("coverage") && params.len() == 1 { 1 } else { 0 });
    }
}
