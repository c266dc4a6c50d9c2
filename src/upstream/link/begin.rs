//! Sends a request and sends it again where that is safe: to a new session, to another era, after a broken connection.

use super::hop::Hop;
use super::lists::Key;
use super::speak::Spoken;
use super::trouble::{Trouble, code_of};
use super::{Age, Arc, Caller, Fault, Inner, Kind, Method, Outcome, answer, dress, health, hello, seen};
use crate::mcp::{Call, Reason, Resume, Trail};
use crate::telemetry::metrics;
use crate::telemetry::traces::Sent;
use crate::upstream::credentials::Lack;
use crate::upstream::transport::{self, Answer, Answered, TransportError};
use crate::wire::params::Params;
use crate::wire::{Era, Message, Raw, code, headers, param_headers};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// How often a request that may be repeated is sent again after a failure of the way.
const AGAIN: u32 = 2;
const PAUSE: Duration = Duration::from_millis(100);

/// A request on its way upstream, kept until it is answered.
pub(super) struct Job {
    pub(super) caller: Arc<Caller>,
    pub(super) method: Method,
    pub(super) params: Params,
    /// What [`Outgoing::name`](crate::upstream::transport::Outgoing::name) is.
    pub(super) name: Option<Arc<str>>,
    /// The caller's progress token.
    pub(super) progress: Option<Bytes>,
    pub(super) resume: Option<Arc<Resume>>,
    /// Where its way is noted, where another pod may go on with it.
    pub(super) trail: Option<Arc<Trail>>,
    pub(super) deadline: Instant,
    /// The link asks for itself: a list, a discovery.
    pub(super) own: bool,
    /// The trace context that goes along, where the call is traced.
    pub(super) sent: Option<Arc<Sent>>,
}

/// A request that is being answered.
pub(super) struct Begun {
    pub(super) answered: Answered,
    pub(super) hop: Hop,
    /// The progress token that it bears, ours, where the caller wants to know.
    pub(super) progress: Option<Bytes>,
}

type ParamHeaders = Vec<(HeaderName, HeaderValue)>;
type Came = Result<Answered, TransportError>;

/// What was already tried for one request, so that nothing is tried without end.
#[derive(Default)]
struct Tried {
    renewed: bool,
    reprobed: bool,
    relisted: bool,
    again: u32,
}

impl Job {
    pub(super) fn of(call: Call) -> Job {
        let Call { caller, method, params, progress, resume, trail, deadline, .. } = call;
        let name = dress::name(&method, &params);
        Job { caller, method, params, name, progress, resume, trail, deadline, own: false, sent: None }
    }

    pub(super) fn own(link: &Inner, caller: &Arc<Caller>, method: Method, params: Option<Raw>) -> Job {
        let params = params.and_then(|raw| Params::read(raw).ok()).unwrap_or_else(Params::none);
        let deadline = Instant::now() + link.config.request_timeout;
        let (caller, name) = (caller.clone(), dress::name(&method, &params));
        Job {
            caller,
            method,
            params,
            name,
            progress: None,
            resume: None,
            trail: None,
            deadline,
            own: true,
            sent: None,
        }
    }
}

impl Inner {
    /// The result of a request of the link's own.
    pub(super) async fn result_of(self: &Arc<Self>, job: &Job) -> Result<Raw, Fault> {
        let begun = self.begin(job).await?;
        match answer::reply(self, job, begun, Default::default(), None).outcome().await {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(fault) => Err(fault),
            Outcome::InputRequired(_) => {
                let why = "it asked for input where none may be asked for".into();
                Err(Reason::Garbage { upstream: self.id().clone(), why }.into())
            }
        }
    }

    /// Sends a request until it is being answered, or cannot be.
    pub(super) async fn begin(self: &Arc<Self>, job: &Job) -> Result<Begun, Fault> {
        let mut tried = Tried::default();
        loop {
            if !self.health.admit() {
                let why = "it failed too often of late; it is asked again soon".into();
                return Err(Reason::Unreachable { upstream: self.id().clone(), why }.into());
            }
            // What every call need not wait for is kept out of the future that every call moves about, and of its timers.
            let hop = match self.known_hop(&job.caller) {
                Some(hop) => Ok(hop),
                None => Box::pin(timeout_at(job.deadline, self.hop(&job.caller)))
                    .await
                    .unwrap_or(Err(Trouble::Way(TransportError::Timeout))),
            };
            let hop = match hop {
                Ok(hop) => hop,
                Err(trouble) => match Box::pin(self.no_hop(job, &mut tried, trouble)).await {
                    Some(fault) => return Err(fault),
                    None => continue,
                },
            };
            // Where these take too long, what is left of the time is the request's own to fail in.
            let headers = match self.known_param_headers(job, &hop) {
                Some(headers) => headers?,
                None => Box::pin(timeout_at(job.deadline, self.param_headers(job, &hop)))
                    .await
                    .unwrap_or_else(|_| Ok(Vec::new()))?,
            };
            let level = match has_level(job, &hop) {
                true => Box::pin(timeout_at(job.deadline, self.level(job, &hop))).await.unwrap_or_default(),
                false => None,
            };
            let (sent, progress) = self.sent(job, &hop, headers, level);
            let came = match self.plainly(sent.await) {
                Ok(answered) => return Ok(Begun { answered, hop, progress }),
                Err(came) => came,
            };
            if let Some(answered) = Box::pin(self.judged(job, &hop, &mut tried, *came)).await? {
                return Ok(Begun { answered, hop, progress });
            }
        }
    }

    /// There is no way. `None`: the request is to be sent again; nothing of it was sent yet.
    async fn no_hop(self: &Arc<Self>, job: &Job, tried: &mut Tried, trouble: Trouble) -> Option<Fault> {
        if let Trouble::Way(error) = &trouble
            && error.surely_not_begun()
            && self.pause(job, tried).await
        {
            return None;
        }
        Some(self.failed(trouble, true))
    }

    /// What is passed on as it came, as nearly all is. Errors: what must be looked at.
    fn plainly(&self, came: Came) -> Result<Answered, Box<Came>> {
        match came {
            Ok(answered) if refused_in(&answered).is_none() => {
                self.is_well();
                self.answered.inc();
                Ok(answered)
            }
            other => Err(Box::new(other)),
        }
    }

    /// What becomes of a request that was refused or failed. `None`: it is to be sent again.
    async fn judged(
        self: &Arc<Self>,
        job: &Job,
        hop: &Hop,
        tried: &mut Tried,
        came: Came,
    ) -> Result<Option<Answered>, Fault> {
        let trouble = match came {
            Ok(answered) => {
                self.is_well();
                self.answered.inc();
                let again = match refused_in(&answered) {
                    Some(error) => self.may_differ(job, hop, tried, error).await,
                    None => false,
                };
                return Ok((!again).then_some(answered));
            }
            Err(error) => Trouble::Way(error),
        };
        match self.another_try(job, hop, tried, &trouble).await {
            true => Ok(None),
            false => Err(self.failed(trouble, job.method.is_safe())),
        }
    }

    /// The request on its way, and its progress token: in a function of its own, for what is given away here would have room
    /// in the future that every call moves about.
    fn sent(
        &self,
        job: &Job,
        hop: &Hop,
        headers: ParamHeaders,
        level: Option<String>,
    ) -> (transport::Sent<Answered>, Option<Bytes>) {
        let outgoing = self.dress(job, hop.is_modern(), level.as_deref());
        let mut route = self.route(&job.caller, hop, headers);
        if let Some(sent) = &job.sent {
            seen::carry_in_headers(&mut route.headers, sent);
        }
        let progress = outgoing.progress.clone();
        self.note(job, hop, &outgoing.id);
        (hop.transport.request(route, outgoing), progress)
    }

    /// Whether the request is to be sent again after this trouble, everything done that makes it worth while.
    async fn another_try(
        self: &Arc<Self>,
        job: &Job,
        hop: &Hop,
        tried: &mut Tried,
        trouble: &Trouble,
    ) -> bool {
        let Trouble::Way(error) = trouble else { return false };
        if let TransportError::SessionGone = error {
            let Some(used) = hop.opened.as_ref().filter(|_| !std::mem::replace(&mut tried.renewed, true))
            else {
                return false;
            };
            return self.renewed(&job.caller, used).await.is_ok();
        }
        if let TransportError::Refused { error: Some(error), .. } = error
            && self.may_differ(job, hop, tried, error).await
        {
            return true;
        }
        let was = match (&hop.channel, self.spoken.load().as_deref()) {
            (Some(_), _) => Spoken::Channel,
            (None, Some(Spoken::Both)) => Spoken::Both,
            (None, _) => Spoken::Http(hop.version.era()),
        };
        if trouble.speaks_of_another_era(hop.is_modern()) && !std::mem::replace(&mut tried.reprobed, true) {
            return self.speaks_otherwise(&job.caller, was).await;
        }
        let worth = match error {
            TransportError::Unreachable(_) => true,
            TransportError::Broken | TransportError::Refused { status: 502..=504, .. } => {
                job.method.is_safe()
            }
            _ => false,
        };
        worth && self.pause(job, tried).await
    }

    /// Waits before a request is sent again. False where it was sent often enough, or no time is left.
    async fn pause(&self, job: &Job, tried: &mut Tried) -> bool {
        let wait = health::jittered(PAUSE * (tried.again + 1));
        if tried.again == AGAIN || Instant::now() + wait >= job.deadline {
            return false;
        }
        tried.again += 1;
        sleep(wait).await;
        true
    }

    /// A modern upstream that finds our headers wrong knows other annotations than we: lists again, once (2026-07-28
    /// transports, *Custom Headers from Tool Parameters*).
    async fn may_differ(self: &Arc<Self>, job: &Job, hop: &Hop, tried: &mut Tried, error: &Raw) -> bool {
        let mismatch = code_of(error) == Some(code::HEADER_MISMATCH.into());
        if !mismatch || !hop.is_modern() || job.method != Method::ToolsCall || tried.relisted {
            return false;
        }
        tried.relisted = true;
        self.lists.stale(Kind::Tool);
        self.clone().list(job.caller.clone(), Kind::Tool, Age::Fresh).await.is_ok()
    }

    /// `Mcp-Param-*` of a tool call, from the list, which is asked for. Errors as [`Inner::known_param_headers`].
    async fn param_headers(self: &Arc<Self>, job: &Job, hop: &Hop) -> Result<ParamHeaders, Fault> {
        let listed = self.clone().list(job.caller.clone(), Kind::Tool, Age::Known).await;
        if let Err(fault) = listed {
            let why = fault.word();
            tracing::debug!(upstream = %self.id(), why, "a tool is called without knowing its list");
            return Ok(Vec::new());
        }
        self.known_param_headers(job, hop).unwrap_or_else(|| Ok(Vec::new()))
    }

    /// `Mcp-Param-*` of a tool call; `None` where the list of tools is not known. Errors: the tool is one that no client may
    /// call.
    fn known_param_headers(&self, job: &Job, hop: &Hop) -> Option<Result<ParamHeaders, Fault>> {
        if job.method != Method::ToolsCall || !hop.is_modern() || hop.channel.is_some() {
            return Some(Ok(Vec::new()));
        }
        let listing = self.lists.known(&Key::of(&job.caller, Kind::Tool))?;
        if !listing.bears_headers() && listing.left_out.is_empty() {
            return Some(Ok(Vec::new()));
        }
        let Some(name) = job.name.as_deref() else { return Some(Ok(Vec::new())) };
        let Some(item) = listing.find(name) else {
            return Some(match listing.left_out.iter().any(|left_out| **left_out == *name) {
                true => Err(Reason::UnknownTool(name.to_owned()).into()),
                false => Ok(Vec::new()),
            });
        };
        let arguments = job.params.arguments.as_ref().filter(|_| !item.headers.is_empty());
        let Some(arguments) = arguments else { return Some(Ok(Vec::new())) };
        let arguments = Raw::trusted(job.params.raw.written(arguments));
        let value = |header: &param_headers::ParamHeader| {
            let text = param_headers::argument(&arguments, &header.path)?;
            let value = HeaderValue::from_str(&headers::encode(&text)).ok()?;
            Some((header.header.clone(), value))
        };
        Some(Ok(item.headers.iter().filter_map(value).collect()))
    }

    /// The log level that this request is to have at a modern hop; at a legacy hop it is set in the session where a
    /// modern caller asks for another than is set there.
    async fn level(self: &Arc<Self>, job: &Job, hop: &Hop) -> Option<String> {
        if hop.is_modern() {
            return self.kept(&job.caller).await.ok()?.level;
        }
        let meta = job.params.meta.as_ref()?;
        let wanted = job.params.string(&meta.log_level)?.into_owned();
        self.set_level(&job.caller, hop, &wanted).await;
        None
    }

    /// What the caller is told of a trouble; the upstream's health takes note of it. `safe`: as for [`Trouble`].
    pub(super) fn failed(self: &Arc<Self>, trouble: Trouble, safe: bool) -> Fault {
        if let Trouble::Way(error) = &trouble {
            // A timeout of what is not safe is a slow tool more often than a dead upstream.
            let ill = match error {
                TransportError::Unreachable(_) | TransportError::Refused { status: 502..=504, .. } => true,
                TransportError::Timeout | TransportError::Broken => safe,
                _ => false,
            };
            if let TransportError::Credential(Lack::Connect { .. } | Lack::Insufficient) = error {
                // The caller's to mend, and said to the caller.
                tracing::debug!(upstream = %self.id(), %error, "a caller's account is not connected");
            } else if ill {
                self.is_ill(error);
                // The beginning of an outage was just said; what fails during it is no news.
                tracing::debug!(upstream = %self.id(), %error, "a request to an upstream failed");
            } else {
                tracing::warn!(upstream = %self.id(), %error, "a request to an upstream failed");
            }
        }
        let fault = trouble.into_fault(self.id(), safe);
        metrics().upstream_requests.with_label_values(&[self.id().as_str(), fault.word()]).inc();
        fault
    }

    pub(super) fn declares(&self, hop: &Hop, name: &str, flag: Option<&str>) -> bool {
        let about = match &hop.channel {
            Some(channel) => Some(channel.about.clone()),
            None => self.abouts.hello(),
        };
        about.is_some_and(|about| hello::declares(&about.capabilities, name, flag))
    }
}

/// Whether a request has to do with a log level; see [`Inner::level`].
fn has_level(job: &Job, hop: &Hop) -> bool {
    let modern = job.caller.version.era() == Era::Modern;
    match hop.is_modern() {
        true => !modern && !job.own && job.caller.session.id().is_some(),
        false => modern && job.params.meta.as_ref().is_some_and(|meta| meta.log_level.is_some()),
    }
}

/// The error in an answer that is one.
fn refused_in(answered: &Answered) -> Option<&Raw> {
    match &answered.answer {
        Answer::One(incoming) => match &incoming.message {
            Message::Response(response) => response.outcome.as_ref().err(),
            _ => None,
        },
        Answer::Stream(_) => None,
    }
}
