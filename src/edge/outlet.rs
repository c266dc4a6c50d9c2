//! The way out to a client that must go on reading: one that takes no byte for too long is as good as gone, and what waits for
//! it (a call, its place, its buffers) is to be given back. Knows nothing of what is written.

use crate::http1::Output;
use crate::turns::Turn;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::AsyncWrite;
use tokio::time::{Sleep, sleep};

/// What goes out, by turns and within a time.
pub struct Outlet {
    pub output: Output,
    longest: Duration,
    /// While the peer takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    turn: Turn,
}

impl Outlet {
    /// Of a peer that may take nothing for so long.
    pub fn new(longest: Duration) -> Outlet {
        Outlet { output: Output::default(), longest, stalled: None, turn: Turn::here() }
    }

    /// Writes all there is. Errors: `TimedOut` where the peer took nothing for too long, or what the socket says.
    pub fn poll_send<S: AsyncWrite + Unpin>(
        &mut self,
        socket: &mut S,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.turn.poll(context));
        let before = self.output.left();
        let sent = self.output.poll_send(socket, context);
        if sent.is_ready() || self.output.left() < before {
            self.stalled = None;
        }
        if sent.is_ready() {
            self.turn.over();
            return sent;
        }
        let longest = self.longest;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(longest)));
        stalled.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncReadExt;
    use tokio::time::Instant;

    const LONGEST: Duration = Duration::from_millis(500);

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_given_up_and_a_slow_one_is_not() {
        let (mut ours, mut theirs) = tokio::io::duplex(4);
        let mut outlet = Outlet::new(LONGEST);
        let began = Instant::now();
        outlet.output.head().extend_from_slice(&[b'x'; 160]);
        let write = poll_fn(|context| outlet.poll_send(&mut ours, context));
        let read = async {
            for _ in 0..40 {
                sleep(LONGEST / 20).await;
                theirs.read_exact(&mut [0; 4]).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(write, read);
        written.expect("a slow peer is waited for");
        assert!(began.elapsed() > LONGEST * 2 && outlet.output.is_clear());
        outlet.output.head().extend_from_slice(&[b'x'; 160]);
        let stuck = poll_fn(|context| outlet.poll_send(&mut ours, context));
        let stuck = tokio::time::timeout(LONGEST * 20, stuck).await.expect("it is given up");
        assert_eq!(stuck.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
