//! Approvals of calls by the user: asked for where the client can be asked, bound to principal, profile, tool and arguments,
//! good once and for a while. What travels meanwhile is sealed.

use super::arguments::told_apart;
use crate::mcp::{
    Ask, Call, Event, Fault, InputRequired, Outcome, Reason, Reply, Resume, Ruling, SessionId, UpstreamId,
};
use crate::sealing::{Keyring, Purpose};
use crate::store::{Check, Commit, Key, Store, Sure, Write};
use crate::wire::params::Params;
use crate::wire::results::ResultView;
use crate::wire::{Era, Method, Raw, json};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future, stream};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// The question's key in `inputRequests`.
const QUESTION: &str = "plasm/approval";
/// Characters of arguments that a question shows.
const SHOWN: usize = 600;

/// How approvals are asked for and remembered.
pub(super) struct Approvals {
    pub(super) keyring: Arc<Keyring>,
    pub(super) store: Arc<dyn Store>,
    pub(super) life: Duration,
}

/// What travels in `requestState`.
#[derive(Serialize, Deserialize)]
struct Ticket {
    /// Seconds since the epoch after which it is void.
    until: u64,
    /// Of the arguments.
    hash: String,
    once: String,
    /// The user's approval was given, and the server asked for more; its own state, if it gave one.
    given: Option<Option<String>>,
}

/// A call that needs approval, and what is approved.
pub(super) struct Asked<'a> {
    pub(super) upstream: &'a UpstreamId,
    /// The name that the upstream gives the tool, and the one that the client used.
    pub(super) tool: &'a str,
    pub(super) seen: &'a str,
    pub(super) ruling: &'a Ruling,
}

/// How the call goes on.
pub(super) enum Next {
    /// As this call, whose reply is passed through [`Granted::reply`].
    Go(Box<Call>, Granted),
    Answer(Reply),
    /// As the call that was given, once the question was answered with yes.
    After(Ask, oneshot::Receiver<Result<Raw, Fault>>),
}

/// An approval that was given: what the server asks for afterwards goes on under it.
pub(super) struct Granted {
    approvals: Arc<Approvals>,
    bound: Vec<u8>,
    /// Until when at least, and of which arguments.
    ticket: (u64, String),
}

impl Approvals {
    pub(super) async fn next(self: &Arc<Self>, call: &Call, asked: &Asked<'_>) -> Next {
        let bound = bound(call, asked);
        let hash = hash(&call.params);
        let modern = call.caller.version.era() == Era::Modern;
        if let Some(resume) = &call.resume {
            let ticket = resume.state.as_ref().and_then(|state| self.open(&bound, state));
            return match ticket.filter(|ticket| ticket.hash == hash) {
                Some(ticket) if ticket.until >= now() => {
                    self.resumed(call, bound, ticket, resume, asked).await
                }
                Some(_) if modern => self.question(call, &bound, hash, asked),
                // Of another call, or from before this needed approval.
                _ => Next::Answer(Reply::fault(Reason::BadState)),
            };
        }
        if !call.caller.client.answers(&Method::Elicit) {
            return Next::Answer(Reply::fault(Reason::NeedsApproval(Box::new(unaskable(asked.ruling)))));
        }
        match (modern, call.caller.session.id()) {
            (true, _) => self.question(call, &bound, hash, asked),
            (false, Some(_)) => {
                let (answer, answered) = oneshot::channel();
                let params = Raw::of(&question(&call.params, asked));
                let upstream = asked.upstream.clone();
                Next::After(Ask { upstream, method: Method::Elicit, params, answer }, answered)
            }
            (false, None) => {
                Next::Answer(Reply::fault(Reason::NeedsApproval(Box::new(unaskable(asked.ruling)))))
            }
        }
    }

    /// The call ends with the question; the client answers it and calls again (2026-07-28 MRTR).
    fn question(&self, call: &Call, bound: &[u8], hash: String, asked: &Asked<'_>) -> Next {
        let ticket = Ticket { until: now() + self.life.as_secs(), hash, once: random(), given: None };
        let mut params = question(&call.params, asked);
        params["mode"] = "form".into();
        let result = Raw::of(&serde_json::json!({
            "resultType": "input_required",
            "inputRequests": { QUESTION: {"method": Method::Elicit.as_str(), "params": params} },
            "requestState": self.seal(bound, &ticket),
        }));
        let state = ResultView::of(&result).request_state;
        let asked = InputRequired { upstream: asked.upstream.clone(), result, state };
        Next::Answer(Reply::One(Outcome::InputRequired(asked)))
    }

    async fn resumed(
        self: &Arc<Self>,
        call: &Call,
        bound: Vec<u8>,
        ticket: Ticket,
        resume: &Resume,
        asked: &Asked<'_>,
    ) -> Next {
        let Ticket { until, hash, once, given } = ticket;
        let granted = Granted { approvals: self.clone(), bound, ticket: (until, hash) };
        if given.is_none() && !accepts(&resume.answers, Some(QUESTION)) {
            return Next::Answer(Reply::fault(Reason::Unapproved(Box::new(refused(asked.ruling)))));
        }
        // Once, on whichever pod: an approval is for one call, and so is each round of it.
        let key = Key::new(format!("approved:{once}"), "");
        let life = Write::Live(self.life + Duration::from_secs(60));
        let writes = vec![(key.clone(), Write::set("by", asked.tool.to_owned())), (key.clone(), life)];
        match self.store.commit(vec![(key, Check::Absent)], writes, Sure::Replicas).await {
            Ok(Commit::Done(_)) => {}
            Ok(Commit::Failed { .. }) => return Next::Answer(Reply::fault(Reason::BadState)),
            Err(_) => return Next::Answer(Reply::fault(Reason::StoreAway)),
        }
        let call = match given {
            Some(inner) => continued(call, resume, inner),
            None => plain(call),
        };
        Next::Go(Box::new(call), granted)
    }

    /// Takes what travels of ours out of a call that may be made as it is.
    pub(super) fn settle(&self, call: &mut Call, asked: &Asked<'_>) {
        let Some(resume) = call.resume.clone() else { return };
        let bound = bound(call, asked);
        match resume.state.as_ref().and_then(|state| self.open(&bound, state)) {
            Some(Ticket { given: None, .. }) => *call = plain(call),
            Some(Ticket { given: Some(inner), .. }) => *call = continued(call, &resume, inner),
            None => {}
        }
    }

    fn seal(&self, bound: &[u8], ticket: &Ticket) -> String {
        let plain = serde_json::to_vec(ticket).expect("a struct of strings has a JSON form");
        self.keyring.seal(Purpose::Approval, bound, &plain)
    }

    /// `state`: a JSON string.
    fn open(&self, bound: &[u8], state: &Bytes) -> Option<Ticket> {
        let text = json::string(state, &(0..state.len() as u32))?;
        let plain = self.keyring.open(Purpose::Approval, bound, &text).ok()?;
        serde_json::from_slice(&plain).ok()
    }
}

impl Granted {
    /// What the server asks for in the middle of an approved call goes on under the same approval, with the same arguments.
    pub(super) fn outcome(&self, outcome: Outcome) -> Outcome {
        let Outcome::InputRequired(mut asked) = outcome else { return outcome };
        let inner = asked
            .state
            .as_ref()
            .map(|span| String::from_utf8_lossy(&asked.result.written(span)).into_owned());
        let (until, hash) = self.ticket.clone();
        // The time for answers is that of the questions; the edge bounds it anew.
        let until = until.max(now() + self.approvals.life.as_secs());
        let sealed =
            self.approvals.seal(&self.bound, &Ticket { until, hash, once: random(), given: Some(inner) });
        match asked.state.take() {
            Some(span) => asked.result.edit(span, json::quote(&sealed)),
            None => asked.result.insert_member(0, "requestState", json::quote(&sealed).as_bytes()),
        }
        let result = asked.result.flat();
        let state = ResultView::of(&result).request_state;
        Outcome::InputRequired(InputRequired { upstream: asked.upstream, result, state })
    }

    pub(super) fn reply(self, reply: Reply) -> Reply {
        match reply {
            Reply::One(outcome) => Reply::One(self.outcome(outcome)),
            Reply::Stream(events) => Reply::Stream(
                events
                    .map(move |event| match event {
                        Event::Done(outcome) => Event::Done(self.outcome(outcome)),
                        other => other,
                    })
                    .boxed(),
            ),
        }
    }
}

/// Asks while the call stands, and makes it by `go` once the user says yes.
pub(super) fn ask_first<F>(
    call: Call,
    life: Duration,
    ask: Ask,
    answered: oneshot::Receiver<Result<Raw, Fault>>,
    ruling: Ruling,
    go: impl FnOnce(Call) -> F + Send + 'static,
) -> Reply
where
    F: Future<Output = Reply> + Send + 'static,
{
    let asked = stream::once(future::ready(Event::Ask(ask)));
    let rest = async move {
        let (begun, cancel) = (Instant::now(), call.cancel.clone());
        let answer = tokio::select! {
            answer = answered => answer,
            () = cancel.cancelled() => return Reply::fault(Reason::Cancelled),
            () = sleep_until(begun + life) => return Reply::fault(Reason::Unapproved(Box::new(late(&ruling)))),
        };
        match answer {
            Ok(Ok(answer)) if accepts(&answer, None) => {
                // The user's time is not the call's.
                let deadline = call.deadline + begun.elapsed();
                go(Call { deadline, ..call }).await
            }
            Ok(Ok(_)) => Reply::fault(Reason::Unapproved(Box::new(refused(&ruling)))),
            // Nobody could be asked.
            Ok(Err(_)) | Err(_) => Reply::fault(Reason::NeedsApproval(Box::new(unaskable(&ruling)))),
        }
    };
    let rest = rest.map(Reply::into_events).flatten_stream();
    Reply::Stream(asked.chain(rest).boxed())
}

/// The message to the user, and a form with nothing to fill in.
fn question(params: &Params, asked: &Asked<'_>) -> serde_json::Value {
    let arguments = params.arguments.as_ref().map(|span| params.raw.written(span));
    let arguments = String::from_utf8_lossy(arguments.as_deref().unwrap_or(b"{}")).into_owned();
    let mut shown: String = arguments.chars().take(SHOWN).collect();
    if shown.len() < arguments.len() {
        shown.push('…');
    }
    let message = format!(
        "Approve this call?\n\nTool: {}\nServer: {}\nArguments: {shown}\n\nWhy you are asked: {}",
        asked.seen, asked.upstream, asked.ruling.why
    );
    serde_json::json!({ "message": message, "requestedSchema": {"type": "object", "properties": {}} })
}

/// Whether an answer says yes: `action` of an `ElicitResult`, under `key` where there are several.
fn accepts(answers: &Raw, key: Option<&str>) -> bool {
    let text = answers.to_bytes();
    let find = |at: u32, key: &str| {
        json::lax_members(&text, at).ok()?.into_iter().find(|m| m.is(key)).map(|m| m.value)
    };
    let at = match key {
        Some(key) => find(0, key).map(|span| span.start),
        None => Some(0),
    };
    let action = at.and_then(|at| find(at, "action"));
    action.and_then(|span| json::string(&text, &span)).is_some_and(|action| action == "accept")
}

fn unaskable(ruling: &Ruling) -> Ruling {
    let how = "This call needs the approval of its user, and this client cannot ask for it: use a client that supports elicitation, or \
               ask an operator to allow the call";
    Ruling { instead: Some(ruling.instead.clone().unwrap_or_else(|| how.to_owned())), ..ruling.clone() }
}

fn refused(ruling: &Ruling) -> Ruling {
    let what = "The user did not approve the call. Do not make it again unless the user asks for it";
    Ruling { instead: Some(what.to_owned()), ..ruling.clone() }
}

fn late(ruling: &Ruling) -> Ruling {
    let what = "The user did not answer in time. Ask the user, then make the call again";
    Ruling { instead: Some(what.to_owned()), ..ruling.clone() }
}

/// The call without anything of a retry.
fn plain(call: &Call) -> Call {
    let params = without(&call.params, &["requestState", "inputResponses"]);
    Call { params, resume: None, ..call.clone() }
}

/// The call as a retry of what the server asked for, with the server's own state.
fn continued(call: &Call, resume: &Resume, state: Option<String>) -> Call {
    let params = match state {
        Some(_) => call.params.clone(),
        None => without(&call.params, &["requestState"]),
    };
    let (upstream, answers) = (resume.upstream.clone(), resume.answers.clone());
    let resume = Resume { upstream, state: state.map(Bytes::from), answers };
    Call { params, resume: Some(Arc::new(resume)), ..call.clone() }
}

/// The params without some members.
fn without(params: &Params, keys: &[&str]) -> Params {
    Params::read(params.raw.without(keys)).unwrap_or_else(|_| params.clone())
}

/// What an approval holds for besides the arguments.
fn bound(call: &Call, asked: &Asked<'_>) -> Vec<u8> {
    let (principal, profile) = (call.caller.principal().identity(), &call.caller.profile);
    let session = call.caller.session.id().map(SessionId::as_str).unwrap_or_default();
    format!("{principal}/{profile}/{session}/{}/{}", asked.upstream, asked.tool).into_bytes()
}

/// Of the arguments, in whatever order their keys stand.
fn hash(params: &Params) -> String {
    let arguments = params.arguments.as_ref().map(|span| told_apart(&params.raw.written(span)));
    URL_SAFE_NO_PAD.encode(digest(&SHA256, &arguments.unwrap_or_default()))
}

fn random() -> String {
    let mut bits = [0; 16];
    aws_lc_rs::rand::fill(&mut bits).expect("the system's random source does not fail once it is seeded");
    URL_SAFE_NO_PAD.encode(bits)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
