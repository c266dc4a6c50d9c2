//! From a request to its principal. Until a login is configured, everyone on loopback is the same anonymous one.

pub mod pages;

use crate::mcp::{Access, Principal};
use http::HeaderMap;
use std::sync::Arc;

/// Who may come in, and as whom.
pub struct Auth {
    /// Whom everyone is where no login is configured.
    open: Arc<Access>,
}

/// Why a request is not let in: its HTTP answer, all but the body's form (RFC 6750 3).
#[derive(Debug)]
pub struct Denied {
    /// 401 or 403; 503 where it cannot be known.
    pub status: http::StatusCode,
    /// The value of `WWW-Authenticate`.
    pub challenge: Option<http::HeaderValue>,
    /// What to change, for people. It names no token.
    pub why: &'static str,
}

impl Auth {
    /// No login: everyone is the same anonymous principal.
    pub fn open() -> Auth {
        Auth { open: anonymous() }
    }

    /// Who asks for the endpoint of `profile` (`""`: the default one).
    pub async fn admit(&self, _profile: &str, _map: &HeaderMap) -> Result<Arc<Access>, Denied> {
        Ok(self.open.clone())
    }
}

/// Who calls where no login is configured, and on stdio, where whoever started the process is the user.
pub fn anonymous() -> Arc<Access> {
    Arc::new(Access::open(Arc::new(Principal::minted("", "", "anonymous"))))
}
