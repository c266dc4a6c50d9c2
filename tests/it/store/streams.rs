//! Streams: order, bounds, what was trimmed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plasm_mcp::store::{Check, Commit, Events, Key, Store, Sure, Write};
use tokio::task::JoinSet;

use super::{comes_true, key, tag, write};

fn append(event: impl ToString, keep: u32) -> Write {
    Write::Append { event: Bytes::from(event.to_string()), keep }
}

async fn read(store: &dyn Store, key: &Key, after: u64, most: u32) -> Events {
    store.events(key.clone(), after, most).await.expect("a read").expect("a stream")
}

fn ids(events: &Events) -> Vec<u64> {
    events.list.iter().map(|(id, _)| *id).collect()
}

pub async fn events_are_numbered_from_one_and_read_after_an_id(store: Arc<dyn Store>) {
    let key = key("x");
    let several = vec![(key.clone(), append("a", 100)), (key.clone(), append("b", 100))];
    assert_eq!(write(&*store, several).await, [1, 2]);
    assert_eq!(write(&*store, vec![(key.clone(), append("c", 100))]).await, [3]);
    let all =
        vec![(1, Bytes::from_static(b"a")), (2, Bytes::from_static(b"b")), (3, Bytes::from_static(b"c"))];
    let expected = Events { list: all, last: 3, whole: true };
    assert_eq!(read(&*store, &key, 0, 100).await, expected);
    assert_eq!(ids(&read(&*store, &key, 1, 100).await), [2, 3]);
    assert_eq!(ids(&read(&*store, &key, 1, 1).await), [2]);
    let end = Events { list: vec![], last: 3, whole: true };
    assert_eq!(read(&*store, &key, 3, 100).await, end);
    assert_eq!(read(&*store, &key, 3, 0).await, end);
    for never_given in [4, u64::MAX] {
        let events = read(&*store, &key, never_given, 100).await;
        assert_eq!(events, Events { list: vec![], last: 3, whole: false });
    }
}

pub async fn the_newest_are_kept_and_trimming_is_told(store: Arc<dyn Store>) {
    let key = key("x");
    for n in 1..=20 {
        assert_eq!(write(&*store, vec![(key.clone(), append(n, 5))]).await, [n]);
    }
    for (after, list, whole) in [
        (0, vec![16, 17, 18, 19, 20], false),
        (14, vec![16, 17, 18, 19, 20], false),
        (15, vec![16, 17, 18, 19, 20], true),
        (16, vec![17, 18, 19, 20], true),
        (20, vec![], true),
    ] {
        let events = read(&*store, &key, after, 100).await;
        assert_eq!((ids(&events), events.whole, events.last), (list, whole, 20), "after {after}");
    }
    write(&*store, vec![(key.clone(), append("last", 0))]).await;
    let events = read(&*store, &key, 20, 100).await;
    assert_eq!((ids(&events), events.whole), (vec![21], true), "one is always kept");
}

pub async fn a_stream_and_its_record_are_written_as_one(store: Arc<dyn Store>) {
    let tag = tag();
    let (record, stream) = (Key::new(tag.clone(), "t"), Key::new(tag, "x"));
    let step = |was: Option<&'static str>, now: &'static str| {
        let check = Check::Field("at".into(), was.map(Bytes::from));
        let writes = vec![(stream.clone(), append(now, 9)), (record.clone(), Write::set("at", now))];
        store.commit(vec![(record.clone(), check)], writes, Sure::Master)
    };
    let first = step(None, "one").await.expect("a commit");
    let Commit::Done(first) = first else { panic!("{first:?}") };
    assert_eq!(step(None, "stale").await, Ok(Commit::Failed { check: 0 }));
    assert_eq!(step(Some("one"), "two").await, Ok(Commit::Done(vec![2, first[1] + 1])));
    let events = read(&*store, &stream, 0, 9).await;
    assert_eq!(events.list, [(1, Bytes::from_static(b"one")), (2, Bytes::from_static(b"two"))]);
}

pub async fn a_stream_that_expired_is_absent_not_empty(store: Arc<dyn Store>) {
    let key = key("x");
    let writes = vec![(key.clone(), append("a", 9)), (key.clone(), Write::Live(Duration::from_millis(100)))];
    assert_eq!(write(&*store, writes).await, [1, 0], "a stream has no revision");
    comes_true("expired", || async { store.events(key.clone(), 0, 9).await == Ok(None) }).await;
    assert_eq!(write(&*store, vec![(key.clone(), append("b", 9))]).await, [1], "a new stream");
}

pub async fn many_writers_leave_no_gap_and_no_twin(store: Arc<dyn Store>) {
    let key = key("x");
    let mut writers = JoinSet::new();
    for writer in 0..20 {
        let (store, key) = (store.clone(), key.clone());
        writers.spawn(async move {
            let mut mine = Vec::new();
            for n in 0..10 {
                mine.extend(write(&*store, vec![(key.clone(), append(format!("{writer}.{n}"), 1000))]).await);
            }
            assert!(mine.is_sorted(), "{mine:?}");
            mine
        });
    }
    let mut given: Vec<u64> = writers.join_all().await.concat();
    given.sort_unstable();
    assert_eq!(given, (1..=200).collect::<Vec<u64>>());

    let mut followed = Vec::new();
    while followed.len() < 200 {
        let page = read(&*store, &key, followed.last().copied().unwrap_or(0), 7).await;
        assert!(page.whole && !page.list.is_empty());
        followed.extend(ids(&page));
    }
    assert_eq!(followed, given);
}
