//! Plans made again, runs claimed, lost, finished and given back.

use plasm_mcp::execute::instant::Instant;
use plasm_mcp::execute::language::check;
use plasm_mcp::execute::logical::{Begun, Remembered, RunClaim};
use plasm_mcp::execute::plan::{Plan, plan};
use plasm_mcp::execute::run::Cursor;
use plasm_mcp::store::{Key, Sure, Write};
use serde_json::{Value as Json, json};
use tokio::task::JoinSet;

use super::*;

const READS: &str =
    "Project(\"p1\").issues | filter(state = \"open\", updated_at >= ago(\"30d\")) | limit(5)";
const WRITES: &str = "Issue(\"i1\").update(title = \"t\")";

fn planned(held: &Held, program: &str) -> Plan {
    let typed = check(program, &held.scope).unwrap_or_else(|error| panic!("{}", error.render(program)));
    plan(&typed, program, &held.scope, &held.catalogs, now()).expect("a plan")
}

fn now() -> Instant {
    Instant::parse("2026-11-30T12:00:00.5Z").expect("an instant")
}

async fn tracker(pod: &Logical, owner: &Owner) -> Arc<Held> {
    let seeds = ["Issue", "Label", "Project"].map(|entity| seed("tracker", entity));
    opened(pod, owner, "x", &seeds).await.held
}

async fn remembered(pod: &Logical, owner: &Owner, held: &Held, program: &str) -> (Remembered, String) {
    let plan = planned(held, program);
    let remembered = Remembered::of(held, owner, program, now(), &plan);
    let run_ref = pod.remember(held, &remembered).await.expect("it is kept").to_string();
    (remembered, run_ref)
}

async fn claimed(pod: &Logical, owner: &Owner, held: &Held, run_ref: &str) -> RunClaim {
    match pod.begin_run(held, owner, run_ref).await {
        Ok(Begun::Writes(_, _, claim)) => claim,
        other => panic!("{other:?}"),
    }
}

async fn outcome(pod: &Logical, owner: &Owner, held: &Held, run_ref: &str) -> Json {
    match pod.begin_run(held, owner, run_ref).await {
        Ok(Begun::Done(outcome)) => outcome,
        other => panic!("{other:?}"),
    }
}

async fn refused(pod: &Logical, owner: &Owner, held: &Held, run_ref: &str) -> LogicalError {
    pod.begin_run(held, owner, run_ref).await.expect_err("it does not begin")
}

pub async fn a_plan_is_made_again_on_another_pod(store: Arc<dyn Store>) {
    let (one, two, anna) = (pod(&store), pod(&store), person("anna"));
    let held = tracker(&one, &anna).await;
    let (remembered, run_ref) = remembered(&one, &anna, &held, READS).await;
    let there = two.load(&anna, held.handle.as_str()).await.expect("it is there");
    for _ in 0..2 {
        match two.begin_run(&there, &anna, &run_ref).await {
            Ok(Begun::Reads(plan, found)) => {
                assert_eq!((*found, plan.hash()), (remembered.clone(), remembered.hash.clone()));
                assert!(json!(plan.nodes).to_string().contains("2026-10-31T12:00:00.5Z"), "the frozen now");
            }
            other => panic!("{other:?}"),
        }
    }
}

pub async fn more_symbols_never_change_a_plan(store: Arc<dyn Store>) {
    let (pod, anna) = (pod(&store), person("anna"));
    let held = tracker(&pod, &anna).await;
    let (_, run_ref) = remembered(&pod, &anna, &held, READS).await;
    let more =
        extended(&pod, &anna, &held, &[seed("pokeapi", "Type"), seed("pokeapi", "Pokemon")]).await.held;
    assert!(matches!(pod.begin_run(&more, &anna, &run_ref).await, Ok(Begun::Reads(..))));
}

pub async fn a_reference_expires_or_is_foreign(store: Arc<dyn Store>) {
    let settings = Settings { plan: Duration::from_millis(200), ..Settings::default() };
    let (pod, anna) = (pod_with(&store, settings), person("anna"));
    let held = tracker(&pod, &anna).await;
    let (_, run_ref) = remembered(&pod, &anna, &held, READS).await;
    let other = opened(&pod, &anna, "other", &[seed("tracker", "Issue")]).await.held;
    assert_eq!(refused(&pod, &anna, &other, &run_ref).await, LogicalError::UnknownRef);
    assert_eq!(refused(&pod, &anna, &held, "p_x").await, LogicalError::UnknownRef);
    comes_true("it expired", || async {
        pod.begin_run(&held, &anna, &run_ref).await.is_err_and(|error| error == LogicalError::RefExpired)
    })
    .await;

    // A session of a whole tenant: a plan is its planner's all the same.
    let of = |name| Owner::of(&caller(Principal::minted("t", "i", name), "p", None), true);
    let (ann, ben, pod) = (of("ann"), of("ben"), self::pod(&store));
    let held = tracker(&pod, &ann).await;
    assert_eq!(tracker(&pod, &ben).await.handle, held.handle);
    for program in [READS, WRITES] {
        let (_, run_ref) = remembered(&pod, &ann, &held, program).await;
        assert_eq!(refused(&pod, &ben, &held, &run_ref).await, LogicalError::UnknownRef);
        assert!(pod.begin_run(&held, &ann, &run_ref).await.is_ok());
        assert_eq!(refused(&pod, &ben, &held, &run_ref).await, LogicalError::UnknownRef);
    }
}

pub async fn a_changed_catalog_is_a_changed_plan(store: Arc<dyn Store>) {
    let (pod, anna) = (pod(&store), person("anna"));
    let held = tracker(&pod, &anna).await;
    let plan = planned(&held, WRITES);
    let good = Remembered::of(&held, &anna, WRITES, now(), &plan);
    let mut digests = good.clone();
    digests.digests.insert("tracker".to_owned(), "another".to_owned());
    let (mut hash, mut program) = (good.clone(), good.clone());
    hash.hash = "another".to_owned();
    program.program = "Nothing".to_owned();
    for changed in [digests, hash, program] {
        let run_ref = pod.remember(&held, &changed).await.expect("it is kept").to_string();
        for _ in 0..2 {
            let error = refused(&pod, &anna, &held, &run_ref).await;
            assert!(matches!(error, LogicalError::PlanChanged(_)), "{error:?}");
        }
    }
    let run_ref = pod.remember(&held, &good).await.expect("it is kept").to_string();
    claimed(&pod, &anna, &held, &run_ref).await;
}

pub async fn a_page_goes_on_where_it_was_left(store: Arc<dyn Store>) {
    let settings = Settings { page: Duration::from_millis(300), ..Settings::default() };
    let (one, two, anna) = (pod_with(&store, settings), pod(&store), person("anna"));
    let held = tracker(&one, &anna).await;
    let (plan, _) = remembered(&one, &anna, &held, READS).await;
    let from = Cursor { roots: vec![0], read: None };
    let pages = one.pages(&held, &plan, &[from.clone(), from.clone()]).await.expect("they are kept");
    let page = pages[0].to_string();
    assert_ne!(pages[1].to_string(), page);
    match two.begin_run(&held, &anna, &page).await {
        Ok(Begun::Reads(_, found)) => assert_eq!(found.from, Some(from)),
        other => panic!("{other:?}"),
    }
    let other = opened(&two, &anna, "other", &[seed("tracker", "Issue")]).await.held;
    assert_eq!(refused(&two, &anna, &other, &page).await, LogicalError::UnknownRef);
    comes_true("it expired", || async {
        two.begin_run(&held, &anna, &page).await.is_err_and(|error| error == LogicalError::RefExpired)
    })
    .await;
}

pub async fn of_two_pods_one_runs_and_the_other_gets_its_outcome(store: Arc<dyn Store>) {
    // A lease much shorter than what is waited for: it is renewed.
    let settings = Settings { lease: Duration::from_millis(300), ..Settings::default() };
    let (one, two, anna) = (pod_with(&store, settings), pod(&store), person("anna"));
    let held = tracker(&one, &anna).await;
    let (_, run_ref) = remembered(&one, &anna, &held, WRITES).await;
    let claim = claimed(&one, &anna, &held, &run_ref).await;
    claim.before_writing().confirm().await.expect("it is this call's");
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        assert_eq!(refused(&two, &anna, &held, &run_ref).await, LogicalError::AlreadyRunning);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    claim.finish(&json!({"done": [9007199254740993u64, []]})).await.expect("it is recorded");
    for pod in [&one, &two] {
        assert_eq!(
            outcome(pod, &anna, &held, &run_ref).await.to_string(),
            r#"{"done":[9007199254740993,[]]}"#
        );
    }
}

pub async fn of_many_claimers_one_wins(store: Arc<dyn Store>) {
    let anna = person("anna");
    let first = pod(&store);
    let held = tracker(&first, &anna).await;
    for _ in 0..5 {
        let (_, run_ref) = remembered(&first, &anna, &held, WRITES).await;
        let mut all = JoinSet::new();
        for _ in 0..16 {
            let (pod, anna, held, run_ref) = (pod(&store), anna.clone(), held.clone(), run_ref.clone());
            all.spawn(async move { pod.begin_run(&held, &anna, &run_ref).await });
        }
        let all = all.join_all().await;
        let won = all.iter().filter(|begun| matches!(begun, Ok(Begun::Writes(..)))).count();
        let told = all.iter().filter(|begun| matches!(begun, Err(LogicalError::AlreadyRunning))).count();
        assert_eq!((won, told), (1, 15), "{all:?}");
    }
}

fn hasty() -> Settings {
    Settings { lease: Duration::from_millis(200), ..Settings::default() }
}

pub async fn a_run_that_was_lost_while_it_wrote_is_never_run_again(store: Arc<dyn Store>) {
    let (one, two, anna) = (pod_with(&store, hasty()), pod(&store), person("anna"));
    let held = tracker(&one, &anna).await;
    let (_, run_ref) = remembered(&one, &anna, &held, WRITES).await;
    let claim = claimed(&one, &anna, &held, &run_ref).await;
    claim.before_writing().confirm().await.expect("it is this call's");
    drop(claim);
    comes_true("it is lost", || async {
        match refused(&two, &anna, &held, &run_ref).await {
            LogicalError::AlreadyRunning => false,
            error => error == LogicalError::OutcomeUnknown,
        }
    })
    .await;
    for pod in [&one, &two] {
        assert_eq!(refused(pod, &anna, &held, &run_ref).await, LogicalError::OutcomeUnknown);
    }

    // One that was only held up, and ends, is believed.
    let (_, run_ref) = remembered(&one, &anna, &held, WRITES).await;
    let claim = claimed(&one, &anna, &held, &run_ref).await;
    claim.before_writing().confirm().await.expect("it is this call's");
    let name = run_ref.trim_start_matches("p_");
    let run = Key::new(held.handle.as_str(), format!("run:{name}"));
    store.commit(Vec::new(), vec![(run, Write::set("lost", "1"))], Sure::Master).await.expect("a commit");
    assert_eq!(refused(&two, &anna, &held, &run_ref).await, LogicalError::OutcomeUnknown);
    claim.finish(&json!("done")).await.expect("it is recorded");
    assert_eq!(outcome(&two, &anna, &held, &run_ref).await, json!("done"));
}

pub async fn a_run_that_was_lost_before_it_wrote_is_run_by_another_and_the_first_may_not_write(
    store: Arc<dyn Store>,
) {
    let (one, two, anna) = (pod_with(&store, hasty()), pod(&store), person("anna"));
    let held = tracker(&one, &anna).await;
    let (_, run_ref) = remembered(&one, &anna, &held, WRITES).await;
    let claim = claimed(&one, &anna, &held, &run_ref).await;
    let first = claim.before_writing();
    drop(claim);
    let mut second = None;
    for _ in 0..1_000 {
        match two.begin_run(&held, &anna, &run_ref).await {
            Ok(Begun::Writes(_, _, claim)) => {
                second = Some(claim);
                break;
            }
            Err(LogicalError::AlreadyRunning) => tokio::time::sleep(Duration::from_millis(10)).await,
            other => panic!("{other:?}"),
        }
    }
    let second = second.expect("it is free after the lease");
    assert_eq!(first.confirm().await.expect_err("it is another's").code, "already_running");
    second.before_writing().confirm().await.expect("it is this call's");
    second.finish(&json!(2)).await.expect("it is recorded");
    assert_eq!(outcome(&one, &anna, &held, &run_ref).await, json!(2));
}

pub async fn a_run_is_given_back(store: Arc<dyn Store>) {
    let (pod, anna) = (pod(&store), person("anna"));
    let held = tracker(&pod, &anna).await;
    let (_, run_ref) = remembered(&pod, &anna, &held, WRITES).await;
    claimed(&pod, &anna, &held, &run_ref).await.release().await.expect("it is given back");
    claimed(&pod, &anna, &held, &run_ref).await;
}

pub async fn an_outcome_outlives_its_plan(store: Arc<dyn Store>) {
    let settings = Settings { plan: Duration::from_millis(400), ..Settings::default() };
    let (pod, anna) = (pod_with(&store, settings), person("anna"));
    let held = tracker(&pod, &anna).await;
    let (_, run_ref) = remembered(&pod, &anna, &held, WRITES).await;
    claimed(&pod, &anna, &held, &run_ref).await.finish(&json!(1)).await.expect("it is recorded");
    let key = Key::new(held.handle.as_str(), format!("plan:{}", run_ref.trim_start_matches("p_")));
    comes_true("the plan expired", || async { store.get(key.clone()).await == Ok(None) }).await;
    assert_eq!(outcome(&pod, &anna, &held, &run_ref).await, json!(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_before_a_replica_knows_of_the_claim() {
    let master = Server::start(&[]);
    let replica = Server::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    comes_true("it follows", || async {
        replica.cli(&["INFO", "replication"]).contains("master_link_status:up")
    })
    .await;
    let store = master.store().await;
    let (pod, anna) = (pod(&store), person("anna"));
    let held = tracker(&pod, &anna).await;
    let (_, run_ref) = remembered(&pod, &anna, &held, WRITES).await;
    replica.hang();
    let claim = claimed(&pod, &anna, &held, &run_ref).await;
    let fault = claim.before_writing().confirm().await.expect_err("nobody but the master has it");
    assert_eq!((fault.code, fault.retryable), ("state_store_unavailable", true));
    claim.release().await.expect("it is given back");
    replica.wake();
    comes_true("it is confirmed", || async {
        let claim = claimed(&pod, &anna, &held, &run_ref).await;
        let confirmed = claim.before_writing().confirm().await.is_ok();
        claim.release().await.is_ok() && confirmed
    })
    .await;
}
