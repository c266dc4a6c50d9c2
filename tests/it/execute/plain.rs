//! The operations of a catalog as plain tools of a whole gateway, over an API of the local network.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::harness::{Fixture, comes_true};

const CATALOG: &str = "catalog: shop
revision: 1
title: A shop
source: {kind: http, base_url: 'http://ADDRESS/v1'}
types: {color: {base: enum, values: [red, blue]}}
entities:
  Thing: {about: A thing of the shop, key: [id], fields: {id: string, color: color, price: int}}
operations:
  things:
    kind: query
    entity: Thing
    args: {color: color}
    http: {send: GET /things, query: {color: args.color}, rows: $.items.*}
    pages: {style: page, page: page, size: 4, size_param: per_page}
  thing: {kind: get, entity: Thing, http: {send: 'GET /things/{key.id}', row: $}}
  add:
    kind: create
    entity: Thing
    args: {id: {type: string, need: required}, price: {base: int, min: 0}}
    effect: {class: write, idempotency_header: Idempotency-Key}
    http: {send: POST /things, body: {id: args.id, price: args.price}, row: $}
";

/// What was added, each with the key that came with it.
type Added = Arc<Mutex<Vec<(String, String)>>>;

fn thing(n: usize) -> Value {
    json!({ "id": format!("t{n}"), "color": if n.is_multiple_of(2) { "red" } else { "blue" }, "price": n })
}

fn answered(status: StatusCode, body: Value) -> Response {
    (status, [("content-type", "application/json")], body.to_string()).into_response()
}

async fn list(RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let asked: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let number = |name: &str| asked[name].parse::<usize>().expect("a number");
    let fits = |one: &Value| asked.get("color").is_none_or(|color| one["color"] == **color);
    let all = (0..10).map(thing).filter(fits);
    let of_page = all.skip((number("page") - 1) * number("per_page")).take(number("per_page"));
    answered(StatusCode::OK, json!({ "items": of_page.collect::<Vec<_>>() }))
}

async fn one(Path(id): Path<String>) -> Response {
    match id.strip_prefix('t').and_then(|n| n.parse().ok()) {
        Some(n) if n < 10 => answered(StatusCode::OK, thing(n)),
        _ => answered(StatusCode::NOT_FOUND, json!({ "message": "no such thing" })),
    }
}

async fn add(State(added): State<Added>, headers: HeaderMap, body: Bytes) -> Response {
    let mut thing: Value = serde_json::from_slice(&body).expect("JSON");
    let key = headers["idempotency-key"].to_str().expect("a text").to_owned();
    added.lock().expect("nobody panicked").push((thing["id"].to_string(), key));
    thing["color"] = json!("red");
    answered(StatusCode::CREATED, thing)
}

fn write(folder: &tempfile::TempDir, catalog: &str) {
    std::fs::write(folder.path().join("shop.yaml"), catalog).expect("it is written");
}

/// An API of ten things, of which every other is red: its catalog's folder, and what was added to it.
async fn shop() -> (tempfile::TempDir, Added) {
    let added = Added::default();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address: SocketAddr = listener.local_addr().expect("it is bound");
    let router = Router::new().route("/v1/things", get(list).post(add)).route("/v1/things/{id}", get(one));
    let router = router.with_state(added.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let folder = tempfile::tempdir().expect("a folder");
    write(&folder, &CATALOG.replace("ADDRESS", &address.to_string()));
    (folder, added)
}

fn config(folder: &tempfile::TempDir, profiles: Value) -> Value {
    json!({ "catalogs": { "folders": [folder.path()], "inside": ["127.0.0.0/8"] }, "profiles": profiles })
}

fn names(list: &Value) -> Vec<&str> {
    let tools = list["tools"].as_array().expect("a list").iter();
    tools.map(|tool| tool["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn an_api_serves_clients_that_know_no_programs_in_both_eras() {
    let (folder, added) = shop().await;
    let upstream = Fixture::listening("--http", &[]);
    let mut config = config(&folder, json!({ "default": { "tools": { "deny": ["shop__Thing_g*"] } } }));
    config["upstreams"] = json!({ "files": { "url": upstream.url } });
    let gateway = Gateway::start(config);
    let modern = gateway.modern();
    let legacy = Legacy::begin(gateway.address, "/mcp", "2025-11-25", json!({})).await;
    for list in [modern.result("tools/list", json!({})).await, legacy.result("tools/list", json!({})).await] {
        let names = names(&list);
        assert!(names.contains(&"shop__Thing_list") && names.contains(&"shop__Thing_add"), "{names:?}");
        assert!(names.contains(&"echo") && !names.contains(&"shop__Thing_get"), "{names:?}");
    }
    let first = modern.call("shop__Thing_list", json!({ "color": "red", "limit": 3 })).await;
    let (rows, next) = (&first["structuredContent"]["rows"], &first["structuredContent"]["next"]);
    assert_eq!(rows.as_array().expect("rows").len(), 3, "{first}");
    assert_eq!(rows[2], json!({ "id": "t4", "color": "red", "price": 4 }));
    let rest = json!({ "color": "red", "cursor": next });
    for rest in
        [modern.call("shop__Thing_list", rest.clone()).await, legacy.call("shop__Thing_list", rest).await]
    {
        let facts = &rest["structuredContent"];
        assert_eq!(
            (&facts["rows"][1]["id"], &facts["coverage"]),
            (&json!("t8"), &json!("complete")),
            "{rest}"
        );
        assert!(facts["next"].is_null());
    }
    let made = modern.call("shop__Thing_add", json!({ "id": "t10", "price": 7 })).await;
    let row = json!({ "id": "t10", "price": 7, "color": "red" });
    assert_eq!(made["structuredContent"]["rows"], json!([row]), "{made}");
    let added = added.lock().expect("nobody panicked").clone();
    assert!(matches!(added.as_slice(), [(id, key)] if id == "\"t10\"" && key.len() == 32), "{added:?}");
    let wrong = modern.call("shop__Thing_add", json!({ "id": "t11", "price": -1 })).await;
    assert_eq!(wrong["structuredContent"]["error"]["code"], "type_mismatch", "{wrong}");
    modern.error("tools/call", json!({ "name": "shop__Thing_get", "arguments": { "id": "t1" } })).await;
}

#[tokio::test]
async fn a_profile_without_the_catalog_or_with_programs_has_none_of_its_tools() {
    let (folder, _) = shop().await;
    let profiles = json!({
        "without": { "catalogs": { "deny": ["*"] } },
        "both": { "surface": "both" },
    });
    let gateway = Gateway::start(config(&folder, profiles));
    for (path, has) in [("/mcp", true), ("/mcp/without", false), ("/mcp/both", false)] {
        let client = Modern::new(gateway.address, path, json!({}));
        let list = client.result("tools/list", json!({})).await;
        assert_eq!(names(&list).contains(&"shop__Thing_get"), has, "{path}: {list}");
        if has {
            let got = client.call("shop__Thing_get", json!({ "id": "t1" })).await;
            assert_eq!(got["structuredContent"]["rows"][0]["price"], 1, "{got}");
            let gone = client.call("shop__Thing_get", json!({ "id": "t99" })).await;
            assert_eq!(gone["structuredContent"]["error"]["code"], "not_found", "{gone}");
        }
    }
}

#[tokio::test]
async fn other_catalogs_are_other_tools_and_whoever_listens_hears_of_it() {
    let (folder, _) = shop().await;
    let gateway = Gateway::start(config(&folder, json!({})));
    let client = gateway.modern();
    let wanted = r#"{"notifications":{"toolsListChanged":true}}"#;
    let mut listens = client.send("5", "subscriptions/listen", wanted).await;
    let agreed = listens.message().await.expect("a message");
    assert_eq!(agreed["params"]["notifications"]["toolsListChanged"], true, "{agreed}");
    let catalog = std::fs::read_to_string(folder.path().join("shop.yaml")).expect("the catalog");
    write(&folder, &catalog.replace("  add:", "  put:"));
    gateway.hang_up();
    while listens.message().await.expect("the stream stands")["method"] != "notifications/tools/list_changed"
    {
    }
    comes_true("the other tools", async || {
        names(&client.result("tools/list", json!({})).await).contains(&"shop__Thing_put")
    })
    .await;
}
