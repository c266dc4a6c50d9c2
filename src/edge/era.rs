//! Which era a request belongs to, decided once, in the order of PROTOCOL's *Eras*.

use super::said::Said;
use crate::wire::headers::HeaderError;
use crate::wire::params::Params;
use crate::wire::{Era, Method, Version};

/// How a single message is to be taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// Its `_meta` says what it speaks. Faults in it are modern errors; it is never retried as legacy.
    Modern,
    /// `initialize`: begins a legacy session.
    Handshake,
    /// Names a legacy session; the version that the session negotiated wins.
    Session,
    /// A modern version header without modern `_meta`.
    ModernWithoutMeta,
    /// Legacy without a session: served from the principal alone.
    Sessionless(Version),
    /// A version header that cannot be read, or names a version we do not know.
    BadVersion,
}

/// Decides for a request, notification or response. `method` is `None` for a response. `sessions`: whether any are kept;
/// where none are, their ids mean nothing.
pub fn decide(said: &Said<'_>, method: Option<&Method>, params: Option<&Params>, sessions: bool) -> Taken {
    if params.is_some_and(is_modern) {
        return Taken::Modern;
    }
    if method == Some(&Method::Initialize) {
        return Taken::Handshake;
    }
    let version = version_header(said);
    if sessions && said.has_session() {
        // Claude sends a modern header on a session that negotiated a legacy version (B114): the session knows better.
        // A version that we do not know at all is refused.
        return if version.is_ok() { Taken::Session } else { Taken::BadVersion };
    }
    match version {
        Ok(Some(v)) if v.era() == Era::Modern => Taken::ModernWithoutMeta,
        Ok(v) => Taken::Sessionless(v.unwrap_or(Version::UNSAID)),
        Err(_) => Taken::BadVersion,
    }
}

/// Whether a message says by its own `_meta` that it is modern: all that decides where there are no headers.
pub fn is_modern(params: &Params) -> bool {
    params.meta.as_ref().is_some_and(|meta| meta.is_modern())
}

/// The version that the header names. Errors: it is given twice and differs, or names nothing that we know.
pub fn version_header(said: &Said<'_>) -> Result<Option<Version>, HeaderError> {
    match said.version()? {
        None => Ok(None),
        Some(text) => Version::parse(text).map(Some).ok_or(HeaderError::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::Fields;
    use crate::wire::{Message, envelope, meta};
    use bytes::Bytes;

    #[test]
    fn the_era_is_decided_in_the_order_of_the_protocol() {
        let modern = &*format!(r#"{{"_meta":{{"{}":"2026-07-28"}}}}"#, meta::VERSION);
        let plain = r#"{"_meta":{"progressToken":1}}"#;
        let sid = ("mcp-session-id", "s");
        let version = |v: &'static str| ("mcp-protocol-version", v);
        let table = [
            ("tools/list", modern, vec![sid, version("2025-11-25")], Taken::Modern),
            ("initialize", modern, vec![], Taken::Modern),
            ("initialize", "{}", vec![sid, version("1999-01-01")], Taken::Handshake),
            ("tools/list", plain, vec![sid, version("2026-07-28")], Taken::Session),
            ("tools/list", plain, vec![sid], Taken::Session),
            ("tools/list", plain, vec![sid, version("1999-01-01")], Taken::BadVersion),
            ("tools/list", plain, vec![version("2026-07-28")], Taken::ModernWithoutMeta),
            ("tools/list", plain, vec![version("2025-06-18")], Taken::Sessionless(Version::V2025_06_18)),
            (
                "tools/list",
                plain,
                vec![version("2025-11-25, 2025-11-25")],
                Taken::Sessionless(Version::V2025_11_25),
            ),
            ("tools/list", plain, vec![], Taken::Sessionless(Version::V2025_03_26)),
            ("tools/list", plain, vec![version("x")], Taken::BadVersion),
        ];
        for (method, params, said, want) in table {
            let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
            let Ok(Message::Request(r)) = envelope::read(Bytes::from(text), 128) else { panic!("{method}") };
            let fields = Fields::of(&said);
            let decided = decide(&Said::of(&fields), Some(&r.method), Some(&r.params), true);
            assert_eq!(decided, want, "{method} {params} {said:?}");
            // Where no sessions are kept, the id of one is as if it were not there.
            if want == Taken::Session {
                let decided = decide(&Said::of(&fields), Some(&r.method), Some(&r.params), false);
                assert!(matches!(decided, Taken::Sessionless(_) | Taken::ModernWithoutMeta), "{decided:?}");
            }
        }
    }
}
