//! The calls that run for one client here, by the id that the client gave them, so that it can cancel them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{LiveSession, lock};
use crate::wire::Id;

/// The calls of one client: of a session, or of a pipe. Clones share them.
#[derive(Clone, Default)]
pub struct Calls {
    /// By the id's token, for `7` and `"7"` are two ids. Clients that repeat an id have several calls under it.
    running: Arc<Mutex<HashMap<Bytes, Vec<CancellationToken>>>>,
}

/// A call that runs; it can be cancelled until this is dropped.
pub struct Called {
    calls: Calls,
    id: Bytes,
    cancel: CancellationToken,
}

/// What `notifications/cancelled` came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    Done,
    /// Several calls run under this id: none is cancelled, for the client may mean any (2025-11-25 cancellation allows
    /// to ignore).
    Ambiguous,
    /// No call runs under this id here, or not any more.
    Unknown,
}

impl Calls {
    /// A call begins, and ends with `cancel` at the latest.
    pub fn begin(&self, id: &Id, cancel: CancellationToken) -> Called {
        // Copied, so that the id does not keep the whole request.
        let id = Bytes::copy_from_slice(id.token());
        lock(&self.running).entry(id.clone()).or_default().push(cancel.clone());
        Called { calls: self.clone(), id, cancel }
    }

    /// Whether any runs.
    pub(super) fn any(&self) -> bool {
        !lock(&self.running).is_empty()
    }

    /// How many run under this id.
    pub(super) fn count(&self, id: &[u8]) -> usize {
        lock(&self.running).get(id).map_or(0, Vec::len)
    }

    /// The client cancels the call of this id: its JSON token, as it stands in the notification.
    pub fn cancel(&self, id: &[u8]) -> Cancelled {
        match lock(&self.running).get(id).map(Vec::as_slice) {
            Some([one]) => {
                one.cancel();
                Cancelled::Done
            }
            Some([]) | None => Cancelled::Unknown,
            Some(_) => Cancelled::Ambiguous,
        }
    }
}

impl LiveSession {
    /// A call of this session begins.
    pub fn begin(&self, id: &Id) -> Called {
        self.calls.begin(id, self.ended().child_token())
    }

    /// As [`Calls::cancel`], for the calls of this session.
    pub fn cancel(&self, id: &[u8]) -> Cancelled {
        self.calls.cancel(id)
    }
}

impl Called {
    /// Cancelled when the client says so, and when the session ends.
    pub fn token(&self) -> &CancellationToken {
        &self.cancel
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        let mut running = lock(&self.calls.running);
        if let Some(same) = running.get_mut(&self.id) {
            same.retain(|token| *token != self.cancel);
            if same.is_empty() {
                running.remove(&self.id);
            }
        }
    }
}
