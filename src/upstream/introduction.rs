//! Who is introduced to an upstream when a channel to it is opened, and what was agreed with it: plain data, for the
//! one who wants the channel and the one who opens it may be two pods.

use crate::mcp::About;
use crate::wire::Version;
use bytes::Bytes;
use std::sync::Arc;

/// As whom a channel is opened, where nobody has opened it yet.
#[derive(Clone, Debug)]
pub struct Introduction {
    /// `clientInfo` and `capabilities` as JSON, and the capabilities in the `initialize` of a legacy session.
    pub info: Bytes,
    pub capabilities: Bytes,
    pub in_session: Bytes,
    /// As [`Route::who`](super::transport::Route::who).
    pub who: Arc<str>,
    /// The caller's own headers that the configuration forwards.
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// What the link has kept for the caller and sets again on a new channel: the link's own form.
    pub kept: Bytes,
}

/// What was agreed on a channel that is open.
#[derive(Clone, Debug)]
pub struct Agreed {
    /// The version of the hop.
    pub version: Version,
    pub about: Arc<About>,
    /// Whether the upstream speaks both eras.
    pub both_eras: bool,
    /// What was set on the channel: the link's own form.
    pub kept: Bytes,
}
