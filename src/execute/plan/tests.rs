use std::path::{Path, PathBuf};

use super::*;
use crate::execute::{catalog::load_folder, language::check, symbols::Seed};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language").join(name)
}

fn catalogs() -> Catalogs {
    load_folder(&folder("catalogs")).unwrap()
}

fn scope() -> Scope {
    let session: Json =
        serde_json::from_str(&std::fs::read_to_string(folder("session.json")).unwrap()).unwrap();
    let seeds: Vec<Seed> = serde_json::from_value(session["seeds"].clone()).unwrap();
    Scope::of_seeds(&seeds, &catalogs()).unwrap()
}

fn planned(program: &str) -> Plan {
    let scope = scope();
    let typed = check(program, &scope).unwrap_or_else(|error| panic!("{}", error.render(program)));
    let now = Instant::parse("2026-11-30T12:00:00Z").unwrap();
    plan(&typed, program, &scope, &catalogs(), now).unwrap()
}

fn programs(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder(name)).unwrap();
    let program =
        |line: &str| serde_json::from_str::<Json>(line).unwrap()["program"].as_str().unwrap().to_owned();
    text.lines().map(program).collect()
}

#[test]
fn programs_have_the_plans_beside_them() {
    let update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder("plans")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "plasm") {
            continue;
        }
        let found = lines(&planned(&std::fs::read_to_string(&file).unwrap()));
        let beside = file.with_extension("txt");
        if update {
            std::fs::write(&beside, &found).unwrap();
        } else if std::fs::read_to_string(&beside).unwrap_or_default() != found {
            wrong.push(format!("{}:\n{found}", beside.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nIf that is meant, run again with UPDATE=1", wrong.join("\n"));
}

#[test]
fn every_accepted_program_has_a_plan_whose_nodes_follow_what_they_need() {
    for program in programs("accepted.jsonl") {
        let plan = planned(&program);
        assert!(plan.is_ordered() && !plan.roots.is_empty(), "{program}");
        assert!(plan.nodes.iter().all(|node| node.bounds.rows <= MOST_ROWS), "{program}");
        assert!(!plan.catalogs.is_empty(), "{program}");
    }
}

#[test]
fn a_hash_tells_what_is_done_and_not_how_it_is_written() {
    let hash = planned("fire = Type | filter(name = \"fire\") | limit(2)\nfire").hash();
    assert_eq!(hash.len(), 64);
    assert_eq!(planned("x = Type\n  | filter( name = \"fire\" )\n  | limit(2)  # the same\nx").hash(), hash);
    assert_eq!(planned("x = e1 | filter(name = \"fire\") | limit(2)\nx").hash(), hash);
    for other in [
        "x = Type | filter(name = \"fire\") | limit(3)\nx",
        "x = Type | filter(name = \"ice\") | limit(2)\nx",
    ] {
        assert_ne!(planned(other).hash(), hash);
    }
}

#[test]
fn the_plan_is_json_with_what_programs_look_for() {
    let plan = planned(
        "Issue | filter(project = Project(\"p1\"), updated_at >= ago(\"1d\"), score > 3) | limit(5)[id]",
    );
    let json = serde_json::to_value(&plan).unwrap();
    let node = &json["nodes"][0];
    assert_eq!(node["op"], "query");
    assert_eq!(node["card"], "many");
    assert_eq!(node["pushed"][1]["value"]["json"], "2026-11-29T12:00:00Z", "now is the plan's");
    assert_eq!(node["residual"][0]["op"], ">");
    assert_eq!(json["verdict"], "ok");
    assert_eq!(json["effects"], json!([]));
    assert!(plan.only_reads());
}
