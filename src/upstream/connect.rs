//! How a connection to an upstream is opened: name, address, proxy, TLS, within one time limit. Each asks for the name's
//! addresses anew and tries those of both families, so a pool that ages its connections follows the DNS. Knows no HTTP but
//! the CONNECT of a proxy.

use super::proxy::Proxy;
use http::{HeaderValue, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower_service::Service;

/// A stream may be silent for long; a peer that is gone without a word is found by this.
const KEEPALIVE: Duration = Duration::from_secs(30);

type Straight = HttpsConnector<HttpConnector>;
type StraightIo = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Opens connections to one upstream. Cheap to clone.
#[derive(Clone)]
pub struct Connector {
    way: Way,
    within: Duration,
}

#[derive(Clone)]
enum Way {
    Straight(Straight),
    /// Plain HTTP by a proxy: it takes requests that bear the whole URL.
    Proxied {
        to: Straight,
        proxy: Proxy,
    },
    /// TLS by a proxy, which joins us to the upstream and sees no more of it.
    Tunnel(HttpsConnector<Tunnel<Straight>>),
}

/// An open connection.
pub struct Io {
    stream: Stream,
}

#[expect(clippy::large_enum_variant, reason = "nearly every connection is straight, and its pool boxes it")]
enum Stream {
    Straight(StraightIo),
    Tunnel(Box<MaybeHttpsStream<StraightIo>>),
}

/// Why there is no connection. The texts name no address, for clients read them; the log has the details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("connection refused")]
    Refused,
    #[error("no connection in time")]
    Late,
    #[error("its name has no address")]
    Name,
    #[error("its certificate is not trusted")]
    Untrusted,
    #[error("its certificate is for another name")]
    OtherName,
    #[error("its certificate is out of date")]
    OutOfDate,
    #[error("it refuses TLS with us")]
    Tls,
    #[error("the proxy wants a login")]
    Login,
    #[error("the proxy does not connect us")]
    Proxy,
    #[error("the proxy cannot be reached")]
    ProxyAway,
    #[error("no connection")]
    Other,
}

impl Connector {
    /// To an upstream behind this proxy, if there is one. `within` bounds all of one connecting: name, address, proxy, TLS.
    /// `https` says whether the upstream is spoken to by TLS.
    pub fn new(https: bool, tls: Arc<ClientConfig>, proxy: Option<Proxy>, within: Duration) -> Connector {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // Else the last segment of a request waits for the acknowledgement of those before it.
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        // Of several addresses each gets its part, so that the last is tried too.
        tcp.set_connect_timeout(Some(within));
        let straight = Straight::from((tcp, tls.clone()));
        let way = match proxy {
            None => Way::Straight(straight),
            Some(proxy) if !https => Way::Proxied { to: straight, proxy },
            Some(proxy) => {
                let tunnel = Tunnel::new(proxy.url, straight);
                let tunnel = match proxy.login {
                    Some(login) => tunnel.with_auth(login),
                    None => tunnel,
                };
                Way::Tunnel(HttpsConnector::from((tunnel, tls)))
            }
        };
        Connector { way, within }
    }

    /// Straight to any upstream, whose certificate is checked against the authorities that browsers trust.
    pub fn straight(within: Duration) -> Connector {
        let tls = crate::tls::client(crate::tls::public_roots(), None);
        Connector::new(true, Arc::new(tls), None, within)
    }

    /// `Proxy-Authorization` for requests, where they go to the proxy itself.
    pub fn login(&self) -> Option<&HeaderValue> {
        match &self.way {
            Way::Proxied { proxy, .. } => proxy.login.as_ref(),
            Way::Straight(_) | Way::Tunnel(_) => None,
        }
    }

    /// Whether requests bear the whole URL and not its path alone (RFC 9112 3.2.2): a proxy reads them.
    pub fn whole_url(&self) -> bool {
        matches!(self.way, Way::Proxied { .. })
    }

    /// A new connection to the upstream at `url`.
    pub async fn connect(&self, url: Uri) -> Result<Io, ConnectError> {
        let opening = async {
            match &self.way {
                Way::Straight(to) => to.clone().call(url).await.map(|io| Io { stream: Stream::Straight(io) }),
                Way::Proxied { to, proxy } => {
                    to.clone().call(proxy.url.clone()).await.map(|io| Io { stream: Stream::Straight(io) })
                }
                Way::Tunnel(to) => {
                    let io = to.clone().call(url).await;
                    io.map(|io| Io { stream: Stream::Tunnel(Box::new(io)) })
                }
            }
        };
        match tokio::time::timeout(self.within, opening).await {
            Ok(Ok(io)) => Ok(io),
            Ok(Err(error)) => {
                tracing::debug!(?error, "no connection to an upstream");
                match &self.way {
                    Way::Proxied { .. } => Err(ConnectError::ProxyAway),
                    Way::Straight(_) | Way::Tunnel(_) => Err(why(&*error)),
                }
            }
            Err(_) => Err(ConnectError::Late),
        }
    }
}

impl Io {
    /// The TCP connection, where nothing stands on it; else what it was.
    pub fn into_tcp(self) -> Result<TcpStream, Box<Io>> {
        match self.stream {
            Stream::Straight(MaybeHttpsStream::Http(tcp)) => Ok(tcp.into_inner()),
            stream => Err(Box::new(Io { stream })),
        }
    }
}

/// The first cause, from without to within, that says more than that it failed.
fn why(error: &(dyn Error + 'static)) -> ConnectError {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return of_tls(error);
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            match error.kind() {
                io::ErrorKind::ConnectionRefused => return ConnectError::Refused,
                io::ErrorKind::TimedOut => return ConnectError::Late,
                _ => {}
            }
            // What an I/O error was made of is not its source, but within it.
            if let Some(inner) = error.get_ref() {
                cause = Some(inner);
                continue;
            }
        }
        // These types have no names outside of their crate; their words are all there is.
        let said = error.to_string();
        if said.starts_with("dns error") {
            return ConnectError::Name;
        }
        match said.strip_prefix("tunnel error: ") {
            Some("proxy authorization required") => return ConnectError::Login,
            Some("unsuccessful" | "unexpected end of file" | "proxy response headers too long") => {
                return ConnectError::Proxy;
            }
            Some(_) => return ConnectError::ProxyAway,
            None => cause = error.source(),
        }
    }
    ConnectError::Other
}

fn of_tls(error: &rustls::Error) -> ConnectError {
    use rustls::CertificateError::*;
    match error {
        rustls::Error::InvalidCertificate(error) => match error {
            Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. } => {
                ConnectError::OutOfDate
            }
            NotValidForName | NotValidForNameContext { .. } => ConnectError::OtherName,
            _ => ConnectError::Untrusted,
        },
        _ => ConnectError::Tls,
    }
}

impl Read for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Straight(io) => Pin::new(io).poll_read(context, into),
            Stream::Tunnel(io) => Pin::new(&mut **io).poll_read(context, into),
        }
    }
}

impl Write for Io {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Straight(io) => Pin::new(io).poll_write(context, bytes),
            Stream::Tunnel(io) => Pin::new(&mut **io).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Straight(io) => Pin::new(io).poll_write_vectored(context, bytes),
            Stream::Tunnel(io) => Pin::new(&mut **io).poll_write_vectored(context, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Straight(io) => io.is_write_vectored(),
            Stream::Tunnel(io) => io.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Straight(io) => Pin::new(io).poll_flush(context),
            Stream::Tunnel(io) => Pin::new(&mut **io).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Straight(io) => Pin::new(io).poll_shutdown(context),
            Stream::Tunnel(io) => Pin::new(&mut **io).poll_shutdown(context),
        }
    }
}
