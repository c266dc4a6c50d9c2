//! Where the body of a message ends (RFC 9112 6 and 7): by its length, chunk by chunk, or with the connection. Knows no
//! sockets.

use bytes::{Buf, Bytes, BytesMut};
use std::io::{self, ErrorKind};

/// The size of a chunk, in hexadecimal digits.
const DIGITS: usize = 16;
/// What is passed over of one body: extensions of all its chunks, and trailers.
const ASIDE: usize = 16 << 10;

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

/// A chunked body.
#[derive(Debug, PartialEq)]
pub struct Chunked {
    next: Next,
    /// Bytes that were passed over.
    aside: usize,
}

/// What is expected next.
#[derive(Debug, PartialEq)]
enum Next {
    Size,
    Data(u64),
    /// The line's end after a chunk.
    End,
    Trailers,
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
        Framing::Chunked(Chunked { next: Next::Size, aside: 0 })
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
            Framing::Sized(left) | Framing::Chunked(Chunked { next: Next::Data(left), .. }) => {
                usize::try_from(*left).unwrap_or(usize::MAX)
            }
            _ => 0,
        }
    }

    /// Takes the next part of the body off `input`. Errors: it is not chunked as it should be.
    pub fn take(&mut self, input: &mut BytesMut) -> io::Result<Part> {
        let part = match self {
            Framing::Nothing | Framing::Sized(0) => Part::End,
            _ if input.is_empty() => Part::More,
            Framing::UntilClose => Part::Data(input.split().freeze()),
            Framing::Sized(left) => Part::Data(up_to(left, input)),
            Framing::Chunked(chunked) => chunked.take(input)?,
        };
        if part == Part::End {
            *self = Framing::Nothing;
        }
        Ok(part)
    }
}

impl Chunked {
    fn take(&mut self, input: &mut BytesMut) -> io::Result<Part> {
        while !input.is_empty() {
            self.next = match &mut self.next {
                Next::Data(0) => Next::End,
                Next::Data(left) => return Ok(Part::Data(up_to(left, input))),
                Next::End => match input.get(..2) {
                    Some(b"\r\n") => {
                        input.advance(2);
                        Next::Size
                    }
                    None if input[0] == b'\r' => return Ok(Part::More),
                    _ => return Err(ErrorKind::InvalidData.into()),
                },
                Next::Size => match line(input, DIGITS + ASIDE - self.aside)? {
                    Some(line) => {
                        let (size, digits) = size(&line)?;
                        self.pass_over(line.len() - digits)?;
                        if size == 0 { Next::Trailers } else { Next::Data(size) }
                    }
                    None => return Ok(Part::More),
                },
                Next::Trailers => match line(input, ASIDE - self.aside)? {
                    Some(line) if line.is_empty() => return Ok(Part::End),
                    Some(line) if is_field(&line) => {
                        self.pass_over(line.len())?;
                        Next::Trailers
                    }
                    Some(_) => return Err(ErrorKind::InvalidData.into()),
                    None => return Ok(Part::More),
                },
            };
        }
        Ok(Part::More)
    }

    fn pass_over(&mut self, bytes: usize) -> io::Result<()> {
        self.aside += bytes;
        if self.aside > ASIDE { Err(ErrorKind::InvalidData.into()) } else { Ok(()) }
    }
}

/// What there is of the bytes that are left.
fn up_to(left: &mut u64, input: &mut BytesMut) -> Bytes {
    let some = input.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= some as u64;
    input.split_to(some).freeze()
}

/// A line, without its end, which is CR LF: a bare LF, or a bare CR, is another end to other readers.
fn line(input: &mut BytesMut, longest: usize) -> io::Result<Option<BytesMut>> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        return if input.len() > longest + 1 { Err(ErrorKind::InvalidData.into()) } else { Ok(None) };
    };
    let control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    if end == 0 || input[end - 1] != b'\r' || end - 1 > longest || input[..end - 1].iter().any(control) {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut line = input.split_to(end + 1);
    line.truncate(end - 1);
    Ok(Some(line))
}

/// The size in hexadecimal digits, and how many those are; extensions are passed over.
fn size(line: &[u8]) -> io::Result<(u64, usize)> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let blanks = line[digits..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let ends = matches!(line.get(digits + blanks), None | Some(b';'));
    let text = std::str::from_utf8(&line[..digits]).ok().filter(|_| (1..=DIGITS).contains(&digits) && ends);
    let size = text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(ErrorKind::InvalidData)?;
    Ok((size, digits))
}

/// Whether it is a name, a colon and a value (RFC 9112 5).
fn is_field(line: &[u8]) -> bool {
    let colon = memchr::memchr(b':', line).unwrap_or_default();
    let named = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    colon > 0 && line[..colon].iter().all(named)
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
            "1\r\r\n",
            "1\x0c\r\n",
            "1;a\rb\r\n",
            "1;a\0\r\n",
            "1 1\r\n",
            "0\r\nGET /x HTTP/1.1\r\n\r\n",
            "0\r\n: b\r\n\r\n",
            "0\r\n a: b\r\n\r\n",
            "0\r\na : b\r\n\r\n",
            "0\r\na: \rb\r\n\r\n",
        ] {
            assert!(read(Framing::chunked(), bad.as_bytes(), 99).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_passed_over_of_a_body_is_bounded_however_it_is_spread() {
        let bad = [
            format!("1;{}", "x".repeat(ASIDE + DIGITS)),
            "1;xxxxxxxxxxxxxxx\r\ny\r\n".repeat(ASIDE / 16 + 1),
            format!("0\r\n{}", "a: b\r\n".repeat(ASIDE / 4 + 1)),
        ];
        for bad in bad {
            assert!(read(Framing::chunked(), bad.as_bytes(), 4096).is_err());
        }
        let good = format!(
            "{}0 \r\n{}\r\n",
            "1;xxxxxxx\r\ny\r\n".repeat(ASIDE / 16),
            "a: b\r\n".repeat(ASIDE / 8 - 1)
        );
        assert!(read(Framing::chunked(), good.as_bytes(), 4096).unwrap().is_some());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(text in "[0-9a-f;\r\n xA]{0,40}", step in 1usize..9) {
            let _ = read(Framing::chunked(), text.as_bytes(), step);
        }
    }
}
