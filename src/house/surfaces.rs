//! The execute surface of each profile that has one, and what a profile may not ask of it.

use super::catalogs::bare;
use super::{Programs, StartError};
use crate::config::{self, Config, CredentialKind};
use crate::execute::catalog::{Catalogs, EffectClass, Source};
use crate::execute::sources::Sources;
use crate::execute::surface::{Admits, Settings, Surface};
use crate::mcp::{Access, UpstreamId};
use crate::policy::{Acts, Policy};
use std::sync::Arc;

/// A profile's surface, where it has one. `sees`: whether what an operation stands for is there for a caller, besides what policy
/// says of the operation.
pub(super) fn of(
    name: &str,
    profile: &config::Profile,
    policy: &Policy,
    programs: &Programs,
    sources: Arc<dyn Sources>,
    sees: impl Fn(&Arc<Access>, &str, &str) -> bool + Send + Sync + 'static,
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
    let (operations, logical) = (policy.operations(name, profile), programs.logical.clone());
    settings.admits = Admits::by(move |access, api, operation| {
        let acts = || acts(&logical.catalogs(), api, operation);
        sees(access, api, operation)
            && operations.as_ref().is_none_or(|all| all.admit(access, api, operation, acts()))
    });
    Some(Surface::new(programs.logical.clone(), programs.artifacts.clone(), sources, settings))
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

/// Errors: a profile whose sessions are the tenant's and that has a catalog whose source knows each caller by a login of
/// their own: what one was shown would be another's to go on with.
pub(super) fn check(config: &Config, catalogs: &Catalogs) -> Result<(), StartError> {
    for (name, profile, _) in config.served_profiles() {
        if !profile.surface.executes() || !profile.shared_sessions {
            continue;
        }
        let admitted = catalogs.iter().filter(|(api, _)| profile.catalogs.admits(api));
        let personal = admitted.map(|(_, loaded)| &*loaded.catalog);
        if let Some(catalog) = personal.into_iter().find(|catalog| is_personal(&catalog.source, config)) {
            return Err(StartError::Setting {
                key: format!("profiles.{name}.shared_sessions"),
                why: format!(
                    "cannot be where {} is, which logs in as each caller; leave it out, or keep that one away by catalogs.deny",
                    catalog.id
                ),
            });
        }
    }
    Ok(())
}

/// Whether what a source gives depends on who asks.
fn is_personal(source: &Source, config: &Config) -> bool {
    let Source::Mcp { upstream, url, .. } = source else { return source.auth().is_per_user() };
    let is_it = |(id, one): &(&str, &config::Upstream)| {
        let same = |url: &String| one.url.as_deref().map(bare) == Some(bare(url));
        upstream.as_deref() == Some(*id) || url.as_ref().is_some_and(same)
    };
    let of = config.enabled_upstreams().find(is_it).map(|(_, one)| one.auth.kind);
    matches!(of, Some(CredentialKind::Oauth | CredentialKind::TokenExchange))
}
