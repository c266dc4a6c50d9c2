//! Catalogs of upstreams that nobody wrote one for: drafted from the tools that they list, when the gateway starts, when they
//! come back, and when they say that their tools are others. Knows nothing of who may call them.

use super::catalogs::{self, Served, Shelf};
use crate::auth;
use crate::config::{self, Config, CredentialKind, Ordered};
use crate::execute::catalog::{Loaded, Source};
use crate::execute::import::{Server, of_tools};
use crate::execute::logical::Logical;
use crate::mcp::{
    Age, Backend, CONNECT_TOOL, Call, Caller, Cancel, Client, Event, Fault, Kept, Kind, Listing,
};
use crate::wire::params::Params;
use crate::wire::{Method, Raw, Version};
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

/// The first pause after tools that could not be listed, and the longest. An upstream that comes back says so by itself. So
/// long it also waits until tools that are said to be others are listed: longer each time that they were, up to the longest,
/// and the first again once nothing was said for the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often tools are listed that nobody says are others: so the list that callers are judged by stays known.
const AGAIN: Duration = Duration::from_secs(900);
/// A deadline must be a time.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// What is served: the catalogs of the configuration, and the drafts beside them.
pub(super) struct Drafts(Arc<Inner>);

struct Inner {
    shelf: Arc<Shelf>,
    logical: Logical,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// What the configuration says, drafts aside.
    base: Option<Served>,
    settings: Ordered<config::CatalogHere>,
    /// By the upstreams' ids.
    followed: BTreeMap<String, Followed>,
    /// How many were followed so far.
    so_far: u64,
}

/// An upstream whose tools are drafted.
struct Followed {
    made_of: MadeOf,
    number: u64,
    draft: Option<Loaded>,
    /// The one before.
    last: Option<Loaded>,
    _following: AbortOnDropHandle<()>,
}

/// An upstream that is to be drafted: while that stays the same, so does what was drafted.
pub(super) struct Wanted {
    pub made_of: MadeOf,
    pub backend: Arc<dyn Backend>,
}

/// The numbers of its link and of the policy, and what is said of its tools.
type MadeOf = (u64, u64, config::Upstream);

impl Drafts {
    pub(super) fn new(shelf: Arc<Shelf>, logical: Logical) -> Drafts {
        Drafts(Arc::new(Inner { shelf, logical, now: Mutex::default() }))
    }

    /// Serves these catalogs from now on, and beside them drafts of these upstreams, which come as the upstreams answer. What was
    /// drafted of a link that stays is kept.
    pub(super) fn serve(&self, config: &Config, base: Served, wanted: BTreeMap<String, Wanted>) {
        let mut now = self.0.now();
        let now = &mut *now;
        now.base = Some(base);
        now.settings = config.catalogs.settings.clone();
        let last = |(id, one): (&String, &Followed)| {
            Some((id.clone(), one.draft.as_ref().or(one.last.as_ref())?.clone()))
        };
        let mut last: BTreeMap<_, _> = now.followed.iter().filter_map(last).collect();
        now.followed.retain(|id, one| wanted.get(id).is_some_and(|wanted| wanted.made_of == one.made_of));
        for (id, Wanted { made_of, backend }) in wanted {
            now.followed.entry(id.clone()).or_insert_with(|| {
                now.so_far += 1;
                let last = last.remove(&id);
                let following = tokio::spawn(follow(self.0.clone(), id, now.so_far, backend));
                let following = AbortOnDropHandle::new(following);
                Followed { made_of, number: now.so_far, draft: None, last, _following: following }
            });
        }
        self.0.publish(now);
    }

    /// Follows nobody any more.
    pub(super) fn end(&self) {
        self.0.now().followed.clear();
    }
}

/// The upstreams that are to be drafted: those of the profiles that execute, for which there is no catalog and whose tools are
/// the same for everyone.
pub(super) fn wanted<'a>(config: &'a Config, base: &Served) -> Vec<&'a str> {
    if !config.catalogs.drafts {
        return Vec::new();
    }
    let executing = config.served_profiles().into_iter().filter(|(_, profile, _)| profile.surface.executes());
    let mut wanted: Vec<&str> = executing.flat_map(|(_, _, upstreams)| upstreams).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let of = |id: &str| config.enabled_upstreams().find(|(name, _)| *name == id).map(|(_, one)| one);
    wanted.retain(|id| {
        let Some(upstream) = of(id) else { return false };
        let personal = knows_callers(upstream);
        if personal {
            tracing::info!(
                upstream = id,
                "no catalog is drafted of its tools, which may be others for each caller; write one by plasm-mcp catalog import mcp"
            );
        }
        !personal && !base.catalogs.iter().any(|(_, loaded)| is_of(&loaded.catalog.source, id, upstream))
    });
    wanted
}

/// Whether it knows each caller by a login of their own.
pub(super) fn knows_callers(upstream: &config::Upstream) -> bool {
    matches!(upstream.auth.kind, CredentialKind::Oauth | CredentialKind::TokenExchange)
}

/// Whether that source is the upstream.
pub(super) fn is_of(source: &Source, id: &str, upstream: &config::Upstream) -> bool {
    let Source::Mcp { url, upstream: named, .. } = source else { return false };
    let same = |url: &String| upstream.url.as_deref().map(catalogs::bare) == Some(catalogs::bare(url));
    named.as_deref() == Some(id) || url.as_ref().is_some_and(same)
}

impl Inner {
    /// Held for a few moves alone, never over an await.
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves what there is.
    fn publish(&self, now: &Now) {
        let Some(base) = &now.base else { return };
        let (mut all, mut drafted) = ((*base.catalogs).clone(), base.drafted.clone());
        let mut awaited = BTreeMap::new();
        for (upstream, one) in &now.followed {
            let Some(draft) = one.draft.as_ref().or(one.last.as_ref()) else { continue };
            let settings = now.settings.get(&draft.catalog.id);
            if settings.is_some_and(|settings| !settings.enabled) {
                continue;
            }
            let catalog = &draft.catalog.id;
            if one.draft.is_none() {
                awaited.insert(catalog.clone(), draft.clone());
                continue;
            }
            match all.add(catalogs::here(draft.clone(), settings)) {
                true => drop(drafted.insert(catalog.clone())),
                false => {
                    tracing::warn!(upstream, catalog, "a draft is not served: another catalog has its id");
                }
            }
        }
        let catalogs = Arc::new(all);
        self.logical.serve(catalogs.clone());
        self.shelf.serve(Served { catalogs, drafted, awaited, sources: base.sources.clone() });
    }

    /// Serves another draft of an upstream, unless nothing changed, or another follower has taken over. Whether it is another.
    fn drafted(&self, upstream: &str, number: u64, draft: Option<Loaded>) -> bool {
        let mut now = self.now();
        let Some(one) = now.followed.get_mut(upstream).filter(|one| one.number == number) else {
            return false;
        };
        let digest = |draft: &Option<Loaded>| draft.as_ref().map(|one| one.digest.clone());
        if digest(&one.draft) == digest(&draft) {
            return false;
        }
        match &draft {
            Some(draft) => tracing::info!(
                upstream,
                catalog = draft.catalog.id,
                entities = draft.catalog.entities.len(),
                operations = draft.catalog.operations.len(),
                digest = draft.digest,
                "a catalog is drafted from an upstream's tools"
            ),
            None => tracing::info!(upstream, "an upstream lists no tools: there is no draft of it"),
        }
        one.last = std::mem::replace(&mut one.draft, draft).or(one.last.take());
        self.publish(&now);
        true
    }
}

/// Whom the gateway lists an upstream's tools for, where that is nobody in particular. What is known of a list in that name is
/// what callers of drafts are judged by.
pub(super) fn caller() -> Arc<Caller> {
    Arc::new(Caller {
        access: auth::anonymous(),
        profile: "".into(),
        client: Arc::new(Client::default()),
        version: Version::MODERN,
        session: Arc::new(Kept::sessionless("drafts")),
    })
}

/// Drafts an upstream's tools whenever they may be others, until it is aborted.
async fn follow(inner: Arc<Inner>, upstream: String, number: u64, backend: Arc<dyn Backend>) {
    let caller = caller();
    let mut told = listen(&backend, &caller).await;
    let (mut pause, mut calm) = (FIRST_PAUSE, FIRST_PAUSE);
    loop {
        let mut other = false;
        // What was told up to now is in what is listed next.
        while let Some(Some(_)) = told.next().now_or_never() {}
        let next = match draft(&backend, &caller, &upstream).await {
            Ok(draft) => {
                // Who sees what of it in which profile is known before it is served.
                for guarded in inner.shelf.doors().of(&upstream) {
                    let _ = guarded.list(caller.clone(), Kind::Tool, Age::Known).await;
                }
                other = inner.drafted(&upstream, number, draft);
                pause = FIRST_PAUSE;
                AGAIN
            }
            Err(fault) => {
                let why = fault.word();
                tracing::debug!(upstream, why, "an upstream's tools cannot be listed to draft a catalog");
                let now = pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
                now
            }
        };
        let since = Instant::now();
        let still = tokio::select! {
            still = changed(&mut told) => Some(still),
            () = sleep(next) => None,
        };
        if since.elapsed() >= LONGEST_PAUSE {
            calm = FIRST_PAUSE;
        }
        let Some(still) = still else { continue };
        // Otherwise an upstream could have it draft and publish without an end.
        sleep(if still { calm } else { calm.max(pause) }).await;
        if other {
            calm = (calm * 2).min(LONGEST_PAUSE);
        }
        if !still {
            told = listen(&backend, &caller).await;
        }
    }
}

/// The changes of an upstream's list of tools; that it is back is one.
async fn listen(backend: &Arc<dyn Backend>, caller: &Arc<Caller>) -> BoxStream<'static, Event> {
    let params = Raw::of(&json!({"notifications": {"toolsListChanged": true}}));
    let call = Call {
        caller: caller.clone(),
        method: Method::Listen,
        params: Params::read(params).expect("params of our own making are an object"),
        progress: None,
        resume: None,
        trail: None,
        cancel: Cancel::never(),
        deadline: Instant::now() + FOREVER,
        watch: None,
    };
    backend.call(call).await.into_events()
}

/// Resolves once the tools may be others; false: nothing more is told.
async fn changed(told: &mut BoxStream<'static, Event>) -> bool {
    loop {
        match told.next().await {
            Some(Event::Note(note)) if note.method == Method::ToolsChanged => return true,
            // Nobody is here to answer: dropped, it is refused.
            Some(Event::Note(_) | Event::Ask(_) | Event::Pause) => {}
            Some(Event::Done(_)) | None => return false,
        }
    }
}

/// `None`: it has no tools.
async fn draft(
    backend: &Arc<dyn Backend>,
    caller: &Arc<Caller>,
    upstream: &str,
) -> Result<Option<Loaded>, Fault> {
    let tools = backend.list(caller.clone(), Kind::Tool, Age::Fresh).await?;
    let about = backend.about(caller.clone()).await?;
    let info: Value = about.server_info.as_ref().and_then(|info| info.read().ok()).unwrap_or_default();
    let (name, title) = (upstream.to_owned(), title(&info));
    let made = tokio::task::spawn_blocking(move || {
        // In the order of their names: whatever order it lists them in, every pod gives the same draft.
        let mut items: Vec<_> =
            tools.items().iter().filter(|item| &*item.name != CONNECT_TOOL).cloned().collect();
        items.sort_by(|a, b| a.name.cmp(&b.name));
        items.dedup_by(|a, b| a.name == b.name);
        if items.is_empty() {
            return None;
        }
        let server = Server { name: &name, title: title.as_deref(), url: None, writes: true };
        match of_tools(&server, &Listing::new(Kind::Tool, items)) {
            Ok(draft) => Some(draft.loaded),
            Err(why) => {
                tracing::error!(upstream = name, %why, "an upstream's tools give no catalog; write one by plasm-mcp catalog import mcp");
                None
            }
        }
    });
    Ok(made.await.unwrap_or_default())
}

fn title(info: &Value) -> Option<String> {
    ["title", "name"].iter().find_map(|key| info[*key].as_str()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::logical;
    use crate::mcp::scripted::{Health, Scripted, listing};
    use crate::store::{Memory, PodId};

    #[tokio::test]
    async fn a_draft_that_is_listed_anew_is_awaited_and_one_that_nobody_follows_is_gone() {
        let (shelf, store) = (Arc::new(Shelf::new(false)), Arc::new(Memory::new(1 << 20)));
        let logical = Logical::new(PodId::random(), store, Arc::default(), logical::Settings::default());
        let drafts = Drafts::new(shelf.clone(), logical);
        let config: Config = serde_json::from_value(json!({})).unwrap();
        let base = Served::clone(&shelf.now());
        let tool = r#"{"name":"say","inputSchema":{"type":"object"}}"#;
        let (lists, _listening) = Scripted::new("up");
        let (hangs, _hanging) = Scripted::new("up");
        hangs.set(Health::Hangs);
        let serve = |number, backend: Option<Scripted>| {
            let made_of = (number, 0, config::Upstream::default());
            let wanted = backend.map(|one| Wanted { made_of, backend: Arc::new(one) });
            let wanted = wanted.map(|wanted| ("up".to_owned(), wanted)).into_iter().collect();
            drafts.serve(&config, base.clone(), wanted);
        };
        let there = || {
            let now = shelf.now();
            (now.catalogs.get("up").is_some(), now.awaited.contains_key("up"))
        };
        serve(1, Some(lists.listing(Kind::Tool, &[tool])));
        let come = async {
            while there() != (true, false) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), come).await.expect("it is drafted");
        serve(2, Some(hangs));
        assert_eq!(there(), (false, true));
        serve(3, None);
        assert_eq!(there(), (false, false));
    }

    #[tokio::test]
    async fn an_upstream_whose_tools_are_others_each_time_is_listed_ever_more_seldom() {
        let (shelf, store) = (Arc::new(Shelf::new(false)), Arc::new(Memory::new(1 << 20)));
        let logical = Logical::new(PodId::random(), store, Arc::default(), logical::Settings::default());
        let drafts = Drafts::new(shelf.clone(), logical);
        let config: Config = serde_json::from_value(json!({})).unwrap();
        let (up, mut streams) = Scripted::new("up");
        let up = Arc::new(up);
        let wanted = Wanted { made_of: (1, 0, config::Upstream::default()), backend: up.clone() };
        drafts.serve(&config, Served::clone(&shelf.now()), [("up".to_owned(), wanted)].into());
        let listener = streams.recv().await.unwrap();
        let mut digests = std::collections::BTreeSet::new();
        // Again and again it has other tools, and says so: they are listed at once, after 1 s and after 3 s.
        for n in 0..80 {
            let tool = format!("{{\"name\":\"t{n}\",\"inputSchema\":{{\"type\":\"object\"}}}}");
            up.list_now(Kind::Tool, listing(Kind::Tool, &[&tool]));
            let note =
                crate::mcp::Note { method: Method::ToolsChanged, params: Raw::trusted("{}"), at: None };
            let _ = listener.say.try_send(Event::Note(note));
            sleep(Duration::from_millis(50)).await;
            digests.extend(shelf.now().catalogs.get("up").map(|draft| draft.digest.clone()));
        }
        assert!((2..=4).contains(&digests.len()), "{}", digests.len());
    }
}
