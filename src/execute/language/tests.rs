//! The corpora, and what stands in files beside programs: their trees, their errors. `UPDATE=1` writes those files anew.

use std::{collections::BTreeSet, path::PathBuf, sync::OnceLock};

use serde_json::Value as Json;

use super::*;
use crate::execute::{
    catalog::{Catalogs, load_folder},
    symbols::{Ledger, Scope, Seed},
};

mod properties;

fn folder(name: &str) -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language").join(name)
}

fn seeds(file: &str) -> Vec<Seed> {
    let session: Json = serde_json::from_str(&std::fs::read_to_string(folder(file)).unwrap()).unwrap();
    serde_json::from_value(session["seeds"].clone()).unwrap()
}

/// The session of the corpora.
fn session() -> &'static Scope {
    static SCOPE: OnceLock<Scope> = OnceLock::new();
    SCOPE.get_or_init(|| {
        Scope::of_seeds(&seeds("session.json"), &load_folder(&folder("catalogs")).unwrap()).unwrap()
    })
}

/// The same, and a second wave of seeds that moves none of its symbols.
fn scope() -> &'static Scope {
    static SCOPE: OnceLock<Scope> = OnceLock::new();
    SCOPE.get_or_init(|| {
        let mut catalogs = Catalogs::default();
        for name in ["catalogs", "more"] {
            for (_, loaded) in load_folder(&folder(name)).unwrap().iter() {
                assert!(catalogs.add(loaded.clone()) && loaded.warnings.is_empty(), "{:?}", loaded.warnings);
            }
        }
        let mut ledger = Ledger::default();
        ledger.extend(&seeds("session.json"), &catalogs).unwrap();
        ledger.extend(&seeds("more/session.json"), &catalogs).unwrap();
        Scope::new(ledger, &catalogs).unwrap()
    })
}

/// The lines of a corpus.
fn lines(name: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(folder(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Holds every program of a folder against the file beside it.
fn hold(name: &str, extension: &str, become_text: impl Fn(&str, &str) -> String) {
    let update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    let mut wrong = Vec::new();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "plasm"));
    files.sort();
    for file in files {
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let found = become_text(stem, &std::fs::read_to_string(&file).unwrap());
        let beside = file.with_extension(extension);
        if update {
            std::fs::write(&beside, &found).unwrap();
        } else if std::fs::read_to_string(&beside).unwrap_or_default() != found {
            wrong.push(format!("{}:\n{found}", beside.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nIf that is meant, run again with UPDATE=1", wrong.join("\n"));
}

#[test]
fn every_program_of_the_corpus_is_accepted() {
    for line in lines("accepted.jsonl") {
        let program = line["program"].as_str().unwrap();
        if let Err(error) = check(program, session()) {
            panic!("{}", error.render(program));
        }
    }
}

#[test]
fn every_faulty_program_of_the_corpus_is_rejected_with_its_code() {
    for line in lines("rejected.jsonl") {
        let (program, code) = (line["program"].as_str().unwrap(), line["code"].as_str().unwrap());
        let error = check(program, session()).expect_err(program);
        assert_eq!(error.code.text(), code, "{}", error.render(program));
    }
}

#[test]
fn the_gotchas_of_the_seed_documents_give_the_corrected_program() {
    let cases = [
        ("Type(name) | limit(3)", "Type | limit(3)[name]"),
        ("Type(name, id) | limit(3)", "Type | limit(3)[name, id]"),
        (
            "fire = Type | filter(name = \"fire\")\nfire(name, id)",
            "fire = Type | filter(name = \"fire\")\nfire[name, id]",
        ),
    ];
    for (program, want) in cases {
        assert_eq!(check(program, session()).unwrap_err().fix.as_deref(), Some(want));
    }
    // A filter's name after a dot: the relations are told by name and symbol.
    let error = check("issues = Project(\"p1\").issues\nissues.state", session()).unwrap_err();
    assert!(error.hint.contains(".labels (r4)"), "{}", error.hint);
}

#[test]
fn programs_have_the_trees_beside_them_and_are_accepted() {
    hold("trees", "yaml", |name, program| {
        if let Err(error) = check(program, scope()) {
            panic!("{name}: {}", error.render(program));
        }
        serde_saphyr::to_string(&parse(program).unwrap()).unwrap()
    });
}

#[test]
fn faulty_programs_have_the_errors_beside_them() {
    hold("errors", "txt", |name, program| match check(program, scope()) {
        Ok(_) => panic!("{name} is accepted"),
        Err(error) => {
            let code = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
            assert_eq!(error.code.text(), code, "{}", error.render(program));
            error.render(program)
        }
    });
}

#[test]
fn every_code_of_the_catalogue_has_a_program() {
    let names = std::fs::read_dir(folder("errors")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<String> = names
        .map(|name| name.into_string().unwrap())
        .map(|name| {
            name.split('.')
                .next()
                .unwrap()
                .trim_end_matches(|c: char| c.is_ascii_digit() || c == '_')
                .to_owned()
        })
        .collect();
    let missing: Vec<_> = Code::ALL.iter().filter(|code| !names.contains(code.text())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
