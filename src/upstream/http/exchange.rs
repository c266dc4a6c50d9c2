//! One request and its response: headers out, status and media type in.

use super::events::Events;
use super::giveup::GiveUp;
use super::jar::Jar;
use super::posts::Posts;
use super::strays::Strays;
use super::{HttpConfig, body};
use crate::ticks;
use crate::upstream::client::{self, Fields, HttpClient, Own, Response, Sending, Usual};
use crate::upstream::credentials::{Bearer, Tries};
use crate::upstream::transport::{
    Answer, Answered, Incoming, Outgoing, Route, TransportError, UpstreamSessionId,
};
use crate::wire::{Era, Id, Message, Raw, envelope, headers, json};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// How deep a message of an upstream may be nested (PROTOCOL, *Eras*).
pub(super) const DEPTH: u16 = 128;
/// Notifications, answers and the end of a session are small and wait for no work.
const SEND_WITHIN: Duration = Duration::from_secs(30);
/// What is read of the body of a refusal: a JSON-RPC error, or a page that is thrown away.
const REFUSAL_LIMIT: usize = 256 << 10;

/// What came back for a request.
enum Came {
    One(Incoming),
    Stream(client::Body),
}

pub(super) struct Exchange {
    client: HttpClient,
    posts: Posts,
    get: Usual,
    delete: Usual,
    jar: Option<Jar>,
    pub(super) limit: usize,
    /// The cancels on their way.
    pub(super) tasks: TaskTracker,
    pub(super) strays: Arc<Strays>,
}

impl Exchange {
    pub(super) fn new(client: HttpClient, config: HttpConfig) -> Exchange {
        let mut bare = HeaderMap::new();
        bare.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let agent = HeaderValue::from_static(concat!("plasm-mcp/", env!("CARGO_PKG_VERSION")));
        bare.insert(USER_AGENT, agent);
        bare.extend(config.headers);
        let mut post = bare.clone();
        post.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        post.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Exchange {
            posts: Posts::new(&client, &config.url, &post),
            get: client.usual(Method::GET, config.url.clone(), bare.clone()),
            delete: client.usual(Method::DELETE, config.url, bare),
            client,
            jar: config.cookies.then(Jar::default),
            limit: config.limit,
            tasks: TaskTracker::new(),
            strays: Arc::default(),
        }
    }

    #[expect(clippy::manual_async_fn, reason = "an async function holds what it is given twice")]
    pub(super) fn request(mut giveup: GiveUp) -> impl Future<Output = Result<Answered, TransportError>> {
        async move {
            let came = {
                let come = pin!(giveup.exchange.come(&giveup.route, &giveup.request));
                within(giveup.request.deadline, come).await
            };
            // What came in time is at its end, but for a stream.
            if !matches!(came, Err(TransportError::Timeout) | Ok((Came::Stream(_), _))) {
                giveup.disarm();
            }
            let (came, session) = came?;
            let answer = match came {
                Came::One(incoming) => Answer::One(incoming),
                Came::Stream(body) => Answer::Stream(Events::answering(body, giveup).stream()),
            };
            Ok(Answered { answer, session })
        }
    }

    /// What comes back for a request: all of it, or the stream that it comes by.
    async fn come(
        &self,
        route: &Route,
        request: &Outgoing,
    ) -> Result<(Came, Option<UpstreamSessionId>), TransportError> {
        // What the answer's body need not wait with has its room for itself.
        let (body, session) = {
            let response = {
                let (cookie, name) = (self.cookie(), request.name.as_deref().map(headers::encode));
                let body = envelope::write_request(&request.id, &request.method, &request.params);
                let (usual, said) = self.posts.of_request(route.version, &request.method);
                let mut post = Sending { usual, own: own(route, cookie.as_ref())?, body };
                if route.version.is_some_and(|v| v.era() == Era::Modern) {
                    if !said {
                        post.own.push((&headers::METHOD, value(request.method.as_str())?));
                    }
                    if let Some(name) = &name {
                        post.own.push((&headers::NAME, name.as_bytes()));
                    }
                }
                match &route.bearer {
                    None => self.client.send(&post).await?,
                    Some(bearer) => Box::pin(self.send_with(bearer, &post)).await?,
                }
            };
            self.take_cookies(&response);
            if !response.status.is_success() {
                return Err(Box::pin(self.refusal(route, response)).await.unwrap_or_else(|e| e));
            }
            let session = session_of(&response.fields);
            if is_stream(&response)? {
                return Ok((Came::Stream(response.body), session));
            }
            (response.body, session)
        };
        let text = body::collect(body, self.limit).await?;
        Ok((Came::One(answer_in(text, &request.id)?), session))
    }

    /// The rest of an answer that came as events to another process.
    pub(super) async fn resume(
        self: Arc<Self>,
        route: Route,
        request: Outgoing,
        after: Bytes,
    ) -> Result<Answered, TransportError> {
        let body = match within(request.deadline, self.get(&route, Some(&after))).await {
            Ok(body) => Some(body),
            // It is asked again, as any stream that broke.
            Err(TransportError::Unreachable(_) | TransportError::Broken) => None,
            Err(TransportError::Refused { status: 502..=504, .. }) => None,
            Err(error) => return Err(error),
        };
        let events = Events::resuming(body, GiveUp::watch(self, route, request), after);
        Ok(Answered { answer: Answer::Stream(events.stream()), session: None })
    }

    pub(super) async fn send(self: Arc<Self>, route: Route, message: Bytes) -> Result<(), TransportError> {
        let (post, cookie) = (self.posts.of(route.version), self.cookie());
        self.small(&route, Sending { usual: post, own: own(&route, cookie.as_ref())?, body: message }).await
    }

    pub(super) async fn close(self: Arc<Self>, route: Route) -> Result<(), TransportError> {
        if route.session.is_none() {
            return Ok(());
        }
        let cookie = self.cookie();
        let own = versioned(&route, cookie.as_ref())?;
        match self.small(&route, Sending { usual: &self.delete, own, body: Bytes::new() }).await {
            // An upstream may keep its sessions to itself, or have ended this one already.
            Err(TransportError::Refused { status: 405, .. } | TransportError::SessionGone) => Ok(()),
            other => other,
        }
    }

    /// Sends what is answered by a status alone.
    async fn small(&self, route: &Route, request: Sending<'_>) -> Result<(), TransportError> {
        within(Instant::now() + SEND_WITHIN, async {
            let response = self.send_out(route, &request).await?;
            if !response.status.is_success() {
                return Err(self.refusal(route, response).await?);
            }
            // Read to its end, so that the connection can be used again.
            body::collect(response.body, REFUSAL_LIMIT).await.map(drop)
        })
        .await
    }

    pub(super) async fn standing(
        self: Arc<Self>,
        route: Route,
        after: Option<Bytes>,
    ) -> Result<Option<BoxStream<'static, Result<Incoming, TransportError>>>, TransportError> {
        match self.get(&route, after.as_deref()).await {
            Ok(body) => {
                let forever = Instant::now() + FOREVER;
                Ok(Some(Events::new(self, route, Some(body), forever).stream()))
            }
            // What knows no GET at all says 501 (RFC 9110 9.1).
            Err(TransportError::Refused { status: 405 | 501, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens the stream of a session, or goes on with one after the event `after`.
    pub(super) async fn get(
        &self,
        route: &Route,
        after: Option<&[u8]>,
    ) -> Result<client::Body, TransportError> {
        let cookie = self.cookie();
        let mut own = versioned(route, cookie.as_ref())?;
        if let Some(id) = after {
            HeaderValue::from_bytes(id).map_err(|_| garbage("an event id that no header can bear"))?;
            own.push((&headers::LAST_EVENT_ID, id));
        }
        let get = Sending { usual: &self.get, own, body: Bytes::new() };
        let response = self.send_out(route, &get).await?;
        if !response.status.is_success() {
            return Err(self.refusal(route, response).await?);
        }
        match response.fields.get(&CONTENT_TYPE).is_some_and(|k| headers::is_media(k, headers::EVENT_STREAM))
        {
            true => Ok(response.body),
            false => Err(garbage("a GET was not answered by an event stream")),
        }
    }

    fn cookie(&self) -> Option<HeaderValue> {
        self.jar.as_ref().and_then(Jar::cookie)
    }

    fn take_cookies(&self, response: &Response) {
        if let Some(jar) = &self.jar {
            jar.take(&response.fields);
        }
    }

    async fn send_out(&self, route: &Route, request: &Sending<'_>) -> Result<Response, TransportError> {
        let response = match &route.bearer {
            None => self.client.send(request).await?,
            Some(bearer) => self.send_with(bearer, request).await?,
        };
        self.take_cookies(&response);
        Ok(response)
    }

    async fn send_with(&self, bearer: &Bearer, request: &Sending<'_>) -> Result<Response, TransportError> {
        let mut tries = Tries::begin(bearer).await?;
        loop {
            let header = tries.header();
            // The last of a name counts.
            let last = header.as_ref().map(|value| (&AUTHORIZATION, value.as_bytes()));
            let own = request.own.iter().copied().chain(last).collect();
            let (usual, body) = (request.usual, request.body.clone());
            let response = self.client.send(&Sending { usual, own, body }).await?;
            let refusal = match response.status.is_success() {
                true => None,
                false => tries.refusal(response.status, response.fields.map()),
            };
            let Some(refusal) = refusal else { return Ok(response) };
            self.take_cookies(&response);
            tries.mend(refusal).await?;
        }
    }

    /// What a status other than success says, with the JSON-RPC error in its body where there is one.
    async fn refusal(&self, route: &Route, response: Response) -> Result<TransportError, TransportError> {
        let status = response.status;
        let json = response.fields.get(&CONTENT_TYPE).is_some_and(|k| headers::is_media(k, headers::JSON));
        // The status counts, whatever becomes of the body.
        let text = body::collect(response.body, REFUSAL_LIMIT).await.unwrap_or_default();
        let error = json.then(|| error_in(text)).flatten();
        let unknown = status == StatusCode::NOT_FOUND
            || status == StatusCode::BAD_REQUEST && error.as_ref().is_some_and(names_session);
        if route.session.is_some() && unknown {
            return Ok(TransportError::SessionGone);
        }
        Ok(TransportError::Refused { status: status.as_u16(), error })
    }
}

/// Longer than any stream is held; a deadline must be a time.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

async fn within<T>(
    deadline: Instant,
    future: impl Future<Output = Result<T, TransportError>>,
) -> Result<T, TransportError> {
    ticks::within(deadline, future).await.unwrap_or(Err(TransportError::Timeout))
}

/// Whether an answer comes as events, or as one JSON body. Errors: as neither.
fn is_stream(response: &Response) -> Result<bool, TransportError> {
    // Some servers forget the media type of what is JSON.
    let kind = response.fields.get(&CONTENT_TYPE).unwrap_or(headers::JSON.as_bytes());
    let json = headers::is_media(kind, headers::JSON);
    if !json && headers::is_media(kind, headers::EVENT_STREAM) {
        return Ok(true);
    }
    if matches!(response.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Err(garbage("a request was accepted and not answered"));
    }
    match json {
        true => Ok(false),
        false => Err(garbage("an answer that is neither JSON nor an event stream")),
    }
}

/// The answer that is one JSON body.
fn answer_in(text: Bytes, to: &Id) -> Result<Incoming, TransportError> {
    let message = envelope::read_upstream(text, DEPTH).map_err(|e| garbage(e.to_string()))?;
    match &message {
        Message::Response(r) if r.id.as_ref().is_none_or(|id| id == to) => Ok(Incoming { message, at: None }),
        Message::Response(_) => Err(garbage("an answer to another request")),
        _ => Err(garbage("a message that is no answer")),
    }
}

fn error_in(text: Bytes) -> Option<Raw> {
    match envelope::read_upstream(text, DEPTH) {
        Ok(Message::Response(response)) => response.outcome.err(),
        _ => None,
    }
}

/// Servers older than the rule answer 400 for a session that they do not know, and say so in words.
fn names_session(error: &Raw) -> bool {
    let text = error.text();
    let members = json::lax_members(text, 0).unwrap_or_default();
    let message = members.iter().find(|m| m.is("message")).and_then(|m| json::string(text, &m.value));
    message.is_some_and(|m| m.to_ascii_lowercase().contains("session"))
}

fn session_of(fields: &Fields) -> Option<UpstreamSessionId> {
    let id = str::from_utf8(fields.get(&headers::SESSION_ID)?).ok()?;
    // Visible ASCII only (2025-11-25 transports, *Session Management*).
    let visible = !id.is_empty() && id.bytes().all(|b| matches!(b, 0x21..=0x7e));
    visible.then(|| UpstreamSessionId(id.into()))
}

/// The headers of a request that goes this way, where they name the version.
fn versioned<'a>(route: &'a Route, cookie: Option<&'a HeaderValue>) -> Result<Own<'a>, TransportError> {
    let mut versioned = Own::new();
    if let Some(version) = route.version {
        versioned.push((&headers::PROTOCOL_VERSION, version.as_str().as_bytes()));
    }
    versioned.extend(own(route, cookie)?);
    Ok(versioned)
}

/// The same without the version.
fn own<'a>(route: &'a Route, cookie: Option<&'a HeaderValue>) -> Result<Own<'a>, TransportError> {
    let mut own = Own::new();
    if let Some(session) = &route.session {
        own.push((&headers::SESSION_ID, value(&session.0)?));
    }
    for (name, value) in &route.headers {
        own.push((name, value.as_bytes()));
    }
    if let Some(cookie) = cookie {
        own.push((&COOKIE, cookie.as_bytes()));
    }
    Ok(own)
}

/// What is written as it is. Errors: it has characters that no header may hold.
fn value(text: &str) -> Result<&[u8], TransportError> {
    // Without a way out it is looked at many bytes at a time.
    let fits = text.bytes().fold(true, |fits, byte| fits & matches!(byte, b' '..=b'~' | b'\t'));
    if fits { Ok(text.as_bytes()) } else { Err(garbage("a value that no header can bear")) }
}

pub(super) fn garbage(why: impl Into<Cow<'static, str>>) -> TransportError {
    TransportError::Garbage(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_future_of_a_request_fits_a_block_that_is_quickly_had() {
        fn size<F>(_: impl Fn(GiveUp) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(Exchange::request) <= 1024, "{}", size(Exchange::request));
    }

    #[test]
    fn only_a_400_that_speaks_of_the_session_means_that_it_is_gone() {
        let error = |text: &'static str| Raw::trusted(text);
        assert!(names_session(&error(r#"{"code":-32000,"message":"Bad Request: No valid session ID"}"#)));
        assert!(!names_session(&error(r#"{"code":-32602,"message":"no such tool","data":"session"}"#)));
    }

    #[test]
    fn a_session_id_that_is_not_visible_ascii_is_none() {
        let of = |value| session_of(&Fields::of(&[("Mcp-Session-Id", value)]));
        assert!(of("abc").is_some());
        for bad in ["a b", "é", ""] {
            assert!(of(bad).is_none(), "{bad}");
        }
    }
}
