//! Whose a stream is that answers a POST. Its writer keeps a record beside the log: who it is, and what another pod needs to
//! go on with the calls. Every event is written under the condition that the record is still the writer's, so of two pods
//! that believe to be it, one writes. When the writer's pod is gone, a reader takes its place, and one alone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::outlet::{Outlet, Stored, log_key};
use super::{LiveSession, lock};
use crate::mcp::SessionId;
use crate::store::{Check, Commit, Key, PodId, Sure, Write};

/// The field that names the writer.
const BY: &str = "by";
/// Rounds of a write against others who change the record: no more than the writer and one heir do.
const ROUNDS: usize = 4;

/// Why a message had nowhere to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// The session has ended, and nobody can read what more is sent.
    #[error("the session has ended")]
    Ended,
    /// Another pod goes on with the stream: it took this one for gone.
    #[error("another pod goes on with the stream")]
    TakenOver,
}

/// A stream that another pod left, and what it noted of its calls.
pub struct Inherited {
    pub outlet: Outlet,
    pub notes: BTreeMap<Arc<str>, Bytes>,
}

/// Goes on with what another pod left.
pub type Heir = Arc<dyn Fn(Inherited) + Send + Sync>;

/// The writer's side of the record.
#[derive(Default)]
pub(super) struct Claim {
    /// Whether the record names this pod.
    held: AtomicBool,
    /// What is to be noted with the next write.
    notes: Mutex<BTreeMap<Arc<str>, Bytes>>,
}

impl Claim {
    /// Of a stream that was taken over.
    fn taken() -> Claim {
        Claim { held: AtomicBool::new(true), notes: Mutex::default() }
    }

    pub(super) fn note(&self, field: Arc<str>, value: Bytes) {
        lock(&self.notes).insert(field, value);
    }

    pub(super) fn has_notes(&self) -> bool {
        !lock(&self.notes).is_empty()
    }
}

/// What became of a wish to take a stream over.
pub(super) enum Succession {
    Mine(Inherited),
    /// This pod writes it, or did until now.
    Other(PodId),
    /// Nothing is known of its calls: it cannot be gone on with.
    Unknown,
    /// The store does not answer.
    Away,
}

pub(super) fn claim_key(id: &SessionId, name: &str) -> Key {
    Key::new(id.0.clone(), format!("w:{name}"))
}

impl LiveSession {
    /// Appends to a log and notes what is to be noted, as its writer. The event's number; `None` where the store did not
    /// take it, or nothing was appended.
    pub(super) async fn write_log(
        &self,
        name: &str,
        claim: &Claim,
        event: Option<&Stored>,
    ) -> Result<Option<u64>, Unsent> {
        let settings = &self.shared.settings;
        let last = event.is_some_and(|event| event.last);
        let event = event.map(Stored::write);
        if let Some(event) = &event
            && !self.shared.budget.admits(event.len(), settings.backlog_life, settings.backlog_bytes)
        {
            return if self.ended().is_cancelled() { Err(Unsent::Ended) } else { Ok(None) };
        }
        let (log, key) = (log_key(self.session_id(), name), claim_key(self.session_id(), name));
        let notes = std::mem::take(&mut *lock(&claim.notes));
        for _ in 0..ROUNDS {
            let held = claim.held.load(Ordering::Acquire);
            let mut checks = vec![(self.record(), Check::Present)];
            let mut writes = Vec::new();
            if let Some(event) = &event {
                let append = Write::Append { event: event.clone(), keep: settings.backlog };
                writes.extend([(log.clone(), append), (log.clone(), Write::Live(settings.backlog_life))]);
            }
            match (held, last) {
                (true, _) => checks.push((key.clone(), Check::field(BY, self.me()))),
                (false, false) => {
                    checks.push((key.clone(), Check::no_field(BY)));
                    writes.push((key.clone(), Write::set(BY, self.me())));
                }
                // Begun and ended at once: nobody needs to go on with it.
                (false, true) => {}
            }
            if last {
                writes.extend(held.then(|| (key.clone(), Write::Drop)));
            } else {
                let notes = notes
                    .iter()
                    .map(|(field, value)| (key.clone(), Write::Set(field.clone(), value.clone())));
                writes.extend(notes);
                writes.push((key.clone(), Write::Live(settings.backlog_life)));
            }
            match self.shared.store.commit(checks, writes, Sure::Master).await {
                Ok(Commit::Done(numbers)) => {
                    claim.held.store(true, Ordering::Release);
                    return Ok(event.and(numbers.first().copied()));
                }
                Ok(Commit::Failed { check: 0 }) => return Err(Unsent::Ended),
                // The store forgot the record, or took it without saying so; or it is another's.
                Ok(Commit::Failed { .. }) => match self.shared.store.get(key.clone()).await {
                    Ok(record) => {
                        let by = record.as_ref().and_then(|record| record.field(BY));
                        if by.is_some_and(|by| *by != self.me()) {
                            return Err(Unsent::TakenOver);
                        }
                        claim.held.store(by.is_some(), Ordering::Release);
                    }
                    Err(_) => break,
                },
                Err(_) => break,
            }
        }
        // It is noted with the next write, unless something newer is.
        let mut waiting = lock(&claim.notes);
        for (field, value) in notes {
            waiting.entry(field).or_insert(value);
        }
        Ok(None)
    }

    /// Who writes a stream whose first writer is gone.
    pub(super) async fn successor(&self, name: &str) -> Succession {
        let key = claim_key(self.session_id(), name);
        match self.shared.store.get(key).await {
            Ok(Some(record)) => match record.field(BY).and_then(|by| std::str::from_utf8(by).ok()) {
                Some(by) => Succession::Other(PodId::named(by)),
                None => Succession::Unknown,
            },
            Ok(None) => Succession::Unknown,
            Err(_) => Succession::Away,
        }
    }

    /// Takes the place of a writer that is gone. Of all pods that wish to, one does.
    pub(super) async fn succeed(self: &Arc<Self>, name: &Arc<str>, gone: &PodId) -> Succession {
        let key = claim_key(self.session_id(), name);
        let gone = Bytes::copy_from_slice(gone.as_str().as_bytes());
        let checks = vec![(self.record(), Check::Present), (key.clone(), Check::field(BY, gone))];
        let writes = vec![
            (key.clone(), Write::set(BY, self.me())),
            (key.clone(), Write::Live(self.shared.settings.backlog_life)),
        ];
        match self.shared.store.commit(checks, writes, Sure::Master).await {
            Ok(Commit::Done(_)) => {}
            Ok(Commit::Failed { .. }) => return self.successor(name).await,
            Err(_) => return Succession::Away,
        }
        let Ok(Some(record)) = self.shared.store.get(key).await else { return Succession::Away };
        let notes = record.fields.iter().filter(|(field, _)| &***field != BY);
        let notes = notes.map(|(field, value)| (field.clone(), value.clone())).collect();
        tracing::info!(stream = &**name, "going on with a stream whose pod is gone");
        Succession::Mine(Inherited { outlet: Outlet::again(self, name, Claim::taken()), notes })
    }

    fn me(&self) -> Bytes {
        Bytes::copy_from_slice(self.shared.post.me.as_str().as_bytes())
    }
}
