//! What is configured of an upstream's credential, made ready for use.

use super::held::{Held, Sealable};
use super::metadata::{Server, is_of};
use super::token::{Client, Method, Signer};
use crate::config::{Algorithm, ClientAuth, Credential, CredentialKind};
use crate::egress::Named;
use crate::mcp::UpstreamId;
use jsonwebtoken::EncodingKey;
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use url::Url;

/// One upstream's credential, as configured.
pub struct Spec {
    pub(super) upstream: UpstreamId,
    /// The upstream's own address.
    pub(super) url: Url,
    pub(super) kind: CredentialKind,
    pub(super) issuer: Option<String>,
    pub(super) token_url: Option<String>,
    pub(super) client: Option<Configured>,
    pub(super) client_metadata_url: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) resource: Option<String>,
    pub(super) audience: Option<String>,
}

/// A client that was registered by hand.
pub(super) struct Configured {
    pub(super) id: String,
    secret: Option<Sealable>,
    signer: Option<Signer>,
    auth: ClientAuth,
}

/// What of the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct SpecError {
    /// The key below `upstreams.<id>`.
    pub key: &'static str,
    pub why: String,
}

impl Spec {
    pub fn of(upstream: UpstreamId, url: &str, auth: &Credential) -> Result<Spec, SpecError> {
        let url = Url::parse(url).map_err(|_| SpecError { key: "url", why: "is not a URL".into() })?;
        Ok(Spec {
            upstream,
            url,
            kind: auth.kind,
            issuer: auth.issuer.clone(),
            token_url: auth.token_url.clone(),
            client: Configured::of(auth)?,
            client_metadata_url: auth.client_metadata_url.clone(),
            scopes: auth.scopes.clone(),
            resource: auth.resource.clone(),
            audience: auth.audience.clone(),
        })
    }

    /// Who named a URL: the operator did where it is at the upstream's own origin, or at one that the configuration names.
    pub(super) fn named(&self, url: &str) -> Named {
        let Ok(url) = Url::parse(url) else { return Named::ByOthers };
        let configured =
            [&self.issuer, &self.token_url].into_iter().flatten().filter_map(|url| Url::parse(url).ok());
        let ours = configured.chain([self.url.clone()]).any(|ours| ours.origin() == url.origin());
        if ours { Named::ByUs } else { Named::ByOthers }
    }

    /// A client as it was when it was written, with what the configuration says of it now.
    pub(super) fn current(&self, written: &Client) -> Client {
        match self.client.as_ref().filter(|configured| configured.id == written.id) {
            Some(configured) => {
                let Configured { id, secret, signer, .. } = configured;
                Client {
                    id: id.clone(),
                    secret: secret.clone(),
                    method: written.method,
                    signer: signer.clone(),
                }
            }
            None => written.clone(),
        }
    }

    /// Whether what was given to a caller is for this upstream as it is configured now, and from the authorisation server that
    /// the configuration names.
    pub(super) fn takes(&self, held: &Held) -> bool {
        let resource = held.resource.as_deref();
        let here = resource
            .is_some_and(|resource| self.resource.as_deref() == Some(resource) || is_of(resource, &self.url));
        here && self.issuer.as_ref().is_none_or(|issuer| *issuer == held.issuer)
    }

    /// What tells this configuration of a credential from another: with another, what was given for this one does not do.
    pub(super) fn mark(&self) -> String {
        let client = self.client.as_ref().map(|client| &client.id);
        let Spec { url, issuer, token_url, scopes, resource, audience, .. } = self;
        format!("{url} {issuer:?} {token_url:?} {client:?} {scopes:?} {resource:?} {audience:?}")
    }
}

impl Configured {
    fn of(auth: &Credential) -> Result<Option<Configured>, SpecError> {
        let Some(id) = auth.client_id.clone() else { return Ok(None) };
        let reveal = |key: &'static str,
                      secret: &Option<crate::config::Secret>|
         -> Result<Option<SecretString>, SpecError> {
            let value = secret.as_ref().map(|secret| secret.reveal()).transpose();
            value.map_err(|error| SpecError { key, why: error.to_string() })
        };
        let secret = reveal("auth.client_secret", &auth.client_secret)?;
        let algorithm = auth.signing_algorithm.unwrap_or(Algorithm::ES256);
        let key = reveal("auth.private_key", &auth.private_key)?;
        let signer = key.map(|pem| signer(&pem, algorithm)).transpose()?;
        let secret = secret.map(|secret| Sealable::from(secret.expose_secret().to_owned()));
        Ok(Some(Configured { id, secret, signer, auth: auth.client_auth }))
    }

    /// The client as it speaks to a server, of which nothing may be known.
    pub(super) fn at(&self, server: Option<&Server>) -> Client {
        let takes = |method| server.is_none_or(|server| server.takes(method));
        let method = match (&self.secret, &self.signer, self.auth) {
            (_, Some(_), _) => Method::Jwt,
            (None, None, _) => Method::None,
            (Some(_), _, ClientAuth::Basic) => Method::Basic,
            (Some(_), _, ClientAuth::Post) => Method::Post,
            (Some(_), _, ClientAuth::Auto) if !takes(Method::Basic) && takes(Method::Post) => Method::Post,
            (Some(_), _, ClientAuth::Auto) => Method::Basic,
        };
        let Configured { id, secret, signer, .. } = self;
        Client { id: id.clone(), secret: secret.clone(), method, signer: signer.clone() }
    }
}

/// How a key of an algorithm's is read.
type Read = fn(&[u8]) -> jsonwebtoken::errors::Result<EncodingKey>;

fn signer(pem: &SecretString, algorithm: Algorithm) -> Result<Signer, SpecError> {
    use jsonwebtoken::Algorithm as Of;
    let (algorithm, read): (Of, Read) = match algorithm {
        Algorithm::RS256 => (Of::RS256, EncodingKey::from_rsa_pem),
        Algorithm::RS384 => (Of::RS384, EncodingKey::from_rsa_pem),
        Algorithm::RS512 => (Of::RS512, EncodingKey::from_rsa_pem),
        Algorithm::PS256 => (Of::PS256, EncodingKey::from_rsa_pem),
        Algorithm::PS384 => (Of::PS384, EncodingKey::from_rsa_pem),
        Algorithm::PS512 => (Of::PS512, EncodingKey::from_rsa_pem),
        Algorithm::ES256 => (Of::ES256, EncodingKey::from_ec_pem),
        Algorithm::ES384 => (Of::ES384, EncodingKey::from_ec_pem),
        Algorithm::EdDSA => (Of::EdDSA, EncodingKey::from_ed_pem),
    };
    let key = read(pem.expose_secret().as_bytes());
    let key = key.map_err(|_| SpecError {
        key: "auth.private_key",
        why: format!("is no private key in PEM form for {algorithm:?} (auth.signing_algorithm)"),
    })?;
    Ok(Signer { key: Arc::new(key), algorithm })
}

/// Never its secrets.
impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spec")
            .field("upstream", &self.upstream)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::Source;
    use super::super::token::Given;
    use super::*;
    use serde_json::json;

    fn spec(url: &str, auth: serde_json::Value) -> Spec {
        let auth: Credential = serde_json::from_value(auth).unwrap();
        Spec::of(UpstreamId::new("up").unwrap(), url, &auth).unwrap()
    }

    #[test]
    fn an_account_is_for_the_server_that_it_was_connected_for_alone() {
        let given: Given = serde_json::from_str(r#"{"access_token":"a","token_type":"bearer"}"#).unwrap();
        let held = Held::of(
            given,
            Source {
                issuer: "https://as.example".into(),
                endpoint: "https://as.example/token".into(),
                revocation: None,
                client: Client { id: "c".into(), secret: None, method: Method::None, signer: None },
                resource: Some("https://up.example/mcp".into()),
                scopes: Vec::new(),
            },
        );
        let other = "https://other.example/mcp";
        for (url, auth, want) in [
            ("https://up.example/mcp", json!({}), true),
            ("https://up.example/mcp/", json!({}), true),
            (other, json!({}), false),
            ("http://up.example/mcp", json!({}), false),
            ("https://up.example/else", json!({}), false),
            (other, json!({"resource": "https://up.example/mcp"}), true),
            ("https://up.example/mcp", json!({"issuer": "https://as.example"}), true),
            ("https://up.example/mcp", json!({"issuer": "https://as.other.example"}), false),
        ] {
            let mut auth = auth;
            auth["kind"] = json!("oauth");
            assert_eq!(spec(url, auth.clone()).takes(&held), want, "{url} {auth}");
        }
    }
}
