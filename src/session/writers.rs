//! Who writes a stream that answers a POST, and who reads it on other pods. The pod that began a stream stands in its
//! name, so that any pod can tell it from an event id alone; readers elsewhere make themselves known to it by letter, and
//! are told by letter that there is more.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::letter::Letter;
use super::telling::Telling;
use super::{LiveSession, Sessions, lock, random_text};
use crate::mcp::SessionId;
use crate::store::PodId;

/// A reader that has not made itself known for so many times as it should is told no more.
const MISSED: u32 = 4;

/// A new stream of this pod: `p<pod>.<random>`.
pub(super) fn name(me: &PodId) -> Arc<str> {
    format!("p{me}.{}", random_text::<6>()).into()
}

/// The pod that began a stream.
pub(super) fn origin(name: &str) -> Option<PodId> {
    let (pod, _) = name.strip_prefix('p')?.rsplit_once('.')?;
    Some(PodId::named(pod))
}

/// What the writer of a stream tells its readers on other pods. Nothing of it is a message: those are in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// The log has more.
    More,
    /// The connection is to end, once all in the log has been read; the stream goes on.
    HangUp,
    /// The stream is not written there, or not any more.
    Gone,
}

/// How often each was told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Told {
    more: u64,
    hang_up: u64,
    gone: u64,
}

/// The readers of one stream on other pods.
#[derive(Default)]
pub(super) struct Readers(Mutex<Vec<Reader>>);

struct Reader {
    pod: PodId,
    until: Instant,
    /// Whether it is being told of more.
    telling: Arc<Telling>,
}

/// What is known of a stream's writer.
pub(super) enum Writer {
    /// It is told when there is more; or the store does not answer, and it is asked again.
    There(Ear),
    /// It is this pod, where it is not written.
    Here,
    Gone,
}

/// Hears what the writer of a stream on another pod tells.
pub(super) struct Ear {
    told: watch::Receiver<Told>,
    seen: Told,
}

impl Ear {
    pub(super) fn new(told: watch::Receiver<Told>) -> Ear {
        let seen = *told.borrow();
        Ear { told, seen }
    }

    /// The next news, the weightiest first.
    pub(super) async fn next(&mut self) -> News {
        loop {
            let told = *self.told.borrow_and_update();
            let news = match () {
                () if told.gone != self.seen.gone => News::Gone,
                () if told.hang_up != self.seen.hang_up => News::HangUp,
                () if told.more != self.seen.more => News::More,
                () => {
                    if self.told.changed().await.is_err() {
                        // Its other end lives in the session's handle, which the reader holds.
                        return News::Gone;
                    }
                    continue;
                }
            };
            self.seen = told;
            return news;
        }
    }
}

impl Told {
    pub(super) fn note(&mut self, news: News) {
        match news {
            News::More => self.more += 1,
            News::HangUp => self.hang_up += 1,
            News::Gone => self.gone += 1,
        }
    }
}

impl LiveSession {
    /// Asks the writer of a stream that is not written here to tell of more.
    pub(super) async fn ask_writer(&self, name: &Arc<str>, pod: &PodId) -> Writer {
        let me = &self.shared.post.me;
        if pod == me {
            return Writer::Here;
        }
        // Before it is asked for: what it tells at once must be heard.
        let ear = self.streams.ear(name);
        let follow =
            Letter::Follow { session: self.session_id().0.clone(), stream: name.clone(), pod: me.clone() };
        match self.shared.mail(pod, &follow).await {
            Ok(false) => Writer::Gone,
            Ok(true) | Err(_) => Writer::There(ear),
        }
    }

    /// Tells the readers on other pods; each is told of more at most once at a time.
    pub(super) fn tell_readers(self: &Arc<Self>, stream: &Arc<str>, readers: &Arc<Readers>, news: News) {
        let now = Instant::now();
        let to: Vec<_> = {
            let mut readers = lock(&readers.0);
            readers.retain(|reader| reader.until > now);
            readers.iter().map(|reader| (reader.pod.clone(), reader.telling.clone())).collect()
        };
        for (pod, telling) in to {
            if news == News::More && !telling.begin() {
                continue;
            }
            let (session, stream, readers) = (self.clone(), stream.clone(), readers.clone());
            self.shared.tasks.spawn(async move {
                let letter = Letter::News { session: session.session_id().0.clone(), stream, news };
                loop {
                    // Where it cannot be put, the reader looks by itself in a while.
                    if session.shared.mail(&pod, &letter).await == Ok(false) {
                        lock(&readers.0).retain(|reader| reader.pod != pod);
                    }
                    if news != News::More || telling.is_over() {
                        return;
                    }
                }
            });
        }
    }
}

impl Readers {
    /// A pod reads, and is told of more for a while. False: it did already.
    fn note(&self, pod: &PodId, lease: Duration) -> bool {
        let until = Instant::now() + lease;
        let mut readers = lock(&self.0);
        match readers.iter_mut().find(|reader| reader.pod == *pod) {
            Some(reader) => {
                reader.until = until;
                false
            }
            None => {
                readers.push(Reader { pod: pod.clone(), until, telling: Arc::default() });
                true
            }
        }
    }
}

impl Sessions {
    /// A pod reads a stream, as it believes of ours.
    pub(super) fn followed(&self, session: Arc<str>, stream: Arc<str>, pod: PodId) {
        let here = self.held(&SessionId(session.clone()));
        let line = here.as_ref().and_then(|session| session.streams.line(&stream));
        match here.zip(line) {
            Some((session, line)) => {
                if line.readers.note(&pod, self.shared.settings.again * MISSED) {
                    // It read the log before this.
                    session.tell_readers(&stream, &line.readers, News::More);
                }
            }
            None => {
                let shared = self.shared.clone();
                self.shared.tasks.spawn(async move {
                    let _ = shared.mail(&pod, &Letter::News { session, stream, news: News::Gone }).await;
                });
            }
        }
    }
}
