//! The suite on the memory store, and what only it promises: its cap, and that nothing stays behind.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use plasm_mcp::store::{
    Commit, Grant, Heard, Key, Memory, PodId, Rate, Store, StoreError, Sure, Topic, Write,
};

use super::{comes_true, field, key, suite, write};

async fn memory() -> ((), Arc<dyn Store>) {
    ((), Arc::new(Memory::new(64 << 20)))
}

suite!(memory);

/// A session as one is begun: a record, a stream, a lease, a limit.
async fn begin(store: &Memory, sid: &str) {
    let key = |rest: &str| Key::new(sid, rest);
    let event = Bytes::from(vec![7; 300]);
    let writes = vec![
        (key("t"), Write::set("head", vec![b'h'; 600])),
        (key("t"), Write::Live(Duration::from_secs(86_400))),
        (key("x:1"), Write::Append { event: event.clone(), keep: 2 }),
        (key("x:1"), Write::Append { event: event.clone(), keep: 2 }),
        (key("x:1"), Write::Append { event, keep: 2 }),
        (key("x:1"), Write::Live(Duration::from_millis(300))),
        (key("g"), Write::set("pod", "1")),
        (key("g"), Write::set("pod", "22")),
        (key("g"), Write::set("other", "1")),
        (key("g"), Write::unset("pod")),
        (key("g"), Write::Live(Duration::from_millis(300))),
    ];
    write(store, writes).await;
    let rate = Rate { every: Duration::from_millis(1), burst: 100, cost: 10 };
    assert!(matches!(store.admit(key("lim"), rate).await, Ok(Grant::Yes { .. })));
}

#[tokio::test]
async fn b025_two_hundred_sessions_begun_and_deleted_leave_nothing() {
    let store = Memory::new(64 << 20);
    assert_eq!(store.used(), 0);
    for n in 0..200 {
        begin(&store, &format!("s{n}")).await;
    }
    assert!(store.used() > 200 * 600, "{} bytes: they are accounted for", store.used());
    for n in 0..100 {
        write(&store, vec![(Key::new(format!("s{n}"), "t"), Write::Drop)]).await;
    }
    for n in 100..200 {
        let taken = store.take(Key::new(format!("s{n}"), "t"), Sure::Master).await.expect("a take");
        assert!(taken.is_some());
    }
    // Nobody writes any more: what has expired goes by the sweep alone.
    comes_true("back to the baseline", || async { store.used() == 0 }).await;
}

#[tokio::test]
async fn a_full_store_refuses_evicts_nothing_and_recovers() {
    let store = Memory::new(100_000);
    let mut held = 0;
    let refused = loop {
        let writes = vec![(Key::new(format!("k{held}"), "t"), Write::set("v", vec![0; 1000]))];
        match store.commit(vec![], writes, Sure::Master).await {
            Ok(Commit::Done(_)) => held += 1,
            other => break other,
        }
    };
    assert_eq!(refused, Err(StoreError::Full));
    assert!((60..100).contains(&held), "{held} records of 1000 bytes");
    assert!(store.used() <= 100_000);
    for n in 0..held {
        assert!(field(&store, &Key::new(format!("k{n}"), "t"), "v").await.is_some(), "evicted");
    }
    assert!(store.mail(PodId::random(), Bytes::new()).await.is_ok());
    write(&store, vec![(Key::new("k0", "t"), Write::Drop)]).await;
    write(&store, vec![(Key::new("again", "t"), Write::set("v", vec![0; 1000]))]).await;
}

#[tokio::test]
async fn a_full_store_sweeps_what_has_expired_before_it_refuses() {
    let store = Memory::new(100_000);
    let life = Duration::from_millis(60);
    let brief = (0..60).map(|n| Key::new("brief", n.to_string()));
    let writes =
        brief.flat_map(|key| [(key.clone(), Write::set("v", vec![0; 1000])), (key, Write::Live(life))]);
    write(&store, writes.collect()).await;
    let big = key("t");
    comes_true("there is room", || async {
        let writes = vec![(big.clone(), Write::set("v", vec![0; 90_000]))];
        store.commit(vec![], writes, Sure::Master).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn a_small_slice_does_not_keep_its_request() {
    let store = Memory::new(64 << 20);
    let key = key("t");
    let request = Bytes::from(vec![1; 1 << 20]);
    write(&store, vec![(key.clone(), Write::set("v", request.slice(10..20)))]).await;
    assert!(request.try_into_mut().is_ok(), "nobody else holds the request");
    assert_eq!(field(&store, &key, "v").await, Some(Bytes::from(vec![1; 10])));
}

#[tokio::test]
async fn a_hearer_that_lags_is_told_of_the_gap() {
    let store = Memory::new(64 << 20);
    let mut heard = store.hear(PodId::random());
    assert_eq!(heard.next().await, Some(Heard::Gap));
    for n in 0..3000 {
        store.say(Topic::new("t"), Bytes::from(n.to_string())).await.expect("said");
    }
    assert_eq!(heard.next().await, Some(Heard::Gap));
    let Some(Heard::Said(_, what)) = heard.next().await else { panic!("the newest are still there") };
    assert!(what.len() == 4, "{what:?}");
}

#[tokio::test]
async fn an_inbox_is_bounded_and_its_letters_are_accounted_for() {
    let store = Memory::new(64 << 20);
    let me = PodId::random();
    let mut heard = store.hear(me.clone());
    let letter = Bytes::from(vec![0; 100]);
    let mut accepted = 0;
    while store.mail(me.clone(), letter.clone()).await == Ok(true) {
        accepted += 1;
    }
    assert_eq!(store.mail(me.clone(), letter.clone()).await, Err(StoreError::Full));
    assert!(accepted >= 1000 && store.used() >= accepted * 100, "{accepted} letters, {} bytes", store.used());
    assert_eq!(heard.next().await, Some(Heard::Gap));
    assert_eq!(heard.next().await, Some(Heard::Mail(letter.clone())));
    assert_eq!(store.mail(me.clone(), letter.clone()).await, Ok(true), "one was read, one fits");
    drop(heard);
    assert_eq!(store.mail(me, letter).await, Ok(false));
    assert_eq!(store.used(), 0);
}

#[tokio::test]
async fn a_second_hearing_of_a_pod_takes_over() {
    let store = Memory::new(64 << 20);
    let me = PodId::random();
    let mut old = store.hear(me.clone());
    let mut new = store.hear(me.clone());
    assert_eq!((old.next().await, old.next().await), (Some(Heard::Gap), None));
    drop(old);
    assert_eq!(store.mail(me, Bytes::from_static(b"hello")).await, Ok(true));
    assert_eq!(new.next().await, Some(Heard::Gap));
    assert_eq!(new.next().await, Some(Heard::Mail(Bytes::from_static(b"hello"))));
}
