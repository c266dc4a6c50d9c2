//! What becomes of the store when what it stands on is taken away, moved or slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use plasm_mcp::store::{Check, Commit, Health, Key, PodId, Store, StoreError, Sure, Write};
use tokio_util::sync::CancellationToken;

use super::server::{Cluster, Server, Watched};
use super::{alone, connect, is, is_gap, next};
use crate::harness::comes_true;
use crate::store::{field, key, tag, write};

#[tokio::test]
async fn what_was_flushed_away_is_no_longer_near() {
    let (server, one) = alone().await;
    is(&*one, Health::Up).await;
    let mut heard = one.hear(PodId::random());
    next(&mut heard, is_gap).await;
    for flush in ["FLUSHALL", "FLUSHDB"] {
        let key = key("t");
        write(&*one, vec![(key.clone(), Write::set("n", "1"))]).await;
        near_without_a_question(&server, &*one, &key).await;
        server.cli(&[flush]);
        next(&mut heard, is_gap).await;
        comes_true("gone", || async { one.near(key.clone()).await == Ok(None) }).await;
        // And what comes after is cached and told of again.
        write(&*one, vec![(key.clone(), Write::set("n", "2"))]).await;
        near_without_a_question(&server, &*one, &key).await;
    }
}

async fn near_without_a_question(server: &Server, store: &dyn Store, key: &Key) {
    comes_true("cached", || async {
        let Ok(Some(_)) = store.near(key.clone()).await else { return false };
        let asked = server.calls("hgetall");
        store.near(key.clone()).await.is_ok() && server.calls("hgetall") == asked
    })
    .await;
}

#[tokio::test]
async fn a_node_of_a_cluster_that_was_flushed_is_noticed_like_a_server() {
    let cluster = Cluster::start(0).await;
    let store = connect(&cluster.url()).await.expect("the cluster serves");
    is(&store, Health::Up).await;
    let mut heard = store.hear(PodId::random());
    next(&mut heard, is_gap).await;
    for node in &cluster.nodes {
        let keys: Vec<Key> = (0..12).map(|_| key("t")).collect();
        for key in &keys {
            write(&store, vec![(key.clone(), Write::set("n", "1"))]).await;
            assert!(store.near(key.clone()).await.expect("a read").is_some());
        }
        node.cli(&["FLUSHALL"]);
        next(&mut heard, is_gap).await;
        for key in &keys {
            comes_true("near is what is there", || async {
                let (near, there) = (store.near(key.clone()).await, store.get(key.clone()).await);
                near.is_ok() && near == there
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_slow_server_is_waited_for_and_loses_nothing() {
    let (server, store) = alone().await;
    is(&*store, Health::Up).await;
    let mut health = store.health();
    let away = tokio::spawn(async move { health.wait_for(|health| *health == Health::Away).await.is_ok() });
    let key = key("t");
    for round in 1..=3u64 {
        // Within the time limit of 2 s, and beyond the second after which the cache is not trusted.
        server.cli(&["CLIENT", "PAUSE", "1300", "ALL"]);
        let writes = vec![(key.clone(), Write::set("n", round.to_string()))];
        let done = store.commit(vec![], writes, Sure::Master).await;
        assert!(matches!(done, Ok(Commit::Done(_))), "{done:?}");
        assert_eq!(field(&*store, &key, "n").await, Some(round.to_string().into()));
    }
    assert!(!away.is_finished(), "slow is not away");
}

/// Counters that each grow by what the store itself says is sure, whatever becomes of the servers meanwhile.
struct Counting {
    counters: Vec<(Key, Arc<AtomicU64>)>,
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Counting {
    fn start(store: &Arc<dyn Store>, keys: Vec<Key>, sure: Sure) -> Counting {
        let stop = CancellationToken::new();
        let counters: Vec<_> = keys.into_iter().map(|key| (key, Arc::default())).collect();
        let tasks = counters.iter().map(|(key, done): &(Key, Arc<AtomicU64>)| {
            let (store, key, done, stop) = (store.clone(), key.clone(), done.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.is_cancelled() {
                    let Ok(was) = store.get(key.clone()).await else {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        continue;
                    };
                    let n: u64 = was.as_ref().map_or(0, |record| {
                        std::str::from_utf8(record.field("n").expect("a count"))
                            .expect("text")
                            .parse()
                            .expect("a number")
                    });
                    let check = was.as_ref().map_or(Check::Absent, |record| Check::Rev(record.rev));
                    let writes = vec![(key.clone(), Write::set("n", (n + 1).to_string()))];
                    if let Ok(Commit::Done(_)) = store.commit(vec![(key.clone(), check)], writes, sure).await
                    {
                        done.store(n + 1, SeqCst);
                    }
                }
            })
        });
        Counting { tasks: tasks.collect(), counters, stop }
    }

    fn done(&self) -> Vec<u64> {
        self.counters.iter().map(|(_, done)| done.load(SeqCst)).collect()
    }

    /// Waits until each counter has grown.
    async fn grows(&self) {
        let before = self.done();
        comes_true("all counters grow", || async {
            self.done().iter().zip(&before).all(|(now, was)| now > was)
        })
        .await;
    }

    /// Ends it; no counter stands below what was sure.
    async fn end(self, store: &dyn Store) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.expect("no counting panics");
        }
        for (key, done) in &self.counters {
            let stands = field(store, key, "n").await.expect("a count");
            let stands: u64 = std::str::from_utf8(&stands).expect("text").parse().expect("a number");
            assert!(stands >= done.load(SeqCst), "{key}: {stands} of {done:?} that were sure");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_of_a_cluster_fails_over_while_commits_run_and_nothing_sure_is_lost() {
    let mut cluster = Cluster::start(1).await;
    let store: Arc<dyn Store> = Arc::new(connect(&cluster.url()).await.expect("the cluster serves"));
    is(&*store, Health::Up).await;
    let keys: Vec<Key> = (0..12).map(|_| key("n")).collect();
    let counting = Counting::start(&store, keys.clone(), Sure::Replicas);
    counting.grows().await;
    let lost = cluster.master_of(&keys[0].render("plasm"));
    cluster.nodes[lost].stop();
    comes_true("the replica has taken over", || async {
        let writes = vec![(Key::new(keys[0].tag.clone(), "m"), Write::set("m", "after"))];
        store.commit(vec![], writes, Sure::Master).await.is_ok()
    })
    .await;
    is(&*store, Health::Up).await;
    // What is to be sure waits for a replica again: the old master, once it is back.
    cluster.nodes[lost].again();
    counting.grows().await;
    counting.end(&*store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_to_another_master_are_followed_while_commits_run() {
    let cluster = Cluster::start(0).await;
    let store: Arc<dyn Store> = Arc::new(connect(&cluster.url()).await.expect("the cluster serves"));
    is(&*store, Health::Up).await;
    let id = |node: usize| cluster.nodes[node].cli(&["CLUSTER", "MYID"]).trim().to_owned();
    let moved = |key: &Key| {
        cluster.nodes[0]
            .cli(&["CLUSTER", "KEYSLOT", &key.render("plasm")])
            .trim()
            .parse()
            .is_ok_and(|slot: u16| slot < 300)
    };
    // Keys of the slots that are to move, and of some that stay.
    let mut keys: Vec<Key> = std::iter::repeat_with(|| Key::new(tag(), "n")).filter(moved).take(3).collect();
    keys.extend((0..3).map(|_| key("n")));
    let counting = Counting::start(&store, keys, Sure::Master);
    counting.grows().await;
    let (address, from, to) = (format!("127.0.0.1:{}", cluster.nodes[0].port()), id(0), id(1));
    let mut moving = std::process::Command::new("redis-cli");
    moving.args(["--cluster", "reshard", &address, "--cluster-from", &from, "--cluster-to", &to]);
    moving.args(["--cluster-slots", "300", "--cluster-yes"]);
    let moving = tokio::task::spawn_blocking(move || moving.output().expect("redis-cli runs"));
    let moved = moving.await.expect("it ends");
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stdout));
    counting.grows().await;
    counting.end(&*store).await;
}

#[tokio::test]
async fn a_claim_that_was_sure_holds_over_a_sentinels_failover_until_its_write() {
    let mut watched = Watched::guarded().await;
    let url = watched.guarded_url();
    let (one, two) = (connect(&url).await.expect("let in"), connect(&url).await.expect("let in"));
    let (claim, effect) = {
        let tag = tag();
        (Key::new(tag.clone(), "c"), Key::new(tag, "e"))
    };
    let take = |who: &'static str| {
        (vec![(claim.clone(), Check::Absent)], vec![(claim.clone(), Write::set("by", who))])
    };
    comes_true("claimed", || async {
        let (checks, writes) = take("one");
        match one.commit(checks, writes, Sure::Replicas).await {
            Ok(Commit::Done(_)) => true,
            Err(StoreError::Unconfirmed) => {
                // Not sure, so it is given back: the replica may have connected just now.
                one.take(claim.clone(), Sure::Master).await.expect("a take");
                false
            }
            other => panic!("{other:?}"),
        }
    })
    .await;
    watched.master.stop();
    comes_true("the new master judges", || async {
        let (checks, writes) = take("two");
        match two.commit(checks, writes, Sure::Master).await {
            Ok(Commit::Done(_)) => panic!("the claim is lost, and both would act"),
            Ok(Commit::Failed { .. }) => true,
            Err(_) => false,
        }
    })
    .await;
    comes_true("the write is done", || async {
        let checks = vec![(claim.clone(), Check::field("by", "one"))];
        let writes = vec![(effect.clone(), Write::set("done", "by one"))];
        match one.commit(checks, writes, Sure::Master).await {
            Ok(Commit::Failed { .. }) => panic!("the claim is lost"),
            Ok(Commit::Done(_)) => true,
            Err(_) => false,
        }
    })
    .await;
    assert_eq!(field(&two, &effect, "done").await, Some(Bytes::from_static(b"by one")));
}

#[tokio::test]
async fn a_claim_that_no_replica_confirms_is_not_held_for_sure() {
    let watched = Watched::start().await;
    let store = connect(&watched.url()).await.expect("the sentinel names its master");
    let sure = |key: Key| {
        store.commit(vec![(key.clone(), Check::Absent)], vec![(key, Write::set("by", "us"))], Sure::Replicas)
    };
    comes_true("there is a replica", || async { matches!(sure(key("c")).await, Ok(Commit::Done(_))) }).await;
    watched.replica.hang();
    assert_eq!(sure(key("c")).await, Err(StoreError::Unconfirmed), "its effect does not start");
    watched.replica.wake();
}
