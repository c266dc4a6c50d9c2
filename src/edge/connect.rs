//! A caller who has to connect an account is asked to in the form that their client takes: by URL elicitation (2026-07-28
//! MRTR, 2025-11-25 -32042), else by the link in the result. Once: who comes back and is not connected yet gets the link.

use super::state::Asker;
use crate::mcp::{Call, Fault, InputRequired, Outcome, Reason, Reply, UpstreamId};
use crate::wire::params::Params;
use crate::wire::{Era, Raw, Version};
use serde_json::json;
use std::sync::Arc;

/// The question's key, and the state that comes back with its answer.
const KEY: &str = "plasm-connect";

/// Takes the answer to such a question off a call, so that the upstream sees the call as it was. Whether there was one.
pub fn take_answer(call: &mut Call) -> bool {
    // Nearly no call answers a question at all.
    if call.resume.is_none() {
        return false;
    }
    let state = json!(KEY).to_string();
    let ours = call.resume.as_ref().and_then(|resume| resume.state.as_deref()) == Some(state.as_bytes());
    if ours {
        call.resume = None;
        let plain = call.params.raw.without(&["requestState", "inputResponses"]);
        if let Ok(params) = Params::read(plain) {
            call.params = params;
        }
    }
    ours
}

/// The reply, with the question in place of the fault where the client can be asked.
pub fn asked(asker: &Asker, reply: Reply) -> Reply {
    let Reply::One(Outcome::Error(Fault::Ours(Reason::Connect { upstream, url, .. }))) = reply else {
        return reply;
    };
    let caller = &asker.caller;
    let by_url = caller.client.opens_urls();
    match caller.version.era() {
        Era::Modern if by_url => Reply::One(Outcome::InputRequired(question(upstream, &url))),
        // Older versions know no such question.
        Era::Legacy => {
            let by_url = by_url && caller.version == Version::NEWEST_LEGACY;
            Reply::fault(Reason::Connect { upstream, url, by_url })
        }
        Era::Modern => Reply::fault(Reason::Connect { upstream, url, by_url: false }),
    }
}

fn question(upstream: UpstreamId, url: &Arc<str>) -> InputRequired {
    let params = json!({ "mode": "url", "url": url, "message": message(&upstream) });
    let head = format!(
        r#"{{"resultType":"input_required","inputRequests":{{"{KEY}":{{"method":"elicitation/create","params":{params}}}}},"requestState":"#
    );
    let state = json!(KEY).to_string();
    let span = head.len() as u32..(head.len() + state.len()) as u32;
    InputRequired { upstream, result: Raw::trusted(format!("{head}{state}}}")), state: Some(span) }
}

/// What the user is told.
pub fn message(upstream: &UpstreamId) -> String {
    format!("Connect your account at {upstream} to use its tools.")
}
