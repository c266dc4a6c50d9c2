//! Field cases of the eras: who speaks what, and what headers and metadata may say of it.

use crate::gateway::Gateway;
use crate::gateway::exchange::soon;
use crate::gateway::legacy::Legacy;
use crate::harness::Fixture;
use serde_json::{Value, json};

const JSON: [(&str, &str); 2] =
    [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];

/// A gateway before one upstream that speaks these eras.
fn before(eras: &str) -> (Fixture, Gateway) {
    let fixture = Fixture::listening("--http", &["--era", eras]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    (fixture, gateway)
}

#[tokio::test]
async fn b031_each_hop_says_the_version_that_it_negotiated() {
    let old = ["--era", "legacy", "--legacy-version", "2025-06-18"];
    let fixture = Fixture::listening("--http", &old);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let client = gateway.legacy("2025-11-25").await;
    assert_eq!(client.welcome["protocolVersion"], "2025-11-25");
    client.call("echo", json!({ "a": 1 })).await;
    let seen = fixture.seen().await;
    let after = |one: &&Value| {
        let body = one["body"].as_str().unwrap_or_default();
        !body.contains(r#""initialize""#) && !body.contains(r#""server/discover""#)
    };
    let versions: Vec<_> =
        seen.iter().filter(after).map(|one| &one["headers"]["mcp-protocol-version"]).collect();
    assert!(!versions.is_empty() && versions.iter().all(|v| **v == "2025-06-18"), "{versions:?}");
}

#[tokio::test]
async fn b032_an_initialize_needs_no_header_of_the_modern_era() {
    let (_fixture, gateway) = before("both");
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let mut answer = gateway.request("POST", "/mcp", &JSON, hello).await;
    assert_eq!(answer.status, 200);
    assert!(answer.header("mcp-session-id").is_some());
    assert_eq!(answer.answer().await["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn b033_the_body_of_initialize_decides_its_version_and_not_the_header() {
    let (_fixture, gateway) = before("both");
    for header in ["2025-11-25", "2026-07-28", "1999-01-01"] {
        let client = Legacy::without_session(gateway.address, "/mcp", Some(header));
        let hello =
            r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}"#;
        let mut answer = client.send("0", "initialize", hello).await;
        assert_eq!(answer.status, 200, "{header}");
        assert_eq!(answer.answer().await["result"]["protocolVersion"], "2025-06-18", "{header}");
    }
}

#[tokio::test]
async fn b035_a_version_that_nobody_knows_is_400_in_each_era() {
    let (fixture, gateway) = before("both");
    let session = gateway.legacy("2025-11-25").await;
    let unknown = [("mcp-protocol-version", "1999-01-01")];
    let mut answer = session.send_with("1", "tools/list", "{}", &unknown).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json().await["error"]["code"], -32600);

    let client = gateway.modern();
    let text = client.message("1", "tools/list", "{}").replace("2026-07-28", "2099-01-01");
    let headers = [JSON[0], JSON[1], ("mcp-protocol-version", "2099-01-01"), ("mcp-method", "tools/list")];
    let mut answer = client.raw(&headers, text).await;
    assert_eq!(answer.status, 400);
    let error = answer.json().await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["requested"]), (&json!(-32022), &json!("2099-01-01")));
    assert_eq!(error["data"]["supported"][0], "2026-07-28");
    assert!(fixture.seen_of("tools/list").await.is_empty());
}

#[tokio::test]
async fn b037_headers_are_made_anew_for_the_upstreams_own_names() {
    let modern = ["--era", "modern"];
    let (a, b) = (Fixture::listening("--http", &modern), Fixture::listening("--http", &modern));
    let gateway = Gateway::start(json!({ "upstreams": {
        "up1": { "url": a.url },
        "up2": { "url": b.url, "rename": { "test_header_params": "places" } },
    }}));
    let client = gateway.modern();
    let params = |tool: &str| {
        format!(
            r#"{{"name":"{tool}","arguments":{{"region":"eu","count":42,"dry":true,"place":{{"city":"Zürich"}}}}}}"#
        )
    };
    let right = [
        ("mcp-param-region", "eu"),
        ("mcp-param-count", "42"),
        ("mcp-param-dry", "true"),
        ("mcp-param-city", "=?base64?WsO8cmljaA==?="),
    ];
    for (tool, fixture) in [("up1__test_header_params", &a), ("places", &b)] {
        let mut answer = client.send_with("1", "tools/call", &params(tool), &right).await;
        assert_eq!(answer.status, 200, "{tool}");
        let result = answer.answer().await;
        assert!(result["result"]["isError"] != true && result.get("error").is_none(), "{result}");
        let seen = fixture.seen_of("tools/call").await;
        let (headers, _) = seen.last().expect("the call arrived");
        assert_eq!(headers["mcp-name"], "test_header_params", "{tool}");
        for (name, value) in right {
            assert_eq!(headers[name], value, "{tool}");
        }
    }
    // A legacy client has no such headers; its upstream gets them.
    let session = gateway.legacy("2025-11-25").await;
    let arguments = json!({ "region": "eu", "place": { "city": "Zürich" } });
    session.call("up1__test_header_params", arguments).await;
    let seen = a.seen_of("tools/call").await;
    let (headers, _) = seen.last().expect("the call arrived");
    let mirrored = (&headers["mcp-param-region"], &headers["mcp-param-city"]);
    assert_eq!(mirrored, (&right[0].1.into(), &right[3].1.into()));
    assert_eq!(headers.get("mcp-param-count"), None);

    let before = seen.len();
    let name = ("mcp-name", "up1__test_header_params");
    for (changed, wrong) in [
        ("mcp-param-region", "us"),
        ("mcp-param-region", "EU"),
        ("mcp-param-count", "43"),
        ("mcp-param-city", "Zurich"),
        ("mcp-param-city", "=?base64?%%?="),
        ("mcp-name", "test_header_params"),
        ("mcp-name", "up2__test_header_params"),
        ("mcp-param-region", ""),
    ] {
        let all = right.into_iter().chain([name]).filter(|(header, _)| *header != changed);
        let headers: Vec<_> = all.chain((!wrong.is_empty()).then_some((changed, wrong))).collect();
        let mut answer = client.send_with("1", "tools/call", &params(name.1), &headers).await;
        let code = answer.json().await["error"]["code"].clone();
        assert_eq!((answer.status, code), (400, json!(-32020)), "{changed}: {wrong}");
    }
    assert_eq!(a.seen_of("tools/call").await.len(), before, "what differs is not run");
}

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

#[tokio::test]
async fn b038_a_listen_begins_with_its_acknowledgement_and_all_of_it_bears_its_id() {
    for era in ["modern", "legacy"] {
        let (_fixture, mut gateway) = before(era);
        let client = gateway.modern();
        let change = async |n: usize| {
            client.call("add_tool", json!({ "name": format!("new_{n}") })).await;
        };
        let wanted = r#"{"notifications":{"toolsListChanged":true}}"#;
        let open = client.send(r#""s1""#, "subscriptions/listen", wanted);
        let busy = async {
            for n in 0..10 {
                change(n).await;
            }
        };
        let (mut stream, ()) = tokio::join!(open, busy);
        let first = stream.message().await.expect("a listen says something");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{era}");
        assert_eq!(first["params"]["_meta"][SUBSCRIPTION], "s1", "{era}");
        assert_eq!(first["params"]["notifications"]["toolsListChanged"], true, "{era}");
        change(10).await;
        let next = stream.message().await.expect("the change is told");
        assert_eq!(next["method"], "notifications/tools/list_changed", "{era}");
        assert_eq!(next["params"]["_meta"][SUBSCRIPTION], "s1", "{era}");
        gateway.terminate();
        let last = loop {
            let message = stream.message().await.expect("it ends with a result");
            if message.get("method").is_none() {
                break message;
            }
            assert_eq!(message["params"]["_meta"][SUBSCRIPTION], "s1", "{era}");
        };
        assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("s1"), &json!("complete")), "{era}");
        assert_eq!(last["result"]["_meta"][SUBSCRIPTION], "s1", "{era}");
        assert!(stream.event().await.is_none(), "{era}");
        assert!(soon("the end of the process", gateway.ended()).await.success(), "{era}");
    }
}

/// A modern body under a legacy version header, without `Mcp-Method` and `Mcp-Name`, as hosted connectors send it.
const MIXED: [(&str, &str); 3] = [JSON[0], JSON[1], ("mcp-protocol-version", "2025-11-25")];

#[tokio::test]
async fn b113_a_modern_body_under_a_legacy_header_is_refused_and_by_a_switch_followed_by_its_body() {
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let upstreams = json!({ "up": { "url": fixture.url } });
    let strict = Gateway::start(json!({ "upstreams": upstreams }));
    let list = strict.modern().message("1", "tools/list", "{}");
    let mut answer = strict.modern().raw(&MIXED, list.clone()).await;
    assert_eq!((answer.status, &answer.json().await["error"]["code"]), (400, &json!(-32020)));
    assert!(fixture.seen_of("tools/list").await.is_empty());

    let compat = json!({ "mixed_version_header": "follow_meta" });
    let lenient = Gateway::start(json!({ "upstreams": upstreams, "compat": compat }));
    let client = lenient.modern();
    let mut answer = client.raw(&MIXED, list).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json().await["result"]["resultType"], "complete", "the body's era is spoken");
    let call = client.message("2", "tools/call", r#"{"name":"echo","arguments":{"a":1}}"#);
    let mut answer = client.raw(&MIXED, call.clone()).await;
    assert_eq!(answer.answer().await["result"]["structuredContent"], json!({ "a": 1 }));
    assert!(lenient.log().contains("a legacy version header over modern _meta was followed"));
    // Absent names are let pass, different ones never.
    let ran = fixture.seen_of("tools/call").await.len();
    for wrong in [("mcp-name", "add_tool"), ("mcp-method", "tools/list"), ("mcp-protocol-version", "latest")]
    {
        let headers: Vec<_> = MIXED.into_iter().filter(|(name, _)| *name != wrong.0).chain([wrong]).collect();
        let mut answer = client.raw(&headers, call.clone()).await;
        let code = answer.json().await["error"]["code"].clone();
        assert_eq!((answer.status, code), (400, json!(-32020)), "{wrong:?}");
    }
    assert_eq!(fixture.seen_of("tools/call").await.len(), ran);
}

#[tokio::test]
async fn b115_a_session_lists_the_same_with_and_without_the_version_header() {
    let (_fixture, gateway) = before("both");
    let mut client = gateway.legacy("2025-11-25").await;
    let with = client.send("1", "tools/list", "{}").await.response().await;
    client.version = None;
    let without = client.send("1", "tools/list", "{}").await.response().await;
    assert_eq!(with, without);
    assert!(with.len() > 1000);
}

#[tokio::test]
async fn b116_a_probe_by_a_version_of_the_future_is_told_in_json_what_is_spoken_and_may_initialize() {
    for era in ["legacy", "modern"] {
        let (_fixture, gateway) = before(era);
        let client = gateway.modern();
        let text = client.message("1", "server/discover", "{}").replace("2026-07-28", "2027-01-01");
        let headers =
            [JSON[0], JSON[1], ("mcp-protocol-version", "2027-01-01"), ("mcp-method", "server/discover")];
        let mut answer = client.raw(&headers, text).await;
        assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/json")), "{era}");
        let error = answer.json().await["error"].clone();
        assert_eq!(error["code"], -32022, "{era}");
        assert!(error["data"]["supported"].as_array().unwrap().contains(&json!("2025-11-25")), "{era}");
        let found = client.result("server/discover", json!({})).await;
        assert_eq!(found["supportedVersions"], error["data"]["supported"], "{era}");
        let session = gateway.legacy("2025-11-25").await;
        assert_eq!(session.call("echo", json!({ "a": era })).await["structuredContent"]["a"], era);
    }
}
