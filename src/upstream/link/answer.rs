//! From an upstream's answer to a reply: notes with the caller's own token, live asks, and the outcome.

use super::ask::Asks;
use super::begin::{Begun, Job};
use super::hop::Hop;
use super::trouble::Trouble;
use super::{Arc, Inner, Method, Note, Outcome, Reply};
use crate::mcp::Place;
use crate::mcp::{Cancel, Event, InputRequired, Reason};
use crate::upstream::transport::{Answer, Incoming, TransportError};
use crate::wire::results::{Gist, ResultView};
use crate::wire::{Era, Message, Notification, Raw, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

/// The severities of `notifications/message`, from the least (RFC 5424).
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The reply to a begun request. `place` is held until it is over.
pub(super) fn reply(
    link: &Arc<Inner>,
    job: &Job,
    begun: Begun,
    cancel: Cancel,
    place: Option<Place>,
) -> Reply {
    let Begun { answered, hop, progress } = begun;
    let messages = match answered.answer {
        Answer::One(incoming) => return Reply::One(outcome_of(link, &job.method, incoming)),
        Answer::Stream(messages) => messages,
    };
    let flow = Flow {
        messages,
        cancel,
        token: job.progress.clone(),
        least: log_level(job),
        method: job.method.clone(),
        asks: Asks::new(link, &hop, link.route(&job.caller, &hop, Vec::new())).of_call(&hop, job),
        link: link.clone(),
        hop,
        progress,
        _place: place,
    };
    let events = futures_util::stream::unfold(Some(flow), |flow| async {
        let mut flow = flow?;
        let event = flow.next().await;
        let over = matches!(event, Event::Done(_));
        Some((event, (!over).then_some(flow)))
    });
    Reply::Stream(events.boxed())
}

fn outcome_of(link: &Inner, method: &Method, incoming: Incoming) -> Outcome {
    match incoming.message {
        Message::Response(response) => outcome(link, method, response),
        _ => {
            let why = "a message that is no answer".into();
            Outcome::Error(Reason::Garbage { upstream: link.id().clone(), why }.into())
        }
    }
}

fn outcome(link: &Inner, method: &Method, response: Response) -> Outcome {
    let result = match response.outcome {
        Ok(result) => result,
        Err(error) => return Outcome::Error(crate::mcp::Fault::Upstream(error)),
    };
    if method.may_ask() && Gist::of(&result).is_input_required {
        let (upstream, state) = (link.id().clone(), ResultView::of(&result).request_state);
        return Outcome::InputRequired(InputRequired { upstream, state, result });
    }
    match link.is_personal() && method.is_cacheable() {
        true => Outcome::Result(narrowed(result)),
        false => Outcome::Result(result),
    }
}

/// What came by a caller's own credential is that caller's alone, and old at once, whatever it says of itself.
fn narrowed(mut result: Raw) -> Raw {
    let view = ResultView::of(&result);
    if let Some(ttl) = view.ttl {
        result.edit(ttl, "0");
    }
    if let Some(scope) = view.scope {
        result.edit(scope, "\"private\"");
    }
    result
}

/// The least severity whose messages a modern caller wants of a legacy session, which knows but one for all its calls:
/// none where it names none. `None`: the caller is legacy and its session's level holds.
fn log_level(job: &Job) -> Option<usize> {
    if job.caller.version.era() == Era::Legacy {
        return None;
    }
    let level = job.params.meta.as_ref().and_then(|meta| job.params.string(&meta.log_level));
    Some(level.map_or(LEVELS.len(), |level| rank(&level)))
}

/// A level that is none counts as the least.
fn rank(level: &str) -> usize {
    LEVELS.iter().position(|known| *known == level).unwrap_or(0)
}

/// An answer that comes in several messages.
struct Flow {
    link: Arc<Inner>,
    hop: Hop,
    /// The request's progress token, which is ours.
    progress: Option<Bytes>,
    method: Method,
    messages: BoxStream<'static, Result<Incoming, TransportError>>,
    cancel: Cancel,
    /// The caller's progress token, where it gave one.
    token: Option<Bytes>,
    least: Option<usize>,
    asks: Asks,
    _place: Option<Place>,
}

impl Flow {
    async fn next(&mut self) -> Event {
        loop {
            let item = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Event::Done(Outcome::Error(Reason::Cancelled.into())),
                item = self.messages.next() => item.unwrap_or(Err(TransportError::Broken)),
            };
            let incoming = match item {
                Ok(incoming) => incoming,
                Err(TransportError::Paused) => return Event::Pause,
                Err(error) => {
                    let fault = self.link.failed(Trouble::Way(error), self.method.is_safe());
                    return Event::Done(Outcome::Error(fault));
                }
            };
            match incoming.message {
                Message::Response(response) => {
                    return Event::Done(outcome(&self.link, &self.method, response));
                }
                Message::Notification(note) => {
                    if let Some(note) = self.note(note, incoming.at) {
                        return Event::Note(note);
                    }
                }
                Message::Request(request) => {
                    if let Some(ask) = self.asks.ask(request) {
                        return Event::Ask(ask);
                    }
                }
            }
        }
    }

    /// The note as the caller is to have it; `None` where it is not the caller's.
    fn note(&mut self, note: Notification, at: Option<Bytes>) -> Option<Note> {
        let Notification { method, params } = note;
        let mut raw = params.raw.clone();
        match &method {
            Method::Progress => {
                let span = params.progress_token.clone()?;
                if params.token(&params.progress_token) != self.progress {
                    return None;
                }
                raw.edit(span, self.token.clone()?);
            }
            Method::Cancelled => {
                self.asks.withdrawn(&params);
                return None;
            }
            Method::LogMessage if !self.hop.is_modern() => {
                if self.least.is_some_and(|least| severity(&raw) < least) {
                    return None;
                }
            }
            _ => self.link.heard(&method),
        }
        Some(Note { method, params: raw, at })
    }
}

fn severity(params: &crate::wire::Raw) -> usize {
    let text = params.text();
    let members = crate::wire::json::lax_members(text, 0).unwrap_or_default();
    let level = members.iter().find(|m| m.is("level")).and_then(|m| params.string(&m.value));
    level.map_or(0, |level| rank(&level))
}
