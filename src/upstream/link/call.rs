//! A call from its caller to the upstream and back.

use super::begin::Job;
use super::{Arc, Call, Inner, Method, Reply, answer, connect, seen};
use crate::mcp::Reason;
use crate::mcp::{Cancel, Place};
use crate::telemetry::Watch;
use crate::telemetry::traces::Onward;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use std::pin::pin;
use tracing::Instrument;

impl Inner {
    pub(super) fn call(self: Arc<Self>, call: Call) -> BoxFuture<'static, Reply> {
        match call.method {
            Method::Listen => async move { self.listen(call) }.boxed(),
            Method::Ping | Method::SetLevel | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                self.keep_and_pass(call).boxed()
            }
            Method::ToolsCall if self.is_personal() && connect::is_asked_for(&call) => {
                async move { self.connect(call).await }.boxed()
            }
            _ => self.pass(call).boxed(),
        }
    }

    /// A block, for a function would hold what it is given twice.
    pub(super) fn pass(self: Arc<Self>, mut call: Call) -> impl Future<Output = Reply> {
        if let Some(limit) = self.config.call_timeout {
            call.deadline = call.deadline.min(crate::clock::lately() + limit);
        }
        let (cancel, watch) = (std::mem::take(&mut call.cancel), call.watch.take());
        let mut job = Job::of(call);
        async move {
            let tenant = &job.caller.principal().tenant;
            let place = match self.health.enter_now(tenant) {
                Some(place) => Some(place),
                None => Box::pin(self.health.enter(tenant, job.deadline)).await,
            };
            let Some(place) = place else {
                return Reply::fault(Reason::Busy { upstream: self.id().clone() });
            };
            if let Some(onward) = watch.as_ref().and_then(|watch| self.notice(watch, &mut job)) {
                return Box::pin(self.pass_traced(job, cancel, place, watch, onward)).await;
            }
            match cancel.unless(pin!(self.begin(&job))).await {
                Some(Ok(begun)) => answer::reply(&self, &job, begun, cancel, Some(place)),
                Some(Err(fault)) => Reply::fault(fault),
                None => Reply::fault(Reason::Cancelled),
            }
        }
    }

    /// As the rest of [`Inner::pass`], within a span.
    async fn pass_traced(
        self: &Arc<Self>,
        job: Job,
        cancel: Cancel,
        place: Place,
        watch: Option<Arc<Watch>>,
        onward: Onward,
    ) -> Reply {
        let method = job.method.clone();
        let job = Job { sent: Some(onward.sent().clone()), ..job };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_future_of_a_call_fits_a_block_that_is_quickly_had() {
        fn size<F>(_: impl Fn(Arc<Inner>, Call) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(Inner::pass) <= 1024, "{}", size(Inner::pass));
    }
}
