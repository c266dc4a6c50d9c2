use std::path::Path;

use super::*;

const TRACKER: &str = include_str!("../../../tests/language/catalogs/tracker.yaml");

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/catalogs")
}

fn problems(text: &str) -> Vec<String> {
    match read(text, Path::new("t.yaml")) {
        Ok(loaded) => loaded.warnings.iter().map(|warning| format!("warning: {warning}")).collect(),
        Err(CatalogError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// The tracker with one part of its text replaced, which must be there.
fn but(old: &str, new: &str) -> Vec<String> {
    assert!(TRACKER.contains(old), "{old}");
    problems(&TRACKER.replacen(old, new, 1))
}

#[test]
fn the_three_kinds_of_source_load_without_a_word() {
    let catalogs = load_folder(&folder()).unwrap();
    let kinds: Vec<_> = catalogs.iter().map(|(id, one)| (id, one.catalog.source.kind())).collect();
    assert_eq!(kinds, [("notes", "mcp"), ("pokeapi", "http"), ("tracker", "http")]);
    for (id, loaded) in catalogs.iter() {
        assert_eq!(loaded.warnings, [], "{id}");
    }
}

#[test]
fn methods_are_what_does_something_in_file_order() {
    let loaded = read(TRACKER, Path::new("t.yaml")).unwrap();
    let names: Vec<_> = loaded.catalog.methods("Issue").map(|(name, id, _)| (name, id)).collect();
    assert_eq!(names, [("create", "issue_create"), ("update", "issue_update"), ("delete", "issue_delete")]);
}

#[test]
fn a_digest_depends_on_what_is_said_and_not_on_how() {
    let digest = |text: &str| read(text, Path::new("t.yaml")).unwrap().digest;
    let original = digest(TRACKER);
    assert_eq!(original.len(), 64);
    assert_eq!(digest(&format!("# a comment\n{TRACKER}")), original);
    assert_eq!(digest(&TRACKER.replace("key: [name]", "key:\n      - name")), original);
    assert_ne!(digest(&TRACKER.replace("revision: 4", "revision: 5")), original);
}

#[test]
fn what_is_wrong_is_said_with_its_place_and_its_key() {
    let cases = [
        (
            "revision: 4",
            "revsion: 4",
            "t.yaml:2:1: revsion: unknown key \"revsion\"; did you mean \"revision\"?; there are catalog, ",
        ),
        (
            "score: int",
            "score: integer",
            "t.yaml:27:7: entities.Issue.fields.score: there is no type \"integer\"; did you mean \"int\"?",
        ),
        (
            "color: string",
            "color: {type: string, nulable: true}",
            "t.yaml:35:50: entities.Label.fields.color.nulable: unknown key \"nulable\"; did you mean \"nullable\"?",
        ),
        (
            "color: string",
            "color: {type: string, ref: Issue}",
            "t.yaml:35:35: entities.Label.fields.color: expected exactly one of type, ref and base",
        ),
        (
            "many: true, query: issue_list",
            "many: true, query: issue_lst",
            "t.yaml:18:39: entities.Project.relations.issues.query: there is no operation \"issue_lst\"; did you mean \"issue_list\"?",
        ),
        (
            "class: destructive",
            "class: destroys",
            "t.yaml:84:21: operations.issue_delete.effect.class: unknown word \"destroys\"; there are read, write, destructive",
        ),
    ];
    for (old, new, want) in cases {
        let found = but(old, new).join("\n");
        assert!(found.starts_with(want), "{found}");
    }
}

#[test]
fn the_lint_finds_what_would_mislead_or_fail() {
    let cases = [
        ("labels: {to: Label", "title: {to: Label", "title is a field and a relation"),
        ("score: int", "e7: int", "is a symbol"),
        ("score: int", "limit: int", "limit is a word of the language"),
        ("name: update", "name: filter", "filter is a word of the language"),
        (
            "{state: args.state, since",
            "{state: args.stat, since",
            "args.stat, which is not declared in args; did you mean \"state\"?",
        ),
        (
            "query: {state: args.state, ",
            "query: {",
            "warning: t.yaml:42:7: operations.issue_list.args.state: it is declared and never sent",
        ),
        ("    effect: {class: write, idempotent: true}\n", "", "missing effect"),
        (
            "GET /projects, rows",
            "\"GET https://other.example/projects\", rows",
            "other.example is outside the allowlist",
        ),
        (
            "  issue_get: {kind: get, entity: Issue, http: {send: \"GET /issues/{key.id}\", row: $.issue}}\n",
            "",
            "",
        ),
        (
            "  project_get: {kind: get",
            "  project_gut: {kind: get, enabled: false",
            "unreachable: Project has no get",
        ),
        ("secret: tracker_token", "secret: \"sk 1\"", "never its value"),
        ("catalog: tracker", "catalog: Tracker", "a letter of a-z"),
        (
            "base_url: https://tracker.example.com/api",
            "base_url: https://u:p@tracker.example.com",
            "without credentials",
        ),
        (
            "rows: $.items.*}\n    pages: {style: link}",
            "row: $.items}\n    pages: {style: link}",
            "say where they lie with rows",
        ),
        ("bind: {project: id}", "bind: {}", "issue_list needs project"),
        ("name: delete", "name: title\n    enabled: false", "title is a field and a method"),
        ("GET /projects, rows", "DELETE /projects, rows", "a query sends no DELETE: missing effect"),
        (
            "query: {state: args.state, ",
            "query: {after: args.state, state: args.state, ",
            "after is sent by the pages, and by the mapping too",
        ),
        (
            "  issue_list:\n    kind: query",
            "  issue_list:\n    enabled: false\n    kind: query",
            "entities.Project.relations.issues: unreachable: issue_list is not enabled",
        ),
        (
            "  Label:\n",
            "  Lost: {key: [id], fields: {id: string}}\n  Label:\n",
            "entities.Lost: unreachable: nothing reads or makes a Lost, and no relation leads to one",
        ),
        (
            "{scheme: bearer, secret: tracker_token}",
            "{scheme: client_credentials, token_url: file:///etc, client_id: i, secret: s}",
            "source.auth.token_url: expected an http:// or https:// address",
        ),
    ];
    for (old, new, want) in cases {
        let found = but(old, new).join("\n");
        assert!(if want.is_empty() { found.is_empty() } else { found.contains(want) }, "{new}: {found}");
    }
}

#[test]
fn variables_of_a_document_and_what_is_given_are_the_same() {
    let of = |document: &str, variables: &str, kind: &str| {
        problems(&format!(
            "catalog: g\nrevision: 1\ntitle: G\nsource: {{kind: graphql, url: \"https://g.example/graphql\"}}\n\
             entities: {{Tag: {{key: [name], fields: {{name: string}}}}}}\noperations:\n  tags:\n    kind: {kind}\n    entity: Tag\n    \
             args: {{color: {{type: string, need: required}}}}\n    \
             graphql: {{document: '{document}', variables: {variables}, rows: $.data.tags.*}}\n    \
             pages: {{style: relay, after: after, first: first, size: 5, info: $.data.info}}\n"
        ))
        .join("\n")
    };
    let good = "query($color: String!, $first: Int = 5, $after: String, $by: By = {a: [1]}) { tags(color: $color, other: $x) { name } }";
    assert_eq!(of(good, "{color: args.color}", "query"), "");
    let found = of(
        "query T($first: Int, $after: String, $size: Int!) { tags { name } }",
        "{color: args.color}",
        "query",
    );
    assert!(found.contains("$size is declared in the document and never given"), "{found}");
    assert!(found.contains("$color is given and not declared in the document"), "{found}");
    let found = of("mutation { tags { name } }", "{color: args.color}", "query");
    assert!(found.contains("a query sends no mutation: missing effect"), "{found}");
}

#[test]
fn two_files_may_not_have_one_id() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), TRACKER).unwrap();
    std::fs::write(folder.path().join("b.yml"), TRACKER).unwrap();
    let error = load_folder(folder.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("b.yml: catalog: another file of this folder has a catalog \"tracker\""),
        "{error}"
    );
}

#[test]
fn every_page_style_and_scheme_is_read() {
    let text = |pages: &str, auth: &str| {
        TRACKER.replace("{style: link}", pages).replace("{scheme: bearer, secret: tracker_token}", auth)
    };
    for pages in [
        "{style: none}",
        "{style: page, page: p, size: 5}",
        "{style: offset, offset: o, limit: l, size: 5}",
        "{style: cursor, send: after, take: $.next}",
        "{style: link, size: 5, size_param: n}",
        "{style: next_url, take: $.next}",
        "{style: relay, after: after, first: first, size: 5, info: $.data.items.pageInfo}",
    ] {
        assert_eq!(problems(&text(pages, "{scheme: none}")), Vec::<String>::new(), "{pages}");
    }
    for auth in [
        "{scheme: bearer, secret: s}",
        "{scheme: header, name: X-Key, secret: s}",
        "{scheme: query, name: key, secret: s}",
        "{scheme: basic, user: u, secret: s}",
        "{scheme: oauth2, connection: c, scopes: [a]}",
        "{scheme: client_credentials, token_url: \"https://a/token\", client_id: i, secret: s}",
    ] {
        assert_eq!(problems(&text("{style: link}", auth)), Vec::<String>::new(), "{auth}");
    }
}

#[test]
fn the_schema_describes_the_files() {
    let schema = schema();
    assert_eq!(schema["properties"]["catalog"]["pattern"], r"^[a-z][a-z0-9_-]{0,39}$");
    assert_eq!(schema["additionalProperties"], false);
}
