//! Calls that need the user's approval, in both eras.

use super::*;
use crate::mcp::{Event, InputRequired, Reply, Resume, UpstreamId};
use crate::wire::results::ResultView;
use bytes::Bytes;
use futures_util::StreamExt;

const WRITE: &str = r#"{"name":"write","arguments":{"path":"p","n":1}}"#;

fn guarded_by(up: Scripted, ground: Ground) -> Guarded {
    let rules = json!([{"name": "risky", "annotations": {"destructive": true}, "then": "approve"}]);
    Guarded::before(up, json!({"policy": {"rules": rules}}), ground)
}

fn guarded() -> Guarded {
    guarded_by(Scripted::new("up").0, ground())
}

fn elicits() -> Value {
    json!({"elicitation": {}})
}

/// The state that a result with questions bears, as the edge gives it back.
fn state_of(outcome: &Outcome) -> Bytes {
    match outcome {
        Outcome::InputRequired(asked) => {
            let span = asked.state.clone().expect("it bears a state");
            asked.result.text().slice(span.start as usize..span.end as usize)
        }
        other => panic!("{other:?}"),
    }
}

async fn retry(of: &Guarded, caller: &Arc<Caller>, params: &str, state: &Bytes, answers: Value) -> Outcome {
    let mut whole: Value = serde_json::from_str(params).unwrap();
    whole["requestState"] = "sealed by the edge".into();
    whole["inputResponses"] = answers.clone();
    let upstream = UpstreamId::new("up").unwrap();
    let resume = Resume { upstream, state: Some(state.clone()), answers: Raw::of(&answers) };
    let call = Call { resume: Some(Arc::new(resume)), ..call(caller, Method::ToolsCall, &whole.to_string()) };
    of.guard.call(call).await.outcome().await
}

fn yes() -> Value {
    json!({"plasm/approval": {"action": "accept", "content": {}}})
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Error(Fault::Ours(reason)) => reason.word(),
        Outcome::Result(_) => "ok",
        Outcome::InputRequired(_) => "input_required",
        Outcome::Error(Fault::Upstream(_)) => "upstream",
    }
}

#[tokio::test]
async fn a_modern_user_approves_one_call_once_and_nothing_else() {
    let ground = ground();
    let (here, there) =
        (guarded_by(Scripted::new("up").0, ground.clone()), guarded_by(Scripted::new("up").0, ground));
    let ann = modern(&access("a", "", json!({})), elicits());
    let asked = here.outcome(&ann, Method::ToolsCall, WRITE).await;
    let Outcome::InputRequired(InputRequired { result, .. }) = &asked else { panic!("{asked:?}") };
    let question: Value = result.read().unwrap();
    let params = &question["inputRequests"]["plasm/approval"]["params"];
    let message = params["message"].as_str().unwrap();
    assert!(message.contains("write") && message.contains(r#"{"path":"p","n":1}"#), "{message}");
    assert_eq!(params["requestedSchema"], json!({"type": "object", "properties": {}}));
    let state = state_of(&asked);
    here.up.forget();
    let others = [
        (modern(&access("b", "", json!({})), elicits()), WRITE, yes(), "bad_state"),
        (ann.clone(), r#"{"name":"write","arguments":{"path":"p","n":2}}"#, yes(), "bad_state"),
        (ann.clone(), r#"{"name":"admin","arguments":{"path":"p","n":1}}"#, yes(), "bad_state"),
        (ann.clone(), WRITE, json!({"plasm/approval": {"action": "decline"}}), "approval_refused"),
        (ann.clone(), WRITE, json!({"other": {"action": "accept"}}), "approval_refused"),
    ];
    for (caller, params, answers, want) in others {
        assert_eq!(word(&retry(&there, &caller, params, &state, answers).await), want, "{params}");
    }
    assert!(here.up.calls().is_empty() && there.up.calls().is_empty());
    // The order of keys is no other call; and any pod takes it.
    let again = r#"{"name":"write","arguments":{"n":1,"path":"p"}}"#;
    assert_eq!(word(&retry(&there, &ann, again, &state, yes()).await), "ok");
    assert_eq!(there.up.calls()[0].1, r#"{"arguments":{"n":1,"path":"p"},"name":"write"}"#);
    assert_eq!(word(&retry(&here, &ann, WRITE, &state, yes()).await), "bad_state", "it was used");
    assert!(here.up.calls().is_empty());
}

#[tokio::test]
async fn an_approval_of_arguments_that_no_parser_takes_is_for_them_alone() {
    let guarded = guarded();
    let ann = modern(&access("a", "", json!({})), elicits());
    let write = |path: &str| format!(r#"{{"name":"write","arguments":{{"path":"{path}","x":"\ud800"}}}}"#);
    let asked = guarded.outcome(&ann, Method::ToolsCall, &write("p")).await;
    let state = state_of(&asked);
    let retried = |path: &'static str| {
        let answers = yes();
        let params = write(path);
        let head = params.strip_suffix('}').unwrap();
        let params = format!(r#"{head},"requestState":"sealed","inputResponses":{answers}}}"#);
        let upstream = UpstreamId::new("up").unwrap();
        let resume = Resume { upstream, state: Some(state.clone()), answers: Raw::of(&answers) };
        Call { resume: Some(Arc::new(resume)), ..call(&ann, Method::ToolsCall, &params) }
    };
    let other = guarded.guard.call(retried("/etc/passwd")).await.outcome().await;
    assert_eq!(word(&other), "bad_state");
    assert_eq!(word(&guarded.guard.call(retried("p")).await.outcome().await), "ok");
}

#[tokio::test]
async fn who_cannot_be_asked_is_told_what_to_do() {
    let guarded = guarded();
    let ann = access("a", "", json!({}));
    let silent = modern(&ann, json!({}));
    assert_eq!(word(&guarded.outcome(&silent, Method::ToolsCall, WRITE).await), "approval_required");
    let sessionless = of(&ann, elicits(), Version::V2025_11_25, Kept::sessionless("k"));
    assert_eq!(word(&guarded.outcome(&sessionless, Method::ToolsCall, WRITE).await), "approval_required");
    assert_eq!(word(&guarded.outcome(&silent, Method::ToolsCall, r#"{"name":"read"}"#).await), "ok");
}

#[tokio::test]
async fn a_legacy_user_is_asked_while_the_call_stands() {
    let guarded = guarded();
    let ann = of(&access("a", "", json!({})), elicits(), Version::V2025_11_25, Kept::session("s"));
    for (answer, want) in [
        (Some(json!({"action": "accept", "content": {}})), "ok"),
        (Some(json!({"action": "cancel"})), "approval_refused"),
        (None, "approval_required"),
    ] {
        guarded.outcome(&ann, Method::ToolsCall, r#"{"name":"read"}"#).await;
        guarded.up.forget();
        let Reply::Stream(mut events) = guarded.guard.call(call(&ann, Method::ToolsCall, WRITE)).await else {
            panic!("it asks")
        };
        let Some(Event::Ask(ask)) = events.next().await else { panic!("it asks first") };
        assert_eq!(ask.method, Method::Elicit);
        assert!(guarded.up.calls().is_empty());
        if let Some(answer) = answer {
            ask.answer.send(Ok(Raw::of(&answer))).unwrap();
        } else {
            drop(ask);
        }
        let Some(Event::Done(outcome)) = events.next().await else { panic!("it ends") };
        assert_eq!(word(&outcome), want);
        assert_eq!(guarded.up.calls().len(), usize::from(want == "ok"));
    }
}

#[tokio::test]
async fn what_the_server_asks_in_an_approved_call_goes_on_under_the_same_approval() {
    let asks = |call: &Call| match &call.resume {
        Some(resume) => {
            let state = resume.state.clone().unwrap_or_default();
            Reply::result(Raw::trusted(format!(
                r#"{{"got":{},"params":{}}}"#,
                String::from_utf8_lossy(&state),
                String::from_utf8_lossy(&call.params.raw.to_bytes())
            )))
        }
        None => {
            let result = Raw::trusted(
                r#"{"resultType":"input_required","requestState":"own","inputRequests":{"q":{}}}"#,
            );
            let state = ResultView::of(&result).request_state;
            let upstream = UpstreamId::new("up").unwrap();
            Reply::One(Outcome::InputRequired(InputRequired { upstream, result, state }))
        }
    };
    let guarded = guarded_by(Scripted::new("up").0.answering(asks), ground());
    let ann = modern(&access("a", "", json!({})), elicits());
    let first = state_of(&guarded.outcome(&ann, Method::ToolsCall, WRITE).await);
    let second = retry(&guarded, &ann, WRITE, &first, yes()).await;
    let state = state_of(&second);
    assert!(!state.windows(3).any(|w| w == b"own"), "the server's state is within ours");
    let other = r#"{"name":"write","arguments":{"path":"/etc"}}"#;
    assert_eq!(word(&retry(&guarded, &ann, other, &state, json!({"q": {}})).await), "bad_state");
    match retry(&guarded, &ann, WRITE, &state, json!({"q": {"x": 1}})).await {
        Outcome::Result(result) => assert_eq!(result.read::<Value>().unwrap()["got"], "own"),
        other => panic!("{other:?}"),
    }
    guarded.up.forget();
    let again = retry(&guarded, &ann, WRITE, &state, json!({"q": {"x": 1}})).await;
    assert_eq!(word(&again), "bad_state", "each round is for once");
    assert!(guarded.up.calls().is_empty());
}
