//! `_meta` of a request or notification, as far as the protocol owns it (2026-07-28 basic, *_meta*).

use super::outline::{Outline, Rule};
use super::{Span, json};
use bytes::Bytes;

pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

pub(super) const KEYS: [&str; 6] =
    ["progressToken", VERSION, CLIENT_INFO, CAPABILITIES, LOG_LEVEL, SUBSCRIPTION_ID];

/// Where `_meta` and the fields of it stand that we read.
#[derive(Clone, Debug)]
pub struct Meta {
    pub whole: Span,
    pub progress_token: Option<Span>,
    pub version: Option<Span>,
    pub client_info: Option<Span>,
    pub capabilities: Option<Span>,
    pub log_level: Option<Span>,
    pub subscription_id: Option<Span>,
}

impl Meta {
    /// Reads the `_meta` at `whole`; `None` where it is `null`. All spans count from `base`. Errors: no object, a key twice,
    /// a case variant.
    pub(super) fn at(
        text: &[u8],
        whole: &Span,
        rule: Rule,
        base: u32,
        outline: &Outline,
    ) -> Result<Option<Meta>, String> {
        let start = base + whole.start;
        if text[start as usize] == b'n' {
            return Ok(None);
        }
        let [progress_token, version, client_info, capabilities, log_level, subscription_id] =
            rule.read(text, start, base, &KEYS, outline).map_err(|why| format!("_meta: {why}"))?;
        Ok(Some(Meta {
            whole: whole.clone(),
            progress_token,
            version,
            client_info,
            capabilities,
            log_level,
            subscription_id,
        }))
    }

    /// Whether the request says by itself what it speaks: then it is modern (PROTOCOL, *Eras*, rule 1).
    pub fn is_modern(&self) -> bool {
        self.version.is_some()
            || self.capabilities.is_some()
            || self.client_info.is_some()
            || self.log_level.is_some()
    }

    /// `_meta` without the protocol's per-request fields, for a peer of the other era.
    pub fn without_protocol(&self, text: &Bytes) -> Bytes {
        let members = json::lax_members(text, self.whole.start).unwrap_or_default();
        let mut out = Vec::with_capacity((self.whole.end - self.whole.start) as usize);
        out.push(b'{');
        for m in members
            .iter()
            .filter(|m| ![VERSION, CLIENT_INFO, CAPABILITIES, LOG_LEVEL].iter().any(|k| m.is(k)))
        {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(&text[m.whole.start as usize..m.whole.end as usize]);
        }
        out.push(b'}');
        out.into()
    }
}
