//! What a session's record says: whose it is, what the client said of itself, what it subscribed to. Packed into one
//! field, for a session must cost almost nothing (928 bytes against 1,665 for a field each).

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::FACTS;
use crate::mcp::{Client, Principal};
use crate::store::Record;
use crate::wire::{Raw, Version, json};

/// The most that `clientInfo` may take; of a larger one (icons as `data:` URIs) only name, title and version are kept.
const INFO: usize = 4 << 10;
/// The most that a client's capabilities may take.
const CAPABILITIES: usize = 16 << 10;
/// The most that the subscribed URIs of one session may take together.
const SUBSCRIPTIONS: usize = 64 << 10;
/// And how many they may be: each is looked for in each change that is told.
const SUBSCRIBED: usize = 1_000;

/// 144 bits of SHA-256, enough to tell identities apart, as 24 characters that a key may hold.
pub(super) fn short_hash(text: &[u8]) -> Arc<str> {
    URL_SAFE_NO_PAD.encode(&digest(&SHA256, text).as_ref()[..18]).into()
}

/// A principal as records and keys name it.
pub(super) fn owner(principal: &Principal) -> Arc<str> {
    short_hash(principal.identity().as_bytes())
}

/// Milliseconds since 1970, by this machine's clock. Pods' clocks differ by far less than what is measured with it.
pub(super) fn now() -> u64 {
    crate::clock::unix_ms()
}

/// Which transport a session lives on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Streamable HTTP: its streams can be resumed.
    Streamable,
    /// HTTP+SSE of 2024-11-05: one stream, without event ids, and a short life after it.
    Sse,
}

/// A session's record, read.
#[derive(Clone, Debug)]
pub struct Facts {
    pub version: Version,
    pub client: Arc<Client>,
    /// What `logging/setLevel` last asked for.
    pub level: Option<Arc<str>>,
    /// The URIs that the client subscribed to.
    pub subscriptions: Arc<BTreeSet<Arc<str>>>,
    pub transport: Transport,
    pub(super) owner: Arc<str>,
    pub(super) profile: Arc<str>,
    /// When its life was last extended, in milliseconds since 1970.
    pub(super) touched: u64,
    /// Whether anything but the handshake ever came.
    pub(super) used: bool,
    /// The field that this was read from, or is written as.
    pub(super) packed: Bytes,
    /// The record's revision then: what a cache gives may be older than what is held.
    pub(super) rev: u64,
}

/// What a session cannot keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TooLarge {
    #[error("the client's capabilities are larger than {CAPABILITIES} bytes")]
    Capabilities,
    #[error(
        "this session has more than {SUBSCRIBED} subscriptions, or larger than {SUBSCRIPTIONS} bytes together"
    )]
    Subscriptions,
}

#[derive(Serialize, Deserialize)]
struct Packed<'a> {
    #[serde(rename = "o")]
    owner: Arc<str>,
    #[serde(rename = "p")]
    profile: Arc<str>,
    #[serde(rename = "v")]
    version: String,
    #[serde(rename = "i", borrow, default, skip_serializing_if = "Option::is_none")]
    info: Option<&'a RawValue>,
    #[serde(rename = "c", borrow, default, skip_serializing_if = "Option::is_none")]
    capabilities: Option<&'a RawValue>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    user_agent: Option<Arc<str>>,
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    level: Option<Arc<str>>,
    #[serde(rename = "s", default, skip_serializing_if = "BTreeSet::is_empty")]
    subscriptions: BTreeSet<Arc<str>>,
    #[serde(rename = "h", default, skip_serializing_if = "std::ops::Not::not")]
    sse: bool,
    #[serde(rename = "t")]
    touched: u64,
    #[serde(rename = "u", default, skip_serializing_if = "std::ops::Not::not")]
    used: bool,
}

impl Facts {
    pub(super) fn new(
        owner: Arc<str>,
        profile: Arc<str>,
        version: Version,
        client: &Client,
        transport: Transport,
    ) -> Result<Facts, TooLarge> {
        let facts = Facts {
            version,
            client: Arc::new(kept(client)?),
            level: None,
            subscriptions: Arc::default(),
            transport,
            owner,
            profile,
            touched: now(),
            used: false,
            packed: Bytes::new(),
            rev: 0,
        };
        let facts = facts.pack();
        // Read back, so that it holds its own bytes and not the whole buffer that the request came in.
        Ok(Facts::unpack(&facts.packed).unwrap_or(facts))
    }

    /// Says of itself what `initialize` says, where the session was there before it (HTTP+SSE).
    pub(super) fn describe(&mut self, version: Version, client: &Client) -> Result<(), TooLarge> {
        self.version = version;
        let mut client = kept(client)?;
        // That it said nothing is said too.
        client.capabilities.get_or_insert(Raw::trusted("{}"));
        self.client = Arc::new(client);
        Ok(())
    }

    pub(super) fn has_begun(&self) -> bool {
        self.used && self.client.capabilities.is_some()
    }

    pub(super) fn subscribe(&mut self, uri: &str) -> Result<(), TooLarge> {
        let taken: usize = self.subscriptions.iter().map(|uri| uri.len()).sum();
        let full = taken + uri.len() > SUBSCRIPTIONS || self.subscriptions.len() >= SUBSCRIBED;
        if full && !self.subscriptions.contains(uri) {
            return Err(TooLarge::Subscriptions);
        }
        Arc::make_mut(&mut self.subscriptions).insert(uri.into());
        Ok(())
    }

    pub(super) fn unsubscribe(&mut self, uri: &str) {
        Arc::make_mut(&mut self.subscriptions).remove(uri);
    }

    /// The same with `packed` written anew.
    pub(super) fn pack(mut self) -> Facts {
        let info = self.client.info.as_ref().map(Raw::to_bytes);
        let capabilities = self.client.capabilities.as_ref().map(Raw::to_bytes);
        let packed = Packed {
            owner: self.owner.clone(),
            profile: self.profile.clone(),
            version: self.version.as_str().to_owned(),
            info: info.as_ref().and_then(raw_value),
            capabilities: capabilities.as_ref().and_then(raw_value),
            user_agent: self.client.user_agent.clone(),
            level: self.level.clone(),
            subscriptions: (*self.subscriptions).clone(),
            sse: self.transport == Transport::Sse,
            touched: self.touched,
            used: self.used,
        };
        self.packed =
            serde_json::to_vec(&packed).expect("a struct of strings and numbers has a JSON form").into();
        self
    }

    /// What a session's record says; `None` where no release of ours wrote it.
    pub(super) fn read(record: &Record) -> Option<Facts> {
        Some(Facts { rev: record.rev, ..Facts::unpack(record.field(FACTS)?)? })
    }

    /// Reads the field; `None` where no release of ours wrote it.
    pub(super) fn unpack(field: &Bytes) -> Option<Facts> {
        let packed: Packed = serde_json::from_slice(field).ok()?;
        let part = |value: &RawValue| Raw::trusted(field.slice_ref(value.get().as_bytes()));
        Some(Facts {
            version: Version::parse(&packed.version)?,
            client: Arc::new(Client {
                info: packed.info.map(part),
                capabilities: packed.capabilities.map(part),
                user_agent: packed.user_agent,
                headers: Vec::new(),
            }),
            level: packed.level,
            subscriptions: Arc::new(packed.subscriptions),
            transport: if packed.sse { Transport::Sse } else { Transport::Streamable },
            owner: packed.owner,
            profile: packed.profile,
            touched: packed.touched,
            used: packed.used,
            packed: field.clone(),
            rev: 0,
        })
    }
}

fn raw_value(text: &Bytes) -> Option<&RawValue> {
    serde_json::from_slice(text).ok()
}

/// Of the client's description what a session keeps: no request headers, no icons by the megabyte.
fn kept(client: &Client) -> Result<Client, TooLarge> {
    if client.capabilities.as_ref().is_some_and(|capabilities| capabilities.len() > CAPABILITIES) {
        return Err(TooLarge::Capabilities);
    }
    let info = client.info.as_ref().map(|info| if info.len() > INFO { bare(info) } else { info.flat() });
    let user_agent =
        client.user_agent.as_deref().map(|agent| agent.chars().take(256).collect::<String>().into());
    let capabilities = client.capabilities.as_ref().map(Raw::flat);
    Ok(Client { info, capabilities, user_agent, headers: Vec::new() })
}

fn bare(info: &Raw) -> Raw {
    let text = info.to_bytes();
    let mut bare = Raw::trusted("{}");
    for member in json::lax_members(&text, 0).unwrap_or_default() {
        let short = member.value.len() <= INFO / 4;
        if let Some(key) = ["version", "title", "name"].into_iter().find(|key| member.is(key) && short) {
            bare.insert_member(0, key, &text[member.value.start as usize..member.value.end as usize]);
        }
    }
    bare.flat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(client: &Client) -> Facts {
        let owner = owner(&Principal::minted("t", "i", "s"));
        Facts::new(owner, "p".into(), Version::V2025_06_18, client, Transport::Streamable).unwrap()
    }

    #[test]
    fn a_record_reads_back_as_it_was_packed_and_is_small() {
        let client = Client {
            info: Some(Raw::trusted(r#"{"name":"claude-ai","version":"0.1.0","n":1.0}"#)),
            capabilities: Some(Raw::trusted(r#"{"elicitation":{ },"x":9007199254740993}"#)),
            user_agent: Some("Claude-User/1.0".into()),
            headers: Vec::new(),
        };
        let mut was = facts(&client);
        was.subscribe("file:///é").unwrap();
        was.level = Some("debug".into());
        let was = was.pack();
        let read = Facts::unpack(&was.packed).unwrap();
        assert_eq!(read.client.info.as_ref().unwrap().to_bytes(), client.info.unwrap().to_bytes());
        assert_eq!(read.client.capabilities(), r#"{"elicitation":{ },"x":9007199254740993}"#);
        assert_eq!(read.subscriptions, was.subscriptions);
        assert_eq!((read.version, &*read.profile), (Version::V2025_06_18, "p"));
        assert_eq!(read.pack().packed, was.packed);
        assert!(was.packed.len() < 400, "{} bytes", was.packed.len());
    }

    #[test]
    fn what_a_client_says_of_itself_cannot_fill_the_store() {
        let icons = format!(r#"{{"icons":["{}"],"name":"n","version":"1"}}"#, "x".repeat(1 << 20));
        let client = Client { info: Some(Raw::trusted(icons)), ..Client::default() };
        let kept = facts(&client);
        assert_eq!(kept.client.name().as_deref(), Some("n"));
        assert!(kept.packed.len() < 400);

        let many = format!(r#"{{"x":"{}"}}"#, "x".repeat(CAPABILITIES));
        let client = Client { capabilities: Some(Raw::trusted(many)), ..Client::default() };
        let made = Facts::new("o".into(), "".into(), Version::UNSAID, &client, Transport::Streamable);
        assert_eq!(made.unwrap_err(), TooLarge::Capabilities);

        let mut full = facts(&Client::default());
        full.subscribe(&"a".repeat(SUBSCRIPTIONS)).unwrap();
        assert_eq!(full.subscribe("b"), Err(TooLarge::Subscriptions));

        let mut many = facts(&Client::default());
        let subscribed = (0..2 * SUBSCRIBED).filter(|n| many.subscribe(&n.to_string()).is_ok());
        assert_eq!(subscribed.count(), SUBSCRIBED);
        assert!(many.subscribe("0").is_ok(), "what is there already is no more");
    }
}
