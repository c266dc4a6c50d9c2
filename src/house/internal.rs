//! The internal listener: where other pods reach what this pod has for their callers.

use super::{Arc, CancellationToken, Config, Relay, StartError, TcpListener, listener};
use crate::edge::listener::{Bounds, Ends};
use http::uri::Authority;

/// What a message to an upstream may be longer than the client's request that it comes from: what we add to it.
pub(super) const MARGIN: usize = 64 << 10;

/// The listener, and where others reach it; `None` where there are no other pods, or it is not to be opened.
pub(super) async fn bind(config: &Config) -> Result<Option<(TcpListener, String)>, StartError> {
    let (Some(at), Some(_)) = (config.internal_listen, &config.store.redis_url) else { return Ok(None) };
    let listener = super::bind("internal_listen", at).await?;
    let bound = listener.local_addr();
    let bound = bound.map_err(|error| StartError::Bind { what: "internal_listen", address: at, error })?;
    let told = config.internal_address.clone().or_else(|| {
        // What an orchestrator says of the pod, where the address to listen at says nothing.
        std::env::var("POD_IP").ok().filter(|ip| at.ip().is_unspecified() && !ip.is_empty())
    });
    let address = match told {
        Some(host) => reached(&host, bound.port()),
        None if at.ip().is_unspecified() => None,
        None => Some(bound.to_string()),
    };
    let why =
        || "is needed beside an internal_listen at every address: the host that other pods reach this one by";
    let address = address
        .ok_or_else(|| StartError::Setting { key: "internal_address".to_owned(), why: why().to_owned() })?;
    tracing::info!(listen = %bound, %address, "other pods reach this one");
    Ok(Some((listener, address)))
}

/// `host:port`, with this port where the host names none.
fn reached(host: &str, port: u16) -> Option<String> {
    let host = match host.parse() {
        Ok(std::net::IpAddr::V6(ip)) => format!("[{ip}]"),
        _ => host.to_owned(),
    };
    let authority: Authority = host.parse().ok()?;
    Some(match authority.port() {
        Some(_) => host,
        None => format!("{host}:{port}"),
    })
}

/// Serves it to the very end: calls of other pods' callers that have begun here end here.
pub(super) async fn serve(
    listener: Option<TcpListener>,
    relay: Option<Arc<Relay>>,
    bounds: Bounds,
    over: CancellationToken,
) {
    let (Some(listener), Some(relay)) = (listener, relay) else { return };
    let bounds = Bounds { connections: listener::most_connections() / 2, ..bounds };
    let answer = move |request, _| relay.clone().answer(request);
    listener::serve(listener, bounds, answer, Ends::at(&over)).await;
}

#[cfg(test)]
mod tests {
    use super::reached;

    #[test]
    fn an_address_has_a_port_and_a_form_that_urls_take() {
        let table = [
            ("10.0.0.7", Some("10.0.0.7:9")),
            ("10.0.0.7:8", Some("10.0.0.7:8")),
            ("fd00::7", Some("[fd00::7]:9")),
            ("pod-7.pods", Some("pod-7.pods:9")),
            ("a b", None),
        ];
        for (host, want) in table {
            assert_eq!(reached(host, 9).as_deref(), want, "{host}");
        }
    }
}
