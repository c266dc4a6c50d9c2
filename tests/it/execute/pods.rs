//! Three real pods over one Redis, before an HTTP API: what a client of any kind begins on one goes on with others. The client
//! chooses the pod; `scripts/show execute` does the same with official clients behind nginx.

mod killed;
mod strangers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::extract::{Path, Query, State};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::gateway::Gateway;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::store::redis::server::Server;

const V: &str = "2025-11-25";
const SEALING: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const LIST: &str = "Item | filter(price < 90)";
const ORDER: &str = "Order.create(item = Item(\"i7\"), note = \"one\")";

/// An API of 300 items, and of orders: each is noted at once and answered when the gate is open.
#[derive(Clone)]
struct Shop {
    address: SocketAddr,
    orders: Arc<Mutex<Vec<Value>>>,
    gate: Arc<Semaphore>,
}

impl Shop {
    async fn start(open: bool) -> Shop {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let gate = Arc::new(Semaphore::new(if open { 1_000 } else { 0 }));
        let shop = Shop { address, orders: Arc::default(), gate };
        let router = Router::new()
            .route("/items", get(items))
            .route(
                "/items/{id}",
                get(|Path(id): Path<String>| async move { Json(item(id[1..].parse().unwrap_or(0))) }),
            )
            .route("/orders", get(async || Json(json!({"orders": []}))).post(order))
            .with_state(shop.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        shop
    }

    fn orders(&self) -> usize {
        self.orders.lock().expect("nobody panics").len()
    }
}

fn item(n: usize) -> Value {
    json!({"id": format!("i{n}"), "name": format!("item {n}"), "price": n, "about": format!("{n} {}", "x".repeat(80))})
}

async fn items(Query(query): Query<std::collections::HashMap<String, String>>) -> Json<Value> {
    let number = |name: &str, or: usize| query.get(name).and_then(|text| text.parse().ok()).unwrap_or(or);
    let (first, size) = (number("after", 0), number("size", 100));
    let end = (first + size).min(300);
    let items: Vec<Value> = (first..end).map(item).collect();
    Json(match end < 300 {
        true => json!({"items": items, "next": end.to_string()}),
        false => json!({"items": items}),
    })
}

async fn order(State(shop): State<Shop>, Json(mut order): Json<Value>) -> Json<Value> {
    {
        let mut orders = shop.orders.lock().expect("nobody panics");
        order["id"] = json!(format!("o{}", orders.len() + 1));
        orders.push(order.clone());
    }
    shop.gate.acquire().await.expect("it is never closed").forget();
    Json(order)
}

struct Three {
    pods: [Gateway; 3],
    shop: Shop,
    _redis: Server,
    _folder: TempDir,
}

impl Three {
    async fn start(open: bool, more: Value) -> Three {
        let (redis, shop) = (Server::start(&[]), Shop::start(open).await);
        let folder = tempfile::tempdir().expect("a folder");
        let sealing = folder.path().join("key");
        std::fs::write(&sealing, SEALING).expect("the folder takes a key");
        let catalog = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/execute/shop.yaml");
        let mut config = json!({
            "store": { "redis_url": redis.url() },
            "sealing": { "keys": [{ "file": sealing }] },
            "catalogs": {
                "files": [catalog],
                "inside": ["127.0.0.0/8"],
                "settings": { "shop": { "url": format!("http://{}", shop.address) } },
            },
            "profiles": { "default": { "surface": "execute" } },
        });
        for (key, value) in more.as_object().expect("an object") {
            config[key] = value.clone();
        }
        let pods = [0, 1, 2].map(|_| Gateway::start(config.clone()));
        Three { pods, shop, _redis: redis, _folder: folder }
    }
}

/// A client's way to a pod.
#[derive(Clone, Debug)]
enum How {
    Modern,
    /// 2025-11-25, with this transport session or without.
    Legacy(Option<String>),
}

/// A legacy transport session that a client of this name begins on a pod.
async fn begun(pod: &Gateway, name: &str, version: &str, authorization: Option<&str>) -> String {
    let mut client = Legacy::without_session(pod.address, "/mcp", None);
    client.authorization = authorization.map(str::to_owned);
    let hello = json!({
        "protocolVersion": V, "capabilities": {}, "clientInfo": {"name": name, "version": version},
    });
    let answer = client.send("0", "initialize", &hello.to_string()).await;
    assert_eq!(answer.status, 200);
    let session = answer.header("mcp-session-id").expect("a session").to_owned();
    (client.session, client.version) = (Some(session.clone()), Some(V.to_owned()));
    assert_eq!(client.notify("notifications/initialized", json!({})).await.status, 202);
    session
}

/// One request by a client: its result, or its error.
async fn asked(
    pod: &Gateway,
    how: &How,
    authorization: Option<&str>,
    method: &str,
    params: Value,
) -> Result<Value, Value> {
    let mut answer = match how {
        How::Modern => {
            let client = Modern::new(pod.address, "/mcp", json!({}));
            let more: Vec<_> = authorization.into_iter().map(|shown| ("authorization", shown)).collect();
            client.send_with("1", method, &params.to_string(), &more).await
        }
        How::Legacy(session) => {
            let mut client = Legacy::without_session(pod.address, "/mcp", Some(V));
            (client.session, client.authorization) = (session.clone(), authorization.map(str::to_owned));
            client.send("1", method, &params.to_string()).await
        }
    };
    crate::gateway::exchange::outcome(answer.answer().await)
}

async fn tool(pod: &Gateway, how: &How, tool: &str, arguments: Value) -> Value {
    tool_as(pod, how, None, tool, arguments).await
}

async fn tool_as(
    pod: &Gateway,
    how: &How,
    authorization: Option<&str>,
    tool: &str,
    arguments: Value,
) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    asked(pod, how, authorization, "tools/call", params)
        .await
        .unwrap_or_else(|error| panic!("{tool}: {error}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn code(answer: &Value) -> &str {
    answer["structuredContent"]["error"]["code"].as_str().unwrap_or("none")
}

fn seeds() -> Value {
    json!([{"api": "shop", "entity": "Item"}, {"api": "shop", "entity": "Order"}])
}

/// A session, opened there.
async fn opened(pod: &Gateway, how: &How, authorization: Option<&str>) -> String {
    let ask = json!({"intent": "look at prices", "seeds": seeds()});
    let context = tool_as(pod, how, authorization, "plasm_context", ask).await;
    let handle = text(&context["structuredContent"]["logical_session_ref"]);
    assert!(text(&context["content"][0]["text"]).starts_with(&format!("{handle}\n")));
    handle
}

async fn planned(
    pod: &Gateway,
    how: &How,
    authorization: Option<&str>,
    handle: &str,
    program: &str,
) -> String {
    let ask = json!({"logical_session_ref": handle, "program": program});
    let plan = tool_as(pod, how, authorization, "plasm", ask).await;
    text(&plan["structuredContent"]["run_ref"])
}

/// How one comes: with a session of that era, or without any.
async fn ways(three: &Three) -> [How; 3] {
    let session = begun(&three.pods[0], "it", "1", None).await;
    [How::Legacy(Some(session)), How::Legacy(None), How::Modern]
}

#[tokio::test]
async fn what_is_found_on_one_pod_is_planned_on_another_run_on_a_third_and_read_on_each_in_both_eras() {
    let three = Three::start(true, json!({})).await;
    let [one, two, third] = &three.pods;
    for how in ways(&three).await {
        let found =
            tool(third, &how, "discover_capabilities", json!({"query": "the price of an item"})).await;
        assert_eq!(found["structuredContent"]["entities"][0]["entity"], "Item", "{how:?}");
        let handle = opened(one, &how, None).await;
        let run_ref = planned(two, &how, None, &handle, LIST).await;
        let ask = json!({"logical_session_ref": handle, "run_ref": run_ref});
        let ran = tool(third, &how, "plasm_run", ask).await;
        let root = &ran["structuredContent"]["roots"][0];
        assert_eq!((&root["rows"], &root["coverage"]), (&json!(90), &json!("complete")), "{how:?}: {ran}");
        let shown = root["values"].as_array().expect("rows").len();
        assert!((1..=25).contains(&shown), "the rest is in the artifact");
        let (uri, run_id) = (text(&root["artifact_uri"]), text(&root["run_id"]));
        for pod in [one, two, third] {
            // By tool, in pages that pods hand over.
            let mut ids = Vec::new();
            let mut ask =
                json!({"logical_session_ref": handle, "artifact_uri": uri, "limit": 40, "columns": ["id"]});
            let mut pods = three.pods.iter().cycle();
            loop {
                let page =
                    tool(pods.next().expect("they go round"), &how, "plasm_read_run_artifact", ask.clone())
                        .await;
                let facts = &page["structuredContent"];
                ids.extend(
                    facts["rows"]
                        .as_array()
                        .unwrap_or_else(|| panic!("{page}"))
                        .iter()
                        .map(|row| text(&row[0])),
                );
                if facts["next_offset"].is_null() {
                    break;
                }
                ask["offset"] = facts["next_offset"].clone();
            }
            assert_eq!(ids, (0..90).map(|n| format!("i{n}")).collect::<Vec<_>>());
            let by_run = json!({"logical_session_ref": handle, "run_id": run_id});
            assert_eq!(
                tool(pod, &how, "plasm_read_run_artifact", by_run).await["structuredContent"]["total"],
                90
            );
            // As a resource, by each of its names.
            for uri in [&uri, &format!("plasm://execute/{handle}/run/{run_id}")] {
                let read =
                    asked(pod, &how, None, "resources/read", json!({"uri": uri})).await.expect("it is there");
                let whole: Value = serde_json::from_str(&text(&read["contents"][0]["text"])).expect("JSON");
                assert_eq!(whole["rows"].as_array().map(Vec::len), Some(90), "{uri}");
            }
        }
    }
}

#[tokio::test]
async fn replies_name_the_way_that_their_client_reads_by_and_modern_ones_name_both() {
    let three = Three::start(true, json!({})).await;
    let [one, two, third] = &three.pods;
    let clients = [
        ("cursor-vscode", "3.1.0", "ResourcesRead", true, false),
        ("claude-ai", "0.1.0", "ToolFallback", false, true),
        ("Claude-Code", "2.0.0", "ToolFallback", false, true),
    ];
    for (name, version, mode, by_resource, by_tool) in clients {
        let how = How::Legacy(Some(begun(one, name, version, None).await));
        let handle = opened(one, &how, None).await;
        let run_ref = planned(two, &how, None, &handle, LIST).await;
        let ask = json!({"logical_session_ref": handle, "run_ref": run_ref});
        let ran = tool(third, &how, "plasm_run", ask).await;
        let (said, uri) =
            (text(&ran["content"][0]["text"]), text(&ran["structuredContent"]["roots"][0]["artifact_uri"]));
        assert_eq!(said.contains("plasm_read_run_artifact"), by_tool, "{name}: {said}");
        assert_eq!(said.contains("read the resource"), by_resource, "{name}: {said}");
        let links = ran["content"]
            .as_array()
            .expect("content")
            .iter()
            .filter(|block| block["type"] == "resource_link");
        assert_eq!(links.count() > 0, by_resource, "{name}");
        // The choice changes words, and not what may be read.
        let ask = json!({"logical_session_ref": handle, "artifact_uri": uri});
        assert_eq!(tool(one, &how, "plasm_read_run_artifact", ask).await["structuredContent"]["total"], 90);
        assert!(asked(two, &how, None, "resources/read", json!({"uri": uri})).await.is_ok());
        let log = third.log();
        let line = log.lines().filter(|line| line.contains("resolved MCP artifact access mode"));
        let line: Vec<Value> =
            line.map(|line| serde_json::from_str(line).expect("the log is JSON")).collect();
        let of = |line: &&Value| line.to_string().contains(&format!("\"{name}\""));
        let line = line.iter().find(of).unwrap_or_else(|| panic!("no line of {name} in {log}"));
        let line = line.to_string();
        assert!(line.contains(mode) && line.contains(version) && line.contains("why"), "{line}");
    }
    let handle = opened(one, &How::Modern, None).await;
    let ask = json!({"logical_session_ref": handle, "program": LIST, "mode": "auto"});
    let ran = tool(two, &How::Modern, "plasm", ask).await;
    let said = text(&ran["content"][0]["text"]);
    assert!(said.contains("plasm_read_run_artifact") && said.contains("resource plasm://"), "{said}");
}

#[tokio::test]
async fn the_lists_of_the_surface_are_the_same_for_every_modern_client_and_on_every_pod() {
    let three = Three::start(true, json!({})).await;
    let mut all = Vec::new();
    for pod in &three.pods {
        for method in ["tools/list", "resources/list", "resources/templates/list"] {
            all.push((method, asked(pod, &How::Modern, None, method, json!({})).await.expect("a list")));
        }
    }
    for (method, list) in &all {
        let (_, first) = all.iter().find(|(other, _)| other == method).expect("there is one");
        assert_eq!(list, first, "{method}");
    }
    let tools = all[0].1["tools"].as_array().expect("tools");
    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    for name in ["discover_capabilities", "plasm_context", "plasm", "plasm_run", "plasm_read_run_artifact"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    for tool in tools {
        let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
        assert!(hints.iter().all(|hint| tool["annotations"][hint].is_boolean()), "{}", tool["name"]);
        assert!(tool["title"].is_string() && tool["outputSchema"]["type"] == "object", "{}", tool["name"]);
    }
}
