//! Streams: what precedes an answer, whose it is, what is replayed, and what a cancel stops.

use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::gateway::http_sse::HttpSse;
use crate::harness::{Fixture, comes_true};
use crate::upstream_link::hostile::{self, Manner};
use serde_json::{Value, json};

const V: &str = "2025-11-25";

/// A call's params with a progress token, as its JSON text.
fn with_token(name: &str, arguments: Value, token: &str) -> String {
    format!(r#"{{"name":"{name}","arguments":{arguments},"_meta":{{"progressToken":{token}}}}}"#)
}

fn call(name: &str, arguments: Value) -> String {
    json!({ "name": name, "arguments": arguments }).to_string()
}

/// All messages of an answer, to its end. A call that was cancelled before its stream was opened has none.
async fn messages(mut answer: Answer) -> Vec<Value> {
    if answer.status == 202 {
        return Vec::new();
    }
    if !answer.is_stream() {
        return vec![answer.json().await];
    }
    let mut all = Vec::new();
    while let Some(message) = answer.message().await {
        all.push(message);
    }
    all
}

fn methods(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["method"].as_str().unwrap_or("response")).collect()
}

async fn before(era: &str) -> (Fixture, Gateway) {
    let fixture = Fixture::listening("--http", &["--era", era]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    (fixture, gateway)
}

#[tokio::test]
async fn b045_progress_and_log_come_on_the_calls_stream_in_order_and_under_the_clients_token() {
    for era in ["modern", "legacy"] {
        let (_fixture, gateway) = before(era).await;
        let client = gateway.legacy(V).await;
        client.result("logging/setLevel", json!({ "level": "debug" })).await;
        let params = with_token("progress", json!({ "steps": 3, "ms": 5 }), "\"p\"");
        let told = messages(client.send("1", "tools/call", &params).await).await;
        let wanted = ["notifications/progress"; 3];
        assert_eq!(methods(&told), [&wanted[..], &["response"]].concat(), "{era}");
        for (step, message) in told[..3].iter().enumerate() {
            assert_eq!(message["params"]["progressToken"], "p");
            assert_eq!(message["params"]["progress"], step + 1);
        }
        let told = messages(client.send("2", "tools/call", &call("log", json!({ "n": 2 }))).await).await;
        assert_eq!(methods(&told), ["notifications/message", "notifications/message", "response"], "{era}");
        assert_eq!((&told[0]["params"]["data"]["number"], &told[2]["id"]), (&json!(1), &json!(2)));

        let modern = gateway.modern();
        let told = messages(modern.send("1", "tools/call", &params).await).await;
        assert_eq!(methods(&told), [&wanted[..], &["response"]].concat(), "{era}");
        let level =
            r#"{"name":"log","arguments":{"n":2},"_meta":{"io.modelcontextprotocol/logLevel":"info"}}"#;
        let told = messages(modern.send("2", "tools/call", level).await).await;
        assert_eq!(methods(&told), ["notifications/message", "notifications/message", "response"], "{era}");
    }
}

#[tokio::test]
async fn b048_progress_under_equal_tokens_reaches_each_its_own_caller() {
    let (_fixture, gateway) = before("legacy").await;
    let (a, b) = (gateway.legacy(V).await, gateway.legacy(V).await);
    let modern = gateway.modern();
    let params = |steps: u64, token: &str| with_token("progress", json!({ "steps": steps, "ms": 20 }), token);
    let of_a = async { messages(a.send("1", "tools/call", &params(5, "1")).await).await };
    let of_b = async { messages(b.send("1", "tools/call", &params(6, "1")).await).await };
    let number = async { messages(a.send("2", "tools/call", &params(7, "7")).await).await };
    let string = async { messages(a.send("2", "tools/call", &params(8, "\"7\"")).await).await };
    let new = async { messages(modern.send("1", "tools/call", &params(9, "1")).await).await };
    let (of_a, of_b, number, string, new) = tokio::join!(of_a, of_b, number, string, new);
    let table = [
        (of_a, 5, json!(1)),
        (of_b, 6, json!(1)),
        (number, 7, json!(7)),
        (string, 8, json!("7")),
        (new, 9, json!(1)),
    ];
    for (told, steps, token) in table {
        assert_eq!(told.len(), steps + 1);
        for (step, message) in told[..steps].iter().enumerate() {
            let params = &message["params"];
            assert_eq!((&params["progressToken"], &params["progress"]), (&token, &json!(step + 1)));
            assert_eq!(params["total"], steps);
        }
    }
}

#[tokio::test]
async fn b049_who_gave_no_token_is_told_of_no_progress() {
    for era in ["modern", "legacy"] {
        let (_fixture, gateway) = before(era).await;
        let params = call("progress", json!({ "steps": 4, "ms": 5 }));
        let client = gateway.legacy(V).await;
        assert_eq!(methods(&messages(client.send("1", "tools/call", &params).await).await), ["response"]);
        let modern = gateway.modern();
        assert_eq!(methods(&messages(modern.send("1", "tools/call", &params).await).await), ["response"]);
    }
}

/// The cancelled calls that an upstream knows of, by their `text` argument.
async fn cancelled(fixture: &Fixture) -> Vec<Value> {
    fixture.stats().await["cancels"].as_array().cloned().unwrap_or_default()
}

async fn running(fixture: &Fixture, text: &str) {
    comes_true("the call is under way", async || {
        fixture.seen_of("tools/call").await.iter().any(|(_, body)| body.contains(text))
    })
    .await;
}

fn slow(name: &str, text: &str, ms: u64) -> String {
    call(name, json!({ "text": text, "ms": ms }))
}

#[tokio::test]
async fn b050_a_cancel_reaches_the_upstream_of_its_call_alone_under_the_id_that_it_knows() {
    let (one, two) = (
        Fixture::listening("--http", &["--era", "legacy"]),
        Fixture::listening("--http", &["--era", "legacy"]),
    );
    let gateway = Gateway::before(&[("one", &one), ("two", &two)]);
    let (client, other) = (gateway.legacy(V).await, gateway.legacy(V).await);
    let gone = async {
        messages(client.send("5", "tools/call", &slow("two__slow_echo", "gone", 60_000)).await).await
    };
    let stays = async {
        messages(other.send("5", "tools/call", &slow("one__slow_echo", "stays", 1_500)).await).await
    };
    let cancel = async {
        running(&two, "gone").await;
        running(&one, "stays").await;
        client.notify("notifications/cancelled", json!({ "requestId": 5, "reason": "enough" })).await;
    };
    let (gone, stays, ()) = tokio::join!(gone, stays, cancel);
    assert!(gone.is_empty(), "a cancelled call has no response: {gone:?}");
    assert_eq!(stays.last().expect("an answer")["result"]["content"][0]["text"], "stays");
    comes_true("the upstream has cancelled it", async || cancelled(&two).await.len() == 1).await;
    let of_two = &cancelled(&two).await[0];
    assert_eq!((&of_two["arguments"]["text"], &of_two["how"]), (&json!("gone"), &json!("notified")));
    assert_ne!(of_two["id"], 5);
    assert_eq!(cancelled(&one).await, Vec::<Value>::new());
}

#[tokio::test]
async fn b051_of_two_large_ids_that_doubles_confuse_one_is_cancelled_and_both_stay_exact() {
    const ONE: &str = "9007199254740993";
    const TWO: &str = "9007199254740994";
    for era in ["legacy", "modern"] {
        let (fixture, gateway) = before(era).await;
        let client = gateway.legacy(V).await;
        let first = async { client.send(ONE, "tools/call", &slow("slow_echo", "first", 60_000)).await };
        let second = async {
            client.send(TWO, "tools/call", &slow("slow_echo", "second", 1_500)).await.response().await
        };
        let cancel = async {
            running(&fixture, "first").await;
            running(&fixture, "second").await;
            let body = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{ONE}}}}}"#
            );
            assert_eq!(client.raw(&[], body).await.status, 202);
        };
        let (first, second, ()) = tokio::join!(first, second, cancel);
        assert!(text_of(first).await.is_empty());
        let second = String::from_utf8(second.to_vec()).unwrap();
        assert!(second.contains(&format!(r#""id":{TWO}"#)) && second.contains("second"), "{second}");

        let modern = gateway.modern();
        // It streams, so that there is a stream to close.
        let params = with_token("progress", json!({ "steps": 2, "ms": 60_000 }), "1");
        let mut first = modern.send(ONE, "tools/call", &params).await;
        assert_eq!(first.message().await.expect("it stands")["method"], "notifications/progress");
        drop(first);
        let mut second = modern.send(TWO, "tools/call", &slow("slow_echo", "third", 300)).await;
        let second = String::from_utf8(second.response().await.to_vec()).unwrap();
        assert!(second.contains(&format!(r#""id":{TWO}"#)) && second.contains("third"), "{second}");
        comes_true("both are cancelled, and no other", async || {
            let all = cancelled(&fixture).await;
            let texts: Vec<_> = all.iter().map(|one| &one["arguments"]).collect();
            texts.len() == 2 && texts[0]["text"] == "first" && texts[1]["steps"] == 2
        })
        .await;
    }
}

/// What an answer says, to its end.
async fn text_of(mut answer: Answer) -> String {
    if !answer.is_stream() {
        return String::from_utf8(answer.bytes().await.to_vec()).unwrap();
    }
    let mut all = String::new();
    while let Some(message) = answer.message().await {
        all.push_str(&message.to_string());
    }
    all
}

#[tokio::test]
async fn b056_what_precedes_an_answer_is_sent_when_it_is_said_and_asks_proxies_not_to_hold_it() {
    let (_fixture, gateway) = before("legacy").await;
    let legacy =
        crate::gateway::legacy::Legacy::begin(gateway.address, "/mcp", V, json!({ "elicitation": {} })).await;
    let params = with_token("test_streaming_elicitation", json!({}), "1");
    let mut stream = legacy.send("1", "tools/call", &params).await;
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    let cache = stream.header("cache-control").unwrap_or_default();
    assert!(cache.contains("no-cache") && cache.contains("no-transform"), "{cache}");
    // The call ends by our answer alone, so what comes here was sent before its end.
    assert_eq!(stream.message().await.expect("it stands")["method"], "notifications/progress");
    let ask = stream.message().await.expect("it stands");
    assert_eq!(ask["method"], "elicitation/create");
    assert_eq!(
        legacy.reply(&ask["id"], json!({ "action": "accept", "content": { "ok": true } })).await.status,
        202
    );
    assert_eq!(stream.answer().await["id"], 1);

    let params = with_token("progress", json!({ "steps": 2, "ms": 60_000 }), "1");
    let mut stream = gateway.modern().send("1", "tools/call", &params).await;
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    let cache = stream.header("cache-control").unwrap_or_default();
    assert!(cache.contains("no-cache") && cache.contains("no-transform"), "{cache}");
    assert_eq!(stream.message().await.expect("it stands")["params"]["progress"], 1);
}

#[tokio::test]
async fn b059_a_message_of_several_data_lines_is_sent_on_as_one_line() {
    let manner: Manner = |id| {
        Box::pin(async move {
            let progress = "event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\r\n: a comment\r\ndata: \"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"é\"}}\r\n\r\n";
            let answer = format!(
                "data: {{\"jsonrpc\":\"2.0\",\"id\":{id},\ndata: \"result\":{{\"resultType\":\"complete\",\"content\":\ndata: []}}}}\n\n"
            );
            hostile::Answer::Close(hostile::stream(&format!("{progress}{answer}")))
        })
    };
    let server = hostile::Server::start(manner).await;
    let gateway = Gateway::start(json!({ "upstreams": { "up": { "url": server.url } } }));
    let client = gateway.legacy(V).await;
    let mut answer = client.send("1", "tools/call", &call("t", json!({}))).await;
    let mut events = Vec::new();
    while let Some(event) = answer.event().await {
        if !event.data.is_empty() {
            events.push(event.data);
        }
    }
    assert_eq!(events.len(), 2, "{events:?}");
    for event in &events {
        assert!(!event.contains(&b'\r'), "{event:?}");
        serde_json::from_slice::<Value>(event).expect("one message");
    }
    let raw = gateway.legacy(V).await.send("1", "tools/call", &call("t", json!({}))).await.bytes().await;
    let raw = String::from_utf8(raw.to_vec()).unwrap();
    assert_eq!(raw.lines().filter(|line| line.starts_with("data: {")).count(), 2, "{raw}");
}

#[tokio::test]
async fn b127_a_cancel_by_a_string_id_stops_the_named_call_alone() {
    for era in ["legacy", "modern"] {
        let (fixture, gateway) = before(era).await;
        let client = gateway.legacy(V).await;
        let call = async |id: &str, text: &str, ms: u64| {
            text_of(client.send(id, "tools/call", &slow("slow_echo", text, ms)).await).await
        };
        let cancel = async {
            for text in ["named", "number", "string"] {
                running(&fixture, text).await;
            }
            for id in ["req-7", "7"] {
                assert_eq!(
                    client.notify("notifications/cancelled", json!({ "requestId": id })).await.status,
                    202
                );
            }
        };
        let calls = async {
            tokio::join!(
                call("\"req-7\"", "named", 60_000),
                call("7", "number", 1_500),
                call("\"7\"", "string", 60_000)
            )
        };
        let ((named, number, string), ()) = tokio::join!(calls, cancel);
        assert_eq!((&*named, &*string), ("", ""));
        assert!(number.contains("number") && number.contains(r#""id":7"#), "{number}");
        comes_true("two are cancelled", async || cancelled(&fixture).await.len() == 2).await;
    }
}

#[tokio::test]
async fn b127_a_cancel_in_http_sse_stops_the_named_call_alone() {
    let (fixture, gateway) = before("legacy").await;
    let mut client = HttpSse::begin(gateway.address, "/mcp", json!({})).await;
    client.send("\"a\"", "tools/call", &slow("slow_echo", "named", 60_000)).await;
    client.send("\"b\"", "tools/call", &slow("slow_echo", "other", 1_000)).await;
    running(&fixture, "named").await;
    running(&fixture, "other").await;
    client.post(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}"#).await;
    comes_true("it is cancelled", async || cancelled(&fixture).await.len() == 1).await;
    let answer = client.hear().await;
    assert_eq!(answer["id"], "b", "and the cancelled one has no answer");
}
