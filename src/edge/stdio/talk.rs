//! One client's connection: each message to where it belongs. Requests run side by side; what is said of them is
//! ordered by who says it.

use super::asks::Asks;
use super::legacy::Legacy;
use super::pipe::Pipe;
use crate::edge::era::is_modern;
use crate::edge::gate::{Gate, Mount};
use crate::edge::modern_headers::Misformed;
use crate::edge::{answer, dispatch};
use crate::mcp::{Note, Outcome, Reason};
use crate::session::{Called, Calls};
use crate::telemetry::evidence;
use crate::wire::envelope::{self, Body};
use crate::wire::meta::VERSION;
use crate::wire::{Message, Method, Notification, Refused, Request, code};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Members of a batch that run at a time, and the most that one may have.
const BATCH_WIDTH: usize = 16;
const BATCH: usize = 1000;

pub struct Talk {
    pub gate: Arc<Gate>,
    pub mount: Arc<Mount>,
    pub pipe: Pipe,
    pub calls: Calls,
    pub asks: Asks,
    pub tasks: TaskTracker,
    /// Standing streams are to end with a completion.
    pub closing: CancellationToken,
    /// All calls are to end now, unanswered.
    pub over: CancellationToken,
    /// A place for each request of this client that is not answered yet.
    flights: Arc<Semaphore>,
    legacy: Mutex<Option<Arc<Legacy>>>,
}

impl Talk {
    pub fn new(gate: Arc<Gate>, mount: Arc<Mount>, pipe: Pipe) -> Talk {
        Talk {
            flights: Arc::new(Semaphore::new(gate.rules.calls.min(Semaphore::MAX_PERMITS))),
            gate,
            mount,
            pipe,
            calls: Calls::default(),
            asks: Asks::default(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
            over: CancellationToken::new(),
            legacy: Mutex::default(),
        }
    }

    /// Standing streams end with their completion.
    pub fn say_farewell(&self) {
        self.closing.cancel();
    }

    pub fn cancel_all(&self) {
        self.over.cancel();
        self.calls.end();
    }

    /// Resolves when nothing runs.
    pub async fn settled(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends upstream what the legacy session opened there.
    pub async fn end_session(&self) {
        let legacy = lock(&self.legacy).take();
        if let Some(legacy) = legacy {
            legacy.ended.cancel();
            evidence::closed(legacy.caller.session.key());
            self.mount.backend.end(legacy.caller.session.clone()).await;
        }
    }

    pub fn legacy(&self) -> Option<Arc<Legacy>> {
        lock(&self.legacy).clone()
    }

    /// Takes one line's text. Waits only where a client does not read what it is answered.
    pub async fn take(self: &Arc<Self>, text: Bytes) {
        match envelope::read_body(text, self.gate.rules.depth) {
            Ok(Body::One(message)) => self.message(message).await,
            Ok(Body::Batch(members)) => self.batch(members).await,
            Err(refused) => self.refuse(&refused).await,
        }
    }

    pub async fn refuse(&self, refused: &Refused) {
        self.pipe.say(refusal(refused)).await;
    }

    async fn message(self: &Arc<Self>, message: Message) {
        match message {
            Message::Response(response) => self.asks.answer(response),
            Message::Notification(notification) => self.note(notification),
            Message::Request(request) => {
                let Some((called, place)) = self.admit(&request).await else { return };
                // Before the next line is read, for that one may be of the session that this one begins.
                let legacy = match self.session_of(&request).await {
                    Ok(legacy) => legacy,
                    Err(answer) => return self.pipe.say(answer).await,
                };
                let talk = self.clone();
                self.tasks.spawn(async move {
                    if let Some(answer) = talk.answer(request, legacy, &called).await {
                        talk.pipe.say(answer).await;
                    }
                    drop((called, place));
                });
            }
        }
    }

    /// A place for a request. Where there is none the client is told so, and its next line waits until it is.
    async fn admit(self: &Arc<Self>, request: &Request) -> Option<(Called, OwnedSemaphorePermit)> {
        if let Ok(place) = self.flights.clone().try_acquire_owned() {
            return Some((self.calls.begin(&request.id), place));
        }
        let upstream = self.mount.backend.id().clone();
        let outcome = Outcome::Error(Reason::Busy { upstream }.into());
        let version = self.legacy().map_or(crate::wire::Version::MODERN, |legacy| legacy.caller.version);
        let rendered = answer::render(version, &request.method, outcome);
        self.pipe.say(envelope::write_response(Some(&request.id), rendered.as_ref())).await;
        None
    }

    /// The legacy session that a request belongs to; `None` for a modern request. Errors: the answer to one that is
    /// neither.
    async fn session_of(self: &Arc<Self>, request: &Request) -> Result<Option<Arc<Legacy>>, Bytes> {
        if is_modern(&request.params) {
            return Ok(None);
        }
        if request.method == Method::Initialize {
            let legacy = Legacy::begin(self, request)?;
            self.end_session().await;
            *lock(&self.legacy) = Some(legacy.clone());
            return Ok(Some(legacy));
        }
        let why = format!("initialize first, or say in each request's _meta what it speaks ({VERSION:?})");
        let error = Misformed { code: code::INVALID_PARAMS, why, data: None };
        self.legacy().map(Some).ok_or_else(|| error.message(Some(&request.id)))
    }

    fn note(self: &Arc<Self>, notification: Notification) {
        let Notification { method, params } = notification;
        match (&method, self.legacy()) {
            (Method::Cancelled, _) => {
                if let Some(id) = params.token(&params.request_id) {
                    // What runs under no id, or under one that several calls share, may be ignored.
                    let cancelled = self.calls.cancel(&id);
                    tracing::debug!(?cancelled, "a client cancels");
                }
            }
            (Method::Initialized, Some(legacy)) => legacy.stand(self),
            (Method::RootsChanged, Some(legacy)) if legacy.roots.begin() => {
                let note = Note { method, params: params.raw.clone(), at: None };
                let mount = self.mount.clone();
                self.tasks.spawn(async move {
                    let told = dispatch::tell(&mount, &legacy.caller, note, &legacy.roots);
                    legacy.ended.run_until_cancelled(told).await
                });
            }
            _ => {}
        }
    }

    /// A batch, where the session's version has them: its requests run side by side, and their answers come as one.
    async fn batch(self: &Arc<Self>, members: Vec<Result<Message, Refused>>) {
        let legacy = self.legacy().filter(|legacy| legacy.caller.version.has_batches());
        let why = match &legacy {
            None => Some("batches are of protocol version 2025-03-26 alone"),
            Some(_) if members.len() > BATCH => Some("a batch of more than 1000 messages"),
            Some(_) => None,
        };
        if let Some(why) = why {
            return self.refuse(&Refused { id: None, code: code::INVALID_REQUEST, why: why.into() }).await;
        }
        let mut answers: Vec<Bytes> = Vec::new();
        let mut requests = Vec::new();
        for member in members {
            match member {
                Ok(Message::Request(request))
                    if !is_modern(&request.params) && request.method != Method::Initialize =>
                {
                    requests.push((self.calls.begin(&request.id), request));
                }
                Ok(Message::Request(request)) => {
                    let why = "not in a batch".into();
                    answers.push(refusal(&Refused {
                        id: Some(request.id),
                        code: code::INVALID_REQUEST,
                        why,
                    }));
                }
                Ok(Message::Notification(notification)) => self.note(notification),
                Ok(Message::Response(response)) => self.asks.answer(response),
                Err(refused) => answers.push(refusal(&refused)),
            }
        }
        let Ok(place) = self.flights.clone().acquire_owned().await else { return };
        let talk = self.clone();
        self.tasks.spawn(async move {
            let run = stream::iter(requests).map(|(called, request)| {
                let (talk, legacy) = (talk.clone(), legacy.clone());
                async move { talk.answer(request, legacy, &called).await }
            });
            let answered: Vec<_> = run.buffer_unordered(BATCH_WIDTH).collect().await;
            answers.extend(answered.into_iter().flatten());
            if !answers.is_empty() {
                talk.pipe.say(envelope::write_batch(&answers)).await;
            }
            drop(place);
        });
    }
}

/// The answer to a text that is no message.
fn refusal(refused: &Refused) -> Bytes {
    let error = answer::error_object(refused.code, &refused.why, None);
    envelope::write_response(refused.id.as_ref(), Err(&error))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
