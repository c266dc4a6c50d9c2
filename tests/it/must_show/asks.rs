//! What upstreams ask of users, by many sessions at a time: each answer reaches its asker, and no other answer counts.

use super::*;
use futures_util::future::join_all;

fn all() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

/// The tools that ask, what they ask, and an answer that bears a mark.
fn questions(mark: &str) -> [(&'static str, &'static str, Value); 3] {
    [
        ("ask_elicitation", "elicitation/create", json!({ "action": "accept", "content": { "text": mark } })),
        (
            "ask_sampling",
            "sampling/createMessage",
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": mark } }),
        ),
        ("ask_roots", "roots/list", json!({ "roots": [{ "uri": format!("file:///{mark}") }] })),
    ]
}

/// What the tool was answered, by its own account.
fn said(answer: &Value) -> Value {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{answer}"))
}

#[tokio::test]
async fn questions_to_many_sessions_at_a_time_reach_each_its_own_user_and_back() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let sessions = (0..10).map(|_| Legacy::begin(gateway.address, "/mcp", V, all()));
    let sessions = join_all(sessions).await;
    let asked = (0..90).map(|n| {
        let client = &sessions[n % 10];
        async move {
            let (tool, method, answer) = questions(&format!("mark-{n}"))[n / 10 % 3].clone();
            let params = json!({ "name": tool, "arguments": {} }).to_string();
            let mut stream = client.send("1", "tools/call", &params).await;
            let ask = stream.message().await.expect("it asks");
            assert_eq!(ask["method"], method);
            assert_eq!(client.reply(&ask["id"], answer.clone()).await.status, 202);
            assert_eq!(said(&stream.answer().await), answer);
        }
    });
    join_all(asked).await;
}

#[tokio::test]
async fn a_client_that_takes_no_streams_is_asked_on_its_get_stream_and_one_of_http_sse_on_its_only_one() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let client = Legacy::begin(gateway.address, "/mcp", V, all()).await;
    let mut standing = client.stream(None).await;
    let mut sse = HttpSse::begin(gateway.address, "/mcp", all()).await;
    for (tool, method, answer) in questions("ü") {
        let params = json!({ "name": tool, "arguments": {} }).to_string();
        let call = async {
            let accept = [("accept", "application/json")];
            client.send_with("1", "tools/call", &params, &accept).await.answer().await
        };
        let user = async {
            let ask = standing.message().await.expect("it asks");
            assert_eq!(ask["method"], method);
            assert_eq!(client.reply(&ask["id"], answer.clone()).await.status, 202);
        };
        let (done, ()) = tokio::join!(call, user);
        assert_eq!(said(&done), answer);

        sse.send("1", "tools/call", &params).await;
        let ask = sse.hear().await;
        assert_eq!(ask["method"], method);
        sse.reply(&ask["id"], answer.clone()).await;
        assert_eq!(said(&sse.answer("1").await), answer);
    }
}

#[tokio::test]
async fn a_used_a_foreign_and_a_made_up_id_are_400_and_answer_nothing() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let (user, thief) = (
        Legacy::begin(gateway.address, "/mcp", V, all()).await,
        Legacy::begin(gateway.address, "/mcp", V, all()).await,
    );
    let sessionless = Legacy::without_session(gateway.address, "/mcp", Some(V));
    let (tool, _, answer) = questions("mine")[0].clone();
    let forged = json!({ "action": "accept", "content": { "text": "theirs" } });
    let params = json!({ "name": tool, "arguments": {} }).to_string();
    let mut stream = user.send("1", "tools/call", &params).await;
    let ask = stream.message().await.expect("it asks");
    let id = ask["id"].as_str().expect("our ids are text").to_owned();
    let shorter = json!(id[..id.len() - 1]);
    // What the upstream numbers its own questions by is nobody's business.
    for made_up in [json!("fixture-1"), json!(1), json!(""), shorter, json!(format!("{id}A"))] {
        assert_eq!(user.reply(&made_up, forged.clone()).await.status, 400, "{made_up}");
    }
    for other in [&thief, &sessionless] {
        assert_eq!(other.reply(&ask["id"], forged.clone()).await.status, 400);
    }
    assert_eq!(user.reply(&ask["id"], answer.clone()).await.status, 202);
    assert_eq!(said(&stream.answer().await), answer);
    assert_eq!(user.reply(&ask["id"], answer.clone()).await.status, 400, "it was used");
    // Nor after the call's end, where the user never answered.
    let mut stream = user.send("7", "tools/call", &params).await;
    let ask = stream.message().await.expect("it asks");
    assert_eq!(user.notify("notifications/cancelled", json!({ "requestId": 7 })).await.status, 202);
    assert_eq!(stream.message().await, None);
    assert_eq!(user.reply(&ask["id"], answer).await.status, 400, "its call was cancelled");
}

#[tokio::test]
async fn a_child_that_a_modern_client_used_first_still_asks_the_legacy_client_with_the_same_capabilities() {
    let child = json!({ "command": fixture_program(), "args": ["--stdio", "--era", "legacy"] });
    let gateway = Gateway::start(json!({ "upstreams": { "up": child } }));
    let modern = Modern::new(gateway.address, "/mcp", all());
    modern.call("echo", json!({})).await;
    let client = Legacy::begin(gateway.address, "/mcp", V, all()).await;
    for (tool, method, answer) in questions("child") {
        let params = json!({ "name": tool, "arguments": {} }).to_string();
        let mut stream = client.send("1", "tools/call", &params).await;
        let ask = stream.message().await.expect("it asks");
        assert_eq!(ask["method"], method);
        assert_eq!(client.reply(&ask["id"], answer.clone()).await.status, 202);
        assert_eq!(said(&stream.answer().await), answer);
    }
}
