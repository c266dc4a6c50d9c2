//! What links keep for callers without a transport session: modern ones, and legacy ones that never send their session's
//! id back. Callers that are equal to an upstream share it; it goes ten minutes after its last use.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::facts::{now, short_hash};
use crate::mcp::{Client, Principal, Session, SessionId, StoreAway, UpstreamId};
use crate::store::{Check, Commit, Key, Store, Sure, Write};

/// How long what is kept outlives its last use.
const IDLE: Duration = Duration::from_secs(600);
/// A use counts again after this part of the life, for each write wakes every pod's cache.
const TOUCH_PART: u32 = 24;
/// The link's state, and when its life was last extended (milliseconds since 1970).
const STATE: &str = "v";
const TOUCHED: &str = "t";

/// The identity of a caller without a session: profile, principal (tenant inside) and declared capabilities. Making one
/// costs nothing until a link asks for it.
pub struct Pooled {
    store: Arc<dyn Store>,
    principal: Arc<Principal>,
    profile: Arc<str>,
    client: Arc<Client>,
    key: OnceLock<Arc<str>>,
}

impl Pooled {
    pub fn new(
        store: Arc<dyn Store>,
        principal: Arc<Principal>,
        profile: Arc<str>,
        client: Arc<Client>,
    ) -> Pooled {
        Pooled { store, principal, profile, client, key: OnceLock::new() }
    }

    /// `{u:<hash>}`: a record an upstream, so that each has its own life.
    fn record(&self, of: &UpstreamId) -> Key {
        Key::new(format!("u:{}", short_hash(format!("{of} {}", self.key()).as_bytes())), "")
    }
}

impl Session for Pooled {
    fn id(&self) -> Option<&SessionId> {
        None
    }

    fn key(&self) -> &Arc<str> {
        self.key.get_or_init(|| {
            let mut text = self.principal.identity();
            // The length keeps the profile apart from what follows it.
            let _ = write!(text, "{}:{}", self.profile.len(), self.profile);
            let mut text = text.into_bytes();
            text.extend_from_slice(&self.client.capabilities());
            format!("u:{}", short_hash(&text)).into()
        })
    }

    fn load(&self, of: &UpstreamId) -> BoxFuture<'static, Result<Option<Bytes>, StoreAway>> {
        let (store, key) = (self.store.clone(), self.record(of));
        async move {
            let Some(record) = store.near(key.clone()).await.map_err(|_| StoreAway)? else { return Ok(None) };
            let Some(state) = record.field(STATE).cloned() else { return Ok(None) };
            let touched = record.field(TOUCHED).and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            let unused = now().saturating_sub(touched.unwrap_or(0));
            if unused >= (IDLE / TOUCH_PART).as_millis() as u64 {
                // A hint of use; where it fails, the next load gives it again.
                let check = vec![(key.clone(), Check::field(STATE, state.clone()))];
                let _ = store.commit(check, lively(&key), Sure::Master).await;
            }
            Ok(Some(state))
        }
        .boxed()
    }

    fn swap(
        &self,
        of: &UpstreamId,
        was: Option<Bytes>,
        now: Option<Bytes>,
    ) -> BoxFuture<'static, Result<bool, StoreAway>> {
        let (store, key) = (self.store.clone(), self.record(of));
        async move {
            let writes = match now {
                Some(now) => {
                    let mut writes = vec![(key.clone(), Write::set(STATE, now))];
                    writes.extend(lively(&key));
                    writes
                }
                None => vec![(key.clone(), Write::Drop)],
            };
            let checks = vec![(key, Check::Field(STATE.into(), was))];
            match store.commit(checks, writes, Sure::Master).await {
                Ok(commit) => Ok(matches!(commit, Commit::Done(_))),
                Err(_) => Err(StoreAway),
            }
        }
        .boxed()
    }
}

fn lively(key: &Key) -> Vec<(Key, Write)> {
    vec![(key.clone(), Write::set(TOUCHED, now().to_string())), (key.clone(), Write::Live(IDLE))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;
    use crate::wire::Raw;

    fn pooled(store: &Arc<dyn Store>, subject: &str, profile: &str, capabilities: &'static str) -> Pooled {
        let client = Client { capabilities: Some(Raw::trusted(capabilities)), ..Client::default() };
        let principal = Arc::new(Principal::minted("t", "i", subject));
        Pooled::new(store.clone(), principal, profile.into(), Arc::new(client))
    }

    #[tokio::test]
    async fn equal_callers_share_what_a_link_keeps_and_others_do_not() {
        let store: Arc<dyn Store> = Arc::new(Memory::new(1 << 20));
        let up = UpstreamId::new("up").unwrap();
        let first = pooled(&store, "a", "p", "{}");
        assert_eq!(first.load(&up).await, Ok(None));
        assert_eq!(first.swap(&up, None, Some("S1".into())).await, Ok(true));
        assert_eq!(first.swap(&up, None, Some("S2".into())).await, Ok(false), "another was quicker");
        assert_eq!(pooled(&store, "a", "p", "{}").load(&up).await, Ok(Some("S1".into())));
        for other in [
            pooled(&store, "b", "p", "{}"),
            pooled(&store, "a", "q", "{}"),
            pooled(&store, "a", "p", r#"{"roots":{}}"#),
        ] {
            assert_eq!(other.load(&up).await, Ok(None));
            assert_ne!(other.key(), first.key());
        }
        assert_eq!(first.load(&UpstreamId::new("other").unwrap()).await, Ok(None));
        assert_eq!(first.swap(&up, Some("S1".into()), None).await, Ok(true));
        assert_eq!(first.load(&up).await, Ok(None));
    }
}
