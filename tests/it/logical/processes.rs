//! Pods that are processes: this test's own program, started again for one of the parts below.

use std::process::{Child, Command, Stdio};

use plasm_mcp::execute::instant::Instant;
use plasm_mcp::execute::language::check;
use plasm_mcp::execute::logical::{Begun, Remembered};
use plasm_mcp::execute::plan::plan;
use plasm_mcp::store::redis::{Redis, Settings as RedisSettings};
use serde_json::{Value as Json, json};

use super::*;

const PROCESSES: usize = 8;
const EXPANSIONS: usize = 60;
const PART: &str = "PLASM_TEST_PART";
const WRITES: &str = "Thing_0.create(id = \"a\")";

fn start(part: &Json) -> Child {
    Command::new(std::env::current_exe().expect("a test knows its own program"))
        .args(["--exact", "logical::processes::a_part", "--ignored", "--nocapture", "--test-threads", "1"])
        .env(PART, part.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("it starts")
}

/// What a part said, in the line that is JSON.
fn said(child: Child) -> Json {
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix("said ")).unwrap_or_else(|| panic!("{text}"));
    serde_json::from_str(line).expect("JSON")
}

async fn store_at(url: &str) -> Arc<dyn Store> {
    Arc::new(Redis::connect(RedisSettings::new(url.to_owned().into())).await.expect("the server serves"))
}

fn wide_pod(store: &Arc<dyn Store>) -> Logical {
    let settings = Settings { lease: Duration::from_secs(2), ..Settings::default() };
    Logical::new(PodId::random(), store.clone(), only(wide(EXPANSIONS, "w")), settings)
}

/// Not a test: what the processes of the tests below do.
#[tokio::test]
#[ignore = "a part of the tests beside it"]
async fn a_part() {
    let Ok(part) = std::env::var(PART) else { return };
    let part: Json = serde_json::from_str(&part).expect("JSON");
    let text = |name: &str| part[name].as_str().unwrap_or_default().to_owned();
    let (store, anna) = (store_at(&text("url")).await, person("anna"));
    let pod = wide_pod(&store);
    match &*text("does") {
        "expand" => {
            let first = part["process"].as_u64().unwrap_or_default() as usize * 7;
            let mut taught = serde_json::Map::new();
            for n in 0..EXPANSIONS {
                let seeds = [seed("wide", &format!("Thing_{}", (first + n) % EXPANSIONS))];
                let opened = opened(&pod, &anna, "one", &seeds).await;
                for added in opened.added.iter().chain(&opened.known) {
                    let was = taught.insert(added.symbol.clone(), json!(added.name));
                    assert!(was.is_none_or(|was| was == added.name), "numbered anew");
                }
                taught.insert("session".to_owned(), json!(opened.held.handle.as_str()));
            }
            println!("\nsaid {}", Json::Object(taught));
        }
        "run" => {
            let held = pod.load(&anna, &text("session")).await.expect("it is there");
            let said = match pod.begin_run(&held, &anna, &text("run_ref")).await {
                Ok(Begun::Writes(_, _, claim)) => {
                    claim.before_writing().confirm().await.expect("it is this call's");
                    if part["dies"] == true {
                        println!("\nsaid \"writes\"");
                        // As a pod that is killed: nothing is dropped, nothing said.
                        std::process::abort();
                    }
                    claim.finish(&json!("written")).await.expect("it is recorded");
                    json!("writes")
                }
                Ok(other) => json!(format!("{other:?}")),
                Err(error) => json!(plasm_mcp::execute::fault::Fault::from(error).code),
            };
            println!("\nsaid {said}");
        }
        other => panic!("no part is called {other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_with_sixty_expansions_each_share_one_session_and_number_nothing_anew() {
    let server = Server::start(&[]);
    let children: Vec<Child> = (0..PROCESSES)
        .map(|process| start(&json!({"does": "expand", "url": server.url(), "process": process})))
        .collect();
    let waits = children.into_iter().map(|child| tokio::task::spawn_blocking(|| said(child)));
    let all: Vec<Json> = futures_util::future::try_join_all(waits).await.expect("all end");

    let (store, anna) = (store_at(&server.url()).await, person("anna"));
    let end = wide_pod(&store).load(&anna, all[0]["session"].as_str().unwrap_or_default()).await;
    let end = end.expect("it is there");
    let ledger = &end.scope.ledger;
    assert_eq!((ledger.entities.len(), ledger.relations.len(), ledger.methods.len()), (60, 60, 60));
    assert_eq!(end.revision, 60, "each seed is one wave of one process");
    let mut taught = std::collections::BTreeSet::new();
    for one in &all {
        assert_eq!(one["session"], end.handle.as_str(), "one session");
        for (symbol, name) in one.as_object().into_iter().flatten().filter(|(symbol, _)| *symbol != "session")
        {
            let number: usize = symbol[1..].parse().expect("a number");
            let is = match &symbol[..1] {
                "e" => format!("wide::{}", ledger.entities[number - 1].entity),
                "r" => format!("wide::{}.next", ledger.relations[number - 1].owner.entity),
                _ => format!("wide::{}.create", ledger.methods[number - 1].owner.entity),
            };
            assert_eq!(*name, is, "{symbol}");
            taught.insert(symbol.clone());
        }
    }
    assert_eq!(taught.len(), 180, "every symbol was taught to somebody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_one_writes_and_of_one_that_dies_nobody_writes_again() {
    let server = Server::start(&[]);
    let (store, anna) = (store_at(&server.url()).await, person("anna"));
    let pod = wide_pod(&store);
    let held = opened(&pod, &anna, "x", &[seed("wide", "Thing_0")]).await.held;
    let now = Instant::parse("2026-11-30T12:00:00Z").expect("an instant");
    let typed = check(WRITES, &held.scope).unwrap_or_else(|error| panic!("{}", error.render(WRITES)));
    let plan = plan(&typed, WRITES, &held.scope, &held.catalogs, now).expect("a plan");
    let plan = Remembered::of(&held, &anna, WRITES, now, &plan);
    let part = |run_ref: &str, dies: bool| {
        let (url, session) = (server.url(), held.handle.as_str());
        json!({"does": "run", "url": url, "session": session, "run_ref": run_ref, "dies": dies})
    };

    let run_ref = pod.remember(&held, &plan).await.expect("it is kept").to_string();
    let both = [(); 2].map(|()| start(&part(&run_ref, false)));
    let both = both.map(said).to_vec();
    assert_eq!(both.iter().filter(|said| **said == "writes").count(), 1, "{both:?}");

    let run_ref = pod.remember(&held, &plan).await.expect("it is kept").to_string();
    assert_eq!(said(start(&part(&run_ref, true))), "writes");
    comes_true("it is lost", || async {
        let error = pod.begin_run(&held, &anna, &run_ref).await.expect_err("it is not run again");
        error == LogicalError::OutcomeUnknown
    })
    .await;
    assert_eq!(said(start(&part(&run_ref, false))), "outcome_unknown");
}
