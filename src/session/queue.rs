//! Messages of a session that answer no POST, until a GET stream takes them: the newest one that is open, here or on
//! another pod. A message belongs to a stream once the stream has it in its log, so what a closed socket left behind goes
//! to the next.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::facts::now;
use super::places::{Lead, Place};
use super::{LiveSession, lock};
use crate::store::PodId;

/// Bytes that wait at most. Of more, the oldest notifications go.
const BYTES: usize = 8 << 20;
/// Where more waits that must not be lost, nobody reads: the streams end rather than the memory.
const UNREAD: usize = 32 << 20;
/// And so many times the number that may wait.
const UNREAD_TIMES: usize = 8;
/// Streams that a session has open at most; one more ends the oldest, which gets nothing anyway.
const SEATS: usize = 16;
/// The longest wait for what is told here to be on its way.
const PASSED_ON: Duration = Duration::from_secs(1);

pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    wake: Notify,
    most: usize,
    /// How many streams take from it here.
    seats: watch::Sender<usize>,
    /// Where the newest stream is.
    lead: watch::Sender<Lead>,
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<Message>,
    bytes: usize,
    /// How many of them somebody is about to pass on.
    taken: usize,
    /// Open streams of this pod, oldest first.
    seats: Vec<Seat>,
    next_seat: u64,
    /// The newest stream of another pod, as last heard.
    other: Option<Place>,
    /// The newest revision of the record of places that is known of: what a cache gives may be older.
    rev: u64,
}

struct Seat {
    number: u64,
    stream: Arc<str>,
    /// As [`Place::age`].
    age: u64,
    /// What stands of it in the record of places, where that is known of it.
    value: Option<Bytes>,
}

/// A stream of this pod as it stands in the record of places.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) stream: Arc<str>,
    pub(super) value: Bytes,
}

struct Message {
    text: Bytes,
    /// Not to be lost: an answer, a request.
    must: bool,
}

/// What there is for a stream.
enum Popped {
    Message(Message),
    Nothing,
    /// It was ended.
    Over,
}

/// A message that is being taken. Unless it is [`Taken::done`], it goes back to where it was.
pub(super) struct Taken {
    queue: Arc<Queue>,
    message: Option<Message>,
}

impl LiveSession {
    /// How many GET streams are open here.
    pub fn listeners(&self) -> watch::Receiver<usize> {
        self.queue.seats.subscribe()
    }
}

impl Waiting {
    /// The newest stream of all pods, if it is another's.
    fn elsewhere(&self) -> Option<&Place> {
        let here = self.seats.last().map(|seat| (seat.age, &seat.stream));
        self.other.as_ref().filter(|place| Some((place.age, &place.stream)) > here)
    }

    fn lead(&self) -> Lead {
        match (self.elsewhere(), self.seats.last()) {
            (Some(place), _) => Lead::Elsewhere(place.pod.clone()),
            (None, Some(_)) => Lead::Here,
            (None, None) => Lead::Nobody,
        }
    }
}

impl Queue {
    pub(super) fn new(most: usize) -> Arc<Queue> {
        let (seats, lead) = (watch::Sender::new(0), watch::Sender::new(Lead::Nobody));
        Arc::new(Queue { waiting: Mutex::default(), wake: Notify::new(), most, seats, lead })
    }

    /// Who waits is told what has changed.
    fn announce(&self, waiting: std::sync::MutexGuard<'_, Waiting>) {
        // Under the lock, so that what is told last is what is.
        self.seats.send_replace(waiting.seats.len());
        let now = waiting.lead();
        self.lead.send_if_modified(|lead| {
            let changed = *lead != now;
            *lead = now;
            changed
        });
        drop(waiting);
        self.wake.notify_waiters();
    }

    /// False: too much waited, and all of it was let go with the streams that did not take it.
    pub(super) fn push(&self, text: Bytes, must: bool) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.bytes += text.len();
        waiting.messages.push_back(Message { text, must });
        while waiting.messages.len() > self.most || waiting.bytes > BYTES {
            let Some(oldest) = waiting.messages.iter().position(|message| !message.must) else { break };
            let lost = waiting.messages.remove(oldest).map_or(0, |message| message.text.len());
            waiting.bytes -= lost;
        }
        let few = waiting.messages.len() <= self.most.saturating_mul(UNREAD_TIMES);
        let kept = (few && waiting.bytes <= UNREAD) || waiting.messages.len() == 1;
        if kept {
            drop(waiting);
            self.wake.notify_waiters();
        } else {
            waiting.messages.clear();
            waiting.bytes = 0;
            waiting.seats.clear();
            self.announce(waiting);
        }
        kept
    }

    /// The newest stream, from now on. One of the same name that is open here ends: its client has come back.
    pub(super) fn sit(&self, stream: Arc<str>) -> u64 {
        let mut waiting = lock(&self.waiting);
        waiting.next_seat += 1;
        let number = waiting.next_seat;
        waiting.seats.retain(|seat| seat.stream != stream);
        if waiting.seats.len() == SEATS {
            waiting.seats.remove(0);
        }
        let newest = waiting.seats.last().map_or(0, |seat| seat.age);
        let newest = newest.max(waiting.other.as_ref().map_or(0, |place| place.age));
        waiting.seats.push(Seat { number, stream, age: now().max(newest + 1), value: None });
        self.announce(waiting);
        number
    }

    /// The stream has been closed. Gives what stands of it in the record of places.
    pub(super) fn leave(&self, seat: u64) -> Option<Held> {
        let mut waiting = lock(&self.waiting);
        let at = waiting.seats.iter().position(|other| other.number == seat)?;
        let seat = waiting.seats.remove(at);
        // The next newest takes over.
        self.announce(waiting);
        seat.value.map(|value| Held { stream: seat.stream, value })
    }

    /// The next message, once this is the newest stream. `None`: this stream did not take what waited for it, or newer
    /// ones took its place, and it ends.
    pub(super) async fn next(self: &Arc<Self>, seat: u64) -> Option<Taken> {
        loop {
            let mut woken = std::pin::pin!(self.wake.notified());
            woken.as_mut().enable();
            match self.pop(seat) {
                Popped::Message(message) => {
                    return Some(Taken { queue: self.clone(), message: Some(message) });
                }
                Popped::Nothing => woken.await,
                Popped::Over => return None,
            }
        }
    }

    fn pop(&self, seat: u64) -> Popped {
        let mut waiting = lock(&self.waiting);
        if !waiting.seats.iter().any(|other| other.number == seat) {
            return Popped::Over;
        }
        let newest = waiting.seats.last().is_some_and(|newest| newest.number == seat);
        let newest = newest && waiting.elsewhere().is_none();
        let Some(message) = newest.then(|| waiting.messages.pop_front()).flatten() else {
            return Popped::Nothing;
        };
        waiting.bytes -= message.text.len();
        waiting.taken += 1;
        Popped::Message(message)
    }
}

// --- Streams of other pods ---

impl Queue {
    pub(super) fn lead(&self) -> Lead {
        self.lead.borrow().clone()
    }

    pub(super) fn watch_lead(&self) -> watch::Receiver<Lead> {
        self.lead.subscribe()
    }

    /// The streams that are open over all pods, as the record of places says at this revision. One of ours that another
    /// pod has by now ends here; one that is not among them is not known elsewhere any more. `None`: it is old, and counts
    /// for nothing. Else `also` is done at the same instant, and it gives what stands there of this pod, and is not open here.
    pub(super) fn learn(
        &self,
        me: &PodId,
        rev: Option<u64>,
        from_master: bool,
        places: Vec<Place>,
        also: impl FnOnce(),
    ) -> Option<Vec<Held>> {
        let mut waiting = lock(&self.waiting);
        if !from_master && rev.is_some_and(|rev| rev < waiting.rev) {
            return None;
        }
        waiting.rev = rev.unwrap_or(waiting.rev);
        waiting.seats.retain_mut(|seat| {
            let place = places.iter().find(|place| place.stream == seat.stream);
            let known = seat.value.is_some();
            if place.is_none() {
                seat.value = None;
            }
            !(known && place.is_some_and(|place| place.pod != *me))
        });
        let (ours, others): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| place.pod == *me);
        let open = |place: &Place| waiting.seats.iter().any(|seat| seat.stream == place.stream);
        let closed = ours.into_iter().filter(|place| !open(place));
        let closed = closed.map(|place| Held { stream: place.stream, value: place.value }).collect();
        also();
        waiting.other = others.into_iter().max_by(|a, b| (a.age, &a.stream).cmp(&(b.age, &b.stream)));
        self.announce(waiting);
        Some(closed)
    }

    /// This pod changed the record of places, to this revision.
    pub(super) fn changed(&self, rev: u64) {
        let mut waiting = lock(&self.waiting);
        waiting.rev = waiting.rev.max(rev);
    }

    /// Whether a stream of this name is open here.
    pub(super) fn has(&self, stream: &str) -> bool {
        lock(&self.waiting).seats.iter().any(|seat| &*seat.stream == stream)
    }

    /// Resolves once nothing waits or is being taken, or after [`PASSED_ON`].
    pub(super) async fn emptied(&self) {
        let emptied = async {
            loop {
                let mut woken = std::pin::pin!(self.wake.notified());
                woken.as_mut().enable();
                let waiting = {
                    let waiting = lock(&self.waiting);
                    !waiting.messages.is_empty() || waiting.taken > 0
                };
                if !waiting {
                    return;
                }
                woken.await;
            }
        };
        if timeout(PASSED_ON, emptied).await.is_err() {
            tracing::debug!("what a session was told is not passed on in time");
        }
    }

    /// Whether anything here depends on the streams of other pods.
    pub(super) fn minds(&self) -> bool {
        let waiting = lock(&self.waiting);
        !waiting.seats.is_empty() || !waiting.messages.is_empty() || waiting.other.is_some()
    }

    /// Whether a message waits that no stream here may take.
    pub(super) fn waits_for_others(&self) -> bool {
        let waiting = lock(&self.waiting);
        !waiting.messages.is_empty() && waiting.lead() != Lead::Here
    }

    /// The next message for the newest stream, where that is another pod's.
    pub(super) fn next_elsewhere(self: &Arc<Self>) -> Option<(Taken, Place)> {
        let mut waiting = lock(&self.waiting);
        let place = waiting.elsewhere()?.clone();
        let message = waiting.messages.pop_front()?;
        waiting.bytes -= message.text.len();
        waiting.taken += 1;
        Some((Taken { queue: self.clone(), message: Some(message) }, place))
    }

    /// The newest stream that is open here.
    pub(super) fn newest(&self) -> Option<Arc<str>> {
        lock(&self.waiting).seats.last().map(|seat| seat.stream.clone())
    }

    pub(super) fn seats(&self) -> Vec<u64> {
        lock(&self.waiting).seats.iter().map(|seat| seat.number).collect()
    }

    /// A stream's name and age, where it is open: as the newest of all that are known, if it is to be.
    pub(super) fn aged(&self, seat: u64, newest: bool) -> Option<(Arc<str>, u64)> {
        let mut waiting = lock(&self.waiting);
        let other = waiting.other.as_ref().map_or(0, |place| place.age);
        let at = waiting.seats.iter().position(|other| other.number == seat)?;
        let last = at + 1 == waiting.seats.len();
        let seat = &mut waiting.seats[at];
        if newest && last && seat.age <= other {
            seat.age = other + 1;
        }
        Some((seat.stream.clone(), seat.age))
    }

    /// A stream stands in the record of places now. False: it is closed.
    pub(super) fn held(&self, seat: u64, value: Bytes) -> bool {
        let mut waiting = lock(&self.waiting);
        let Some(seat) = waiting.seats.iter_mut().find(|other| other.number == seat) else { return false };
        seat.value = Some(value);
        true
    }

    /// What stands of a stream in the record of places.
    pub(super) fn holds(&self, seat: u64) -> Option<Held> {
        let waiting = lock(&self.waiting);
        let seat = waiting.seats.iter().find(|other| other.number == seat)?;
        seat.value.clone().map(|value| Held { stream: seat.stream.clone(), value })
    }
}

impl Taken {
    pub(super) fn text(&self) -> Bytes {
        self.message.as_ref().map(|message| message.text.clone()).unwrap_or_default()
    }

    pub(super) fn must(&self) -> bool {
        self.message.as_ref().is_some_and(|message| message.must)
    }

    pub(super) fn done(mut self) {
        self.message = None;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut waiting = lock(&self.queue.waiting);
        waiting.taken -= 1;
        if let Some(message) = self.message.take() {
            waiting.bytes += message.text.len();
            waiting.messages.push_front(message);
        }
        drop(waiting);
        self.queue.wake.notify_waiters();
    }
}
