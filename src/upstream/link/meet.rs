//! What is spoken with an upstream, for whoever wants to know; and its end, for whoever waits for it.

use super::{Caller, Fault, Link, Version};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::sync::Arc;

/// What was agreed with an upstream for one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// The version of this hop.
    pub version: Version,
    /// The transport's name in the specification.
    pub transport: &'static str,
}

impl Link {
    /// Opens what a call of this caller would need: the era is probed, a session or a channel begun. Errors: why no
    /// call can be made.
    pub fn meet(&self, caller: Arc<Caller>) -> BoxFuture<'static, Result<Met, Fault>> {
        let link = self.inner.clone();
        async move {
            let hop = link.hop(&caller).await.map_err(|trouble| link.failed(trouble, true))?;
            let transport = match (&hop.channel, link.reach.channels_era) {
                (None, _) => "Streamable HTTP",
                (Some(_), Some(_)) => "HTTP+SSE",
                (Some(_), None) => "stdio",
            };
            Ok(Met { version: hop.version, transport })
        }
        .boxed()
    }

    /// Resolves at a moment in which no call is in flight.
    pub fn idle(&self) -> BoxFuture<'static, ()> {
        let link = self.inner.clone();
        async move { link.health.empty().await }.boxed()
    }

    /// Ends what this link holds open for itself: its standing calls, the session that serves all callers, the channels
    /// and the processes behind them. Resolves when that is done. The callers' own sessions go on on other pods.
    pub fn hang_up(&self) -> BoxFuture<'static, ()> {
        let link = self.inner.clone();
        async move {
            link.over.cancel();
            link.end_shared().await;
            if let Some(channels) = &link.reach.channels {
                channels.hang_up().await;
            }
        }
        .boxed()
    }
}
