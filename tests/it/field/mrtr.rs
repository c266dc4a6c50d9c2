//! What an upstream asks of the user in the middle of a call, where both sides speak one era.

use crate::gateway::Gateway;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::harness::Fixture;
use serde_json::{Value, json};

fn all() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

#[tokio::test]
async fn b041a_an_input_required_result_is_answered_by_another_request() {
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let client = Modern::new(gateway.address, "/mcp", all());
    let asked = client.call("test_input_required_result_request_state", json!({})).await;
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["confirm"]["method"], "elicitation/create");
    let state = asked["requestState"].as_str().expect("a state");
    let again = |name: &str, arguments: Value, state: &str| {
        json!({
            "name": name, "arguments": arguments, "requestState": state,
            "inputResponses": { "confirm": { "action": "accept", "content": { "ok": true } } },
        })
    };
    const TOOL: &str = "test_input_required_result_request_state";
    let done = client.result("tools/call", again(TOOL, json!({}), state)).await;
    assert_eq!(done["content"][0]["text"], "state-ok");
    let mut tampered = state.to_owned();
    let last = tampered.pop().expect("it is not empty");
    tampered.push(if last == 'A' { 'B' } else { 'A' });
    for (params, why) in [
        (again(TOOL, json!({}), &tampered), "changed"),
        (again(TOOL, json!({}), "made-up"), "made up"),
        (again("test_input_required_result_tampered_state", json!({}), state), "of another tool"),
    ] {
        assert_eq!(client.error("tools/call", params).await["code"], -32602, "{why}");
    }
    gateway.still_serves().await;
}

#[tokio::test]
async fn b041a_a_result_that_asks_without_a_state_and_one_that_asks_twice_pass_too() {
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let client = Modern::new(gateway.address, "/mcp", all());
    let answer = |text: &str| json!({ "action": "accept", "content": { "name": text, "color": text } });
    let tool = "test_input_required_result_elicitation";
    let asked = client.call(tool, json!({})).await;
    assert!(asked["inputRequests"]["user_name"].is_object(), "{asked}");
    let mut params =
        json!({ "name": tool, "arguments": {}, "inputResponses": { "user_name": answer("Ada") } });
    if let Some(state) = asked.get("requestState") {
        params["requestState"] = state.clone();
    }
    assert_eq!(client.result("tools/call", params).await["content"][0]["text"], "Hello, Ada!");

    let tool = "test_input_required_result_multi_round";
    let mut result = client.call(tool, json!({})).await;
    for step in ["step1", "step2"] {
        assert!(result["inputRequests"][step].is_object(), "{result}");
        let params = json!({
            "name": tool, "arguments": {}, "requestState": result["requestState"],
            "inputResponses": { step: answer(step) },
        });
        result = client.result("tools/call", params).await;
    }
    assert_eq!(result["resultType"], "complete");
    let said = result["content"][0]["text"].as_str().expect("a text");
    assert!(said.contains("step1") && said.contains("step2"), "{said}");
}

#[tokio::test]
async fn b042_what_a_legacy_upstream_asks_comes_on_the_calls_stream_and_the_answer_goes_back_to_it_alone() {
    let (up, other) = (
        Fixture::listening("--http", &["--era", "legacy"]),
        Fixture::listening("--http", &["--era", "legacy"]),
    );
    let gateway = Gateway::before(&[("up", &up), ("other", &other)]);
    let client = Legacy::begin(gateway.address, "/mcp", "2025-11-25", all()).await;
    let mut standing = client.stream(None).await;
    let table = [
        (
            "up__ask_elicitation",
            "elicitation/create",
            json!({ "action": "accept", "content": { "text": "yes" } }),
        ),
        (
            "up__ask_sampling",
            "sampling/createMessage",
            json!({ "role": "assistant", "model": "m", "content": { "type": "text", "text": "said" } }),
        ),
        ("up__ask_roots", "roots/list", json!({ "roots": [{ "uri": "file:///é", "name": "r" }] })),
    ];
    for (tool, method, answer) in table {
        let params = json!({ "name": tool, "arguments": {} }).to_string();
        let mut stream = client.send("1", "tools/call", &params).await;
        let ask = stream.message().await.expect("it asks");
        assert_eq!(ask["method"], method);
        assert_eq!(client.reply(&ask["id"], answer.clone()).await.status, 202);
        let done = stream.answer().await;
        let said = done["result"]["content"][0]["text"].as_str().expect("a text");
        assert_eq!(serde_json::from_str::<Value>(said).unwrap(), answer);
        // It counts once.
        assert_eq!(client.reply(&ask["id"], answer).await.status, 400);
    }
    let posted = other.seen().await;
    assert!(posted.iter().all(|one| !one["body"].as_str().unwrap_or_default().contains("\"result\"")));
    // A refusal of the user's is the upstream's to know.
    let mut stream = client.send("2", "tools/call", r#"{"name":"up__ask_elicitation","arguments":{}}"#).await;
    let ask = stream.message().await.expect("it asks");
    let refusal =
        json!({ "jsonrpc": "2.0", "id": ask["id"], "error": { "code": -1, "message": "User rejected" } });
    assert_eq!(client.raw(&[], refusal.to_string()).await.status, 202);
    let done = stream.answer().await;
    assert!(
        done["result"]["content"][0]["text"].as_str().is_some_and(|t| t.contains("User rejected")),
        "{done}"
    );
    // None of it went to the session's own stream.
    gateway.modern().call("up__add_prompt", json!({ "name": "mark" })).await;
    assert_eq!(standing.message().await.expect("it stands")["method"], "notifications/prompts/list_changed");
}

#[tokio::test]
async fn b044_a_client_that_cannot_be_asked_is_told_at_once_what_it_lacks() {
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    for (tool, capability) in
        [("ask_elicitation", "elicitation"), ("ask_sampling", "sampling"), ("ask_roots", "roots")]
    {
        let params = json!({ "name": tool, "arguments": {} }).to_string();
        let mut answer = gateway.modern().send("1", "tools/call", &params).await;
        assert_eq!(answer.status, 400);
        let error = answer.json().await["error"].clone();
        assert_eq!(error["code"], -32021);
        assert!(error["data"]["requiredCapabilities"][capability].is_object(), "{error}");
    }
}
