//! The rooms of the house and the arrows between them, as docs/architecture.md draws them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each room with the rooms it may import. What is not listed here is no room, and the test says so.
const ARROWS: &[(&str, &[&str])] = &[
    ("allocator", &[]),
    ("clock", &[]),
    ("ticks", &["clock"]),
    ("turns", &[]),
    ("http1", &["clock"]),
    ("wire", &[]),
    ("store", &["clock", "telemetry", "tls"]),
    ("config", &[]),
    ("telemetry", &["clock"]),
    ("lifecycle", &[]),
    ("sealing", &[]),
    ("lines", &[]),
    ("tls", &[]),
    ("mcp", &["telemetry", "wire"]),
    ("egress", &["tls"]),
    ("auth", &["clock", "egress", "mcp", "sealing", "store", "telemetry", "wire"]),
    ("limits", &["mcp", "store", "telemetry", "wire"]),
    ("session", &["clock", "mcp", "store", "sealing", "wire"]),
    ("upstream", &["clock", "config", "http1", "lines", "mcp", "telemetry", "ticks", "tls", "turns", "wire"]),
    ("vault", &["auth", "config", "egress", "mcp", "sealing", "store", "telemetry", "upstream"]),
    ("relay", &["mcp", "sealing", "store", "telemetry", "upstream", "wire"]),
    ("federation", &["config", "mcp", "telemetry", "wire"]),
    ("policy", &["config", "egress", "mcp", "sealing", "store", "telemetry", "wire"]),
    ("execute", &["clock", "config", "egress", "mcp", "sealing", "store", "telemetry", "tls", "wire"]),
    ("demo", &["mcp", "wire"]),
    (
        "edge",
        &[
            "auth",
            "clock",
            "federation",
            "http1",
            "lifecycle",
            "limits",
            "lines",
            "mcp",
            "policy",
            "sealing",
            "session",
            "store",
            "telemetry",
            "ticks",
            "turns",
            "wire",
        ],
    ),
    ("admin", &["lifecycle", "telemetry"]),
    (
        "house",
        &[
            "admin",
            "auth",
            "config",
            "demo",
            "edge",
            "egress",
            "execute",
            "federation",
            "lifecycle",
            "limits",
            "mcp",
            "policy",
            "relay",
            "sealing",
            "session",
            "store",
            "telemetry",
            "tls",
            "upstream",
            "vault",
            "wire",
        ],
    ),
    (
        "cli",
        &[
            "auth",
            "config",
            "edge",
            "execute",
            "house",
            "lifecycle",
            "mcp",
            "policy",
            "session",
            "store",
            "telemetry",
            "upstream",
            "wire",
        ],
    ),
];

fn sources(of: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(of).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The rooms that a source names, tests in it aside.
fn imports(text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split("crate::").skip(1))
        .flat_map(|rest| match rest.strip_prefix('{') {
            // `use crate::{a, b::c};`
            Some(list) => list.split([',', '}']).map(str::trim).map(str::to_owned).collect(),
            None => vec![rest.to_owned()],
        })
        .map(|name| name.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect())
        .filter(|name: &String| !name.is_empty())
        .collect()
}

#[test]
fn arrows_run_down_the_list_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&src, &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let inner = file.strip_prefix(&src).unwrap();
        let room = inner.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        if matches!(room, "lib" | "main") {
            continue;
        }
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == room) else {
            wrong.push(format!("{}: {room} is no room", inner.display()));
            continue;
        };
        for used in imports(&std::fs::read_to_string(&file).unwrap()) {
            if used != room
                && !allowed.contains(&used.as_str())
                && ARROWS.iter().any(|(name, _)| *name == used)
            {
                wrong.push(format!("{}: {room} may not import {used}", inner.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_import_is_seen_in_each_of_its_forms() {
    let text = "use crate::wire::Raw;\nuse crate::{mcp::Call, store};\nlet x = crate::edge::y();\n// crate::admin\n#[cfg(test)]\nmod tests { use crate::cli; }";
    let want = ["edge", "mcp", "store", "wire"].map(str::to_owned);
    assert_eq!(imports(text), BTreeSet::from(want));
}
