//! The admin port as a command of the same machine asks it. Knows no page of it.

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is read: a word, or why not.
const LONGEST: usize = 4096;

/// Where the admin port is.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Address {
    /// The gateway's admin address, `http://host:port` or `host:port`
    #[arg(long, value_name = "URL", env = "PLASM_MCP_ADMIN_LISTEN", default_value = "http://127.0.0.1:9090")]
    admin: String,
}

/// Why it gave no good answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("{0}")]
    NotReached(String),
    #[error("it answers {0}: {1}")]
    Refused(StatusCode, String),
}

impl Address {
    /// `host:port` to connect to.
    ///
    /// # Errors
    /// The flag is wrong, which standard error says; the code to end with.
    pub fn authority(&self) -> Result<String, ExitCode> {
        authority(&self.admin).ok_or_else(|| {
            eprintln!("plasm-mcp: --admin: {:?} is no http://host:port", self.admin);
            super::USAGE.into()
        })
    }
}

/// One request for a page, on a connection of its own; gives the text of a 2xx.
pub(super) async fn ask(admin: &str, verb: Method, page: &str) -> Result<String, Failed> {
    send(admin, verb, page, None, String::new()).await
}

/// As [`ask`], with a body and, where there is one, the admin token.
pub(super) async fn send(
    admin: &str,
    verb: Method,
    page: &str,
    token: Option<&str>,
    body: String,
) -> Result<String, Failed> {
    let exchange = async {
        let io = |error: std::io::Error| Failed::NotReached(error.to_string());
        let broken = |error: hyper::Error| Failed::NotReached(error.to_string());
        let socket = TcpStream::connect(admin).await.map_err(io)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.map_err(broken)?;
        let request = Request::builder().method(verb).uri(page).header(HOST, admin);
        let request = match token {
            Some(token) => request.header(AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        };
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|_| Failed::NotReached("the admin token is no header".to_owned()))?;
        let answer = async {
            let answer = sender.send_request(request).await.map_err(broken)?;
            let status = answer.status();
            let text = Limited::new(answer.into_body(), LONGEST).collect().await;
            let text = text.map_err(|error| Failed::NotReached(error.to_string()))?.to_bytes();
            Ok((status, String::from_utf8_lossy(&text).trim().to_owned()))
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            Err(error) = connection => Err(broken(error)),
        }
    };
    let late = |_| Failed::NotReached("no answer in time".to_owned());
    let (status, text) = timeout(PATIENCE, exchange).await.map_err(late)??;
    if status.is_success() { Ok(text) } else { Err(Failed::Refused(status, text)) }
}

/// Where to connect to.
fn authority(admin: &str) -> Option<String> {
    let uri: Uri = admin.parse().ok()?;
    let plain = uri.scheme_str().is_none_or(|scheme| scheme == "http");
    let authority = uri.authority().filter(|_| plain && uri.path().len() <= 1)?;
    authority.port_u16().map(|_| authority.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_admin_address_is_a_url_or_what_admin_listen_says() {
        assert_eq!(authority("http://127.0.0.1:9090/").as_deref(), Some("127.0.0.1:9090"));
        assert_eq!(authority("0.0.0.0:9090").as_deref(), Some("0.0.0.0:9090"));
        assert_eq!(authority("http://[::1]:9090").as_deref(), Some("[::1]:9090"));
        for bad in ["https://127.0.0.1:9090", "127.0.0.1", "http://a:1/drain", "a b", ""] {
            assert_eq!(authority(bad), None, "{bad}");
        }
    }
}
