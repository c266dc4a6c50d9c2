//! Where the body of a message ends (RFC 9112 6 and 7): by its length, chunk by chunk, or with the connection. Knows no
//! sockets.

use bytes::{Buf, Bytes, BytesMut};
use std::io::{self, ErrorKind};

/// A line of a chunk's size, with its extensions.
const LONGEST_LINE: usize = 16 << 10;
/// All trailers together; they are passed over.
const TRAILERS: usize = 64 << 10;

/// What is still to come of a body.
#[derive(Debug, PartialEq)]
pub enum Framing {
    Nothing,
    /// So many bytes.
    Sized(u64),
    Chunked(Chunked),
    /// All until the peer closes; a response alone ends so.
    UntilClose,
}

/// What is expected next of a chunked body.
#[derive(Debug, PartialEq)]
pub enum Chunked {
    Size,
    Data(u64),
    /// The line's end after a chunk.
    End,
    /// Trailers, so many bytes of them until now.
    Trailers(usize),
}

/// What a look at the input gave.
#[derive(Debug, PartialEq)]
pub enum Part {
    Data(Bytes),
    /// More has to be read.
    More,
    End,
}

impl Framing {
    pub fn chunked() -> Framing {
        Framing::Chunked(Chunked::Size)
    }

    /// Whether nothing is to come.
    pub fn is_over(&self) -> bool {
        matches!(self, Framing::Nothing | Framing::Sized(0))
    }

    pub fn ends_by_close(&self) -> bool {
        matches!(self, Framing::UntilClose)
    }

    /// Bytes that are known to come.
    pub fn expected(&self) -> usize {
        match self {
            Framing::Sized(left) | Framing::Chunked(Chunked::Data(left)) => {
                usize::try_from(*left).unwrap_or(usize::MAX)
            }
            _ => 0,
        }
    }

    /// Takes the next part of the body off `input`. Errors: it is not chunked as it should be.
    pub fn take(&mut self, input: &mut BytesMut) -> io::Result<Part> {
        loop {
            let next = match self {
                Framing::Nothing | Framing::Sized(0) => return Ok(Part::End),
                _ if input.is_empty() => return Ok(Part::More),
                Framing::UntilClose => return Ok(Part::Data(input.split().freeze())),
                Framing::Sized(left) => return Ok(Part::Data(up_to(left, input))),
                Framing::Chunked(Chunked::Data(0)) => Chunked::End,
                Framing::Chunked(Chunked::Data(left)) => return Ok(Part::Data(up_to(left, input))),
                Framing::Chunked(Chunked::End) => match input.get(..2) {
                    Some(b"\r\n") => {
                        input.advance(2);
                        Chunked::Size
                    }
                    None if input[0] == b'\r' => return Ok(Part::More),
                    _ => return Err(ErrorKind::InvalidData.into()),
                },
                Framing::Chunked(Chunked::Size) => match line(input, LONGEST_LINE)? {
                    Some(line) => match size(&line)? {
                        0 => Chunked::Trailers(0),
                        size => Chunked::Data(size),
                    },
                    None => return Ok(Part::More),
                },
                Framing::Chunked(Chunked::Trailers(before)) => match line(input, TRAILERS - *before)? {
                    Some(line) if line.is_empty() => {
                        *self = Framing::Nothing;
                        continue;
                    }
                    Some(line) => Chunked::Trailers(*before + line.len()),
                    None => return Ok(Part::More),
                },
            };
            *self = Framing::Chunked(next);
        }
    }
}

/// What there is of the bytes that are left.
fn up_to(left: &mut u64, input: &mut BytesMut) -> Bytes {
    let some = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= some as u64;
    input.split_to(some).freeze()
}

/// A line, without its end, which is CR LF: a bare LF is another end to other readers.
fn line(input: &mut BytesMut, longest: usize) -> io::Result<Option<BytesMut>> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        return if input.len() > longest { Err(ErrorKind::InvalidData.into()) } else { Ok(None) };
    };
    if end == 0 || input[end - 1] != b'\r' || end > longest {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut line = input.split_to(end + 1);
    line.truncate(end - 1);
    Ok(Some(line))
}

/// The size in hexadecimal digits; extensions are passed over.
fn size(line: &[u8]) -> io::Result<u64> {
    let digits = line.split(|b| *b == b';').next().unwrap_or_default().trim_ascii_end();
    let plain = (1..=16).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain);
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body and what is left of the input, read in pieces of `step` bytes; `None` where it does not end.
    fn read(mut framing: Framing, text: &[u8], step: usize) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let (mut input, mut body) = (BytesMut::new(), Vec::new());
        let mut pieces = text.chunks(step);
        loop {
            match framing.take(&mut input)? {
                Part::Data(data) => body.extend_from_slice(&data),
                Part::End => {
                    input.extend(pieces.flatten());
                    return Ok(Some((body, input.to_vec())));
                }
                Part::More => match pieces.next() {
                    Some(piece) => input.extend_from_slice(piece),
                    None => return Ok(None),
                },
            }
        }
    }

    #[test]
    fn a_body_ends_where_it_says_in_whatever_pieces_it_comes() {
        let chunked = "4\r\nwiki\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\nt: v\r\n\r\nnext";
        for step in 1..chunked.len() {
            let (body, rest) = read(Framing::chunked(), chunked.as_bytes(), step).unwrap().unwrap();
            assert_eq!((&body[..], &rest[..]), (&b"wiki0123456789"[..], &b"next"[..]), "{step}");
            let (body, rest) = read(Framing::Sized(4), b"wikinext", step).unwrap().unwrap();
            assert_eq!((&body[..], &rest[..]), (&b"wiki"[..], &b"next"[..]), "{step}");
        }
        assert_eq!(read(Framing::Sized(9), b"wiki", 2).unwrap(), None);
        assert_eq!(read(Framing::UntilClose, b"wiki", 2).unwrap(), None);
    }

    #[test]
    fn chunks_that_readers_may_differ_about_are_refused() {
        for bad in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1\nx\r\n",
            "1\r\nxy\r\n",
            "1\r\nx\n0\r\n\r\n",
            "10000000000000000\r\n",
            "0\r\n\n",
            ";x\r\n",
        ] {
            assert!(read(Framing::chunked(), bad.as_bytes(), 99).is_err(), "{bad:?}");
        }
        let long = format!("1;{}", "x".repeat(LONGEST_LINE));
        assert!(read(Framing::chunked(), long.as_bytes(), 4096).is_err());
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(TRAILERS));
        assert!(read(Framing::chunked(), trailers.as_bytes(), 4096).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(text in "[0-9a-f;\r\n xA]{0,40}", step in 1usize..9) {
            let _ = read(Framing::chunked(), text.as_bytes(), step);
        }
    }
}
