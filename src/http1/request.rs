//! The head of a request, and what it says of the body that follows (RFC 9112 6.3). What two readers could take for two
//! different messages is refused, for one of them may have been a guard.

use super::framing::Framing;
use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version};
use smallvec::SmallVec;
use std::mem::MaybeUninit;
use std::ops::Range;

/// More headers than these are too many.
const MOST_HEADERS: usize = 100;

/// The head of a request.
#[derive(Debug)]
pub struct Head {
    pub request: Request<()>,
    pub framing: Framing,
    /// Whether the client is ready to send another request after this one (RFC 9112 9.3).
    pub lasts: bool,
    /// Whether it sends the body once it is told to (RFC 9110 10.1.1).
    pub waits: bool,
}

/// Why a head cannot be answered but by a refusal. Nothing that follows it can be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("this is no HTTP/1.1 request")]
    Syntax,
    #[error("the request's target is no URI")]
    Target,
    #[error("the head has too many headers or is too long")]
    TooLarge,
    #[error("Content-Length is no length, or differs from another")]
    Length,
    #[error("Transfer-Encoding must be chunked, alone, without Content-Length, and of HTTP/1.1")]
    Encoding,
}

impl HeadError {
    pub fn status(self) -> StatusCode {
        match self {
            HeadError::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads heads as their bytes come.
pub struct HeadReader {
    /// Largest head in bytes.
    longest: usize,
    /// Names that are usual here; others cost a block each where HTTP itself does not know them.
    usual: &'static [&'static HeaderName],
    /// Bytes in which no end was found.
    seen: usize,
}

impl HeadReader {
    pub fn new(longest: usize, usual: &'static [&'static HeaderName]) -> HeadReader {
        HeadReader { longest, usual, seen: 0 }
    }

    /// Takes the next head off `input`; `None` where it is not all there.
    pub fn read(&mut self, input: &mut BytesMut) -> Result<Option<Head>, HeadError> {
        // One that comes in small pieces is not read anew with each.
        if self.seen > 0 && !ends(&input[self.seen.saturating_sub(3)..]) {
            return self.awaited(input);
        }
        let Some(parsed) = parse(input)? else { return self.awaited(input) };
        self.seen = 0;
        let head = input.split_to(parsed.length).freeze();
        self.head(&parsed, &head).map(Some)
    }

    fn awaited(&mut self, input: &BytesMut) -> Result<Option<Head>, HeadError> {
        self.seen = input.len();
        if self.seen >= self.longest { Err(HeadError::TooLarge) } else { Ok(None) }
    }

    fn head(&self, parsed: &Parsed, text: &Bytes) -> Result<Head, HeadError> {
        let mut request = Request::new(());
        *request.method_mut() =
            Method::from_bytes(&text[parsed.method.clone()]).map_err(|_| HeadError::Syntax)?;
        *request.uri_mut() =
            Uri::from_maybe_shared(text.slice(parsed.target.clone())).map_err(|_| HeadError::Target)?;
        *request.version_mut() = parsed.version;
        let mut follows = Follows { old: parsed.version != Version::HTTP_11, ..Follows::default() };
        let map = request.headers_mut();
        map.reserve(parsed.headers.len());
        for (name, value) in &parsed.headers {
            let name = self.name(&text[name.clone()])?;
            let value =
                HeaderValue::from_maybe_shared(text.slice(value.clone())).map_err(|_| HeadError::Syntax)?;
            follows.hears(&name, &value)?;
            map.append(name, value);
        }
        Ok(Head { framing: follows.framing()?, lasts: follows.lasts(), waits: follows.waits, request })
    }

    fn name(&self, said: &[u8]) -> Result<HeaderName, HeadError> {
        let usual = |name: &&&HeaderName| name.as_str().as_bytes().eq_ignore_ascii_case(said);
        match self.usual.iter().find(usual) {
            Some(name) => Ok((*name).clone()),
            None => HeaderName::from_bytes(said).map_err(|_| HeadError::Syntax),
        }
    }
}

/// Whether an empty line may be in the text.
fn ends(text: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', text);
    ends.any(|at| matches!(&text[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

/// Where the parts of a head stand.
struct Parsed {
    length: usize,
    method: Range<usize>,
    target: Range<usize>,
    version: Version,
    headers: SmallVec<[(Range<usize>, Range<usize>); 16]>,
}

fn parse(input: &[u8]) -> Result<Option<Parsed>, HeadError> {
    let mut headers = [const { MaybeUninit::uninit() }; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(input, &mut headers) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
        Err(_) => return Err(HeadError::Syntax),
    };
    let place = |part: &[u8]| {
        let start = part.as_ptr() as usize - input.as_ptr() as usize;
        start..start + part.len()
    };
    Ok(Some(Parsed {
        length,
        method: place(request.method.unwrap_or_default().as_bytes()),
        target: place(request.path.unwrap_or_default().as_bytes()),
        version: if request.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 },
        headers: request.headers.iter().map(|h| (place(h.name.as_bytes()), place(h.value))).collect(),
    }))
}

/// What the headers say of what follows them.
#[derive(Default)]
struct Follows {
    /// HTTP/1.0.
    old: bool,
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep: bool,
    waits: bool,
}

impl Follows {
    fn hears(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), HeadError> {
        let value = value.as_bytes();
        if name == CONTENT_LENGTH {
            for digits in value.split(|b| *b == b',') {
                let length = length(digits.trim_ascii()).ok_or(HeadError::Length)?;
                if self.length.replace(length).is_some_and(|before| before != length) {
                    return Err(HeadError::Length);
                }
            }
        } else if name == TRANSFER_ENCODING {
            let plain = value.trim_ascii().eq_ignore_ascii_case(b"chunked");
            if self.old || !plain || std::mem::replace(&mut self.chunked, true) {
                return Err(HeadError::Encoding);
            }
        } else if name == CONNECTION {
            for word in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                self.close |= word.eq_ignore_ascii_case(b"close");
                self.keep |= word.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if name == EXPECT {
            self.waits = !self.old && value.trim_ascii().eq_ignore_ascii_case(b"100-continue");
        }
        Ok(())
    }

    fn framing(&self) -> Result<Framing, HeadError> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(HeadError::Encoding),
            (true, None) => Ok(Framing::chunked()),
            (false, length) => Ok(length.map_or(Framing::Nothing, Framing::Sized)),
        }
    }

    fn lasts(&self) -> bool {
        !self.close && (self.keep || !self.old)
    }
}

fn length(digits: &[u8]) -> Option<u64> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| plain)?.parse().ok()
}

/// Whether a header that lists words has this one, in any spelling.
pub(super) fn says(map: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let mut values = map.get_all(name).iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
    values.any(|said| said.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    static KNOWN: HeaderName = HeaderName::from_static("x-known");
    static USUAL: &[&HeaderName] = &[&KNOWN];

    fn reader() -> HeadReader {
        HeadReader::new(8 << 10, USUAL)
    }

    fn read(text: &str) -> Result<Option<Head>, HeadError> {
        reader().read(&mut BytesMut::from(text))
    }

    #[test]
    fn what_follows_a_head_is_what_the_head_says() {
        let table = [
            ("GET / HTTP/1.1\r\n\r\n", Framing::Nothing, true, false),
            ("GET / HTTP/1.0\r\n\r\n", Framing::Nothing, false, false),
            ("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", Framing::Nothing, true, false),
            ("GET / HTTP/1.1\r\nconnection: a, CLOSE\r\n\r\n", Framing::Nothing, false, false),
            ("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", Framing::Sized(5), true, false),
            (
                "POST / HTTP/1.1\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\n",
                Framing::Sized(5),
                true,
                false,
            ),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n", Framing::chunked(), true, false),
            (
                "POST / HTTP/1.1\r\nexpect: 100-Continue\r\ncontent-length: 1\r\n\r\n",
                Framing::Sized(1),
                true,
                true,
            ),
            (
                "POST / HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n",
                Framing::Sized(1),
                false,
                false,
            ),
        ];
        for (text, framing, lasts, waits) in table {
            let head = read(text).unwrap().unwrap();
            assert_eq!((head.framing, head.lasts, head.waits), (framing, lasts, waits), "{text}");
        }
    }

    #[test]
    fn a_head_that_readers_could_differ_about_is_refused() {
        use HeadError::{Encoding, Length, Syntax, Target};
        let table = [
            ("POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", Length),
            ("POST / HTTP/1.1\r\ncontent-length: 5, 6\r\n\r\n", Length),
            ("POST / HTTP/1.1\r\ncontent-length: 5,\r\n\r\n", Length),
            ("POST / HTTP/1.1\r\ncontent-length: +5\r\n\r\n", Length),
            ("POST / HTTP/1.1\r\ncontent-length: \r\n\r\n", Length),
            ("POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n", Length),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n", Encoding),
            ("POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", Encoding),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked, gzip\r\n\r\n", Encoding),
            ("POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n", Encoding),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n", Encoding),
            ("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n", Encoding),
            ("POST / HTTP/1.1\r\ncontent-length : 5\r\n\r\n", Syntax),
            ("POST / HTTP/1.1\r\na: b\r\n c\r\n\r\n", Syntax),
            ("POST / HTTP/2.0\r\n\r\n", Syntax),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Syntax),
            ("GET http:// HTTP/1.1\r\n\r\n", Target),
            ("SSH-2.0-OpenSSH\r\n", Syntax),
        ];
        for (text, why) in table {
            assert_eq!(read(text).expect_err(text), why, "{text}");
        }
    }

    #[test]
    fn a_head_is_read_in_whatever_pieces_it_comes_and_leaves_what_follows() {
        let text =
            "POST /mcp?a=b HTTP/1.1\r\nHost: x\r\nX-KNOWN: 1\r\nx-other: two\r\nx-other: 3\r\n\r\nbody";
        for step in 1..text.len() {
            let (mut reader, mut input) = (reader(), BytesMut::new());
            let mut pieces = text.as_bytes().chunks(step);
            let head = loop {
                input.extend_from_slice(pieces.next().expect("the head ends"));
                if let Some(head) = reader.read(&mut input).unwrap() {
                    break head;
                }
            };
            input.extend(pieces.flatten());
            assert_eq!(input, "body");
            let request = head.request;
            assert_eq!((request.method(), request.uri()), (&Method::POST, &Uri::from_static("/mcp?a=b")));
            let said: Vec<_> = request
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
                .collect();
            assert_eq!(said, [("host", "x"), ("x-known", "1"), ("x-other", "two"), ("x-other", "3")]);
        }
    }

    #[test]
    fn one_that_is_too_long_or_has_too_many_headers_is_refused() {
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MOST_HEADERS + 1));
        assert_eq!(read(&many).unwrap_err(), HeadError::TooLarge);
        let (mut reader, mut input) = (reader(), BytesMut::from("GET / HTTP/1.1\r\nx: "));
        loop {
            input.extend_from_slice(&[b'y'; 100]);
            match reader.read(&mut input) {
                Ok(found) => assert!(found.is_none() && input.len() < 8 << 10),
                Err(why) => break assert_eq!(why, HeadError::TooLarge),
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic_and_pieces_change_nothing(
            text in "(GET|POST) /[a-z%{}]{0,3} HTTP/1[.][01]\r?\n(((x-known|content-length|transfer-encoding|connection|[a-zA-Z-]{0,9}): ?(chunked|close|[0-9]{0,3}|[ -~]{0,9})\r?\n){0,4})\r?\n?[ -~]{0,9}",
            step in 1usize..40,
        ) {
            let whole = read(&text).map(|head| head.map(|head| (head.framing, head.lasts, head.request.headers().clone())));
            let (mut reader, mut input, mut pieced) = (reader(), BytesMut::new(), Ok(None));
            for piece in text.as_bytes().chunks(step) {
                input.extend_from_slice(piece);
                pieced = reader.read(&mut input).map(|head| head.map(|head| (head.framing, head.lasts, head.request.headers().clone())));
                if !matches!(pieced, Ok(None)) {
                    break;
                }
            }
            // What is wrong in a head that comes in pieces is seen at its end at the latest.
            if whole.is_ok() || pieced != Ok(None) {
                proptest::prop_assert_eq!(whole, pieced);
            }
        }
    }
}
