//! What a link keeps for a caller, so that any pod can go on: the upstream's session, the level, the subscriptions.

use super::renewal::Mark;
use crate::mcp::{Caller, Reason};
use crate::upstream::transport::UpstreamSessionId;
use crate::wire::{Era, Version};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Callers that are equal to an upstream share what is kept, so it can be more than one of them may subscribe to.
const SUBSCRIPTIONS: usize = 2_000;

/// The kept state as it is stored. Keys are short, for there are many of them.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    /// The upstream's session; a legacy upstream may give none.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The version negotiated with a legacy upstream; absent where nothing was negotiated.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Which account of the caller the session was opened with, where callers have accounts.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub(super) account: Option<u64>,
    /// `logging/setLevel` of the caller.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub(super) level: Option<String>,
    /// The URIs subscribed to.
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) uris: Vec<String>,
    /// The upstream forgot the session, and somebody is about to open another.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub(super) renewing: Option<Mark>,
}

impl Kept {
    pub(super) fn negotiated(version: Version, session: Option<UpstreamSessionId>) -> Kept {
        Kept {
            session: session.map(|id| id.0.to_string()),
            version: Some(version.as_str().to_owned()),
            ..Kept::default()
        }
    }

    /// The same with this mark, or with none.
    pub(super) fn marked(self, renewing: Option<Mark>) -> Kept {
        Kept { renewing, ..self }
    }

    /// Keeps subscriptions, in the order they came; of too many the oldest go, and are not set again in a new session.
    pub(super) fn subscribe(&mut self, uris: impl IntoIterator<Item = String>) {
        for uri in uris {
            if !self.uris.contains(&uri) {
                self.uris.push(uri);
            }
        }
        self.uris.drain(..self.uris.len().saturating_sub(SUBSCRIPTIONS));
    }

    /// Nothing where nothing was kept, or where another release wrote what we cannot read: then it is made anew.
    pub(super) fn read(bytes: Option<&Bytes>) -> Kept {
        bytes.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
    }

    pub(super) fn write(&self) -> Bytes {
        serde_json::to_vec(self).expect("strings always have a JSON form").into()
    }

    /// The legacy version of the open session; `None` where none is open.
    pub(super) fn version(&self) -> Option<Version> {
        self.version.as_deref().and_then(Version::parse).filter(|v| v.era() == Era::Legacy)
    }

    pub(super) fn session(&self) -> Option<UpstreamSessionId> {
        self.session.as_deref().map(|id| UpstreamSessionId(id.into()))
    }
}

/// What is kept for one caller, as this pod knows it.
#[derive(Clone, Debug)]
pub(super) struct Opened {
    pub(super) kept: Kept,
    /// The version and session of `kept`, parsed.
    pub(super) version: Option<Version>,
    pub(super) session: Option<UpstreamSessionId>,
    /// What the store holds: the witness for the next compare-and-set.
    pub(super) was: Option<Bytes>,
    /// When it was read or written.
    pub(super) at: Instant,
}

impl Opened {
    pub(super) fn of(was: Option<Bytes>) -> Opened {
        let kept = Kept::read(was.as_ref());
        Opened { version: kept.version(), session: kept.session(), kept, was, at: Instant::now() }
    }

    /// Replaces what is kept for `caller` where it still is `was`; `None` where another was quicker.
    pub(super) async fn swap(
        caller: &Caller,
        upstream: &crate::mcp::UpstreamId,
        was: Option<Bytes>,
        kept: &Kept,
    ) -> Result<Option<Opened>, Reason> {
        let now = Some(kept.write());
        let done = caller.session.swap(upstream, was, now.clone()).await;
        Ok(done.map_err(|_| Reason::StoreAway)?.then(|| Opened::of(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_kept_once_and_of_too_many_the_oldest_go() {
        let mut kept = Kept::default();
        kept.subscribe((0..SUBSCRIPTIONS).chain(0..10).map(|n| n.to_string()));
        assert_eq!((kept.uris.len(), &*kept.uris[0]), (SUBSCRIPTIONS, "0"));
        kept.subscribe(["new".to_owned()]);
        assert_eq!((kept.uris.len(), &*kept.uris[0]), (SUBSCRIPTIONS, "1"));
    }

    #[test]
    fn what_is_kept_reads_back_and_garbage_is_nothing() {
        let mut kept = Kept::negotiated(Version::V2025_06_18, Some(UpstreamSessionId("a b".into())));
        kept.level = Some("debug".into());
        assert_eq!(kept.write(), r#"{"s":"a b","v":"2025-06-18","l":"debug"}"#);
        let opened = Opened::of(Some(kept.write()));
        assert_eq!((opened.version, opened.kept), (Some(Version::V2025_06_18), kept));
        assert_eq!(Opened::of(Some("{]".into())).version, None);
        assert_eq!(Kept::read(Some(&Bytes::from_static(br#"{"v":"2026-07-28"}"#))).version(), None);
    }
}
