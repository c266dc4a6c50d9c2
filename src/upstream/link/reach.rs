//! How an upstream can be reached, and what a link is told about it.

use crate::mcp::UpstreamId;
use crate::upstream::credentials::Credentials;
use crate::upstream::transport::{Dial, Transport};
use crate::wire::Era;
use std::sync::Arc;
use std::time::Duration;

/// The ways to one upstream. At least one of them is there.
pub struct Reach {
    /// Streamable HTTP: one transport for all callers.
    pub http: Option<Arc<dyn Transport>>,
    /// Channels that each owner has for itself: children; or HTTP+SSE, tried where `http` is refused.
    pub channels: Option<Arc<dyn Dial>>,
    /// The only era that the channels can speak, where their transport decides it: HTTP+SSE is legacy.
    pub channels_era: Option<Era>,
    /// What is borne to it besides the configuration's own headers. Personal ones are borne over `http` alone.
    pub credentials: Option<Arc<dyn Credentials>>,
}

/// What a link is to do with its upstream.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    pub id: UpstreamId,
    /// Pins the era; `None`: it is probed.
    pub era: Option<Era>,
    /// The upstream keeps nothing of its callers: one session, or one channel, serves them all, declared as
    /// plasm-mcp's with no capabilities.
    pub stateless: bool,
    /// The client headers that go upstream, where the client sent them. Never `Authorization` or `Cookie`.
    pub forward_headers: Vec<http::HeaderName>,
    /// Bounds requests of our own: probes, handshakes, pages of lists.
    pub request_timeout: Duration,
    /// The longest that a client's call may take here, where that is shorter than its own deadline.
    pub call_timeout: Option<Duration>,
    /// How long a channel may take to answer a discovery before it is taken for a legacy one (2026-07-28 stdio).
    pub probe_timeout: Duration,
    /// Calls at once, and how long one waits for its turn.
    pub most_calls: usize,
    pub queue_wait: Duration,
    /// Failures of the way in a row after which calls are refused for a while.
    pub failures: u32,
    /// The longest pause before an upstream that is away is tried again.
    pub longest_pause: Duration,
    /// Items of one list over all its pages; what comes beyond is an error.
    pub most_items: usize,
}

impl LinkConfig {
    /// The defaults for the upstream `id`.
    pub fn new(id: UpstreamId) -> LinkConfig {
        LinkConfig {
            id,
            era: None,
            stateless: false,
            forward_headers: Vec::new(),
            request_timeout: Duration::from_secs(30),
            call_timeout: None,
            probe_timeout: Duration::from_secs(5),
            most_calls: 512,
            queue_wait: Duration::from_secs(5),
            failures: 5,
            longest_pause: Duration::from_secs(30),
            most_items: 20_000,
        }
    }
}
