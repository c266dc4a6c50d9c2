//! Calls of a session: their answers, questions, progress and cancels.

use super::*;
use futures_util::future::join_all;

#[tokio::test]
async fn b001_b002_two_calls_under_one_id_each_get_their_own_answer() {
    let (fixture, gateway) = before_legacy();
    let client = client(&gateway, json!({})).await;
    let call = |ms: u64, text: &'static str| {
        let params = params("slow_echo", json!({ "ms": ms, "text": text }));
        let client = &client;
        async move { client.send("1", "tools/call", &params).await.answer().await }
    };
    let (slow, quick, slow_too) = tokio::join!(call(300, "a"), call(0, "b"), call(300, "c"));
    for (answer, want) in [(slow, "a"), (quick, "b"), (slow_too, "c")] {
        assert_eq!((text(&answer), &answer["id"]), (want, &json!(1)));
    }
    let calls = fixture.seen_of("tools/call").await;
    let ids: std::collections::HashSet<_> = calls
        .iter()
        .map(|(_, body)| serde_json::from_str::<Value>(body).unwrap()["id"].to_string())
        .collect();
    assert_eq!(ids.len(), 3, "upstream they are three");
}

#[tokio::test]
async fn b045_what_a_call_tells_comes_on_its_own_stream_before_its_answer() {
    let (_fixture, gateway) = before_legacy();
    let client = client(&gateway, json!({})).await;
    let asked = json!({ "name": "progress", "arguments": { "steps": 3 }, "_meta": { "progressToken": "p" } });
    let mut stream = client.send("1", "tools/call", &asked.to_string()).await;
    assert!(stream.is_stream());
    for step in 1..=3 {
        let message = stream.message().await.unwrap();
        assert_eq!(message["method"], "notifications/progress");
        assert_eq!(
            (&message["params"]["progressToken"], &message["params"]["progress"]),
            (&json!("p"), &json!(step))
        );
    }
    assert_eq!(text(&stream.message().await.unwrap()), "3 steps");
    assert!(stream.event().await.is_none(), "it ends with the answer");

    let mut stream = client.send("2", "tools/call", &params("log", json!({ "n": 2 }))).await;
    for number in 0..2 {
        let message = stream.message().await.unwrap();
        assert_eq!(message["method"], "notifications/message", "{number}: {message}");
    }
    assert_eq!(stream.answer().await["id"], 2);
}

#[tokio::test]
async fn b048_b049_progress_tokens_cross_no_callers_and_none_comes_unasked() {
    let (_fixture, gateway) = before_legacy();
    let clients = [client(&gateway, json!({})).await, client(&gateway, json!({})).await];
    let calls = clients.iter().flat_map(|client| {
        ["1", "\"1\"", "7", "\"7\""].map(|token| async move {
            let asked = format!(r#"{{"name":"progress","arguments":{{"steps":4,"ms":20}},"_meta":{{"progressToken":{token}}}}}"#);
            let mut stream = client.send(token, "tools/call", &asked).await;
            let mut told = 0;
            loop {
                let message = stream.message().await.unwrap();
                if message.get("method").is_none() {
                    assert_eq!(message["id"].to_string(), token);
                    break told;
                }
                assert_eq!(message["params"]["progressToken"].to_string(), token);
                told += 1;
            }
        })
    });
    assert_eq!(join_all(calls).await, [4; 8]);
    let mut answer = clients[0].send("9", "tools/call", &params("progress", json!({ "steps": 2 }))).await;
    assert_eq!(text(&answer.answer().await), "2 steps");
    let mut stream = clients[0].send("9", "tools/call", &params("progress", json!({ "steps": 2 }))).await;
    if stream.is_stream() {
        let first = stream.message().await.unwrap();
        assert!(first.get("method").is_none(), "{first}");
    }
}

#[tokio::test]
async fn b050_b051_b127_a_cancel_stops_the_call_of_exactly_that_id_and_it_gets_no_answer() {
    let (fixture, gateway) = before_legacy();
    let client = client(&gateway, json!({})).await;
    let ids = ["9007199254740993", "9007199254740994", "7", "\"7\""];
    let calls = ids.map(|id| {
        let client = &client;
        async move {
            // Progress says that it runs, and on a stream.
            let asked =
                r#"{"name":"progress","arguments":{"steps":20,"ms":100},"_meta":{"progressToken":1}}"#;
            let mut stream = client.send(id, "tools/call", asked).await;
            stream.message().await.unwrap();
            stream
        }
    });
    let mut streams = join_all(calls).await;
    for id in [9007199254740993u64, 7] {
        let cancelled = client.notify("notifications/cancelled", json!({ "requestId": id })).await;
        assert_eq!(cancelled.status, 202);
    }
    for (stream, id, stopped) in
        [(0, ids[0], true), (1, ids[1], false), (2, ids[2], true), (3, ids[3], false)]
    {
        let mut last = Value::Null;
        while let Some(message) = streams[stream].message().await {
            last = message;
        }
        let answered = last.get("result").is_some();
        assert_eq!(answered, !stopped, "{id}: {last}");
        let answers = last["id"].to_string();
        assert!(!answered || answers == id);
    }
    until("two cancels upstream", || async {
        fixture.stats().await["cancels"].as_array().unwrap().len() == 2
    })
    .await;
}

#[tokio::test]
async fn b042_a_question_comes_on_the_calls_stream_and_its_answer_goes_to_the_asker_once() {
    let (_fixture, gateway) = before_legacy();
    let asked = client(&gateway, json!({ "elicitation": {}, "sampling": {}, "roots": {} })).await;
    let stranger = client(&gateway, json!({ "elicitation": {} })).await;
    let kinds = [
        (
            "ask_elicitation",
            "elicitation/create",
            json!({ "action": "accept", "content": { "text": "yes" } }),
        ),
        ("ask_roots", "roots/list", json!({ "roots": [] })),
        (
            "ask_sampling",
            "sampling/createMessage",
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "t" } }),
        ),
    ];
    for (tool, method, answer) in kinds {
        let mut stream = asked.send("5", "tools/call", &params(tool, json!({}))).await;
        let question = stream.message().await.unwrap();
        assert_eq!(question["method"], method, "{question}");
        assert!(question["id"].is_string());
        assert_eq!(stranger.reply(&question["id"], answer.clone()).await.status, 400, "another session's");
        assert_eq!(asked.reply(&question["id"], answer.clone()).await.status, 202);
        let result = stream.answer().await;
        assert!(result["result"].is_object() && result["result"]["isError"] != true, "{result}");
        assert_eq!(asked.reply(&question["id"], answer).await.status, 400, "used");
    }
    assert_eq!(asked.reply(&json!("made up"), json!({})).await.status, 400);

    // Who did not declare it is not asked, and nothing hangs.
    let plain = client(&gateway, json!({})).await;
    let answer = plain.send("1", "tools/call", &params("ask_elicitation", json!({}))).await.answer().await;
    assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{answer}");
}

#[tokio::test]
async fn a_client_that_takes_no_stream_waits_for_its_one_answer() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::start(json!({
        "upstreams": { "up": { "url": fixture.url } },
        "streams": { "open_after": "100ms" },
    }));
    let client = client(&gateway, json!({})).await;
    let asked = params("slow_echo", json!({ "ms": 400, "text": "late" }));
    let mut whole = client.send_with("1", "tools/call", &asked, &[("accept", "application/json")]).await;
    assert!(!whole.is_stream());
    assert_eq!(text(&whole.answer().await), "late");
    // Who takes one gets it once the wait is long.
    let mut stream = client.send("1", "tools/call", &asked).await;
    assert!(stream.is_stream());
    assert_eq!(text(&stream.answer().await), "late");
    assert_eq!(client.send_with("1", "ping", "{}", &[("accept", "text/html")]).await.status, 406);
}
