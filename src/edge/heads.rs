//! How long a client may keep its connection waiting for the head of a request, idle or in the middle of one. A timer for
//! each head, set and unset with each request, would cost more than the wait is worth: a connection has one, which looks when
//! the time may have come. Knows nothing of what heads say.

use crate::clock;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The longest tick of a kernel's clock, in milliseconds, and one for what was rounded down.
const TICK: u64 = 11;
/// In place of a time: a request is being answered.
const ANSWERING: u64 = u64::MAX;

/// The wait of one connection for its heads.
pub struct Heads {
    longest: Duration,
    born: Instant,
    /// Since when a head is waited for, in milliseconds after `born`; or [`ANSWERING`].
    since: AtomicU64,
}

impl Heads {
    pub fn new(longest: Duration) -> Arc<Heads> {
        Arc::new(Heads { longest, born: Instant::now(), since: AtomicU64::new(0) })
    }

    /// A head has come: the next one is waited for when the mark is dropped.
    pub fn came(self: &Arc<Self>) -> Answering {
        self.since.store(ANSWERING, Ordering::Release);
        Answering(self.clone())
    }

    /// Resolves once a head was waited for too long.
    pub async fn overdue(&self) {
        loop {
            let now = Instant::now();
            let due = match self.since.load(Ordering::Acquire) {
                // The next wait begins after this, and ends after that.
                ANSWERING => now + self.longest,
                since => self.born + Duration::from_millis(since) + self.longest,
            };
            if due <= now {
                return;
            }
            sleep_until(due).await;
        }
    }
}

/// While this lives, the client waits and not the connection.
pub struct Answering(Arc<Heads>);

impl Drop for Answering {
    fn drop(&mut self) {
        // That clock is late by a tick at most: no head has less time than it is given.
        let since = clock::since(self.0.born).as_millis() as u64 + TICK;
        self.0.since.store(since, Ordering::Release);
    }
}

/// The body of an answer, at whose end the next head is waited for.
pub struct Answer<B> {
    body: B,
    _answering: Answering,
}

impl<B> Answer<B> {
    pub fn new(body: B, answering: Answering) -> Answer<B> {
        Answer { body, _answering: answering }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Answer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use tokio::time::timeout;

    const LONGEST: Duration = Duration::from_millis(100);

    #[tokio::test]
    async fn the_time_runs_between_answers_and_not_while_one_is_made() {
        let heads = Heads::new(LONGEST);
        let answering = heads.came();
        let mut overdue = pin!(heads.overdue());
        assert!(timeout(LONGEST * 4, &mut overdue).await.is_err());
        let answered = Instant::now();
        drop(answering);
        overdue.await;
        assert!(answered.elapsed() >= LONGEST, "a head has all of its time");
    }
}
