//! The body of a request that did not come whole with its head: between the connection, which reads it as it is asked for, and
//! whoever asks. Knows no sockets.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The connection's end.
pub struct Feed(Arc<Mutex<State>>);

/// The reader's end.
pub struct Fed(Arc<Mutex<State>>);

struct State {
    /// Read and not yet taken.
    piece: Option<Bytes>,
    /// Bytes that are to come, where that is known.
    left: Option<u64>,
    end: End,
    /// The reader waits for a piece.
    reader: Option<Waker>,
    /// The connection waits for somebody who wants one.
    connection: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// More is to come.
    Open,
    /// All has come.
    Whole,
    /// It broke off.
    Broken,
    /// Nobody reads it any more.
    Unread,
}

/// A body of so many bytes, where that is known.
pub fn new(length: Option<u64>) -> (Feed, Fed) {
    let state = State { piece: None, left: length, end: End::Open, reader: None, connection: None };
    let state = Arc::new(Mutex::new(state));
    (Feed(state.clone()), Fed(state))
}

/// Nothing panics while it holds the lock.
fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Feed {
    /// Ready as long as the reader waits for a piece.
    pub fn poll_wanted(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0);
        if state.end == End::Open && state.piece.is_none() && state.reader.is_some() {
            return Poll::Ready(());
        }
        state.connection = Some(context.waker().clone());
        Poll::Pending
    }

    /// Gives a piece. Who is polled by `here` is polled again in any case, and needs no wake.
    pub fn give(&self, piece: Bytes, here: &Waker) {
        let mut state = lock(&self.0);
        state.left = state.left.map(|left| left.saturating_sub(piece.len() as u64));
        state.piece = Some(piece);
        Feed::tell(state, Some(here));
    }

    /// Ends it: all has come, or it broke off.
    pub fn end(&self, whole: bool, here: Option<&Waker>) {
        let mut state = lock(&self.0);
        if state.end == End::Open {
            state.end = if whole { End::Whole } else { End::Broken };
        }
        Feed::tell(state, here);
    }

    /// Whether more of it may be asked for.
    pub fn is_open(&self) -> bool {
        lock(&self.0).end == End::Open
    }

    /// Whether all of it has come.
    pub fn is_whole(&self) -> bool {
        lock(&self.0).end == End::Whole
    }

    fn tell(mut state: MutexGuard<'_, State>, here: Option<&Waker>) {
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader.filter(|reader| here.is_none_or(|here| !reader.will_wake(here))) {
            reader.wake();
        }
    }
}

impl Drop for Feed {
    /// A reader that outlives the connection must not wait for it.
    fn drop(&mut self) {
        self.end(false, None);
    }
}

impl Body for Fed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut state = lock(&self.0);
        if let Some(piece) = state.piece.take() {
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match state.end {
            End::Open => {
                state.reader = Some(context.waker().clone());
                let connection = state.connection.take();
                drop(state);
                if let Some(connection) = connection.filter(|waker| !waker.will_wake(context.waker())) {
                    connection.wake();
                }
                Poll::Pending
            }
            End::Broken => Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into()))),
            End::Whole | End::Unread => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        let state = lock(&self.0);
        state.piece.is_none() && state.end == End::Whole
    }

    fn size_hint(&self) -> SizeHint {
        let state = lock(&self.0);
        let waiting = state.piece.as_ref().map_or(0, |piece| piece.len() as u64);
        state.left.map_or_else(SizeHint::default, |left| SizeHint::with_exact(left + waiting))
    }
}

impl Drop for Fed {
    /// The connection then looks for other things.
    fn drop(&mut self) {
        let mut state = lock(&self.0);
        if state.end == End::Open {
            state.end = End::Unread;
        }
        let connection = state.connection.take();
        drop(state);
        if let Some(connection) = connection {
            connection.wake();
        }
    }
}
