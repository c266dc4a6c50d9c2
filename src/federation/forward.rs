//! The way of a call to its owner, in a profile of several members, and of the owner's URIs back.

use super::composite::{Inner, check_resume};
use super::{about, splice};
use crate::mcp::{CONNECT_TOOL, Call, Caller, Event, Fault, Kind, Note, Outcome, Reason, Reply, Track};
use crate::wire::{Method, Raw, Span, json};
use futures_util::StreamExt;
use futures_util::future::join_all;
use std::sync::Arc;

/// A URI as the caller wrote it, and as its owner calls it.
struct Asked {
    seen: String,
    own: String,
}

impl Inner {
    pub(super) async fn route(self: Arc<Self>, mut call: Call) -> Reply {
        let routed = match call.method {
            Method::Ping => return Reply::result(Raw::trusted("{}")),
            Method::SetLevel => return self.set_level(call).await,
            Method::ToolsCall => self.to_name(&mut call, Kind::Tool).await.map(|member| (member, None)),
            Method::PromptsGet => self.to_name(&mut call, Kind::Prompt).await.map(|member| (member, None)),
            Method::Complete => self.to_reference(&mut call).await.map(|member| (member, None)),
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
                self.to_uri(&mut call).await.map(|(member, asked)| (member, Some(asked)))
            }
            // Tasks and extensions are one server's own: with several, nobody can say whose they would be.
            _ => Err(Reason::MethodNotFound.into()),
        };
        match routed {
            Ok((member, asked)) => self.forward(member, call, asked).await,
            Err(fault) => Reply::fault(fault),
        }
    }

    async fn forward(self: Arc<Self>, member: usize, call: Call, asked: Option<Asked>) -> Reply {
        let backend = &self.profile.members[member].backend;
        if let Err(reason) = check_resume(&call, backend.id()) {
            return Reply::fault(reason);
        }
        if let (Some(trail), Some(asked)) = (&call.trail, &asked) {
            trail.about(&asked.seen, &asked.own);
        }
        let (method, caller) = (call.method.clone(), call.caller.clone());
        let reply = backend.call(call).await;
        self.back(member, method, caller, asked, reply).await
    }

    /// The rest of a call that another pod sent to the owner, with the names that clients see.
    pub(super) async fn go_on(self: Arc<Self>, member: usize, call: Call, track: Track) -> Reply {
        let (method, caller) = (call.method.clone(), call.caller.clone());
        let asked =
            track.uri.as_ref().map(|(seen, own)| Asked { seen: seen.to_string(), own: own.to_string() });
        let reply = self.profile.members[member].backend.take_over(call, track).await;
        self.back(member, method, caller, asked, reply).await
    }

    async fn back(
        self: Arc<Self>,
        member: usize,
        method: Method,
        caller: Arc<Caller>,
        asked: Option<Asked>,
        reply: Reply,
    ) -> Reply {
        let back = Back { inner: self, member, method, caller, asked };
        match reply {
            Reply::One(outcome) => Reply::One(back.outcome(outcome).await),
            Reply::Stream(events) => {
                let back = Arc::new(back);
                Reply::Stream(events.then(move |event| back.clone().event(event)).boxed())
            }
        }
    }

    async fn to_name(&self, call: &mut Call, kind: Kind) -> Result<usize, Fault> {
        let span = call.params.name.clone().ok_or(Reason::InvalidParams("name is required".into()))?;
        let name =
            call.params.name().ok_or(Reason::InvalidParams("name must be a string".into()))?.into_owned();
        let (member, own) = self.find(&call.caller, kind, &name).await?;
        if *own != *name {
            call.params.set(&span, &own);
        }
        Ok(member)
    }

    /// Whose a tool or prompt is. What is known decides where it can; else the lists are asked for.
    async fn find(&self, caller: &Arc<Caller>, kind: Kind, name: &str) -> Result<(usize, Arc<str>), Fault> {
        let look = || self.names(kind, self.known(caller, kind)).find(name);
        if let Some(found) = look() {
            return Ok(found);
        }
        self.learn(caller, &[kind]).await;
        if let Some(found) = look() {
            return Ok(found);
        }
        if self.learn_anew(caller, &[kind]).await
            && let Some(found) = look()
        {
            return Ok(found);
        }
        // Its owner shows nothing but where the caller connects their account: then that is what a call of it leads to.
        if let Some(member) = self.naming.suspect(name).filter(|_| kind == Kind::Tool)
            && self.profile.members[member]
                .backend
                .known(caller, kind)
                .is_some_and(|l| l.find(CONNECT_TOOL).is_some())
        {
            return Ok((member, CONNECT_TOOL.into()));
        }
        // Not known because its owner is away, or not at all?
        if let Some(fault) = self.naming.suspect(name).and_then(|member| self.away(caller, member, kind)) {
            return Err(fault);
        }
        Err(match kind {
            Kind::Prompt => Reason::UnknownPrompt(name.to_owned()).into(),
            _ => Reason::UnknownTool(name.to_owned()).into(),
        })
    }

    async fn to_uri(&self, call: &mut Call) -> Result<(usize, Asked), Fault> {
        let span = call.params.uri.clone().ok_or(Reason::InvalidParams("uri is required".into()))?;
        let seen =
            call.params.uri().ok_or(Reason::InvalidParams("uri must be a string".into()))?.into_owned();
        let (member, own) = self.owner(&call.caller, &seen).await?;
        if own != seen {
            call.params.set(&span, &own);
        }
        Ok((member, Asked { seen, own }))
    }

    pub(super) async fn owner(&self, caller: &Arc<Caller>, uri: &str) -> Result<(usize, String), Fault> {
        if let Some(member) = self.rules.ours(uri) {
            return Ok((member, uri.to_owned()));
        }
        if let Some(found) = self.learn_uris(caller).await.route(uri) {
            return Ok(found);
        }
        if self.learn_anew(caller, &[Kind::Resource, Kind::Template]).await
            && let Some(found) = self.uris(caller, None).route(uri)
        {
            return Ok(found);
        }
        // A member that never listed may own it: then nobody can say that it does not exist.
        let away =
            (0..self.profile.members.len()).find_map(|member| self.away(caller, member, Kind::Resource));
        Err(away.unwrap_or_else(|| Reason::UnknownResource(uri.to_owned()).into()))
    }

    /// `completion/complete` goes to the owner of the prompt or template that it speaks of.
    async fn to_reference(&self, call: &mut Call) -> Result<usize, Fault> {
        let wrong = || Reason::InvalidParams("ref must name a prompt or a resource template".into());
        let at = call.params.reference.clone().ok_or_else(wrong)?;
        let text = call.params.raw.text().clone();
        let field = |key: &str| -> Option<(Span, String)> {
            let span = splice::member(&text, at.start, key)?;
            let value = json::string(&text, &span)?.into_owned();
            Some((span, value))
        };
        let (_, form) = field("type").ok_or_else(wrong)?;
        let (span, seen, member, own) = match form.as_str() {
            "ref/prompt" => {
                let (span, name) = field("name").ok_or_else(wrong)?;
                let (member, own) = self.find(&call.caller, Kind::Prompt, &name).await?;
                (span, name, member, own.to_string())
            }
            "ref/resource" => {
                let (span, uri) = field("uri").ok_or_else(wrong)?;
                let template = self.learn_uris(&call.caller).await.route_template(&uri);
                let (member, own) = match template {
                    Some(found) => found,
                    None => self.owner(&call.caller, &uri).await?,
                };
                (span, uri, member, own)
            }
            _ => return Err(wrong().into()),
        };
        if own != seen {
            call.params.set(&span, &own);
        }
        Ok(member)
    }

    /// To all that declare logging, and to those that could not say: their links keep it for when they are back.
    async fn set_level(&self, call: Call) -> Reply {
        let members = 0..self.profile.members.len();
        let abouts = join_all(members.map(|member| self.said_of(member, &call.caller))).await;
        let logging = abouts.iter().enumerate().filter(|(_, about)| {
            about.as_ref().is_none_or(|about| about::has(&about.capabilities, "logging", None))
        });
        let outcomes = logging.map(|(member, _)| {
            let member = &self.profile.members[member];
            let reply = member.backend.call(call.clone());
            async move {
                let outcome = tokio::time::timeout(member.limit, async { reply.await.outcome().await }).await;
                let late = || Reason::Timeout { upstream: member.backend.id().clone() };
                outcome.unwrap_or_else(|_| Outcome::Error(late().into()))
            }
        });
        let outcomes = join_all(outcomes).await;
        if outcomes.is_empty() {
            return Reply::fault(Reason::MethodNotFound);
        }
        let mut refused = None;
        for outcome in outcomes {
            match outcome {
                Outcome::Error(fault) => refused = refused.or(Some(fault)),
                _ => return Reply::result(Raw::trusted("{}")),
            }
        }
        // Nobody took it: what the first said (a level that does not exist) is the answer.
        refused.map_or_else(|| Reply::result(Raw::trusted("{}")), Reply::fault)
    }
}

/// What turns a member's URIs in a reply into those that clients see.
struct Back {
    inner: Arc<Inner>,
    member: usize,
    method: Method,
    caller: Arc<Caller>,
    asked: Option<Asked>,
}

impl Back {
    async fn event(self: Arc<Self>, event: Event) -> Event {
        match event {
            Event::Note(note) => Event::Note(self.note(note)),
            Event::Done(outcome) => Event::Done(self.outcome(outcome).await),
            other @ (Event::Ask(_) | Event::Pause) => other,
        }
    }

    fn note(&self, mut note: Note) -> Note {
        if note.method == Method::ResourceUpdated {
            let uris = self.inner.uris(&self.caller, None);
            splice::updated(&mut note.params, |uri| uris.shown(self.member, uri));
        }
        note
    }

    async fn outcome(&self, outcome: Outcome) -> Outcome {
        let Outcome::Result(mut raw) = outcome else { return outcome };
        self.inner.silence.heard(self.member);
        if self.inner.rules.is_own(self.member) {
            return Outcome::Result(raw);
        }
        let found = splice::uris_of_result(&self.method, &raw);
        if !found.is_empty() {
            // Whether a URI needs another name is known only once everyone was asked for theirs.
            let uris = self.inner.learn_uris(&self.caller).await;
            splice::replace(&mut raw, found, |uri| match &self.asked {
                Some(asked) if asked.own == uri => asked.seen.as_str().into(),
                _ => uris.shown(self.member, uri),
            });
        }
        Outcome::Result(raw)
    }
}
