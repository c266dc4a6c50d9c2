//! What a call's client is told, message by message, whatever carries the messages: its outcome, its notifications, the
//! end of a standing stream. Knows nothing of HTTP but the status that an outcome would have.

use super::{answer, dispatch, fill};
use crate::mcp::{Ask, Call, Caller, Fault, Note, Outcome, Reason};
use crate::telemetry::{End, Watch};
use crate::wire::params::Params;
use crate::wire::{Era, Id, Method, Raw, envelope, meta};
use bytes::Bytes;
use http::StatusCode;
use std::sync::Arc;

/// Writes what one call's client is told.
pub struct Writer {
    caller: Arc<Caller>,
    method: Method,
    id: Id,
    watch: Option<Arc<Watch>>,
}

impl Writer {
    /// For the call that the client sent under `id`.
    pub fn new(call: &Call, id: Id) -> Writer {
        Writer { caller: call.caller.clone(), method: call.method.clone(), id, watch: call.watch.clone() }
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn id(&self) -> &Id {
        &self.id
    }

    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Whether it is a stream that does not end by itself.
    pub fn is_standing(&self) -> bool {
        self.method == Method::Listen
    }

    /// The response, and the HTTP status where it is the whole answer.
    pub fn outcome(&self, outcome: Outcome) -> (StatusCode, Bytes) {
        let word = outcome.word(&self.method);
        if let (Some(watch), Outcome::Error(Fault::Ours(reason))) = (&self.watch, &outcome)
            && let Some(upstream) = reason.upstream()
        {
            watch.blame(upstream.as_str());
        }
        let mut rendered = answer::render(self.caller.version, &self.method, outcome);
        if self.caller.version.era() == Era::Modern {
            rendered.outcome = rendered.outcome.map(|result| fill::modern(&self.method, result));
        }
        let message = envelope::write_response(Some(&self.id), rendered.as_ref());
        if let Some(watch) = &self.watch {
            watch.end(End { outcome: word, code: rendered.code(), bytes: message.len() });
        }
        (rendered.status, message)
    }

    /// A notification of the call; of a standing stream it bears the subscription.
    pub fn note(&self, note: Note) -> Bytes {
        let mut params = note.params;
        if self.is_standing() {
            params = subscribed(params, &self.id);
        }
        let message = envelope::write_notification(&note.method, &params);
        if let Some(watch) = &self.watch {
            watch.told(message.len());
        }
        message
    }

    /// The end of a standing stream that this pod closes (2026-07-28 subscriptions, *Graceful Closure*).
    pub fn closure(&self) -> Bytes {
        let mut own = Raw::trusted("{}");
        own.insert_member(0, meta::SUBSCRIPTION_ID, self.id.token());
        let mut result = Raw::trusted(r#"{"resultType":"complete"}"#);
        result.insert_member(0, "_meta", &own.to_bytes());
        let result = fill::modern(&self.method, result);
        envelope::write_response(Some(&self.id), Ok(&result))
    }

    /// A question of a legacy upstream cannot be asked of a modern client while the call is open: the call ends with
    /// an answer that says so, at once.
    pub fn refusal(&self, ask: &Ask) -> Outcome {
        let reason = if self.caller.client.answers(&ask.method) {
            Reason::CannotBridge { upstream: ask.upstream.clone(), ask: ask.method.clone() }
        } else {
            let key = dispatch::capability_of(&ask.method).unwrap_or("experimental");
            Reason::MissingCapability(Raw::of(&serde_json::json!({key: {}})))
        };
        Outcome::Error(reason.into())
    }
}

/// Adds the subscription's id to a notification's `_meta` (2026-07-28 subscriptions, *Receiving Notifications*).
fn subscribed(params: Raw, id: &Id) -> Raw {
    match Params::read(params) {
        Ok(mut params) => {
            match params.meta.as_ref().and_then(|m| m.subscription_id.clone()) {
                Some(span) => params.raw.edit(span, id.to_bytes()),
                None => params.add_meta(&[(meta::SUBSCRIPTION_ID, id.to_bytes())]),
            }
            params.raw.clone()
        }
        Err(_) => Raw::trusted("{}"),
    }
}
