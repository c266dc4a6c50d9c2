//! The sessions that a legacy upstream gives over HTTP: one for each caller, opened when first needed, kept where every
//! pod finds it. Whoever loses the race to keep one ends its own.

use super::flights::Flights;
use super::handshake::{self, Party};
use super::kept::{Kept, Opened};
use super::renewal::{Renewal, Turn};
use super::trouble::Trouble;
use super::{Arc, Caller, Inner, Method, Session};
use crate::clock;
use crate::mcp::{Memory, Reason};
use crate::upstream::transport::{Route, Transport, TransportError};
use moka::sync::Cache;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Callers that this pod remembers without asking the store, and for how long after their last call.
const REMEMBERED: u64 = 100_000;
const IDLE: Duration = Duration::from_secs(30 * 60);
/// After so long the store is asked again: it forgets what nobody reads.
const RECHECK: Duration = Duration::from_secs(60);
/// What the winner of a race wrote may take so long to be seen here.
const SETTLE: Duration = Duration::from_millis(10);
/// How long another pod's handshake is waited for.
const WAIT: Duration = Duration::from_secs(30);
/// Rounds of a race for a caller's state, each lost to somebody who won it.
const ROUNDS: u32 = 5;

type Openings = Flights<Arc<str>, Result<Arc<Opened>, Trouble>>;

pub(super) struct Sessions {
    known: Cache<Arc<str>, Arc<Opened>>,
    /// The same beside the sessions themselves, until one of them changes.
    near: Memory,
    openings: Arc<Openings>,
    /// Counts the sessions that took the place of lost ones.
    renewals: watch::Sender<u64>,
}

impl Sessions {
    pub(super) fn new() -> Sessions {
        Sessions {
            known: Cache::builder().max_capacity(REMEMBERED).time_to_idle(IDLE).build(),
            near: Memory::default(),
            openings: Flights::new(),
            renewals: watch::Sender::new(0),
        }
    }

    fn keep(&self, key: Arc<str>, opened: Arc<Opened>) {
        self.known.insert(key, opened);
        self.near.forget();
    }

    fn drop(&self, key: &Arc<str>) -> Option<Arc<Opened>> {
        let known = self.known.remove(key);
        self.near.forget();
        known
    }
}

impl Inner {
    fn key(&self, caller: &Caller) -> Arc<str> {
        if self.config.stateless { "".into() } else { caller.session.key().clone() }
    }

    /// The caller's open session at a legacy upstream.
    pub(super) async fn opened(self: &Arc<Self>, caller: &Arc<Caller>) -> Result<Arc<Opened>, Trouble> {
        let key = self.key(caller);
        match self.sessions.known.get(&key).filter(|opened| opened.version.is_some()) {
            Some(opened) if self.holds(&opened) => Ok(opened),
            Some(opened) => Ok(Box::pin(self.rechecked(key, caller, opened)).await),
            None => self.open(key, caller, None).await,
        }
    }

    /// As [`Inner::opened`], where nobody need be asked.
    pub(super) fn known_session(&self, caller: &Caller) -> Option<Arc<Opened>> {
        let asked = || self.sessions.known.get(&self.key(caller));
        let known = match caller.session.nook().filter(|_| !self.config.stateless) {
            Some(nook) => self.sessions.near.recall(nook, asked),
            None => asked(),
        };
        known.filter(|opened| opened.version.is_some() && self.holds(opened))
    }

    /// Whether what is known of a session need not be read again.
    fn holds(&self, opened: &Opened) -> bool {
        self.config.stateless || clock::since(opened.at) < RECHECK
    }

    /// Reads again what the store holds of an open session: that keeps it alive there, and shows what another pod made
    /// of it. With the store away, or without its record, what is known holds.
    async fn rechecked(&self, key: Arc<str>, caller: &Arc<Caller>, known: Arc<Opened>) -> Arc<Opened> {
        let was = caller.session.load(self.id()).await.ok().flatten();
        let read = Opened::of(was);
        let opened = match read.version {
            Some(_) => Arc::new(read),
            None => Arc::new(Opened { at: Instant::now(), ..(*known).clone() }),
        };
        self.sessions.keep(key, opened.clone());
        opened
    }

    /// A session in place of `used`, which the upstream does not know any more.
    pub(super) async fn renewed(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        used: &Arc<Opened>,
    ) -> Result<Arc<Opened>, Trouble> {
        let key = self.key(caller);
        if let Some(opened) = self.sessions.known.get(&key).filter(|now| now.session != used.session) {
            return Ok(opened);
        }
        let opened = self.open(key, caller, Some(used.clone())).await?;
        self.sessions.renewals.send_modify(|count| *count += 1);
        Ok(opened)
    }

    /// Changes with each session that takes the place of a lost one.
    pub(super) fn renewals(&self) -> watch::Receiver<u64> {
        self.sessions.renewals.subscribe()
    }

    /// Whether the caller's session is another by now: an upstream that has lost one need not close its stream.
    pub(super) fn has_other(&self, caller: &Caller, used: &Opened) -> bool {
        self.sessions.known.get(&self.key(caller)).is_some_and(|now| now.session != used.session)
    }

    async fn open(
        self: &Arc<Self>,
        key: Arc<str>,
        caller: &Arc<Caller>,
        used: Option<Arc<Opened>>,
    ) -> Result<Arc<Opened>, Trouble> {
        let (link, caller, name) = (self.clone(), caller.clone(), key.clone());
        let work = || async move {
            let opened = Arc::new(link.open_now(&name, &caller, used).await?);
            link.sessions.keep(name, opened.clone());
            Ok(opened)
        };
        self.sessions.openings.join(key, work).await
    }

    async fn open_now(
        self: &Arc<Self>,
        key: &Arc<str>,
        caller: &Arc<Caller>,
        used: Option<Arc<Opened>>,
    ) -> Result<Opened, Trouble> {
        let Some(http) = self.reach.http.clone() else {
            let why = "it is not reached over HTTP".into();
            return Err(Reason::Unreachable { upstream: self.id().clone(), why }.into());
        };
        let shared = self.config.stateless;
        let party = self.party(caller);
        let renewal = Renewal::new();
        let mut rounds = 0;
        let until = Instant::now() + WAIT;
        while rounds < ROUNDS && Instant::now() < until {
            let mut before = match shared {
                true => self.sessions.known.get(key).map_or(Opened::of(None), |o| (*o).clone()),
                false => Opened::of(caller.session.load(self.id()).await.map_err(|_| Reason::StoreAway)?),
            };
            let lost = used.as_ref().is_some_and(|used| used.session == before.session);
            if before.version.is_some() && !lost {
                return Ok(before);
            }
            if lost && !shared {
                match renewal.turn(caller, self.id(), before).await? {
                    Turn::Mine(marked) => before = *marked,
                    Turn::Others => {
                        tokio::time::sleep(SETTLE).await;
                        continue;
                    }
                }
            }
            rounds += 1;
            let (mut kept, about) = match self.initialize(&http, &party).await {
                Ok(begun) => begun,
                Err(trouble) => {
                    if lost && !shared {
                        renewal.give_up(caller, self.id(), before).await;
                    }
                    return Err(trouble);
                }
            };
            self.abouts.keep_hello(caller.session.key(), about);
            // What the caller asked for outlives the session that it was asked in.
            kept.level = before.kept.level.clone();
            kept.uris = before.kept.uris.clone();
            if let Some(bearer) = party.bearer.clone().filter(|_| self.is_personal()) {
                let token = bearer.token().await.map_err(TransportError::Credential)?;
                kept.account = token.and_then(|token| token.account);
            }
            let route = Route { session: kept.session(), ..party.route(kept.version()) };
            self.replay(&http, &route, &kept).await;
            if shared {
                return Ok(Opened::of(Some(kept.write())));
            }
            match Opened::swap(caller, self.id(), before.was, &kept).await {
                Ok(Some(opened)) => return Ok(opened),
                // Another pod was quicker, or the caller's session ended: what we opened is nobody's.
                Ok(None) => {
                    self.close(&http, route);
                    tokio::time::sleep(SETTLE).await;
                }
                Err(away) => {
                    self.close(&http, route);
                    return Err(away.into());
                }
            }
        }
        Err(Reason::Cancelled.into())
    }

    /// Sets up a new session as the one before it was. What the upstream refuses now it will refuse the caller too.
    pub(super) async fn replay(&self, http: &Arc<dyn Transport>, route: &Route, kept: &Kept) {
        let within = self.config.request_timeout;
        let levels = kept.level.iter().map(|level| (Method::SetLevel, "level", level));
        let uris = kept.uris.iter().map(|uri| (Method::ResourcesSubscribe, "uri", uri));
        for (method, key, value) in levels.chain(uris) {
            if let Err(trouble) = handshake::set(http, route.clone(), method, key, value, within).await {
                tracing::warn!(upstream = %self.id(), code = trouble.code(), key, "not set again in a new session");
            }
        }
    }

    fn close(self: &Arc<Self>, http: &Arc<dyn Transport>, route: Route) {
        let (closing, link) = (http.close(route), self.clone());
        self.tasks.spawn(async move {
            if let Err(error) = closing.await {
                tracing::debug!(upstream = %link.id(), %error, "an upstream session was not ended");
            }
        });
    }

    /// What is kept for a caller whose upstream keeps nothing (modern).
    pub(super) async fn kept(&self, caller: &Arc<Caller>) -> Result<Kept, Reason> {
        let was = caller.session.load(self.id()).await.map_err(|_| Reason::StoreAway)?;
        Ok(Kept::read(was.as_ref()))
    }

    /// Changes what is kept for a caller. It is lost, not wrong, where too many change it at once.
    pub(super) async fn keep(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        change: impl Fn(&mut Kept),
    ) -> Result<(), Reason> {
        let key = self.key(caller);
        if self.config.stateless {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            let was = caller.session.load(self.id()).await.map_err(|_| Reason::StoreAway)?;
            let mut kept = Kept::read(was.as_ref());
            let before = kept.clone();
            change(&mut kept);
            if kept == before {
                return Ok(());
            }
            if let Some(opened) = Opened::swap(caller, self.id(), was, &kept).await? {
                self.sessions.keep(key, Arc::new(opened));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Ends what was opened upstream for a session that was deleted: the one who takes the state away ends it.
    pub(super) async fn end(self: Arc<Self>, session: Arc<dyn Session>) {
        let known = self.sessions.drop(session.key());
        if self.config.stateless {
            return;
        }
        let Some(http) = &self.reach.http else { return };
        let opened = match session.load(self.id()).await {
            Ok(Some(was)) => match session.swap(self.id(), Some(was.clone()), None).await {
                Ok(true) => Opened::of(Some(was)),
                // Somebody else took it away.
                Ok(false) => return,
                Err(_) => Opened::of(Some(was)),
            },
            // The record went with the session; this pod may still know what it held.
            Ok(None) | Err(_) => match known {
                Some(known) => (*known).clone(),
                None => return,
            },
        };
        self.delete(http, opened, session.key()).await;
    }

    /// Ends the session that serves all callers.
    pub(super) async fn end_shared(&self) {
        let shared: Arc<str> = "".into();
        if let (true, Some(http)) = (self.config.stateless, &self.reach.http)
            && let Some(opened) = self.sessions.drop(&shared)
        {
            self.delete(http, (*opened).clone(), &shared).await;
        }
    }

    async fn delete(&self, http: &Arc<dyn Transport>, opened: Opened, who: &Arc<str>) {
        if opened.session.is_none() {
            return;
        }
        let party = Party { who: who.clone(), ..self.ourselves() };
        let route = Route { session: opened.session, ..party.route(opened.version) };
        if let Err(error) = http.close(route).await {
            tracing::debug!(upstream = %self.id(), %error, "an upstream session was not ended");
        }
    }

    /// The caller's session, where one is open: nothing is opened for this.
    pub(super) async fn already_opened(&self, caller: &Arc<Caller>) -> Option<Opened> {
        let known = self.sessions.known.get(&self.key(caller));
        let opened = match known {
            Some(known) => (*known).clone(),
            None if self.config.stateless => return None,
            None => Opened::of(caller.session.load(self.id()).await.ok()?),
        };
        opened.version.is_some().then_some(opened)
    }
}
