//! Records: reads, conditional commits, expiry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use plasm_mcp::store::{Check, Commit, Key, Rate, Store, StoreError, Sure, Write};
use tokio::task::JoinSet;

use super::{comes_true, field, holds, key, tag, write};

pub async fn what_was_never_written_is_absent_and_no_error(store: Arc<dyn Store>) {
    assert_eq!(store.get(key("t")).await, Ok(None));
    assert_eq!(store.near(key("t")).await, Ok(None));
    assert_eq!(store.take(key("t"), Sure::Replicas).await, Ok(None));
    assert_eq!(store.events(key("x"), 0, 10).await, Ok(None));
    let key = key("t");
    let vain = vec![
        (key.clone(), Write::unset("a")),
        (key.clone(), Write::Live(Duration::from_secs(9))),
        (key.clone(), Write::Drop),
    ];
    assert_eq!(write(&*store, vain).await, [0, 0, 0]);
    assert_eq!(store.get(key).await, Ok(None));
    assert_eq!(write(&*store, vec![]).await, [0u64; 0]);
}

pub async fn fields_come_back_byte_for_byte(store: Arc<dyn Store>) {
    let key = key("t");
    let values: Vec<(&str, Vec<u8>)> = vec![
        ("empty", vec![]),
        ("nul", b"\0a\0".to_vec()),
        ("not utf-8", vec![0xff, 0xfe, 0xc3, 0x28, 0x80]),
        ("every byte", (0..=255).collect()),
        ("lines", b"a\r\nb\n$5\r\n*3\r\n".to_vec()),
        ("1 MiB", (0..1 << 20).map(|i| (i % 251) as u8).collect()),
        ("", b"a field without a name".to_vec()),
        ("f\0 \u{1f600}", b"a field with an odd one".to_vec()),
        ("rev", b"no field of ours is in the way".to_vec()),
    ];
    let writes = values.iter().map(|(name, value)| (key.clone(), Write::set(*name, value.clone()))).collect();
    write(&*store, writes).await;
    for near in [false, true] {
        let read = if near { store.near(key.clone()) } else { store.get(key.clone()) };
        let record = read.await.expect("a read").expect("written");
        assert_eq!(record.fields.len(), values.len(), "{record:?}");
        for (name, value) in &values {
            assert_eq!(record.field(name).map(|bytes| &bytes[..]), Some(&value[..]), "{name:?}");
        }
    }
    let taken = store.take(key, Sure::Master).await.expect("a take").expect("written");
    assert_eq!(taken.field("every byte").map(|bytes| bytes.len()), Some(256));
}

/// Through every script: big integers and empty arrays are bytes, not JSON to be rewritten.
pub async fn b065_values_are_opaque(store: Arc<dyn Store>) {
    let json = Bytes::from_static(br#"{"id":9007199254740993,"list":[],"n":1e400,"f":1.0,"dup":1,"dup":2}"#);
    let tag = tag();
    let (record, stream) = (Key::new(tag.clone(), "t"), Key::new(tag, "x"));
    let writes = vec![
        (record.clone(), Write::set("v", json.clone())),
        (stream.clone(), Write::Append { event: json.clone(), keep: 9 }),
    ];
    write(&*store, writes).await;
    assert!(holds(&*store, &record, Check::field("v", json.clone())).await, "a check compares bytes");
    let rounded = json.to_vec().iter().map(|&b| if b == b'3' { b'2' } else { b }).collect::<Vec<u8>>();
    assert!(!holds(&*store, &record, Check::field("v", rounded)).await);
    assert_eq!(field(&*store, &record, "v").await, Some(json.clone()));
    let events = store.events(stream, 0, 9).await.expect("a read").expect("a stream");
    assert_eq!(events.list, [(1, json.clone())]);
    let taken = store.take(record, Sure::Master).await.expect("a take").expect("a record");
    assert_eq!(taken.field("v"), Some(&json));
}

pub async fn a_revision_grows_by_one_with_each_commit(store: Arc<dyn Store>) {
    let key = key("t");
    let first = write(&*store, vec![(key.clone(), Write::set("a", "1"))]).await[0];
    assert!(first > 0);
    let several = vec![
        (key.clone(), Write::set("a", "2")),
        (key.clone(), Write::set("b", "2")),
        (key.clone(), Write::unset("a")),
        (key.clone(), Write::Live(Duration::from_secs(60))),
    ];
    assert_eq!(write(&*store, several).await, [first + 1; 4], "one commit, one step");
    let touch =
        vec![(key.clone(), Write::Live(Duration::from_secs(90))), (key.clone(), Write::unset("never"))];
    assert_eq!(write(&*store, touch).await, [first + 1; 2], "no field changed");
    let last = write(&*store, vec![(key.clone(), Write::unset("b"))]).await;
    assert_eq!(last, [first + 2]);
    let record = store.get(key).await.expect("a read").expect("an empty record is a record");
    assert_eq!((record.rev, record.fields.len()), (first + 2, 0));
}

pub async fn a_new_record_begins_above_the_dropped_one(store: Arc<dyn Store>) {
    let key = key("t");
    let mut highest = 0;
    for round in 0..6 {
        for _ in 0..round {
            highest = write(&*store, vec![(key.clone(), Write::set("a", "1"))]).await[0];
        }
        match round % 3 {
            0 => drop(store.take(key.clone(), Sure::Master).await.expect("a take")),
            1 => drop(write(&*store, vec![(key.clone(), Write::Drop)]).await),
            _ => drop(write(&*store, vec![(key.clone(), Write::Live(Duration::ZERO))]).await),
        }
        assert_eq!(store.get(key.clone()).await, Ok(None));
        let again = write(&*store, vec![(key.clone(), Write::set("a", "2"))]).await[0];
        assert!(again > highest, "{again} after {highest}: a stale revision must not fit");
        highest = again;
    }
    let replaced = vec![(key.clone(), Write::Drop), (key.clone(), Write::set("b", "1"))];
    let numbers = write(&*store, replaced).await;
    assert!(numbers[1] > highest);
    assert_eq!(field(&*store, &key, "a").await, None, "dropped before it was set again");
}

pub async fn a_commit_is_all_or_nothing(store: Arc<dyn Store>) {
    let tag = tag();
    let (one, two, stream) = (Key::new(tag.clone(), "1"), Key::new(tag.clone(), "2"), Key::new(tag, "x"));
    let writes = |value: &'static str| {
        vec![
            (one.clone(), Write::set("v", value)),
            (two.clone(), Write::set("v", value)),
            (stream.clone(), Write::Append { event: Bytes::from_static(b"e"), keep: 9 }),
        ]
    };
    let absent = vec![(one.clone(), Check::Absent), (two.clone(), Check::Absent)];
    let done = store.commit(absent.clone(), writes("first"), Sure::Replicas).await;
    assert!(matches!(done, Ok(Commit::Done(numbers)) if numbers[2] == 1));
    let again = store.commit(absent.into_iter().rev().collect(), writes("second"), Sure::Master).await;
    assert_eq!(again, Ok(Commit::Failed { check: 0 }));
    let mixed = vec![(one.clone(), Check::Present), (two.clone(), Check::no_field("v"))];
    assert_eq!(store.commit(mixed, writes("third"), Sure::Master).await, Ok(Commit::Failed { check: 1 }));
    for key in [&one, &two] {
        assert_eq!(field(&*store, key, "v").await, Some(Bytes::from_static(b"first")));
    }
    assert_eq!(store.events(stream, 0, 9).await.expect("a read").expect("a stream").last, 1);
}

pub async fn every_check_judges_its_case(store: Arc<dyn Store>) {
    let tag = tag();
    let (record, none, stream) = (Key::new(tag.clone(), "t"), Key::new(tag.clone(), "n"), Key::new(tag, "x"));
    let writes = vec![
        (record.clone(), Write::set("a", "1")),
        (stream.clone(), Write::Append { event: Bytes::from_static(b"e"), keep: 9 }),
    ];
    let rev = write(&*store, writes).await[0];
    let cases = [
        (&record, Check::Present, true),
        (&record, Check::Absent, false),
        (&record, Check::Rev(rev), true),
        (&record, Check::Rev(rev + 1), false),
        (&record, Check::Rev(rev - 1), false),
        (&record, Check::field("a", "1"), true),
        (&record, Check::field("a", "12"), false),
        (&record, Check::field("a", ""), false),
        (&record, Check::no_field("a"), false),
        (&record, Check::field("b", ""), false),
        (&record, Check::no_field("b"), true),
        (&none, Check::Present, false),
        (&none, Check::Absent, true),
        (&none, Check::Rev(0), false),
        (&none, Check::Rev(rev), false),
        (&none, Check::field("a", "1"), false),
        (&none, Check::no_field("a"), true),
        (&stream, Check::Present, true),
        (&stream, Check::Absent, false),
    ];
    for (index, (key, check, so)) in cases.into_iter().enumerate() {
        assert_eq!(holds(&*store, key, check).await, so, "case {index} on {key}");
    }
}

pub async fn checks_are_judged_before_the_first_write(store: Arc<dyn Store>) {
    let key = key("t");
    let checks = vec![(key.clone(), Check::Absent), (key.clone(), Check::no_field("a"))];
    let writes = vec![(key.clone(), Write::set("a", "1")), (key.clone(), Write::set("a", "2"))];
    assert!(matches!(store.commit(checks, writes, Sure::Master).await, Ok(Commit::Done(_))));
    assert_eq!(field(&*store, &key, "a").await, Some(Bytes::from_static(b"2")), "writes go in their order");
}

pub async fn a_hundred_racers_each_count_once(store: Arc<dyn Store>) {
    let key = key("t");
    let first = write(&*store, vec![(key.clone(), Write::set("n", "0"))]).await[0];
    let mut racers = JoinSet::new();
    for _ in 0..100 {
        let (store, key) = (store.clone(), key.clone());
        racers.spawn(async move {
            loop {
                let record = store.get(key.clone()).await.expect("a read").expect("written above");
                let text = std::str::from_utf8(record.field("n").expect("set")).expect("digits");
                let next = (text.parse::<u32>().expect("digits") + 1).to_string();
                let checks = vec![(key.clone(), Check::Rev(record.rev))];
                let writes = vec![(key.clone(), Write::set("n", next))];
                match store.commit(checks, writes, Sure::Master).await.expect("a commit") {
                    Commit::Done(_) => return,
                    Commit::Failed { check } => assert_eq!(check, 0),
                }
                tokio::task::yield_now().await;
            }
        });
    }
    racers.join_all().await;
    let record = store.get(key).await.expect("a read").expect("written above");
    assert_eq!(record.field("n"), Some(&Bytes::from_static(b"100")));
    assert_eq!(record.rev, first + 100);
}

pub async fn one_of_fifty_creators_wins(store: Arc<dyn Store>) {
    let key = key("t");
    let mut racers = JoinSet::new();
    for racer in 0..50 {
        let checks = vec![(key.clone(), Check::Absent)];
        let writes = vec![(key.clone(), Write::set("by", racer.to_string()))];
        let commit = store.commit(checks, writes, Sure::Replicas);
        racers.spawn(async move { (racer, commit.await.expect("a commit")) });
    }
    let won: Vec<i32> = racers
        .join_all()
        .await
        .into_iter()
        .filter_map(|(racer, commit)| matches!(commit, Commit::Done(_)).then_some(racer))
        .collect();
    assert_eq!(won.len(), 1, "{won:?}");
    assert_eq!(field(&*store, &key, "by").await, Some(Bytes::from(won[0].to_string())));
}

pub async fn one_of_fifty_takers_gets_it(store: Arc<dyn Store>) {
    let key = key("code");
    write(&*store, vec![(key.clone(), Write::set("for", "one"))]).await;
    let mut racers = JoinSet::new();
    for _ in 0..50 {
        racers.spawn(store.take(key.clone(), Sure::Replicas));
    }
    let taken: Vec<_> =
        racers.join_all().await.into_iter().filter_map(|taken| taken.expect("a take")).collect();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].field("for"), Some(&Bytes::from_static(b"one")));
    assert_eq!(store.get(key).await, Ok(None));
}

pub async fn an_expired_record_is_absent(store: Arc<dyn Store>) {
    let key = key("t");
    let life = Duration::from_millis(150);
    let begun = Instant::now();
    let writes = vec![(key.clone(), Write::set("a", "1")), (key.clone(), Write::Live(life))];
    write(&*store, writes).await;
    let there = store.get(key.clone()).await.expect("a read").is_some();
    assert!(there || begun.elapsed() >= life, "expired early");
    comes_true("expired", || async { store.get(key.clone()).await == Ok(None) }).await;
    assert!(begun.elapsed() >= life, "expired early, after {:?}", begun.elapsed());
    assert!(holds(&*store, &key, Check::Absent).await);
    assert_eq!(store.take(key.clone(), Sure::Master).await, Ok(None));
    write(&*store, vec![(key.clone(), Write::set("b", "2"))]).await;
    assert_eq!(field(&*store, &key, "a").await, None, "nothing of the expired one is left");
}

pub async fn a_longer_life_replaces_the_shorter(store: Arc<dyn Store>) {
    let tag = tag();
    let (long, short) = (Key::new(tag.clone(), "long"), Key::new(tag, "short"));
    let (ms, minute) = (Duration::from_millis(100), Duration::from_secs(60));
    let writes = vec![
        (long.clone(), Write::set("a", "1")),
        (long.clone(), Write::Live(ms)),
        (long.clone(), Write::Live(minute)),
        (short.clone(), Write::set("a", "1")),
        (short.clone(), Write::Live(minute)),
        (short.clone(), Write::Live(ms)),
    ];
    write(&*store, writes).await;
    comes_true("the short one expired", || async { store.get(short.clone()).await == Ok(None) }).await;
    assert!(store.get(long.clone()).await.expect("a read").is_some());
}

pub async fn a_set_keeps_the_expiry(store: Arc<dyn Store>) {
    let key = key("t");
    let writes =
        vec![(key.clone(), Write::set("a", "1")), (key.clone(), Write::Live(Duration::from_secs(1)))];
    write(&*store, writes).await;
    let set = store.commit(
        vec![(key.clone(), Check::Present)],
        vec![(key.clone(), Write::set("a", "2"))],
        Sure::Master,
    );
    assert!(matches!(set.await, Ok(Commit::Done(_))));
    comes_true("expired", || async { store.get(key.clone()).await == Ok(None) }).await;
}

pub async fn keys_that_lie_apart_are_refused(store: Arc<dyn Store>) {
    let (here, there) = (key("t"), key("t"));
    let refused = Err(StoreError::Apart(here.clone(), there.clone()));
    let writes = vec![(here.clone(), Write::set("a", "1")), (there.clone(), Write::set("a", "1"))];
    assert_eq!(store.commit(vec![], writes, Sure::Master).await, refused);
    let checks = vec![(here.clone(), Check::Absent)];
    let writes = vec![(there.clone(), Write::set("a", "1"))];
    assert_eq!(store.commit(checks, writes, Sure::Master).await, refused);
    assert_eq!(store.get(here).await, Ok(None));
    assert_eq!(store.get(there).await, Ok(None));
}

pub async fn kinds_are_not_confused(store: Arc<dyn Store>) {
    let tag = tag();
    let [record, stream, limit] = ["t", "x", "l"].map(|rest| Key::new(tag.clone(), rest));
    let append = || Write::Append { event: Bytes::from_static(b"e"), keep: 9 };
    let rate = Rate { every: Duration::from_secs(60), burst: 9, cost: 1 };
    write(&*store, vec![(record.clone(), Write::set("a", "1")), (stream.clone(), append())]).await;
    store.admit(limit.clone(), rate).await.expect("a grant");

    let of = |key: &Key| StoreError::Kind(key.clone());
    for other in [&stream, &limit] {
        assert_eq!(store.get(other.clone()).await, Err(of(other)));
        assert_eq!(store.near(other.clone()).await, Err(of(other)));
        assert_eq!(store.take(other.clone(), Sure::Master).await, Err(of(other)));
        let check = vec![(other.clone(), Check::Rev(1))];
        assert_eq!(store.commit(check, vec![], Sure::Master).await, Err(of(other)));
        let writes = vec![(record.clone(), Write::set("a", "2")), (other.clone(), Write::set("a", "2"))];
        assert_eq!(store.commit(vec![], writes, Sure::Master).await, Err(of(other)));
    }
    for other in [&record, &limit] {
        assert_eq!(store.events(other.clone(), 0, 9).await, Err(of(other)));
        let writes = vec![(stream.clone(), append()), (other.clone(), append())];
        assert_eq!(store.commit(vec![], writes, Sure::Master).await, Err(of(other)));
    }
    for other in [&record, &stream] {
        assert_eq!(store.admit(other.clone(), rate).await, Err(of(other)));
    }
    assert_eq!(field(&*store, &record, "a").await, Some(Bytes::from_static(b"1")), "refused whole");
    assert_eq!(store.events(stream.clone(), 0, 9).await.expect("a read").expect("a stream").last, 1);

    let changed = vec![
        (stream.clone(), Write::Drop),
        (stream.clone(), Write::set("now", "a record")),
        (record.clone(), Write::Live(Duration::ZERO)),
        (record.clone(), append()),
    ];
    assert_eq!(write(&*store, changed).await[3], 1, "a dropped key is free for another kind");
    assert!(field(&*store, &stream, "now").await.is_some());
}

pub async fn nothing_happens_before_the_answer_is_awaited(store: Arc<dyn Store>) {
    let key = key("t");
    drop(store.commit(vec![], vec![(key.clone(), Write::set("a", "1"))], Sure::Master));
    assert_eq!(store.get(key).await, Ok(None));
}
