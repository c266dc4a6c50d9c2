//! Changes upstream, of every kind, on every kind of stream that asked for them: once, and none that is another's.

use super::*;
use crate::gateway::piped::Piped;

const WATCHED: &str = "test://watched-resource";

/// The watched resource of an upstream as clients name it: the first that lists it owns the plain name.
fn watched(kind: &str) -> String {
    if kind == KINDS[0] { WATCHED.to_owned() } else { format!("{kind}+{WATCHED}") }
}

#[tokio::test]
async fn changes_of_each_kind_of_upstream_reach_each_kind_of_stream_exactly_once() {
    for stdio_era in ["legacy", "modern"] {
        let four = Four::start(stdio_era, &["--only-extra"]);
        let gateway = Gateway::start(four.config());
        let client = gateway.modern();
        // Whose a URI is, is known from the lists.
        client.result("resources/list", json!({})).await;
        let uris = KINDS.map(watched);
        let uris: Vec<&str> = uris.iter().map(String::as_str).collect();
        let mut ears = Ear::each(gateway.address, &uris).await;
        ears.extend(Ear::each(gateway.address, &uris).await);
        // Streams of legacy upstreams open after they are acknowledged.
        for kind in KINDS {
            for ear in &mut ears {
                settle(&client, ear, kind).await;
            }
        }
        for kind in KINDS {
            client.call(&format!("{kind}__add_resource"), json!({ "uri": "test://mark" })).await;
        }
        for ear in &mut ears {
            let mut marks = 0;
            while marks < KINDS.len() {
                marks += usize::from(ear.hear().await == "resources/list_changed");
            }
        }
        for (round, kind) in KINDS.into_iter().cycle().take(8).enumerate() {
            let call = async |tool: &str, arguments: Value| {
                client.call(&format!("{kind}__{tool}"), arguments).await;
            };
            call("add_tool", json!({ "name": format!("tool_{round}") })).await;
            call("touch_resource", json!({ "uri": WATCHED })).await;
            call("touch_resource", json!({ "uri": "test://static-text" })).await;
            call("add_resource", json!({ "uri": format!("test://new/{round}") })).await;
            call("add_prompt", json!({ "name": format!("prompt_{round}") })).await;
            let wanted = [
                "tools/list_changed".to_owned(),
                format!("resources/updated {}", watched(kind)),
                "resources/list_changed".to_owned(),
                "prompts/list_changed".to_owned(),
            ];
            for ear in &mut ears {
                for one in &wanted {
                    assert_eq!(
                        &ear.hear().await,
                        one,
                        "{} of {kind}, stdio of the {stdio_era} era",
                        ear.name()
                    );
                }
            }
        }
    }
}

/// Touches an upstream's resource until this ear hears it.
async fn settle(client: &Modern, ear: &mut Ear, kind: &str) {
    let wanted = format!("resources/updated {}", watched(kind));
    loop {
        client.call(&format!("{kind}__touch_resource"), json!({ "uri": WATCHED })).await;
        let heard = async { while ear.hear().await != wanted {} };
        if tokio::time::timeout(std::time::Duration::from_millis(200), heard).await.is_ok() {
            return;
        }
    }
}

#[tokio::test]
async fn changes_of_each_kind_of_upstream_reach_both_eras_on_a_pipe_exactly_once() {
    for era in ["legacy", "modern"] {
        let four = Four::start("legacy", &["--only-extra"]);
        let mut pipe = match era {
            "legacy" => Piped::begin(&four.config(), V, json!({})).await,
            _ => Piped::start(&four.config()),
        };
        let modern = Modern::new(([127, 0, 0, 1], 0).into(), "/mcp", json!({}));
        let message = |id: &str, method: &str, params: &str| match era {
            "legacy" => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#),
            _ => modern.message(id, method, params),
        };
        pipe.say(&message("\"r\"", "resources/list", "{}")).await;
        assert!(pipe.hear().await["result"].is_object());
        if era == "legacy" {
            for kind in KINDS {
                let params = json!({ "uri": watched(kind) }).to_string();
                pipe.say(&message("\"s\"", "resources/subscribe", &params)).await;
                while pipe.hear().await["id"] != "s" {}
            }
        } else {
            let filter = json!({ "notifications": {
                "toolsListChanged": true, "promptsListChanged": true,
                "resourceSubscriptions": KINDS.map(watched),
            }});
            pipe.say(&message("\"l\"", "subscriptions/listen", &filter.to_string())).await;
            assert_eq!(short(&pipe.hear().await), "subscriptions/acknowledged");
        }
        for kind in KINDS {
            // Until it is heard, its stream may not stand yet.
            let call = |id: &str, tool: &str, arguments: Value| {
                let params = json!({ "name": format!("{kind}__{tool}"), "arguments": arguments }).to_string();
                message(id, "tools/call", &params)
            };
            loop {
                pipe.say(&call("\"t\"", "touch_resource", json!({ "uri": WATCHED }))).await;
                if !until_answers(&mut pipe, 1).await.is_empty() {
                    break;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
            pipe.say(&call("\"m\"", "add_prompt", json!({ "name": "mark" }))).await;
            let (mut answered, mut marked) = (false, false);
            while !(answered && marked) {
                let heard = pipe.hear().await;
                answered |= heard["id"] == "m";
                marked |= heard["method"] == "notifications/prompts/list_changed";
            }
        }
        for (round, kind) in KINDS.into_iter().cycle().take(8).enumerate() {
            let mut heard = Vec::new();
            for (tool, arguments) in [
                ("add_tool", json!({ "name": format!("tool_{round}") })),
                ("touch_resource", json!({ "uri": WATCHED })),
                ("add_prompt", json!({ "name": format!("prompt_{round}") })),
            ] {
                let params = json!({ "name": format!("{kind}__{tool}"), "arguments": arguments }).to_string();
                pipe.say(&message("\"c\"", "tools/call", &params)).await;
                heard.extend(until_answers(&mut pipe, 1).await);
            }
            while heard.len() < 3 {
                heard.push(short(&pipe.hear().await));
            }
            let updated = format!("resources/updated {}", watched(kind));
            assert_eq!(
                heard,
                ["tools/list_changed", &updated, "prompts/list_changed"],
                "{kind} on a {era} pipe"
            );
        }
        // Nothing comes twice, or it would come before this answer.
        pipe.say(&message("\"e\"", "tools/call", r#"{"name":"modern__echo","arguments":{}}"#)).await;
        assert_eq!(until_answers(&mut pipe, 1).await, Vec::<String>::new());
    }
}

/// What is told before so many answers have come.
async fn until_answers(pipe: &mut Piped, mut count: usize) -> Vec<String> {
    let mut told = Vec::new();
    while count > 0 {
        let message = pipe.hear().await;
        match message.get("method") {
            Some(_) => told.push(short(&message)),
            None => count -= 1,
        }
    }
    told
}

#[tokio::test]
async fn all_pages_of_an_upstreams_list_are_there_in_both_eras() {
    let four = Four::start("modern", &["--only-extra", "--tools", "250", "--page-size", "100"]);
    let gateway = Gateway::start(four.config());
    let names = all_tools(&gateway.modern()).await;
    for kind in KINDS {
        for number in [1, 100, 101, 200, 201, 250] {
            let name = format!("{kind}__tool_{number:04}");
            assert_eq!(names.iter().filter(|other| **other == name).count(), 1, "{name}");
        }
    }
    assert!(names.len() > 1000);
    let client = gateway.legacy(V).await;
    let (mut legacy, mut params) = (Vec::new(), json!({}));
    loop {
        let page = client.result("tools/list", params).await;
        let tools = page["tools"].as_array().expect("a list");
        legacy.extend(tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()));
        let Some(cursor) = page.get("nextCursor") else { break };
        params = json!({ "cursor": cursor });
    }
    assert_eq!(legacy, names);
    // A tool of a later page can be called by who never listed.
    let said = gateway.modern().call("sse__tool_0250", json!({})).await;
    assert_eq!(said["content"][0]["text"], "tool_0250 was called");
}

#[tokio::test]
async fn listeners_of_an_upstream_that_forgot_its_sessions_hear_it_again() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let client = gateway.modern();
    let mut ears =
        [Ear::listen(gateway.address, &[WATCHED]).await, Ear::listen(gateway.address, &[WATCHED]).await];
    // One stream for all of a pod; on several pods there may be two.
    let stands = async || fixture.stats().await["streams"].as_u64() >= Some(1);
    comes_true("their stream upstream stands", stands).await;
    client.call("forget_sessions", json!({})).await;
    // Whoever calls next is greeted anew, and with it those who only listen.
    for _ in 0..2 {
        client.call("echo", json!({})).await;
    }
    for ear in &mut ears {
        let heard = async {
            loop {
                client.call("touch_resource", json!({ "uri": WATCHED })).await;
                let next = tokio::time::timeout(std::time::Duration::from_millis(300), ear.hear()).await;
                if next.is_ok_and(|next| next.starts_with("resources/updated")) {
                    return;
                }
            }
        };
        crate::gateway::exchange::soon("what the new session tells", heard).await;
    }
}
