//! The profile as one backend. With one member and nothing renamed it stands aside: calls and lists pass as they are.

use super::names::{self, Names};
use super::naming::Naming;
use super::parts::Derived;
use super::silence::Silence;
use super::uris::{UriRules, Uris};
use super::{Member, Profile};
use crate::mcp::{
    About, Age, Backend, Call, Caller, Fault, Kind, Listing, Note, Reason, Reply, Session, Track, UpstreamId,
};
use crate::wire::{Method, Raw};
use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, ready};
use moka::sync::Cache;
use std::sync::Arc;
use std::time::Duration;

/// How long a caller's unknown names do not make us list anew.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most callers of whom such a thing is remembered.
const REMEMBERED: u64 = 10_000;

/// Many backends as one, for one profile.
pub struct Composite(pub(super) Arc<Inner>);

pub(super) struct Inner {
    id: UpstreamId,
    pub(super) profile: Profile,
    pub(super) naming: Naming,
    pub(super) rules: Arc<UriRules>,
    pub(super) names: Derived<Names>,
    pub(super) uris: Derived<Uris>,
    /// The lists of members that have none, by kind.
    pub(super) none: [Arc<Listing>; 4],
    pub(super) silence: Silence,
    /// Callers for whom lists were asked anew a moment ago.
    pub(super) asked: Cache<(Kind, Arc<str>), ()>,
    /// What each member last said of itself to anyone: only what kinds of things it has is taken from here.
    pub(super) said: Vec<ArcSwapOption<About>>,
}

impl Composite {
    pub fn new(profile: Profile) -> Composite {
        let id = match &profile.members[..] {
            [only] => only.backend.id().clone(),
            _ => UpstreamId::new(&profile.name)
                .or_else(|| UpstreamId::new("profile"))
                .expect("the word has the form of an id"),
        };
        Composite(Arc::new(Inner {
            id,
            naming: Naming::of(&profile),
            rules: Arc::new(UriRules::of(&profile)),
            names: Derived::new(Names::weight),
            uris: Derived::new(Uris::weight),
            none: Kind::ALL.map(|kind| Arc::new(names::none(kind))),
            silence: Silence::new(profile.members.len(), REMEMBERED),
            asked: Cache::builder().max_capacity(REMEMBERED).time_to_live(PATIENCE).build(),
            said: profile.members.iter().map(|_| ArcSwapOption::empty()).collect(),
            profile,
        }))
    }

    /// The only member's call, on its way at once: nothing is awaited and no list asked for.
    fn pass(&self, only: &Member, mut call: Call) -> BoxFuture<'static, Reply> {
        let refused = match call.method {
            Method::Ping => return ready(Reply::result(Raw::trusted("{}"))).boxed(),
            Method::ToolsCall if !self.0.naming.is_plain() => self.0.name_for_only(&mut call).err(),
            ref method if !is_routed(method) => Some(Reason::MethodNotFound),
            _ => None,
        };
        match refused.or_else(|| check_resume(&call, only.backend.id()).err()) {
            Some(reason) => ready(Reply::fault(reason)).boxed(),
            None => only.backend.call(call),
        }
    }
}

impl Inner {
    /// Writes the only member's own name of the tool, where the profile admits it.
    fn name_for_only(&self, call: &mut Call) -> Result<(), Reason> {
        let span = call.params.name.clone().ok_or(Reason::InvalidParams("name is required".into()))?;
        let name = call.params.name().ok_or(Reason::InvalidParams("name must be a string".into()))?;
        let own = match self.naming.renamed(&name) {
            Some((_, own)) => own.to_owned(),
            None if self.naming.renames() => {
                let found = self.names(Kind::Tool, self.known(&call.caller, Kind::Tool)).find(&name);
                found.map_or_else(|| name.to_string(), |(_, own)| own.to_string())
            }
            None => name.to_string(),
        };
        if !self.naming.admits(0, &own) {
            return Err(Reason::UnknownTool(name.into_owned()));
        }
        if own != *name {
            call.params.set(&span, &own);
        }
        Ok(())
    }
}

/// Whether a client may send this method at all by way of [`Backend::call`].
fn is_routed(method: &Method) -> bool {
    use Method::*;
    let lists = Kind::of_method(method).is_some();
    !lists
        && !method.is_notification()
        && !matches!(method, Initialize | Discover | Elicit | Sample | RootsList)
}

/// A multi-round retry goes back to who asked, and to nobody else (2026-07-28 MRTR).
pub(super) fn check_resume(call: &Call, to: &UpstreamId) -> Result<(), Reason> {
    match &call.resume {
        Some(resume) if resume.upstream != *to => Err(Reason::BadState),
        _ => Ok(()),
    }
}

impl Backend for Composite {
    fn id(&self) -> &UpstreamId {
        &self.0.id
    }

    fn about(&self, caller: Arc<Caller>) -> BoxFuture<'static, Result<Arc<About>, Fault>> {
        self.0.clone().about(caller).boxed()
    }

    fn list(
        &self,
        caller: Arc<Caller>,
        kind: Kind,
        age: Age,
    ) -> BoxFuture<'static, Result<Arc<Listing>, Fault>> {
        match &self.0.profile.members[..] {
            [only] if kind != Kind::Tool || self.0.naming.is_plain() => only.backend.list(caller, kind, age),
            _ => self.0.clone().list(caller, kind, age).boxed(),
        }
    }

    fn known(&self, caller: &Caller, kind: Kind) -> Option<Arc<Listing>> {
        if let [only] = &self.0.profile.members[..]
            && (kind != Kind::Tool || self.0.naming.is_plain())
        {
            return only.backend.known(caller, kind);
        }
        let parts = self.0.known(caller, kind);
        let any = parts.iter().any(Option::is_some);
        any.then(|| self.0.view(caller, kind, parts).listing.clone())
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        match &self.0.profile.members[..] {
            _ if call.method == Method::Listen => self.0.clone().listen(call).boxed(),
            [only] => self.pass(only, call),
            _ => self.0.clone().route(call).boxed(),
        }
    }

    fn take_over(&self, call: Call, track: Track) -> BoxFuture<'static, Reply> {
        let members = &self.0.profile.members;
        let Some(member) = members.iter().position(|member| *member.backend.id() == track.upstream) else {
            // The configuration changed since the call began.
            return ready(Reply::fault(Reason::lost(&call.method, track.upstream))).boxed();
        };
        match &members[..] {
            [only] => only.backend.take_over(call, track),
            _ => self.0.clone().go_on(member, call, track).boxed(),
        }
    }

    fn tell(&self, caller: Arc<Caller>, note: Note) -> BoxFuture<'static, Result<(), Fault>> {
        let told: Vec<_> =
            self.0.profile.members.iter().map(|m| m.backend.tell(caller.clone(), note.clone())).collect();
        async move {
            let mut told = join_all(told).await;
            // One that is away learns of it when its link is made anew; only a note that reached nobody failed.
            if told.is_empty() || told.iter().any(Result::is_ok) { Ok(()) } else { told.swap_remove(0) }
        }
        .boxed()
    }

    fn end(&self, session: Arc<dyn Session>) -> BoxFuture<'static, ()> {
        let ended: Vec<_> = self.0.profile.members.iter().map(|m| m.backend.end(session.clone())).collect();
        join_all(ended).map(drop).boxed()
    }
}
