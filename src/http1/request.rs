//! The head of a request, and what it says of the body that follows (RFC 9112 6.3). What two readers could take for two
//! different messages is refused, for one of them may have been a guard.

use super::fields::{Fields, MOST, Places, quick_lines};
use super::framing::Framing;
use bytes::BytesMut;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, Version};
use std::mem::MaybeUninit;
use std::ops::Range;

/// What a [`Uri`] can hold.
const LONGEST_TARGET: usize = (1 << 16) - 2;

/// A request without its body.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    pub target: Uri,
    pub version: Version,
    pub fields: Fields,
}

impl Request {
    /// The same as others want it.
    pub fn with<B>(self, body: B) -> http::Request<B> {
        let mut request = http::Request::new(body);
        *request.method_mut() = self.method;
        *request.uri_mut() = self.target;
        *request.version_mut() = self.version;
        *request.headers_mut() = self.fields.into_map();
        request
    }
}

/// The head of a request.
#[derive(Debug)]
pub struct Head {
    pub request: Request,
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
    #[error("the request's target is longer than {LONGEST_TARGET} bytes")]
    LongTarget,
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
            HeadError::LongTarget => StatusCode::URI_TOO_LONG,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reads heads as their bytes come.
pub struct HeadReader {
    /// Largest head in bytes.
    longest: usize,
    /// Bytes in which no end was found.
    seen: usize,
}

impl HeadReader {
    pub fn new(longest: usize) -> HeadReader {
        HeadReader { longest, seen: 0 }
    }

    /// Takes the next head off `input`; `None` where it is not all there.
    pub fn read(&mut self, input: &mut BytesMut) -> Result<Option<Head>, HeadError> {
        // One that comes in small pieces is not read anew with each.
        if self.seen > 0 && !ends(&input[self.seen.saturating_sub(3)..]) {
            return self.awaited(input);
        }
        let mut places = Places::default();
        let start = match quick(input, &mut places) {
            Some(start) => start,
            None => match parse(input, &mut places)? {
                Some(start) => start,
                None => return self.awaited(input),
            },
        };
        self.seen = 0;
        if start.length > self.longest {
            return Err(HeadError::TooLarge);
        }
        if start.target.len() > LONGEST_TARGET {
            return Err(HeadError::LongTarget);
        }
        let text = input.split_to(start.length).freeze();
        let target = Uri::from_maybe_shared(text.slice(start.target)).map_err(|_| HeadError::Target)?;
        let fields = Fields::new(text, places);
        let follows = Follows::of(start.version, &fields)?;
        let request = Request { method: start.method, target, version: start.version, fields };
        Ok(Some(Head { framing: follows.framing()?, lasts: follows.lasts(), waits: follows.waits, request }))
    }

    fn awaited(&mut self, input: &BytesMut) -> Result<Option<Head>, HeadError> {
        self.seen = input.len();
        if self.seen >= self.longest { Err(HeadError::TooLarge) } else { Ok(None) }
    }
}

/// Whether an empty line may be in the text.
fn ends(text: &[u8]) -> bool {
    let mut ends = memchr::memchr_iter(b'\n', text);
    ends.any(|at| matches!(&text[at + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
}

/// What a head begins with, and how long it is.
#[derive(Debug, PartialEq)]
struct Start {
    length: usize,
    method: Method,
    target: Range<usize>,
    version: Version,
}

/// Reads a head that is all there and written as nearly all are, by one of the usual methods. `None`: it is another, and [`parse`]
/// is to say what it is.
fn quick(input: &[u8], places: &mut Places) -> Option<Start> {
    let (method, from) = match input {
        [b'P', b'O', b'S', b'T', b' ', b'/', ..] => (Method::POST, 5),
        [b'G', b'E', b'T', b' ', b'/', ..] => (Method::GET, 4),
        _ => return None,
    };
    let end = from + input[from..].iter().position(|byte| !TARGET[usize::from(*byte)])?;
    if input.get(end..end + 11)? != b" HTTP/1.1\r\n" {
        return None;
    }
    let length = quick_lines(input, end + 11, places)?;
    Some(Start { length, method, target: from..end, version: Version::HTTP_11 })
}

/// The characters of targets that are seen; others may stand there as well (RFC 9112 3.2).
const TARGET: [bool; 256] = {
    let mut may = [false; 256];
    let mut byte = b'!';
    while byte <= b'~' {
        may[byte as usize] =
            !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}');
        byte += 1;
    }
    may
};

/// Reads any head; `None` where it is not all there.
fn parse(input: &[u8], places: &mut Places) -> Result<Option<Start>, HeadError> {
    *places = Places::default();
    let mut headers = [const { MaybeUninit::uninit() }; MOST];
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
    request.headers.iter().for_each(|h| places.push(place(h.name.as_bytes()), place(h.value)));
    Ok(Some(Start {
        length,
        method: Method::from_bytes(request.method.unwrap_or_default().as_bytes())
            .map_err(|_| HeadError::Syntax)?,
        target: place(request.path.unwrap_or_default().as_bytes()),
        version: if request.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 },
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
    fn of(version: Version, fields: &Fields) -> Result<Follows, HeadError> {
        let mut follows = Follows { old: version != Version::HTTP_11, ..Follows::default() };
        for (name, value) in fields.iter() {
            follows.hears(name, value)?;
        }
        Ok(follows)
    }

    fn hears(&mut self, name: &[u8], value: &[u8]) -> Result<(), HeadError> {
        let is = |header: HeaderName| name.eq_ignore_ascii_case(header.as_str().as_bytes());
        match name.len() {
            14 if is(CONTENT_LENGTH) => {
                for digits in value.split(|b| *b == b',') {
                    let length = length(digits.trim_ascii()).ok_or(HeadError::Length)?;
                    if self.length.replace(length).is_some_and(|before| before != length) {
                        return Err(HeadError::Length);
                    }
                }
            }
            17 if is(TRANSFER_ENCODING) => {
                let plain = value.trim_ascii().eq_ignore_ascii_case(b"chunked");
                if self.old || !plain || std::mem::replace(&mut self.chunked, true) {
                    return Err(HeadError::Encoding);
                }
            }
            10 if is(CONNECTION) => {
                for word in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                    self.close |= word.eq_ignore_ascii_case(b"close");
                    self.keep |= word.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            6 if is(EXPECT) => {
                let mut words = value.split(|b| *b == b',').map(<[u8]>::trim_ascii);
                self.waits |= !self.old && words.any(|word| word.eq_ignore_ascii_case(b"100-continue"));
            }
            _ => {}
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

    fn reader() -> HeadReader {
        HeadReader::new(8 << 10)
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
            assert_eq!((&request.method, &request.target), (&Method::POST, &Uri::from_static("/mcp?a=b")));
            let said: Vec<_> = request
                .fields
                .map()
                .iter()
                .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
                .collect();
            assert_eq!(said, [("host", "x"), ("x-known", "1"), ("x-other", "two"), ("x-other", "3")]);
        }
    }

    #[test]
    fn one_that_is_too_long_or_has_too_many_headers_is_refused() {
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MOST + 1));
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
        fn a_quick_look_finds_what_the_reader_of_any_head_finds_or_nothing(
            text in "(GET|POST|PUT) [/a-z*]/?[!-~]{0,5} HTTP/1[.][01]\r\n(([a-zA-Z_-]{0,9}|[!-~]{0,4}): {0,2}[ -~\t\u{80}]{0,20}\r\n){0,4}\r\n[ -~]{0,9}",
            cut in 0usize..200,
        ) {
            let (mut quickly, mut slowly) = (Places::default(), Places::default());
            if let Some(start) = quick(text.as_bytes(), &mut quickly) {
                proptest::prop_assert_eq!(Ok(Some(start)), parse(text.as_bytes(), &mut slowly));
                proptest::prop_assert_eq!(quickly, slowly);
            }
            let head = text.find("\r\n\r\n").unwrap_or_default() + 4;
            proptest::prop_assert!(quick(&text.as_bytes()[..cut % head], &mut Places::default()).is_none());
        }

        #[test]
        fn no_bytes_make_the_reader_panic_and_pieces_change_nothing(
            text in "(GET|POST) /[a-z%{}]{0,3} HTTP/1[.][01]\r?\n(((x-known|content-length|transfer-encoding|connection|[a-zA-Z-]{0,9}): ?(chunked|close|[0-9]{0,3}|[ -~]{0,9})\r?\n){0,4})\r?\n?[ -~]{0,9}",
            step in 1usize..40,
        ) {
            let whole = read(&text).map(|head| head.map(|head| (head.framing, head.lasts, head.request.fields.map().clone())));
            let (mut reader, mut input, mut pieced) = (reader(), BytesMut::new(), Ok(None));
            for piece in text.as_bytes().chunks(step) {
                input.extend_from_slice(piece);
                pieced = reader.read(&mut input).map(|head| head.map(|head| (head.framing, head.lasts, head.request.fields.map().clone())));
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
