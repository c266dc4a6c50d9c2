//! The HTTP client that transports share: pooled connections to upstreams, and no policy. Follows no redirect, keeps
//! no cookie, adds no header but `Host`.

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::time::Duration;

/// Cheap to clone; clones share the pool.
pub type HttpClient = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Shorter than the minute or more that servers and proxies keep idle connections, so that they seldom close one
/// that we are about to use.
const IDLE: Duration = Duration::from_secs(45);

/// A client with a pool of its own. `connect_timeout` bounds the opening of a TCP connection; whoever sends bounds
/// the rest. Servers are checked against the Mozilla roots.
///
/// # Errors
/// The provider of cryptography speaks no TLS version of ours; it is a mistake of the build.
pub fn http_client(connect_timeout: Duration) -> Result<HttpClient, rustls::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect_timeout));
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_webpki_roots(rustls::crypto::aws_lc_rs::default_provider())?
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(connector))
}
