//! Writing by turns. Where one thread does all the work, what is ready to be written waits until everything else that is
//! ready has been done, and then goes out in a row: a peer on the same machine is then woken once, and not for each message.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};
use tokio::runtime::{Handle, RuntimeFlavor};

/// The turn of one writer.
pub struct Turn {
    waits: bool,
    came: bool,
}

impl Turn {
    /// Of a writer in the runtime where this is called. Where several threads work, nothing is ready for long, and it is at
    /// once its turn.
    pub fn here() -> Turn {
        let alone = Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::CurrentThread);
        Turn { waits: alone, came: false }
    }

    /// Ready once everything that was ready before has been done. Then it stays so, until [`Turn::over`].
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.came || !self.waits {
            return Poll::Ready(());
        }
        self.came = true;
        // It notes in its first poll who is to be woken, and has nothing else to do.
        pin!(tokio::task::yield_now()).poll(context)
    }

    /// All was written: the next message waits for the next turn.
    pub fn over(&mut self) {
        self.came = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::{Arc, Mutex};

    #[test]
    fn what_is_written_by_turns_goes_out_in_a_row_after_all_work_that_was_ready() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        runtime.block_on(async {
            let calls: Vec<_> = (0..3)
                .map(|n| {
                    let said = said.clone();
                    tokio::spawn(async move {
                        let mut turn = Turn::here();
                        for _ in 0..2 {
                            said.lock().unwrap().push(format!("work {n}"));
                            poll_fn(|context| turn.poll(context)).await;
                            // It is still its turn.
                            poll_fn(|context| turn.poll(context)).await;
                            said.lock().unwrap().push(format!("write {n}"));
                            turn.over();
                        }
                    })
                })
                .collect();
            for call in calls {
                call.await.unwrap();
            }
        });
        let said = said.lock().unwrap();
        let worked = said.iter().take_while(|word| word.starts_with("work")).count();
        assert_eq!((worked, said.len()), (3, 12), "{said:?}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn where_several_threads_work_nobody_waits() {
        assert!(poll_fn(|context| Poll::Ready(Turn::here().poll(context))).await.is_ready());
    }
}
