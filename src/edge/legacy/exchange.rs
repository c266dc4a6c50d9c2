//! What a legacy POST asks for, carried out to its end: a socket that closes cancels nothing. One JSON body where all
//! answers come alone and soon; else a stream, which a session's client can resume.

mod brief;

pub use brief::answer_one;

use super::peer::Peer;
use super::running::{Begin, Running, Step, Steps};
use super::streams;
use super::ways::{self, Left, Ways};
use crate::clock;
use crate::edge::answer;
use crate::edge::writer::Writer;
use crate::mcp::{Ask, Call, Cancel, Event, Outcome, Reason, Scopes};
use crate::session::{Asking, Called, ChangeError, Follower, Inherited, LiveSession, Outlet, Unsent};
use crate::ticks::Deadline;
use crate::wire::params::Params;
use crate::wire::{Method, Raw, Request, Version, envelope, json};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::StatusCode;
use smallvec::SmallVec;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// One for each call: mostly there is one call.
pub(super) type Few<T> = SmallVec<[T; 1]>;

/// Messages that wait for the reader of a stream that cannot be resumed.
const PASSING: usize = 32;

/// What the POST is answered with.
pub enum Answer {
    /// All of it.
    Whole(StatusCode, Bytes),
    /// All of it, and the scopes that it lacks.
    Lacking(Scopes, Bytes),
    /// A stream of the session.
    Resumable(Follower),
    /// A stream of a client without a session.
    Passing(mpsc::Receiver<Bytes>),
    /// The client cancelled it, and gets no answer.
    Nothing,
}

/// How the client takes answers.
#[derive(Clone, Copy)]
pub struct Takes {
    pub json: bool,
    pub stream: bool,
    /// It sent an array, and a whole answer is one.
    pub batch: bool,
}

/// Where messages go once they can.
enum Out {
    Logged(Outlet),
    Passing(mpsc::Sender<Bytes>),
    /// The session's one stream (HTTP+SSE).
    Session(Arc<LiveSession>),
}

/// Runs the requests of a POST. `ready` are answers that are known already.
pub async fn answer(peer: &Peer, requests: Few<Request>, ready: Vec<Bytes>, takes: Takes) -> Answer {
    let exchange = Exchange::new(peer.clone(), requests.len(), ready, takes);
    exchange.attended(&peer.gate.tasks, |exchange| Box::pin(exchange.run(requests))).await
}

/// Runs requests whose answers go to the session's one stream.
pub fn answer_on_stream(peer: Peer, session: Arc<LiveSession>, requests: Few<Request>, ready: Vec<Bytes>) {
    let takes = Takes { json: false, stream: true, batch: false };
    let exchange =
        Exchange { out: Some(Out::Session(session)), ..Exchange::new(peer, requests.len(), ready, takes) };
    exchange.start(requests);
}

/// Says on the session's one stream that calls were lost with their pod, which had noted them.
pub async fn say_lost(peer: &Peer, session: &Arc<LiveSession>, noted: &[u8]) {
    for left in ways::read(noted) {
        let call = left.call(&peer.caller);
        let reason = Reason::Lost { safe: call.method.is_safe() };
        let (_, message) = Writer::new(&call, left.id).outcome(Outcome::Error(reason.into()));
        session.put(message).await;
    }
}

/// An exchange that runs in the task of its socket as long as that waits for the answer: most need no task of their own.
struct Attended<'a> {
    run: Option<BoxFuture<'static, ()>>,
    tasks: &'a TaskTracker,
    opened: Arc<Opened>,
}

/// Where an exchange leaves its answer. It does so while it is polled by who waits for that, so nobody need be woken.
#[derive(Default)]
struct Opened {
    /// Whether there is one: what a poll in vain looks at.
    left: AtomicBool,
    answer: Mutex<Option<Answer>>,
}

impl Opened {
    fn leave(&self, answer: Answer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.left.store(true, Ordering::Release);
    }

    fn take(&self) -> Option<Answer> {
        let left = self.left.load(Ordering::Acquire);
        left.then(|| self.answer.lock().unwrap_or_else(PoisonError::into_inner).take()).flatten()
    }
}

impl Future for Attended<'_> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        if let Some(run) = &mut self.run
            && run.as_mut().poll(context).is_ready()
        {
            self.run = None;
        }
        match self.opened.take() {
            Some(answer) => Poll::Ready(answer),
            None if self.run.is_none() => Poll::Ready(Answer::Nothing),
            None => Poll::Pending,
        }
    }
}

/// What is left of it, the rest of a stream or all where the socket has closed, is done by a task.
impl Drop for Attended<'_> {
    fn drop(&mut self) {
        if let Some(run) = self.run.take()
            && tokio::runtime::Handle::try_current().is_ok()
        {
            self.tasks.spawn(run);
        }
    }
}

/// Goes on with the calls that another pod left on a stream.
pub fn take_over(peer: Peer, inherited: Inherited) {
    let Inherited { outlet, notes } = inherited;
    let left = ways::left(&notes);
    let takes = Takes { json: false, stream: true, batch: false };
    let exchange =
        Exchange { out: Some(Out::Logged(outlet)), ..Exchange::new(peer, left.len(), Vec::new(), takes) };
    let tasks = exchange.peer.gate.tasks.clone();
    tasks.spawn(exchange.run_rest(left));
}

struct Exchange {
    peer: Peer,
    began: Instant,
    takes: Takes,
    /// Calls that have not ended.
    left: usize,
    /// Answers that wait for the others, while no stream is open.
    done: Few<Bytes>,
    status: StatusCode,
    /// What the caller of the last of them lacks.
    lacks: Option<Scopes>,
    opener: Option<Arc<Opened>>,
    out: Option<Out>,
    asking: Vec<Asking>,
    /// What another pod needs to go on with the calls, where the stream is logged.
    ways: Ways,
}

/// What the answer to a call must know of it.
struct Asked {
    writer: Writer,
    version: Version,
    /// Of a request that changes the session.
    change: Option<(Method, Params)>,
}

impl Exchange {
    fn new(peer: Peer, left: usize, done: Vec<Bytes>, takes: Takes) -> Exchange {
        let done = if done.is_empty() { Few::new() } else { done.into() };
        let (began, status) = (clock::lately(), StatusCode::OK);
        let (lacks, opener, out) = (None, None, None);
        let (asking, ways) = (Vec::new(), Ways::default());
        Exchange { peer, began, takes, left, done, status, lacks, opener, out, asking, ways }
    }

    fn start(self, requests: Few<Request>) {
        let tasks = self.peer.gate.tasks.clone();
        tasks.spawn(self.run(requests));
    }

    async fn run(mut self, requests: Few<Request>) {
        let mut asked = Few::new();
        let mut calls = Few::new();
        for request in requests {
            let (one, running) = self.begin(request);
            asked.push(one);
            calls.push(running);
        }
        let pending = match &self.out {
            Some(Out::Session(session)) if self.is_noted() => {
                Box::pin(session.note_pending(self.ways.noted())).await
            }
            _ => None,
        };
        self.see_through(&asked, &mut Steps::of(calls), None).await;
        if let Some(pending) = pending {
            Box::pin(pending.done()).await;
        }
    }

    /// Runs in the task of its socket, as long as that waits for the answer.
    async fn attended(
        mut self,
        tasks: &TaskTracker,
        run: impl FnOnce(Exchange) -> BoxFuture<'static, ()>,
    ) -> Answer {
        let opened = Arc::<Opened>::default();
        self.opener = Some(opened.clone());
        Attended { run: Some(run(self)), tasks, opened }.await
    }

    /// A request begins to run.
    fn begin(&self, request: Request) -> (Asked, Running) {
        let (call, called) = self.call(&request);
        let change = matches!(
            call.method,
            Method::SetLevel | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe
        );
        if self.is_noted() {
            self.ways.begin(&call, &request.id);
        }
        let asked = Asked {
            version: call.caller.version,
            change: change.then(|| (call.method.clone(), call.params.clone())),
            writer: Writer::new(&call, request.id),
        };
        (asked, Running::new(self.peer.clone(), Begin::New(call), called))
    }

    /// Goes on with a call that has begun, from the step that it has come to.
    async fn go_on(mut self, asked: Asked, running: Running, first: Option<Step>) {
        let first = first.map(|step| (0, step));
        self.see_through(&[asked], &mut Steps::One(running), first).await;
    }

    /// The calls that another pod began, on the stream that it left.
    async fn run_rest(mut self, calls: Vec<Left>) {
        let mut asked = Few::new();
        let mut rest = Few::new();
        for left in calls {
            let called = self.peer.session.as_ref().map(|session| session.begin(&left.id));
            let call = left.call(&self.peer.caller);
            asked.push(Asked {
                writer: Writer::new(&call, left.id.clone()),
                version: call.caller.version,
                change: None,
            });
            let track = self.ways.again(&call, left);
            rest.push(Running::new(self.peer.clone(), Begin::Rest(Box::new((call, track))), called));
        }
        if let Some(Out::Logged(outlet)) = &self.out {
            self.ways.note_all(outlet);
        }
        self.see_through(&asked, &mut Steps::of(rest), None).await;
    }

    async fn see_through(&mut self, asked: &[Asked], steps: &mut Steps, first: Option<(usize, Step)>) {
        let ended = match self.carry(asked, steps, first).await {
            Ok(()) => match self.out.take() {
                // The last of them was cancelled: the stream ends with no further answer.
                Some(Out::Logged(outlet)) => Box::pin(outlet.finish(None)).await,
                Some(Out::Passing(_) | Out::Session(_)) => Ok(()),
                None => {
                    let answer = self.whole();
                    self.give(answer);
                    Ok(())
                }
            },
            Err(ended) => Err(ended),
        };
        match ended {
            Ok(()) => {}
            Err(Unsent::Ended) => tracing::debug!("a session ended under its calls"),
            Err(Unsent::TakenOver) => {
                tracing::warn!("another pod went on with calls of this one, which it took for gone");
                // What is dropped here goes on there.
                self.ways.let_go();
            }
        }
    }

    /// Until every call has ended. What only some calls need is in boxes of its own: all of this is moved with every one.
    async fn carry(
        &mut self,
        asked: &[Asked],
        steps: &mut Steps,
        mut first: Option<(usize, Step)>,
    ) -> Result<(), Unsent> {
        if !self.takes.json || self.out.is_some() {
            Box::pin(self.open()).await?;
        }
        let between = self.peer.gate.rules.keep_alive;
        let (open_at, mut beat_at) = (self.began + self.peer.gate.rules.open_after, self.began + between);
        let mut timer = Deadline::at(open_at.min(beat_at));
        while self.left > 0 {
            let logged = match &self.out {
                Some(Out::Logged(outlet)) => Some(outlet),
                _ => None,
            };
            let kept = async {
                match logged {
                    Some(outlet) => Box::pin(outlet.kept()).await,
                    None => std::future::pending().await,
                }
            };
            let moved = async {
                match logged {
                    Some(_) => self.ways.moved().await,
                    None => std::future::pending().await,
                }
            };
            let next = async {
                match first.take() {
                    Some(step) => Some(step),
                    None => steps.next().await,
                }
            };
            let step = tokio::select! {
                biased;
                step = next => step,
                () = moved => {
                    Box::pin(self.note_ways()).await?;
                    continue;
                }
                () = &mut timer => {
                    let now = Instant::now();
                    if now >= open_at && self.takes.stream {
                        Box::pin(self.open()).await?;
                    }
                    if now >= beat_at {
                        // A call that runs is a use of its session, whoever waits for it.
                        self.peer.touch().await;
                        beat_at = now + between;
                    }
                    let opens = self.out.is_none() && self.takes.stream;
                    timer.reset(if opens { open_at.min(beat_at) } else { beat_at });
                    continue;
                }
                never = kept => match never {},
            };
            let Some((n, step)) = step else { break };
            match step {
                Step::Event(Event::Done(outcome)) if self.out.is_none() && asked[n].change.is_none() => {
                    self.answered(n, &asked[n], outcome);
                }
                step => Box::pin(self.step(n, &asked[n], step)).await?,
            }
        }
        Ok(())
    }

    /// Whether there are others who could go on with the calls.
    fn is_noted(&self) -> bool {
        self.peer.gate.rules.shared
    }

    fn call(&self, request: &Request) -> (Call, Option<Called>) {
        let called = self.peer.session.as_ref().map(|session| session.begin(&request.id));
        let call = Call {
            caller: self.peer.caller.clone(),
            method: request.method.clone(),
            progress: request.params.progress(),
            params: request.params.clone(),
            resume: None,
            trail: (self.peer.session.is_some() && self.is_noted()).then(Arc::default),
            // What is cancelled is dropped here.
            cancel: Cancel::never(),
            deadline: self.began + self.peer.gate.rules.call,
            watch: Some(self.peer.arrives((&request.method, &request.params, &request.id))),
        };
        (call, called)
    }

    async fn step(&mut self, n: usize, asked: &Asked, step: Step) -> Result<(), Unsent> {
        match step {
            Step::Slow if self.takes.stream => self.open().await,
            Step::Slow => Ok(()),
            // What the pod before this one had told already.
            Step::Event(Event::Note(_)) if self.ways.is_told(n) => Ok(()),
            Step::Event(Event::Note(note)) if self.takes.stream => {
                self.open().await?;
                if let Some(Out::Logged(outlet)) = &self.out {
                    self.ways.took(n, note.at.as_ref(), self.is_asking(), outlet);
                }
                let message = asked.writer.note(note);
                match &self.out {
                    Some(Out::Session(session)) => {
                        session.tell(message);
                        Ok(())
                    }
                    _ => self.send(message).await,
                }
            }
            // The client takes one JSON body alone.
            Step::Event(Event::Note(_)) => Ok(()),
            Step::Event(Event::Ask(ask)) => self.ask(ask).await,
            Step::Event(Event::Pause) if self.takes.stream => {
                self.open().await?;
                if let (Some(Out::Logged(outlet)), true) = (&self.out, streams::primed(asked.version)) {
                    outlet.hang_up();
                }
                Ok(())
            }
            Step::Event(Event::Pause) => Ok(()),
            Step::Cancelled => {
                self.left -= 1;
                self.ended(n);
                Ok(())
            }
            Step::Event(Event::Done(outcome)) => {
                let outcome = match &asked.change {
                    Some((method, params)) => self.changed(method, params, outcome).await,
                    None => outcome,
                };
                if self.out.is_none() {
                    self.answered(n, asked, outcome);
                    return Ok(());
                }
                let (_, message) = asked.writer.outcome(outcome);
                self.left -= 1;
                self.ended(n);
                if self.left == 0
                    && let Some(Out::Logged(outlet)) = self.out.take_if(|out| matches!(out, Out::Logged(_)))
                {
                    return outlet.finish(Some(message)).await;
                }
                self.send(message).await
            }
        }
    }

    /// A call has ended, and no stream is open.
    fn answered(&mut self, n: usize, asked: &Asked, outcome: Outcome) {
        let lacks = answer::lacks(&outcome).cloned();
        let (status, message) = asked.writer.outcome(outcome);
        self.left -= 1;
        self.ended(n);
        self.status = status;
        self.lacks = lacks;
        self.done.push(message);
    }

    /// Opens the stream, if none is open, and sends what waited for it.
    async fn open(&mut self) -> Result<(), Unsent> {
        if self.out.is_none() {
            let (out, answer) = match &self.peer.session {
                Some(session) => {
                    let (outlet, follower) = session.stream();
                    (Out::Logged(outlet), Answer::Resumable(follower))
                }
                None => {
                    let (sender, receiver) = mpsc::channel(PASSING);
                    (Out::Passing(sender), Answer::Passing(receiver))
                }
            };
            self.out = Some(out);
            self.give(answer);
            if self.left > 0 {
                self.note_ways().await?;
            }
        }
        for message in std::mem::take(&mut self.done) {
            self.send(message).await?;
        }
        Ok(())
    }

    /// Notes how far the calls have come, should another pod have to go on with them.
    async fn note_ways(&self) -> Result<(), Unsent> {
        let Some(Out::Logged(outlet)) = &self.out else { return Ok(()) };
        self.ways.note(self.is_asking(), outlet);
        outlet.flush().await
    }

    /// Whether a question waits for the client's answer.
    fn is_asking(&self) -> bool {
        self.asking.iter().any(|asking| !asking.is_over())
    }

    fn ended(&self, n: usize) {
        if let Some(Out::Logged(outlet)) = &self.out {
            self.ways.ended(n, outlet);
        }
    }

    async fn send(&mut self, message: Bytes) -> Result<(), Unsent> {
        match &self.out {
            Some(Out::Logged(outlet)) => outlet.send(message).await?,
            // The reader is gone, and nobody else can read it: the calls run on nevertheless.
            Some(Out::Passing(sender)) => drop(sender.send(message).await),
            Some(Out::Session(session)) => drop(session.put(message).await),
            None => {}
        }
        Ok(())
    }

    /// Passes a question on to the client; what cannot be passed on is refused by being dropped.
    async fn ask(&mut self, ask: Ask) -> Result<(), Unsent> {
        let Ask { method, params, answer, .. } = ask;
        if method == Method::Ping {
            let _ = answer.send(Ok(Raw::trusted("{}")));
            return Ok(());
        }
        let Some(session) = self.peer.session.clone() else { return Ok(()) };
        if !self.peer.caller.client.answers(&method) {
            return Ok(());
        }
        self.asking.retain(|asking| !asking.is_over());
        if self.takes.stream {
            self.open().await?;
        }
        let stream = match &self.out {
            Some(Out::Logged(outlet)) => Some(outlet),
            _ => None,
        };
        let asking = session.ask(answer, self.peer.gate.rules.call, stream);
        let message = envelope::write_request(asking.id(), &method, &params);
        let passed = match &self.out {
            Some(Out::Logged(outlet)) => outlet.send(message).await.map(|()| true)?,
            _ => session.put(message).await,
        };
        if passed {
            self.asking.push(asking);
        }
        Ok(())
    }

    /// Keeps in the session what a request changed of it upstream.
    async fn changed(&self, method: &Method, params: &Params, outcome: Outcome) -> Outcome {
        let (Some(session), Outcome::Result(_)) = (&self.peer.session, &outcome) else { return outcome };
        let uri = params.uri().unwrap_or_default();
        let kept = match method {
            Method::SetLevel => session.set_level(&level(params).unwrap_or_default()).await,
            Method::ResourcesSubscribe => session.subscribe(&uri).await,
            _ => session.unsubscribe(&uri).await,
        };
        match kept {
            Ok(()) => {
                if *method == Method::ResourcesSubscribe {
                    // From the answer on, the client counts on being told.
                    session.taken_up().await;
                }
                outcome
            }
            Err(ChangeError::Ended) => outcome,
            Err(ChangeError::Away(_)) => Outcome::Error(Reason::StoreAway.into()),
            Err(ChangeError::TooLarge(why)) => {
                Outcome::Error(Reason::InvalidParams(why.to_string().into()).into())
            }
        }
    }

    /// The answer, where all calls have ended and no stream was opened.
    fn whole(&mut self) -> Answer {
        if self.done.is_empty() {
            return Answer::Nothing;
        }
        let body =
            if self.takes.batch { envelope::write_batch(&self.done) } else { self.done.swap_remove(0) };
        match self.lacks.take() {
            // A batch has one status, whatever its members came to.
            _ if self.takes.batch => Answer::Whole(StatusCode::OK, body),
            Some(scopes) => Answer::Lacking(scopes, body),
            None => Answer::Whole(self.status, body),
        }
    }

    fn give(&mut self, answer: Answer) {
        if let Some(opener) = self.opener.take() {
            // Nobody takes it any more where the socket has closed.
            opener.leave(answer);
        }
    }
}

fn level(params: &Params) -> Option<String> {
    let text = params.raw.text();
    let member = json::lax_members(text, 0).ok()?.into_iter().find(|member| member.is("level"))?;
    json::string(text, &member.value).map(|level| level.into_owned())
}
