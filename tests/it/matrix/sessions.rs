//! Sessions, streams, questions and cancels of another principal.

use super::*;
use crate::harness::comes_true;

/// Every method that a session's client sends, with params that its owner would be served.
const METHODS: &[(&str, &str)] = &[
    ("ping", "{}"),
    ("tools/list", "{}"),
    ("tools/call", r#"{"name":"old__echo","arguments":{"text":"x"}}"#),
    ("prompts/list", "{}"),
    ("prompts/get", r#"{"name":"old__test_simple_prompt"}"#),
    ("resources/list", "{}"),
    ("resources/templates/list", "{}"),
    ("resources/read", r#"{"uri":"test://static-text"}"#),
    ("resources/subscribe", r#"{"uri":"test://static-text"}"#),
    ("resources/unsubscribe", r#"{"uri":"test://static-text"}"#),
    (
        "completion/complete",
        r#"{"ref":{"type":"ref/prompt","name":"old__test_prompt_with_arguments"},"argument":{"name":"arg1","value":"t"}}"#,
    ),
    ("logging/setLevel", r#"{"level":"debug"}"#),
    ("tasks/get", r#"{"taskId":"1"}"#),
    ("no/such", "{}"),
];

/// A session of ann's in the middle of things: a stream, and a call whose question waits.
struct Busy {
    client: Legacy,
    stream: Answer,
    call: Answer,
    question: Value,
    /// An event of the call's stream.
    event: String,
}

async fn busy(three: &Three) -> Busy {
    let client = three.begin(0, &three.ann, json!({"elicitation": {}})).await;
    let mut stream = client.stream(None).await;
    assert_eq!(stream.status, 200);
    assert!(stream.event().await.expect("a first event").data.is_empty());
    let mut call = client.send("7", "tools/call", r#"{"name":"old__ask_elicitation","arguments":{}}"#).await;
    let (question, event) = loop {
        let event = call.event().await.expect("a question");
        if !event.data.is_empty() {
            let id = event.id.clone().expect("it can be resumed");
            let question: Value = serde_json::from_slice(&event.data).expect("JSON");
            break (question, id);
        }
    };
    assert_eq!(question["method"], "elicitation/create");
    Busy { client, stream, call, question, event: event.to_string() }
}

impl Busy {
    fn session(&self) -> &str {
        self.client.session.as_deref().expect("it has one")
    }

    /// That nothing of it was touched: it is served on every pod, and its question is answered by way of one.
    async fn stays_whole(mut self, three: &Three) {
        for pod in &three.pods {
            let client = naming(pod, "/mcp", &three.ann, Some(self.session()));
            assert_eq!(client.send("9", "tools/list", "{}").await.status, 200);
        }
        let elsewhere = naming(&three.pods[2], "/mcp", &three.ann, Some(self.session()));
        let yes = json!({"action": "accept", "content": {"text": "by ann"}});
        assert_eq!(elsewhere.reply(&self.question["id"], yes).await.status, 202);
        let answer = self.call.answer().await;
        assert!(
            answer["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("by ann")),
            "{answer}"
        );
        elsewhere.call("old__add_tool", json!({"name": "sentinel"})).await;
        loop {
            let heard = self.stream.message().await.expect("its own stream stands");
            if heard["method"] == "notifications/tools/list_changed" {
                return;
            }
        }
    }
}

#[tokio::test]
async fn b028_a_session_of_another_principal_is_unknown_to_every_verb_and_method_on_every_pod() {
    let three = Three::start(json!({}));
    let busy = busy(&three).await;
    let answer =
        json!({"jsonrpc": "2.0", "id": busy.question["id"], "result": {"action": "accept", "content": {}}});
    let note =
        |method: &str| json!({"jsonrpc": "2.0", "method": method, "params": {"requestId": 7}}).to_string();
    let mut bodies: Vec<(&str, String)> = METHODS
        .iter()
        .map(|(method, params)| {
            ("POST", format!(r#"{{"jsonrpc":"2.0","id":3,"method":"{method}","params":{params}}}"#))
        })
        .collect();
    for note in ["cancelled", "initialized", "roots/list_changed", "progress"]
        .map(|n| note(&format!("notifications/{n}")))
    {
        bodies.push(("POST", note));
    }
    bodies.extend([("POST", answer.to_string()), ("GET", String::new()), ("DELETE", String::new())]);
    let before = three.seen().await;
    for who in &three.strangers {
        for (at, pod) in three.pods.iter().enumerate() {
            for (verb, body) in &bodies {
                let version = ("mcp-protocol-version", V);
                let unknown = [version, ("mcp-session-id", "3Jx0vSdgQ0aXo2bq4mJ1yQ")];
                let foreign = [version, ("mcp-session-id", busy.session())];
                let want = whole(bare(pod, verb, "/mcp", who, &unknown, body).await).await;
                let got = bare(pod, verb, "/mcp", who, &foreign, body).await;
                assert!(got.header("www-authenticate").is_none());
                assert_eq!(whole(got).await, want, "pod {at}: {verb} {body}");
                assert_eq!(want.0, 404, "{verb} {body}");
            }
            let resumed = [("mcp-session-id", busy.session()), ("last-event-id", &*busy.event)];
            assert_eq!(bare(pod, "GET", "/mcp", who, &resumed, "").await.status, 404, "a stream of it");
            let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]"#;
            let batched = [("mcp-session-id", busy.session()), ("mcp-protocol-version", "2025-03-26")];
            assert_eq!(bare(pod, "POST", "/mcp", who, &batched, batch).await.status, 404, "a batch");
        }
    }
    // Nor is it there for its own principal on another profile's path.
    for pod in &three.pods {
        let other = naming(pod, "/mcp/other", &three.ann, Some(busy.session()));
        assert_eq!(other.send("1", "tools/list", "{}").await.status, 404);
        assert_eq!(other.end().await, 404);
    }
    assert_eq!(three.seen().await, before, "nothing of it reached an upstream");
    busy.stays_whole(&three).await;
}

#[tokio::test]
async fn b053_in_its_own_session_a_stranger_gets_nothing_of_anothers_streams_questions_and_calls() {
    let three = Three::start(json!({}));
    let busy = busy(&three).await;
    for who in &three.strangers {
        for at in 0..3 {
            let own = three.begin(at, who, json!({"elicitation": {}})).await;
            let stream = own.stream(Some(&busy.event)).await;
            assert_eq!(stream.status, 400, "an event id of another's");
            let given = json!({"action": "accept", "content": {"text": "by a stranger"}});
            assert_eq!(
                own.reply(&busy.question["id"], given.clone()).await.status,
                400,
                "a question of another's"
            );
            let sessionless = naming(&three.pods[at], "/mcp", who, None);
            assert_eq!(sessionless.reply(&busy.question["id"], given).await.status, 400);
            // The id of a call names a call of the same session alone.
            assert_eq!(own.notify("notifications/cancelled", json!({"requestId": 7})).await.status, 202);
        }
    }
    // Another session of her own is no way to it either.
    let second = three.begin(1, &three.ann, json!({"elicitation": {}})).await;
    assert_eq!(second.stream(Some(&busy.event)).await.status, 400);
    assert_eq!(second.reply(&busy.question["id"], json!({"action": "decline"})).await.status, 400);
    busy.stays_whole(&three).await;
}

#[tokio::test]
async fn what_one_subscribes_to_is_told_to_nobody_else_on_any_pod() {
    let three = Three::start(json!({}));
    let ann = three.begin(0, &three.ann, json!({})).await;
    let mut hers = ann.stream(None).await;
    let mut theirs = Vec::new();
    for who in &three.strangers {
        for at in 0..3 {
            let own = three.begin(at, who, json!({})).await;
            let stream = own.stream(None).await;
            assert_eq!(stream.status, 200);
            own.result("tools/list", json!({})).await;
            theirs.push((own, stream));
        }
    }
    // Both upstreams have it; the other one's bears it unchanged.
    let (shown, own) = ("old+test://static-text", "test://static-text");
    let uri_at = naming(&three.pods[1], "/mcp", &three.ann, ann.session.as_deref());
    uri_at.result("resources/subscribe", json!({ "uri": shown })).await;
    comes_true("all upstream streams are open", || async {
        three.old.stats().await["streams"].as_u64() >= Some(7)
    })
    .await;
    uri_at.call("old__touch_resource", json!({ "uri": own })).await;
    loop {
        let heard = hers.message().await.expect("her stream stands");
        if heard["method"] == "notifications/resources/updated" {
            break;
        }
    }
    // What comes to all comes after it.
    uri_at.call("old__add_tool", json!({"name": "sentinel"})).await;
    for (_own, stream) in &mut theirs {
        let heard = stream.message().await.expect("their streams stand");
        assert_eq!(heard["method"], "notifications/tools/list_changed", "{heard}");
    }
}

#[tokio::test]
async fn http_sse_of_another_principal_is_unknown_on_every_pod() {
    let three = Three::start(json!({}));
    let mut stream = bare(&three.pods[0], "GET", "/mcp/sse", &three.ann, &[], "").await;
    assert_eq!(stream.status, 200);
    let place = stream.event().await.expect("where to post to").data;
    let place = String::from_utf8(place.to_vec()).expect("text");
    let (_, session) = place.split_once("session_id=").expect("it names the session");
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "it", "version": "1"}}});
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for who in &three.strangers {
        for pod in &three.pods {
            for body in [&*hello.to_string(), list] {
                assert_eq!(bare(pod, "POST", &place, who, &[], body).await.status, 404);
            }
            let named = [("mcp-session-id", session)];
            for (verb, body) in [("POST", list), ("GET", ""), ("DELETE", "")] {
                assert_eq!(bare(pod, verb, "/mcp", who, &named, body).await.status, 404, "{verb}");
            }
        }
    }
    for (pod, body) in [(1, &*hello.to_string()), (2, list)] {
        assert_eq!(bare(&three.pods[pod], "POST", &place, &three.ann, &[], body).await.status, 202);
        let answer = stream.message().await.expect("its answer");
        assert!(answer["result"].is_object(), "{answer}");
    }
}

#[tokio::test]
async fn no_two_principals_share_a_session_upstream_on_any_pod() {
    let three = Three::start(json!({}));
    let all = [&three.ann, &three.strangers[0], &three.strangers[1]];
    for (who, name) in all.iter().zip(["ann", "namesake", "eve"]) {
        for pod in &three.pods {
            let params = json!({"name": "old__echo", "arguments": {"by": name}});
            let (status, answer) = asked(pod, who, "tools/call", params.clone()).await;
            assert!(status == 200 && answer["result"].is_object(), "{answer}");
            let sessionless = naming(pod, "/mcp", who, None);
            sessionless.result("tools/call", params).await;
        }
        three.begin(1, who, json!({})).await.call("old__echo", json!({"by": name})).await;
    }
    let mut owners: std::collections::BTreeMap<String, String> = Default::default();
    let seen = three.old.seen_of("tools/call").await;
    assert_eq!(seen.len(), 21);
    for (headers, body) in seen {
        let session = headers["mcp-session-id"].as_str().expect("it keeps sessions").to_owned();
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let by = body["params"]["arguments"]["by"].as_str().expect("who called").to_owned();
        assert_eq!(*owners.entry(session).or_insert(by.clone()), by, "a session of two principals");
    }
}

#[tokio::test]
async fn a_child_and_what_it_keeps_are_its_principals_alone_whichever_pod_is_asked() {
    let child = json!({"command": crate::harness::fixture_program(), "args": ["--stdio", "--only-extra", "--era", "legacy"]});
    // The pods reach one another: a call may be carried out by a child of another pod.
    let three = Three::start(json!({"upstreams": {"up": child}, "internal_listen": "127.0.0.1:0"}));
    for round in 1..=2 {
        for who in [&three.ann, &three.strangers[0], &three.strangers[1]] {
            for (at, pod) in three.pods.iter().enumerate() {
                let params = json!({"name": "count", "arguments": {}});
                let (_, counted) = asked(pod, who, "tools/call", params).await;
                let want = ((round - 1) * 3 + at + 1).to_string();
                assert_eq!(counted["result"]["content"][0]["text"], want, "pod {at}: {counted}");
            }
        }
    }
    let children: usize = three.pods.iter().map(|pod| pod.children().len()).sum();
    assert_eq!(children, 3, "one a principal");
}
