//! `--demo`: both surfaces at once, without a configuration, as the README shows them.

use std::process::Command;

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::gateway::modern::Modern;

async fn opened(client: &Modern) -> String {
    let seeds =
        ["Planet", "Moon", "Mission", "Observation"].map(|entity| json!({"api": "solar", "entity": entity}));
    let context = client.call("plasm_context", json!({"intent": "look at the sky", "seeds": seeds})).await;
    context["structuredContent"]["logical_session_ref"]
        .as_str()
        .unwrap_or_else(|| panic!("{context}"))
        .to_owned()
}

async fn ran(client: &Modern, handle: &str, program: &str) -> Value {
    let plan = client.call("plasm", json!({"logical_session_ref": handle, "program": program})).await;
    let run_ref = &plan["structuredContent"]["run_ref"];
    client.call("plasm_run", json!({"logical_session_ref": handle, "run_ref": run_ref})).await
}

#[tokio::test]
async fn the_demonstration_answers_programs_beside_its_tools() {
    let gateway = Gateway::demo(json!({}));
    let client = gateway.modern();
    let tools = client.result("tools/list", json!({})).await;
    let has =
        |name: &str| tools["tools"].as_array().is_some_and(|all| all.iter().any(|tool| tool["name"] == name));
    assert!(has("plasm_run") && has("moons"), "{tools}");
    let found = client.call("discover_capabilities", json!({"query": "moons of Jupiter"})).await;
    assert_eq!(found["structuredContent"]["entities"][0]["entity"], "Moon", "{found}");
    let handle = opened(&client).await;
    let many = ran(&client, &handle, "Moon").await;
    let root = &many["structuredContent"]["roots"][0];
    assert_eq!((&root["rows"], &root["coverage"]), (&json!(41), &json!("complete")), "{many}");
    assert!(root["artifact_uri"].is_string(), "{many}");
    let write = "Observation.create(planet = Planet(\"Mars\"), seen_at = now(), note = \"very red\")";
    let wrote = ran(&client, &handle, write).await;
    assert_eq!(wrote["isError"], Value::Null, "{wrote}");
    let noted = ran(&client, &handle, "Planet(\"Mars\").observations[note]").await;
    assert_eq!(noted["structuredContent"]["roots"][0]["values"], json!([["very red"]]), "{noted}");
}

#[tokio::test]
async fn a_default_profile_that_is_configured_has_what_it_says() {
    let gateway = Gateway::demo(json!({"profiles": {"default": {"tools": {"deny": ["demo__observe"]}}}}));
    let tools = gateway.modern().result("tools/list", json!({})).await;
    let names: Vec<&str> =
        tools["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(
        names.contains(&"moons") && !names.contains(&"observe") && !names.contains(&"plasm"),
        "{names:?}"
    );
}

/// What a shell prints, as one line a line: names that differ each time alike, and nothing at the ends of lines.
fn settled(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let mut parts = line.trim_end().split("l_");
        let mut settled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let named = part.get(..26).is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric()));
            settled.push_str("l_");
            settled.push_str(if named { &part[26..] } else { part });
        }
        lines.push(settled);
    }
    lines
}

#[test]
fn the_minute_of_the_readme_is_as_it_says() {
    let gateway = Gateway::demo(json!({}));
    let readme = include_str!("../../../README.md");
    let (_, section) = readme.split_once("## The execute surface in one minute\n").expect("it is there");
    let section = section.split("\n## ").next().expect("a text has a first part");
    let shown = section.lines().filter_map(|line| line.strip_prefix("    "));
    let (commands, said): (Vec<&str>, Vec<&str>) = shown.partition(|line| line.starts_with("$ "));
    let folder = tempfile::tempdir().expect("a folder");
    let plasm = format!("plasm-mcp() {{ '{}' \"$@\"; }}", env!("CARGO_BIN_EXE_plasm-mcp"));
    let script = commands.iter().map(|line| line[2..].replace("http://127.0.0.1:8080/mcp", &gateway.url));
    let script = std::iter::once(plasm).chain(script).collect::<Vec<_>>().join("\n");
    let ran = Command::new("bash").arg("-c").arg(&script).current_dir(&folder).output().expect("bash runs");
    let out = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(settled(&out), settled(&said.join("\n")), "{}", String::from_utf8_lossy(&ran.stderr));
    assert!(commands.len() > 10, "{commands:?}");
}
