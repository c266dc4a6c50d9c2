//! The HTTP client that transports share: pooled connections to upstreams, and no policy. Follows no redirect, keeps
//! no cookie, adds no header but `Host`.

mod body;
mod connection;
mod head;
mod pool;
mod socket;
mod usual;

pub use crate::http1::Fields;
pub use body::Body;
pub use usual::{Own, Usual};

use super::connect::{ConnectError, Connector};
use bytes::Bytes;
use connection::{Connection, Failed};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use pool::{IDLE, Pool};
use socket::Socket;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Cheap to clone; clones share the pool.
#[derive(Clone)]
pub struct HttpClient {
    connector: Connector,
    pool: Arc<Pool>,
}

/// A request, which is sent from where it stands: nothing of it is copied but to the wire.
pub struct Sending<'a> {
    /// What it has as others have it, but for the headers that it names itself.
    pub usual: &'a Usual,
    pub own: Own<'a>,
    pub body: Bytes,
}

/// What came back for a request.
pub struct Response {
    pub status: StatusCode,
    pub fields: Fields,
    pub body: Body,
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
        let socket = Socket::of(self.connector.connect(uri.clone()).await?);
        Ok(Connection::new(socket, uri, self.pool.end_of_life()))
    }

    /// What requests of this client to an absolute URI have in common.
    pub fn usual(&self, method: Method, uri: Uri, headers: HeaderMap) -> Usual {
        Usual::new(method, uri, headers, self.connector.whole_url())
    }

    /// As [`HttpClient::send`], for a request that stands by itself.
    pub async fn request(&self, request: Request<Bytes>) -> Result<http::Response<Body>, ClientError> {
        let (parts, body) = request.into_parts();
        let usual = self.usual(parts.method, parts.uri, parts.headers);
        let came = self.send(&Sending { usual: &usual, own: Own::new(), body }).await?;
        let mut response = http::Response::new(came.body);
        *response.status_mut() = came.status;
        *response.headers_mut() = came.fields.into_map();
        Ok(response)
    }

    /// Sends a request. Dropping the response, or its body before the end, closes the connection. Errors: no connection, or
    /// it ended before the response; of a connection that was idle and ended before it took the request, another is tried.
    pub async fn send(&self, request: &Sending<'_>) -> Result<Response, ClientError> {
        let uri = &request.usual.uri;
        loop {
            let (mut connection, idle) = match self.pool.take(uri) {
                Some(connection) => (connection, true),
                None => (Box::pin(self.connect(uri.clone())).await?, false),
            };
            match connection.exchange(request).await {
                Ok((status, fields)) => {
                    return Ok(Response { status, fields, body: Body::new(connection, &self.pool) });
                }
                Err(Failed { unsent: true, .. }) if idle => {}
                Err(Failed { error, .. }) => return Err(ClientError::Broken(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
