//! Calls that run on another pod than the one that has their client's only stream (HTTP+SSE). They are noted until they end,
//! so that the stream's pod can say what became of those whose pod is lost; nothing else would ever end the client's wait.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::letter::Letter;
use super::places::Lead;
use super::writers::News;
use super::{LiveSession, random_text};
use crate::store::{Check, Commit, Key, PodId, Sure, Write};

/// Calls that are noted. To be told when they have ended; what is dropped without it stays noted.
pub struct Pending {
    session: Arc<LiveSession>,
    field: Arc<str>,
}

impl LiveSession {
    fn pending(&self) -> Key {
        Key::new(self.session_id().0.clone(), "q")
    }

    /// Notes calls that begin here, in the words of whoever may have to speak of them. `None` where the session's stream is
    /// here too, and goes with its calls; and where the store does not take it.
    pub async fn note_pending(self: &Arc<Self>, calls: Bytes) -> Option<Pending> {
        if self.queue.lead() == Lead::Here {
            return None;
        }
        let field: Arc<str> = format!("{} {}", self.shared.post.me, random_text::<6>()).into();
        let key = self.pending();
        let writes = vec![
            (key.clone(), Write::Set(field.clone(), calls)),
            (key, Write::Live(self.shared.settings.backlog_life)),
        ];
        let noted = self.shared.store.commit(vec![(self.record(), Check::Present)], writes, Sure::Master);
        matches!(noted.await, Ok(Commit::Done(_))).then(|| Pending { session: self.clone(), field })
    }

    /// The calls whose pod is gone, each given to one caller. `suspects` are those that seemed so at the last look: only what
    /// seems so twice is.
    pub async fn lost_pending(&self, suspects: &mut HashSet<Arc<str>>) -> Vec<Bytes> {
        let Ok(Some(record)) = self.shared.store.get(self.pending()).await else { return Vec::new() };
        let before = std::mem::take(suspects);
        let mut lost = Vec::new();
        for (field, calls) in record.fields.iter() {
            let Some((pod, _)) = field.split_once(' ') else { continue };
            // It says nothing: whether it can be put is what is asked.
            let (session, stream) = (self.session_id().0.clone(), "".into());
            let letter = Letter::News { session, stream, news: News::More };
            let pod = PodId::named(pod);
            if pod == self.shared.post.me || self.shared.mail(&pod, &letter).await != Ok(false) {
                continue;
            }
            if !before.contains(field) {
                suspects.insert(field.clone());
                continue;
            }
            let check = (self.pending(), Check::Field(field.clone(), Some(calls.clone())));
            let writes = vec![(self.pending(), Write::Unset(field.clone()))];
            let taken = self.shared.store.commit(vec![check], writes, Sure::Master).await;
            lost.extend(matches!(taken, Ok(Commit::Done(_))).then(|| calls.clone()));
        }
        lost
    }
}

impl Pending {
    /// They have ended.
    pub async fn done(self) {
        let writes = vec![(self.session.pending(), Write::Unset(self.field))];
        // Where this fails, it goes with its life; until then it is nobody's while this pod lives.
        let _ = self.session.shared.store.commit(Vec::new(), writes, Sure::Master).await;
    }
}
