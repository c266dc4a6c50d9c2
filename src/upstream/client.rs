//! The HTTP client that transports share: pooled connections to upstreams, and no policy. Follows no redirect, keeps
//! no cookie, adds no header but `Host`.

mod body;
mod connection;
mod framing;
mod head;
mod pool;

pub use body::Body;

use super::connect::{ConnectError, Connector};
use bytes::Bytes;
use connection::{Connection, Failed};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri, header};
use hyper_util::rt::TokioIo;
use pool::{IDLE, Pool};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct HttpClient {
    connector: Connector,
    pool: Arc<Pool>,
}

/// Why a request got no response. Its text names no address; the source of a broken one may.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing of the request was sent.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the connection broke")]
    Broken(#[source] io::Error),
}

impl HttpClient {
    /// A client with a pool of its own, of connections that `connector` opens; whoever sends bounds the rest.
    pub fn new(connector: Connector) -> HttpClient {
        HttpClient { connector, pool: Arc::default() }
    }

    /// The same with an empty pool, whose connections take no request beyond about this age.
    pub fn aged(self, most: Duration) -> HttpClient {
        HttpClient { pool: Arc::new(Pool::of(IDLE, most)), ..self }
    }

    /// A new connection to the server that `uri` names.
    async fn connect(&self, uri: Uri) -> Result<Box<Connection>, ClientError> {
        let socket = self.connector.connect(uri.clone()).await?;
        let proxied = socket.whole_url();
        Ok(Connection::new(Box::new(TokioIo::new(socket)), uri, proxied, self.pool.end_of_life()))
    }

    /// Sends a request to the absolute URI that it names. Dropping the response, or its body before the end, closes the
    /// connection. Errors: no connection, or it ended before the response; of a connection that was idle and ended before it
    /// took the request, another is tried.
    pub async fn request(&self, mut request: Request<Bytes>) -> Result<Response<Body>, ClientError> {
        let uri = std::mem::take(request.uri_mut());
        loop {
            let (mut connection, idle) = match self.pool.take(&uri) {
                Some(connection) => (connection, true),
                None => (Box::pin(self.connect(uri.clone())).await?, false),
            };
            *request.uri_mut() = if connection.proxied { uri.clone() } else { path_of(&uri) };
            if !request.headers().contains_key(header::HOST) {
                request.headers_mut().insert(header::HOST, connection.host.clone());
            }
            match connection.exchange(request).await {
                Ok(response) => return Ok(response.map(|()| Body::new(connection, &self.pool))),
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
