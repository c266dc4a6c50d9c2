//! Where a catalog's answers come from: an HTTP API, a GraphQL endpoint or an MCP server; how it is logged in to, and how
//! much it is asked.

use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use crate::config::Ordered;

/// The one source of a catalog.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Source {
    /// An HTTP API.
    Http {
        /// What request lines are appended to.
        base_url: String,
        #[serde(default)]
        auth: Auth,
        #[serde(default)]
        limits: Limits,
        /// Hosts beside the base URL's own that requests and pages may lead to.
        #[serde(default)]
        hosts: Vec<String>,
        /// Headers with every request; no secrets.
        #[serde(default)]
        headers: Ordered<String>,
    },
    /// A GraphQL endpoint.
    Graphql {
        url: String,
        #[serde(default)]
        auth: Auth,
        #[serde(default)]
        limits: Limits,
        /// Headers with every request; no secrets.
        #[serde(default)]
        headers: Ordered<String>,
    },
    /// An MCP server: by its URL, or by the name of an upstream of the configuration.
    Mcp {
        url: Option<String>,
        upstream: Option<String>,
        /// Protocol versions, best first.
        #[serde(default)]
        protocol: Vec<String>,
        #[serde(default)]
        auth: Auth,
        #[serde(default)]
        limits: Limits,
        /// What becomes of a call whose tool's schema is no longer the one this catalog was written for.
        #[serde(default)]
        tools_digest: ToolsDigest,
    },
}

impl Source {
    pub fn kind(&self) -> &'static str {
        match self {
            Source::Http { .. } => "http",
            Source::Graphql { .. } => "graphql",
            Source::Mcp { .. } => "mcp",
        }
    }

    pub fn auth(&self) -> &Auth {
        let (Source::Http { auth, .. } | Source::Graphql { auth, .. } | Source::Mcp { auth, .. }) = self;
        auth
    }

    pub fn limits(&self) -> &Limits {
        let (Source::Http { limits, .. } | Source::Graphql { limits, .. } | Source::Mcp { limits, .. }) =
            self;
        limits
    }

    /// Its URL and the key that holds it.
    pub fn url(&self) -> Option<(&'static str, &str)> {
        match self {
            Source::Http { base_url, .. } => Some(("base_url", base_url)),
            Source::Graphql { url, .. } => Some(("url", url)),
            Source::Mcp { url, .. } => url.as_deref().map(|url| ("url", url)),
        }
    }

    /// Every host that requests to it may lead to, that of its login among them.
    pub fn reached_hosts(&self) -> Vec<String> {
        let host = |url: &str| Url::parse(url).ok()?.host_str().map(str::to_owned);
        let own = self.url().and_then(|(_, url)| host(url));
        let login = match self.auth() {
            Auth::ClientCredentials { token_url, .. } => host(token_url),
            _ => None,
        };
        own.into_iter().chain(self.hosts().iter().cloned()).chain(login).collect()
    }

    /// Hosts that it names beside its URL's.
    pub fn hosts(&self) -> &[String] {
        if let Source::Http { hosts, .. } = self { hosts } else { &[] }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolsDigest {
    /// It is refused.
    Pin,
    /// It is made, with a warning.
    #[default]
    Warn,
}

/// How a source is logged in to. A secret is a name in the secret store, never a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(tag = "scheme", rename_all = "snake_case", deny_unknown_fields)]
pub enum Auth {
    #[default]
    None,
    /// `Authorization: Bearer`.
    Bearer { secret: String },
    /// A header of that name.
    Header { name: String, secret: String },
    /// A query parameter of that name.
    Query { name: String, secret: String },
    /// RFC 7617; the secret is the password.
    Basic { user: String, secret: String },
    /// Each user's own token, from the connection store.
    Oauth2 {
        connection: String,
        #[serde(default)]
        scopes: Vec<String>,
    },
    /// RFC 6749, section 4.4.
    ClientCredentials {
        token_url: String,
        client_id: String,
        secret: String,
        #[serde(default)]
        scopes: Vec<String>,
    },
}

impl Auth {
    /// The secret's or connection's name.
    pub fn secret(&self) -> Option<&str> {
        match self {
            Auth::None => None,
            Auth::Bearer { secret }
            | Auth::Header { secret, .. }
            | Auth::Query { secret, .. }
            | Auth::Basic { secret, .. }
            | Auth::ClientCredentials { secret, .. } => Some(secret),
            Auth::Oauth2 { connection, .. } => Some(connection),
        }
    }

    /// Whether each user has a login of its own: such a catalog is not for shared sessions.
    pub fn is_per_user(&self) -> bool {
        matches!(self, Auth::Oauth2 { .. })
    }
}

/// How much a source is asked. What is not set is bounded by the gateway.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Requests at once.
    #[schemars(range(min = 1, max = 256))]
    pub concurrency: Option<u32>,
    /// Requests a second.
    pub rps: Option<f64>,
    /// Longest time for one request, in milliseconds.
    #[schemars(range(min = 1, max = 300_000))]
    pub timeout_ms: Option<u64>,
    /// Largest answer, in bytes.
    #[schemars(range(min = 1, max = 67_108_864))]
    pub max_response_bytes: Option<u64>,
}
