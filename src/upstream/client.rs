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

/// Below the 5 s after which uvicorn and Node close idle connections: who closes first must be us, for a request that
/// meets a closing connection may not be sent again.
const IDLE: Duration = Duration::from_secs(4);
/// A stream may be silent for long; a peer that is gone without a word is found by this.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A client with a pool of its own. `connect_timeout` bounds the opening of a TCP connection; whoever sends bounds
/// the rest. Servers are checked against the Mozilla roots.
pub fn http_client(connect_timeout: Duration) -> HttpClient {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // Else the last segment of a request waits for the acknowledgement of those before it.
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_connect_timeout(Some(connect_timeout));
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_webpki_roots(rustls::crypto::aws_lc_rs::default_provider())
        .expect("the provider supports the default protocol versions")
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .build(connector)
}
