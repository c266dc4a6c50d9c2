//! A standing stream over all members: one acknowledgement, then what they notify, with members that end opened again.
//! A member that is slow or away holds up nobody; when it is back, what may have changed is said to have changed.

mod filter;
mod leg;

use super::composite::{Inner, check_resume};
use super::splice;
use crate::mcp::{Call, Event, Note, Outcome, Reason, Reply};
use crate::wire::{Era, Method, Raw};
pub(super) use filter::Filter;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, SelectAll, unfold};
use leg::{Heard, Leg};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the acknowledgement waits for members, and how much of that for the lists that say whose a URI is.
const PATIENCE: Duration = Duration::from_millis(500);
const LOOKING: Duration = Duration::from_millis(400);
/// The same for a session's, which another pod's stands in for meanwhile: just under what a client's answer waits for it.
const PATIENCE_OF_SESSIONS: Duration = Duration::from_millis(900);
/// Most events that wait for the acknowledgement; one more, and it waits for nobody.
const WAITING: usize = 256;

/// What is known of a member's part.
enum Part {
    Waiting,
    /// Slow no more: what it honours.
    Honours(Filter),
    /// Could not be reached; tried again.
    Away,
    /// Ended for good.
    Over,
}

/// One standing stream of a client.
struct Listening {
    inner: Arc<Inner>,
    call: Call,
    legs: SelectAll<BoxStream<'static, (usize, Heard)>>,
    /// By leg: its member, what it was asked for, and how it stands.
    parts: Vec<(usize, Filter, Part)>,
    /// What the client asked for, in its own URIs.
    asked: Filter,
    /// Until then the acknowledgement may wait; `None` once it was given.
    ack_by: Option<Instant>,
    /// Events that may be given: all of them, once the acknowledgement was.
    ready: VecDeque<Event>,
    /// It is cancelled, and has what the members had for it.
    is_parting: bool,
    done: bool,
}

impl Inner {
    pub(super) async fn listen(self: Arc<Self>, call: Call) -> Reply {
        let patience = match call.caller.version.era() {
            Era::Legacy => PATIENCE_OF_SESSIONS,
            Era::Modern => PATIENCE,
        };
        let ack_by = Instant::now() + patience;
        let asked = call.params.filter.as_ref().map(|span| Filter::read(call.params.raw.text(), span));
        let asked = asked.unwrap_or_default();
        let parts: Vec<(usize, Filter)> = match &self.profile.members[..] {
            [only] => match check_resume(&call, only.backend.id()) {
                Ok(()) => vec![(0, asked.clone())],
                Err(reason) => return Reply::fault(reason),
            },
            _ => self.split(&call, &asked).await,
        };
        let mut legs = SelectAll::new();
        for (at, (member, filter)) in parts.iter().enumerate() {
            let mut of_member = call.clone();
            of_member.cancel = call.cancel.token().child_token().into();
            if self.profile.members.len() > 1
                && let Some(span) = &call.params.filter
            {
                of_member.params.raw.edit(span.clone(), filter.to_json());
            }
            let backend = self.profile.members[*member].backend.clone();
            legs.push(Leg::new(backend, of_member).heard().map(move |heard| (at, heard)).boxed());
        }
        let parts = parts.into_iter().map(|(member, filter)| (member, filter, Part::Waiting)).collect();
        let listening = Listening {
            inner: self,
            call,
            legs,
            parts,
            asked,
            ack_by: Some(ack_by),
            ready: VecDeque::new(),
            is_parting: false,
            done: false,
        };
        Reply::Stream(
            unfold(listening, |mut l| async move { l.next().await.map(|event| (event, l)) }).boxed(),
        )
    }

    /// The filter's part of each member: the lists go to all, a URI to its owner under its own name. A legacy session
    /// hears of every member, whatever it asked for: log messages and requests come this way as well.
    async fn split(&self, call: &Call, asked: &Filter) -> Vec<(usize, Filter)> {
        let lists = Filter { uris: BTreeSet::new(), ..asked.clone() };
        let mut parts = vec![lists; self.profile.members.len()];
        if !asked.uris.is_empty() {
            let _late_lists_are_done_without =
                tokio::time::timeout(LOOKING, self.learn_uris(&call.caller)).await;
            let uris = self.uris(&call.caller, None);
            for uri in &asked.uris {
                if let Some((member, own)) = uris.route(uri) {
                    parts[member].uris.insert(own);
                }
            }
        }
        let legacy = call.caller.version.era() == Era::Legacy;
        parts.into_iter().enumerate().filter(|(_, part)| legacy || !part.is_empty()).collect()
    }
}

impl Listening {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.done {
                return None;
            }
            if self.ack_by.is_none()
                && let Some(event) = self.ready.pop_front()
            {
                self.done = matches!(event, Event::Done(_));
                return Some(event);
            }
            if self.ack_by.is_some() && !self.parts.iter().any(|(_, _, part)| matches!(part, Part::Waiting)) {
                self.acknowledge();
                continue;
            }
            let late = async {
                match self.ack_by {
                    Some(by) => tokio::time::sleep_until(by).await,
                    None => std::future::pending().await,
                }
            };
            // Without any leg there is nothing to hear of, but the stream stands until it is cancelled.
            let none = self.legs.is_empty();
            tokio::select! {
                biased;
                // A legacy session's is ended where another pod's stands: what members have for this one comes before.
                () = self.call.cancel.cancelled(), if !self.is_parting => {
                    self.is_parting = self.call.caller.version.era() == Era::Legacy && !none;
                    if !self.is_parting {
                        self.done = true;
                        return Some(Event::Done(Outcome::Error(Reason::Cancelled.into())));
                    }
                    self.ack_by = None;
                }
                heard = self.legs.next(), if !none => if let Some((leg, heard)) = heard {
                    self.hear(leg, heard);
                },
                () = late => self.acknowledge(),
            }
        }
    }

    fn hear(&mut self, leg: usize, heard: Heard) {
        let member = self.parts[leg].0;
        match heard {
            Heard::Acknowledged { mut note, back } => {
                let nowhere = note.at.take().is_some_and(|at| at == Note::NOWHERE_YET);
                // All was acknowledged before this part stood: until now nobody listened there.
                let late = !nowhere
                    && self.ack_by.is_none()
                    && !self.is_parting
                    && !matches!(self.parts[leg].2, Part::Honours(_));
                let mut honoured = Filter::of_note(&note);
                honoured.uris.retain(|uri| self.parts[leg].1.uris.contains(uri));
                self.parts[leg].2 = Part::Honours(honoured);
                // The only member's own words, where they come in time.
                if self.is_alone() && self.ack_by.take().is_some() {
                    self.ready.push_front(Event::Note(note));
                }
                if back || late {
                    self.may_have_changed(leg);
                }
            }
            Heard::Event(event) => {
                if let Event::Note(note) = &event {
                    self.inner.silence.told(member, &note.method);
                }
                let event = self.seen(member, event);
                self.ready.push_back(event);
                if self.ack_by.is_some() && self.ready.len() > WAITING {
                    self.acknowledge();
                }
            }
            Heard::Away => self.parts[leg].2 = Part::Away,
            Heard::Over { outcome, back } => {
                self.parts[leg].2 = Part::Over;
                if back {
                    self.may_have_changed(leg);
                }
                if self.parts.iter().all(|(_, _, part)| matches!(part, Part::Over)) {
                    if self.is_alone() {
                        // Refused before it stood: the answer is the refusal, not an acknowledgement.
                        if matches!(outcome, Outcome::Error(_)) {
                            self.ack_by = None;
                        }
                        self.ready.push_back(Event::Done(outcome));
                    } else if self.is_parting {
                        self.ready.push_back(Event::Done(Outcome::Error(Reason::Cancelled.into())));
                    } else {
                        self.ready.push_back(Event::Done(Outcome::Result(Raw::trusted("{}"))));
                    }
                }
            }
        }
    }

    fn is_alone(&self) -> bool {
        self.inner.profile.members.len() == 1
    }

    /// Says what is honoured: by those who answered, and by those who will be asked until they do.
    fn acknowledge(&mut self) {
        self.ack_by = None;
        let mut honoured = Filter::default();
        let alone = self.is_alone();
        let uris = (!alone).then(|| self.inner.uris(&self.call.caller, None));
        for (member, part, state) in &self.parts {
            let of_part = match state {
                Part::Honours(filter) => filter.clone(),
                Part::Over => continue,
                Part::Waiting | Part::Away => self.inner.likely(*member, part),
            };
            honoured.tools |= of_part.tools;
            honoured.prompts |= of_part.prompts;
            honoured.resources |= of_part.resources;
            honoured
                .uris
                .extend(of_part.uris.into_iter().map(|own| self.shown(uris.as_deref(), *member, own)));
        }
        let params = Raw::trusted(format!("{{\"notifications\":{}}}", honoured.to_json()));
        self.ready.push_front(Event::Note(Note { method: Method::Acknowledged, params, at: None }));
    }

    /// A member's URI as this client named it, else as clients see it.
    fn shown(&self, uris: Option<&super::uris::Uris>, member: usize, own: String) -> String {
        let Some(uris) = uris else { return own };
        let as_asked = self
            .asked
            .uris
            .iter()
            .find(|seen| uris.route(seen).is_some_and(|to| to == (member, own.clone())));
        as_asked.cloned().unwrap_or_else(|| uris.shown(member, &own).to_string())
    }

    /// A member's event as the client is to see it.
    fn seen(&self, member: usize, event: Event) -> Event {
        let Event::Note(mut note) = event else { return event };
        if !self.is_alone() {
            // The place in one member's stream says nothing of the merged one.
            note.at = None;
            if note.method == Method::ResourceUpdated {
                let uris = self.inner.uris(&self.call.caller, None);
                splice::updated(&mut note.params, |own| {
                    self.shown(Some(&uris), member, own.to_owned()).into()
                });
            }
        }
        Event::Note(note)
    }

    /// A member is back after a gap in which nobody listened: one change a list and a URI, so that nothing is missed.
    fn may_have_changed(&mut self, leg: usize) {
        let (member, part, _) = &self.parts[leg];
        let lists = [
            (part.tools, Method::ToolsChanged),
            (part.prompts, Method::PromptsChanged),
            (part.resources, Method::ResourcesChanged),
        ];
        let note = |method, params| Event::Note(Note { method, params, at: None });
        let mut changes = Vec::new();
        for (_, change) in lists.into_iter().filter(|(asked, _)| *asked) {
            self.inner.silence.told(*member, &change);
            changes.push(note(change, Raw::trusted("{}")));
        }
        for own in &part.uris {
            let uris = (!self.is_alone()).then(|| self.inner.uris(&self.call.caller, None));
            let uri = self.shown(uris.as_deref(), *member, own.clone());
            changes.push(note(Method::ResourceUpdated, Raw::of(&serde_json::json!({ "uri": uri }))));
        }
        self.ready.extend(changes);
    }
}

impl Inner {
    /// What a member that has not answered yet will honour, by what it last said of itself.
    fn likely(&self, member: usize, asked: &Filter) -> Filter {
        // With several members a list changes by a member's coming back, which we notice ourselves.
        let field = (self.profile.members.len() == 1).then_some("listChanged");
        let unsaid = self.said[member].load().is_none();
        let may = |capability| unsaid || self.may_have(member, capability, field);
        let subscribes = self.may_have(member, "resources", Some("subscribe"));
        Filter {
            tools: asked.tools && may("tools"),
            prompts: asked.prompts && may("prompts"),
            resources: asked.resources && may("resources"),
            uris: if subscribes { asked.uris.clone() } else { BTreeSet::new() },
        }
    }
}
