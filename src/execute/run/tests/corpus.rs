//! Programs beside the answers of their sources and what becomes of them, in tests/language/runs.

use super::*;
use crate::execute::catalog::{Base, Hop, Kind, Locator};

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

/// Gives of every operation two rows that have all fields and relations of its entity, where its catalog says.
struct Everything;

impl Sources for Everything {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        let operation = ask.catalog.operations.get(&ask.operation).unwrap();
        let entity = ask.catalog.entity(&operation.entity).unwrap();
        let row = |n: usize| {
            let mut row = Json::Null;
            for (name, field) in entity.fields.iter() {
                let value = match ask.catalog.domain(&field.holds).map(|domain| domain.base) {
                    Some(Base::Int | Base::Float) => json!(n),
                    Some(Base::Bool) => json!(n == 0),
                    Some(Base::Datetime) => json!("2026-11-30T11:00:00+01:00"),
                    Some(Base::Date) => json!("2026-11-30"),
                    Some(Base::Json) => json!({ "n": n }),
                    _ => json!(format!("{name}{n}")),
                };
                let value = ask.key.get(name).cloned().unwrap_or(value);
                put(&field.at.clone().unwrap_or_else(|| Locator::key(name)).hops, value, &mut row);
            }
            for (_, relation) in entity.relations.iter() {
                if let Some(embed) = &relation.embed {
                    let mut inside = Json::Null;
                    embed
                        .key
                        .iter()
                        .for_each(|(part, at)| put(&at.hops, json!(format!("{part}{n}")), &mut inside));
                    put(&embed.rows.hops, inside, &mut row);
                }
            }
            row
        };
        let rows = if operation.kind == Kind::Delete { 0 } else { 2 };
        let page = Page { rows: (0..rows).map(row).collect(), ..Page::default() };
        async move { Ok(page) }.boxed()
    }
}

fn put(hops: &[Hop], value: Json, to: &mut Json) {
    match hops.split_first() {
        None => *to = value,
        Some((Hop::Key(key), rest)) => {
            if !to.is_object() {
                *to = json!({});
            }
            put(rest, value, &mut to[key.as_str()]);
        }
        Some((Hop::Each, rest)) => {
            let mut one = Json::Null;
            put(rest, value, &mut one);
            *to = json!([one]);
        }
    }
}

#[tokio::test]
async fn every_program_that_is_accepted_can_be_run() {
    let accepted = std::fs::read_to_string(folder("accepted.jsonl")).unwrap();
    let mut programs: Vec<String> = accepted
        .lines()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["program"].as_str().unwrap().to_owned())
        .collect();
    for of in ["plans", "trees"] {
        for entry in std::fs::read_dir(folder(of)).unwrap() {
            let file = entry.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "plasm") {
                programs.push(std::fs::read_to_string(&file).unwrap());
            }
        }
    }
    let (mut whole, mut wrong) = (0, Vec::new());
    for program in &programs {
        let plan = planned(program);
        let finished =
            run(plan.clone(), catalogs(), Arc::new(Everything), scripted::caller(), settings()).await;
        let roots: Vec<usize> = finished.roots.iter().map(|root| root.root).collect();
        match finished.failed {
            None if roots.len() == plan.roots.len() => whole += 1,
            None => wrong.push(format!("{program}\n  only {roots:?}")),
            // Some name rows that these sources do not have, or more than they have.
            Some(Failure { fault, .. }) if matches!(fault.code, "not_one" | "not_found") => {}
            Some(Failure { node, fault }) => wrong.push(format!("{program}\n  n{node}: {fault:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(whole > 40, "only {whole} of {} were run", programs.len());
}
