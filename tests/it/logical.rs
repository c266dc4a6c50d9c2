//! Logical sessions on each store: what holds for one pod, for several, and when one of them goes away. A "pod" here is a
//! [`Logical`] of its own over the shared store; where it matters, a process of its own.

mod processes;
mod runs;
mod sessions;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use plasm_mcp::execute::catalog::{Catalogs, Loaded, load_folder, read};
use plasm_mcp::execute::logical::{Continuity, Held, Logical, LogicalError, Open, Opened, Owner, Settings};
use plasm_mcp::execute::symbols::Seed;
use plasm_mcp::mcp::{Access, Caller, Client, Principal, Session, SessionId, StoreAway, UpstreamId};
use plasm_mcp::store::{Memory, PodId, Store};
use plasm_mcp::wire::Version;

use crate::store::redis::server::Server;

/// Makes a test of every case, on memory and on a real Redis.
macro_rules! on_both {
    ($($room:ident :: { $($case:ident),* $(,)? }),* $(,)?) => {
        mod memory { $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$room::$case(super::memory_store()).await;
            }
        )*)* }
        mod redis { $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let server = crate::store::redis::server::Server::start(&[]);
                super::$room::$case(server.store().await).await;
            }
        )*)* }
    };
}

on_both!(
    sessions::{
        one_intent_is_one_session_on_every_pod,
        a_given_reference_extends_exactly_that_session,
        fresh_forces_a_new_session_to_which_the_intent_leads,
        a_foreign_handle_is_unknown,
        who_may_be_several_people_shares_only_within_a_transport_session,
        a_profile_may_share_sessions_in_a_tenant,
        nothing_is_kept_of_seeds_that_are_not_taken,
        a_session_expires_and_its_owner_alone_learns_it,
        no_use_keeps_a_session_beyond_its_whole_life,
        an_intent_whose_session_is_gone_leads_to_another_and_says_so,
        a_winner_that_crashed_in_between_is_healed,
        changed_catalogs_stay_where_they_are_at_hand_and_void_symbols_where_not,
        tasks_that_open_and_expand_at_once_meet,
    },
    runs::{
        a_plan_is_made_again_on_another_pod,
        more_symbols_never_change_a_plan,
        a_reference_expires_or_is_foreign,
        a_changed_catalog_is_a_changed_plan,
        a_page_goes_on_where_it_was_left,
        of_two_pods_one_runs_and_the_other_gets_its_outcome,
        of_many_claimers_one_wins,
        a_run_that_was_lost_while_it_wrote_is_never_run_again,
        a_run_that_was_lost_before_it_wrote_is_run_by_another_and_the_first_may_not_write,
        a_run_is_given_back,
        an_outcome_outlives_its_plan,
    },
);

pub fn memory_store() -> Arc<dyn Store> {
    Arc::new(Memory::new(64 << 20))
}

fn catalogs() -> Arc<Catalogs> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/catalogs");
    Arc::new(load_folder(&folder).expect("the corpus has catalogs"))
}

/// A catalog of that many entities that lead to each other, and each of which can be written.
fn wide(entities: usize, about: &str) -> Loaded {
    use std::fmt::Write as _;
    let mut text = format!(
        "catalog: wide\nrevision: 1\ntitle: {about}\nsource: {{kind: http, base_url: https://w.example}}\nentities:\n"
    );
    let mut operations = "operations:\n".to_owned();
    for n in 0..entities {
        let next = (n + 1) % entities;
        let _ = write!(
            text,
            "  Thing_{n}:\n    key: [id]\n    fields:\n      id: string\n      next_id: {{ref: Thing_{next}}}\n    relations:\n      next: {{to: Thing_{next}, ref: next_id}}\n"
        );
        let _ = write!(
            operations,
            "  list_{n}: {{kind: query, entity: Thing_{n}, http: {{send: GET /{n}, rows: $.*}}}}\n  get_{n}: {{kind: get, entity: Thing_{n}, http: {{send: \"GET /{n}/{{key.id}}\", row: $}}}}\n"
        );
        let _ = writeln!(
            operations,
            "  make_{n}: {{kind: create, name: create, entity: Thing_{n}, effect: {{class: write}}, args: {{id: {{type: string, need: required}}}}, http: {{send: POST /{n}, body: {{id: args.id}}, row: $}}}}"
        );
    }
    read(&(text + &operations), Path::new("wide.yaml")).expect("it is a catalog")
}

fn only(loaded: Loaded) -> Arc<Catalogs> {
    let mut catalogs = Catalogs::default();
    catalogs.add(loaded);
    Arc::new(catalogs)
}

fn pod_with(store: &Arc<dyn Store>, settings: Settings) -> Logical {
    Logical::new(PodId::random(), store.clone(), catalogs(), settings)
}

pub fn pod(store: &Arc<dyn Store>) -> Logical {
    pod_with(store, Settings::default())
}

pub fn seed(api: &str, entity: &str) -> Seed {
    Seed { api: api.to_owned(), entity: entity.to_owned() }
}

/// A caller's state with upstreams, of which logical sessions need nothing but whose it is.
struct Transport(Option<SessionId>, Arc<str>);

impl Session for Transport {
    fn id(&self) -> Option<&SessionId> {
        self.0.as_ref()
    }

    fn key(&self) -> &Arc<str> {
        &self.1
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

fn caller(principal: Principal, profile: &str, transport: Option<&str>) -> Caller {
    Caller {
        access: Arc::new(Access::open(Arc::new(principal))),
        profile: profile.into(),
        client: Arc::new(Client::default()),
        version: Version::V2025_11_25,
        session: Arc::new(Transport(transport.map(|id| SessionId(id.into())), "k".into())),
    }
}

pub fn person(name: &str) -> Owner {
    Owner::of(&caller(Principal::minted("t", "i", name), "p", None), false)
}

pub async fn opened(pod: &Logical, owner: &Owner, intent: &str, seeds: &[Seed]) -> Opened {
    pod.open(owner, Open { intent, seeds, given: None, fresh: false }).await.expect("a session")
}

async fn extended(pod: &Logical, owner: &Owner, held: &Held, seeds: &[Seed]) -> Opened {
    let given = Some(held.handle.as_str());
    pod.open(owner, Open { intent: "", seeds, given, fresh: false }).await.expect("the session")
}

fn symbols(opened: &Opened) -> Vec<&str> {
    opened.added.iter().map(|added| added.symbol.as_str()).collect()
}

/// For what the store does by its own clock.
async fn comes_true<F: Future<Output = bool>>(what: &str, is_so: impl FnMut() -> F) {
    crate::harness::comes_true(what, is_so).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_is_never_an_unknown_session() {
    let server = Server::start(&[]);
    let store = server.store().await;
    let (pod, anna) = (pod(&store), person("anna"));
    let held = opened(&pod, &anna, "x", &[seed("tracker", "Issue")]).await.held;
    server.hang();
    let away = |error: &LogicalError| matches!(error, LogicalError::Store(_));
    let handle = held.handle.as_str();
    assert!(pod.load(&anna, handle).await.is_err_and(|error| away(&error)));
    let ask = Open { intent: "x", seeds: &[seed("tracker", "Label")], given: None, fresh: false };
    for given in [None, Some(handle)] {
        assert!(pod.open(&anna, Open { given, ..ask }).await.is_err_and(|error| away(&error)));
    }
    server.wake();
    comes_true("the session is there again", || async { pod.load(&anna, handle).await.is_ok() }).await;
    assert_eq!(opened(&pod, &anna, "x", &[seed("tracker", "Label")]).await.held.handle, held.handle);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_known_costs_one_read_a_call() {
    let server = Server::start(&[]);
    let store = server.store().await;
    let (pod, anna) = (pod(&store), person("anna"));
    let held = opened(&pod, &anna, "x", &[seed("tracker", "Issue")]).await.held;
    let count = |of: &[&str]| of.iter().map(|of| server.calls(of)).sum::<u64>();
    let (reads, writes) = (count(&["hgetall"]), count(&["evalsha", "eval"]));
    for _ in 0..100 {
        let again = pod.load(&anna, held.handle.as_str()).await.expect("it is there");
        assert!(Arc::ptr_eq(&again, &held), "read once for each revision");
    }
    assert_eq!(count(&["evalsha", "eval"]) - writes, 0, "nothing is written");
    assert!(count(&["hgetall"]) - reads <= 100);
}
