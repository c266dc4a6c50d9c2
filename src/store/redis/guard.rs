//! The watch over the line that tells of changes: it turns tracking on, subscribes to the bus, asks each server every
//! second whether the connection and what it holds are still the same, and ends the cache's trust where they are not or the
//! answer fails to come.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use fred::interfaces::{ClientLike as _, EventInterface as _, PubsubInterface as _, TrackingInterface as _};
use fred::prelude::Server;
use fred::types::{Message, Value};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::MissedTickBehavior;

use super::line::{self, To, Trouble};
use super::{Shared, reply};
use crate::store::{Health, Heard, Key, PodId, Topic};

/// How often the line is asked, and how long its answer may take: a session that ended elsewhere is served no longer.
const BEAT: Duration = Duration::from_secs(1);
/// How long it waits between attempts to begin again.
const AGAIN: Duration = Duration::from_millis(200);

/// A server and the key of its mark.
type MarkName = (Server, String);

/// What each server of the line is known by.
type Connections = Vec<Connected>;

#[derive(PartialEq)]
struct Connected {
    server: Server,
    /// The number that it gave the connection: a new one has no tracking.
    number: u64,
    /// A value that stands in it until all that it holds is taken away (`FLUSHALL`), of which no key's change is told.
    mark: Bytes,
}

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
        let Ok((names, connections)) = begin(shared).await else {
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
                _ = beat.tick() => shared.cache.tidy(),
            }
            match tokio::time::timeout(BEAT, connected(shared, &names)).await {
                Ok(Ok(same)) if same == connections => {}
                _ => break,
            }
        }
        shared.cache.distrust();
    }
}

/// Turns tracking and the subscription on: on all connections, which are the same before and after.
async fn begin(shared: &Shared) -> Result<(Vec<MarkName>, Connections), Trouble> {
    let names = mark_names(shared).await?;
    let before = connected(shared, &names).await?;
    for Connected { server, .. } in &before {
        let args = vec!["TRACKING".into(), "ON".into()];
        shared.near.ask("CLIENT", To::Node(server.clone()), args).await?;
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
    let after = connected(shared, &names).await?;
    if before == after && !after.is_empty() { Ok((names, after)) } else { Err(Trouble::Away) }
}

/// Asks each server which connection this is, and for its mark.
async fn connected(shared: &Shared, names: &[MarkName]) -> Result<Connections, Trouble> {
    let mut nodes = shared.near.nodes();
    nodes.sort_by_key(|node| (node.host.to_string(), node.port));
    let asked = nodes.into_iter().map(|server| async {
        let number = shared.near.ask("CLIENT", To::Node(server.clone()), vec!["ID".into()]);
        let name = names.iter().find(|(of, _)| *of == server).map(|(_, name)| name);
        let (number, mark) = futures_util::try_join!(number, read_mark(shared, &server, name))?;
        let number = reply::integer(&number).map_err(|_| Trouble::Away)?;
        Ok(Connected { server, number, mark })
    });
    futures_util::future::try_join_all(asked).await
}

/// Of each server the key that is its mark: one of a slot of its own. A server without slots holds nothing, and has none.
async fn mark_names(shared: &Shared) -> Result<Vec<MarkName>, Trouble> {
    let nodes = shared.near.nodes();
    if !shared.near.client.is_clustered() {
        let all = (0, u16::MAX);
        return Ok(nodes.into_iter().map(|server| (server, mark_within(&shared.prefix, all))).collect());
    }
    let Some(any) = nodes.first() else { return Err(Trouble::Away) };
    let slots = shared.near.ask("CLUSTER", To::Node(any.clone()), vec!["SLOTS".into()]).await?;
    let slots = reply::slots(slots).map_err(|_| Trouble::Away)?;
    let of = |server: &Server| {
        slots
            .iter()
            .find(|slots| slots.port == server.port && *slots.host == *server.host)
            .map(|slots| slots.range)
    };
    let names = nodes.into_iter().filter_map(|server| {
        let range = of(&server)?;
        Some((server, mark_within(&shared.prefix, range)))
    });
    Ok(names.collect())
}

/// The first name whose slot is of that range.
fn mark_within(prefix: &str, (first, last): (u16, u16)) -> String {
    let mut names = (0u32..).map(|n| Key::new(format!("mark{n}"), "").render(prefix));
    names
        .find(|name| (first..=last).contains(&line::slot(name)))
        .expect("some number's name falls into any slot")
}

/// The mark, which is made where there is none.
async fn read_mark(shared: &Shared, server: &Server, name: Option<&String>) -> Result<Bytes, Trouble> {
    let Some(name) = name else { return Ok(Bytes::new()) };
    let to = || To::Node(server.clone());
    let read = async || {
        let mark = shared.near.ask("GET", to(), vec![name.as_str().into()]).await?;
        Ok(reply::bytes(mark))
    };
    if let Some(mark) = read().await? {
        return Ok(mark);
    }
    let fresh = PodId::random().to_string();
    shared.near.ask("SET", to(), vec![name.as_str().into(), fresh.into(), "NX".into()]).await?;
    read().await?.ok_or(Trouble::Away)
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
