mod away;
mod expiry;
mod places;
mod pods;
mod succession;

use super::*;
use crate::mcp::{Fault, Session as _, UpstreamId};
use crate::store::{Memory, PodId};
use crate::wire::{Id, Raw, Response};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tokio::sync::oneshot;

fn sessions_with(settings: Settings) -> (Arc<Memory>, Sessions) {
    let store = Arc::new(Memory::new(64 << 20));
    let sessions = Sessions::new(PodId::random(), store.clone(), Arc::new(Keyring::random()), settings);
    (store, sessions)
}

fn sessions() -> Sessions {
    sessions_with(Settings::default()).1
}

fn anna() -> Principal {
    Principal::minted("t", "i", "anna")
}

async fn open(sessions: &Sessions) -> Arc<LiveSession> {
    opened(sessions).await.session
}

async fn opened(sessions: &Sessions) -> Opened {
    let client = Client { capabilities: Some(Raw::trusted("{}")), ..Client::default() };
    sessions.open(&anna(), "p", Version::V2025_11_25, &client, Transport::Streamable).await.unwrap()
}

async fn finds(sessions: &Sessions, session: &LiveSession) -> bool {
    matches!(sessions.find(session.session_id().as_str(), &anna(), "p").await, Found::Found(_))
}

fn text(frame: Option<Frame>) -> (String, String) {
    match frame {
        Some(Frame::Message { id, message }) => {
            (id.unwrap_or_default(), String::from_utf8(message.to_vec()).unwrap())
        }
        other => panic!("{other:?} is no message"),
    }
}

async fn all(mut stream: BoxStream<'static, Frame>) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(frame) = stream.next().await {
        texts.push(match frame {
            Frame::Message { message, .. } => String::from_utf8(message.to_vec()).unwrap(),
            other => format!("{other:?}"),
        });
    }
    texts
}

fn rest(session: &Arc<LiveSession>, id: &str) -> BoxStream<'static, Frame> {
    match session.resume(id) {
        Some(Resumed::Answer(follower)) => follower.into_stream(),
        Some(Resumed::Standing(listener)) => listener.into_stream(),
        None => panic!("not an id of this session"),
    }
}

#[tokio::test]
async fn a_session_is_found_by_its_principal_in_its_profile_alone() {
    let sessions = sessions();
    let session = open(&sessions).await;
    let id = session.session_id().as_str();
    assert!(id.len() >= 22 && id.bytes().all(|b| b.is_ascii_graphic()));
    assert!(finds(&sessions, &session).await);
    let ben = Principal::minted("t", "i", "ben");
    for (id, who, profile) in [
        (id, &ben, "p"),
        (id, &Principal::minted("u", "i", "anna"), "p"),
        (id, &anna(), ""),
        ("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &anna(), "p"),
        ("", &anna(), "p"),
        ("é", &anna(), "p"),
    ] {
        assert!(matches!(sessions.find(id, who, profile).await, Found::Unknown));
        assert!(matches!(sessions.delete(id, who, profile).await, Deleted::Unknown));
    }
    assert!(finds(&sessions, &session).await);
}

#[tokio::test]
async fn another_pod_finds_what_the_client_said_of_itself() {
    let store: Arc<dyn Store> = Arc::new(Memory::new(1 << 20));
    let keyring = Arc::new(Keyring::random());
    let [one, other] =
        [0, 1].map(|_| Sessions::new(PodId::random(), store.clone(), keyring.clone(), Settings::default()));
    let session = open(&one).await;
    session.subscribe("file:///a").await.unwrap();
    session.set_level("error").await.unwrap();
    let Found::Found(there) = other.find(session.session_id().as_str(), &anna(), "p").await else { panic!() };
    assert_eq!(there.facts().level.as_deref(), Some("error"));
    assert!(there.facts().subscriptions.contains("file:///a"));

    let changed = session.changes().watch();
    there.subscribe("file:///b").await.unwrap();
    session.subscribe("file:///c").await.unwrap();
    assert!(changed.has_changed().unwrap());
    assert_eq!(session.facts().subscriptions.len(), 3, "no pod undoes what another wrote");
}

#[tokio::test]
async fn one_of_many_deletes_ends_a_session_and_gets_what_links_kept() {
    let (store, sessions) = sessions_with(Settings::default());
    let before = store.used();
    let session = open(&sessions).await;
    let up = UpstreamId::new("up").unwrap();
    assert_eq!(session.swap(&up, None, Some("S".into())).await, Ok(true));
    assert_eq!(session.swap(&up, None, Some("T".into())).await, Ok(false));
    let (outlet, _) = session.stream();
    outlet.send("1".into()).await.unwrap();
    let called = session.begin(&Id::of_number(1));
    let anna = anna();
    let deletes = (0..8).map(|_| sessions.delete(session.session_id().as_str(), &anna, "p"));
    let deletes = futures_util::future::join_all(deletes).await;
    let ended: Vec<_> =
        deletes.into_iter().filter_map(|d| if let Deleted::Ended(e) = d { Some(e) } else { None }).collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].load(&up).await, Ok(Some("S".into())));
    assert!(called.is_cancelled());
    assert!(!finds(&sessions, &session).await);
    assert_eq!(session.swap(&up, Some("S".into()), Some("T".into())).await, Ok(false), "it has ended");
    assert_eq!(outlet.send("2".into()).await, Err(Unsent::Ended));
    store.take(Key::new(format!("p:{}", session.facts().owner), "ss"), Sure::Master).await.unwrap();
    let left = store.used() - before;
    assert!(left < 512, "{left} bytes are left: no more than the empty record of an index");
}

#[tokio::test]
async fn a_session_that_ended_here_is_unknown_whatever_is_still_read_of_it() {
    let sessions = sessions();
    let session = open(&sessions).await;
    assert!(finds(&sessions, &session).await);
    session.close();
    assert!(!finds(&sessions, &session).await);
}

#[tokio::test]
async fn over_the_cap_the_never_used_end_first_then_the_idlest() {
    let (_, sessions) = sessions_with(Settings { cap: 3, ..Settings::default() });
    let used = open(&sessions).await;
    used.touch().await.unwrap();
    let idle = open(&sessions).await;
    // Uses are told apart by the millisecond.
    let first_use = facts::now();
    while facts::now() == first_use {
        tokio::task::yield_now().await;
    }
    let later = open(&sessions).await;
    later.touch().await.unwrap();
    let first = opened(&sessions).await;
    first.session.touch().await.unwrap();
    assert_eq!(first.ended.len(), 1);
    assert_eq!(first.ended[0].id(), idle.id());
    let second = opened(&sessions).await;
    assert_eq!(second.ended[0].id(), used.id());
    for (session, alive) in [(&used, false), (&idle, false), (&later, true), (&first.session, true)] {
        assert_eq!(finds(&sessions, session).await, alive);
    }
}

#[tokio::test]
async fn a_life_slides_with_its_uses_and_ends_without_them() {
    let life = Duration::from_millis(600);
    let (_, sessions) = sessions_with(Settings { life, ..Settings::default() });
    let (kept, left) = (open(&sessions).await, open(&sessions).await);
    let mut beat = tokio::time::interval(life / 8);
    for _ in 0..16 {
        beat.tick().await;
        kept.touch().await.unwrap();
    }
    assert!(finds(&sessions, &kept).await);
    assert!(!finds(&sessions, &left).await);
    assert!(left.ended().is_cancelled());
}

#[tokio::test]
async fn a_touch_is_written_only_when_a_part_of_the_life_has_passed() {
    let (store, sessions) = sessions_with(Settings::default());
    let session = open(&sessions).await;
    session.touch().await.unwrap();
    let rev = |record: Option<crate::store::Record>| record.unwrap().rev;
    let first = rev(store.get(session.record()).await.unwrap());
    for _ in 0..5 {
        session.touch().await.unwrap();
    }
    assert_eq!(rev(store.get(session.record()).await.unwrap()), first);
}

#[tokio::test]
async fn b123_an_idle_session_costs_the_store_little_and_the_pod_nothing() {
    let (store, sessions) = sessions_with(Settings { cap: 5000, ..Settings::default() });
    let before = store.used();
    for _ in 0..1000 {
        open(&sessions).await.touch().await.unwrap();
    }
    let each = (store.used() - before) / 1000;
    assert!(each < 1024, "{each} bytes");
    sessions.kept.invalidate_all();
    sessions.kept.run_pending_tasks();
    // The cache frees a few of its last entries late.
    let held = lock(&sessions.shared.live).len();
    assert!(held < 50, "{held} handles");
}

#[tokio::test]
async fn b053_the_rest_of_one_stream_is_replayed_and_nothing_of_another() {
    let sessions = sessions();
    let session = open(&sessions).await;
    let ((one, reads), (two, _)) = (session.stream(), session.stream());
    let prime = reads.priming_id();
    let mut reads = reads.into_stream();
    one.send("a1".into()).await.unwrap();
    two.send("b1".into()).await.unwrap();
    let (id, first) = text(reads.next().await);
    assert_eq!(first, "a1");
    drop(reads);
    one.send("a2".into()).await.unwrap();
    let again = rest(&session, &id);
    let from_the_start = tokio::spawn(all(rest(&session, &prime)));
    one.finish(Some("a3".into())).await.unwrap();
    assert_eq!(all(again).await, ["a2", "a3"]);
    assert_eq!(from_the_start.await.unwrap(), ["a1", "a2", "a3"]);
    // After its end as well, and once all was seen there is nothing more.
    let mut last = rest(&session, &id);
    let _ = last.next().await;
    let (end, _) = text(last.next().await);
    assert_eq!(all(rest(&session, &end)).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_event_id_opens_in_its_session_alone() {
    let sessions = sessions();
    let (mine, other) = (open(&sessions).await, open(&sessions).await);
    let (_outlet, reads) = mine.stream();
    let id = reads.priming_id();
    assert!(mine.resume(&id).is_some());
    assert!(other.resume(&id).is_none());
    assert!(mine.resume("7").is_none());
    assert!(mine.resume(&id.replace(&id[40..41], if &id[40..41] == "A" { "B" } else { "A" })).is_none());
}

#[tokio::test]
async fn a_slow_reader_holds_nobody_up_and_misses_nothing_within_the_backlog() {
    let sessions = sessions();
    let session = open(&sessions).await;
    let (outlet, reads) = session.stream();
    for n in 0..500 {
        outlet.send(n.to_string().into()).await.unwrap();
    }
    outlet.finish(None).await.unwrap();
    let got = all(reads.into_stream()).await;
    assert_eq!(got, (0..500).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_was_trimmed_is_told_and_the_rest_follows() {
    let (_, sessions) = sessions_with(Settings { backlog: 2, ..Settings::default() });
    let session = open(&sessions).await;
    let (outlet, reads) = session.stream();
    let prime = reads.priming_id();
    for n in ["1", "2", "3"] {
        outlet.send(n.into()).await.unwrap();
    }
    outlet.finish(Some("4".into())).await.unwrap();
    assert_eq!(all(rest(&session, &prime)).await, ["Trimmed", "3", "4"]);
}

#[tokio::test]
async fn what_exceeds_the_budget_is_sent_without_an_id_and_the_store_is_not_filled() {
    let (store, sessions) = sessions_with(Settings { backlog_bytes: 1 << 10, ..Settings::default() });
    let session = open(&sessions).await;
    let (outlet, reads) = session.stream();
    let before = store.used();
    let mut reads = reads.into_stream();
    outlet.send("kept".into()).await.unwrap();
    outlet.finish(Some(vec![b'x'; 1 << 20].into())).await.unwrap();
    assert!(!text(reads.next().await).0.is_empty());
    let (id, large) = text(reads.next().await);
    assert_eq!((id.len(), large.len()), (0, 1 << 20));
    assert!(reads.next().await.is_none());
    assert!(store.used() - before < 1 << 10);
}

#[tokio::test]
async fn a_stream_whose_writer_is_gone_ends_in_no_silence() {
    let sessions = sessions();
    let session = open(&sessions).await;
    let (outlet, reads) = session.stream();
    outlet.send("1".into()).await.unwrap();
    drop(outlet);
    assert_eq!(all(reads.into_stream()).await, ["1", "Lost"]);
}

#[tokio::test]
async fn a_writer_that_hangs_up_is_followed_on_another_connection() {
    let sessions = sessions();
    let session = open(&sessions).await;
    let (outlet, reads) = session.stream();
    let prime = reads.priming_id();
    outlet.send("1".into()).await.unwrap();
    outlet.hang_up();
    assert_eq!(all(reads.into_stream()).await, ["1"]);
    let rest = rest(&session, &prime);
    outlet.finish(Some("2".into())).await.unwrap();
    assert_eq!(all(rest).await, ["1", "2"]);
}

#[tokio::test]
async fn each_message_goes_to_the_newest_stream_and_none_is_lost_with_a_closed_one() {
    let sessions = sessions();
    let session = open(&sessions).await;
    assert!(!session.put("nobody listens".into()).await);
    let (old, new) = (session.listen(), session.listen());
    let resume = new.priming_id().unwrap();
    let (mut old, mut new) = (old.into_stream(), new.into_stream());
    session.tell("1".into());
    let (id, first) = text(new.next().await);
    assert_eq!(first, "1");
    session.tell("2".into());
    assert!(futures_util::FutureExt::now_or_never(old.next()).is_none(), "it is not the newest");
    drop(new);
    assert_eq!(text(old.next().await).1, "2");
    // The closed one is resumed: it replays its own, and is the newest again.
    let mut again = rest(&session, &resume);
    assert_eq!(text(again.next().await).1, "1");
    session.tell("3".into());
    assert_eq!(text(again.next().await).1, "3");
    drop(again);
    assert_eq!(text(rest(&session, &id).next().await).1, "3");
}

#[tokio::test]
async fn of_too_many_waiting_messages_the_oldest_notes_go_and_answers_stay() {
    let (_, sessions) = sessions_with(Settings { queue: 2, ..Settings::default() });
    let session = open(&sessions).await;
    let mut stream = session.listen().into_stream();
    for n in ["1", "2"] {
        session.tell(n.into());
    }
    assert!(session.put("answer".into()).await);
    session.tell("3".into());
    assert_eq!(text(stream.next().await).1, "answer");
    assert_eq!(text(stream.next().await).1, "3");
}

#[tokio::test]
async fn a_stream_that_nobody_reads_ends_when_too_much_waits_for_it() {
    let sessions = sessions();
    let session = open(&sessions).await;
    let mut stream = session.listen_without_ids().into_stream();
    let large = bytes::Bytes::from(vec![b' '; 9 << 20]);
    for _ in 0..3 {
        assert!(session.put(large.clone()).await);
    }
    assert!(!session.put(large.clone()).await, "the fourth is more than may wait");
    assert!(stream.next().await.is_none());
    assert!(!session.put("after it".into()).await, "and no stream is open any more");
    let mut next = session.listen_without_ids().into_stream();
    assert!(session.put("for the next".into()).await);
    assert_eq!(text(next.next().await).1, "for the next");
}

#[tokio::test]
async fn many_small_answers_that_nobody_reads_end_the_stream_too() {
    let (_, sessions) = sessions_with(Settings { queue: 4, ..Settings::default() });
    let session = open(&sessions).await;
    let mut stream = session.listen_without_ids().into_stream();
    let mut kept = 0;
    for _ in 0..100 {
        kept += usize::from(session.put("{}".into()).await);
    }
    assert_eq!(kept, 4 * 8);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn of_many_streams_of_one_session_the_oldest_ends() {
    let sessions = sessions();
    let session = open(&sessions).await;
    let mut streams: Vec<_> = (0..17).map(|_| session.listen().into_stream()).collect();
    assert_eq!(*session.listeners().borrow(), 16);
    assert!(streams.remove(0).next().await.is_none());
    session.tell("1".into());
    assert_eq!(text(streams[15].next().await).1, "1");
}

#[tokio::test]
async fn the_cap_ends_no_session_that_is_in_use_while_there_is_another() {
    let (_, sessions) = sessions_with(Settings { cap: 3, ..Settings::default() });
    let (streaming, calling, idle) = (open(&sessions).await, open(&sessions).await, open(&sessions).await);
    let stream = streaming.listen();
    let called = calling.begin(&Id::of_str("1"));
    // The idle one was used since, and the others were not.
    idle.touch().await.unwrap();
    let new = open(&sessions).await;
    assert!(finds(&sessions, &streaming).await && finds(&sessions, &calling).await);
    assert!(!finds(&sessions, &idle).await && finds(&sessions, &new).await);
    drop((stream, called));
    new.touch().await.unwrap();
    open(&sessions).await;
    let left = [finds(&sessions, &streaming).await, finds(&sessions, &calling).await];
    assert!(left[0] != left[1], "one of those that are in use no more went");
}

fn response(id: &Id) -> Response {
    Response { id: Some(id.clone()), outcome: Ok(Raw::trusted("{}")) }
}

#[tokio::test]
async fn an_answer_is_taken_once_in_its_session_and_in_time() {
    let sessions = sessions();
    let (session, other) = (open(&sessions).await, open(&sessions).await);
    let (sender, answer) = oneshot::channel();
    let asking = session.ask(sender, Duration::from_secs(60), None);
    assert!(asking.id().as_str().is_some(), "a string");
    assert_eq!(other.answer(response(asking.id())).await, Answered::Unknown);
    assert_eq!(session.answer(response(&Id::of_str("made up"))).await, Answered::Unknown);
    assert_eq!(session.answer(response(asking.id())).await, Answered::Delivered);
    assert_eq!(answer.await.unwrap().unwrap().to_bytes(), "{}");
    assert_eq!(session.answer(response(asking.id())).await, Answered::Unknown);

    let (sender, answer) = oneshot::channel::<Result<Raw, Fault>>();
    let late = session.ask(sender, Duration::ZERO, None);
    assert_eq!(session.answer(response(late.id())).await, Answered::Unknown);
    drop(late);
    assert!(answer.await.is_err(), "refused");
}

#[tokio::test]
async fn b127_a_cancel_stops_the_call_of_exactly_that_id() {
    let sessions = sessions();
    let session = open(&sessions).await;
    let id = |token: &'static str| {
        Id::read(&Bytes::from_static(token.as_bytes()), &(0..token.len() as u32)).unwrap()
    };
    let calls: Vec<_> = ["7", "\"7\"", "\"req-7\"", "9007199254740993", "9007199254740994", "1", "1"]
        .map(|token| session.begin(&id(token)))
        .into();
    assert_eq!(session.cancel(b"\"req-7\""), Cancelled::Done);
    assert_eq!(session.cancel(b"7"), Cancelled::Done);
    assert_eq!(session.cancel(b"9007199254740993"), Cancelled::Done);
    assert_eq!(session.cancel(b"1"), Cancelled::Ambiguous);
    assert_eq!(session.cancel(b"8"), Cancelled::Unknown);
    let cancelled: Vec<_> = calls.iter().map(|call| call.is_cancelled()).collect();
    assert_eq!(cancelled, [true, false, true, true, false, false, false]);
    drop(calls);
    assert_eq!(session.cancel(b"\"7\""), Cancelled::Unknown);
}

#[tokio::test]
async fn all_sessions_of_a_principal_end_on_all_pods_and_nobody_elses() {
    let pods = pods::Pods::start(2);
    let (first, second) = (pods.open().await, pods.open().await);
    let ben = Principal::minted("t", "i", "ben");
    let client = Client::default();
    let his = pods.on(0).open(&ben, "p", Version::V2025_11_25, &client, Transport::Streamable).await;
    let his = his.unwrap().session;
    let stream = second[1].listen().announced().await;
    let ended = Mutex::new(Vec::new());
    let end = |one: Arc<Ended>| lock(&ended).push(one.id().unwrap().as_str().to_owned());
    pods.on(0).delete_all(&anna(), end).await.unwrap();
    let mut both = [&first, &second].map(|of| of[0].session_id().as_str().to_owned());
    both.sort();
    lock(&ended).sort();
    assert_eq!(*lock(&ended), both, "each is ended upstream, once");
    pods::soon(second[1].ended().cancelled()).await;
    assert!(pods::soon(stream.into_stream().next()).await.is_none());
    for id in &both {
        assert!(matches!(pods.on(1).find(id, &anna(), "p").await, Found::Unknown));
    }
    assert!(matches!(pods.on(1).find(his.session_id().as_str(), &ben, "p").await, Found::Found(_)));
    pods.on(1).delete_all(&anna(), |_| panic!("they have ended")).await.unwrap();
}
