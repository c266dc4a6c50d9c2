//! A standing call: the changes that an upstream tells of, over one connection after another. Whoever holds it misses
//! nothing: after a gap everything asked for is said to have changed.

use super::ask::Asks;
use super::begin::{Begun, Job};
use super::filter::Filter;
use super::health::jittered;
use super::hop::Hop;
use super::kept::Opened;
use super::own::Holding;
use super::shared::Messages;
use super::trouble::Trouble;
use super::{Arc, Call, Caller, Fault, Inner, Kind, Method, Note, Outcome, Reply, handshake};
use crate::mcp::{Cancel, Event, Reason};
use crate::upstream::transport::{Answer, Incoming, TransportError, UpstreamSessionId};
use crate::wire::{Era, Message, Notification, Raw, meta};
use bytes::Bytes;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::{FutureExt, StreamExt};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;

/// Events that wait for a slow reader; then the upstream waits too.
const WAITING: usize = 32;
/// The acknowledgement comes before anything else, and takes no work.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(10);
/// A standing call that is ended, for another pod's stands, gives on what its upstream had sent to it before the other's. It
/// ends so long after the upstream has answered a ping, or was given up on, and after so long at the latest. The quiet is
/// waited for in parts: after a pod stood still, what lies in the socket is read before the next part is over.
const QUIET: Duration = Duration::from_millis(50);
const QUIETS: usize = 3;
const PING_WITHIN: Duration = Duration::from_secs(1);
const LAST_WORDS: Duration = Duration::from_millis(1300);
/// A connection that held so long was a good one: the next pause is short again.
const HELD: Duration = Duration::from_secs(10);
/// Longer than any stream is held; a deadline must be a time.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The standing call of one holder.
struct Standing {
    link: Arc<Inner>,
    job: Job,
    asked: Filter,
    events: mpsc::Sender<Event>,
    /// Grows with each outage that is over.
    returns: watch::Receiver<u64>,
    /// Grows with each session upstream that takes the place of a lost one.
    renewals: watch::Receiver<u64>,
    /// Listens in place of a caller whose session other pods share; and what that session was, for an upstream that has
    /// lost it has lost ours.
    own: Option<Holding>,
    theirs: Option<Arc<Opened>>,
    /// The last event id seen, and the upstream's session that it belongs to.
    after: Option<(Option<UpstreamSessionId>, Bytes)>,
    begun: bool,
    cancel: Cancel,
    reads: Arc<Reads>,
}

/// The connection that is being read, where it may have last words, and whose it is.
type Reads = Mutex<Option<Box<(Hop, Arc<Caller>)>>>;

/// One connection of a standing call.
struct Connection {
    hop: Hop,
    asks: Asks,
    /// `None`: the upstream has no such stream.
    messages: Option<Messages>,
    acknowledged: Raw,
    /// It goes on where the one before it ended.
    resumed: bool,
}

/// The holder is gone, or has all that came before it went.
struct Left;

impl Inner {
    pub(super) fn listen(self: &Arc<Self>, call: Call) -> Reply {
        let (events, received) = mpsc::channel(WAITING);
        let (cancel, over, holder) = (call.cancel.clone(), self.over.clone(), events.clone());
        let reads = Arc::<Reads>::default();
        let mut standing = Standing {
            asked: Filter::of(&call.params),
            returns: self.health.returns(),
            renewals: self.renewals(),
            job: Job { deadline: Instant::now() + FOREVER, ..Job::of(call) },
            link: self.clone(),
            events,
            own: None,
            theirs: None,
            after: None,
            begun: false,
            cancel: cancel.clone(),
            reads: reads.clone(),
        };
        let link = self.clone();
        self.tasks.spawn(async move {
            // Beside the connection, and of no weight before: thousands wait.
            let cancelled = async {
                cancel.cancelled().await;
                let read = reads.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(read) = read {
                    let _ = timeout(LAST_WORDS, link.silence(*read)).await;
                }
            };
            tokio::select! {
                // What has come by the time that it is quiet counts.
                biased;
                _ = standing.stand() => {}
                () = holder.closed() => return,
                () = cancelled => {}
                () = over.cancelled() => {}
            }
            let done = Event::Done(Outcome::Error(Reason::Cancelled.into()));
            holder.send(done).await.ok();
        });
        Reply::Stream(ReceiverStream::new(received).boxed())
    }

    /// Resolves once all must have come that the upstream had sent by now.
    fn silence(&self, (hop, caller): (Hop, Arc<Caller>)) -> BoxFuture<'static, ()> {
        // An upstream that has no session for us knows no pings (2026-07-28), or cannot tell whose this one is.
        let ping = hop.session.is_some().then(|| {
            let (transport, route) = (hop.transport.clone(), self.route(&caller, &hop, Vec::new()));
            async move {
                let ping = handshake::ask(&transport, route, Method::Ping, Raw::trusted("{}"), PING_WITHIN);
                // What it says to that is nothing to us: it has run since.
                let _ = timeout(PING_WITHIN, ping).await;
            }
        });
        async move {
            OptionFuture::from(ping).await;
            for _ in 0..QUIETS {
                sleep(QUIET).await;
            }
        }
        .boxed()
    }
}

impl Standing {
    /// Ends only by the holder's leave.
    async fn stand(&mut self) -> Result<(), Left> {
        let mut rounds = 0;
        loop {
            let since = Instant::now();
            match self.connect().await {
                Ok(connection) => {
                    let Connection { hop, asks, messages, acknowledged, resumed } = connection;
                    self.say_begun(acknowledged, resumed).await?;
                    match messages {
                        Some(messages) => {
                            let has_last_words = self.has_last_words(&hop);
                            self.say_read(has_last_words.then(|| (hop.clone(), self.listener().clone())));
                            self.pump(hop, asks, messages).await?;
                            self.say_read(None);
                            // It is read to its end, and another's stream may be the one that is spoken to by now.
                            if self.cancel.token().is_cancelled() {
                                return Err(Left);
                            }
                        }
                        None => self.without_stream().await?,
                    }
                }
                Err(fault) => {
                    let why = fault.word();
                    tracing::debug!(upstream = %self.link.id(), why, "a standing call has no connection");
                    if !std::mem::replace(&mut self.begun, true) {
                        // Nothing is known of it now; when it is back, everything will be said to have changed.
                        let nowhere = Some(Bytes::from_static(Note::NOWHERE_YET));
                        self.note(Method::Acknowledged, self.asked.acknowledged(), nowhere).await?;
                    }
                }
            }
            if since.elapsed() >= HELD {
                rounds = 0;
            }
            tokio::select! {
                () = sleep(jittered(self.link.health.pause(rounds))) => {}
                () = changed(&mut self.returns) => {}
            }
            rounds += 1;
        }
    }

    async fn say_begun(&mut self, acknowledged: Raw, resumed: bool) -> Result<(), Left> {
        // That it is back is what this very connection found out.
        self.returns.mark_unchanged();
        if !std::mem::replace(&mut self.begun, true) {
            return self.note(Method::Acknowledged, acknowledged, None).await;
        }
        match resumed {
            true => Ok(()),
            false => self.say_everything().await,
        }
    }

    async fn say_everything(&mut self) -> Result<(), Left> {
        for (method, params) in self.asked.everything() {
            self.link.heard(&method);
            self.note(method, params, None).await?;
        }
        Ok(())
    }

    async fn note(&self, method: Method, params: Raw, at: Option<Bytes>) -> Result<(), Left> {
        self.events.send(Event::Note(Note { method, params, at })).await.map_err(|_| Left)
    }

    /// The upstream tells of nothing: all there is to say is that it was away.
    async fn without_stream(&mut self) -> Result<(), Left> {
        loop {
            changed(&mut self.returns).await;
            self.say_everything().await?;
        }
    }

    /// Whether what comes here may come nowhere else once the call has ended. On a stream of a session's own each message goes to
    /// one stream alone (2025-11-25 transports, *Multiple Connections*); and of what several hear, the next holder hears only
    /// what is said after its own acknowledgement.
    fn has_last_words(&self, hop: &Hop) -> bool {
        self.may_be_asked() && hop.channel.is_none() && !self.link.config.stateless
    }

    fn say_read(&self, read: Option<(Hop, Arc<Caller>)>) {
        *self.reads.lock().unwrap_or_else(PoisonError::into_inner) = read.map(Box::new);
    }

    /// Gives on what comes until the connection ends, or the call does.
    async fn pump(&mut self, hop: Hop, mut asks: Asks, mut messages: Messages) -> Result<(), Left> {
        loop {
            let item = tokio::select! {
                item = messages.next() => item,
                // Another connection found that there was an outage; this one need not have noticed.
                () = changed(&mut self.returns) => {
                    self.say_everything().await?;
                    continue;
                }
                () = changed(&mut self.renewals) => match self.is_lost(&hop).await {
                    true => return Ok(()),
                    false => continue,
                },
            };
            let Some(Ok(incoming)) = item else { return Ok(()) };
            if let Some(at) = &incoming.at {
                self.after = Some((hop.session.clone(), at.clone()));
            }
            match incoming.message {
                Message::Notification(note) => {
                    if note.method == Method::Cancelled {
                        asks.withdrawn(&note.params);
                        // A modern upstream on a shared channel ends a subscription so.
                        if hop.is_modern() {
                            return Ok(());
                        }
                    } else if let Some((method, params)) = self.wanted(&hop, note) {
                        self.note(method, params, incoming.at).await?;
                    }
                }
                Message::Request(request) if self.may_be_asked() || request.method == Method::Ping => {
                    if let Some(ask) = asks.ask(request) {
                        self.events.send(Event::Ask(ask)).await.map_err(|_| Left)?;
                    }
                }
                // It belongs to no call, so nobody can bring an answer.
                Message::Request(request) => asks.refuse(&request.id),
                // The subscription is complete; whoever holds this call still wants to hear.
                Message::Response(_) => return Ok(()),
            }
        }
    }

    fn is_modern_caller(&self) -> bool {
        self.job.caller.version.era() == Era::Modern
    }

    fn may_be_asked(&self) -> bool {
        !self.is_modern_caller() && self.job.caller.session.id().is_some()
    }

    /// What of a notification is the holder's. A legacy one hears all that its session hears, a modern one what it
    /// asked for.
    fn wanted(&self, hop: &Hop, note: Notification) -> Option<(Method, Raw)> {
        let Notification { method, params } = note;
        self.link.heard(&method);
        let kind = match method {
            Method::ToolsChanged => Some(Kind::Tool),
            Method::PromptsChanged => Some(Kind::Prompt),
            Method::ResourcesChanged => Some(Kind::Resource),
            _ => None,
        };
        let wanted = match (&method, kind) {
            // Progress belongs to a call, and acknowledged is said once.
            (Method::Progress | Method::Acknowledged, _) => false,
            _ if hop.is_modern() || !self.is_modern_caller() => true,
            (_, Some(kind)) => self.asked.wants(kind),
            (Method::ResourceUpdated, _) => params.uri().is_some_and(|uri| self.asked.wants_uri(&uri)),
            _ => false,
        };
        wanted.then(|| (method, unnamed(params.raw.clone(), params.meta.as_ref())))
    }

    async fn connect(&mut self) -> Result<Connection, Fault> {
        let hop = self.link.hop(&self.job.caller).await.map_err(|t| self.link.failed(t, true))?;
        match hop.is_modern() {
            true => self.subscribe().await,
            false
                if self.job.caller.session.id().is_none()
                    && hop.session.is_some()
                    && !self.link.config.stateless =>
            {
                self.theirs = hop.opened;
                let own = self.own.get_or_insert_with(|| self.link.own(&self.job.caller)).caller.clone();
                let hop = self.link.hop(&own).await.map_err(|t| self.link.failed(t, true))?;
                self.open_stream(hop).await
            }
            false => self.open_stream(hop).await,
        }
    }

    /// Whether the upstream has lost the session that is listened in, now that others found one lost.
    async fn is_lost(&mut self, hop: &Hop) -> bool {
        let other = |caller, used: &Option<Arc<Opened>>| {
            used.as_ref().is_some_and(|used| self.link.has_other(caller, used))
        };
        if other(self.listener(), &hop.opened) {
            return true;
        }
        if !other(&self.job.caller, &self.theirs) {
            return false;
        }
        // It lost the callers' session, and ours with it if ours is as old: only the upstream knows.
        self.theirs = self.link.known_session(&self.job.caller);
        let route = self.link.route(self.listener(), hop, Vec::new());
        let ping = handshake::ask(
            &hop.transport,
            route,
            Method::Ping,
            Raw::trusted("{}"),
            self.link.config.request_timeout.min(ACKNOWLEDGED_WITHIN),
        );
        matches!(ping.await, Err(Trouble::Way(TransportError::SessionGone)))
    }

    /// Whose session upstream a legacy stream is of.
    fn listener(&self) -> &Arc<Caller> {
        self.own.as_ref().map_or(&self.job.caller, |own| &own.caller)
    }

    /// A modern upstream: `subscriptions/listen`, whose first message is the acknowledgement.
    async fn subscribe(&mut self) -> Result<Connection, Fault> {
        let Begun { answered, hop, .. } = self.link.begin(&self.job).await?;
        let asks = Asks::new(&self.link, &hop, self.link.route(&self.job.caller, &hop, Vec::new()));
        let mut messages = match answered.answer {
            Answer::Stream(messages) => messages,
            Answer::One(Incoming { message: Message::Response(response), .. })
                if response.outcome.is_err() =>
            {
                // It knows no subscriptions; asking again would not teach it.
                let acknowledged = Filter::default().acknowledged();
                return Ok(Connection { hop, asks, messages: None, acknowledged, resumed: false });
            }
            Answer::One(_) => return Err(self.broken()),
        };
        let first = timeout(ACKNOWLEDGED_WITHIN, messages.next()).await;
        let Ok(Some(Ok(incoming))) = first else { return Err(self.broken()) };
        let Message::Notification(note) = incoming.message else { return Err(self.broken()) };
        if note.method != Method::Acknowledged {
            return Err(self.broken());
        }
        let acknowledged = unnamed(note.params.raw.clone(), note.params.meta.as_ref());
        Ok(Connection { hop, asks, messages: Some(messages), acknowledged, resumed: false })
    }

    /// A legacy upstream: its subscriptions, and the stream of its session.
    async fn open_stream(&mut self, hop: Hop) -> Result<Connection, Fault> {
        let caller = self.listener().clone();
        let uris = self.subscribe_uris(&hop).await;
        let route = self.link.route(&caller, &hop, Vec::new());
        let after = self.after.take().filter(|(session, _)| *session == hop.session).map(|(_, at)| at);
        let had = after.is_some();
        let (messages, resumed) = match self.link.hear(&caller, &hop, route.clone(), after).await {
            Ok(heard) => heard,
            Err(TransportError::SessionGone) => {
                if let Some(used) = &hop.opened {
                    self.link.renewed(&caller, used).await.map_err(|t| self.link.failed(t, true))?;
                }
                return Err(self.broken());
            }
            // It has the stream, and gives it to somebody else for now (official SDKs: one a session), not so often, or
            // not this time.
            Err(error @ TransportError::Refused { status: 408 | 409 | 425 | 429, .. }) => {
                return Err(self.link.failed(Trouble::Way(error), true));
            }
            // Not every server without the stream says so by 405.
            Err(TransportError::Refused { status: 400..=499, .. }) if !had => (None, false),
            Err(error) => return Err(self.link.failed(Trouble::Way(error), true)),
        };
        self.link.is_well();
        let about = self.link.clone().about(self.job.caller.clone()).await?;
        let tells =
            |kind: Kind| super::hello::declares(&about.capabilities, kind.capability(), Some("listChanged"));
        let acknowledged = self.asked.within(tells, uris).acknowledged();
        let asks = Asks::new(&self.link, &hop, route);
        Ok(Connection { hop, asks, messages, acknowledged, resumed })
    }

    /// Subscribes to the URIs of the filter that are not subscribed to in this session; gives those that are.
    async fn subscribe_uris(&self, hop: &Hop) -> Vec<String> {
        let mut subscribed = Vec::new();
        let within = self.link.config.request_timeout;
        let kept = self.link.kept_at(hop).uris;
        let mut fresh = Vec::new();
        for uri in &self.asked.uris {
            if kept.contains(uri) {
                subscribed.push(uri.clone());
                continue;
            }
            let route = self.link.route(self.listener(), hop, Vec::new());
            let method = Method::ResourcesSubscribe;
            match handshake::set(&hop.transport, route, method, "uri", uri, within).await {
                Ok(_) => fresh.push(uri.clone()),
                Err(trouble) => {
                    let code = trouble.code();
                    tracing::debug!(upstream = %self.link.id(), code, "a resource was not subscribed to");
                }
            }
        }
        if !fresh.is_empty() {
            let keep = |kept: &mut super::kept::Kept| kept.subscribe(fresh.iter().cloned());
            if let Err(away) = self.link.change(self.listener(), hop, keep).await {
                tracing::debug!(upstream = %self.link.id(), %away, "subscriptions were not kept");
            }
        }
        subscribed.extend(fresh);
        subscribed
    }

    fn broken(&self) -> Fault {
        let why = "it broke off".into();
        Reason::Unreachable { upstream: self.link.id().clone(), why }.into()
    }
}

/// Waits for the next outage to be over.
async fn changed(returns: &mut watch::Receiver<u64>) {
    if returns.changed().await.is_err() {
        // The link is gone, and its end is waited for elsewhere.
        std::future::pending::<()>().await;
    }
}

/// The params without the subscription id of our own hop: each hop has its own.
fn unnamed(raw: Raw, meta: Option<&meta::Meta>) -> Raw {
    let Some(meta) = meta.filter(|meta| meta.subscription_id.is_some()) else { return raw };
    let mut raw = raw;
    let kept = raw.part(&meta.whole).without(&[meta::SUBSCRIPTION_ID]);
    raw.edit(meta.whole.clone(), kept.to_bytes());
    raw.flat()
}
