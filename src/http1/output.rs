//! What is on its way out of a connection: a head, a piece of a body, and what follows it. Small pieces go out as one, for
//! copying them costs less than having the kernel gather them.

use bytes::{Bytes, BytesMut};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// A piece that is no larger is copied behind the head.
const SMALL: usize = 2 << 10;

#[derive(Default)]
pub struct Output {
    /// The head, and small pieces.
    head: BytesMut,
    /// A larger piece.
    body: Bytes,
    /// What ends that.
    tail: &'static [u8],
    /// Bytes of all three that are gone.
    sent: usize,
    /// Written and not yet flushed.
    dirty: bool,
}

impl Output {
    /// Where heads and small pieces are written to. Nothing may follow a larger piece before that is gone.
    pub fn head(&mut self) -> &mut BytesMut {
        &mut self.head
    }

    /// Takes a piece of a body, and what ends it.
    pub fn push(&mut self, piece: Bytes, tail: &'static [u8]) {
        if piece.len() <= SMALL {
            self.head.extend_from_slice(&piece);
            self.head.extend_from_slice(tail);
        } else {
            (self.body, self.tail) = (piece, tail);
        }
    }

    /// Whether no more should be pushed before what there is has gone.
    pub fn is_full(&self) -> bool {
        !self.body.is_empty() || self.head.len() > SMALL
    }

    /// Whether all has gone, to the socket's end.
    pub fn is_clear(&self) -> bool {
        self.left() == 0 && !self.dirty
    }

    /// Bytes that have not gone.
    pub fn left(&self) -> usize {
        self.head.len() + self.body.len() + self.tail.len() - self.sent
    }

    /// Writes all there is, and flushes. Then it is empty.
    pub fn poll_send<S: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while self.left() > 0 {
            self.dirty = true;
            let written = if self.body.is_empty() {
                Pin::new(&mut *socket).poll_write(context, &self.head[self.sent..])
            } else {
                let mut from = self.sent;
                let pieces = [&self.head[..], &self.body[..], self.tail].map(|piece| {
                    let skipped = from.min(piece.len());
                    from -= skipped;
                    IoSlice::new(&piece[skipped..])
                });
                Pin::new(&mut *socket).poll_write_vectored(context, &pieces)
            };
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        self.clear();
        if self.dirty {
            ready!(Pin::new(socket).poll_flush(context))?;
            self.dirty = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Forgets what has not gone.
    fn clear(&mut self) {
        self.head.clear();
        (self.body, self.tail, self.sent) = (Bytes::new(), b"", 0);
    }

    /// Gives back the room of what has gone.
    pub fn release(&mut self) {
        if self.head.is_empty() {
            self.head = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn all_goes_out_in_order_however_little_the_peer_takes() {
        for room in [1, 7, 64, 1 << 20] {
            let (mut ours, mut theirs) = tokio::io::duplex(room);
            let mut want = Vec::new();
            let writing = tokio::spawn(async move {
                let mut output = Output::default();
                for large in [0, 10, SMALL, SMALL + 1, 100_000] {
                    output.head().extend_from_slice(b"head ");
                    output.push(vec![b'x'; large].into(), b" tail ");
                    assert!(!output.is_clear());
                    poll_fn(|context| output.poll_send(&mut ours, context)).await.unwrap();
                    assert!(output.is_clear() && !output.is_full());
                }
            });
            for large in [0, 10, SMALL, SMALL + 1, 100_000] {
                want.extend_from_slice(b"head ");
                want.resize(want.len() + large, b'x');
                want.extend_from_slice(b" tail ");
            }
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).await.unwrap();
            writing.await.unwrap();
            assert!(read == want, "{room}");
        }
    }
}
