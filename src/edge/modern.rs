//! The modern HTTP edge (2026-07-28 Streamable HTTP): every request stands alone; closing its answer cancels it.

use super::answer;
use super::body;
use super::callers::Told;
use super::dispatch::{self, Events};
use super::gate::{Gate, Mount};
use super::given::Given;
use super::http::{Next, Soon, later, now};
use super::modern_headers::{self, Misformed};
use super::said::Said;
use super::seen;
use super::writer::Writer;
use crate::clock;
use crate::mcp::{Access, Age, Call, Caller, Cancel, Client, Event, Kind, Listing, Outcome, Reason, Reply};
use crate::telemetry::metrics;
use crate::ticks;
use crate::wire::params::Params;
use crate::wire::sse::{self, SseEvent};
use crate::wire::{Id, Message, Method, Raw, Request, Span, Version};
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::{FutureExt, StreamExt, stream};
use http::{Response, StatusCode};
use std::sync::Arc;
use tokio::time::Instant;

/// A request that is in order: the call that it asks for, and how its client takes the answer.
pub struct Asked {
    mount: Arc<Mount>,
    call: Call,
    id: Id,
    can_stream: bool,
    /// When its client is not left without an answer any more.
    soon: Instant,
}

/// What a message asks for whose `_meta` says that it is modern. Error: the answer to what is no call, and to faults of form.
pub fn asked<'a>(
    gate: &'a Arc<Gate>,
    mount: Arc<Mount>,
    access: &Arc<Access>,
    said: &'a Said<'_>,
    can_stream: bool,
    message: Message,
) -> Soon<'a, Result<Next, Response<Body>>> {
    let request = match message {
        Message::Request(request) => request,
        // No notification of a modern client means anything over HTTP: it is accepted and not run.
        Message::Notification(_) => return now(Err(body::empty(gate, StatusCode::ACCEPTED))),
        Message::Response(_) => {
            return now(Err(misformed(gate, None, not_ours("a modern client sends no responses"))));
        }
    };
    let (caller, mixed) = match sender(gate, &mount, access, said, &request) {
        Ok(sender) => sender,
        Err(fault) => return now(Err(misformed(gate, Some(&request.id), fault))),
    };
    let agrees = move |known: Option<Arc<Listing>>, request: &Request| match known {
        Some(known) => modern_headers::params(&known, said, &request.params, mixed)
            .map_err(|fault| misformed(gate, Some(&request.id), fault)),
        None => Ok(()),
    };
    let known = match request.method {
        Method::ToolsCall => mount.backend.known(&caller, Kind::Tool),
        _ => None,
    };
    if request.method == Method::ToolsCall && known.is_none() {
        return later(async move {
            let known = mount.backend.list(caller.clone(), Kind::Tool, Age::Known).await.ok();
            agrees(known, &request)?;
            call(gate, mount, said, caller, can_stream, request)
        });
    }
    now(agrees(known, &request).and_then(|()| call(gate, mount, said, caller, can_stream, request)))
}

/// The call of a request that is in order.
fn call(
    gate: &Arc<Gate>,
    mount: Arc<Mount>,
    said: &Said<'_>,
    caller: Arc<Caller>,
    can_stream: bool,
    request: Request,
) -> Result<Next, Response<Body>> {
    let http = seen::carried(gate, said.fields);
    let Request { id, method, params } = request;
    let watch = seen::arrives(gate, &caller, (&method, &params, &id), ("http", &http));
    if method == Method::Listen && !can_stream {
        let fault = not_ours("subscriptions/listen needs text/event-stream in Accept");
        return Err(misformed(gate, Some(&id), fault));
    }
    let now = clock::lately();
    let call = Call {
        progress: params.progress(),
        caller,
        method,
        params,
        resume: None,
        trail: None,
        cancel: Cancel::never(),
        deadline: now + gate.rules.call,
        watch: Some(watch),
    };
    Ok(Next::Modern(Asked { mount, call, id, can_stream, soon: now + gate.rules.open_after }))
}

fn not_ours(why: &str) -> Misformed {
    Misformed { code: crate::wire::code::INVALID_REQUEST, why: why.to_owned(), data: None }
}

/// The answer to a modern version header without modern `_meta`, and to other faults of form.
pub fn misformed(gate: &Gate, id: Option<&Id>, fault: Misformed) -> Response<Body> {
    body::json(gate, StatusCode::BAD_REQUEST, fault.message(id))
}

/// Who sends a request whose headers and `_meta` are in order. The second value is that of [`modern_headers::version`].
fn sender(
    gate: &Gate,
    mount: &Mount,
    access: &Arc<Access>,
    said: &Said<'_>,
    request: &Request,
) -> Result<(Arc<Caller>, bool), Misformed> {
    let Request { method, params, .. } = request;
    let (version, mixed) = modern_headers::version(&gate.rules, said, params)?;
    modern_headers::names(said, method, params, mixed)?;
    let caller = caller(gate, mount, access, said, params, version);
    if mixed {
        metrics().compat.with_label_values(&["mixed_version_header"]).inc();
        tracing::warn!(
            client = caller.client.name(),
            "a legacy version header over modern _meta was followed"
        );
    }
    Ok((caller, mixed))
}

/// Who calls, as request and headers say.
fn caller(
    gate: &Gate,
    mount: &Mount,
    access: &Arc<Access>,
    said: &Said<'_>,
    params: &Params,
    version: Version,
) -> Arc<Caller> {
    let (info, capabilities) = own_words(params);
    let agent = said.agent();
    let make = || {
        // What is kept must not share the request's buffer.
        let kept = |object: &[u8]| Raw::trusted(Bytes::copy_from_slice(object));
        let client = Arc::new(Client {
            info: info.map(kept),
            capabilities: capabilities.map(kept),
            user_agent: agent.map(Into::into),
            headers: super::http::forwarded(gate, said.fields),
        });
        let session = gate.sessions.pooled(access.principal.clone(), mount.name.clone(), client.clone());
        Caller { access: access.clone(), profile: mount.name.clone(), client, version, session }
    };
    if !gate.rules.forward.is_empty() {
        // What headers bring differs from request to request.
        return Arc::new(make());
    }
    gate.callers.get(Told { profile: &mount.name, access, version, info, capabilities, agent }, make)
}

/// What this request's `_meta` says of the client: who it is, and what it can do.
fn own_words(params: &Params) -> (Option<&[u8]>, Option<&[u8]>) {
    let object = |span: &Option<Span>| {
        let span = span.as_ref()?;
        let text = &params.raw.text()[span.start as usize..span.end as usize];
        text.starts_with(b"{").then_some(text)
    };
    match &params.meta {
        Some(meta) => (object(&meta.client_info), object(&meta.capabilities)),
        None => (None, None),
    }
}

/// The client as this request's `_meta` describes it. What HTTP headers say of it is not in there.
pub fn described(params: &Params) -> Client {
    let (info, capabilities) = own_words(params);
    let raw = |object: &[u8]| Raw::trusted(params.raw.text().slice_ref(object));
    Client { info: info.map(raw), capabilities: capabilities.map(raw), ..Client::default() }
}

/// One JSON body where the outcome comes alone and soon; an SSE stream as soon as something precedes it, or silence
/// would make a proxy give up.
pub async fn respond(gate: &Arc<Gate>, asked: Asked) -> Given {
    let Asked { mount, call, id, can_stream, soon } = asked;
    let write = Writer::new(&call, id);
    let mut first = dispatch::begin(gate.clone(), mount, call).boxed();
    let opened = if can_stream { ticks::within(soon, &mut first).await } else { Some(first.as_mut().await) };
    let outcome = match opened {
        None => {
            let streamed = Streamed::new(gate, write);
            return body::events(gate, "post", streamed.stream(Waiting::First(first))).into();
        }
        Some((Some(Event::Done(outcome)), _)) => outcome,
        Some((Some(Event::Ask(ask)), _)) => write.refusal(&ask),
        Some((first, rest)) if can_stream => {
            let kind = if write.is_standing() { "listen" } else { "post" };
            let streamed = Streamed::new(gate, write);
            return body::events(gate, kind, streamed.stream(Waiting::Events(first, rest))).into();
        }
        // The client takes one JSON body alone: what precedes the outcome is let go, and nothing can be asked.
        Some((first, rest)) => {
            let reply = Reply::Stream(stream::iter(first).chain(rest).boxed());
            Box::pin(reply.outcome()).await
        }
    };
    let lacks = answer::lacks(&outcome).cloned();
    let (status, message) = write.outcome(outcome);
    match lacks {
        None => Given::json(gate, status, message),
        Some(scopes) => body::forbidden(gate, write.caller(), &scopes, message).into(),
    }
}

type Begun = BoxFuture<'static, (Option<Event>, Events)>;

enum Waiting {
    First(Begun),
    Events(Option<Event>, Events),
    Over,
}

/// One call's events as an SSE stream for its client.
struct Streamed {
    gate: Arc<Gate>,
    write: Writer,
    /// Resolves when the client of a standing stream is let in no longer.
    ended: Option<BoxFuture<'static, ()>>,
}

impl Streamed {
    fn new(gate: &Arc<Gate>, write: Writer) -> Streamed {
        let standing = write.is_standing();
        let ended = standing.then(|| gate.auth.ended(&write.caller().access, false)).flatten();
        Streamed { gate: gate.clone(), write, ended }
    }

    fn stream(self, state: Waiting) -> impl futures_util::Stream<Item = Bytes> + Send {
        // A stream that opens because nothing came says so at once, for the proxies on the way.
        let opening = matches!(state, Waiting::First(_)).then(|| Bytes::from_static(sse::COMMENT));
        let lines = stream::unfold((self, state), |(mut streamed, state)| async move {
            let (bytes, state) = streamed.step(state).await?;
            Some((bytes, (streamed, state)))
        });
        stream::iter(opening).chain(lines)
    }

    /// The next bytes of the stream, and what is waited for after them.
    async fn step(&mut self, state: Waiting) -> Option<(Bytes, Waiting)> {
        let comment = Bytes::from_static(sse::COMMENT);
        let quiet = self.gate.rules.keep_alive;
        let standing = self.write.is_standing();
        let (event, rest) = match state {
            Waiting::Over => return None,
            Waiting::Events(Some(event), rest) => (Some(event), rest),
            Waiting::First(mut first) => tokio::select! {
                (event, rest) = &mut first => (event, rest),
                () = tokio::time::sleep(quiet) => return Some((comment, Waiting::First(first))),
            },
            Waiting::Events(None, mut rest) => tokio::select! {
                event = rest.next() => (event, rest),
                () = self.gate.lifecycle.draining.cancelled(), if standing => {
                    return Some((data(self.write.closure()), Waiting::Over));
                }
                () = OptionFuture::from(self.ended.as_mut()).map(drop), if self.ended.is_some() => {
                    return Some((data(self.write.closure()), Waiting::Over));
                }
                () = tokio::time::sleep(quiet) => return Some((comment, Waiting::Events(None, rest))),
            },
        };
        Some(match event {
            Some(Event::Note(note)) => (data(self.write.note(note)), Waiting::Events(None, rest)),
            Some(Event::Ask(ask)) => (data(self.write.outcome(self.write.refusal(&ask)).1), Waiting::Over),
            Some(Event::Done(outcome)) if standing => match outcome {
                Outcome::Error(_) => (data(self.write.outcome(outcome).1), Waiting::Over),
                _ => (data(self.write.closure()), Waiting::Over),
            },
            Some(Event::Done(outcome)) => (data(self.write.outcome(outcome).1), Waiting::Over),
            // A modern client cannot resume: it waits.
            Some(Event::Pause) => (comment, Waiting::Events(None, rest)),
            // A backend that ends its stream without an outcome has lost the call.
            None => (data(self.write.outcome(Outcome::Error(Reason::Cancelled.into())).1), Waiting::Over),
        })
    }
}

fn data(message: Bytes) -> Bytes {
    sse::write(&SseEvent { data: message, ..SseEvent::default() })
}
