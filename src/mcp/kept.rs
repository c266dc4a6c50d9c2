//! What links keep for a caller whose life is this process's: in memory, for a pipe or a command needs no store.

use super::{Session, SessionId, StoreAway, UpstreamId};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The session of a caller that no other process will ever see.
pub struct Kept {
    id: Option<SessionId>,
    key: Arc<str>,
    state: Mutex<BTreeMap<UpstreamId, Bytes>>,
}

impl Kept {
    /// A caller that has a session: it can be asked, and gets what its session subscribes to. `key` is unique in this
    /// process.
    pub fn session(key: &str) -> Kept {
        Kept { id: Some(SessionId(key.into())), ..Kept::sessionless(key) }
    }

    /// A caller without a session, whose requests stand alone.
    pub fn sessionless(key: &str) -> Kept {
        Kept { id: None, key: key.into(), state: Mutex::default() }
    }

    /// Nothing panics while it holds the lock but by a defect; then the state is still the best there is.
    fn state(&self) -> MutexGuard<'_, BTreeMap<UpstreamId, Bytes>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session for Kept {
    fn id(&self) -> Option<&SessionId> {
        self.id.as_ref()
    }

    fn key(&self) -> &Arc<str> {
        &self.key
    }

    fn load(&self, of: &UpstreamId) -> BoxFuture<'static, Result<Option<Bytes>, StoreAway>> {
        ready(Ok(self.state().get(of).cloned())).boxed()
    }

    fn swap(
        &self,
        of: &UpstreamId,
        was: Option<Bytes>,
        now: Option<Bytes>,
    ) -> BoxFuture<'static, Result<bool, StoreAway>> {
        let mut state = self.state();
        let holds = state.get(of) == was.as_ref();
        if holds {
            match now {
                Some(now) => state.insert(of.clone(), now),
                None => state.remove(of),
            };
        }
        ready(Ok(holds)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_two_who_replace_the_same_state_one_does() {
        let (kept, up) = (Kept::session("s"), UpstreamId::new("up").unwrap());
        assert_eq!(kept.swap(&up, None, Some("a".into())).await, Ok(true));
        assert_eq!(kept.swap(&up, None, Some("b".into())).await, Ok(false));
        assert_eq!(kept.load(&up).await, Ok(Some("a".into())));
        assert_eq!(kept.swap(&up, Some("a".into()), None).await, Ok(true));
        assert_eq!(kept.load(&up).await, Ok(None));
    }
}
