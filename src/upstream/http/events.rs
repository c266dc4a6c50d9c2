//! An answer that comes as events: read within its bounds, and gone on with where the connection ends before it.

use super::exchange::{DEPTH, Exchange, garbage};
use super::giveup::GiveUp;
use super::strays::Awaited;
use crate::mcp::Trail;
use crate::upstream::client;
use crate::upstream::transport::{Incoming, Outgoing, Route, TransportError};
use crate::wire::sse::{Decoder, SseEvent};
use crate::wire::{Era, Id, Message, envelope};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http_body_util::BodyExt;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How often a stream is asked for in a row without an event in between.
const ATTEMPTS: u32 = 5;
/// What the reader waits before it reconnects, where the upstream names no time.
const RETRY: Duration = Duration::from_secs(1);

/// How long the end of a stream may come after its answer.
const FAREWELL: Duration = Duration::from_millis(200);

pub(super) struct Events {
    exchange: Arc<Exchange>,
    route: Route,
    body: Option<client::Body>,
    decoder: Decoder,
    ready: VecDeque<SseEvent>,
    /// The request that this stream answers; `None` for a standing one, which ends without an answer.
    answers: Option<Id>,
    /// Where its event ids are noted, should another process have to go on with it.
    trail: Option<Arc<Trail>>,
    last: Option<Bytes>,
    retry: Duration,
    /// Whether the upstream named that time, and closed the stream since: it means to be asked again.
    polled: bool,
    closed: bool,
    attempts: u32,
    deadline: Instant,
    /// The request that it answers, until it is answered.
    giveup: Option<GiveUp>,
    /// Of a stream that may be closed and gone on with: its answer, should it come on another.
    elsewhere: Option<Awaited>,
}

impl Events {
    pub(super) fn new(
        exchange: Arc<Exchange>,
        route: Route,
        body: Option<client::Body>,
        deadline: Instant,
    ) -> Events {
        let decoder = Decoder::new(exchange.limit);
        Events {
            exchange,
            route,
            body,
            decoder,
            ready: VecDeque::new(),
            answers: None,
            trail: None,
            last: None,
            retry: RETRY,
            polled: false,
            closed: false,
            attempts: 0,
            deadline,
            giveup: None,
            elsewhere: None,
        }
    }

    /// The stream that answers a request.
    pub(super) fn answering(body: client::Body, request: GiveUp) -> Events {
        Events::to(Some(body), request)
    }

    fn to(body: Option<client::Body>, request: GiveUp) -> Events {
        let Outgoing { id, trail, deadline, .. } = &request.request;
        let (answers, trail) = (Some(id.clone()), trail.clone());
        let events = Events::new(request.exchange.clone(), request.route.clone(), body, *deadline);
        Events { answers, trail, giveup: Some(request), ..events }
    }

    /// The rest of such a stream, after an event that another process saw. Without a body it is asked for.
    pub(super) fn resuming(body: Option<client::Body>, request: GiveUp, after: Bytes) -> Events {
        let elsewhere = Some(request.exchange.strays.await_answer(&request.request.id));
        Events { last: Some(after), elsewhere, ..Events::to(body, request) }
    }

    /// The messages, in order. After an answer or an error nothing follows.
    pub(super) fn stream(self) -> BoxStream<'static, Result<Incoming, TransportError>> {
        let steps = futures_util::stream::unfold(Some(self), |reading| async {
            let mut events = reading?;
            let item = events.next().await?;
            let over = match &item {
                Ok(incoming) => matches!(incoming.message, Message::Response(_)),
                Err(TransportError::Paused) => false,
                Err(_) => true,
            };
            if !over {
                return Some((item, Some(events)));
            }
            if !matches!(item, Err(TransportError::Timeout)) {
                events.giveup.iter_mut().for_each(GiveUp::disarm);
            }
            if item.is_ok() {
                events.see_off();
            }
            Some((item, None))
        });
        steps.boxed()
    }

    /// After the answer the upstream ends the stream: read to its end, the connection can be used again.
    fn see_off(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        self.exchange.tasks.spawn(async move {
            let end = async { while let Some(Ok(_)) = body.frame().await {} };
            // One that goes on is closed.
            tokio::time::timeout(FAREWELL, end).await.ok();
        });
    }

    async fn next(&mut self) -> Option<Result<Incoming, TransportError>> {
        loop {
            while let Some(event) = self.ready.pop_front() {
                if let Some(item) = self.take(event) {
                    return Some(item);
                }
            }
            let Some(body) = &mut self.body else {
                // A standing stream ends here: whoever holds it opens the next, with the last id that it saw.
                self.answers.as_ref()?;
                if std::mem::take(&mut self.closed) && self.polled && self.can_go_on() {
                    return Some(Err(TransportError::Paused));
                }
                let mut elsewhere = self.elsewhere.take();
                let reopened = tokio::select! {
                    reopened = self.reopen() => reopened,
                    answer = stray(&mut elsewhere) => return Some(Ok(answer)),
                };
                self.elsewhere = elsewhere;
                if let Err(error) = reopened {
                    return Some(Err(error));
                }
                continue;
            };
            let frame = tokio::select! {
                biased;
                frame = timeout_at(self.deadline, body.frame()) => frame,
                answer = stray(&mut self.elsewhere) => return Some(Ok(answer)),
            };
            match frame {
                Err(_) => return Some(Err(TransportError::Timeout)),
                Ok(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    match self.decoder.push(&data) {
                        Ok(events) => self.ready.extend(events),
                        Err(too_long) => return Some(Err(TransportError::TooLarge(too_long.0))),
                    }
                }
                Ok(ended) => {
                    self.closed = ended.is_none();
                    self.body = None;
                }
            }
        }
    }

    /// What an event holds for us; `None` where it holds an id, a pause or somebody else's message.
    fn take(&mut self, event: SseEvent) -> Option<Result<Incoming, TransportError>> {
        self.attempts = 0;
        if let Some(id) = event.id {
            if let Some(trail) = self.trail.as_ref().filter(|_| self.is_legacy() && event.data.is_empty()) {
                trail.passed(&id);
            }
            // An empty id forgets the last one (WHATWG EventSource).
            self.last = (!id.is_empty()).then(|| Bytes::from(id));
            if let Some(request) = self.answers.as_ref().filter(|_| self.elsewhere.is_none()) {
                self.elsewhere = Some(self.exchange.strays.await_answer(request));
            }
        }
        if let Some(retry) = event.retry {
            self.retry = Duration::from_millis(retry);
            self.polled = true;
        }
        if event.data.is_empty() || event.event.is_some_and(|kind| kind != "message") {
            return None;
        }
        let message = match envelope::read_upstream(event.data, DEPTH) {
            Ok(message) => message,
            Err(refused) => return Some(Err(garbage(refused.to_string()))),
        };
        match message {
            Message::Response(response)
                if self.answers.is_none()
                    || response.id.as_ref().is_some_and(|id| Some(id) != self.answers.as_ref()) =>
            {
                tracing::debug!(id = ?response.id, "an upstream answered a request that this stream is not for");
                self.exchange.strays.hand_over(response);
                None
            }
            message => Some(Ok(Incoming { message, at: self.last.clone() })),
        }
    }

    fn can_go_on(&self) -> bool {
        self.last.is_some() && self.is_legacy()
    }

    /// Only there streams go on after an event (2026-07-28 has no resumption).
    fn is_legacy(&self) -> bool {
        self.route.version.is_some_and(|v| v.era() == Era::Legacy)
    }

    /// Goes on with the stream after its last event, on a new connection (2025-11-25 transports, *Resumability*). A
    /// stream without event ids, and a modern one, cannot go on.
    async fn reopen(&mut self) -> Result<(), TransportError> {
        let Some(last) = self.last.clone().filter(|_| self.can_go_on()) else {
            return Err(TransportError::Broken);
        };
        loop {
            if self.attempts == ATTEMPTS {
                return Err(TransportError::Broken);
            }
            // Each attempt without an event waits longer; the first waits what the upstream asked for.
            let pause = self.retry.saturating_mul(1 << self.attempts);
            self.attempts += 1;
            let until = Instant::now() + pause;
            if until >= self.deadline {
                sleep_until(self.deadline).await;
                return Err(TransportError::Timeout);
            }
            sleep_until(until).await;
            match timeout_at(self.deadline, self.exchange.get(&self.route, Some(&last))).await {
                Err(_) => return Err(TransportError::Timeout),
                Ok(Ok(body)) => {
                    self.body = Some(body);
                    self.decoder = Decoder::new(self.exchange.limit);
                    return Ok(());
                }
                Ok(Err(TransportError::Unreachable(_) | TransportError::Broken)) => {}
                Ok(Err(TransportError::Refused { status: 502..=504, .. })) => {}
                // It can tell nothing more of this stream.
                Ok(Err(_)) => return Err(TransportError::Broken),
            }
        }
    }
}

/// The answer that came on another stream; never resolves where none may.
async fn stray(elsewhere: &mut Option<Awaited>) -> Incoming {
    match elsewhere {
        Some(awaited) => awaited.answer().await,
        None => std::future::pending().await,
    }
}
