//! The catalogs that are served and the sources behind them, from one configuration to the next. Those of before are kept by
//! the sessions that pin them.

use super::{StartError, drafts, outbound};
use crate::config::{self, Config, Globs};
use crate::demo;
use crate::execute::catalog::{self, Catalog, Loaded, Source};
use crate::execute::sources::{
    Accounts, Ask, Page, Reached, Refused, Secrets, Settings, SourceError, SourceErrorKind,
};
use crate::execute::sources::{Sources, Upstreams};
use crate::mcp::{Access, Backend, Caller, Kind, UpstreamId};
use crate::upstream::credentials::{Credentials, Lack, Refusal};
use crate::vault::{Spec, Vault};
use arc_swap::ArcSwap;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderValue;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The catalogs of one configuration, and what reaches their sources.
#[derive(Clone)]
pub struct Served {
    pub catalogs: Arc<catalog::Catalogs>,
    /// Those of them that are drafts or the demonstration's own, by their ids: who does not see their tools does not see them.
    pub drafted: BTreeSet<String>,
    /// The last drafts of upstreams that are followed and list nothing at this time, by their ids: what was taught of them goes
    /// on, which otherwise ends with its catalog.
    pub awaited: BTreeMap<String, Loaded>,
    pub sources: Arc<dyn Sources>,
}

/// The catalogs that are served, from one configuration to the next.
pub struct Shelf {
    now: Arc<ArcSwap<Served>>,
    /// The demonstration's own, where that is served.
    demo: Option<Loaded>,
    doors: Arc<Doors>,
}

/// How tools of the profiles' upstreams are reached: as each profile has them, with all that policy says.
#[derive(Default)]
pub(super) struct Doors {
    profiles: ArcSwap<BTreeMap<Arc<str>, Door>>,
    /// The upstreams' addresses, and their ids.
    urls: ArcSwap<BTreeMap<String, String>>,
}

/// One profile's.
pub(super) struct Door {
    /// Against `<upstream>__<tool>`.
    pub tools: Globs,
    pub upstreams: BTreeMap<String, (Arc<dyn Backend>, Globs)>,
}

impl Doors {
    pub(super) fn open(&self, config: &Config, profiles: BTreeMap<Arc<str>, Door>) {
        let urls = config
            .enabled_upstreams()
            .filter_map(|(id, one)| Some((bare(one.url.as_deref()?), id.to_owned())));
        self.urls.store(Arc::new(urls.collect()));
        self.profiles.store(Arc::new(profiles));
    }
}

/// What an operation of a catalog stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// Nothing but itself.
    Alone,
    /// An upstream's tool: what is said of that holds for the operation.
    For { upstream: String, tool: String },
    /// Something that is not there for who asks, or that was switched off.
    Hidden,
}

pub(super) fn bare(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

impl Doors {
    /// Whether a caller of that profile sees that tool, as far as is known; `None`: its upstream's tools are not known in the
    /// name of nobody in particular.
    fn shows(&self, profile: &str, upstream: &str, tool: &str, caller: &Caller) -> Option<bool> {
        let Some(backend) = self.tool(profile, upstream, tool) else { return Some(false) };
        Some(backend.known(caller, Kind::Tool)?.find(tool).is_some())
    }

    /// An upstream as each profile has it.
    pub(super) fn of(&self, upstream: &str) -> Vec<Arc<dyn Backend>> {
        let profiles = self.profiles.load();
        profiles.values().filter_map(|door| Some(door.upstreams.get(upstream)?.0.clone())).collect()
    }
}

impl Upstreams for Doors {
    fn tool(&self, profile: &str, upstream: &str, tool: &str) -> Option<Arc<dyn Backend>> {
        let profiles = self.profiles.load();
        let door = profiles.get(profile)?;
        let (backend, tools) = door.upstreams.get(upstream)?;
        let admitted = tools.admits(tool) && door.tools.admits(&format!("{upstream}__{tool}"));
        admitted.then(|| backend.clone())
    }

    fn at(&self, url: &str) -> Option<String> {
        self.urls.load().get(&bare(url)).cloned()
    }
}

impl Shelf {
    /// With nothing on it. `demo`: the demonstration's catalog is served beside those of the configuration.
    pub(super) fn new(demo: bool) -> Shelf {
        let doors = Arc::<Doors>::default();
        let nothing = Served {
            catalogs: Arc::default(),
            drafted: BTreeSet::new(),
            awaited: BTreeMap::new(),
            sources: Arc::new(Nowhere),
        };
        let own = || catalog::read(demo::CATALOG, Path::new("solar.yaml"));
        let demo = demo.then(|| own().expect("it is part of the program, and its test reads it"));
        Shelf { now: Arc::new(ArcSwap::from_pointee(nothing)), demo, doors }
    }

    pub(super) fn doors(&self) -> &Doors {
        &self.doors
    }

    /// What is served now.
    pub fn now(&self) -> Arc<Served> {
        self.now.load_full()
    }

    /// The sources of what is served at the time of each request.
    pub(super) fn sources(&self) -> Arc<dyn Sources> {
        Arc::new(Current(self.now.clone()))
    }

    /// What operations of the catalogs stand for in that profile, for who asks.
    pub(super) fn stands(
        &self,
        profile: &str,
    ) -> impl Fn(&Arc<Access>, &str, &str) -> Stands + Send + Sync + use<> {
        let (now, doors, profile) = (self.now.clone(), self.doors.clone(), Arc::<str>::from(profile));
        let nobody = drafts::caller();
        move |access, api, operation| {
            let now = now.load();
            let served = now.catalogs.get(api).or_else(|| now.awaited.get(api));
            let Some(loaded) = served else { return Stands::Hidden };
            let one = loaded.catalog.operations.get(operation);
            if one.is_some_and(|one| !one.enabled) {
                return Stands::Hidden;
            }
            let Source::Mcp { url, upstream, .. } = &loaded.catalog.source else { return Stands::Alone };
            let at = || doors.at(url.as_deref().unwrap_or_default());
            let Some(upstream) = upstream.clone().or_else(at) else { return Stands::Alone };
            let Some(called) = one.and_then(|one| one.mcp.as_ref()) else {
                // It is gone: of a draft its tool is too, of another nobody knows more than its name.
                return match now.drafted.contains(api) {
                    true => Stands::Hidden,
                    false => Stands::For { upstream, tool: operation.to_owned() },
                };
            };
            let caller = Caller {
                access: access.clone(),
                profile: profile.clone(),
                client: nobody.client.clone(),
                session: nobody.session.clone(),
                ..*nobody
            };
            let tool = called.tool.clone();
            // The tools of a draft are known. Of what is not, policy goes by the name, and the call by the rest.
            match doors.shows(&profile, &upstream, &tool, &caller).unwrap_or(!now.drafted.contains(api)) {
                true => Stands::For { upstream, tool },
                false => Stands::Hidden,
            }
        }
    }

    /// What this configuration says, read and made ready. Errors: a setting or a catalog that cannot be used.
    pub(super) fn read(&self, config: &Config, vault: &Vault) -> Result<Served, StartError> {
        let now = self.now();
        let mut catalogs = catalog::Catalogs::default();
        let own = self.demo.iter().map(|demo| (PathBuf::from("--demo"), demo.clone()));
        for (file, loaded) in loaded(&config.catalogs)?.into_iter().chain(own) {
            let settings = config.catalogs.settings.get(&loaded.catalog.id);
            if settings.is_some_and(|settings| !settings.enabled) {
                continue;
            }
            check(config, &loaded)?;
            for warning in &loaded.warnings {
                tracing::warn!(%warning, "a doubtful catalog");
            }
            let mut loaded = here(loaded, settings);
            // The same one is kept: its source's limits and tokens are by it.
            let same = now.catalogs.get(&loaded.catalog.id);
            if let Some(same) =
                same.filter(|same| same.catalog == loaded.catalog && same.digest == loaded.digest)
            {
                loaded = same.clone();
            }
            let id = loaded.catalog.id.clone();
            if !catalogs.add(loaded) {
                let why = format!("{} has a catalog {id:?}, and another file has one too", file.display());
                return Err(setting("files", why));
            }
        }
        let logins = Logins::of(config, vault)?;
        let egress = outbound::egress_inside(config, &config.catalogs.inside)?;
        let sources = Reached::new(Settings {
            egress,
            secrets: secrets(config)?,
            accounts: Arc::new(logins),
            upstreams: self.doors.clone(),
            hosts: config.catalogs.hosts.clone(),
        });
        // Its tools are known, and of one profile alone.
        let drafted = self.demo.iter().map(|demo| demo.catalog.id.clone()).collect();
        let awaited = BTreeMap::new();
        Ok(Served { catalogs: Arc::new(catalogs), drafted, awaited, sources: Arc::new(sources) })
    }

    /// Serves that from now on.
    pub(super) fn serve(&self, served: Served) {
        self.now.store(Arc::new(served));
    }
}

/// The sources of what is served at the time of a request.
struct Current(Arc<ArcSwap<Served>>);

impl Sources for Current {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        self.0.load().sources.ask(ask)
    }
}

fn setting(key: &str, why: impl Into<String>) -> StartError {
    StartError::Setting { key: format!("catalogs.{key}"), why: why.into() }
}

/// All catalogs that are configured, each with where it was read.
fn loaded(config: &config::Catalogs) -> Result<Vec<(PathBuf, Loaded)>, StartError> {
    let mut all = Vec::new();
    for folder in &config.folders {
        let read = catalog::load_folder(folder).map_err(|error| setting("folders", error.to_string()))?;
        all.extend(read.iter().map(|(_, loaded)| (folder.clone(), loaded.clone())));
    }
    for file in &config.files {
        let read =
            catalog::load_file(Path::new(file)).map_err(|error| setting("files", error.to_string()))?;
        all.push((file.clone(), read));
    }
    Ok(all)
}

/// What a catalog needs and the configuration does not have.
fn check(config: &Config, loaded: &Loaded) -> Result<(), StartError> {
    let Catalog { id, source, .. } = &*loaded.catalog;
    let config = &config.catalogs;
    let by_tools = matches!(source, Source::Mcp { .. });
    let named = source.auth().secret().filter(|_| !by_tools).unwrap_or_default();
    let (group, there) = match source.auth().is_per_user() {
        true => ("connections", config.connections.get(named).is_some()),
        false => ("secrets", config.secrets.get(named).is_some()),
    };
    if !named.is_empty() && !there {
        return Err(setting(
            &format!("{group}.{named}"),
            format!("is missing, and catalog {id} logs in by it"),
        ));
    }
    let outside = |host: &&String| {
        let any = config.hosts.is_empty() || config.hosts.iter().any(|one| one == "*");
        !any && !config.hosts.contains(host)
    };
    match source.reached_hosts().iter().find(outside) {
        Some(host) => Err(setting("hosts", format!("does not have {host}, which catalog {id} reaches"))),
        None => Ok(()),
    }
}

/// A catalog as it is here.
pub(super) fn here(loaded: Loaded, settings: Option<&config::CatalogHere>) -> Loaded {
    let Some(settings) = settings else { return loaded };
    let mut catalog = (*loaded.catalog).clone();
    let (Source::Http { limits, .. } | Source::Graphql { limits, .. } | Source::Mcp { limits, .. }) =
        &mut catalog.source;
    limits.concurrency = settings.concurrency.or(limits.concurrency);
    if let Some(other) = &settings.url {
        match &mut catalog.source {
            Source::Http { base_url: url, .. } | Source::Graphql { url, .. } => url.clone_from(other),
            Source::Mcp { url, .. } => *url = Some(other.clone()),
        }
    }
    Loaded { catalog: Arc::new(catalog), ..loaded }
}

fn secrets(config: &Config) -> Result<Secrets, StartError> {
    let revealed = config.catalogs.secrets.iter().map(|(name, secret)| {
        let value =
            secret.reveal().map_err(|error| setting(&format!("secrets.{name}"), error.to_string()))?;
        Ok((name.to_owned(), value))
    });
    revealed.collect()
}

/// The accounts that callers connect for catalogs.
struct Logins(BTreeMap<String, Arc<dyn Credentials>>);

impl Logins {
    fn of(config: &Config, vault: &Vault) -> Result<Logins, StartError> {
        let mut logins = BTreeMap::new();
        for (name, connection) in config.catalogs.connections.iter() {
            let bad = |key: &str, why: String| setting(&format!("connections.{name}.{key}"), why);
            let id = UpstreamId::new(name).ok_or_else(|| bad("", "is no id".to_owned()))?;
            if !vault.connects() {
                let why = "needs to know who is at a browser, and under which address: set public_url, and auth.server where a login is on";
                return Err(bad("auth.kind", why.to_owned()));
            }
            let spec = Spec::of(id, &connection.url, &connection.auth);
            let spec = spec.map_err(|error| bad(error.key, error.why))?;
            logins.extend(vault.credentials(spec).map(|credentials| (name.to_owned(), credentials)));
        }
        Ok(Logins(logins))
    }
}

impl Accounts for Logins {
    fn bearer(
        &self,
        connection: &str,
        caller: Arc<Caller>,
        refused: Option<Refused>,
    ) -> BoxFuture<'static, Result<Option<HeaderValue>, SourceError>> {
        let name = connection.to_owned();
        let bearer = self.0.get(connection).and_then(|credentials| credentials.of(Some(&caller.access)));
        async move {
            let missing = || none(format!("the gateway has no connection {name}; an operator adds it"));
            let bearer = bearer.ok_or_else(missing)?;
            let used = bearer.clone().token().await.map_err(|lack| lacks(&name, lack))?;
            let (status, challenges) = match (&used, refused) {
                (Some(token), None) => return Ok(Some(token.header.clone())),
                // Without an account there is nothing to try with: some APIs hide what they have rather than refuse it.
                (None, None) => (401, Vec::new()),
                (_, Some(refused)) => (refused.status, refused.challenges),
            };
            let refusal = Refusal { used, status, challenges, again: false };
            let token = bearer.refused(refusal).await.map_err(|lack| lacks(&name, lack))?;
            Ok(Some(token.header))
        }
        .boxed()
    }
}

fn none(message: String) -> SourceError {
    SourceError { kind: SourceErrorKind::Auth, message, uncertain: false }
}

/// Why a caller's request goes without their account.
fn lacks(name: &str, lack: Lack) -> SourceError {
    match lack {
        Lack::Connect { url } => none(format!(
            "your account at {name} is not connected; open {url} in a browser, and then try again"
        )),
        Lack::Insufficient => none(format!("your account at {name} is connected, and may not do this")),
        Lack::Bad | Lack::OtherAccount => none(format!("the login to {name} was refused")),
        Lack::Unreachable(_) | Lack::StoreAway => SourceError {
            kind: SourceErrorKind::Timeout,
            message: format!("the login to {name} cannot be had at this time"),
            uncertain: false,
        },
    }
}

/// Where no catalog leads.
struct Nowhere;

impl Sources for Nowhere {
    fn ask(&self, _: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        std::future::ready(Err(none("no catalogs are served yet".to_owned()))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::{Egress, Reach};
    use crate::sealing::Keyring;
    use crate::store::Memory;
    use crate::vault;

    fn vault() -> Vault {
        Vault::new(vault::Settings {
            store: Arc::new(Memory::new(1 << 20)),
            keyring: Arc::new(Keyring::random()),
            egress: Egress::new(Reach::default(), rustls::RootCertStore::empty()),
            base: None,
        })
    }

    fn write(folder: &Path, revision: u64, source: &str) {
        let text = format!(
            "catalog: things\nrevision: {revision}\ntitle: T\nsource: {{kind: http, base_url: 'https://a.example'{source}}}\n\
             entities:\n  Thing: {{key: [id], fields: {{id: string}}}}\noperations:\n  get: {{kind: get, entity: Thing, http: \
             {{send: 'GET /t/{{key.id}}', row: $}}}}\n"
        );
        std::fs::write(folder.join("things.yaml"), text).unwrap();
    }

    fn config(folder: &Path, more: serde_json::Value) -> Config {
        let mut catalogs = serde_json::json!({ "folders": [folder] });
        catalogs.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(serde_json::json!({ "catalogs": catalogs })).unwrap()
    }

    #[tokio::test]
    async fn a_catalog_that_is_the_same_is_kept_and_one_that_cannot_be_read_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (shelf, vault, config) =
            (Shelf::new(false), vault(), config(folder.path(), serde_json::json!({})));
        let mut digests = Vec::new();
        for revision in [1, 1, 2] {
            write(folder.path(), revision, "");
            let before = shelf.now();
            shelf.serve(shelf.read(&config, &vault).unwrap());
            let now = shelf.now();
            let loaded = now.catalogs.get("things").unwrap();
            if let Some(before) = before.catalogs.get("things") {
                assert_eq!(Arc::ptr_eq(&before.catalog, &loaded.catalog), revision == 1);
            }
            digests.push(loaded.digest.clone());
        }
        assert!(digests[0] == digests[1] && digests[1] != digests[2]);
        std::fs::write(folder.path().join("things.yaml"), "catalog: [").unwrap();
        assert!(shelf.read(&config, &vault).is_err());
        assert_eq!(shelf.now().catalogs.get("things").unwrap().digest, digests[2]);
    }

    #[tokio::test]
    async fn what_a_catalog_needs_and_is_not_configured_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let none = serde_json::json!({});
        for (source, more, want) in [
            (", auth: {scheme: bearer, secret: a/b}", none.clone(), Some("catalogs.secrets.a/b: is missing")),
            (", auth: {scheme: bearer, secret: a/b}", serde_json::json!({"secrets": {"a/b": "x"}}), None),
            (
                ", auth: {scheme: oauth2, connection: c}",
                none.clone(),
                Some("catalogs.connections.c: is missing"),
            ),
            (
                "",
                serde_json::json!({"hosts": ["b.example"]}),
                Some("catalogs.hosts: does not have a.example"),
            ),
            ("", serde_json::json!({"hosts": ["a.example"]}), None),
            (
                ", auth: {scheme: bearer, secret: a/b}",
                serde_json::json!({"settings": {"things": {"enabled": false}}}),
                None,
            ),
        ] {
            write(folder.path(), 1, source);
            let read = Shelf::new(false).read(&config(folder.path(), more), &vault());
            let said = read.err().map(|error| error.to_string());
            assert_eq!(said.is_some(), want.is_some(), "{said:?}");
            assert!(said.unwrap_or_default().starts_with(want.unwrap_or_default()), "{want:?}");
        }
    }

    #[tokio::test]
    async fn what_is_set_here_goes_before_the_file() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 1, ", limits: {concurrency: 4}");
        let here =
            serde_json::json!({"settings": {"things": {"url": "https://b.example/x", "concurrency": 2}}});
        let read = Shelf::new(false).read(&config(folder.path(), here), &vault()).unwrap();
        let source = &read.catalogs.get("things").unwrap().catalog.source;
        assert_eq!(
            (source.url(), source.limits().concurrency),
            (Some(("base_url", "https://b.example/x")), Some(2))
        );
    }
}
