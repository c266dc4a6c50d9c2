//! What a member's fault means for the others.

use super::splice;
use crate::mcp::{Fault, Reason};
use crate::wire::code;

/// Whether the member does not have what was asked for at all: its list is empty, not missing.
pub(super) fn is_absent(fault: &Fault) -> bool {
    match fault {
        Fault::Upstream(error) => code_of(error) == Some(code::METHOD_NOT_FOUND),
        Fault::Ours(reason) => matches!(reason, Reason::MethodNotFound),
    }
}

/// Whether asking again cannot help: a standing stream that ended so is not opened again.
pub(super) fn is_final(fault: &Fault) -> bool {
    match fault {
        Fault::Upstream(error) => code_of(error).is_some_and(|code| {
            matches!(
                code,
                code::METHOD_NOT_FOUND
                    | code::INVALID_PARAMS
                    | code::INVALID_REQUEST
                    | code::MISSING_CAPABILITY
                    | code::UNSUPPORTED_VERSION
            )
        }),
        Fault::Ours(reason) => matches!(
            reason,
            Reason::MethodNotFound
                | Reason::InvalidParams(_)
                | Reason::MissingCapability(_)
                | Reason::Cancelled
        ),
    }
}

/// Whether it says no more than that the member could not be reached.
pub(super) fn is_unreachable(fault: &Fault) -> bool {
    matches!(fault, Fault::Ours(Reason::Unreachable { .. }))
}

/// A word for logs, which must not carry what an upstream wrote.
pub(super) fn word(fault: &Fault) -> &'static str {
    match fault {
        Fault::Upstream(_) => "upstream_error",
        Fault::Ours(reason) => reason.word(),
    }
}

fn code_of(error: &crate::wire::Raw) -> Option<i32> {
    error.part(&splice::member(error.text(), 0, "code")?).read().ok()
}
