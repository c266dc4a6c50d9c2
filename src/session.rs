//! Legacy transport sessions: their records in the store, their streams, and what waits in them for an answer. Any pod
//! can go on with a session; what is only here are its open sockets and the calls that run. Knows no HTTP and no backend.

mod asks;
mod budget;
mod calls;
mod cancels;
mod cap;
mod changes;
mod claim;
mod expiry;
mod facts;
mod follow;
mod letter;
mod listen;
mod live;
mod outlet;
mod overlap;
mod pending;
mod places;
mod pooled;
mod post;
mod queue;
mod route;
mod telling;
mod writers;

pub use asks::{Answered, Asking};
pub use calls::{Called, Calls, Cancelled};
pub use changes::Changes;
pub use claim::{Heir, Inherited, Unsent};
pub use facts::{Facts, TooLarge, Transport};
pub use follow::{Follower, Frame, Resumed};
pub use listen::Listener;
pub use live::{Attending, ChangeError, Ended, Feeding, LiveSession};
pub use outlet::Outlet;
pub use overlap::Overlap;
pub use pending::Pending;
pub use places::Lead;
pub use pooled::Pooled;
pub use telling::Telling;

use foldhash::HashMap as Map;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio_util::task::TaskTracker;

use crate::mcp::{Client, Principal, SessionId, StoreAway};
use crate::sealing::Keyring;
use crate::store::{Check, Commit, Key, PodId, Record, Store, StoreError, Sure, Write};
use crate::wire::Version;

/// A session's id: 192 random bits, in 32 characters of URL-safe base64.
const ID_BYTES: usize = 24;
const ID_TEXT: usize = 32;
/// Handles that stay in the pod while nothing uses them, and how long: they save reading the record again.
const KEPT_HANDLES: u64 = 10_000;
const HANDLE_IDLE: Duration = Duration::from_secs(60);
/// A session of HTTP+SSE lives this long after its stream, which keeps it while it is open.
const SSE_LIFE: Duration = Duration::from_secs(600);
/// A life is extended when this part of it has passed since anyone's touch: each write wakes every pod's cache.
const TOUCH_PART: u32 = 24;
/// A session's record among its keys: `{sid}:t`.
const RECORD: &str = "t";
/// The field of a session's record that holds its facts. Links' state stands beside it, in `u:<upstream>`.
const FACTS: &str = "s";

/// How sessions live. Durations are by the store's clock.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a session outlives its last use.
    pub life: Duration,
    /// Sessions of one principal at most; one more ends the never used, then the idlest.
    pub cap: usize,
    /// Events that a stream keeps for `Last-Event-ID`, and how long after the last one.
    pub backlog: u32,
    pub backlog_life: Duration,
    /// Bytes of the events that this pod's streams keep at most; what is more is sent without an id, and not kept.
    pub backlog_bytes: usize,
    /// Messages that wait for a GET stream at most; of more, the oldest notifications go.
    pub queue: usize,
    /// How often a stream that another pod writes is looked at, whatever that pod tells: the longest silence of a reader
    /// after its writer was lost, beyond the life of that pod's lease.
    pub again: Duration,
    /// A pod that seems to be gone is given so long to come back: one that the store lost sight of takes its lease again.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            life: Duration::from_secs(24 * 3600),
            cap: 1000,
            backlog: 1024,
            backlog_life: Duration::from_secs(600),
            backlog_bytes: 128 << 20,
            queue: 1024,
            again: Duration::from_secs(5),
            grace: Duration::from_secs(5),
        }
    }
}

/// All legacy sessions, as this pod sees them. Cheap to clone.
#[derive(Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
    /// Keeps the handles of the last minute, so that `live` finds them.
    kept: moka::sync::Cache<Arc<str>, Arc<LiveSession>>,
    /// How many sessions principals had when that was last read.
    seen: moka::sync::Cache<Arc<str>, cap::Seen>,
}

struct Shared {
    store: Arc<dyn Store>,
    keyring: Arc<Keyring>,
    settings: Settings,
    /// The handles that anything in this pod holds. One a session, for calls and streams meet in it.
    live: Mutex<Map<Arc<str>, Weak<LiveSession>>>,
    budget: budget::Budget,
    post: post::Post,
    /// [`RECORD`], as keys bear it.
    rest: Arc<str>,
    /// What goes on without whoever began it. Waited for at the pod's end.
    tasks: TaskTracker,
}

/// A new session, and those that had to end for it.
pub struct Opened {
    pub session: Arc<LiveSession>,
    /// To be ended upstream by the caller, once.
    pub ended: Vec<Arc<Ended>>,
}

/// What became of a look for a session.
pub enum Found {
    Found(Arc<LiveSession>),
    /// Unknown, ended, malformed, another principal's or another profile's: nobody learns which.
    Unknown,
    /// The store does not answer: nothing is known.
    Away,
}

/// What became of a `DELETE`.
pub enum Deleted {
    /// This call ended it: the caller ends it upstream.
    Ended(Arc<Ended>),
    /// As [`Found::Unknown`]; another call may have been quicker.
    Unknown,
    Away,
}

/// Why no session was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Away(#[from] StoreAway),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

impl Sessions {
    /// The sessions as the pod `me` sees them. Other pods reach it while [`Sessions::hear`] runs.
    pub fn new(me: PodId, store: Arc<dyn Store>, keyring: Arc<Keyring>, settings: Settings) -> Sessions {
        let kept = moka::sync::Cache::builder().max_capacity(KEPT_HANDLES).time_to_idle(HANDLE_IDLE).build();
        Sessions {
            shared: Arc::new(Shared {
                store,
                keyring,
                settings,
                live: Mutex::default(),
                budget: budget::Budget::default(),
                post: post::Post::new(me),
                rest: RECORD.into(),
                tasks: TaskTracker::new(),
            }),
            kept,
            seen: moka::sync::Cache::new(KEPT_HANDLES),
        }
    }

    /// This pod.
    pub fn pod(&self) -> &PodId {
        &self.shared.post.me
    }

    /// What runs on for the sessions without a socket: to be waited for at the pod's end.
    pub fn tasks(&self) -> &TaskTracker {
        &self.shared.tasks
    }

    /// Begins a session. It belongs to this principal and profile. Errors: the store is away; the client describes
    /// itself at too great length.
    pub async fn open(
        &self,
        principal: &Principal,
        profile: &str,
        version: Version,
        client: &Client,
        transport: Transport,
    ) -> Result<Opened, OpenError> {
        let shared = &self.shared;
        let facts = Facts::new(facts::owner(principal), profile.into(), version, client, transport)?;
        let id = loop {
            let id = SessionId(random_text::<ID_BYTES>().into());
            let key = shared.record(&id);
            let life = shared.kept(&facts);
            let writes = vec![
                (key.clone(), Write::set(FACTS, facts.packed.clone())),
                (key.clone(), Write::set(expiry::NOTED, shared.part_of(&facts).to_string())),
                (key.clone(), Write::Live(life)),
            ];
            match shared.store.commit(vec![(key, Check::Absent)], writes, Sure::Master).await {
                Ok(Commit::Done(_)) => break id,
                Ok(Commit::Failed { .. }) => continue,
                Err(_) => return Err(StoreAway.into()),
            }
        };
        // What is not noted ends too, but nobody is told.
        let (ended, _) =
            tokio::join!(cap::admit(self, &facts, &id), shared.note_end(&id, shared.part_of(&facts)));
        let ended = ended?;
        Ok(Opened { session: self.handle(id, facts), ended })
    }

    /// As [`Sessions::find`], where the session is held here and the store need not be waited for.
    pub fn at_hand(&self, id: &str, principal: &Principal, profile: &str) -> Option<Found> {
        let held = self.named(id)?;
        let read = held.at_a_glance()?;
        Some(self.judged(Some(held), id, read, (principal, profile)))
    }

    /// The session of this id, if it is this principal's and this profile's. Does not count as a use:
    /// [`LiveSession::touch`] does.
    pub async fn find(&self, id: &str, principal: &Principal, profile: &str) -> Found {
        let held = self.named(id);
        let read = match &held {
            Some(session) => session.glance().await,
            None if is_plausible(id) => {
                let record = self.shared.record(&SessionId(id.into()));
                self.shared.store.near(record).await
            }
            None => return Found::Unknown,
        };
        self.judged(held, id, read, (principal, profile))
    }

    /// What has become of the session of this id, by what was read of its record.
    fn judged(
        &self,
        held: Option<Arc<LiveSession>>,
        id: &str,
        read: Result<Option<Record>, StoreError>,
        (principal, profile): (&Principal, &str),
    ) -> Found {
        let record = match read {
            Ok(Some(record)) => record,
            Ok(None) => {
                self.forget(id);
                return Found::Unknown;
            }
            Err(_) => return Found::Away,
        };
        let Some(field) = record.field(FACTS) else { return Found::Unknown };
        // Another request may have made it while this one waited.
        let session = match held.or_else(|| self.named(id)) {
            Some(session) => session,
            None => match Facts::read(&record) {
                Some(facts) => self.handle(SessionId(id.into()), facts),
                None => return Found::Unknown,
            },
        };
        let mut facts = session.facts();
        if facts.packed != *field {
            let Some(read) = Facts::read(&record) else { return Found::Unknown };
            session.learn(read);
            facts = session.facts();
        }
        // One that ended here takes no call any more, whatever a late reading still says of it.
        if self.shared.is_over(&facts) || session.is_over() {
            drop(facts);
            self.forget(id);
            return Found::Unknown;
        }
        if *facts.profile == *profile && session.belongs_to(principal) {
            drop(facts);
            Found::Found(session)
        } else {
            Found::Unknown
        }
    }

    /// Ends a session: of any number of callers, on any pods, one gets it. Its streams end, its calls are cancelled.
    pub async fn delete(&self, id: &str, principal: &Principal, profile: &str) -> Deleted {
        let session = match self.find(id, principal, profile).await {
            Found::Found(session) => session,
            Found::Unknown => return Deleted::Unknown,
            Found::Away => return Deleted::Away,
        };
        match self.end(session.session_id()).await {
            Ok(Some(ended)) => {
                cap::leave(&self.shared, &session.facts().owner, session.session_id()).await;
                Deleted::Ended(ended)
            }
            Ok(None) => Deleted::Unknown,
            Err(StoreAway) => Deleted::Away,
        }
    }

    /// Ends all sessions of a principal; the caller ends each upstream, once. Error: the store is away; what was ended until
    /// then is given to `end` already.
    pub async fn delete_all(&self, of: &Principal, end: impl Fn(Arc<Ended>)) -> Result<(), StoreAway> {
        let owner = facts::owner(of);
        for id in cap::all(&self.shared, &owner).await? {
            if let Some(ended) = self.end(&id).await? {
                end(ended);
            }
            cap::leave(&self.shared, &owner, &id).await;
        }
        Ok(())
    }

    /// The identity of a caller without a session, for the same store.
    pub fn pooled(&self, principal: Arc<Principal>, profile: Arc<str>, client: Arc<Client>) -> Arc<Pooled> {
        Arc::new(Pooled::new(self.shared.store.clone(), principal, profile, client))
    }
}

impl Sessions {
    /// The one handle of a session in this pod, made if there is none.
    fn handle(&self, id: SessionId, facts: Facts) -> Arc<LiveSession> {
        let mut live = lock(&self.shared.live);
        if let Some(session) = live.get(&id.0).and_then(Weak::upgrade) {
            return session;
        }
        let session = Arc::new(LiveSession::new(self.shared.clone(), id.clone(), facts));
        live.insert(id.0.clone(), Arc::downgrade(&session));
        drop(live);
        self.kept.insert(id.0, session.clone());
        session
    }

    /// The sessions that run a call or have a stream open in this pod.
    fn busy(&self) -> HashSet<Arc<str>> {
        self.live()
            .iter()
            .filter(|session| session.is_busy())
            .map(|session| session.session_id().0.clone())
            .collect()
    }

    /// All handles of this pod. They are let go without the lock, which their end takes.
    fn live(&self) -> Vec<Arc<LiveSession>> {
        lock(&self.shared.live).values().filter_map(Weak::upgrade).collect()
    }

    fn held(&self, id: &SessionId) -> Option<Arc<LiveSession>> {
        self.named(&id.0)
    }

    fn named(&self, id: &str) -> Option<Arc<LiveSession>> {
        let session = lock(&self.shared.live).get(id).and_then(Weak::upgrade)?;
        if session.is_to_be_kept(HANDLE_IDLE / 4) {
            self.kept.insert(session.session_id().0.clone(), session.clone());
        }
        Some(session)
    }

    /// The session is no more: what this pod has of it ends.
    fn forget(&self, id: &str) {
        if let Some(session) = self.named(id) {
            session.close();
        }
        self.kept.invalidate(id);
    }

    /// Takes the record, and with it the right to end the session upstream. `None`: another was quicker, or it expired.
    async fn end(&self, id: &SessionId) -> Result<Option<Arc<Ended>>, StoreAway> {
        let store = &self.shared.store;
        let record = store.take(self.shared.record(id), Sure::Master).await.map_err(|_| StoreAway)?;
        let held = self.held(id);
        self.forget(&id.0);
        if let Some(session) = held {
            session.drop_logs().await;
        }
        let Some(record) = record else { return Ok(None) };
        self.shared.forget_end(id, &record).await;
        Ok(Some(Arc::new(Ended::new(id.clone(), &record))))
    }
}

impl Shared {
    fn record(&self, id: &SessionId) -> Key {
        Key::new(id.0.clone(), self.rest.clone())
    }

    fn life(&self, transport: Transport) -> Duration {
        match transport {
            Transport::Streamable => self.settings.life,
            Transport::Sse => SSE_LIFE.min(self.settings.life),
        }
    }
}

/// Whether a session may have this id.
fn is_plausible(id: &str) -> bool {
    id.len() == ID_TEXT && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// So many random bytes in URL-safe base64.
fn random_text<const BYTES: usize>() -> String {
    let mut bits = [0; BYTES];
    aws_lc_rs::rand::fill(&mut bits).expect("the system's random source does not fail once it is seeded");
    URL_SAFE_NO_PAD.encode(bits)
}

/// Nothing under these locks is meant to panic; if it does, one request must not take the others along.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
