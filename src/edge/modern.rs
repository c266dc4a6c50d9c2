//! The modern HTTP edge (2026-07-28 Streamable HTTP): every request stands alone; closing its answer cancels it.

use super::answer;
use super::body;
use super::callers::Told;
use super::dispatch::{self, Events};
use super::gate::{Gate, Mount};
use super::modern_headers::{self, Misformed};
use super::seen;
use super::writer::Writer;
use crate::clock;
use crate::mcp::{Access, Call, Caller, Cancel, Client, Event, Outcome, Reason, Reply};
use crate::telemetry::metrics;
use crate::wire::headers::Accepted;
use crate::wire::params::Params;
use crate::wire::sse::{self, SseEvent};
use crate::wire::{Id, Message, Method, Raw, Request, Version, meta};
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::{FutureExt, StreamExt, stream};
use http::{HeaderMap, Response, StatusCode};
use std::sync::Arc;

/// Answers a message whose `_meta` says that it is modern.
pub async fn answer(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    access: Arc<Access>,
    map: HeaderMap,
    message: Message,
) -> Response<Body> {
    let request = match message {
        Message::Request(request) => request,
        // No notification of a modern client means anything over HTTP: it is accepted and not run.
        Message::Notification(_) => return body::empty(&gate, StatusCode::ACCEPTED),
        Message::Response(_) => {
            return misformed(&gate, None, not_ours("a modern client sends no responses"));
        }
    };
    let id = request.id.clone();
    let (call, method) = match read(&gate, &mount, &access, &map, request).await {
        Ok(read) => read,
        Err(fault) => return misformed(&gate, Some(&id), fault),
    };
    let can_stream = Accepted::of(&map).stream;
    if method == Method::Listen && !can_stream {
        return misformed(
            &gate,
            Some(&id),
            not_ours("subscriptions/listen needs text/event-stream in Accept"),
        );
    }
    // The connection can use the buffer again that they stand in.
    drop(map);
    respond(gate, mount, call, id, can_stream).await
}

fn not_ours(why: &str) -> Misformed {
    Misformed { code: crate::wire::code::INVALID_REQUEST, why: why.to_owned(), data: None }
}

/// The answer to a modern version header without modern `_meta`, and to other faults of form.
pub fn misformed(gate: &Gate, id: Option<&Id>, fault: Misformed) -> Response<Body> {
    body::json(gate, StatusCode::BAD_REQUEST, fault.message(id))
}

/// Checks headers and `_meta`, and makes the call.
async fn read(
    gate: &Arc<Gate>,
    mount: &Mount,
    access: &Arc<Access>,
    map: &HeaderMap,
    request: Request,
) -> Result<(Call, Method), Misformed> {
    let Request { id, method, params } = request;
    let (version, mixed) = modern_headers::version(&gate.rules, map, &params)?;
    modern_headers::names(map, &method, &params, mixed)?;
    let caller = caller(gate, mount, access, map, &params, version);
    if mixed {
        metrics().compat.with_label_values(&["mixed_version_header"]).inc();
        tracing::warn!(
            client = caller.client.name(),
            "a legacy version header over modern _meta was followed"
        );
    }
    if method == Method::ToolsCall {
        modern_headers::params(&*mount.backend, &caller, map, &params, mixed).await?;
    }
    let http = seen::carried(gate, map);
    let watch = seen::arrives(gate, &caller, (&method, &params, &id), ("http", &http));
    let call = Call {
        progress: params.progress(),
        caller,
        method: method.clone(),
        params,
        resume: None,
        trail: None,
        cancel: Cancel::never(),
        deadline: clock::lately() + gate.rules.call,
        watch: Some(watch),
    };
    Ok((call, method))
}

/// Who calls, as request and headers say.
fn caller(
    gate: &Gate,
    mount: &Mount,
    access: &Arc<Access>,
    map: &HeaderMap,
    params: &Params,
    version: Version,
) -> Arc<Caller> {
    let client = described(params);
    let agent = map.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok());
    let text = |raw: &Option<Raw>| raw.as_ref().map(|r| r.text().clone());
    let (info, capabilities) = (text(&client.info), text(&client.capabilities));
    let make = || {
        let client = Arc::new(Client {
            info: client.info.as_ref().map(Raw::detached),
            capabilities: client.capabilities.as_ref().map(Raw::detached),
            user_agent: agent.map(Into::into),
            headers: super::http::forwarded(gate, map),
        });
        let session = gate.sessions.pooled(access.principal.clone(), mount.name.clone(), client.clone());
        Caller { access: access.clone(), profile: mount.name.clone(), client, version, session }
    };
    if !gate.rules.forward.is_empty() {
        // What headers bring differs from request to request.
        return Arc::new(make());
    }
    let told = Told {
        profile: &mount.name,
        access,
        version,
        info: info.as_deref(),
        capabilities: capabilities.as_deref(),
        agent,
    };
    gate.callers.get(told, make)
}

/// The client as this request's `_meta` describes it. What HTTP headers say of it is not in there.
pub fn described(params: &Params) -> Client {
    let field = |pick: fn(&meta::Meta) -> &Option<crate::wire::Span>| {
        params.meta.as_ref().and_then(|m| pick(m).as_ref()).map(|span| params.raw.part(span))
    };
    let object = |raw: Option<Raw>| raw.filter(|r| r.text().first() == Some(&b'{'));
    Client {
        info: object(field(|m| &m.client_info)),
        capabilities: object(field(|m| &m.capabilities)),
        ..Client::default()
    }
}

/// One JSON body where the outcome comes alone and soon; an SSE stream as soon as something precedes it, or silence
/// would make a proxy give up.
async fn respond(gate: Arc<Gate>, mount: Arc<Mount>, call: Call, id: Id, can_stream: bool) -> Response<Body> {
    let write = Writer::new(&call, id);
    let soon = gate.rules.open_after;
    let mut first = dispatch::begin(gate.clone(), mount, call).boxed();
    let opened =
        if can_stream { tokio::time::timeout(soon, &mut first).await } else { Ok(first.as_mut().await) };
    let outcome = match opened {
        Err(_) => {
            let streamed = Streamed::new(&gate, write);
            return body::events(&gate, "post", streamed.stream(Waiting::First(first)));
        }
        Ok((Some(Event::Done(outcome)), _)) => outcome,
        Ok((Some(Event::Ask(ask)), _)) => write.refusal(&ask),
        Ok((first, rest)) if can_stream => {
            let kind = if write.is_standing() { "listen" } else { "post" };
            let streamed = Streamed::new(&gate, write);
            return body::events(&gate, kind, streamed.stream(Waiting::Events(first, rest)));
        }
        // The client takes one JSON body alone: what precedes the outcome is let go, and nothing can be asked.
        Ok((first, rest)) => Reply::Stream(stream::iter(first).chain(rest).boxed()).outcome().await,
    };
    let lacks = answer::lacks(&outcome).cloned();
    let (status, message) = write.outcome(outcome);
    match lacks {
        None => body::json(&gate, status, message),
        Some(scopes) => body::forbidden(&gate, write.caller(), &scopes, message),
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
