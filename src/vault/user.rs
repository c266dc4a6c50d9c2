//! Each caller's own account at an upstream: the token that their requests bear, and where they connect where they have none.

use super::challenge::Challenge;
use super::connect::Link;
use super::held::Held;
use super::ours::lack;
use super::slot::{Fruitless, Renewal, Slot, hidden};
use super::spec::Spec;
use super::token::{self, Failed};
use super::{Shared, key};
use crate::mcp::{Access, Principal};
use crate::upstream::credentials::{Bearer, Bearing, Credentials, Lack, Refusal, Token};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// Gives each caller the credential of the account that they connected.
#[derive(Debug)]
pub(super) struct Accounts {
    pub shared: Arc<Shared>,
    pub spec: Arc<Spec>,
}

/// What an upstream asks of a caller.
#[derive(Clone)]
pub(super) struct Wanted {
    link: Link,
    /// The token that it refused; `None`: there was none.
    refused: Option<u64>,
}

/// One caller's account at one upstream, be it connected or not.
#[derive(Clone)]
pub(super) struct Account {
    pub shared: Arc<Shared>,
    pub spec: Arc<Spec>,
    pub principal: Arc<Principal>,
}

impl Credentials for Accounts {
    fn personal(&self) -> bool {
        true
    }

    fn of(&self, access: Option<&Arc<Access>>) -> Option<Bearer> {
        let principal = access?.principal.clone();
        Some(Arc::new(Account { shared: self.shared.clone(), spec: self.spec.clone(), principal }))
    }
}

impl Account {
    pub(super) fn slot(&self) -> Slot {
        let identity = self.principal.identity();
        Slot {
            key: key(&hidden(&identity), &self.spec.upstream),
            owner: format!("{} {identity}", self.spec.upstream),
        }
    }

    /// What is held, where it was given for this server: under its id there may have been another, and whoever connected an
    /// account there did not mean it for this one.
    async fn held(&self, slot: &Slot) -> Result<Option<Arc<Held>>, Lack> {
        let held = self.shared.held(slot).await.map_err(|_| Lack::StoreAway)?;
        Ok(held.filter(|held| self.spec.takes(held)))
    }

    /// Connecting is the caller's to do, for this token is refused, or there is none.
    fn to_connect(&self, slot: &Slot, refused: Option<u64>, link: Link) -> Lack {
        self.shared.wanted.insert(slot.key.clone(), Wanted { link: link.clone(), refused });
        self.lack(link)
    }

    /// What the upstream asked for when it was asked last.
    fn asked_for(&self, slot: &Slot) -> Link {
        self.shared.wanted.get(&slot.key).map_or_else(|| Link::to(&self.spec.upstream), |wanted| wanted.link)
    }

    fn lack(&self, wanted: Link) -> Lack {
        match self.shared.link(&self.principal, &wanted) {
            Some(url) => Lack::Connect { url },
            None => Lack::Bad,
        }
    }

    fn wanted(&self, challenge: &Challenge, before: &[String]) -> Link {
        let mut link = Link::to(&self.spec.upstream);
        link.metadata = challenge.resource_metadata.clone();
        if let Some(scopes) = &challenge.scopes {
            // What was granted before is asked for again (MCP authorization, *Scope Challenge Handling*).
            let more = scopes.iter().filter(|scope| !before.contains(scope));
            link.scopes = Some(before.iter().chain(more).cloned().collect());
        }
        link
    }

    /// Another token for the connected account.
    async fn renewed(&self, slot: Slot, refused: Option<u64>) -> Result<Arc<Held>, Lack> {
        let renewed = self.shared.renewed(slot.clone(), refused, Arc::new(self.clone())).await;
        match renewed {
            Err(Lack::Connect { .. }) => {
                // One link for all who waited would be used up by the first.
                Err(self.lack(self.asked_for(&slot)))
            }
            // Another pod, of another configuration, has renewed it.
            Ok(held) if !self.spec.takes(&held) => Err(self.lack(self.asked_for(&slot))),
            renewed => renewed,
        }
    }

    async fn refresh(&self, was: &Held) -> Result<Held, Failed> {
        let Some(refresh) = &was.refresh else { return Err(Failed::Dead) };
        let mut form = vec![("grant_type", "refresh_token"), ("refresh_token", refresh.expose())];
        form.extend(was.resource.as_deref().map(|resource| ("resource", resource)));
        let client = self.spec.current(&was.client);
        let named = self.spec.named(&was.endpoint);
        let given =
            token::ask(&self.shared.egress, named, &was.endpoint, &client, &was.issuer, &form).await?;
        Ok(was.renewed(given))
    }
}

impl Bearing for Account {
    fn token(self: Arc<Self>) -> BoxFuture<'static, Result<Option<Token>, Lack>> {
        async move {
            let slot = self.slot();
            let held = self.held(&slot).await?;
            let mark = held.as_ref().map(|held| held.mark);
            if let Some(wanted) = self.shared.wanted.get(&slot.key).filter(|wanted| wanted.refused == mark) {
                // It need not be told again that another is needed.
                return Err(self.lack(wanted.link));
            }
            match held {
                Some(held) if held.is_fresh() => Ok(held.token()),
                Some(held) if held.refresh.is_some() => {
                    self.renewed(slot, None).await.map(|held| held.token())
                }
                Some(held) if held.is_alive() => Ok(held.token()),
                Some(held) => Err(self.to_connect(&slot, Some(held.mark), Link::to(&self.spec.upstream))),
                None => Ok(None),
            }
        }
        .boxed()
    }

    fn refused(self: Arc<Self>, refusal: Refusal) -> BoxFuture<'static, Result<Token, Lack>> {
        async move {
            let slot = self.slot();
            let challenge = Challenge::read(&refusal.challenges);
            let Some(used) = refusal.used else {
                return Err(self.to_connect(&slot, None, self.wanted(&challenge, &[])));
            };
            let held = self.held(&slot).await?;
            let Some(held) = held else {
                return Err(self.to_connect(&slot, None, self.wanted(&challenge, &[])));
            };
            if held.mark != used.mark && !refusal.again {
                return held.token().ok_or(Lack::Bad);
            }
            if refusal.status == 403 {
                let known = |scope| held.scopes.contains(scope);
                return match challenge.scopes.as_ref().is_none_or(|scopes| scopes.iter().all(known)) {
                    true => Err(Lack::Insufficient),
                    false => Err(self.lack(self.wanted(&challenge, &held.scopes))),
                };
            }
            let again = self.wanted(&challenge, &held.scopes);
            if refusal.again || held.refresh.is_none() {
                return Err(self.to_connect(&slot, Some(held.mark), again));
            }
            // Where it is renewed no more, this is what is asked for.
            self.shared.wanted.insert(slot.key.clone(), Wanted { link: again, refused: None });
            self.renewed(slot, Some(used.mark)).await?.token().ok_or(Lack::Bad)
        }
        .boxed()
    }

    fn link(&self) -> Option<Arc<str>> {
        self.shared.link(&self.principal, &self.asked_for(&self.slot()))
    }
}

impl Renewal for Account {
    fn renew(&self, was: Option<Arc<Held>>) -> BoxFuture<'static, Result<Held, Fruitless>> {
        let account = self.clone();
        async move {
            let connect = || Fruitless { lack: account.lack(Link::to(&account.spec.upstream)), void: true };
            // It was disconnected meanwhile.
            let Some(was) = was else { return Err(connect()) };
            if !account.spec.takes(&was) {
                return Err(Fruitless { void: false, ..connect() });
            }
            let upstream = &account.spec.upstream;
            match account.refresh(&was).await {
                Ok(held) => Ok(held),
                Err(Failed::Dead) => {
                    tracing::info!(%upstream, "a connected account was revoked there");
                    Err(connect())
                }
                Err(Failed::Refused(why)) if account.spec.client.is_none() => {
                    tracing::info!(%upstream, why, "the client that an account was connected by is not known any more");
                    if let Some(base) = &account.shared.base {
                        account.shared.unregister(&was.issuer, base).await;
                    }
                    Err(connect())
                }
                Err(failed) => {
                    tracing::warn!(%upstream, why = %failed, "a caller's token was not renewed");
                    Err(Fruitless { lack: lack(failed), void: false })
                }
            }
        }
        .boxed()
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Account({})", self.spec.upstream)
    }
}
