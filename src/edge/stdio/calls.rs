//! The calls that run on the pipe, by the id that the client gave them, so that it can cancel them.

use super::talk::Talk;
use crate::wire::Id;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub struct Calls {
    /// By the id's token, for `7` and `"7"` are two ids. A client that repeats an id has several calls under it.
    running: Mutex<HashMap<Bytes, Vec<CancellationToken>>>,
}

/// A call that can be cancelled until this is dropped.
pub struct Called {
    talk: Arc<Talk>,
    id: Bytes,
    pub cancel: CancellationToken,
}

impl Calls {
    fn running(&self) -> MutexGuard<'_, HashMap<Bytes, Vec<CancellationToken>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the call of exactly this id. An id that nothing runs under, or that several calls share, is ignored
    /// (2025-11-25 and 2026-07-28 cancellation).
    pub fn cancel(&self, id: &[u8]) {
        if let Some([one]) = self.running().get(id).map(Vec::as_slice) {
            one.cancel();
        }
    }
}

impl Called {
    pub fn begin(talk: &Arc<Talk>, id: &Id) -> Called {
        let cancel = talk.over.child_token();
        // Copied, so that the id does not keep the whole request.
        let id = Bytes::copy_from_slice(id.token());
        talk.calls.running().entry(id.clone()).or_default().push(cancel.clone());
        Called { talk: talk.clone(), id, cancel }
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        let mut running = self.talk.calls.running();
        if let Some(same) = running.get_mut(&self.id) {
            same.retain(|token| *token != self.cancel);
            if same.is_empty() {
                running.remove(&self.id);
            }
        }
    }
}
