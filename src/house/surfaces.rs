//! The execute surface of each profile that has one, what a profile may not ask of it, and the tools of catalogs in those that
//! have tools alone.

use super::catalogs::Stands;
use super::drafts::{is_of, knows_callers};
use super::{Programs, StartError};
use crate::config::{self, Config};
use crate::execute::catalog::{Catalogs, EffectClass, Loaded, Source};
use crate::execute::import::catalog_id;
use crate::execute::logical::Logical;
use crate::execute::plain::{self, Plain};
use crate::execute::sources::Sources;
use crate::execute::surface::{Admits, Settings, Surface};
use crate::mcp::{Access, UpstreamId};
use crate::policy::{Acts, Operations, Policy};
use crate::sealing::Keyring;
use std::sync::Arc;
use std::time::Duration;

/// A profile's surface, where it has one. `stands`: what an operation stands for, for who asks.
pub(super) fn of(
    name: &str,
    profile: &config::Profile,
    policy: &Policy,
    programs: &Programs,
    sources: Arc<dyn Sources>,
    stands: impl Fn(&Arc<Access>, &str, &str) -> Stands + Send + Sync + 'static,
) -> Option<Surface> {
    if !profile.surface.executes() {
        return None;
    }
    let id = UpstreamId::new(config::SURFACE_ID).expect("the word has the form of an id");
    let mut settings = Settings {
        catalogs: profile.catalogs.clone(),
        shared: profile.shared_sessions,
        artifacts: programs.access.clone(),
        tasks: programs.tasks.clone(),
        ..Settings::new(id)
    };
    settings.admits = admits(policy.operations(name, profile), programs.logical.clone(), stands);
    Some(Surface::new(programs.logical.clone(), programs.artifacts.clone(), sources, settings))
}

/// Who may call which operation. What is said of a tool is looked at here too, and not at its call alone: to read what it once
/// gave is no call.
fn admits(
    operations: Option<Operations>,
    logical: Logical,
    stands: impl Fn(&Arc<Access>, &str, &str) -> Stands + Send + Sync + 'static,
) -> Admits {
    Admits::by(move |access, api, operation| {
        let judged = |of: &str, name: &str| {
            let acts = || acts(&logical.catalogs(), api, operation);
            operations.as_ref().is_none_or(|all| all.admit(access, of, name, acts()))
        };
        match stands(access, api, operation) {
            Stands::Hidden => false,
            Stands::Alone => judged(api, operation),
            Stands::For { upstream, tool } => judged(api, operation) && judged(&upstream, &tool),
        }
    })
}

/// What an operation does. Of one that is not served any more, the worst.
fn acts(catalogs: &Catalogs, api: &str, operation: &str) -> Acts {
    let known = catalogs.get(api).and_then(|loaded| loaded.catalog.operations.get(operation));
    let reads = known.is_some_and(|known| known.kind.is_read());
    let effect = known.and_then(|known| known.effect.as_ref());
    let class = effect.map_or(EffectClass::Destructive, |effect| effect.class);
    Acts {
        reads: reads || class == EffectClass::Read,
        destroys: !reads && class == EffectClass::Destructive,
        repeats: reads || effect.is_some_and(|effect| effect.idempotent),
    }
}

/// The catalogs whose operations a profile has as tools, as they are now.
#[derive(Clone, Default)]
pub(super) struct Published(Catalogs);

impl PartialEq for Published {
    /// Whether each is the very same, its limits here and where it leads included.
    fn eq(&self, other: &Published) -> bool {
        let same =
            |(one, other): ((&str, &Loaded), (&str, &Loaded))| Arc::ptr_eq(&one.1.catalog, &other.1.catalog);
        self.0.len() == other.0.len() && self.0.iter().zip(other.0.iter()).all(same)
    }
}

impl Published {
    pub(super) fn of(profile: &config::Profile, catalogs: &Catalogs) -> Published {
        match profile.surface.executes() {
            true => Published::default(),
            false => Published(plain::published(catalogs, |api| profile.catalogs.admits(api))),
        }
    }

    /// What clients see of it: while that is the same, so are the tools.
    pub(super) fn seen(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(api, loaded)| (api, loaded.digest.as_str())).collect()
    }

    /// The tools, where there are any. Who may call which is said as of programs.
    pub(super) fn tools(
        &self,
        name: &str,
        profile: &config::Profile,
        policy: &Policy,
        programs: &Programs,
        keyring: &Arc<Keyring>,
        sources: Arc<dyn Sources>,
    ) -> Option<Plain> {
        if self.0.is_empty() {
            return None;
        }
        let admits = policy.operations(name, profile).map(|all| {
            let catalogs = self.0.clone();
            Admits::by(move |access, api, operation| {
                all.admit(access, api, operation, acts(&catalogs, api, operation))
            })
        });
        let settings = plain::Settings {
            id: UpstreamId::new(config::SURFACE_ID).expect("the word has the form of an id"),
            keyring: keyring.clone(),
            run: Duration::from_secs(280),
            admits,
            tasks: programs.tasks.clone(),
        };
        Some(Plain::new(self.0.clone(), sources, settings))
    }
}

/// Errors: a profile whose sessions are the tenant's and that has a catalog, or is to have a draft, whose source knows
/// each caller by a login or a header of their own: what one was shown would be another's to go on with.
pub(super) fn check(config: &Config, catalogs: &Catalogs) -> Result<(), StartError> {
    for (name, profile, upstreams) in config.served_profiles() {
        if !profile.surface.executes() || !profile.shared_sessions {
            continue;
        }
        let admitted = catalogs.iter().filter(|(api, _)| profile.catalogs.admits(api));
        let mut personal = admitted.filter(|(_, loaded)| is_personal(&loaded.catalog.source, config));
        let mut drafted = config.enabled_upstreams().filter(|(id, one)| {
            let here =
                config.catalogs.drafts && upstreams.contains(id) && profile.catalogs.admits(&catalog_id(id));
            let written = || catalogs.iter().any(|(_, loaded)| is_of(&loaded.catalog.source, id, one));
            here && !one.forward_headers.is_empty() && !knows_callers(one) && !written()
        });
        let found = personal.next().map(|(id, _)| id.to_owned());
        if let Some(id) = found.or_else(|| drafted.next().map(|(id, _)| catalog_id(id))) {
            return Err(StartError::Setting {
                key: format!("profiles.{name}.shared_sessions"),
                why: format!(
                    "cannot be where {id} is, which logs in as each caller or is sent headers of theirs; leave it out, or keep that one away by catalogs.deny"
                ),
            });
        }
    }
    Ok(())
}

/// Whether what a source gives depends on who asks.
fn is_personal(source: &Source, config: &Config) -> bool {
    if !matches!(source, Source::Mcp { .. }) {
        return source.auth().is_per_user();
    }
    let mut of = config.enabled_upstreams().filter(|(id, one)| is_of(source, id, one));
    of.any(|(_, one)| knows_callers(one) || !one.forward_headers.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::catalogs::{Door, Served, Shelf};
    use super::*;
    use crate::config::Globs;
    use crate::execute::logical::{Open, Owner};
    use crate::execute::symbols::Seed;
    use crate::execute::{catalog, logical};
    use crate::mcp::scripted::Scripted;
    use crate::mcp::{Age, Backend, Kind, Principal, Scopes};
    use crate::store::{Memory, PodId};
    use serde_json::json;
    use std::collections::BTreeMap;
    use std::path::Path;

    fn access(scopes: &str) -> Arc<Access> {
        let principal = Arc::new(Principal::minted("", "https://idp", "ann"));
        Arc::new(Access { scopes: Scopes::read(scopes), ..Access::open(principal) })
    }

    fn one(loaded: Loaded) -> Arc<Catalogs> {
        let mut catalogs = Catalogs::default();
        assert!(catalogs.add(loaded));
        Arc::new(catalogs)
    }

    /// Of an upstream's tools, under names of its own.
    fn loaded() -> Loaded {
        let text = "catalog: gh\nrevision: 1\ntitle: G\nsource: {kind: mcp, upstream: github}\n\
                    entities:\n  Repo: {key: [], fields: {}}\noperations:\n  audits: {kind: action, entity: Repo, \
                    effect: {class: read}, mcp: {tool: export-audit, ack: text}}\n  names: {kind: action, entity: Repo, \
                    effect: {class: read}, mcp: {tool: list-names, ack: text}}\n";
        catalog::read(text, Path::new("gh.yaml")).unwrap()
    }

    fn logical(catalogs: Arc<Catalogs>) -> Logical {
        let store = Arc::new(Memory::new(1 << 20));
        Logical::new(PodId::random(), store, catalogs, logical::Settings::default())
    }

    #[tokio::test]
    async fn what_is_said_of_a_tool_holds_for_what_an_operation_once_got_from_it() {
        let config: Config = serde_json::from_value(json!({
            "policy": {"rules": [{"name": "no", "upstreams": ["github"], "tools": ["list-*"], "then": "deny"}]},
            "profiles": {"default": {"surface": "execute", "scopes": {"tools": {"github__export-audit": ["ops"]}}}},
        }))
        .unwrap();
        let shelf = Shelf::new(false);
        let catalogs = one(loaded());
        let tools =
            [r#"{"name":"export-audit","inputSchema":{}}"#, r#"{"name":"list-names","inputSchema":{}}"#];
        let backend: Arc<dyn Backend> = Arc::new(Scripted::new("github").0.listing(Kind::Tool, &tools));
        let upstreams = BTreeMap::from([("github".to_owned(), (backend.clone(), Globs::default()))]);
        let door = Door { tools: Globs::default(), upstreams };
        shelf.doors().open(&config, BTreeMap::from([("".into(), door)]));
        shelf.serve(Served { catalogs: catalogs.clone(), ..Served::clone(&shelf.now()) });
        let profile = config.profiles.get("default").unwrap();
        let operations = Operations::of(&config.policy, "default", profile);
        let may = admits(operations, logical(catalogs), shelf.stands(""));
        // Whether its tools are known or not.
        for _ in 0..2 {
            assert!(!may.may(&access(""), "gh", "audits"));
            assert!(may.may(&access("ops"), "gh", "audits"));
            assert!(!may.may(&access("ops"), "gh", "names"));
            backend.list(super::super::drafts::caller(), Kind::Tool, Age::Fresh).await.unwrap();
        }
    }

    #[tokio::test]
    async fn what_is_switched_off_is_for_nobody_and_what_is_awaited_goes_on() {
        let shelf = Shelf::new(false);
        let may = admits(None, logical(Arc::default()), shelf.stands(""));
        let may = || (may.may(&access(""), "things", "get"), may.may(&access(""), "things", "gone"));
        let text = |more: &str| {
            let text = format!(
                "catalog: things\nrevision: 1\ntitle: T\nsource: {{kind: http, base_url: 'https://a.example'}}\n\
                 entities:\n  Thing: {{key: [id], fields: {{id: string}}}}\noperations:\n  get: {{kind: get, \
                 entity: Thing{more}, http: {{send: 'GET /t/{{key.id}}', row: $}}}}\n"
            );
            catalog::read(&text, Path::new("things.yaml")).unwrap()
        };
        let nothing = Served::clone(&shelf.now());
        let serve = |more| shelf.serve(Served { catalogs: one(text(more)), ..nothing.clone() });
        assert_eq!(may(), (false, false));
        serve("");
        assert_eq!(may(), (true, true), "one that changed goes on");
        serve(", enabled: false");
        assert_eq!(may(), (false, true));
        let awaited = BTreeMap::from([("things".to_owned(), text(""))]);
        shelf.serve(Served { awaited, ..nothing.clone() });
        assert_eq!(may(), (true, true));
        shelf.serve(nothing);
        assert_eq!(may(), (false, false));
    }

    #[tokio::test]
    async fn an_open_session_goes_where_its_catalog_leads_by_now() {
        let logical = logical(one(loaded()));
        let owner = Owner::of(&super::super::drafts::caller(), false);
        let seeds = [Seed { api: "gh".to_owned(), entity: "Repo".to_owned() }];
        let ask = Open { intent: "look", seeds: &seeds, given: None, fresh: false };
        let opened = logical.open(&owner, ask).await.unwrap();
        let mut elsewhere = (*loaded().catalog).clone();
        if let Source::Mcp { upstream, .. } = &mut elsewhere.source {
            *upstream = Some("other".to_owned());
        }
        let elsewhere = Arc::new(elsewhere);
        logical.serve(one(Loaded { catalog: elsewhere.clone(), ..loaded() }));
        let held = logical.load(&owner, &opened.held.handle.to_string()).await.unwrap();
        assert_eq!(held.catalogs.get("gh").unwrap().catalog, elsewhere);
    }

    #[test]
    fn shared_sessions_are_refused_where_each_caller_s_headers_go_upstream() {
        let refused = |headers: &[&str], deny: &[&str], catalogs: &Catalogs| {
            let config: Config = serde_json::from_value(json!({
                "upstreams": {"github": {"url": "https://gh.example/mcp", "forward_headers": headers}},
                "profiles": {"default": {
                    "surface": "execute", "shared_sessions": true, "catalogs": {"deny": deny},
                }},
            }))
            .unwrap();
            check(&config, catalogs).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let (written, none) = (one(loaded()), Catalogs::default());
        assert_eq!(refused(&[], &[], &written), "");
        assert!(refused(&["x-user-key"], &[], &written).contains("cannot be where gh is"));
        assert_eq!(refused(&["x-user-key"], &["gh"], &written), "");
        assert!(refused(&["x-user-key"], &[], &none).contains("cannot be where github is"));
        assert_eq!(refused(&["x-user-key"], &["github"], &none), "");
        assert_eq!(refused(&[], &[], &none), "");
    }
}
