//! Writes: once claimed, in order, each known again by its key, none after what failed.

use super::*;

/// Notes whether it was asked before any request, and says what it is told to.
struct Noted {
    world: Arc<World>,
    asked: Mutex<Vec<usize>>,
    free: bool,
}

impl Claim for Noted {
    fn confirm(&self) -> BoxFuture<'static, Result<(), Fault>> {
        self.asked.lock().unwrap().push(self.world.asked().len());
        let answer = match self.free {
            true => Ok(()),
            false => Err(Fault::new("already_running", "another run has it", "wait for it")),
        };
        async move { answer }.boxed()
    }
}

const TWO: &str = "Issue(\"1\").update(state = \"closed\")\nIssue(\"2\").update(state = \"closed\")";

fn two() -> String {
    let lines: Vec<&str> = TWO.lines().collect();
    format!("a = {}\nb = {}\na[id], b[id]", lines[0], lines[1])
}

fn updates() -> Arc<World> {
    Arc::new(World::new(
        &json!([{ "op": "issue_update" }, { "op": "issue_list", "rows": [{ "id": "1" }, { "id": "2" }] }]),
    ))
}

#[tokio::test]
async fn a_claim_is_confirmed_once_and_before_the_first_write() {
    let world = updates();
    let claim = Arc::new(Noted { world: world.clone(), asked: Mutex::default(), free: true });
    let finished = run_with(&two(), &world, RunSettings { claim: Some(claim.clone()), ..settings() }).await;
    assert_eq!(*claim.asked.lock().unwrap(), [0]);
    assert_eq!(world.asked().len(), 2);
    assert_eq!(
        finished.writes.iter().map(|write| write.done.clone()).collect::<Vec<_>>(),
        [[json!("1")], [json!("2")]]
    );
}

#[tokio::test]
async fn without_its_claim_nothing_is_written() {
    let world = updates();
    let claim = Arc::new(Noted { world: world.clone(), asked: Mutex::default(), free: false });
    let finished = run_with(&two(), &world, RunSettings { claim: Some(claim.clone()), ..settings() }).await;
    assert_eq!(code(&finished), "already_running");
    assert_eq!(claim.asked.lock().unwrap().len(), 1);
    assert!(world.asked().is_empty());
    assert!(finished.writes.iter().all(|write| write.waits && write.done.is_empty()));
}

#[tokio::test]
async fn a_write_has_the_same_key_in_the_same_run_and_no_other_has_it() {
    let keys = async |run: &str| -> Vec<String> {
        let world = updates();
        let program = format!(
            "rows = Issue | filter(project = \"p\")\ne = rows => _.update(state = \"closed\")\n{}",
            "e[id], Issue(\"1\").delete()"
        );
        run_with(&program, &world, RunSettings::new(run, Duration::from_secs(60))).await;
        let asked = world.asked.lock().unwrap();
        asked.iter().filter_map(|ask| ask.idempotency_key.clone()).collect()
    };
    let (first, again, other) = (keys("a").await, keys("a").await, keys("b").await);
    assert_eq!(first.len(), 3);
    assert_eq!(first, again);
    let mut all: Vec<String> = first.into_iter().chain(other).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6);
}

#[tokio::test]
async fn more_rows_than_may_be_written_are_not_begun() {
    let many: Vec<Json> = (0..101).map(|id| json!({ "id": id })).collect();
    let world =
        Arc::new(World::new(&json!([{ "op": "issue_list", "rows": many }, { "op": "issue_update" }])));
    let finished =
        ran("rows = Issue | filter(project = \"p\")\nrows => _.update(state = \"closed\")", &world).await;
    assert_eq!(code(&finished), "too_large");
    assert_eq!(world.asked().len(), 1);
}

#[tokio::test]
async fn a_write_is_not_made_after_something_before_it_failed() {
    let world =
        Arc::new(World::new(&json!([{ "op": "type_get", "error": "not_found" }, { "op": "issue_update" }])));
    let program = "t = Type(\"nope\")\nw = Issue(\"1\").update(state = \"closed\")\nt, w";
    let finished = ran(program, &world).await;
    assert_eq!(code(&finished), "not_found");
    assert_eq!(world.asked(), ["type_get key={\"name\":\"nope\"}"]);
    assert!(finished.writes[0].waits);
}

#[tokio::test]
async fn a_write_of_which_nothing_is_heard_is_uncertain_and_never_said_to_be_retryable() {
    let world =
        Arc::new(World::new(&json!([{ "op": "issue_update", "error": "timeout", "uncertain": true }])));
    let finished = ran("Issue(\"1\").update(state = \"closed\")", &world).await;
    let failed = finished.failed.unwrap();
    assert_eq!((failed.fault.code, failed.fault.retryable), ("upstream_timeout", false));
    assert!(finished.writes[0].failed.as_ref().unwrap().uncertain);
}

#[tokio::test]
async fn a_run_with_writes_cannot_be_gone_on_with() {
    let world = Arc::new(World::new(&json!([
        { "op": "issue_update" },
        { "op": "issue_list", "rows": [{ "id": "1" }, { "id": "2" }] },
    ])));
    let program = "w = Issue(\"1\").update(state = \"closed\")\nrows = Issue | filter(project = \"p\") | limit(1)\nw, rows[id]";
    let finished = ran(program, &world).await;
    assert_eq!(rows(&finished, 1), json!([["1"]]));
    assert_eq!(finished.roots[1].coverage, Covered::Partial);
    assert_eq!(finished.roots[1].next, None, "it would write again");
}

#[tokio::test]
async fn what_came_of_a_write_and_cannot_be_held_is_said_of_a_write_that_is_done() {
    let large = "x".repeat(65 << 20);
    let world =
        Arc::new(World::new(&json!([{ "op": "issue_update", "rows": [{ "id": "1", "title": large }] }])));
    let finished = run_with("Issue(\"1\").update(state = \"closed\")", &world, settings()).await;
    assert_eq!((code(&finished), world.asked().len()), ("too_large", 1));
    let [write] = &finished.writes[..] else { panic!("{:?}", finished.writes) };
    assert!(!write.waits && write.done == [json!("1")], "{write:?}");
}
