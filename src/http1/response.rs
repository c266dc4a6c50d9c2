//! The head of a response, and how its body is framed (RFC 9112 6 and 7).

use super::date;
use super::lines::{line, number_line};
use super::output::Output;
use super::request::says;
use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING};
use http::{Method, StatusCode, Version, response};

/// What a head is likely to fit in.
const ROOM: usize = 512;
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How the body goes out that follows a head.
#[derive(Debug, PartialEq, Eq)]
pub enum Frames {
    Nothing,
    /// So many bytes.
    Sized(u64),
    Chunked,
    /// All until the connection closes.
    UntilClose,
}

impl Frames {
    /// Puts a piece of the body into `output`. Errors: there is more of it than its head said.
    pub fn push(&mut self, piece: Bytes, output: &mut Output) -> Result<(), Misframed> {
        if piece.is_empty() {
            return Ok(());
        }
        match self {
            Frames::Nothing => return Ok(()),
            Frames::UntilClose => output.push(piece, b""),
            Frames::Sized(left) => {
                *left = left.checked_sub(piece.len() as u64).ok_or(Misframed)?;
                output.push(piece, b"");
            }
            Frames::Chunked => {
                let mut size = [0; 18];
                let size = hex(piece.len(), &mut size);
                output.head().extend_from_slice(size);
                output.push(piece, b"\r\n");
            }
        }
        Ok(())
    }

    /// Ends the body. Errors: there is less of it than its head said.
    pub fn end(&mut self, output: &mut Output) -> Result<(), Misframed> {
        match std::mem::replace(self, Frames::Nothing) {
            Frames::Nothing | Frames::UntilClose | Frames::Sized(0) => Ok(()),
            Frames::Sized(_) => Err(Misframed),
            Frames::Chunked => {
                output.head().extend_from_slice(LAST_CHUNK);
                Ok(())
            }
        }
    }

    /// Whether nothing more can follow.
    pub fn is_over(&self) -> bool {
        matches!(self, Frames::Nothing | Frames::Sized(0))
    }

    pub fn ends_by_close(&self) -> bool {
        matches!(self, Frames::UntilClose)
    }
}

/// A body is not as long as its head said: whoever reads on would take one message for another.
#[derive(Debug, thiserror::Error)]
#[error("a body is not as long as its head says")]
pub struct Misframed;

/// The size of a chunk and its line's end, within `room`.
fn hex(size: usize, room: &mut [u8; 18]) -> &[u8] {
    let mut at = 16;
    let mut left = size;
    room[16..].copy_from_slice(b"\r\n");
    loop {
        at -= 1;
        room[at] = b"0123456789abcdef"[left & 15];
        left >>= 4;
        if left == 0 {
            return &room[at..];
        }
    }
}

/// Writes the head of a response to such a request, whose body has `length` bytes where that is known. `lasts` says whether the
/// connection may serve on, and becomes whether it does.
pub fn write_head(
    (method, version): (&Method, Version),
    head: &response::Parts,
    length: Option<u64>,
    lasts: &mut bool,
    out: &mut BytesMut,
) -> Frames {
    let old = version != Version::HTTP_11;
    let status = head.status;
    out.reserve(ROOM);
    out.extend_from_slice(if old { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
    out.extend_from_slice(status.as_str().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(status.canonical_reason().unwrap_or("Unknown").as_bytes());
    out.extend_from_slice(b"\r\n");
    let (mut dated, mut told) = (false, false);
    for (name, value) in &head.headers {
        // Its own idea of where it ends does not count, but for HEAD, whose body nobody sees.
        if name == TRANSFER_ENCODING || name == CONTENT_LENGTH && *method != Method::HEAD {
            continue;
        }
        told |= name == CONTENT_LENGTH;
        dated |= name == DATE;
        line(out, name, value.as_bytes());
    }
    let bodiless =
        status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let frames = match length {
        _ if bodiless => Frames::Nothing,
        Some(length) => Frames::Sized(length),
        None if old => Frames::UntilClose,
        None => Frames::Chunked,
    };
    match frames {
        Frames::Sized(length) if !told => number_line(out, &CONTENT_LENGTH, length),
        Frames::Chunked => line(out, &TRANSFER_ENCODING, b"chunked"),
        _ => {}
    }
    let closes = says(&head.headers, CONNECTION, "close");
    *lasts &= !closes && !frames.ends_by_close();
    if !closes {
        stay(*lasts, old, out);
    }
    if !dated {
        date::with_now(|now| line(out, &DATE, now));
    }
    out.extend_from_slice(b"\r\n");
    if *method == Method::HEAD { Frames::Nothing } else { frames }
}

/// The same of 200 whose headers are these lines, none of which speaks of the connection, the time or the body's length.
pub fn write_plain(
    (method, version): (&Method, Version),
    lines: &[u8],
    length: u64,
    lasts: &mut bool,
    out: &mut BytesMut,
) -> Frames {
    let old = version != Version::HTTP_11;
    out.reserve(ROOM + lines.len());
    out.extend_from_slice(if old { b"HTTP/1.0 200 OK\r\n" } else { b"HTTP/1.1 200 OK\r\n" });
    out.extend_from_slice(lines);
    number_line(out, &CONTENT_LENGTH, length);
    stay(*lasts, old, out);
    date::with_now(|now| line(out, &DATE, now));
    out.extend_from_slice(b"\r\n");
    if *method == Method::HEAD { Frames::Nothing } else { Frames::Sized(length) }
}

/// Says whether the connection serves on, where that is not what its version does by itself.
fn stay(lasts: bool, old: bool, out: &mut BytesMut) {
    match (lasts, old) {
        (false, false) => line(out, &CONNECTION, b"close"),
        (true, true) => line(out, &CONNECTION, b"keep-alive"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;

    fn written(
        method: Method,
        version: Version,
        response: Response<Option<u64>>,
        mut lasts: bool,
    ) -> (String, Frames, bool) {
        let (mut head, length) = response.into_parts();
        head.headers.insert(DATE, "now".parse().unwrap());
        let mut out = BytesMut::new();
        let frames = write_head((&method, version), &head, length, &mut lasts, &mut out);
        (String::from_utf8(out.to_vec()).unwrap(), frames, lasts)
    }

    fn response(status: u16, headers: &[(&str, &str)], length: Option<u64>) -> Response<Option<u64>> {
        let builder = headers
            .iter()
            .fold(Response::builder().status(status), |b, (name, value)| b.header(*name, *value));
        builder.body(length).unwrap()
    }

    #[test]
    fn a_plain_head_is_the_one_that_its_headers_have_by_themselves() {
        let headers = [("content-type", "application/json"), ("x-pod", "p")];
        let lines = b"content-type: application/json\r\nx-pod: p\r\n";
        for method in [Method::POST, Method::HEAD] {
            for (version, lasts) in
                [Version::HTTP_10, Version::HTTP_11].into_iter().flat_map(|v| [(v, true), (v, false)])
            {
                let about = (&method, version);
                let (head, length) = response(200, &headers, Some(17)).into_parts();
                let (mut theirs, mut ours) = ((lasts, BytesMut::new()), (lasts, BytesMut::new()));
                let whole = write_head(about, &head, length, &mut theirs.0, &mut theirs.1);
                let plain = write_plain(about, lines, 17, &mut ours.0, &mut ours.1);
                assert_eq!((ours, plain), (theirs, whole), "{method} {version:?} {lasts}");
            }
        }
    }

    #[test]
    fn a_head_says_how_its_body_ends_and_whether_the_connection_lasts() {
        let (old, new) = (Version::HTTP_10, Version::HTTP_11);
        let table = [
            (
                Method::GET,
                new,
                response(200, &[], Some(3)),
                "HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 3\r\n\r\n",
                Frames::Sized(3),
                true,
            ),
            (
                Method::GET,
                new,
                response(202, &[], Some(0)),
                "HTTP/1.1 202 Accepted\r\ndate: now\r\ncontent-length: 0\r\n\r\n",
                Frames::Sized(0),
                true,
            ),
            (
                Method::GET,
                new,
                response(204, &[], Some(0)),
                "HTTP/1.1 204 No Content\r\ndate: now\r\n\r\n",
                Frames::Nothing,
                true,
            ),
            (
                Method::GET,
                new,
                response(200, &[], None),
                "HTTP/1.1 200 OK\r\ndate: now\r\ntransfer-encoding: chunked\r\n\r\n",
                Frames::Chunked,
                true,
            ),
            (
                Method::GET,
                old,
                response(200, &[], None),
                "HTTP/1.0 200 OK\r\ndate: now\r\n\r\n",
                Frames::UntilClose,
                false,
            ),
            (
                Method::GET,
                old,
                response(200, &[], Some(3)),
                "HTTP/1.0 200 OK\r\ndate: now\r\ncontent-length: 3\r\nconnection: keep-alive\r\n\r\n",
                Frames::Sized(3),
                true,
            ),
            (
                Method::HEAD,
                new,
                response(200, &[("content-length", "9")], Some(0)),
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\ndate: now\r\n\r\n",
                Frames::Nothing,
                true,
            ),
            (
                Method::GET,
                new,
                response(200, &[("content-length", "9"), ("transfer-encoding", "gzip")], Some(3)),
                "HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 3\r\n\r\n",
                Frames::Sized(3),
                true,
            ),
            (
                Method::GET,
                new,
                response(200, &[("connection", "close")], Some(3)),
                "HTTP/1.1 200 OK\r\nconnection: close\r\ndate: now\r\ncontent-length: 3\r\n\r\n",
                Frames::Sized(3),
                false,
            ),
        ];
        for (method, version, response, text, frames, lasts) in table {
            assert_eq!(written(method, version, response, true), (text.into(), frames, lasts));
        }
        let (text, _, lasts) = written(Method::GET, new, response(299, &[], Some(3)), false);
        assert_eq!(
            text,
            "HTTP/1.1 299 Unknown\r\ndate: now\r\ncontent-length: 3\r\nconnection: close\r\n\r\n"
        );
        assert!(!lasts);
    }

    #[test]
    fn a_body_is_as_long_as_its_head_said_or_an_error() {
        let mut output = Output::default();
        let mut frames = Frames::Sized(3);
        frames.push("ab".into(), &mut output).unwrap();
        assert!(frames.push("cd".into(), &mut output).is_err());
        assert!(Frames::Sized(1).end(&mut output).is_err());
        Frames::Sized(0).end(&mut output).unwrap();
        assert_eq!(output.head(), "ab");
    }

    #[test]
    fn chunks_bear_their_size_and_an_empty_piece_ends_nothing() {
        let mut output = Output::default();
        let mut frames = Frames::Chunked;
        for piece in ["abc", "", "0123456789abcdef"] {
            frames.push(piece.into(), &mut output).unwrap();
        }
        frames.end(&mut output).unwrap();
        assert_eq!(output.head(), "3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n");
        assert_eq!(hex(usize::MAX, &mut [0; 18]), b"ffffffffffffffff\r\n");
    }
}
