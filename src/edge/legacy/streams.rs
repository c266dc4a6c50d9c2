//! The SSE bodies of the legacy edges: frames of a session's streams as events, with comments in the silences.

use super::exchange;
use super::peer::Peer;
use crate::edge::{answer, body};
use crate::session::{Follower, Frame, Listener};
use crate::wire::sse::{self, SseEvent};
use crate::wire::{Version, code, envelope};
use axum::body::Body;
use bytes::Bytes;
use futures_util::future::{BoxFuture, OptionFuture};
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, Stream, StreamExt};
use http::Response;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

/// What clients are asked to wait before they reconnect, in milliseconds; jittered by as much, for all come at once.
const RETRY: u64 = 500;

/// Silence on a stream of HTTP+SSE, after its last call, that must pass before it may close.
const SILENCE: Duration = Duration::from_millis(500);

/// A stream that answers a POST, from its beginning.
pub fn answering(peer: &Peer, follower: Follower) -> Response<Body> {
    let follower = inheriting(peer, follower);
    let id = follower.priming_id();
    let prime = primed(peer.caller.version).then(|| prime(id.clone()));
    // Older clients do not know that such a stream may close before its answer.
    let moves = primed(peer.caller.version);
    let parting = Parting::answer(peer, moves, id);
    body::events(&peer.gate, "post", events(peer, prime, follower.into_stream(), parting, None))
}

/// The rest of a stream that answered a POST.
pub fn resumed(peer: &Peer, follower: Follower) -> Response<Body> {
    let follower = inheriting(peer, follower);
    // Who has resumed once can do so again.
    let parting = Parting::answer(peer, true, follower.priming_id());
    body::events(&peer.gate, "get", events(peer, None, follower.into_stream(), parting, None))
}

/// The reader of a stream: should its pod be gone, its calls are gone on with here.
fn inheriting(peer: &Peer, follower: Follower) -> Follower {
    let peer = peer.clone();
    follower.with_heir(Arc::new(move |inherited| exchange::take_over(peer.clone(), inherited)))
}

/// A session's GET stream.
pub fn standing(peer: &Peer, listener: Listener) -> Response<Body> {
    let id = listener.priming_id();
    let prime = id.clone().filter(|_| primed(peer.caller.version)).map(prime);
    let frames = listener.until(peer.gate.lifecycle.draining.clone()).into_stream();
    let parting = Parting { id, at_end: true, ..Parting::never() };
    let ended = peer.gate.auth.ended(&peer.caller.access, false);
    body::events(&peer.gate, "get", events(peer, prime, frames, parting, ended))
}

/// The stream of HTTP+SSE, after `opening`. It cannot be resumed, and a client that opens another has a new session: it
/// closes when nothing more is to come on it, as far as this pod can know.
pub fn sse(peer: &Peer, opening: Bytes, listener: Listener) -> Response<Body> {
    let until = CancellationToken::new();
    let (lifecycle, session, tell) = (peer.gate.lifecycle.clone(), peer.session.clone(), until.clone());
    let silent = move || {
        let (lifecycle, session, tell) = (lifecycle.clone(), session.clone(), tell.clone());
        async move {
            lifecycle.quiet.cancelled().await;
            let silence = lifecycle.linger().max(SILENCE);
            tokio::time::sleep(silence).await;
            while session.as_ref().is_some_and(|session| session.is_calling()) {
                tokio::time::sleep(silence).await;
            }
            tell.cancel();
            std::future::pending().await
        }
        .boxed()
    };
    let frames = listener.until(until).into_stream();
    let parting = Parting { at_end: true, ..Parting::when(silent) };
    // Its client cannot come back to it with another token: each message that it sends shows one.
    let ended = peer.gate.auth.ended(&peer.caller.access, true);
    body::events(&peer.gate, "sse", events(peer, Some(opening), frames, parting, ended))
}

/// A stream that answers a POST of a client without a session: no ids, for it cannot be resumed.
pub fn passing(peer: &Peer, messages: mpsc::Receiver<Bytes>) -> Response<Body> {
    let frames = ReceiverStream::new(messages).map(|message| Frame::Message { id: None, message });
    body::events(&peer.gate, "post", events(peer, None, frames.boxed(), Parting::never(), None))
}

/// How a stream closes while its pod drains, so that the client goes on elsewhere.
struct Parting {
    /// The id of the last event, from which it goes on.
    id: Option<String>,
    /// Resolves when the stream is to close; made anew after each event.
    when: Box<dyn Fn() -> BoxFuture<'static, ()> + Send>,
    /// Its reader is told instead, and ends between two events.
    at_end: bool,
}

impl Parting {
    /// Not before its own end.
    fn never() -> Parting {
        Parting::when(|| std::future::pending().boxed())
    }

    fn when(when: impl Fn() -> BoxFuture<'static, ()> + Send + 'static) -> Parting {
        Parting { id: None, when: Box::new(when), at_end: false }
    }

    /// An answer's stream: its call runs on here, and its events stand in the session's log, for whoever follows it from
    /// another pod.
    fn answer(peer: &Peer, moves: bool, id: String) -> Parting {
        if !(moves && peer.gate.rules.shared) {
            return Parting::never();
        }
        let draining = peer.gate.lifecycle.draining.clone();
        let when = move || draining.clone().cancelled_owned().boxed();
        Parting { id: Some(id), ..Parting::when(when) }
    }
}

/// Whether a stream begins with an event without data, which only newer clients know not to read as a message (2025-11-25 transports).
pub fn primed(version: Version) -> bool {
    version >= Version::V2025_11_25
}

fn prime(id: String) -> Bytes {
    sse::write(&SseEvent { id: Some(id), retry: Some(RETRY), ..SseEvent::default() })
}

/// A stream as it is sent.
struct Sending {
    peer: Peer,
    frames: BoxStream<'static, Frame>,
    parting: Parting,
    parts: BoxFuture<'static, ()>,
    /// Resolves when its client is let in no longer. An answer is sent to its end.
    ended: Option<BoxFuture<'static, ()>>,
    /// When this stream last counted as a use of its session.
    touched: Instant,
    over: bool,
}

fn events(
    peer: &Peer,
    opening: Option<Bytes>,
    frames: BoxStream<'static, Frame>,
    parting: Parting,
    ended: Option<BoxFuture<'static, ()>>,
) -> impl Stream<Item = Bytes> + Send + use<> {
    // A comment says at once to every proxy on the way that the stream is open.
    let opening = stream::iter([Some(Bytes::from_static(sse::COMMENT)), opening].into_iter().flatten());
    let parts = (parting.when)();
    let sending =
        Sending { peer: peer.clone(), frames, parting, parts, ended, touched: Instant::now(), over: false };
    opening.chain(stream::unfold(sending, |mut sending| async move {
        let bytes = sending.next().await?;
        Some((bytes, sending))
    }))
}

impl Sending {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let quiet = self.peer.gate.rules.keep_alive;
        let bytes = tokio::select! {
            biased;
            frame = self.frames.next() => match frame {
                Some(frame) => self.sent(frame),
                None if self.parting.at_end => return self.farewell(),
                None => return None,
            },
            () = &mut self.parts => return self.farewell(),
            () = OptionFuture::from(self.ended.as_mut()).map(drop), if self.ended.is_some() => {
                self.over = true;
                return Some(self.later());
            }
            () = tokio::time::sleep(quiet) => Bytes::from_static(sse::COMMENT),
        };
        if self.touched.elapsed() >= quiet {
            // An open stream is a use of its session.
            self.peer.touch().await;
            self.touched = Instant::now();
        }
        Some(bytes)
    }

    fn sent(&mut self, frame: Frame) -> Bytes {
        if let Frame::Message { id: Some(id), .. } = &frame {
            self.parting.id = Some(id.clone());
        }
        self.parts = (self.parting.when)();
        write(frame)
    }

    /// The last bytes of a stream that closes because its pod drains: from where to go on, and to come back soon. `None`
    /// where it ends for another reason. Without data, hence no event to clients that know no such events.
    fn farewell(&mut self) -> Option<Bytes> {
        self.over = true;
        if !self.peer.gate.lifecycle.draining.is_cancelled() {
            return None;
        }
        Some(self.later())
    }

    /// From where to go on, and to come back soon.
    fn later(&mut self) -> Bytes {
        let mut bits = [0];
        // Without randomness all come back at the same time, which is no worse than unpleasant.
        let _ = aws_lc_rs::rand::fill(&mut bits);
        let wait = RETRY + RETRY * u64::from(bits[0]) / 255;
        let id = self.parting.id.take().map(|id| format!("id: {id}\n")).unwrap_or_default();
        format!("{id}retry: {wait}\n\n").into()
    }
}

fn write(frame: Frame) -> Bytes {
    let (id, data) = match frame {
        Frame::Message { id, message } => (id, message),
        Frame::Trimmed => (None, fault("some events before this one are no longer kept and were missed")),
        Frame::Lost => {
            (None, fault("the call of this stream was lost; whether it was carried out is unknown"))
        }
    };
    sse::write(&SseEvent { id, data, ..SseEvent::default() })
}

fn fault(why: &str) -> Bytes {
    envelope::write_response(None, Err(&answer::error_object(code::INTERNAL, why, None)))
}
