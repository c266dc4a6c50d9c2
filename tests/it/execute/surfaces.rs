//! Several surfaces over one Redis. A pod here is a [`Surface`] in a runtime of its own, which can be ended as a pod that is
//! killed: nothing of it goes on, and nothing is said to anybody.

mod attacks;
mod slow;
mod trouble;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use plasm_mcp::execute::artifacts::Artifacts;
use plasm_mcp::execute::catalog::{Catalogs, load_folder};
use plasm_mcp::execute::logical::{self, Logical};
use plasm_mcp::execute::sources::{Ask, Page, PageRef, SourceError, Sources};
use plasm_mcp::execute::surface::{Settings, Surface};
use plasm_mcp::mcp::{
    Access, Backend as _, Call, Caller, Cancel, Client, Outcome, Principal, Session, SessionId, StoreAway,
    UpstreamId,
};
use plasm_mcp::store::{PodId, Store};
use plasm_mcp::wire::params::Params;
use plasm_mcp::wire::{Method, Raw, Version};
use serde_json::{Value as Json, json};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::harness::comes_true;
use crate::store::redis::server::Server;

const LIST: &str = "Project(\"p1\").issues | filter(score > 0)";
const CREATE: &str = "Issue.create(project = Project(\"p1\"), title = \"new\")";
/// How long a pod may say nothing of a run that it has.
const LEASE: Duration = Duration::from_millis(600);

/// The source of every catalog: 250 issues in pages of 100, and writes that are noted, then wait at a gate.
struct World {
    written: Mutex<Vec<String>>,
    asked: Mutex<Vec<String>>,
    gate: Semaphore,
}

impl World {
    /// Writes come back at once.
    fn open() -> Arc<World> {
        Arc::new(World {
            written: Mutex::default(),
            asked: Mutex::default(),
            gate: Semaphore::new(1_000_000),
        })
    }

    /// Writes have been made when they are noted, and come back when the gate is opened.
    fn gated() -> Arc<World> {
        Arc::new(World { written: Mutex::default(), asked: Mutex::default(), gate: Semaphore::new(0) })
    }

    fn writes(&self) -> usize {
        self.written.lock().expect("nobody panics").len()
    }

    fn asks(&self) -> usize {
        self.asked.lock().expect("nobody panics").len()
    }

    async fn is_writing(&self) {
        comes_true("the write has reached the source", || async { self.writes() > 0 }).await;
    }

    fn page(ask: &Ask) -> Page {
        let first: usize = ask.page.as_ref().map_or(0, |page| page.0.parse().expect("a number of ours"));
        let issue = |n: usize| {
            json!({"id": format!("i{n}"), "title": format!("issue {n}"), "state": "open", "score": n + 1,
                "updated_at": "2026-11-30T00:00:00Z", "project_id": "p1", "labels": []})
        };
        let end = (first + 100).min(250);
        let next = (end < 250).then(|| PageRef(end.to_string()));
        Page { rows: (first..end).map(issue).collect(), next, ..Page::default() }
    }
}

/// What one pod reaches of the world.
struct Reach(Arc<World>);

impl Sources for Reach {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        let world = self.0.clone();
        world.asked.lock().expect("nobody panics").push(ask.operation.to_string());
        async move {
            Ok(match &*ask.operation {
                "issue_list" => World::page(&ask),
                "issue_create" => {
                    let key = ask.idempotency_key.clone().unwrap_or_default();
                    world.written.lock().expect("nobody panics").push(key);
                    world.gate.acquire().await.expect("it is never closed").forget();
                    let made = json!({"id": "i999", "title": "new", "state": "open", "score": 1, "labels": [],
                        "updated_at": "2026-11-30T00:00:00Z", "project_id": "p1"});
                    Page { rows: vec![made], ..Page::default() }
                }
                _ => Page {
                    rows: vec![json!({"id": ask.key["id"], "slug": "p", "title": "P"})],
                    ..Page::default()
                },
            })
        }
        .boxed()
    }
}

struct Pod {
    surface: Surface,
    logical: Logical,
    runtime: Option<Runtime>,
}

impl Pod {
    async fn start(redis: &Server, world: &Arc<World>) -> Pod {
        Pod::with(redis, world, catalogs(), false).await
    }

    async fn with(redis: &Server, world: &Arc<World>, served: Arc<Catalogs>, shared: bool) -> Pod {
        Pod::over(redis, Arc::new(Reach(world.clone())), served, |settings| settings.shared = shared).await
    }

    async fn over(
        redis: &Server,
        sources: Arc<dyn Sources>,
        served: Arc<Catalogs>,
        change: impl FnOnce(&mut Settings),
    ) -> Pod {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let url = redis.url();
        let store = runtime.spawn(async move {
            let settings = plasm_mcp::store::redis::Settings::new(url.into());
            plasm_mcp::store::redis::Redis::connect(settings).await
        });
        let store: Arc<dyn Store> = Arc::new(store.await.expect("it ends").expect("the server serves"));
        let artifacts = Artifacts::new(Arc::clone(&store), None);
        let settings = logical::Settings { lease: LEASE, ..logical::Settings::default() };
        let logical = Logical::new(PodId::random(), store, served, settings);
        let mut settings = Settings::new(UpstreamId::new("plasm").expect("an id"));
        change(&mut settings);
        let surface = Surface::new(logical.clone(), artifacts, sources, settings);
        Pod { surface, logical, runtime: Some(runtime) }
    }

    /// The result of a tool, by a task of this pod.
    fn begin(&self, who: &Arc<Caller>, tool: &str, arguments: &Json) -> tokio::task::JoinHandle<Json> {
        let (surface, call) = (self.surface.clone(), call(who, tool, arguments));
        let asked = async move {
            match surface.call(call).await.outcome().await {
                Outcome::Result(result) => result.read().expect("a result is JSON"),
                other => panic!("{other:?}"),
            }
        };
        self.runtime.as_ref().expect("it runs").spawn(asked)
    }

    async fn ask(&self, who: &Arc<Caller>, tool: &str, arguments: Json) -> Json {
        self.begin(who, tool, &arguments).await.expect("it ends")
    }

    async fn session(&self, who: &Arc<Caller>) -> String {
        let opened = self.ask(who, "plasm_context", json!({"intent": "triage", "seeds": seeds()})).await;
        text(&opened["structuredContent"]["logical_session_ref"])
    }

    async fn plan(&self, who: &Arc<Caller>, session: &str, program: &str) -> String {
        let ask = json!({"logical_session_ref": session, "program": program});
        text(&self.ask(who, "plasm", ask).await["structuredContent"]["run_ref"])
    }

    async fn run(&self, who: &Arc<Caller>, session: &str, run_ref: &str) -> Json {
        self.ask(who, "plasm_run", json!({"logical_session_ref": session, "run_ref": run_ref})).await
    }

    /// The text of a resource, or the fault in words.
    async fn resource(&self, who: &Arc<Caller>, uri: &str) -> Result<String, String> {
        let mut call = call(who, "", &json!({}));
        call.method = Method::ResourcesRead;
        call.params = Params::read(Raw::trusted(json!({"uri": uri}).to_string())).expect("an object");
        let surface = self.surface.clone();
        let asked = async move { surface.call(call).await.outcome().await };
        let outcome = self.runtime.as_ref().expect("it runs").spawn(asked).await.expect("it ends");
        match outcome {
            Outcome::Result(result) => {
                Ok(text(&result.read::<Json>().expect("a result is JSON")["contents"][0]["text"]))
            }
            other => Err(format!("{other:?}")),
        }
    }

    /// As SIGKILL: what it does is never gone on with.
    fn kill(&mut self) {
        self.runtime.take().expect("it runs").shutdown_background();
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Nothing(Arc<str>);

impl Session for Nothing {
    fn id(&self) -> Option<&SessionId> {
        None
    }

    fn key(&self) -> &Arc<str> {
        &self.0
    }

    fn load(&self, _: &UpstreamId) -> BoxFuture<'static, Result<Option<bytes::Bytes>, StoreAway>> {
        async { Ok(None) }.boxed()
    }

    fn swap(
        &self,
        _: &UpstreamId,
        _: Option<bytes::Bytes>,
        _: Option<bytes::Bytes>,
    ) -> BoxFuture<'static, Result<bool, StoreAway>> {
        async { Ok(true) }.boxed()
    }
}

fn person(tenant: &str, subject: &str) -> Arc<Caller> {
    Arc::new(Caller {
        access: Arc::new(Access::open(Arc::new(Principal::minted(tenant, "https://id.example", subject)))),
        profile: "".into(),
        client: Arc::new(Client::default()),
        version: Version::MODERN,
        session: Arc::new(Nothing("s".into())),
    })
}

fn ann() -> Arc<Caller> {
    person("acme", "ann")
}

fn call(who: &Arc<Caller>, tool: &str, arguments: &Json) -> Call {
    let params = json!({"name": tool, "arguments": arguments}).to_string();
    Call {
        caller: who.clone(),
        method: Method::ToolsCall,
        params: Params::read(Raw::trusted(params)).expect("an object"),
        progress: None,
        resume: None,
        trail: None,
        cancel: Cancel::never(),
        deadline: tokio::time::Instant::now() + Duration::from_secs(60),
        watch: None,
    }
}

fn catalogs() -> Arc<Catalogs> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/catalogs");
    Arc::new(load_folder(&folder).expect("the corpus has catalogs"))
}

fn seeds() -> Json {
    json!([{"api": "tracker", "entity": "Issue"}, {"api": "tracker", "entity": "Project"}])
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn code(answer: &Json) -> &str {
    answer["structuredContent"]["error"]["code"].as_str().unwrap_or("none")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_opened_on_one_pod_is_planned_on_another_run_on_a_third_and_gone_on_with_on_the_first() {
    let (redis, world) = (Server::start(&[]), World::open());
    let (one, two, three) =
        tokio::join!(Pod::start(&redis, &world), Pod::start(&redis, &world), Pod::start(&redis, &world));
    let ann = ann();
    let session = one.session(&ann).await;
    let mut run_ref = two.plan(&ann, &session, &format!("{LIST} | limit(20)")).await;
    let (mut seen, mut pod) = (Vec::new(), [&three, &one, &two].into_iter().cycle());
    for _ in 0..3 {
        let ran = pod.next().expect("they go round").run(&ann, &session, &run_ref).await;
        let root = &ran["structuredContent"]["roots"][0];
        assert_eq!(root["rows"], 20, "{ran}");
        seen.extend(root["values"].as_array().expect("rows").iter().map(|row| row[0].clone()));
        run_ref = text(&root["next_run_ref"]);
    }
    let wanted: Vec<Json> = (0..60).map(|n| json!(format!("i{n}"))).collect();
    assert_eq!(seen, wanted, "each row once, in order, whichever pod told it");
    assert_eq!(two.session(&ann).await, session, "one intent is one session");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_pods_that_run_one_write_at_once_one_writes_and_both_tell_what_became_of_it() {
    let (redis, world) = (Server::start(&[]), World::gated());
    let (one, two) = (Pod::start(&redis, &world).await, Pod::start(&redis, &world).await);
    let ann = ann();
    let session = one.session(&ann).await;
    let run_ref = one.plan(&ann, &session, CREATE).await;
    let ask = json!({"logical_session_ref": session, "run_ref": run_ref});
    let (mut here, mut there) = (one.begin(&ann, "plasm_run", &ask), two.begin(&ann, "plasm_run", &ask));
    // One of them has it, and waits for the source for as long as several leases; the other is told so at once.
    world.is_writing().await;
    let (told, writes, loser) = tokio::select! {
        told = &mut here => (told, there, &one),
        told = &mut there => (told, here, &two),
    };
    let told = told.expect("it ends");
    assert_eq!(
        (code(&told), &told["structuredContent"]["error"]["retryable"]),
        ("already_running", &json!(true))
    );
    let begun = std::time::Instant::now();
    while begun.elapsed() < 3 * LEASE {
        assert_eq!(code(&loser.run(&ann, &session, &run_ref).await), "already_running");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.gate.add_permits(1);
    let outcome = writes.await.expect("it ends");
    assert_eq!((&outcome["isError"], world.writes()), (&Json::Null, 1), "{outcome}");
    for pod in [&one, &two] {
        assert_eq!(pod.run(&ann, &session, &run_ref).await, outcome, "the recorded outcome, everywhere");
    }
    assert_eq!(world.writes(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_two_pods_meet_over_a_write_it_is_made_once() {
    let (redis, world) = (Server::start(&[]), World::open());
    let (one, two) = (Pod::start(&redis, &world).await, Pod::start(&redis, &world).await);
    let ann = ann();
    let session = one.session(&ann).await;
    for round in 1..=20 {
        let run_ref = two.plan(&ann, &session, CREATE).await;
        let ask = json!({"logical_session_ref": session, "run_ref": run_ref});
        let calls = [&one, &two, &one, &two].map(|pod| pod.begin(&ann, "plasm_run", &ask));
        let answers = futures_util::future::try_join_all(calls).await.expect("all end");
        let outcome = one.run(&ann, &session, &run_ref).await;
        for answer in &answers {
            assert!(code(answer) == "already_running" || *answer == outcome, "{answer}\n{outcome}");
        }
        assert!(answers.contains(&outcome));
        assert_eq!(world.writes(), round, "one write a plan");
    }
    let keys: std::collections::BTreeSet<_> =
        world.written.lock().expect("nobody panics").iter().cloned().collect();
    assert_eq!(keys.len(), 20, "each run has a key of its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_goes_away_while_it_writes_leaves_an_unknown_outcome_and_nobody_writes_again() {
    let (redis, world) = (Server::start(&[]), World::gated());
    let (mut one, two) = (Pod::start(&redis, &world).await, Pod::start(&redis, &world).await);
    let ann = ann();
    let session = one.session(&ann).await;
    let run_ref = one.plan(&ann, &session, CREATE).await;
    let ask = json!({"logical_session_ref": session, "run_ref": run_ref});
    let lost = one.begin(&ann, "plasm_run", &ask);
    world.is_writing().await;
    one.kill();
    assert!(lost.await.is_err(), "its caller gets no answer");
    comes_true("the run is known to be lost", || async {
        let told = two.run(&ann, &session, &run_ref).await;
        assert!(matches!(code(&told), "already_running" | "outcome_unknown"), "{told}");
        code(&told) == "outcome_unknown"
    })
    .await;
    world.gate.add_permits(10);
    let three = Pod::start(&redis, &world).await;
    for pod in [&two, &three] {
        let told = pod.run(&ann, &session, &run_ref).await;
        assert_eq!(
            (code(&told), &told["structuredContent"]["error"]["retryable"]),
            ("outcome_unknown", &json!(false))
        );
    }
    assert_eq!(world.writes(), 1);
    // What is planned anew is another run.
    let again = three.plan(&ann, &session, CREATE).await;
    assert_eq!(code(&two.run(&ann, &session, &again).await), "none");
    assert_eq!(world.writes(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_leaves_its_write_to_its_end() {
    let (redis, world) = (Server::start(&[]), World::gated());
    let (one, two) = (Pod::start(&redis, &world).await, Pod::start(&redis, &world).await);
    let ann = ann();
    let session = one.session(&ann).await;
    let run_ref = one.plan(&ann, &session, CREATE).await;
    let gone = one.begin(&ann, "plasm_run", &json!({"logical_session_ref": session, "run_ref": run_ref}));
    world.is_writing().await;
    gone.abort();
    assert!(gone.await.is_err());
    assert_eq!(code(&two.run(&ann, &session, &run_ref).await), "already_running");
    world.gate.add_permits(1);
    comes_true("its outcome is told to who asks again", || async {
        let told = two.run(&ann, &session, &run_ref).await;
        code(&told) == "none" && told["structuredContent"]["writes"][0]["done"] == json!(["i999"])
    })
    .await;
    assert_eq!(world.writes(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_another_s_answers_to_the_byte_as_what_never_was() {
    let (redis, world) = (Server::start(&[]), World::open());
    let (one, two) = (Pod::start(&redis, &world).await, Pod::start(&redis, &world).await);
    let ann = ann();
    let session = one.session(&ann).await;
    let reads = one.plan(&ann, &session, &format!("{LIST} | limit(20)")).await;
    let writes = one.plan(&ann, &session, CREATE).await;
    let ran = one.run(&ann, &session, &reads).await;
    let root = &ran["structuredContent"]["roots"][0];
    let page = text(&root["next_run_ref"]);
    let (uri, run_id) = (text(&root["artifact_uri"]), text(&root["run_id"]));
    let by_run = format!("plasm://execute/{session}/run/{run_id}");
    for uri in [&uri, &by_run] {
        assert!(two.resource(&ann, uri).await.expect("it is hers").contains("\"i0\""));
    }
    // As none ever was: of the right form, and random.
    let never = |was: &str| format!("{}{}", &was[..2], "a".repeat(was.len() - 2));
    for stranger in [person("acme", "eve"), person("globex", "ann")] {
        let own = two.session(&stranger).await;
        assert_ne!(own, session, "the same intent of another is another session");
        for pod in [&one, &two] {
            let compared = |tool: &'static str, theirs: Json, none: Json| {
                let stranger = stranger.clone();
                async move {
                    let (theirs, none) =
                        (pod.ask(&stranger, tool, theirs).await, pod.ask(&stranger, tool, none).await);
                    assert_eq!(theirs.to_string(), none.to_string());
                    assert_eq!(code(&theirs), "session_unknown", "{tool}");
                }
            };
            let at = |session: &str, more: Json| {
                let mut ask = json!({"logical_session_ref": session});
                ask.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
                ask
            };
            let nobodys = never(&session);
            let open = json!({"intent": "triage", "seeds": seeds()});
            compared("plasm_context", at(&session, open.clone()), at(&nobodys, open)).await;
            for mode in ["plan", "auto"] {
                let ask = json!({"program": LIST, "mode": mode});
                compared("plasm", at(&session, ask.clone()), at(&nobodys, ask)).await;
            }
            compared(
                "plasm_run",
                at(&session, json!({"program": LIST})),
                at(&nobodys, json!({"program": LIST})),
            )
            .await;
            for run_ref in [&reads, &writes, &page] {
                let (theirs, none) = (json!({"run_ref": run_ref}), json!({"run_ref": never(run_ref)}));
                compared("plasm_run", at(&session, theirs.clone()), at(&nobodys, theirs.clone())).await;
                compared("plasm_run", at(&own, theirs), at(&own, none)).await;
            }
            for (what, name) in [("artifact_uri", &uri), ("artifact_uri", &by_run), ("run_id", &run_id)] {
                let theirs = json!({what: name});
                compared(
                    "plasm_read_run_artifact",
                    at(&session, theirs.clone()),
                    at(&nobodys, theirs.clone()),
                )
                .await;
                let none = json!({what: name.replace(&session, &nobodys).replace(&run_id, &never(&run_id))});
                compared("plasm_read_run_artifact", at(&own, theirs), at(&own, none)).await;
            }
            for uri in [&uri, &by_run] {
                let theirs = pod.resource(&stranger, uri).await.expect_err("it is another's");
                let none = uri.replace(&session, &nobodys);
                let never = pod.resource(&stranger, &none).await.expect_err("it never was");
                assert_eq!(theirs.replace(uri, ""), never.replace(&none, ""));
            }
        }
    }
    assert_eq!(world.writes(), 0);
    assert_eq!(code(&two.run(&ann, &session, &page).await), "none", "to its owner all is as it was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_shares_its_sessions_shares_neither_plans_nor_runs_nor_with_another_tenant() {
    let (redis, world) = (Server::start(&[]), World::open());
    let one = Pod::with(&redis, &world, catalogs(), true).await;
    let two = Pod::with(&redis, &world, catalogs(), true).await;
    let (ann, ben) = (person("acme", "ann"), person("acme", "ben"));
    let session = one.session(&ann).await;
    assert_eq!(two.session(&ben).await, session, "a tenant's session is all its principals'");
    let write = one.plan(&ann, &session, CREATE).await;
    let refused = two.run(&ben, &session, &write).await;
    assert_eq!((code(&refused), world.writes()), ("session_unknown", 0), "who planned it, runs it");
    let done = two.run(&ann, &session, &write).await;
    assert_eq!((code(&done), world.writes()), ("none", 1));
    assert_eq!(code(&one.run(&ben, &session, &write).await), "session_unknown", "its outcome is hers, too");
    let stranger = person("globex", "ann");
    assert_ne!(one.session(&stranger).await, session);
    assert_eq!(code(&one.run(&stranger, &session, &write).await), "session_unknown");
}
