//! What sessions do while the store does not answer, or answers late.

use super::*;
use crate::store::{Events, Fut, Grant, Health, Heard, Rate, Record, StoreError, Topic};
use futures_util::FutureExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::watch;

/// A store that can be put out of reach.
struct Reach {
    store: Memory,
    away: AtomicBool,
    /// What is committed is answered a little later.
    slow: AtomicBool,
    /// How many records can still be taken.
    takes: AtomicUsize,
}

impl Reach {
    fn new() -> Arc<Reach> {
        Arc::new(Reach {
            store: Memory::new(1 << 20),
            away: AtomicBool::default(),
            slow: AtomicBool::default(),
            takes: AtomicUsize::new(usize::MAX),
        })
    }

    fn through<T: Send + 'static>(&self, answer: Fut<T>) -> Fut<T> {
        if self.away.load(Ordering::SeqCst) {
            return std::future::ready(Err(StoreError::Away)).boxed();
        }
        answer
    }
}

impl Store for Reach {
    fn get(&self, key: Key) -> Fut<Option<Record>> {
        self.through(self.store.get(key))
    }
    fn near(&self, key: Key) -> Fut<Option<Record>> {
        self.through(self.store.near(key))
    }
    fn commit(&self, checks: Vec<(Key, Check)>, writes: Vec<(Key, Write)>, sure: Sure) -> Fut<Commit> {
        let commit = self.through(self.store.commit(checks, writes, sure));
        if !self.slow.load(Ordering::SeqCst) {
            return commit;
        }
        async move {
            let done = commit.await;
            tokio::task::yield_now().await;
            done
        }
        .boxed()
    }
    fn take(&self, key: Key, sure: Sure) -> Fut<Option<Record>> {
        let takes = self.takes.load(Ordering::SeqCst);
        if takes == 0 {
            return std::future::ready(Err(StoreError::Away)).boxed();
        }
        self.takes.store(takes - 1, Ordering::SeqCst);
        self.through(self.store.take(key, sure))
    }
    fn admit(&self, key: Key, rate: Rate) -> Fut<Grant> {
        self.through(self.store.admit(key, rate))
    }
    fn events(&self, key: Key, after: u64, most: u32) -> Fut<Option<Events>> {
        self.through(self.store.events(key, after, most))
    }
    fn mail(&self, to: PodId, letter: Bytes) -> Fut<bool> {
        self.through(self.store.mail(to, letter))
    }
    fn say(&self, topic: Topic, what: Bytes) -> Fut<()> {
        self.through(self.store.say(topic, what))
    }
    fn hear(&self, me: PodId) -> BoxStream<'static, Heard> {
        self.store.hear(me)
    }
    fn health(&self) -> watch::Receiver<Health> {
        self.store.health()
    }
}

#[tokio::test]
async fn b057_with_the_store_away_nothing_is_called_unknown_and_open_streams_go_on() {
    let store = Reach::new();
    let sessions =
        Sessions::new(PodId::random(), store.clone(), Arc::new(Keyring::random()), Settings::default());
    let session = open(&sessions).await;
    let id = session.session_id().as_str();
    let (outlet, reads) = session.stream();
    let (mut reads, mut listens) = (reads.into_stream(), session.listen().into_stream());
    outlet.send("1".into()).await.unwrap();
    assert!(!text(reads.next().await).0.is_empty());

    store.away.store(true, Ordering::SeqCst);
    assert!(matches!(sessions.find(id, &anna(), "p").await, Found::Away));
    assert!(matches!(sessions.delete(id, &anna(), "p").await, Deleted::Away));
    let client = Client::default();
    let opened = sessions.open(&anna(), "p", Version::V2025_11_25, &client, Transport::Streamable).await;
    assert_eq!(opened.err(), Some(OpenError::Away(StoreAway)));
    let up = UpstreamId::new("up").unwrap();
    assert_eq!(session.load(&up).await, Err(StoreAway));
    assert_eq!(session.swap(&up, None, Some("S".into())).await, Err(StoreAway));
    assert_eq!(session.touch().await, Err(StoreAway));
    assert_eq!(session.subscribe("a:b").await, Err(ChangeError::Away(StoreAway)));
    // What is written meanwhile is not kept, so it has no id; but it comes.
    outlet.send("2".into()).await.unwrap();
    assert_eq!(text(reads.next().await), (String::new(), "2".into()));
    session.tell("3".into());
    assert_eq!(text(listens.next().await), (String::new(), "3".into()));

    store.away.store(false, Ordering::SeqCst);
    assert!(finds(&sessions, &session).await);
    assert!(!session.ended().is_cancelled());
    outlet.finish(Some("4".into())).await.unwrap();
    let (id, last) = text(reads.next().await);
    assert!(!id.is_empty() && last == "4");
}

#[tokio::test]
async fn with_the_store_away_an_answer_counts_on_the_pod_that_asked_and_is_no_error_elsewhere() {
    let store = Reach::new();
    let keyring = Arc::new(Keyring::random());
    let pod = || Sessions::new(PodId::random(), store.clone(), keyring.clone(), Settings::default());
    let (one, two) = (pod(), pod());
    let here = open(&one).await;
    let Found::Found(there) = two.find(here.session_id().as_str(), &anna(), "p").await else { panic!() };
    let mut listens = here.listen().announced().await.into_stream();
    store.away.store(true, Ordering::SeqCst);
    let (sender, answer) = oneshot::channel();
    let asking = here.ask(sender, std::time::Duration::from_secs(60), None);
    assert!(here.put("question".into()).await, "its stream is open here");
    assert_eq!(text(listens.next().await), (String::new(), "question".into()));
    assert_eq!(there.answer(response(asking.id())).await, Answered::Away);
    assert_eq!((here.reach().await, there.reach().await), (Ok(()), Err(StoreAway)));
    assert_eq!(here.answer(response(asking.id())).await, Answered::Delivered);
    assert_eq!(answer.await.unwrap().unwrap().to_bytes(), "{}");
    assert_eq!(here.answer(response(asking.id())).await, Answered::Unknown);
    // A stream that is opened meanwhile is the newest here, and known elsewhere later.
    let mut newer = here.listen().announced().await.into_stream();
    here.tell("note".into());
    assert_eq!(text(newer.next().await).1, "note");
}

#[tokio::test]
async fn who_goes_away_in_the_middle_of_a_use_does_not_end_the_uses_of_others() {
    let store = Reach::new();
    let sessions =
        Sessions::new(PodId::random(), store.clone(), Arc::new(Keyring::random()), Settings::default());
    let session = open(&sessions).await;
    store.slow.store(true, Ordering::SeqCst);
    assert!(session.touch().now_or_never().is_none(), "it is dropped before it knows");
    session.touch().await.unwrap();
    assert!(session.facts().used);
}

#[tokio::test]
async fn a_stream_whose_client_goes_away_while_it_opens_stands_nowhere() {
    let store = Reach::new();
    let sessions =
        Sessions::new(PodId::random(), store.clone(), Arc::new(Keyring::random()), Settings::default());
    let session = open(&sessions).await;
    store.slow.store(true, Ordering::SeqCst);
    {
        let mut opening = std::pin::pin!(session.listen().announced());
        assert!(opening.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    sessions.tasks().close();
    sessions.tasks().wait().await;
    let places =
        store.get(Key::new(session.session_id().0.clone(), crate::session::places::PLACES)).await.unwrap();
    assert!(places.is_none_or(|places| places.fields.is_empty()));
}

#[tokio::test]
async fn what_an_opening_took_for_the_cap_is_handed_over_though_it_cannot_take_the_rest() {
    let store = Reach::new();
    let keyring = Arc::new(Keyring::random());
    let with = |cap| {
        let settings = Settings { cap, ..Settings::default() };
        Sessions::new(PodId::random(), store.clone(), keyring.clone(), settings)
    };
    let (wide, narrow) = (with(10), with(1));
    for _ in 0..4 {
        open(&wide).await;
    }
    store.takes.store(1, Ordering::SeqCst);
    assert_eq!(opened(&narrow).await.ended.len(), 1);
    store.takes.store(usize::MAX, Ordering::SeqCst);
    assert_eq!(opened(&narrow).await.ended.len(), 4, "the next opening goes on");
}
