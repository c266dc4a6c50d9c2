//! What reaches a legacy client without its asking: one standing call to the backend, made anew when the client
//! subscribes to more or less, so that nothing is missed in between.

use super::dispatch::Events;
use crate::mcp::{Backend, Call, Event};
use crate::wire::{Method, Raw};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The pause before a call that ended by itself is made again; doubled each time nothing came of it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The filter of a legacy client, which gets every kind of list change unasked, and news of these URIs.
pub fn filter<'a>(uris: impl IntoIterator<Item = &'a str>) -> Raw {
    let uris: Vec<&str> = uris.into_iter().collect();
    Raw::of(&serde_json::json!({"notifications": {
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": uris,
    }}))
}

/// The notes and asks of a standing call. `call` makes it by what is subscribed to now; `changed` tells that this is no
/// longer what it was. Ends when the sender of `changed` is gone.
pub fn events<T: Send + Sync + 'static>(
    backend: Arc<dyn Backend>,
    call: impl Fn() -> Call + Send + Sync + 'static,
    changed: watch::Receiver<T>,
) -> BoxStream<'static, Event> {
    let standing = Standing { backend, call, changed, now: None, next: None, pause: Duration::ZERO };
    stream::unfold(standing, |mut standing| async move {
        let event = standing.next().await?;
        Some((event, standing))
    })
    .boxed()
}

struct Standing<F, T> {
    backend: Arc<dyn Backend>,
    call: F,
    changed: watch::Receiver<T>,
    /// The call whose events count, and the one that takes its place once it is acknowledged.
    now: Option<Events>,
    next: Option<Events>,
    pause: Duration,
}

enum Step {
    Changed(bool),
    Next(Option<Event>),
    Now(Option<Event>),
    Again,
}

impl<F: Fn() -> Call, T> Standing<F, T> {
    async fn next(&mut self) -> Option<Event> {
        loop {
            let idle = self.now.is_none() && self.next.is_none();
            let step = tokio::select! {
                biased;
                changed = self.changed.changed() => Step::Changed(changed.is_ok()),
                event = of(&mut self.next) => Step::Next(event),
                event = of(&mut self.now) => Step::Now(event),
                () = tokio::time::sleep(self.pause), if idle => Step::Again,
            };
            match step {
                Step::Changed(false) => return None,
                Step::Changed(true) => self.begin(),
                Step::Again => {
                    self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                    self.begin();
                }
                Step::Next(Some(Event::Note(note))) if note.method == Method::Acknowledged => {
                    self.now = self.next.take();
                }
                // What comes before the acknowledgement breaks the rules; what ends before it is tried again.
                Step::Next(Some(Event::Note(_) | Event::Ask(_))) => {}
                Step::Next(Some(Event::Done(_)) | None) => self.next = None,
                Step::Now(Some(Event::Done(_)) | None) => self.now = None,
                Step::Now(Some(Event::Note(note))) if note.method == Method::Acknowledged => {}
                Step::Now(Some(event)) => {
                    self.pause = FIRST_PAUSE;
                    return Some(event);
                }
            }
        }
    }

    fn begin(&mut self) {
        let reply = self.backend.call((self.call)());
        self.next = Some(reply.map(|reply| reply.into_events()).flatten_stream().boxed());
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
    use crate::mcp::{
        About, Age, Caller, Client, Fault, Kept, Kind, Listing, Note, Principal, Reply, Session, UpstreamId,
    };
    use crate::wire::Version;
    use crate::wire::params::Params;
    use futures_util::future::{BoxFuture, ready};
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    /// Hands each call's params and the sender of its events to the test.
    struct Scripted(UpstreamId, mpsc::UnboundedSender<(String, mpsc::UnboundedSender<Event>)>);

    impl Backend for Scripted {
        fn id(&self) -> &UpstreamId {
            &self.0
        }
        fn about(&self, _: Arc<Caller>) -> BoxFuture<'static, Result<Arc<About>, Fault>> {
            unreachable!("nobody asks")
        }
        fn list(&self, _: Arc<Caller>, _: Kind, _: Age) -> BoxFuture<'static, Result<Arc<Listing>, Fault>> {
            unreachable!("nobody asks")
        }
        fn known(&self, _: &Caller, _: Kind) -> Option<Arc<Listing>> {
            None
        }
        fn call(&self, call: Call) -> BoxFuture<'static, Reply> {
            let (events, mut inner) = mpsc::unbounded_channel();
            let params = String::from_utf8(call.params.raw.to_bytes().to_vec()).unwrap();
            self.1.send((params, events)).unwrap();
            ready(Reply::Stream(stream::poll_fn(move |cx| inner.poll_recv(cx)).boxed())).boxed()
        }
        fn tell(&self, _: Arc<Caller>, _: Note) -> BoxFuture<'static, Result<(), Fault>> {
            ready(Ok(())).boxed()
        }
        fn end(&self, _: Arc<dyn Session>) -> BoxFuture<'static, ()> {
            ready(()).boxed()
        }
    }

    fn note(method: Method) -> Event {
        Event::Note(Note { method, params: Raw::trusted("{}"), at: None })
    }

    fn method(event: Option<Event>) -> Method {
        match event {
            Some(Event::Note(note)) => note.method,
            _ => panic!("no note"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_subscription_takes_over_once_it_is_acknowledged_and_a_lost_one_is_made_again() {
        let (calls, mut called) = mpsc::unbounded_channel();
        let backend = Arc::new(Scripted(UpstreamId::new("up").unwrap(), calls));
        let (wanted, changed) = watch::channel(Vec::<&str>::new());
        let caller = Arc::new(Caller {
            principal: Arc::new(Principal::minted("", "", "p")),
            profile: "".into(),
            client: Arc::new(Client::default()),
            version: Version::V2025_11_25,
            session: Arc::new(Kept::session("s")),
        });
        let uris = changed.clone();
        let call = move || Call {
            caller: caller.clone(),
            method: Method::Listen,
            params: Params::read(filter(uris.borrow().iter().copied())).unwrap(),
            progress: None,
            resume: None,
            cancel: CancellationToken::new(),
            deadline: tokio::time::Instant::now(),
        };
        let mut told = events(backend, call, changed);
        let mut next = tokio::spawn(async move { (told.next().await, told) });
        let (_, first) = called.recv().await.unwrap();
        first.send(note(Method::Acknowledged)).unwrap();
        first.send(note(Method::ToolsChanged)).unwrap();
        let (event, mut told) = next.await.unwrap();
        assert_eq!(method(event), Method::ToolsChanged);

        wanted.send_replace(vec!["file:///a"]);
        next = tokio::spawn(async move { (told.next().await, told) });
        let (params, second) = called.recv().await.unwrap();
        assert!(params.contains("\"resourceSubscriptions\":[\"file:///a\"]"), "{params}");
        first.send(note(Method::PromptsChanged)).unwrap();
        let (event, mut told) = next.await.unwrap();
        assert_eq!(method(event), Method::PromptsChanged, "the old one counts until the new one is there");

        second.send(note(Method::Acknowledged)).unwrap();
        second.send(note(Method::ResourceUpdated)).unwrap();
        next = tokio::spawn(async move { (told.next().await, told) });
        let (event, mut told) = next.await.unwrap();
        assert_eq!(method(event), Method::ResourceUpdated);
        assert!(first.is_closed());

        drop(second);
        next = tokio::spawn(async move { (told.next().await, told) });
        let (_, third) = called.recv().await.unwrap();
        third.send(note(Method::Acknowledged)).unwrap();
        third.send(note(Method::ToolsChanged)).unwrap();
        let (event, mut told) = next.await.unwrap();
        assert_eq!(method(event), Method::ToolsChanged);
        drop(wanted);
        assert!(told.next().await.is_none());
    }
}
