//! Where a streamed call stands at its upstream: what another pod needs to go on with it. The link that carries the call
//! writes it, the edge that keeps the call's stream reads it. No I/O.

use super::UpstreamId;
use crate::wire::{Id, Version};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// A request upstream whose answer is a stream: enough to ask for the rest of it, from any pod (2025-11-25 transports,
/// *Resumability and Redelivery*). Keys are short, for it is kept with each streamed call.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Track {
    #[serde(rename = "u")]
    pub upstream: UpstreamId,
    /// Our request's id at the upstream, and its progress token there.
    #[serde(rename = "r", with = "id")]
    pub request: Id,
    /// The upstream's session that it was sent in, where it gave one.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Arc<str>>,
    /// The protocol version of the hop.
    #[serde(rename = "v", with = "version")]
    pub version: Version,
    /// The URI that the call is about, as the caller wrote it and as its owner calls it, where federation knows two.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<(Arc<str>, Arc<str>)>,
    /// The last event id that the upstream gave; `None`: its stream cannot be resumed.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Arc<str>>,
}

/// The track of a call as it runs. Shared by whoever carries the call and whoever keeps its stream.
#[derive(Default, Debug)]
pub struct Trail {
    now: Mutex<Now>,
    moved: Notify,
}

#[derive(Default, Debug)]
struct Now {
    track: Option<Track>,
    uri: Option<(Arc<str>, Arc<str>)>,
    /// Counts the requests that were sent upstream for this call.
    sent: u32,
    let_go: bool,
}

/// Without the session: whoever reads a log must not be able to use it.
impl fmt::Debug for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut of = f.debug_struct("Track");
        of.field("upstream", &self.upstream).field("request", &self.request).field("at", &self.at);
        of.finish_non_exhaustive()
    }
}

impl Trail {
    /// Nothing panics while it holds the lock but by a defect; then the track is still the best there is.
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The call goes upstream, perhaps not for the first time.
    pub fn sent(&self, track: Track) {
        let mut now = self.now();
        let uri = now.uri.clone().or_else(|| track.uri.clone());
        now.track = Some(Track { uri, ..track });
        now.sent += 1;
        drop(now);
        self.moved.notify_one();
    }

    /// The call is about this URI: as the caller wrote it, and as its owner calls it.
    pub fn about(&self, seen: &str, own: &str) {
        self.now().uri = Some((seen.into(), own.into()));
    }

    /// The upstream gave an event id with no message: what follows comes after it. An empty one forgets the last (WHATWG
    /// EventSource).
    pub fn passed(&self, id: &str) {
        self.took((!id.is_empty()).then(|| id.into()));
        self.moved.notify_one();
    }

    /// The message of the event with this id has been taken by whoever keeps the stream. A message that is only on its way
    /// is not noted: it would be lost with its pod.
    pub fn took(&self, id: Option<Arc<str>>) {
        if let Some(track) = &mut self.now().track {
            track.at = id;
        }
    }

    /// What is known, and how many requests were sent for it: while that number is the same, only the event id changes.
    pub fn track(&self) -> (u32, Option<Track>) {
        let now = self.now();
        (now.sent, now.track.clone())
    }

    /// How many requests were sent, and the last event id.
    pub fn at(&self) -> (u32, Option<Arc<str>>) {
        let now = self.now();
        (now.sent, now.track.as_ref().and_then(|track| track.at.clone()))
    }

    /// Resolves when the track has changed since this last resolved. For one waiter.
    pub async fn moved(&self) {
        self.moved.notified().await;
    }

    /// The call goes on elsewhere: whoever drops it here must not cancel it upstream.
    pub fn let_go(&self) {
        self.now().let_go = true;
    }

    pub fn is_let_go(&self) -> bool {
        self.now().let_go
    }
}

mod id {
    use super::*;
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(id: &Id, to: S) -> Result<S::Ok, S::Error> {
        // Ids of ours are strings.
        to.serialize_str(&id.as_str().unwrap_or_default())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Id, D::Error> {
        Ok(Id::of_str(&String::deserialize(from)?))
    }
}

mod version {
    use super::*;
    use serde::{Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(version: &Version, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(version.as_str())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Version, D::Error> {
        Version::parse(&String::deserialize(from)?)
            .ok_or_else(|| D::Error::custom("no version that is known"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_track_follows_its_call_and_reads_back_as_it_was_written() {
        let track = Track {
            upstream: UpstreamId::new("up").unwrap(),
            request: Id::of_str("r-1"),
            session: Some("S".into()),
            version: Version::NEWEST_LEGACY,
            uri: None,
            at: None,
        };
        let trail = Trail::default();
        trail.passed("early");
        assert_eq!(trail.track(), (0, None));
        trail.about("up+x:1", "x:1");
        trail.sent(track.clone());
        trail.passed("6");
        trail.moved().await;
        trail.took(Some("7".into()));
        let (sent, read) = trail.track();
        let want =
            Track { uri: Some(("up+x:1".into(), "x:1".into())), at: Some("7".into()), ..track.clone() };
        assert_eq!((sent, read.as_ref()), (1, Some(&want)));
        let text = serde_json::to_string(&want).unwrap();
        assert_eq!(serde_json::from_str::<Track>(&text).unwrap(), want);
        trail.sent(track);
        assert_eq!(trail.at(), (2, None), "another request has another stream");
        assert!(serde_json::from_str::<Track>(&text.replace("\"up\"", "\"no id\"")).is_err());
    }
}
