//! One member's part of a standing stream: opened, and opened again with backoff until the member says that it is no use.

use super::filter::Filter;
use crate::federation::faults;
use crate::mcp::{Backend, Call, Event, Note, Outcome, Reason};
use crate::wire::Method;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, unfold};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A stream that stood this long was no failed attempt.
const STOOD: Duration = Duration::from_secs(10);

/// What a leg tells of itself. `back`: there was a gap before, in which nobody listened.
pub(super) enum Heard {
    Acknowledged {
        note: Note,
        back: bool,
    },
    Event(Event),
    /// Ended or could not be opened; it will be tried again.
    Away,
    /// Ended for good, the last that is heard.
    Over {
        outcome: Outcome,
        back: bool,
    },
}

pub(super) struct Leg {
    backend: Arc<dyn Backend>,
    call: Call,
    /// How long an opening may take: the call's own time is over when its stream is opened again.
    time: Duration,
    state: State,
    wait: Duration,
    /// Nobody listened for a while.
    gap: bool,
}

enum State {
    Opening { after: Duration },
    Open { events: BoxStream<'static, Event>, since: Instant, honours_nothing: bool },
    Over,
}

impl Leg {
    pub(super) fn new(backend: Arc<dyn Backend>, call: Call) -> Leg {
        let time = call.deadline.saturating_duration_since(Instant::now());
        let state = State::Opening { after: Duration::ZERO };
        Leg { backend, call, time, state, wait: FIRST_WAIT, gap: false }
    }

    pub(super) fn heard(self) -> BoxStream<'static, Heard> {
        unfold(self, |mut leg| async move { leg.next().await.map(|heard| (heard, leg)) }).boxed()
    }

    async fn next(&mut self) -> Option<Heard> {
        loop {
            match &mut self.state {
                State::Over => return None,
                State::Opening { after } => {
                    // Boxed, for it takes no room while the stream stands.
                    let waited = tokio::time::timeout(*after, self.call.cancel.cancelled());
                    if !after.is_zero() && Box::pin(waited).await.is_ok() {
                        self.state = State::Over;
                        let outcome = Outcome::Error(Reason::Cancelled.into());
                        return Some(Heard::Over { outcome, back: false });
                    }
                    self.call.deadline = Instant::now() + self.time;
                    let events = self.backend.call(self.call.clone()).await.into_events();
                    self.state = State::Open { events, since: Instant::now(), honours_nothing: false };
                }
                State::Open { events, since, honours_nothing } => {
                    let outcome = match events.next().await {
                        Some(Event::Note(note)) if note.method == Method::Acknowledged => {
                            *honours_nothing = Filter::of_note(&note).is_empty();
                            return Some(Heard::Acknowledged { note, back: std::mem::take(&mut self.gap) });
                        }
                        Some(Event::Done(outcome)) => outcome,
                        Some(event) => return Some(Heard::Event(event)),
                        None => {
                            let upstream = self.backend.id().clone();
                            Outcome::Error(Reason::OutcomeUnknown { upstream }.into())
                        }
                    };
                    let over = match &outcome {
                        _ if self.call.cancel.token().is_cancelled() => true,
                        Outcome::Error(fault) => faults::is_final(fault),
                        // It ended as it should, and there is nothing to hear of it.
                        _ => *honours_nothing,
                    };
                    if over {
                        self.state = State::Over;
                        return Some(Heard::Over { outcome, back: std::mem::take(&mut self.gap) });
                    }
                    if since.elapsed() > STOOD {
                        self.wait = FIRST_WAIT;
                    }
                    self.gap = true;
                    self.state = State::Opening { after: jittered(self.wait) };
                    self.wait = (self.wait * 2).min(LONGEST_WAIT);
                    return Some(Heard::Away);
                }
            }
        }
    }
}

/// Between half and all of `wait`: the pods that lost one upstream at the same time do not come back at the same time.
fn jittered(wait: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() as u32;
    wait.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}
