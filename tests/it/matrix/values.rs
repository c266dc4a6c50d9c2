//! Sealed values that travel through clients: cursors and `requestState`, in a stranger's hands.

use super::*;

#[tokio::test]
async fn a_cursor_opens_for_its_principal_on_every_pod_and_for_nobody_else() {
    let three = Three::start(json!({}));
    for (method, list) in
        [("tools/list", "tools"), ("prompts/list", "prompts"), ("resources/list", "resources")]
    {
        let (_, first) = asked(&three.pods[0], &three.ann, method, json!({})).await;
        let cursor =
            first["result"]["nextCursor"].as_str().unwrap_or_else(|| panic!("{method}: {first}")).to_owned();
        for pod in &three.pods {
            let (_, next) = asked(pod, &three.ann, method, json!({ "cursor": cursor })).await;
            assert!(next["result"][list].is_array(), "{next}");
            let sessionless = naming(pod, "/mcp", &three.ann, None);
            assert!(sessionless.result(method, json!({ "cursor": cursor })).await[list].is_array());
            let other = modern(pod, "/mcp/other", &three.ann, method, json!({ "cursor": cursor }))
                .await
                .answer()
                .await;
            assert_eq!(other["error"]["code"], -32602, "on another profile: {other}");
            for who in &three.strangers {
                let (_, refused) = asked(pod, who, method, json!({ "cursor": cursor })).await;
                assert_eq!(refused["error"]["code"], -32602, "{refused}");
                let sessionless = naming(pod, "/mcp", who, None);
                assert_eq!(sessionless.error(method, json!({ "cursor": cursor })).await["code"], -32602);
            }
        }
    }
}

#[tokio::test]
async fn b041_a_request_state_is_its_principals_and_its_calls_alone_on_every_pod() {
    let three = Three::start(
        json!({"policy": {"rules": [{"name": "ask-first", "tools": ["big"], "then": "approve"}]}}),
    );
    let asks = |name: &str| json!({"name": name, "arguments": {"bytes": 3}});
    for tool in ["new__test_input_required_result_request_state", "new__big"] {
        let (_, question) = asked(&three.pods[0], &three.ann, "tools/call", asks(tool)).await;
        let result = &question["result"];
        assert_eq!(result["resultType"], "input_required", "{question}");
        let yes = |_: (&String, &Value)| json!({"action": "accept", "content": {"name": "ann", "confirmed": true, "ok": true}});
        let questions = result["inputRequests"].as_object().expect("it asks");
        let answers: serde_json::Map<_, _> = questions.iter().map(|q| (q.0.clone(), yes(q))).collect();
        let retry = |tool: &str| {
            let mut retry = asks(tool);
            retry["requestState"] = result["requestState"].clone();
            retry["inputResponses"] = answers.clone().into();
            retry
        };
        let before = three.new.seen_of("tools/call").await.len();
        for pod in &three.pods {
            for who in &three.strangers {
                let (_, refused) = asked(pod, who, "tools/call", retry(tool)).await;
                assert_eq!(refused["error"]["code"], -32602, "{refused}");
            }
            let (_, refused) = asked(pod, &three.ann, "tools/call", retry("new__echo")).await;
            assert_eq!(refused["error"]["code"], -32602, "of another call: {refused}");
            let elsewhere =
                modern(pod, "/mcp/other", &three.ann, "tools/call", retry(tool)).await.answer().await;
            assert_eq!(elsewhere["error"]["code"], -32602, "on another profile: {elsewhere}");
        }
        assert_eq!(three.new.seen_of("tools/call").await.len(), before, "none of them reached the upstream");
        let (_, done) = asked(&three.pods[2], &three.ann, "tools/call", retry(tool)).await;
        assert_eq!(done["result"]["resultType"], "complete", "{done}");
    }
}
