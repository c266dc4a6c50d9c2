//! What a session's GET streams carry: one standing call a session, for all lists and what it subscribed to, held by the
//! pod that has the newest stream while one is open and a little longer, for clients reopen them. Where another pod has a
//! newer one, the call of this pod stands until that pod's does: nothing is missed between them. What a standing call seldom
//! does is boxed: it would take its room in each of thousands that wait.

use super::peer::Peer;
use crate::edge::gate::Gate;
use crate::edge::standing;
use crate::mcp::{Ask, Event};
use crate::session::{Asking, Attending, Feeding, Lead, LiveSession, Overlap};
use crate::wire::{Method, Raw, envelope};
use futures_util::future::OptionFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// How long the call outlives the last stream: what comes meanwhile waits for the next one.
const LINGER: Duration = Duration::from_secs(30);
/// How long a pod that drains waits for another to take over: clients come back within a second or two.
const HANDOVER: Duration = Duration::from_secs(5);
/// How long what a relieved pod's call still hears is waited for.
const LAST_WORDS: Duration = Duration::from_millis(1800);
/// What is kept at most of what two pods hear at the same time.
const OVERLAP: usize = 64;
/// How long it may take to find out which lists there are.
const TOLD_WITHIN: Duration = Duration::from_secs(5);
/// How long a client may take to answer a question that belongs to no call.
const ASK_LIFE: Duration = Duration::from_secs(600);

/// Sees to it that what concerns the session reaches its open streams. To be called when one has been opened.
pub fn attend(peer: &Peer) {
    if let Some(session) = &peer.session
        && let Some(attending) = session.attend()
    {
        peer.gate.tasks.spawn(Standing { peer: peer.clone(), asking: Vec::new() }.run(attending));
    }
}

struct Standing {
    peer: Peer,
    asking: Vec<Asking>,
}

/// Why this pod feeds the session's streams no more.
enum End {
    /// No stream was open here for a while.
    Alone,
    /// The session, or this pod, ends.
    Over,
    /// Another pod does.
    Relieved,
}

/// What is next for one that feeds the streams.
enum Turn {
    Missed,
    Settled,
    Came(Option<Event>),
    Over(End),
}

impl Standing {
    async fn run(mut self, attending: Attending) {
        let session = attending.session().clone();
        let listeners = session.listeners();
        let mut held = Some(attending);
        while let Some(attending) = &held {
            let leaves = leaves(self.peer.gate.clone());
            let end = tokio::select! {
                end = self.attend(attending) => end,
                () = session.ended().cancelled() => End::Over,
                () = leaves => End::Over,
            };
            if !matches!(end, End::Relieved) {
                Box::pin(attending.leave_off()).await;
            }
            drop(held.take());
            // A stream may have been opened after we had decided to go, and before another could take our place.
            if matches!(end, End::Alone) && *listeners.borrow() > 0 {
                held = session.attend();
            }
        }
    }

    /// Until nobody listens here.
    async fn attend(&mut self, attending: &Attending) -> End {
        let mut alone = std::pin::pin!(alone(attending.session().listeners()));
        loop {
            tokio::select! {
                () = attending.wanted() => {}
                () = &mut alone => return End::Alone,
            }
            let feeding = attending.begin();
            // Pinned here: handed over as it is, it would take its room twice.
            let mut until = std::pin::pin!(async {
                tokio::select! {
                    () = feeding.relieved() => End::Relieved,
                    () = &mut alone => End::Alone,
                }
            });
            let end = self.feed(attending.session(), until.as_mut(), &feeding).await;
            if let End::Relieved = end {
                Box::pin(feeding.hand_over()).await;
                if !self.peer.gate.lifecycle.draining.is_cancelled() {
                    continue;
                }
            }
            return end;
        }
    }

    /// Passes on what comes, after all that the pod before this one heard, and to the last that has come.
    async fn feed(
        &mut self,
        session: &Arc<LiveSession>,
        mut until: Pin<&mut impl Future<Output = End>>,
        feeding: &Feeding<'_>,
    ) -> End {
        // What is of use until its turn alone takes no room in the thousands that wait after it.
        let (mut settled, mut is_settled) = (Some(Box::pin(feeding.settled())), false);
        let (holder, caller, lead) = (session.clone(), self.peer.caller.clone(), session.lead());
        let (over, parted) = (holder.ended().child_token(), Arc::new(Notify::new()));
        let (parting, gone) = (over.clone(), parted.clone());
        let call = move |none_left| {
            if parting.is_cancelled() {
                if none_left {
                    gone.notify_one();
                }
                return None;
            }
            // The newest stream at an upstream is the one that is spoken to, and by now another pod's is to be that.
            if matches!(*lead.borrow(), Lead::Elsewhere(_)) {
                return None;
            }
            let facts = holder.facts();
            let uris = facts.subscriptions.iter().map(|uri| &**uri);
            Some(standing::call(caller.clone(), uris, parting.clone()))
        };
        let backend = self.peer.mount.backend.clone();
        let (mut overlap, mut held) = (Some(Box::new(Box::pin(Overlap::begin(session)).await)), None);
        let mut events = standing::events(backend, call, session.changes().clone());
        loop {
            let turn = tokio::select! {
                biased;
                // Before the events, however many there are: this is what says that the call stands.
                end = &mut until => Turn::Over(end),
                () = feeding.missed() => Turn::Missed,
                () = OptionFuture::from(settled.as_mut()).map(drop), if !is_settled => Turn::Settled,
                event = events.next(), if held.is_none() && room(&overlap) => Turn::Came(event),
            };
            let come = match turn {
                Turn::Missed => {
                    Box::pin(self.tell_everything(session)).await;
                    None
                }
                Turn::Settled => {
                    (is_settled, settled) = (true, None);
                    if let Some(overlap) = &mut overlap {
                        Box::pin(tell_untold(session, overlap)).await;
                    }
                    overlap = overlap.filter(|overlap| overlap.is_of_use());
                    held.take().map(|event: Box<Option<Event>>| *event)
                }
                Turn::Came(Some(Event::Note(note))) => {
                    let message = envelope::write_notification(&note.method, &note.params);
                    match &mut overlap {
                        Some(overlap) if !is_settled => Box::pin(overlap.keep(session, message)).await,
                        Some(overlap) => {
                            if !overlap.was_told(&message) {
                                session.tell(message);
                            }
                        }
                        None => session.tell(message),
                    }
                    None
                }
                Turn::Came(event) if is_settled => Some(event),
                // It waits for its turn, and what comes after it where it comes from.
                Turn::Came(event) => {
                    held = Some(Box::new(event));
                    None
                }
                Turn::Over(end) => {
                    if let Some(overlap) = &mut overlap {
                        Box::pin(tell_untold(session, overlap)).await;
                    }
                    if let Some(event) = held.take() {
                        Box::pin(self.pass_on(session, *event)).await;
                    }
                    if let End::Relieved = end {
                        over.cancel();
                        Box::pin(self.last_words(session, events, &parted)).await;
                    }
                    return end;
                }
            };
            if let Some(event) = come
                && !Box::pin(self.pass_on(session, event)).await
            {
                return End::Over;
            }
        }
    }

    /// What was on its way when another pod's standing call stood: nobody else is told of it.
    async fn last_words(
        &mut self,
        session: &Arc<LiveSession>,
        mut events: BoxStream<'static, Event>,
        parted: &Notify,
    ) {
        let to_the_last = async {
            loop {
                tokio::select! {
                    biased;
                    event = events.next() => if !self.pass_on(session, event).await {
                        return;
                    },
                    () = parted.notified() => return,
                }
            }
        };
        if timeout(LAST_WORDS, to_the_last).await.is_err() {
            tracing::debug!("a standing call takes long to end");
        }
    }

    /// False: the call has ended.
    async fn pass_on(&mut self, session: &Arc<LiveSession>, event: Option<Event>) -> bool {
        match event {
            Some(Event::Note(note)) => {
                session.tell(envelope::write_notification(&note.method, &note.params));
            }
            Some(Event::Ask(ask)) => Box::pin(self.ask(session, ask)).await,
            Some(Event::Pause) => {}
            Some(Event::Done(_)) | None => return false,
        }
        true
    }

    /// After a gap everything that the client would have been told of may have changed.
    async fn tell_everything(&self, session: &Arc<LiveSession>) {
        let about = self.peer.mount.backend.about(self.peer.caller.clone());
        let about = timeout(TOLD_WITHIN, about).await.ok().and_then(Result::ok);
        let declared = about.and_then(|about| {
            serde_json::from_slice::<serde_json::Value>(&about.capabilities.to_bytes()).ok()
        });
        let kinds = [
            ("tools", Method::ToolsChanged),
            ("prompts", Method::PromptsChanged),
            ("resources", Method::ResourcesChanged),
        ];
        for (kind, method) in kinds {
            // Where nobody knows, a list that did not change is asked for once more.
            if declared.as_ref().is_none_or(|declared| declared[kind]["listChanged"] == true) {
                session.tell(envelope::write_notification(&method, &Raw::trusted("{}")));
            }
        }
        for uri in session.facts().subscriptions.iter() {
            let params = Raw::of(&serde_json::json!({ "uri": uri }));
            session.tell(envelope::write_notification(&Method::ResourceUpdated, &params));
        }
    }

    /// Refused by being dropped where the client did not declare it, or no stream is open.
    async fn ask(&mut self, session: &Arc<LiveSession>, ask: Ask) {
        let Ask { method, params, answer, .. } = ask;
        if method == Method::Ping {
            let _ = answer.send(Ok(Raw::trusted("{}")));
            return;
        }
        if !self.peer.caller.client.answers(&method) {
            return;
        }
        self.asking.retain(|asking| !asking.is_over());
        let asking = session.ask(answer, ASK_LIFE, None);
        if session.put(envelope::write_request(asking.id(), &method, &params)).await {
            self.asking.push(asking);
        }
    }
}

/// Whether more of what comes before its turn can be kept.
fn room(overlap: &Option<Box<Overlap>>) -> bool {
    overlap.as_ref().is_none_or(|overlap| overlap.len() < OVERLAP)
}

/// What was heard before it was this pod's turn, but for what the client has been told.
async fn tell_untold(session: &Arc<LiveSession>, overlap: &mut Overlap) {
    for message in overlap.turn(session).await {
        session.tell(message);
    }
}

/// Resolves when this pod is to let go because it ends: at once where nobody can take over, else when somebody has had the
/// time to.
async fn leaves(gate: Arc<Gate>) {
    gate.lifecycle.draining.cancelled().await;
    if gate.rules.shared {
        tokio::time::sleep(HANDOVER).await;
    }
}

/// Resolves when no stream has been open for a while.
async fn alone(mut listeners: watch::Receiver<usize>) {
    // The sender lives as long as the session's handle, which the caller holds.
    while listeners.wait_for(|open| *open == 0).await.is_ok() {
        if timeout(LINGER, listeners.wait_for(|open| *open > 0)).await.is_err() {
            return;
        }
    }
}
