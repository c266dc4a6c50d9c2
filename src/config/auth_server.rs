//! The login of people in a browser, and our own authorisation server: what can be set. The addresses of known clients are
//! data here, for they change.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Config, Ordered, Secret, problem::KeyPath, secret, units};

/// Where people log in by a browser: for `auth.server`, for their own page, and to connect accounts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BrowserLogin {
    /// An OpenID Connect provider.
    pub oidc: OidcLogin,
    /// People by the names that they log in with, in place of a provider: for trying the gateway out.
    #[schemars(extend("x-key" = "profile-name"))]
    pub users: Ordered<LoginUser>,
    /// Allows `users` although `listen` is off loopback.
    pub users_off_loopback: bool,
    /// How long a browser stays logged in.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "1m", "x-max" = "30d"))]
    pub session: Duration,
}

/// An OpenID Connect provider. The address that it sends people back to is `/login/callback` under `public_url`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OidcLogin {
    /// Its identifier: `https://login.example.com/realms/x`. Without it there is no such login.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "http-url"))]
    pub issuer: Option<String>,
    /// As what this gateway is registered there.
    pub client_id: String,
    /// Its secret there, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema")]
    pub client_secret: Option<Secret>,
    /// What is asked of the provider besides `openid`.
    pub scopes: Vec<String>,
    /// The tenant of all its people.
    pub tenant: String,
    /// The claim that names the tenant; who has none does not come in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_claim: Option<String>,
    /// Claims of its ID tokens that stand in access tokens too, for profiles and policies to decide by.
    pub claims: Vec<String>,
}

/// Someone who logs in by name and password.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LoginUser {
    /// The output of `plasm-mcp password`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema")]
    pub password: Option<Secret>,
    /// The tenant that they belong to.
    pub tenant: String,
    /// How the pages call them. Default: the name that they log in with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Claims that stand in their access tokens.
    #[schemars(schema_with = "claims_schema")]
    pub claims: Ordered<String>,
}

/// Our own authorisation server, for sites whose identity provider knows neither client metadata documents nor dynamic
/// registration. It needs `auth.login`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuthServer {
    /// Turns it on: `/authorize`, `/token`, `/register`, `/revoke`, `/jwks.json` and its metadata. Off, none of these is there.
    pub enabled: bool,
    /// What signs access tokens, `{env: NAME}` or `{file: PATH}` each: a private key in PEM (Ed25519 or P-256), or base64 of 32
    /// random bytes. The first signs, all verify. Empty: one random key, for one pod.
    #[schemars(schema_with = "secret::secret_refs_schema")]
    pub signing_keys: Vec<Secret>,
    /// What seals the ids of registered clients, as `sealing.keys` does the rest; to be kept for as long as clients keep their
    /// ids. Empty: `sealing.keys`.
    #[schemars(schema_with = "secret::secret_refs_schema")]
    pub client_id_keys: Vec<Secret>,
    /// Where answers may go: `vendors` (the addresses of `vendors`, and loopback with any port), or `open` (any HTTPS address
    /// besides, which the consent page warns of).
    pub redirects: Redirects,
    /// Known makers of clients. What is given stands besides the built-in ones; one of a built-in name takes its place.
    #[schemars(extend("x-key" = "profile-name"))]
    pub vendors: Ordered<Vendor>,
    /// Whether clients may register themselves (RFC 7591).
    pub registration: bool,
    /// Whether clients may be known by the address of a document that describes them (client id metadata documents).
    pub client_metadata: bool,
    /// What scopes mean, in words for the consent page. These may be asked for besides those of `auth.scopes_supported` and of
    /// profiles.
    #[schemars(schema_with = "claims_schema")]
    pub scopes: Ordered<String>,
    /// How long an access token is good.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "1s", "x-max" = "24h"))]
    pub access_ttl: Duration,
    /// How long a refresh token is good after its last use.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "1m", "x-max" = "400d"))]
    pub refresh_ttl: Duration,
    /// How long refresh tokens are good after the login that they came of, however often they are used; then the user logs in
    /// again.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "1m", "x-max" = "400d"))]
    pub refresh_max: Duration,
    /// How long a refresh token that was used may be shown once more, and gets the same answer: for clients that refresh from
    /// several places at once. Any later use ends all that came of the same login.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "0s", "x-max" = "60s"))]
    pub refresh_grace: Duration,
}

/// Which addresses authorization answers may go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Redirects {
    #[default]
    Vendors,
    Open,
}

/// A maker of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Vendor {
    /// Its redirect addresses, byte for byte; `*` stands for one path segment.
    pub redirects: Vec<String>,
    /// Addresses of its clients' metadata documents. Where one cannot be read, its client is known by `redirects`.
    pub documents: Vec<String>,
}

impl Default for BrowserLogin {
    fn default() -> Self {
        Self {
            oidc: OidcLogin::default(),
            users: Ordered::default(),
            users_off_loopback: false,
            session: Duration::from_secs(12 * 3600),
        }
    }
}

impl Default for AuthServer {
    fn default() -> Self {
        Self {
            enabled: false,
            signing_keys: Vec::new(),
            client_id_keys: Vec::new(),
            redirects: Redirects::Vendors,
            vendors: known_vendors(),
            registration: true,
            client_metadata: true,
            scopes: Ordered::default(),
            access_ttl: Duration::from_secs(15 * 60),
            refresh_ttl: Duration::from_secs(30 * 86_400),
            refresh_max: Duration::from_secs(90 * 86_400),
            refresh_grace: Duration::from_secs(10),
        }
    }
}

impl BrowserLogin {
    pub fn is_on(&self) -> bool {
        self.oidc.issuer.is_some() || !self.users.is_empty()
    }
}

impl AuthServer {
    /// The configured vendors, and the built-in ones that none of them takes the place of.
    pub fn all_vendors(&self) -> Vec<(String, Vendor)> {
        let own = self.vendors.iter().map(|(name, vendor)| (name.to_owned(), vendor.clone()));
        let known = known_vendors();
        let known = known.iter().filter(|(name, _)| self.vendors.get(name).is_none());
        own.chain(known.map(|(name, vendor)| (name.to_owned(), vendor.clone()))).collect()
    }
}

/// As they were seen in September 2026. Loopback addresses need no entry, and Cursor's private-use one has none.
fn known_vendors() -> Ordered<Vendor> {
    let table: [(&str, &[&str], &[&str]); 5] = [
        (
            "claude",
            &["https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"],
            &["https://claude.ai/oauth/mcp-oauth-client-metadata"],
        ),
        ("cursor", &["https://www.cursor.com/agents/mcp/oauth/callback"], &[]),
        (
            "vscode",
            &["https://vscode.dev/redirect", "https://insiders.vscode.dev/redirect"],
            &["https://vscode.dev/oauth/client-metadata.json"],
        ),
        (
            "chatgpt",
            &[
                "https://chatgpt.com/connector_platform_oauth_redirect",
                "https://chatgpt.com/connector/oauth/*",
            ],
            &[],
        ),
        (
            "grok",
            &["https://grok.com/connectors-oauth-exchange-code/"],
            &["https://grok.com/oauth/mcp-client.json"],
        ),
    ];
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    let vendor = |(name, redirects, documents): (&str, &[&str], &[&str])| {
        (name.to_owned(), Vendor { redirects: texts(redirects), documents: texts(documents) })
    };
    table.into_iter().map(vendor).collect()
}

/// What is wrong between the settings of this page and others.
pub(super) fn check(config: &Config, wrong: &mut Vec<(KeyPath, String)>) {
    let (login, server) = (&config.auth.login, &config.auth.server);
    let at = |keys: &[&str]| keys.iter().fold(KeyPath::of(&["auth"]), |path, key| path.then(key));
    let mut say = |keys: &[&str], why: &str| wrong.push((at(keys), why.to_owned()));
    if server.enabled && !login.is_on() {
        say(&["server", "enabled"], "needs auth.login: people must log in somewhere");
    }
    if server.enabled && config.store.redis_url.is_some() && server.signing_keys.is_empty() {
        let why = "needs signing_keys where pods share a Redis: a random key would differ from pod to pod";
        say(&["server", "signing_keys"], why);
    }
    if login.oidc.issuer.is_some() {
        if !login.users.is_empty() {
            say(&["login", "users"], "stands beside oidc; people log in at one place");
        }
        if login.oidc.client_id.is_empty() {
            say(&["login", "oidc", "client_id"], "is needed: as what this gateway is registered there");
        }
    }
    if !login.users.is_empty() && !config.listen.ip().is_loopback() && !login.users_off_loopback {
        let why = "is for a gateway of this machine alone; use oidc, or say users_off_loopback: true";
        say(&["login", "users"], why);
    }
    for (name, _) in login.users.iter().filter(|(_, user)| user.password.is_none()) {
        say(&["login", "users", name, "password"], "is needed; plasm-mcp password makes it");
    }
    let safe = config.public_url.as_ref().is_none_or(|url| url.starts_with("https://"));
    if (server.enabled || login.is_on()) && !safe && !config.listen.ip().is_loopback() {
        let why = "must be https where people log in: passwords, codes and tokens go by it";
        wrong.push((KeyPath::of(&["public_url"]), why.to_owned()));
    }
}

fn claims_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": "string" } })
}
