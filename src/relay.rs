//! Channels of upstreams that keep state, over several pods: a lease in the store says which pod has a caller's channel,
//! and the other pods reach it there, by an internal listener that takes sealed requests alone. Knows transports and
//! links, and nothing of clients.

mod far;
mod frames;
mod lease;
mod leased;
mod seal;
mod serve;

pub use leased::Leased;

use crate::mcp::UpstreamId;
use crate::sealing::Keyring;
use crate::store::{PodId, Store};
use crate::upstream::channel::MessageLimits;
use crate::upstream::transport::Dial;
use leased::Hold;
use seal::Seen;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a pod needs to own channels for others, and to find theirs.
pub struct Settings {
    /// Shared by all pods.
    pub store: Arc<dyn Store>,
    /// The same in all pods.
    pub keyring: Arc<Keyring>,
    pub me: PodId,
    /// Where other pods reach this one's internal listener: `host:port`.
    pub address: String,
    /// What one message of an upstream may be.
    pub message: MessageLimits,
    /// Most bytes of a message to an upstream.
    pub largest: usize,
    /// From here on leases are given up, and what other pods ask for is theirs to do.
    pub draining: CancellationToken,
    /// Has a token for each request of another pod that is being answered, so that a drain waits for it.
    pub tasks: TaskTracker,
}

/// This pod among those that share channels.
pub struct Relay {
    settings: Settings,
    client: far::Client,
    /// The channels that this pod has, by the name of their lease.
    holds: Mutex<HashMap<Arc<str>, Arc<Hold>>>,
    seen: Seen,
}

impl Relay {
    pub fn new(settings: Settings) -> Arc<Relay> {
        Arc::new(Relay { settings, client: far::client(), holds: Mutex::default(), seen: Seen::default() })
    }

    /// The channels that `inner` starts, each on one pod at a time. `like`: what must be equal in two pods for their
    /// channels to be the same (the upstream's address or command). The link that uses it is named by [`Leased::of`].
    pub fn share(self: &Arc<Self>, id: UpstreamId, like: &str, inner: Arc<dyn Dial>) -> Arc<Leased> {
        Leased::new(self.clone(), id, like, inner)
    }

    /// Nothing panics while it holds the lock but by a defect; then the map is still the best there is.
    fn holds(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Hold>>> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
