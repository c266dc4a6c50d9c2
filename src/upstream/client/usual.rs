//! What requests of one kind have in common: the head of an HTTP/1.1 request, written once and copied into each. Knows no
//! sockets.

use crate::http1::{line, number_line};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use smallvec::SmallVec;

/// A few headers of one request, of which the last of a name counts.
pub type Own<'a> = SmallVec<[(&'a HeaderName, &'a [u8]); 6]>;

/// Requests to one address by one method, with the headers that they have in common. What names the length of a body does
/// not count among them.
pub struct Usual {
    pub(super) method: Method,
    /// Absolute.
    pub(super) uri: Uri,
    headers: HeaderMap,
    /// Names that may be among the headers; see [`bit`].
    names: u64,
    /// The request line, `Host` and the headers.
    head: Bytes,
    /// Whether a proxy of plain HTTP takes them, which must be told the whole URI.
    proxied: bool,
}

/// What the head of a request is likely to fit in.
const ROOM: usize = 1 << 10;

impl Usual {
    pub(super) fn new(method: Method, uri: Uri, mut headers: HeaderMap, proxied: bool) -> Usual {
        if !headers.contains_key(HOST) {
            headers.insert(HOST, host_of(&uri));
        }
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        let names = headers.keys().chain(&OURS).fold(0, |names, name| names | bit(name));
        let mut usual = Usual { method, uri, headers, names, head: Bytes::new(), proxied };
        let mut head = BytesMut::new();
        usual.begin(&Own::new(), &mut head);
        usual.head = head.freeze();
        usual
    }

    /// Writes the head of a request that has these headers as well, in place of those of the same names.
    pub(super) fn write(&self, own: &[(&HeaderName, &[u8])], body: usize, out: &mut BytesMut) {
        out.reserve(self.head.len() + ROOM);
        match self.clashes(own) {
            false => {
                out.extend_from_slice(&self.head);
                own.iter().for_each(|(name, value)| line(out, name, value));
            }
            true => self.begin(own, out),
        }
        if body > 0 || matches!(self.method, Method::POST | Method::PUT) {
            number_line(out, &CONTENT_LENGTH, body as u64);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Whether a name is given more than once, or is not for a request to give.
    fn clashes(&self, own: &[(&HeaderName, &[u8])]) -> bool {
        let mut seen = self.names;
        own.iter().enumerate().any(|(n, (name, _))| {
            let bit = bit(name);
            let met = seen & bit != 0;
            seen |= bit;
            met && (is_ours(name)
                || self.headers.contains_key(*name)
                || own[..n].iter().any(|(other, _)| other == name))
        })
    }

    /// All but what is said of the body.
    fn begin(&self, own: &[(&HeaderName, &[u8])], out: &mut BytesMut) {
        out.extend_from_slice(self.method.as_str().as_bytes());
        out.extend_from_slice(b" ");
        match self.uri.path_and_query() {
            Some(path) if self.proxied => {
                let authority = self.uri.authority().map_or("", |authority| authority.as_str());
                // Without its credentials, which are not the proxy's to know (RFC 9110 4.2.4).
                let server = authority.rsplit_once('@').map_or(authority, |(_, server)| server);
                let scheme = self.uri.scheme_str().unwrap_or("http");
                out.extend_from_slice(format!("{scheme}://{server}{path}").as_bytes());
            }
            Some(path) => out.extend_from_slice(path.as_str().as_bytes()),
            None => out.extend_from_slice(b"/"),
        }
        out.extend_from_slice(b" HTTP/1.1\r\n");
        // First, as every reader wants it (RFC 9110 7.2).
        let named = own.iter().rfind(|(name, _)| **name == HOST).map(|(_, host)| *host);
        let usual = || self.headers.get(HOST).map_or(&b""[..], HeaderValue::as_bytes);
        line(out, &HOST, named.unwrap_or_else(usual));
        let named =
            |among: &[(&HeaderName, &[u8])], name: &HeaderName| among.iter().any(|(own, _)| *own == name);
        for (name, value) in self.headers.iter().filter(|(name, _)| !is_ours(name) && !named(own, name)) {
            line(out, name, value.as_bytes());
        }
        for (n, (name, value)) in own.iter().enumerate().filter(|(_, (name, _))| !is_ours(name)) {
            if !named(&own[n + 1..], name) {
                line(out, name, value);
            }
        }
    }
}

/// Headers that are written from what is known here.
const OURS: [HeaderName; 3] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING];

fn is_ours(name: &HeaderName) -> bool {
    OURS.contains(name)
}

/// One of 64 bits: names of different bits differ. Those that upstreams mostly are sent have a bit each.
fn bit(name: &HeaderName) -> u64 {
    let name = name.as_str().as_bytes();
    let (Some(first), Some(last)) = (name.first(), name.last()) else { return 0 };
    1 << ((name.len() + 11 * usize::from(*first) + usize::from(*last)) % 64)
}

/// `Host` for an absolute URI: without a login, and without the scheme's own port (RFC 9110 7.2).
fn host_of(uri: &Uri) -> HeaderValue {
    let host = uri.host().unwrap_or_default();
    let own = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let text = match uri.port_u16().filter(|port| *port != own) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    HeaderValue::try_from(text).expect("the host of a URI has only characters of a header")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(usual: &Usual, own: &[(&HeaderName, &str)], body: usize) -> String {
        let mut out = BytesMut::new();
        let own: Own = own.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        usual.write(&own, body, &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn a_request_says_its_length_itself_and_its_host_first() {
        let mut headers = HeaderMap::new();
        headers.insert("x-one", HeaderValue::from_static("1"));
        headers.insert("x-two", HeaderValue::from_static("2"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("77"));
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        let usual = |method, uri: &str, headers: &HeaderMap, proxied| {
            Usual::new(method, uri.parse().unwrap(), headers.clone(), proxied)
        };
        let (two, other) = (HeaderName::from_static("x-two"), HeaderName::from_static("other"));
        let post = usual(Method::POST, "http://a.example/mcp?a=b", &headers, false);
        let told = "POST /mcp?a=b HTTP/1.1\r\nhost: a.example\r\nx-one: 1\r\n";
        type Given<'a> = &'a [(&'a HeaderName, &'a str)];
        let table: [(Given, usize, &str); 5] = [
            (&[(&two, "3"), (&two, "4")], 2, "x-two: 4\r\ncontent-length: 2\r\n\r\n"),
            (&[(&other, "3")], 10, "x-two: 2\r\nother: 3\r\ncontent-length: 10\r\n\r\n"),
            (&[(&other, "3"), (&other, "4")], 0, "x-two: 2\r\nother: 4\r\ncontent-length: 0\r\n\r\n"),
            (&[(&CONTENT_LENGTH, "3")], 1, "x-two: 2\r\ncontent-length: 1\r\n\r\n"),
            (&[(&TRANSFER_ENCODING, "chunked")], 1, "x-two: 2\r\ncontent-length: 1\r\n\r\n"),
        ];
        for (own, body, lines) in table {
            assert_eq!(written(&post, own, body), format!("{told}{lines}"));
        }
        let lines = "x-one: 1\r\nx-two: 2\r\ncontent-length: 1\r\n\r\n";
        let told = format!("POST /mcp?a=b HTTP/1.1\r\nhost: c.example\r\n{lines}");
        assert_eq!(written(&post, &[(&HOST, "c.example")], 1), told);
        headers.insert(HOST, HeaderValue::from_static("b.example"));
        let lines = "host: b.example\r\nx-one: 1\r\nx-two: 2\r\n\r\n";
        for (named, told) in [
            ("http://a.example/mcp?a=b", "http://a.example/mcp?a=b"),
            ("http://user:pass@a.example:81/mcp?a=b@c", "http://a.example:81/mcp?a=b@c"),
            ("http://user@[::1]:81", "http://[::1]:81/"),
        ] {
            let get = usual(Method::GET, named, &headers, true);
            assert_eq!(written(&get, &[], 0), format!("GET {told} HTTP/1.1\r\n{lines}"));
        }
    }

    #[test]
    fn the_host_is_told_without_login_and_without_the_schemes_own_port() {
        for (uri, want) in [
            ("http://a.example/x", "a.example"),
            ("http://user:pass@a.example:80/", "a.example"),
            ("https://a.example:443/", "a.example"),
            ("https://a.example:80/", "a.example:80"),
            ("http://[::1]:8080/", "[::1]:8080"),
        ] {
            assert_eq!(host_of(&uri.parse().unwrap()), want, "{uri}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_head_that_was_written_before_is_the_one_that_is_written_now(
            common in proptest::collection::vec(("[a-c]{1,2}", "[a-z]{0,3}"), 0..6),
            own in proptest::collection::vec(("[a-e]{1,3}", "[a-z]{0,3}"), 0..6),
        ) {
            let name = |name: &str| HeaderName::try_from(name).unwrap();
            let headers = common.iter().map(|(n, v)| (name(n), HeaderValue::try_from(v).unwrap()));
            let usual = Usual::new(Method::GET, Uri::from_static("http://a/b"), headers.collect(), false);
            let own: Vec<_> = own.iter().map(|(n, value)| (name(n), value.as_bytes())).collect();
            let own: Own = own.iter().map(|(name, value)| (name, *value)).collect();
            let (mut quickly, mut slowly) = (BytesMut::new(), BytesMut::new());
            usual.write(&own, 0, &mut quickly);
            usual.begin(&own, &mut slowly);
            slowly.extend_from_slice(b"\r\n");
            assert_eq!(quickly, slowly);
        }
    }
}
