//! Opening, expanding, owning, expiring.

use tokio::task::JoinSet;

use super::*;

const TRACKER: [&str; 3] = ["Issue", "Label", "Project"];

pub async fn one_intent_is_one_session_on_every_pod(store: Arc<dyn Store>) {
    let (one, two, anna) = (pod(&store), pod(&store), person("anna"));
    let first = opened(&one, &anna, " triage ", &[seed("tracker", "Issue")]).await;
    assert_eq!(first.continuity, Continuity { new_symbol_space: true, ..Continuity::default() });
    assert!(!first.table.is_empty() && symbols(&first)[0] == "e1");
    let second = opened(&two, &anna, "triage", &[seed("tracker", "Issue"), seed("tracker", "Label")]).await;
    assert_eq!(second.held.handle, first.held.handle);
    assert_eq!((second.held.revision, second.continuity), (2, Continuity::default()));
    assert_eq!(symbols(&second)[0], "e2", "a delta");
    assert_eq!(second.known[0].name, "tracker::Issue");
    let third = opened(&one, &anna, "triage", &[seed("tracker", "Label")]).await;
    assert_eq!((third.table.as_str(), symbols(&third).len(), third.held.revision), ("", 0, 2));
    assert_eq!(third.held.scope.ledger, second.held.scope.ledger);
    assert_ne!(
        opened(&one, &anna, "other", &[seed("tracker", "Issue")]).await.held.handle,
        first.held.handle
    );
}

pub async fn a_given_reference_extends_exactly_that_session(store: Arc<dyn Store>) {
    let (pod, anna) = (pod(&store), person("anna"));
    let one = opened(&pod, &anna, "one", &[seed("tracker", "Issue")]).await.held;
    let two = opened(&pod, &anna, "two", &[seed("tracker", "Project")]).await.held;
    let ask = Open {
        intent: "two",
        seeds: &[seed("pokeapi", "Type")],
        given: Some(one.handle.as_str()),
        fresh: false,
    };
    let opened = pod.open(&anna, ask).await.expect("it is there");
    assert_eq!(opened.held.handle, one.handle);
    assert_eq!(pod.load(&anna, two.handle.as_str()).await.expect("it is there").revision, 1);
}

pub async fn fresh_forces_a_new_session_to_which_the_intent_leads(store: Arc<dyn Store>) {
    let (pod, anna, seeds) = (pod(&store), person("anna"), [seed("tracker", "Issue")]);
    let old = opened(&pod, &anna, "x", &seeds).await.held;
    let new = pod
        .open(&anna, Open { intent: "x", seeds: &seeds, given: None, fresh: true })
        .await
        .expect("a session");
    assert_ne!(new.held.handle, old.handle);
    assert!(new.continuity.new_symbol_space && new.continuity.discard_cached_plasm_symbols);
    assert_eq!(opened(&pod, &anna, "x", &seeds).await.held.handle, new.held.handle);
    assert!(pod.load(&anna, old.handle.as_str()).await.is_ok(), "the old one lives on");
}

pub async fn a_foreign_handle_is_unknown(store: Arc<dyn Store>) {
    let (here, there) = (pod(&store), pod(&store));
    let held = opened(&here, &person("anna"), "x", &[seed("tracker", "Issue")]).await.held;
    let of = |principal, profile| Owner::of(&caller(principal, profile, None), false);
    let strangers = [
        person("ben"),
        of(Principal::minted("u", "i", "anna"), "p"),
        of(Principal::minted("t", "j", "anna"), "p"),
        of(Principal::minted("t", "i", "anna"), "q"),
    ];
    for stranger in strangers {
        for pod in [&here, &there] {
            let found = pod.load(&stranger, held.handle.as_str()).await;
            assert_eq!(found.err(), Some(LogicalError::Unknown));
            let seeds = [seed("tracker", "Label")];
            let ask = Open { intent: "x", seeds: &seeds, given: Some(held.handle.as_str()), fresh: false };
            assert_eq!(pod.open(&stranger, ask).await.err(), Some(LogicalError::Unknown));
        }
        let own = opened(&here, &stranger, "x", &[seed("tracker", "Issue")]).await.held;
        assert_ne!(own.handle, held.handle, "the same intent of another is another session");
    }
    for text in ["", "l_", "l_aaaaaaaaaaaaaaaaaaaaaaaaaa"] {
        assert_eq!(here.load(&person("anna"), text).await.err(), Some(LogicalError::Unknown));
    }
    assert_eq!(here.load(&person("anna"), held.handle.as_str()).await.expect("untouched").revision, 1);
}

pub async fn who_may_be_several_people_shares_only_within_a_transport_session(store: Arc<dyn Store>) {
    let (pod, seeds) = (pod(&store), [seed("tracker", "Issue")]);
    for issuer in ["", "plasm:api-keys"] {
        let of = |transport| Owner::of(&caller(Principal::minted("", issuer, "x"), "p", transport), false);
        let (one, two, none) = (of(Some("S1")), of(Some("S2")), of(None));
        let first = opened(&pod, &one, "x", &seeds).await.held;
        assert_eq!(opened(&pod, &one, "x", &seeds).await.held.handle, first.handle);
        assert_ne!(opened(&pod, &two, "x", &seeds).await.held.handle, first.handle);
        let [a, b] = [opened(&pod, &none, "x", &seeds).await, opened(&pod, &none, "x", &seeds).await];
        assert_ne!(a.held.handle, b.held.handle);
        assert!(pod.load(&none, first.handle.as_str()).await.is_ok(), "a handle needs no transport session");
    }
}

pub async fn a_profile_may_share_sessions_in_a_tenant(store: Arc<dyn Store>) {
    let (pod, seeds) = (pod(&store), [seed("tracker", "Issue")]);
    let of = |tenant, name| Owner::of(&caller(Principal::minted(tenant, "i", name), "p", None), true);
    let held = opened(&pod, &of("t", "anna"), "x", &seeds).await.held;
    assert_eq!(opened(&pod, &of("t", "ben"), "x", &seeds).await.held.handle, held.handle);
    assert_ne!(opened(&pod, &of("u", "anna"), "x", &seeds).await.held.handle, held.handle);
}

pub async fn nothing_is_kept_of_seeds_that_are_not_taken(store: Arc<dyn Store>) {
    let (pod, anna) = (pod(&store), person("anna"));
    let seeds = [seed("tracker", "Issue"), seed("tracker", "Isue"), seed("none", "X")];
    let ask = Open { intent: "x", seeds: &seeds, given: None, fresh: false };
    let error = pod.open(&anna, ask).await.expect_err("two are unknown");
    assert_eq!(error.to_string(), "unknown: none::X, tracker::Isue");
    assert_eq!(pod.open(&anna, Open { seeds: &[], ..ask }).await.err(), Some(LogicalError::NoSeeds));
    let long = "x".repeat(5_000);
    assert_eq!(pod.open(&anna, Open { intent: &long, ..ask }).await.err(), Some(LogicalError::Intent));
    let first = opened(&pod, &anna, "x", &seeds[..1]).await;
    assert!(!first.continuity.stale_binding_recovered && first.held.revision == 1);
    let given = Some(first.held.handle.as_str());
    assert!(pod.open(&anna, Open { given, ..ask }).await.is_err());
    assert_eq!(pod.load(&anna, first.held.handle.as_str()).await.expect("as before").revision, 1);
}

fn short() -> Settings {
    Settings { life: Duration::from_millis(300), ..Settings::default() }
}

pub async fn a_session_expires_and_its_owner_alone_learns_it(store: Arc<dyn Store>) {
    let (pod, anna) = (pod_with(&store, short()), person("anna"));
    let held = opened(&pod, &anna, "x", &[seed("tracker", "Issue")]).await.held;
    let handle = held.handle.as_str();
    // Looking extends it, so it is looked at from outside.
    let key = plasm_mcp::store::Key::new(handle, "s");
    comes_true("it expired", || async { store.get(key.clone()).await == Ok(None) }).await;
    assert_eq!(pod.load(&anna, handle).await.err(), Some(LogicalError::Expired));
    assert_eq!(pod.load(&person("ben"), handle).await.err(), Some(LogicalError::Unknown));
}

pub async fn no_use_keeps_a_session_beyond_its_whole_life(store: Arc<dyn Store>) {
    let settings = Settings {
        life: Duration::from_millis(400),
        whole_life: Duration::from_millis(1_500),
        ..Settings::default()
    };
    let (pod, anna) = (pod_with(&store, settings), person("anna"));
    let begun = std::time::Instant::now();
    let held = opened(&pod, &anna, "x", &[seed("tracker", "Issue")]).await.held;
    let last = std::sync::Mutex::new(Duration::ZERO);
    comes_true("it ends in use", || async {
        let at = begun.elapsed();
        match pod.load(&anna, held.handle.as_str()).await {
            Ok(_) => {
                *last.lock().expect("nobody panics") = at;
                false
            }
            Err(error) => error == LogicalError::Expired,
        }
    })
    .await;
    let last = last.into_inner().expect("nobody panics");
    assert!(last > Duration::from_millis(400), "use extends it: {last:?}");
}

pub async fn an_intent_whose_session_is_gone_leads_to_another_and_says_so(store: Arc<dyn Store>) {
    let (pod, anna, seeds) = (pod_with(&store, short()), person("anna"), [seed("tracker", "Issue")]);
    let old = opened(&pod, &anna, "x", &seeds).await.held;
    let key = plasm_mcp::store::Key::new(old.handle.as_str(), "s");
    comes_true("it expired", || async { store.get(key.clone()).await == Ok(None) }).await;
    let new = opened(&pod, &anna, "x", &seeds).await;
    assert_ne!(new.held.handle, old.handle, "an old symbol is never one of the new session");
    let gone = Continuity {
        stale_binding_recovered: true,
        new_symbol_space: true,
        discard_cached_plasm_symbols: true,
    };
    assert_eq!(new.continuity, gone);
}

/// What a pod leaves that goes away after the intent's name was written: found by watching one that does not.
pub async fn a_winner_that_crashed_in_between_is_healed(store: Arc<dyn Store>) {
    use plasm_mcp::store::{Key, Sure, Write};
    let (pod, anna, seeds) = (pod(&store), person("anna"), [seed("tracker", "Issue")]);
    let held = opened(&pod, &anna, "x", &seeds).await.held;
    let tag = held.handle.as_str();
    let gone = ["s", "o"].map(|rest| (Key::new(tag, rest), Write::Drop)).to_vec();
    store.commit(Vec::new(), gone, Sure::Master).await.expect("a commit");
    let mut all = JoinSet::new();
    for _ in 0..8 {
        let (pod, anna, seeds) = (self::pod(&store), anna.clone(), seeds.clone());
        all.spawn(async move { opened(&pod, &anna, "x", &seeds).await });
    }
    let all = all.join_all().await;
    assert!(
        all.iter()
            .all(|opened| opened.held.handle == held.handle && !opened.continuity.stale_binding_recovered)
    );
    assert_eq!(all.iter().filter(|opened| opened.continuity.new_symbol_space).count(), 1);
}

pub async fn changed_catalogs_stay_where_they_are_at_hand_and_void_symbols_where_not(store: Arc<dyn Store>) {
    let (was, is) = (only(wide(4, "was")), only(wide(5, "is")));
    let make = |catalogs: &Arc<Catalogs>| {
        Logical::new(PodId::random(), store.clone(), catalogs.clone(), Settings::default())
    };
    let (old, anna) = (make(&was), person("anna"));
    let held = opened(&old, &anna, "x", &[seed("wide", "Thing_0")]).await.held;
    old.serve(is.clone());
    let more = extended(&old, &anna, &held, &[seed("wide", "Thing_1")]).await;
    assert_eq!((more.held.handle.clone(), more.continuity), (held.handle.clone(), Continuity::default()));
    assert_eq!(more.held.digests, held.digests, "it goes on with the form that its symbols are of");

    let new = make(&is);
    assert_eq!(new.load(&anna, held.handle.as_str()).await.err(), Some(LogicalError::Void));
    let seeds = [seed("wide", "Thing_4")];
    let ask = Open { intent: "x", seeds: &seeds, given: Some(held.handle.as_str()), fresh: false };
    let begun = new.open(&anna, ask).await.expect("another session");
    assert!(begun.continuity.discard_cached_plasm_symbols && begun.continuity.new_symbol_space);
    assert_ne!(begun.held.handle, held.handle);
    let met = opened(&new, &anna, "x", &seeds).await.held;
    assert_eq!(met.handle, begun.held.handle, "the intent leads there");
}

pub async fn tasks_that_open_and_expand_at_once_meet(store: Arc<dyn Store>) {
    for round in 0..100 {
        meet(&store, &format!("intent {round}")).await;
    }
}

async fn meet(store: &Arc<dyn Store>, intent: &str) {
    let mut all = JoinSet::new();
    for task in 0..12 {
        let (pod, anna, intent) = (pod(store), person("anna"), intent.to_owned());
        all.spawn(async move { opened(&pod, &anna, &intent, &[seed("tracker", TRACKER[task % 3])]).await });
    }
    let all = all.join_all().await;
    let pod = pod(store);
    let end = pod.load(&person("anna"), all[0].held.handle.as_str()).await.expect("it is there");
    assert_eq!(end.scope.ledger.entities.len(), 3);
    for opened in &all {
        assert_eq!(opened.held.handle, end.handle);
        let then = &opened.held.scope.ledger.entities;
        assert_eq!(then[..], end.scope.ledger.entities[..then.len()], "nothing is numbered anew");
    }
    let taught: usize = all.iter().map(|opened| opened.added.len()).sum();
    let ledger = &end.scope.ledger;
    assert_eq!(taught, ledger.entities.len() + ledger.relations.len() + ledger.methods.len(), "each once");
}
