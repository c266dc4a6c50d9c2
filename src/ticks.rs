//! Deadlines that cost no timer. A task that is woken from time to time anyway says so while it is polled: what waits within it
//! then looks at the clock each time, and sets no timer of its own. Knows nothing of what is waited for.

use crate::clock;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::time::{Instant, Sleep, sleep_until};

thread_local! {
    /// What the waker points to of the task that is polled now, where that is woken from time to time.
    static TICKING: Cell<*const ()> = const { Cell::new(std::ptr::null()) };
}

/// Polls what is polled whenever `waker` is woken, and that is soon and again and again until it says that it need not be.
pub fn ticking<T>(waker: &Waker, poll: impl FnOnce() -> T) -> T {
    let _before = Before(TICKING.replace(waker.data()));
    poll()
}

/// Puts back what was there, also where a poll panics.
struct Before(*const ());

impl Drop for Before {
    fn drop(&mut self) {
        TICKING.set(self.0);
    }
}

/// Whether who is polled with this waker is polled again soon whatever happens. What has a waker of its own within the task (as
/// each of several futures in one collection has) is polled after its own wakes alone.
fn is_ticking(waker: &Waker) -> bool {
    let ticking = TICKING.get();
    !ticking.is_null() && ticking == waker.data()
}

/// Resolves at a time; where the task ticks, late by a tick at most.
pub struct Deadline {
    at: Instant,
    /// Once it was needed.
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether it was polled before: what has just begun to be waited for is not late, and mostly is there at the next poll.
    polled: bool,
}

impl Deadline {
    pub fn at(at: Instant) -> Deadline {
        Deadline { at, timer: None, polled: false }
    }

    /// Resolves then instead. To be polled after this.
    pub fn reset(&mut self, at: Instant) {
        self.at = at;
        if let Some(timer) = &mut self.timer {
            timer.as_mut().reset(at);
        }
    }
}

impl Future for Deadline {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let at = self.at;
        let polled = std::mem::replace(&mut self.polled, true);
        if self.timer.is_none() && is_ticking(context.waker()) {
            return if polled && clock::lately() >= at { Poll::Ready(()) } else { Poll::Pending };
        }
        // Also where it was polled by a task that ticked, and which it has left.
        self.timer.get_or_insert_with(|| Box::pin(sleep_until(at))).as_mut().poll(context)
    }
}

/// What `future` gives before `deadline`; `None` where it took longer.
pub async fn within<T>(deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut deadline) = (pin!(future), Deadline::at(deadline));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(given) => Poll::Ready(Some(given)),
        Poll::Pending => Pin::new(&mut deadline).poll(context).map(|()| None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::stream::{FuturesUnordered, StreamExt};
    use std::future::pending;
    use std::sync::Arc;
    use std::task::Wake;
    use std::time::Duration;

    const SOON: Duration = Duration::from_millis(50);

    struct Nobody;

    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }

    /// Polls once, as a task that ticks.
    fn tick<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        let waker = Waker::from(Arc::new(Nobody));
        ticking(&waker, || future.poll_unpin(&mut Context::from_waker(&waker)))
    }

    #[tokio::test]
    async fn where_the_task_ticks_a_deadline_is_looked_at_and_no_timer_set() {
        let at = Instant::now() + SOON;
        let mut late = Deadline::at(at);
        while tick(&mut late).is_pending() {
            assert!(Instant::now() < at + SOON * 20, "it is late");
            tokio::task::yield_now().await;
        }
        assert!(Instant::now() >= at && late.timer.is_none());
        assert!(TICKING.get().is_null(), "it ticks while it is polled and no longer");
    }

    #[tokio::test]
    async fn what_leaves_the_task_that_ticked_has_its_time_all_the_same() {
        let mut late = Box::pin(within(Instant::now() + SOON, pending::<()>()));
        assert!(tick(&mut late).is_pending());
        assert_eq!(tokio::spawn(late).await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_is_woken_by_itself_within_the_task_sets_its_timer() {
        let mut all: FuturesUnordered<_> = [Deadline::at(Instant::now() + SOON)].into_iter().collect();
        let mut next = Box::pin(async { all.next().await });
        assert!(tick(&mut next).is_pending());
        // Polled by wakes alone from here on, it would wait for ever.
        next.await.unwrap();
    }

    #[tokio::test]
    async fn a_deadline_can_be_put_off_and_brought_forward() {
        let began = Instant::now();
        let mut late = Deadline::at(began + SOON * 100);
        assert!(late.poll_unpin(&mut Context::from_waker(&futures_util::task::noop_waker())).is_pending());
        late.reset(began + SOON);
        late.await;
        assert!(began.elapsed() < SOON * 100);
        assert_eq!(within(began + SOON * 100, async { 7 }).await, Some(7));
    }
}
