//! HTTP+SSE of 2024-11-05, the client's side: one GET whose stream brings all that the upstream says, and a POST for
//! each message to it. The same multiplexer as for children stands on it; a stream that ends is the channel's end.

mod endpoint;
mod post;

use super::channel::{Channel, MessageLimits, Outbound};
use super::client::{Body, HttpClient};
use super::credentials::{Bearer, Tries};
use super::pool::{Start, Started};
use super::transport::{Sent, Transport, TransportError};
use crate::mcp::UpstreamId;
use crate::wire::sse::{Decoder, SseEvent};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body_util::BodyExt;
use post::Post;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// An upstream's `/sse` address and how it is spoken to.
#[derive(Clone)]
pub struct SseSpec {
    pub name: UpstreamId,
    pub url: Uri,
    /// Sent with every request: the configuration's own headers, credentials among them.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The gateway's own credential; one of each caller's own is not for channels.
    pub bearer: Option<Bearer>,
    pub client: HttpClient,
    pub limits: MessageLimits,
    /// Longest time from the request to the `endpoint` event.
    pub start_timeout: Duration,
}

impl Start for SseSpec {
    fn start(&self, stop: CancellationToken) -> Sent<Started> {
        let spec = self.clone();
        Box::pin(async move {
            let silent = |_| TransportError::Unreachable("no endpoint event came in time".into());
            timeout(spec.start_timeout, spec.open(stop)).await.map_err(silent)?
        })
    }
}

impl SseSpec {
    async fn open(&self, stop: CancellationToken) -> Result<Started, TransportError> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = self.url.clone();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        let response = send(&self.client, self.bearer.as_ref(), request).await?;
        if !response.status().is_success() {
            return Err(TransportError::Refused { status: response.status().as_u16(), error: None });
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        if !kind.split(';').next().is_some_and(|k| k.trim().eq_ignore_ascii_case("text/event-stream")) {
            return Err(TransportError::Garbage("its answer is no event stream".into()));
        }
        let decoder = Decoder::new(self.limits.bytes);
        let mut events = Events { body: response.into_body(), decoder };
        let (channel, outbound) = Channel::new(self.name.as_str(), self.limits);
        let place = loop {
            let mut place = None;
            for event in events.next().await? {
                match event.event.as_deref() {
                    Some("endpoint") if place.is_none() => place = Some(self.place(&event)?),
                    _ => take(&channel, event),
                }
            }
            if let Some(place) = place {
                break place;
            }
        };
        tracing::debug!(upstream = %self.name, "HTTP+SSE stream opened");
        let (client, headers, bearer) = (self.client.clone(), self.headers.clone(), self.bearer.clone());
        let post = Post { client, place, headers, bearer };
        let run = run(events, Arc::new(post), channel.clone(), outbound, stop);
        Ok(Started { channel, run: Box::pin(run) })
    }

    /// Where messages are posted to: of the same origin as the stream, for our credential goes there.
    fn place(&self, event: &SseEvent) -> Result<Uri, TransportError> {
        let said = std::str::from_utf8(&event.data).unwrap_or_default();
        endpoint::resolve(&self.url, said).map_err(|why| {
            tracing::warn!(upstream = %self.name, why, "refused the endpoint that the upstream named");
            TransportError::Garbage(why.into())
        })
    }
}

struct Events {
    body: Body,
    decoder: Decoder,
}

impl Events {
    /// The next events, one or more. Errors: the stream ended, or an event is over the limit. Cancel safe.
    async fn next(&mut self) -> Result<Vec<SseEvent>, TransportError> {
        loop {
            let frame = self.body.frame().await.ok_or(TransportError::Broken)?;
            let Ok(data) = frame.map_err(|_| TransportError::Broken)?.into_data() else { continue };
            let events = self.decoder.push(&data).map_err(|long| TransportError::TooLarge(long.0))?;
            if !events.is_empty() {
                return Ok(events);
            }
        }
    }
}

fn take(channel: &Channel, event: SseEvent) {
    if matches!(event.event.as_deref(), None | Some("message")) && !event.data.is_empty() {
        channel.take(event.data);
    }
}

async fn run(
    mut events: Events,
    post: Arc<Post>,
    channel: Arc<Channel>,
    outbound: Outbound,
    stop: CancellationToken,
) {
    let reading = async {
        loop {
            match events.next().await {
                Ok(events) => events.into_iter().for_each(|event| take(&channel, event)),
                Err(why) => return why,
            }
        }
    };
    let why = tokio::select! {
        why = reading => why,
        () = post::all(post, channel.clone(), outbound) => TransportError::Broken,
        () = channel.gone() => TransportError::Broken,
        () = stop.cancelled() => TransportError::Broken,
    };
    channel.end(why);
}

/// A request that carries `message` to `place`.
fn carrying(
    place: &Uri,
    message: Bytes,
    headers: impl Iterator<Item = (HeaderName, HeaderValue)>,
) -> Request<Bytes> {
    let mut request = Request::new(message);
    *request.method_mut() = Method::POST;
    *request.uri_mut() = place.clone();
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in headers {
        request.headers_mut().insert(name, value);
    }
    request
}

/// Sends a request with the credential that it needs.
async fn send(
    client: &HttpClient,
    bearer: Option<&Bearer>,
    mut request: Request<Bytes>,
) -> Result<Response<Body>, TransportError> {
    let Some(bearer) = bearer else { return Ok(client.request(request).await?) };
    let mut tries = Tries::begin(bearer).await?;
    loop {
        if let Some(value) = tries.header() {
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        let response = client.request(request.clone()).await?;
        let Some(refusal) = tries.refusal(response.status(), response.headers()) else { return Ok(response) };
        tries.mend(refusal).await?;
    }
}
