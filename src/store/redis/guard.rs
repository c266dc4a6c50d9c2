//! The watch over the line that tells of changes: it turns tracking on, subscribes to the bus, asks each server every
//! second whether the connection is still the same, and ends the cache's trust where the answer fails to come.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use fred::interfaces::{EventInterface as _, PubsubInterface as _, TrackingInterface as _};
use fred::prelude::Server;
use fred::types::{Message, Value};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::MissedTickBehavior;

use super::line::{To, Trouble};
use super::{Shared, reply};
use crate::store::{Health, Heard, Key, Topic};

/// How often the line is asked, and how long its answer may take: a session that ended elsewhere is served no longer.
const BEAT: Duration = Duration::from_secs(1);
/// How long it waits between attempts to begin again.
const AGAIN: Duration = Duration::from_millis(200);

/// Each connection of the line, by its server and the number that the server gave it.
type Connections = Vec<(Server, u64)>;

/// Watches until it is dropped.
pub(super) async fn watch(shared: Arc<Shared>) {
    tokio::join!(keep(&shared), tell_changes(&shared), tell_sayings(&shared));
}

async fn keep(shared: &Shared) {
    let client = &shared.near.client;
    let (mut back, mut moved) = (client.reconnect_rx(), client.cluster_change_rx());
    loop {
        // What is set up now is set up on the connections that there are now.
        while back.try_recv().is_ok() || moved.try_recv().is_ok() {}
        let Ok(connections) = begin(shared).await else {
            doubt(shared);
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        shared.cache.trust();
        shared.say(Heard::Gap);
        if shared.health.send_replace(Health::Up) == Health::Away {
            tracing::info!("Redis answers");
        }
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = back.recv() => break,
                _ = moved.recv() => break,
                _ = beat.tick() => {}
            }
            match tokio::time::timeout(BEAT, connected(shared)).await {
                Ok(Ok(same)) if same == connections => {}
                _ => break,
            }
        }
        shared.cache.distrust();
    }
}

/// Turns tracking and the subscription on: on all connections, which are the same before and after.
async fn begin(shared: &Shared) -> Result<Connections, Trouble> {
    let before = connected(shared).await?;
    for (node, _) in &before {
        let args = vec!["TRACKING".into(), "ON".into()];
        shared.near.ask("CLIENT", To::Node(node.clone()), args).await?;
    }
    let subscribed = shared.near.client.subscribe(shared.channel());
    match tokio::time::timeout(shared.near.within, subscribed).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(error = error.details(), "Redis does not let this pod subscribe");
            return Err(Trouble::Away);
        }
        Err(_) => return Err(Trouble::Away),
    }
    let after = connected(shared).await?;
    if before == after && !after.is_empty() { Ok(after) } else { Err(Trouble::Away) }
}

/// Asks each server which connection this is; a new one would have no tracking.
async fn connected(shared: &Shared) -> Result<Connections, Trouble> {
    let mut nodes = shared.near.nodes();
    nodes.sort_by_key(|node| (node.host.to_string(), node.port));
    let asked = nodes.into_iter().map(|node| async move {
        let id = shared.near.ask("CLIENT", To::Node(node.clone()), vec!["ID".into()]).await?;
        Ok((node, reply::integer(&id).map_err(|_| Trouble::Away)?))
    });
    futures_util::future::try_join_all(asked).await
}

fn doubt(shared: &Shared) {
    shared.cache.distrust();
    if shared.health.send_replace(Health::Away) == Health::Up {
        tracing::warn!("Redis does not answer");
    }
}

async fn tell_changes(shared: &Shared) {
    let mut changes = shared.near.client.invalidation_rx();
    loop {
        match changes.recv().await {
            Ok(told) => {
                let names = told.keys.iter().filter_map(|name| name.as_str());
                for key in names.filter_map(|name| Key::parse(&shared.prefix, name)) {
                    shared.cache.forget(&key);
                    shared.say(Heard::Changed(key));
                }
            }
            Err(RecvError::Lagged(_)) => {
                shared.cache.clear();
                shared.say(Heard::Gap);
            }
            // The client ended, which it does not while this store lives.
            Err(RecvError::Closed) => return,
        }
    }
}

async fn tell_sayings(shared: &Shared) {
    let mut sayings: Receiver<Message> = shared.near.client.message_rx();
    loop {
        match sayings.recv().await {
            Ok(Message { value, .. }) => {
                if let Some((topic, what)) = heard(value) {
                    shared.say(Heard::Said(topic, what));
                }
            }
            Err(RecvError::Lagged(_)) => shared.say(Heard::Gap),
            Err(RecvError::Closed) => return,
        }
    }
}

impl Shared {
    /// Never waits: who is too slow gets a gap. That nobody listens is no error.
    fn say(&self, what: Heard) {
        let _ = self.bus.send(what);
    }
}

/// A saying on the bus: the length of its topic in four bytes, the topic, the rest.
pub(super) fn said(topic: &Topic, what: &Bytes) -> Bytes {
    let topic = topic.as_str();
    let mut said = BytesMut::with_capacity(4 + topic.len() + what.len());
    said.put_u32(u32::try_from(topic.len()).unwrap_or(u32::MAX));
    said.put_slice(topic.as_bytes());
    said.put_slice(what);
    said.freeze()
}

/// The inverse of [`said`]; what others publish on the channel is no saying.
fn heard(value: Value) -> Option<(Topic, Bytes)> {
    let said = reply::bytes(value)?;
    let length = u32::from_be_bytes(*said.first_chunk()?) as usize;
    let topic = std::str::from_utf8(said.get(4..length.checked_add(4)?)?).ok()?;
    Some((Topic::new(topic), said.slice(4 + length..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saying_comes_back_and_a_strange_text_is_none() {
        for (topic, what) in [("cancel", &b"\0 7"[..]), ("", b""), ("\u{1f600}\0", b"x")] {
            let (topic, what) = (Topic::new(topic), Bytes::from_static(what));
            assert_eq!(heard(said(&topic, &what).into()), Some((topic, what)));
        }
        for strange in ["", "abc", "\0\0\0\u{9}a", "hello, world"] {
            assert_eq!(heard(strange.into()), None, "{strange:?}");
        }
    }
}
