//! Stands before one upstream in one profile, and lets pass what policy allows. It sees the upstream's own names: whatever a
//! client calls a thing, it is judged by what it is. Where nothing is said of the upstream, there is no guard.

use super::approval::{Approvals, Asked, Next, ask_first};
use super::arguments::one_meaning;
use super::parts::Seen;
use super::pins::{Changed, Pins};
use super::rules::Rule;
use super::view::{Said, Standing, View};
use super::webhook::{Question, Webhook};
use crate::config::{Pin, Verdict};
use crate::mcp::{
    About, Access, Age, Backend, CONNECT_TOOL, Call, Caller, Fault, Kind, Listing, Note, Reason, Reply,
    Ruling, Session, Track, UpstreamId,
};
use crate::telemetry::metrics;
use crate::wire::params::Params;
use crate::wire::{Method, Span, json};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use moka::sync::Cache;
use std::sync::Arc;
use std::time::Duration;

/// Callers and views that are remembered, and for how long without use.
const REMEMBERED: u64 = 10_000;
const VIEWS: u64 = 512;
const IDLE: Duration = Duration::from_secs(600);
/// How long a caller's unknown names do not make us list anew.
const PATIENCE: Duration = Duration::from_secs(1);

/// One upstream in one profile, behind what is said of it.
pub(super) struct Guard {
    backend: Arc<dyn Backend>,
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) upstream: UpstreamId,
    pub(super) said: Said,
    pub(super) pins: Option<Pins>,
    pub(super) approvals: Arc<Approvals>,
    pub(super) webhook: Option<Arc<Webhook>>,
    standings: Cache<Arc<Access>, Arc<Standing>>,
    views: Cache<(Arc<Standing>, usize, usize), Arc<View>>,
    /// Callers for whom the tools were listed anew a moment ago.
    asked: Cache<Arc<str>, ()>,
}

impl Guard {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        said: Said,
        pins: Option<Pins>,
        approvals: Arc<Approvals>,
        webhook: Option<Arc<Webhook>>,
    ) -> Guard {
        let inner = Inner {
            upstream: backend.id().clone(),
            said,
            pins,
            approvals,
            webhook,
            standings: Cache::builder().max_capacity(REMEMBERED).time_to_idle(IDLE).build(),
            views: Cache::builder().max_capacity(VIEWS).time_to_idle(IDLE).build(),
            asked: Cache::builder().max_capacity(REMEMBERED).time_to_live(PATIENCE).build(),
        };
        Guard { backend, inner: Arc::new(inner) }
    }
}

impl Inner {
    /// Whether the list of this kind may be another than the upstream's.
    fn concerns(&self, kind: Kind) -> bool {
        kind == Kind::Tool || self.said.parts.concern(kind)
    }

    fn standing(&self, access: &Arc<Access>) -> Arc<Standing> {
        if let Some(known) = self.standings.get(access) {
            return known;
        }
        let standing = Arc::new(self.said.standing(access));
        self.standings.insert(access.clone(), standing.clone());
        standing
    }

    fn view(&self, access: &Arc<Access>, of: &Arc<Listing>, changed: &Changed) -> Arc<View> {
        // What is refused is held by the judgement of this list; an empty one is like any other empty one.
        let judged = if changed.is_empty() { 0 } else { Arc::as_ptr(changed) as usize };
        let key = (self.standing(access), Arc::as_ptr(of) as usize, judged);
        if let Some(known) = self.views.get(&key) {
            return known;
        }
        let view = Arc::new(self.said.view(of, &key.0, changed));
        self.views.insert(key, view.clone());
        view
    }

    /// The tools of a list that are refused for their definitions, where it is known.
    fn refused(&self, of: &Arc<Listing>) -> Option<Changed> {
        let Some(pins) = self.pins.as_ref().filter(|_| of.kind == Kind::Tool) else {
            return Some(Arc::default());
        };
        let changed = pins.known(of)?;
        Some(if pins.mode == Pin::Refuse { changed } else { Arc::default() })
    }

    /// As [`Inner::refused`], found out now.
    async fn judged(&self, of: &Arc<Listing>) -> Result<Changed, Reason> {
        let Some(pins) = self.pins.as_ref().filter(|_| of.kind == Kind::Tool) else {
            return Ok(Arc::default());
        };
        let changed = pins.judge(of).await.map_err(|_| Reason::StoreAway)?;
        Ok(if pins.mode == Pin::Refuse { changed } else { Arc::default() })
    }

    /// What is known of the tools for a caller, without asking anyone.
    fn known(&self, backend: &dyn Backend, caller: &Caller) -> Option<Arc<View>> {
        let of = backend.known(caller, Kind::Tool)?;
        Some(self.view(&caller.access, &of, &self.refused(&of)?))
    }

    async fn listed(
        &self,
        backend: &dyn Backend,
        caller: &Arc<Caller>,
        age: Age,
    ) -> Result<Arc<View>, Fault> {
        let of = backend.list(caller.clone(), Kind::Tool, age).await?;
        let refused = self.judged(&of).await?;
        Ok(self.view(&caller.access, &of, &refused))
    }

    /// The view in which a tool is, or in which there is nothing but where the caller connects their account. A tool that is not listed is not called: nothing is known of it that policy could go by.
    async fn find(
        &self,
        backend: &dyn Backend,
        caller: &Arc<Caller>,
        tool: &str,
    ) -> Result<Option<Arc<View>>, Fault> {
        if let Some(view) =
            self.known(backend, caller).filter(|view| view.tool(tool).is_some_and(|tool| !tool.changed))
        {
            return Ok(Some(view));
        }
        let view = self.listed(backend, caller, Age::Known).await?;
        if view.tool(tool).is_some() {
            return Ok(Some(view));
        }
        // Who has to connect an account costs the upstream nothing, and may have done it by now.
        if view.tool(CONNECT_TOOL).is_none() {
            let key = caller.session.key().clone();
            if self.asked.contains_key(&key) {
                return Ok(None);
            }
            self.asked.insert(key, ());
        }
        let view = self.listed(backend, caller, Age::Fresh).await?;
        let leads_on = view.tool(tool).is_some() || view.tool(CONNECT_TOOL).is_some();
        Ok(leads_on.then_some(view))
    }

    async fn tool(self: Arc<Self>, backend: Arc<dyn Backend>, mut call: Call) -> Reply {
        let names =
            (call.params.name().map(|name| name.into_owned()), call.params.written(&call.params.name));
        let (Some(seen), Some(own)) = names else {
            return Reply::fault(Reason::InvalidParams("name must be a string".into()));
        };
        // The link's own: no rule and no pin speaks of it, only whether the caller may see it.
        if own == CONNECT_TOOL && self.said.connects {
            return self.connect(&*backend, call, seen).await;
        }
        let view = match self.find(&*backend, &call.caller, &own).await {
            Ok(view) => view,
            Err(fault) => return Reply::fault(fault),
        };
        let Some(view) = view else { return Reply::fault(Reason::UnknownTool(seen)) };
        let Some(tool) = view.tool(&own) else {
            // By that name, for the account may be connected by now: nothing else is let through unjudged.
            if let Some(span) =
                call.params.name.clone().filter(|_| self.said.connects && view.tool(CONNECT_TOOL).is_some())
            {
                call.params.set(&span, CONNECT_TOOL);
                return self.connect(&*backend, call, seen).await;
            }
            return Reply::fault(Reason::UnknownTool(seen));
        };
        if let Some(scopes) = &tool.lacks {
            count("scope");
            return Reply::fault(Reason::MissingScope(scopes.clone()));
        }
        if tool.changed {
            count("changed");
            return Reply::fault(Reason::ToolChanged { upstream: self.upstream.clone() });
        }
        if let Some(over) = &tool.over {
            match over.apply(&call.params) {
                Ok(params) => call.params = params,
                Err(reason) => return Reply::fault(reason),
            }
        }
        let arguments = written_arguments(&call.params);
        let (mut verdict, rule) = match self.said.rules.judge(&tool.decided, arguments.as_deref()) {
            Ok(judged) => judged,
            Err(ambiguous) => return Reply::fault(Reason::InvalidParams(ambiguous.to_string().into())),
        };
        let mut ruling = ruled(verdict, rule);
        if verdict == Verdict::Ask {
            let Some(webhook) = &self.webhook else {
                return Reply::fault(Reason::Refused(Box::new(ruling)));
            };
            if webhook.wants_arguments() && arguments.as_deref().is_some_and(|text| !one_meaning(text)) {
                let why = "arguments: a key is given twice, or a number or a string is out of range";
                return Reply::fault(Reason::InvalidParams(why.into()));
            }
            let rule = rule.map(|rule| &*rule.name);
            let (caller, upstream, hints) = (&call.caller, &self.upstream, tool.hints);
            let question = Question { caller, upstream, tool: &own, hints, arguments, rule };
            (verdict, ruling) = webhook.ask(question).await;
        }
        let asked = Asked { upstream: &self.upstream, tool: &own, seen: &seen, ruling: &ruling };
        match verdict {
            Verdict::Allow => {
                count("allow");
                self.approvals.settle(&mut call, &asked);
                let _held = view;
                backend.call(call).await
            }
            Verdict::Deny | Verdict::Ask => {
                count("deny");
                Reply::fault(Reason::Refused(Box::new(ruling)))
            }
            Verdict::Approve => {
                count("approve");
                match self.approvals.next(&call, &asked).await {
                    Next::Go(call, granted) => granted.reply(backend.call(*call).await),
                    Next::Answer(reply) => reply,
                    Next::After(ask, answered) => {
                        let life = self.approvals.life;
                        ask_first(call, life, ask, answered, ruling, move |call| async move {
                            backend.call(call).await
                        })
                    }
                }
            }
        }
    }

    /// A call of the tool that says where to connect.
    async fn connect(&self, backend: &dyn Backend, call: Call, seen: String) -> Reply {
        match self.kept_from(&call.caller, Kind::Tool, CONNECT_TOOL, || Reason::UnknownTool(seen)) {
            Some(reason) => Reply::fault(reason),
            None => backend.call(call).await,
        }
    }

    /// Why a thing that is named is not for this caller; `unknown` where it is as if it did not exist.
    fn kept_from(
        &self,
        caller: &Caller,
        kind: Kind,
        own: &str,
        unknown: impl FnOnce() -> Reason,
    ) -> Option<Reason> {
        if !self.said.parts.concern(kind) {
            return None;
        }
        match self.said.parts.see(kind, own, &self.standing(&caller.access).parts) {
            Seen::Here => None,
            Seen::Lacks(scopes) => {
                count("scope");
                Some(Reason::MissingScope(scopes))
            }
            Seen::Hidden => Some(unknown()),
        }
    }

    /// Whether a request that names a prompt or a resource is for this caller.
    fn admit(&self, call: &Call) -> Result<(), Reason> {
        let params = &call.params;
        let seen =
            |span: &Option<Span>| params.string(span).map(|seen| seen.into_owned()).unwrap_or_default();
        let kept = match call.method {
            Method::PromptsGet => params.written(&params.name).and_then(|own| {
                self.kept_from(&call.caller, Kind::Prompt, &own, || Reason::UnknownPrompt(seen(&params.name)))
            }),
            Method::ResourcesRead | Method::ResourcesSubscribe => {
                params.written(&params.uri).and_then(|own| {
                    self.kept_from(&call.caller, Kind::Resource, &own, || {
                        Reason::UnknownResource(seen(&params.uri))
                    })
                })
            }
            Method::Complete => self.kept_reference(call),
            _ => None,
        };
        kept.map_or(Ok(()), Err)
    }

    /// As [`Inner::kept_from`], of what a completion speaks of. Its `type` says what that is, and nothing else may say another.
    fn kept_reference(&self, call: &Call) -> Option<Reason> {
        if !self.said.parts.concern(Kind::Prompt) && !self.said.parts.concern(Kind::Template) {
            return None;
        }
        let at = call.params.reference.as_ref()?;
        let text = call.params.raw.text();
        let members = json::lax_members(text, at.start).unwrap_or_default();
        let field = |key: &str| members.iter().find(|m| m.is(key)).map(|m| m.value.clone());
        let own = |key: &str| call.params.written(&field(key));
        let seen =
            |key: &str| call.params.string(&field(key)).map(|seen| seen.into_owned()).unwrap_or_default();
        match (own("type").as_deref(), own("name"), own("uri")) {
            (Some("ref/prompt"), Some(name), None) if field("uri").is_none() => {
                self.kept_from(&call.caller, Kind::Prompt, &name, || Reason::UnknownPrompt(seen("name")))
            }
            (Some("ref/resource"), None, Some(uri)) if field("name").is_none() => {
                self.kept_from(&call.caller, Kind::Template, &uri, || Reason::UnknownResource(seen("uri")))
            }
            _ => Some(Reason::InvalidParams("ref must name a prompt or a resource template".into())),
        }
    }

    /// A standing call without the URIs that are not for this caller.
    fn listening(&self, mut call: Call) -> Call {
        let Some(filter) = call.params.filter.clone().filter(|_| self.said.parts.concern(Kind::Resource))
        else {
            return call;
        };
        let text = call.params.raw.written(&filter);
        let uris = json::lax_members(&text, 0)
            .ok()
            .and_then(|members| members.into_iter().find(|m| m.is("resourceSubscriptions")).map(|m| m.value));
        let Some(uris) = uris else { return call };
        let Some(all) = json::elements(&text, uris.start) else { return call };
        let standing = self.standing(&call.caller.access);
        let here = |uri: &&Span| {
            let own = json::string(&text, uri);
            own.is_some_and(|own| self.said.parts.see(Kind::Resource, &own, &standing.parts) == Seen::Here)
        };
        let left: Vec<&[u8]> =
            all.iter().filter(here).map(|uri| &text[uri.start as usize..uri.end as usize]).collect();
        if left.len() < all.len() {
            let mut now = text[..uris.start as usize].to_vec();
            now.push(b'[');
            now.extend_from_slice(&left.join(&b','));
            now.push(b']');
            now.extend_from_slice(&text[uris.end as usize..]);
            call.params.raw.edit(filter, now);
        }
        call
    }
}

/// The arguments as they go upstream.
fn written_arguments(params: &Params) -> Option<Bytes> {
    params.arguments.as_ref().map(|span| params.raw.written(span))
}

fn count(decision: &str) {
    metrics().policy_decisions.with_label_values(&[decision]).inc();
}

fn ruled(verdict: Verdict, rule: Option<&Rule>) -> Ruling {
    let unsaid = match verdict {
        Verdict::Approve => "the operator wants such calls to be approved by the user",
        _ => "the operator does not allow such calls",
    };
    Ruling {
        by: rule.map_or_else(|| "default".into(), |rule| rule.name.clone()),
        why: rule.and_then(|rule| rule.because.clone()).unwrap_or_else(|| unsaid.to_owned()),
        instead: rule.and_then(|rule| rule.instead.clone()),
    }
}

impl Backend for Guard {
    fn id(&self) -> &UpstreamId {
        self.backend.id()
    }

    fn about(&self, caller: Arc<Caller>) -> BoxFuture<'static, Result<Arc<About>, Fault>> {
        self.backend.about(caller)
    }

    fn list(
        &self,
        caller: Arc<Caller>,
        kind: Kind,
        age: Age,
    ) -> BoxFuture<'static, Result<Arc<Listing>, Fault>> {
        let listing = self.backend.list(caller.clone(), kind, age);
        if !self.inner.concerns(kind) {
            return listing;
        }
        let inner = self.inner.clone();
        async move {
            let of = listing.await?;
            let refused = inner.judged(&of).await?;
            Ok(inner.view(&caller.access, &of, &refused).shown.clone())
        }
        .boxed()
    }

    fn known(&self, caller: &Caller, kind: Kind) -> Option<Arc<Listing>> {
        let of = self.backend.known(caller, kind)?;
        if !self.inner.concerns(kind) {
            return Some(of);
        }
        let refused = self.inner.refused(&of)?;
        Some(self.inner.view(&caller.access, &of, &refused).shown.clone())
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        match call.method {
            Method::ToolsCall => {
                let known = self.inner.known(&*self.backend, &call.caller).filter(|_| call.resume.is_none());
                let own = call.params.written(&call.params.name);
                let free =
                    known.zip(own).is_some_and(|(view, own)| view.tool(&own).is_some_and(|tool| tool.free));
                match free {
                    true => self.backend.call(call),
                    false => self.inner.clone().tool(self.backend.clone(), call).boxed(),
                }
            }
            Method::Listen => self.backend.call(self.inner.listening(call)),
            _ => match self.inner.admit(&call) {
                Ok(()) => self.backend.call(call),
                Err(reason) => ready(Reply::fault(reason)).boxed(),
            },
        }
    }

    fn take_over(&self, call: Call, track: Track) -> BoxFuture<'static, Reply> {
        self.backend.take_over(call, track)
    }

    fn tell(&self, caller: Arc<Caller>, note: Note) -> BoxFuture<'static, Result<(), Fault>> {
        self.backend.tell(caller, note)
    }

    fn end(&self, session: Arc<dyn Session>) -> BoxFuture<'static, ()> {
        self.backend.end(session)
    }
}
