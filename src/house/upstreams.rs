//! Upstreams and profiles, from the configuration: a link for each upstream, a composite of links for each profile.

use super::{StartError, outbound};
use crate::config::{self, Config, Era, Globs, Transport};
use crate::demo::Demo;
use crate::edge::{Mount, Routes};
use crate::federation::{Composite, Member, Profile};
use crate::mcp::{Backend, UpstreamId};
use crate::relay::Relay;
use crate::upstream::channel::MessageLimits;
use crate::upstream::child::ChildSpec;
use crate::upstream::client::HttpClient;
use crate::upstream::http::{Http, HttpConfig};
use crate::upstream::link::{Link, LinkConfig, Reach};
use crate::upstream::pool::{Pool, PoolLimits, Start};
use crate::upstream::sse_client::SseSpec;
use crate::wire;
use futures_util::future::join_all;
use http::header::PROXY_AUTHORIZATION;
use http::{HeaderName, HeaderValue, Uri};
use secrecy::ExposeSecret;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long the ends of all upstreams may take: a child has 3 s after its input's end and 3 s after SIGTERM.
const FAREWELL: Duration = Duration::from_secs(8);
/// The longest that one upstream may hold up the lists of the others.
const LIST_LIMIT: Duration = Duration::from_secs(10);

/// The links to all upstreams, held to be ended in order.
pub struct Links {
    all: Vec<Arc<Link>>,
    relay: Option<Arc<Relay>>,
}

impl Links {
    /// How this pod and others reach one another's channels, where they do.
    pub fn relay(&self) -> Option<Arc<Relay>> {
        self.relay.clone()
    }

    /// Ends what the links hold open: standing calls, shared sessions, children. Waits for it, for a bounded time.
    pub async fn hang_up(self) {
        let all = join_all(self.all.iter().map(|link| link.hang_up()));
        if timeout(FAREWELL, all).await.is_err() {
            tracing::warn!("some upstreams were not ended in time");
        }
    }
}

/// What answers at each path, and the links behind it.
pub fn routes(config: &Config, demo: bool, relay: Option<Arc<Relay>>) -> Result<(Routes, Links), StartError> {
    let mut all = Vec::new();
    let mut links: BTreeMap<&str, Arc<dyn Backend>> = BTreeMap::new();
    for (name, upstream) in config.enabled_upstreams() {
        let id = UpstreamId::new(name).ok_or_else(|| setting(name, "", "is not an upstream id"))?;
        let link = linked(id, upstream, config, relay.as_ref())?;
        all.push(link.clone());
        links.insert(name, link);
    }
    let mut routes = Routes::default();
    for (name, profile, upstreams) in config.served_profiles() {
        let default = name == config::DEFAULT_PROFILE;
        let mut members: Vec<Member> = upstreams
            .iter()
            .filter_map(|id| Some(member(id, links.get(id)?.clone(), config, &profile)))
            .collect();
        if demo && default {
            members.push(Member {
                backend: Arc::new(Demo::default()),
                rename: BTreeMap::new(),
                tools: Globs::default(),
                uri_prefixes: Vec::new(),
                limit: LIST_LIMIT,
            });
        }
        let backend = Arc::new(Composite::new(Profile {
            name: name.into(),
            members,
            tools: profile.tools.clone(),
            instructions: profile.instructions.clone(),
        }));
        let path: Arc<str> = if default { "".into() } else { name.into() };
        routes.mounts.insert(path.clone(), Arc::new(Mount { name: path, backend }));
    }
    Ok((routes, Links { all, relay }))
}

fn member(id: &str, backend: Arc<dyn Backend>, config: &Config, profile: &config::Profile) -> Member {
    let upstream = config.enabled_upstreams().find(|(name, _)| *name == id).map(|(_, upstream)| upstream);
    let own = upstream.into_iter().flat_map(|u| u.rename.iter());
    let here =
        profile.rename.iter().filter(|(upstream, _)| *upstream == id).flat_map(|(_, names)| names.iter());
    Member {
        backend,
        // The profile's names go before the upstream's.
        rename: own.chain(here).map(|(tool, shown)| (tool.to_owned(), shown.to_owned())).collect(),
        tools: upstream.map(|u| u.tools.clone()).unwrap_or_default(),
        uri_prefixes: upstream.map(|u| u.uri_prefixes.clone()).unwrap_or_default(),
        limit: LIST_LIMIT,
    }
}

fn setting(id: &str, key: &str, why: impl Into<String>) -> StartError {
    let dot = if key.is_empty() { "" } else { "." };
    StartError::Setting { key: format!("upstreams.{id}{dot}{key}"), why: why.into() }
}

/// A link to an upstream as configured, whose channels are shared with other pods where there are others and the
/// upstream keeps state.
fn linked(
    id: UpstreamId,
    upstream: &config::Upstream,
    config: &Config,
    relay: Option<&Arc<Relay>>,
) -> Result<Arc<Link>, StartError> {
    let mut reach = reach(&id, upstream, config)?;
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
    let reach = reach(&id, upstream, config)?;
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
fn reach(id: &UpstreamId, upstream: &config::Upstream, config: &Config) -> Result<Reach, StartError> {
    let limits = message_limits(config);
    let pool = |start: Arc<dyn Start>| Arc::new(Pool::new(start, PoolLimits::from(upstream)));
    if let Some(child) = ChildSpec::of(id.clone(), upstream, limits) {
        return Ok(Reach { http: None, channels: Some(pool(Arc::new(child))), channels_era: None });
    }
    let url = upstream.url.as_deref().unwrap_or_default();
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
        client: client.clone(),
        limits,
        start_timeout: upstream.start_timeout,
    };
    let by_http = upstream.transport != Transport::Sse;
    let by_sse =
        matches!(upstream.transport, Transport::Auto | Transport::Sse) && upstream.era != Era::Modern;
    Ok(Reach {
        http: by_http.then(|| Arc::new(Http::new(client, http)) as Arc<_>),
        channels: by_sse.then(|| pool(Arc::new(sse)) as Arc<_>),
        channels_era: by_sse.then_some(wire::Era::Legacy),
    })
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
