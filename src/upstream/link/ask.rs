//! The requests that a legacy upstream makes in the middle of a call: given on as live asks, and their answers sent back
//! to the session that asked.

use super::begin::Job;
use super::hop::Hop;
use super::{Arc, Fault, Inner, Method};
use crate::mcp::Ask;
use crate::upstream::transport::{Route, Transport};
use crate::wire::params::Params;
use crate::wire::{Era, Id, Raw, Request, code, envelope, json};
use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;

/// The asks of one stream that are not answered yet. Dropping it forgets them: the call is over.
pub(super) struct Asks {
    link: Arc<Inner>,
    transport: Arc<dyn Transport>,
    route: Route,
    modern: bool,
    /// Whether what comes may be no question of this call, and would end it (see [`Asks::of_call`]).
    spared: Option<Method>,
    open: Vec<(Id, AbortHandle)>,
    /// Whether it was said already that a modern upstream asks.
    warned: bool,
    /// A place for each answer of our own that is on its way.
    answering: Arc<Semaphore>,
}

/// Questions that one stream may have open at once: more is no conversation.
const MOST: usize = 64;

impl Asks {
    pub(super) fn new(link: &Arc<Inner>, hop: &Hop, route: Route) -> Asks {
        Asks {
            link: link.clone(),
            transport: hop.transport.clone(),
            route: Route { headers: Vec::new(), ..route },
            modern: hop.is_modern(),
            spared: None,
            open: Vec::new(),
            warned: false,
            answering: Arc::new(Semaphore::new(MOST)),
        }
    }

    /// The asks in the answer to a caller's call. Over a channel no message says which call it belongs to, and servers
    /// ask on their own account too: for the roots, as soon as they are initialized. A question ends the call of a modern
    /// caller, which must lose none to what was no question of that call.
    pub(super) fn of_call(mut self, hop: &Hop, job: &Job) -> Asks {
        let guessed = hop.channel.is_some() && job.caller.version.era() == Era::Modern;
        self.spared = guessed.then(|| job.method.clone());
        self
    }

    /// The ask that a request of the upstream becomes; `None` where it is answered here, or may not be made.
    pub(super) fn ask(&mut self, request: Request) -> Option<Ask> {
        let Request { id, method, params } = request;
        if self.modern {
            // It may not ask this way (2026-07-28 transports, *Receiving Messages*), and there is no way to answer.
            if !std::mem::replace(&mut self.warned, true) {
                tracing::warn!(upstream = %self.link.id(), ?method, "a modern upstream sends requests");
            }
            return None;
        }
        self.open.retain(|(_, task)| !task.is_finished());
        let strays = |call: &Method| !call.may_ask() || method == Method::RootsList;
        match method {
            Method::Ping => {
                self.send(envelope::write_response(Some(&id), Ok(&Raw::trusted("{}"))));
                return None;
            }
            _ if self.spared.as_ref().is_some_and(strays) => {
                self.refuse(&id);
                return None;
            }
            // A shared link declared nothing, and nobody in particular could answer.
            Method::Elicit | Method::Sample | Method::RootsList
                if !self.link.config.stateless && self.open.len() < MOST => {}
            _ => {
                self.refuse(&id);
                return None;
            }
        }
        let (answer, answered) = oneshot::channel::<Result<Raw, Fault>>();
        let (transport, route, link, name) =
            (self.transport.clone(), self.route.clone(), self.link.clone(), id.clone());
        let task = self.link.tasks.spawn(async move {
            let message = match answered.await {
                Ok(Ok(result)) => envelope::write_response(Some(&name), Ok(&result)),
                Ok(Err(Fault::Upstream(error))) => envelope::write_response(Some(&name), Err(&error)),
                Ok(Err(Fault::Ours(reason))) => refusal(&name, &reason.to_string()),
                Err(_) => refusal(&name, "the client cannot answer this"),
            };
            if let Err(error) = transport.send(route, message).await {
                tracing::warn!(upstream = %link.id(), %error, "an answer did not reach an upstream");
            }
        });
        self.open.push((id, task.abort_handle()));
        Some(Ask { upstream: self.link.id().clone(), method, params: params.raw.clone(), answer })
    }

    /// The upstream no longer wants an answer: whoever holds the ask sees its receiver closed.
    pub(super) fn withdrawn(&mut self, params: &Params) {
        let Some(token) = params.token(&params.request_id) else { return };
        self.open.retain(|(id, task)| {
            let same = *id.token() == token;
            if same {
                task.abort();
            }
            !same
        });
    }

    /// Tells the upstream that nobody answers this.
    pub(super) fn refuse(&self, id: &Id) {
        self.send(refusal(id, "the client cannot answer this"));
    }

    /// An upstream that asks faster than it takes answers does not get all of them.
    fn send(&self, message: Bytes) {
        let Ok(place) = self.answering.clone().try_acquire_owned() else { return };
        let (sending, link) = (self.transport.send(self.route.clone(), message), self.link.clone());
        self.link.tasks.spawn(async move {
            let _place = place;
            if let Err(error) = sending.await {
                tracing::warn!(upstream = %link.id(), %error, "an answer did not reach an upstream");
            }
        });
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        for (_, task) in &self.open {
            task.abort();
        }
    }
}

fn refusal(id: &Id, why: &str) -> Bytes {
    let error = format!(r#"{{"code":{},"message":{}}}"#, code::INTERNAL, json::quote(why));
    envelope::write_response(Some(id), Err(&Raw::trusted(error)))
}
