//! A pod's hearing: its lease, its durable inbox on a blocking connection of its own, and the bus of this process. The lease
//! is renewed only while somebody polls, for letters to a pod that hangs would wait for nobody.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fred::interfaces::ClientLike as _;
use fred::types::Value;
use futures_util::future::poll_fn;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::line::{self, Line};
use super::{Shared, reply, start};
use crate::store::{Check, Commit, Health, Heard, Key, PodId, StoreError, Sure, Write};

/// A lease that is not renewed ends after this: the longest that letters go to a pod that was killed, and that its calls
/// wait to be gone on with. A pod that was late by mistake loses nothing but those calls: it is fenced from their streams.
const LEASE: Duration = Duration::from_secs(10);
/// How often it is renewed, so that two renewals may fail.
const RENEWED: Duration = Duration::from_secs(3);
/// How long a read waits for letters in one go.
const BLOCK: Duration = Duration::from_secs(1);
/// Letters read at once, and kept ready for a slow hearer; the rest wait in the inbox.
const AT_ONCE: usize = 64;
/// The wait after a failed attempt.
const AGAIN: Duration = Duration::from_millis(200);

/// A pod's lease and its inbox: one slot, for mail asks for the one and writes to the other.
pub(super) fn keys(pod: &PodId) -> (Key, Key) {
    let tag = format!("pod:{pod}");
    (Key::new(tag.clone(), "l"), Key::new(tag, "in"))
}

pub(super) fn hear(shared: Arc<Shared>, me: PodId) -> BoxStream<'static, Heard> {
    let (letters, received) = mpsc::channel(AT_ONCE);
    let ended = CancellationToken::new();
    let earlier = hearings(&shared).insert(me.clone(), ended.clone());
    if let Some(earlier) = earlier {
        earlier.cancel();
    }
    let polled = Arc::new(Polled::default());
    let ear = Ear {
        received,
        bus: shared.bus.subscribe(),
        polled: polled.clone(),
        _ends: ended.clone().drop_guard(),
    };
    let hearing = Hearing { shared, me, token: Bytes::from(PodId::random().to_string()), letters, polled };
    tokio::spawn(hearing.until(ended));
    stream::unfold((ear, false), |(mut ear, begun)| async move {
        let heard = if begun { ear.next().await? } else { ear.received.recv().await? };
        Some((heard, (ear, true)))
    })
    .boxed()
}

fn hearings(
    shared: &Shared,
) -> std::sync::MutexGuard<'_, std::collections::HashMap<PodId, CancellationToken>> {
    shared.hearings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the stream holds. Dropping it ends the hearing.
struct Ear {
    /// Letters and gaps of this hearing. It ends when another one of the same pod takes over.
    received: mpsc::Receiver<Heard>,
    bus: broadcast::Receiver<Heard>,
    polled: Arc<Polled>,
    _ends: DropGuard,
}

impl Ear {
    async fn next(&mut self) -> Option<Heard> {
        let Ear { received, bus, polled, .. } = self;
        let next = async {
            tokio::select! {
                letter = received.recv() => letter,
                said = bus.recv() => match said {
                    Ok(heard) => Some(heard),
                    Err(RecvError::Lagged(_)) => Some(Heard::Gap),
                    Err(RecvError::Closed) => None,
                },
            }
        };
        let mut next = std::pin::pin!(next);
        poll_fn(|context| {
            let polling = next.as_mut().poll(context);
            polled.note(polling.is_pending());
            polling
        })
        .await
    }
}

/// When somebody last asked for what is heard.
struct Polled {
    since: Instant,
    at: AtomicU64,
    /// Asked and not answered yet: that is polled for as long as it lasts.
    waits: AtomicBool,
}

impl Default for Polled {
    fn default() -> Self {
        Polled { since: Instant::now(), at: AtomicU64::new(0), waits: AtomicBool::new(true) }
    }
}

impl Polled {
    fn note(&self, waits: bool) {
        self.at.store(self.since.elapsed().as_millis() as u64, SeqCst);
        self.waits.store(waits, SeqCst);
    }

    fn lately(&self) -> bool {
        let ago = self.since.elapsed().as_millis() as u64 - self.at.load(SeqCst).min(u64::MAX / 2);
        self.waits.load(SeqCst) || Duration::from_millis(ago) < LEASE
    }
}

struct Hearing {
    shared: Arc<Shared>,
    me: PodId,
    /// Tells this hearing's lease from that of a later one.
    token: Bytes,
    letters: mpsc::Sender<Heard>,
    polled: Arc<Polled>,
}

/// Why a lease is no longer held.
enum Lost {
    /// It ended, or the server forgot it.
    Lapsed,
    /// Another hearing of the same pod holds it.
    TakenOver,
}

impl Hearing {
    async fn until(self, ended: CancellationToken) {
        let line = Line::new(self.shared.near.client.clone_new(), self.shared.near.within);
        tokio::select! {
            () = ended.cancelled() => {}
            () = self.go_on(&line) => {}
        }
        {
            let mut hearings = hearings(&self.shared);
            // Every hearing but the last one of a pod was cancelled by the next.
            if hearings.get(&self.me).is_some_and(|latest| latest.is_cancelled()) || !ended.is_cancelled() {
                hearings.remove(&self.me);
            }
        }
        self.release().await;
    }

    async fn go_on(&self, line: &Line) {
        let _kept = loop {
            match line.client.init().await {
                Ok(running) => break start::keep(line.client.clone(), running),
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        };
        let mut undeleted = HashSet::new();
        // It outlives a lapse of the lease: what it has deleted and not handed over yet stands nowhere else.
        let mut read = std::pin::pin!(self.read(line, &mut undeleted));
        loop {
            self.lease().await;
            if self.letters.send(Heard::Gap).await.is_err() {
                return;
            }
            let lost = tokio::select! {
                lost = self.renew() => lost,
                () = &mut read => return,
            };
            match lost {
                Lost::Lapsed => {}
                Lost::TakenOver => return,
            }
        }
    }

    /// Takes the lease once the store answers and the bus is heard.
    async fn lease(&self) {
        let (lease, _) = keys(&self.me);
        let mut health = self.shared.health.subscribe();
        loop {
            // It fails only when the store is gone, and with it whoever could hear.
            let _ = health.wait_for(|health| *health == Health::Up).await;
            let writes =
                [(lease.clone(), Write::set("by", self.token.clone())), (lease.clone(), Write::Live(LEASE))];
            if let Ok(Commit::Done(_)) = self.shared.commit(&[], &writes, Sure::Master).await {
                return;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn renew(&self) -> Lost {
        let (lease, _) = keys(&self.me);
        let mine = [(lease.clone(), Check::field("by", self.token.clone()))];
        let renewed = [(lease.clone(), Write::Live(LEASE))];
        loop {
            tokio::time::sleep(RENEWED).await;
            if !self.polled.lately() {
                continue;
            }
            match self.shared.commit(&mine, &renewed, Sure::Master).await {
                Ok(Commit::Done(_)) | Err(_) => {}
                Ok(Commit::Failed { .. }) => {
                    return match self.shared.read(&self.shared.plain, &lease).await {
                        Ok(Some(_)) => Lost::TakenOver,
                        Ok(None) | Err(_) => Lost::Lapsed,
                    };
                }
            }
        }
    }

    /// Reads letters from the inbox's beginning and deletes what it has read. `undeleted` are those whose deletion was not
    /// confirmed, and which may come again.
    async fn read(&self, line: &Line, undeleted: &mut HashSet<Bytes>) {
        let (_, inbox) = keys(&self.me);
        let name = inbox.render(&self.shared.prefix);
        let slot = line::slot(&name);
        loop {
            let Ok(letters) = self.unread(line, &name, slot).await else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            if letters.is_empty() {
                continue;
            }
            let ids = letters.iter().map(|(id, _)| Value::from(id.clone()));
            let args = std::iter::once(Value::from(name.as_str())).chain(ids).collect();
            let deleted = line.ask("XDEL", slot, args).await.is_ok();
            for (id, letter) in letters {
                if undeleted.insert(id) && self.letters.send(Heard::Mail(letter)).await.is_err() {
                    return;
                }
            }
            if deleted {
                undeleted.clear();
            } else {
                // They are read again at once otherwise, for as long as they cannot be deleted.
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    async fn unread(&self, line: &Line, name: &str, slot: u16) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let block = BLOCK.as_millis().to_string();
        let count = AT_ONCE.to_string();
        let args = ["COUNT", &count, "BLOCK", &block, "STREAMS", name, "0-0"].map(Value::from);
        let read = line.ask_within("XREAD", slot, args.to_vec(), BLOCK).await;
        reply::read(read.map_err(|trouble| trouble.of(&keys(&self.me).1))?)
    }

    /// Ends the lease, if it is this hearing's, and the inbox with it. With the store away, they end by themselves.
    async fn release(&self) {
        let (lease, inbox) = keys(&self.me);
        let mine = [(lease.clone(), Check::field("by", self.token.clone()))];
        let ended = [(lease, Write::Drop), (inbox, Write::Drop)];
        let _ = self.shared.commit(&mine, &ended, Sure::Master).await;
    }
}
