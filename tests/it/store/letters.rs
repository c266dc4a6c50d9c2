//! Between pods: letters, the bus, news of changes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use plasm_mcp::store::{Health, Heard, Key, PodId, Store, Topic, Write};

use super::{comes_true, key, write};

/// A pod that hears: its first gap has come, so its lease stands.
async fn pod(store: &dyn Store) -> (PodId, BoxStream<'static, Heard>) {
    let me = PodId::random();
    let mut heard = store.hear(me.clone());
    assert_eq!(next(&mut heard).await, Heard::Gap, "the first thing heard");
    (me, heard)
}

async fn next(heard: &mut BoxStream<'static, Heard>) -> Heard {
    let heard = tokio::time::timeout(Duration::from_secs(10), heard.next()).await.expect("heard nothing");
    heard.expect("a hearing does not end")
}

/// The next one that is wanted; others (what other tests say on a shared store) pass.
async fn next_that(heard: &mut BoxStream<'static, Heard>, wanted: impl Fn(&Heard) -> bool) -> Heard {
    loop {
        let heard = next(heard).await;
        if wanted(&heard) {
            return heard;
        }
    }
}

async fn next_letter(heard: &mut BoxStream<'static, Heard>) -> Bytes {
    match next_that(heard, |heard| matches!(heard, Heard::Mail(_))).await {
        Heard::Mail(letter) => letter,
        other => panic!("{other:?}"),
    }
}

pub async fn a_letter_reaches_a_pod_that_hears(store: Arc<dyn Store>) {
    let (one, mut heard_by_one) = pod(&*store).await;
    let (two, mut heard_by_two) = pod(&*store).await;
    let letter = Bytes::from_static(b"\0\xff for one");
    assert_eq!(store.mail(one, letter.clone()).await, Ok(true));
    assert_eq!(store.mail(two, Bytes::from_static(b"for two")).await, Ok(true));
    assert_eq!(next_letter(&mut heard_by_one).await, letter);
    assert_eq!(next_letter(&mut heard_by_two).await, Bytes::from_static(b"for two"));
}

pub async fn letters_come_once_and_in_order(store: Arc<dyn Store>) {
    let (me, mut heard) = pod(&*store).await;
    let post = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..500 {
                assert_eq!(store.mail(me.clone(), Bytes::from(n.to_string())).await, Ok(true));
            }
            assert_eq!(store.mail(me, Bytes::from_static(b"end")).await, Ok(true));
        })
    };
    for n in 0..500 {
        assert_eq!(next_letter(&mut heard).await, n.to_string());
    }
    assert_eq!(next_letter(&mut heard).await, "end");
    post.await.expect("all were posted");
}

pub async fn a_pod_that_is_gone_gets_none(store: Arc<dyn Store>) {
    let letter = Bytes::from_static(b"anyone?");
    assert_eq!(store.mail(PodId::random(), letter.clone()).await, Ok(false), "never heard");
    let (me, mut heard) = pod(&*store).await;
    assert_eq!(store.mail(me.clone(), letter.clone()).await, Ok(true));
    assert_eq!(next_letter(&mut heard).await, letter);
    drop(heard);
    comes_true("the lease ended", || async { store.mail(me.clone(), letter.clone()).await == Ok(false) })
        .await;
}

pub async fn what_is_said_is_heard_by_all(store: Arc<dyn Store>) {
    let (_, mut one) = pod(&*store).await;
    let (_, mut two) = pod(&*store).await;
    let topic = Topic::new(format!("cancel {}", PodId::random()));
    store.say(topic.clone(), Bytes::from_static(b"\0 7")).await.expect("said");
    for heard in [&mut one, &mut two] {
        let said = next_that(heard, |heard| matches!(heard, Heard::Said(of, _) if *of == topic)).await;
        assert_eq!(said, Heard::Said(topic.clone(), Bytes::from_static(b"\0 7")));
    }
}

/// Waits for news of a key. Were there none, this would fail after ten seconds.
async fn hears_of(heard: &mut BoxStream<'static, Heard>, key: &Key) {
    next_that(heard, |heard| matches!(heard, Heard::Changed(changed) if changed == key)).await;
}

pub async fn a_change_is_heard_by_who_read_it_near(store: Arc<dyn Store>) {
    let (_, mut heard) = pod(&*store).await;
    let key = key("t");
    let mut rev = write(&*store, vec![(key.clone(), Write::set("n", "0"))]).await[0];
    for n in 1..5 {
        // What was read near may be old until the news of the last change has come; that it has, the last round saw.
        let near = store.near(key.clone()).await.expect("a read").expect("a record");
        assert_eq!(near.rev, rev);
        rev = write(&*store, vec![(key.clone(), Write::set("n", n.to_string()))]).await[0];
        hears_of(&mut heard, &key).await;
        let near = store.near(key.clone()).await.expect("a read").expect("a record");
        assert_eq!((near.rev, near.field("n")), (rev, Some(&Bytes::from(n.to_string()))));
    }
}

pub async fn a_dropped_and_an_expired_record_are_changes(store: Arc<dyn Store>) {
    let (_, mut heard) = pod(&*store).await;
    let key = key("t");
    for end in
        [Write::Drop, Write::Live(Duration::ZERO), Write::Live(Duration::from_millis(50)), Write::unset("a")]
    {
        write(&*store, vec![(key.clone(), Write::set("a", "1"))]).await;
        comes_true("read near", || async { store.near(key.clone()).await.expect("a read").is_some() }).await;
        write(&*store, vec![(key.clone(), end)]).await;
        hears_of(&mut heard, &key).await;
        comes_true("gone", || async {
            store.near(key.clone()).await.expect("a read").is_none_or(|record| record.fields.is_empty())
        })
        .await;
    }
}

pub async fn the_store_is_up(store: Arc<dyn Store>) {
    let health = tokio::time::timeout(Duration::from_secs(10), async {
        let mut health = store.health();
        *health.wait_for(|health| *health == Health::Up).await.expect("the store lives")
    });
    assert_eq!(health.await, Ok(Health::Up));
}
