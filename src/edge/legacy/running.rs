//! One call of an exchange, as it runs: what happens to it, step by step, until it has ended or was cancelled.

use super::exchange::Few;
use super::peer::Peer;
use crate::edge::dispatch;
use crate::mcp::{Call, Event, Outcome, Reason, Reply, Track};
use crate::session::Called;
use crate::wire::Method;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, SelectAll, select_all};
use futures_util::{FutureExt, StreamExt};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// An upstream that opens a stream and then says nothing for so long means to take its time: so do we.
const SOON: Duration = Duration::from_millis(100);

/// The steps of the calls of an exchange, each with the number of its call.
pub(super) enum Steps {
    One(Running),
    Many(SelectAll<BoxStream<'static, (usize, Step)>>),
}

impl Steps {
    pub(super) fn of(mut calls: Few<Running>) -> Steps {
        if calls.len() == 1 {
            return Steps::One(calls.swap_remove(0));
        }
        let numbered = |(n, call): (usize, Running)| {
            let steps = stream::unfold(call, |mut call| async { Some((call.next().await?, call)) });
            steps.map(move |step| (n, step)).boxed()
        };
        Steps::Many(select_all(calls.into_iter().enumerate().map(numbered)))
    }

    /// The next step of any. Nothing is lost where this is dropped and asked for again.
    pub(super) async fn next(&mut self) -> Option<(usize, Step)> {
        match self {
            Steps::One(call) => call.next().await.map(|step| (0, step)),
            Steps::Many(steps) => steps.next().await,
        }
    }
}

/// What happens to one call.
pub(super) enum Step {
    Event(Event),
    /// The upstream streams, and takes its time.
    Slow,
    /// The client cancelled it.
    Cancelled,
}

/// One call, as it runs.
pub(super) struct Running {
    state: State,
    /// Known by its id until it is over.
    called: Option<Called>,
}

/// How far a call has come.
enum State {
    Calling(BoxFuture<'static, Reply>),
    /// Its events. `soon`: until when the first is waited for in silence.
    Streaming {
        events: BoxStream<'static, Event>,
        soon: Option<Instant>,
    },
    Over,
}

/// How a call begins here.
pub(super) enum Begin {
    New(Call),
    /// Another pod began it.
    Rest(Box<(Call, Option<Track>)>),
}

impl Running {
    pub(super) fn new(peer: Peer, begin: Begin, called: Option<Called>) -> Running {
        Running { state: State::Calling(reply(peer, begin).boxed()), called }
    }

    /// The next step; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<Step> {
        let Running { state, called } = self;
        if matches!(state, State::Over) {
            return None;
        }
        let cancelled = async {
            match called {
                Some(called) => called.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let step = tokio::select! {
            biased;
            () = cancelled => Step::Cancelled,
            step = state.next() => step,
        };
        if matches!(step, Step::Cancelled | Step::Event(Event::Done(_))) {
            // Given up before the answer is written: a cancel that comes later finds nothing.
            (self.state, self.called) = (State::Over, None);
        }
        Some(step)
    }
}

async fn reply(peer: Peer, begin: Begin) -> Reply {
    let call = match begin {
        Begin::New(call) => call,
        Begin::Rest(rest) => {
            let (call, track) = *rest;
            return Box::pin(dispatch::rest(&peer.gate, &peer.mount, call, track)).await;
        }
    };
    if peer.session.is_none()
        && matches!(call.method, Method::ResourcesSubscribe | Method::ResourcesUnsubscribe)
    {
        // Nothing could ever be told of it.
        return Reply::fault(Reason::MethodNotFound);
    }
    dispatch::placed(&peer.gate, &peer.mount, call).await
}

impl State {
    async fn next(&mut self) -> Step {
        loop {
            let event = match self {
                State::Calling(reply) => match reply.await {
                    Reply::One(outcome) => return Step::Event(Event::Done(outcome)),
                    Reply::Stream(events) => {
                        *self = State::Streaming { events, soon: Some(Instant::now() + SOON) };
                        continue;
                    }
                },
                State::Streaming { events, soon } => {
                    let event = match *soon {
                        Some(until) => timeout_at(until, events.next()).await,
                        None => Ok(events.next().await),
                    };
                    *soon = None;
                    match event {
                        Ok(event) => event,
                        Err(_) => return Step::Slow,
                    }
                }
                State::Over => return Step::Cancelled,
            };
            // A backend that ends its stream without an outcome has lost the call.
            let lost = || Event::Done(Outcome::Error(Reason::Cancelled.into()));
            return Step::Event(event.unwrap_or_else(lost));
        }
    }
}
