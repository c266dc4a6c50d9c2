//! The execute surface of each profile that has one, and what a profile may not ask of it.

use super::catalogs::bare;
use super::{Programs, StartError};
use crate::config::{self, Config, CredentialKind};
use crate::execute::catalog::{Catalogs, Source};
use crate::execute::sources::Sources;
use crate::execute::surface::{Settings, Surface};
use crate::mcp::UpstreamId;
use std::sync::Arc;

/// A profile's surface, where it has one.
pub(super) fn of(
    profile: &config::Profile,
    programs: &Programs,
    sources: Arc<dyn Sources>,
) -> Option<Surface> {
    let id = UpstreamId::new(config::SURFACE_ID).expect("the word has the form of an id");
    let Programs { logical, artifacts, access } = programs.clone();
    let settings = Settings {
        catalogs: profile.catalogs.clone(),
        shared: profile.shared_sessions,
        artifacts: access,
        ..Settings::new(id)
    };
    profile.surface.executes().then(|| Surface::new(logical, artifacts, sources, settings))
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
