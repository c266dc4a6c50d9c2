//! An upstream's messages as lines of a byte stream (stdio transports): in, to its channel; out, from it.

use super::channel::{Channel, Outbound};
use super::transport::TransportError;
pub use crate::lines::{Line, Lines};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

/// A line so many times over the limit is not going to end.
const ENDLESS: usize = 8;

/// Gives a channel all that an upstream says, until it has nothing more to say; then the channel is at its end.
pub async fn read(from: impl AsyncRead + Unpin, channel: &Channel) {
    let limit = channel.limits().bytes;
    let mut lines = Lines::new(from, limit, limit.saturating_mul(ENDLESS));
    let why = loop {
        match lines.next().await {
            Ok(Some(Line::Text(text))) if text.iter().all(u8::is_ascii_whitespace) => {}
            Ok(Some(Line::Text(text))) => channel.take(text),
            Ok(Some(Line::TooLong { head, tail })) => channel.take_too_long(&head, &tail),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => break TransportError::TooLarge(limit),
            Ok(None) | Err(_) => break TransportError::Broken,
        }
        // A child that floods us must not keep its thread to itself.
        tokio::task::consume_budget().await;
    };
    channel.end(why);
}

/// Writes messages as lines until there are no more. Errors: the reader is gone.
pub async fn write(to: impl AsyncWrite + Unpin, messages: Outbound) -> io::Result<()> {
    crate::lines::write(to, messages, |out| &out.message).await
}
