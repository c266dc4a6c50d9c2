//! The token endpoint and the revocation endpoint: what programs of clients ask for (RFC 6749 4.1.3 and 6, RFC 7009).

use super::answers::{self, Refused};
use super::codes::Shown;
use super::families::{RenewError, Renewal};
use super::{Grant, Server};
use crate::auth::FAMILY;
use crate::auth::form::Form;
use crate::auth::pages::Asked;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Response, StatusCode};
use serde_json::{Value, json};

impl Server {
    /// `POST /token`.
    pub(super) async fn exchange(&self, asked: &Asked) -> Response<Bytes> {
        match self.tokens(asked).await {
            Ok(text) => answers::text(StatusCode::OK, text),
            Err(refused) => refused.answer(),
        }
    }

    async fn tokens(&self, asked: &Asked) -> Result<String, Refused> {
        let form = read(asked)?;
        let client = self.clients.prove(&asked.headers, &form)?;
        match form.get("grant_type") {
            Some("authorization_code") => self.by_code(&form, &client).await,
            Some("refresh_token") => self.by_refresh(&form, &client).await,
            Some(_) => {
                let why = "grant_type must be authorization_code or refresh_token";
                Err(Refused::new("unsupported_grant_type", why))
            }
            None => Err(Refused::new("invalid_request", "grant_type is missing")),
        }
    }

    async fn by_code(&self, form: &Form, client: &str) -> Result<String, Refused> {
        let missing = |name: &str| Refused::new("invalid_request", format!("{name} is missing"));
        let code = form.get("code").ok_or_else(|| missing("code"))?;
        let verifier = form.get("code_verifier").ok_or_else(|| missing("code_verifier"))?;
        let shown = self.codes.show(code, client, form.get("redirect_uri"), verifier).await;
        let (grant, family) = match shown.map_err(|_| Refused::away())? {
            Shown::Used { grant, family } => (grant, family),
            Shown::Again { family } => {
                tracing::warn!("an authorization code was used again: its tokens end");
                self.families.end(&family).await.map_err(|_| Refused::away())?;
                return Err(not_good());
            }
            Shown::Foreign => return Err(not_good()),
        };
        if let Some(resource) = resource(form)?
            && self.resources.find(resource).is_none_or(|resource| resource.url != grant.resource)
        {
            return Err(Refused::new("invalid_target", "resource is not the one that was granted"));
        }
        let refresh = match grant.refresh {
            false => None,
            true => {
                let begun = self.families.begin(&family, &grant, &self.issuer).await;
                // Ended already: the code was used again meanwhile.
                Some(begun.map_err(|_| Refused::away())?.ok_or_else(not_good)?)
            }
        };
        Ok(self.answer_with(&grant, &grant.scope, &family, refresh.as_deref()))
    }

    async fn by_refresh(&self, form: &Form, client: &str) -> Result<String, Refused> {
        let token = form.get("refresh_token");
        let token = token.ok_or_else(|| Refused::new("invalid_request", "refresh_token is missing"))?;
        // In our own spelling, as it was granted.
        let resource =
            match resource(form)? {
                Some(asked) => {
                    let known = self.resources.find(asked).map(|resource| resource.url);
                    Some(known.ok_or_else(|| {
                        Refused::new("invalid_target", "resource is none of this gateway's")
                    })?)
                }
                None => None,
            };
        let asked = Renewal { token, client, scope: form.get("scope"), resource: resource.as_deref() };
        let answer = |grant: &Grant, scope: &str, family: &str, next: &str| {
            self.answer_with(grant, scope, family, Some(next))
        };
        self.families.renew(asked, answer).await.map_err(|error| match error {
            RenewError::Invalid => Refused::new("invalid_grant", error.to_string()),
            RenewError::Scope => Refused::new("invalid_scope", error.to_string()),
            RenewError::Target => Refused::new("invalid_target", error.to_string()),
            RenewError::Away => Refused::away(),
        })
    }

    /// RFC 6749 5.1.
    fn answer_with(&self, grant: &Grant, scope: &str, family: &str, refresh: Option<&str>) -> String {
        let (access, life) = self.access_token(grant, scope, family);
        let mut answer =
            json!({"access_token": access, "token_type": "Bearer", "expires_in": life, "scope": scope});
        if let Some(refresh) = refresh {
            answer["refresh_token"] = refresh.into();
        }
        answer.to_string()
    }

    /// `POST /revoke`: 200 whether or not there was such a token (RFC 7009 2.2).
    pub(super) async fn revoke(&self, asked: &Asked) -> Response<Bytes> {
        match self.revoked(asked).await {
            Ok(()) => answers::json(StatusCode::OK, &json!({})),
            Err(refused) => refused.answer(),
        }
    }

    async fn revoked(&self, asked: &Asked) -> Result<(), Refused> {
        let form = read(asked)?;
        let client = self.clients.prove(&asked.headers, &form)?;
        let token = form.get("token").ok_or_else(|| Refused::new("invalid_request", "token is missing"))?;
        match self.own_claims(token) {
            // An access token: with it go all that came of the same authorization.
            Some(claims) => {
                let family = claims[FAMILY].as_str().filter(|_| claims["client_id"] == client);
                match family {
                    Some(family) => self.families.end(family).await.map_err(|_| Refused::away()),
                    None => Ok(()),
                }
            }
            None => self.families.end_of(token, &client).await.map_err(|_| Refused::away()),
        }
    }

    /// The claims of an access token that this server signed, be it over by now.
    fn own_claims(&self, token: &str) -> Option<Value> {
        let head = jsonwebtoken::decode_header(token).ok()?;
        let keys = self.keys.verifying();
        let (signed, signature) = token.rsplit_once('.')?;
        let good = keys.find(head.kid.as_deref(), head.alg).any(|key| {
            jsonwebtoken::crypto::verify(signature, signed.as_bytes(), key, head.alg).unwrap_or(false)
        });
        let claims = signed.split_once('.').filter(|_| good)?.1;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

fn read(asked: &Asked) -> Result<Form, Refused> {
    Form::of_body(&asked.headers, &asked.body)
        .map_err(|error| Refused::new("invalid_request", error.to_string()))
}

/// The one resource that a request names, if any (RFC 8707 2.2).
fn resource(form: &Form) -> Result<Option<&str>, Refused> {
    match form.all("resource") {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(Refused::new("invalid_target", "a token is for one resource")),
    }
}

fn not_good() -> Refused {
    Refused::new("invalid_grant", "the code is not good, too old, or not this client's")
}
