//! Calls of either era to upstreams of either era.

use super::*;
use plasm_mcp::mcp::{Ask, Fault, InputRequired, Resume};

const UPSTREAMS: [&[&str]; 4] = [
    &["--era", "modern"],
    &["--era", "legacy"],
    &["--era", "modern", "--always-sse"],
    &["--era", "legacy", "--always-sse"],
];

#[tokio::test]
async fn b064_a_call_of_either_era_reaches_an_upstream_of_either_era_and_no_byte_changes() {
    let arguments = r#"{"n":9007199254740993, "d":0.1,"z":1.0,"e":1e2,"u":"\u00e9\ud83d\ude00"}"#;
    for options in UPSTREAMS {
        let fixture = Fixture::listening("--http", options);
        let link = link(&fixture.url);
        for caller in [modern("m"), legacy("l")] {
            let mut call = tool(&caller, "echo", json!({}));
            let span = call.params.arguments.clone().unwrap();
            call.params.raw.edit(span, arguments);
            let result = result(&link, call).await;
            assert_eq!(text(&result), arguments, "{options:?} {:?}", caller.version);
        }
    }
}

#[tokio::test]
async fn each_hop_states_its_own_version_and_a_legacy_hop_hears_nothing_of_the_modern_one() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let link = link(&fixture.url);
    result(&link, tool(&modern("m"), "echo", json!({}))).await;
    let calls = seen(&fixture, "tools/call").await;
    let (body, headers) = &calls[0];
    assert_eq!(headers["mcp-protocol-version"], "2025-11-25");
    assert!(headers.get("mcp-method").is_none() && headers.get("mcp-session-id").is_some());
    assert_eq!(body["params"]["_meta"], json!({}));
    let hello = &seen(&fixture, "initialize").await[0];
    assert_eq!(hello.0["params"]["clientInfo"]["name"], "tester");

    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let link = super::link(&fixture.url);
    result(&link, tool(&legacy("l"), "echo", json!({}))).await;
    let calls = seen(&fixture, "tools/call").await;
    let (body, headers) = &calls[0];
    assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
    assert_eq!((&headers["mcp-method"], &headers["mcp-name"]), (&json!("tools/call"), &json!("echo")));
    let meta = &body["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "tester");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], all());
}

#[tokio::test]
async fn b048_progress_comes_back_under_the_callers_own_token_with_its_type() {
    for options in UPSTREAMS {
        let fixture = Fixture::listening("--http", options);
        let link = link(&fixture.url);
        for token in [json!(7), json!("7")] {
            let params = json!({
                "name": "progress", "arguments": { "steps": 3 }, "_meta": { "progressToken": token },
            });
            let mut events = events(link.call(call(&legacy("l"), Method::ToolsCall, params)).await);
            let mut tokens = Vec::new();
            while let Some(event) = events.next().await {
                match event {
                    Event::Note(note) => {
                        tokens.push(note.params.read::<Value>().unwrap()["progressToken"].clone());
                    }
                    Event::Done(outcome) => assert!(matches!(outcome, Outcome::Result(_))),
                    Event::Ask(_) | Event::Pause => panic!("nobody asks"),
                }
            }
            assert_eq!(tokens, [token.clone(), token.clone(), token]);
        }
        let calls = seen(&fixture, "tools/call").await;
        assert!(calls.iter().all(|(body, _)| body["params"]["_meta"]["progressToken"] == body["id"]));
    }
}

#[tokio::test]
async fn a_live_question_of_a_legacy_upstream_is_answered_and_a_dropped_one_is_refused() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let link = link(&fixture.url);
    let ask = async || -> (Ask, BoxStream<'static, Event>) {
        let mut events = events(link.call(tool(&legacy("l"), "ask_elicitation", json!({}))).await);
        match events.next().await {
            Some(Event::Ask(ask)) => (ask, events),
            _ => panic!("no ask"),
        }
    };
    let (question, mut rest) = ask().await;
    assert_eq!((question.method, question.upstream), (Method::Elicit, upstream_id()));
    let answer = Raw::trusted(r#"{"action":"accept","content":{"text":"forty-two"}}"#);
    question.answer.send(Ok(answer)).unwrap();
    let Some(Event::Done(Outcome::Result(result))) = rest.next().await else { panic!("no result") };
    assert!(text(&result.read().unwrap()).contains("forty-two"));

    let (question, mut rest) = ask().await;
    drop(question.answer);
    let Some(Event::Done(outcome)) = rest.next().await else { panic!("no outcome") };
    assert!(!format!("{outcome:?}").contains("forty-two"));
    assert!(rest.next().await.is_none());
}

#[tokio::test]
async fn a_legacy_upstream_knows_which_callers_it_cannot_ask_and_does_not_wait_for_them() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let link = link(&fixture.url);
    for tool_name in ["ask_elicitation", "ask_sampling", "ask_roots"] {
        let Outcome::Result(told) = outcome(&link, tool(&modern("m"), tool_name, json!({}))).await else {
            panic!("no result")
        };
        let told: Value = told.read().unwrap();
        assert!(told["isError"] == true && text(&told).contains("did not declare"), "{told}");
    }
    result(&link, tool(&legacy("l"), "echo", json!({}))).await;
    let hellos = seen(&fixture, "initialize").await;
    let declared: Vec<_> = hellos.iter().map(|hello| &hello.0["params"]["capabilities"]).collect();
    assert_eq!(declared, [&json!({}), &all()]);
}

#[tokio::test]
async fn a_modern_upstream_that_asks_ends_the_call_and_goes_on_with_its_own_state() {
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let link = link(&fixture.url);
    for caller in [modern("m"), legacy("l")] {
        let mut first = tool(&caller, "test_input_required_result_request_state", json!({}));
        let Outcome::InputRequired(asked) = outcome(&link, first.clone()).await else { panic!("not asked") };
        let InputRequired { upstream, result: asked, state } = asked;
        let state = state.expect("the fixture keeps its state with the client");
        assert_eq!(upstream, upstream_id());
        let requests: Value = asked.read().unwrap();
        let key = requests["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let answers = json!({ key: { "action": "accept", "content": { "confirm": true, "ok": true } } });
        if caller.version == Version::MODERN {
            // What travelled with the client was sealed; the link puts the upstream's own in its place.
            let params = json!({
                "name": "test_input_required_result_request_state", "arguments": {},
                "requestState": "sealed", "inputResponses": answers,
            });
            first = call(&caller, Method::ToolsCall, params);
        }
        let state = Some(asked.text().slice(state.start as usize..state.end as usize));
        first.resume = Some(Arc::new(Resume { upstream, state, answers: Raw::of(&answers) }));
        let result = result(&link, first).await;
        assert!(text(&result).contains("state-ok"), "{result}");
    }
}

#[tokio::test]
async fn b050_a_cancelled_call_is_cancelled_upstream_under_our_own_id() {
    for (era, how) in [("legacy", "notified"), ("modern", "closed")] {
        let fixture = Fixture::listening("--http", &["--era", era]);
        let link = link(&fixture.url);
        for by in ["token", "drop"] {
            let call = tool(&modern("m"), "never", json!({ "by": by }));
            let cancel = call.cancel.token();
            let reply = tokio::spawn(link.call(call));
            comes_true("the call arrived", async || {
                let calls = seen(&fixture, "tools/call").await;
                calls.iter().any(|(body, _)| body["params"]["arguments"]["by"] == by)
            })
            .await;
            match by {
                "token" => {
                    cancel.cancel();
                    assert_eq!(word(reply.await.unwrap().outcome().await), "cancelled");
                }
                _ => reply.abort(),
            }
            comes_true("the upstream cancelled", async || {
                let stats = look(&fixture, "_stats").await;
                let cancels = stats["cancels"].as_array().unwrap();
                cancels.iter().any(|c| c["arguments"]["by"] == by && c["how"] != "session ended")
            })
            .await;
        }
        let told = seen(&fixture, "notifications/cancelled").await;
        assert_eq!(told.len(), if era == "legacy" { 2 } else { 0 }, "{how}");
        let ids: Vec<_> =
            seen(&fixture, "tools/call").await.into_iter().map(|(b, _)| b["id"].clone()).collect();
        assert!(told.iter().all(|(body, _)| ids.contains(&body["params"]["requestId"])));
    }
}

#[tokio::test]
async fn a_legacy_stream_that_breaks_off_is_gone_on_with_by_its_last_event_id() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let link = link(&fixture.url);
    let result = result(&link, tool(&legacy("l"), "test_reconnection", json!({}))).await;
    assert_eq!(text(&result), "The stream was resumed.");
}

#[tokio::test]
async fn an_upstreams_error_comes_as_it_was() {
    for options in UPSTREAMS {
        let fixture = Fixture::listening("--http", options);
        let link = link(&fixture.url);
        let call = call(&legacy("l"), Method::PromptsGet, json!({ "name": "no such prompt" }));
        let Outcome::Error(Fault::Upstream(error)) = outcome(&link, call).await else { panic!("no error") };
        assert_eq!(error.read::<Value>().unwrap()["code"], -32602, "{options:?}");
    }
}

#[tokio::test]
async fn arguments_travel_as_headers_where_the_tool_says_so_and_a_list_that_changed_is_read_again() {
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let link = link(&fixture.url);
    let listing =
        link.list(modern("m"), plasm_mcp::mcp::Kind::Tool, plasm_mcp::mcp::Age::Fresh).await.unwrap();
    let annotated = listing.items().iter().find(|item| !item.headers.is_empty()).expect("one is annotated");
    let schema: Value = annotated.body.read().unwrap();
    let property = schema["inputSchema"]["properties"]
        .as_object()
        .unwrap()
        .iter()
        .find(|(_, schema)| schema.get("x-mcp-header").is_some())
        .map(|(name, _)| name.clone())
        .unwrap();
    let arguments = json!({ property: "Hello, 世界" });
    for caller in [modern("m"), legacy("l")] {
        result(&link, tool(&caller, &annotated.name, arguments.clone())).await;
    }
    let calls = seen(&fixture, "tools/call").await;
    let header = annotated.headers[0].header.as_str();
    assert!(calls.iter().all(|(_, headers)| headers[header] == "=?base64?SGVsbG8sIOS4lueVjA==?="));
    // The last of them was made by a link that had not listed before.
    let fresh = super::link(&fixture.url);
    result(&fresh, tool(&legacy("l"), &annotated.name, arguments)).await;
}
