//! The store suite: what any store must do. Each case runs on each store by name; a case takes nothing but the trait.

mod letters;
mod limits;
mod memory;
mod records;
pub mod redis;
mod streams;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plasm_mcp::store::{Check, Commit, Key, PodId, Store, Sure, Write};

/// Makes a test of every case of the suite. `$make` is an async function that gives `(kept, store)`: `kept` lives as long
/// as the test, for a server that must be ended. Cases name their keys at random, so one server may serve them all.
macro_rules! suite {
    // All cases in one test, one after the other: for what takes long to start.
    ($name:ident by $make:path: $($room:ident :: { $($case:ident),* $(,)? }),* $(,)?) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let (_kept, store) = $make().await;
            $($(
                println!("{}", stringify!($case));
                super::$room::$case(store.clone()).await;
            )*)*
        }
    };
    ($make:path: $($room:ident :: { $($case:ident),* $(,)? }),* $(,)?) => { $($(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let (_kept, store) = $make().await;
            super::$room::$case(store).await;
        }
    )*)* };
    ($($how:tt)+) => { suite!($($how)+:
        records::{
            what_was_never_written_is_absent_and_no_error,
            fields_come_back_byte_for_byte,
            b065_values_are_opaque,
            a_revision_grows_by_one_with_each_commit,
            a_new_record_begins_above_the_dropped_one,
            a_commit_is_all_or_nothing,
            every_check_judges_its_case,
            checks_are_judged_before_the_first_write,
            a_hundred_racers_each_count_once,
            one_of_fifty_creators_wins,
            one_of_fifty_takers_gets_it,
            an_expired_record_is_absent,
            a_longer_life_replaces_the_shorter,
            a_set_keeps_the_expiry,
            keys_that_lie_apart_are_refused,
            kinds_are_not_confused,
            nothing_happens_before_the_answer_is_awaited,
        },
        streams::{
            events_are_numbered_from_one_and_read_after_an_id,
            the_newest_are_kept_and_trimming_is_told,
            a_stream_and_its_record_are_written_as_one,
            a_stream_that_expired_is_absent_not_empty,
            many_writers_leave_no_gap_and_no_twin,
        },
        limits::{
            a_burst_is_granted_and_no_more,
            a_limit_gives_its_rate_to_many_askers,
            a_batch_is_granted_whole_or_refused_at_no_cost,
        },
        letters::{
            a_letter_reaches_a_pod_that_hears,
            letters_come_once_and_in_order,
            a_pod_that_is_gone_gets_none,
            what_is_said_is_heard_by_all,
            a_change_is_heard_by_who_read_it_near,
            a_dropped_and_an_expired_record_are_changes,
            the_store_is_up,
        },
    ); };
}
use suite;

/// A tag that no other test uses.
fn tag() -> Arc<str> {
    format!("{}{}", PodId::random(), PodId::random()).into()
}

fn key(rest: &str) -> Key {
    Key::new(tag(), rest)
}

/// Writes with no checks; the commit must succeed.
async fn write(store: &dyn Store, writes: Vec<(Key, Write)>) -> Vec<u64> {
    match store.commit(Vec::new(), writes, Sure::Master).await.expect("a commit without checks") {
        Commit::Done(numbers) => numbers,
        Commit::Failed { check } => panic!("check {check} failed where there were none"),
    }
}

/// One field's bytes; `None` if the record or the field is absent.
async fn field(store: &dyn Store, key: &Key, name: &str) -> Option<Bytes> {
    store.get(key.clone()).await.expect("a read").and_then(|record| record.field(name).cloned())
}

/// Whether a check holds for a key now.
async fn holds(store: &dyn Store, key: &Key, check: Check) -> bool {
    let commit = store.commit(vec![(key.clone(), check)], Vec::new(), Sure::Master).await.expect("a commit");
    matches!(commit, Commit::Done(_))
}

/// For what the store does by its own clock: asks until it is so; after ten seconds it will not be.
async fn comes_true<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let asked = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asked).await.unwrap_or_else(|_| panic!("never so: {what}"));
}
