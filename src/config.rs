//! The one typed configuration: what can be set, its defaults and bounds. Read from flags, environment, a YAML file and
//! clients' `mcp.json`, checked as a whole. Imports nothing of ours; whoever needs a setting takes its part by value.
//!
//! A doc comment here is the key's line in `docs/configuration.md` and in the JSON Schema; the schema's attributes are the
//! bounds that loading enforces.

use std::{net::SocketAddr, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

mod artifacts;
mod auth;
mod auth_server;
mod catalogs;
mod check;
mod credentials;
mod egress;
mod environment;
mod format;
pub mod glob;
mod load;
mod mcp_servers;
mod ordered;
mod outbound;
mod policy;
mod problem;
mod programs;
mod rates;
mod reference;
mod secret;
mod show;
mod telemetry;
mod tree;
mod units;
mod upstream;
mod validate;
mod watch;

pub use artifacts::{ArtifactAccess, Artifacts, Cloud, ObjectPlace};
pub use auth::{Algorithm, ApiKey, Auth, Issuer};
pub use auth_server::{AuthServer, BrowserLogin, LoginUser, OidcLogin, Redirects, Vendor};
pub use catalogs::{CatalogHere, Catalogs, Connection};
pub use credentials::{ClientAuth, Credential, CredentialKind};
pub use egress::Egress;
pub use format::is_key_id;
pub use load::{Flag, Loaded, Sources, Values, load};
pub use ordered::Ordered;
pub use outbound::{Outbound, Tls};
pub use policy::{
    Annotations, Condition, OnFailure, Only, Override, Pin, Policy, ProfileScopes, Rule, Verdict, Webhook,
};
pub use problem::{ConfigError, KeyPath, Origin, Place, Problem, did_you_mean, nearest};
pub use rates::{Allowance, Classes, Concurrency, ProxyHeader, Quotas, Rates, WhenStoreAway};
pub use reference::{reference, schema};
pub use secret::{Secret, SecretError};
pub use show::{ShowError, to_json, to_yaml};
pub use telemetry::{Audit, AuditTo, Parents, Telemetry, Traces};
pub use tree::{Node, parse_yaml, read_yaml};
pub use units::{parse_duration, parse_size, show_duration, show_size};
pub use upstream::{Era, Globs, Health, Transport, Upstream};
pub use validate::may_go_upstream;
pub use watch::Watch;

/// The name of the profile that is served at `/mcp`.
pub const DEFAULT_PROFILE: &str = "default";

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address and port of the public listener; port 0 takes a free one.
    #[schemars(extend("x-format" = "address"))]
    pub listen: SocketAddr,
    /// Address and port of the admin listener (probes, metrics).
    #[schemars(extend("x-format" = "address"))]
    pub admin_listen: SocketAddr,
    /// Address and port at which other pods reach the children and HTTP+SSE connections that this pod has for their
    /// callers; without it each pod has its own. It needs `store.redis_url`, takes only what is sealed by `sealing.keys`,
    /// and belongs on a network of the pods' own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "address"))]
    pub internal_listen: Option<SocketAddr>,
    /// Host, or host and port, under which other pods reach `internal_listen`. Default: the variable `POD_IP` where
    /// `internal_listen` is every address (`0.0.0.0`), else that address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "host"))]
    pub internal_address: Option<String>,
    /// Scheme, host and port under which clients reach the gateway, without a path: `https://mcp.example.com`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "public-url"))]
    pub public_url: Option<String>,
    /// A path at which the endpoint answers besides `/mcp`, such as `/plasm/mcp` behind an ingress.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "public-path"))]
    pub public_path: Option<String>,
    /// Values of `Host` that are admitted, `host` or `host:port`, besides loopback names, `listen` and `public_url`; `*`
    /// admits any.
    #[schemars(schema_with = "hosts_schema")]
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` that are admitted besides loopback ones and `public_url`: `https://app.example.com`; `*` admits
    /// any.
    #[schemars(schema_with = "origins_schema")]
    pub allowed_origins: Vec<String>,
    /// Networks of proxies before the gateway, such as `10.0.0.0/8` or `10.1.2.3/32`: what they say of the client's address is believed.
    #[schemars(schema_with = "egress::networks_schema")]
    pub trusted_proxies: Vec<String>,
    /// The header in which they say it, which they must write anew or extend: `x-forwarded-for` or `forwarded`. The other is not read.
    pub trusted_proxies_header: ProxyHeader,
    /// Allows `listen` off loopback although nobody has to log in.
    pub insecure_no_auth: bool,
    /// What opens the routes `/admin/…` of the admin port from other machines (`Authorization: Bearer …`); a secret. Without it they
    /// answer on loopback alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema")]
    pub admin_token: Option<Secret>,
    /// Serves the built-in demonstration upstream besides the configured ones, as `--demo` does.
    pub demo: bool,
    /// Who may come in.
    pub auth: Auth,
    /// Limits of size and number.
    pub limits: Limits,
    /// How many requests may be made in a time; without any limit here nothing is counted, but for `unauthenticated`.
    pub rates: Rates,
    /// How many calls may be made in a day.
    pub quotas: Quotas,
    /// How many calls of one caller may be in flight.
    pub concurrency: Concurrency,
    /// How long the gateway waits.
    pub timeouts: Timeouts,
    /// Answers that are streams.
    pub streams: Streams,
    /// Where the state stands that pods share.
    pub store: Store,
    /// Legacy transport sessions.
    pub sessions: Sessions,
    /// Policies for legacy clients.
    pub legacy: Legacy,
    /// Deviations from the specification for clients that deviate.
    pub compat: Compat,
    /// The end of a pod.
    pub drain: Drain,
    /// Logs.
    pub log: Log,
    /// Traces of calls.
    pub telemetry: Telemetry,
    /// The audit: one event a call, whatever becomes of it.
    pub audit: Audit,
    /// Sealing of what travels through clients.
    pub sealing: Sealing,
    /// Connections to upstreams.
    pub outbound: Outbound,
    /// URLs that come from outside: those of issuers, of clients' metadata, of upstreams' authorisation servers.
    pub egress: Egress,
    /// Policy on tool calls.
    pub policy: Policy,
    /// Catalogs of the execute surface: what is typed in them, programs may read and do.
    pub catalogs: Catalogs,
    /// Stored results of the execute surface.
    pub artifacts: Artifacts,
    /// MCP servers behind the gateway, in the order that decides lists and owners. Ids are `[a-z0-9-]{1,20}`.
    #[schemars(extend("x-key" = "upstream-id"))]
    pub upstreams: Ordered<Upstream>,
    /// Virtual servers at `/mcp/<name>`; `default` is the one at `/mcp` and has all upstreams where it is not given.
    #[schemars(extend("x-key" = "profile-name"))]
    pub profiles: Ordered<Profile>,
}

/// Limits of size and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest body of a client's request; more is 413.
    #[serde(with = "units::size")]
    #[schemars(schema_with = "units::size_schema", extend("x-min" = "1KiB", "x-max" = "1GiB"))]
    pub request_bytes: usize,
    /// Largest single message (a body, an SSE event, a line on stdio) from an upstream.
    #[serde(with = "units::size")]
    #[schemars(schema_with = "units::size_schema", extend("x-min" = "1KiB", "x-max" = "1GiB"))]
    pub upstream_message_bytes: usize,
    /// Largest head (request line and headers) of a client's request; more is 431.
    #[serde(with = "units::size")]
    #[schemars(schema_with = "units::size_schema", extend("x-min" = "8KiB", "x-max" = "1MiB"))]
    pub header_bytes: usize,
    /// Deepest nesting of JSON that is read.
    #[schemars(range(min = 8, max = 1_000))]
    pub json_depth: u32,
    /// Most items in one page of a list.
    #[schemars(range(min = 1, max = 10_000))]
    pub page_items: u32,
    /// Most calls in flight in one pod; further ones are 503 with `Retry-After`.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub concurrent_calls: u32,
    /// Most connections that one address (IPv6: one /64) may have open in one pod, but for `trusted_proxies`; further ones are closed.
    /// 0: any number, for all may come from one ingress.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub connections_per_address: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 4 << 20,
            upstream_message_bytes: 16 << 20,
            header_bytes: 32 << 10,
            json_depth: 128,
            page_items: 500,
            concurrent_calls: 10_000,
            connections_per_address: 0,
        }
    }
}

/// How long the gateway waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// Longest time for one call, from its last byte in to its last byte out; standing streams have none.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "100ms", "x-max" = "24h"))]
    pub call: Duration,
    /// Longest wait for a request's head on an open connection, idle ones included; longer than the 60 s for which nginx
    /// keeps idle connections, so that it never writes into one that closes.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "100ms", "x-max" = "1h"))]
    pub header_read: Duration,
    /// Longest time for a request's body to arrive.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "100ms", "x-max" = "10m"))]
    pub body_read: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            call: Duration::from_secs(300),
            header_read: Duration::from_secs(75),
            body_read: Duration::from_secs(30),
        }
    }
}

/// Answers that are streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Streams {
    /// A POST that has no answer after this time gets an SSE stream instead of one JSON body.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "0s", "x-max" = "50s"))]
    pub open_after: Duration,
    /// Longest silence on a stream before a comment line is sent.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "100ms", "x-max" = "25s"))]
    pub keep_alive: Duration,
}

impl Default for Streams {
    fn default() -> Self {
        Self { open_after: Duration::from_secs(5), keep_alive: Duration::from_secs(25) }
    }
}

/// Where the state stands that pods share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Store {
    /// Redis 7 or newer, with `maxmemory-policy noeviction`: `redis://user:password@host:6379`, `rediss://…` with TLS,
    /// `redis-cluster://…`, or `redis-sentinel://host:26379?sentinelServiceName=name`; a secret. It needs `sealing.keys`.
    /// Without it, all state is in the memory of one pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema", extend("x-variable" = "PLASM_MCP_TRANSPORT_REDIS_URL"))]
    pub redis_url: Option<Secret>,
    /// TLS to Redis and its Sentinels, where `redis_url` is `rediss…://`. `ca` stands in place of the system's authorities.
    pub tls: Tls,
}

/// Legacy transport sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sessions {
    /// A session ends when it was not used for this long.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "1m", "x-max" = "30d"))]
    pub ttl: Duration,
    /// Most sessions of one principal; one more ends the one that was never used, else the idlest.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub per_principal: u32,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(86_400), per_principal: 1_000 }
    }
}

/// Policies for legacy clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Legacy {
    /// Serves legacy requests without a session id; off answers them 400.
    pub sessionless: bool,
    /// Keeps no sessions: `initialize` gives no session id, every legacy request stands alone, GET and DELETE are 405, and there is
    /// no HTTP+SSE. Nothing can then be asked of a legacy client, subscribed to or resumed.
    #[schemars(extend("x-variable" = "PLASM_MCP_STATELESS"))]
    pub stateless: bool,
}

impl Default for Legacy {
    fn default() -> Self {
        Self { sessionless: true, stateless: false }
    }
}

/// Deviations from the specification for clients that deviate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compat {
    /// Modern `_meta` under a legacy `MCP-Protocol-Version`: `reject` with -32020 as specified, or `follow_meta`.
    pub mixed_version_header: MixedVersionHeader,
}

/// What happens to modern `_meta` under a legacy version header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MixedVersionHeader {
    #[default]
    Reject,
    FollowMeta,
}

/// The end of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Drain {
    /// How long the pod serves on after it has said that it is no longer ready, so that whoever routes to it learns of it.
    /// A signal without a drain before it does not wait where `listen` is a loopback address.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "0s", "x-max" = "10m"))]
    pub propagation: Duration,
    /// How long calls in flight may go on after that.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "0s", "x-max" = "1h"))]
    pub budget: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        Self { propagation: Duration::from_secs(5), budget: Duration::from_secs(25) }
    }
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Which events are logged: a level (`info`) or directives by target (`info,plasm_mcp::upstream=debug`).
    pub filter: String,
    /// `auto` is `text` on a terminal and `json` elsewhere.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self { filter: "info".to_owned(), format: LogFormat::Auto }
    }
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Auto,
    Text,
    Json,
}

/// Sealing of what travels through clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sealing {
    /// The keyring, `{env: NAME}` or `{file: PATH}` each: the first key seals, all open. Empty: one random key, for one
    /// pod.
    #[schemars(schema_with = "secret::secret_refs_schema")]
    pub keys: Vec<Secret>,
}

/// A virtual server: which upstreams and tools a client sees at its address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// Its upstreams, in the order that decides lists and owners. Default: all, in the order of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstreams: Option<Vec<String>>,
    /// Which tools it has, matched against `<upstream>__<tool>` with the name that the upstream gives the tool.
    pub tools: Globs,
    /// What clients find there: the upstreams' tools and one for each operation of the catalogs; the execute surface over
    /// the catalogs; or the upstreams' tools and that surface.
    pub surface: Surface,
    /// Which catalogs the execute surface has there, by their ids.
    pub catalogs: Globs,
    /// Whether a logical session is for all of its tenant, and not for whoever opened it alone. Refused where a catalog logs in
    /// as each caller, or its upstream has `forward_headers`.
    pub shared_sessions: bool,
    /// New names of tools, by upstream and by the name the upstream gives them; they go before an upstream's `rename`.
    #[schemars(extend("x-key" = "upstream-id"), schema_with = "profile_renames_schema")]
    pub rename: Ordered<Ordered<String>>,
    /// Instructions for the model, in place of those of the upstreams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Scopes that it and its parts need.
    pub scopes: ProfileScopes,
    /// Who may enter, by patterns over the values of claims, each by its name or JSON pointer: each claim must have a value
    /// that matches. For all others there is no such profile.
    #[schemars(schema_with = "policy::lists_schema")]
    pub claims: Ordered<Vec<String>>,
    /// Who may enter, by patterns over tenants. Empty: any. For all others there is no such profile.
    pub tenants: Vec<String>,
    /// What of it exists for some alone.
    #[schemars(schema_with = "policy::only_schema")]
    pub only: Vec<Only>,
    /// Limits of requests to this profile, over all pods, each in place of the one of `rates.profile`.
    pub rates: Classes,
}

/// The execute surface among a profile's members, where upstreams have their ids.
pub const SURFACE_ID: &str = "plasm";

/// What a profile gives its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Surface {
    #[default]
    Tools,
    Execute,
    Both,
}

impl Surface {
    /// Whether the tools of upstreams are listed and called by their names.
    pub fn has_tools(self) -> bool {
        self != Surface::Execute
    }

    /// Whether programs are planned and run.
    pub fn executes(self) -> bool {
        self != Surface::Tools
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin_listen: SocketAddr::from(([127, 0, 0, 1], 9090)),
            internal_listen: None,
            internal_address: None,
            public_url: None,
            public_path: None,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            trusted_proxies: Vec::new(),
            trusted_proxies_header: ProxyHeader::default(),
            insecure_no_auth: false,
            admin_token: None,
            demo: false,
            auth: Auth::default(),
            limits: Limits::default(),
            rates: Rates::default(),
            quotas: Quotas::default(),
            concurrency: Concurrency::default(),
            timeouts: Timeouts::default(),
            streams: Streams::default(),
            store: Store::default(),
            sessions: Sessions::default(),
            legacy: Legacy::default(),
            compat: Compat::default(),
            drain: Drain::default(),
            log: Log::default(),
            telemetry: Telemetry::default(),
            audit: Audit::default(),
            sealing: Sealing::default(),
            outbound: Outbound::default(),
            egress: Egress::default(),
            policy: Policy::default(),
            catalogs: Catalogs::default(),
            artifacts: Artifacts::default(),
            upstreams: Ordered::default(),
            profiles: Ordered::default(),
        }
    }
}

impl Config {
    /// The upstreams that are served, in order.
    pub fn enabled_upstreams(&self) -> impl Iterator<Item = (&str, &Upstream)> {
        self.upstreams.iter().filter(|(_, upstream)| upstream.enabled)
    }

    /// Every profile that is served with its enabled upstreams in order; [`DEFAULT_PROFILE`] is always the first.
    pub fn served_profiles(&self) -> Vec<(&str, Profile, Vec<&str>)> {
        let default = self.profiles.get(DEFAULT_PROFILE).cloned().unwrap_or_default();
        let others = self.profiles.iter().filter(|(name, _)| *name != DEFAULT_PROFILE);
        std::iter::once((DEFAULT_PROFILE, default))
            .chain(others.map(|(name, profile)| (name, profile.clone())))
            .map(|(name, profile)| {
                let members = match &profile.upstreams {
                    None => self.enabled_upstreams().map(|(id, _)| id).collect(),
                    Some(ids) => ids
                        .iter()
                        .filter_map(|id| {
                            self.enabled_upstreams().map(|(known, _)| known).find(|known| known == id)
                        })
                        .collect(),
                };
                (name, profile, members)
            })
            .collect()
    }
}

fn hosts_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "x-format": "host" } })
}

fn origins_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "x-format": "origin" } })
}

fn profile_renames_schema(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": upstream::renames_schema(generator) })
}
