//! Who has a channel: a record in the store that its owner renews. Every change is compare-and-set by the whole record,
//! so that of two who take a lease one has it.

use crate::mcp::UpstreamId;
use crate::store::{Check, Commit, Key, PodId, Record, Store, StoreError, Sure, Write};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

/// A lease that was not renewed for so long is nobody's.
pub(super) const LIFE: Duration = Duration::from_secs(12);
/// How often it is renewed: two renewals may be lost.
pub(super) const RENEW: Duration = Duration::from_secs(4);
const FIELD: &str = "o";

/// What the record says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lease {
    pub(super) pod: PodId,
    /// Where the pod's internal listener is.
    pub(super) address: Arc<str>,
    /// Another one for each channel, so that nobody takes a later channel of the same pod for the one it knows.
    pub(super) name: Arc<str>,
}

impl Lease {
    pub(super) fn new(pod: PodId, address: &str) -> Lease {
        Lease { pod, address: address.into(), name: super::seal::random_text().into() }
    }

    fn read(record: &Record) -> Option<Lease> {
        let text = std::str::from_utf8(record.field(FIELD)?).ok()?;
        let mut parts = text.split(' ');
        let (pod, address, name) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Lease { pod: PodId::named(pod), address: address.into(), name: name.into() })
    }

    fn write(&self) -> Bytes {
        format!("{} {} {}", self.pod, self.address, self.name).into()
    }
}

/// `{o:<hash>}`: the lease of one channel.
pub(super) fn key(of: &UpstreamId, like: &str, who: &str) -> Key {
    let text = format!("{of}\n{}:{like}\n{who}", like.len());
    let hash = URL_SAFE_NO_PAD.encode(&digest(&SHA256, text.as_bytes()).as_ref()[..18]);
    Key::new(format!("o:{hash}"), "")
}

/// The lease as the store's master has it.
pub(super) async fn find(store: &dyn Store, key: &Key) -> Result<Option<Lease>, StoreError> {
    Ok(store.get(key.clone()).await?.as_ref().and_then(Lease::read))
}

/// Takes a lease that is nobody's, or that is still `before`. False: another was quicker.
pub(super) async fn claim(
    store: &dyn Store,
    key: &Key,
    lease: &Lease,
    before: Option<&Lease>,
) -> Result<bool, StoreError> {
    let check = match before {
        Some(before) => Check::field(FIELD, before.write()),
        None => Check::Absent,
    };
    let writes = vec![(key.clone(), Write::set(FIELD, lease.write())), (key.clone(), Write::Live(LIFE))];
    let commit = store.commit(vec![(key.clone(), check)], writes, Sure::Master).await?;
    Ok(matches!(commit, Commit::Done(_)))
}

/// Renews it, or takes it again where it has ended meanwhile. False: it is another's now.
pub(super) async fn renew(store: &dyn Store, key: &Key, lease: &Lease) -> Result<bool, StoreError> {
    let check = vec![(key.clone(), Check::field(FIELD, lease.write()))];
    let commit = store.commit(check, vec![(key.clone(), Write::Live(LIFE))], Sure::Master).await?;
    match commit {
        Commit::Done(_) => Ok(true),
        Commit::Failed { .. } => claim(store, key, lease, None).await,
    }
}

/// Gives it up where it is still ours.
pub(super) async fn give_up(store: &dyn Store, key: &Key, lease: &Lease) -> Result<(), StoreError> {
    let check = vec![(key.clone(), Check::field(FIELD, lease.write()))];
    store.commit(check, vec![(key.clone(), Write::Drop)], Sure::Master).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;

    fn lease() -> Lease {
        Lease::new(PodId::random(), "10.0.0.7:9091")
    }

    #[tokio::test]
    async fn a_lease_is_one_pods_until_it_gives_it_up_or_another_takes_it_as_it_is() {
        let (store, up) = (Memory::new(1 << 20), UpstreamId::new("up").unwrap());
        let key = key(&up, "npx server", "alice");
        let (ours, theirs, later) = (lease(), lease(), lease());
        assert_eq!(claim(&store, &key, &ours, None).await, Ok(true));
        assert_eq!(claim(&store, &key, &theirs, None).await, Ok(false));
        assert_eq!(find(&store, &key).await, Ok(Some(ours.clone())));
        assert_eq!(claim(&store, &key, &later, Some(&theirs)).await, Ok(false), "it is not theirs");
        assert_eq!(claim(&store, &key, &theirs, Some(&ours)).await, Ok(true));
        assert_eq!(renew(&store, &key, &ours).await, Ok(false));
        give_up(&store, &key, &ours).await.unwrap();
        assert_eq!(find(&store, &key).await, Ok(Some(theirs.clone())));
        give_up(&store, &key, &theirs).await.unwrap();
        assert_eq!(find(&store, &key).await, Ok(None));
        assert_eq!(renew(&store, &key, &theirs).await, Ok(true), "what ended is taken again");
    }

    #[test]
    fn a_channel_is_told_from_every_other() {
        let [a, b] = ["a", "b"].map(|id| UpstreamId::new(id).unwrap());
        assert_ne!(key(&a, "x", "y"), key(&b, "x", "y"));
        assert_ne!(key(&a, "x", "y"), key(&a, "x", "z"));
        assert_ne!(key(&a, "x\ny", "z"), key(&a, "x", "y\nz"));
    }
}
