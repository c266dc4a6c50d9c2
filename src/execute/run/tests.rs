use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use serde_json::{Value as Json, json};

use super::*;
use crate::{
    execute::{
        catalog::load_folder,
        instant::Instant,
        language::check,
        plan,
        sources::{Ask, Page, SourceError, SourceErrorKind},
        symbols::{Ledger, Scope, Seed},
    },
    mcp::scripted,
};

mod corpus;
mod late;
mod operators;
mod reading;
mod writing;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language").join(name)
}

/// Those of the corpora, and those of the second wave of seeds.
fn catalogs() -> Arc<Catalogs> {
    static CATALOGS: OnceLock<Arc<Catalogs>> = OnceLock::new();
    let all = || {
        let mut all = Catalogs::default();
        for name in ["catalogs", "more"] {
            load_folder(&folder(name))
                .unwrap()
                .iter()
                .for_each(|(_, loaded)| assert!(all.add(loaded.clone())));
        }
        Arc::new(all)
    };
    Arc::clone(CATALOGS.get_or_init(all))
}

/// Everything of the corpora's session, and what the catalogs have beside it.
fn scope() -> &'static Scope {
    static SCOPE: OnceLock<Scope> = OnceLock::new();
    SCOPE.get_or_init(|| {
        let catalogs = catalogs();
        let mut ledger = Ledger::default();
        for file in ["session.json", "more/session.json"] {
            let session: Json =
                serde_json::from_str(&std::fs::read_to_string(folder(file)).unwrap()).unwrap();
            let seeds: Vec<Seed> = serde_json::from_value(session["seeds"].clone()).unwrap();
            ledger.extend(&seeds, &catalogs).unwrap();
        }
        for (api, loaded) in catalogs.iter() {
            let seed = |entity: &str| Seed { api: api.to_owned(), entity: entity.to_owned() };
            ledger.extend(&loaded.catalog.entities.keys().map(seed).collect::<Vec<_>>(), &catalogs).unwrap();
        }
        Scope::new(ledger, &catalogs).unwrap()
    })
}

fn planned(program: &str) -> Arc<Plan> {
    let typed = check(program, scope()).unwrap_or_else(|error| panic!("{}", error.render(program)));
    let now = Instant::parse("2026-11-30T12:00:00Z").unwrap();
    Arc::new(plan::plan(&typed, program, scope(), &catalogs(), now).unwrap())
}

/// An answer, and when it is given.
#[derive(Clone, Debug)]
struct Answer {
    op: String,
    /// What must be asked with; null: anything.
    key: Json,
    args: Json,
    page: Option<String>,
    gives: Result<Page, SourceError>,
}

/// Answers by what is asked, and notes every request in order.
#[derive(Default)]
struct World {
    answers: Vec<Answer>,
    asked: Mutex<Vec<Ask>>,
    /// Operations that never answer.
    silent: Vec<&'static str>,
}

impl World {
    fn new(answers: &Json) -> World {
        let answers = answers.as_array().unwrap().iter().map(answer).collect();
        World { answers, ..World::default() }
    }

    fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .map(|ask| {
                let mut line = ask.operation.to_string();
                for (name, value) in [("key", &ask.key), ("args", &ask.args)] {
                    if !value.is_empty() {
                        line += &format!(" {name}={}", Json::Object(value.clone()));
                    }
                }
                if let Some(text) = &ask.text {
                    line += &format!(" text={text:?}");
                }
                if let Some(page) = &ask.page {
                    line += &format!(" page={}", page.0);
                }
                if let Some(size) = ask.page_size {
                    line += &format!(" size={size}");
                }
                if ask.idempotency_key.is_some() {
                    line += " keyed";
                }
                line
            })
            .collect()
    }
}

fn answer(of: &Json) -> Answer {
    let text = |key: &str| of[key].as_str().map(str::to_owned);
    let gives = match of["error"].as_str() {
        None => Ok(Page {
            rows: of["rows"].as_array().cloned().unwrap_or_default(),
            next: text("next").map(PageRef),
            ack: text("ack"),
            warnings: text("warning").into_iter().collect(),
        }),
        Some(error) => Err(SourceError {
            kind: match error {
                "not_found" => SourceErrorKind::NotFound,
                "auth" => SourceErrorKind::Auth,
                "timeout" => SourceErrorKind::Timeout,
                "rate" => SourceErrorKind::Rate(None),
                _ => SourceErrorKind::Status,
            },
            message: format!("the source says {error}"),
            uncertain: of["uncertain"] == true,
        }),
    };
    Answer {
        op: text("op").unwrap(),
        key: of["key"].clone(),
        args: of["args"].clone(),
        page: text("page"),
        gives,
    }
}

impl Sources for World {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        let matches = |answer: &&Answer| {
            answer.op == *ask.operation
                && (answer.key.is_null() || answer.key == Json::Object(ask.key.clone()))
                && (answer.args.is_null() || answer.args == Json::Object(ask.args.clone()))
                && answer.page == ask.page.as_ref().map(|page| page.0.clone())
        };
        let silent = self.silent.contains(&&*ask.operation);
        let gives = self.answers.iter().find(matches).map(|answer| answer.gives.clone());
        let gives = gives.unwrap_or_else(|| {
            Err(SourceError {
                kind: SourceErrorKind::Status,
                message: "nothing is known of that".to_owned(),
                uncertain: false,
            })
        });
        self.asked.lock().unwrap().push(ask);
        async move {
            if silent {
                std::future::pending::<()>().await;
            }
            // Others may come first.
            tokio::task::yield_now().await;
            gives
        }
        .boxed()
    }
}

fn settings() -> RunSettings {
    RunSettings::new("run-1", Duration::from_secs(60))
}

async fn run_with(program: &str, world: &Arc<World>, settings: RunSettings) -> Finished {
    run(planned(program), catalogs(), world.clone(), scripted::caller(), settings).await
}

async fn ran(program: &str, world: &Arc<World>) -> Finished {
    run_with(program, world, settings()).await
}

/// The rows of a root, or its text.
fn rows(finished: &Finished, root: usize) -> Json {
    let root = finished.roots.iter().find(|one| one.root == root).unwrap_or_else(|| panic!("{finished:?}"));
    match &root.result {
        Shown::Rows { rows, .. } => json!(rows),
        Shown::Text(text) => json!(text),
    }
}

fn code(finished: &Finished) -> &'static str {
    finished.failed.as_ref().map_or("", |failed| failed.fault.code)
}
