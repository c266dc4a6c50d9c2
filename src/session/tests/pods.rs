//! Several pods over one store: what one began, another goes on with or ends.

use super::*;
use crate::wire::Response;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// Pods with one keyring over one store, each of which hears.
pub(super) struct Pods {
    pods: Vec<(Sessions, Option<AbortOnDropHandle<()>>)>,
}

impl Pods {
    pub(super) fn start(count: usize) -> Pods {
        Pods::with(count, Settings::default())
    }

    pub(super) fn with(count: usize, settings: Settings) -> Pods {
        let store: Arc<dyn Store> = Arc::new(Memory::new(64 << 20));
        let keyring = Arc::new(Keyring::random());
        let pod = |_| {
            let sessions = Sessions::new(PodId::random(), store.clone(), keyring.clone(), settings.clone());
            let hears = AbortOnDropHandle::new(tokio::spawn(sessions.clone().hear()));
            (sessions, Some(hears))
        };
        Pods { pods: (0..count).map(pod).collect() }
    }

    pub(super) fn on(&self, pod: usize) -> &Sessions {
        &self.pods[pod].0
    }

    /// A session of the first pod, as each pod finds it.
    pub(super) async fn open(&self) -> Vec<Arc<LiveSession>> {
        let id = open(self.on(0)).await.session_id().clone();
        let mut all = Vec::new();
        for (sessions, _) in &self.pods {
            all.push(found(sessions, id.as_str()).await);
        }
        all
    }

    /// The session as another pod finds it.
    pub(super) async fn find(&self, pod: usize, session: &LiveSession) -> Arc<LiveSession> {
        found(self.on(pod), session.session_id().as_str()).await
    }

    /// The pod is killed: it hears no more, and its lease is over.
    pub(super) async fn kill(&mut self, pod: usize) {
        if let Some(hears) = self.pods[pod].1.take() {
            hears.abort();
            let _ = hears.await;
        }
    }
}

async fn found(sessions: &Sessions, id: &str) -> Arc<LiveSession> {
    match sessions.find(id, &anna(), "p").await {
        Found::Found(session) => session,
        _ => panic!("the session is known"),
    }
}

/// Well over what anything here takes, so that a fault is no silence.
pub(super) async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(10), what).await.expect("it comes")
}

#[tokio::test]
async fn an_answer_on_another_pod_reaches_the_call_that_asked_and_counts_once() {
    let pods = Pods::start(3);
    let of = pods.open().await;
    let other = pods.open().await;
    let (sender, answer) = oneshot::channel();
    let asking = of[0].ask(sender, Duration::from_secs(60), None);
    let error = Response { id: Some(asking.id().clone()), outcome: Err(Raw::trusted("{\"code\":1}")) };
    assert_eq!(other[1].answer(response(asking.id())).await, Answered::Unknown, "another session's");
    assert_eq!(of[1].answer(error).await, Answered::Delivered);
    match soon(answer).await {
        Ok(Err(Fault::Upstream(error))) => assert_eq!(error.to_bytes(), "{\"code\":1}"),
        other => panic!("{other:?}"),
    }
    for pod in &of {
        assert_eq!(pod.answer(response(asking.id())).await, Answered::Unknown, "it was used");
    }

    let (sender, answer) = oneshot::channel();
    let asking = of[0].ask(sender, Duration::from_secs(60), None);
    let answered = [of[1].answer(response(asking.id())), of[2].answer(response(asking.id()))];
    let answered = futures_util::future::join_all(answered).await;
    let delivered = answered.iter().filter(|answered| **answered == Answered::Delivered).count();
    assert_eq!(delivered, 1, "{answered:?}");
    assert_eq!(soon(answer).await.unwrap().unwrap().to_bytes(), "{}");
}

#[tokio::test]
async fn an_answer_to_a_pod_that_is_gone_is_no_silence() {
    let mut pods = Pods::start(2);
    let of = pods.open().await;
    let (sender, _answer) = oneshot::channel();
    let asking = of[0].ask(sender, Duration::from_secs(60), None);
    pods.kill(0).await;
    assert_eq!(of[1].answer(response(asking.id())).await, Answered::Lost);
}

#[tokio::test]
async fn b051_a_cancel_on_another_pod_stops_the_call_of_exactly_that_id() {
    let pods = Pods::start(3);
    let of = pods.open().await;
    let other = pods.open().await;
    let id = |token: &'static str| {
        Id::read(&Bytes::from_static(token.as_bytes()), &(0..token.len() as u32)).unwrap()
    };
    let ids = ["7", "\"7\"", "9007199254740993", "1", "1", "2"].map(id);
    let [seven, text, large, twice, again, two] = ids.each_ref().map(|id| of[0].begin(id));
    // The client repeats this one, and its calls run on two pods.
    let elsewhere = of[1].begin(&id("2"));
    let theirs = other[0].begin(&id("7"));
    for (token, call) in [(&b"\"7\""[..], &text), (b"7", &seven), (b"9007199254740993", &large)] {
        assert!(!call.is_cancelled());
        assert_eq!(of[2].cancel_everywhere(token).await, Cancelled::Done);
        soon(call.cancelled()).await;
    }
    for pod in &of {
        assert_eq!(pod.cancel_everywhere(b"1").await, Cancelled::Ambiguous);
        assert_eq!(pod.cancel_everywhere(b"2").await, Cancelled::Ambiguous);
    }
    assert_eq!(of[1].cancel_everywhere(b"9007199254740994").await, Cancelled::Unknown);
    let may_be_meant = [&twice, &again, &two, &elsewhere];
    assert!(may_be_meant.iter().all(|call| !call.is_cancelled()), "the client may mean any");
    drop(two);
    assert_eq!(of[1].cancel_everywhere(b"2").await, Cancelled::Done, "the only one, and it is here");
    assert!(!theirs.is_cancelled());
}

#[tokio::test]
async fn a_session_that_ends_on_one_pod_ends_its_streams_and_calls_on_all() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let mut stream = of[1].listen().into_stream();
    let call = of[1].begin(&Id::of_str("1"));
    let (sender, answer) = oneshot::channel();
    let _asking = of[1].ask(sender, Duration::from_secs(60), None);
    let deleted = pods.on(0).delete(of[0].session_id().as_str(), &anna(), "p").await;
    assert!(matches!(deleted, Deleted::Ended(_)));
    assert!(soon(stream.next()).await.is_none());
    soon(call.cancelled()).await;
    assert!(soon(answer).await.is_err(), "refused");
}

#[tokio::test]
async fn what_a_session_changed_on_one_pod_is_known_on_all() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let mut changed = of[1].changes().watch();
    of[0].subscribe("file:///a").await.unwrap();
    soon(changed.changed()).await.unwrap();
    assert!(of[1].facts().subscriptions.contains("file:///a"));
    // And again: what was told once is watched anew.
    of[0].unsubscribe("file:///a").await.unwrap();
    soon(changed.changed()).await.unwrap();
    assert!(of[1].facts().subscriptions.is_empty());
}

#[tokio::test]
async fn b053_a_stream_is_replayed_and_followed_on_another_pod_while_its_call_runs() {
    let pods = Pods::start(3);
    let of = pods.open().await;
    let (outlet, reads) = of[0].stream();
    let prime = reads.priming_id();
    outlet.send("1".into()).await.unwrap();
    let (mut second, mut third) = (rest(&of[1], &prime), rest(&of[2], &prime));
    let (id, first) = text(soon(second.next()).await);
    assert_eq!(first, "1");
    assert_eq!(text(soon(third.next()).await).1, "1");
    // It waits for what is not there yet, and gets each as it is written.
    for n in ["2", "3", "4"] {
        let next = tokio::spawn(async move {
            let frame = second.next().await;
            (frame, second)
        });
        tokio::task::yield_now().await;
        outlet.send(n.into()).await.unwrap();
        let (frame, stream) = soon(next).await.unwrap();
        assert_eq!(text(frame).1, n);
        second = stream;
    }
    let more = async {
        for n in 5..200 {
            outlet.send(n.to_string().into()).await.unwrap();
        }
        outlet.finish(Some("200".into())).await.unwrap();
    };
    let ((), here, third, again) =
        tokio::join!(more, all(reads.into_stream()), soon(all(third)), soon(all(rest(&of[2], &id))));
    let want: Vec<_> = (1..=200).map(|n| n.to_string()).collect();
    assert_eq!(here, want);
    assert_eq!((&third[..], &again[..]), (&want[1..], &want[1..]));
    assert_eq!(soon(all(second)).await, want[4..]);
    // And after its end.
    assert_eq!(soon(all(rest(&of[1], &prime))).await, want);
}

#[tokio::test]
async fn a_silent_stream_of_another_pod_is_not_lost_until_that_pod_is() {
    let again = Duration::from_millis(10);
    let mut pods = Pods::with(2, Settings { again, ..Settings::default() });
    let of = pods.open().await;
    let (_outlet, reads) = of[0].stream();
    let waits = tokio::spawn(all(rest(&of[1], &reads.priming_id())));
    // Many times over it looks whether it is lost.
    tokio::time::sleep(again * 20).await;
    assert!(!waits.is_finished(), "the call takes its time");
    pods.kill(0).await;
    assert_eq!(soon(waits).await.unwrap(), ["Lost"]);
}

#[tokio::test]
async fn a_call_that_ends_without_an_answer_is_no_silence_on_another_pod() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let (outlet, reads) = of[0].stream();
    let mut there = rest(&of[1], &reads.priming_id());
    outlet.send("1".into()).await.unwrap();
    assert_eq!(text(soon(there.next()).await).1, "1");
    let waits = tokio::spawn(all(there));
    tokio::task::yield_now().await;
    drop(outlet);
    assert_eq!(soon(waits).await.unwrap(), ["Lost"]);
    // A call that its client cancelled ends its stream in order.
    let (outlet, reads) = of[0].stream();
    let waits = tokio::spawn(all(rest(&of[1], &reads.priming_id())));
    tokio::task::yield_now().await;
    outlet.finish(None).await.unwrap();
    assert_eq!(soon(waits).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_writer_that_hangs_up_lets_go_of_readers_on_other_pods_after_what_it_sent() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let (outlet, reads) = of[0].stream();
    let prime = reads.priming_id();
    outlet.send("1".into()).await.unwrap();
    let mut waits = tokio::spawn(all(rest(&of[1], &prime)));
    // Until the reader is known to the writer, it cannot be let go.
    let seen = loop {
        outlet.hang_up();
        if let Ok(seen) = timeout(Duration::from_millis(10), &mut waits).await {
            break seen.unwrap();
        }
    };
    assert_eq!(seen, ["1"]);
    outlet.finish(Some("2".into())).await.unwrap();
    assert_eq!(soon(all(rest(&of[1], &prime))).await, ["1", "2"]);
}

#[tokio::test]
async fn what_a_cache_gives_late_undoes_nothing() {
    let pods = Pods::start(1);
    let [session] = &pods.open().await[..] else { panic!() };
    let old = session.facts().clone();
    session.subscribe("file:///a").await.unwrap();
    let count = *session.changes().watch().borrow();
    session.learn((*old).clone());
    assert!(session.facts().subscriptions.contains("file:///a"));
    assert_eq!(*session.changes().watch().borrow(), count);
}
