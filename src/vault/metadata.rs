//! Who gives tokens for an upstream, and how they are asked: the upstream's own metadata (RFC 9728), then its authorisation
//! server's (RFC 8414, OpenID Connect Discovery). All of it is a stranger's word.

use super::Shared;
use super::spec::Spec;
use super::token::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

/// What an upstream says of itself (RFC 9728 2).
#[derive(Debug)]
pub(super) struct Resource {
    /// Its identifier, which tokens are to be for.
    pub id: String,
    pub issuer: String,
    pub scopes: Vec<String>,
}

/// What an authorisation server says of itself (RFC 8414 2).
#[derive(Debug, Default, Deserialize)]
pub(super) struct Server {
    pub issuer: String,
    #[serde(default)]
    pub authorization_endpoint: Option<String>,
    #[serde(default)]
    pub token_endpoint: Option<String>,
    #[serde(default)]
    pub registration_endpoint: Option<String>,
    #[serde(default)]
    pub revocation_endpoint: Option<String>,
    #[serde(default)]
    pub scopes_supported: Option<Vec<String>>,
    #[serde(default)]
    pub code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub authorization_response_iss_parameter_supported: bool,
}

/// Why nothing can be asked for. The texts are for whoever connects an account, and for logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unknown {
    #[error("its metadata says that it is another server: {0}")]
    Foreign(String),
    #[error("the metadata of its authorisation server is not to be had")]
    NoServer,
    #[error("the metadata of its authorisation server speaks of another one")]
    OtherIssuer,
    #[error("its authorisation server names no {0}")]
    Lacks(&'static str),
    #[error("its authorisation server registered no client")]
    Registration,
    #[error("the state store is out of reach")]
    Away,
}

impl Server {
    /// Whether it takes clients that say so who they are. One that does not say takes `client_secret_basic` (RFC 8414 2).
    pub(super) fn takes(&self, method: Method) -> bool {
        let name = match method {
            Method::None => "none",
            Method::Basic => "client_secret_basic",
            Method::Post => "client_secret_post",
            Method::Jwt => "private_key_jwt",
        };
        match &self.token_endpoint_auth_methods_supported {
            Some(methods) => methods.iter().any(|method| method == name),
            None => method == Method::Basic,
        }
    }

    pub(super) fn token_endpoint(&self) -> Result<&str, Unknown> {
        self.token_endpoint.as_deref().ok_or(Unknown::Lacks("token endpoint"))
    }
}

#[derive(Deserialize)]
struct Protected {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

impl Shared {
    /// What the upstream says of itself. `hint`: where a challenge says that this stands. A server without such metadata is
    /// its own authorisation server (MCP 2025-03-26).
    pub(super) async fn resource(&self, spec: &Spec, hint: Option<&str>) -> Result<Resource, Unknown> {
        let places = hint.map(str::to_owned).into_iter().chain(places_of_resource(&spec.url));
        for place in places {
            let Some(found) = self.fetch::<Protected>(spec, &place).await else { continue };
            if !is_of(&found.resource, &spec.url) {
                return Err(Unknown::Foreign(found.resource.chars().take(200).collect()));
            }
            let listed = |issuer: &String| found.authorization_servers.contains(issuer);
            let issuer = match (&spec.issuer, found.authorization_servers.first()) {
                (Some(configured), _) if listed(configured) || found.authorization_servers.is_empty() => {
                    configured.clone()
                }
                // What the configuration names counts, whatever the upstream says.
                (Some(configured), _) => configured.clone(),
                (None, Some(first)) => first.clone(),
                (None, None) => own_issuer(&spec.url),
            };
            return Ok(Resource { id: found.resource, issuer, scopes: found.scopes_supported });
        }
        let issuer = spec.issuer.clone().unwrap_or_else(|| own_issuer(&spec.url));
        Ok(Resource { id: spec.url.to_string(), issuer, scopes: Vec::new() })
    }

    /// The metadata of an authorisation server, which must call itself exactly what it was looked for as (RFC 8414 3.3).
    pub(super) async fn server(&self, spec: &Spec, issuer: &str) -> Result<Server, Unknown> {
        let mut other = false;
        for place in places_of_server(issuer) {
            match self.fetch::<Server>(spec, &place).await {
                Some(server) if server.issuer == issuer => return Ok(server),
                Some(_) => other = true,
                None => {}
            }
        }
        Err(if other { Unknown::OtherIssuer } else { Unknown::NoServer })
    }

    async fn fetch<T: DeserializeOwned>(&self, spec: &Spec, place: &str) -> Option<T> {
        match self.egress.get(place, spec.named(place)).await {
            Ok(answer) if answer.status.is_success() => serde_json::from_slice(&answer.body).ok(),
            Ok(_) => None,
            Err(why) => {
                tracing::info!(upstream = %spec.upstream, %why, "metadata that an upstream's credential needs was not fetched");
                None
            }
        }
    }
}

/// Where the metadata of a resource may stand (RFC 9728 3.1): by its path, then at the root.
fn places_of_resource(url: &Url) -> Vec<String> {
    const KNOWN: &str = "/.well-known/oauth-protected-resource";
    let origin = url.origin().ascii_serialization();
    let path = url.path().trim_end_matches('/');
    let by_path = (!path.is_empty()).then(|| format!("{origin}{KNOWN}{path}"));
    by_path.into_iter().chain([format!("{origin}{KNOWN}")]).collect()
}

/// Where the metadata of an authorisation server may stand, in the order of MCP's authorization specification.
fn places_of_server(issuer: &str) -> Vec<String> {
    let Ok(url) = Url::parse(issuer) else { return Vec::new() };
    let origin = url.origin().ascii_serialization();
    match url.path().trim_end_matches('/') {
        "" => ["oauth-authorization-server", "openid-configuration"]
            .map(|name| format!("{origin}/.well-known/{name}"))
            .into(),
        path => vec![
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
            format!("{origin}{path}/.well-known/openid-configuration"),
        ],
    }
}

fn own_issuer(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Whether a resource identifier is of this server: its URL, or what that lies under (RFC 9728 3.3).
pub(super) fn is_of(resource: &str, url: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    if resource.origin() != url.origin() || resource.fragment().is_some() || !resource.username().is_empty() {
        return false;
    }
    if resource.query().is_some() && resource.query() != url.query() {
        return false;
    }
    let rest = url.path().strip_prefix(resource.path().trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_counts_only_for_the_server_that_it_is_of() {
        let url = Url::parse("https://h.example/a/mcp").unwrap();
        for ours in [
            "https://h.example/a/mcp",
            "https://h.example/a/mcp/",
            "https://h.example/a",
            "https://h.example",
            "https://H.example:443/",
        ] {
            assert!(is_of(ours, &url), "{ours}");
        }
        for other in [
            "https://h.example/a/mc",
            "https://h.example/b",
            "http://h.example/a/mcp",
            "https://h.example:8443/a/mcp",
            "https://evil.example/a/mcp",
            "https://h.example@evil.example/a/mcp",
            "https://h.example/a/mcp#x",
            "https://h.example/a/mcp?x",
            "h.example",
            "",
        ] {
            assert!(!is_of(other, &url), "{other}");
        }
    }

    #[test]
    fn metadata_is_looked_for_where_the_specification_says_and_in_its_order() {
        let places = |url: &str| places_of_resource(&Url::parse(url).unwrap());
        let known = "https://h/.well-known/oauth-protected-resource";
        assert_eq!(places("https://h/a/mcp/?x"), [format!("{known}/a/mcp"), known.to_owned()]);
        assert_eq!(places("https://h"), [known]);
        assert_eq!(
            places_of_server("https://h:1/t"),
            [
                "https://h:1/.well-known/oauth-authorization-server/t",
                "https://h:1/.well-known/openid-configuration/t",
                "https://h:1/t/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            places_of_server("https://h/"),
            [
                "https://h/.well-known/oauth-authorization-server",
                "https://h/.well-known/openid-configuration"
            ]
        );
    }
}
