//! Field cases of JSON: what readers and writers on the way have altered, and what must come back as it went.

use crate::gateway::Gateway;
use crate::gateway::exchange::Answer;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::harness::Fixture;
use serde_json::{Value, json};

fn before(more: &[&str]) -> (Fixture, Gateway) {
    let fixture = Fixture::listening("--http", more);
    let gateway = Gateway::before(&[("up", &fixture)]);
    (fixture, gateway)
}

async fn text(mut answer: Answer) -> String {
    assert_eq!(answer.status, 200);
    String::from_utf8(answer.response().await.to_vec()).unwrap()
}

/// The status and the code of an error.
async fn refused(mut answer: Answer) -> (u16, Value) {
    (answer.status, answer.json().await["error"]["code"].clone())
}

#[tokio::test]
async fn b060_every_id_comes_back_as_it_was_written_and_no_other_is_taken() {
    let (_fixture, gateway) = before(&[]);
    let long = format!("{:?}", "x".repeat(2000));
    let good = [
        "0",
        r#""0""#,
        r#""""#,
        "-1",
        r#""é""#,
        r#""\u00e9""#,
        "9007199254740993",
        "-9223372036854775809",
        "123456789012345678901234567890",
        r#""{\"a\":1}""#,
        &long,
    ];
    let modern = gateway.modern();
    let session = gateway.legacy("2025-11-25").await;
    let progress = r#"{"name":"progress","arguments":{"steps":1,"ms":0},"_meta":{"progressToken":0}}"#;
    for id in good {
        let want = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
        for got in [
            text(modern.send(id, "tools/list", "{}").await).await,
            text(session.send(id, "tools/list", "{}").await).await,
            text(session.send(id, "ping", "{}").await).await,
            text(modern.send(id, "tools/call", progress).await).await,
            text(session.send(id, "tools/call", progress).await).await,
        ] {
            assert!(got.starts_with(&want), "{id}: {got:.80}");
        }
        let error = text(session.send(id, "no/such", "{}").await).await;
        assert!(error.starts_with(&want.replace("result", "error")), "{id}: {error}");
    }
    for id in ["null", "1.5", "1.0", "1e3", "true", "{}", "[1]"] {
        for mut answer in
            [modern.send(id, "tools/list", "{}").await, session.send(id, "tools/list", "{}").await]
        {
            assert_eq!(answer.status, 400, "{id}");
            let message = answer.json().await;
            assert_eq!(message["error"]["code"], -32600, "{id}");
            assert!(message.get("id").is_none_or(Value::is_null), "{message}");
        }
    }
}

#[tokio::test]
async fn b061_a_string_id_and_the_number_it_spells_are_two() {
    let (_fixture, gateway) = before(&[]);
    let modern = gateway.modern();
    let session = gateway.legacy("2025-11-25").await;
    let call = |text: &str| format!(r#"{{"name":"slow_echo","arguments":{{"text":"{text}","ms":100}}}}"#);
    let (of_string, of_number) = (call("string"), call("number"));
    let answers = tokio::join!(
        modern.send(r#""1""#, "tools/call", &of_string),
        modern.send("1", "tools/call", &of_number),
        session.send(r#""1""#, "tools/call", &of_string),
        session.send("1", "tools/call", &of_number),
    );
    for (mut answer, id, said) in [
        (answers.0, json!("1"), "string"),
        (answers.1, json!(1), "number"),
        (answers.2, json!("1"), "string"),
        (answers.3, json!(1), "number"),
    ] {
        let message = answer.answer().await;
        assert_eq!((&message["id"], &message["result"]["content"][0]["text"]), (&id, &json!(said)));
    }
}

#[tokio::test]
async fn b064_integers_above_2_53_are_unchanged_both_ways() {
    let arguments = r#"{"n":9007199254740993,"d":0.1,"z":1.0,"e":1e2}"#;
    let params = format!(r#"{{"name":"echo","arguments":{arguments}}}"#);
    for upstream in ["modern", "legacy"] {
        let (fixture, gateway) = before(&["--era", upstream]);
        let session = gateway.legacy("2025-11-25").await;
        let sessionless = Legacy::without_session(gateway.address, "/mcp", None);
        for got in [
            text(gateway.modern().send("1", "tools/call", &params).await).await,
            text(session.send("1", "tools/call", &params).await).await,
            text(sessionless.send("1", "tools/call", &params).await).await,
        ] {
            assert!(got.contains(&format!(r#""structuredContent":{arguments}"#)), "{upstream}: {got}");
        }
        let seen = fixture.seen_of("tools/call").await;
        let whole = format!(r#""arguments":{arguments}"#);
        assert!(
            seen.len() == 3 && seen.iter().all(|(_, body)| body.contains(&whole)),
            "{upstream}: {seen:?}"
        );
    }
}

#[tokio::test]
async fn b066_text_of_every_script_stays_and_bytes_that_are_no_text_are_refused() {
    let tool = "größe-工具-👩‍🔬\u{2028}";
    for upstream in ["modern", "legacy"] {
        let (fixture, gateway) = before(&["--era", upstream]);
        let modern = gateway.modern();
        let session = gateway.legacy("2025-11-25").await;
        modern.call("add_tool", json!({ "name": tool })).await;
        for listed in
            [modern.result("tools/list", json!({})).await, session.result("tools/list", json!({})).await]
        {
            let names: Vec<_> = listed["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
            assert!(names.contains(&&json!(tool)), "{upstream}: {names:?}");
        }
        let said = json!(format!("{tool} was called"));
        assert_eq!(session.call(tool, json!({})).await["content"][0]["text"], said, "{upstream}");
        assert_eq!(modern.call(tool, json!({})).await["content"][0]["text"], said, "{upstream}");
        if upstream == "modern" {
            let seen = fixture.seen_of("tools/call").await;
            let (headers, _) = seen.last().expect("the call arrived");
            assert_eq!(headers["mcp-name"], *plasm_mcp::wire::headers::encode(tool));
        }
        let other = plasm_mcp::wire::headers::encode("größe").into_owned();
        let params = json!({ "name": tool }).to_string();
        let answer = modern.send_with("1", "tools/call", &params, &[("mcp-name", &other)]).await;
        assert_eq!(refused(answer).await, (400, json!(-32020)));

        let arguments = r#"{"nul":"\u0000","lone":"\ud800","raw":"漢 👩‍🔬"}"#;
        let escapes = format!(r#"{{"name":"echo","arguments":{arguments}}}"#);
        for got in [
            text(modern.send_with("1", "tools/call", &escapes, &[("mcp-name", "echo")]).await).await,
            text(session.send("1", "tools/call", &escapes).await).await,
        ] {
            assert!(got.contains(arguments), "{got}");
        }
        for bytes in [
            &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}"[..],
            b"\xc3\x28",
            b"\xed\xa0\x80",
        ] {
            let answer = session.raw(&[], bytes::Bytes::from_static(bytes)).await;
            assert_eq!(refused(answer).await, (400, json!(-32700)));
        }
    }
}

fn echo(id: u32) -> Value {
    let params = json!({ "name": "echo", "arguments": { "n": id } });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

#[tokio::test]
async fn b067_a_batch_is_refused_whole_where_the_version_has_none_and_judged_by_member_where_it_has() {
    let (fixture, gateway) = before(&["--era", "legacy"]);
    let unknown =
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": "denied" } });
    let batch = json!([echo(1), unknown, { "jsonrpc": "2.0", "id": null, "method": "ping" }]).to_string();
    for version in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        let session = gateway.legacy(version).await;
        let without = Legacy::without_session(gateway.address, "/mcp", Some(version));
        for client in [session, without] {
            let answer = client.raw(&[], batch.clone()).await;
            assert_eq!(refused(answer).await, (400, json!(-32600)), "{version}");
        }
    }
    let modern = gateway.modern();
    let headers = Modern::headers("tools/call", r#"{"name":"echo"}"#);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
    let one = modern.message("1", "tools/call", r#"{"name":"echo"}"#);
    assert_eq!(refused(modern.raw(&headers, format!("[{one}]")).await).await, (400, json!(-32600)));
    assert!(fixture.seen_of("tools/call").await.is_empty(), "nothing of them was run");

    let session = gateway.legacy("2025-03-26").await;
    let without = Legacy::without_session(gateway.address, "/mcp", None);
    for client in [session, without] {
        let answers = batch_of(client.raw(&[], batch.clone()).await).await;
        let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap_or(&Value::Null);
        assert_eq!(of(json!(1))["result"]["structuredContent"]["n"], 1, "{answers:?}");
        assert_eq!(of(json!(2))["error"]["code"], -32602, "{answers:?}");
        assert_eq!(of(Value::Null)["error"]["code"], -32600, "{answers:?}");
        assert_eq!(answers.len(), 3);
    }
}

/// The responses to a batch, as an array or as a stream.
async fn batch_of(mut answer: Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200);
    if !answer.is_stream() {
        return answer.json().await.as_array().expect("a batch is answered by an array").clone();
    }
    let mut all = Vec::new();
    while let Some(message) = answer.message().await {
        match message {
            Value::Array(some) => all.extend(some),
            one => all.push(one),
        }
    }
    all
}

#[tokio::test]
async fn b068_a_session_of_2025_03_26_may_send_batches() {
    let (_fixture, gateway) = before(&[]);
    let session = gateway.legacy("2025-03-26").await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let list = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    let mut answers = batch_of(session.raw(&[], json!([ping, note, list, echo(3)]).to_string()).await).await;
    answers.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!(answers.len(), 3, "{answers:?}");
    assert_eq!(answers[0]["result"], json!({}));
    assert!(answers[1]["result"]["tools"].as_array().unwrap().len() > 3);
    assert_eq!(answers[2]["result"]["structuredContent"], json!({ "n": 3 }));
    assert_eq!(session.raw(&[], json!([note, note]).to_string()).await.status, 202);
}

#[tokio::test]
async fn b069_a_message_of_5_mib_comes_whole_or_is_refused_by_a_named_limit() {
    const SIZE: usize = 5 << 20;
    let big = json!({ "name": "big", "arguments": { "bytes": SIZE } }).to_string();
    for upstream in [
        &["--era", "modern"][..],
        &["--era", "legacy"],
        &["--era", "modern", "--always-sse"],
        &["--era", "legacy", "--always-sse"],
    ] {
        let (fixture, gateway) = before(upstream);
        let session = gateway.legacy("2025-11-25").await;
        for got in [
            text(gateway.modern().send("1", "tools/call", &big).await).await,
            text(session.send("1", "tools/call", &big).await).await,
        ] {
            let message: Value = serde_json::from_str(&got).unwrap();
            let said = message["result"]["content"][0]["text"].as_str().unwrap();
            assert!(said.len() == SIZE && said.bytes().all(|b| b == b'x'), "{upstream:?}: {}", said.len());
        }
        let small = Gateway::start(json!({
            "upstreams": { "up": { "url": fixture.url } }, "limits": { "upstream_message_bytes": "1MiB" },
        }));
        let session = small.legacy("2025-11-25").await;
        for message in [
            small.modern().send("1", "tools/call", &big).await.answer().await,
            session.send("1", "tools/call", &big).await.answer().await,
        ] {
            assert_eq!(message["result"]["isError"], true, "{upstream:?}: {message:.200}");
            let why = message["result"]["content"][0]["text"].as_str().unwrap();
            assert!(why.contains("1048576") && why.contains("up"), "{why}");
        }
        let echoed = session.call("echo", json!({ "a": 1 })).await;
        assert_eq!(echoed["structuredContent"]["a"], 1, "{upstream:?}");
        small.still_serves().await;
    }
}
