//! Programs beside the answers of their sources and what becomes of them, in tests/language/runs.

use super::*;

fn shown(finished: &Finished, world: &World) -> String {
    let mut text = String::new();
    for root in &finished.roots {
        match &root.result {
            Shown::Rows { columns, rows } => {
                text += &format!("## {} ({} rows, {})\n", root.label, rows.len(), root.coverage);
                let names: Vec<String> =
                    columns.iter().map(|column| format!("{}:{}", column.name, column.holds)).collect();
                text += &format!("{}\n", names.join("\t"));
                for row in rows {
                    let cells: Vec<String> = row.iter().map(Json::to_string).collect();
                    text += &format!("{}\n", cells.join("\t"));
                }
            }
            Shown::Text(written) => text += &format!("## {} (text)\n{written}\n", root.label),
        }
        if let Some(next) = &root.next {
            text += &format!("next: {}\n", serde_json::to_string(next).unwrap());
        }
        if !root.lossy.is_empty() {
            text += &format!("lossy: {}\n", root.lossy.join(", "));
        }
    }
    for write in &finished.writes {
        text += &format!("write: {}\n", serde_json::to_string(write).unwrap());
    }
    if let Some(Failure { node, fault }) = &finished.failed {
        text += &format!("failed: n{node} {}: {} ({})\n", fault.code, fault.message, fault.hint);
    }
    for warning in &finished.warnings {
        text += &format!("warning: {warning}\n");
    }
    for line in world.asked() {
        text += &format!("asked: {line}\n");
    }
    text
}

#[tokio::test]
async fn programs_become_what_stands_beside_them() {
    let update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
    for entry in std::fs::read_dir(folder("runs")).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "plasm") {
            files.insert(file.clone(), std::fs::read_to_string(&file).unwrap());
        }
    }
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for (file, program) in files {
        let answers = std::fs::read_to_string(file.with_extension("json")).unwrap();
        let world = Arc::new(World::new(&serde_json::from_str(&answers).unwrap()));
        let finished = ran(&program, &world).await;
        let found = shown(&finished, &world);
        let beside = file.with_extension("txt");
        if update {
            std::fs::write(&beside, &found).unwrap();
        } else if std::fs::read_to_string(&beside).unwrap_or_default() != found {
            wrong.push(format!("{}:\n{found}", beside.display()));
        }
    }
    assert!(wrong.is_empty(), "{}\nIf that is meant, run again with UPDATE=1", wrong.join("\n"));
}
