//! What the internal listener answers: the requests of other pods for the channels that this pod has.

use super::frames::{BEAT, Frame, SentIntroduction};
use super::leased::Hold;
use super::seal::{self, Opened, PATH, Refusal, Want};
use super::{Arc, Relay};
use crate::telemetry::{metrics, traces};
use crate::upstream::transport::{Answer, Answered, TransportError};
use crate::wire::Method;
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{Request, Response, StatusCode};
use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;
use tokio::time::timeout;

/// A sealed head holds a route, and of a client's headers no more than its own head may bear.
const HEAD: usize = 256 << 10;
/// The longest that a request may take to arrive.
const ARRIVES: Duration = Duration::from_secs(30);

/// Why a request is not taken: its status tells the other pod what to do, its text a person.
struct NotTaken(StatusCode, &'static str);

impl From<Refusal> for NotTaken {
    fn from(refusal: Refusal) -> NotTaken {
        let status = match refusal {
            Refusal::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            Refusal::Full => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::FORBIDDEN,
        };
        if status == StatusCode::FORBIDDEN {
            tracing::warn!(why = %refusal, "refused a request at the internal listener");
        }
        NotTaken(status, "refused\n")
    }
}

impl Relay {
    /// Answers a request at the internal listener. What is not sealed by this gateway's keyring, for this pod, of now and
    /// for the first time, is 403, and is not read further than its head.
    pub async fn answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let taken = match timeout(ARRIVES, self.take(request)).await {
            Ok(taken) => taken,
            Err(_) => Err(NotTaken(StatusCode::REQUEST_TIMEOUT, "too slow\n")),
        };
        match taken {
            Ok(frames) => {
                metrics().relayed.with_label_values(&["taken"]).inc();
                let token = self.settings.tasks.token();
                let frames = beating(frames).map(move |frame| {
                    let _counted = &token;
                    Ok::<_, Infallible>(frame)
                });
                Response::new(Body::from_stream(frames))
            }
            Err(NotTaken(status, why)) => {
                metrics().relayed.with_label_values(&["refused"]).inc();
                let mut response = Response::new(Body::from(why));
                *response.status_mut() = status;
                response
            }
        }
    }

    async fn take(&self, request: Request<Body>) -> Result<BoxStream<'static, Frame>, NotTaken> {
        if request.uri().path() != PATH || request.method() != http::Method::POST {
            return Err(NotTaken(StatusCode::NOT_FOUND, "nothing is here\n"));
        }
        let mut body = request.into_body().into_data_stream();
        let mut text = BytesMut::new();
        let end = loop {
            if let Some(end) = memchr::memchr(b'\n', &text) {
                break end;
            }
            let Some(Ok(more)) = body.next().await.filter(|_| text.len() <= HEAD) else {
                return Err(Refusal::Foreign.into());
            };
            text.extend_from_slice(&more);
        };
        let head = text.split_to(end);
        let head = std::str::from_utf8(&head).map_err(|_| Refusal::Foreign)?;
        let settings = &self.settings;
        let opened = seal::open(&settings.keyring, &self.seen, &settings.me, head)?;
        let _newline = text.split_to(1);
        while let Some(more) = body.next().await {
            let Ok(more) = more else { return Err(Refusal::Body.into()) };
            if text.len() + more.len() > settings.largest {
                return Err(NotTaken(StatusCode::PAYLOAD_TOO_LARGE, "too large\n"));
            }
            text.extend_from_slice(&more);
        }
        let text = text.freeze();
        if !opened.is_of(&text) {
            return Err(Refusal::Body.into());
        }
        self.frames(opened, text)
    }

    /// What is answered. Nothing begins before it is polled.
    fn frames(&self, opened: Opened, body: Bytes) -> Result<BoxStream<'static, Frame>, NotTaken> {
        const GONE: NotTaken = NotTaken(StatusCode::GONE, "no such channel\n");
        const MALFORMED: NotTaken = NotTaken(StatusCode::BAD_REQUEST, "no such request\n");
        let Opened { lease, want, .. } = opened;
        let hold = self.holds().get(&lease).cloned().ok_or(GONE)?;
        // Before it is looked whether the channel may still be used: who ends it waits for whoever was told that it may.
        let guest = hold.guests.token();
        let draining = &self.settings.draining;
        // An answer to what the upstream asked belongs to a call that has begun.
        let begins = !matches!(want, Want::Send { .. });
        if begins && (hold.is_given_up() || draining.is_cancelled()) {
            return Err(GONE);
        }
        if let Want::Agreed = want {
            let sent = SentIntroduction::read(&body).ok_or(MALFORMED)?;
            return Ok(stream::once(agreed(hold, sent)).boxed());
        }
        let transport = hold.transport().cloned().ok_or(GONE)?;
        match want {
            Want::Send { route } => {
                let sending = transport.send(route.read(), body);
                let sent = async { sending.await.map_or_else(Frame::Error, |()| Frame::Done) };
                Ok(stream::once(sent).boxed())
            }
            Want::Standing { route } => {
                let opening = transport.standing(route.read(), None);
                let frames = stream::once(opening).flat_map(|opened| match opened {
                    Ok(Some(messages)) => {
                        stream::once(ready(Frame::Done)).chain(messages.map(Frame::of)).boxed()
                    }
                    Ok(None) => one(Frame::Error(TransportError::Unreachable("it says nothing".into()))),
                    Err(error) => one(Frame::Error(error)),
                });
                Ok(self.until_draining(frames.boxed()))
            }
            want => {
                let (route, request) = want.outgoing(body).ok_or(MALFORMED)?;
                let endless = request.method == Method::Listen;
                let span = traces::relayed(&route.headers, request.method.label());
                let frames = stream::once(transport.request(route, request)).flat_map(answered);
                if endless {
                    return Ok(self.until_draining(frames.boxed()));
                }
                let counted = frames.map(move |frame| {
                    let _counted = (&guest, &span);
                    frame
                });
                Ok(counted.boxed())
            }
        }
    }

    /// A stream that has no end of its own ends with the pod, and whoever holds it begins anew elsewhere.
    fn until_draining(&self, frames: BoxStream<'static, Frame>) -> BoxStream<'static, Frame> {
        let draining = self.settings.draining.clone().cancelled_owned();
        let last = stream::once(ready(Frame::Error(TransportError::Broken)));
        frames.take_until(draining).chain(last).boxed()
    }
}

async fn agreed(hold: Arc<Hold>, sent: SentIntroduction) -> Frame {
    let moved = || Frame::Error(TransportError::Unreachable("the channel has moved".into()));
    let Some(link) = hold.link.upgrade() else { return moved() };
    let owner = sent.owner.clone();
    match link.host(&owner, sent.introduction()).await {
        Ok((transport, agreed)) if hold.is_of(&transport) => Frame::Agreed(agreed),
        // Another channel has taken its place meanwhile.
        Ok(_) => moved(),
        Err(error) => Frame::Error(error),
    }
}

fn answered(answered: Result<Answered, TransportError>) -> BoxStream<'static, Frame> {
    match answered {
        Ok(Answered { answer: Answer::One(incoming), .. }) => one(Frame::Message(incoming.message)),
        Ok(Answered { answer: Answer::Stream(messages), .. }) => messages.map(Frame::of).boxed(),
        Err(error) => one(Frame::Error(error)),
    }
}

fn one(frame: Frame) -> BoxStream<'static, Frame> {
    stream::once(ready(frame)).boxed()
}

/// The frames as bytes, and beats where they keep silent. What the other pod does not read is not asked for.
fn beating(frames: BoxStream<'static, Frame>) -> impl stream::Stream<Item = Bytes> + Send + 'static {
    stream::unfold(frames, |mut frames| async {
        let frame = match timeout(BEAT, frames.next()).await {
            Ok(frame) => frame?,
            Err(_) => Frame::Beat,
        };
        Some((frame.write(), frames))
    })
}
