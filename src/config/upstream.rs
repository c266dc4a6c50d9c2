//! One MCP server behind the gateway, as configured: `mcpServers`' keys and ours. Says nothing of how it is reached.

use std::{path::PathBuf, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Credential, Ordered, Override, Pin, Secret, Tls, glob, secret, units};

/// An upstream MCP server: either `url` or `command` is given, never both (checked on load).
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Upstream {
    /// `false` keeps the entry but does not serve it.
    pub enabled: bool,
    /// Address of an HTTP server: the MCP endpoint, or the `/sse` address of an HTTP+SSE server. Variables
    /// (`${env:NAME}`) are filled here and in `command`, `args` and `cwd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "http-url"))]
    pub url: Option<String>,
    /// HTTP headers sent with every request: text, `{env: NAME}` or `{file: PATH}`.
    #[schemars(extend("x-key" = "header-name"))]
    pub headers: Ordered<Secret>,
    /// The credential that it is called with, besides `headers`.
    pub auth: Credential,
    /// Names of headers of the client's request that are passed on; never `Authorization`, `Cookie` or `Mcp-*`.
    #[schemars(schema_with = "header_names_schema")]
    pub forward_headers: Vec<String>,
    /// Keeps the server's cookies and sends them back, for load balancers that pin by cookie. One jar for all callers: not
    /// for servers that log in by cookie.
    pub cookies: bool,
    /// Program of a stdio server, started by the gateway without a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Arguments of `command`.
    pub args: Vec<String>,
    /// Environment of `command`, besides the little that children inherit: text, `{env: NAME}` or `{file: PATH}`.
    #[schemars(extend("x-key" = "variable-name"))]
    pub env: Ordered<Secret>,
    /// Working directory of `command`. Default: the gateway's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// How the server is reached. `auto`: `command` is stdio; a `url` is probed for Streamable HTTP, then HTTP+SSE.
    pub transport: Transport,
    /// The protocol era spoken to it. `auto`: probed once, and again on evidence.
    pub era: Era,
    /// The server keeps nothing between calls: its link may be shared by all principals, without client capabilities.
    pub stateless: bool,
    /// Longest time for one call to this upstream. Default: `timeouts.call`.
    #[serde(with = "units::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "100ms", "x-max" = "24h"))]
    pub timeout: Option<Duration>,
    /// TLS to this server, besides what `outbound.tls` says.
    pub tls: Tls,
    /// The proxy before this server, in place of any other: `http://user:password@proxy:3128`, or `none`; a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema")]
    pub proxy: Option<Secret>,
    /// Longest time to open a connection, a proxy and TLS included.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "100ms", "x-max" = "5m"))]
    pub connect_timeout: Duration,
    /// Longest time from the start of a link (or a child) until its handshake is done.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "100ms", "x-max" = "10m"))]
    pub start_timeout: Duration,
    /// Most calls in flight to this upstream; further ones are refused as unavailable.
    #[schemars(range(min = 1, max = 100_000))]
    pub max_concurrent: u32,
    /// Most children of a stdio server on one pod.
    #[schemars(range(min = 1, max = 1_000))]
    pub max_children: u32,
    /// An idle child is ended after this time.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "1s", "x-max" = "24h"))]
    pub child_idle: Duration,
    /// The circuit breaker.
    pub health: Health,
    /// New names of tools, by the name the upstream gives them; a renamed tool bears no prefix.
    #[schemars(schema_with = "renames_schema")]
    pub rename: Ordered<String>,
    /// Which of its tools exist, by the names the upstream gives them.
    pub tools: Globs,
    /// URIs that start with one of these are this upstream's even where it does not list them.
    pub uri_prefixes: Vec<String>,
    /// What clients are shown of its tools in place of what it says, by the name it gives them.
    pub overrides: Ordered<Override>,
    /// What happens when it changes the definition of a tool that it had: `warn` logs and counts it, `refuse` neither lists
    /// nor calls the tool until the change is accepted.
    pub pin: Pin,
    /// Digests of definitions that are accepted, by the name it gives the tool: what `plasm-mcp pins` prints. They go before
    /// what was seen first.
    #[schemars(schema_with = "pins_schema")]
    pub pins: Ordered<String>,
}

impl Default for Upstream {
    fn default() -> Self {
        Self {
            enabled: true,
            url: None,
            headers: Ordered::default(),
            auth: Credential::default(),
            forward_headers: Vec::new(),
            cookies: false,
            command: None,
            args: Vec::new(),
            env: Ordered::default(),
            cwd: None,
            transport: Transport::Auto,
            era: Era::Auto,
            stateless: false,
            timeout: None,
            tls: Tls::default(),
            proxy: None,
            connect_timeout: Duration::from_secs(10),
            start_timeout: Duration::from_secs(60),
            max_concurrent: 256,
            max_children: 16,
            child_idle: Duration::from_secs(600),
            health: Health::default(),
            rename: Ordered::default(),
            tools: Globs::default(),
            uri_prefixes: Vec::new(),
            overrides: Ordered::default(),
            pin: Pin::default(),
            pins: Ordered::default(),
        }
    }
}

impl std::fmt::Debug for Upstream {
    /// Addresses and arguments may hold secrets once variables are filled, so only what cannot is shown.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Upstream")
            .field("transport", &self.transport)
            .field("era", &self.era)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}

/// How an upstream is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    Auto,
    Http,
    Sse,
    Stdio,
}

/// The protocol era spoken to an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    Auto,
    Modern,
    Legacy,
}

/// The circuit breaker of one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Health {
    /// Failures in a row after which the breaker opens: calls are then answered at once as unavailable.
    #[schemars(range(min = 1, max = 1_000))]
    pub failures: u32,
    /// Longest pause before an upstream that is away is tried again; pauses begin at 1 s and double.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "1s", "x-max" = "10m"))]
    pub longest_pause: Duration,
}

impl Default for Health {
    fn default() -> Self {
        Self { failures: 5, longest_pause: Duration::from_secs(30) }
    }
}

/// Which names are admitted: those that a pattern of `allow` matches (all, where it is empty) and none of `deny` does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Globs {
    /// Patterns with `*` (any characters) and `?` (one character). Empty: everything.
    pub allow: Vec<String>,
    /// Patterns that refuse, whatever `allow` says.
    pub deny: Vec<String>,
}

impl Globs {
    pub fn admits(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| glob::matches(pattern, name));
        (self.allow.is_empty() || any(&self.allow)) && !any(&self.deny)
    }
}

fn header_names_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "x-format": "header-name" } })
}

fn pins_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": "string", "x-format": "digest" } })
}

pub(super) fn renames_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": "string", "x-format": "tool-name" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deny_wins_and_an_empty_allow_admits_everything() {
        let globs = |allow: &[&str], deny: &[&str]| Globs {
            allow: allow.iter().map(ToString::to_string).collect(),
            deny: deny.iter().map(ToString::to_string).collect(),
        };
        let cases = [
            (globs(&[], &[]), true),
            (globs(&["read_*"], &[]), true),
            (globs(&["write_*"], &[]), false),
            (globs(&["*"], &["*_file"]), false),
            (globs(&[], &["write_*"]), true),
        ];
        for (globs, admits) in cases {
            assert_eq!(globs.admits("read_file"), admits, "{globs:?}");
        }
    }
}
