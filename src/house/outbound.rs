//! Connections to upstreams, from the configuration: whom we trust, who we are, which proxy stands between.

use super::StartError;
use crate::config::{self, Config, Secret};
use crate::egress::{self, Egress};
use crate::mcp::UpstreamId;
use crate::tls::{self, TlsError};
use crate::upstream::connect::Connector;
use crate::upstream::proxy::Proxy;
use http::Uri;
use secrecy::ExposeSecret;
use std::sync::Arc;

/// How the connections to one upstream are opened. Errors: a file or a proxy that cannot be used, by its setting.
pub fn connector(
    id: &UpstreamId,
    upstream: &config::Upstream,
    url: &Uri,
    config: &Config,
) -> Result<Connector, StartError> {
    let https = url.scheme_str() == Some("https");
    let (ours, all) = (format!("upstreams.{id}"), "outbound");
    let mut roots = tls::public_roots();
    for (group, files) in [(&*ours, &upstream.tls), (all, &config.outbound.tls)] {
        if let Some(ca) = &files.ca {
            tls::trust(&mut roots, ca).map_err(|error| file(group, error))?;
        }
    }
    let (group, shown) = match &upstream.tls {
        own if own.cert.is_some() => (&*ours, own),
        _ => (all, &config.outbound.tls),
    };
    let identity = files(shown).identity().map_err(|error| file(group, error))?;
    let proxy = match (&upstream.proxy, &config.outbound.proxy) {
        (Some(own), _) => named(&ours, own)?,
        (None, Some(of_all)) => named(all, of_all)?,
        (None, None) => Proxy::of_environment(url, |name| std::env::var(name).ok())
            .map_err(|bad| StartError::Setting { key: bad.variable.to_owned(), why: bad.why.to_string() })?,
    };
    let tls = Arc::new(tls::client(roots, identity));
    Ok(Connector::new(https, tls, proxy, upstream.connect_timeout))
}

/// Scheme, host and port under which browsers reach this gateway: as configured, or on this machine. `None`: nobody knows.
pub(super) fn base(config: &Config) -> Option<Arc<str>> {
    match &config.public_url {
        Some(url) => Some(url.trim_end_matches('/').into()),
        None => config.listen.ip().is_loopback().then(|| format!("http://{}", config.listen).into()),
    }
}

/// The client for URLs that come from outside. Errors: a file that cannot be used.
pub(super) fn egress(config: &Config) -> Result<Egress, StartError> {
    egress_inside(config, &config.egress.inside)
}

/// As [`egress`], where these networks may be reached though they are not public.
pub(super) fn egress_inside(config: &Config, inside: &[String]) -> Result<Egress, StartError> {
    let mut roots = tls::public_roots();
    if let Some(ca) = &config.outbound.tls.ca {
        tls::trust(&mut roots, ca).map_err(|error| file("outbound", error))?;
    }
    let inside = inside.iter().filter_map(|network| network.parse().ok()).collect();
    Ok(Egress::new(egress::Reach { inside }, roots))
}

/// The proxy that a setting names; `none` is no proxy.
fn named(group: &str, proxy: &Secret) -> Result<Option<Proxy>, StartError> {
    let wrong = |why: String| StartError::Setting { key: format!("{group}.proxy"), why };
    let text = proxy.reveal().map_err(|error| wrong(error.to_string()))?;
    match text.expose_secret() {
        "none" => Ok(None),
        text => Proxy::parse(text).map(Some).map_err(|error| wrong(error.to_string())),
    }
}

/// A `tls` group, as those that read files know it.
pub(super) fn files(tls: &config::Tls) -> tls::Files {
    tls::Files { ca: tls.ca.clone(), cert: tls.cert.clone(), key: tls.key.clone() }
}

/// A file of a `tls` group that cannot be used.
pub(super) fn file(group: &str, error: TlsError) -> StartError {
    StartError::Setting { key: format!("{group}.tls.{}", error.setting), why: error.to_string() }
}
