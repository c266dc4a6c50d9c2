//! From a request to its principal. Until a login is configured, everyone on loopback is the same anonymous one.

pub mod browser;
pub mod form;
pub mod holdings;
pub mod html;
pub mod keys;
pub mod pages;
pub mod resources;
pub mod revoked;
pub mod server;

pub use keys::{KeySet, Keys};
pub use revoked::{Revocable, Revoked};

use crate::mcp::{Access, Principal};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The claim of our own access tokens that names all tokens of one authorisation.
pub const FAMILY: &str = "plasm_family";

/// Counts what may make a verified token void: other keys, another configuration, a revocation. A token that was verified in another
/// epoch is verified anew. Cheap to clone; clones are one.
#[derive(Clone, Debug, Default)]
pub struct Epoch(Arc<AtomicU64>);

impl Epoch {
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub fn advance(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// Seconds since the epoch.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// 256 random bits in URL-safe base64.
pub(crate) fn random_text() -> String {
    let mut bits = [0; 32];
    aws_lc_rs::rand::fill(&mut bits).expect("the system's random source does not fail once it is seeded");
    URL_SAFE_NO_PAD.encode(bits)
}

/// SHA-256 in URL-safe base64.
pub(crate) fn digest_text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes))
}

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
