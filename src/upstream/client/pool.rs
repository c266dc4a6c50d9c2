//! The connections that wait for a request. The one that came last goes first, so that those too many grow old.

use super::connection::Connection;
use crate::clock;
use http::Uri;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Below the 5 s after which uvicorn and Node close idle connections: who closes first must be us, for a request that
/// meets a closing connection may not be sent again.
pub(super) const IDLE: Duration = Duration::from_secs(4);
/// How old a connection may be, unless configured otherwise: a new one asks for the name's addresses again.
const LIFE: Duration = Duration::from_secs(300);

pub(super) struct Pool {
    idle: Mutex<Idle>,
    /// How long a connection waits at most.
    longest: Duration,
    /// How old a connection may become, less up to a tenth by lot: those that were opened together end one by one.
    life: Duration,
}

#[derive(Default)]
struct Idle {
    /// From when each waits, the oldest first.
    waiting: Vec<(Instant, Box<Connection>)>,
    /// Whether a task closes what waits too long.
    swept: bool,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::of(IDLE, LIFE)
    }
}

impl Pool {
    pub(super) fn of(longest: Duration, life: Duration) -> Pool {
        Pool { idle: Mutex::default(), longest, life }
    }

    /// Nothing panics while it holds the lock; then the list is still whole.
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until when a connection that is opened now serves.
    pub(super) fn end_of_life(&self) -> Instant {
        let lot = RandomState::new().hash_one(()) % 1000;
        clock::lately() + self.life.mul_f32(1.0 - lot as f32 / 10_000.0)
    }

    /// A connection to the server that `uri` names. It may have ended since it was last driven.
    pub(super) fn take(&self, uri: &Uri) -> Option<Box<Connection>> {
        let waiting = &mut self.idle().waiting;
        let at = waiting.iter().rposition(|(_, connection)| connection.serves(uri))?;
        // Nearly always the last, which moves no other.
        let (since, connection) = if at + 1 == waiting.len() { waiting.pop()? } else { waiting.remove(at) };
        // Then the others are older still, and are swept.
        (clock::since(since) < self.longest).then_some(connection)
    }

    /// Takes back a connection whose response was read. One that has more to do than wait, or is old, is closed.
    pub(super) fn give(self: &Arc<Self>, connection: Box<Connection>) {
        // Late by little, so that it counts as idle for longer than it is.
        let now = clock::lately();
        if !connection.is_ready() || now >= connection.until {
            return;
        }
        let mut idle = self.idle();
        idle.waiting.push((now, connection));
        if !std::mem::replace(&mut idle.swept, true) {
            drop(idle);
            tokio::spawn(sweep(Arc::downgrade(self), self.longest));
        }
    }
}

/// Closes what waits too long, as long as anything waits.
async fn sweep(pool: Weak<Pool>, longest: Duration) {
    loop {
        sleep(longest / 8).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut idle = pool.idle();
        let old = idle.waiting.partition_point(|(since, _)| since.elapsed() >= longest);
        let closed: Vec<_> = idle.waiting.drain(..old).collect();
        idle.swept = !idle.waiting.is_empty();
        let over = !idle.swept;
        drop(idle);
        drop(closed);
        if over {
            return;
        }
    }
}
