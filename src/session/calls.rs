//! The calls that run for one client here, by the id that the client gave them, so that it can cancel them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures_util::task::AtomicWaker;
use smallvec::SmallVec;

use super::{LiveSession, lock};
use crate::wire::Id;

/// Where no call runs any more, room for so many is kept.
const FEW: usize = 8;

/// An id as it stands in its message; most are short.
type Token = SmallVec<[u8; 24]>;

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
    places: Vec<Option<(Token, Arc<Stop>)>>,
    /// The places that are free.
    free: Vec<usize>,
    /// The client is gone: what begins is cancelled at once.
    over: bool,
}

/// Whether a call is cancelled. One task waits for it, so that it costs each call less than a token that any may wait for.
#[derive(Default)]
struct Stop {
    said: AtomicBool,
    waits: AtomicWaker,
}

impl Stop {
    fn say(&self) {
        self.said.store(true, Ordering::Release);
        self.waits.wake();
    }

    fn is_said(&self) -> bool {
        self.said.load(Ordering::Acquire)
    }
}

impl Running {
    fn of<'a>(&'a self, id: &'a [u8]) -> impl Iterator<Item = &'a Arc<Stop>> {
        self.places.iter().flatten().filter(move |(of, _)| **of == *id).map(|(_, cancel)| cancel)
    }
}

/// A call that runs; it can be cancelled until this is dropped.
pub struct Called {
    calls: Calls,
    place: usize,
    stop: Arc<Stop>,
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
    /// A call begins.
    pub fn begin(&self, id: &Id) -> Called {
        // Copied, so that the id does not keep the whole request.
        let (id, stop) = (Token::from_slice(id.token()), Arc::<Stop>::default());
        let call = Some((id, stop.clone()));
        let mut running = lock(&self.running);
        if running.over {
            stop.say();
        }
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
        Called { calls: self.clone(), place, stop }
    }

    /// The client is gone: all its calls are cancelled, and those that begin from now on.
    pub fn end(&self) {
        let mut running = lock(&self.running);
        running.over = true;
        let stops: Vec<_> = running.places.iter().flatten().map(|(_, stop)| stop.clone()).collect();
        // Who is woken may end its call at once, which takes the lock.
        drop(running);
        stops.iter().for_each(|stop| stop.say());
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
        one.say();
        Cancelled::Done
    }
}

impl LiveSession {
    /// A call of this session begins.
    pub fn begin(&self, id: &Id) -> Called {
        self.calls.begin(id)
    }

    /// As [`Calls::cancel`], for the calls of this session.
    pub fn cancel(&self, id: &[u8]) -> Cancelled {
        self.calls.cancel(id)
    }
}

impl Called {
    /// Resolves when the client says that it is cancelled, and when the client's session ends. For one task at a time.
    pub async fn cancelled(&self) {
        // Who was noted last is kept by that, so that another cannot look the same.
        let mut noted = None;
        poll_fn(|context| {
            let waker = context.waker();
            let who = Some((waker.data() as usize, std::ptr::from_ref(waker.vtable()) as usize));
            if who != std::mem::replace(&mut noted, who) {
                self.stop.waits.register(waker);
            }
            if self.stop.is_said() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await
    }

    pub fn is_cancelled(&self) -> bool {
        self.stop.is_said()
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        let mut running = lock(&self.calls.running);
        if running.free.len() + 1 < running.places.len() {
            running.places[self.place] = None;
            running.free.push(self.place);
        } else if running.places.len() > FEW {
            *running = Running { over: running.over, ..Running::default() };
        } else {
            running.places.clear();
            running.free.clear();
        }
    }
}
