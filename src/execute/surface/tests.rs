//! The surface over the catalogs of tests/language and a world of its own.

mod errors;
mod shapes;
mod shown;
mod stored;

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::Map;

use super::*;
use crate::{
    execute::{
        artifacts::Objects,
        catalog::load_folder,
        logical,
        sources::{Ask, Page, SourceError},
    },
    mcp::{Access, Client, Principal, scripted},
    store::{Memory, PodId, Store},
    wire::Version,
};

/// Ten issues of which each knows its number, and every write noted.
#[derive(Default)]
struct World {
    written: Mutex<Vec<String>>,
    asked: AtomicUsize,
    /// What every issue is called, in place of its number.
    title: Mutex<Option<String>>,
}

impl Sources for World {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let title = self.title.lock().unwrap().clone();
        let issue = |n: usize| {
            let title = title.clone().unwrap_or_else(|| format!("issue\t{n}"));
            json!({"id": format!("i{n}"), "title": title, "state": "open", "score": n,
                "updated_at": "2026-11-30T00:00:00Z", "project_id": "p1", "labels": [], "body": "x".repeat(9_000)})
        };
        let rows = match &*ask.operation {
            "issue_list" => (1..=40).map(issue).collect(),
            "issue_create" => {
                self.written.lock().unwrap().push(Json::Object(ask.args.clone()).to_string());
                vec![issue(99)]
            }
            "project_get" => vec![json!({"id": ask.key["id"], "slug": "p", "title": "P"})],
            _ => vec![issue(1)],
        };
        ready(Ok(Page { rows, ..Page::default() })).boxed()
    }
}

fn surface(catalogs: Globs) -> (Surface, Arc<World>) {
    let objects = Objects::new(Arc::new(object_store::memory::InMemory::new()));
    served(Settings { catalogs, ..settings() }, Some(objects))
}

fn settings() -> Settings {
    Settings::new(UpstreamId::new("plasm").unwrap())
}

fn served(settings: Settings, objects: Option<Objects>) -> (Surface, Arc<World>) {
    within(64 << 20, settings, objects)
}

/// With a store of that many bytes.
fn within(cap: usize, settings: Settings, objects: Option<Objects>) -> (Surface, Arc<World>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/catalogs");
    let catalogs = Arc::new(load_folder(&folder).unwrap());
    let store: Arc<dyn Store> = Arc::new(Memory::new(cap));
    let artifacts = Artifacts::new(Arc::clone(&store), objects);
    let logical = Logical::new(PodId::random(), store, catalogs, logical::Settings::default());
    let world = Arc::new(World::default());
    (Surface::new(logical, artifacts, world.clone(), settings), world)
}

fn somebody(subject: &str) -> Arc<Caller> {
    by(subject, Version::MODERN, Client::default())
}

/// Somebody by that version of the protocol and that client.
fn by(subject: &str, version: Version, client: Client) -> Arc<Caller> {
    let one = scripted::caller();
    let principal = Arc::new(Principal::minted("t", "https://id.example", subject));
    Arc::new(Caller {
        access: Arc::new(Access::open(principal)),
        profile: one.profile.clone(),
        client: Arc::new(client),
        version,
        session: one.session.clone(),
    })
}

async fn asked(surface: &Surface, who: &Arc<Caller>, tool: &str, arguments: Json) -> Json {
    let params = json!({"name": tool, "arguments": arguments}).to_string();
    let call = Call { caller: who.clone(), ..scripted::call(Method::ToolsCall, &params) };
    match surface.call(call).await.outcome().await {
        Outcome::Result(result) => result.read().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn said(answer: &Json) -> &str {
    answer["content"][0]["text"].as_str().unwrap()
}

/// The result of `resources/read`.
async fn read(surface: &Surface, who: &Arc<Caller>, uri: &str) -> Result<Json, CallFault> {
    let params = json!({"uri": uri}).to_string();
    let call = Call { caller: who.clone(), ..scripted::call(Method::ResourcesRead, &params) };
    match surface.call(call).await.outcome().await {
        Outcome::Result(result) => Ok(result.read().unwrap()),
        Outcome::Error(fault) => Err(fault),
        other => panic!("{other:?}"),
    }
}

async fn session(surface: &Surface, who: &Arc<Caller>) -> String {
    let seeds = json!([{"api": "tracker", "entity": "Issue"}, {"api": "tracker", "entity": "Project"}]);
    session_over(surface, who, &json!({"seeds": seeds}).to_string()).await
}

async fn session_over(surface: &Surface, who: &Arc<Caller>, seeds: &str) -> String {
    let seeds: Json = serde_json::from_str(seeds).unwrap();
    let ask = json!({"intent": "triage", "seeds": seeds["seeds"]});
    let opened = asked(surface, who, tools::CONTEXT, ask).await;
    opened["structuredContent"]["logical_session_ref"].as_str().unwrap().to_owned()
}

const LIST: &str = "Project(\"p1\").issues | filter(score > 5)";
const CREATE: &str = "Issue.create(project = Project(\"p1\"), title = \"new\")";
const SEEDS: &str = include_str!("../../../tests/language/session.json");

#[tokio::test]
async fn each_tool_is_described_in_full() {
    let (surface, _) = surface(Globs::default());
    let listed = surface.known(&scripted::caller(), Kind::Tool).unwrap();
    let names: Vec<&str> = listed.items().iter().map(|item| &*item.name).collect();
    assert_eq!(names, Surface::tool_names().collect::<Vec<_>>());
    for item in listed.items() {
        let tool: Map<String, Json> = item.body.read().unwrap();
        assert!(tool["title"].is_string() && tool["description"].is_string());
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{hint} of {}", item.name);
        }
        assert_eq!(
            (&tool["inputSchema"]["type"], &tool["outputSchema"]["type"]),
            (&json!("object"), &json!("object"))
        );
    }
}

#[tokio::test]
async fn what_fits_best_stands_first_and_what_a_profile_does_not_admit_stands_nowhere() {
    let who = somebody("a");
    let (open, _) = surface(Globs::default());
    let found =
        asked(&open, &who, tools::DISCOVER, json!({"query": "show open issues by their score"})).await;
    let first = &found["structuredContent"]["entities"][0];
    assert_eq!(
        (first["api"].as_str(), first["entity"].as_str()),
        (Some("tracker"), Some("Issue")),
        "{}",
        said(&found)
    );
    assert!(said(&found).starts_with("```tsv\napi\tentity\tdescription\ntracker\tIssue\t"));
    assert!(said(&found).lines().all(|line| line.chars().count() <= 200));
    let again =
        asked(&open, &who, tools::DISCOVER, json!({"query": ["show open issues by their score"]})).await;
    assert_eq!(found, again);
    let (closed, _) = surface(Globs { deny: vec!["tracker".into()], ..Globs::default() });
    let found = asked(&closed, &who, tools::DISCOVER, json!({"query": "issues"})).await;
    assert!(!said(&found).contains("tracker"), "{}", said(&found));
    let seeds = json!([{"api": "tracker", "entity": "Issue"}, {"api": "pokeapi", "entity": "Pokemon"}]);
    let refused = asked(&closed, &who, tools::CONTEXT, json!({"intent": "x", "seeds": seeds})).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "seed_forbidden");
    assert_eq!(refused["isError"], true);
}

#[tokio::test]
async fn a_session_is_opened_once_and_says_what_is_new() {
    let (surface, _) = surface(Globs::default());
    let who = somebody("a");
    let seeds = json!([{"api": "tracker", "entity": "Issue"}]);
    let ask = json!({"intent": "triage", "seeds": seeds});
    let first = asked(&surface, &who, tools::CONTEXT, ask.clone()).await;
    let facts = &first["structuredContent"];
    let handle = facts["logical_session_ref"].as_str().unwrap();
    assert!(said(&first).starts_with(&format!("{handle}\nexpression\tmeaning\n")), "{}", said(&first));
    assert_eq!(
        (&facts["new_symbol_space"], &facts["symbols_added"][0]["symbol"]),
        (&json!(true), &json!("e1"))
    );
    let meta = &first["_meta"]["plasm"];
    assert_eq!(meta["tenant_scope"], "t");
    assert_eq!(meta["catalogs"]["tracker"].as_str().map(str::len), Some(64));
    assert_eq!(meta["continuity"], json!({"stale_binding_recovered": false, "new_symbol_space": true}));
    let second = asked(&surface, &who, tools::CONTEXT, ask).await;
    assert_eq!(second["structuredContent"]["symbols_added"], json!([]));
    assert_eq!(said(&second), format!("{handle}\nNothing new; known already: e1 = tracker::Issue.\n"));
}

#[tokio::test]
async fn a_plan_asks_nothing_and_its_run_shows_a_bounded_table() {
    let (surface, _) = surface(Globs::default());
    let who = somebody("a");
    let handle = session(&surface, &who).await;
    let plan =
        asked(&surface, &who, tools::PLAN, json!({"logical_session_ref": handle, "program": LIST})).await;
    assert_eq!(plan["structuredContent"]["verdict"], "ok", "{}", said(&plan));
    assert_eq!(plan["_meta"]["plasm"]["dry_run"], true);
    let run_ref = plan["structuredContent"]["run_ref"].as_str().unwrap();
    let ask = json!({"logical_session_ref": handle, "run_ref": run_ref});
    let ran = asked(&surface, &who, tools::RUN, ask).await;
    let root = &ran["structuredContent"]["roots"][0];
    assert_eq!(root["rows"], 35, "{}", said(&ran));
    let shown = root["values"].as_array().unwrap().len();
    assert!(shown > 0 && shown <= 25);
    assert_eq!(ran["_meta"]["plasm"]["omitted_from_summary"], 35 - shown);
    assert!(
        said(&ran).contains("(35 rows)\n") && said(&ran).contains("issue\\t6") && said(&ran).len() < 14 << 10
    );
    let auto = json!({"logical_session_ref": handle, "program": LIST, "mode": "auto"});
    let at_once = asked(&surface, &who, tools::PLAN, auto).await;
    assert_eq!(at_once["structuredContent"]["roots"][0]["values"], root["values"]);
}

#[tokio::test]
async fn a_wrong_program_is_a_result_with_its_place_and_its_correction() {
    let (surface, _) = surface(Globs::default());
    let who = somebody("a");
    let handle = session(&surface, &who).await;
    let ask = json!({"logical_session_ref": handle, "program": "Project(roadmap)"});
    let wrong = asked(&surface, &who, tools::PLAN, ask).await;
    let error = &wrong["structuredContent"]["error"];
    assert_eq!(
        (&wrong["isError"], &error["code"], &error["line"]),
        (&json!(true), &json!("bare_word"), &json!(1))
    );
    assert_eq!(error["fix"], "Project(\"roadmap\")");
    assert!(said(&wrong).contains("error[bare_word] at 1:"));
    let ask = json!({"logical_session_ref": handle, "program": LIST, "mode": "perhaps"});
    let wrong = asked(&surface, &who, tools::PLAN, ask).await;
    assert_eq!(wrong["structuredContent"]["error"]["code"], "bad_arguments");
}

#[tokio::test]
async fn a_write_needs_its_plan_and_is_made_once() {
    let (surface, world) = surface(Globs::default());
    let who = somebody("a");
    let handle = session(&surface, &who).await;
    let direct = json!({"logical_session_ref": handle, "program": CREATE});
    let refused = asked(&surface, &who, tools::RUN, direct).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "run_ref_needed", "{}", said(&refused));
    let auto = json!({"logical_session_ref": handle, "program": CREATE, "mode": "auto"});
    let plan = asked(&surface, &who, tools::PLAN, auto).await;
    assert_eq!(plan["structuredContent"]["effects"][0]["method"], "create", "{}", said(&plan));
    assert!(world.written.lock().unwrap().is_empty());
    let run = json!({"logical_session_ref": handle, "run_ref": plan["structuredContent"]["run_ref"]});
    let first = asked(&surface, &who, tools::RUN, run.clone()).await;
    assert_eq!(first["isError"], Json::Null, "{}", said(&first));
    let second = asked(&surface, &who, tools::RUN, run).await;
    assert_eq!(first, second);
    assert_eq!(world.written.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_another_s_is_unknown() {
    let (surface, _) = surface(Globs::default());
    let (mine, other) = (somebody("a"), somebody("b"));
    let handle = session(&surface, &mine).await;
    let plan =
        asked(&surface, &mine, tools::PLAN, json!({"logical_session_ref": handle, "program": LIST})).await;
    let theirs = session(&surface, &other).await;
    let run_ref = &plan["structuredContent"]["run_ref"];
    for (tool, ask) in [
        (tools::PLAN, json!({"logical_session_ref": handle, "program": LIST})),
        (tools::RUN, json!({"logical_session_ref": handle, "run_ref": run_ref})),
        (tools::RUN, json!({"logical_session_ref": theirs, "run_ref": run_ref})),
    ] {
        let refused = asked(&surface, &other, tool, ask).await;
        assert_eq!(refused["structuredContent"]["error"]["code"], "session_unknown", "{}", said(&refused));
    }
}

#[tokio::test]
async fn progress_is_told_before_the_end_where_it_was_asked_for() {
    let (surface, _) = surface(Globs::default());
    let who = somebody("a");
    let handle = session(&surface, &who).await;
    let arguments = json!({"logical_session_ref": handle, "program": LIST});
    let params = json!({"name": tools::RUN, "arguments": arguments}).to_string();
    let call = Call { caller: who, progress: Some("7".into()), ..scripted::call(Method::ToolsCall, &params) };
    let events: Vec<Event> = surface.call(call).await.into_events().collect().await;
    let (last, notes) = events.split_last().unwrap();
    assert!(matches!(last, Event::Done(Outcome::Result(_))));
    assert!(!notes.is_empty());
    for note in notes {
        let Event::Note(note) = note else { panic!("only progress comes before the end") };
        let params: Json = serde_json::from_slice(&note.params.to_bytes()).unwrap();
        assert_eq!((&note.method, &params["progressToken"]), (&Method::Progress, &json!(7)));
    }
}

#[tokio::test]
async fn the_roots_of_a_run_share_one_copy_of_its_program_in_the_store() {
    let (surface, _) = within(1 << 20, settings(), None);
    let who = somebody("a");
    let handle = session(&surface, &who).await;
    let roots = ["Project(\"p1\").issues | limit(1)[id]"; 64].join(", ");
    let program = format!("# {}\n{roots}", "x".repeat((64 << 10) - roots.len() - 3));
    let of = |more: &str, value: &str| json!({"logical_session_ref": handle, more: value});
    let ran = asked(&surface, &who, tools::RUN, of("program", &program)).await;
    let roots = ran["structuredContent"]["roots"].as_array().unwrap_or_else(|| panic!("{ran}"));
    assert_eq!(roots.len(), 64);
    // A page's pages are of the same program.
    for at in [0, 63] {
        let mut next = roots[at]["next_run_ref"].clone();
        for id in ["i2", "i3"] {
            let page = asked(&surface, &who, tools::RUN, of("run_ref", next.as_str().unwrap())).await;
            let root = &page["structuredContent"]["roots"][0];
            assert_eq!(root["values"], json!([[id]]), "{page}");
            next = root["next_run_ref"].clone();
        }
    }
}
