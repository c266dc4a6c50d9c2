//! The surface of one whole gateway: a catalog over an API of the local network, alone and beside upstreams.

use std::io::Write as _;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Response, header};
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::gateway::modern::Modern;
use crate::harness::{Fixture, comes_true};

const CATALOG: &str = "catalog: things
revision: 1
title: Things
source: {kind: http, base_url: 'http://ADDRESS'}
entities:
  Thing: {about: A thing of the shop and its price, key: [id], fields: {id: string, price: int}}
operations:
  query: {kind: query, entity: Thing, http: {send: 'GET /things', rows: $}}
";

/// An API of sixty things.
pub(super) async fn api() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let things: Vec<_> = (0..60).map(|n| json!({"id": format!("t{n}"), "price": n})).collect();
    let things = json!(things).to_string();
    let answer = move || async {
        let json = Response::builder().header(header::CONTENT_TYPE, "application/json");
        json.body(Body::from(things)).expect("a response")
    };
    let router = Router::new().route("/things", get(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A folder with the catalog of the API there.
pub(super) fn folder(address: SocketAddr) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder, &CATALOG.replace("ADDRESS", &address.to_string()));
    folder
}

fn write(folder: &tempfile::TempDir, catalog: &str) {
    let mut file = std::fs::File::create(folder.path().join("things.yaml")).expect("a file");
    file.write_all(catalog.as_bytes()).expect("it is written");
}

pub(super) fn config(folder: &tempfile::TempDir, profiles: Value, more: &[(&str, &Fixture)]) -> Value {
    let upstreams = more.iter().map(|(id, fixture)| (id.to_string(), json!({ "url": fixture.url })));
    json!({
        "catalogs": { "folders": [folder.path()], "inside": ["127.0.0.0/8"] },
        "profiles": profiles,
        "upstreams": upstreams.collect::<serde_json::Map<_, _>>(),
    })
}

async fn tools(client: &Modern) -> Vec<String> {
    let list = client.result("tools/list", json!({})).await;
    let names = list["tools"].as_array().expect("a list").iter();
    names.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

/// The handle of a session over things.
pub(super) async fn opened(client: &Modern) -> String {
    let ask = json!({ "intent": "look at prices", "seeds": [{ "api": "things", "entity": "Thing" }] });
    let context = client.call("plasm_context", ask).await;
    context["structuredContent"]["logical_session_ref"].as_str().expect("a handle").to_owned()
}

#[tokio::test]
async fn a_program_is_found_taught_planned_and_run_beside_the_tools_of_upstreams() {
    let (api, upstream) = (api().await, Fixture::listening("--http", &[]));
    let folder = folder(api);
    let profiles = json!({ "default": { "surface": "both", "tools": { "allow": ["files__*"] } } });
    let gateway = Gateway::start(config(&folder, profiles, &[("files", &upstream)]));
    let client = gateway.modern();
    let names = tools(&client).await;
    assert_eq!(names[..4], ["discover_capabilities", "plasm_context", "plasm", "plasm_run"]);
    assert!(names.iter().any(|name| name == "echo"), "{names:?}");
    let found = client.call("discover_capabilities", json!({ "query": "the price of a thing" })).await;
    assert_eq!(found["structuredContent"]["entities"][0]["entity"], "Thing");
    let handle = opened(&client).await;
    let program = "Thing | filter(price > 57) | sort(price desc)";
    let plan = client.call("plasm", json!({ "logical_session_ref": handle, "program": program })).await;
    let run = json!({ "logical_session_ref": handle, "run_ref": plan["structuredContent"]["run_ref"] });
    let ran = client.call("plasm_run", run).await;
    let text = ran["content"][0]["text"].as_str().expect("text");
    assert!(text.contains("t59\t59\nt58\t58\n\ncoverage: complete"), "{text}");
    let told = client.result("server/discover", json!({})).await;
    assert!(told["instructions"].as_str().expect("instructions").contains("discover_capabilities"), "{told}");
}

#[tokio::test]
async fn a_profile_of_the_surface_alone_has_no_tool_of_an_upstream_and_another_has_no_program() {
    let (api, upstream) = (api().await, Fixture::listening("--http", &[]));
    let folder = folder(api);
    let profiles = json!({ "programs": { "surface": "execute", "catalogs": { "deny": ["thing?"] } } });
    let gateway = Gateway::start(config(&folder, profiles, &[("files", &upstream)]));
    assert!(tools(&gateway.modern()).await.iter().all(|name| !name.starts_with("plasm")));
    let programs = Modern::new(gateway.address, "/mcp/programs", json!({}));
    assert!(tools(&programs).await.iter().all(|name| name.contains("plasm") || name.contains("discover")));
    programs.error("tools/call", json!({ "name": "echo", "arguments": { "text": "x" } })).await;
    let ask = json!({ "intent": "x", "seeds": [{ "api": "things", "entity": "Thing" }] });
    let context = programs.call("plasm_context", ask).await;
    assert_eq!(context["structuredContent"]["error"]["code"], "seed_forbidden", "{context}");
}

#[tokio::test]
async fn a_changed_catalog_is_served_after_a_reload_and_sessions_go_on_with_theirs() {
    let folder = folder(api().await);
    let gateway = Gateway::start(config(&folder, json!({ "default": { "surface": "execute" } }), &[]));
    let client = gateway.modern();
    let handle = opened(&client).await;
    let changed = std::fs::read_to_string(folder.path().join("things.yaml")).expect("the catalog");
    write(&folder, &changed.replace("Thing", "Article"));
    gateway.hang_up();
    let ask = json!({ "intent": "y", "seeds": [{ "api": "things", "entity": "Article" }] });
    comes_true("the other catalog", async || {
        client.call("plasm_context", ask.clone()).await["isError"] != true
    })
    .await;
    let run = json!({ "logical_session_ref": handle, "program": "Thing | limit(1)" });
    let ran = client.call("plasm_run", run).await;
    assert_eq!(ran["structuredContent"]["roots"][0]["rows"], 1, "{ran}");
}
