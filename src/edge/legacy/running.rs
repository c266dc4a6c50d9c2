//! One call of an exchange, as it runs: what happens to it, step by step, until it has ended or was cancelled.

use super::peer::Peer;
use crate::edge::dispatch;
use crate::mcp::{Call, Cancel, Event, Outcome, Reason, Reply, Track};
use crate::session::Called;
use crate::wire::Method;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream, SelectAll, select_all};
use std::time::Duration;
use tokio::time::timeout;

/// An upstream that opens a stream and then says nothing for so long means to take its time: so do we.
const SOON: Duration = Duration::from_millis(100);

/// The steps of the calls of an exchange, each with the number of its call.
pub(super) enum Steps {
    One(BoxStream<'static, Step>),
    Many(SelectAll<BoxStream<'static, (usize, Step)>>),
}

impl Steps {
    pub(super) fn of(mut calls: Vec<BoxStream<'static, Step>>) -> Steps {
        if calls.len() == 1 {
            return Steps::One(calls.swap_remove(0));
        }
        let calls = calls.into_iter().enumerate();
        Steps::Many(select_all(calls.map(|(n, steps)| steps.map(move |step| (n, step)).boxed())))
    }

    pub(super) async fn next(&mut self) -> Option<(usize, Step)> {
        match self {
            Steps::One(steps) => steps.next().await.map(|step| (0, step)),
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
struct Running {
    call: Option<Begin>,
    events: Option<(bool, BoxStream<'static, Event>)>,
    cancel: Cancel,
    over: bool,
    _called: Option<Called>,
}

/// How a call begins here.
pub(super) enum Begin {
    New(Call),
    /// Another pod began it.
    Rest(Call, Option<Track>),
}

/// The steps of a call, to its end.
pub(super) fn steps(peer: Peer, call: Begin, called: Option<Called>) -> BoxStream<'static, Step> {
    let (Begin::New(begun) | Begin::Rest(begun, _)) = &call;
    let cancel = begun.cancel.clone();
    let running = Running { call: Some(call), events: None, cancel, over: false, _called: called };
    stream::unfold((running, peer), |(mut running, peer)| async move {
        if running.over {
            return None;
        }
        let cancel = running.cancel.clone();
        let step = tokio::select! {
            biased;
            () = cancel.cancelled() => Step::Cancelled,
            step = running.next(&peer) => step,
        };
        running.over = matches!(step, Step::Cancelled | Step::Event(Event::Done(_)));
        if running.over {
            // Given up before the answer is written: a cancel that comes later finds nothing.
            running.events = None;
            running._called = None;
        }
        Some((step, (running, peer)))
    })
    .boxed()
}

impl Running {
    async fn next(&mut self, peer: &Peer) -> Step {
        if let Some(begin) = self.call.take() {
            let (call, rest) = match begin {
                Begin::New(call) => (call, None),
                Begin::Rest(call, track) => (call, Some(track)),
            };
            if peer.session.is_none()
                && matches!(call.method, Method::ResourcesSubscribe | Method::ResourcesUnsubscribe)
            {
                // Nothing could ever be told of it.
                return Step::Event(Event::Done(Outcome::Error(Reason::MethodNotFound.into())));
            }
            let reply = match rest {
                None => dispatch::placed(&peer.gate, &peer.mount, call).await,
                Some(track) => dispatch::rest(&peer.gate, &peer.mount, call, track).await,
            };
            match reply {
                Reply::One(outcome) => return Step::Event(Event::Done(outcome)),
                Reply::Stream(events) => self.events = Some((true, events)),
            }
        }
        let Some((fresh, events)) = &mut self.events else { return Step::Cancelled };
        let event = if std::mem::take(fresh) {
            match timeout(SOON, events.next()).await {
                Ok(event) => event,
                Err(_) => return Step::Slow,
            }
        } else {
            events.next().await
        };
        // A backend that ends its stream without an outcome has lost the call.
        Step::Event(event.unwrap_or_else(|| Event::Done(Outcome::Error(Reason::Cancelled.into()))))
    }
}
