//! `POST /admin/revoke`: what is to open nothing any more, on all pods.

use super::Login;
use crate::admin::Page;
use crate::auth::{Revocable, RevokeError, Revoked};
use crate::config::parse_duration;
use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For how long, where the order does not say it: longer than what is revoked lives.
const DEFAULT: Duration = Duration::from_secs(10 * 365 * 86_400);

pub struct Revoke(Revoked);

/// Exactly one of `api_key`, `family`, `client`, or `token` with its `issuer`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    api_key: Option<String>,
    family: Option<String>,
    client: Option<String>,
    token: Option<String>,
    issuer: Option<String>,
    /// `30d`: when what is revoked has ended by itself.
    #[serde(rename = "for")]
    long: Option<String>,
}

impl Revoke {
    pub fn new(login: &Login) -> Revoke {
        Revoke(login.revoked.clone())
    }
}

impl Order {
    fn what(&self) -> Option<Revocable<'_>> {
        match (&self.api_key, &self.family, &self.client, &self.token, &self.issuer) {
            (Some(id), None, None, None, None) => Some(Revocable::ApiKey(id)),
            (None, Some(id), None, None, None) => Some(Revocable::Family(id)),
            (None, None, Some(id), None, None) => Some(Revocable::Client(id)),
            (None, None, None, Some(id), Some(issuer)) => Some(Revocable::Token { issuer, id }),
            _ => None,
        }
    }
}

impl Page for Revoke {
    fn path(&self) -> &'static str {
        "/admin/revoke"
    }

    fn verb(&self) -> Method {
        Method::POST
    }

    fn answer(&self, _: &Parts, body: Bytes) -> BoxFuture<'static, Response> {
        let revoked = self.0.clone();
        Box::pin(async move {
            const FORM: &str = "one of {\"api_key\": ID}, {\"family\": ID}, {\"client\": ID}, {\"token\": JTI, \"issuer\": URL}; \
                 beside it \"for\": \"30d\"\n";
            let bad = || (StatusCode::BAD_REQUEST, FORM).into_response();
            let Ok(order) = serde_json::from_slice::<Order>(&body) else { return bad() };
            let (Some(what), Some(long)) =
                (order.what(), order.long.as_deref().map_or(Some(DEFAULT), parse_duration))
            else {
                return bad();
            };
            let until = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + long;
            match revoked.revoke(what, until.as_secs()).await {
                Ok(()) => {
                    tracing::info!(?what, "revoked by the operator");
                    StatusCode::NO_CONTENT.into_response()
                }
                Err(error @ RevokeError::Away) => {
                    let why = format!(
                        "{error}: this pod refuses it, and tells the others when the store is back\n"
                    );
                    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
                }
                Err(error) => (StatusCode::INSUFFICIENT_STORAGE, format!("{error}\n")).into_response(),
            }
        })
    }
}
