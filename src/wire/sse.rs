//! Server-sent events (WHATWG EventSource): how they are written, and a decoder that takes any chunk borders.

use bytes::{BufMut, Bytes, BytesMut};

/// One event. `data` is written as one line for each of its lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: Bytes,
    /// What the sender asks the reader to wait before it reconnects, in milliseconds.
    pub retry: Option<u64>,
}

/// A comment line: keeps proxies and clients from giving up, and carries nothing.
pub const COMMENT: &[u8] = b":\n\n";

/// Writes an event as it goes on the wire.
pub fn write(event: &SseEvent) -> Bytes {
    let mut out = BytesMut::with_capacity(event.data.len() + 64);
    for (name, value) in [("event", &event.event), ("id", &event.id)] {
        if let Some(value) = value {
            out.put_slice(name.as_bytes());
            out.put_slice(b": ");
            out.put_slice(value.as_bytes());
            out.put_u8(b'\n');
        }
    }
    if let Some(retry) = event.retry {
        out.put_slice(format!("retry: {retry}\n").as_bytes());
    }
    // JSON may hold raw newlines between its tokens; each line of data is a field of its own.
    let mut rest: &[u8] = &event.data;
    loop {
        let line = memchr::memchr2(b'\n', b'\r', rest);
        out.put_slice(b"data: ");
        out.put_slice(&rest[..line.unwrap_or(rest.len())]);
        out.put_u8(b'\n');
        let Some(n) = line else { break };
        rest = rest[n..].strip_prefix(b"\r\n").unwrap_or(&rest[n + 1..]);
    }
    out.put_u8(b'\n');
    out.freeze()
}

/// The stream is not worth reading on: one event is larger than the bound.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {0} bytes")]
pub struct TooLong(pub usize);

/// Turns the bytes of a stream into events. Holds at most one event, bounded by `limit` bytes.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    /// The unfinished line, and whether a CR ended the last one (a LF right after belongs to it).
    line: BytesMut,
    after_cr: bool,
    first_line: bool,
    data: BytesMut,
    has_data: bool,
    event: Option<String>,
    id: Option<String>,
    retry: Option<u64>,
}

impl Decoder {
    pub fn new(limit: usize) -> Decoder {
        Decoder {
            limit,
            line: BytesMut::new(),
            after_cr: false,
            first_line: true,
            data: BytesMut::new(),
            has_data: false,
            event: None,
            id: None,
            retry: None,
        }
    }

    /// Takes the next chunk and gives the events that it completes. An event is given when it has data, an id or a
    /// retry: a priming event has no data, and its id counts.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<Vec<SseEvent>, TooLong> {
        let mut events = Vec::new();
        while !chunk.is_empty() {
            if std::mem::take(&mut self.after_cr) && chunk[0] == b'\n' {
                chunk = &chunk[1..];
                continue;
            }
            let Some(n) = memchr::memchr2(b'\n', b'\r', chunk) else {
                self.room(chunk.len())?;
                self.line.extend_from_slice(chunk);
                break;
            };
            self.room(n)?;
            self.after_cr = chunk[n] == b'\r';
            if self.line.is_empty() {
                self.take_line(&chunk[..n], &mut events);
            } else {
                self.line.extend_from_slice(&chunk[..n]);
                let line = self.line.split();
                self.take_line(&line, &mut events);
            }
            chunk = &chunk[n + 1..];
        }
        Ok(events)
    }

    fn room(&self, more: usize) -> Result<(), TooLong> {
        if self.line.len() + self.data.len() + more > self.limit { Err(TooLong(self.limit)) } else { Ok(()) }
    }

    fn take_line(&mut self, mut line: &[u8], events: &mut Vec<SseEvent>) {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            let event = SseEvent {
                id: self.id.take(),
                event: self.event.take(),
                data: self.data.split().freeze(),
                retry: self.retry.take(),
            };
            let has_data = std::mem::take(&mut self.has_data);
            if has_data || event.id.is_some() || event.retry.is_some() {
                events.push(event);
            }
            return;
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(0) => return, // a comment
            Some(n) => (&line[..n], line[n + 1..].strip_prefix(b" ").unwrap_or(&line[n + 1..])),
            None => (line, &b""[..]),
        };
        match field {
            b"data" => {
                if self.has_data {
                    self.data.put_u8(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.event = Some(String::from_utf8_lossy(value).into_owned()),
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(value).into_owned()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(text: &[u8], size: usize) -> Vec<SseEvent> {
        let mut decoder = Decoder::new(1 << 20);
        text.chunks(size).flat_map(|c| decoder.push(c).unwrap()).collect()
    }

    #[test]
    fn data_over_several_lines_with_crlf_and_a_comment_between_is_joined() {
        let text = b"\xef\xbb\xbfid: 7\r\ndata: {\"a\":\r\n: keep\r\ndata: 1}\r\nretry: 5\r\nevent: message\r\n\r\n:x\n\ndata\n\ndata:y\r\rdata: lost";
        let want = vec![
            SseEvent {
                id: Some("7".into()),
                event: Some("message".into()),
                data: "{\"a\":\n1}".into(),
                retry: Some(5),
            },
            SseEvent { data: "".into(), ..SseEvent::default() },
            SseEvent { data: "y".into(), ..SseEvent::default() },
        ];
        for size in 1..text.len() {
            assert_eq!(decode(text, size), want, "in chunks of {size}");
        }
    }

    #[test]
    fn an_endless_line_ends_at_the_bound() {
        let mut decoder = Decoder::new(100);
        assert_eq!(decoder.push(&[b'a'; 60]), Ok(vec![]));
        assert_eq!(decoder.push(&[b'a'; 60]), Err(TooLong(100)));
        let mut decoder = Decoder::new(100);
        let many = b"data: 0123456789\n".repeat(11);
        assert_eq!(decoder.push(&many), Err(TooLong(100)));
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back_in_any_chunks(data in "[a-z{}\": \n]{0,40}", id in proptest::option::of("[a-z0-9]{1,8}"), size in 1usize..9) {
            let event = SseEvent { id, event: None, data: data.clone().into(), retry: None };
            let got = decode(&write(&event), size);
            proptest::prop_assert_eq!(got, vec![event]);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(text: Vec<u8>, size in 1usize..64) {
            let mut decoder = Decoder::new(256);
            for chunk in text.chunks(size) {
                if decoder.push(chunk).is_err() { break }
            }
        }
    }
}
