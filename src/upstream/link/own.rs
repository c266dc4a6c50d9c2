//! The upstream sessions of this pod alone: those that standing calls of callers without a session listen in. For their
//! calls such callers share one session over all pods, but a message goes to one stream of a session alone (2025-11-25
//! transports, *Multiple Connections*): of the streams of several pods in it, all but one would miss it.

use super::{Arc, Caller, Inner, Mutex, Session};
use crate::mcp::{SessionId, StoreAway, UpstreamId};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

/// What is kept for one of them, as the store would keep it.
struct Own {
    key: Arc<str>,
    kept: Mutex<Option<Bytes>>,
}

/// By the key of the callers that are equal: their session here, and how many standing calls use it.
type Used = HashMap<Arc<str>, (Arc<Own>, usize)>;

#[derive(Default)]
pub(super) struct Owns {
    used: Mutex<Used>,
}

/// The use of one. With its last use the session ends.
pub(super) struct Holding {
    link: Arc<Inner>,
    /// Of the callers that are equal.
    key: Arc<str>,
    /// The one who listens: its caller, but for the session.
    pub(super) caller: Arc<Caller>,
}

impl Owns {
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The caller as it listens in this pod.
    pub(super) fn own(self: &Arc<Self>, caller: &Caller) -> Holding {
        let key = caller.session.key().clone();
        let session = {
            let mut used = self.owns.used();
            let (own, uses) = used.entry(key.clone()).or_insert_with(|| (Arc::new(Own::new(&key)), 0));
            *uses += 1;
            own.clone()
        };
        let caller = Caller {
            access: caller.access.clone(),
            profile: caller.profile.clone(),
            client: caller.client.clone(),
            version: caller.version,
            session,
        };
        Holding { link: self.clone(), key, caller: Arc::new(caller) }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let mut used = self.link.owns.used();
        let Some((_, uses)) = used.get_mut(&self.key) else { return };
        *uses -= 1;
        if *uses == 0
            && let Some((own, _)) = used.remove(&self.key)
        {
            self.link.tasks.spawn(self.link.clone().end(own));
        }
    }
}

impl Own {
    fn new(of: &str) -> Own {
        // No key of a session or of a pooled identity ends so.
        Own { key: format!("{of} listens").into(), kept: Mutex::default() }
    }
}

impl Session for Own {
    fn id(&self) -> Option<&SessionId> {
        None
    }

    fn key(&self) -> &Arc<str> {
        &self.key
    }

    fn load(&self, _of: &UpstreamId) -> BoxFuture<'static, Result<Option<Bytes>, StoreAway>> {
        ready(Ok(self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone())).boxed()
    }

    fn swap(
        &self,
        _of: &UpstreamId,
        was: Option<Bytes>,
        now: Option<Bytes>,
    ) -> BoxFuture<'static, Result<bool, StoreAway>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let same = *kept == was;
        if same {
            *kept = now;
        }
        ready(Ok(same)).boxed()
    }
}
