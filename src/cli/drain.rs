//! `plasm-mcp drain`: what a pod's preStop hook runs. Tells the gateway of this machine to drain, and waits until it has.

use super::target::duration;
use super::{FAILURE, STILL_DRAINING, SUCCESS, USAGE};
use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub const EXIT_CODES: &str = "Exit codes: 0 nothing is in flight any more, or the gateway has ended; 1 it cannot be reached, or \
refuses; 2 wrong command line; 4 calls are still in flight after --wait: the drain goes on.";

/// How often the gateway is asked how far it is.
const PACE: Duration = Duration::from_millis(100);
/// The longest wait for one answer of the admin port.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is read: a word, or why not.
const LONGEST: usize = 4096;

#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The gateway's admin address, `http://host:port` or `host:port`
    #[arg(long, value_name = "URL", env = "PLASM_MCP_ADMIN_LISTEN", default_value = "http://127.0.0.1:9090")]
    admin: String,
    /// How long to wait until nothing is in flight
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = duration)]
    wait: Duration,
}

/// Why the gateway could not be drained.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("{0}")]
    NotReached(String),
    #[error("it answers {0}: {1}")]
    Refused(StatusCode, String),
}

pub async fn run(args: Args) -> ExitCode {
    let Some(admin) = authority(&args.admin) else {
        eprintln!("plasm-mcp: --admin: {:?} is no http://host:port", args.admin);
        return USAGE.into();
    };
    let until = Instant::now() + args.wait;
    match drain(&admin, until).await {
        Ok(true) => SUCCESS,
        Ok(false) => {
            eprintln!("plasm-mcp: calls are still in flight; the drain goes on");
            STILL_DRAINING
        }
        Err(why) => {
            eprintln!("plasm-mcp: the gateway at {admin} was not drained: {why}");
            FAILURE
        }
    }
    .into()
}

/// Whether nothing was in flight in time.
async fn drain(admin: &str, until: Instant) -> Result<bool, Failed> {
    let mut stage = ask(admin, Method::POST).await?;
    while stage.trim() != "drained" {
        if timeout_at(until, sleep(PACE)).await.is_err() {
            return Ok(false);
        }
        match ask(admin, Method::GET).await {
            Ok(now) => stage = now,
            // It was told to drain: who is not there any more has done so.
            Err(Failed::NotReached(_)) => return Ok(true),
            Err(refused) => return Err(refused),
        }
    }
    Ok(true)
}

/// One request to `/drain`, on a connection of its own; gives the stage.
async fn ask(admin: &str, verb: Method) -> Result<String, Failed> {
    let exchange = async {
        let io = |error: std::io::Error| Failed::NotReached(error.to_string());
        let broken = |error: hyper::Error| Failed::NotReached(error.to_string());
        let socket = TcpStream::connect(admin).await.map_err(io)?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.map_err(broken)?;
        let request = Request::builder().method(verb).uri("/drain").header(HOST, admin);
        let request = request.body(Full::new(Bytes::new())).expect("the address was parsed as one");
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
