//! Tools of MCP upstreams as operations.

use super::*;
use crate::{
    mcp::{Fault, Outcome, Reason, Reply, UpstreamId},
    wire::Raw,
};

const TOOLS: [&str; 2] = [
    r#"{"name": "find", "inputSchema": {"type": "object"}}"#,
    r#"{"name": "add", "inputSchema": {"type": "object"}}"#,
];

fn notes(pin: &str) -> Arc<Catalog> {
    let text = format!(
        "catalog: notes\nrevision: 1\ntitle: N\nsource: {{kind: mcp, url: https://notes.example.com/mcp{pin}}}\nentities:\n  Note: \
         {{key: [id], fields: {{id: string}}}}\noperations:\n  find: {{kind: search, entity: Note, text: query, mcp: {{tool: find, \
         arguments: {{query: text}}, rows: structured.notes}}, pages: {{style: cursor, send: cursor, take: structured.next}}}}\n  \
         add: {{kind: create, entity: Note, args: {{title: string, body: string}}, effect: {{class: write}}, mcp: {{tool: add, \
         arguments: {{title: args.title, body: args.body}}, row: json_text}}}}\n  drop: {{kind: action, entity: Note, effect: \
         {{class: write}}, mcp: {{tool: add, ack: text}}}}\n"
    );
    catalog::read(&text, Path::new("notes.yaml")).unwrap_or_else(|error| panic!("{error}")).catalog
}

/// An upstream whose tools all say this.
fn upstream(result: Json) -> Arc<scripted::Scripted> {
    let answer = move |_: &crate::mcp::Call| Reply::result(Raw::of(&result));
    Arc::new(scripted::Scripted::new("notes").0.answering(answer).listing(crate::mcp::Kind::Tool, &TOOLS))
}

async fn asked(backend: &Arc<scripted::Scripted>, asked: Ask) -> Result<Page, SourceError> {
    sources_with(&[], vec![backend.clone()]).ask(asked).await
}

#[tokio::test]
async fn rows_come_of_structured_content_and_of_json_in_a_text() {
    let backend = upstream(json!({
        "content": [{"type": "text", "text": "{\"id\": \"7\"}"}, {"type": "image"}, {"type": "text", "text": "done"}],
        "structuredContent": {"notes": [{"id": "1"}, {"id": "2"}], "next": "c1"},
    }));
    let notes = notes("");
    let find = Ask { text: Some("x".into()), ..ask(&notes, "find", json!({}), json!({})) };
    let page = asked(&backend, find.clone()).await.unwrap();
    assert_eq!(page.rows, [json!({"id": "1"}), json!({"id": "2"})]);
    asked(&backend, Ask { page: page.next, ..find }).await.unwrap();
    let add = asked(&backend, ask(&notes, "add", json!({}), json!({"title": "t"}))).await.unwrap();
    assert_eq!(add.rows, [json!({"id": "7"})]);
    let ack = asked(&backend, ask(&notes, "drop", json!({}), json!({}))).await.unwrap().ack;
    assert_eq!(ack.as_deref(), Some("{\"id\": \"7\"} done"));
    let sent: Vec<Json> =
        backend.calls().iter().map(|(_, params)| serde_json::from_str(params).unwrap()).collect();
    assert_eq!(sent[0], json!({"name": "find", "arguments": {"query": "x"}}));
    assert_eq!(sent[1]["arguments"], json!({"query": "x", "cursor": "c1"}));
    assert_eq!(sent[2]["arguments"], json!({"title": "t"}));
}

#[tokio::test]
async fn a_tool_that_fails_is_a_failure_in_its_words() {
    let backend = upstream(json!({"content": [{"type": "text", "text": "no such\nnote"}], "isError": true}));
    let error = asked(&backend, ask(&notes(""), "add", json!({}), json!({}))).await.unwrap_err();
    assert_eq!(error.message, "the tool failed: no such note");
    assert!(error.uncertain, "it may have done a part");
}

#[tokio::test]
async fn a_write_that_an_upstream_answers_with_an_error_may_have_been_made_unless_it_was_not_read() {
    for (code, uncertain) in
        [(-32603, true), (-32000, true), (-32602, false), (-32601, false), (-32700, false)]
    {
        let said = Raw::of(&json!({"code": code, "message": "no"}));
        let backend = scripted::Scripted::new("notes").0.listing(crate::mcp::Kind::Tool, &TOOLS);
        let backend =
            Arc::new(backend.answering(move |_| Reply::One(Outcome::Error(Fault::Upstream(said.clone())))));
        let error = asked(&backend, ask(&notes(""), "add", json!({}), json!({}))).await.unwrap_err();
        assert_eq!(error.uncertain, uncertain, "{code}");
    }
}

#[tokio::test]
async fn what_the_gateway_finds_of_a_call_says_whether_it_was_made() {
    let up = || UpstreamId::new("notes").unwrap();
    for (reason, kind, uncertain) in [
        (Reason::OutcomeUnknown { upstream: up() }, SourceErrorKind::Timeout, true),
        (Reason::Unreachable { upstream: up(), why: "away".into() }, SourceErrorKind::Timeout, false),
        (Reason::Busy { upstream: up() }, SourceErrorKind::Rate(None), false),
        (Reason::Connect { upstream: up(), url: "u".into(), by_url: false }, SourceErrorKind::Auth, false),
    ] {
        let backend = scripted::Scripted::new("notes").0.listing(crate::mcp::Kind::Tool, &TOOLS);
        let backend = Arc::new(backend.answering(move |_| Reply::fault(reason.clone())));
        let error = asked(&backend, ask(&notes(""), "add", json!({}), json!({}))).await.unwrap_err();
        assert_eq!((error.kind, error.uncertain), (kind, uncertain), "{}", error.message);
    }
}

#[tokio::test]
async fn a_tool_that_asks_its_user_is_refused_and_says_what_to_do() {
    let backend =
        scripted::Scripted::new("notes").0.listing(crate::mcp::Kind::Tool, &TOOLS).answering(|_| {
            let result = Raw::of(&json!({"resultType": "input_required"}));
            let upstream = UpstreamId::new("notes").unwrap();
            Reply::One(crate::mcp::Outcome::InputRequired(crate::mcp::InputRequired {
                upstream,
                result,
                state: None,
            }))
        });
    let error = asked(&Arc::new(backend), ask(&notes(""), "add", json!({}), json!({}))).await.unwrap_err();
    assert!(error.message.contains("call the tool itself"), "{error}");
}

#[tokio::test]
async fn a_definition_that_changes_is_told_or_refused_as_the_catalog_says() {
    for (pin, refused) in [("", false), (", tools_digest: pin", true)] {
        let backend = upstream(json!({"content": [{"type": "text", "text": "{\"id\": \"7\"}"}]}));
        let sources = sources_with(&[], vec![backend.clone()]);
        let notes = notes(pin);
        let add = ask(&notes, "add", json!({}), json!({}));
        assert!(sources.ask(add.clone()).await.unwrap().warnings.is_empty());
        let other = r#"{"name": "add", "inputSchema": {"type": "object", "required": ["x"]}}"#;
        backend
            .list_now(crate::mcp::Kind::Tool, scripted::listing(crate::mcp::Kind::Tool, &[TOOLS[0], other]));
        // Somebody lists the tools, as clients do; what is known is the new list from then on.
        backend.list(scripted::caller(), crate::mcp::Kind::Tool, crate::mcp::Age::Fresh).await.unwrap();
        let calls = backend.calls().len();
        match sources.ask(add).await {
            Ok(page) => assert!(!refused && page.warnings.len() == 1, "{page:?}"),
            Err(error) => assert!(refused && error.message.contains("pin") && !error.uncertain, "{error}"),
        }
        assert_eq!((calls, backend.calls().len()), (1, usize::from(!refused)));
    }
}
