//! What one pod answers another: frames of a kind, a length and that many bytes. Messages go as the JSON that they are.

use crate::mcp::About;
use crate::upstream::channel::MessageLimits;
use crate::upstream::credentials::Lack;
use crate::upstream::introduction::{Agreed, Introduction};
use crate::upstream::transport::{Incoming, TransportError};
use crate::wire::envelope::{read_upstream, write_notification, write_request, write_response};
use crate::wire::{Message, Raw, Version};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::Stream;
use futures_util::stream::unfold;
use http_body_util::BodyExt;
use hyper::body::Incoming as Body;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The longest that a pod is silent while it answers, and the silence after which it is taken for lost.
pub(super) const BEAT: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_secs(15);
const HEAD: usize = 5;
/// What a frame may be longer than a message of the upstream: the envelope is written anew.
const MARGIN: usize = 64 << 10;

/// One frame of an answer.
pub(super) enum Frame {
    Message(Message),
    Error(TransportError),
    Agreed(Agreed),
    /// It is done: sent, or listened to from now on.
    Done,
    /// The pod is there, and has nothing to say.
    Beat,
}

impl Frame {
    pub(super) fn of(item: Result<Incoming, TransportError>) -> Frame {
        match item {
            Ok(incoming) => Frame::Message(incoming.message),
            Err(error) => Frame::Error(error),
        }
    }

    pub(super) fn write(&self) -> Bytes {
        let (kind, payload) = match self {
            Frame::Message(Message::Request(m)) => (b'm', write_request(&m.id, &m.method, &m.params.raw)),
            Frame::Message(Message::Notification(m)) => (b'm', write_notification(&m.method, &m.params.raw)),
            Frame::Message(Message::Response(m)) => (b'm', write_response(m.id.as_ref(), m.outcome.as_ref())),
            Frame::Error(error) => (b'e', json(&SentError::of(error))),
            Frame::Agreed(agreed) => (b'a', json(&SentAgreed::of(agreed))),
            Frame::Done => (b'd', Bytes::new()),
            Frame::Beat => (b'b', Bytes::new()),
        };
        let mut out = BytesMut::with_capacity(HEAD + payload.len());
        out.put_u8(kind);
        // No message is longer than 1 GiB, by the configuration's bounds.
        out.put_u32(payload.len() as u32);
        out.put_slice(&payload);
        out.freeze()
    }

    /// `None`: no frame of ours.
    fn read(kind: u8, payload: Bytes, depth: u16) -> Option<Frame> {
        Some(match kind {
            b'm' => match read_upstream(payload, depth) {
                Ok(message) => Frame::Message(message),
                Err(refused) => Frame::Error(TransportError::Garbage(refused.why.into())),
            },
            b'e' => Frame::Error(serde_json::from_slice::<SentError>(&payload).ok()?.read()),
            b'a' => Frame::Agreed(serde_json::from_slice::<SentAgreed>(&payload).ok()?.read()?),
            b'd' => Frame::Done,
            b'b' => Frame::Beat,
            _ => return None,
        })
    }
}

/// The frames of one answer as they arrive. Dropping it gives the answer up.
pub(super) struct Frames {
    body: Body,
    buffer: BytesMut,
    limits: MessageLimits,
}

impl Frames {
    pub(super) fn new(body: Body, limits: MessageLimits) -> Frames {
        Frames { body, buffer: BytesMut::new(), limits }
    }

    /// The next frame that is no beat. Errors: what the other pod's transport gave; `Broken` where the pod is lost, or
    /// ended its answer.
    pub(super) async fn next(&mut self) -> Result<Frame, TransportError> {
        loop {
            match self.take()? {
                Some(Frame::Beat) => continue,
                Some(Frame::Error(error)) => return Err(error),
                Some(frame) => return Ok(frame),
                None => {}
            }
            let arrived = timeout(SILENCE, self.body.frame()).await;
            let Ok(Some(Ok(arrived))) = arrived else { return Err(TransportError::Broken) };
            if let Ok(data) = arrived.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    fn take(&mut self) -> Result<Option<Frame>, TransportError> {
        if self.buffer.len() < HEAD {
            return Ok(None);
        }
        let (kind, length) = (self.buffer[0], (&self.buffer[1..HEAD]).get_u32() as usize);
        if length > self.limits.bytes + MARGIN {
            return Err(TransportError::TooLarge(self.limits.bytes));
        }
        if self.buffer.len() < HEAD + length {
            return Ok(None);
        }
        self.buffer.advance(HEAD);
        let payload = self.buffer.split_to(length).freeze();
        let frame = Frame::read(kind, payload, self.limits.depth);
        frame.map(Some).ok_or(TransportError::Garbage("another pod speaks otherwise".into()))
    }

    /// Messages only.
    pub(super) async fn message(&mut self) -> Result<Incoming, TransportError> {
        match self.next().await? {
            Frame::Message(message) => Ok(Incoming { message, at: None }),
            _ => Err(TransportError::Garbage("another pod speaks otherwise".into())),
        }
    }

    /// The messages that are left: of a request until its response, of a standing stream until its end. An error ends
    /// it, save that of a pause.
    pub(super) fn rest(
        self,
        within: Option<Instant>,
    ) -> impl Stream<Item = Result<Incoming, TransportError>> {
        unfold(Some(self), move |frames| async move {
            let mut frames = frames?;
            let item = match within {
                Some(deadline) => tokio::time::timeout_at(deadline, frames.message()).await,
                None => Ok(frames.message().await),
            };
            let item = item.unwrap_or(Err(TransportError::Timeout));
            let more = match &item {
                Ok(incoming) => !matches!(incoming.message, Message::Response(_)),
                Err(error) => matches!(error, TransportError::Paused),
            };
            Some((item, more.then_some(frames)))
        })
    }
}

fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("our own values always have a JSON form").into()
}

fn raw_value(raw: &Raw) -> Option<Box<RawValue>> {
    String::from_utf8(raw.to_bytes().into()).ok().and_then(|text| RawValue::from_string(text).ok())
}

fn raw(value: Box<RawValue>) -> Raw {
    Raw::trusted(String::from(Box::<str>::from(value)))
}

/// A [`TransportError`] on its way.
#[derive(Serialize, Deserialize)]
enum SentError {
    Unreachable(String),
    Refused(u16, Option<Box<RawValue>>),
    SessionGone,
    Timeout,
    Garbage(String),
    TooLarge(usize),
    Broken,
    Paused,
    Busy,
    StoreAway,
    Credential,
}

impl SentError {
    fn of(error: &TransportError) -> SentError {
        match error {
            TransportError::Unreachable(why) => SentError::Unreachable(why.clone().into_owned()),
            TransportError::Refused { status, error } => {
                SentError::Refused(*status, error.as_ref().and_then(raw_value))
            }
            TransportError::SessionGone => SentError::SessionGone,
            TransportError::Timeout => SentError::Timeout,
            TransportError::Garbage(why) => SentError::Garbage(why.clone().into_owned()),
            TransportError::TooLarge(limit) => SentError::TooLarge(*limit),
            TransportError::Broken => SentError::Broken,
            TransportError::Paused => SentError::Paused,
            TransportError::Busy => SentError::Busy,
            TransportError::StoreAway | TransportError::Credential(Lack::StoreAway) => SentError::StoreAway,
            TransportError::Credential(Lack::Unreachable(why)) => {
                SentError::Unreachable(why.clone().into_owned())
            }
            // A channel bears the gateway's own credential alone.
            TransportError::Credential(_) => SentError::Credential,
        }
    }

    fn read(self) -> TransportError {
        match self {
            SentError::Unreachable(why) => TransportError::Unreachable(why.into()),
            SentError::Refused(status, error) => TransportError::Refused { status, error: error.map(raw) },
            SentError::SessionGone => TransportError::SessionGone,
            SentError::Timeout => TransportError::Timeout,
            SentError::Garbage(why) => TransportError::Garbage(why.into()),
            SentError::TooLarge(limit) => TransportError::TooLarge(limit),
            SentError::Broken => TransportError::Broken,
            SentError::Paused => TransportError::Paused,
            SentError::Busy => TransportError::Busy,
            SentError::StoreAway => TransportError::StoreAway,
            SentError::Credential => TransportError::Credential(Lack::Bad),
        }
    }
}

/// An [`Agreed`] on its way.
#[derive(Serialize, Deserialize)]
struct SentAgreed {
    version: String,
    server_info: Option<Box<RawValue>>,
    capabilities: Option<Box<RawValue>>,
    instructions: Option<String>,
    ttl_ms: u64,
    private: bool,
    both_eras: bool,
    kept: String,
}

impl SentAgreed {
    fn of(agreed: &Agreed) -> SentAgreed {
        let Agreed { version, about, both_eras, kept } = agreed;
        SentAgreed {
            version: version.as_str().to_owned(),
            server_info: about.server_info.as_ref().and_then(raw_value),
            capabilities: raw_value(&about.capabilities),
            instructions: about.instructions.clone(),
            ttl_ms: about.ttl_ms,
            private: about.private,
            both_eras: *both_eras,
            kept: text(kept),
        }
    }

    fn read(self) -> Option<Agreed> {
        let about = About {
            server_info: self.server_info.map(raw),
            capabilities: raw(self.capabilities?),
            instructions: self.instructions,
            ttl_ms: self.ttl_ms,
            private: self.private,
            missing: Vec::new(),
        };
        Some(Agreed {
            version: Version::parse(&self.version)?,
            about: Arc::new(about),
            both_eras: self.both_eras,
            kept: self.kept.into(),
        })
    }
}

/// An [`Introduction`] on its way, and the owner that it is for as links name it.
#[derive(Serialize, Deserialize)]
pub(super) struct SentIntroduction {
    pub(super) owner: String,
    info: String,
    capabilities: String,
    in_session: String,
    who: String,
    headers: Vec<(String, Vec<u8>)>,
    kept: String,
}

impl SentIntroduction {
    pub(super) fn write(owner: &str, introduction: &Introduction) -> Bytes {
        let Introduction { info, capabilities, in_session, who, headers, kept } = introduction;
        json(&SentIntroduction {
            owner: owner.to_owned(),
            info: text(info),
            capabilities: text(capabilities),
            in_session: text(in_session),
            who: who.to_string(),
            headers: super::seal::sent_headers(headers),
            kept: text(kept),
        })
    }

    pub(super) fn read(body: &[u8]) -> Option<SentIntroduction> {
        serde_json::from_slice(body).ok()
    }

    pub(super) fn introduction(self) -> Introduction {
        Introduction {
            info: self.info.into(),
            capabilities: self.capabilities.into(),
            in_session: self.in_session.into(),
            who: self.who.into(),
            headers: super::seal::read_headers(self.headers),
            kept: self.kept.into(),
        }
    }
}

/// JSON that was checked is UTF-8.
fn text(json: &Bytes) -> String {
    String::from_utf8_lossy(json).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(frame: Frame) -> Frame {
        let written = frame.write();
        let length = (&written[1..HEAD]).get_u32() as usize;
        assert_eq!(written.len(), HEAD + length);
        Frame::read(written[0], written.slice(HEAD..), 64).unwrap()
    }

    #[test]
    fn messages_and_what_was_agreed_arrive_as_they_were() {
        let text = r#"{"jsonrpc":"2.0","id":"1","result":{"n":1.0,"big":9007199254740993}}"#;
        let message = read_upstream(text.into(), 64).unwrap();
        let Frame::Message(Message::Response(read)) = pass(Frame::Message(message)) else { panic!() };
        assert_eq!(read.outcome.unwrap().to_bytes(), r#"{"n":1.0,"big":9007199254740993}"#);
        let about = About {
            server_info: Some(Raw::trusted(r#"{"name":"s","x":1.0}"#)),
            capabilities: Raw::trusted("{}"),
            instructions: Some("é".into()),
            ttl_ms: 7,
            private: true,
            missing: Vec::new(),
        };
        let kept = Bytes::from_static(br#"{"l":"debug"}"#);
        let agreed = Agreed { version: Version::MODERN, about: Arc::new(about), both_eras: true, kept };
        let Frame::Agreed(read) = pass(Frame::Agreed(agreed)) else { panic!() };
        assert_eq!(read.about.server_info.as_ref().unwrap().to_bytes(), r#"{"name":"s","x":1.0}"#);
        assert_eq!((read.about.ttl_ms, read.both_eras, &read.kept[..]), (7, true, &br#"{"l":"debug"}"#[..]));
    }

    #[test]
    fn errors_arrive_as_they_were() {
        use TransportError::*;
        let error = Some(Raw::trusted(r#"{"code":-32001}"#));
        for error in [
            Unreachable("a".into()),
            Refused { status: 400, error },
            Refused { status: 503, error: None },
            SessionGone,
            Timeout,
            Garbage("b".into()),
            TooLarge(7),
            Broken,
            Paused,
            Busy,
            StoreAway,
            Credential(Lack::Bad),
        ] {
            let was = format!("{error:?}");
            let Frame::Error(read) = pass(Frame::Error(error)) else { panic!("{was}") };
            assert_eq!(format!("{read:?}"), was);
        }
    }
}
