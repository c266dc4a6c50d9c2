//! Calls that change their pod: what is noted of a call on its way upstream, and how another pod goes on with its stream
//! from there. A call is never made a second time for it.

use super::begin::{Begun, Job};
use super::hop::Hop;
use super::{Arc, Call, Inner, Reply, answer};
use crate::mcp::{Reason, Track};
use crate::upstream::transport::{Outgoing, Route, UpstreamSessionId};
use crate::wire::{Era, Id, Raw};
use bytes::Bytes;
use tokio::time::Instant;

impl Inner {
    /// Notes the request `id` that is about to be sent for a job. Over a shared channel nobody else can go on with it, but
    /// to know that it was begun is worth something too.
    pub(super) fn note(&self, job: &Job, hop: &Hop, id: &Id) {
        let Some(trail) = &job.trail else { return };
        trail.sent(Track {
            upstream: self.id().clone(),
            request: id.clone(),
            session: hop.session.as_ref().map(|session| session.0.clone()),
            version: hop.version,
            uri: None,
            at: None,
        });
    }

    /// The rest of the answer that `track` is of. It goes in the very session that the request was sent in: if the upstream
    /// does not know that any more, it knows nothing of the call.
    pub(super) async fn take_over(self: Arc<Self>, mut call: Call, track: Track) -> Reply {
        let lost = Reply::fault(Reason::lost(&call.method, self.id().clone()));
        let version = track.version;
        let (Some(http), Era::Legacy, Some(at)) = (self.reach.http.clone(), version.era(), track.at.clone())
        else {
            return lost;
        };
        if let Some(limit) = self.config.call_timeout {
            call.deadline = call.deadline.min(Instant::now() + limit);
        }
        let Some(place) = self.health.enter(&call.caller.principal().tenant, call.deadline).await else {
            return Reply::fault(Reason::Busy { upstream: self.id().clone() });
        };
        let hop = Hop {
            transport: http.clone(),
            version,
            session: track.session.clone().map(UpstreamSessionId),
            opened: None,
            channel: None,
        };
        let (cancel, id) = (call.cancel.clone(), track.request.clone());
        let job = Job::of(call);
        if let Some(trail) = &job.trail {
            trail.sent(track);
        }
        let progress = job.progress.as_ref().map(|_| id.to_bytes());
        let route: Route = self.route(&job.caller, &hop, Vec::new());
        let request = Outgoing {
            id,
            method: job.method.clone(),
            params: Raw::trusted("{}"),
            name: None,
            progress: None,
            trail: job.trail.clone(),
            deadline: job.deadline,
        };
        let after = Bytes::copy_from_slice(at.as_bytes());
        let answered = tokio::select! {
            answered = http.resume(route, request, after) => answered,
            () = cancel.cancelled() => return Reply::fault(Reason::Cancelled),
        };
        match answered {
            Ok(answered) => {
                self.is_well();
                tracing::info!(upstream = %self.id(), "going on with a call that another pod began");
                answer::reply(&self, &job, Begun { answered, hop, progress }, cancel, Some(place))
            }
            Err(error) => {
                tracing::warn!(upstream = %self.id(), %error, "a call that another pod began cannot be gone on with");
                lost
            }
        }
    }
}
