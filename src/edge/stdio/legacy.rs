//! The legacy session of a pipe: begun by `initialize`, standing from `notifications/initialized` on, over with the pipe.

use super::asks::Asked;
use super::talk::Talk;
use crate::edge::{dispatch, hello, standing};
use crate::mcp::{Caller, Event, Kept, Outcome};
use crate::wire::{Method, Request, envelope};
use bytes::Bytes;
use futures_util::StreamExt;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// URIs that one client may subscribe to.
const SUBSCRIPTIONS: usize = 10_000;

static SESSIONS: AtomicU64 = AtomicU64::new(0);

pub struct Legacy {
    pub caller: Arc<Caller>,
    pub ended: CancellationToken,
    /// The URIs that the client subscribed to.
    subscribed: watch::Sender<BTreeSet<Arc<str>>>,
    stands: AtomicBool,
}

impl Legacy {
    /// What `initialize` begins. Errors: the answer to one that says no version.
    pub fn begin(talk: &Talk, request: &Request) -> Result<Arc<Legacy>, Bytes> {
        let (version, client) = hello::heard(&request.params, &request.id)?;
        let key = format!("stdio-{}", SESSIONS.fetch_add(1, Ordering::Relaxed));
        let caller = Caller {
            principal: talk.gate.anonymous.clone(),
            profile: talk.mount.name.clone(),
            client: Arc::new(client),
            version,
            session: Arc::new(Kept::session(&key)),
        };
        Ok(Arc::new(Legacy {
            caller: Arc::new(caller),
            ended: talk.over.child_token(),
            subscribed: watch::Sender::default(),
            stands: AtomicBool::new(false),
        }))
    }

    /// The result of `initialize`.
    pub async fn handshake(&self, talk: &Talk) -> Outcome {
        match dispatch::handshake(&*talk.mount.backend, self.caller.clone()).await {
            Ok(result) => Outcome::Result(result),
            Err(fault) => Outcome::Error(fault),
        }
    }

    /// Takes note of a subscription that was granted or ended.
    pub fn subscribe(&self, method: &Method, uri: Option<String>) {
        let Some(uri) = uri else { return };
        self.subscribed.send_if_modified(|uris| match method {
            Method::ResourcesSubscribe if uris.len() < SUBSCRIPTIONS => uris.insert(uri.into()),
            Method::ResourcesUnsubscribe => uris.remove(&*uri),
            _ => false,
        });
    }

    /// From now on the client hears what it did not ask for. A second `initialized` changes nothing.
    pub fn stand(self: &Arc<Self>, talk: &Arc<Talk>) {
        if self.stands.swap(true, Ordering::AcqRel) {
            return;
        }
        let (talk, legacy) = (talk.clone(), self.clone());
        let changed = self.subscribed.subscribe();
        let call = {
            let (caller, uris, cancel) = (self.caller.clone(), changed.clone(), self.ended.clone());
            move || {
                let uris = uris.borrow();
                standing::call(caller.clone(), uris.iter().map(|uri| &**uri), cancel.child_token())
            }
        };
        let mut events = standing::events(talk.mount.backend.clone(), call, changed);
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
        });
    }
}
