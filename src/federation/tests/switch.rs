//! A profile whose parts change under its standing streams.

use super::*;
use crate::federation::{Switch, Touched};
use crate::mcp::Event;
use futures_util::{FutureExt, StreamExt};

async fn method(events: &mut futures_util::stream::BoxStream<'static, Event>) -> Method {
    match events.next().await {
        Some(Event::Note(note)) => note.method,
        _ => panic!("no note"),
    }
}

#[tokio::test]
async fn a_standing_stream_moves_without_a_gap_and_says_what_may_have_changed() {
    let ((a, mut at_a), (b, mut at_b)) = (Scripted::new("a"), Scripted::new("b"));
    let parts = |backend: &Arc<Scripted>| Composite::new(profile(vec![of(backend.clone())]));
    let (a, b) = (Arc::new(a), Arc::new(b));
    let switch = Switch::new(parts(&a));
    let filter = r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true}}"#;
    let mut events = switch.call(scripted::call(Method::Listen, filter)).await.into_events();
    let (first, at_first) = tokio::join!(method(&mut events), async {
        let at = at_a.recv().await.unwrap();
        at.acknowledge(r#"{"toolsListChanged":true}"#).await;
        at
    });
    assert_eq!(first, Method::Acknowledged);

    switch.turn(parts(&b), Touched { tools: true, ..Touched::default() });
    let (second, at_second) = tokio::join!(method(&mut events), async {
        let at = at_b.recv().await.unwrap();
        // Until the new parts acknowledge, those of before are heard; what both say counts once.
        at.note(Method::PromptsChanged, "{}").await;
        at_first.note(Method::PromptsChanged, "{}").await;
        at
    });
    assert_eq!(second, Method::PromptsChanged);
    let (third, ()) = tokio::join!(method(&mut events), at_second.acknowledge("{}"));
    assert_eq!(third, Method::ToolsChanged, "what was touched, and no second acknowledgement");
    assert!(events.next().now_or_never().is_none(), "and nothing else");
    assert!(at_first.say.is_closed());
    let (fourth, ()) = tokio::join!(method(&mut events), at_second.note(Method::ToolsChanged, "{}"));
    assert_eq!(fourth, Method::ToolsChanged);
    let call = switch.call(scripted::call(Method::ToolsCall, r#"{"name":"t"}"#)).await;
    assert!(
        matches!(call.outcome().await, Outcome::Result(result) if result.to_bytes().starts_with(b"{\"by\":\"b\""))
    );
}
