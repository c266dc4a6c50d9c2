//! The client side's rules, from the configuration.

use super::StartError;
use crate::config::{Config, MixedVersionHeader, may_go_upstream};
use crate::edge::Rules;
use http::HeaderName;

/// Errors: a header that may not or cannot be forwarded.
pub fn of(config: &Config) -> Result<Rules, StartError> {
    let Config { limits, timeouts, streams, .. } = config;
    let mut forward: Vec<HeaderName> = Vec::new();
    for (id, upstream) in config.enabled_upstreams() {
        for (n, name) in upstream.forward_headers.iter().enumerate() {
            let setting = |why: &str| StartError::Setting {
                key: format!("upstreams.{id}.forward_headers[{n}]"),
                why: format!("{name:?} {why}"),
            };
            let name: HeaderName = name.parse().map_err(|_| setting("is not a header name"))?;
            if !may_go_upstream(name.as_str()) {
                return Err(setting("never goes upstream"));
            }
            if !forward.contains(&name) {
                forward.push(name);
            }
        }
    }
    let mut hosts = config.allowed_hosts.clone();
    let mut origins = config.allowed_origins.clone();
    if let Some(url) = &config.public_url {
        origins.push(url.clone());
        hosts.extend(url.split_once("://").map(|(_, authority)| authority.to_owned()));
    }
    if !config.listen.ip().is_unspecified() {
        hosts.push(config.listen.to_string());
    }
    Ok(Rules {
        request_bytes: limits.request_bytes,
        header_bytes: limits.header_bytes,
        depth: limits.json_depth.try_into().unwrap_or(u16::MAX),
        page_items: limits.page_items as usize,
        calls: limits.concurrent_calls as usize,
        connections_per_address: limits.connections_per_address,
        call: timeouts.call,
        header_read: timeouts.header_read,
        body_read: timeouts.body_read,
        open_after: streams.open_after,
        keep_alive: streams.keep_alive,
        sessionless: config.legacy.sessionless || config.legacy.stateless,
        stateless: config.legacy.stateless,
        follow_meta: config.compat.mixed_version_header == MixedVersionHeader::FollowMeta,
        hosts,
        origins,
        shared: config.store.redis_url.is_some(),
        public_path: config.public_path.clone(),
        forward,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Upstream;

    #[test]
    fn what_is_between_the_client_and_the_gateway_is_not_forwarded() {
        let with = |name: &str| {
            let upstream = Upstream { forward_headers: vec![name.to_owned()], ..Upstream::default() };
            Config { upstreams: [("a".to_owned(), upstream)].into_iter().collect(), ..Config::default() }
        };
        assert_eq!(of(&with("X-Ok")).unwrap().forward, ["x-ok"]);
        for name in [
            "Authorization",
            "Cookie",
            "Proxy-Authorization",
            "Host",
            "Connection",
            "Keep-Alive",
            "Transfer-Encoding",
            "Content-Length",
            "TE",
            "Upgrade",
            "Mcp-Name",
            "a b",
        ] {
            assert!(of(&with(name)).is_err(), "{name}");
        }
    }
}
