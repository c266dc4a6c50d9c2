//! A call from its caller to the upstream and back.

use super::begin::Job;
use super::{Arc, Call, Inner, Method, Reply, answer, connect, seen};
use crate::mcp::Place;
use crate::mcp::Reason;
use crate::telemetry::Watch;
use crate::telemetry::traces::Onward;
use tracing::Instrument;

impl Inner {
    pub(super) async fn call(self: Arc<Self>, call: Call) -> Reply {
        match call.method {
            Method::Listen => self.listen(call),
            Method::Ping | Method::SetLevel | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                Box::pin(self.keep_and_pass(call)).await
            }
            Method::ToolsCall if self.is_personal() && connect::is_asked_for(&call) => {
                Box::pin(self.connect(call)).await
            }
            _ => self.pass(call).await,
        }
    }

    pub(super) async fn pass(self: &Arc<Self>, mut call: Call) -> Reply {
        if let Some(limit) = self.config.call_timeout {
            call.deadline = call.deadline.min(crate::clock::lately() + limit);
        }
        let Some(place) = self.health.enter(&call.caller.principal().tenant, call.deadline).await else {
            return Reply::fault(Reason::Busy { upstream: self.id().clone() });
        };
        let cancel = call.cancel.clone();
        let watch = call.watch.take();
        if let Some(onward) = watch.as_ref().and_then(|watch| self.notice(watch, &mut call)) {
            return Box::pin(self.pass_traced(call, place, watch, onward)).await;
        }
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

    /// As the rest of [`Inner::pass`], within a span.
    async fn pass_traced(
        self: &Arc<Self>,
        call: Call,
        place: Place,
        watch: Option<Arc<Watch>>,
        onward: Onward,
    ) -> Reply {
        let (cancel, method) = (call.cancel.clone(), call.method.clone());
        let job = Job { sent: Some(onward.sent().clone()), ..Job::of(call) };
        let begun = tokio::select! {
            begun = self.begin(&job).instrument(onward.span().clone()) => begun,
            () = cancel.cancelled() => Err(Reason::Cancelled.into()),
        };
        let reply = match begun {
            Ok(begun) => answer::reply(self, &job, begun, cancel, Some(place)),
            Err(fault) => Reply::fault(fault),
        };
        match watch {
            Some(watch) => seen::watched(watch, method, reply),
            None => reply,
        }
    }
}
