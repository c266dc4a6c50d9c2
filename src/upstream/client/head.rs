//! The head of an HTTP/1.1 response, read, and what it says of what follows. Knows no sockets.

use crate::http1::{Fields, Framing, MOST, Places, line_end, quick_lines};
use bytes::BytesMut;
use http::{StatusCode, Version};
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;

/// A longer head is no answer of a server that is well.
const LONGEST: usize = 256 << 10;

/// The head of a response, and what it says of what follows.
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) fields: Fields,
    pub(super) framing: Framing,
    /// Whether the connection serves another request after this one (RFC 9112 9.3).
    pub(super) lasts: bool,
}

/// Takes the head of a response off `input`; `None` where it is not all there. Interim responses are passed over. Errors:
/// it is no HTTP/1 response, or one whose length is in doubt.
pub(super) fn read(input: &mut BytesMut) -> io::Result<Option<Head>> {
    while !input.is_empty() {
        let mut places = Places::default();
        let start = match quick(input, &mut places) {
            Some(start) => Some(start),
            None => parse(input, &mut places)?,
        };
        let Some(Start { length, status, version }) = start else {
            return if input.len() > LONGEST { Err(ErrorKind::InvalidData.into()) } else { Ok(None) };
        };
        let head = input.split_to(length).freeze();
        if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
            continue;
        }
        let fields = Fields::new(head, places);
        let (framing, lasts) = followed(status, version, &fields)?;
        return Ok(Some(Head { status, fields, framing, lasts }));
    }
    Ok(None)
}

/// What a head begins with, and how long it is.
#[derive(Debug, PartialEq)]
struct Start {
    length: usize,
    status: StatusCode,
    version: Version,
}

/// Reads a head that is all there and written as nearly all are: of HTTP/1.1, with one space after each colon, and values that
/// are not empty and do not end in blanks. `None`: it is another, and [`parse`] is to say what it is.
fn quick(input: &[u8], places: &mut Places) -> Option<Start> {
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1', b' ', code @ .., b' '] =
        input.first_chunk::<13>()?
    else {
        return None;
    };
    let status = StatusCode::from_bytes(code).ok()?;
    let length = quick_lines(input, line_end(input, 13)? + 2, places)?;
    Some(Start { length, status, version: Version::HTTP_11 })
}

/// Reads any head; `None` where it is not all there.
fn parse(input: &[u8], places: &mut Places) -> io::Result<Option<Start>> {
    *places = Places::default();
    let invalid = |_| io::Error::from(ErrorKind::InvalidData);
    let mut headers = [const { MaybeUninit::uninit() }; MOST];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let status = config.parse_response_with_uninit_headers(&mut response, input, &mut headers);
    let httparse::Status::Complete(length) = status.map_err(invalid)? else { return Ok(None) };
    let status = StatusCode::from_u16(response.code.unwrap_or_default());
    let status = status.map_err(|_| ErrorKind::InvalidData)?;
    let version = if response.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
    let place = |part: &[u8]| {
        let start = part.as_ptr() as usize - input.as_ptr() as usize;
        start..start + part.len()
    };
    for header in response.headers.iter() {
        places.push(place(header.name.as_bytes()), place(header.value));
    }
    Ok(Some(Start { length, status, version }))
}

/// What follows the head, and whether the connection lasts (RFC 9112 6.3): whoever reads it in another way than its sender may
/// take one response for two.
fn followed(status: StatusCode, version: Version, fields: &Fields) -> io::Result<(Framing, bool)> {
    let (mut length, mut coding, mut closes, mut keeps) = (None, None, false, false);
    for (name, value) in fields.iter() {
        // One comparison tells most headers from these.
        match name.len() {
            10 if name.eq_ignore_ascii_case(b"connection") => {
                closes |= says(value, b"close");
                keeps |= says(value, b"keep-alive");
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => {
                let said = number(value).or_else(|| agreed(value)).ok_or(ErrorKind::InvalidData)?;
                if length.is_some_and(|length| length != said) {
                    return Err(ErrorKind::InvalidData.into());
                }
                length = Some(said);
            }
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => coding = Some(value),
            _ => {}
        }
    }
    let mut lasts = if version == Version::HTTP_11 { !closes } else { keeps };
    let framing = match status {
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => Framing::Nothing,
        // Nobody asked for it.
        StatusCode::SWITCHING_PROTOCOLS => return Err(ErrorKind::InvalidData.into()),
        _ => match coding {
            Some(coding) => {
                // In HTTP/1.0, or beside a length, somebody on the way may have understood it otherwise (RFC 9112 6.1).
                lasts &= length.is_none() && version == Version::HTTP_11;
                match words(coding).next_back().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked")) {
                    true => Framing::chunked(),
                    false => Framing::UntilClose,
                }
            }
            None => length.map_or(Framing::UntilClose, Framing::Sized),
        },
    };
    lasts &= !framing.ends_by_close();
    Ok((framing, lasts))
}

/// The number that all words of a list are.
fn agreed(value: &[u8]) -> Option<u64> {
    let mut numbers = words(value).map(number);
    let first = numbers.next()?;
    first.filter(|_| numbers.all(|other| other == first))
}

/// Digits alone, one at least, whose number can be told.
fn number(digits: &[u8]) -> Option<u64> {
    let digit = |number: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, digit) }
}

/// Whether a list of words has this one.
fn says(value: &[u8], word: &[u8]) -> bool {
    words(value).any(|said| said.eq_ignore_ascii_case(word))
}

/// The words of a list. One that is not of ASCII says nothing that is known here.
fn words(value: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let value = if value.is_ascii() { value } else { b"" };
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    proptest::proptest! {
        #[test]
        fn a_head_that_is_read_quickly_is_read_as_any_other(
            text in "HTTP/1\\.[01] ?(200|204|404|099|20) ?[ -~\\t\x7f]{0,9}\r?\n(([a-zA-Z_!-]{0,18}:? ?[ -~\\té\x7f\x01]{0,20} ?\r?\n){0,9})\r?\n?[ -~]{0,9}"
        ) {
            let (mut quickly, mut slowly) = (Places::default(), Places::default());
            if let Some(start) = quick(text.as_bytes(), &mut quickly) {
                assert_eq!(parse(text.as_bytes(), &mut slowly).unwrap(), Some(start), "{text:?}");
                assert_eq!(quickly, slowly, "{text:?}");
            }
        }

        #[test]
        fn heads_as_they_mostly_are_are_read_quickly_and_as_any_other(
            fields in proptest::collection::vec(("[a-zA-Z-]{1,20}", "[!-~]([ -~\\té]{0,40}[!-~])?"), 0..20),
            cut in 0usize..1000
        ) {
            let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\nbody");
            let (mut quickly, mut slowly) = (Places::default(), Places::default());
            let start = quick(text.as_bytes(), &mut quickly);
            assert_eq!(start.is_some(), !text.contains('\t'), "{text:?}");
            if let Some(start) = start {
                assert_eq!(parse(text.as_bytes(), &mut slowly).unwrap(), Some(start), "{text:?}");
                assert_eq!(quickly, slowly, "{text:?}");
            }
            let length = text.len() - "body".len();
            assert_eq!(quick(&text.as_bytes()[..cut % length], &mut Places::default()), None);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(text in "(HTTP/1.1 [0-9]{3} \r\n)?(([a-zA-Z-]{0,18}: ?[ -~]{0,12}\r?\n){0,4})\r?\n?[ -~]{0,9}") {
            let _ = head(&text);
        }
    }
}
