//! A call that is all that its POST asks for, as long as nothing but its outcome is known of it: most end so. Then no exchange runs,
//! and nothing is left to a task; else the exchange goes on with it where it stands.

use super::{Answer, Asked, Exchange, Takes};
use crate::edge::legacy::peer::Peer;
use crate::edge::legacy::running::{Running, Step};
use crate::mcp::Event;
use crate::ticks;
use crate::wire::Request;
use futures_util::future::BoxFuture;
use tokio_util::task::TaskTracker;

/// A call in the task of its socket. Dropped with that before it has ended, it is carried out by a task.
struct Brief<'a> {
    held: Option<(Exchange, Asked, Running)>,
    over: bool,
    tasks: &'a TaskTracker,
}

/// Runs the one request of a POST.
pub async fn answer_one(peer: &Peer, request: Request, takes: Takes) -> Answer {
    let exchange = Exchange::new(peer.clone(), 1, Vec::new(), takes);
    let rules = &peer.gate.rules;
    let soon = exchange.began + rules.open_after.min(rules.keep_alive);
    let tasks = &peer.gate.tasks;
    // A stream is opened at once.
    if !takes.json {
        let requests = [request].into();
        return Box::pin(exchange.attended(tasks, |exchange| Box::pin(exchange.run(requests)))).await;
    }
    let (asked, running) = exchange.begin(request);
    let mut brief = Brief { held: Some((exchange, asked, running)), over: false, tasks };
    let step = ticks::within(soon, brief.next()).await;
    match (step, &mut brief.held) {
        (Some(Some(Step::Event(Event::Done(outcome)))), Some((exchange, asked, _)))
            if asked.change.is_none() =>
        {
            exchange.answered(0, asked, outcome);
            brief.over = true;
            exchange.whole()
        }
        (step, held) => {
            let Some((exchange, asked, running)) = held.take() else { return Answer::Nothing };
            let run = |exchange: Exchange| -> BoxFuture<'static, ()> {
                Box::pin(exchange.go_on(asked, running, step.flatten()))
            };
            Box::pin(exchange.attended(tasks, run)).await
        }
    }
}

impl Brief<'_> {
    async fn next(&mut self) -> Option<Step> {
        match &mut self.held {
            Some((_, _, running)) => running.next().await,
            None => None,
        }
    }
}

impl Drop for Brief<'_> {
    fn drop(&mut self) {
        if !self.over
            && let Some((exchange, asked, running)) = self.held.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            self.tasks.spawn(exchange.go_on(asked, running, None));
        }
    }
}
