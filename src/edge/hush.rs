//! A connection's own wakes, held back where they would be for nothing. hyper hands a request's body from the connection to
//! its reader by a channel, and whoever takes the last piece wakes the connection, which has none to give any more and is
//! being polled as it is: each request would be polled once in vain. Knows nothing of requests.

use super::heads::Heads;
use crate::ticks;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

thread_local! {
    /// While this thread reads a [`Hushed`] body: whether that woke its connection.
    static HELD: Cell<Option<bool>> = const { Cell::new(None) };
}

/// The waker of a connection.
struct Own(Waker);

impl Wake for Own {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match HELD.get() {
            Some(_) => HELD.set(Some(true)),
            None => self.0.wake_by_ref(),
        }
    }
}

/// A connection that is polled with a waker of its own, which [`Hushed`] bodies can hold back.
pub struct Hush<F> {
    connection: F,
    /// Whose looks are its ticks.
    heads: Arc<Heads>,
    /// What wakes the task, and the connection's waker that stands before it.
    waker: Option<(Waker, Waker)>,
}

impl<F> Hush<F> {
    pub fn new(connection: F, heads: Arc<Heads>) -> Hush<F> {
        Hush { connection, heads, waker: None }
    }

    pub fn get_mut(&mut self) -> &mut F {
        &mut self.connection
    }

    pub fn into_inner(self) -> F {
        self.connection
    }
}

impl<F: Future + Unpin> Future for Hush<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Hush { connection, heads, waker } = &mut *self;
        let task = context.waker();
        let (_, own) = match waker.take() {
            Some(known) if known.0.will_wake(task) => waker.insert(known),
            _ => waker.insert((task.clone(), Waker::from(Arc::new(Own(task.clone()))))),
        };
        let mut poll = || Pin::new(&mut *connection).poll(&mut Context::from_waker(own));
        if heads.looks() { ticks::ticking(own, poll) } else { poll() }
    }
}

/// A request's body on a [`Hush`]ed connection.
pub struct Hushed(pub Incoming);

impl Body for Hushed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        HELD.set(Some(false));
        let frame = Pin::new(&mut self.0).poll_frame(context);
        let woken = HELD.replace(None) == Some(true);
        // There is more to come, and the connection must hear that there is room for it.
        if woken && !self.0.is_end_stream() {
            context.waker().wake_by_ref();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
