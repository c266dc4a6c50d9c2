//! What clients may send that is wrong, end to end: each gets the answer that PROTOCOL's table says, in JSON, and the
//! gateway goes on serving.

mod bodies;
mod heads;

use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::gateway::modern::Modern;
use serde_json::{Value, json};

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;

/// The headers of a good modern `tools/list`, some of them in another form, or without.
fn headers_but<'a>(other: &[(&'a str, Option<&'a str>)]) -> Vec<(&'a str, &'a str)> {
    let mut headers = vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/list"),
    ];
    headers.retain(|(name, _)| !other.iter().any(|(changed, _)| changed == name));
    headers.extend(other.iter().filter_map(|(name, value)| Some((*name, (*value)?))));
    headers
}

/// The JSON-RPC error of an answer, which has the form of one: no status without it, no HTML, no result beside it.
async fn error(mut answer: Answer) -> (u16, Value, Value) {
    assert_eq!(answer.header("content-type"), Some("application/json"), "status {}", answer.status);
    assert!(answer.header("plasm-replica").is_some());
    let message = answer.json().await;
    assert_eq!(message["jsonrpc"], "2.0", "{message}");
    assert!(message["error"]["message"].is_string() && message.get("result").is_none(), "{message}");
    (answer.status, message["error"]["code"].clone(), message.get("id").cloned().unwrap_or(Value::Null))
}

/// A refusal before the message is read: the status is the code, for no reader must take it for a protocol error.
async fn refused(answer: Answer, status: u16) {
    assert_eq!(error(answer).await, (status, status.into(), Value::Null));
}

#[tokio::test]
async fn what_is_no_message_gets_its_code_and_its_id_where_one_can_be_read() {
    let gateway = Gateway::demo(json!({}));
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"x":{open}{close}}}}}"#)
    };
    let table: Vec<(String, i32, Value)> = [
        ("", -32700, json!(null)),
        ("{", -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list""#, -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}}"#, -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"} {}"#, -32700, json!(null)),
        (r#"{'jsonrpc':'2.0','id':1,'method':'tools/list'}"#, -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","id":NaN,"method":"tools/list"}"#, -32700, json!(null)),
        (r#"{"jsonrpc":"2.0","id":01,"method":"tools/list"}"#, -32700, json!(null)),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools\nlist\"}", -32700, json!(null)),
        ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", -32700, json!(null)),
        ("7", -32600, json!(null)),
        ("null", -32600, json!(null)),
        (r#""tools/list""#, -32600, json!(null)),
        ("[]", -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#, -32600, json!(1)),
        (r#"{"id":"a","method":"tools/list"}"#, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","result":{}}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","\u006dethod":"ping"}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"METHOD":"ping","method":"tools/list"}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"name":"a","name":"b"}}"#, -32600, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":7}}"#, -32600, json!(1)),
    ]
    .map(|(text, code, id)| (text.to_owned(), code, id))
    .into_iter()
    .chain([(nested(200), -32700, json!(null)), (nested(200_000), -32700, json!(null))])
    .collect();
    for (text, code, id) in table {
        let shown = text.chars().take(80).collect::<String>();
        let answer = gateway.request("POST", "/mcp", &headers_but(&[]), text).await;
        assert_eq!(error(answer).await, (400, code.into(), id), "{shown}");
    }
    let not_utf8 = bytes::Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}");
    let answer = gateway.request("POST", "/mcp", &headers_but(&[]), not_utf8).await;
    assert_eq!(error(answer).await, (400, (-32700).into(), Value::Null));
    gateway.still_serves().await;
}

#[tokio::test]
async fn a_modern_request_whose_headers_and_metadata_are_wrong_gets_the_modern_error_and_is_not_run() {
    let gateway = Gateway::demo(json!({}));
    let client = gateway.modern();
    let echo = r#"{"name":"echo","arguments":{"text":"x"}}"#;
    type Other = &'static [(&'static str, Option<&'static str>)];
    let table: &[(Other, i32)] = &[
        (&[("mcp-protocol-version", None)], -32020),
        (&[("mcp-protocol-version", Some("2025-11-25"))], -32020),
        (&[("mcp-protocol-version", Some("2026-07-28, 2025-11-25"))], -32020),
        (&[("mcp-protocol-version", Some("latest"))], -32020),
        (&[("mcp-method", None)], -32020),
        (&[("mcp-method", Some("tools/list"))], -32020),
        (&[("mcp-method", Some("Tools/Call"))], -32020),
        (&[("mcp-method", Some("tools/call, tools/list"))], -32020),
        (&[("mcp-name", None)], -32020),
        (&[("mcp-name", Some("add"))], -32020),
        (&[("mcp-name", Some("ECHO"))], -32020),
        (&[("mcp-name", Some("=?base64?!!!?="))], -32020),
        (&[("mcp-name", Some("=?base64?/w==?="))], -32020),
        (&[("mcp-name", Some("écho"))], -32020),
    ];
    for (other, code) in table {
        let mut headers = headers_but(&[("mcp-method", Some("tools/call")), ("mcp-name", Some("echo"))]);
        headers.retain(|(name, _)| !other.iter().any(|(changed, _)| changed == name));
        headers.extend(other.iter().filter_map(|(name, value)| Some((*name, (*value)?))));
        let answer = client.raw(&headers, client.message("1", "tools/call", echo)).await;
        assert_eq!(error(answer).await, (400, (*code).into(), json!(1)), "{other:?}");
    }
    // The same name in the other form, and the same values given twice, are not wrong.
    for name in ["=?base64?ZWNobw==?=", "echo"] {
        let answer = client.send_with("1", "tools/call", echo, &[("mcp-name", name)]).await;
        assert_eq!(answer.status, 200, "{name}");
    }
    let twice =
        [("mcp-protocol-version", "2026-07-28, 2026-07-28"), ("mcp-method", "tools/call, tools/call")];
    assert_eq!(client.send_with("1", "tools/call", echo, &twice).await.status, 200);
    gateway.still_serves().await;
}

#[tokio::test]
async fn modern_metadata_that_is_incomplete_or_unknown_is_named() {
    let gateway = Gateway::demo(json!({}));
    let version = |v: &str| format!(r#""io.modelcontextprotocol/protocolVersion":"{v}""#);
    let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{}"#;
    let known = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
    let table = [
        (capabilities.to_owned(), "2026-07-28", -32602),
        (version("2026-07-28"), "2026-07-28", -32602),
        (version("2026-07-28") + r#","io.modelcontextprotocol/clientCapabilities":[]"#, "2026-07-28", -32602),
        (r#""io.modelcontextprotocol/clientInfo":{}"#.to_owned(), "2025-11-25", -32602),
        (format!(r#""io.modelcontextprotocol/protocolVersion":7,{capabilities}"#), "2026-07-28", -32602),
        (String::new(), "2026-07-28", -32602),
        (format!("{},{capabilities}", version("2099-01-01")), "2099-01-01", -32022),
        (format!("{},{capabilities}", version("2025-11-25")), "2025-11-25", -32022),
        (version("2099-01-01"), "2099-01-01", -32022),
    ];
    for (meta, header, code) in table {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":"q","method":"tools/list","params":{{"_meta":{{{meta}}}}}}}"#);
        let headers = headers_but(&[("mcp-protocol-version", Some(header))]);
        let mut answer = gateway.request("POST", "/mcp", &headers, text).await;
        assert_eq!(answer.status, 400, "{meta}");
        let message = answer.json().await;
        assert_eq!((&message["id"], &message["error"]["code"]), (&json!("q"), &json!(code)), "{meta}");
        if code == -32022 {
            assert_eq!(message["error"]["data"], json!({ "supported": known, "requested": header }));
        }
    }
    gateway.still_serves().await;
}

#[tokio::test]
async fn methods_that_are_unknown_or_of_the_other_era_are_not_found() {
    let gateway = Gateway::demo(json!({}));
    let client = gateway.modern();
    for method in ["no/such", "ping", "logging/setLevel", "resources/subscribe", "sampling/createMessage", ""]
    {
        let mut answer = client.send("1", method, "{}").await;
        assert_eq!(answer.status, 404, "{method:?}");
        assert_eq!(answer.json().await["error"]["code"], -32601, "{method:?}");
    }
    let unknown = client.error("tools/call", json!({ "name": "no_such_tool" })).await;
    assert_eq!(unknown["code"], -32602);
    let headers = Modern::headers("tools/call", r#"{"name":"echo"}"#);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
    let nameless = client.raw(&headers, client.message("1", "tools/call", r#"{"arguments":{}}"#)).await;
    assert_eq!(error(nameless).await, (400, (-32602).into(), json!(1)));
    gateway.still_serves().await;
}

#[tokio::test]
async fn a_full_gateway_says_so_and_when_to_come_back_and_has_room_again_afterwards() {
    let gateway = Gateway::demo(json!({ "limits": { "concurrent_calls": 1 } }));
    let client = gateway.modern();
    let long = r#"{"name":"countdown","arguments":{"from":100},"_meta":{"progressToken":1}}"#;
    let mut busy = client.send("1", "tools/call", long).await;
    assert!(busy.message().await.is_some(), "the call is under way once its first progress is there");

    let mut refused = client.send("2", "tools/call", r#"{"name":"echo","arguments":{"text":"x"}}"#).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(refused.json().await["error"]["data"]["reason"], "gateway_busy");

    drop(busy);
    let mut tried = 0;
    while client.send("3", "tools/call", r#"{"name":"echo","arguments":{"text":"x"}}"#).await.status != 200 {
        tried += 1;
        assert!(tried < 1_000, "the place of a call whose client is gone was not given back");
        tokio::task::yield_now().await;
    }
}
