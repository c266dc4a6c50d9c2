//! What is refused before a message is read: foreign origins and hosts, wrong media types; and CORS.

use super::gate::Rules;
use super::said::Said;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};

/// Why a request is refused unread.
type Refusal = (StatusCode, &'static str);

/// Refuses a request by its `Host` (421): a page in a browser must not reach a server on loopback by a name that its author
/// controls (2026-07-28 transports, *Security*; DNS rebinding).
pub fn admit_host(rules: &Rules, said: &Said<'_>, authority: Option<&str>) -> Result<(), Refusal> {
    // Who else reads the request may go by another of the names that it bears: every one must be ours.
    let mut hosts = said.hosts().chain(authority);
    let ours = |host: &str| is_listed(&rules.hosts, host) || is_loopback(host);
    match hosts.next().is_some_and(ours) && hosts.all(ours) {
        true => Ok(()),
        false => {
            Err((StatusCode::MISDIRECTED_REQUEST, "this host is not served here; list it in allowed_hosts"))
        }
    }
}

/// Refuses a request by its `Origin` (403).
pub fn admit_origin(rules: &Rules, map: &HeaderMap) -> Result<(), Refusal> {
    let admitted = |origin: &str| {
        let bare = origin.split_once("://").map(|(_, rest)| rest);
        is_listed(&rules.origins, origin) || bare.is_some_and(is_loopback)
    };
    // What is no text is none that is admitted.
    if map.get_all(header::ORIGIN).into_iter().all(|origin| admitted(origin.to_str().unwrap_or_default())) {
        Ok(())
    } else {
        Err((StatusCode::FORBIDDEN, "this origin is not admitted; list it in allowed_origins"))
    }
}

fn is_listed(list: &[String], value: &str) -> bool {
    // As it is written in the list, mostly.
    if list.iter().any(|listed| listed == value) {
        return true;
    }
    let bare = without_port(value);
    list.iter().any(|l| l == "*" || l.eq_ignore_ascii_case(value) || l.eq_ignore_ascii_case(bare))
}

fn without_port(authority: &str) -> &str {
    let bytes = authority.as_bytes();
    match bytes.iter().rposition(|byte| !byte.is_ascii_digit()) {
        Some(colon) if bytes[colon] == b':' && !bytes[..colon].ends_with(b":") => &authority[..colon],
        _ => authority,
    }
}

fn is_loopback(authority: &str) -> bool {
    let host = without_port(authority).trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Mcp-Session-Id, WWW-Authenticate, MCP-Protocol-Version, Plasm-Replica, Retry-After, RateLimit, RateLimit-Policy",
);
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
const ALWAYS_ALLOWED: &str =
    "authorization, content-type, accept, last-event-id, mcp-protocol-version, mcp-session-id";

/// The answer with what a browser needs to read it. The origin was admitted before.
pub fn cors<T>(origin: Option<HeaderValue>, mut answer: Response<T>) -> Response<T> {
    let Some(origin) = origin else { return answer };
    let out = answer.headers_mut();
    out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    out.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    out.append(header::VARY, HeaderValue::from_static("Origin"));
    answer
}

/// What is the same for everyone, and asked for without cookies, is read by any page.
pub fn open_cors(out: &mut HeaderMap) {
    out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    out.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
}

/// The answer's headers to a preflight request: any `Mcp-*` header is allowed, whatever a tool names its parameters.
pub fn preflight(map: &HeaderMap, out: &mut HeaderMap) {
    let asked = map
        .get(header::ACCESS_CONTROL_REQUEST_HEADERS)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default()
        .split(',')
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| name.starts_with("mcp-") && HeaderName::from_bytes(name.as_bytes()).is_ok());
    let mut allowed = ALWAYS_ALLOWED.to_owned();
    for name in asked.filter(|n| !ALWAYS_ALLOWED.contains(n.as_str())).collect::<Vec<_>>() {
        allowed.push_str(", ");
        allowed.push_str(&name);
    }
    out.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    out.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if let Ok(allowed) = allowed.parse() {
        out.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_admitted_in_all_its_spellings_and_look_alikes_are_not() {
        for good in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:80", "127.9.9.9"] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in
            ["localhost.evil.example", "127.0.0.1.evil.example", "evil.example:80", "0.0.0.0", "", "10.0.0.1"]
        {
            assert!(!is_loopback(bad), "{bad}");
        }
    }

    #[test]
    fn a_port_is_digits_after_one_colon() {
        let table = [
            ("a.example:80", "a.example"),
            ("a.example:", "a.example"),
            (":80", ""),
            ("[::1]:80", "[::1]"),
            ("a.example", "a.example"),
            ("::1", "::1"),
            ("a:b", "a:b"),
            ("80", "80"),
            ("", ""),
            ("é:1", "é"),
        ];
        for (authority, host) in table {
            assert_eq!(without_port(authority), host, "{authority}");
        }
    }

    #[test]
    fn listed_hosts_match_with_and_without_their_port() {
        let list = ["mcp.example.com".to_owned(), "b.example:8443".to_owned()];
        assert!(is_listed(&list, "MCP.example.com:443") && is_listed(&list, "b.example:8443"));
        assert!(!is_listed(&list, "b.example:1") && !is_listed(&list, "amcp.example.com"));
    }
}
