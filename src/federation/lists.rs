//! Merged lists: every member is asked at the same time and for no longer than its limit; what is missing is said.

use super::composite::Inner;
use super::faults;
use super::names::Names;
use super::parts::{self, Parts};
use super::uris::Uris;
use crate::mcp::{Age, Caller, Fault, Kind, Listing, Reason};
use futures_util::future::join_all;
use std::sync::Arc;

/// The kinds that decide what clients see of a URI: tools, for the URIs of their apps.
const OF_URIS: [Kind; 3] = [Kind::Tool, Kind::Resource, Kind::Template];

impl Inner {
    /// The last known lists, without asking anyone.
    pub(super) fn known(&self, caller: &Caller, kind: Kind) -> Parts {
        self.profile.members.iter().map(|m| m.backend.known(caller, kind)).collect()
    }

    /// The table of names of these lists, for calls: what apps' URIs look like does not matter here.
    pub(super) fn names(&self, kind: Kind, of: Parts) -> Arc<Names> {
        let key = [kind as usize, 0].into_iter().chain(parts::addresses(&of));
        let key = key.collect();
        self.names.of(key, || Names::of(kind, &self.naming, of, None))
    }

    /// Whose the URIs are, by the last known lists, of which one may be given.
    pub(super) fn uris(&self, caller: &Caller, newer: Option<(Kind, &Parts)>) -> Arc<Uris> {
        let [tools, resources, templates] = OF_URIS.map(|kind| match newer {
            Some((given, parts)) if given == kind => parts.clone(),
            _ => self.known(caller, kind),
        });
        let key = [&tools, &resources, &templates].into_iter().flat_map(parts::addresses).collect();
        self.uris.of(key, || Uris::of(&self.rules, tools, resources, templates))
    }

    /// These lists as clients see them.
    pub(super) fn view(&self, caller: &Caller, kind: Kind, of: Parts) -> Arc<Names> {
        let alone = self.profile.members.len() < 2;
        if kind == Kind::Prompt || alone {
            return self.names(kind, of);
        }
        if kind == Kind::Tool {
            let names = self.names(kind, of.clone());
            if !names.has_apps {
                return names;
            }
        }
        let uris = self.uris(caller, Some((kind, &of)));
        let key = [kind as usize, Arc::as_ptr(&uris) as usize].into_iter().chain(parts::addresses(&of));
        let key = key.collect();
        self.names.of(key, || Names::of(kind, &self.naming, of, Some(uris)))
    }

    /// One member's list, within its limit. What a member does not have is an empty list.
    async fn ask(
        &self,
        member: usize,
        caller: &Arc<Caller>,
        kind: Kind,
        age: Age,
    ) -> Result<Arc<Listing>, Fault> {
        let of = &self.profile.members[member];
        let alone = self.profile.members.len() == 1;
        let unknown = of.backend.known(caller, kind).is_none();
        if age == Age::Known && !alone && unknown {
            match self.silence.of(member, kind, caller) {
                Some(fault) if faults::is_absent(&fault) => return Ok(self.none[kind as usize].clone()),
                Some(fault) => return Err(fault),
                None => {}
            }
        }
        let moment = self.silence.moment(member, kind);
        let list = of.backend.list(caller.clone(), kind, age);
        let listed = if alone {
            // Nobody waits for this member but its own callers: the link's limits are enough.
            list.await
        } else {
            match tokio::time::timeout(of.limit, list).await {
                Ok(listed) => listed,
                Err(_late) => Err(Reason::Timeout { upstream: of.backend.id().clone() }.into()),
            }
        };
        let Err(fault) = listed else {
            self.silence.ends(member, kind, caller);
            // A list that was known may have been given without asking the member.
            if unknown {
                self.silence.heard(member);
            }
            return listed;
        };
        let news = self.silence.of(member, kind, caller).is_none();
        self.silence.begins(member, kind, caller, fault.clone(), moment);
        if faults::is_absent(&fault) {
            return Ok(self.none[kind as usize].clone());
        }
        if news {
            let (list, why) = (kind.method(), faults::word(&fault));
            let upstream = of.backend.id();
            match fault {
                // That it is away was said when it went.
                Fault::Ours(Reason::Unreachable { .. }) => {
                    tracing::debug!(%upstream, list = list.as_str(), why, "a list is missing");
                }
                _ => tracing::warn!(%upstream, list = list.as_str(), why, "a list is missing"),
            }
        }
        Err(fault)
    }

    /// Asks for the lists of these kinds that are not known, but for members that gave none a moment ago.
    pub(super) async fn learn(&self, caller: &Arc<Caller>, kinds: &[Kind]) {
        let unknown = kinds.iter().flat_map(|kind| {
            let known = self.known(caller, *kind);
            (0..known.len()).filter(move |m| known[*m].is_none()).map(move |m| (m, *kind))
        });
        join_all(unknown.map(|(member, kind)| self.ask(member, caller, kind, Age::Known))).await;
    }

    /// The table of URIs for routing, with every member asked at least once.
    pub(super) async fn learn_uris(&self, caller: &Arc<Caller>) -> Arc<Uris> {
        self.learn(caller, &OF_URIS).await;
        self.uris(caller, None)
    }

    /// Lists anew for a name or URI that no known list has: it may have been listed on another pod. Not more often than
    /// a caller may be expected to be right.
    pub(super) async fn learn_anew(&self, caller: &Arc<Caller>, kinds: &[Kind]) -> bool {
        let key = (kinds[0], caller.session.key().clone());
        if self.asked.contains_key(&key) {
            return false;
        }
        self.asked.insert(key, ());
        let lists = kinds.iter().flat_map(|kind| (0..self.profile.members.len()).map(move |m| (m, *kind)));
        let asked = lists.filter(|(m, kind)| self.silence.of(*m, *kind, caller).is_none());
        join_all(asked.map(|(member, kind)| self.ask(member, caller, kind, Age::Fresh))).await;
        true
    }

    /// Why a member's list is not known, where it has one and could not give it.
    pub(super) fn away(&self, caller: &Caller, member: usize, kind: Kind) -> Option<Fault> {
        let fault = self.silence.of(member, kind, caller)?;
        let listed = self.profile.members[member].backend.known(caller, kind).is_some();
        (!listed && !faults::is_absent(&fault)).then_some(fault)
    }

    pub(super) async fn list(
        self: Arc<Self>,
        caller: Arc<Caller>,
        kind: Kind,
        age: Age,
    ) -> Result<Arc<Listing>, Fault> {
        let members = 0..self.profile.members.len();
        let mut answers = join_all(members.map(|m| self.ask(m, &caller, kind, age))).await;
        if let [Err(_)] = &answers[..] {
            return answers.swap_remove(0);
        }
        let missing: Vec<usize> = (0..answers.len()).filter(|m| answers[*m].is_err()).collect();
        // An owner that is away still owns what it listed last.
        let last = if missing.is_empty() { Vec::new() } else { self.known(&caller, kind) };
        let of: Parts = (answers.into_iter().enumerate())
            .map(|(m, answer)| answer.ok().or_else(|| last.get(m).cloned().flatten()))
            .collect();
        // What clients see of a URI must not depend on what this pod happened to be asked before.
        let by_uri = matches!(kind, Kind::Resource | Kind::Template)
            || (kind == Kind::Tool && self.names(kind, of.clone()).has_apps);
        if by_uri && self.profile.members.len() > 1 {
            let others: Vec<Kind> = OF_URIS.into_iter().filter(|other| *other != kind).collect();
            self.learn(&caller, &others).await;
        }
        let view = self.view(&caller, kind, of);
        if missing.is_empty() {
            return Ok(view.listing.clone());
        }
        let mut partial = view.without(&missing);
        partial.missing = missing.iter().map(|m| self.profile.members[*m].backend.id().clone()).collect();
        partial.missing.extend(view.listing.missing.iter().cloned());
        Ok(Arc::new(partial))
    }
}
