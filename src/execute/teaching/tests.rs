use std::path::{Path, PathBuf};

use super::*;
use crate::execute::{
    catalog::{Catalogs, load_folder, read},
    language::check,
    symbols::Seed,
};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language").join(name)
}

fn seeds(file: &str) -> Vec<Seed> {
    let session: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder(file)).unwrap()).unwrap();
    serde_json::from_value(session["seeds"].clone()).unwrap()
}

fn catalogs() -> Catalogs {
    let mut all = load_folder(&folder("catalogs")).unwrap();
    for (_, loaded) in load_folder(&folder("more")).unwrap().iter() {
        all.add(loaded.clone());
    }
    all
}

/// A catalog of that many entities, each with enough to be described at length.
fn wide(entities: usize, fields: usize) -> Scope {
    use std::fmt::Write as _;
    let mut text = "catalog: wide\nrevision: 1\ntitle: w\nsource: {kind: http, base_url: https://w.example}\nentities:\n".to_owned();
    let mut operations = "operations:\n".to_owned();
    for entity in 0..entities {
        let _ = write!(
            text,
            "  Thing_{entity}:\n    about: {}\n    key: [id]\n    fields:\n      id: string\n",
            "much to say ".repeat(20)
        );
        for field in 0..fields {
            let _ = writeln!(text, "      some_field_{field}: int");
        }
        let _ = writeln!(
            operations,
            "  list_{entity}: {{kind: query, entity: Thing_{entity}, http: {{send: GET /{entity}, rows: $.*}}}}"
        );
        let _ = writeln!(
            operations,
            "  get_{entity}: {{kind: get, entity: Thing_{entity}, http: {{send: \"GET /{entity}/{{key.id}}\", row: $}}}}"
        );
    }
    let loaded = read(&(text + &operations), Path::new("wide.yaml")).unwrap();
    let seeds: Vec<Seed> = (0..entities)
        .map(|entity| Seed { api: "wide".to_owned(), entity: format!("Thing_{entity}") })
        .collect();
    let mut catalogs = Catalogs::default();
    catalogs.add(loaded);
    Scope::of_seeds(&seeds, &catalogs).unwrap()
}

#[test]
fn the_table_of_the_corpus_stands_in_its_file() {
    let scope = Scope::of_seeds(&seeds("session.json"), &catalogs()).unwrap();
    let found = table(&scope, &Ledger::default()).unwrap();
    let file = folder("teaching.tsv");
    if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
        std::fs::write(&file, &found).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap(), found, "if that is meant, run again with UPDATE=1");
}

#[test]
fn every_expression_that_is_taught_is_a_program() {
    let mut ledger = Ledger::default();
    ledger.extend(&seeds("session.json"), &catalogs()).unwrap();
    ledger.extend(&seeds("more/session.json"), &catalogs()).unwrap();
    let scope = Scope::new(ledger, &catalogs()).unwrap();
    let text = table(&scope, &Ledger::default()).unwrap();
    let programs =
        text.lines().filter_map(|row| row.split_once('\t')).filter(|(left, _)| left.starts_with('e'));
    let mut taught = 0;
    for (program, _) in programs {
        if let Err(error) = check(program, &scope) {
            panic!("{}", error.render(program));
        }
        taught += 1;
    }
    assert!(taught > 25, "{taught}");
}

#[test]
fn a_wave_teaches_only_what_it_adds() {
    let mut ledger = Ledger::default();
    let seed = |api: &str, entity: &str| Seed { api: api.to_owned(), entity: entity.to_owned() };
    ledger.extend(&[seed("tracker", "Issue")], &catalogs()).unwrap();
    let before = ledger.clone();
    ledger.extend(&[seed("tracker", "Label")], &catalogs()).unwrap();
    let scope = Scope::new(ledger.clone(), &catalogs()).unwrap();
    let text = table(&scope, &before).unwrap();
    let left: Vec<&str> = text.lines().map(|row| row.split('\t').next().unwrap()).collect();
    assert_eq!(left, ["e1(\"…\").r1", "e2(\"…\")[name, color]"]);
    assert_eq!(table(&scope, &ledger).unwrap(), "", "nothing is new");
}

#[test]
fn a_table_is_bounded_whatever_is_seeded() {
    let text = table(&wide(64, 8), &Ledger::default()).unwrap();
    assert!(text.len() <= LARGEST && !text.contains("much to say"), "{}", text.len());
    let error = table(&wide(64, 40), &Ledger::default()).unwrap_err();
    assert!(error.bytes > LARGEST);
}

#[test]
fn what_an_argument_may_be_is_taught_once_and_with_the_form_of_what_has_no_type() {
    let text = "catalog: desk\nrevision: 1\ntitle: D\nsource: {kind: http, base_url: https://d.example}\nentities:\n  Desk: {key: [], fields: {}}\noperations:\n\
                \x20 file:\n    kind: action\n    entity: Desk\n    about: Files it.\n    effect: {class: write}\n    http: {send: POST /}\n    args:\n\
                \x20     level: {base: enum, values: [low, high], need: required}\n\
                \x20     lines: {type: json, need: required, about: '[{text, size?}]: what it says'}\n\
                \x20     copies: {type: int, need: optional}\n";
    let mut catalogs = Catalogs::default();
    catalogs.add(read(text, Path::new("desk.yaml")).unwrap());
    let scope = Scope::of_seeds(&[Seed { api: "desk".to_owned(), entity: "Desk".to_owned() }], &catalogs);
    let table = table(&scope.unwrap(), &Ledger::default()).unwrap();
    assert_eq!(
        table.lines().nth(1).unwrap(),
        "e1.m1(level = \"low\", lines = {})\tfile: Files it; where: level low|high, lines [{text, size?}]: what it says; optional: copies int; writes"
    );
}
