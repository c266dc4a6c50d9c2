//! The gateway's own token for an upstream (RFC 6749 4.4): one for all callers, on all pods.

use super::held::{Held, Source};
use super::slot::{Fruitless, Renewal, Slot, hidden};
use super::spec::Spec;
use super::token::{self, Failed};
use super::{Shared, key};
use crate::mcp::Access;
use crate::upstream::credentials::{Bearer, Bearing, Credentials, Lack, Refusal, Token};
use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Gives the gateway's own credential to every caller.
#[derive(Debug)]
pub(super) struct ClientCredentials {
    own: Arc<Own>,
}

struct Own {
    shared: Arc<Shared>,
    spec: Arc<Spec>,
    slot: Slot,
    /// The one that was borne last: mostly it is fresh still.
    last: ArcSwapOption<Held>,
}

/// Asks for the next token.
struct Asking {
    shared: Arc<Shared>,
    spec: Arc<Spec>,
}

impl ClientCredentials {
    pub(super) fn new(shared: Arc<Shared>, spec: Arc<Spec>) -> ClientCredentials {
        // With another configuration of it, another token.
        let slot = Slot {
            key: key(&hidden(&spec.mark()), &spec.upstream),
            owner: format!("the gateway at {}", spec.upstream),
        };
        ClientCredentials { own: Arc::new(Own { shared, spec, slot, last: ArcSwapOption::empty() }) }
    }
}

impl Credentials for ClientCredentials {
    fn personal(&self) -> bool {
        false
    }

    fn of(&self, _: Option<&Arc<Access>>) -> Option<Bearer> {
        Some(self.own.clone())
    }
}

impl Own {
    async fn renewed(&self, refused: Option<u64>) -> Result<Token, Lack> {
        let asking = Asking { shared: self.shared.clone(), spec: self.spec.clone() };
        let asking = Arc::new(asking);
        let held = match self.shared.renewed(self.slot.clone(), refused, asking.clone()).await {
            // With the store away each pod asks for itself.
            Err(Lack::StoreAway) => Arc::new(asking.ask().await.map_err(|failed| asking.lack(failed))?),
            renewed => renewed?,
        };
        self.last.store(Some(held.clone()));
        held.token().ok_or(Lack::Bad)
    }
}

impl Bearing for Own {
    fn token(self: Arc<Self>) -> BoxFuture<'static, Result<Option<Token>, Lack>> {
        async move {
            if let Some(held) = self.last.load().as_ref().filter(|held| held.is_fresh()) {
                return Ok(held.token());
            }
            self.renewed(None).await.map(Some)
        }
        .boxed()
    }

    fn refused(self: Arc<Self>, refusal: Refusal) -> BoxFuture<'static, Result<Token, Lack>> {
        async move {
            let Some(used) = refusal.used.filter(|_| !refusal.again && refusal.status == 401) else {
                tracing::warn!(upstream = %self.spec.upstream, status = refusal.status, "an upstream refuses the gateway's token");
                return Err(Lack::Bad);
            };
            self.last.store(None);
            self.renewed(Some(used.mark)).await
        }
        .boxed()
    }

    fn link(&self) -> Option<Arc<str>> {
        None
    }
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Own({})", self.spec.upstream)
    }
}

impl Asking {
    async fn ask(&self) -> Result<Held, Failed> {
        let (shared, spec) = (&self.shared, &self.spec);
        let source = source(shared, spec).await?;
        let scope = source.scopes.join(" ");
        let mut form = vec![("grant_type", "client_credentials")];
        form.extend((!scope.is_empty()).then_some(("scope", scope.as_str())));
        form.extend(source.resource.as_deref().map(|resource| ("resource", resource)));
        let named = spec.named(&source.endpoint);
        let given =
            token::ask(&shared.egress, named, &source.endpoint, &source.client, &source.issuer, &form)
                .await?;
        Ok(Held::of(given, source))
    }

    fn lack(&self, failed: Failed) -> Lack {
        tracing::warn!(upstream = %self.spec.upstream, why = %failed, "the gateway is given no token for an upstream");
        lack(failed)
    }
}

impl Renewal for Asking {
    fn renew(&self, _: Option<Arc<Held>>) -> BoxFuture<'static, Result<Held, Fruitless>> {
        let asking = Asking { shared: self.shared.clone(), spec: self.spec.clone() };
        async move { asking.ask().await.map_err(|failed| Fruitless { lack: asking.lack(failed), void: false }) }.boxed()
    }
}

/// What a failure of a token endpoint is to a request that needs the token.
pub(super) fn lack(failed: Failed) -> Lack {
    match failed {
        Failed::Dead | Failed::Refused(_) => Lack::Bad,
        Failed::Unreachable(why) => Lack::Unreachable(format!("its authorisation server: {why}").into()),
    }
}

/// Where the gateway's own client asks for tokens: as configured, else as the issuer's metadata says, else as the upstream's.
pub(super) async fn source(shared: &Shared, spec: &Spec) -> Result<Source, Failed> {
    let unknown = |unknown: super::metadata::Unknown| Failed::Unreachable(unknown.to_string());
    let configured = spec.client.as_ref().ok_or(Failed::Refused("no client_id is configured".into()))?;
    if let Some(endpoint) = &spec.token_url {
        return Ok(Source {
            issuer: endpoint.clone(),
            endpoint: endpoint.clone(),
            revocation: None,
            client: configured.at(None),
            resource: spec.resource.clone(),
            scopes: spec.scopes.clone(),
        });
    }
    let (issuer, resource, scopes) = match &spec.issuer {
        Some(issuer) => (issuer.clone(), None, Vec::new()),
        None => {
            let found = shared.resource(spec, None).await.map_err(unknown)?;
            (found.issuer, Some(found.id), found.scopes)
        }
    };
    let server = shared.server(spec, &issuer).await.map_err(unknown)?;
    Ok(Source {
        issuer,
        endpoint: server.token_endpoint().map_err(unknown)?.to_owned(),
        revocation: server.revocation_endpoint.clone(),
        client: configured.at(Some(&server)),
        resource: spec.resource.clone().or(resource),
        scopes: if spec.scopes.is_empty() { scopes } else { spec.scopes.clone() },
    })
}
