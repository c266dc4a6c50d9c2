//! A caller as telemetry sees it.

use super::Caller;
use crate::telemetry::Who;
use crate::wire::Era;
use std::sync::Arc;

impl Who for Caller {
    fn tenant(&self) -> &Arc<str> {
        &self.access.principal.tenant
    }

    fn issuer(&self) -> &str {
        &self.access.principal.issuer
    }

    fn subject(&self) -> &str {
        &self.access.principal.subject
    }

    fn oauth_client(&self) -> Option<&str> {
        self.access.client.as_deref()
    }

    fn client(&self) -> Option<String> {
        self.client.name()
    }

    fn profile(&self) -> &str {
        &self.profile
    }

    fn version(&self) -> &'static str {
        self.version.as_str()
    }

    fn is_modern(&self) -> bool {
        self.version.era() == Era::Modern
    }

    fn session(&self) -> Option<String> {
        self.session.id().map(|id| format!("{id:?}"))
    }

    fn key(&self) -> &Arc<str> {
        self.session.key()
    }
}
