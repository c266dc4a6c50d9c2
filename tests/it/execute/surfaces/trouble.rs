//! A store that is away or full, catalogs that change, pods that are rolled: what is said, and that nothing is written twice
//! or without its claim.

use super::*;

/// What each tool says, but for finding entities, which needs no store.
async fn all_say(pod: &Pod, ann: &Arc<Caller>, session: &str, refs: &[&str], wanted: &str) {
    let open = json!({"intent": "another", "seeds": seeds()});
    let extend = json!({"intent": "triage", "seeds": seeds(), "logical_session_ref": session});
    let plan = json!({"logical_session_ref": session, "program": LIST});
    let mut asks = vec![("plasm_context", open), ("plasm_context", extend), ("plasm", plan)];
    asks.extend(
        refs.iter().map(|run_ref| ("plasm_run", json!({"logical_session_ref": session, "run_ref": run_ref}))),
    );
    let asked = asks.into_iter().map(|(tool, ask)| async move { (tool, pod.ask(ann, tool, ask).await) });
    for (tool, told) in futures_util::future::join_all(asked).await {
        assert_eq!(
            (code(&told), &told["structuredContent"]["error"]["retryable"]),
            (wanted, &json!(true)),
            "{tool}: {told}"
        );
        assert_eq!(told["isError"], true);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_is_said_and_ends_no_session_and_no_plan() {
    let (redis, world) = (Server::start(&[]), World::open());
    let (one, two) = (Pod::start(&redis, &world).await, Pod::start(&redis, &world).await);
    let ann = ann();
    let session = one.session(&ann).await;
    let (reads, writes) = (one.plan(&ann, &session, LIST).await, one.plan(&ann, &session, CREATE).await);
    redis.hang();
    for pod in [&one, &two] {
        all_say(pod, &ann, &session, &[&reads, &writes], "state_store_unavailable").await;
    }
    let found = two.ask(&ann, "discover_capabilities", json!({"query": "open issues"})).await;
    assert_eq!(
        found["structuredContent"]["entities"][0]["entity"], "Issue",
        "finding entities needs no store"
    );
    assert_eq!(world.writes(), 0);
    redis.wake();
    comes_true("all is there again", || async { code(&two.run(&ann, &session, &writes).await) == "none" })
        .await;
    assert_eq!(code(&one.run(&ann, &session, &reads).await), "none");
    assert_eq!(world.writes(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_full_is_said_and_nothing_is_written_without_its_claim() {
    let (redis, world) = (Server::start(&["--maxmemory-policy", "noeviction"]), World::open());
    let pod = Pod::start(&redis, &world).await;
    let ann = ann();
    let session = pod.session(&ann).await;
    let writes = pod.plan(&ann, &session, CREATE).await;
    let page = format!("{LIST} | limit(20)");
    let reads = pod.plan(&ann, &session, &page).await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let told = pod.run(&ann, &session, &writes).await;
    assert_eq!((code(&told), world.writes()), ("state_store_unavailable", 0), "{told}");
    let ask = json!({"logical_session_ref": session, "program": LIST});
    assert_eq!(code(&pod.ask(&ann, "plasm", ask).await), "state_store_unavailable", "no plan can be kept");
    // What is there can be read, and a read is answered without what would have to be kept.
    let ran = pod.run(&ann, &session, &reads).await;
    let root = &ran["structuredContent"]["roots"][0];
    assert_eq!(
        (code(&ran), &root["rows"], &root["next_run_ref"]),
        ("none", &json!(20), &Json::Null),
        "{ran}"
    );
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    comes_true("it writes", || async { code(&pod.run(&ann, &session, &writes).await) == "none" }).await;
    assert_eq!(world.writes(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_lost_while_a_write_is_under_way_loses_its_record_and_never_makes_it_twice() {
    let (redis, world) = (Server::start(&["--maxmemory-policy", "noeviction"]), World::gated());
    let (one, two) = (Pod::start(&redis, &world).await, Pod::start(&redis, &world).await);
    let ann = ann();
    let session = one.session(&ann).await;
    let run_ref = one.plan(&ann, &session, CREATE).await;
    let running = one.begin(&ann, "plasm_run", &json!({"logical_session_ref": session, "run_ref": run_ref}));
    world.is_writing().await;
    // It can renew nothing, so that others take it for lost; then it comes back, and is believed.
    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    comes_true("its lease is over", || async {
        !redis.cli(&["KEYS", "*"]).lines().any(|key| key.ends_with(":lease"))
    })
    .await;
    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let told = two.run(&ann, &session, &run_ref).await;
    assert!(matches!(code(&told), "outcome_unknown" | "already_running"), "{told}");
    world.gate.add_permits(1);
    let outcome = running.await.expect("it ends");
    assert_eq!(code(&outcome), "none", "{outcome}");
    assert_eq!(two.run(&ann, &session, &run_ref).await, outcome);
    assert_eq!(world.writes(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_are_rolled_between_plan_and_run_change_nothing() {
    let (redis, world) = (Server::start(&[]), World::open());
    let ann = ann();
    let mut old = Pod::start(&redis, &world).await;
    let session = old.session(&ann).await;
    let (reads, writes) = (old.plan(&ann, &session, LIST).await, old.plan(&ann, &session, CREATE).await);
    old.kill();
    let new = Pod::start(&redis, &world).await;
    let ran = new.run(&ann, &session, &reads).await;
    assert_eq!(ran["structuredContent"]["roots"][0]["rows"], 250, "{ran}");
    assert_eq!(code(&new.run(&ann, &session, &writes).await), "none");
    assert_eq!(world.writes(), 1);
    let more = json!({"intent": "", "seeds": [{"api": "tracker", "entity": "Label"}], "logical_session_ref": session});
    let more = new.ask(&ann, "plasm_context", more).await;
    let added = &more["structuredContent"]["symbols_added"];
    assert_eq!(added[0]["symbol"], "e3", "numbers go on where the old pod left them: {added}");
}

/// The tracker, in which an issue's state may be one more.
fn changed() -> Arc<Catalogs> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/catalogs/tracker.yaml");
    let text = std::fs::read_to_string(from).expect("the corpus has it");
    let text = text.replace("values: [open, closed]", "values: [open, closed, stale]");
    let mut catalogs = Catalogs::default();
    catalogs.add(plasm_mcp::execute::catalog::read(&text, Path::new("tracker.yaml")).expect("a catalog"));
    Arc::new(catalogs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_that_changes_between_plan_and_run_never_runs_what_was_not_planned() {
    let (redis, world) = (Server::start(&[]), World::open());
    let ann = ann();
    let old = Pod::start(&redis, &world).await;
    let session = old.session(&ann).await;
    let refs = [old.plan(&ann, &session, LIST).await, old.plan(&ann, &session, CREATE).await];
    // A pod that has only the new one: the plan's catalog is not at hand, and that is said before anything is asked.
    let new = Pod::with(&redis, &world, changed(), false).await;
    for run_ref in &refs {
        let told = new.run(&ann, &session, run_ref).await;
        assert!(matches!(code(&told), "plan_changed" | "session_expired"), "{told}");
    }
    assert_eq!((world.asks(), world.writes()), (0, 0));
    // Whoever asks for its table there has another session, and is told to forget the symbols of the first.
    let ask = json!({"intent": "triage", "seeds": seeds(), "logical_session_ref": session});
    let begun = new.ask(&ann, "plasm_context", ask).await;
    let next = text(&begun["structuredContent"]["logical_session_ref"]);
    assert_ne!(next, session);
    assert_eq!(begun["_meta"]["plasm"]["continuity"]["discard_cached_plasm_symbols"], true, "{begun}");
    let content = text(&begun["content"][0]["text"]);
    assert!(content.contains("forget every symbol"), "{content}");
    let foreign = new.run(&ann, &next, &refs[1]).await;
    assert_eq!((code(&foreign), world.writes()), ("session_unknown", 0), "a plan is of its session alone");
    // A pod that was reloaded has both: the session goes on with what its plans are of.
    old.logical.serve(changed());
    assert_eq!(code(&old.run(&ann, &session, &refs[0]).await), "none");
    assert_eq!(code(&old.run(&ann, &session, &refs[1]).await), "none");
    assert_eq!(world.writes(), 1);
}
