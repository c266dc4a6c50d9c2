//! One request from its call to its answer.

use super::asks::{Asked, cancelled};
use super::legacy::Legacy;
use super::talk::Talk;
use crate::edge::modern_headers::{self, Misformed};
use crate::edge::writer::Writer;
use crate::edge::{dispatch, modern, seen};
use crate::mcp::{Call, Caller, Cancel, Event, Outcome, Reason};
use crate::session::Called;
use crate::telemetry::Carried;
use crate::wire::{Era, Method, Request};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use tokio::time::Instant;

impl Talk {
    /// The answer to a request; `None` where the client cancelled it. What precedes the answer is said on the way.
    pub async fn answer(
        self: &Arc<Self>,
        request: Request,
        legacy: Option<Arc<Legacy>>,
        called: &Called,
    ) -> Option<Bytes> {
        let id = request.id.clone();
        let caller = match &legacy {
            Some(legacy) => Ok(legacy.caller.clone()),
            None => self.modern_caller(&request),
        };
        let caller = match caller {
            Ok(caller) => caller,
            Err(fault) => return Some(fault.message(Some(&id))),
        };
        let seen = (&request.method, &request.params, &id);
        let watch = seen::arrives(&self.gate, &caller, seen, ("stdio", &Carried::default()));
        let call = Call {
            caller,
            progress: request.params.progress(),
            method: request.method,
            params: request.params,
            resume: None,
            trail: None,
            // What is cancelled is dropped here.
            cancel: Cancel::never(),
            deadline: Instant::now() + self.gate.rules.call,
            watch: Some(watch),
        };
        let write = Writer::new(&call, id);
        let answer = tokio::select! {
            biased;
            () = called.cancelled() => None,
            answer = self.run(call, legacy, write) => Some(answer),
        };
        answer.filter(|_| !called.is_cancelled())
    }

    fn modern_caller(&self, request: &Request) -> Result<Arc<Caller>, Misformed> {
        let version = modern_headers::spoken(&request.params)?;
        let client = Arc::new(modern::described(&request.params));
        let (access, profile) = (self.gate.own.clone(), self.mount.name.clone());
        let session = self.gate.sessions.pooled(access.principal.clone(), profile.clone(), client.clone());
        Ok(Arc::new(Caller { access, profile, client, version, session }))
    }

    async fn run(self: &Arc<Self>, call: Call, legacy: Option<Arc<Legacy>>, write: Writer) -> Bytes {
        if let (Some(legacy), Method::Initialize) = (&legacy, &call.method) {
            return write.outcome(legacy.handshake(self).await).1;
        }
        let caller = call.caller.clone();
        let uri = call.params.uri().map(|uri| uri.into_owned());
        let (first, rest) = dispatch::begin(self.gate.clone(), self.mount.clone(), call).await;
        let mut events = stream::iter(first).chain(rest);
        let mut asked = Asked::new(self);
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = self.closing.cancelled(), if write.is_standing() => return self.closed(&write).await,
            };
            match event {
                Some(Event::Note(note)) => self.pipe.say(write.note(note)).await,
                Some(Event::Ask(ask)) if caller.version.era() == Era::Legacy => asked.ask(&caller, ask).await,
                Some(Event::Ask(ask)) => return write.outcome(write.refusal(&ask)).1,
                Some(Event::Done(Outcome::Result(_) | Outcome::InputRequired(_))) if write.is_standing() => {
                    return self.closed(&write).await;
                }
                Some(Event::Done(outcome)) => {
                    if let (Some(legacy), Outcome::Result(_)) = (&legacy, &outcome) {
                        legacy.subscribe(write.method(), uri).await;
                    }
                    return write.outcome(outcome).1;
                }
                // A pipe cannot be let go.
                Some(Event::Pause) => {}
                // A backend that ends its stream without an outcome has lost the call.
                None => return write.outcome(Outcome::Error(Reason::Cancelled.into())).1,
            }
        }
    }

    /// The end of a standing stream from our side: its completion, then the cancel that stdio asks for
    /// (2026-07-28 cancellation and subscriptions, *Graceful Closure*).
    async fn closed(&self, write: &Writer) -> Bytes {
        self.pipe.say(write.closure()).await;
        cancelled(write.id(), "the server ends this subscription")
    }
}
