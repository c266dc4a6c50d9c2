//! `notifications/cancelled` over all pods. The call may run on any, and a client that repeats its ids may mean any of
//! several: each pod that runs one says so, and it is cancelled only where it is the one of all pods.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use super::calls::Cancelled;
use super::letter::{Letter, ReplyTo};
use super::{LiveSession, Sessions};
use crate::mcp::SessionId;
use crate::store::Topic;

/// What is said of it on the bus, as a [`Letter::Cancels`].
pub(super) const TOPIC: &str = "cancel";
/// No client numbers its calls at greater length; a longer id is not worth every pod's time.
const LONGEST_CALL: usize = 4 << 10;
/// How long a pod is waited for that runs the call, and from then on how long for a second one.
const FIRST: Duration = Duration::from_secs(1);
const SECOND: Duration = Duration::from_millis(200);

impl LiveSession {
    /// Cancels the call of this id on whichever pod it runs, where it is the only one. The bus may lose that, and then the
    /// call runs to its end; without the store, what runs here counts alone. Takes up to about a second.
    pub async fn cancel_everywhere(&self, id: &[u8]) -> Cancelled {
        let here = self.calls.count(id);
        if here > 1 {
            return Cancelled::Ambiguous;
        }
        let (session, call) = (self.session_id().0.clone(), Bytes::copy_from_slice(id));
        let (reply, mut runs) = self.shared.post.collect();
        let asked = Letter::Cancels { session: session.clone(), call: call.clone(), reply: reply.to() };
        let said = self.shared.store.say(Topic::new(TOPIC), asked.write());
        if id.len() > LONGEST_CALL || said.await.is_err() {
            return self.calls.cancel(id);
        }
        let mut until = Instant::now() + if here == 0 { FIRST } else { SECOND };
        let mut there = None;
        while let Ok(Some((pod, one))) = timeout_at(until, runs.recv()).await {
            if !one || here == 1 || there.is_some() {
                return Cancelled::Ambiguous;
            }
            there = Some(pod);
            until = Instant::now() + SECOND;
        }
        match there {
            None => self.calls.cancel(id),
            Some(pod) => match self.shared.mail(&pod, &Letter::Cancel { session, call }).await {
                Ok(true) => Cancelled::Done,
                Ok(false) | Err(_) => Cancelled::Unknown,
            },
        }
    }
}

impl Sessions {
    /// Another pod's client cancels this call: whether it runs here.
    pub(super) fn cancels(&self, session: Arc<str>, call: Bytes, reply: ReplyTo) {
        let count = self.held(&SessionId(session)).map_or(0, |session| session.calls.count(&call));
        if reply.pod == self.shared.post.me || count == 0 {
            return;
        }
        let shared = self.shared.clone();
        self.shared.tasks.spawn(async move {
            let pod = shared.post.me.clone();
            let runs = Letter::Runs { ticket: reply.ticket, pod, one: count == 1 };
            // Where it fails, the call runs to its end.
            let _ = shared.mail(&reply.pod, &runs).await;
        });
    }

    /// It does, and nowhere else.
    pub(super) fn cancel(&self, session: Arc<str>, call: &[u8]) {
        if let Some(session) = self.held(&SessionId(session)) {
            let came_to = session.calls.cancel(call);
            tracing::debug!(?came_to, "a client cancelled a call by way of another pod");
        }
    }
}
