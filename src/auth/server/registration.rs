//! Dynamic registration (RFC 7591). A registration is answered with an id that holds it, sealed: nothing is kept here.

use super::answers::{self, Refused};
use super::clients::{Client, LONGEST_ID};
use super::metadata::METHODS;
use super::{Server, redirects};
use crate::auth::pages::Asked;
use crate::auth::{digest_text, html, now, random_text};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

/// Most addresses of one client.
const MOST: usize = 16;

/// What of a registration is looked at; the rest is passed over, as RFC 7591 2 asks.
#[derive(Deserialize)]
struct Wish {
    #[serde(default)]
    redirect_uris: Vec<String>,
    client_name: Option<String>,
    token_endpoint_auth_method: Option<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
    /// `web` or `native`. Nothing depends on it: a client that gives loopback addresses and no type is no web client.
    application_type: Option<String>,
    client_uri: Option<String>,
    scope: Option<String>,
}

impl Server {
    pub(super) fn register(&self, asked: &Asked) -> Response<Bytes> {
        if !crate::wire::headers::is_json(&asked.headers) {
            return Refused::new("invalid_client_metadata", "the body must be application/json").answer();
        }
        match serde_json::from_slice::<Wish>(&asked.body) {
            Ok(wish) => self.registered(wish).unwrap_or_else(|refused| refused.answer()),
            Err(_) => Refused::new("invalid_client_metadata", "the body is no registration").answer(),
        }
    }

    fn registered(&self, wish: Wish) -> Result<Response<Bytes>, Refused> {
        let wrong = |why: &str| Refused::new("invalid_client_metadata", why);
        let addresses = &wish.redirect_uris;
        if addresses.is_empty() || addresses.len() > MOST {
            let why = format!("there must be 1 to {MOST} redirect addresses");
            return Err(Refused::new("invalid_redirect_uri", why));
        }
        for (index, address) in addresses.iter().enumerate() {
            let admitted = self.policy.admit(address);
            let known = admitted.map_err(|why| {
                Refused::new("invalid_redirect_uri", format!("redirect_uris[{index}]: {why}"))
            })?;
            if known == redirects::Known::Stranger {
                let host = redirects::host(address);
                tracing::warn!(host, "a client with an address of no known vendor registers");
            }
        }
        // RFC 7591 2: what is left out.
        let method = wish.token_endpoint_auth_method.as_deref().unwrap_or("client_secret_basic");
        if !METHODS.contains(&method) {
            return Err(wrong("this token_endpoint_auth_method is not known here"));
        }
        let grants = wish.grant_types.as_deref();
        let has = |grant: &str| grants.is_some_and(|grants| grants.iter().any(|known| known == grant));
        if grants.is_some() && !has("authorization_code") {
            return Err(wrong("grant_types must have authorization_code"));
        }
        if wish.response_types.as_ref().is_some_and(|types| !types.iter().any(|known| known == "code")) {
            return Err(wrong("response_types must have code"));
        }
        let secret = (method != "none").then(random_text);
        let client = Client {
            id: String::new(),
            name: html::plain(wish.client_name.as_deref().unwrap_or_default()),
            redirects: wish.redirect_uris,
            secret: secret.as_ref().map(|secret| digest_text(secret.as_bytes())),
            once: grants.is_some() && !has("refresh_token"),
        };
        let id = self.clients.register(&client);
        if id.len() > LONGEST_ID {
            return Err(wrong("the registration is too large"));
        }
        let grants = if client.once {
            vec!["authorization_code"]
        } else {
            vec!["authorization_code", "refresh_token"]
        };
        let mut answer = json!({
            "client_id": id, "client_id_issued_at": now(), "redirect_uris": client.redirects, "grant_types": grants,
            "response_types": ["code"], "token_endpoint_auth_method": method,
        });
        if let Some(secret) = secret {
            answer["client_secret"] = secret.into();
            answer["client_secret_expires_at"] = 0.into();
        }
        let echoed = [
            ("client_name", wish.client_name),
            ("application_type", wish.application_type),
            ("client_uri", wish.client_uri),
            ("scope", wish.scope),
        ];
        for (name, value) in echoed {
            if let Some(value) = value.filter(|value| value.len() <= 1024) {
                answer[name] = Value::from(value);
            }
        }
        Ok(answers::json(StatusCode::CREATED, &answer))
    }
}
