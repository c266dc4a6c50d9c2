//! What changes the state that is kept for a caller: the level and the subscriptions. A modern upstream knows neither
//! request; there the link keeps the level for later calls, and a standing call takes the subscriptions.

use super::hop::Hop;
use super::kept::Kept;
use super::{Arc, Call, Caller, Fault, Inner, Method, Note, Outcome, Reply, handshake};
use crate::mcp::Reason;
use crate::wire::{Raw, envelope, json};

impl Inner {
    pub(super) async fn keep_and_pass(self: Arc<Self>, call: Call) -> Reply {
        let (caller, change) = (call.caller.clone(), Change::of(&call));
        let hop = match self.hop(&caller).await {
            Ok(hop) => hop,
            Err(trouble) => {
                // What is asked for now is set when the upstream is back.
                if let Some(change) = change
                    && let Err(away) = self.keep(&caller, |kept| change.make(kept)).await
                {
                    tracing::debug!(upstream = %self.id(), %away, "not kept for an upstream that is away");
                }
                return Reply::fault(self.failed(trouble, true));
            }
        };
        let outcome = match hop.is_modern() {
            true => Outcome::Result(Raw::trusted("{}")),
            false => self.clone().pass(call).await.outcome().await,
        };
        let done = matches!(outcome, Outcome::Result(_));
        if done
            && let Some(change) = change.filter(|change| change.lasts(&hop))
            && let Err(away) = self.change(&caller, &hop, |kept| change.make(kept)).await
        {
            return Reply::fault(away);
        }
        Reply::One(outcome)
    }

    /// Changes what is kept where this hop keeps it.
    pub(super) async fn change(
        self: &Arc<Self>,
        caller: &Arc<Caller>,
        hop: &Hop,
        change: impl Fn(&mut Kept),
    ) -> Result<(), Reason> {
        match &hop.channel {
            Some(channel) if !hop.is_modern() => {
                change(&mut channel.kept.lock().expect("no holder of the kept state panics"));
                // The caller's own state outlives the channel, and is set again on the next.
                self.keep(caller, change).await
            }
            _ => self.keep(caller, change).await,
        }
    }

    /// What is kept for the session of a legacy hop.
    pub(super) fn kept_at(&self, hop: &Hop) -> Kept {
        match (&hop.channel, &hop.opened) {
            (Some(channel), _) => channel.kept.lock().expect("no holder of the kept state panics").clone(),
            (None, Some(opened)) => opened.kept.clone(),
            (None, None) => Kept::default(),
        }
    }

    /// Sets the level of a legacy session to what a modern caller asks for in one of its requests.
    pub(super) async fn set_level(self: &Arc<Self>, caller: &Arc<Caller>, hop: &Hop, level: &str) {
        if !self.declares(hop, "logging", None) || self.kept_at(hop).level.as_deref() == Some(level) {
            return;
        }
        let route = self.route(caller, hop, Vec::new());
        let within = self.config.request_timeout;
        match handshake::set(&hop.transport, route, Method::SetLevel, "level", level, within).await {
            Ok(_) => {
                let kept = self.change(caller, hop, |kept| kept.level = Some(level.to_owned())).await;
                if let Err(away) = kept {
                    tracing::debug!(upstream = %self.id(), %away, "a log level was not kept");
                }
            }
            Err(trouble) => {
                let code = trouble.code();
                tracing::debug!(upstream = %self.id(), code, "a log level was not set");
            }
        }
    }

    /// Passes a client's notification on to the session that is open for it; where none is, nobody waits for it.
    pub(super) async fn tell(self: Arc<Self>, caller: Arc<Caller>, note: Note) -> Result<(), Fault> {
        let message = envelope::write_notification(&note.method, &note.params);
        if let Some(channel) = self.channels.get(&self.owner(&caller)) {
            let hop = Hop {
                transport: channel.transport.clone(),
                version: channel.version,
                session: None,
                opened: None,
                channel: Some(channel),
            };
            if hop.is_modern() || self.config.stateless {
                return Ok(());
            }
            let sent = hop.transport.send(self.route(&caller, &hop, Vec::new()), message).await;
            return sent.map_err(|error| self.failed(error.into(), true));
        }
        let Some(http) = &self.reach.http else { return Ok(()) };
        if self.config.stateless {
            return Ok(());
        }
        let Some(opened) = self.already_opened(&caller).await else { return Ok(()) };
        let Some(version) = opened.version else { return Ok(()) };
        let hop = Hop {
            transport: http.clone(),
            version,
            session: opened.session.clone(),
            opened: Some(Arc::new(opened)),
            channel: None,
        };
        let sent = hop.transport.send(self.route(&caller, &hop, Vec::new()), message).await;
        sent.map_err(|error| self.failed(error.into(), true))
    }
}

/// What a request changes.
enum Change {
    Level(String),
    Subscribed(String),
    Unsubscribed(String),
}

impl Change {
    fn of(call: &Call) -> Option<Change> {
        let uri = || call.params.uri().map(|uri| uri.into_owned());
        match call.method {
            Method::SetLevel => {
                let text = call.params.raw.text();
                let members = json::lax_members(text, 0).ok()?;
                let level = members.iter().find(|m| m.is("level"))?;
                Some(Change::Level(call.params.raw.string(&level.value)?.into_owned()))
            }
            Method::ResourcesSubscribe => uri().map(Change::Subscribed),
            Method::ResourcesUnsubscribe => uri().map(Change::Unsubscribed),
            _ => None,
        }
    }

    /// A modern upstream is told of subscriptions by the standing call alone.
    fn lasts(&self, hop: &Hop) -> bool {
        !hop.is_modern() || matches!(self, Change::Level(_))
    }

    fn make(&self, kept: &mut Kept) {
        match self {
            Change::Level(level) => kept.level = Some(level.clone()),
            Change::Subscribed(uri) => kept.subscribe([uri.clone()]),
            Change::Unsubscribed(uri) => kept.uris.retain(|kept| kept != uri),
        }
    }
}
