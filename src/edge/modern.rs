//! The modern HTTP edge (2026-07-28 Streamable HTTP): every request stands alone; closing its answer cancels it.

use super::gate::{Gate, Mount};
use super::modern_headers::{self, Misformed};
use super::{answer, body, dispatch, fill};
use crate::mcp::{Ask, Call, Caller, Client, Event, Note, Outcome, Reason, Reply};
use crate::telemetry::metrics;
use crate::wire::params::Params;
use crate::wire::sse::{self, SseEvent};
use crate::wire::{Id, Message, Method, Raw, Request, envelope, headers, meta};
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt, stream};
use http::{HeaderMap, Response, StatusCode};
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Answers a message whose `_meta` says that it is modern.
pub async fn answer(gate: Arc<Gate>, mount: Arc<Mount>, map: HeaderMap, message: Message) -> Response<Body> {
    let request = match message {
        Message::Request(request) => request,
        // No notification of a modern client means anything over HTTP: it is accepted and not run.
        Message::Notification(_) => return body::empty(&gate, StatusCode::ACCEPTED),
        Message::Response(_) => {
            return misformed(&gate, None, not_ours("a modern client sends no responses"));
        }
    };
    let id = request.id.clone();
    let (call, method) = match read(&gate, &mount, &map, request).await {
        Ok(read) => read,
        Err(fault) => return misformed(&gate, Some(&id), fault),
    };
    let can_stream = headers::accepts(&map, "text", "event-stream");
    if method == Method::Listen && !can_stream {
        return misformed(
            &gate,
            Some(&id),
            not_ours("subscriptions/listen needs text/event-stream in Accept"),
        );
    }
    respond(gate, mount, call, id, can_stream).await
}

fn not_ours(why: &str) -> Misformed {
    Misformed { code: crate::wire::code::INVALID_REQUEST, why: why.to_owned(), data: None }
}

/// The answer to a modern version header without modern `_meta`, and to other faults of form.
pub fn misformed(gate: &Gate, id: Option<&Id>, fault: Misformed) -> Response<Body> {
    let error = answer::error_object(fault.code, &fault.why, fault.data);
    body::json(gate, StatusCode::BAD_REQUEST, envelope::write_response(id, Err(&error)))
}

/// Checks headers and `_meta`, and makes the call.
async fn read(
    gate: &Arc<Gate>,
    mount: &Mount,
    map: &HeaderMap,
    request: Request,
) -> Result<(Call, Method), Misformed> {
    let Request { method, params, .. } = request;
    let (version, mixed) = modern_headers::version(&gate.rules, map, &params)?;
    modern_headers::names(map, &method, &params, mixed)?;
    let client = Arc::new(described(gate, map, &params));
    if mixed {
        metrics().compat.with_label_values(&["mixed_version_header"]).inc();
        tracing::warn!(client = client.name(), "a legacy version header over modern _meta was followed");
    }
    let session = Arc::new(Unkept("modern".into()));
    let caller = Arc::new(Caller {
        principal: gate.anonymous.clone(),
        profile: mount.name.clone(),
        client,
        version,
        session,
    });
    if method == Method::ToolsCall {
        modern_headers::params(&*mount.backend, &caller, map, &params, mixed).await?;
    }
    let call = Call {
        progress: params.progress(),
        caller,
        method: method.clone(),
        params,
        resume: None,
        cancel: CancellationToken::new(),
        deadline: Instant::now() + gate.rules.call,
    };
    Ok((call, method))
}

/// The client as this request's `_meta` describes it.
fn described(gate: &Gate, map: &HeaderMap, params: &Params) -> Client {
    let field = |pick: fn(&meta::Meta) -> &Option<crate::wire::Span>| {
        params.meta.as_ref().and_then(|m| pick(m).as_ref()).map(|span| params.raw.part(span))
    };
    let object = |raw: Option<Raw>| raw.filter(|r| r.text().first() == Some(&b'{'));
    Client {
        info: object(field(|m| &m.client_info)),
        capabilities: object(field(|m| &m.capabilities)),
        user_agent: map.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok()).map(Into::into),
        headers: super::http::forwarded(gate, map),
    }
}

/// One JSON body where the outcome comes alone and soon; an SSE stream as soon as something precedes it, or silence
/// would make a proxy give up.
async fn respond(gate: Arc<Gate>, mount: Arc<Mount>, call: Call, id: Id, can_stream: bool) -> Response<Body> {
    let writer = Writer { gate: gate.clone(), caller: call.caller.clone(), method: call.method.clone(), id };
    let soon = gate.rules.open_after;
    let mut first = first_event(gate.clone(), mount, call).boxed();
    let opened =
        if can_stream { tokio::time::timeout(soon, &mut first).await } else { Ok(first.as_mut().await) };
    let outcome = match opened {
        Err(_) => return body::events(&gate, "post", writer.stream(Waiting::First(first))),
        Ok((Some(Event::Done(outcome)), _)) => outcome,
        Ok((Some(Event::Ask(ask)), _)) => writer.refusal(&ask),
        Ok((first, rest)) if can_stream => {
            let kind = if writer.method == Method::Listen { "listen" } else { "post" };
            return body::events(&gate, kind, writer.stream(Waiting::Events(first, rest)));
        }
        // The client takes one JSON body alone: what precedes the outcome is let go, and nothing can be asked.
        Ok((first, rest)) => Reply::Stream(stream::iter(first).chain(rest).boxed()).outcome().await,
    };
    let (status, message) = writer.outcome(outcome);
    body::json(&gate, status, message)
}

type Events = BoxStream<'static, Event>;
type First = BoxFuture<'static, (Option<Event>, Events)>;

/// Runs the call up to its first event. A place among the calls in flight is held until the outcome.
async fn first_event(gate: Arc<Gate>, mount: Arc<Mount>, call: Call) -> (Option<Event>, Events) {
    let standing = call.method == Method::Listen;
    let place = match gate.places.clone().try_acquire_owned() {
        Ok(place) => place,
        Err(_) => {
            let upstream = mount.backend.id().clone();
            return (
                Some(Event::Done(Outcome::Error(Reason::Busy { upstream }.into()))),
                stream::empty().boxed(),
            );
        }
    };
    match dispatch::run(&gate, &mount, call).await {
        Reply::One(outcome) => (Some(Event::Done(outcome)), stream::empty().boxed()),
        Reply::Stream(mut events) => {
            let first = events.next().await;
            // A standing stream costs no place: it works for nobody while it waits.
            let place = (!standing).then_some(place);
            let rest = events.map(move |event| {
                let _held = &place;
                event
            });
            (first, rest.boxed())
        }
    }
}

enum Waiting {
    First(First),
    Events(Option<Event>, Events),
    Over,
}

/// Writes one call's events for its client.
struct Writer {
    gate: Arc<Gate>,
    caller: Arc<Caller>,
    method: Method,
    id: Id,
}

impl Writer {
    fn outcome(&self, outcome: Outcome) -> (StatusCode, Bytes) {
        let mut rendered = answer::render(self.caller.version, &self.method, outcome);
        rendered.outcome = rendered.outcome.map(|result| fill::modern(&self.method, result));
        (rendered.status, envelope::write_response(Some(&self.id), rendered.as_ref()))
    }

    fn note(&self, note: Note) -> Bytes {
        let mut params = note.params;
        if self.method == Method::Listen {
            params = subscribed(params, &self.id);
        }
        envelope::write_notification(&note.method, &params)
    }

    /// The end of a standing stream that this pod closes (2026-07-28 subscriptions, *Graceful Closure*).
    fn closure(&self) -> Bytes {
        let mut own = Raw::trusted("{}");
        own.insert_member(0, meta::SUBSCRIPTION_ID, self.id.token());
        let mut result = Raw::trusted(r#"{"resultType":"complete"}"#);
        result.insert_member(0, "_meta", &own.to_bytes());
        let result = fill::modern(&self.method, result);
        envelope::write_response(Some(&self.id), Ok(&result))
    }

    /// A question of a legacy upstream cannot be asked of a modern client while the call is open: the call ends with
    /// an answer that says so, at once.
    fn refusal(&self, ask: &Ask) -> Outcome {
        let reason = if self.caller.client.answers(&ask.method) {
            Reason::CannotBridge { upstream: ask.upstream.clone(), ask: ask.method.clone() }
        } else {
            let key = dispatch::capability_of(&ask.method).unwrap_or("experimental");
            Reason::MissingCapability(Raw::of(&serde_json::json!({key: {}})))
        };
        Outcome::Error(reason.into())
    }

    fn stream(self, state: Waiting) -> impl futures_util::Stream<Item = Bytes> + Send {
        // A stream that opens because nothing came says so at once, for the proxies on the way.
        let opening = matches!(state, Waiting::First(_)).then(|| Bytes::from_static(sse::COMMENT));
        let lines = stream::unfold((self, state), |(writer, state)| async move {
            let (bytes, state) = writer.step(state).await?;
            Some((bytes, (writer, state)))
        });
        stream::iter(opening).chain(lines)
    }

    /// The next bytes of the stream, and what is waited for after them.
    async fn step(&self, state: Waiting) -> Option<(Bytes, Waiting)> {
        let comment = Bytes::from_static(sse::COMMENT);
        let quiet = self.gate.rules.keep_alive;
        let (event, rest) = match state {
            Waiting::Over => return None,
            Waiting::Events(Some(event), rest) => (Some(event), rest),
            Waiting::First(mut first) => tokio::select! {
                (event, rest) = &mut first => (event, rest),
                () = tokio::time::sleep(quiet) => return Some((comment, Waiting::First(first))),
            },
            Waiting::Events(None, mut rest) => tokio::select! {
                event = rest.next() => (event, rest),
                () = self.gate.draining.cancelled(), if self.method == Method::Listen => {
                    return Some((data(self.closure()), Waiting::Over));
                }
                () = tokio::time::sleep(quiet) => return Some((comment, Waiting::Events(None, rest))),
            },
        };
        Some(match event {
            Some(Event::Note(note)) => (data(self.note(note)), Waiting::Events(None, rest)),
            Some(Event::Ask(ask)) => (data(self.outcome(self.refusal(&ask)).1), Waiting::Over),
            Some(Event::Done(outcome)) if self.method == Method::Listen => match outcome {
                Outcome::Error(_) => (data(self.outcome(outcome).1), Waiting::Over),
                _ => (data(self.closure()), Waiting::Over),
            },
            Some(Event::Done(outcome)) => (data(self.outcome(outcome).1), Waiting::Over),
            // A backend that ends its stream without an outcome has lost the call.
            None => (data(self.outcome(Outcome::Error(Reason::Cancelled.into())).1), Waiting::Over),
        })
    }
}

fn data(message: Bytes) -> Bytes {
    sse::write(&SseEvent { data: message, ..SseEvent::default() })
}

/// Adds the subscription's id to a notification's `_meta` (2026-07-28 subscriptions, *Receiving Notifications*).
fn subscribed(params: Raw, id: &Id) -> Raw {
    match Params::read(params) {
        Ok(mut params) => {
            match params.meta.as_ref().and_then(|m| m.subscription_id.clone()) {
                Some(span) => params.raw.edit(span, id.token().clone()),
                None => params.add_meta(&[(meta::SUBSCRIPTION_ID, id.token().clone())]),
            }
            params.raw
        }
        Err(_) => Raw::trusted("{}"),
    }
}

/// Keeps nothing: stands in until the session room's pooled identity is here.
struct Unkept(Arc<str>);

impl crate::mcp::Session for Unkept {
    fn id(&self) -> Option<&crate::mcp::SessionId> {
        None
    }

    fn key(&self) -> &Arc<str> {
        &self.0
    }

    fn load(
        &self,
        _: &crate::mcp::UpstreamId,
    ) -> BoxFuture<'static, Result<Option<Bytes>, crate::mcp::StoreAway>> {
        futures_util::future::ready(Ok(None)).boxed()
    }

    fn swap(
        &self,
        _: &crate::mcp::UpstreamId,
        _: Option<Bytes>,
        _: Option<Bytes>,
    ) -> BoxFuture<'static, Result<bool, crate::mcp::StoreAway>> {
        futures_util::future::ready(Ok(true)).boxed()
    }
}
