//! One GET stream for all standing calls in one upstream session. The upstream gives each message to one stream alone
//! (2025-11-25 transports, *Multiple Connections*), so of two streams in a session that callers share, one would hear nothing.

use super::ask::Asks;
use super::flights::Flights;
use super::hop::Hop;
use super::{Arc, Caller, Inner, Method, Mutex};
use crate::upstream::transport::{Incoming, Route, TransportError, UpstreamSessionId};
use crate::wire::Message;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, unfold};
use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// Messages that a holder may lag behind, and the size of one: larger ones are dropped, as on a channel.
const WAITING: usize = 256;
const LARGEST: usize = 64 << 10;

pub(super) type Messages = BoxStream<'static, Result<Incoming, TransportError>>;
type Hub = broadcast::Sender<Incoming>;
/// The receiver of whoever opened the stream, made before its first message.
type First = Arc<Mutex<Option<broadcast::Receiver<Incoming>>>>;

pub(super) struct Shared {
    open: Mutex<HashMap<UpstreamSessionId, Hub>>,
    openings: Arc<Flights<UpstreamSessionId, Result<Option<Hub>, TransportError>>>,
}

impl Shared {
    pub(super) fn new() -> Shared {
        Shared { open: Mutex::default(), openings: Flights::new() }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<UpstreamSessionId, Hub>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream has ended, or ends because nobody heard it: whoever joined it meanwhile begins anew.
    fn forget(&self, session: &UpstreamSessionId, hub: &Hub) {
        let mut open = self.open();
        if open.get(session).is_some_and(|other| other.same_channel(hub)) {
            open.remove(session);
        }
    }
}

impl Inner {
    /// The messages of a legacy session that belong to no call, and whether they go on after the event `after`. `None`:
    /// the upstream has no such stream.
    pub(super) async fn hear(
        self: &Arc<Self>,
        caller: &Caller,
        hop: &Hop,
        route: Route,
        after: Option<Bytes>,
    ) -> Result<(Option<Messages>, bool), TransportError> {
        let resumed = after.is_some();
        let is_shared = self.config.stateless || caller.session.id().is_none();
        // A channel has its own way to tell everybody.
        let Some(session) = hop.session.clone().filter(|_| is_shared && hop.channel.is_none()) else {
            return Ok((hop.transport.standing(route, after).await?, resumed));
        };
        if let Some(receiver) = self.shared.open().get(&session).map(Hub::subscribe) {
            return Ok((Some(messages(receiver)), false));
        }
        let first = First::default();
        let (link, hop, slot, name) = (self.clone(), hop.clone(), first.clone(), session.clone());
        let work = || async move { link.open_shared(name, hop, route, after, slot).await };
        let Some(hub) = self.shared.openings.join(session, work).await? else { return Ok((None, false)) };
        let mine = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let resumed = resumed && mine.is_some();
        Ok((Some(messages(mine.unwrap_or_else(|| hub.subscribe()))), resumed))
    }

    async fn open_shared(
        self: Arc<Self>,
        session: UpstreamSessionId,
        hop: Hop,
        route: Route,
        after: Option<Bytes>,
        first: First,
    ) -> Result<Option<Hub>, TransportError> {
        let Some(messages) = hop.transport.standing(route.clone(), after).await? else { return Ok(None) };
        let (hub, receiver) = broadcast::channel(WAITING);
        *first.lock().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
        self.shared.open().insert(session.clone(), hub.clone());
        let asks = Asks::new(&self, &hop, route);
        let (link, given) = (Arc::downgrade(&self), hub.clone());
        let over = self.over.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = pass_on(messages, &given, asks) => {}
                () = over.cancelled() => {}
            }
            if let Some(link) = link.upgrade() {
                link.shared.forget(&session, &given);
            }
        });
        Ok(Some(hub))
    }
}

/// Until the stream ends, or nobody hears it.
async fn pass_on(mut messages: Messages, hub: &Hub, mut asks: Asks) {
    loop {
        let item = tokio::select! {
            item = messages.next() => item,
            () = hub.closed() => return,
        };
        let Some(Ok(incoming)) = item else { return };
        match incoming.message {
            Message::Request(request) if request.method == Method::Ping => drop(asks.ask(request)),
            // It belongs to no call, and the session to nobody in particular.
            Message::Request(request) => asks.refuse(&request.id),
            Message::Notification(ref note) if note.params.raw.len() > LARGEST => {}
            _ => drop(hub.send(incoming)),
        }
    }
}

/// A holder that lags behind has missed something: its stream breaks, and it begins anew.
fn messages(receiver: broadcast::Receiver<Incoming>) -> Messages {
    let items = unfold(Some(receiver), async |receiver| {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Ok(message) => Some((Ok(message), Some(receiver))),
            Err(_) => Some((Err(TransportError::Broken), None)),
        }
    });
    items.boxed()
}
