//! What a link sends with its requests, and how it takes a refusal: against a server that answers as it is told.

use super::*;
use axum::Router;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use plasm_mcp::mcp::{Age, Kind};

type Seen = Arc<Mutex<Vec<(HeaderMap, Value)>>>;
/// Answers a request; the number says how many of its method came before it.
type Manner = fn(&HeaderMap, &Value, usize) -> Response;

struct Server {
    url: String,
    seen: Seen,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(manner: Manner) -> Server {
        let seen = Seen::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let noted = seen.clone();
        let answer = async move |headers: HeaderMap, body: String| {
            let body: Value = serde_json::from_str(&body).unwrap_or_default();
            let mut noted = noted.lock().unwrap();
            let before = noted.iter().filter(|(_, b)| b["method"] == body["method"]).count();
            noted.push((headers.clone(), body.clone()));
            manner(&headers, &body, before)
        };
        let routes = Router::new().route("/mcp", axum::routing::post(answer));
        let task = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Server { url, seen, task }
    }

    fn count(&self, method: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|(_, body)| body["method"] == method).count()
    }
}

fn json_text(status: u16, text: String) -> Response {
    (StatusCode::from_u16(status).unwrap(), [("content-type", "application/json")], text).into_response()
}

fn answered(body: &Value, result: Value) -> Response {
    json_text(200, json!({ "jsonrpc": "2.0", "id": body["id"], "result": result }).to_string())
}

fn refused(status: u16, body: &Value, code: i64, message: &str) -> Response {
    let error = json!({ "code": code, "message": message });
    json_text(status, json!({ "jsonrpc": "2.0", "id": body["id"], "error": error }).to_string())
}

/// A modern server as it should be, for all but what a test is about.
fn proper(body: &Value) -> Response {
    let result = match body["method"].as_str().unwrap_or_default() {
        "server/discover" => json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }),
        "tools/list" => json!({ "tools": [{ "name": "t", "inputSchema": { "type": "object" } }] }),
        _ => json!({ "content": [] }),
    };
    answered(body, result)
}

#[tokio::test]
async fn a_header_that_the_upstream_misses_makes_the_link_list_again_and_call_once_more() {
    let server = Server::start(|headers, body, before| match body["method"].as_str() {
        Some("tools/list") if before > 0 => {
            let region = json!({ "region": { "type": "string", "x-mcp-header": "Region" } });
            let schema = json!({ "type": "object", "properties": region });
            answered(body, json!({ "tools": [{ "name": "t", "inputSchema": schema }] }))
        }
        Some("tools/call") if headers.get("mcp-param-region").is_none_or(|region| region != "north") => {
            refused(400, body, -32020, "Mcp-Param-Region is missing")
        }
        _ => proper(body),
    })
    .await;
    let link = link(&server.url);
    result(&link, tool(&modern("m"), "t", json!({ "region": "north" }))).await;
    assert_eq!((server.count("tools/call"), server.count("tools/list")), (2, 2));
    // An upstream that is never content is not asked without end.
    let stubborn = Server::start(|_, body, _| match body["method"].as_str() {
        Some("tools/call") => refused(400, body, -32020, "never content"),
        _ => proper(body),
    })
    .await;
    let Outcome::Error(error) =
        outcome(&super::link(&stubborn.url), tool(&modern("m"), "t", json!({}))).await
    else {
        panic!("no error")
    };
    assert!(format!("{error:?}").contains("never content"));
    assert_eq!(stubborn.count("tools/call"), 2);
}

#[tokio::test]
async fn only_listed_headers_of_the_client_go_upstream_and_never_its_credentials() {
    let server = Server::start(|_, body, _| proper(body)).await;
    let name = HeaderName::from_static;
    let listed = vec![name("x-tenant"), http::header::AUTHORIZATION, http::header::COOKIE];
    let link = Link::new(
        LinkConfig { forward_headers: listed, ..config() },
        Reach {
            http: Some(Arc::new(Http::new(
                HttpClient::new(Connector::straight(Duration::from_secs(5))),
                HttpConfig {
                    url: server.url.parse().unwrap(),
                    headers: vec![(http::header::AUTHORIZATION, HeaderValue::from_static("Bearer ours"))],
                    cookies: false,
                    limit: LIMIT,
                },
            ))),
            channels: None,
            channels_era: None,
            credentials: None,
        },
    );
    let mut caller = Arc::try_unwrap(modern("m")).ok().unwrap();
    let header = |n, v: &'static str| (name(n), HeaderValue::from_static(v));
    caller.client = Arc::new(Client {
        headers: vec![
            header("x-tenant", "acme"),
            header("x-other", "no"),
            header("authorization", "Bearer theirs"),
            header("cookie", "theirs=1"),
        ],
        ..(*caller.client).clone()
    });
    result(&link, tool(&Arc::new(caller), "t", json!({}))).await;
    for (headers, body) in server.seen.lock().unwrap().iter() {
        assert_eq!(headers["authorization"], "Bearer ours");
        assert!(headers.get("cookie").is_none() && headers.get("x-other").is_none());
        assert_eq!(headers["x-tenant"], "acme", "{}", body["method"]);
    }
}

#[tokio::test]
async fn cookies_come_back_where_the_configuration_asks_for_them() {
    let server = Server::start(|_, body, _| {
        let mut response = proper(body);
        response.headers_mut().insert("set-cookie", HeaderValue::from_static("route=a; Path=/"));
        response
    })
    .await;
    for cookies in [true, false] {
        let http =
            HttpConfig { url: server.url.parse().unwrap(), headers: Vec::new(), cookies, limit: LIMIT };
        let http = Arc::new(Http::new(HttpClient::new(Connector::straight(Duration::from_secs(5))), http));
        let link = Link::new(
            config(),
            Reach { http: Some(http), channels: None, channels_era: None, credentials: None },
        );
        result(&link, tool(&modern("m"), "t", json!({}))).await;
        let seen = server.seen.lock().unwrap();
        let cookie = seen.last().unwrap().0.get("cookie");
        assert_eq!(cookie.map(HeaderValue::as_bytes), cookies.then_some(&b"route=a"[..]));
    }
}

#[tokio::test]
async fn a_refusal_is_told_for_what_it_is_and_only_what_is_safe_is_asked_again() {
    let table: [(Manner, &str); 3] = [
        (|_, body, _| called(body, 401), "upstream_credential"),
        (|_, body, _| called(body, 429), "upstream_busy"),
        (|_, body, _| called(body, 503), "upstream_unreachable"),
    ];
    for (manner, want) in table {
        let server = Server::start(manner).await;
        assert_eq!(fault(&link(&server.url), tool(&modern("m"), "t", json!({}))).await, want);
        assert_eq!(server.count("tools/call"), 1, "{want}");
    }
    let server = Server::start(|_, body, before| match body["method"].as_str() {
        Some("tools/list") if before == 0 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        _ => proper(body),
    })
    .await;
    let listing = link(&server.url).list(modern("m"), Kind::Tool, Age::Fresh).await.unwrap();
    assert_eq!((listing.items().len(), server.count("tools/list")), (1, 2));
}

fn called(body: &Value, status: u16) -> Response {
    match body["method"] == "tools/call" {
        true => StatusCode::from_u16(status).unwrap().into_response(),
        false => proper(body),
    }
}

#[tokio::test]
async fn a_cursor_that_leads_back_and_a_list_without_end_are_garbage() {
    let circle: Manner = |_, body, _| match body["method"].as_str() {
        Some("tools/list") => answered(body, json!({ "tools": [], "nextCursor": "again" })),
        _ => proper(body),
    };
    let endless: Manner = |_, body, before| match body["method"].as_str() {
        Some("tools/list") => {
            let tools: Vec<_> = (0..50).map(|n| json!({ "name": format!("t{before}_{n}") })).collect();
            answered(body, json!({ "tools": tools, "nextCursor": before.to_string() }))
        }
        _ => proper(body),
    };
    for manner in [circle, endless] {
        let server = Server::start(manner).await;
        let link = link_as(&server.url, LinkConfig { most_items: 500, ..config() });
        let Err(fault) = link.list(modern("m"), Kind::Tool, Age::Fresh).await else { panic!("listed") };
        assert_eq!(word(Outcome::Error(fault)), "upstream_garbage");
    }
}

#[tokio::test]
async fn a_discovery_that_is_none_is_not_taken_for_one() {
    for (discovery, initialize) in [
        (json!({ "supportedVersions": ["2026-07-28"], "capabilities": [] }), 1),
        (json!({ "supportedVersions": ["2099-01-01"], "capabilities": {} }), 1),
        (json!({ "supportedVersions": ["2099-01-01", "2026-07-28"], "capabilities": {} }), 0),
    ] {
        static DISCOVERY: Mutex<Value> = Mutex::new(Value::Null);
        *DISCOVERY.lock().unwrap() = discovery;
        let server = Server::start(|_, body, _| match body["method"].as_str() {
            Some("server/discover") => answered(body, DISCOVERY.lock().unwrap().clone()),
            Some("initialize") => refused(200, body, -32601, "no such method"),
            _ => proper(body),
        })
        .await;
        let outcome = outcome(&link(&server.url), tool(&modern("m"), "t", json!({}))).await;
        assert_eq!(matches!(outcome, Outcome::Result(_)), initialize == 0);
        assert_eq!(server.count("initialize"), initialize);
    }
}

#[tokio::test]
async fn a_legacy_server_that_answers_400_for_an_unknown_session_gets_a_new_one() {
    let server = Server::start(|_, body, before| match body["method"].as_str() {
        Some("server/discover") => refused(400, body, -32000, "Bad Request: Server not initialized"),
        Some("initialize") => {
            let hello = json!({
                "protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": { "name": "old", "version": "1" },
            });
            let mut response = answered(body, hello);
            let id = HeaderValue::from_str(&format!("session-{before}")).unwrap();
            response.headers_mut().insert("mcp-session-id", id);
            response
        }
        Some("notifications/initialized") => StatusCode::ACCEPTED.into_response(),
        _ if before == 0 => refused(400, body, -32000, "Bad Request: No valid session ID provided"),
        _ => answered(body, json!({ "content": [] })),
    })
    .await;
    result(&link(&server.url), tool(&legacy("l"), "t", json!({}))).await;
    assert_eq!((server.count("initialize"), server.count("tools/call")), (2, 2));
    let seen = server.seen.lock().unwrap();
    let (headers, _) = seen.last().unwrap();
    assert_eq!(headers["mcp-session-id"], "session-1");
    assert_eq!(headers["mcp-protocol-version"], "2025-06-18");
}
