//! The requests in flight on one channel, and which of them a message of the upstream belongs to. Pure: it neither
//! sends nor waits.

use super::{cancel, refusal};
use crate::upstream::transport::{Incoming, Outgoing, TransportError};
use crate::wire::envelope::{Notification, Request, Response, write_response};
use crate::wire::{Id, Message, Method, Raw};
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tokio::sync::mpsc;

/// Notes and asks that a request may have unread.
const UNREAD: usize = 256;
/// Asks of a request that are remembered, so that the upstream can withdraw them.
const ASKS: usize = 32;

/// One message for a request, with its size while it counts as unread.
pub(super) type Item = Box<(Result<Incoming, TransportError>, usize)>;

/// The reading end of a request's messages.
pub(super) struct Mailbox {
    pub(super) items: mpsc::Receiver<Item>,
    pub(super) held: Arc<AtomicUsize>,
}

pub(super) struct Flights {
    by_id: HashMap<Id, Flight>,
    by_token: HashMap<Bytes, Id>,
    /// The age of the next request: larger is newer.
    next: u64,
    /// Bytes of notes and asks that a request may have unread.
    limit: usize,
}

struct Flight {
    who: Arc<str>,
    method: Method,
    progress: Option<Bytes>,
    age: u64,
    /// One place is kept for the response, which therefore always fits.
    to: mpsc::Sender<Item>,
    held: Arc<AtomicUsize>,
    asks: Vec<Id>,
}

/// What is left to do after a message was taken.
pub(super) enum Turn {
    Done,
    /// The upstream gets this, at once.
    Say(Bytes),
    /// The message belongs to no request.
    Standing(Box<Message>),
}

impl Flights {
    pub(super) fn new(limit: usize) -> Flights {
        Flights { by_id: HashMap::new(), by_token: HashMap::new(), next: 0, limit }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// `None`: a request of this id is in flight already, and their answers could not be told apart.
    pub(super) fn enter(&mut self, who: Arc<str>, request: Outgoing) -> Option<Mailbox> {
        if self.by_id.contains_key(&request.id) {
            return None;
        }
        let (to, items) = mpsc::channel(UNREAD + 1);
        let held = Arc::<AtomicUsize>::default();
        if let Some(token) = &request.progress {
            self.by_token.insert(token.clone(), request.id.clone());
        }
        self.next += 1;
        let Outgoing { id, method, progress, .. } = request;
        let flight =
            Flight { who, method, progress, age: self.next, to, held: held.clone(), asks: Vec::new() };
        self.by_id.insert(id, flight);
        Some(Mailbox { items, held })
    }

    /// Gives a request up: whether it was still in flight.
    pub(super) fn leave(&mut self, id: &Id) -> bool {
        self.remove(id).is_some()
    }

    fn remove(&mut self, id: &Id) -> Option<Flight> {
        let flight = self.by_id.remove(id)?;
        if let Some(token) = &flight.progress {
            self.by_token.remove(token);
        }
        Some(flight)
    }

    pub(super) fn fail(&mut self, id: &Id, why: TransportError) {
        if let Some(flight) = self.remove(id) {
            flight.finish(Err(why));
        }
    }

    pub(super) fn end(&mut self, why: &TransportError) {
        self.by_token.clear();
        for (_, flight) in self.by_id.drain() {
            flight.finish(Err(why.clone()));
        }
    }

    /// A message was too long to be kept: fails the request whose id stands at one of its ends, else the only one.
    /// Ids are unique in the process, so that finding one is proof enough.
    pub(super) fn lose(&mut self, head: &[u8], tail: &[u8], why: TransportError) {
        let named = |id: &&Id| [head, tail].iter().any(|end| memchr::memmem::find(end, id.token()).is_some());
        let id = self.by_id.keys().find(named).cloned().or_else(|| self.only());
        if let Some(id) = id {
            self.fail(&id, why);
        }
    }

    fn only(&self) -> Option<Id> {
        (self.by_id.len() == 1).then(|| self.by_id.keys().next().cloned()).flatten()
    }

    pub(super) fn route(&mut self, message: Message, size: usize) -> Turn {
        match message {
            Message::Response(response) => self.respond(response),
            Message::Request(ask) => self.ask(ask, size),
            Message::Notification(note) => self.note(note, size),
        }
    }

    fn respond(&mut self, mut response: Response) -> Turn {
        if response.id.is_none() {
            // The upstream could not read what it answers; with one request in flight it is clear which.
            response.id = self.only();
        }
        let flight = response.id.as_ref().and_then(|id| self.remove(id));
        if let Some(flight) = flight {
            flight.finish(Ok(Incoming { message: Message::Response(response), at: None }));
        }
        Turn::Done
    }

    fn ask(&mut self, ask: Request, size: usize) -> Turn {
        if ask.method == Method::Ping {
            return Turn::Say(write_response(Some(&ask.id), Ok(&Raw::trusted("{}"))));
        }
        let Some(id) = self.of_one_caller() else {
            return Turn::Say(refusal(&ask.id, "no call is in flight that the question could belong to"));
        };
        let name = ask.id.clone();
        if !self.give(&id, Message::Request(ask), size) {
            return Turn::Say(refusal(&name, "too many questions at once"));
        }
        if let Some(flight) = self.by_id.get_mut(&id) {
            flight.asks.truncate(ASKS - 1);
            flight.asks.insert(0, name);
        }
        Turn::Done
    }

    fn note(&mut self, note: Notification, size: usize) -> Turn {
        let subscription = note.params.meta.as_ref().and_then(|m| m.subscription_id.as_ref());
        let id = match (&note.method, subscription) {
            (Method::Progress, _) => {
                let token = note.params.token(&note.params.progress_token);
                match token.and_then(|token| self.by_token.get(&token)) {
                    Some(id) => id.clone(),
                    None => return Turn::Done,
                }
            }
            (Method::Cancelled, _) => match self.withdrawn(&note) {
                Some(id) => id,
                None => return Turn::Done,
            },
            (_, Some(span)) => match Id::read(note.params.raw.text(), span) {
                Some(id) if self.by_id.contains_key(&id) => id,
                // A subscription that was given up.
                _ => return Turn::Done,
            },
            (Method::LogMessage, None) => match self.of_one_caller() {
                Some(id) => id,
                None => return Turn::Standing(Box::new(Message::Notification(note))),
            },
            _ => return Turn::Standing(Box::new(Message::Notification(note))),
        };
        let may_be_lost = matches!(note.method, Method::Progress | Method::LogMessage);
        if self.give(&id, Message::Notification(note), size) || may_be_lost {
            return Turn::Done;
        }
        self.fail(&id, TransportError::Broken);
        Turn::Say(cancel(&id))
    }

    /// Whom a `cancelled` of the upstream concerns: the request that it names (a subscription that ends), or the one
    /// that got the ask that it withdraws.
    fn withdrawn(&self, note: &Notification) -> Option<Id> {
        let id = Id::read(note.params.raw.text(), note.params.request_id.as_ref()?)?;
        if self.by_id.contains_key(&id) {
            return Some(id);
        }
        self.by_id.iter().find(|(_, flight)| flight.asks.contains(&id)).map(|(id, _)| id.clone())
    }

    /// The newest request, where all that could be meant are one caller's. While calls that may ask are in flight,
    /// lists and such are not meant.
    fn of_one_caller(&self) -> Option<Id> {
        let newest = |only_asking: bool| {
            let mut newest: Option<(&Id, &Flight)> = None;
            for (id, flight) in self.by_id.iter().filter(|(_, f)| !only_asking || f.method.may_ask()) {
                match newest {
                    Some((_, other)) if other.who != flight.who => return Err(()),
                    Some((_, other)) if other.age > flight.age => {}
                    _ => newest = Some((id, flight)),
                }
            }
            Ok(newest.map(|(id, _)| id.clone()))
        };
        match newest(true) {
            Ok(Some(id)) => Some(id),
            Ok(None) => newest(false).ok().flatten(),
            Err(()) => None,
        }
    }

    /// Whether there was room.
    fn give(&self, id: &Id, message: Message, size: usize) -> bool {
        let Some(flight) = self.by_id.get(id) else { return false };
        if flight.to.capacity() <= 1 || flight.held.load(Relaxed) + size > self.limit {
            return false;
        }
        flight.held.fetch_add(size, Relaxed);
        flight.to.try_send(Box::new((Ok(Incoming { message, at: None }), size))).is_ok()
    }
}

impl Flight {
    fn finish(self, last: Result<Incoming, TransportError>) {
        // A reader that is gone needs no answer.
        let _ = self.to.try_send(Box::new((last, 0)));
    }
}
