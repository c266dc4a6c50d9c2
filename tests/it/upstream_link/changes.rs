//! Standing calls: what changes upstream, and what is not missed when the connection breaks.

use super::*;
use plasm_mcp::mcp::{Age, Event, Kind, Outcome};
use std::sync::atomic::{AtomicBool, Ordering};

fn listen(caller: &Arc<Caller>, filter: Value) -> Call {
    call(caller, Method::Listen, json!({ "notifications": filter }))
}

const WATCHED: &str = "test://watched-resource";

fn everything() -> Value {
    json!({ "toolsListChanged": true, "resourceSubscriptions": [WATCHED] })
}

#[tokio::test]
async fn changes_of_an_upstream_of_either_era_are_heard_by_callers_of_either_era() {
    for era in ["modern", "legacy"] {
        let fixture = Fixture::listening("--http", &["--era", era]);
        let link = link(&fixture.url);
        for caller in [modern("m"), legacy("l")] {
            let mut events = events(link.call(listen(&caller, everything())).await);
            let first = note(&mut events).await;
            assert_eq!(first.method, Method::Acknowledged, "{era}");
            let agreed: Value = first.params.read().unwrap();
            assert_eq!(agreed["notifications"], everything());
            assert!(agreed.get("_meta").is_none_or(|meta| *meta == json!({})), "{agreed}");
            // A legacy stream is opened after it is acknowledged, and a change before that is told to nobody.
            comes_true("a stream is open", async || {
                era == "modern" || look(&fixture, "_stats").await["streams"] != 0
            })
            .await;
            result(&link, tool(&caller, "add_tool", json!({ "name": "another" }))).await;
            assert_eq!(note(&mut events).await.method, Method::ToolsChanged);
            result(&link, tool(&caller, "touch_resource", json!({ "uri": WATCHED }))).await;
            let updated = note(&mut events).await;
            assert_eq!(updated.method, Method::ResourceUpdated);
            assert_eq!(updated.params.read::<Value>().unwrap()["uri"], WATCHED);
            drop(events);
            comes_true("the stream is closed", async || look(&fixture, "_stats").await["streams"] == 0).await;
        }
    }
}

#[tokio::test]
async fn a_change_makes_the_kept_list_stale_whatever_its_time_to_live() {
    let fixture = Fixture::listening("--http", &["--era", "modern", "--ttl-ms", "600000"]);
    let link = link(&fixture.url);
    let caller = modern("m");
    link.list(caller.clone(), Kind::Tool, Age::Fresh).await.unwrap();
    let mut events = events(link.call(listen(&caller, everything())).await);
    note(&mut events).await;
    result(&link, tool(&caller, "add_tool", json!({ "name": "another" }))).await;
    note(&mut events).await;
    let listing = link.list(caller.clone(), Kind::Tool, Age::Fresh).await.unwrap();
    assert!(listing.find("another").is_some());
}

#[tokio::test]
async fn after_a_subscription_that_the_upstream_ended_everything_is_said_to_have_changed_once() {
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let link = link(&fixture.url);
    let caller = modern("m");
    let mut events = events(link.call(listen(&caller, everything())).await);
    note(&mut events).await;
    result(&link, tool(&caller, "end_listens", json!({}))).await;
    assert_eq!(note(&mut events).await.method, Method::ToolsChanged);
    assert_eq!(note(&mut events).await.method, Method::ResourceUpdated);
    // It is open again, and exactly one more comes of one more change.
    result(&link, tool(&caller, "add_tool", json!({ "name": "another" }))).await;
    assert_eq!(note(&mut events).await.method, Method::ToolsChanged);
    result(&link, tool(&caller, "touch_resource", json!({ "uri": WATCHED }))).await;
    assert_eq!(note(&mut events).await.method, Method::ResourceUpdated);
}

#[tokio::test]
async fn b082_an_upstream_that_is_away_is_told_of_at_once_and_its_return_is_a_change() {
    // A port that nobody listens on until the fixture does.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let link = link(&format!("http://127.0.0.1:{port}/mcp"));
    let caller = modern("m");
    let mut events = events(link.call(listen(&caller, json!({ "toolsListChanged": true }))).await);
    assert_eq!(note(&mut events).await.method, Method::Acknowledged);
    assert_eq!(fault(&link, tool(&caller, "echo", json!({}))).await, "upstream_unreachable");
    assert!(!link.is_up());
    let _fixture = Fixture::at("--http", &format!("127.0.0.1:{port}"), &[]);
    assert_eq!(note(&mut events).await.method, Method::ToolsChanged);
    assert!(link.is_up());
    result(&link, tool(&caller, "echo", json!({}))).await;
}

#[tokio::test]
async fn an_upstream_that_changed_its_era_is_asked_again_and_served() {
    let first = Fixture::listening("--http", &["--era", "modern"]);
    let address = first.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
    let link = link(&first.url);
    result(&link, tool(&modern("m"), "echo", json!({}))).await;
    drop(first);
    // A call that meets the end of a pooled connection may have been carried out, and is not made again for us.
    let served =
        async || matches!(outcome(&link, tool(&modern("m"), "echo", json!({}))).await, Outcome::Result(_));
    let second = Fixture::at("--http", &address, &["--era", "legacy"]);
    comes_true("the legacy server is spoken to", served).await;
    assert_eq!(seen(&second, "initialize").await.len(), 1);
    drop(second);
    let third = Fixture::at("--http", &address, &["--era", "modern"]);
    comes_true("the modern server is spoken to", served).await;
    assert_eq!(seen(&third, "server/discover").await.len(), 1);
}

/// A legacy upstream that answers this to the first GET, and gives a stream with a change to those after it.
async fn refusing_the_first_stream(status: u16) -> (String, tokio::task::JoinHandle<()>) {
    let refuses = Arc::new(AtomicBool::new(true));
    let get = async move || {
        if refuses.swap(false, Ordering::SeqCst) {
            let status = http::StatusCode::from_u16(status).unwrap();
            return (status, [("content-type", "text/plain")], String::new());
        }
        let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        (http::StatusCode::OK, [("content-type", "text/event-stream")], format!("data: {changed}\n\n"))
    };
    let post = async |body: String| {
        let body: Value = serde_json::from_str(&body).unwrap();
        let hello = json!({ "protocolVersion": "2025-11-25", "serverInfo": {},
            "capabilities": { "tools": { "listChanged": true } } });
        let (status, text) = match body["method"].as_str() {
            Some("initialize") => (200, json!({ "jsonrpc": "2.0", "id": body["id"], "result": hello })),
            Some("server/discover") => (
                400,
                json!({ "jsonrpc": "2.0", "id": body["id"],
                "error": { "code": -32601, "message": "method not found" } }),
            ),
            _ => (202, Value::Null),
        };
        let headers = [("content-type", "application/json"), ("mcp-session-id", "s")];
        (http::StatusCode::from_u16(status).unwrap(), headers, text.to_string())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let routes = axum::Router::new().route("/mcp", axum::routing::post(post).get(get));
    (url, tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() }))
}

/// The official SDKs' sessions have one stream: a second GET is 409 until the first ends.
#[tokio::test]
async fn an_upstream_whose_stream_is_taken_or_not_to_be_had_now_is_asked_for_it_again() {
    for status in [408, 409, 425, 429, 500, 503] {
        let (url, server) = refusing_the_first_stream(status).await;
        let link = link(&url);
        let mut events = events(link.call(listen(&legacy("s"), everything())).await);
        assert_eq!(note(&mut events).await.method, Method::Acknowledged, "{status}");
        assert_eq!(note(&mut events).await.method, Method::ToolsChanged, "{status}");
        server.abort();
    }
}

#[tokio::test]
async fn an_upstream_that_has_no_stream_is_not_asked_for_it_again() {
    for status in [405, 501] {
        let (url, server) = refusing_the_first_stream(status).await;
        let link = link(&url);
        let mut events = events(link.call(listen(&legacy("s"), everything())).await);
        let acknowledged = note(&mut events).await;
        // What it declares, for it was asked; and not what is said of one that could not be.
        let honoured = String::from_utf8(acknowledged.params.to_bytes().to_vec()).unwrap();
        assert!(honoured.contains("toolsListChanged") && !honoured.contains(WATCHED), "{status}: {honoured}");
        server.abort();
    }
}

/// Posts without leaving the thread: nothing else runs on it meanwhile.
fn post_and_wait(at: &str, body: &str) {
    use std::io::{Read as _, Write as _};
    let url = url::Url::parse(at).unwrap();
    let host = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let mut socket = std::net::TcpStream::connect(&host).unwrap();
    let path = url.path();
    write!(socket, "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_session_whose_standing_call_is_ended_is_given_what_its_upstream_had_sent() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let link = link(&fixture.url);
    let caller = legacy("l");
    let cancel = tokio_util::sync::CancellationToken::new();
    let mut standing = listen(&caller, everything());
    standing.cancel = cancel.clone().into();
    let mut events = events(link.call(standing).await);
    assert_eq!(note(&mut events).await.method, Method::Acknowledged);
    comes_true("a stream is open", async || look(&fixture, "_stats").await["streams"] != 0).await;
    // It lies in the socket, and the call learns that it is over before anybody has read it.
    post_and_wait(&fixture.url.replace("/mcp", "/_touch"), &json!({ "uri": WATCHED }).to_string());
    cancel.cancel();
    assert_eq!(note(&mut events).await.method, Method::ResourceUpdated);
    let ended =
        tokio::time::timeout(Duration::from_secs(20), futures_util::StreamExt::next(&mut events)).await;
    assert!(matches!(ended, Ok(Some(Event::Done(Outcome::Error(_))))));
}
