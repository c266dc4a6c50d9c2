//! Which requests go by a proxy: those to what is public, or what no name server here knows. What lies inside is gone to
//! straight, so that a proxy is never the way around who may reach what.

use super::reach::{Names, Resolver, is_public};
use super::{FetchError, Named};
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::dns::Name;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use tower_service::Service;

/// A proxy that joins us to servers by CONNECT, and what it is told of us.
#[derive(Clone)]
pub struct Proxy {
    pub url: Uri,
    /// `Proxy-Authorization`.
    pub login: Option<HeaderValue>,
    /// Which addresses it stands before.
    pub stands_before: Arc<dyn Fn(&Uri) -> bool + Send + Sync>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Proxy")
    }
}

/// Whether that request goes by the proxy. Errors: what a stranger named, and no name server here knows: it might be inside
/// where the proxy is.
pub(super) async fn takes(proxy: &Proxy, names: &Names, uri: &Uri, named: Named) -> Result<bool, FetchError> {
    // Plain HTTP is spoken inside alone.
    if uri.scheme_str() != Some("https") || !(proxy.stands_before)(uri) {
        return Ok(false);
    }
    let host = uri.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found: Vec<IpAddr> = match (bare.parse(), bare.parse::<Name>()) {
        (Ok(ip), _) => vec![ip],
        (_, Ok(name)) => {
            let resolved = Resolver::free(names.clone()).call(name).await;
            resolved.map(|found| found.map(|address| address.ip()).collect()).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    match (found.is_empty(), named) {
        (true, Named::ByOthers) => Err(FetchError::Unreachable),
        (true, Named::ByUs | Named::Listed) => Ok(true),
        (false, _) => Ok(found.into_iter().all(|ip| is_public(ip.to_canonical()))),
    }
}
