//! Catalogs that the gateway drafts of its upstreams' tools, and programs over them.

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::gateway::modern::Modern;
use crate::harness::{Fixture, comes_true};

/// A configuration with that upstream, `up`, whose default profile runs programs and has tools as well.
fn config(up: &Fixture, more: Value) -> Value {
    let mut config = json!({
        "upstreams": {"up": {"url": up.url}},
        "profiles": {"default": {"surface": "both"}},
    });
    config.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    config
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// The teaching table of a new session over these entities, and its handle; `Err`: why there is none.
async fn context(client: &Modern, seeds: &[(&str, &str)]) -> Result<(String, String), Value> {
    let seeds: Vec<Value> = seeds.iter().map(|(api, entity)| json!({"api": api, "entity": entity})).collect();
    let result = client.call("plasm_context", json!({"intent": "look", "seeds": seeds})).await;
    match result["structuredContent"]["logical_session_ref"].as_str() {
        Some(handle) => Ok((handle.to_owned(), text(&result).to_owned())),
        None => Err(result["structuredContent"]["error"].clone()),
    }
}

/// As [`context`], once the draft has come that teaches this.
async fn taught(client: &Modern, entity: (&str, &str), word: &str) -> (String, String) {
    comes_true(word, async || context(client, &[entity]).await.is_ok_and(|(_, table)| table.contains(word)))
        .await;
    context(client, &[entity]).await.expect("it came")
}

async fn run(client: &Modern, handle: &str, program: &str) -> Value {
    client.call("plasm_run", json!({"logical_session_ref": handle, "program": program})).await
}

#[tokio::test]
async fn a_program_reaches_an_upstream_for_which_nobody_wrote_a_catalog() {
    let up = Fixture::listening("--http", &["--office"]);
    let gateway = Gateway::start(config(&up, json!({})));
    let client = gateway.modern();
    let (handle, table) = taught(&client, ("up", "Ticket"), "Ticket rows").await;
    assert!(table.contains("low|normal|high|urgent"), "{table}");
    let found = client.call("discover_capabilities", json!({"query": "support tickets"})).await;
    assert_eq!(found["structuredContent"]["entities"][0]["entity"], "Ticket", "{found}");
    let result = run(
        &client,
        &handle,
        "Ticket | filter(status = \"open\") | group_by(priority, n = count()) | sort(priority)",
    )
    .await;
    assert_ne!(result["isError"], true, "{result}");
    assert!(text(&result).contains("high\t") && text(&result).contains("coverage: "), "{result}");
    assert!(!up.seen_of("tools/call").await.is_empty());
    // A tool that says nothing of itself writes: it needs a plan, and is called once.
    let (handle, _) = taught(&client, ("up", "Up"), "echo").await;
    let refused = run(&client, &handle, "Up.count()").await;
    assert_eq!(refused["isError"], true, "{refused}");
    let plan = client.call("plasm", json!({"logical_session_ref": handle, "program": "Up.count()"})).await;
    let run_ref = plan["structuredContent"]["run_ref"].as_str().expect("a plan that can be run");
    let again = json!({"logical_session_ref": handle, "run_ref": run_ref});
    let done = client.call("plasm_run", again.clone()).await;
    assert_ne!(done["isError"], true, "{done}");
    assert_eq!(
        client.call("plasm_run", again).await["structuredContent"]["run_id"],
        done["structuredContent"]["run_id"]
    );
    let calls = up.seen_of("tools/call").await;
    assert_eq!(calls.iter().filter(|(_, body)| body.contains("\"count\"")).count(), 1);
}

#[tokio::test]
async fn a_draft_follows_the_tools_that_its_upstream_lists() {
    for era in ["modern", "legacy"] {
        let up = Fixture::listening("--http", &["--era", era]);
        let gateway = Gateway::start(config(&up, json!({})));
        let client = gateway.modern();
        let (_, table) = taught(&client, ("up", "Up"), "echo").await;
        assert!(!table.contains("brand_new"));
        client.call("add_tool", json!({"name": "brand_new"})).await;
        taught(&client, ("up", "Up"), "brand_new").await;
    }
}

#[tokio::test]
async fn an_upstream_that_is_away_at_the_start_is_drafted_when_it_comes() {
    let up = Fixture::listening("--http", &[]);
    let (address, config) = (up.address(), config(&up, json!({})));
    drop(up);
    let gateway = Gateway::start(config);
    let client = gateway.modern();
    assert_eq!(
        context(&client, &[("up", "Up")]).await.expect_err("nothing is known")["code"],
        "seed_unknown"
    );
    let _up = Fixture::at("--http", &address.to_string(), &[]);
    taught(&client, ("up", "Up"), "echo").await;
}

#[tokio::test]
async fn a_tool_that_a_profile_hides_is_neither_shown_nor_called_by_a_program() {
    let up = Fixture::listening("--http", &[]);
    let profiles = json!({"profiles": {
        "default": {"surface": "both"},
        "narrow": {"surface": "execute", "tools": {"deny": ["up__echo"]}},
        "none": {"surface": "execute", "upstreams": ["other"]},
    }, "upstreams": {"up": {"url": up.url}, "other": {"url": up.url.replace("/mcp", "/elsewhere")}}});
    let gateway = Gateway::start(config(&up, profiles));
    let (wide, narrow) = (gateway.modern(), Modern::new(gateway.address, "/mcp/narrow", json!({})));
    taught(&wide, ("up", "Up"), "echo: ").await;
    let (handle, table) = taught(&narrow, ("up", "Up"), "slow_echo: ").await;
    assert!(!table.contains("\techo"), "{table}");
    let found = narrow.call("discover_capabilities", json!({"query": "echo arguments byte"})).await;
    assert!(!text(&found).replace("slow_echo", "").contains("echo"), "{found}");
    let plan = narrow.call("plasm", json!({"logical_session_ref": handle, "program": "Up.echo()"})).await;
    assert_eq!(plan["structuredContent"]["error"]["code"], "seed_forbidden", "{plan}");
    assert!(up.seen_of("tools/call").await.is_empty());
    let none = Modern::new(gateway.address, "/mcp/none", json!({}));
    assert_eq!(
        context(&none, &[("up", "Up")]).await.expect_err("not its upstream")["code"],
        "seed_forbidden"
    );
}

#[tokio::test]
async fn a_catalog_of_the_operators_replaces_the_draft_and_drafts_can_be_turned_off() {
    let up = Fixture::listening("--http", &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let text = "catalog: mine\nrevision: 1\ntitle: M\nsource: {kind: mcp, upstream: up}\nentities:\n  Mine: {key: [], fields: {}}\n\
         operations:\n  say: {kind: action, entity: Mine, effect: {class: read}, mcp: {tool: echo, ack: text}}\n";
    std::fs::write(folder.path().join("mine.yaml"), text).expect("it is written");
    let gateway = Gateway::start(config(&up, json!({"catalogs": {"folders": [folder.path()]}})));
    let client = gateway.modern();
    taught(&client, ("mine", "Mine"), "say").await;
    assert_eq!(context(&client, &[("up", "Up")]).await.expect_err("no draft")["code"], "seed_unknown");
    let off = Gateway::start(config(&up, json!({"catalogs": {"drafts": false}})));
    assert_eq!(context(&off.modern(), &[("up", "Up")]).await.expect_err("no draft")["code"], "seed_unknown");
}
