//! How far what a client subscribed to is listened for: its changes are counted, and who made one can wait until the
//! client's standing call has taken it up. Knows no call and no backend.

use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

/// The longest wait: a client is not kept from its answer by an upstream that acknowledges nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// The changes of one client's subscriptions.
pub struct Changes {
    /// How many were made, from 1: a standing call that heard of none yet has heard of 0.
    made: watch::Sender<u64>,
    /// How many the standing call that is acknowledged knows of; `None` while there is no standing call.
    heard: watch::Sender<Option<u64>>,
}

impl Default for Changes {
    fn default() -> Changes {
        Changes { made: watch::Sender::new(1), heard: watch::Sender::new(None) }
    }
}

impl Changes {
    /// Counts one more. To be called once who reads the subscriptions finds it there.
    pub fn made(&self) {
        self.made.send_modify(|made| *made += 1);
    }

    /// Gives the count after each change.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.made.subscribe()
    }

    /// Takes the right to be the one standing call; false where there is one.
    pub fn listen(&self) -> bool {
        self.heard.send_if_modified(|heard| {
            let free = heard.is_none();
            heard.get_or_insert(0);
            free
        })
    }

    /// Whether there is a standing call here.
    pub(super) fn is_heard(&self) -> bool {
        self.heard.borrow().is_some()
    }

    /// Resolves once the standing call has been acknowledged.
    pub(super) async fn acknowledged(&self) {
        // Its sender is ours.
        let _ = self.heard.subscribe().wait_for(|heard| heard.is_some_and(|count| count > 0)).await;
    }

    /// As [`Changes::acknowledged`], for at most 1 s.
    pub(super) async fn taken_up_at_all(&self) {
        if timeout(PATIENCE, self.acknowledged()).await.is_err() {
            tracing::debug!("a call is made before its session is listened in");
        }
    }

    /// The standing call has been acknowledged, and knows of the changes up to this count.
    pub fn heard(&self, count: u64) {
        self.heard.send_if_modified(|heard| match heard {
            Some(heard) => std::mem::replace(heard, count) != count,
            None => false,
        });
    }

    /// The standing call has ended.
    pub fn deaf(&self) {
        self.heard.send_replace(None);
    }

    /// Resolves once all changes so far are listened for, nobody listens, or it has taken too long (1 s).
    pub async fn taken_up(&self) {
        let made = *self.made.borrow();
        let mut heard = self.heard.subscribe();
        let enough = heard.wait_for(|heard| heard.is_none_or(|count| count >= made));
        if timeout(PATIENCE, enough).await.is_err() {
            tracing::debug!("a subscription is granted before it is listened for");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn a_change_is_waited_for_while_somebody_listens_and_not_forever() {
        let changes = Changes::default();
        changes.made();
        assert!(changes.taken_up().now_or_never().is_some(), "nobody listens");
        assert!(changes.listen() && !changes.listen());
        let begun = tokio::time::Instant::now();
        changes.taken_up().await;
        assert!(begun.elapsed() >= PATIENCE);
        let (count, waits) = (*changes.watch().borrow(), changes.taken_up());
        let mut waits = std::pin::pin!(waits);
        assert!(waits.as_mut().now_or_never().is_none());
        changes.heard(count - 1);
        assert!(waits.as_mut().now_or_never().is_none());
        changes.heard(count);
        assert!(waits.as_mut().now_or_never().is_some());
        changes.made();
        let mut waits = std::pin::pin!(changes.taken_up());
        assert!(waits.as_mut().now_or_never().is_none());
        changes.deaf();
        assert!(waits.as_mut().now_or_never().is_some());
    }
}
