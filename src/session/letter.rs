//! What pods write to each other about sessions, as bytes: a version, a kind, then parts with their lengths. A pod of an
//! older or newer release reads what it knows and lets the rest be.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::asks::Number;
use super::writers::News;
use crate::store::PodId;

const VERSION: u8 = 1;
/// A letter is at most so long: beyond the largest message that a client may send in most set-ups, and little enough for
/// an inbox.
pub(super) const LONGEST: usize = 16 << 20;

/// A letter from one pod to another.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Letter {
    /// A client answered a request that the addressee sent.
    Answer { session: Arc<str>, number: Number, outcome: Result<Bytes, Bytes>, reply: ReplyTo },
    /// A pod reads a stream that the addressee writes.
    Follow { session: Arc<str>, stream: Arc<str>, pod: PodId },
    /// To a pod that reads a stream, of its writer.
    News { session: Arc<str>, stream: Arc<str>, news: News },
    /// A message for the addressee's stream of a session, which has no log to put it into.
    Message { session: Arc<str>, must: bool, text: Bytes },
    /// The session's subscriptions have changed: a reply is wanted once they are listened for.
    TakeUp { session: Arc<str>, reply: ReplyTo },
    /// Said on the bus: a session's client cancels the call of this id (its JSON token), wherever it runs.
    Cancels { session: Arc<str>, call: Bytes, reply: ReplyTo },
    /// The pod runs such a call: one, or several.
    Runs { ticket: u64, pod: PodId, one: bool },
    /// The call of this id is to be cancelled.
    Cancel { session: Arc<str>, call: Bytes },
    /// What came of a letter that wanted a reply.
    Came { ticket: u64, good: bool },
}

/// Where the writer of a letter waits for what comes of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReplyTo {
    pub(super) pod: PodId,
    pub(super) ticket: u64,
}

const ANSWER: u8 = 1;
const CAME: u8 = 2;
const FOLLOW: u8 = 3;
const NEWS: u8 = 4;
const MESSAGE: u8 = 5;
const TAKE_UP: u8 = 6;
const CANCELS: u8 = 7;
const RUNS: u8 = 8;
const CANCEL: u8 = 9;

impl Letter {
    pub(super) fn write(&self) -> Bytes {
        match self {
            Letter::Answer { session, number, outcome, reply } => {
                let (good, text) = match outcome {
                    Ok(result) => (1, result),
                    Err(error) => (0, error),
                };
                write(ANSWER, &[session.as_bytes(), number, &[good], text, &reply.write()])
            }
            Letter::Follow { session, stream, pod } => {
                write(FOLLOW, &[session.as_bytes(), stream.as_bytes(), pod.as_str().as_bytes()])
            }
            Letter::News { session, stream, news } => {
                let news = match news {
                    News::More => 0,
                    News::HangUp => 1,
                    News::Gone => 2,
                };
                write(NEWS, &[session.as_bytes(), stream.as_bytes(), &[news]])
            }
            Letter::Message { session, must, text } => {
                write(MESSAGE, &[session.as_bytes(), &[u8::from(*must)], text])
            }
            Letter::TakeUp { session, reply } => write(TAKE_UP, &[session.as_bytes(), &reply.write()]),
            Letter::Cancels { session, call, reply } => {
                write(CANCELS, &[session.as_bytes(), call, &reply.write()])
            }
            Letter::Runs { ticket, pod, one } => {
                write(RUNS, &[&ticket.to_be_bytes(), pod.as_str().as_bytes(), &[u8::from(*one)]])
            }
            Letter::Cancel { session, call } => write(CANCEL, &[session.as_bytes(), call]),
            Letter::Came { ticket, good } => write(CAME, &[&ticket.to_be_bytes(), &[u8::from(*good)]]),
        }
    }

    /// `None` for what this release does not know.
    pub(super) fn read(letter: &Bytes) -> Option<Letter> {
        let (&[version, kind], _) = letter.split_first_chunk()?;
        if version != VERSION {
            return None;
        }
        let mut parts = Parts(letter.slice(2..));
        Some(match kind {
            ANSWER => {
                let (session, number) = (parts.text()?, parts.next()?[..].try_into().ok()?);
                let (good, text) = (parts.flag()?, parts.next()?);
                let outcome = if good { Ok(text) } else { Err(text) };
                Letter::Answer { session, number, outcome, reply: ReplyTo::read(&parts.next()?)? }
            }
            FOLLOW => Letter::Follow {
                session: parts.text()?,
                stream: parts.text()?,
                pod: PodId::named(parts.text()?),
            },
            NEWS => Letter::News {
                session: parts.text()?,
                stream: parts.text()?,
                news: match parts.next()?[..] {
                    [0] => News::More,
                    [1] => News::HangUp,
                    [2] => News::Gone,
                    _ => return None,
                },
            },
            MESSAGE => Letter::Message { session: parts.text()?, must: parts.flag()?, text: parts.next()? },
            TAKE_UP => Letter::TakeUp { session: parts.text()?, reply: ReplyTo::read(&parts.next()?)? },
            CANCELS => Letter::Cancels {
                session: parts.text()?,
                call: parts.next()?,
                reply: ReplyTo::read(&parts.next()?)?,
            },
            RUNS => {
                Letter::Runs { ticket: parts.number()?, pod: PodId::named(parts.text()?), one: parts.flag()? }
            }
            CANCEL => Letter::Cancel { session: parts.text()?, call: parts.next()? },
            CAME => Letter::Came { ticket: parts.number()?, good: parts.flag()? },
            _ => return None,
        })
    }
}

impl ReplyTo {
    fn write(&self) -> Vec<u8> {
        [&self.ticket.to_be_bytes()[..], self.pod.as_str().as_bytes()].concat()
    }

    fn read(part: &Bytes) -> Option<ReplyTo> {
        let (ticket, pod) = part.split_first_chunk()?;
        let pod = PodId::named(std::str::from_utf8(pod).ok()?);
        Some(ReplyTo { pod, ticket: u64::from_be_bytes(*ticket) })
    }
}

fn write(kind: u8, parts: &[&[u8]]) -> Bytes {
    let mut letter = BytesMut::with_capacity(2 + parts.iter().map(|part| part.len() + 4).sum::<usize>());
    letter.put_u8(VERSION);
    letter.put_u8(kind);
    for part in parts {
        // Nothing longer than LONGEST is sent.
        letter.put_u32(u32::try_from(part.len()).unwrap_or(u32::MAX));
        letter.put_slice(part);
    }
    letter.freeze()
}

/// The parts that are still to be read. More than are asked for may follow: a newer release wrote them.
struct Parts(Bytes);

impl Parts {
    fn next(&mut self) -> Option<Bytes> {
        let length = u32::from_be_bytes(*self.0.first_chunk()?) as usize;
        let end = length.checked_add(4).filter(|end| *end <= self.0.len())?;
        Some(self.0.split_to(end).slice(4..))
    }

    fn text(&mut self) -> Option<Arc<str>> {
        std::str::from_utf8(&self.next()?).ok().map(Arc::from)
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(self.next()?[..].try_into().ok()?))
    }

    fn flag(&mut self) -> Option<bool> {
        self.next()?.first().map(|flag| *flag != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Letter> {
        let reply = ReplyTo { pod: PodId::named("abcdefgh"), ticket: 7 };
        let answer =
            |outcome| Letter::Answer { session: "s".into(), number: [9; 16], outcome, reply: reply.clone() };
        vec![
            answer(Ok(Bytes::from_static(b"{\"a\":\"\\u0000\xc3\xa9\"}"))),
            answer(Err(Bytes::new())),
            Letter::Follow { session: "s".into(), stream: "p".into(), pod: PodId::named("abcdefgh") },
            Letter::News { session: "s".into(), stream: "".into(), news: News::HangUp },
            Letter::Message { session: "s".into(), must: true, text: Bytes::from_static(b"{}") },
            Letter::TakeUp { session: "s".into(), reply: reply.clone() },
            Letter::Cancels { session: "s".into(), call: Bytes::from_static(b"7"), reply: reply.clone() },
            Letter::Runs { ticket: 3, pod: PodId::named("abcdefgh"), one: false },
            Letter::Cancel { session: "s".into(), call: Bytes::from_static(b"\"7\"") },
            Letter::Came { ticket: u64::MAX, good: true },
            Letter::Came { ticket: 0, good: false },
        ]
    }

    #[test]
    fn a_letter_reads_as_it_was_written_and_what_is_cut_or_strange_is_none() {
        for letter in samples() {
            let text = letter.write();
            assert_eq!(Letter::read(&text).as_ref(), Some(&letter));
            for end in 0..text.len() {
                assert_eq!(Letter::read(&text.slice(..end)), None, "{letter:?} up to {end}");
            }
            let newer = [&text[..], &[0, 0, 0, 1, b'x']].concat();
            assert_eq!(Letter::read(&newer.into()), Some(letter), "a newer release says more");
        }
        for strange in [&b"\x02\x01"[..], b"\x01\xff", b"", b"\x01\x02\xff\xff\xff\xff"] {
            assert_eq!(Letter::read(&Bytes::from_static(strange)), None);
        }
    }
}
