//! Messages as lines of a byte stream, as stdio carries them: one JSON text a line. Lines are bounded; what is longer is
//! skipped as it arrives, and its two ends are kept. Knows no protocol and imports nothing of ours.

use bytes::{Buf, Bytes, BytesMut};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::mpsc;

/// How much of each end of a skipped line is kept.
const ENDS: usize = 4 << 10;
/// Lines up to here are copied, so that a small message that is kept does not keep a large buffer.
const SMALL: usize = 16 << 10;
const CHUNK: usize = 64 << 10;

#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// Without its line break.
    Text(Bytes),
    TooLong {
        head: Bytes,
        tail: Bytes,
    },
}

/// Reads lines of at most `limit` bytes, and gives up on one of which more than `patience` bytes were skipped.
pub struct Lines<R> {
    from: R,
    limit: usize,
    patience: usize,
    buffer: BytesMut,
    /// How much of `buffer` is known to hold no line break.
    searched: usize,
    /// The head of the line that is being skipped, and how many bytes of it went by.
    skipping: Option<(Bytes, usize)>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub fn new(from: R, limit: usize, patience: usize) -> Lines<R> {
        Lines { from, limit, patience, buffer: BytesMut::new(), searched: 0, skipping: None }
    }

    /// The next line; `None` at the end of the stream, whose last line may lack its break. Cancel safe.
    /// Errors: reading failed, or `InvalidData` for a line that does not end.
    pub async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(n) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
                let end = self.searched + n;
                let line = self.cut(end);
                self.buffer.advance(1);
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.bound() > self.patience {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.buffer.reserve(CHUNK.min(self.limit.max(ENDS)));
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                if self.buffer.is_empty() && self.skipping.is_none() {
                    return Ok(None);
                }
                let end = self.buffer.len();
                return Ok(Some(self.cut(end)));
            }
        }
    }

    fn cut(&mut self, end: usize) -> Line {
        self.searched = 0;
        if self.skipping.is_none() && end > self.limit {
            self.skipping = Some((Bytes::copy_from_slice(&self.buffer[..ENDS.min(end)]), 0));
        }
        let line = self.buffer.split_to(end);
        if let Some((head, _)) = self.skipping.take() {
            let tail = Bytes::copy_from_slice(&line[line.len().saturating_sub(ENDS)..]);
            return Line::TooLong { head, tail };
        }
        let text = line.strip_suffix(b"\r").unwrap_or(&line).len();
        Line::Text(if text <= SMALL {
            Bytes::copy_from_slice(&line[..text])
        } else {
            line.freeze().slice(..text)
        })
    }

    /// Lets go of all but the end of a line that is too long. Gives how much of it was let go.
    fn bound(&mut self) -> usize {
        if self.skipping.is_none() && self.buffer.len() > self.limit {
            let head = Bytes::copy_from_slice(&self.buffer[..ENDS.min(self.buffer.len())]);
            self.skipping = Some((head, 0));
        }
        let Some((_, skipped)) = &mut self.skipping else { return 0 };
        if self.buffer.len() > ENDS {
            let more = self.buffer.len() - ENDS;
            *skipped += more;
            // The large buffer goes with the line that needed it.
            self.buffer = BytesMut::from(&self.buffer[more..]);
            self.searched = ENDS;
        }
        *skipped
    }
}

/// Writes messages as lines until there are no more; `text` tells a message's bytes. Flushes whenever nothing waits.
/// Errors: the reader is gone.
pub async fn write<T>(
    to: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<T>,
    text: impl Fn(&T) -> &[u8],
) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(CHUNK, to);
    while let Some(message) = messages.recv().await {
        let text = text(&message);
        match memchr::memchr2(b'\n', b'\r', text) {
            None => to.write_all(text).await?,
            // In JSON a line break stands only between tokens, where a space does as well.
            Some(_) => {
                let flat: Vec<u8> =
                    text.iter().map(|&b| if matches!(b, b'\n' | b'\r') { b' ' } else { b }).collect();
                to.write_all(&flat).await?;
            }
        }
        to.write_all(b"\n").await?;
        if messages.is_empty() {
            to.flush().await?;
        }
    }
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], limit: usize) -> Vec<Line> {
        let mut lines = Lines::new(text, limit, usize::MAX);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
        }
        found
    }

    fn text(text: &'static str) -> Line {
        Line::Text(text.into())
    }

    #[tokio::test]
    async fn lines_end_at_either_break_and_at_the_end() {
        let lines = read(b"a\r\n\nb b\nlast", 100).await;
        assert_eq!(lines, [text("a"), text(""), text("b b"), text("last")]);
    }

    #[tokio::test]
    async fn a_line_over_the_limit_gives_its_two_ends_and_the_next_line_is_whole() {
        let long = format!("head{}tail\nnext\n", "x".repeat(200_000));
        let lines = read(long.as_bytes(), 100_000).await;
        let [Line::TooLong { head, tail }, next] = &lines[..] else { panic!("{lines:?}") };
        assert!(head.starts_with(b"head") && tail.ends_with(b"tail"));
        assert!(head.len() <= ENDS && tail.len() <= ENDS);
        assert_eq!(*next, text("next"));
    }

    #[tokio::test]
    async fn a_line_without_end_is_given_up_and_was_not_kept() {
        let mut lines = Lines::new(tokio::io::repeat(b'x'), 10_000, 1 << 20);
        assert_eq!(lines.next().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(lines.buffer.capacity() < 1 << 18, "{}", lines.buffer.capacity());
    }

    #[tokio::test]
    async fn a_message_is_written_as_one_line_whatever_spaces_it_has() {
        let (queue, messages) = mpsc::channel(2);
        queue.send("{\n \"a\":\r\n1}").await.unwrap();
        queue.send("{}").await.unwrap();
        drop(queue);
        let mut out = Vec::new();
        write(&mut out, messages, |text| text.as_bytes()).await.unwrap();
        assert_eq!(out, b"{  \"a\":  1}\n{}\n");
    }
}
