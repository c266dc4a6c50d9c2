//! By which way a reply tells its reader to fetch a stored result: chosen once for a transport, and logged then. Wording and
//! links alone; what a caller may read does not depend on it.

use super::Inner;
use crate::{
    execute::artifacts::{AccessMode, Resolved},
    mcp::Caller,
    wire::{Era, Version},
};

/// Transports whose way is remembered in this pod. One that is forgotten is only logged again.
pub(super) const REMEMBERED: u64 = 10_000;

/// How replies to one caller speak of stored results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    first: AccessMode,
    /// The other way is named too.
    both: bool,
    /// The client's protocol has links to resources (since 2025-06-18).
    links: bool,
}

impl Inner {
    /// The way of a caller's transport. In the modern era what a client says of itself decides nothing.
    pub(super) fn way(&self, caller: &Caller) -> Way {
        let client = &*caller.client;
        let modern = caller.version.era() == Era::Modern;
        let name = client.name().unwrap_or_default();
        let agent = client.user_agent.as_deref().unwrap_or_default();
        let transport = format!("{}\n{modern}\n{name}\n{agent}", caller.session.key());
        let access = &self.settings.artifacts;
        let resolved = self.ways.get_with(transport, || {
            let resolved = match modern {
                false => AccessMode::of(client, access),
                true => Resolved {
                    mode: access.modern(),
                    why: access.mode.map_or("modern era", |_| "setting"),
                    known: true,
                },
            };
            resolved.log(client);
            resolved
        });
        let both = modern || !resolved.known;
        let by_resource = both || resolved.mode == AccessMode::ResourcesRead;
        Way { first: resolved.mode, both, links: by_resource && caller.version >= Version::V2025_06_18 }
    }
}

impl Way {
    /// How a stored result is read, for its reader.
    pub(super) fn to(self, uri: &str) -> String {
        match (self.first, self.both) {
            (AccessMode::ToolFallback, false) => format!("plasm_read_run_artifact with artifact_uri {uri}"),
            (AccessMode::ToolFallback, true) => {
                format!("plasm_read_run_artifact with artifact_uri {uri}, or read it as a resource")
            }
            (AccessMode::ResourcesRead, false) => format!("read the resource {uri}"),
            (AccessMode::ResourcesRead, true) => {
                format!("read the resource {uri}, or plasm_read_run_artifact with it as artifact_uri")
            }
        }
    }

    /// Whether the result links to the resource beside its text.
    pub(super) fn links(self) -> bool {
        self.links
    }
}

/// What a stored result is served as.
pub(super) fn mime(is_text: bool) -> &'static str {
    if is_text { "text/plain" } else { "application/json" }
}
