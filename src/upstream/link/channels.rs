//! What was negotiated on the channels to an upstream (a child process, HTTP+SSE): each has its own handshake. Who starts
//! and ends them is behind [`Dial`](crate::upstream::transport::Dial).

use super::declared::Declared;
use super::flights::Flights;
use super::handshake::{self, Party};
use super::hello::{self, Discovery};
use super::kept::Kept;
use super::speak::{Sign, sign};
use super::trouble::Trouble;
use super::{About, Arc, Caller, Inner, Link, Version};
use crate::mcp::Reason;
use crate::upstream::introduction::{Agreed, Introduction};
use crate::upstream::transport::{Sent, Transport, TransportError};
use crate::wire::Era;
use futures_util::FutureExt;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A channel whose handshake is done.
pub(super) struct Channel {
    pub(super) transport: Arc<dyn Transport>,
    pub(super) version: Version,
    pub(super) about: Arc<About>,
    /// The level and the subscriptions that were set on it.
    pub(super) kept: Mutex<Kept>,
}

/// Whose channel it is: one who calls, through one profile, with the same capabilities. Not a transport session.
pub(super) type Owner = Arc<str>;
type Openings = Flights<Owner, Result<Arc<Channel>, Trouble>>;

pub(super) struct Channels {
    negotiated: Mutex<HashMap<Owner, Arc<Channel>>>,
    openings: Arc<Openings>,
    /// Whether the server speaks both eras: then legacy callers have channels of their own, in their era.
    both: AtomicBool,
}

/// Ends the names of owners whose channel is to be legacy, though the server speaks both eras.
const IN_LEGACY: &str = "\nlegacy";

impl Channels {
    pub(super) fn new() -> Channels {
        Channels {
            negotiated: Mutex::new(HashMap::new()),
            openings: Flights::new(),
            both: AtomicBool::new(false),
        }
    }

    /// The owner's channel, if it was negotiated and is not gone.
    pub(super) fn get(&self, owner: &Owner) -> Option<Arc<Channel>> {
        self.negotiated.lock().expect("no holder of the channels panics").get(owner).cloned()
    }

    fn put(&self, owner: Owner, channel: Arc<Channel>) {
        self.negotiated.lock().expect("no holder of the channels panics").insert(owner, channel);
    }

    /// Forgets a channel that is gone; another one of the same owner stays.
    fn forget(&self, owner: &Owner, channel: &Arc<Channel>) {
        let mut negotiated = self.negotiated.lock().expect("no holder of the channels panics");
        if negotiated.get(owner).is_some_and(|other| Arc::ptr_eq(other, channel)) {
            negotiated.remove(owner);
        }
    }
}

impl Inner {
    /// The caller's channel, started and negotiated where there is none.
    pub(super) async fn channel(self: &Arc<Self>, caller: &Arc<Caller>) -> Result<Arc<Channel>, Trouble> {
        let owner = self.owner(caller);
        let channel = self.channel_of(&owner, caller).await?;
        // What was found out just now may give this caller a channel of its own.
        match self.owner(caller) {
            own if own != owner => self.channel_of(&own, caller).await,
            _ => Ok(channel),
        }
    }

    async fn channel_of(
        self: &Arc<Self>,
        owner: &Owner,
        caller: &Arc<Caller>,
    ) -> Result<Arc<Channel>, Trouble> {
        let transport = self.dial(owner).await?;
        if let Some(channel) = self.channels.get(owner).filter(|c| Arc::ptr_eq(&c.transport, &transport)) {
            return Ok(channel);
        }
        // With the store away nothing is known to set again.
        let before = match self.config.stateless {
            true => Kept::default(),
            false => self.kept(caller).await.unwrap_or_default(),
        };
        self.opened_channel(owner, transport, self.party(caller), before).await
    }

    /// The owner's channel over this transport, negotiated once for all who wait.
    async fn opened_channel(
        self: &Arc<Self>,
        owner: &Owner,
        transport: Arc<dyn Transport>,
        party: Party,
        before: Kept,
    ) -> Result<Arc<Channel>, Trouble> {
        let (link, name) = (self.clone(), owner.clone());
        let work = || async move {
            let channel = Arc::new(link.negotiate(transport, &name, &party, before).await?);
            link.channels.put(name.clone(), channel.clone());
            link.watch(name, &channel);
            Ok(channel)
        };
        self.channels.openings.join(owner.clone(), work).await
    }

    pub(super) fn owner(&self, caller: &Caller) -> Owner {
        if self.config.stateless {
            return "".into();
        }
        // A child that was told that nobody can be asked does not ask the next caller either, who could be.
        let Declared { capabilities, in_session, .. } = Declared::of(caller);
        let capabilities =
            [capabilities, in_session].map(|c| String::from_utf8_lossy(&c).into_owned()).join("\n");
        let legacy = caller.version.era() == Era::Legacy && self.channels.both.load(Ordering::Relaxed);
        let era = if legacy { IN_LEGACY } else { "" };
        format!("{}\n{}\n{capabilities}{era}", caller.profile, caller.principal().identity()).into()
    }

    async fn dial(&self, owner: &Owner) -> Result<Arc<dyn Transport>, Trouble> {
        match &self.reach.channels {
            Some(dial) => Ok(dial.dial(owner).await?),
            None => {
                let why = "no way to it is configured".into();
                Err(Reason::Unreachable { upstream: self.id().clone(), why }.into())
            }
        }
    }

    async fn negotiate(
        self: &Arc<Self>,
        mut transport: Arc<dyn Transport>,
        owner: &Owner,
        party: &Party,
        before: Kept,
    ) -> Result<Channel, Trouble> {
        if let Some(agreed) = transport.agreed(party.introduction(&before)).await? {
            self.channels.both.fetch_or(agreed.both_eras, Ordering::Relaxed);
            let Agreed { version, about, kept, .. } = agreed;
            return Ok(Channel::new(transport, version, about, Kept::read(Some(&kept))));
        }
        let by_owner = owner.ends_with(IN_LEGACY).then_some(Era::Legacy);
        let pinned = self.config.era.or(self.reach.channels_era).or(by_owner);
        if pinned != Some(Era::Legacy) {
            let discovered = handshake::discover(&transport, party, self.config.probe_timeout).await;
            let read: Result<Discovery, Trouble> = discovered.and_then(|result| {
                hello::discovery(&result).map_err(|why| Trouble::Way(TransportError::Garbage(why)))
            });
            if pinned.is_none() && matches!(read, Ok(Discovery::Both(_))) {
                self.channels.both.store(true, Ordering::Relaxed);
            }
            match read {
                Ok(Discovery::Modern(about) | Discovery::Both(about)) => {
                    let about = Arc::from(about);
                    return Ok(Channel::new(transport, Version::MODERN, about, Kept::default()));
                }
                Ok(Discovery::Legacy) if pinned.is_none() => {}
                Err(trouble) if pinned.is_none() && sign(&trouble, true) == Sign::Legacy => {
                    // Some servers end on a request before `initialize`.
                    if matches!(trouble, Trouble::Way(TransportError::Broken)) {
                        transport = self.dial(owner).await?;
                    }
                }
                Err(trouble) => return Err(trouble),
                Ok(Discovery::Legacy) => {
                    let why = "it is configured as modern and names no modern version".into();
                    return Err(Reason::Garbage { upstream: self.id().clone(), why }.into());
                }
            }
        }
        let (mut kept, about) = self.initialize(&transport, party).await?;
        let version = kept.version().unwrap_or(Version::NEWEST_LEGACY);
        if !self.config.stateless {
            (kept.level, kept.uris) = (before.level, before.uris);
            self.replay(&transport, &party.route(Some(version)), &kept).await;
        }
        Ok(Channel::new(transport, version, Arc::new(about), kept))
    }

    /// Forgets the channel when it is gone.
    fn watch(self: &Arc<Self>, owner: Owner, channel: &Arc<Channel>) {
        let (link, over) = (Arc::downgrade(self), self.over.clone());
        let (gone, channel) = (channel.transport.gone(), Arc::downgrade(channel));
        self.tasks.spawn(async move {
            tokio::select! {
                () = gone => {}
                () = over.cancelled() => return,
            }
            if let (Some(link), Some(channel)) = (link.upgrade(), channel.upgrade()) {
                link.channels.forget(&owner, &channel);
            }
        });
    }
}

impl Link {
    /// Opens for another pod's caller the channel of `owner` as that pod's link names it, or finds it open: the channel
    /// that has to be dialled here, and what was agreed on it. Errors: why there is none.
    pub fn host(&self, owner: &str, introduction: Introduction) -> Sent<(Arc<dyn Transport>, Agreed)> {
        let (link, owner): (_, Owner) = (self.inner.clone(), owner.into());
        async move {
            let opened = async {
                let transport = link.dial(&owner).await?;
                if let Some(open) =
                    link.channels.get(&owner).filter(|c| Arc::ptr_eq(&c.transport, &transport))
                {
                    return Ok(open);
                }
                let before = Kept::read(Some(&introduction.kept));
                link.opened_channel(&owner, transport, Party::introduced(&introduction), before).await
            };
            let channel = opened.await.map_err(Trouble::into_way)?;
            let kept = channel.kept.lock().expect("no holder of the kept state panics").write();
            let agreed = Agreed {
                version: channel.version,
                about: channel.about.clone(),
                both_eras: link.channels.both.load(Ordering::Relaxed),
                kept,
            };
            Ok((channel.transport.clone(), agreed))
        }
        .boxed()
    }
}

impl Channel {
    fn new(transport: Arc<dyn Transport>, version: Version, about: Arc<About>, kept: Kept) -> Channel {
        Channel { transport, version, about, kept: Mutex::new(kept) }
    }
}
