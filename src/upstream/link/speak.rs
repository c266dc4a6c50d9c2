//! Which era an upstream speaks and over which way: found out once, kept, and found out again on evidence
//! (2026-07-28 versioning, *Backward Compatibility*; 2025-11-25 transports, *Backwards Compatibility*).

use super::hello::{self, Discovery};
use super::trouble::{Trouble, is_modern_code};
use super::{Arc, Caller, Inner};
use crate::mcp::Reason;
use crate::upstream::transport::TransportError;
use crate::wire::{Era, code};
use std::time::Duration;
use tokio::time::Instant;

/// The least time between two looks for another era.
const BETWEEN: Duration = Duration::from_secs(5);

/// What is spoken with an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    /// Streamable HTTP of this era.
    Http(Era),
    /// Streamable HTTP of both eras: each caller's own is spoken, for what the eras differ in (questions, levels,
    /// subscriptions) then passes as it is.
    Both,
    /// A channel: each has its own handshake, and so its own era.
    Channel,
}

impl Spoken {
    /// The era that a caller's requests go in; `None` where that is for its channel to say.
    pub(super) fn era(self, caller: &Caller) -> Option<Era> {
        match self {
            Spoken::Http(era) => Some(era),
            Spoken::Both => Some(caller.version.era()),
            Spoken::Channel => None,
        }
    }
}

impl std::fmt::Display for Spoken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Spoken::Http(Era::Modern) => "Streamable HTTP, modern era",
            Spoken::Http(Era::Legacy) => "Streamable HTTP, legacy era",
            Spoken::Both => "Streamable HTTP, both eras",
            Spoken::Channel => "HTTP+SSE",
        })
    }
}

/// What a discovery that failed says of the server.
#[derive(Debug, PartialEq)]
pub(super) enum Sign {
    Modern,
    Legacy,
    /// Nothing: it could not be asked.
    None,
}

/// Reads the sign. A recognised modern error is of a modern server; any other refusal is of a legacy one. `patient`:
/// a server that keeps silent is legacy too (stdio), else it is away.
pub(super) fn sign(trouble: &Trouble, patient: bool) -> Sign {
    if let Some(code) = trouble.code()
        && is_modern_code(code)
    {
        let (Trouble::Way(TransportError::Refused { error: Some(error), .. }) | Trouble::Said(error)) =
            trouble
        else {
            return Sign::None;
        };
        let eras = hello::supported(error);
        // It may be modern with versions that are not ours, and legacy besides.
        let legacy = code == i64::from(code::UNSUPPORTED_VERSION) && !eras.contains(&Era::Modern);
        return if legacy && eras.contains(&Era::Legacy) { Sign::Legacy } else { Sign::Modern };
    }
    match trouble {
        Trouble::Said(_) => Sign::Legacy,
        Trouble::Way(TransportError::Refused { status, .. }) => match status {
            401 | 403 | 429 | 502..=504 => Sign::None,
            _ => Sign::Legacy,
        },
        Trouble::Way(TransportError::Garbage(_)) => Sign::Legacy,
        Trouble::Way(TransportError::Timeout | TransportError::Broken) if patient => Sign::Legacy,
        _ => Sign::None,
    }
}

impl Inner {
    /// Finds out what the upstream speaks, as this caller, once for all who wait.
    pub(super) async fn speak(self: &Arc<Self>, caller: &Arc<Caller>) -> Result<Spoken, Trouble> {
        let found = self.clone().ask_what(caller.clone());
        match self.probes.join((), || found).await {
            // What one caller lacks, another may have.
            Err(Trouble::Way(TransportError::Credential(_))) if self.is_personal() => {
                self.clone().ask_what(caller.clone()).await
            }
            found => found,
        }
    }

    fn ask_what(
        self: Arc<Self>,
        caller: Arc<Caller>,
    ) -> impl Future<Output = Result<Spoken, Trouble>> + Send + 'static {
        let link = self;
        async move {
            let spoken = link.probe(&caller).await?;
            // A server on stdio says more of itself when it is started.
            if link.reach.http.is_some() {
                tracing::info!(upstream = %link.id(), %spoken, "found out what an upstream speaks");
            }
            link.spoken.store(Some(Arc::new(spoken)));
            Ok(spoken)
        }
    }

    /// An answer spoke of another era than `was`: asks again. Whether something else is spoken now.
    pub(super) async fn speaks_otherwise(self: &Arc<Self>, caller: &Arc<Caller>, was: Spoken) -> bool {
        let now = self.spoken.load().as_deref().copied();
        if now.is_some_and(|now| now != was) {
            return true;
        }
        if self.config.era.is_some() || was == Spoken::Channel || !self.may_probe_again() {
            return false;
        }
        tracing::info!(upstream = %self.id(), %was, "an upstream no longer speaks what it spoke; asking again");
        self.speak(caller).await.is_ok_and(|now| now != was)
    }

    /// What looks like evidence may be an upstream's way to refuse: it is followed once in a while.
    fn may_probe_again(&self) -> bool {
        let mut last = self.probed_again.lock().expect("no holder of a time panics");
        let now = Instant::now();
        let may = last.is_none_or(|last| now >= last + BETWEEN);
        if may {
            *last = Some(now);
        }
        may
    }

    async fn probe(self: &Arc<Self>, caller: &Arc<Caller>) -> Result<Spoken, Trouble> {
        let Some(http) = &self.reach.http else { return Ok(Spoken::Channel) };
        if self.config.era != Some(Era::Legacy) {
            let result = self.discover(http, caller, self.config.request_timeout).await;
            let found = match result {
                Ok(result) => hello::discovery(&result).map_err(|why| TransportError::Garbage(why).into()),
                Err(trouble) => Err(trouble),
            };
            match found {
                Ok(Discovery::Both(about)) if self.config.era.is_none() => {
                    self.abouts.keep(caller.session.key(), *about);
                    return Ok(Spoken::Both);
                }
                Ok(Discovery::Modern(about) | Discovery::Both(about)) => {
                    self.abouts.keep(caller.session.key(), *about);
                    return Ok(Spoken::Http(Era::Modern));
                }
                Ok(Discovery::Legacy) => {}
                Err(trouble) => match sign(&trouble, false) {
                    Sign::Modern => return Ok(Spoken::Http(Era::Modern)),
                    Sign::Legacy if self.config.era.is_none() => {}
                    _ => return Err(trouble),
                },
            }
            if self.config.era == Some(Era::Modern) {
                let why = "it is configured as modern and names no modern version".into();
                return Err(Reason::Garbage { upstream: self.id().clone(), why }.into());
            }
        }
        match self.opened(caller).await {
            Ok(_) => Ok(Spoken::Http(Era::Legacy)),
            Err(Trouble::Way(TransportError::Refused { status: 400 | 404 | 405, error }))
                if self.reach.channels.is_some()
                    && !error.as_ref().and_then(super::trouble::code_of).is_some_and(is_modern_code) =>
            {
                Ok(Spoken::Channel)
            }
            Err(trouble) => Err(trouble),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Raw;

    #[test]
    fn the_signs_of_an_era_are_those_of_the_specification() {
        let refused = |status, error: Option<&'static str>| {
            Trouble::Way(TransportError::Refused { status, error: error.map(Raw::trusted) })
        };
        let said = |error: &'static str| Trouble::Said(Raw::trusted(error));
        let table = [
            (refused(400, None), false, Sign::Legacy),
            (refused(404, Some(r#"{"code":-32601}"#)), false, Sign::Legacy),
            (refused(400, Some(r#"{"code":-32020}"#)), false, Sign::Modern),
            (
                refused(400, Some(r#"{"code":-32022,"data":{"supported":["2026-07-28"]}}"#)),
                false,
                Sign::Modern,
            ),
            (
                refused(400, Some(r#"{"code":-32022,"data":{"supported":["2025-11-25"]}}"#)),
                false,
                Sign::Legacy,
            ),
            (said(r#"{"code":-32601}"#), false, Sign::Legacy),
            (said(r#"{"code":-32602}"#), true, Sign::Legacy),
            (refused(503, None), false, Sign::None),
            (refused(401, None), false, Sign::None),
            (Trouble::Way(TransportError::Timeout), false, Sign::None),
            (Trouble::Way(TransportError::Timeout), true, Sign::Legacy),
            (Trouble::Way(TransportError::Unreachable("".into())), true, Sign::None),
        ];
        for (trouble, patient, want) in table {
            assert_eq!(sign(&trouble, patient), want, "{trouble:?}");
        }
    }
}
