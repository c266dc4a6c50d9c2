//! Profiles and their parts, for those whom claims, tenants and scopes admit and for the others.

use super::*;

fn governed() -> Three {
    Three::start(json!({
        "profiles": {
            "acme": { "tenants": ["acme"], "claims": { "api_key": ["ann"] } },
            "writers": { "scopes": { "required": ["repo:write"] } },
            "default": {
                "rename": { "old": { "count": "tally" } },
                "scopes": { "tools": { "old__big": ["repo:write"] } },
                "only": [{
                    "tools": ["*__count", "*__add_*"], "prompts": ["old__test_simple_prompt"],
                    "resources": ["test://static-text"], "tenants": ["acme"], "claims": { "api_key": ["ann"] },
                }],
            },
        },
        "limits": { "page_items": 500 },
    }))
}

#[tokio::test]
async fn a_profile_that_tenant_or_claim_refuse_is_like_one_that_does_not_exist_by_every_verb() {
    let three = governed();
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for pod in &three.pods {
        for who in &three.strangers {
            for (verb, below) in [
                ("POST", ""),
                ("GET", ""),
                ("DELETE", ""),
                ("PUT", ""),
                ("GET", "/sse"),
                ("POST", "/message?session_id=x"),
            ] {
                let there = whole(bare(pod, verb, &format!("/mcp/acme{below}"), who, &[], list).await).await;
                let nowhere =
                    whole(bare(pod, verb, &format!("/mcp/nowhere{below}"), who, &[], list).await).await;
                assert_eq!(there, nowhere, "{verb} {below}");
                assert_eq!(there.0, 404);
            }
            for verb in ["POST", "GET", "DELETE"] {
                let refused = bare(pod, verb, "/mcp/writers", who, &[], list).await;
                assert_eq!(refused.status, 403, "{verb}");
                let challenge = refused.header("www-authenticate").expect("it says what to ask for");
                assert!(
                    challenge.contains("insufficient_scope") && challenge.contains("repo:write"),
                    "{challenge}"
                );
                assert!(challenge.contains("repo:read"), "what it has stays asked for: {challenge}");
            }
        }
        for path in ["/mcp/acme", "/mcp/writers"] {
            let served = modern(pod, path, &three.ann, "tools/list", json!({})).await;
            assert_eq!(served.status, 200, "{path}");
        }
    }
}

/// Names that a hidden tool might be called by: as listed, as the upstream says, as it would be called without a rename.
const HIDDEN: [&str; 4] = ["tally", "count", "old__count", "old__add_tool"];

#[tokio::test]
async fn b112_a_part_for_some_alone_is_for_the_others_as_if_it_did_not_exist() {
    let three = governed();
    let listed = |answer: &Value, key: &str, name: &str| {
        let list = answer["result"][key].as_array().unwrap_or_else(|| panic!("{answer}"));
        list.iter().any(|item| item["name"] == name || item["uri"] == name)
    };
    for pod in &three.pods {
        // By turns: nothing that is worked out for one is given to another.
        for who in [&three.ann, &three.strangers[0], &three.ann, &three.strangers[1]] {
            let hers = who.0 == three.ann.0;
            for (method, key, name) in [
                ("tools/list", "tools", "tally"),
                ("tools/list", "tools", "old__add_tool"),
                ("prompts/list", "prompts", "old__test_simple_prompt"),
                ("resources/list", "resources", "test://static-text"),
            ] {
                let (_, answer) = asked(pod, who, method, json!({})).await;
                assert_eq!(listed(&answer, key, name), hers, "{method} {name}");
                assert_eq!(
                    (&answer["result"]["cacheScope"], &answer["result"]["ttlMs"]),
                    (&"private".into(), &0.into())
                );
            }
        }
        for who in &three.strangers {
            let session = three.begin(0, who, json!({})).await;
            let session = naming(pod, "/mcp", who, session.session.as_deref());
            for name in HIDDEN {
                let call = |name: &str| json!({"name": name, "arguments": {"name": "x"}});
                let made_up = format!("{name}x");
                let as_told = |answer: &Value, name: &str| answer["error"].to_string().replace(name, "NAME");
                let (status, refused) = asked(pod, who, "tools/call", call(name)).await;
                let (_, unknown) = asked(pod, who, "tools/call", call(&made_up)).await;
                assert_eq!((status, &refused["error"]["code"]), (200, &(-32602).into()), "{refused}");
                assert_eq!(as_told(&refused, name), as_told(&unknown, &made_up));
                assert_eq!(session.error("tools/call", call(name)).await["code"], -32602);
            }
            let prompt = json!({"name": "old__test_simple_prompt"});
            assert_eq!(session.error("prompts/get", prompt).await["code"], -32602);
            let uri = json!({"uri": "old+test://static-text"});
            for (method, params) in [("resources/read", uri.clone()), ("resources/subscribe", uri)] {
                assert_eq!(session.error(method, params).await["code"], -32002, "{method}");
            }
        }
    }
    let seen = three.old.seen_of("tools/call").await;
    assert!(seen.is_empty(), "{seen:?}");
    let (_, counted) =
        asked(&three.pods[1], &three.ann, "tools/call", json!({"name": "tally", "arguments": {}})).await;
    assert!(counted["result"]["content"].is_array(), "{counted}");
}

#[tokio::test]
async fn b067_b101_a_tool_that_needs_a_scope_is_listed_and_answered_with_403_and_in_a_batch_by_itself() {
    let three = governed();
    let params = json!({"name": "old__big", "arguments": {"bytes": 3}});
    for pod in &three.pods {
        for who in &three.strangers {
            let mut refused = modern(pod, "/mcp", who, "tools/call", params.clone()).await;
            assert_eq!(refused.status, 403);
            let challenge = refused.header("www-authenticate").expect("a challenge").to_owned();
            for part in ["insufficient_scope", "repo:read", "repo:write", "resource_metadata"] {
                assert!(challenge.contains(part), "{part}: {challenge}");
            }
            let body = refused.answer().await;
            assert_eq!(
                (&body["id"], &body["error"]["data"]["reason"]),
                (&1.into(), &"insufficient_scope".into())
            );
            let session = three.begin(0, who, json!({})).await;
            let session = naming(pod, "/mcp", who, session.session.as_deref());
            assert_eq!(session.send("1", "tools/call", &params.to_string()).await.status, 403);
            let batch = format!(
                r#"[{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"old__echo","arguments":{{}}}}}},{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{params}}}]"#
            );
            let version = [("mcp-protocol-version", "2025-03-26")];
            let mut batched = bare(pod, "POST", "/mcp", who, &version, &batch).await;
            assert_eq!(batched.status, 200);
            let answers = batched.json().await;
            let of = |id: i64| {
                answers.as_array().expect("a batch").iter().find(|a| a["id"] == id).expect("an answer")
            };
            assert!(
                of(1)["result"].is_object() && of(2)["error"]["data"]["reason"] == "insufficient_scope",
                "{answers}"
            );
        }
        let (status, big) = asked(pod, &three.ann, "tools/call", params.clone()).await;
        assert!(status == 200 && big["result"].is_object(), "{big}");
    }
    let reached = three.old.seen_of("tools/call").await;
    assert_eq!(reached.iter().filter(|(_, body)| body.contains("\"big\"")).count(), 3, "hers alone");
}

#[tokio::test]
async fn a_legacy_user_approves_a_call_by_way_of_any_pod_and_nobody_else_can() {
    let rules = json!([{"name": "ask-first", "tools": ["big"], "then": "approve", "because": "it is big"}]);
    let three = Three::start(json!({"policy": {"rules": rules}}));
    let here = three.begin(0, &three.ann, json!({"elicitation": {}})).await;
    let params = json!({"name": "old__big", "arguments": {"bytes": 3}});
    let mut call = here.send("1", "tools/call", &params.to_string()).await;
    let question = call.message().await.expect("a question");
    let message = question["params"]["message"].as_str().expect("it says what it is about");
    assert!(message.contains("old__big") && message.contains("it is big"), "{message}");
    let yes = json!({"action": "accept", "content": {}});
    for who in &three.strangers {
        let own = three.begin(2, who, json!({"elicitation": {}})).await;
        assert_eq!(own.reply(&question["id"], yes.clone()).await.status, 400);
    }
    assert!(three.old.seen_of("tools/call").await.is_empty(), "it was not approved yet");
    let there = naming(&three.pods[1], "/mcp", &three.ann, here.session.as_deref());
    assert_eq!(there.reply(&question["id"], yes).await.status, 202);
    let answer = call.answer().await;
    assert!(answer["result"]["content"].is_array() && answer["result"]["isError"] != true, "{answer}");
    let silent = three.begin(1, &three.ann, json!({})).await.call("old__big", json!({"bytes": 3})).await;
    let facts = &silent["_meta"]["plasm/error"];
    assert_eq!(
        (&silent["isError"], &facts["reason"]),
        (&true.into(), &"approval_required".into()),
        "{silent}"
    );
    assert!(facts["by"] == "ask-first" && facts["instead"].is_string(), "{facts}");
}
