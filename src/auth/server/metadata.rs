//! What the server says of itself (RFC 8414), and its public keys.

use super::{OFFLINE, Server, answers};
use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use serde_json::{Value, json};

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";
/// How clients may say who they are, in the order that is best for them.
pub const METHODS: [&str; 3] = ["none", "client_secret_basic", "client_secret_post"];

impl Server {
    /// Whether its metadata is there: at the root, and below it for clients that take a resource's URL for an issuer.
    pub(super) fn is_metadata(&self, path: &str) -> bool {
        let rest = path.strip_prefix(OAUTH).or_else(|| path.strip_prefix(OPENID));
        rest.is_some_and(|rest| {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            rest.is_empty() || self.resources.find(&format!("{}{rest}", self.issuer)).is_some()
        })
    }

    pub(super) fn metadata(&self, path: &str) -> Value {
        let at = |path: &str| format!("{}{path}", self.issuer);
        let mut scopes: Vec<&str> = self.scopes.iter().map(|(name, _)| name.as_str()).collect();
        let default = self.resources.default();
        for scope in default.iter().flat_map(|resource| &resource.scopes) {
            if !scopes.contains(&scope.as_str()) {
                scopes.push(scope);
            }
        }
        scopes.push(OFFLINE);
        let mut metadata = json!({
            "issuer": &*self.issuer,
            "authorization_endpoint": at("/authorize"),
            "token_endpoint": at("/token"),
            "revocation_endpoint": at("/revoke"),
            "jwks_uri": at("/jwks.json"),
            "scopes_supported": scopes,
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": METHODS,
            "revocation_endpoint_auth_methods_supported": METHODS,
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": self.clients.reads_documents(),
        });
        if self.registration {
            metadata["registration_endpoint"] = at("/register").into();
        }
        if path.starts_with(OPENID) {
            // Readers of this form want them, though there are no ID tokens here.
            metadata["subject_types_supported"] = json!(["public"]);
            metadata["id_token_signing_alg_values_supported"] = json!(self.keys.algorithms());
        }
        metadata
    }
}

/// A document that is the same for everyone, and may be kept for a while.
pub fn document(value: Value) -> Response<Bytes> {
    let mut response = answers::json(StatusCode::OK, &value);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    response
}
