//! Field cases of federation: many upstreams as one, and nothing of any of them lost or mixed up.

mod away;
mod uris;

use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::harness::Fixture;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Two upstreams of one era behind one gateway, as `a` and `b`.
fn two(more: &[&str]) -> (Fixture, Fixture, Gateway) {
    let (a, b) = (Fixture::listening("--http", more), Fixture::listening("--http", more));
    let gateway = Gateway::before(&[("a", &a), ("b", &b)]);
    (a, b, gateway)
}

fn names(listed: &Value, key: &str) -> Vec<String> {
    let of =
        |item: &Value| item[if key == "resources" { "uri" } else { "name" }].as_str().unwrap().to_owned();
    listed[key].as_array().unwrap_or_else(|| panic!("no {key} in {listed}")).iter().map(of).collect()
}

/// The bodies of the calls that arrived.
async fn calls(fixture: &Fixture, method: &str) -> Vec<Value> {
    let seen = fixture.seen_of(method).await.into_iter();
    seen.map(|(_, body)| serde_json::from_str(&body).expect("a whole body")).collect()
}

#[tokio::test]
async fn b071_every_page_of_an_upstream_is_there_once_and_our_own_pages_lead_through_all() {
    for era in ["modern", "legacy"] {
        let paged = ["--era", era, "--only-extra", "--tools", "250", "--page-size", "100"];
        let fixture = Fixture::listening("--http", &paged);
        let gateway = Gateway::start(json!({
            "upstreams": { "up": { "url": fixture.url } }, "limits": { "page_items": 60 },
        }));
        let modern = gateway.modern();
        let session = gateway.legacy("2025-11-25").await;
        for legacy in [false, true] {
            let list = async |params: Value| match legacy {
                true => session.result("tools/list", params).await,
                false => modern.result("tools/list", params).await,
            };
            let (mut all, mut params, mut cursors) = (Vec::new(), json!({}), Vec::new());
            loop {
                let page = list(params).await;
                let on_page = names(&page, "tools");
                assert!(on_page.len() <= 60);
                all.extend(on_page);
                let Some(next) = page.get("nextCursor") else { break };
                cursors.push(next.clone());
                params = json!({ "cursor": next });
            }
            let unique: BTreeSet<_> = all.iter().collect();
            assert_eq!(unique.len(), all.len(), "{era}: none is there twice");
            assert!((1..=250).all(|n| unique.contains(&format!("tool_{n:04}"))), "{era}: all are there");
            assert!(cursors.len() >= 4);
            // A cursor is good again, and for nothing else.
            assert!(list(json!({ "cursor": cursors[0] })).await["nextCursor"].is_string());
            let cut = cursors[1].as_str().unwrap().split_at(20).1;
            for bad in [json!("x"), json!(""), json!(7), json!(cut)] {
                let params = json!({ "cursor": bad });
                let error = match legacy {
                    true => session.error("tools/list", params).await,
                    false => modern.error("tools/list", params).await,
                };
                assert_eq!(error["code"], -32602, "{era}: {bad}");
            }
            let params = json!({ "cursor": cursors[0] });
            let error = match legacy {
                true => session.error("prompts/list", params).await,
                false => modern.error("prompts/list", params).await,
            };
            assert_eq!(error["code"], -32602, "{era}: the cursor of another list");
        }
    }
}

#[tokio::test]
async fn b073_a_level_goes_to_the_upstreams_that_log_and_again_to_one_that_began_anew() {
    let logging = Fixture::listening("--http", &["--era", "legacy"]);
    let silent = Fixture::listening("--http", &["--era", "legacy", "--no-logging"]);
    let modern = Fixture::listening("--http", &["--era", "modern"]);
    let gateway = Gateway::before(&[("logging", &logging), ("modern", &modern), ("silent", &silent)]);
    let client = gateway.legacy("2025-11-25").await;
    assert!(client.welcome["capabilities"]["logging"].is_object());
    assert_eq!(client.result("logging/setLevel", json!({ "level": "debug" })).await, json!({}));
    for tool in ["logging__echo", "silent__echo", "modern__echo"] {
        client.call(tool, json!({})).await;
    }
    let levels = async || -> Vec<Value> {
        calls(&logging, "logging/setLevel").await.iter().map(|call| call["params"]["level"].clone()).collect()
    };
    assert!(levels().await.iter().all(|level| level == "debug") && !levels().await.is_empty());
    assert!(calls(&silent, "logging/setLevel").await.is_empty());
    // A modern upstream is told with each call.
    let last = calls(&modern, "tools/call").await.pop().expect("the call arrived");
    assert_eq!(last["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "debug");

    let told = levels().await.len();
    client.call("logging__forget_sessions", json!({})).await;
    client.call("logging__echo", json!({})).await;
    let again = levels().await;
    assert!(again.len() > told && again.iter().all(|level| level == "debug"), "{again:?}");
    // Another level, and a client that said none gets none.
    client.result("logging/setLevel", json!({ "level": "error" })).await;
    assert_eq!(levels().await.pop(), Some(json!("error")));
    let mut logged = client.send("9", "tools/call", r#"{"name":"logging__log","arguments":{"n":2}}"#).await;
    assert!(logged.answer().await["result"].is_object());
}

#[tokio::test]
async fn b078_equal_names_of_two_upstreams_are_two_and_each_reaches_its_own() {
    for era in ["modern", "legacy"] {
        let (a, b, gateway) = two(&["--era", era]);
        let client = gateway.modern();
        let session = gateway.legacy("2025-11-25").await;
        let long = "x".repeat(80);
        client.call("a__add_tool", json!({ "name": "b__c" })).await;
        client.call("b__add_tool", json!({ "name": "c" })).await;
        for tool in ["a__add_tool", "b__add_tool"] {
            client.call(tool, json!({ "name": long })).await;
            client.call(tool, json!({ "name": "größe/x" })).await;
        }
        let listed = names(&client.result("tools/list", json!({})).await, "tools");
        assert_eq!(listed, names(&session.result("tools/list", json!({})).await, "tools"));
        let unique: BTreeSet<_> = listed.iter().collect();
        assert_eq!(unique.len(), listed.len());
        let fits = |name: &String| {
            name.len() <= 60 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        };
        assert!(listed.iter().all(fits), "{listed:?}");
        for (name, fixture, own) in
            [("a__echo", &a, "echo"), ("b__echo", &b, "echo"), ("a__b__c", &a, "b__c"), ("b__c", &b, "c")]
        {
            assert!(unique.contains(&name.to_owned()), "{name}");
            session.call(name, json!({ "of": name })).await;
            client.call(name, json!({ "of": name })).await;
            for call in calls(fixture, "tools/call").await.iter().rev().take(2) {
                assert_eq!(
                    (&call["params"]["name"], &call["params"]["arguments"]["of"]),
                    (&json!(own), &json!(name))
                );
            }
        }
        // What cannot bear its prefix has an alias.
        let own = |fixture: &Fixture, alias: String, of: &'static str| {
            let (session, address) = (&session, fixture.url.clone());
            async move {
                let said = session.call(&alias, json!({})).await;
                (address, said["content"][0]["text"].as_str().unwrap().starts_with(of))
            }
        };
        for (prefix, fixture) in [("a__", &a), ("b__", &b)] {
            let aliases: Vec<_> = listed
                .iter()
                .filter(|n| n.starts_with(&format!("{prefix}xxx")) || n.starts_with(&format!("{prefix}gr")))
                .collect();
            assert_eq!(aliases.len(), 3, "greet and two aliases: {aliases:?}");
            let before = calls(fixture, "tools/call").await.len();
            for alias in aliases.into_iter().filter(|name| !name.ends_with("greet")) {
                let of = if alias.contains("xxx") { "xxx" } else { "größe/x" };
                assert!(own(fixture, alias.clone(), of).await.1, "{alias}");
            }
            assert_eq!(calls(fixture, "tools/call").await.len(), before + 2);
        }
        let prompts = names(&client.result("prompts/list", json!({})).await, "prompts");
        assert!(
            prompts.contains(&"a__test_simple_prompt".to_owned())
                && prompts.contains(&"b__test_simple_prompt".to_owned())
        );
        session.result("prompts/get", json!({ "name": "b__test_simple_prompt" })).await;
        assert_eq!((calls(&a, "prompts/get").await.len(), calls(&b, "prompts/get").await.len()), (0, 1));
        let error = session.error("tools/call", json!({ "name": "c__echo" })).await;
        assert_eq!(error["code"], -32602);
    }
}

#[tokio::test]
async fn b080_lists_are_the_same_bytes_each_time_and_from_each_process() {
    let more = ["--tools", "300"];
    let (a, b, gateway) = two(&more);
    let c = Fixture::listening("--sse", &[]);
    let upstreams = [("a", &a), ("b", &b), ("c", &c)];
    let others = [Gateway::before(&upstreams), Gateway::before(&upstreams), Gateway::before(&upstreams)];
    drop(gateway);
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut legacy: BTreeSet<Vec<u8>> = BTreeSet::new();
        for gateway in &others {
            let (client, session) = (gateway.modern(), gateway.legacy("2025-11-25").await);
            for _ in 0..7 {
                let mut answer = client.send("1", method, "{}").await;
                let text = String::from_utf8(answer.response().await.to_vec()).unwrap();
                // A cursor is sealed, and so another each time.
                seen.insert(text.split("nextCursor").next().unwrap_or_default().into());
                let mut answer = session.send("1", method, "{}").await;
                let text = String::from_utf8(answer.response().await.to_vec()).unwrap();
                legacy.insert(text.split("nextCursor").next().unwrap_or_default().into());
            }
        }
        assert_eq!((seen.len(), legacy.len()), (1, 1), "{method}");
    }
}

#[derive(Deserialize)]
struct Listed {
    result: Tools,
}

#[derive(Deserialize)]
struct Tools {
    tools: Vec<Box<RawValue>>,
}

/// The text of the listed tool whose name ends so.
async fn tool(mut answer: Answer, name: &str) -> String {
    let listed: Listed = serde_json::from_slice(&answer.response().await).expect("a list of tools");
    let found =
        listed.result.tools.iter().find(|tool| tool.get().contains(&format!(r#"{name}","outputSchema""#)));
    found.unwrap_or_else(|| panic!("{name} is listed")).get().to_owned()
}

#[tokio::test]
async fn b081_nothing_of_a_tool_or_its_result_is_lost_or_rebuilt() {
    for era in ["modern", "legacy"] {
        let rich = Fixture::listening("--http", &["--era", era, "--rich-tool"]);
        let plain = Fixture::listening("--http", &["--era", era]);
        let (alone, among) =
            (Gateway::before(&[("up", &rich)]), Gateway::before(&[("plain", &plain), ("up", &rich)]));
        let direct = match era {
            "modern" => None,
            _ => Some(
                crate::gateway::legacy::Legacy::begin(rich.address(), "/mcp", "2025-11-25", json!({})).await,
            ),
        };
        let direct_modern = crate::gateway::modern::Modern::new(rich.address(), "/mcp", json!({}));
        let ask = async |method: &str, params: &str| match &direct {
            Some(session) => session.send("1", method, params).await,
            None => direct_modern.send("1", method, params).await,
        };
        let want = tool(ask("tools/list", "{}").await, "rich").await;
        for field in ["icons", "outputSchema", "annotations", "_meta", "x-foo", "9007199254740993", "1.0"] {
            assert!(want.contains(field), "{field}");
        }
        let called = ask("tools/call", r#"{"name":"rich"}"#).await.response().await;
        for (gateway, name) in [(&alone, "rich"), (&among, "up__rich")] {
            let own = want.replace(r#""name":"rich""#, &format!(r#""name":"{name}""#));
            let (client, session) = (gateway.modern(), gateway.legacy("2025-11-25").await);
            assert_eq!(tool(client.send("1", "tools/list", "{}").await, name).await, own, "{era}");
            assert_eq!(tool(session.send("1", "tools/list", "{}").await, name).await, own, "{era}");
            let params = json!({ "name": name }).to_string();
            let got = match era {
                "modern" => client.send("1", "tools/call", &params).await.response().await,
                _ => session.send("1", "tools/call", &params).await.response().await,
            };
            assert_eq!(got, called, "{era}");
            // Across the eras the fields of the protocol differ, and no other.
            let across = match era {
                "modern" => session.send("1", "tools/call", &params).await.answer().await,
                _ => client.send("1", "tools/call", &params).await.answer().await,
            };
            let called: Value = serde_json::from_slice(&called).unwrap();
            for field in ["content", "structuredContent", "isError", "x-foo"] {
                assert_eq!(across["result"][field], called["result"][field], "{era}: {field}");
            }
        }
    }
}
