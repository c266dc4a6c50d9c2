//! The caller's end of one request: its messages until the response. Dropping it unfinished gives the request up.

use super::flights::Mailbox;
use super::{Core, cancel, closed, refusal};
use crate::upstream::transport::{Incoming, Outgoing, TransportError};
use crate::wire::{Id, Message, Method};
use futures_util::stream::{self, Stream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::{Instant, timeout_at};

pub(super) struct Pending {
    core: Arc<Core>,
    id: Id,
    /// `initialize` must not be cancelled (2025-11-25 cancellation, *Behavior Requirements*).
    may_cancel: bool,
    /// A subscription outlives the deadline of its acknowledgement.
    endless: bool,
    deadline: Instant,
    mailbox: Mailbox,
    sent: bool,
}

impl Pending {
    /// Puts the request in flight, before it is sent: its answer may be quicker than we are.
    pub(super) fn enter(
        core: Arc<Core>,
        who: Arc<str>,
        request: Outgoing,
    ) -> Result<Pending, TransportError> {
        let (id, deadline) = (request.id.clone(), request.deadline);
        let may_cancel = request.method != Method::Initialize;
        let endless = request.method == Method::Listen;
        let mut state = core.state();
        if state.out.is_none() {
            return Err(closed());
        }
        state.used = Instant::now();
        let mailbox = state.flights.enter(who, request).ok_or(TransportError::Busy)?;
        drop(state);
        Ok(Pending { core, id, may_cancel, endless, deadline, mailbox, sent: false })
    }

    pub(super) fn sent(&mut self) {
        self.sent = true;
    }

    /// The next message. Errors end the request.
    pub(super) async fn next(&mut self) -> Result<Incoming, TransportError> {
        let item = timeout_at(self.deadline, self.mailbox.items.recv());
        let (item, size) = *item.await.map_err(|_| TransportError::Timeout)?.ok_or(TransportError::Broken)?;
        self.mailbox.held.fetch_sub(size, Relaxed);
        if self.endless {
            self.deadline = far();
        }
        item
    }

    /// All messages that are left, the response last.
    pub(super) fn rest(self) -> impl Stream<Item = Result<Incoming, TransportError>> + Send + 'static {
        stream::unfold(Some(self), async |pending| {
            let mut pending = pending?;
            let item = pending.next().await;
            let more = matches!(&item, Ok(i) if !matches!(i.message, Message::Response(_)));
            Some((item, more.then_some(pending)))
        })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut state = self.core.state();
        state.used = Instant::now();
        if state.flights.leave(&self.id) && self.sent && self.may_cancel {
            state.say(cancel(&self.id), &self.core.name);
        }
        // The upstream waits for what it asked and nobody read.
        self.mailbox.items.close();
        while let Ok(item) = self.mailbox.items.try_recv() {
            if let (Ok(Incoming { message: Message::Request(ask), .. }), _) = *item {
                state
                    .say(refusal(&ask.id, "the call that the question belonged to is over"), &self.core.name);
            }
        }
    }
}

/// So far away that it does not come, and near enough for any clock.
fn far() -> Instant {
    Instant::now() + std::time::Duration::from_secs(60 * 60 * 24 * 365)
}
