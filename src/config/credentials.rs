//! The credential that the gateway bears to an upstream, besides static headers. Says nothing of how it is come by.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Algorithm, Secret, Upstream, problem::KeyPath, secret};

/// The credential for an upstream with a `url`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Credential {
    /// `none`: `headers` alone. `client_credentials`: the gateway's own token, for all callers. `token_exchange`: a token for
    /// each caller, exchanged for the one they came with (RFC 8693). `oauth`: each caller connects an account of theirs.
    pub kind: CredentialKind,
    /// The authorisation server's issuer, whose metadata says the rest. Default: what the upstream's own metadata names
    /// (RFC 9728).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "http-url"))]
    pub issuer: Option<String>,
    /// The authorisation server's token endpoint, in place of `issuer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "http-url"))]
    pub token_url: Option<String>,
    /// The gateway's id as a client. With `oauth` the default is its metadata document where the authorisation server takes
    /// one, else one that it registers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The secret of `client_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema")]
    pub client_secret: Option<Secret>,
    /// The private key (PEM) by which `client_id` signs assertions in place of a secret (`private_key_jwt`).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "secret::secret_schema")]
    pub private_key: Option<Secret>,
    /// What `private_key` signs with. Default: ES256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing_algorithm: Option<Algorithm>,
    /// How `client_secret` is shown. `auto`: as the authorisation server's metadata says, else `basic`.
    pub client_auth: ClientAuth,
    /// The address of the gateway's client metadata document (`oauth`). Default: `/connect/client.json` under an https
    /// `public_url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-format" = "http-url"))]
    pub client_metadata_url: Option<String>,
    /// Scopes to ask for. Default: what the upstream says that it needs.
    pub scopes: Vec<String>,
    /// The resource that the token is to be for (RFC 8707). Default: as the upstream's metadata says; none with `token_url`
    /// or `issuer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The audience to ask for (`token_exchange`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
}

/// How an upstream's credential is come by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    #[default]
    None,
    ClientCredentials,
    TokenExchange,
    Oauth,
}

/// How a client shows its secret (RFC 6749 2.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    #[default]
    Auto,
    Basic,
    Post,
}

/// What of an upstream's credential does not go together.
pub(super) fn check(upstream: &Upstream, path: &KeyPath, wrong: &mut Vec<(KeyPath, String)>) {
    use CredentialKind::{ClientCredentials, None, Oauth, TokenExchange};
    let auth = &upstream.auth;
    let path = path.then("auth");
    let mut say = |key: &str, why: &str| wrong.push((path.then(key), why.to_owned()));
    if auth.kind == None {
        if *auth != Credential::default() {
            say("kind", "says that there is none, and there are settings beside it; say which kind it is");
        }
        return;
    }
    if upstream.command.is_some() {
        say("kind", "belongs to a url, and there is a command; give its credential by env");
    }
    if upstream.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
        say("kind", "stands beside headers.Authorization; an upstream has one credential");
    }
    let personal = matches!(auth.kind, TokenExchange | Oauth);
    if personal && upstream.stateless {
        say(
            "kind",
            "gives each caller a credential of their own, and stateless: true is one session for all",
        );
    }
    if personal && upstream.transport == super::Transport::Sse {
        say(
            "kind",
            "gives each caller a credential of their own, which HTTP+SSE cannot bear; use Streamable HTTP",
        );
    }
    if personal && upstream.cookies {
        say("kind", "gives each caller a credential of their own, and cookies: true is one jar for all");
    }
    if matches!(auth.kind, ClientCredentials | TokenExchange) && auth.client_id.is_none() {
        say("client_id", "is missing; the authorisation server knows the gateway by it");
    }
    if auth.kind == TokenExchange && auth.issuer.is_none() && auth.token_url.is_none() {
        say(
            "token_url",
            "is missing, or issuer: callers' tokens are shown to a server that is named here alone",
        );
    }
    if auth.issuer.is_some() && auth.token_url.is_some() {
        say("token_url", "stands beside issuer, whose metadata names the token endpoint; give one of them");
    }
    if auth.client_secret.is_some() && auth.private_key.is_some() {
        say("private_key", "stands beside client_secret; a client has one of them");
    }
    for (key, set) in
        [("client_secret", auth.client_secret.is_some()), ("private_key", auth.private_key.is_some())]
    {
        if set && auth.client_id.is_none() {
            say(key, "needs client_id beside it");
        }
    }
    let of_oauth = [("client_metadata_url", auth.client_metadata_url.is_some())];
    let of_others = [("token_url", auth.token_url.is_some())];
    for (key, _) in of_oauth.into_iter().filter(|(_, set)| *set && auth.kind != Oauth) {
        say(key, "belongs to kind: oauth");
    }
    for (key, _) in of_others.into_iter().filter(|(_, set)| *set && auth.kind == Oauth) {
        say(key, "does not do for kind: oauth, which needs more of the server; give its issuer");
    }
    if auth.audience.is_some() && auth.kind != TokenExchange {
        say("audience", "belongs to kind: token_exchange");
    }
}
