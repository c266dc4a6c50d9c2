//! The SSE bodies of the legacy edges: frames of a session's streams as events, with comments in the silences.

use super::peer::Peer;
use crate::edge::{answer, body};
use crate::session::{Follower, Frame, Listener};
use crate::wire::sse::{self, SseEvent};
use crate::wire::{Version, code, envelope};
use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};
use http::Response;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

/// What clients are asked to wait before they reconnect, in milliseconds; jittered by as much, for all come at once.
const RETRY: u64 = 500;

/// A stream that answers a POST, from its beginning.
pub fn answering(peer: &Peer, follower: Follower) -> Response<Body> {
    let prime = primed(peer.caller.version).then(|| prime(follower.priming_id()));
    let events = events(peer, prime, follower.into_stream(), Drain::Stay);
    body::events(&peer.gate, "post", events)
}

/// The rest of a stream that answered a POST.
pub fn resumed(peer: &Peer, follower: Follower) -> Response<Body> {
    body::events(&peer.gate, "get", events(peer, None, follower.into_stream(), Drain::Stay))
}

/// A session's GET stream.
pub fn standing(peer: &Peer, listener: Listener) -> Response<Body> {
    let prime = listener.priming_id().filter(|_| primed(peer.caller.version)).map(prime);
    body::events(&peer.gate, "get", events(peer, prime, listener.into_stream(), Drain::Leave))
}

/// The stream of HTTP+SSE, after `opening`.
pub fn sse(peer: &Peer, opening: Bytes, listener: Listener) -> Response<Body> {
    body::events(&peer.gate, "sse", events(peer, Some(opening), listener.into_stream(), Drain::Leave))
}

/// A stream that answers a POST of a client without a session: no ids, for it cannot be resumed.
pub fn passing(peer: &Peer, messages: mpsc::Receiver<Bytes>) -> Response<Body> {
    let frames = ReceiverStream::new(messages).map(|message| Frame::Message { id: None, message });
    body::events(&peer.gate, "post", events(peer, None, frames.boxed(), Drain::Stay))
}

/// What a stream does when the pod begins to end.
#[derive(Clone, Copy, PartialEq)]
enum Drain {
    /// Its call finishes first.
    Stay,
    /// The client is to open it elsewhere.
    Leave,
}

/// Whether a stream begins with an event without data, which only newer clients know not to read as a message (2025-11-25 transports).
pub fn primed(version: Version) -> bool {
    version >= Version::V2025_11_25
}

fn prime(id: String) -> Bytes {
    sse::write(&SseEvent { id: Some(id), retry: Some(RETRY), ..SseEvent::default() })
}

fn events(
    peer: &Peer,
    opening: Option<Bytes>,
    frames: BoxStream<'static, Frame>,
    drain: Drain,
) -> impl Stream<Item = Bytes> + Send + use<> {
    // A comment says at once to every proxy on the way that the stream is open.
    let opening = stream::iter([Some(Bytes::from_static(sse::COMMENT)), opening].into_iter().flatten());
    let state = Some((peer.clone(), frames, Instant::now()));
    opening.chain(stream::unfold(state, move |state| async move {
        let (peer, mut frames, mut touched) = state?;
        let quiet = peer.gate.rules.keep_alive;
        let bytes = tokio::select! {
            biased;
            frame = frames.next() => write(frame?),
            () = peer.gate.draining.cancelled(), if drain == Drain::Leave => return Some((farewell(), None)),
            () = tokio::time::sleep(quiet) => Bytes::from_static(sse::COMMENT),
        };
        if touched.elapsed() >= quiet {
            // An open stream is a use of its session.
            peer.touch().await;
            touched = Instant::now();
        }
        Some((bytes, Some((peer, frames, touched))))
    }))
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

/// Asks the client to come back soon, to another pod. Without data, hence no event to any client.
fn farewell() -> Bytes {
    let mut bits = [0];
    // Without randomness all come back at the same time, which is no worse than unpleasant.
    let _ = aws_lc_rs::rand::fill(&mut bits);
    let wait = RETRY + RETRY * u64::from(bits[0]) / 255;
    format!("retry: {wait}\n\n").into()
}
