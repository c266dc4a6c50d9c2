//! Letters and the bus of the memory store. A pod's lease is its open inbox.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc::{self, error::TrySendError};

use super::ledger::{Hold, Ledger};
use super::lock;
use crate::store::{Heard, PodId, StoreError};

/// Letters that wait in one inbox at most; one more is refused. Their bytes count towards the store's cap.
const LETTERS: usize = 4096;
/// Sayings that a slow hearer may lag behind before the oldest are lost to it, and a gap stands for them.
const SAYINGS: usize = 1024;
/// What keeping a letter costs beside its bytes, about.
const ENVELOPE: usize = 96;

pub(super) struct Post {
    ledger: Arc<Ledger>,
    bus: broadcast::Sender<Heard>,
    inboxes: Mutex<HashMap<PodId, (u64, mpsc::Sender<Letter>)>>,
    opened: AtomicU64,
}

struct Letter {
    text: Bytes,
    _hold: Hold,
}

impl Post {
    pub(super) fn new(ledger: Arc<Ledger>) -> Self {
        Post {
            ledger,
            bus: broadcast::Sender::new(SAYINGS),
            inboxes: Mutex::new(HashMap::new()),
            opened: AtomicU64::new(0),
        }
    }

    pub(super) fn mail(&self, to: &PodId, letter: &Bytes) -> Result<bool, StoreError> {
        let Some(inbox) = lock(&self.inboxes).get(to).map(|(_, inbox)| inbox.clone()) else {
            return Ok(false);
        };
        let hold = Hold::new(&self.ledger, letter.len() + ENVELOPE)?;
        match inbox.try_send(Letter { text: Bytes::copy_from_slice(letter), _hold: hold }) {
            Ok(()) => Ok(true),
            Err(TrySendError::Closed(_)) => Ok(false),
            Err(TrySendError::Full(_)) => Err(StoreError::Full),
        }
    }

    /// Never waits: who is too slow gets a gap.
    pub(super) fn say(&self, what: Heard) {
        // An error means only that nobody listens.
        let _ = self.bus.send(what);
    }

    pub(super) fn hear(self: Arc<Self>, me: PodId) -> impl Stream<Item = Heard> + Send + 'static {
        let opening = self.opened.fetch_add(1, Relaxed);
        let (sender, letters) = mpsc::channel(LETTERS);
        let bus = self.bus.subscribe();
        lock(&self.inboxes).insert(me.clone(), (opening, sender));
        let ear = Ear { letters, bus, _lease: Lease { post: self, me, opening } };
        stream::unfold((ear, false), |(mut ear, begun)| async move {
            let heard = if begun { ear.next().await? } else { Heard::Gap };
            Some((heard, (ear, true)))
        })
    }
}

struct Ear {
    letters: mpsc::Receiver<Letter>,
    bus: broadcast::Receiver<Heard>,
    _lease: Lease,
}

impl Ear {
    /// `None` once another stream of the same pod has taken over the inbox.
    async fn next(&mut self) -> Option<Heard> {
        tokio::select! {
            letter = self.letters.recv() => Some(Heard::Mail(letter?.text)),
            said = self.bus.recv() => match said {
                Ok(heard) => Some(heard),
                Err(RecvError::Lagged(_)) => Some(Heard::Gap),
                Err(RecvError::Closed) => None,
            },
        }
    }
}

/// Ends the inbox with the stream that reads it, unless a later stream has taken it over.
struct Lease {
    post: Arc<Post>,
    me: PodId,
    opening: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut inboxes = lock(&self.post.inboxes);
        if inboxes.get(&self.me).is_some_and(|(opening, _)| *opening == self.opening) {
            inboxes.remove(&self.me);
        }
    }
}
