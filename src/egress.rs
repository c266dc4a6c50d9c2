//! The one client for URLs that come from outside: client metadata, keys of issuers, metadata of upstreams. It reaches public
//! addresses only, whatever a name resolves to and whenever, follows no redirect by itself, and bounds time and size.
//! Knows nothing of MCP or OAuth.

mod proxy;
mod reach;

pub use proxy::Proxy;
pub use reach::Reach;

use crate::tls;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri, header};
use http_body::Body as _;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use reach::{Names, Resolver};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// Longest time for one request, from its name's resolution to the last byte of its answer.
const WITHIN: Duration = Duration::from_secs(10);
/// Longest time for one address to take a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Largest answer, in bytes: metadata documents and key sets are small.
const LARGEST: usize = 256 << 10;
/// Idle connections that are kept for one host, and how long.
const IDLE: usize = 2;
const IDLE_TIME: Duration = Duration::from_secs(15);

/// How much one request may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// From its name's resolution to the last byte of its answer.
    pub within: Duration,
    /// Largest answer, in bytes.
    pub largest: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { within: WITHIN, largest: LARGEST }
    }
}

/// Who named a URL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// The operator's configuration: it may lie inside, and be plain HTTP.
    ByUs,
    /// A stranger, at a host of the operator's list: as by others, but that a proxy may know its name alone.
    Listed,
    /// Anyone else: https to a public address, but for what [`Reach`] admits.
    ByOthers,
}

/// Why there is no answer. The texts name no address: others may read them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("it is not an absolute https URL without credentials or fragment")]
    Url,
    #[error("it leads to an address that is not reached from here")]
    Refused,
    /// Nothing was sent.
    #[error("there is no connection")]
    Unreachable,
    #[error("it did not answer in time")]
    Late,
    #[error("its answer is larger than it may be")]
    TooLarge,
    /// It may have had the whole request.
    #[error("it broke off")]
    Broken,
}

/// An answer, whole. Its body is a stranger's.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The client. Cheap to clone.
#[derive(Clone)]
pub struct Egress {
    /// Its resolver lets public addresses pass alone, and what `reach` admits.
    guarded: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    free: Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>,
    proxied: Option<(Proxy, Client<Tunnelled, Full<Bytes>>)>,
    reach: Arc<Reach>,
    names: Names,
    tls: Arc<ClientConfig>,
}

/// TLS through a proxy, which itself may be spoken to by TLS.
type Tunnelled = HttpsConnector<Tunnel<HttpsConnector<HttpConnector<Resolver>>>>;

impl Egress {
    /// `reach`: which addresses that are not public may be reached all the same.
    pub fn new(reach: Reach, roots: RootCertStore) -> Egress {
        Egress::by_names(reach, roots, Names::System(GaiResolver::new()))
    }

    fn by_names(reach: Reach, roots: RootCertStore, names: Names) -> Egress {
        let reach = Arc::new(reach);
        let tls = Arc::new(tls::client(roots, None));
        let guarded = pooled(straight(Resolver::guarded(names.clone(), reach.clone()), &tls));
        let free = pooled(straight(Resolver::free(names.clone()), &tls));
        Egress { guarded, free, proxied: None, reach, names, tls }
    }

    /// The same by a proxy, as far as it stands before what is asked for. Addresses inside are reached as without it, and so
    /// is plain HTTP; names of strangers must be known here too.
    pub fn by(self, proxy: Proxy) -> Egress {
        let way = straight(Resolver::free(self.names.clone()), &self.tls);
        let tunnel = Tunnel::new(proxy.url.clone(), way);
        let tunnel = match proxy.login.clone() {
            Some(login) => tunnel.with_auth(login),
            None => tunnel,
        };
        let client = pooled(HttpsConnector::from((tunnel, self.tls.clone())));
        Egress { proxied: Some((proxy, client)), ..self }
    }

    /// The answer to a GET, whatever its status. A redirect is an answer: whoever follows it asks again, as for any other
    /// URL of a stranger.
    pub async fn get(&self, url: &str, named: Named) -> Result<Answer, FetchError> {
        let request = Request::get(url).header(header::ACCEPT, "application/json");
        let request = request.body(Bytes::new()).map_err(|_| FetchError::Url)?;
        self.send(request, named).await
    }

    /// The answer to a request, whatever its status.
    pub async fn send(&self, request: Request<Bytes>, named: Named) -> Result<Answer, FetchError> {
        self.send_within(request, named, Bounds::default()).await
    }

    /// As [`Egress::send`], within other bounds.
    pub async fn send_within(
        &self,
        request: Request<Bytes>,
        named: Named,
        bounds: Bounds,
    ) -> Result<Answer, FetchError> {
        self.check(request.uri(), named)?;
        let answering = async {
            let proxied = match &self.proxied {
                Some((proxy, client)) => {
                    let by_proxy = proxy::takes(proxy, &self.names, request.uri(), named).await?;
                    by_proxy.then_some(client)
                }
                None => None,
            };
            let request = request.map(Full::new);
            let sending = match (proxied, named) {
                (Some(client), _) => client.request(request),
                (None, Named::ByUs) => self.free.request(request),
                (None, Named::ByOthers | Named::Listed) => self.guarded.request(request),
            };
            let answer = sending.await.map_err(|error| {
                tracing::debug!(%error, "a URL from outside was not reached");
                match reach::refused(&error) {
                    true => FetchError::Refused,
                    false if error.is_connect() => FetchError::Unreachable,
                    false => FetchError::Broken,
                }
            })?;
            let (head, body) = answer.into_parts();
            // What says that it is too large is not read at all.
            if body.size_hint().lower() > bounds.largest as u64 {
                return Err(FetchError::TooLarge);
            }
            let body = Limited::new(body, bounds.largest).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() { FetchError::TooLarge } else { FetchError::Broken }
            })?;
            Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes() })
        };
        tokio::time::timeout(bounds.within, answering).await.unwrap_or(Err(FetchError::Late))
    }

    /// Whether a URL would be asked for, as far as can be said before its name is resolved.
    pub fn takes(&self, url: &str, named: Named) -> bool {
        url.parse().is_ok_and(|uri| self.check(&uri, named).is_ok())
    }

    /// What can be said of a URL before its name is resolved. Names are judged when they are resolved, at each connection,
    /// so that a name which leads elsewhere the second time gains nothing; addresses in the URL are not resolved, hence
    /// judged here.
    fn check(&self, uri: &Uri, named: Named) -> Result<(), FetchError> {
        let url = Url::parse(&uri.to_string()).map_err(|_| FetchError::Url)?;
        let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        let (Some(host), true, "http" | "https") = (url.host(), bare, url.scheme()) else {
            return Err(FetchError::Url);
        };
        if named == Named::ByUs {
            return Ok(());
        }
        let admitted = match host {
            url::Host::Domain(_) => true,
            url::Host::Ipv4(ip) => self.reach.admits(ip.into()),
            url::Host::Ipv6(ip) => self.reach.admits(ip.into()),
        };
        match admitted {
            false => Err(FetchError::Refused),
            true if url.scheme() == "https" || self.reach.plain() => Ok(()),
            true => Err(FetchError::Url),
        }
    }
}

fn straight(resolver: Resolver, tls: &Arc<ClientConfig>) -> HttpsConnector<HttpConnector<Resolver>> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    HttpsConnector::from((tcp, tls.clone()))
}

fn pooled<C: Connect + Clone>(connector: C) -> Client<C, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIME)
        .pool_max_idle_per_host(IDLE)
        .build(connector)
}

#[cfg(test)]
mod tests;
