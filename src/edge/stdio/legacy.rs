//! The legacy session of a pipe: begun by `initialize`, standing from `notifications/initialized` on, over with the pipe.

use super::asks::Asked;
use super::talk::Talk;
use crate::edge::{dispatch, hello, standing};
use crate::mcp::{Caller, Event, Kept, Outcome};
use crate::session::{Changes, Telling};
use crate::wire::{Method, Request, envelope};
use bytes::Bytes;
use futures_util::StreamExt;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// URIs that one client may subscribe to.
const SUBSCRIPTIONS: usize = 10_000;

static SESSIONS: AtomicU64 = AtomicU64::new(0);

pub struct Legacy {
    pub caller: Arc<Caller>,
    pub ended: CancellationToken,
    /// The URIs that the client subscribed to.
    subscribed: Mutex<BTreeSet<Arc<str>>>,
    changes: Arc<Changes>,
    /// That the client's roots changed.
    pub roots: Telling,
}

impl Legacy {
    /// What `initialize` begins. Errors: the answer to one that says no version.
    pub fn begin(talk: &Talk, request: &Request) -> Result<Arc<Legacy>, Bytes> {
        let (version, client) = hello::heard(&request.params, &request.id)?;
        let key = format!("stdio-{}", SESSIONS.fetch_add(1, Ordering::Relaxed));
        let caller = Caller {
            access: talk.gate.own.clone(),
            profile: talk.mount.name.clone(),
            client: Arc::new(client),
            version,
            session: Arc::new(Kept::session(&key)),
        };
        Ok(Arc::new(Legacy {
            caller: Arc::new(caller),
            ended: talk.over.child_token(),
            subscribed: Mutex::default(),
            changes: Arc::default(),
            roots: Telling::default(),
        }))
    }

    /// The result of `initialize`.
    pub async fn handshake(&self, talk: &Talk) -> Outcome {
        match dispatch::handshake(&*talk.mount.backend, self.caller.clone(), true).await {
            Ok(result) => Outcome::Result(result),
            Err(fault) => Outcome::Error(fault),
        }
    }

    /// Takes note of a subscription that was granted or ended. What was granted is listened for when this resolves, where
    /// that can be had soon: from the answer on, the client counts on being told.
    pub async fn subscribe(&self, method: &Method, uri: Option<String>) {
        let Some(uri) = uri else { return };
        let changed = match method {
            Method::ResourcesSubscribe => {
                let mut uris = self.uris();
                uris.len() < SUBSCRIPTIONS && uris.insert(uri.into())
            }
            Method::ResourcesUnsubscribe => self.uris().remove(&*uri),
            _ => return,
        };
        if changed {
            self.changes.made();
        }
        if *method == Method::ResourcesSubscribe {
            self.changes.taken_up().await;
        }
    }

    fn uris(&self) -> MutexGuard<'_, BTreeSet<Arc<str>>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the client hears what it did not ask for. A second `initialized` changes nothing.
    pub fn stand(self: &Arc<Self>, talk: &Arc<Talk>) {
        if !self.changes.listen() {
            return;
        }
        let (talk, legacy) = (talk.clone(), self.clone());
        let changes = self.changes.clone();
        let call = {
            let legacy = self.clone();
            move |_| {
                let uris = legacy.uris();
                let uris = uris.iter().map(|uri| &**uri);
                Some(standing::call(legacy.caller.clone(), uris, legacy.ended.child_token()))
            }
        };
        let mut events = standing::events(talk.mount.backend.clone(), call, changes);
        talk.tasks.clone().spawn(async move {
            let mut asked = Asked::new(&talk);
            let tell = async {
                while let Some(event) = events.next().await {
                    match event {
                        Event::Note(note) => {
                            talk.pipe.say(envelope::write_notification(&note.method, &note.params)).await;
                        }
                        Event::Ask(ask) => asked.ask(&legacy.caller, ask).await,
                        Event::Pause | Event::Done(_) => {}
                    }
                }
            };
            // It ends without a word: nothing of it is owed to a legacy client.
            tokio::select! {
                () = tell => {}
                () = talk.closing.cancelled() => {}
                () = legacy.ended.cancelled() => {}
            }
            legacy.changes.deaf();
        });
    }
}
