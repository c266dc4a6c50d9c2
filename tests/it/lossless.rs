//! JSON is carried, not rebuilt: the corpus passes through the gateway in each era, and every byte that PROTOCOL does not
//! call ours arrives as it was sent, both ways. A direct call to the upstream says what each result should be.

use crate::gateway::Gateway;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::harness::Fixture;
use bytes::Bytes;
use serde_json::json;
use std::path::Path;

/// The progress token in the corpus: the one span of params that is ours to replace.
const TOKEN: &str = r#""corpus-token""#;

/// The texts of `params` of a `tools/call` of `echo`, by name. A `_meta` that is to take a modern client's own members
/// is written `"_meta":{`, and is the first such in its file.
fn corpus() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let text = text.strip_suffix('\n').expect("the file ends with a line break of its own");
        (path.file_stem().unwrap().to_string_lossy().into_owned(), text.to_owned())
    };
    let all: Vec<_> = files.iter().map(read).collect();
    assert!(all.len() >= 12, "the corpus is there");
    all
}

/// What stands as `params` in a request that was written with them last.
fn params_of(request: &str) -> &str {
    let (_, rest) = request.split_once(r#""params":"#).expect("a request has params");
    rest.strip_suffix('}').expect("params are the request's last member")
}

/// The upstream saw these params as they were sent, but for the progress token, which is another string.
async fn seen_as_sent(fixture: &Fixture, sent: &str, name: &str) {
    let seen = fixture.seen_of("tools/call").await;
    let (headers, body) = seen.last().expect("the call arrived");
    assert!(headers.get("cookie").is_none() && headers.get("origin").is_none(), "{headers}");
    let (sent, seen) = (params_of(sent), params_of(body));
    match sent.split_once(TOKEN) {
        None => assert_eq!(seen, sent, "{name}"),
        Some((before, after)) => {
            let token = seen.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            let token: String = serde_json::from_str(token.expect(name)).expect("the token is a string");
            assert_ne!(format!("{token:?}"), TOKEN, "{name}");
        }
    }
}

fn headers_of(tool: &str) -> Vec<(&'static str, String)> {
    let mut headers = Modern::headers("tools/call", "{}");
    headers.push(("mcp-name", tool.to_owned()));
    headers
}

fn as_str<'a>(headers: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    headers.iter().map(|(name, value)| (*name, &**value)).collect()
}

async fn modern_call(client: &Modern, params: &str) -> (String, Bytes) {
    let sent = client.message("9007199254740993", "tools/call", params);
    let mut answer = client.raw(&as_str(&headers_of("echo")), sent.clone()).await;
    assert_eq!(answer.status, 200);
    let response = answer.response().await;
    (sent, response)
}

async fn legacy_call(client: &Legacy, params: &str) -> (String, Bytes) {
    let sent = format!(r#"{{"jsonrpc":"2.0","id":"é-1","method":"tools/call","params":{params}}}"#);
    let mut answer = client.raw(&[], sent.clone()).await;
    assert_eq!(answer.status, 200);
    let response = answer.response().await;
    (sent, response)
}

/// Not a text of `JSON.stringify`'s making: every character of base64, padded, with escaped solidi.
fn base64(bytes: usize) -> String {
    let text = "AZaz09+\\/QUJDRA".repeat(bytes / 14) + "==";
    format!(r#"{{"name":"echo","arguments":{{"data":"{text}","after":1.0}}}}"#)
}

async fn modern_passes(more: &[&str]) {
    let fixture = Fixture::listening("--http", &[&["--era", "modern"], more].concat());
    let gateway = Gateway::before(&[("up", &fixture)]);
    let (client, direct) = (gateway.modern(), Modern::new(fixture.address(), "/mcp", json!({})));
    for (name, params) in corpus() {
        let (sent, through) = modern_call(&client, &params).await;
        seen_as_sent(&fixture, &sent, &name).await;
        let (_, want) = modern_call(&direct, &params).await;
        assert_eq!(through, want, "{name}");
    }
    let (_, through) = modern_call(&client, &base64(1 << 20)).await;
    let (_, want) = modern_call(&direct, &base64(1 << 20)).await;
    assert!(want.len() > 2 << 20 && through == want, "1 MiB of base64");
}

async fn legacy_passes(more: &[&str]) {
    let fixture = Fixture::listening("--http", &[&["--era", "legacy"], more].concat());
    let gateway = Gateway::before(&[("up", &fixture)]);
    let direct = Legacy::begin(fixture.address(), "/mcp", "2025-11-25", json!({})).await;
    for client in [
        gateway.legacy("2025-11-25").await,
        gateway.legacy("2024-11-05").await,
        Legacy::without_session(gateway.address, "/mcp", Some("2025-06-18")),
    ] {
        for (name, params) in corpus() {
            let (sent, through) = legacy_call(&client, &params).await;
            seen_as_sent(&fixture, &sent, &name).await;
            let (_, want) = legacy_call(&direct, &params).await;
            assert_eq!(through, want, "{name}");
        }
        let (_, through) = legacy_call(&client, &base64(1 << 20)).await;
        let (_, want) = legacy_call(&direct, &base64(1 << 20)).await;
        assert!(want.len() > 2 << 20 && through == want, "1 MiB of base64");
    }
}

#[tokio::test]
async fn the_corpus_passes_between_modern_peers_byte_for_byte() {
    modern_passes(&[]).await;
}

#[tokio::test]
async fn the_corpus_passes_between_modern_peers_that_stream_byte_for_byte() {
    modern_passes(&["--always-sse"]).await;
}

#[tokio::test]
async fn the_corpus_passes_between_legacy_peers_byte_for_byte() {
    legacy_passes(&[]).await;
}

#[tokio::test]
async fn the_corpus_passes_between_legacy_peers_that_stream_byte_for_byte() {
    legacy_passes(&["--always-sse"]).await;
}

/// Among several upstreams the name is prefixed: its span changes, in place, and nothing else does.
#[tokio::test]
async fn the_corpus_passes_under_a_prefixed_name_byte_for_byte() {
    let (fixture, other) = (Fixture::listening("--http", &[]), Fixture::listening("--http", &[]));
    let gateway = Gateway::before(&[("up", &fixture), ("other", &other)]);
    let (client, direct) = (gateway.modern(), Modern::new(fixture.address(), "/mcp", json!({})));
    for (name, params) in corpus() {
        let params = params.replacen(r#""\u0065cho""#, r#""echo""#, 1);
        let prefixed = params.replacen(r#""echo""#, r#""up__echo""#, 1);
        let sent = client.message("1", "tools/call", &prefixed);
        let answer = client.raw(&as_str(&headers_of("up__echo")), sent.clone()).await.response().await;
        seen_as_sent(&fixture, &sent.replacen("up__echo", "echo", 1), &name).await;
        let sent = direct.message("1", "tools/call", &params);
        let want = direct.raw(&as_str(&headers_of("echo")), sent).await.response().await;
        assert_eq!(answer, want, "{name}");
    }
    assert!(other.seen_of("tools/call").await.is_empty());
}

/// A line of stdio holds no line breaks; between tokens of JSON a space stands for one.
#[tokio::test]
async fn the_corpus_passes_to_a_child_process_and_back_but_for_line_breaks_between_tokens() {
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let program = crate::harness::fixture_program();
    let child = json!({ "command": program, "args": ["--stdio", "--era", "modern"] });
    let gateway = Gateway::with_mcp_json(json!({ "mcpServers": { "up": child } }));
    let (client, direct) = (gateway.modern(), Modern::new(fixture.address(), "/mcp", json!({})));
    for (name, params) in corpus() {
        let params = params.replace(['\n', '\r'], " ");
        let (_, through) = modern_call(&client, &params).await;
        let (_, want) = modern_call(&direct, &params).await;
        assert_eq!(through, want, "{name}");
    }
}
