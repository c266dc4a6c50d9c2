//! The HTTP client that transports share: pooled connections to upstreams, and no policy. Follows no redirect, keeps
//! no cookie, adds no header but `Host`.

mod connection;
mod pool;

pub use connection::Body;

use bytes::Bytes;
use connection::{Connection, Failed};
use futures_util::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri, header};
use http_body_util::Full;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::{Connection as Connected, HttpConnector};
use pool::Pool;
use std::error::Error;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;
use tower_service::Service;

/// A stream may be silent for long; a peer that is gone without a word is found by this.
const KEEPALIVE: Duration = Duration::from_secs(30);

type Connect = dyn Fn(Uri) -> BoxFuture<'static, Result<Box<Connection>, ClientError>> + Send + Sync;

/// Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct HttpClient {
    connect: Arc<Connect>,
    pool: Arc<Pool>,
}

/// Why a request got no response. Its text names no address; its source may.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing of the request was sent.
    #[error("no connection")]
    Connect(#[source] Box<dyn Error + Send + Sync>),
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
}

impl ClientError {
    pub fn is_connect(&self) -> bool {
        matches!(self, ClientError::Connect(_))
    }
}

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
    HttpClient::new(connector)
}

impl HttpClient {
    /// A client with a pool of its own, of connections that `connector` opens.
    pub fn new<C>(connector: C) -> HttpClient
    where
        C: Service<Uri> + Clone + Send + Sync + 'static,
        C::Response: hyper::rt::Read + hyper::rt::Write + Connected + Unpin + Send + 'static,
        C::Error: Into<Box<dyn Error + Send + Sync>>,
        C::Future: Send,
    {
        let connect = move |uri: Uri| -> BoxFuture<'static, _> {
            let mut connector = connector.clone();
            Box::pin(async move {
                let away = |error: C::Error| ClientError::Connect(error.into());
                poll_fn(|context| connector.poll_ready(context)).await.map_err(away)?;
                let socket = connector.call(uri.clone()).await.map_err(away)?;
                // A proxy of plain HTTP is told where the request goes.
                let proxied = socket.connected().is_proxied();
                Connection::begin(Box::new(socket), uri, proxied).await.map_err(ClientError::Broken)
            })
        };
        HttpClient { connect: Arc::new(connect), pool: Arc::default() }
    }

    /// Sends a request to the absolute URI that it names. Dropping the response, or its body before the end, closes the
    /// connection. Errors: no connection, or it ended before the response; of a connection that was idle and ended before it
    /// took the request, another is tried.
    pub async fn request(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Body>, ClientError> {
        let uri = std::mem::take(request.uri_mut());
        loop {
            let (connection, idle) = match self.pool.take(&uri) {
                Some(connection) => (connection, true),
                None => ((self.connect)(uri.clone()).await?, false),
            };
            *request.uri_mut() = if connection.proxied { uri.clone() } else { path_of(&uri) };
            if !request.headers().contains_key(header::HOST) {
                request.headers_mut().insert(header::HOST, connection.host.clone());
            }
            match connection.exchange(request).await {
                Ok((response, connection)) => {
                    return Ok(response.map(|body| Body::new(body, connection, &self.pool)));
                }
                Err(Failed { unsent: Some(unsent), .. }) if idle => request = unsent,
                Err(Failed { error, .. }) => return Err(ClientError::Broken(error)),
            }
        }
    }
}

/// The URI as it stands in a request to the server itself (RFC 9112 3.2.1).
fn path_of(uri: &Uri) -> Uri {
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Uri::from(path)
}

/// `Host` for an absolute URI: without a login, and without the scheme's own port (RFC 9110 7.2).
fn host_of(uri: &Uri) -> HeaderValue {
    let host = uri.host().unwrap_or_default();
    let own = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    let text = match uri.port_u16().filter(|port| *port != own) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    HeaderValue::try_from(text).expect("the host of a URI has only characters of a header")
}

#[cfg(test)]
mod tests;
