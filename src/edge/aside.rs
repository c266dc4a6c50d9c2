//! What a connection's task seldom has to do, beside what it does all the time: it is looked at when it was woken, and not
//! whenever a byte comes. Knows nothing of what is done.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled after its own wakes alone.
pub struct Aside<F> {
    future: F,
    /// What wakes the task, and the waker that stands before it.
    waker: Option<(Waker, Arc<Own>, Waker)>,
}

struct Own {
    woken: AtomicBool,
    task: Waker,
}

impl Wake for Own {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

impl<F> Aside<F> {
    pub fn new(future: F) -> Aside<F> {
        Aside { future, waker: None }
    }
}

impl<F: Future + Unpin> Future for Aside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Aside { future, waker } = &mut *self;
        let task = context.waker();
        let (_, own, before) = match waker.take() {
            Some(known) if known.0.will_wake(task) => waker.insert(known),
            // Polled at once: what it waits for knows no waker of this task yet.
            _ => {
                let own = Arc::new(Own { woken: AtomicBool::new(true), task: task.clone() });
                waker.insert((task.clone(), own.clone(), Waker::from(own)))
            }
        };
        // The mark goes before the look, so that a wake in between is not lost.
        if !own.woken.load(Ordering::Acquire) || !own.woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        Pin::new(future).poll(&mut Context::from_waker(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::{Notify, oneshot};

    #[tokio::test]
    async fn it_is_polled_after_its_own_wakes_alone_and_loses_none() {
        // In a task, whose waker is one and the same each time.
        let seen = tokio::spawn(async {
            let (say, mut said) = oneshot::channel::<u8>();
            let (polls, other) = (AtomicUsize::new(0), Notify::new());
            let mut aside = Aside::new(poll_fn(|context| {
                polls.fetch_add(1, Ordering::Relaxed);
                said.poll_unpin(context)
            }));
            for _ in 0..5 {
                other.notify_one();
                let woken = poll_fn(|context| {
                    let mut notified = std::pin::pin!(other.notified());
                    assert!(aside.poll_unpin(context).is_pending());
                    notified.as_mut().poll(context)
                });
                woken.await;
            }
            let before = polls.load(Ordering::Relaxed);
            say.send(7).unwrap();
            let said = aside.await;
            (before, said, polls.load(Ordering::Relaxed))
        });
        assert_eq!(seen.await.unwrap(), (1, Ok(7), 2));
    }
}
