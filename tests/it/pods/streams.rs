//! Streams, questions and cancels of one session over two pods: what one pod runs or holds, the other takes part in.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Pods;
use crate::gateway::exchange::Answer;
use crate::gateway::http_sse::HttpSse;
use crate::gateway::legacy::Legacy;
use crate::harness::comes_true;

fn tool(name: &str, arguments: Value) -> String {
    json!({ "name": name, "arguments": arguments, "_meta": { "progressToken": "p" } }).to_string()
}

/// A session by way of both pods.
async fn session(pods: &Pods, capabilities: Value) -> (Legacy, Legacy) {
    let here = Legacy::begin(pods.one.address, "/mcp", super::V, capabilities).await;
    let there = pods.elsewhere(&here);
    (here, there)
}

/// Its GET stream, open.
async fn listens(client: &Legacy) -> Answer {
    let mut stream = client.stream(None).await;
    assert_eq!(stream.status, 200);
    assert!(stream.event().await.expect("a first event").data.is_empty());
    stream
}

async fn upstream_hears(pods: &Pods, streams: u64) {
    comes_true("the upstream's stream is open", || async {
        pods.upstream.stats().await["streams"] == streams
    })
    .await;
}

#[tokio::test]
async fn b042_an_answer_by_way_of_another_pod_reaches_the_call_that_asked_and_counts_once() {
    let pods = Pods::start();
    let (here, there) = session(&pods, json!({ "elicitation": {} })).await;
    let (_, stranger) = session(&pods, json!({ "elicitation": {} })).await;
    let mut call = here.send("7", "tools/call", &tool("ask_elicitation", json!({}))).await;
    let question = call.message().await.expect("a question");
    assert_eq!(question["method"], "elicitation/create");
    let given = json!({ "action": "accept", "content": { "text": "ü" } });
    assert_eq!(stranger.reply(&question["id"], given.clone()).await.status, 400, "another session's");
    assert_eq!(there.reply(&question["id"], given.clone()).await.status, 202);
    let answer = call.answer().await;
    assert!(
        answer["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains('ü')),
        "{answer}"
    );
    for client in [&there, &here] {
        assert_eq!(client.reply(&question["id"], given.clone()).await.status, 400, "it was used");
    }
    // A call that takes one JSON body asks on the GET stream, wherever that is.
    let mut stream = listens(&there).await;
    let json_only = [("accept", "application/json")];
    let asks = tool("ask_elicitation", json!({}));
    let (mut answer, ()) = tokio::join!(here.send_with("8", "tools/call", &asks, &json_only), async {
        let question = stream.message().await.expect("a question");
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(there.reply(&question["id"], json!({ "action": "decline" })).await.status, 202);
    });
    assert_eq!(answer.answer().await["id"], 8);
}

#[tokio::test]
async fn b050_b051_b127_a_cancel_by_way_of_another_pod_stops_the_named_call_alone() {
    let pods = Pods::start();
    let (here, there) = session(&pods, json!({})).await;
    let other = Legacy::begin(pods.one.address, "/mcp", super::V, json!({})).await;
    let slow = |text: &str| tool("slow_echo", json!({ "text": text, "ms": 4_000 }));
    let ids = ["9007199254740993", "9007199254740994", "\"req-7\"", "7"];
    let calls = ids.map(|id| {
        let (here, params) = (&here, slow(id));
        async move {
            let mut answer = here.send(id, "tools/call", &params).await;
            if answer.status == 202 { None } else { Some(answer.answer().await) }
        }
    });
    let same = slow("same");
    let (calls, mut same, ()) =
        tokio::join!(futures_util::future::join_all(calls), other.send("7", "tools/call", &same), async {
            comes_true("all run", || async { pods.upstream.seen_of("tools/call").await.len() == 5 }).await;
            for id in ["9007199254740993", "\"req-7\""] {
                let cancel = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                );
                assert_eq!(there.raw(&[], cancel).await.status, 202);
            }
            comes_true("two are cancelled upstream", || async {
                pods.upstream.seen_of("notifications/cancelled").await.len() == 2
            })
            .await;
        },);
    let answered: Vec<_> =
        calls.iter().map(|answer| answer.as_ref().map(|answer| answer["id"].to_string())).collect();
    assert_eq!(answered, [None, Some(ids[1].to_owned()), None, Some(ids[3].to_owned())]);
    assert_eq!(same.answer().await["result"]["content"][0]["text"], "same", "another session's call");
    assert_eq!(pods.upstream.seen_of("notifications/cancelled").await.len(), 2);
}

#[tokio::test]
async fn b053_a_calls_stream_is_resumed_on_another_pod_while_the_call_runs() {
    let pods = Pods::start();
    let (here, there) = session(&pods, json!({})).await;
    let (_, stranger) = session(&pods, json!({})).await;
    let steps = |ms: u64| tool("progress", json!({ "steps": 40, "ms": ms }));
    let mut cut = here.send("1", "tools/call", &steps(40)).await;
    let mut other = here.send("2", "tools/call", &steps(1)).await;
    let mut last = None;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let event = cut.event().await.expect("an event");
        last = event.id.or(last);
        if !event.data.is_empty() {
            seen.push(serde_json::from_slice::<Value>(&event.data).expect("a message"));
        }
    }
    drop(cut);
    let last = last.expect("events have ids");
    assert_eq!(stranger.stream(Some(&last)).await.status, 400, "an event of another session");
    // It is cut again and again, and goes on at the other pod, then at the first.
    let mut last = last;
    for pod in [&there, &here, &there].into_iter().cycle() {
        let mut stream = pod.stream(Some(&last)).await;
        assert_eq!(stream.status, 200);
        let mut got = 0;
        while got < 10 {
            let Some(event) = stream.event().await else { break };
            if event.data.is_empty() {
                continue;
            }
            last = event.id.expect("events have ids");
            seen.push(serde_json::from_slice::<Value>(&event.data).expect("a message"));
            got += 1;
        }
        if got < 10 {
            break;
        }
    }
    let progress: Vec<_> = seen.iter().filter_map(|message| message["params"]["progress"].as_u64()).collect();
    assert_eq!(progress, (1..=40).collect::<Vec<_>>(), "no loss, no double, nothing of another stream");
    let end = seen.last().expect("something came");
    assert_eq!((&end["id"], &end["result"]["content"][0]["text"]), (&json!(1), &json!("40 steps")));
    assert_eq!(other.answer().await["id"], 2);
    let mut again = there.stream(Some(&last)).await;
    assert!(again.message().await.is_none(), "after its end there is nothing more");
}

#[tokio::test]
async fn b011_b046_what_concerns_a_session_comes_once_on_the_newest_stream_of_all_pods() {
    let pods = Pods::start();
    let (here, there) = session(&pods, json!({})).await;
    let mut old = listens(&here).await;
    upstream_hears(&pods, 1).await;
    // Its client is cut off without a word, and comes back elsewhere.
    let mut new = listens(&there).await;
    comes_true("the other pod listens in its place", || async {
        let streams = pods.upstream.stats().await["streams"] == 1;
        here.call("add_prompt", json!({ "name": "again" })).await;
        streams
    })
    .await;
    // Subscribed to here, told there.
    here.result("resources/subscribe", json!({ "uri": "test://static-text" })).await;
    here.call("touch_resource", json!({ "uri": "test://static-text" })).await;
    here.call("add_tool", json!({ "name": "new" })).await;
    let mut told = Vec::new();
    loop {
        let message = new.message().await.expect("a message");
        told.push(message["method"].as_str().expect("a notification").to_owned());
        if told.last().is_some_and(|method| method == "notifications/tools/list_changed") {
            break;
        }
    }
    let updated = told.iter().filter(|method| *method == "notifications/resources/updated").count();
    assert_eq!(updated, 1, "{told:?}");
    // The newest ends; the old one was open all the time, and gets what comes from then on.
    drop(new);
    let heard = tokio::spawn(async move { old.message().await });
    comes_true("the first pod listens again", || async {
        there.call("add_tool", json!({ "name": "newer" })).await;
        heard.is_finished()
    })
    .await;
    assert!(heard.await.expect("it was read").is_some());
}

#[tokio::test]
async fn b017_http_sse_works_with_its_stream_on_one_pod_and_its_posts_on_another() {
    let pods = Pods::start();
    let mut client = HttpSse::open(pods.one.address, "/mcp/sse").await;
    client.address = pods.two.address;
    client.initialize(json!({ "elicitation": {} })).await;
    client.send("\"l\"", "tools/list", "{}").await;
    assert!(client.answer("\"l\"").await["result"]["tools"].is_array());
    client.send("1", "tools/call", &tool("progress", json!({ "steps": 5 }))).await;
    for step in 1..=5 {
        assert_eq!(client.hear().await["params"]["progress"], step);
    }
    assert_eq!(client.hear().await["id"], 1);
    client.send("2", "tools/call", &tool("ask_elicitation", json!({}))).await;
    let question = client.hear().await;
    assert_eq!(question["method"], "elicitation/create");
    client.address = pods.one.address;
    client.reply(&question["id"], json!({ "action": "decline" })).await;
    assert_eq!(client.hear().await["id"], 2);
    upstream_hears(&pods, 1).await;
    client.address = pods.two.address;
    client.send("3", "tools/call", &tool("add_tool", json!({ "name": "new" }))).await;
    let heard = [client.hear().await, client.hear().await];
    assert!(heard.iter().any(|message| message["method"] == "notifications/tools/list_changed"), "{heard:?}");
}

#[tokio::test]
async fn b016_a_session_that_is_ended_on_one_pod_ends_its_streams_on_the_other_within_a_second() {
    let pods = Pods::start();
    let (here, there) = session(&pods, json!({})).await;
    let mut stream = listens(&there).await;
    let never = tool("never", json!({}));
    let (mut call, ()) = tokio::join!(there.send("1", "tools/call", &never), async {
        comes_true("it runs", || async { pods.upstream.seen_of("tools/call").await.len() == 1 }).await;
        assert!((200..300).contains(&here.end().await));
        let ended = Instant::now();
        assert!(stream.message().await.is_none());
        assert!(ended.elapsed() < Duration::from_secs(1), "{:?}", ended.elapsed());
    });
    assert!(!call.is_stream() || call.message().await.is_none(), "no answer");
}
