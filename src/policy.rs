//! What a principal may: enter a profile, see a part of it, make a call, and in whose place another decides; and what
//! clients see of a tool's definition. Knows backends by [`mcp::Backend`](crate::mcp::Backend) alone: no HTTP, no status.

mod approval;
mod arguments;
mod door;
mod guard;
mod operations;
mod overrides;
mod parts;
mod pins;
mod rules;
mod view;
mod webhook;
mod who;

pub use door::{Admission, Door};
pub use operations::{Acts, Operations};
pub use pins::{Pinned, accept, remembered};

use crate::config::{self, CredentialKind, DEFAULT_PROFILE, Pin};
use crate::egress::Egress;
use crate::mcp::Backend;
use crate::sealing::Keyring;
use crate::store::Store;
use approval::Approvals;
use guard::Guard;
use overrides::Overrides;
use parts::Parts;
use pins::Pins;
use rules::Rules;
use secrecy::SecretString;
use std::sync::Arc;
use view::Said;
use webhook::Webhook;

/// What policy stands on.
#[derive(Clone)]
pub struct Ground {
    pub store: Arc<dyn Store>,
    pub keyring: Arc<Keyring>,
    pub egress: Egress,
}

/// The policy of one configuration.
pub struct Policy {
    config: config::Policy,
    ground: Ground,
    approvals: Arc<Approvals>,
    webhook: Option<Arc<Webhook>>,
}

impl Policy {
    /// `token`: what is shown to the webhook.
    pub fn new(config: &config::Policy, token: Option<SecretString>, ground: Ground) -> Policy {
        let (keyring, store) = (ground.keyring.clone(), ground.store.clone());
        Policy {
            approvals: Arc::new(Approvals { keyring, store, life: config.approval_life }),
            webhook: Webhook::of(&config.webhook, token, ground.egress.clone()).map(Arc::new),
            config: config.clone(),
            ground,
        }
    }

    /// What the callers of a profile may call of catalogs; `None`: everything.
    pub fn operations(&self, name: &str, profile: &config::Profile) -> Option<Operations> {
        Operations::of(&self.config, name, profile)
    }

    /// An upstream as a profile gets it: behind a guard, where anything is said of it.
    pub fn guard(
        &self,
        name: &str,
        profile: &config::Profile,
        upstream: &config::Upstream,
        backend: Arc<dyn Backend>,
    ) -> Arc<dyn Backend> {
        let name = if name.is_empty() { DEFAULT_PROFILE } else { name };
        let id = backend.id().as_str().to_owned();
        let said = Said {
            parts: Parts::of(profile, &id),
            rules: Rules::of(&self.config, name, &id),
            overrides: Overrides::of(upstream),
            connects: upstream.auth.kind == CredentialKind::Oauth,
        };
        if said.parts.is_empty()
            && said.rules.is_idle()
            && said.overrides.is_empty()
            && upstream.pin == Pin::Off
        {
            return backend;
        }
        let pins = Pins::of(&id, upstream, &self.ground.store);
        Arc::new(Guard::new(backend, said, pins, self.approvals.clone(), self.webhook.clone()))
    }
}

#[cfg(test)]
mod tests;
