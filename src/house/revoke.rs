//! `POST /admin/revoke`: what is to open nothing any more, on all pods.

use super::Login;
use crate::admin::Page;
use crate::auth::browser::Browser;
use crate::auth::server::families::{Families, Lives};
use crate::auth::{Revocable, RevokeError, Revoked, api_key};
use crate::config::parse_duration;
use crate::edge::Gate;
use crate::edge::legacy::end_upstream;
use crate::mcp::{Principal, StoreAway};
use crate::store::Store;
use crate::vault::Vault;
use arc_swap::ArcSwap;
use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// For how long, where the order does not say it: longer than what is revoked lives.
const DEFAULT: Duration = Duration::from_secs(10 * 365 * 86_400);
/// When it is looked again for what a principal has: until then another pod may not have known, and have begun something.
const AGAIN: Duration = Duration::from_millis(1500);

pub struct Revoke(Arc<Ground>);

/// Where what people have is kept.
struct Ground {
    revoked: Revoked,
    store: Arc<dyn Store>,
    families: Families,
    vault: Vault,
    gates: Arc<ArcSwap<Gate>>,
}

/// Exactly one of `api_key`, `family`, `client`, `token` with its `issuer`, or `subject` with its `tenant` and `issuer`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    api_key: Option<String>,
    family: Option<String>,
    client: Option<String>,
    token: Option<String>,
    subject: Option<String>,
    tenant: Option<String>,
    issuer: Option<String>,
    /// `30d`: when what is revoked has ended by itself.
    #[serde(rename = "for")]
    long: Option<String>,
}

/// Why an order was not carried out, or not to its end.
enum Undone {
    Revoke(RevokeError),
    /// Nobody comes in as this principal any more, but what they had may still be there.
    Left,
}

impl Revoke {
    pub fn new(login: &Login, vault: &Vault, gates: &Arc<ArcSwap<Gate>>) -> Revoke {
        let (store, revoked) = (login.store.clone(), login.revoked.clone());
        // It only ends them.
        let never = Lives {
            access: Duration::ZERO,
            refresh: Duration::ZERO,
            longest: Duration::ZERO,
            grace: Duration::ZERO,
        };
        let families = Families::new(store.clone(), login.keyring.clone(), revoked.clone(), never);
        Revoke(Arc::new(Ground { revoked, store, families, vault: vault.clone(), gates: gates.clone() }))
    }
}

impl Order {
    fn what(&self) -> Option<Revocable<'_>> {
        if self.subject.is_some() || self.tenant.is_some() {
            return None;
        }
        match (&self.api_key, &self.family, &self.client, &self.token, &self.issuer) {
            (Some(id), None, None, None, None) => Some(Revocable::ApiKey(id)),
            (None, Some(id), None, None, None) => Some(Revocable::Family(id)),
            (None, None, Some(id), None, None) => Some(Revocable::Client(id)),
            (None, None, None, Some(id), Some(issuer)) => Some(Revocable::Token { issuer, id }),
            _ => None,
        }
    }

    /// The principals that a person is: by their tokens, and by keys of the same tenant that were minted for them.
    fn person(&self) -> Option<[Arc<Principal>; 2]> {
        match self {
            Order {
                api_key: None,
                family: None,
                client: None,
                token: None,
                subject: Some(subject),
                tenant: Some(tenant),
                issuer: Some(issuer),
                ..
            } => Some(
                [&**issuer, api_key::ISSUER]
                    .map(|issuer| Arc::new(Principal::minted(tenant, issuer, subject))),
            ),
            _ => None,
        }
    }
}

impl Ground {
    /// Shuts a person out, and ends what they have.
    async fn shut_out(self: &Arc<Self>, person: [Arc<Principal>; 2], until: u64) -> Result<(), Undone> {
        for principal in &person {
            self.revoked.revoke(Revocable::Principal(principal), until).await.map_err(Undone::Revoke)?;
        }
        let ended = self.end_all(&person).await;
        let (ground, gate) = (self.clone(), self.gates.load_full());
        gate.tasks.spawn(async move {
            tokio::time::sleep(AGAIN).await;
            if ground.end_all(&person).await.is_err() {
                tracing::warn!("the store is away: not all that a person had was ended");
            }
        });
        ended.map_err(|StoreAway| Undone::Left)
    }

    async fn end_all(&self, person: &[Arc<Principal>; 2]) -> Result<(), StoreAway> {
        let gate = self.gates.load_full();
        for principal in person {
            gate.sessions.delete_all(principal, |ended| end_upstream(&gate, ended)).await?;
            self.families.end_all(principal).await?;
            Browser::end_all(&self.store, principal).await?;
            self.vault.disconnect_all(principal).await?;
        }
        Ok(())
    }

    async fn carry_out(self: Arc<Self>, order: Order, until: u64) -> Option<Result<(), Undone>> {
        Some(match (order.person(), order.what()) {
            (Some(person), _) => {
                tracing::info!(
                    subject = order.subject,
                    tenant = order.tenant,
                    issuer = order.issuer,
                    "shut out by the operator"
                );
                self.shut_out(person, until).await
            }
            (None, Some(what)) => {
                let revoked = self.revoked.revoke(what, until).await;
                if revoked.is_ok() {
                    tracing::info!(?what, "revoked by the operator");
                }
                revoked.map_err(Undone::Revoke)
            }
            (None, None) => return None,
        })
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
        let ground = self.0.clone();
        Box::pin(async move {
            const FORM: &str = "one of {\"api_key\": ID}, {\"family\": ID}, {\"client\": ID}, {\"token\": JTI, \"issuer\": URL}, \
                 {\"subject\": SUB, \"tenant\": TENANT, \"issuer\": URL}; beside it \"for\": \"30d\"\n";
            let bad = || (StatusCode::BAD_REQUEST, FORM).into_response();
            let Ok(order) = serde_json::from_slice::<Order>(&body) else { return bad() };
            let Some(long) = order.long.as_deref().map_or(Some(DEFAULT), parse_duration) else {
                return bad();
            };
            let until = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + long;
            // In a task of its own: who asked may go, and what was begun is carried on with.
            let done = tokio::spawn(ground.carry_out(order, until.as_secs())).await;
            match done.unwrap_or(Some(Err(Undone::Left))) {
                None => bad(),
                Some(Ok(())) => StatusCode::NO_CONTENT.into_response(),
                Some(Err(Undone::Revoke(error @ RevokeError::Away))) => {
                    let why = format!(
                        "{error}: this pod refuses it, and tells the others when the store is back\n"
                    );
                    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
                }
                Some(Err(Undone::Left)) => {
                    let why = "nobody comes in as this principal any more, but the state store is out of reach and what they had \
                               may still be there: ask again\n";
                    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
                }
                Some(Err(Undone::Revoke(error))) => {
                    (StatusCode::INSUFFICIENT_STORAGE, format!("{error}\n")).into_response()
                }
            }
        })
    }
}
