//! A token for each caller, exchanged for the one that they came with (RFC 8693). The caller's own token is shown to the token
//! endpoint that the configuration names, and to nobody else; it is in no record, and never goes upstream.

use super::held::Held;
use super::ours::{lack, source};
use super::slot::{Fruitless, Renewal, Slot, hidden};
use super::spec::Spec;
use super::token::{self, Failed};
use super::{Shared, key};
use crate::mcp::Access;
use crate::upstream::credentials::{Bearer, Bearing, Credentials, Lack, Refusal, Token};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// Gives each caller what their token is exchanged for.
#[derive(Debug)]
pub(super) struct Exchanges {
    pub shared: Arc<Shared>,
    pub spec: Arc<Spec>,
}

/// One caller's.
#[derive(Clone)]
struct Exchange {
    shared: Arc<Shared>,
    spec: Arc<Spec>,
    access: Arc<Access>,
}

impl Credentials for Exchanges {
    fn personal(&self) -> bool {
        true
    }

    fn of(&self, access: Option<&Arc<Access>>) -> Option<Bearer> {
        let (shared, spec) = (self.shared.clone(), self.spec.clone());
        Some(Arc::new(Exchange { shared, spec, access: access?.clone() }))
    }
}

impl Exchange {
    /// What came for a token of wider scopes, or for another client's, is not for this one.
    fn slot(&self) -> Slot {
        let Access { principal, scopes, client, .. } = &*self.access;
        let who = format!("{} {client:?} {scopes}", principal.identity());
        Slot {
            key: key(&hidden(&format!("{} {who}", self.spec.mark())), &self.spec.upstream),
            owner: format!("{} for {who}", self.spec.upstream),
        }
    }

    async fn renewed(&self, slot: Slot, refused: Option<u64>) -> Result<Token, Lack> {
        let held = self.shared.renewed(slot, refused, Arc::new(self.clone())).await?;
        held.token().ok_or(Lack::Bad)
    }

    async fn ask(&self) -> Result<Held, Failed> {
        let (shared, spec) = (&self.shared, &self.spec);
        let nothing = || Failed::Refused("the caller came with no token that could be exchanged".into());
        let subject = self.access.token.as_ref().ok_or_else(nothing)?;
        let source = source(shared, spec).await?;
        let scope = source.scopes.join(" ");
        let mut form = vec![
            ("grant_type", GRANT),
            ("subject_token", subject.expose()),
            ("subject_token_type", ACCESS_TOKEN),
            ("requested_token_type", ACCESS_TOKEN),
        ];
        form.extend((!scope.is_empty()).then_some(("scope", scope.as_str())));
        form.extend(spec.audience.as_deref().map(|audience| ("audience", audience)));
        form.extend(source.resource.as_deref().map(|resource| ("resource", resource)));
        let named = spec.named(&source.endpoint);
        let given =
            token::ask(&shared.egress, named, &source.endpoint, &source.client, &source.issuer, &form)
                .await?;
        // It does not outlive what it was given for.
        Ok(Held::of(given, source).until(self.access.until))
    }
}

impl Bearing for Exchange {
    fn token(self: Arc<Self>) -> BoxFuture<'static, Result<Option<Token>, Lack>> {
        async move {
            let slot = self.slot();
            match self.shared.held(&slot).await.map_err(|_| Lack::StoreAway)? {
                Some(held) if held.is_fresh() => Ok(held.token()),
                _ => self.renewed(slot, None).await.map(Some),
            }
        }
        .boxed()
    }

    fn refused(self: Arc<Self>, refusal: Refusal) -> BoxFuture<'static, Result<Token, Lack>> {
        async move {
            match refusal.used.filter(|_| !refusal.again && refusal.status == 401) {
                Some(used) => self.renewed(self.slot(), Some(used.mark)).await,
                None if refusal.status == 403 => Err(Lack::Insufficient),
                None => {
                    tracing::warn!(upstream = %self.spec.upstream, "an upstream refuses a token that was exchanged");
                    Err(Lack::Bad)
                }
            }
        }
        .boxed()
    }

    fn link(&self) -> Option<Arc<str>> {
        None
    }
}

impl Renewal for Exchange {
    fn renew(&self, _: Option<Arc<Held>>) -> BoxFuture<'static, Result<Held, Fruitless>> {
        let exchange = self.clone();
        async move {
            exchange.ask().await.map_err(|failed| {
                tracing::warn!(upstream = %exchange.spec.upstream, why = %failed, "a caller's token was not exchanged");
                Fruitless { lack: lack(failed), void: false }
            })
        }
        .boxed()
    }
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Exchange({})", self.spec.upstream)
    }
}
