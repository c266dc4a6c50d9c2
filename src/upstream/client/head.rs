//! The heads of HTTP/1.1 messages: a request's written, a response's read. Knows no sockets.

use super::Sending;
use super::framing::Framing;
use bytes::BytesMut;
use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version};
use smallvec::SmallVec;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::ops::Range;

/// More headers, or a longer head, are no answer of a server that is well.
const MOST_HEADERS: usize = 100;
const LONGEST: usize = 256 << 10;

/// The head of a response, and what it says of what follows.
pub(super) struct Head {
    pub(super) response: Response<()>,
    pub(super) framing: Framing,
    /// Whether the connection serves another request after this one (RFC 9112 9.3).
    pub(super) lasts: bool,
}

/// What the head of a request is likely to fit in.
const ROOM: usize = 1 << 10;

/// Writes the head of a request: to a server, or to a proxy that must be told the whole URI. `host` is the server's, where
/// the request names none. Its own idea of its body's length does not count.
pub(super) fn write(request: &Sending<'_>, host: &HeaderValue, proxied: bool, out: &mut BytesMut) {
    let Sending { method, uri, usual, own, body } = request;
    out.reserve(ROOM);
    out.extend_from_slice(method.as_str().as_bytes());
    out.extend_from_slice(b" ");
    match uri.path_and_query() {
        Some(path) if proxied => {
            let authority = uri.authority().map_or("", |authority| authority.as_str());
            // Without its credentials, which are not the proxy's to know (RFC 9110 4.2.4).
            let server = authority.rsplit_once('@').map_or(authority, |(_, server)| server);
            let scheme = uri.scheme_str().unwrap_or("http");
            out.extend_from_slice(format!("{scheme}://{server}{path}").as_bytes());
        }
        Some(path) => out.extend_from_slice(path.as_str().as_bytes()),
        None => out.extend_from_slice(b"/"),
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    // First, as every reader wants it (RFC 9110 7.2).
    let named = own.iter().rfind(|(name, _)| name == HOST).map(|(_, host)| host);
    line(out, &HOST, named.or_else(|| usual.get(HOST)).unwrap_or(host).as_bytes());
    let named =
        |among: &[(HeaderName, HeaderValue)], name: &HeaderName| among.iter().any(|(own, _)| own == name);
    for (name, value) in usual.iter().filter(|(name, _)| !is_ours(name) && !named(own, name)) {
        line(out, name, value.as_bytes());
    }
    for (n, (name, value)) in own.iter().enumerate().filter(|(_, (name, _))| !is_ours(name)) {
        if !named(&own[n + 1..], name) {
            line(out, name, value.as_bytes());
        }
    }
    if !body.is_empty() || matches!(*method, Method::POST | Method::PUT) {
        line(out, &CONTENT_LENGTH, body.len().to_string().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
}

/// Headers that are written from what is known here.
fn is_ours(name: &HeaderName) -> bool {
    name == HOST || name == CONTENT_LENGTH || name == TRANSFER_ENCODING
}

fn line(out: &mut BytesMut, name: &HeaderName, value: &[u8]) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Takes the head of a response off `input`; `None` where it is not all there. Interim responses are passed over. Errors:
/// it is no HTTP/1 response, or one whose length is in doubt.
pub(super) fn read(input: &mut BytesMut) -> io::Result<Option<Head>> {
    while !input.is_empty() {
        let Some(parsed) = parse(input)? else {
            return if input.len() > LONGEST { Err(ErrorKind::InvalidData.into()) } else { Ok(None) };
        };
        let head = input.split_to(parsed.length).freeze();
        if parsed.status.is_informational() && parsed.status != StatusCode::SWITCHING_PROTOCOLS {
            continue;
        }
        let mut response = Response::new(());
        *response.status_mut() = parsed.status;
        *response.version_mut() = parsed.version;
        let map = response.headers_mut();
        map.reserve(parsed.headers.len());
        for (name, value) in parsed.headers {
            let name = HeaderName::from_bytes(&head[name]).map_err(|_| ErrorKind::InvalidData)?;
            let value =
                HeaderValue::from_maybe_shared(head.slice(value)).map_err(|_| ErrorKind::InvalidData)?;
            map.append(name, value);
        }
        return followed(response).map(Some);
    }
    Ok(None)
}

struct Parsed {
    length: usize,
    status: StatusCode,
    version: Version,
    /// Where names and values stand.
    headers: SmallVec<[(Range<usize>, Range<usize>); 16]>,
}

fn parse(input: &[u8]) -> io::Result<Option<Parsed>> {
    let invalid = |_| io::Error::from(ErrorKind::InvalidData);
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let status = config.parse_response_with_uninit_headers(&mut response, input, &mut headers);
    let httparse::Status::Complete(length) = status.map_err(invalid)? else { return Ok(None) };
    let status = StatusCode::from_u16(response.code.unwrap_or_default());
    let place = |part: &[u8]| {
        let start = part.as_ptr() as usize - input.as_ptr() as usize;
        start..start + part.len()
    };
    Ok(Some(Parsed {
        length,
        status: status.map_err(|_| ErrorKind::InvalidData)?,
        version: if response.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 },
        headers: response.headers.iter().map(|h| (place(h.name.as_bytes()), place(h.value))).collect(),
    }))
}

/// What follows the head (RFC 9112 6.3): whoever reads it in another way than its sender may take one response for two.
fn followed(response: Response<()>) -> io::Result<Head> {
    let map = response.headers();
    let length = length(map)?;
    let mut lasts = match response.version() {
        Version::HTTP_11 => !says(map, &CONNECTION, "close"),
        _ => says(map, &CONNECTION, "keep-alive"),
    };
    let framing = match response.status() {
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => Framing::Nothing,
        // Nobody asked for it.
        StatusCode::SWITCHING_PROTOCOLS => return Err(ErrorKind::InvalidData.into()),
        _ if map.contains_key(TRANSFER_ENCODING) => {
            // In HTTP/1.0, or beside a length, somebody on the way may have understood it otherwise (RFC 9112 6.1).
            lasts &= length.is_none() && response.version() == Version::HTTP_11;
            let last = map.get_all(TRANSFER_ENCODING).iter().next_back();
            let last = last.and_then(|value| value.to_str().ok()?.rsplit(',').next());
            match last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked")) {
                true => Framing::chunked(),
                false => Framing::UntilClose,
            }
        }
        _ => length.map_or(Framing::UntilClose, Framing::Sized),
    };
    lasts &= !framing.ends_by_close();
    Ok(Head { response, framing, lasts })
}

/// The length that all `Content-Length` headers agree on. Errors: they differ, or are no lengths.
fn length(map: &HeaderMap) -> io::Result<Option<u64>> {
    let mut found = None;
    let values = map.get_all(CONTENT_LENGTH).iter().map(|value| value.to_str().unwrap_or_default());
    for digits in values.flat_map(|value| value.split(',')).map(str::trim) {
        let length = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
        let length = length.ok_or(ErrorKind::InvalidData)?;
        if found.is_some_and(|found| found != length) {
            return Err(ErrorKind::InvalidData.into());
        }
        found = Some(length);
    }
    Ok(found)
}

/// Whether a header that lists words has this one.
fn says(map: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let mut words =
        map.get_all(name).iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    words.any(|said| said.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn head(text: &str) -> io::Result<Option<Head>> {
        read(&mut BytesMut::from(text))
    }

    #[test]
    fn what_follows_a_head_is_what_the_head_says() {
        let table = [
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", Framing::Sized(5), true),
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 5\r\n\r\n", Framing::Sized(5), true),
            ("HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\n\r\n", Framing::Sized(5), true),
            (
                "HTTP/1.1 200 OK\r\nConnection: a, Close\r\ncontent-length: 0\r\n\r\n",
                Framing::Sized(0),
                false,
            ),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, Chunked\r\n\r\n", Framing::chunked(), true),
            (
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n",
                Framing::chunked(),
                false,
            ),
            (
                "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ntransfer-encoding: chunked\r\n\r\n",
                Framing::chunked(),
                false,
            ),
            ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n", Framing::UntilClose, false),
            ("HTTP/1.1 200 OK\r\n\r\n", Framing::UntilClose, false),
            ("HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", Framing::Nothing, true),
            ("HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\n", Framing::Sized(5), false),
            (
                "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\n",
                Framing::Sized(5),
                true,
            ),
            (
                "HTTP/1.1 103 Hints\r\nlink: x\r\n\r\nHTTP/1.1 202 \r\ncontent-length: 1\r\n\r\n",
                Framing::Sized(1),
                true,
            ),
        ];
        for (text, framing, lasts) in table {
            let head = head(text).unwrap().unwrap();
            assert_eq!((head.framing, head.lasts), (framing, lasts), "{text}");
        }
    }

    #[test]
    fn a_head_whose_length_is_in_doubt_is_refused_and_one_that_is_not_all_there_awaited() {
        for bad in [
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5, 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 5,\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
            "HTTP/1.1 20\r\n\r\n",
            "HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n",
        ] {
            assert!(head(bad).is_err(), "{bad}");
        }
        let whole = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx: y\r\n\r\n";
        for end in 0..whole.len() {
            assert!(head(&whole[..end]).unwrap().is_none(), "{end}");
        }
        let mut long = BytesMut::from("HTTP/1.1 200 OK\r\nx: ");
        long.resize(LONGEST + 1, b'y');
        assert!(read(&mut long).is_err());
    }

    #[test]
    fn a_request_says_its_length_itself_and_its_host_first() {
        let mut usual = HeaderMap::new();
        usual.insert("x-one", HeaderValue::from_static("1"));
        usual.insert("x-two", HeaderValue::from_static("2"));
        usual.insert(CONTENT_LENGTH, HeaderValue::from_static("77"));
        usual.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        let own = |value| (HeaderName::from_static("x-two"), HeaderValue::from_static(value));
        let uri = "http://a.example/mcp?a=b".parse().unwrap();
        let host = HeaderValue::from_static("a.example");
        let mut request = Sending {
            method: Method::POST,
            uri: &uri,
            usual: &usual,
            own: [own("3"), own("4")].into_iter().collect(),
            body: Bytes::from_static(b"{}"),
        };
        let mut out = BytesMut::new();
        write(&request, &host, false, &mut out);
        let lines = "host: a.example\r\nx-one: 1\r\nx-two: 4\r\ncontent-length: 2\r\n\r\n";
        assert_eq!(out, format!("POST /mcp?a=b HTTP/1.1\r\n{lines}"));
        let mut other = usual.clone();
        other.insert(HOST, HeaderValue::from_static("b.example"));
        (request.method, request.usual, request.body) = (Method::GET, &other, Bytes::new());
        request.own.clear();
        out.clear();
        write(&request, &host, true, &mut out);
        let lines = "host: b.example\r\nx-one: 1\r\nx-two: 2\r\n\r\n";
        assert_eq!(out, format!("GET http://a.example/mcp?a=b HTTP/1.1\r\n{lines}"));
        for (named, told) in [
            ("http://user:pass@a.example:81/mcp?a=b@c", "http://a.example:81/mcp?a=b@c"),
            ("http://user@[::1]:81", "http://[::1]:81/"),
        ] {
            let (uri, own) = (named.parse().unwrap(), request.own.clone());
            let request = Sending { method: Method::GET, uri: &uri, usual: &other, own, body: Bytes::new() };
            out.clear();
            write(&request, &host, true, &mut out);
            assert_eq!(out, format!("GET {told} HTTP/1.1\r\n{lines}"));
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(text in "(HTTP/1.1 [0-9]{3} \r\n)?(([a-zA-Z-]{0,18}: ?[ -~]{0,12}\r?\n){0,4})\r?\n?[ -~]{0,9}") {
            let _ = head(&text);
        }
    }
}
