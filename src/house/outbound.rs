//! Connections to upstreams, from the configuration: whom we trust, who we are, which proxy stands between.

use super::StartError;
use crate::config::{self, Config, Secret};
use crate::egress::{self, Egress};
use crate::mcp::UpstreamId;
use crate::tls::{self, TlsError};
use crate::upstream::connect::Connector;
use crate::upstream::proxy::Proxy;
use http::Uri;
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Addresses that every proxy of the environment stands before.
const ANYWHERE: [&str; 2] = ["https://service.invalid/", "http://service.invalid/"];
/// Longest time to open a connection to a service of the operator's own.
const CONNECT: Duration = Duration::from_secs(5);

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
        (None, None) => of_environment(url)?,
    };
    let tls = Arc::new(tls::client(roots, identity));
    Ok(Connector::new(https, tls, proxy, upstream.connect_timeout))
}

/// The proxy that the environment names for this address.
fn of_environment(url: &Uri) -> Result<Option<Proxy>, StartError> {
    Proxy::of_environment(url, |name| std::env::var(name).ok())
        .map_err(|bad| StartError::Setting { key: bad.variable.to_owned(), why: bad.why.to_string() })
}

/// How services of the operator's own are reached that are no upstreams: trust, identity and proxy are those of `outbound`.
pub(super) struct Ways {
    tls: Arc<ClientConfig>,
    /// `None`: as the environment says.
    proxy: Option<Option<Proxy>>,
}

impl Ways {
    /// Errors: a file or a proxy that cannot be used.
    pub(super) fn of(config: &Config) -> Result<Ways, StartError> {
        let files = files(&config.outbound.tls);
        let identity = files.identity().map_err(|error| file("outbound", error))?;
        let tls = Arc::new(tls::client(roots(config)?, identity));
        let proxy = config.outbound.proxy.as_ref().map(|proxy| named("outbound", proxy)).transpose()?;
        if proxy.is_none() {
            // What is wrong with the environment's is said at the start.
            for anywhere in ANYWHERE {
                of_environment(&Uri::from_static(anywhere))?;
            }
        }
        Ok(Ways { tls, proxy })
    }

    /// To the service at this address. A machine's own metadata are asked for straight: no proxy elsewhere has them.
    pub(super) fn to(&self, url: &Uri) -> Result<Connector, StartError> {
        let proxy = match &self.proxy {
            _ if is_metadata(url) => None,
            Some(proxy) => proxy.clone(),
            None => of_environment(url)?,
        };
        Ok(Connector::new(url.scheme_str() == Some("https"), self.tls.clone(), proxy, CONNECT))
    }
}

/// Whether it leads to this machine, or to the metadata that a cloud gives it.
fn is_metadata(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_link_local(),
        // Unique local addresses among which EC2 has its own, fd00:ec2::/32.
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unicast_link_local() || ip.segments()[..2] == [0xfd00, 0xec2]
        }
        Err(_) => ["localhost", "metadata.google.internal"].contains(&host),
    }
}

/// Whom services and strangers are trusted by: what browsers trust, and the configured authorities.
fn roots(config: &Config) -> Result<RootCertStore, StartError> {
    let mut roots = tls::public_roots();
    if let Some(ca) = &config.outbound.tls.ca {
        tls::trust(&mut roots, ca).map_err(|error| file("outbound", error))?;
    }
    Ok(roots)
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
    let inside = inside.iter().filter_map(|network| network.parse().ok()).collect();
    let egress = Egress::new(egress::Reach { inside }, roots(config)?);
    let (proxy, named) = match &config.outbound.proxy {
        Some(proxy) => (named("outbound", proxy)?, true),
        None => (of_environment(&Uri::from_static(ANYWHERE[0]))?, false),
    };
    // What is wrong with the environment's is known by now.
    let of_environment = |url: &Uri| of_environment(url).is_ok_and(|proxy| proxy.is_some());
    let stands_before = move |url: &Uri| !is_metadata(url) && (named || of_environment(url));
    Ok(match proxy {
        Some(Proxy { url, login }) => {
            egress.by(egress::Proxy { url, login, stands_before: Arc::new(stands_before) })
        }
        None => egress,
    })
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
