//! For whom a session is kept: who may use it, and whose opens with one intent meet in it.

use std::sync::Arc;

use serde_json::json;

use crate::{execute::canonical, mcp::Caller};

/// The caller as sessions know it. A session is of one profile: another one may serve other catalogs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub tenant: Arc<str>,
    /// What a session's record says of its owner.
    pub(in crate::execute) owns: Arc<str>,
    /// The principal itself, where the session is the tenant's.
    pub(super) who: Arc<str>,
    /// Whose opens with the same intent give the same session; `None`: each gives a new one.
    scope: Option<String>,
}

impl Owner {
    /// `shared`: the profile says that sessions are the tenant's. Where a principal may be several people, those of one
    /// transport session share sessions, and those without share none.
    pub fn of(caller: &Caller, shared: bool) -> Owner {
        let principal = caller.principal();
        let who = digest(&["who", &caller.profile, &principal.identity()]);
        let owns = match shared {
            true => digest(&["tenant", &caller.profile, &principal.tenant]),
            false => Arc::clone(&who),
        };
        let scope = match caller.session.id() {
            _ if shared || !principal.is_shared() => Some(String::new()),
            Some(session) => Some(session.as_str().to_owned()),
            None => None,
        };
        Owner { tenant: Arc::clone(&principal.tenant), owns, who, scope }
    }

    /// What the key of an intent is named by.
    pub(super) fn intent(&self, intent: &str) -> Option<Arc<str>> {
        self.scope.as_ref().map(|scope| digest(&["intent", &self.owns, scope, intent]))
    }
}

/// 64 characters; no two lists of parts share one.
fn digest(parts: &[&str]) -> Arc<str> {
    canonical::sha256(&json!(parts)).into()
}
