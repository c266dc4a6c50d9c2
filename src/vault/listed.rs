//! Connected accounts as their owner's page lists and ends them.

use super::Vault;
use crate::auth::account::{Accounts, Connected, day};
use crate::mcp::{Principal, StoreAway};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;

impl Accounts for Vault {
    fn list(&self, of: Arc<Principal>) -> BoxFuture<'static, Result<Vec<Connected>, StoreAway>> {
        let vault = self.clone();
        async move {
            let accounts = vault.connected(&of).await?.into_iter();
            let listed = accounts.map(|account| {
                let upstream = account.upstream.to_string();
                let detail = format!("at {}, since {}", account.at, day(account.since));
                Connected { id: upstream.clone(), label: upstream, detail }
            });
            Ok(listed.collect())
        }
        .boxed()
    }

    fn disconnect(&self, of: Arc<Principal>, id: String) -> BoxFuture<'static, Result<(), StoreAway>> {
        let vault = self.clone();
        async move { Vault::disconnect(&vault, &of, &id).await.map(drop) }.boxed()
    }
}
