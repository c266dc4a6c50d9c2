//! What an upstream says of itself, kept for as long as it may be.

use super::begin::Job;
use super::hello::{self, Discovery};
use super::speak::Spoken;
use super::trouble::Trouble;
use super::{About, Arc, ArcSwapOption, Caller, Fault, Inner, Method};
use crate::mcp::Reason;
use crate::upstream::transport::Route;
use crate::wire::Era;
use moka::sync::Cache;
use std::time::Duration;
use tokio::time::Instant;

const REMEMBERED: u64 = 10_000;

pub(super) struct Abouts {
    /// Discoveries, by caller; those that hold for all under the empty key.
    modern: Cache<Arc<str>, Arc<Dated>>,
    all: Arc<str>,
    /// Whether each caller comes with a credential of their own: what is said to one is kept for that one, and is old at
    /// once.
    personal: bool,
    /// The last result of `initialize`, whoever asked: a legacy server does not say for whom it holds.
    hello: ArcSwapOption<About>,
}

struct Dated {
    about: Arc<About>,
    at: Instant,
}

impl Abouts {
    pub(super) fn new(personal: bool) -> Abouts {
        Abouts {
            personal,
            modern: Cache::builder().max_capacity(REMEMBERED).time_to_idle(Duration::from_secs(3600)).build(),
            all: "".into(),
            hello: ArcSwapOption::empty(),
        }
    }

    pub(super) fn keep(&self, caller: &Arc<str>, about: About) -> Arc<About> {
        let about = self.narrowed(about);
        let key = if about.private { caller } else { &self.all };
        let about = Arc::new(about);
        self.modern.insert(key.clone(), Arc::new(Dated { about: about.clone(), at: Instant::now() }));
        about
    }

    fn narrowed(&self, about: About) -> About {
        match self.personal {
            true => About { private: true, ttl_ms: 0, ..about },
            false => about,
        }
    }

    pub(super) fn keep_hello(&self, caller: &Arc<str>, about: About) -> Arc<About> {
        let about = Arc::new(self.narrowed(about));
        let mut for_all = about.clone();
        if self.personal {
            self.modern.insert(caller.clone(), Arc::new(Dated { about: about.clone(), at: Instant::now() }));
            for_all = Arc::new(About { instructions: None, ..(*about).clone() });
        }
        self.hello.store(Some(for_all));
        about
    }

    /// The result of `initialize` as this caller may know it.
    fn hello_to(&self, caller: &Arc<str>) -> Option<Arc<About>> {
        match self.personal {
            true => self.known(caller).map(|dated| dated.about.clone()),
            false => self.hello(),
        }
    }

    pub(super) fn hello(&self) -> Option<Arc<About>> {
        self.hello.load_full()
    }

    /// The discovery for this caller, if it is fresh, or was made since `since`.
    fn fresh(&self, caller: &Arc<str>, since: Instant) -> Option<Arc<About>> {
        let dated = self.known(caller)?;
        let age = dated.at.elapsed().as_millis() as u64;
        (dated.at >= since || age < dated.about.ttl_ms).then(|| dated.about.clone())
    }

    fn known(&self, caller: &Arc<str>) -> Option<Arc<Dated>> {
        self.modern.get(&self.all).or_else(|| self.modern.get(caller))
    }
}

impl Inner {
    pub(super) async fn about(self: Arc<Self>, caller: Arc<Caller>) -> Result<Arc<About>, Fault> {
        if let Some(hello) = self.said_before(&caller) {
            return Ok(hello);
        }
        let began = Instant::now();
        let hop = self.hop(&caller).await.map_err(|trouble| self.failed(trouble, true))?;
        if let Some(channel) = &hop.channel {
            return Ok(channel.about.clone());
        }
        if !hop.is_modern() {
            return match self.abouts.hello_to(caller.session.key()) {
                Some(hello) => Ok(hello),
                None => self.look(&caller).await.map_err(|trouble| self.failed(trouble, true)),
            };
        }
        if let Some(about) = self.abouts.fresh(caller.session.key(), began) {
            return Ok(about);
        }
        let job = Job::own(&self, &caller, Method::Discover, None);
        let result = self.result_of(&job).await?;
        match hello::discovery(&result) {
            Ok(Discovery::Modern(about) | Discovery::Both(about)) => {
                Ok(self.abouts.keep(caller.session.key(), *about))
            }
            Ok(Discovery::Legacy) => {
                self.spoken.store(None);
                let why = "it no longer speaks the version that it spoke".into();
                Err(Reason::Unreachable { upstream: self.id().clone(), why }.into())
            }
            Err(why) => Err(Reason::Garbage { upstream: self.id().clone(), why }.into()),
        }
    }

    /// What a legacy upstream over HTTP said to somebody: a session that only begins costs it none of its own.
    fn said_before(&self, caller: &Caller) -> Option<Arc<About>> {
        let legacy = match self.spoken.load().as_deref()? {
            Spoken::Http(era) => *era == Era::Legacy,
            Spoken::Both => caller.version.era() == Era::Legacy,
            Spoken::Channel => false,
        };
        self.abouts.hello_to(caller.session.key()).filter(|_| legacy && self.health.is_up())
    }

    /// Asks a legacy upstream what it is where every session was opened by other pods: by a session of our own, which
    /// is ended at once.
    async fn look(&self, caller: &Caller) -> Result<Arc<About>, Trouble> {
        let Some(http) = &self.reach.http else {
            let why = "it is not reached over HTTP".into();
            return Err(Reason::Unreachable { upstream: self.id().clone(), why }.into());
        };
        let party = if self.is_personal() { self.party(caller) } else { self.ourselves() };
        let (kept, about) = self.initialize(http, &party).await?;
        let route = Route { session: kept.session(), ..party.route(kept.version()) };
        if let Err(error) = http.close(route).await {
            tracing::debug!(upstream = %self.id(), %error, "an upstream session was not ended");
        }
        Ok(self.abouts.keep_hello(caller.session.key(), about))
    }
}
