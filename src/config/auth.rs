//! Who may come in: issuers whose tokens are taken, keys of machines. Says nothing of how a token is verified.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{AuthServer, BrowserLogin, Ordered, units};

/// Who may come in. Where it names an issuer or a key, every request needs a token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// Authorisation servers whose JWT access tokens are taken, each under a short name.
    #[schemars(extend("x-key" = "profile-name"))]
    pub issuers: Ordered<Issuer>,
    /// Keys of machines, by the id that stands in the key (`plasm_<id>_…`); `plasm-mcp token mint` makes one.
    #[schemars(extend("x-key" = "profile-name"))]
    pub api_keys: Ordered<ApiKey>,
    /// Where people log in by a browser.
    pub login: BrowserLogin,
    /// Our own authorisation server.
    pub server: AuthServer,
    /// Scopes that clients are told of (RFC 9728). Those that profiles ask for are among them anyway.
    pub scopes_supported: Vec<String>,
    /// What a client may show a person as this gateway's name.
    pub resource_name: String,
    /// How far the clocks of issuers may differ from ours: a token is taken so long before its beginning and after its end.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "0s", "x-max" = "5m"))]
    pub clock_skew: Duration,
    /// Longest time for which a verified token is remembered, so that not every call costs a signature.
    #[serde(with = "units::duration")]
    #[schemars(schema_with = "units::duration_schema", extend("x-min" = "0s", "x-max" = "1m"))]
    pub remember: Duration,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            issuers: Ordered::default(),
            api_keys: Ordered::default(),
            login: BrowserLogin::default(),
            server: AuthServer::default(),
            scopes_supported: Vec::new(),
            resource_name: "plasm-mcp".to_owned(),
            clock_skew: Duration::from_secs(30),
            remember: Duration::from_secs(60),
        }
    }
}

impl Auth {
    /// Whether anybody can log in, hence must.
    pub fn is_on(&self) -> bool {
        !self.issuers.is_empty() || !self.api_keys.is_empty() || self.server.enabled
    }
}

/// An authorisation server whose access tokens are taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Issuer {
    /// Its identifier, exactly as in the tokens' `iss`: `https://login.example.com/realms/x`.
    #[schemars(extend("x-format" = "http-url"))]
    pub issuer: String,
    /// Where its keys are. Default: as its metadata says (RFC 8414, else OpenID Connect discovery).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "http-url"))]
    pub jwks_url: Option<String>,
    /// Signature algorithms that its tokens may bear.
    #[schemars(schema_with = "algorithms_schema")]
    pub algorithms: Vec<Algorithm>,
    /// Audiences that are taken besides the URL of the profile that is called, for issuers that do not know RFC 8707. A token with such an audience opens all
    /// profiles.
    pub audiences: Vec<String>,
    /// The tenant of all its principals. Default: the issuer's short name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The claim that names the tenant; a token without it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant_claim: Option<String>,
    /// Claims that a token must have, and their values (one of the list, where the claim is a list).
    #[schemars(schema_with = "claims_schema")]
    pub required_claims: Ordered<String>,
}

/// A signature algorithm (RFC 7518, RFC 8037). HMAC and `none` are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Algorithm {
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

/// A key of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApiKey {
    /// `sha256:` and the digest of the whole key, as `plasm-mcp token mint` and `token hash` print it. Not a secret.
    #[schemars(extend("x-format" = "key-hash"))]
    pub hash: String,
    /// The tenant that it belongs to.
    pub tenant: String,
    /// Who calls with it. Default: its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What it may.
    pub scopes: Vec<String>,
    /// When it ends: `2027-01-31` (the end of that day, UTC) or `2027-01-31T12:00:00Z`. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "date"))]
    pub expires: Option<String>,
}

impl ApiKey {
    /// Seconds since the epoch at which it ends.
    pub fn until(&self) -> Option<u64> {
        self.expires.as_deref().and_then(units::parse_date)
    }
}

fn algorithms_schema(_: &mut SchemaGenerator) -> Schema {
    let words = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
    json_schema!({ "type": "array", "items": { "type": "string", "enum": words } })
}

fn claims_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": { "type": "string" } })
}
