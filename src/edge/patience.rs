//! A socket whose peer must go on reading: one that takes no byte for too long is as good as gone, and what waits for it
//! (a call, its place, its buffers) is to be given back. Knows nothing of what is written.

use crate::turns::Turn;
use hyper::rt::{Read, ReadBufCursor, Write};
use smallvec::SmallVec;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Pieces that are no larger together are written as one: copying them costs less than having the kernel gather them.
const TOGETHER: usize = 2 << 10;

/// Fails a write that has waited for longer than its time; reads pass as they are.
pub struct Patient<T> {
    io: T,
    longest: Duration,
    /// While the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    turn: Turn,
}

impl<T: Unpin> Patient<T> {
    pub fn new(io: T, longest: Duration) -> Patient<T> {
        Patient { io, longest, stalled: None, turn: Turn::here() }
    }

    fn bounded<V>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<V>>,
    ) -> Poll<io::Result<V>> {
        ready!(self.turn.poll(context));
        let written = write(Pin::new(&mut self.io), context);
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let longest = self.longest;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(longest)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: Read + Unpin> Read for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: Write + Unpin> Write for Patient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.bounded(context, |io, context| io.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(context);
        if flushed.is_ready() {
            self.turn.over();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if bytes.iter().map(|piece| piece.len()).sum::<usize>() > TOGETHER {
            return self.bounded(context, |io, context| io.poll_write_vectored(context, bytes));
        }
        self.bounded(context, |io, context| {
            let mut whole = SmallVec::<[u8; TOGETHER]>::new();
            bytes.iter().for_each(|piece| whole.extend_from_slice(piece));
            io.poll_write(context, &whole)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::rt::TokioIo;
    use std::future::poll_fn;
    use tokio::io::AsyncReadExt;
    use tokio::time::Instant;

    const LONGEST: Duration = Duration::from_millis(500);

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_given_up_and_a_slow_one_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut patient = Patient::new(TokioIo::new(ours), LONGEST);
        let mut written = 0;
        let began = Instant::now();
        while began.elapsed() < LONGEST * 2 {
            let write = poll_fn(|context| Pin::new(&mut patient).poll_write(context, b"1234"));
            let read = async {
                sleep(LONGEST / 20).await;
                theirs.read(&mut [0; 4]).await
            };
            let (more, _) = tokio::join!(write, read);
            written += more.expect("a slow peer is waited for");
        }
        let stuck = async {
            while poll_fn(|context| Pin::new(&mut patient).poll_write(context, b"1234")).await.is_ok() {}
        };
        tokio::time::timeout(LONGEST * 20, stuck).await.expect("it is given up");
        assert!(written > 0);
    }
}
