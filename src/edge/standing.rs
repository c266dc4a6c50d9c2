//! What reaches a legacy client without its asking: one standing call to the backend, made anew when the client
//! subscribes to more or less, so that nothing is missed in between.

use super::dispatch::Events;
use crate::mcp::{Backend, Call, Caller, Event, Fault, Outcome, Reason};
use crate::session::Changes;
use crate::wire::params::Params;
use crate::wire::{Method, Raw};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The pause before a call that ended by itself is made again; doubled each time nothing came of it.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Longer than any stream is held; a deadline must be a time.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The standing call of a legacy client, which gets every kind of list change unasked, and news of these URIs.
pub fn call<'a>(
    caller: Arc<Caller>,
    uris: impl IntoIterator<Item = &'a str>,
    cancel: CancellationToken,
) -> Call {
    let uris: Vec<&str> = uris.into_iter().collect();
    let filter = Raw::of(&serde_json::json!({"notifications": {
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": uris,
    }}));
    Call {
        caller,
        method: Method::Listen,
        params: Params::read(filter).expect("an object of our own making reads"),
        progress: None,
        resume: None,
        trail: None,
        cancel: cancel.into(),
        deadline: Instant::now() + FOREVER,
        watch: None,
    }
}

/// The notes and asks of a standing call, without an end. `call` makes it by what is subscribed to now, or says that it is
/// not to be made now, and is asked again in a moment (it is told whether there is none left either); `changes` tells that this is no longer what it was, and is told how
/// far the call knows of it.
pub fn events(
    backend: Arc<dyn Backend>,
    call: impl Fn(bool) -> Option<Call> + Send + Sync + 'static,
    changes: Arc<Changes>,
) -> BoxStream<'static, Event> {
    let standing = Standing {
        made: changes.watch(),
        backend,
        call,
        changes,
        now: None,
        next: None,
        left: VecDeque::new(),
        put_off: false,
        knows: 0,
        pause: Duration::ZERO,
    };
    stream::unfold(standing, |mut standing| async move {
        let event = standing.next().await;
        Some((event, standing))
    })
    .boxed()
}

struct Standing<F> {
    backend: Arc<dyn Backend>,
    call: F,
    changes: Arc<Changes>,
    made: watch::Receiver<u64>,
    /// The call whose events count, and the one that takes its place once it is acknowledged.
    now: Option<Events>,
    next: Option<Events>,
    /// What had come by the call before, when another took its place.
    left: VecDeque<Event>,
    /// A call was not to be made when it was due.
    put_off: bool,
    /// The count of changes that `next` was made by.
    knows: u64,
    pause: Duration,
}

enum Step {
    Changed,
    Next(Option<Event>),
    Now(Option<Event>),
    Again,
}

impl<F: Fn(bool) -> Option<Call>> Standing<F> {
    async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.left.pop_front() {
                return event;
            }
            let idle = self.now.is_none() && self.next.is_none();
            let step = tokio::select! {
                biased;
                // Its sender is ours.
                _ = self.made.changed() => Step::Changed,
                event = of(&mut self.next) => Step::Next(event),
                event = of(&mut self.now) => Step::Now(event),
                () = tokio::time::sleep(self.pause), if idle => Step::Again,
                () = tokio::time::sleep(FIRST_PAUSE), if self.put_off && !idle => Step::Changed,
            };
            match step {
                Step::Changed => self.begin(),
                Step::Again => {
                    self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                    self.begin();
                }
                Step::Next(Some(Event::Note(note))) if note.method == Method::Acknowledged => {
                    self.take_over();
                    self.changes.heard(self.knows);
                }
                // What comes before the acknowledgement breaks the rules; what ends before it is tried again.
                Step::Next(Some(Event::Note(_) | Event::Ask(_) | Event::Pause)) => {}
                Step::Next(Some(Event::Done(_)) | None) => self.next = None,
                Step::Now(ended @ (Some(Event::Done(_)) | None)) => {
                    self.now = None;
                    if let Some(Event::Done(Outcome::Error(Fault::Ours(Reason::Cancelled)))) = ended {
                        // It was ended from here, and `call` says at once that none is to take its place.
                        self.pause = Duration::ZERO;
                    }
                }
                Step::Now(Some(Event::Note(note))) if note.method == Method::Acknowledged => {}
                Step::Now(Some(event)) => {
                    self.pause = FIRST_PAUSE;
                    return event;
                }
            }
        }
    }

    fn begin(&mut self) {
        // Before the call is made: what it is made by is no older.
        let knows = *self.made.borrow_and_update();
        let none_left = self.now.is_none() && self.next.is_none();
        let call = (self.call)(none_left);
        self.put_off = call.is_none();
        let Some(call) = call else { return };
        self.knows = knows;
        let reply = self.backend.call(call);
        self.next = Some(reply.map(|reply| reply.into_events()).flatten_stream().boxed());
    }

    /// The next call counts. What the one before it has is given first: nobody says it again.
    fn take_over(&mut self) {
        let before = std::mem::replace(&mut self.now, self.next.take());
        let Some(mut before) = before else { return };
        while let Some(Some(event)) = before.next().now_or_never() {
            match event {
                Event::Done(_) => break,
                Event::Note(note) if note.method == Method::Acknowledged => {}
                event => self.left.push_back(event),
            }
        }
    }
}

/// The next event of a call; never where there is none.
async fn of(events: &mut Option<Events>) -> Option<Event> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Note;
    use crate::mcp::scripted::{self, Scripted};

    fn method(event: Option<Event>) -> Method {
        match event {
            Some(Event::Note(Note { method, .. })) => method,
            _ => panic!("no note"),
        }
    }

    #[tokio::test]
    async fn a_new_subscription_takes_over_once_it_is_acknowledged_and_a_lost_one_is_made_again() {
        let (backend, mut opened) = Scripted::new("up");
        let (changes, wanted) = (Arc::new(Changes::default()), watch::Sender::new(Vec::<&str>::new()));
        let uris = wanted.subscribe();
        let call = move |_| {
            let uris = uris.borrow();
            // `-` stands for a time in which no call is to be made.
            let made = || super::call(scripted::caller(), uris.iter().copied(), CancellationToken::new());
            (!uris.contains(&"-")).then(made)
        };
        assert!(changes.listen());
        let mut told = events(Arc::new(backend), call, changes.clone());
        // The stream moves while it is read; the script runs beside it.
        let first = async {
            let first = opened.recv().await.unwrap();
            first.acknowledge("{}").await;
            first.note(Method::ToolsChanged, "{}").await;
            first
        };
        let (event, first) = tokio::join!(told.next(), first);
        assert_eq!(method(event), Method::ToolsChanged);

        wanted.send_replace(vec!["file:///a"]);
        changes.made();
        let mut taken_up = std::pin::pin!(changes.taken_up());
        let second = async {
            let second = opened.recv().await.unwrap();
            assert!(second.params.contains(r#""resourceSubscriptions":["file:///a"]"#), "{}", second.params);
            first.note(Method::PromptsChanged, "{}").await;
            second
        };
        let (event, second) = tokio::join!(told.next(), second);
        assert_eq!(method(event), Method::PromptsChanged, "the old one counts until the new one is there");

        assert!(taken_up.as_mut().now_or_never().is_none());
        // Both are there when it looks: what the old one has comes first, and is not lost with it.
        first.note(Method::ResourcesChanged, "{}").await;
        second.acknowledge("{}").await;
        second.note(Method::ResourceUpdated, "{}").await;
        assert_eq!(method(told.next().await), Method::ResourcesChanged);
        assert_eq!(method(told.next().await), Method::ResourceUpdated);
        assert!(taken_up.as_mut().now_or_never().is_some());
        assert!(first.say.is_closed());

        wanted.send_replace(vec!["-"]);
        changes.made();
        second.note(Method::PromptsChanged, "{}").await;
        assert_eq!(method(told.next().await), Method::PromptsChanged);
        assert!(told.next().now_or_never().is_none());
        assert!(opened.try_recv().is_err(), "none is made while it is not to be, and the old one stands");
        wanted.send_replace(Vec::new());

        drop(second);
        let third = async {
            let third = opened.recv().await.unwrap();
            third.acknowledge("{}").await;
            third.note(Method::ToolsChanged, "{}").await;
            third
        };
        let (event, _third) = tokio::join!(told.next(), third);
        assert_eq!(method(event), Method::ToolsChanged);
    }
}
