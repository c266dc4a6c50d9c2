//! A profile whose parts may change while it is served: calls go to the parts of now, and standing streams move from
//! the parts of before to those of now without a gap. Knows no configuration; who changes it says what may differ.

use super::Composite;
use super::listen::Filter;
use crate::mcp::{
    About, Age, Backend, Call, Caller, Event, Fault, Kind, Listing, Note, Reply, Session, Track, UpstreamId,
};
use crate::wire::{Method, Raw};
use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, unfold};
use futures_util::{FutureExt, StreamExt};
use std::collections::VecDeque;
use std::ops::BitOr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// What clients may see differently after a change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touched {
    pub tools: bool,
    pub prompts: bool,
    /// Resources, what they hold, and templates.
    pub resources: bool,
}

impl Touched {
    pub const ALL: Touched = Touched { tools: true, prompts: true, resources: true };
}

impl BitOr for Touched {
    type Output = Touched;

    fn bitor(self, other: Touched) -> Touched {
        Touched {
            tools: self.tools | other.tools,
            prompts: self.prompts | other.prompts,
            resources: self.resources | other.resources,
        }
    }
}

/// A profile as it is now.
pub struct Switch {
    id: UpstreamId,
    now: Arc<Now>,
}

struct Now {
    parts: ArcSwap<Composite>,
    /// How many changes there were, and what the last one touched.
    changes: watch::Sender<(u64, Touched)>,
}

impl Switch {
    pub fn new(parts: Composite) -> Switch {
        let changes = watch::Sender::new((0, Touched::default()));
        Switch { id: parts.id().clone(), now: Arc::new(Now { parts: ArcSwap::from_pointee(parts), changes }) }
    }

    /// From now on these parts answer. What has begun ends where it began; standing streams move over, and say that what
    /// was touched may have changed.
    pub fn turn(&self, parts: Composite, touched: Touched) {
        self.now.parts.store(Arc::new(parts));
        self.now.changes.send_modify(|(count, last)| (*count, *last) = (*count + 1, touched));
    }

    fn parts(&self) -> arc_swap::Guard<Arc<Composite>> {
        self.now.parts.load()
    }
}

impl Backend for Switch {
    fn id(&self) -> &UpstreamId {
        &self.id
    }

    fn about(&self, caller: Arc<Caller>) -> BoxFuture<'static, Result<Arc<About>, Fault>> {
        self.parts().about(caller)
    }

    fn list(
        &self,
        caller: Arc<Caller>,
        kind: Kind,
        age: Age,
    ) -> BoxFuture<'static, Result<Arc<Listing>, Fault>> {
        self.parts().list(caller, kind, age)
    }

    fn known(&self, caller: &Caller, kind: Kind) -> Option<Arc<Listing>> {
        self.parts().known(caller, kind)
    }

    fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
        match call.method {
            Method::Listen => listen(self.now.clone(), call).boxed(),
            _ => self.parts().call(call),
        }
    }

    fn take_over(&self, call: Call, track: Track) -> BoxFuture<'static, Reply> {
        self.parts().take_over(call, track)
    }

    fn tell(&self, caller: Arc<Caller>, note: Note) -> BoxFuture<'static, Result<(), Fault>> {
        self.parts().tell(caller, note)
    }

    fn end(&self, session: Arc<dyn Session>) -> BoxFuture<'static, ()> {
        self.parts().end(session)
    }
}

/// Notifications of a moving stream that are compared at most.
const SAID: usize = 256;

type Events = BoxStream<'static, Event>;

/// One standing stream of a client, whatever parts it stands on.
struct Following {
    now: Arc<Now>,
    call: Call,
    /// How long an opening may take: the call's own time is over when it moves.
    time: Duration,
    asked: Filter,
    changes: watch::Receiver<(u64, Touched)>,
    /// Changes that were seen, and what they touched since the stream that counts was opened.
    seen: u64,
    touched: Touched,
    /// The stream that counts, and the one that takes its place once it is acknowledged.
    events: Option<Events>,
    next: Option<Events>,
    /// What the one has said since the other was opened: the other may say it again.
    said: VecDeque<(Method, Bytes)>,
    ready: VecDeque<Event>,
    over: bool,
}

async fn listen(now: Arc<Now>, call: Call) -> Reply {
    let mut changes = now.changes.subscribe();
    let (seen, _) = *changes.borrow_and_update();
    let time = call.deadline.saturating_duration_since(Instant::now());
    let asked = call.params.filter.as_ref().map(|span| Filter::read(call.params.raw.text(), span));
    let begun = now.parts.load().call(call.clone());
    let events = match begun.await {
        Reply::Stream(events) => events,
        refused => return refused,
    };
    let following = Following {
        now,
        call,
        time,
        asked: asked.unwrap_or_default(),
        changes,
        seen,
        touched: Touched::default(),
        events: Some(events),
        next: None,
        said: VecDeque::new(),
        ready: VecDeque::new(),
        over: false,
    };
    Reply::Stream(unfold(following, |mut f| async move { f.next().await.map(|event| (event, f)) }).boxed())
}

enum Step {
    Changed,
    Now(Option<Event>),
    Next(Option<Event>),
}

impl Following {
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.over {
                return None;
            }
            let step = tokio::select! {
                biased;
                // The sender is held here.
                _ = self.changes.changed() => Step::Changed,
                event = of(&mut self.events) => Step::Now(event),
                event = of(&mut self.next) => Step::Next(event),
            };
            match step {
                Step::Changed => self.begin(),
                Step::Now(Some(Event::Done(_)) | None) if self.next.is_some() => self.events = None,
                Step::Now(Some(event)) => {
                    self.over = matches!(event, Event::Done(_));
                    self.note_said(&event);
                    return Some(event);
                }
                Step::Now(None) => return None,
                Step::Next(Some(Event::Note(note))) if note.method == Method::Acknowledged => {
                    self.move_over()
                }
                // Nothing comes before an acknowledgement.
                Step::Next(Some(Event::Note(_) | Event::Ask(_) | Event::Pause)) => {}
                Step::Next(event) => {
                    self.over = true;
                    return event;
                }
            }
        }
    }

    /// Opens the stream anew on the parts of now.
    fn begin(&mut self) {
        let (count, last) = *self.changes.borrow_and_update();
        // Of changes that came too quickly to be seen, all that is known is that they were.
        self.touched = self.touched | if count == self.seen + 1 { last } else { Touched::ALL };
        self.seen = count;
        let call = Call { deadline: Instant::now() + self.time, ..self.call.clone() };
        let begun = self.now.parts.load().call(call);
        self.next = Some(begun.map(Reply::into_events).flatten_stream().boxed());
    }

    /// Remembers a notification that the parts of now may hear as well.
    fn note_said(&mut self, event: &Event) {
        if let (Event::Note(note), true) = (event, self.next.is_some()) {
            self.said.truncate(SAID - 1);
            self.said.push_front((note.method.clone(), note.params.to_bytes()));
        }
    }

    /// The parts of now are listened to. What was said meanwhile is given first, and once: by those of before, then by
    /// those of now.
    fn move_over(&mut self) {
        if let Some(mut before) = self.events.take() {
            while let Some(Some(event @ (Event::Note(_) | Event::Ask(_)))) = before.next().now_or_never() {
                self.note_said(&event);
                self.ready.push_back(event);
            }
        }
        let mut next = self.next.take();
        while let Some(Some(Some(event))) = next.as_mut().map(|next| next.next().now_or_never()) {
            self.over = matches!(event, Event::Done(_));
            let again = match &event {
                Event::Note(note) => {
                    let params = note.params.to_bytes();
                    self.said.iter().position(|said| *said == (note.method.clone(), params.clone()))
                }
                _ => None,
            };
            match again {
                Some(at) => drop(self.said.remove(at)),
                None => self.ready.push_back(event),
            }
        }
        self.said.clear();
        self.events = next;
        let touched = std::mem::take(&mut self.touched);
        let lists = [
            (touched.tools && self.asked.tools, Method::ToolsChanged),
            (touched.prompts && self.asked.prompts, Method::PromptsChanged),
            (touched.resources && self.asked.resources, Method::ResourcesChanged),
        ];
        let note = |method, params| Event::Note(Note { method, params, at: None });
        let lists = lists.into_iter().filter(|(changed, _)| *changed);
        self.ready.extend(lists.map(|(_, method)| note(method, Raw::trusted("{}"))));
        if touched.resources {
            let updated = |uri: &String| Raw::of(&serde_json::json!({ "uri": uri }));
            self.ready.extend(self.asked.uris.iter().map(|uri| note(Method::ResourceUpdated, updated(uri))));
        }
    }
}

/// The next event of a stream; never where there is none.
async fn of(events: &mut Option<Events>) -> Option<Event> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}
