//! The calls that run for one client here, by the id that the client gave them, so that it can cancel them.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::{LiveSession, lock};
use crate::wire::Id;

/// Where no call runs any more, room for so many is kept.
const FEW: usize = 8;

/// The calls of one client: of a session, or of a pipe. Clones share them.
#[derive(Clone, Default)]
pub struct Calls {
    running: Arc<Mutex<Running>>,
}

/// Calls in the places that they were given. Calls begin and end all the time, and are looked for by their id when one is
/// cancelled, which is seldom.
#[derive(Default)]
struct Running {
    /// Each with its id's token, for `7` and `"7"` are two ids. Clients that repeat an id have several calls under it.
    places: Vec<Option<(Bytes, CancellationToken)>>,
    /// The places that are free.
    free: Vec<usize>,
}

impl Running {
    fn of<'a>(&'a self, id: &'a [u8]) -> impl Iterator<Item = &'a CancellationToken> {
        self.places.iter().flatten().filter(move |(of, _)| *of == id).map(|(_, cancel)| cancel)
    }
}

/// A call that runs; it can be cancelled until this is dropped.
pub struct Called {
    calls: Calls,
    place: usize,
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
        let call = Some((id, cancel.clone()));
        let mut running = lock(&self.running);
        let place = match running.free.pop() {
            Some(place) => {
                running.places[place] = call;
                place
            }
            None => {
                running.places.push(call);
                running.places.len() - 1
            }
        };
        drop(running);
        Called { calls: self.clone(), place, cancel }
    }

    /// Whether any runs.
    pub(super) fn any(&self) -> bool {
        let running = lock(&self.running);
        running.free.len() < running.places.len()
    }

    /// How many run under this id.
    pub(super) fn count(&self, id: &[u8]) -> usize {
        lock(&self.running).of(id).count()
    }

    /// The client cancels the call of this id: its JSON token, as it stands in the notification.
    pub fn cancel(&self, id: &[u8]) -> Cancelled {
        let running = lock(&self.running);
        let mut of = running.of(id);
        let one = match (of.next(), of.next()) {
            (None, _) => return Cancelled::Unknown,
            (Some(one), None) => one.clone(),
            (Some(_), Some(_)) => return Cancelled::Ambiguous,
        };
        // Who is woken may end its call at once, which takes the lock.
        drop(of);
        drop(running);
        one.cancel();
        Cancelled::Done
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
        if running.free.len() + 1 < running.places.len() {
            running.places[self.place] = None;
            running.free.push(self.place);
        } else if running.places.len() > FEW {
            *running = Running::default();
        } else {
            running.places.clear();
            running.free.clear();
        }
    }
}
