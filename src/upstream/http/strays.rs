//! Answers that come on another stream than that of their request. No server should send one so (2025-11-25 transports,
//! *Listening for Messages from the Server*), but some send what a closed stream has left on whichever stream opens next,
//! and the client that waits for the closed one would wait in vain. Ids are unique in the process, so that an id is proof.

use crate::upstream::transport::Incoming;
use crate::wire::envelope::Response;
use crate::wire::{Id, Message};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

type Waiting = HashMap<Id, oneshot::Sender<Response>>;

#[derive(Default)]
pub(super) struct Strays {
    waiting: Mutex<Waiting>,
}

impl Strays {
    /// Nothing panics while it holds the lock; then the map is still whole.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on an answer to this request is caught, wherever it comes.
    pub(super) fn await_answer(self: &Arc<Self>, id: &Id) -> Awaited {
        let (to, answer) = oneshot::channel();
        self.waiting().insert(id.clone(), to);
        Awaited { strays: self.clone(), id: id.clone(), answer: Some(answer) }
    }

    /// Gives an answer to whoever waits for it. False where nobody does.
    pub(super) fn hand_over(&self, response: Response) -> bool {
        let to = response.id.as_ref().and_then(|id| self.waiting().remove(id));
        to.is_some_and(|to| to.send(response).is_ok())
    }
}

/// The wait for one answer. Dropping it ends the wait.
pub(super) struct Awaited {
    strays: Arc<Strays>,
    id: Id,
    answer: Option<oneshot::Receiver<Response>>,
}

impl Awaited {
    /// The answer, once it came on another stream; else it never resolves.
    pub(super) async fn answer(&mut self) -> Incoming {
        if let Some(answer) = &mut self.answer
            && let Ok(response) = answer.await
        {
            self.answer = None;
            return Incoming { message: Message::Response(response), at: None };
        }
        std::future::pending().await
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.strays.waiting().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Raw;

    #[tokio::test]
    async fn an_answer_goes_to_the_one_who_waits_for_it_and_to_nobody_after() {
        let strays = Arc::new(Strays::default());
        let response = |id: &str| Response { id: Some(Id::of_str(id)), outcome: Ok(Raw::trusted("{}")) };
        let mut mine = strays.await_answer(&Id::of_str("mine"));
        let gone = strays.await_answer(&Id::of_str("gone"));
        drop(gone);
        assert!(!strays.hand_over(response("gone")) && !strays.hand_over(response("another")));
        assert!(strays.hand_over(response("mine")) && !strays.hand_over(response("mine")));
        let Message::Response(answer) = mine.answer().await.message else { panic!("no answer") };
        assert_eq!(answer.id, Some(Id::of_str("mine")));
        assert!(strays.waiting().is_empty());
    }
}
