//! What comes back of a call.

use super::{Fault, UpstreamId};
use crate::wire::results::Gist;
use crate::wire::{Method, Raw, Span};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::oneshot;

/// One outcome, or events until the outcome. Dropping it cancels the call, upstream too.
pub enum Reply {
    One(Outcome),
    /// Ends with [`Event::Done`], always; nothing follows it.
    Stream(BoxStream<'static, Event>),
}

pub enum Event {
    Note(Note),
    Ask(Ask),
    /// The upstream closed its stream in mid-call, and is asked for the rest in a while (2025-11-25 transports, *Sending
    /// Messages*). A client that can resume may be let go as long; for others it means nothing.
    Pause,
    Done(Outcome),
}

/// A notification that belongs to the call: progress, a log message, a change.
#[derive(Clone, Debug)]
pub struct Note {
    pub method: Method,
    pub params: Raw,
    /// The upstream's own event id, where its stream can be resumed by it.
    pub at: Option<Bytes>,
}

impl Note {
    /// In place of [`Note::at`], of an acknowledgement of one who could not reach its upstream: it stands nowhere yet, and
    /// says by itself when it does.
    pub const NOWHERE_YET: &[u8] = b"nowhere yet";
}

/// A live question: the upstream call stays open, whoever holds the Reply holds it. A dropped `answer` refuses.
pub struct Ask {
    /// Who asks.
    pub upstream: UpstreamId,
    pub method: Method,
    pub params: Raw,
    /// The peer's result, or its error object.
    pub answer: oneshot::Sender<Result<Raw, Fault>>,
}

#[derive(Debug, Clone)]
pub enum Outcome {
    Result(Raw),
    InputRequired(InputRequired),
    Error(Fault),
}

/// The call is over; its state travels. `state` is its span in `result`, so that the edge reseals it in place.
#[derive(Debug, Clone)]
pub struct InputRequired {
    pub upstream: UpstreamId,
    pub result: Raw,
    pub state: Option<Span>,
}

impl Outcome {
    /// An outcome of `method` as a label. A tool that failed is told apart from a call that did.
    pub fn word(&self, method: &Method) -> &'static str {
        match self {
            Outcome::Result(result) if *method == Method::ToolsCall && Gist::of(result).is_failure => {
                "tool_error"
            }
            Outcome::Result(_) => "ok",
            Outcome::InputRequired(_) => "input_required",
            Outcome::Error(fault) => fault.word(),
        }
    }
}

impl Reply {
    pub fn result(result: Raw) -> Reply {
        Reply::One(Outcome::Result(result))
    }

    pub fn fault(fault: impl Into<Fault>) -> Reply {
        Reply::One(Outcome::Error(fault.into()))
    }

    /// The outcome, with notes let go and asks refused: for callers that can take neither.
    pub async fn outcome(self) -> Outcome {
        let mut events = match self {
            Reply::One(outcome) => return outcome,
            Reply::Stream(events) => events,
        };
        while let Some(event) = events.next().await {
            if let Event::Done(outcome) = event {
                return outcome;
            }
        }
        Outcome::Error(super::Reason::Cancelled.into())
    }

    /// The same reply as events.
    pub fn into_events(self) -> BoxStream<'static, Event> {
        match self {
            Reply::One(outcome) => futures_util::future::ready(Event::Done(outcome)).into_stream().boxed(),
            Reply::Stream(events) => events,
        }
    }
}
