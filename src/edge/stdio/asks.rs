//! What upstreams ask of a legacy client: requests under ids of our own, and the way of their answers.

use super::talk::Talk;
use crate::mcp::{Ask, Caller, Fault};
use crate::wire::{Id, Method, Raw, Response, envelope};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

type Answer = oneshot::Sender<Result<Raw, Fault>>;

#[derive(Default)]
pub struct Asks {
    count: AtomicU64,
    /// By the token of the id that we gave.
    pending: Mutex<HashMap<Bytes, Answer>>,
}

impl Asks {
    fn pending(&self) -> MutexGuard<'_, HashMap<Bytes, Answer>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client's answer. One to nothing that we asked, or to what was answered before, is ignored.
    pub fn answer(&self, response: Response) {
        let answer = response.id.and_then(|id| self.pending().remove(id.token()));
        match answer {
            // Who asked may have given up meanwhile; the client did its part.
            Some(answer) => drop(answer.send(response.outcome.map_err(Fault::Upstream))),
            None => tracing::debug!("a response to no request of ours was ignored"),
        }
    }
}

/// What one call asked. Whatever is unanswered when it is dropped is taken back.
pub struct Asked {
    talk: Arc<Talk>,
    ids: Vec<Id>,
}

impl Asked {
    pub fn new(talk: &Arc<Talk>) -> Asked {
        Asked { talk: talk.clone(), ids: Vec::new() }
    }

    /// Asks the client, if it declared that it answers; else the upstream is refused at once.
    pub async fn ask(&mut self, caller: &Caller, ask: Ask) {
        if !caller.client.answers(&ask.method) {
            tracing::debug!(upstream = %ask.upstream, method = ?ask.method, "the client takes no such request");
            return;
        }
        let asks = &self.talk.asks;
        {
            let mut pending = asks.pending();
            pending.retain(|_, answer| !answer.is_closed());
            self.ids.retain(|id| pending.contains_key(id.token()));
        }
        let id = Id::of_str(&format!("plasm-{}", asks.count.fetch_add(1, Ordering::Relaxed)));
        asks.pending().insert(id.to_bytes(), ask.answer);
        self.ids.push(id.clone());
        self.talk.pipe.say(envelope::write_request(&id, &ask.method, &ask.params)).await;
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let void: Vec<Id> = {
            let mut pending = self.talk.asks.pending();
            self.ids.drain(..).filter(|id| pending.remove(id.token()).is_some()).collect()
        };
        if void.is_empty() {
            return;
        }
        let talk = self.talk.clone();
        self.talk.tasks.spawn(async move {
            for id in void {
                talk.pipe.say(cancelled(&id, "the call that asked has ended")).await;
            }
        });
    }
}

/// Tells the client that a request is over.
pub fn cancelled(id: &Id, reason: &str) -> Bytes {
    let mut params = Raw::of(&serde_json::json!({ "reason": reason }));
    params.insert_member(0, "requestId", id.token());
    envelope::write_notification(&Method::Cancelled, &params)
}
