//! The way out: everyone's messages in one queue, bounded in bytes, and the one task that writes them.

use bytes::Bytes;
use std::sync::Arc;
use tokio::io::AsyncWrite;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Bytes that may wait for a client that reads slowly; then whoever has more to say waits.
const QUEUE_BYTES: usize = 8 << 20;
/// What a message counts for at least, which bounds their number.
const QUEUE_LEAST: usize = 4 << 10;

/// What waits to be written.
pub struct Out {
    message: Bytes,
    _room: OwnedSemaphorePermit,
}

/// Where messages for the client are said.
pub struct Pipe {
    queue: mpsc::Sender<Out>,
    room: Arc<Semaphore>,
}

pub fn open() -> (Pipe, mpsc::Receiver<Out>) {
    let (queue, outbound) = mpsc::channel(QUEUE_BYTES / QUEUE_LEAST);
    (Pipe { queue, room: Arc::new(Semaphore::new(QUEUE_BYTES)) }, outbound)
}

impl Pipe {
    /// Queues a message once there is room. Where nobody reads any more it is dropped: the connection is at its end.
    pub async fn say(&self, message: Bytes) {
        let size = message.len().clamp(QUEUE_LEAST, QUEUE_BYTES) as u32;
        let Ok(room) = self.room.clone().acquire_many_owned(size).await else { return };
        let _ = self.queue.send(Out { message, _room: room }).await;
    }
}

/// Writes until there is nobody left who says anything.
pub async fn write(to: impl AsyncWrite + Unpin, outbound: mpsc::Receiver<Out>) -> std::io::Result<()> {
    crate::lines::write(to, outbound, |out| &out.message).await
}
