//! The profiles that are served and the links behind them, from one configuration to the next: what stays the same is kept
//! with all that it holds, and what is not needed any more ends once its calls have.

use super::catalogs::{Door as ToolDoor, Shelf};
use super::drafts::{self, Drafts};
use super::surfaces::Published;
use super::upstreams::{Recipe, linked, setting};
use super::{Programs, StartError, surfaces};
use crate::config::{self, Config, Globs};
use crate::demo::{DEMO, Demo};
use crate::edge::{Mount, Routes};
use crate::federation::{Composite, Member, Profile, Switch, Touched};
use crate::mcp::{Backend, UpstreamId};
use crate::policy::{Door, Ground, Policy};
use crate::relay::Relay;
use crate::telemetry::metrics;
use crate::upstream::link::Link;
use crate::vault::Vault;
use arc_swap::ArcSwap;
use futures_util::future::{join, join_all};
use secrecy::{ExposeSecret, SecretString};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long the ends of all upstreams may take: a child has 3 s after its input's end and 3 s after SIGTERM.
const FAREWELL: Duration = Duration::from_secs(8);
/// The longest that one upstream may hold up the lists of the others.
const LIST_LIMIT: Duration = Duration::from_secs(10);
/// How often it is looked whether a link is used still.
const LOOK: Duration = Duration::from_millis(100);

/// The profiles that are served and the links behind them, from one configuration to the next.
pub struct Links {
    relay: Option<Arc<Relay>>,
    demo: Option<Arc<Demo>>,
    vault: Vault,
    ground: Ground,
    shelf: Arc<Shelf>,
    drafts: Drafts,
    programs: Programs,
    now: Mutex<Now>,
    /// Links that nothing new goes to, until their last call has ended.
    retiring: TaskTracker,
    end: CancellationToken,
}

#[derive(Default)]
struct Now {
    links: BTreeMap<String, Kept>,
    profiles: BTreeMap<String, Served>,
    /// How many links were ever made.
    made: u64,
    policy: Option<Governing>,
}

/// The policy in effect, and what it was made of.
#[derive(Clone)]
struct Governing {
    number: u64,
    config: config::Policy,
    token: Option<SecretString>,
    policy: Arc<Policy>,
}

/// A link, and what it was made of: while that stays the same, so does the link.
#[derive(Clone)]
struct Kept {
    link: Arc<Link>,
    number: u64,
    recipe: Arc<Recipe>,
}

struct Served {
    mount: Arc<Mount>,
    /// Its upstreams as policy guards them.
    guarded: Guarded,
    switch: Arc<Switch>,
    makeup: Makeup,
}

type Guarded = BTreeMap<String, Arc<dyn Backend>>;

/// What clients see of a profile comes of this.
#[derive(PartialEq)]
struct Makeup {
    profile: config::Profile,
    /// The number of the policy.
    policy: u64,
    members: Vec<Part>,
    /// The catalogs whose operations are tools.
    published: Published,
}

#[derive(PartialEq)]
struct Part {
    id: String,
    /// The number of its link.
    link: u64,
    /// What policy makes of its tools.
    upstream: config::Upstream,
    rename: BTreeMap<String, String>,
    tools: Globs,
    uri_prefixes: Vec<String>,
}

impl Makeup {
    /// What clients may see differently than before.
    fn touches(&self, before: &Makeup) -> Touched {
        let others = |part: &Part| (part.id.clone(), part.link, part.uri_prefixes.clone());
        let seen = |makeup: &Makeup| {
            let config::Profile { only, scopes, .. } = &makeup.profile;
            (makeup.policy, only.clone(), scopes.clone())
        };
        let same = self.members.iter().map(others).eq(before.members.iter().map(others));
        if !same || seen(self) != seen(before) {
            return Touched::ALL;
        }
        let names = |makeup: &Makeup| (makeup.profile.tools.clone(), makeup.profile.rename.clone());
        let tools = self.members != before.members
            || names(self) != names(before)
            || self.published.seen() != before.published.seen();
        Touched { tools, ..Touched::default() }
    }
}

impl Links {
    pub fn new(
        demo: bool,
        relay: Option<Arc<Relay>>,
        vault: Vault,
        ground: Ground,
        programs: Programs,
    ) -> Links {
        let shelf = Arc::new(Shelf::new(demo));
        Links {
            relay,
            vault,
            demo: demo.then(Arc::default),
            ground,
            drafts: Drafts::new(shelf.clone(), programs.logical.clone()),
            shelf,
            programs,
            now: Mutex::default(),
            retiring: TaskTracker::new(),
            end: CancellationToken::new(),
        }
    }

    /// The credentials that the links bear.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// The catalogs of the execute surface, and what reaches their sources.
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// What the execute surfaces of all profiles keep.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// How this pod and others reach one another's channels, where they do.
    pub fn relay(&self) -> Option<Arc<Relay>> {
        self.relay.clone()
    }

    /// Serves what this configuration says from now on. Links whose settings are the same stay, with all that they hold;
    /// others end once their calls have. Errors: a setting that cannot be used, and then nothing has changed.
    pub fn serve(&self, config: &Config, routes: &ArcSwap<Routes>) -> Result<(), StartError> {
        let config = &*self.shown(config);
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let (links, made) = self.links(config, &now)?;
        let governing = self.governing(&config.policy, now.policy.as_ref())?;
        let catalogs = self.shelf.read(config, &self.vault)?;
        surfaces::check(config, &catalogs.catalogs)?;
        let (mut mounts, mut profiles) = (Routes::default(), BTreeMap::new());
        for (name, profile, upstreams) in config.served_profiles() {
            let made_of = |id: &&str| Some(part(id, links.get(*id)?.number, config, &profile));
            let members = upstreams.iter().filter_map(made_of).collect();
            let published = Published::of(&profile, &catalogs.catalogs);
            let makeup = Makeup { profile: profile.clone(), policy: governing.number, members, published };
            let default = name == config::DEFAULT_PROFILE;
            let served = match now.profiles.remove(name) {
                Some(same) if same.makeup == makeup => same,
                Some(before) => {
                    let touched = makeup.touches(&before.makeup);
                    let guarded = self.guarded(name, &makeup, &links, &governing.policy);
                    before.switch.turn(self.composite(name, &makeup, &guarded, &governing.policy), touched);
                    let (name, backend) = (before.mount.name.clone(), before.switch.clone());
                    let mount = Arc::new(Mount { name, backend, door: Door::of(&profile) });
                    Served { makeup, mount, guarded, ..before }
                }
                None => {
                    let guarded = self.guarded(name, &makeup, &links, &governing.policy);
                    let composite = self.composite(name, &makeup, &guarded, &governing.policy);
                    let switch = Arc::new(Switch::new(composite));
                    let path: Arc<str> = if default { "".into() } else { name.into() };
                    let mount =
                        Arc::new(Mount { name: path, backend: switch.clone(), door: Door::of(&profile) });
                    Served { mount, guarded, switch, makeup }
                }
            };
            mounts.mounts.insert(served.mount.name.clone(), served.mount.clone());
            profiles.insert(name.to_owned(), served);
        }
        routes.store(Arc::new(mounts));
        for gone in std::mem::replace(&mut now.profiles, profiles).into_values() {
            // Whoever still listens to it is to hear that there is nothing any more.
            let nothing = Profile {
                name: gone.mount.name.clone(),
                members: Vec::new(),
                tools: Globs::default(),
                instructions: None,
            };
            gone.switch.turn(Composite::new(nothing), Touched::ALL);
        }
        let doors = now.profiles.values().map(|served| (served.mount.name.clone(), served.door()));
        self.shelf.doors().open(config, doors.collect());
        let wanted = drafts::wanted(config, &catalogs).into_iter().filter_map(|id| {
            let (kept, upstream) =
                (links.get(id)?, part(id, 0, config, &config::Profile::default()).upstream);
            // What is said of its tools in every profile; who may call them is each profile's.
            let everywhere =
                governing.policy.guard("", &config::Profile::default(), &upstream, kept.link.clone());
            let made_of = (kept.number, governing.number, upstream);
            Some((id.to_owned(), drafts::Wanted { made_of, backend: everywhere }))
        });
        self.drafts.serve(config, catalogs, wanted.collect());
        now.made = made;
        now.policy = Some(governing);
        for (id, before) in std::mem::replace(&mut now.links, links) {
            let stays = now.links.get(&id);
            if stays.is_none_or(|kept| kept.number != before.number) {
                tracing::info!(upstream = id, "an upstream's link ends once its calls have");
                self.retire(id, before.link, stays.is_none(), config.timeouts.call);
            }
        }
        Ok(())
    }

    /// A link for each upstream that is switched on: the one there is, where it would be made the same way.
    fn links(&self, config: &Config, now: &Now) -> Result<(BTreeMap<String, Kept>, u64), StartError> {
        let (mut links, mut made) = (BTreeMap::new(), now.made);
        for (name, upstream) in config.enabled_upstreams() {
            let id = UpstreamId::new(name).ok_or_else(|| setting(name, "", "is not an upstream id"))?;
            let recipe = Recipe::of(&id, upstream, config)?;
            let kept = match now.links.get(name) {
                Some(kept) if *kept.recipe == recipe => kept.clone(),
                _ => {
                    made += 1;
                    let link = linked(id, upstream, config, self.relay.as_ref(), &self.vault)?;
                    Kept { link, number: made, recipe: Arc::new(recipe) }
                }
            };
            links.insert(name.to_owned(), kept);
        }
        Ok((links, made))
    }

    /// The policy that is configured: the one there is, where it would be made the same way.
    fn governing(
        &self,
        config: &config::Policy,
        before: Option<&Governing>,
    ) -> Result<Governing, StartError> {
        let revealed = config.webhook.token.as_ref().map(config::Secret::reveal).transpose();
        let token = revealed.map_err(|error| StartError::Setting {
            key: "policy.webhook.token".to_owned(),
            why: error.to_string(),
        })?;
        let text = |token: &Option<SecretString>| token.as_ref().map(|t| t.expose_secret().to_owned());
        if let Some(same) = before.filter(|b| b.config == *config && text(&b.token) == text(&token)) {
            return Ok(same.clone());
        }
        let number = before.map_or(0, |before| before.number + 1);
        let policy = Arc::new(Policy::new(config, token.clone(), self.ground.clone()));
        Ok(Governing { number, config: config.clone(), token, policy })
    }

    /// The configuration, in which the demonstration shows all there is where nothing is said of its profile.
    fn shown<'c>(&self, config: &'c Config) -> Cow<'c, Config> {
        if self.demo.is_none() || config.profiles.get(config::DEFAULT_PROFILE).is_some() {
            return Cow::Borrowed(config);
        }
        let both = config::Profile { surface: config::Surface::Both, ..config::Profile::default() };
        let others = config.profiles.iter().map(|(name, profile)| (name.to_owned(), profile.clone()));
        let profiles = others.chain([(config::DEFAULT_PROFILE.to_owned(), both)]).collect();
        Cow::Owned(Config { profiles, ..config.clone() })
    }

    /// Whether the profile has the demonstration.
    fn shows_demo(&self, profile: &str) -> bool {
        self.demo.is_some() && profile == config::DEFAULT_PROFILE
    }

    /// A profile's upstreams as policy guards them; an upstream of the demonstration's name goes before it.
    fn guarded(
        &self,
        name: &str,
        makeup: &Makeup,
        links: &BTreeMap<String, Kept>,
        policy: &Policy,
    ) -> Guarded {
        let guard =
            |upstream: &config::Upstream, backend| policy.guard(name, &makeup.profile, upstream, backend);
        let one = |part: &Part| {
            let kept = links.get(&part.id)?;
            Some((part.id.clone(), guard(&part.upstream, kept.link.clone())))
        };
        let mut all: Guarded = makeup.members.iter().filter_map(one).collect();
        if let Some(demo) = self.demo.clone().filter(|_| self.shows_demo(name)) {
            all.entry(DEMO.to_owned()).or_insert_with(|| guard(&config::Upstream::default(), demo));
        }
        all
    }

    fn composite(&self, name: &str, makeup: &Makeup, guarded: &Guarded, policy: &Policy) -> Composite {
        let member = |part: &Part| {
            Some(Member {
                backend: guarded.get(&part.id)?.clone(),
                rename: part.rename.clone(),
                tools: match makeup.profile.surface.has_tools() {
                    true => part.tools.clone(),
                    false => nothing(),
                },
                own_names: false,
                uri_prefixes: part.uri_prefixes.clone(),
                limit: LIST_LIMIT,
            })
        };
        let mount = if name == config::DEFAULT_PROFILE { "" } else { name };
        let stands = self.shelf.stands(mount);
        let surface =
            surfaces::of(name, &makeup.profile, policy, &self.programs, self.shelf.sources(), stands);
        let guarded_surface = |surface| Member {
            backend: policy.guard(name, &makeup.profile, &config::Upstream::default(), Arc::new(surface)),
            rename: BTreeMap::new(),
            tools: Globs::default(),
            own_names: true,
            uri_prefixes: Vec::new(),
            limit: LIST_LIMIT,
        };
        // First: what is taught of it stands above what upstreams say.
        let surface = surface.map(guarded_surface);
        let mut members: Vec<Member> =
            surface.into_iter().chain(makeup.members.iter().filter_map(member)).collect();
        if let Some(plain) = makeup.published.tools(
            name,
            &makeup.profile,
            policy,
            &self.programs,
            &self.ground.keyring,
            self.shelf.sources(),
        ) {
            members.push(Member {
                backend: policy.guard(name, &makeup.profile, &config::Upstream::default(), Arc::new(plain)),
                rename: BTreeMap::new(),
                // Their names have the form of the others', `<catalog>__…`, and are chosen by the same patterns.
                tools: makeup.profile.tools.clone(),
                own_names: true,
                uri_prefixes: Vec::new(),
                limit: LIST_LIMIT,
            });
        }
        let own = makeup.members.iter().all(|part| part.id != DEMO).then(|| guarded.get(DEMO)).flatten();
        members.extend(own.map(|demo| Member {
            backend: demo.clone(),
            rename: BTreeMap::new(),
            tools: match makeup.profile.surface.has_tools() {
                true => Globs::default(),
                false => nothing(),
            },
            own_names: false,
            uri_prefixes: Vec::new(),
            limit: LIST_LIMIT,
        }));
        Composite::new(Profile {
            name: name.into(),
            members,
            tools: makeup.profile.tools.clone(),
            instructions: makeup.profile.instructions.clone(),
        })
    }

    /// Ends a link that nothing new goes to, once its calls have ended, at the latest after `patience`.
    fn retire(&self, id: String, link: Arc<Link>, gone: bool, patience: Duration) {
        let end = self.end.clone();
        self.retiring.spawn(async move {
            let unused = async {
                // The profiles of before, the calls that are on their way through them, and streams that move.
                while Arc::strong_count(&link) > 1 {
                    sleep(LOOK).await;
                }
                // A call that came by the last of them is under way by then.
                sleep(LOOK).await;
                link.idle().await;
            };
            tokio::select! {
                _ = timeout(patience, unused) => {}
                () = end.cancelled() => {}
            }
            link.hang_up().await;
            if gone {
                // It never was there where nobody had asked for it.
                let _ = metrics().upstream_up.remove_label_values(&[&id]);
            }
            tracing::info!(upstream = id, "an upstream's link has ended");
        });
    }

    /// Ends what the links hold open: standing calls, shared sessions, children. Waits for it, for a bounded time.
    pub async fn hang_up(&self) {
        self.end.cancel();
        self.drafts.end();
        self.retiring.close();
        let links = std::mem::take(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner).links);
        let all = join_all(links.into_values().map(|kept| kept.link.hang_up()));
        if timeout(FAREWELL, join(all, self.retiring.wait())).await.is_err() {
            tracing::warn!("some upstreams were not ended in time");
        }
    }
}

impl Served {
    /// How its upstreams' tools are reached by what is not the client itself.
    fn door(&self) -> ToolDoor {
        let parts = self.makeup.members.iter();
        let upstreams = parts.filter_map(|part| {
            let backend = self.guarded.get(&part.id)?.clone();
            Some((part.id.clone(), (backend, part.tools.clone())))
        });
        let mut upstreams: BTreeMap<_, _> = upstreams.collect();
        if let Some(demo) = self.guarded.get(DEMO) {
            upstreams.entry(DEMO.to_owned()).or_insert_with(|| (demo.clone(), Globs::default()));
        }
        ToolDoor { tools: self.makeup.profile.tools.clone(), upstreams }
    }
}

/// Patterns that let nothing through.
fn nothing() -> Globs {
    Globs { deny: vec!["*".to_owned()], ..Globs::default() }
}

fn part(id: &str, link: u64, config: &Config, profile: &config::Profile) -> Part {
    let upstream = config.enabled_upstreams().find(|(name, _)| *name == id).map(|(_, upstream)| upstream);
    let own = upstream.into_iter().flat_map(|u| u.rename.iter());
    let here =
        profile.rename.iter().filter(|(upstream, _)| *upstream == id).flat_map(|(_, names)| names.iter());
    Part {
        id: id.to_owned(),
        link,
        upstream: config::Upstream {
            overrides: upstream.map(|u| u.overrides.clone()).unwrap_or_default(),
            pin: upstream.map(|u| u.pin).unwrap_or_default(),
            pins: upstream.map(|u| u.pins.clone()).unwrap_or_default(),
            ..config::Upstream::default()
        },
        // The profile's names go before the upstream's.
        rename: own.chain(here).map(|(tool, shown)| (tool.to_owned(), shown.to_owned())).collect(),
        tools: upstream.map(|u| u.tools.clone()).unwrap_or_default(),
        uri_prefixes: upstream.map(|u| u.uri_prefixes.clone()).unwrap_or_default(),
    }
}
