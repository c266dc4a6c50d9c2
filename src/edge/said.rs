//! What the headers of a request say, as far as it decides the request's way: found in one pass over them, where each look-up by
//! name would hash the name. It is read as `wire::headers` reads it, and by that where it is written in no usual way.

use crate::http1::{Fields, Request};
use crate::wire::headers::{self, Accepted, HeaderError};
use crate::wire::{Method, Version};
use http::HeaderMap;
use http::header::{self, HeaderName, HeaderValue};
use std::borrow::Cow;
use std::net::SocketAddr;

/// A request as it came, its body aside.
pub struct Came<'a> {
    pub head: &'a Request,
    pub said: Said<'a>,
    /// Who sent it.
    pub peer: SocketAddr,
}

/// The values of one header.
#[derive(Clone, Copy, Default)]
enum Values<'a> {
    #[default]
    None,
    One(&'a [u8]),
    /// The first of several.
    Many(&'a [u8]),
}

#[derive(Clone, Default)]
struct Found<'a> {
    host: Values<'a>,
    origin: Values<'a>,
    expect: Values<'a>,
    accept: Values<'a>,
    media: Values<'a>,
    length: Values<'a>,
    agent: Values<'a>,
    version: Values<'a>,
    method: Values<'a>,
    name: Values<'a>,
    session: Values<'a>,
}

/// The headers of a request.
#[derive(Clone)]
pub struct Said<'a> {
    /// All of them.
    pub fields: &'a Fields,
    found: Found<'a>,
}

impl<'a> Values<'a> {
    fn add(&mut self, value: &'a [u8]) {
        *self = match *self {
            Values::None => Values::One(value),
            Values::One(first) | Values::Many(first) => Values::Many(first),
        };
    }

    fn first(self) -> Option<&'a [u8]> {
        match self {
            Values::None => None,
            Values::One(first) | Values::Many(first) => Some(first),
        }
    }

    /// Whether there is this value and no other.
    fn is(self, usual: &str) -> bool {
        self.is_bytes(usual.as_bytes())
    }

    fn is_bytes(self, usual: &[u8]) -> bool {
        matches!(self, Values::One(value) if value == usual)
    }

    /// The value of one that is given once, and in which nothing stands that a reader might take for several or leave out.
    fn plain(self) -> Option<&'a str> {
        let Values::One(value) = self else { return None };
        headers::clear(value)
    }
}

impl<'a> Said<'a> {
    pub fn of(fields: &'a Fields) -> Said<'a> {
        let mut found = Found::default();
        for (name, value) in fields.iter() {
            let values = match name.len() {
                4 if is(name, b"host") => &mut found.host,
                6 if is(name, b"accept") => &mut found.accept,
                6 if is(name, b"origin") => &mut found.origin,
                6 if is(name, b"expect") => &mut found.expect,
                8 if is(name, b"mcp-name") => &mut found.name,
                10 if is(name, b"mcp-method") => &mut found.method,
                10 if is(name, b"user-agent") => &mut found.agent,
                12 if is(name, b"content-type") => &mut found.media,
                14 if is(name, b"content-length") => &mut found.length,
                14 if is(name, b"mcp-session-id") => &mut found.session,
                20 if is(name, b"mcp-protocol-version") => &mut found.version,
                _ => continue,
            };
            values.add(value);
        }
        Said { fields, found }
    }

    /// All headers, by name.
    pub fn map(&self) -> &'a HeaderMap {
        self.fields.map()
    }

    /// All values of `Host`; what is no text is empty.
    pub fn hosts(&self) -> impl Iterator<Item = &'a str> {
        let host = self.found.host;
        let rest = matches!(host, Values::Many(_)).then(|| self.fields.all(&header::HOST).skip(1));
        host.first().into_iter().chain(rest.into_iter().flatten()).map(|v| text(v).unwrap_or_default())
    }

    pub fn origin(&self) -> Option<HeaderValue> {
        self.found.origin.first().and_then(|origin| HeaderValue::from_bytes(origin).ok())
    }

    /// Whether the client sends its body once it is given leave.
    pub fn expects(&self) -> bool {
        self.found.expect.first().is_some()
    }

    /// What `Accept` admits.
    pub fn accepted(&self) -> Accepted {
        // What clients of MCP send, nearly all of them.
        match self.found.accept.is("application/json, text/event-stream") {
            true => Accepted { json: true, stream: true },
            false => Accepted::of(self.map()),
        }
    }

    /// Whether `Content-Type` names JSON.
    pub fn is_json(&self) -> bool {
        self.found.media.is("application/json") || headers::is_json(self.map())
    }

    /// `Content-Length`, where there is one.
    pub fn length(&self) -> Option<u64> {
        let length = self.found.length.first()?;
        // So many digits fit any number.
        let digit =
            |number: u64, byte: &u8| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'));
        match length.len() {
            1..20 => length.iter().try_fold(0, digit).or_else(|| text(length)?.parse().ok()),
            _ => text(length)?.parse().ok(),
        }
    }

    pub fn agent(&self) -> Option<&'a str> {
        text(self.found.agent.first()?)
    }

    /// The protocol version that is named.
    pub fn version(&self) -> Result<Option<&'a str>, HeaderError> {
        self.folded(self.found.version, &headers::PROTOCOL_VERSION)
    }

    /// Whether a session is named.
    pub fn has_session(&self) -> bool {
        self.found.session.first().is_some()
    }

    /// The session that is named.
    pub fn session(&self) -> Result<Option<&'a str>, HeaderError> {
        self.folded(self.found.session, &headers::SESSION_ID)
    }

    pub fn method(&self) -> Result<Option<&'a str>, HeaderError> {
        self.folded(self.found.method, &headers::METHOD)
    }

    /// Whether the protocol version that is named is this one. Of few spellings it is not known, and then this is false.
    pub fn is_version(&self, version: Version) -> bool {
        self.found.version.is(version.as_str())
    }

    /// The same of a method of the protocol.
    pub fn is_method(&self, method: &Method) -> bool {
        !matches!(method, Method::Other(_)) && self.found.method.is(method.as_str())
    }

    /// The same of a name that needs no escape, neither here nor in JSON.
    pub fn is_name(&self, name: &[u8]) -> bool {
        self.found.name.is_bytes(name)
            && headers::clear(name).is_some_and(|name| !name.starts_with(headers::OPEN))
            && !name.contains(&b'\\')
    }

    /// As [`Said::method`], where nothing need hold: the text of the first value.
    pub fn any_method(&self) -> Option<&'a str> {
        text(self.found.method.first()?)
    }

    /// The name of what is called, decoded.
    pub fn name(&self) -> Result<Option<Cow<'a, str>>, HeaderError> {
        match self.found.name.plain() {
            Some(name) if !name.starts_with(headers::OPEN) => Ok(Some(Cow::Borrowed(name))),
            _ => headers::decoded(self.map(), &headers::NAME),
        }
    }

    fn folded(&self, values: Values<'a>, name: &HeaderName) -> Result<Option<&'a str>, HeaderError> {
        match (values.plain(), values) {
            (Some(text), _) => Ok(Some(text)),
            (None, Values::None) => Ok(None),
            (None, _) => headers::folded(self.map(), name),
        }
    }
}

/// Whether a header has this name, of small letters and hyphens. Among the characters that a name may have, a letter's other
/// case is the one that differs from it by this bit, and from a hyphen none does.
fn is<const LENGTH: usize>(name: &[u8], this: &[u8; LENGTH]) -> bool {
    let differs = |name: &[u8; LENGTH]| {
        name.iter().zip(this).fold(0, |differs, (said, this)| differs | (said | 0x20) ^ this)
    };
    name.len() == LENGTH && name.first_chunk().is_some_and(|name| differs(name) == 0)
}

/// A value as text; `None` where it has other characters than those of ASCII that are seen, and blanks.
pub fn text(value: &[u8]) -> Option<&str> {
    let plain = || value.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'));
    headers::clear(value).or_else(|| std::str::from_utf8(value).ok().filter(|_| plain()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Headers of the kinds that are looked for, as odd as they come.
    fn headers_of_requests() -> impl Strategy<Value = Fields> {
        let names = [
            header::HOST,
            header::ACCEPT,
            header::CONTENT_TYPE,
            header::CONTENT_LENGTH,
            header::USER_AGENT,
            header::TE,
            headers::PROTOCOL_VERSION.clone(),
            headers::METHOD.clone(),
            headers::NAME.clone(),
            headers::SESSION_ID.clone(),
        ];
        let values = prop_oneof![
            prop::sample::select(vec![
                "",
                "application/json, text/event-stream",
                "application/json",
                "APPLICATION/json; charset=utf-8",
                "2026-07-28",
                "2025-11-25, 2025-11-25",
                "=?base64?YQ==?=",
                "=?base64?*?=",
                " padded\t",
                "17",
                "tools/call",
                "a\\b",
            ])
            .prop_map(|value| value.as_bytes().to_vec()),
            "[ -~\t]{0,12}".prop_map(String::into_bytes),
            prop::collection::vec(prop_oneof![Just(b','), Just(b' '), 0x80..=0xffu8, b'!'..=b'~'], 0..6),
        ];
        let name = (prop::sample::select(names.to_vec()), any::<u32>()).prop_map(|(name, large)| {
            let cased = |(at, letter): (usize, u8)| match large >> at & 1 {
                0 => letter,
                _ => letter.to_ascii_uppercase(),
            };
            name.as_str().bytes().enumerate().map(cased).collect::<Vec<_>>()
        });
        prop::collection::vec((name, values), 0..12).prop_map(|headers| {
            let headers: Vec<_> = headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
            Fields::of(&headers)
        })
    }

    proptest! {
        #[test]
        fn what_is_found_in_one_pass_is_what_a_look_by_name_finds(fields in headers_of_requests()) {
            let (said, map) = (Said::of(&fields), fields.map());
            let text = |name: HeaderName| map.get(name).and_then(|value| value.to_str().ok());
            let hosts: Vec<_> =
                map.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default()).collect();
            prop_assert_eq!(said.hosts().collect::<Vec<_>>(), hosts);
            prop_assert_eq!(said.agent(), text(header::USER_AGENT));
            prop_assert_eq!(said.length(), text(header::CONTENT_LENGTH).and_then(|n| n.parse().ok()));
            prop_assert_eq!(said.is_json(), headers::is_json(map));
            let (accepted, theirs) = (said.accepted(), Accepted::of(map));
            prop_assert_eq!((accepted.json, accepted.stream), (theirs.json, theirs.stream));
            prop_assert_eq!(said.version(), headers::folded(map, &headers::PROTOCOL_VERSION));
            prop_assert_eq!(said.session(), headers::folded(map, &headers::SESSION_ID));
            prop_assert_eq!(said.has_session(), map.contains_key(&headers::SESSION_ID));
            prop_assert_eq!(said.method(), headers::folded(map, &headers::METHOD));
            prop_assert_eq!(said.any_method(), text(headers::METHOD.clone()));
            prop_assert_eq!(said.name(), headers::decoded(map, &headers::NAME));
            for version in Version::ALL.into_iter().filter(|version| said.is_version(*version)) {
                prop_assert_eq!(said.version(), Ok(Some(version.as_str())));
            }
            if said.is_method(&Method::ToolsCall) {
                prop_assert_eq!(said.method(), Ok(Some(Method::ToolsCall.as_str())));
            }
            for name in map.get(&headers::NAME).into_iter().map(HeaderValue::as_bytes) {
                if said.is_name(name) {
                    prop_assert_eq!(said.name(), Ok(Some(String::from_utf8_lossy(name))));
                }
            }
        }
    }
}
