//! Why a call failed. What it looks like on the wire is decided in `edge` alone.

use super::{Scopes, UpstreamId};
use crate::wire::{Method, Raw};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub enum Fault {
    /// The upstream's JSON-RPC error object, as it came.
    Upstream(Raw),
    Ours(Reason),
}

impl Fault {
    /// As a label, and for logs: what an upstream wrote stays out of them.
    pub fn word(&self) -> &'static str {
        match self {
            Fault::Upstream(_) => "upstream_error",
            Fault::Ours(reason) => reason.word(),
        }
    }
}

impl From<Reason> for Fault {
    fn from(reason: Reason) -> Fault {
        Fault::Ours(reason)
    }
}

/// What was decided of a call, for the model and its user: why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The rule that decided, or `webhook`, or `default`.
    pub by: Arc<str>,
    pub why: String,
    /// What to do in place of it; `None` where nothing is known.
    pub instead: Option<String>,
}

impl fmt::Display for Ruling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instead {
            Some(instead) => write!(f, "{}. {instead}", self.why.trim_end_matches('.')),
            None => f.write_str(&self.why),
        }
    }
}

/// What we found ourselves. The texts reach clients: they say what to change, and nothing of our insides.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Reason {
    #[error("method not found")]
    MethodNotFound,
    #[error("{0}")]
    InvalidParams(Cow<'static, str>),
    #[error("unknown tool: {0}")]
    UnknownTool(String),
    #[error("unknown prompt: {0}")]
    UnknownPrompt(String),
    #[error("resource not found: {0}")]
    UnknownResource(String),
    #[error("the cursor is not one of this list's; list again from the start")]
    BadCursor,
    #[error("requestState is not valid for this request; make the request anew")]
    BadState,
    #[error("{0}")]
    HeaderMismatch(Cow<'static, str>),
    /// The request needs client capabilities that were not declared: the object for `requiredCapabilities`.
    #[error("a client capability that this request needs was not declared")]
    MissingCapability(Raw),
    /// The client could answer, but its answer cannot reach the upstream.
    #[error("upstream {upstream} asked for {ask:?}, which cannot be passed on to this client")]
    CannotBridge { upstream: UpstreamId, ask: Method },
    #[error("upstream {upstream} is not reachable: {why}")]
    Unreachable { upstream: UpstreamId, why: Cow<'static, str> },
    #[error("upstream {upstream} did not answer in time")]
    Timeout { upstream: UpstreamId },
    #[error("upstream {upstream} answered what is not MCP: {why}")]
    Garbage { upstream: UpstreamId, why: Cow<'static, str> },
    #[error("upstream {upstream} sent a message of more than {limit} bytes")]
    TooLarge { upstream: UpstreamId, limit: usize },
    #[error("upstream {upstream} takes no more calls at this time")]
    Busy { upstream: UpstreamId },
    #[error("upstream {upstream} broke off after the call began; whether it was carried out is unknown")]
    OutcomeUnknown { upstream: UpstreamId },
    /// The pod that ran the call is gone, and the call with it.
    #[error("the gateway lost this call{}", if *safe { "; make it again" } else { "; whether it was carried out is unknown" })]
    Lost {
        /// Whether that it was begun leaves nothing in doubt.
        safe: bool,
    },
    /// Our own credential for the upstream was refused; not the client's business to log in.
    #[error("the gateway's credential for upstream {upstream} was refused")]
    Credential { upstream: UpstreamId },
    /// The caller has to connect an account of theirs at the upstream; `url` is where, for this caller alone and once.
    #[error("your account at {upstream} is not connected; open {url} in a browser, and then try again")]
    Connect {
        upstream: UpstreamId,
        url: Arc<str>,
        /// The client opens such links for its user (2025-11-25 URL elicitation).
        by_url: bool,
    },
    /// The caller's account is connected with all that it asked for.
    #[error("your account at {upstream} is connected, and upstream {upstream} does not allow this to it")]
    Insufficient { upstream: UpstreamId },
    /// This pod has as many calls in flight as it may.
    #[error("the gateway takes no more calls at this time; try again")]
    Full,
    /// The caller lacks scopes that it can be granted (RFC 6750 3.1): these.
    #[error("this needs the scopes: {0}")]
    MissingScope(Scopes),
    /// A rule of the operator's, or who decides for it, refuses the call.
    #[error("{0}")]
    Refused(Box<Ruling>),
    /// The call needs the user's approval, and the client cannot be asked for it.
    #[error("{0}")]
    NeedsApproval(Box<Ruling>),
    /// The user was asked to approve the call, and did not.
    #[error("{0}")]
    Unapproved(Box<Ruling>),
    /// The tool's definition is not the one that was accepted.
    #[error(
        "the definition of this tool of upstream {upstream} has changed; an operator must accept the change first"
    )]
    ToolChanged { upstream: UpstreamId },
    /// The caller, or their tenant, has as many calls in flight as they may.
    #[error("too many of your calls are in flight; try again when one has ended")]
    Crowded,
    #[error("the call was cancelled")]
    Cancelled,
    #[error("the state store is out of reach")]
    StoreAway,
}

impl Reason {
    /// What became of a call whose stream ended before its answer and cannot be gone on with.
    pub fn lost(method: &Method, upstream: UpstreamId) -> Reason {
        match method.is_safe() {
            true => Reason::Unreachable { upstream, why: "it broke off before its answer".into() },
            false => Reason::OutcomeUnknown { upstream },
        }
    }

    /// A stable word for `data.reason` and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Reason::MethodNotFound => "method_not_found",
            Reason::InvalidParams(_) => "invalid_params",
            Reason::UnknownTool(_) => "unknown_tool",
            Reason::UnknownPrompt(_) => "unknown_prompt",
            Reason::UnknownResource(_) => "unknown_resource",
            Reason::BadCursor => "bad_cursor",
            Reason::BadState => "bad_state",
            Reason::HeaderMismatch(_) => "header_mismatch",
            Reason::MissingCapability(_) => "missing_capability",
            Reason::CannotBridge { .. } => "cannot_bridge",
            Reason::Unreachable { .. } => "upstream_unreachable",
            Reason::Timeout { .. } => "upstream_timeout",
            Reason::Garbage { .. } => "upstream_garbage",
            Reason::TooLarge { .. } => "upstream_too_large",
            Reason::Busy { .. } => "upstream_busy",
            Reason::OutcomeUnknown { .. } | Reason::Lost { safe: false } => "outcome_unknown",
            Reason::Lost { safe: true } => "call_lost",
            Reason::Credential { .. } => "upstream_credential",
            Reason::Connect { .. } => "connect_required",
            Reason::Insufficient { .. } => "account_insufficient",
            Reason::Full => "gateway_busy",
            Reason::MissingScope(_) => "insufficient_scope",
            Reason::Refused(_) => "policy_denied",
            Reason::NeedsApproval(_) => "approval_required",
            Reason::Unapproved(_) => "approval_refused",
            Reason::ToolChanged { .. } => "tool_changed",
            Reason::Crowded => "too_many_calls",
            Reason::Cancelled => "cancelled",
            Reason::StoreAway => "state_store_unavailable",
        }
    }

    /// The upstream it happened at, where it did.
    pub fn upstream(&self) -> Option<&UpstreamId> {
        match self {
            Reason::CannotBridge { upstream, .. }
            | Reason::Unreachable { upstream, .. }
            | Reason::Timeout { upstream }
            | Reason::Garbage { upstream, .. }
            | Reason::TooLarge { upstream, .. }
            | Reason::Busy { upstream }
            | Reason::OutcomeUnknown { upstream }
            | Reason::Credential { upstream }
            | Reason::ToolChanged { upstream }
            | Reason::Connect { upstream, .. }
            | Reason::Insufficient { upstream } => Some(upstream),
            _ => None,
        }
    }

    /// Whether the same request may succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Reason::Unreachable { .. }
                | Reason::Timeout { .. }
                | Reason::Busy { .. }
                | Reason::Lost { safe: true }
                | Reason::Full
                | Reason::Crowded
                | Reason::StoreAway
        )
    }
}
