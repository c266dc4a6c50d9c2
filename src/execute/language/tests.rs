use std::path::Path;

use serde_json::Value as Json;

use super::*;
use crate::execute::{
    catalog::load_folder,
    symbols::{Scope, Seed},
};

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language")
}

fn scope() -> Scope {
    let session: Json = serde_json::from_str(include_str!("../../../tests/language/session.json")).unwrap();
    let seeds: Vec<Seed> = serde_json::from_value(session["seeds"].clone()).unwrap();
    Scope::of_seeds(&seeds, &load_folder(&folder().join("catalogs")).unwrap()).unwrap()
}

/// The lines of a corpus.
fn lines(name: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_accepted_program_is_accepted() {
    let scope = scope();
    for line in lines("accepted.jsonl") {
        let program = line["program"].as_str().unwrap();
        if let Err(error) = check(program, &scope) {
            panic!("{}", error.render(program));
        }
    }
}

#[test]
fn every_rejected_program_is_rejected_with_its_code_and_its_correction_is_accepted() {
    let scope = scope();
    let mut wrong = Vec::new();
    for line in lines("rejected.jsonl") {
        let (program, code) = (line["program"].as_str().unwrap(), line["code"].as_str().unwrap());
        match check(program, &scope) {
            Ok(_) => wrong.push(format!("{program}: accepted, want {code}")),
            Err(error) if error.code.text() != code => {
                wrong.push(format!("want {code}: {}", error.render(program)));
            }
            Err(error) => {
                println!("{}", error.render(program));
                if let Some(fix) = &error.fix
                    && let Err(error) = check(fix, &scope)
                {
                    wrong.push(error.render(fix));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
