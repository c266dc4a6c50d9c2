//! From a request to its principal. Until a login is configured, everyone on loopback is the same anonymous one.

use crate::mcp::Principal;
use std::sync::Arc;

/// Who calls where no login is configured.
pub fn anonymous() -> Arc<Principal> {
    Arc::new(Principal::minted("", "", "anonymous"))
}
