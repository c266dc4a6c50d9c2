//! A JSON-RPC multiplexer: many callers' requests over one duplex channel of messages (a child's pipes, an HTTP+SSE
//! stream). Knows nothing of processes, sockets or framing: whoever owns the channel hands in what the upstream said
//! ([`Channel::take`]) and sends what comes out of [`Outbound`].
//!
//! What the upstream says is taken without ever waiting, so that neither a reader that stalls nor an upstream that
//! does not read holds up anybody else. What a request has unread is bounded by the limit of one message: beyond it
//! progress and log messages are dropped, asks are refused, and any other note breaks that one request off; its
//! response always has room.

mod flights;
mod pending;
#[cfg(test)]
mod tests;

use super::transport::{Answer, Answered, Incoming, Outgoing, Route, Sent, Transport, TransportError};
use crate::wire::envelope::{read_upstream, write_request};
use crate::wire::{Id, Message, Method, Raw, code, envelope, json};
use bytes::Bytes;
use flights::{Flights, Turn};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use pending::Pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// Bytes that may wait for an upstream that reads slowly; then callers wait.
const QUEUE_BYTES: usize = 8 << 20;
/// What a message counts for in the queue at least, which bounds their number.
const QUEUE_LEAST: usize = 4 << 10;
/// Room for what must not wait: cancels, refusals, answers to pings.
const QUEUE_URGENT: usize = 1024;
/// Messages that a standing stream may lag behind, and the size of one: larger ones are dropped, so that all that is
/// kept for streams is bounded. Change notifications are far smaller.
const STANDING: usize = 256;
const STANDING_BYTES: usize = 64 << 10;
/// So many lines in a row that are no messages: the peer speaks something else.
const GARBAGE: u32 = 1000;
/// A batch (2025-03-26) of more members than this is garbage.
const BATCH: usize = 1000;

/// What one message of the upstream may be.
#[derive(Clone, Copy, Debug)]
pub struct MessageLimits {
    pub bytes: usize,
    /// Levels of JSON.
    pub depth: u16,
}

impl Default for MessageLimits {
    fn default() -> MessageLimits {
        MessageLimits { bytes: 16 << 20, depth: 128 }
    }
}

/// What is to be sent to the upstream, in the order it was said.
pub type Outbound = mpsc::Receiver<Out>;

/// One message on its way to the upstream.
pub struct Out {
    pub message: Bytes,
    /// The request that it is, for [`Channel::fail`].
    pub id: Option<Id>,
    /// Headers of its route, for channels that send by HTTP.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    _room: Option<OwnedSemaphorePermit>,
}

pub struct Channel {
    core: Arc<Core>,
}

struct Core {
    /// The upstream's name, for logs.
    name: Arc<str>,
    limits: MessageLimits,
    state: Mutex<State>,
    room: Arc<Semaphore>,
    gone: CancellationToken,
}

struct State {
    flights: Flights,
    /// `None` once the channel is closed, as is `standing`.
    out: Option<mpsc::Sender<Out>>,
    standing: Option<broadcast::Sender<Incoming>>,
    used: Instant,
    /// Lines in a row that were no messages, and in all.
    garbage: (u32, u64),
}

impl Channel {
    /// A channel of the upstream `name`, and what is to be sent on it.
    pub fn new(name: &str, limits: MessageLimits) -> (Arc<Channel>, Outbound) {
        let (out, outbound) = mpsc::channel(QUEUE_BYTES / QUEUE_LEAST + QUEUE_URGENT);
        let state = State {
            flights: Flights::new(limits.bytes),
            out: Some(out),
            standing: Some(broadcast::channel(STANDING).0),
            used: Instant::now(),
            garbage: (0, 0),
        };
        let core = Core {
            name: name.into(),
            limits,
            state: Mutex::new(state),
            room: Arc::new(Semaphore::new(QUEUE_BYTES)),
            gone: CancellationToken::new(),
        };
        (Arc::new(Channel { core: Arc::new(core) }), outbound)
    }

    pub fn limits(&self) -> MessageLimits {
        self.core.limits
    }

    /// Takes one message of the upstream, or a batch of them. Never waits. What is no message is logged and skipped.
    pub fn take(&self, text: Bytes) {
        let core = &*self.core;
        let first = text.iter().find(|b| !b.is_ascii_whitespace());
        if first != Some(&b'[') {
            return core.take(text);
        }
        let members = json::check(&text, core.limits.depth).map(|span| json::elements(&text, span.start));
        match members {
            Ok(Some(members)) if members.len() <= BATCH => {
                members.into_iter().for_each(|m| core.take(text.slice(m.start as usize..m.end as usize)));
            }
            _ => core.garbage(&text, "not a batch of messages"),
        }
    }

    /// Takes note of a message that was too long to keep: what stood at its two ends, to find whose answer it was.
    pub fn take_too_long(&self, head: &[u8], tail: &[u8]) {
        let limit = self.core.limits.bytes;
        tracing::warn!(upstream = %self.core.name, limit, "skipped a message over the limit");
        self.core.state().flights.lose(head, tail, TransportError::TooLarge(limit));
    }

    /// Fails one request in flight: its message did not reach the upstream.
    pub fn fail(&self, id: &Id, why: TransportError) {
        self.core.state().flights.fail(id, why);
    }

    /// Nothing more can be carried: all in flight fails for the reason given, and `gone()` resolves.
    pub fn end(&self, why: TransportError) {
        self.core.end(why);
    }

    pub fn is_gone(&self) -> bool {
        self.core.gone.is_cancelled()
    }

    /// Since when nobody uses the channel; `None` while a request is in flight or a standing stream is open.
    pub fn idle_since(&self) -> Option<Instant> {
        let state = self.core.state();
        state.is_idle().then_some(state.used)
    }

    /// Closes the channel where nobody uses it; whether it did. A request is either in flight before, and then the channel
    /// stays, or is refused as not sent: never is one that may have begun taken for one that has not.
    pub fn end_if_idle(&self) -> bool {
        {
            let mut state = self.core.state();
            if !state.is_idle() {
                return false;
            }
            state.out = None;
        }
        self.core.end(closed());
        true
    }

    /// Counts as a use, so that a channel that was just given out is not taken for idle.
    pub fn touch(&self) {
        self.core.state().used = Instant::now();
    }
}

impl Core {
    /// Nothing panics while it holds the lock but by a defect; then the state is still the best there is.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, text: Bytes) {
        let size = text.len();
        let message = match read_upstream(text.clone(), self.limits.depth) {
            Ok(message) => message,
            Err(refused) => {
                if let Some(id) = &refused.id {
                    self.state().flights.fail(id, TransportError::Garbage(refused.why.clone().into()));
                }
                return self.garbage(&text, &refused.why);
            }
        };
        let mut state = self.state();
        state.garbage.0 = 0;
        match state.flights.route(message, size) {
            Turn::Done => {}
            Turn::Say(message) => state.say(message, &self.name),
            Turn::Standing(message) => {
                if size > STANDING_BYTES {
                    tracing::warn!(upstream = %self.name, size, "dropped a notification of no call over the limit");
                } else if let Some(standing) = &state.standing {
                    // Nobody listens: then nobody missed it.
                    let _ = standing.send(Incoming { message: *message, at: None });
                }
            }
        }
    }

    fn garbage(&self, text: &[u8], why: &str) {
        let (row, all) = {
            let mut state = self.state();
            state.garbage.0 += 1;
            state.garbage.1 += 1;
            state.garbage
        };
        // The first ones tell what is wrong; after them the count does.
        if all <= 8 || all.is_power_of_two() {
            // What begins like a message may hold what belongs into no log.
            let shown =
                if matches!(text.first(), Some(b'{' | b'[')) { &[] } else { &text[..text.len().min(120)] };
            let shown = String::from_utf8_lossy(shown);
            tracing::warn!(upstream = %self.name, why, count = all, size = text.len(), line = ?shown, "skipped what is no message");
        }
        if row >= GARBAGE {
            self.end(TransportError::Garbage("it says what are no messages".into()));
        }
    }

    fn end(&self, why: TransportError) {
        {
            let mut state = self.state();
            state.out = None;
            state.standing = None;
            state.flights.end(&why);
        }
        self.room.close();
        self.gone.cancel();
    }

    /// Queues a message once there is room. Errors: nothing was sent.
    async fn post(
        &self,
        message: Bytes,
        id: Option<Id>,
        headers: Vec<(http::HeaderName, http::HeaderValue)>,
        deadline: Instant,
    ) -> Result<(), TransportError> {
        let size = message.len().clamp(QUEUE_LEAST, QUEUE_BYTES) as u32;
        let room = match timeout_at(deadline, self.room.clone().acquire_many_owned(size)).await {
            Ok(Ok(room)) => room,
            Ok(Err(_)) => return Err(closed()),
            Err(_) => return Err(TransportError::Busy),
        };
        let state = self.state();
        let out = state.out.as_ref().ok_or_else(closed)?;
        out.try_send(Out { message, id, headers, _room: Some(room) }).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => TransportError::Busy,
            mpsc::error::TrySendError::Closed(_) => closed(),
        })
    }
}

impl State {
    fn is_idle(&self) -> bool {
        let listeners = self.standing.as_ref().map_or(0, |s| s.receiver_count());
        self.flights.is_empty() && listeners == 0
    }

    /// Queues what must not wait. An upstream that has left so many of them unread does not miss one more.
    fn say(&self, message: Bytes, name: &str) {
        let Some(out) = &self.out else { return };
        let out = out.try_send(Out { message, id: None, headers: Vec::new(), _room: None });
        if let Err(mpsc::error::TrySendError::Full(_)) = out {
            tracing::warn!(upstream = name, "does not read: an answer or a cancel to it was dropped");
        }
    }
}

fn closed() -> TransportError {
    TransportError::Unreachable("it hung up before it answered".into())
}

/// The answer to an ask that reaches nobody.
fn refusal(ask: &Id, why: &str) -> Bytes {
    let error = serde_json::json!({ "code": code::INTERNAL, "message": why });
    envelope::write_response(Some(ask), Err(&Raw::of(&error)))
}

fn cancel(id: &Id) -> Bytes {
    let params = [&b"{\"requestId\":"[..], id.token(), b"}"].concat();
    envelope::write_notification(&Method::Cancelled, &Raw::trusted(params))
}

impl Transport for Channel {
    fn request(&self, route: Route, request: Outgoing) -> Sent<Answered> {
        let core = self.core.clone();
        Box::pin(async move {
            let message = write_request(&request.id, &request.method, &request.params);
            let (id, deadline) = (request.id.clone(), request.deadline);
            let mut pending = Pending::enter(core.clone(), route.who, request)?;
            core.post(message, Some(id), route.headers, deadline).await?;
            pending.sent();
            let first = pending.next().await?;
            let answer = match first.message {
                Message::Response(_) => Answer::One(first),
                _ => Answer::Stream(stream::iter([Ok(first)]).chain(pending.rest()).boxed()),
            };
            Ok(Answered { answer, session: None })
        })
    }

    /// Resolves when the message is queued: order is kept, arrival is the upstream's to show.
    fn send(&self, route: Route, message: Bytes) -> Sent<()> {
        let core = self.core.clone();
        Box::pin(async move {
            // A notification has no deadline of its own, and an upstream that reads nothing for so long is stuck.
            let deadline = Instant::now() + std::time::Duration::from_secs(30);
            core.state().used = Instant::now();
            core.post(message, None, route.headers, deadline).await
        })
    }

    /// From now on: a shared channel has no event ids, so nothing is replayed. A reader that lags behind gets
    /// `Broken`, and the stream ends.
    fn standing(
        &self,
        _: Route,
        _: Option<Bytes>,
    ) -> Sent<Option<BoxStream<'static, Result<Incoming, TransportError>>>> {
        let receiver = self.core.state().standing.as_ref().map(|s| s.subscribe());
        Box::pin(async move {
            let receiver = receiver.ok_or_else(closed)?;
            let items = stream::unfold(Some(receiver), async |receiver| {
                let mut receiver = receiver?;
                match receiver.recv().await {
                    Ok(message) => Some((Ok(message), Some(receiver))),
                    Err(_) => Some((Err(TransportError::Broken), None)),
                }
            });
            Ok(Some(items.boxed()))
        })
    }

    /// A channel has no session but itself, and it is its owner's to end.
    fn close(&self, _: Route) -> Sent<()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        Box::pin(self.core.gone.clone().cancelled_owned())
    }
}
