//! Legacy clients that send what is wrong: handshakes, session ids, event ids, answers to nobody, messages of HTTP+SSE.

use super::*;
use crate::gateway::legacy::Legacy;
use crate::harness::Fixture;

fn before() -> (Fixture, Gateway) {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    (fixture, gateway)
}

#[tokio::test]
async fn a_handshake_without_a_version_begins_nothing_and_a_lax_one_is_taken() {
    let (fixture, gateway) = before();
    let client = Legacy::without_session(gateway.address, "/mcp", None);
    for version in ["", r#""protocolVersion":7,"#, r#""protocolVersion":null,"#, r#""protocolVersion":[],"#] {
        let params = format!(r#"{{{version}"capabilities":{{}},"clientInfo":{{"name":"x","version":"1"}}}}"#);
        let answer = client.send("1", "initialize", &params).await;
        assert_eq!(answer.header("mcp-session-id"), None, "{version}");
        assert_eq!(error(answer).await, (200, (-32602).into(), json!(1)), "{version}");
    }
    // A notification of that name is none that we know.
    let note = client.raw(&[], r#"{"jsonrpc":"2.0","method":"initialize","params":{}}"#).await;
    assert_eq!((note.status, note.header("mcp-session-id")), (202, None));
    assert_eq!(fixture.stats().await["sessions"], 0);
    // What a client says of itself in the wrong form it does not say.
    for params in [
        r#"{"protocolVersion":"2025-11-25"}"#,
        r#"{"protocolVersion":"2025-11-25","capabilities":[],"clientInfo":"x"}"#,
        r#"{"protocolVersion":"x","capabilities":null,"clientInfo":{}}"#,
    ] {
        let mut answer = client.send("1", "initialize", params).await;
        assert_eq!(answer.status, 200, "{params}");
        assert_eq!(answer.answer().await["result"]["protocolVersion"], "2025-11-25", "{params}");
    }
    gateway.still_serves().await;
}

#[tokio::test]
async fn session_ids_of_every_form_that_are_none_are_not_found() {
    let (_fixture, gateway) = before();
    let good = gateway.legacy("2025-11-25").await;
    let own = good.session.clone().expect("a session");
    let long = "x".repeat(8000);
    let (cut, more) = (&own[..own.len() - 1], format!("{own}x"));
    let upper = own.to_uppercase();
    let pair = format!("{own}, {own}x");
    for id in ["x", "", "null", "../../etc/passwd", "{sid}", "%00", "é", &long, cut, &more, &upper, &pair] {
        if id == own {
            continue;
        }
        let mut client = Legacy::without_session(gateway.address, "/mcp", Some("2025-11-25"));
        client.session = Some(id.to_owned());
        let list = client.send("1", "tools/list", "{}").await;
        assert_eq!(list.header("www-authenticate"), None);
        assert_eq!(error(list).await, (404, (-32016).into(), json!(1)), "{id:.20}");
        let (stream, end) = (client.stream(None).await, client.end().await);
        assert_eq!((stream.status, end), (404, 404), "{id:.20}");
    }
    assert_eq!(good.result("ping", json!({})).await, json!({}));
}

#[tokio::test]
async fn event_ids_and_answers_that_belong_to_nothing_are_refused() {
    let (_fixture, gateway) = before();
    let session = gateway.legacy("2025-11-25").await;
    for id in ["0", "x-1", "9999999999999999999999", &"y".repeat(5000)] {
        let (status, _, _) = error(session.stream(Some(id)).await).await;
        assert_eq!(status, 400, "{id:.20}");
    }
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":7}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
    ] {
        let (status, code, _) = error(session.raw(&[], text).await).await;
        assert_eq!((status, code), (400, (-32600).into()), "{text}");
    }
    let own = session.session.as_deref().expect("a session");
    let headers = [("accept", "application/json"), ("mcp-session-id", own)];
    let get = gateway.request("GET", "/mcp", &headers, "");
    refused(get.await, 406).await;
    assert_eq!(session.notify("notifications/no/such", json!({})).await.status, 202);
    assert_eq!(session.notify("notifications/cancelled", json!({ "requestId": 9 })).await.status, 202);
    assert_eq!(session.notify("notifications/progress", json!({ "progressToken": "x" })).await.status, 202);
    assert_eq!(session.error("no/such", json!({})).await["code"], -32601);
    assert_eq!(session.error("tools/call", json!({})).await["code"], -32602);
    assert_eq!(session.error("tools/call", json!({ "name": 7 })).await["code"], -32602);
    assert_eq!(session.error("resources/read", json!({})).await["code"], -32602);
    assert_eq!(session.error("prompts/get", json!({ "name": "no_such" })).await["code"], -32602);
    assert_eq!(session.error("logging/setLevel", json!({ "level": "loud" })).await["code"], -32602);
    assert_eq!(session.error("completion/complete", json!({ "ref": {} })).await["code"], -32602);
    gateway.still_serves().await;
}

#[tokio::test]
async fn messages_of_http_sse_without_their_session_are_refused() {
    let (_fixture, gateway) = before();
    for path in ["/message", "/mcp/message", "/message?sessionId=x", "/message?session_id=%00"] {
        let answer = gateway.request("POST", path, &[("content-type", "application/json")], LIST).await;
        let (status, _, _) = error(answer).await;
        assert!(matches!(status, 400 | 404), "{path}: {status}");
    }
    refused(gateway.request("POST", "/message", &[("content-type", "text/plain")], LIST).await, 415).await;
    gateway.still_serves().await;
}
