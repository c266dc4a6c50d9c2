//! Stored results and the pages of the app through one whole gateway, beside an upstream that has resources of its own.

use serde_json::{Value, json};

use super::served::{api, config, folder, opened};
use crate::gateway::Gateway;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::harness::Fixture;

/// What a program comes to for a client of the modern era.
async fn ran(client: &Modern, program: &str) -> (String, Value) {
    let handle = opened(client).await;
    let ask = json!({ "logical_session_ref": handle, "program": program });
    (handle, client.call("plasm_run", ask).await)
}

#[tokio::test]
async fn a_result_is_read_as_a_resource_and_by_the_tool_beside_an_upstream_s_resources() {
    let (api, upstream) = (api().await, Fixture::listening("--http", &[]));
    let folder = folder(api);
    let profiles = json!({ "default": { "surface": "both" } });
    let gateway = Gateway::start(config(&folder, profiles, &[("files", &upstream)]));
    let client = gateway.modern();
    let (handle, ran) = ran(&client, "Thing").await;
    let uri = ran["structuredContent"]["roots"][0]["artifact_uri"].as_str().expect("it is stored").to_owned();
    let link = &ran["content"][1];
    assert_eq!((&link["type"], &link["uri"]), (&json!("resource_link"), &json!(uri)), "{ran}");
    let read = client.result("resources/read", json!({ "uri": uri })).await;
    let text = read["contents"][0]["text"].as_str().expect("text");
    let whole: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(whole["rows"].as_array().map(Vec::len), Some(60), "{read}");
    let ask =
        json!({ "logical_session_ref": handle, "artifact_uri": uri, "offset": 59, "columns": ["price"] });
    let page = client.call("plasm_read_run_artifact", ask).await;
    assert_eq!(page["structuredContent"]["rows"], json!([[59]]), "{page}");

    let can = client.result("server/discover", json!({})).await["capabilities"].clone();
    assert_eq!(can["extensions"], json!({ "io.modelcontextprotocol/ui": {} }), "{can}");

    // What is named by no session is not there; what an upstream lists is still its own.
    let unknown = uri.replace("/r/1", "/r/2");
    assert_eq!(client.error("resources/read", json!({ "uri": unknown })).await["code"], -32602);
    let templates = client.result("resources/templates/list", json!({})).await.to_string();
    assert!(templates.contains("\"plasm://session/{session}/r/{n}\""), "{templates}");
    let tools = client.result("tools/list", json!({})).await;
    let of = |name: &str| {
        let tools = tools["tools"].as_array().expect("a list");
        tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    assert_eq!(of("plasm_ui_read_run")["_meta"]["ui"]["visibility"], json!(["app"]));
    for (tool, page) in [("plasm", "ui://plasm/plan-review"), ("plasm_run", "ui://plasm/run-explorer")] {
        let meta = &of(tool)["_meta"];
        assert_eq!((&meta["ui"]["resourceUri"], &meta["ui/resourceUri"]), (&json!(page), &json!(page)));
        let read = client.result("resources/read", json!({ "uri": page })).await;
        assert_eq!(read["contents"][0]["mimeType"], "text/html;profile=mcp-app");
    }
}

#[tokio::test]
async fn the_way_of_a_session_is_logged_once_with_what_the_client_said_and_its_replies_go_by_it() {
    let folder = folder(api().await);
    let gateway = Gateway::start(config(&folder, json!({ "default": { "surface": "execute" } }), &[]));
    for (name, mode, told, not) in [
        ("cursor-vscode", "ResourcesRead", "read the resource plasm://", "plasm_read_run_artifact"),
        ("claude-code", "ToolFallback", "plasm_read_run_artifact with artifact_uri plasm://", "resource"),
    ] {
        let mut client = Legacy::without_session(gateway.address, "/mcp", None);
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": name, "version": "7" } });
        let answer = client.send("0", "initialize", &hello.to_string()).await;
        client.session = answer.header("mcp-session-id").map(str::to_owned);
        client.version = Some("2025-11-25".to_owned());
        let ask = json!({ "intent": name, "seeds": [{ "api": "things", "entity": "Thing" }] });
        let context = client.call("plasm_context", ask).await;
        let handle = &context["structuredContent"]["logical_session_ref"];
        let ran =
            client.call("plasm_run", json!({ "logical_session_ref": handle, "program": "Thing" })).await;
        let text = ran["content"][0]["text"].as_str().expect("text");
        assert!(text.contains(told) && !text.contains(not), "{text}");
        let log = gateway.log();
        let lines: Vec<_> = log
            .lines()
            .filter(|line| line.contains("resolved MCP artifact access mode") && line.contains(name))
            .collect();
        assert!(lines.len() == 1 && lines[0].contains(mode), "{lines:?}");
    }
}

#[tokio::test]
async fn an_operation_that_policy_keeps_from_a_caller_is_kept_from_their_programs() {
    let folder = folder(api().await);
    let profiles = json!({
        "default": { "surface": "execute" },
        "kept": { "surface": "execute", "only": [{ "tools": ["things__query"], "tenants": ["ops"] }] },
    });
    let gateway = Gateway::start(config(&folder, profiles, &[]));
    let (_, open) = ran(&gateway.modern(), "Thing").await;
    assert_eq!(open["structuredContent"]["roots"][0]["rows"], 60, "{open}");
    let kept = Modern::new(gateway.address, "/mcp/kept", json!({}));
    let ask = json!({ "intent": "x", "seeds": [{ "api": "things", "entity": "Thing" }] });
    let context = kept.call("plasm_context", ask).await;
    assert_eq!(context["structuredContent"]["error"]["code"], "seed_forbidden", "{context}");
}
