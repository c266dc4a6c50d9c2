//! A call from its caller to the upstream and back.

use super::begin::Job;
use super::{Arc, Call, Inner, Method, Reply, answer};
use crate::mcp::Reason;
use tokio::time::Instant;

impl Inner {
    pub(super) async fn call(self: Arc<Self>, call: Call) -> Reply {
        match call.method {
            Method::Listen => self.listen(call),
            Method::Ping | Method::SetLevel | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                Box::pin(self.keep_and_pass(call)).await
            }
            _ => self.pass(call).await,
        }
    }

    pub(super) async fn pass(self: &Arc<Self>, mut call: Call) -> Reply {
        if let Some(limit) = self.config.call_timeout {
            call.deadline = call.deadline.min(Instant::now() + limit);
        }
        let Some(place) = self.health.enter(call.deadline).await else {
            return Reply::fault(Reason::Busy { upstream: self.id().clone() });
        };
        let cancel = call.cancel.clone();
        let job = Job::of(call);
        let begun = tokio::select! {
            begun = self.begin(&job) => begun,
            () = cancel.cancelled() => return Reply::fault(Reason::Cancelled),
        };
        match begun {
            Ok(begun) => answer::reply(self, &job, begun, cancel, Some(place)),
            Err(fault) => Reply::fault(fault),
        }
    }
}
