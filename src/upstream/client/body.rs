//! The body of a response, read from its connection as it is asked for.

use super::connection::Connection;
use super::pool::Pool;
use crate::http1::Framing;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The body of a response. Read to its end it gives the connection back to the pool; dropped before, it closes it.
pub struct Body {
    /// Until the end of the body.
    held: Option<(Box<Connection>, Arc<Pool>)>,
}

impl Body {
    pub(super) fn new(connection: Box<Connection>, pool: &Arc<Pool>) -> Body {
        let mut body = Body { held: Some((connection, pool.clone())) };
        body.end_if_over();
        body
    }

    fn end_if_over(&mut self) {
        if let Some((connection, pool)) = self.held.take_if(|(connection, _)| connection.framing().is_over())
        {
            pool.give(connection);
        }
    }

    /// All that is to come, where it is known how much that is and all of it is there. Then it is at its end.
    pub fn take_whole(&mut self) -> Option<Bytes> {
        let (connection, _) = self.held.as_mut()?;
        let whole = connection.take_whole()?;
        self.end_if_over();
        Some(whole)
    }

    /// The next part; `None` at the end.
    pub fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let Some((connection, _)) = &mut self.held else { return Poll::Ready(Ok(None)) };
        let part = ready!(connection.poll_body(context));
        match &part {
            Ok(_) => self.end_if_over(),
            Err(_) => self.held = None,
        }
        Poll::Ready(part)
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.poll_data(context).map(|part| part.transpose().map(|data| data.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.held.as_ref().map(|(connection, _)| connection.framing()) {
            None => SizeHint::with_exact(0),
            Some(Framing::Sized(left)) => SizeHint::with_exact(*left),
            Some(_) => SizeHint::default(),
        }
    }
}
