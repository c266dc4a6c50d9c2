//! One upstream's link, from the configuration.

use super::{StartError, outbound};
use crate::auth;
use crate::config::{self, Config, Era, Transport};
use crate::mcp::UpstreamId;
use crate::relay::Relay;
use crate::upstream::channel::MessageLimits;
use crate::upstream::child::ChildSpec;
use crate::upstream::client::HttpClient;
use crate::upstream::http::{Http, HttpConfig};
use crate::upstream::link::{Link, LinkConfig, Reach};
use crate::upstream::pool::{Pool, PoolLimits, Start};
use crate::upstream::sse_client::SseSpec;
use crate::vault::{Spec, Vault};
use crate::wire;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderName, HeaderValue, Uri};
use secrecy::ExposeSecret;
use std::sync::Arc;

/// What a link is made of. Files and variables count by what they hold, so that a rotated secret makes another link.
#[derive(PartialEq)]
pub(super) struct Recipe {
    upstream: config::Upstream,
    outbound: config::Outbound,
    limits: (usize, u32),
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Digests of the secrets of its credential.
    secrets: Vec<Option<String>>,
    files: Vec<Option<Vec<u8>>>,
}

impl Recipe {
    pub(super) fn of(
        id: &UpstreamId,
        upstream: &config::Upstream,
        config: &Config,
    ) -> Result<Recipe, StartError> {
        let tls = [&upstream.tls, &config.outbound.tls];
        let files = tls.into_iter().flat_map(|tls| [&tls.ca, &tls.cert, &tls.key]).flatten();
        // What profiles make of it makes no other link.
        let blank = config::Upstream::default();
        let upstream_alone = config::Upstream {
            tools: blank.tools,
            rename: blank.rename,
            uri_prefixes: blank.uri_prefixes,
            overrides: blank.overrides,
            pin: blank.pin,
            pins: blank.pins,
            ..upstream.clone()
        };
        Ok(Recipe {
            headers: headers(id, upstream)?,
            secrets: [&upstream.auth.client_secret, &upstream.auth.private_key].map(digest).into(),
            upstream: upstream_alone,
            outbound: config.outbound.clone(),
            limits: (config.limits.upstream_message_bytes, config.limits.json_depth),
            files: files.map(|file| std::fs::read(file).ok()).collect(),
        })
    }
}

pub(super) fn setting(id: &str, key: &str, why: impl Into<String>) -> StartError {
    let dot = if key.is_empty() { "" } else { "." };
    StartError::Setting { key: format!("upstreams.{id}{dot}{key}"), why: why.into() }
}

/// A link to an upstream as configured, whose channels are shared with other pods where there are others and the
/// upstream keeps state.
pub(super) fn linked(
    id: UpstreamId,
    upstream: &config::Upstream,
    config: &Config,
    relay: Option<&Arc<Relay>>,
    vault: &Vault,
) -> Result<Arc<Link>, StartError> {
    let mut reach = reach(&id, upstream, config, Some(vault))?;
    let shared = relay.filter(|_| !upstream.stateless);
    let Some((relay, channels)) = shared.and_then(|relay| Some((relay, reach.channels.take()?))) else {
        return Ok(Arc::new(Link::new(link_config(id, upstream), reach)));
    };
    let leased = relay.share(id.clone(), &like(upstream), channels);
    let reach = Reach { channels: Some(leased.clone()), ..reach };
    let link = Arc::new(Link::new(link_config(id, upstream), reach));
    leased.of(&link);
    Ok(link)
}

/// What two pods must have alike for a channel of the one to be as good as one of the other.
fn like(upstream: &config::Upstream) -> String {
    let config::Upstream { url, command, args, cwd, .. } = upstream;
    format!("{url:?} {command:?} {args:?} {cwd:?}")
}

/// A link to an upstream as configured. Errors: a setting that cannot be used.
pub fn link(id: UpstreamId, upstream: &config::Upstream, config: &Config) -> Result<Link, StartError> {
    let reach = reach(&id, upstream, config, None)?;
    Ok(Link::new(link_config(id, upstream), reach))
}

fn link_config(id: UpstreamId, upstream: &config::Upstream) -> LinkConfig {
    let mut link = LinkConfig::new(id);
    link.era = match upstream.era {
        Era::Auto => None,
        Era::Modern => Some(wire::Era::Modern),
        Era::Legacy => Some(wire::Era::Legacy),
    };
    link.stateless = upstream.stateless;
    link.forward_headers = upstream.forward_headers.iter().filter_map(|name| name.parse().ok()).collect();
    link.request_timeout = upstream.start_timeout;
    link.most_calls = upstream.max_concurrent as usize;
    link.call_timeout = upstream.timeout;
    link.failures = upstream.health.failures;
    link.longest_pause = upstream.health.longest_pause;
    link
}

/// What one message of an upstream may be.
pub fn message_limits(config: &Config) -> MessageLimits {
    MessageLimits {
        bytes: config.limits.upstream_message_bytes,
        depth: config.limits.json_depth.try_into().unwrap_or(u16::MAX),
    }
}

/// The ways to one upstream: a child of ours, or its URL.
fn reach(
    id: &UpstreamId,
    upstream: &config::Upstream,
    config: &Config,
    vault: Option<&Vault>,
) -> Result<Reach, StartError> {
    let limits = message_limits(config);
    let pool = |start: Arc<dyn Start>| Arc::new(Pool::new(start, PoolLimits::from(upstream)));
    if let Some(child) = ChildSpec::of(id.clone(), upstream, limits) {
        return Ok(Reach {
            http: None,
            channels: Some(pool(Arc::new(child))),
            channels_era: None,
            credentials: None,
        });
    }
    let url = upstream.url.as_deref().unwrap_or_default();
    let credentials = match vault {
        Some(vault) => {
            let spec = Spec::of(id.clone(), url, &upstream.auth);
            vault.credentials(spec.map_err(|error| setting(id.as_str(), error.key, error.why))?)
        }
        None => None,
    };
    if upstream.auth.kind == config::CredentialKind::Oauth && vault.is_some_and(|vault| !vault.connects()) {
        let why = "needs to know who is at a browser, and under which address: set public_url, and auth.server where a login is on";
        return Err(setting(id.as_str(), "auth.kind", why));
    }
    let personal = credentials.as_ref().is_some_and(|credentials| credentials.personal());
    let url: Uri = url.parse().map_err(|_| setting(id.as_str(), "url", "is not a URL"))?;
    let connector = outbound::connector(id, upstream, &url, config)?;
    let mut headers = headers(id, upstream)?;
    headers.extend(connector.login().map(|login| (PROXY_AUTHORIZATION, login.clone())));
    let client = HttpClient::new(connector).aged(config.outbound.max_age);
    let http = HttpConfig {
        url: url.clone(),
        headers: headers.clone(),
        cookies: upstream.cookies,
        limit: limits.bytes,
    };
    let sse = SseSpec {
        name: id.clone(),
        url,
        headers,
        bearer: credentials.as_ref().and_then(|credentials| credentials.of(None)),
        client: client.clone(),
        limits,
        start_timeout: upstream.start_timeout,
    };
    let by_http = upstream.transport != Transport::Sse;
    let by_sse = matches!(upstream.transport, Transport::Auto | Transport::Sse)
        && upstream.era != Era::Modern
        && !personal;
    Ok(Reach {
        http: by_http.then(|| Arc::new(Http::new(client, http)) as Arc<_>),
        channels: by_sse.then(|| pool(Arc::new(sse)) as Arc<_>),
        channels_era: by_sse.then_some(wire::Era::Legacy),
        credentials,
    })
}

/// What tells a secret from another, where it can be read.
fn digest(secret: &Option<config::Secret>) -> Option<String> {
    let value = secret.as_ref()?.reveal().ok()?;
    Some(auth::digest_text(value.expose_secret().as_bytes()))
}

fn headers(
    id: &UpstreamId,
    upstream: &config::Upstream,
) -> Result<Vec<(HeaderName, HeaderValue)>, StartError> {
    let header = |(name, secret): (&str, &config::Secret)| {
        let key = format!("headers.{name}");
        let bad = |why: String| setting(id.as_str(), &key, why);
        let text = secret.reveal().map_err(|e| bad(e.to_string()))?;
        let name = name.parse().map_err(|_| bad("is not a header name".into()))?;
        let mut value =
            HeaderValue::from_str(text.expose_secret()).map_err(|_| bad("is not a header value".into()))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    upstream.headers.iter().map(header).collect()
}
