//! The suite on real Redis servers, alone and as a cluster, and what only a store that can go away promises.

mod faults;
pub mod server;
mod tls;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use plasm_mcp::store::redis::{Redis, Settings, StartError};
use plasm_mcp::store::{Check, Commit, Health, Heard, Key, PodId, Store, StoreError, Sure, Write};

use self::server::{Cluster, Server, Watched};
use super::{comes_true, field, key, suite, write};

async fn alone() -> (Server, Arc<dyn Store>) {
    let server = Server::start(&[]);
    let store = server.store().await;
    (server, store)
}

async fn clustered() -> (Cluster, Arc<dyn Store>) {
    let cluster = Cluster::start(0).await;
    let store: Arc<dyn Store> = Arc::new(connect(&cluster.url()).await.expect("the cluster serves"));
    (cluster, store)
}

async fn connect(url: &str) -> Result<Redis, StartError> {
    Redis::connect(Settings::new(url.to_owned().into())).await
}

suite!(alone);
suite!(the_whole_suite_holds_on_a_cluster_of_three_masters by clustered);

async fn is(store: &dyn Store, wanted: Health) {
    let mut health = store.health();
    let seen =
        tokio::time::timeout(Duration::from_secs(25), health.wait_for(|health| *health == wanted)).await;
    seen.unwrap_or_else(|_| panic!("never {wanted:?}")).expect("the store lives");
}

async fn next(heard: &mut BoxStream<'static, Heard>, wanted: impl Fn(&Heard) -> bool) -> Heard {
    let found = async {
        loop {
            let heard = heard.next().await.expect("a hearing does not end");
            if wanted(&heard) {
                return heard;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(25), found).await.expect("never heard")
}

fn is_gap(heard: &Heard) -> bool {
    *heard == Heard::Gap
}

#[tokio::test]
async fn values_of_many_sizes_come_back_byte_for_byte_over_every_way() {
    let (server, store) = alone().await;
    let other = server.store().await;
    for size in [0, 1, 511, 64 << 10, 5 << 20] {
        let value = Bytes::from_iter((0..size).map(|at| (at * 31 % 253) as u8));
        let (record, stream) = (Key::new(format!("s{size}"), "t"), Key::new(format!("s{size}"), "x"));
        let writes = vec![
            (record.clone(), Write::set("v", value.clone())),
            (stream.clone(), Write::Append { event: value.clone(), keep: 2 }),
        ];
        write(&*store, writes).await;
        assert_eq!(field(&*other, &record, "v").await, Some(value.clone()), "{size} by get");
        for _ in 0..2 {
            let near = other.near(record.clone()).await.expect("a read").expect("a record");
            assert_eq!(near.field("v"), Some(&value), "{size} by near");
        }
        let events = other.events(stream, 0, 9).await.expect("a read").expect("a stream");
        assert_eq!(events.list, [(1, value.clone())], "{size} by events");
        let taken = other.take(record, Sure::Master).await.expect("a take").expect("a record");
        assert_eq!(taken.field("v"), Some(&value), "{size} by take");
    }
}

#[tokio::test]
async fn a_record_read_near_costs_no_further_question_until_another_pod_changes_it() {
    let (server, one) = alone().await;
    let two = server.store().await;
    is(&*one, Health::Up).await;
    let mut heard = one.hear(PodId::random());
    next(&mut heard, is_gap).await;
    let key = key("t");
    write(&*two, vec![(key.clone(), Write::set("n", "1"))]).await;
    comes_true("cached", || async {
        one.near(key.clone()).await.expect("a read");
        let asked = server.calls("hgetall");
        one.near(key.clone()).await.expect("a read");
        server.calls("hgetall") == asked
    })
    .await;
    let asked = server.calls("hgetall");
    for _ in 0..100 {
        let near = one.near(key.clone()).await.expect("a read").expect("a record");
        assert_eq!(near.field("n"), Some(&Bytes::from_static(b"1")));
    }
    assert_eq!(server.calls("hgetall"), asked, "all from the cache");
    write(&*two, vec![(key.clone(), Write::set("n", "2"))]).await;
    next(&mut heard, |heard| *heard == Heard::Changed(key.clone())).await;
    let near = one.near(key.clone()).await.expect("a read").expect("a record");
    assert_eq!(near.field("n"), Some(&Bytes::from_static(b"2")));
}

#[tokio::test]
async fn a_broken_connection_is_a_gap_and_nothing_old_is_served_after_it() {
    let (server, one) = alone().await;
    let two = server.store().await;
    is(&*one, Health::Up).await;
    let mut heard = one.hear(PodId::random());
    next(&mut heard, is_gap).await;
    for round in 0..5 {
        let (key, value) = (key("t"), round.to_string());
        write(&*two, vec![(key.clone(), Write::set("n", "old"))]).await;
        one.near(key.clone()).await.expect("a read");
        server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
        comes_true("written", || async {
            let writes = vec![(key.clone(), Write::set("n", value.clone()))];
            two.commit(vec![], writes, Sure::Master).await.is_ok()
        })
        .await;
        next(&mut heard, is_gap).await;
        comes_true("the new value is near", || async {
            let near = one.near(key.clone()).await;
            near.is_ok_and(|record| {
                record.is_some_and(|record| record.field("n") == Some(&value.clone().into()))
            })
        })
        .await;
        // What is near again is told of again.
        is(&*one, Health::Up).await;
    }
}

#[tokio::test]
async fn a_restarted_server_is_away_then_back_with_a_gap_and_no_restart_of_ours() {
    let (mut server, store) = alone().await;
    is(&*store, Health::Up).await;
    let me = PodId::random();
    let mut heard = store.hear(me.clone());
    next(&mut heard, is_gap).await;
    let key = key("t");
    write(&*store, vec![(key.clone(), Write::set("n", "1"))]).await;
    server.stop();
    is(&*store, Health::Away).await;
    let asked = Instant::now();
    assert_eq!(store.get(key.clone()).await, Err(StoreError::Away));
    let set = vec![(key.clone(), Write::set("n", "2"))];
    assert_eq!(store.commit(vec![], set, Sure::Master).await, Err(StoreError::Away));
    assert_eq!(store.mail(me.clone(), Bytes::new()).await, Err(StoreError::Away));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}: nobody waits for long", asked.elapsed());
    server.again();
    next(&mut heard, is_gap).await;
    is(&*store, Health::Up).await;
    comes_true("it answers", || async { store.get(key.clone()).await.is_ok() }).await;
    comes_true("the lease stands again", || async {
        store.mail(me.clone(), Bytes::from_static(b"welcome")).await == Ok(true)
    })
    .await;
    next(&mut heard, |heard| *heard == Heard::Mail(Bytes::from_static(b"welcome"))).await;
}

#[tokio::test]
async fn a_server_that_hangs_is_away_in_time_and_known_sessions_are_still_read() {
    let (server, store) = alone().await;
    is(&*store, Health::Up).await;
    let (known, unknown) = (key("t"), key("t"));
    for key in [&known, &unknown] {
        write(&*store, vec![(key.clone(), Write::set("n", "1"))]).await;
    }
    comes_true("cached", || async {
        store.near(known.clone()).await.expect("a read");
        let asked = server.calls("hgetall");
        store.near(known.clone()).await.expect("a read");
        server.calls("hgetall") == asked
    })
    .await;
    server.hang();
    let asked = Instant::now();
    assert_eq!(store.get(unknown.clone()).await, Err(StoreError::Away));
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    is(&*store, Health::Away).await;
    assert_eq!(store.near(unknown.clone()).await, Err(StoreError::Away));
    let asked = Instant::now();
    assert!(store.near(known.clone()).await.expect("known before").is_some());
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    server.wake();
    is(&*store, Health::Up).await;
    comes_true("it answers", || async { store.get(unknown.clone()).await.is_ok() }).await;
    assert_eq!(field(&*store, &known, "n").await, Some(Bytes::from_static(b"1")), "nothing was lost");
}

#[tokio::test]
async fn a_full_server_refuses_loses_nothing_and_recovers() {
    let server = Server::start(&["--maxmemory", "8mb"]);
    let store = server.store().await;
    let mut held = 0;
    let refused = loop {
        let writes = vec![
            (Key::new(format!("k{held}"), "t"), Write::set("v", vec![7; 100_000])),
            (Key::new(format!("k{held}"), "u"), Write::set("v", "both or none")),
        ];
        match store.commit(vec![], writes, Sure::Master).await {
            Ok(Commit::Done(_)) => held += 1,
            other => break other,
        }
    };
    assert_eq!(refused, Err(StoreError::Full));
    assert_eq!(store.get(Key::new(format!("k{held}"), "u")).await, Ok(None), "refused whole");
    for n in 0..held {
        assert!(field(&*store, &Key::new(format!("k{n}"), "t"), "v").await.is_some(), "evicted");
    }
    for n in 0..held / 2 {
        write(&*store, vec![(Key::new(format!("k{n}"), "t"), Write::Drop)]).await;
    }
    write(&*store, vec![(key("t"), Write::set("v", "there is room again"))]).await;
}

#[tokio::test]
async fn a_sure_write_needs_a_replica_that_has_it_where_there_are_replicas() {
    let master = Server::start(&[]);
    let store = master.store().await;
    let key = key("t");
    let writes = |value: &'static str| vec![(key.clone(), Write::set("n", value))];
    let done = store.commit(vec![], writes("none"), Sure::Replicas).await;
    assert!(matches!(done, Ok(Commit::Done(_))), "there are no replicas to wait for: {done:?}");
    let replica = Server::start(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    comes_true("it follows", || async { replica.cli(&["INFO", "replication"]).contains("link_status:up") })
        .await;
    comes_true("confirmed", || async {
        matches!(store.commit(vec![], writes("one"), Sure::Replicas).await, Ok(Commit::Done(_)))
    })
    .await;
    replica.hang();
    let unsure = store.commit(vec![], writes("unsure"), Sure::Replicas).await;
    assert_eq!(unsure, Err(StoreError::Unconfirmed));
    assert_eq!(field(&*store, &key, "n").await, Some(Bytes::from_static(b"unsure")), "written, as it says");
    let failed = store.commit(vec![(key.clone(), Check::Absent)], writes("never"), Sure::Replicas).await;
    assert_eq!(failed, Ok(Commit::Failed { check: 0 }));
    assert_eq!(store.take(key.clone(), Sure::Replicas).await, Err(StoreError::Unconfirmed));
    drop(replica);
    comes_true("the master has noticed", || async {
        master.cli(&["INFO", "replication"]).contains("connected_slaves:0")
    })
    .await;
    let alone = store.commit(vec![], writes("alone"), Sure::Replicas).await;
    assert_eq!(alone, Err(StoreError::Unconfirmed), "there were replicas: their absence is a fault");
}

#[tokio::test]
async fn a_wrong_password_is_said_at_the_start_and_never_shown() {
    let server = Server::start(&["--requirepass", "right"]);
    let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", server.port());
    let error = connect(&url("wrong-secret")).await.err().expect("refused");
    assert!(matches!(error, StartError::Login(_)), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("wrong-secret"), "{error}");
    let error = connect(&format!("redis://127.0.0.1:{}", server.port())).await.err().expect("refused");
    assert!(matches!(error, StartError::Login(_)), "without any: {error:?}");
    let store = connect(&url("right")).await.expect("the right one");
    assert_eq!(store.get(key("t")).await, Ok(None));
}

#[tokio::test]
async fn a_server_that_would_evict_is_refused_at_the_start() {
    let server = Server::start(&["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"]);
    let error = connect(&server.url()).await.err().expect("refused");
    assert!(matches!(&error, StartError::Evicts { policy, .. } if policy == "allkeys-lru"), "{error:?}");
}

#[tokio::test]
async fn nobody_there_and_no_url_are_told_apart_in_time() {
    let mut server = Server::start(&[]);
    server.stop();
    let asked = Instant::now();
    let error = connect(&server.url()).await.err().expect("nobody there");
    assert!(matches!(error, StartError::Unreachable(_)), "{error:?}");
    assert!(asked.elapsed() < Duration::from_secs(16), "{:?}", asked.elapsed());
    let error = connect("not a url with a secret").await.err().expect("no URL");
    assert!(matches!(error, StartError::Url(_)), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[tokio::test]
async fn a_user_with_the_rights_that_are_asked_for_is_enough() {
    let server = Server::start(&[]);
    let words: Vec<&str> = ["ACL", "SETUSER", "gateway", "on", ">pw"]
        .into_iter()
        .chain(server::RIGHTS.split_whitespace())
        .collect();
    assert_eq!(server.cli(&words).trim(), "OK");
    let store = connect(&format!("redis://gateway:pw@127.0.0.1:{}", server.port())).await.expect("let in");
    is(&store, Health::Up).await;
    let mut heard = store.hear(PodId::random());
    next(&mut heard, is_gap).await;
    let writes = vec![(key("t"), Write::set("n", "1"))];
    assert!(matches!(store.commit(vec![], writes, Sure::Replicas).await, Ok(Commit::Done(_))));
}

#[tokio::test]
async fn a_failover_is_a_gap_and_loses_nothing_that_was_sure() {
    let mut watched = Watched::start().await;
    let store = connect(&watched.url()).await.expect("the sentinel names its master");
    is(&store, Health::Up).await;
    let mut heard = store.hear(PodId::random());
    next(&mut heard, is_gap).await;
    let key = key("t");
    comes_true("sure", || async {
        let writes = vec![(key.clone(), Write::set("n", "sure"))];
        matches!(store.commit(vec![], writes, Sure::Replicas).await, Ok(Commit::Done(_)))
    })
    .await;
    assert!(store.near(key.clone()).await.expect("a read").is_some());
    watched.master.stop();
    is(&store, Health::Away).await;
    next(&mut heard, is_gap).await;
    is(&store, Health::Up).await;
    crate::harness::comes_true("the new master is written", || async {
        let writes = vec![(key.clone(), Write::set("m", "after"))];
        let written =
            store.commit(vec![(key.clone(), Check::field("n", "sure"))], writes, Sure::Master).await;
        assert!(!matches!(written, Ok(Commit::Failed { .. })), "what was sure is lost: {written:?}");
        written.is_ok()
    })
    .await;
    assert!(watched.replica.cli(&["ROLE"]).starts_with("master"));
    let near = store.near(key.clone()).await.expect("a read").expect("a record");
    assert_eq!(near.field("m"), Some(&Bytes::from_static(b"after")));
}
