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
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use hyper_util::rt::TokioIo;
use pool::{IDLE, Pool};
use smallvec::SmallVec;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct HttpClient {
    connector: Connector,
    pool: Arc<Pool>,
}

/// A few headers, of which the last of a name counts.
pub type Headers = SmallVec<[(HeaderName, HeaderValue); 6]>;

/// A request, which is sent from where it stands: nothing of it is copied but to the wire.
pub struct Sending<'a> {
    pub method: Method,
    /// Absolute.
    pub uri: &'a Uri,
    /// Headers that it has as others have them, but for those that it names itself.
    pub usual: &'a HeaderMap,
    pub own: Headers,
    pub body: Bytes,
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

    /// As [`HttpClient::send`], for a request that stands by itself.
    pub async fn request(&self, request: Request<Bytes>) -> Result<Response<Body>, ClientError> {
        let (parts, body) = request.into_parts();
        let (uri, usual, own) = (&parts.uri, &parts.headers, Headers::new());
        self.send(&Sending { method: parts.method, uri, usual, own, body }).await
    }

    /// Sends a request. Dropping the response, or its body before the end, closes the connection. Errors: no connection, or
    /// it ended before the response; of a connection that was idle and ended before it took the request, another is tried.
    pub async fn send(&self, request: &Sending<'_>) -> Result<Response<Body>, ClientError> {
        loop {
            let (mut connection, idle) = match self.pool.take(request.uri) {
                Some(connection) => (connection, true),
                None => (Box::pin(self.connect(request.uri.clone())).await?, false),
            };
            match connection.exchange(request).await {
                Ok(response) => return Ok(response.map(|()| Body::new(connection, &self.pool))),
                Err(Failed { unsent: true, .. }) if idle => {}
                Err(Failed { error, .. }) => return Err(ClientError::Broken(error)),
            }
        }
    }
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
