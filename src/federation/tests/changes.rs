//! Standing streams over several upstreams, and what is told to all.

use super::*;
use crate::mcp::scripted::{Health, Listener};
use crate::mcp::{Event, Note};
use crate::wire::{Raw, Version};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const LISTS: &str = r#"{"notifications":{"toolsListChanged":true,"resourcesListChanged":true},"x":1}"#;

fn backend(id: &str) -> (Arc<Scripted>, Receiver<Listener>) {
    let (backend, opened) = Scripted::new(id);
    let backend = backend.offering(r#"{"tools":{},"resources":{"subscribe":true}}"#, None);
    (Arc::new(backend.listing(Kind::Resource, &[r#"{"uri":"x:1","name":"r"}"#])), opened)
}

async fn listen(of: &Composite, params: &str) -> BoxStream<'static, Event> {
    of.call(scripted::call(Method::Listen, params)).await.into_events()
}

async fn note(events: &mut BoxStream<'static, Event>) -> (Method, String) {
    match events.next().await {
        Some(Event::Note(note)) => (note.method, String::from_utf8(note.params.to_bytes().to_vec()).unwrap()),
        Some(Event::Done(outcome)) => panic!("over: {outcome:?}"),
        _ => panic!("no note"),
    }
}

#[tokio::test]
async fn one_acknowledgement_comes_first_and_then_what_each_upstream_notifies() {
    let ((a, mut at_a), (b, mut at_b)) = (backend("a"), backend("b"));
    let two = composite(&[&a, &b]);
    let mut events = listen(
        &two,
        r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x:1","b+x:1","y:1"]}}"#,
    )
    .await;
    let client = tokio::spawn(async move {
        let acknowledged = note(&mut events).await;
        let (one, two) = (note(&mut events).await, note(&mut events).await);
        (acknowledged, one, two)
    });
    let (a, b) = (at_a.recv().await.unwrap(), at_b.recv().await.unwrap());
    let asked = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["x:1"]}}"#;
    assert_eq!((a.params.as_str(), b.params.as_str()), (asked, asked));
    // A change before the other's acknowledgement waits for it.
    b.acknowledge(r#"{"resourceSubscriptions":["x:1"]}"#).await;
    b.note(Method::ResourceUpdated, r#"{"uri":"x:1"}"#).await;
    a.acknowledge(r#"{"toolsListChanged":true,"resourceSubscriptions":["x:1"]}"#).await;
    let sent = async {
        a.note(Method::ToolsChanged, r#"{"_meta":{"k":1}}"#).await;
        client.await.unwrap()
    };
    let (acknowledged, one, two) = sent.await;
    let honoured = r#"{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["b+x:1","x:1"]}}"#;
    assert_eq!(acknowledged, (Method::Acknowledged, honoured.to_owned()));
    let mut rest = [one, two];
    rest.sort_by_key(|(method, _)| method.as_str().to_owned());
    assert_eq!(rest[0], (Method::ResourceUpdated, r#"{"uri":"b+x:1"}"#.to_owned()));
    assert_eq!(rest[1], (Method::ToolsChanged, r#"{"_meta":{"k":1}}"#.to_owned()));
}

#[tokio::test]
async fn b082_a_slow_upstream_holds_up_no_acknowledgement_and_an_upstream_that_is_back_changes_lists() {
    let ((a, mut at_a), (b, mut at_b), (c, _at_c)) = (backend("a"), backend("b"), backend("c"));
    let three = composite(&[&a, &b, &c]);
    b.set(Health::Down);
    c.set(Health::Hangs);
    let begun = Instant::now();
    let mut events = listen(&three, LISTS).await;
    let (acknowledged, _a) = tokio::join!(note(&mut events), async {
        let a = at_a.recv().await.unwrap();
        assert_eq!(a.params, LISTS);
        a.acknowledge("{}").await;
        a
    });
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let honoured = r#"{"notifications":{"toolsListChanged":true,"resourcesListChanged":true}}"#;
    assert_eq!(acknowledged, (Method::Acknowledged, honoured.to_owned()));

    b.set(Health::Up);
    let ((first, second), b) =
        tokio::join!(async { (note(&mut events).await.0, note(&mut events).await.0) }, async {
            let b = at_b.recv().await.unwrap();
            b.acknowledge(r#"{"toolsListChanged":true}"#).await;
            b
        });
    assert_eq!((first, second), (Method::ToolsChanged, Method::ResourcesChanged));
    // Its own changes come by the new stream, each once.
    b.note(Method::ToolsChanged, "{}").await;
    b.note(Method::ResourcesChanged, "{}").await;
    assert_eq!(note(&mut events).await.0, Method::ToolsChanged);
    assert_eq!(note(&mut events).await.0, Method::ResourcesChanged);
}

#[tokio::test]
async fn an_upstream_that_says_that_it_is_back_is_called_at_once() {
    let (a, (b, mut at_b)) = (scripted("a", Kind::Tool, &[]), Scripted::new("b"));
    let b = Arc::new(b.listing(Kind::Tool, &[r#"{"name":"t"}"#]));
    let two = composite(&[&a, &b]);
    let mut events = listen(&two, LISTS).await;
    let (_, b_says) = tokio::join!(note(&mut events), async {
        let says = at_b.recv().await.unwrap();
        says.acknowledge("{}").await;
        says
    });
    let call = r#"{"name":"b__t"}"#;
    b.set(Health::Down);
    assert!(matches!(reason(&two, Method::ToolsCall, call).await, Reason::Unreachable { .. }));
    b.set(Health::Up);
    assert!(
        matches!(reason(&two, Method::ToolsCall, call).await, Reason::Unreachable { .. }),
        "not yet heard"
    );
    b_says.note(Method::ToolsChanged, "{}").await;
    assert_eq!(note(&mut events).await.0, Method::ToolsChanged);
    assert!(result(&two, Method::ToolsCall, call).await.contains(r#""name":"t""#));
}

#[tokio::test]
async fn an_upstream_that_gives_one_list_is_there_for_others_and_one_that_fails_is_not_asked_again() {
    let a = scripted("a", Kind::Tool, &[]);
    let b = Arc::new(Scripted::new("b").0.listing(Kind::Tool, &[r#"{"name":"t"}"#]));
    let two = composite(&[&a, &b]);
    b.set(Health::Down);
    let (tool, prompt) = (r#"{"name":"b__t"}"#, r#"{"name":"b__p"}"#);
    assert!(matches!(reason(&two, Method::ToolsCall, tool).await, Reason::Unreachable { .. }));
    assert!(matches!(reason(&two, Method::PromptsGet, prompt).await, Reason::Unreachable { .. }));
    b.set(Health::Up);
    // Somebody lists tools; that says nothing of this caller's prompts but that the upstream is there.
    list(&two, Kind::Tool).await;
    assert!(matches!(reason(&two, Method::PromptsGet, prompt).await, Reason::UnknownPrompt(_)));

    let (c, d) = (scripted("c", Kind::Tool, &[]), Arc::new(Scripted::new("d").0));
    let two = composite(&[&c, &d]);
    d.set(Health::Hangs);
    assert!(matches!(reason(&two, Method::PromptsGet, r#"{"name":"d__p"}"#).await, Reason::Timeout { .. }));
    d.set(Health::Up);
    list(&two, Kind::Tool).await;
    let why = reason(&two, Method::PromptsGet, r#"{"name":"d__p"}"#).await;
    assert!(
        matches!(why, Reason::Timeout { .. }),
        "what did not come in time is not waited for by every call"
    );
}

#[tokio::test]
async fn a_stream_that_ends_upstream_is_opened_again_and_the_clients_goes_on() {
    let (a, mut at_a) = backend("a");
    let one = composite(&[&a]);
    let mut events = listen(&one, LISTS).await;
    let own = r#"{"notifications":{"toolsListChanged":true}, "y":2}"#;
    let (acknowledged, first) = tokio::join!(note(&mut events), async {
        let first = at_a.recv().await.unwrap();
        let params = Raw::trusted(own);
        let said = Event::Note(Note { method: Method::Acknowledged, params, at: None });
        first.say.send(said).await.ok().unwrap();
        first
    });
    assert_eq!(acknowledged, (Method::Acknowledged, own.to_owned()), "an only upstream's own words");
    drop(first);
    let (changed, again) = tokio::join!(note(&mut events), async {
        let again = at_a.recv().await.unwrap();
        again.acknowledge(r#"{"toolsListChanged":true}"#).await;
        again
    });
    assert_eq!(changed.0, Method::ToolsChanged);
    assert_eq!(note(&mut events).await.0, Method::ResourcesChanged);
    drop(events);
    again.say.closed().await;
}

#[tokio::test]
async fn a_stream_is_over_when_it_is_cancelled_or_when_no_upstream_will_ever_speak() {
    let (a, mut at_a) = backend("a");
    let call = scripted::call(Method::Listen, LISTS);
    let cancel = call.cancel.token();
    let mut events = composite(&[&a]).call(call).await.into_events();
    let (_, first) = tokio::join!(note(&mut events), async {
        let first = at_a.recv().await.unwrap();
        first.acknowledge(r#"{"toolsListChanged":true}"#).await;
        first
    });
    cancel.cancel();
    let over = events.next().await;
    assert!(matches!(over, Some(Event::Done(Outcome::Error(Fault::Ours(Reason::Cancelled))))));
    assert!(events.next().await.is_none());
    drop((events, first));

    let deaf = |id| {
        let (deaf, opened) = Scripted::new(id);
        drop(opened);
        Arc::new(deaf)
    };
    let why = reason(&composite(&[&deaf("a")]), Method::Listen, LISTS).await;
    assert!(matches!(why, Reason::MethodNotFound), "an only upstream's refusal is the answer");
    let mut events = listen(&composite(&[&deaf("a"), &deaf("b")]), LISTS).await;
    assert_eq!(note(&mut events).await.1, r#"{"notifications":{}}"#);
    assert!(matches!(events.next().await, Some(Event::Done(Outcome::Result(_)))));
}

#[tokio::test]
async fn what_the_client_tells_is_told_to_all_and_each_ends_its_part() {
    let (a, b) = (scripted("a", Kind::Tool, &[]), scripted("b", Kind::Tool, &[]));
    a.set(Health::Down);
    let two = composite(&[&a, &b]);
    let note = Note { method: Method::RootsChanged, params: Raw::trusted("{}"), at: None };
    assert!(two.tell(scripted::caller(), note.clone()).await.is_ok());
    assert!(composite(&[&a]).tell(scripted::caller(), note).await.is_err());
    two.end(scripted::caller().session.clone()).await;
    assert_eq!((a.told.load(Ordering::SeqCst), b.told.load(Ordering::SeqCst)), (2, 1));
    assert_eq!((a.ended.load(Ordering::SeqCst), b.ended.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_legacy_session_hears_the_log_of_every_upstream_whatever_changes_it_asked_for() {
    let ((a, mut at_a), (b, _at_b)) = (backend("a"), backend("b"));
    let mut call = scripted::call(Method::Listen, r#"{"notifications":{}}"#);
    call.caller = scripted::caller_of(Version::NEWEST_LEGACY);
    let mut events = composite(&[&a, &b]).call(call).await.into_events();
    let (acknowledged, a) = tokio::join!(note(&mut events), at_a.recv());
    assert_eq!(acknowledged.0, Method::Acknowledged);
    a.unwrap().note(Method::LogMessage, r#"{"level":"info","data":1}"#).await;
    assert_eq!(note(&mut events).await, (Method::LogMessage, r#"{"level":"info","data":1}"#.to_owned()));
}

#[tokio::test]
async fn a_session_that_another_pod_feeds_by_now_is_given_its_upstreams_last_words() {
    let ((a, mut at_a), (b, mut at_b)) = (backend("a"), backend("b"));
    let two = composite(&[&a, &b]);
    let cancel = CancellationToken::new();
    let mut call = scripted::call(Method::Listen, LISTS);
    call.caller = scripted::caller_of(Version::V2025_06_18);
    call.cancel = cancel.clone().into();
    let mut events = two.call(call).await.into_events();
    let (_, a, b) = tokio::join!(
        note(&mut events),
        async {
            let a = at_a.recv().await.unwrap();
            a.acknowledge("{}").await;
            a
        },
        async {
            let b = at_b.recv().await.unwrap();
            b.acknowledge("{}").await;
            b
        }
    );
    cancel.cancel();
    a.note(Method::ToolsChanged, "{}").await;
    drop(a);
    assert_eq!(note(&mut events).await.0, Method::ToolsChanged);
    b.note(Method::ResourcesChanged, "{}").await;
    assert_eq!(note(&mut events).await.0, Method::ResourcesChanged);
    drop(b);
    assert!(matches!(events.next().await, Some(Event::Done(Outcome::Error(_)))));
}

#[tokio::test]
async fn what_may_have_changed_before_a_slow_upstream_stood_is_told_once_it_stands() {
    for version in [Version::MODERN, Version::V2025_06_18] {
        let ((a, mut at_a), (b, mut at_b)) = (backend("a"), backend("b"));
        let two = composite(&[&a, &b]);
        let mut call = scripted::call(Method::Listen, LISTS);
        call.caller = scripted::caller_of(version);
        let mut events = two.call(call).await.into_events();
        let (first, (_a, b)) = tokio::join!(note(&mut events), async {
            let (a, b) = (at_a.recv().await.unwrap(), at_b.recv().await.unwrap());
            a.acknowledge("{}").await;
            (a, b)
        });
        assert_eq!(first.0, Method::Acknowledged, "it waits for b for a bounded time");
        b.acknowledge(r#"{"toolsListChanged":true}"#).await;
        b.note(Method::PromptsChanged, "{}").await;
        // Whoever was listened to before this call is not any more, and nobody was told what b said since.
        let told = [note(&mut events).await.0, note(&mut events).await.0, note(&mut events).await.0];
        assert_eq!(told, [Method::ToolsChanged, Method::ResourcesChanged, Method::PromptsChanged]);
    }
}
