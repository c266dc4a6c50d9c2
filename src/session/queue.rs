//! Messages of a session that answer no POST, until a GET stream takes them: the newest one that is open. A message
//! belongs to a stream once the stream has it in its log, so what a closed socket left behind goes to the next.

use std::collections::VecDeque;
use std::sync::Mutex;

use bytes::Bytes;
use tokio::sync::{Notify, watch};

use super::{LiveSession, lock};

/// Bytes that wait at most. Of more, the oldest notifications go.
const BYTES: usize = 8 << 20;
/// Where more waits that must not be lost, nobody reads: the streams end rather than the memory.
const UNREAD: usize = 32 << 20;
/// And so many times the number that may wait.
const UNREAD_TIMES: usize = 8;
/// Streams that a session has open at most; one more ends the oldest, which gets nothing anyway.
const SEATS: usize = 16;

pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    wake: Notify,
    most: usize,
    /// How many streams take from it.
    seats: watch::Sender<usize>,
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<Message>,
    bytes: usize,
    /// Open streams, oldest first.
    seats: Vec<u64>,
    next_seat: u64,
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
pub(super) struct Taken<'q> {
    queue: &'q Queue,
    message: Option<Message>,
}

impl LiveSession {
    /// A notification for the session's newest GET stream. If too many wait, the oldest are lost.
    pub fn tell(&self, message: Bytes) {
        self.queue.push(Message { text: message, must: false });
    }

    /// A request or an answer for the session's newest GET stream. False: no stream is open, and none takes it. Where too
    /// much waits unread, the streams end.
    pub fn put(&self, message: Bytes) -> bool {
        if *self.queue.seats.borrow() == 0 {
            return false;
        }
        self.queue.push(Message { text: message, must: true })
    }

    /// How many GET streams are open here.
    pub fn listeners(&self) -> watch::Receiver<usize> {
        self.queue.seats.subscribe()
    }
}

impl Queue {
    pub(super) fn new(most: usize) -> Queue {
        Queue { waiting: Mutex::default(), wake: Notify::new(), most, seats: watch::Sender::new(0) }
    }

    /// False: too much waited, and all of it was let go with the streams that did not take it.
    fn push(&self, message: Message) -> bool {
        let mut waiting = lock(&self.waiting);
        waiting.bytes += message.text.len();
        waiting.messages.push_back(message);
        while waiting.messages.len() > self.most || waiting.bytes > BYTES {
            let Some(oldest) = waiting.messages.iter().position(|message| !message.must) else { break };
            let lost = waiting.messages.remove(oldest).map_or(0, |message| message.text.len());
            waiting.bytes -= lost;
        }
        let few = waiting.messages.len() <= self.most.saturating_mul(UNREAD_TIMES);
        let kept = (few && waiting.bytes <= UNREAD) || waiting.messages.len() == 1;
        if !kept {
            waiting.messages.clear();
            waiting.bytes = 0;
            waiting.seats.clear();
            self.seats.send_replace(0);
        }
        drop(waiting);
        self.wake.notify_waiters();
        kept
    }

    /// The newest stream, from now on.
    pub(super) fn sit(&self) -> u64 {
        let mut waiting = lock(&self.waiting);
        waiting.next_seat += 1;
        let seat = waiting.next_seat;
        if waiting.seats.len() == SEATS {
            waiting.seats.remove(0);
        }
        waiting.seats.push(seat);
        self.seats.send_replace(waiting.seats.len());
        drop(waiting);
        self.wake.notify_waiters();
        seat
    }

    pub(super) fn leave(&self, seat: u64) {
        let mut waiting = lock(&self.waiting);
        waiting.seats.retain(|other| *other != seat);
        self.seats.send_replace(waiting.seats.len());
        drop(waiting);
        // The next newest takes over.
        self.wake.notify_waiters();
    }

    /// The next message, once this is the newest stream. `None`: this stream did not take what waited for it, or newer
    /// ones took its place, and it ends.
    pub(super) async fn next(&self, seat: u64) -> Option<Taken<'_>> {
        loop {
            let mut woken = std::pin::pin!(self.wake.notified());
            woken.as_mut().enable();
            match self.pop(seat) {
                Popped::Message(message) => return Some(Taken { queue: self, message: Some(message) }),
                Popped::Nothing => woken.await,
                Popped::Over => return None,
            }
        }
    }

    fn pop(&self, seat: u64) -> Popped {
        let mut waiting = lock(&self.waiting);
        if !waiting.seats.contains(&seat) {
            return Popped::Over;
        }
        let newest = waiting.seats.last() == Some(&seat);
        let Some(message) = newest.then(|| waiting.messages.pop_front()).flatten() else {
            return Popped::Nothing;
        };
        waiting.bytes -= message.text.len();
        Popped::Message(message)
    }
}

impl Taken<'_> {
    pub(super) fn text(&self) -> Bytes {
        self.message.as_ref().map(|message| message.text.clone()).unwrap_or_default()
    }

    pub(super) fn done(mut self) {
        self.message = None;
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let Some(message) = self.message.take() else { return };
        let mut waiting = lock(&self.queue.waiting);
        waiting.bytes += message.text.len();
        waiting.messages.push_front(message);
        drop(waiting);
        self.queue.wake.notify_waiters();
    }
}
