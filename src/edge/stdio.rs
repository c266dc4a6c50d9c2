//! The stdio edge: both eras on one pipe, a message a line. A message whose `_meta` says so is modern; the others are of
//! the session that `initialize` began. Knows no process: whoever has two byte streams can be served.

mod asks;
mod calls;
mod legacy;
mod pipe;
mod run;
mod talk;

use super::gate::{Gate, Mount};
use crate::lifecycle::Lifecycle;
use crate::lines::{Line, Lines};
use crate::wire::{Refused, code};
use std::sync::Arc;
use std::time::Duration;
use talk::Talk;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

/// After the end of the input, calls that are nearly done may still be answered; the others are cancelled.
const LAST_ANSWERS: Duration = Duration::from_millis(500);
/// How long a reader may take for what was written before the end, and upstreams to hear that a session is over.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves one client until its input ends, until it reads no more, or until the lifecycle says so. What is in flight
/// then is cancelled, and standing streams get their completion.
pub async fn serve(
    gate: Arc<Gate>,
    mount: Arc<Mount>,
    lifecycle: &Lifecycle,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) {
    let limit = gate.rules.request_bytes;
    let (pipe, outbound) = pipe::open();
    let mut writing = tokio::spawn(pipe::write(output, outbound));
    let talk = Arc::new(Talk::new(gate, mount, pipe));
    // A line that is too long is skipped to its end, however far that is: the client is one and has no other pipe.
    let mut lines = Lines::new(input, limit, usize::MAX);
    tokio::select! {
        () = read(&talk, &mut lines, limit) => tracing::debug!("the input has ended"),
        _ = &mut writing => tracing::debug!("nobody reads the output"),
        () = lifecycle.draining.cancelled() => {
            // Answers to what upstreams asked still count while the calls in flight finish.
            talk.say_farewell();
            tokio::select! {
                () = talk.settled() => {}
                () = lifecycle.over.cancelled() => {}
                () = read(&talk, &mut lines, limit) => {}
                _ = &mut writing => {}
            }
        }
    }
    end(talk, writing).await;
}

async fn end(talk: Arc<Talk>, writing: JoinHandle<std::io::Result<()>>) {
    talk.say_farewell();
    let _ = tokio::time::timeout(LAST_ANSWERS, talk.settled()).await;
    talk.cancel_all();
    let _ = tokio::time::timeout(FAREWELL, async {
        talk.settled().await;
        talk.end_session().await;
        // The writer ends when the last who may speak is gone.
        drop(talk);
        let _ = writing.await;
    })
    .await;
}

async fn read(talk: &Arc<Talk>, lines: &mut Lines<impl AsyncRead + Unpin>, limit: usize) {
    loop {
        match lines.next().await {
            Ok(Some(Line::Text(text))) if text.iter().all(u8::is_ascii_whitespace) => {}
            Ok(Some(Line::Text(text))) => talk.take(text).await,
            Ok(Some(Line::TooLong { .. })) => {
                let why = format!("a message of more than {limit} bytes");
                talk.refuse(&Refused { id: None, code: code::INVALID_REQUEST, why }).await;
            }
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "the input cannot be read");
                return;
            }
        }
        // A client that floods us must not keep the thread to itself.
        tokio::task::consume_budget().await;
    }
}
