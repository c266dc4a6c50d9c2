//! Calls that one pod began and another ends: a link goes on with the upstream's own stream where there is one.

use super::*;
use plasm_mcp::mcp::{Track, Trail};

/// A call whose way is noted.
fn noted(call: Call) -> (Call, Arc<Trail>) {
    let trail = Arc::new(Trail::default());
    (Call { trail: Some(trail.clone()), ..call }, trail)
}

fn with_progress(caller: &Arc<Caller>, name: &str, arguments: Value) -> Call {
    let params = json!({ "name": name, "arguments": arguments, "_meta": { "progressToken": "mine" } });
    call(caller, Method::ToolsCall, params)
}

fn track(trail: &Trail) -> Track {
    let track = trail.track().1.expect("it was sent");
    // As it comes out of a store.
    serde_json::from_slice(&serde_json::to_vec(&track).unwrap()).unwrap()
}

#[tokio::test]
async fn a_call_is_gone_on_with_on_another_pod_from_its_last_event_and_made_once() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let (one, other) = (link(&fixture.url), link(&fixture.url));
    let caller = legacy("l");
    let (call, trail) = noted(with_progress(&caller, "progress", json!({ "steps": 6, "ms": 60 })));
    let mut first = events(one.call(call).await);
    let mut steps = Vec::new();
    let step = |note: &Note| {
        let params: Value = note.params.read().unwrap();
        assert_eq!(params["progressToken"], "mine");
        params["progress"].as_u64().unwrap()
    };
    for _ in 0..2 {
        let note = note(&mut first).await;
        trail.took(note.at.as_ref().map(|at| str::from_utf8(at).unwrap().into()));
        steps.push(step(&note));
    }
    let track = track(&trail);
    trail.let_go();
    drop((first, one));
    let rest = Call { params: Params::none(), ..with_progress(&caller, "progress", json!({})) };
    let mut rest = events(other.take_over(rest, track).await);
    let outcome = loop {
        match rest.next().await.expect("an outcome") {
            Event::Note(note) => steps.push(step(&note)),
            Event::Done(outcome) => break outcome,
            _ => panic!("neither a note nor the end"),
        }
    };
    assert_eq!(steps, [1, 2, 3, 4, 5, 6]);
    let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
    assert_eq!(text(&result.read().unwrap()), "6 steps");
    assert_eq!(seen(&fixture, "tools/call").await.len(), 1);
    assert_eq!(look(&fixture, "_stats").await["cancels"], json!([]), "what was let go is not cancelled");
}

#[tokio::test]
async fn a_call_that_has_told_nothing_yet_is_gone_on_with_from_its_priming_event() {
    let fixture = Fixture::listening("--http", &["--era", "legacy", "--always-sse"]);
    let (one, other) = (link(&fixture.url), link(&fixture.url));
    let caller = legacy("l");
    let (call, trail) = noted(tool(&caller, "slow_echo", json!({ "ms": 1500, "text": "late" })));
    let mut first = events(one.call(call).await);
    tokio::select! {
        _ = first.next() => panic!("it says nothing yet"),
        () = async { while trail.at().1.is_none() { trail.moved().await } } => {}
    }
    let track = track(&trail);
    trail.let_go();
    drop((first, one));
    let rest = Call { params: Params::none(), ..tool(&caller, "slow_echo", json!({})) };
    let outcome = other.take_over(rest, track).await.outcome().await;
    let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
    assert_eq!(text(&result.read().unwrap()), "late");
}

#[tokio::test]
async fn a_call_whose_stream_cannot_be_resumed_is_said_to_be_lost_and_not_made_again() {
    let ids = Fixture::listening("--http", &["--era", "legacy"]);
    let plain = Fixture::listening("--http", &["--era", "legacy", "--stateless", "--always-sse"]);
    for (fixture, forget) in [(&plain, false), (&ids, true)] {
        let (one, other) = (link(&fixture.url), link(&fixture.url));
        let caller = legacy("l");
        let (call, trail) = noted(with_progress(&caller, "progress", json!({ "steps": 50, "ms": 100 })));
        let mut first = events(one.call(call).await);
        let note = note(&mut first).await;
        trail.took(note.at.as_ref().map(|at| str::from_utf8(at).unwrap().into()));
        let track = track(&trail);
        assert_eq!(track.at.is_some(), forget);
        if forget {
            outcome(&one, tool(&caller, "forget_sessions", json!({}))).await;
        }
        trail.let_go();
        drop(first);
        let calls = seen(fixture, "tools/call").await.len();
        let rest = Call { params: Params::none(), ..tool(&caller, "progress", json!({})) };
        let lost = other.take_over(rest, track).await.outcome().await;
        assert_eq!(word(lost), "outcome_unknown");
        assert_eq!(seen(fixture, "tools/call").await.len(), calls);
    }
}
