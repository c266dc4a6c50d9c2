//! The HTTP headers of MCP and how values travel in them (2026-07-28 transports, *Request Metadata*).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;
use std::borrow::Cow;

pub static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub static METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub static NAME: HeaderName = HeaderName::from_static("mcp-name");
pub static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub const PARAM_PREFIX: &str = "mcp-param-";
pub static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How a value in the base64 form begins.
pub const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// The text of a value that means what it shows, in whatever header: visible ASCII without a comma. Nearly all are.
pub fn clear(value: &[u8]) -> Option<&str> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    // A byte has its high bit in one of these where it is no ASCII, DEL, below `!`, or a comma. The lowest such byte always
    // has: what is carried or borrowed comes from one of them.
    let is_clear = |eight: [u8; 8]| {
        let word = u64::from_ne_bytes(eight);
        let comma = (word ^ (ONES * u64::from(b','))).wrapping_sub(ONES);
        (word | word.wrapping_add(ONES) | word.wrapping_sub(ONES * u64::from(b'!')) | comma) & HIGHS == 0
    };
    let all = match value.last_chunk() {
        Some(last) => value.as_chunks().0.iter().all(|eight| is_clear(*eight)) && is_clear(*last),
        None => value.iter().all(|&b| b.is_ascii_graphic() && b != b','),
    };
    // SAFETY: ASCII is UTF-8.
    all.then(|| unsafe { std::str::from_utf8_unchecked(value) })
}

/// `text` as a header value: itself where it is plain ASCII that no reader would alter, else in the base64 form.
pub fn encode(text: &str) -> Cow<'_, str> {
    let sentinel = text.starts_with(OPEN) && text.ends_with(CLOSE);
    if !sentinel && clear(text.as_bytes()).is_some() {
        return Cow::Borrowed(text);
    }
    let padded = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    let printable = text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t'));
    if printable && !padded && !sentinel {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{OPEN}{}{CLOSE}", STANDARD.encode(text)))
    }
}

/// The text that a header value stands for; `None` for characters no header may hold, and for a broken base64 form.
pub fn decode(value: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(value).ok()?;
    if !text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t')) {
        return None;
    }
    match text.strip_prefix(OPEN).and_then(|t| t.strip_suffix(CLOSE)) {
        Some(coded) => String::from_utf8(STANDARD.decode(coded).ok()?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(text)),
    }
}

/// Why a header that may come once could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    #[error("given with differing values")]
    Differing,
    #[error("not a valid header value")]
    Malformed,
}

/// The one value of a header: equal repeated values fold, also where a proxy or a client joined them by commas
/// (`2025-11-25, 2025-11-25`). Not for values in which a comma may stand.
pub fn folded<'a>(map: &'a http::HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, HeaderError> {
    let mut found = None;
    for value in map.get_all(name) {
        let value = value.to_str().map_err(|_| HeaderError::Malformed)?;
        for part in value.split(',').map(str::trim) {
            if found.is_some_and(|f| f != part) {
                return Err(HeaderError::Differing);
            }
            found = Some(part);
        }
    }
    Ok(found)
}

/// The one decoded value of a header in which a comma may stand; equal repeated headers fold.
pub fn decoded<'a>(map: &'a http::HeaderMap, name: &HeaderName) -> Result<Option<Cow<'a, str>>, HeaderError> {
    let mut found: Option<Cow<'a, str>> = None;
    for value in map.get_all(name) {
        let value = decode(value.as_bytes()).ok_or(HeaderError::Malformed)?;
        if found.as_ref().is_some_and(|f| *f != value) {
            return Err(HeaderError::Differing);
        }
        found = Some(value);
    }
    Ok(found)
}

/// What the `Accept` header of a POST admits of the two that there are.
pub struct Accepted {
    pub json: bool,
    pub stream: bool,
}

impl Accepted {
    pub fn of(map: &http::HeaderMap) -> Accepted {
        Accepted { json: accepts(map, "application", "json"), stream: accepts(map, "text", "event-stream") }
    }
}

/// Whether an `Accept` header admits `kind/sub`, ranges and case aside. No header admits everything (RFC 9110 12.5.1).
pub fn accepts(map: &http::HeaderMap, kind: &str, sub: &str) -> bool {
    let mut any = false;
    for value in map.get_all(http::header::ACCEPT) {
        let Ok(value) = value.to_str() else { continue };
        for range in value.split(',') {
            any = true;
            let range = range.split(';').next().unwrap_or_default().trim();
            let Some((k, s)) = range.split_once('/') else { continue };
            if (k == "*" || k.eq_ignore_ascii_case(kind)) && (s == "*" || s.eq_ignore_ascii_case(sub)) {
                return true;
            }
        }
    }
    !any
}

pub const JSON: &str = "application/json";
pub const EVENT_STREAM: &str = "text/event-stream";

/// Whether `Content-Type` names JSON, parameters and case aside.
pub fn is_json(map: &http::HeaderMap) -> bool {
    map.get(http::header::CONTENT_TYPE).is_some_and(|said| is_media(said.as_bytes(), JSON))
}

/// Whether a value of `Content-Type` names this media type, parameters and case aside.
pub fn is_media(said: &[u8], media: &str) -> bool {
    if said == media.as_bytes() {
        return true;
    }
    let Some((head, rest)) = said.trim_ascii_start().split_at_checked(media.len()) else { return false };
    head.eq_ignore_ascii_case(media.as_bytes())
        && matches!(rest.trim_ascii_start().first(), None | Some(b';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_header_form_as_the_specification_writes_it() {
        let table = [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ];
        for (text, header) in table {
            assert_eq!(encode(text), header);
            assert_eq!(decode(header.as_bytes()).unwrap(), text);
        }
        assert_eq!(decode(b"=?base64?***?="), None);
        assert_eq!(decode("é".as_bytes()), None);
    }

    #[test]
    fn a_media_type_is_read_without_case_and_parameters() {
        let with =
            |v: &'static str| http::HeaderMap::from_iter([(http::header::CONTENT_TYPE, v.parse().unwrap())]);
        for json in [
            "application/json",
            "Application/JSON ; charset=utf-8",
            " application/json;",
            "application/json\t",
        ] {
            assert!(is_json(&with(json)), "{json:?}");
        }
        for other in [
            "application/jsonl",
            "application/json x",
            "application",
            ";application/json",
            "",
            "text/event-stream",
        ] {
            assert!(!is_json(&with(other)), "{other:?}");
        }
        assert!(is_media(b"text/event-stream;q=1", EVENT_STREAM) && !is_json(&http::HeaderMap::new()));
    }

    proptest::proptest! {
        #[test]
        fn a_clear_value_is_visible_ascii_without_a_comma(
            value in proptest::collection::vec(proptest::prop_oneof![30 => 0x21u8..0x7f, 1 => 0u8..], 0..40),
        ) {
            let slow = value.iter().all(|b| matches!(b, b'!'..=b'~') && *b != b',');
            proptest::prop_assert_eq!(clear(&value), slow.then(|| std::str::from_utf8(&value).unwrap()));
        }

        #[test]
        fn a_value_folds_as_its_parts_do(value in "[a, \t\"=?]{0,12}|=\\?base64\\?YQ==\\?=", twice: bool) {
            let times = 1 + usize::from(twice);
            let map: http::HeaderMap = std::iter::repeat_n((NAME.clone(), value.parse().unwrap()), times).collect();
            let parts: std::collections::HashSet<_> = value.split(',').map(str::trim).collect();
            let want = if parts.len() == 1 { Ok(parts.into_iter().next()) } else { Err(HeaderError::Differing) };
            proptest::prop_assert_eq!(folded(&map, &NAME), want);
            let meant = decode(value.as_bytes()).map(Some).ok_or(HeaderError::Malformed);
            proptest::prop_assert_eq!(decoded(&map, &NAME), meant);
        }
    }

    #[test]
    fn equal_repeated_values_fold_and_differing_ones_do_not() {
        let mut map = http::HeaderMap::new();
        map.append(&PROTOCOL_VERSION, "2025-11-25, 2025-11-25".parse().unwrap());
        map.append(&PROTOCOL_VERSION, "2025-11-25".parse().unwrap());
        assert_eq!(folded(&map, &PROTOCOL_VERSION), Ok(Some("2025-11-25")));
        map.append(&PROTOCOL_VERSION, "2025-06-18".parse().unwrap());
        assert_eq!(folded(&map, &PROTOCOL_VERSION), Err(HeaderError::Differing));
        assert_eq!(folded(&map, &METHOD), Ok(None));
    }

    #[test]
    fn accept_is_read_without_case_and_with_ranges() {
        let with = |v: &'static str| http::HeaderMap::from_iter([(http::header::ACCEPT, v.parse().unwrap())]);
        assert!(accepts(&with("Application/JSON;q=0.9, Text/Event-Stream"), "text", "event-stream"));
        assert!(accepts(&with("*/*"), "application", "json"));
        assert!(accepts(&with("text/*"), "text", "event-stream"));
        assert!(!accepts(&with("text/html"), "application", "json"));
        for (said, json, stream) in [
            ("application/json, text/event-stream", true, true),
            ("application/json", true, false),
            ("text/event-stream;q=1", false, true),
            ("text/html", false, false),
        ] {
            let accepted = Accepted::of(&with(said));
            assert_eq!((accepted.json, accepted.stream), (json, stream), "{said}");
        }
        assert!(accepts(&http::HeaderMap::new(), "application", "json"));
    }
}
