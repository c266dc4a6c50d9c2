//! The channels to one upstream, each on one pod at a time: whoever dials gets the pod's own channel where the pod has the
//! lease or takes it, and else the way to the pod that has it. In the steady state nothing is asked of the store.

use super::far::{Far, Lost};
use super::lease::{self, Lease};
use super::{Arc, Relay};
use crate::mcp::UpstreamId;
use crate::store::{Key, Store};
use crate::upstream::link::Link;
use crate::upstream::link::flights::Flights;
use crate::upstream::transport::{Dial, Sent, Transport, TransportError};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Ways to other pods that are remembered; beyond, those go that were not used for [`UNUSED`].
const REMEMBERED: usize = 4096;
const UNUSED: Duration = Duration::from_secs(600);
/// Others may be quicker so often before the lease counts as not to be had.
const ROUNDS: usize = 8;
/// How often the lease of a pod that cannot be reached is looked at, until it ends.
const LOOK: Duration = Duration::from_millis(500);

/// See the room's head. Dropping it gives all leases up.
pub struct Leased {
    core: Arc<Core>,
}

pub(super) struct Core {
    relay: Arc<Relay>,
    id: UpstreamId,
    like: String,
    inner: Arc<dyn Dial>,
    link: OnceLock<Weak<Link>>,
    /// Where the channel of each owner is, as far as it is known.
    places: Mutex<HashMap<Arc<str>, Place>>,
    finding: Arc<Flights<Arc<str>, Dialled>>,
    keepers: TaskTracker,
    /// Has a token for each request of another pod that is being answered on these channels.
    guests: TaskTracker,
    /// Nothing new begins on these channels.
    ending: CancellationToken,
    over: CancellationToken,
}

type Dialled = Result<Arc<dyn Transport>, TransportError>;

#[derive(Clone)]
enum Place {
    Here(Arc<Hold>),
    There(Arc<Far>),
}

/// A channel of this pod, and its lease.
pub(super) struct Hold {
    key: Key,
    lease: Lease,
    owner: Arc<str>,
    pub(super) link: Weak<Link>,
    opened: OnceLock<Arc<dyn Transport>>,
    /// See [`Core::guests`].
    pub(super) guests: TaskTracker,
    /// The lease is no longer ours, or is not to be: nothing new begins on the channel.
    given_up: CancellationToken,
    /// The channel is no more.
    over: CancellationToken,
}

impl Hold {
    /// The channel; `None` while it starts.
    pub(super) fn transport(&self) -> Option<&Arc<dyn Transport>> {
        self.opened.get()
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.is_cancelled()
    }

    pub(super) fn is_of(&self, transport: &Arc<dyn Transport>) -> bool {
        self.opened.get().is_some_and(|opened| Arc::ptr_eq(opened, transport))
    }
}

impl Leased {
    pub(super) fn new(relay: Arc<Relay>, id: UpstreamId, like: &str, inner: Arc<dyn Dial>) -> Arc<Leased> {
        let core = Core {
            relay,
            id,
            like: like.to_owned(),
            inner,
            link: OnceLock::new(),
            places: Mutex::default(),
            finding: Flights::new(),
            keepers: TaskTracker::new(),
            guests: TaskTracker::new(),
            ending: CancellationToken::new(),
            over: CancellationToken::new(),
        };
        Arc::new(Leased { core: Arc::new(core) })
    }

    /// Names the link whose channels these are: it opens them for other pods.
    pub fn of(&self, link: &Arc<Link>) {
        // The first one stays: there is one link for each of these.
        let _ = self.core.link.set(Arc::downgrade(link));
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        self.core.over.cancel();
    }
}

impl Dial for Leased {
    fn dial(&self, who: &str) -> Sent<Arc<dyn Transport>> {
        let (core, owner): (_, Arc<str>) = (self.core.clone(), who.into());
        Box::pin(async move {
            match core.place(&owner) {
                Some(Place::There(far)) if far.lost().is_none() => return Ok(far as Arc<dyn Transport>),
                Some(Place::Here(hold)) if !hold.is_given_up() => {
                    let transport = core.inner.dial(&owner).await?;
                    if hold.is_of(&transport) {
                        return Ok(transport);
                    }
                }
                _ => {}
            }
            let (finder, name) = (core.clone(), owner.clone());
            core.finding.join(owner, || finder.find(name)).await
        })
    }

    /// What other pods have begun here ends first, each request within its own time: their calls do not fail for a
    /// configuration that changes here.
    fn hang_up(&self) -> BoxFuture<'static, ()> {
        let core = self.core.clone();
        Box::pin(async move {
            core.ending.cancel();
            core.guests.close();
            core.guests.wait().await;
            core.over.cancel();
            core.keepers.close();
            tokio::join!(core.inner.hang_up(), core.keepers.wait());
        })
    }
}

impl Core {
    /// Nothing panics while it holds the lock but by a defect; then the map is still the best there is.
    fn places(&self) -> MutexGuard<'_, HashMap<Arc<str>, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, owner: &Arc<str>) -> Option<Place> {
        self.places().get(owner).cloned()
    }

    fn store(&self) -> &dyn Store {
        &*self.relay.settings.store
    }

    /// Looks up who has the channel; takes the lease where nobody has it, or who had it is gone.
    async fn find(self: Arc<Self>, owner: Arc<str>) -> Dialled {
        let key = lease::key(&self.id, &self.like, &owner);
        let settings = &self.relay.settings;
        let lost = match self.place(&owner) {
            Some(Place::There(far)) => far.lost().map(|lost| (far.lease().clone(), lost)),
            _ => None,
        };
        let patience = Instant::now() + lease::LIFE + lease::RENEW;
        let mut rounds = 0;
        while rounds < ROUNDS {
            if self.ending.is_cancelled() {
                return Err(TransportError::Unreachable("the gateway is ending".into()));
            }
            let found = lease::find(self.store(), &key).await.map_err(|_| TransportError::StoreAway)?;
            let before = match found {
                Some(lease) if lease.pod != settings.me => match &lost {
                    Some((known, Lost::Gone)) if *known == lease => Some(lease),
                    Some((known, Lost::Silent)) if *known == lease && Instant::now() < patience => {
                        sleep(LOOK).await;
                        continue;
                    }
                    _ => return Ok(self.there(owner, lease)),
                },
                own => own,
            };
            if settings.draining.is_cancelled() {
                // The channel ends with this pod: whoever comes next need not find it.
                return self.inner.dial(&owner).await;
            }
            let lease = Lease::new(settings.me.clone(), &settings.address);
            let claimed = lease::claim(self.store(), &key, &lease, before.as_ref()).await;
            if claimed.map_err(|_| TransportError::StoreAway)? {
                return self.here(owner, key, lease).await;
            }
            rounds += 1;
        }
        Err(TransportError::Unreachable("its lease is not to be had".into()))
    }

    /// The lease is another pod's.
    fn there(self: &Arc<Self>, owner: Arc<str>, lease: Lease) -> Arc<dyn Transport> {
        tracing::debug!(upstream = %self.id, pod = %lease.pod, "another pod has a channel");
        let far = Arc::new(Far::new(self.relay.clone(), lease, owner.clone()));
        let mut places = self.places();
        if places.len() >= REMEMBERED {
            places.retain(|_, place| match place {
                Place::Here(_) => true,
                Place::There(far) if far.lost().is_some() => false,
                Place::There(far) if far.used().elapsed() >= UNUSED => {
                    far.end();
                    false
                }
                Place::There(_) => true,
            });
        }
        places.insert(owner, Place::There(far.clone()));
        far
    }

    /// The lease is ours: the channel is started here.
    async fn here(self: &Arc<Self>, owner: Arc<str>, key: Key, lease: Lease) -> Dialled {
        tracing::debug!(upstream = %self.id, "this pod has a channel");
        let hold = Arc::new(Hold {
            key,
            lease,
            owner: owner.clone(),
            link: self.link.get().cloned().unwrap_or_default(),
            opened: OnceLock::new(),
            guests: self.guests.clone(),
            given_up: self.ending.child_token(),
            over: CancellationToken::new(),
        });
        self.relay.holds().insert(hold.lease.name.clone(), hold.clone());
        // From here on, for starting may take longer than a lease lives.
        self.keepers.spawn(self.clone().keep(hold.clone()));
        let transport = self.inner.dial(&owner).await.inspect_err(|_| hold.over.cancel())?;
        let _ = hold.opened.set(transport.clone());
        self.places().insert(owner, Place::Here(hold.clone()));
        let (gone, over) = (transport.gone(), self.over.clone());
        self.keepers.spawn(async move {
            tokio::select! {
                () = gone => hold.over.cancel(),
                () = over.cancelled() => {}
            }
        });
        Ok(transport)
    }

    /// Keeps a lease for as long as its channel lives here and this pod does not end. With the store away it counts as
    /// kept: nobody else can take it then.
    async fn keep(self: Arc<Self>, hold: Arc<Hold>) {
        let settings = &self.relay.settings;
        let ours = loop {
            tokio::select! {
                () = hold.over.cancelled() => break true,
                () = settings.draining.cancelled() => break true,
                () = hold.given_up.cancelled() => break true,
                () = self.over.cancelled() => break true,
                () = sleep(lease::RENEW) => {}
            }
            match lease::renew(self.store(), &hold.key, &hold.lease).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(upstream = %self.id, "another pod has taken a channel; what it kept here is lost");
                    break false;
                }
                Err(error) => tracing::debug!(upstream = %self.id, %error, "a lease was not renewed"),
            }
        };
        hold.given_up.cancel();
        {
            let mut places = self.places();
            let same =
                matches!(places.get(&hold.owner), Some(Place::Here(other)) if Arc::ptr_eq(other, &hold));
            if same {
                places.remove(&hold.owner);
            }
        }
        if ours && let Err(error) = lease::give_up(self.store(), &hold.key, &hold.lease).await {
            tracing::debug!(upstream = %self.id, %error, "a lease was not given up, and ends by itself");
        }
        // What has begun on the channel may have to answer yet.
        tokio::select! {
            () = hold.over.cancelled() => {}
            () = self.over.cancelled() => {}
        }
        self.relay.holds().remove(&hold.lease.name);
    }
}
