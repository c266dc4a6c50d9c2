//! The multiplexer over pipes, with the upstream's end in the test's hands.

use super::*;
use crate::upstream::lines::{self, Line, Lines};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

struct Peer {
    channel: Arc<Channel>,
    said: Lines<ReadHalf<DuplexStream>>,
    say: WriteHalf<DuplexStream>,
}

fn peer() -> Peer {
    peer_with(MessageLimits::default())
}

fn peer_with(limits: MessageLimits) -> Peer {
    let (ours, theirs) = duplex(1 << 20);
    let (from, to) = split(ours);
    let (channel, outbound) = Channel::new("test", limits);
    tokio::spawn(lines::write(to, outbound));
    let reader = channel.clone();
    tokio::spawn(async move { lines::read(from, &reader).await });
    let (said, say) = split(theirs);
    Peer { channel, said: Lines::new(said, 1 << 24, 1 << 24), say }
}

impl Peer {
    async fn hears(&mut self) -> Value {
        match self.said.next().await.unwrap() {
            Some(Line::Text(text)) => serde_json::from_slice(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn says(&mut self, text: impl ToString) {
        self.say.write_all((text.to_string() + "\n").as_bytes()).await.unwrap();
    }

    fn calls(&self, who: &str, id: &str) -> Call {
        self.calls_method(who, id, Method::ToolsCall)
    }

    fn calls_method(&self, who: &str, id: &str, method: Method) -> Call {
        let request = Outgoing {
            id: of(id),
            method,
            params: Raw::trusted("{}"),
            name: None,
            progress: Some(format!("\"p{id}\"").into()),
            trail: None,
            deadline: Instant::now() + Duration::from_secs(60),
        };
        tokio::spawn(self.channel.request(route(who), request))
    }
}

type Call = tokio::task::JoinHandle<Result<Answered, TransportError>>;

fn of(id: &str) -> Id {
    Id::read(&Bytes::copy_from_slice(id.as_bytes()), &(0..id.len() as u32)).unwrap()
}

fn route(who: &str) -> Route {
    Route { version: None, session: None, who: who.into(), headers: Vec::new(), bearer: None }
}

fn answer(id: &str, value: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"v":{value}}}}}"#)
}

fn note(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

/// What the messages of a call are, in short.
async fn all(call: Call) -> Vec<String> {
    match call.await.unwrap() {
        Err(e) => vec![format!("{e:?}")],
        Ok(Answered { answer: Answer::One(one), .. }) => vec![short(Ok(one))],
        Ok(Answered { answer: Answer::Stream(items), .. }) => items.map(short).collect().await,
    }
}

fn short(item: Result<Incoming, TransportError>) -> String {
    match item.map(|i| i.message) {
        Err(e) => format!("{e:?}"),
        Ok(Message::Response(r)) => {
            let (Ok(part) | Err(part)) = r.outcome;
            String::from_utf8_lossy(&part.to_bytes()).into_owned()
        }
        Ok(Message::Request(r)) => format!("asks {:?}", r.id),
        Ok(Message::Notification(n)) => n.method.as_str().to_owned(),
    }
}

async fn opened(call: Call) -> BoxStream<'static, Result<Incoming, TransportError>> {
    match call.await.unwrap().map(|a| a.answer) {
        Ok(Answer::Stream(items)) => items,
        Ok(Answer::One(_)) => panic!("one answer"),
        Err(e) => panic!("{e}"),
    }
}

#[tokio::test]
async fn answers_in_any_order_reach_their_own_calls_and_ids_keep_their_type() {
    let mut peer = peer();
    let calls = [peer.calls("a", "1"), peer.calls("b", "\"1\""), peer.calls("c", "\"x\"")];
    for _ in 0..3 {
        peer.hears().await;
    }
    for (id, value) in [("\"x\"", 3), ("\"1\"", 2), ("2", 9), ("1", 1), ("1", 9)] {
        peer.says(answer(id, value)).await;
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(all(call).await, [format!("{{\"v\":{}}}", n + 1)]);
    }
}

#[tokio::test]
async fn members_of_a_batch_reach_their_calls() {
    let mut peer = peer();
    let calls = [peer.calls("a", "1"), peer.calls("a", "2")];
    peer.hears().await;
    peer.hears().await;
    peer.says(format!(" [{} , {}]", answer("2", 2), answer("1", 1))).await;
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(all(call).await, [format!("{{\"v\":{}}}", n + 1)]);
    }
}

#[tokio::test]
async fn progress_goes_to_the_call_whose_token_it_names_and_else_to_nobody() {
    let mut peer = peer();
    let calls = [peer.calls("a", "1"), peer.calls("b", "2")];
    peer.hears().await;
    peer.hears().await;
    for token in ["p2", "p3", "p2"] {
        peer.says(note("notifications/progress", json!({ "progressToken": token, "progress": 1 }))).await;
    }
    peer.says(answer("1", 1)).await;
    peer.says(answer("2", 2)).await;
    let [first, second] = calls;
    assert_eq!(all(first).await, ["{\"v\":1}"]);
    assert_eq!(all(second).await, ["notifications/progress", "notifications/progress", "{\"v\":2}"]);
}

#[tokio::test]
async fn an_ask_goes_to_the_newest_call_of_the_only_caller() {
    let mut peer = peer();
    let calls = [peer.calls("a", "1"), peer.calls("a", "2"), peer.calls_method("b", "3", Method::ToolsList)];
    for _ in 0..3 {
        peer.hears().await;
    }
    peer.says(json!({ "jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {} })).await;
    peer.says(note("notifications/message", json!({ "level": "info", "data": 1 }))).await;
    peer.says(note("notifications/cancelled", json!({ "requestId": 0 }))).await;
    for id in ["1", "2", "3"] {
        peer.says(answer(id, 0)).await;
    }
    let [first, second, third] = calls;
    assert_eq!(all(first).await, ["{\"v\":0}"]);
    let want = ["asks 0", "notifications/message", "notifications/cancelled", "{\"v\":0}"];
    assert_eq!(all(second).await, want);
    assert_eq!(all(third).await, ["{\"v\":0}"]);
}

#[tokio::test]
async fn an_ask_is_refused_at_once_where_two_callers_or_none_could_be_meant() {
    let mut peer = peer();
    let ask = json!({ "jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {} });
    peer.says(&ask).await;
    let refused = peer.hears().await;
    assert_eq!((&refused["id"], refused["error"]["code"].is_i64()), (&json!("q"), true));

    let _calls = [peer.calls("a", "1"), peer.calls("b", "2")];
    peer.hears().await;
    peer.hears().await;
    let mut standing = peer.channel.standing(route("a"), None).await.unwrap().unwrap();
    peer.says(&ask).await;
    assert_eq!(peer.hears().await["id"], "q");
    peer.says(note("notifications/message", json!({ "level": "info", "data": 1 }))).await;
    assert_eq!(short(standing.next().await.unwrap()), "notifications/message");
}

#[tokio::test]
async fn a_ping_is_answered_at_once() {
    let mut peer = peer();
    peer.says(r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}"#).await;
    let Some(Line::Text(text)) = peer.said.next().await.unwrap() else { panic!() };
    assert_eq!(text, r#"{"jsonrpc":"2.0","id":9007199254740993,"result":{}}"#);
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_upstream_and_the_handshake_never_is() {
    let mut peer = peer();
    let handshake = peer.calls_method("a", "1", Method::Initialize);
    peer.hears().await;
    handshake.abort();
    let waiting = peer.calls("a", "\"x\"");
    peer.hears().await;
    waiting.abort();
    let heard = peer.hears().await;
    assert_eq!(heard["method"], "notifications/cancelled");
    assert_eq!(heard["params"]["requestId"], "x");

    // In the middle of its stream, with a question unread.
    let streaming = peer.calls("a", "2");
    peer.hears().await;
    peer.says(note("notifications/progress", json!({ "progressToken": "p2", "progress": 1 }))).await;
    let stream = opened(streaming).await;
    peer.says(json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list" })).await;
    peer.says(json!({ "jsonrpc": "2.0", "id": "last", "method": "ping" })).await;
    assert_eq!(peer.hears().await["id"], "last");
    drop(stream);
    assert_eq!(peer.hears().await["params"]["requestId"], 2);
    let refused = peer.hears().await;
    assert_eq!((&refused["id"], refused["error"].is_object()), (&json!("q"), true));
    assert!(peer.channel.idle_since().is_some());
}

#[tokio::test]
async fn a_finished_call_is_not_cancelled() {
    let mut peer = peer();
    let call = peer.calls("a", "1");
    peer.hears().await;
    peer.says(answer("1", 1)).await;
    assert_eq!(all(call).await.len(), 1);
    peer.says(json!({ "jsonrpc": "2.0", "id": "next", "method": "ping" })).await;
    assert_eq!(peer.hears().await["id"], "next");
}

#[tokio::test]
async fn a_reader_that_stalls_loses_progress_but_not_its_answer_and_holds_up_nobody() {
    let mut peer = peer();
    let stalled = peer.calls("a", "1");
    peer.hears().await;
    let progress = note("notifications/progress", json!({ "progressToken": "p1", "progress": 1 }));
    for _ in 0..5000 {
        peer.says(&progress).await;
    }
    let quick = peer.calls("b", "2");
    peer.hears().await;
    peer.says(answer("2", 2)).await;
    assert_eq!(all(quick).await, ["{\"v\":2}"]);
    peer.says(answer("1", 1)).await;
    let got = all(stalled).await;
    assert_eq!(got.last().unwrap(), "{\"v\":1}");
    assert!(got.len() > 100 && got.len() < 400, "{}", got.len());
}

#[tokio::test]
async fn subscriptions_get_their_own_notifications_and_one_that_lags_is_broken_off() {
    let mut peer = peer();
    let listens =
        [peer.calls_method("a", "\"l1\"", Method::Listen), peer.calls_method("b", "\"l2\"", Method::Listen)];
    peer.hears().await;
    peer.hears().await;
    let named = |method: &str, id: &str| {
        note(method, json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": id } }))
    };
    for (method, id) in [
        ("notifications/subscriptions/acknowledged", "l2"),
        ("notifications/subscriptions/acknowledged", "l1"),
        ("notifications/tools/list_changed", "l1"),
        ("notifications/tools/list_changed", "l0"),
    ] {
        peer.says(named(method, id)).await;
    }
    let [first, second] = listens;
    let (mut first, second) = (opened(first).await, opened(second).await);
    first.next().await;
    assert_eq!(short(first.next().await.unwrap()), "notifications/tools/list_changed");
    for _ in 0..1000 {
        peer.says(named("notifications/tools/list_changed", "l2")).await;
    }
    assert_eq!(peer.hears().await["params"]["requestId"], "l2");
    let got: Vec<_> = second.map(short).collect().await;
    assert_eq!(got.last().unwrap(), "Broken");
    // The other goes on, and its end by the upstream is its answer.
    peer.says(answer("\"l1\"", 1)).await;
    assert_eq!(short(first.next().await.unwrap()), "{\"v\":1}");
    assert!(first.next().await.is_none());
}

#[tokio::test]
async fn what_belongs_to_no_call_reaches_every_standing_stream_and_a_gap_is_an_error() {
    let mut peer = peer();
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(peer.channel.standing(route("a"), None).await.unwrap().unwrap());
    }
    assert!(peer.channel.idle_since().is_none());
    peer.says(note("notifications/resources/updated", json!({ "uri": "x:" }))).await;
    for stream in &mut streams {
        assert_eq!(short(stream.next().await.unwrap()), "notifications/resources/updated");
    }
    for _ in 0..STANDING * 2 {
        peer.says(note("notifications/tools/list_changed", json!({}))).await;
    }
    peer.says(json!({ "jsonrpc": "2.0", "id": "done", "method": "ping" })).await;
    peer.hears().await;
    for stream in &mut streams {
        assert_eq!(short(stream.next().await.unwrap()), "Broken");
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn a_closed_channel_breaks_what_is_in_flight_and_takes_nothing_more() {
    let mut peer = peer();
    let call = peer.calls("a", "1");
    peer.hears().await;
    let mut standing = peer.channel.standing(route("a"), None).await.unwrap().unwrap();
    let Peer { channel, said, say } = peer;
    drop((said, say));
    channel.gone().await;
    assert_eq!(all(call).await, ["Broken"]);
    assert_eq!(short(standing.next().await.unwrap()), "Broken");
    assert!(channel.standing(route("a"), None).await.is_err());
    let refused = channel.send(route("a"), Bytes::from_static(b"{}")).await.unwrap_err();
    assert!(refused.surely_not_begun());
}

#[tokio::test]
async fn a_channel_that_is_used_again_is_not_ended_as_idle_and_one_that_is_refuses_what_comes_after() {
    let mut peer = peer();
    let call = peer.calls("a", "1");
    peer.hears().await;
    assert!(!peer.channel.end_if_idle(), "a call is in flight");
    peer.says(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).await;
    assert!(matches!(call.await.unwrap().unwrap().answer, Answer::One(_)));
    assert!(peer.channel.end_if_idle());
    assert!(peer.channel.is_gone());
    let refused = peer.calls("a", "2").await.unwrap().err().expect("it is closed");
    assert!(refused.surely_not_begun());
}

#[tokio::test]
async fn what_is_no_message_is_skipped_until_it_is_nothing_else() {
    let mut peer = peer();
    let call = peer.calls("a", "1");
    peer.hears().await;
    for text in ["Server ready", "{", "[]", "[1]", "\u{feff}{}", "null", ""] {
        peer.says(text).await;
    }
    peer.says(answer("1", 1)).await;
    assert_eq!(all(call).await, ["{\"v\":1}"]);
    let call = peer.calls("a", "2");
    peer.hears().await;
    for _ in 0..GARBAGE {
        peer.says("?").await;
    }
    peer.channel.gone().await;
    assert!(all(call).await[0].starts_with("Garbage"));
}

#[tokio::test]
async fn a_malformed_answer_fails_its_own_call() {
    let mut peer = peer();
    let calls = [peer.calls("a", "1"), peer.calls("a", "2")];
    peer.hears().await;
    peer.hears().await;
    peer.says(r#"{"jsonrpc":"2.0","id":1,"result":7}"#).await;
    peer.says(answer("2", 2)).await;
    let [first, second] = calls;
    assert!(all(first).await[0].starts_with("Garbage"));
    assert_eq!(all(second).await, ["{\"v\":2}"]);
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_its_own_call() {
    let mut peer = peer_with(MessageLimits { bytes: 50_000, depth: 128 });
    let calls = [peer.calls("a", "\"m-1\""), peer.calls("a", "\"m-2\""), peer.calls("a", "\"m-3\"")];
    for _ in 0..3 {
        peer.hears().await;
    }
    let big = "x".repeat(100_000);
    peer.says(format!(r#"{{"jsonrpc":"2.0","id":"m-1","result":{{"x":"{big}"}}}}"#)).await;
    peer.says(format!(r#"{{"result":{{"x":"{big}"}},"jsonrpc":"2.0","id":"m-2"}}"#)).await;
    peer.says(answer("\"m-3\"", 3)).await;
    let [first, second, third] = calls;
    assert_eq!(all(first).await, ["TooLarge(50000)"]);
    assert_eq!(all(second).await, ["TooLarge(50000)"]);
    assert_eq!(all(third).await, ["{\"v\":3}"]);
}

#[tokio::test]
async fn an_upstream_that_reads_nothing_makes_callers_wait_no_longer_than_their_deadline() {
    let (channel, _unread) = Channel::new("test", MessageLimits::default());
    let big = Raw::trusted(format!("{{\"x\":\"{}\"}}", "x".repeat(QUEUE_BYTES - 100)));
    let request = |id: &str| Outgoing {
        id: of(id),
        method: Method::ToolsCall,
        params: big.clone(),
        name: None,
        progress: None,
        trail: None,
        deadline: Instant::now() + Duration::from_millis(100),
    };
    let (first, second) =
        tokio::join!(channel.request(route("a"), request("1")), channel.request(route("a"), request("2")),);
    assert!(matches!(first, Err(TransportError::Timeout)));
    assert!(matches!(second, Err(TransportError::Busy)));
}

proptest::proptest! {
    #[test]
    fn no_line_makes_the_channel_panic(lines: Vec<Vec<u8>>, texts in proptest::collection::vec("[\\[{\"a-z:,0-9}\\]]{0,40}", 0..8)) {
        let (channel, _outbound) = Channel::new("test", MessageLimits::default());
        for line in lines.into_iter().chain(texts.into_iter().map(String::into_bytes)) {
            channel.take(line.into());
        }
    }

    #[test]
    fn no_message_of_any_method_and_id_panics(
        method in "(notifications/(progress|message|cancelled|x)|ping|roots/list)",
        id in "(1|\"1\"|null|1.5|\\{\\})",
        params in "(\\{\\}|\\[\\]|null|\\{\"progressToken\":1\\}|\\{\"requestId\":\\{\\}\\}|\\{\"_meta\":\\{\"io.modelcontextprotocol/subscriptionId\":null\\}\\})",
    ) {
        let (channel, _outbound) = Channel::new("test", MessageLimits::default());
        channel.take(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#).into());
        channel.take(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#).into());
    }
}
