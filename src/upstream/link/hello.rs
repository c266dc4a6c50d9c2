//! What a server says of itself: a discovery (modern) or the result of `initialize` (legacy), read and checked.

use crate::mcp::About;
use crate::wire::results::ResultView;
use crate::wire::{Era, Raw, Span, Version, json};
use std::borrow::Cow;

/// A discovery, as far as it decides what is spoken.
pub(super) enum Discovery {
    Modern(Box<About>),
    /// It names versions of both eras: each caller can be served in its own.
    Both(Box<About>),
    /// It names no modern version that we speak, but a legacy one.
    Legacy,
}

/// Reads a `server/discover` result (2026-07-28 discover). Versions that we do not know are ignored. Errors: what is
/// no discovery, or one with no version in common.
pub(super) fn discovery(result: &Raw) -> Result<Discovery, Cow<'static, str>> {
    let text = result.text();
    let members = json::lax_members(text, 0).map_err(|e| e.to_string())?;
    let find = |key: &str| members.iter().find(|m| m.is(key)).map(|m| m.value.clone());
    let versions = find("supportedVersions").and_then(|s| json::elements(text, s.start));
    let versions = versions.ok_or("a discovery without supportedVersions")?;
    let eras: Vec<Era> = known(text, &versions).map(Version::era).collect();
    let about = about(result, find("capabilities"), find("instructions"), None)?;
    if eras.contains(&Era::Modern) {
        let view = ResultView::of(result);
        let private = scope(&view, result) != Some("public");
        let server_info = view.server_info.as_ref().map(|s| result.part(s));
        let about = About { ttl_ms: ttl(&view, result), private, server_info, ..about };
        let about = Box::new(about);
        return Ok(if eras.contains(&Era::Legacy) {
            Discovery::Both(about)
        } else {
            Discovery::Modern(about)
        });
    }
    match eras.is_empty() {
        true => Err("a discovery with no version in common".into()),
        false => Ok(Discovery::Legacy),
    }
}

/// The eras of the versions that `data.supported` of an `UnsupportedProtocolVersionError` lists.
pub(super) fn supported(error: &Raw) -> Vec<Era> {
    let text = error.text();
    let member = |at: u32, key: &str| {
        json::lax_members(text, at).ok()?.into_iter().find(|m| m.is(key)).map(|m| m.value)
    };
    let versions = member(0, "data")
        .and_then(|data| member(data.start, "supported"))
        .and_then(|supported| json::elements(text, supported.start))
        .unwrap_or_default();
    known(text, &versions).map(Version::era).collect()
}

/// Reads the result of `initialize`: the version of the hop, which must be a legacy one of ours (2025-11-25 lifecycle),
/// and what the server is.
pub(super) fn initialized(result: &Raw) -> Result<(Version, About), Cow<'static, str>> {
    let text = result.text();
    let members = json::lax_members(text, 0).map_err(|e| e.to_string())?;
    let find = |key: &str| members.iter().find(|m| m.is(key)).map(|m| m.value.clone());
    let version = find("protocolVersion").and_then(|s| result.string(&s));
    let version = version.as_deref().and_then(Version::parse).filter(|v| v.era() == Era::Legacy);
    let version = version.ok_or("it initialized with a version that is not ours")?;
    Ok((version, about(result, find("capabilities"), find("instructions"), find("serverInfo"))?))
}

fn about(
    result: &Raw,
    capabilities: Option<Span>,
    instructions: Option<Span>,
    server_info: Option<Span>,
) -> Result<About, Cow<'static, str>> {
    let object = |span: Option<Span>| span.filter(|s| result.text()[s.start as usize] == b'{');
    let capabilities = object(capabilities).ok_or("its capabilities are no object")?;
    Ok(About {
        server_info: object(server_info).map(|s| result.part(&s)),
        capabilities: result.part(&capabilities),
        instructions: instructions.and_then(|s| result.string(&s)).map(Cow::into_owned),
        // A legacy server does not say; what it told one caller may not hold for another.
        ttl_ms: 0,
        private: true,
        missing: Vec::new(),
    })
}

fn known<'a>(text: &'a [u8], versions: &'a [Span]) -> impl Iterator<Item = Version> + 'a {
    versions.iter().filter_map(|span| json::string(text, span)).filter_map(|v| Version::parse(&v))
}

/// `ttlMs`, in milliseconds; 0 where it is absent, negative or no number.
pub(super) fn ttl(view: &ResultView, result: &Raw) -> u64 {
    let token = view.ttl.as_ref().map(|s| &result.text()[s.start as usize..s.end as usize]);
    let number = token.and_then(|t| std::str::from_utf8(t).ok()?.parse::<f64>().ok());
    number.filter(|n| *n > 0.0).map_or(0, |n| n as u64)
}

pub(super) fn scope(view: &ResultView, result: &Raw) -> Option<&'static str> {
    match view.scope.as_ref().and_then(|s| result.string(s))?.as_ref() {
        "public" => Some("public"),
        "private" => Some("private"),
        _ => None,
    }
}

/// Whether the server declares a capability, and a flag inside it where one is asked for (`tools`, `listChanged`).
pub(super) fn declares(capabilities: &Raw, name: &str, flag: Option<&str>) -> bool {
    let text = capabilities.text();
    let member = |at: u32, key: &str| {
        json::lax_members(text, at).ok()?.into_iter().find(|m| m.is(key)).map(|m| m.value)
    };
    let Some(value) = member(0, name).filter(|v| text[v.start as usize] == b'{') else { return false };
    flag.is_none_or(|flag| {
        member(value.start, flag).is_some_and(|v| &text[v.start as usize..v.end as usize] == b"true")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discovery_is_modern_where_a_modern_version_is_common() {
        let read = |text: &'static str| discovery(&Raw::trusted(text));
        let modern = read(
            r#"{"supportedVersions":["2099-01-01","2026-07-28"],"capabilities":{"tools":{"listChanged":true}},
                "ttlMs":5,"cacheScope":"public","instructions":"x","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"}}}"#,
        );
        let Ok(Discovery::Modern(about)) = modern else { panic!("not modern") };
        assert_eq!((about.ttl_ms, about.private, about.instructions.as_deref()), (5, false, Some("x")));
        assert!(about.server_info.is_some());
        let both = read(r#"{"supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{}}"#);
        assert!(matches!(both, Ok(Discovery::Both(_))));
        assert!(declares(&about.capabilities, "tools", Some("listChanged")));
        assert!(!declares(&about.capabilities, "prompts", None));
        assert!(matches!(
            read(r#"{"supportedVersions":["2025-06-18"],"capabilities":{}}"#),
            Ok(Discovery::Legacy)
        ));
        for bad in [
            r#"{"supportedVersions":["2099-01-01"],"capabilities":{}}"#,
            r#"{"supportedVersions":["2026-07-28"],"capabilities":[]}"#,
            r#"{"supportedVersions":["2026-07-28"]}"#,
            r#"{"capabilities":{}}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_initialize_must_name_a_legacy_version() {
        let read = |v: &str| {
            initialized(&Raw::trusted(format!(
                r#"{{"protocolVersion":"{v}","capabilities":{{}},"serverInfo":{{}}}}"#
            )))
            .map(|(v, _)| v)
        };
        assert_eq!(read("2025-06-18").ok(), Some(Version::V2025_06_18));
        assert!(read("2026-07-28").is_err() && read("1.0").is_err());
    }

    #[test]
    fn the_versions_of_a_refusal_are_read() {
        let error = Raw::trusted(r#"{"code":-32022,"data":{"supported":["2025-11-25","x"]}}"#);
        assert_eq!(supported(&error), [Era::Legacy]);
        assert_eq!(supported(&Raw::trusted(r#"{"code":-32022}"#)), []);
    }

    #[test]
    fn a_time_to_live_that_is_none_is_zero() {
        for (text, want) in [("7", 7), ("-1", 0), ("\"9\"", 0), ("1.5", 1), ("1e3", 1000)] {
            let result = Raw::trusted(format!(r#"{{"ttlMs":{text}}}"#));
            assert_eq!(ttl(&ResultView::of(&result), &result), want, "{text}");
        }
    }
}
