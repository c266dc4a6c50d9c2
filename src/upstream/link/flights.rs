//! One at a time: who asks for what is already being asked for waits for that answer.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

/// Work under way, by key. It goes on though all who wait for it leave, so that nothing is left half done.
pub struct Flights<K, T: Clone> {
    going: Mutex<HashMap<K, Shared<BoxFuture<'static, T>>>>,
}

impl<K: Hash + Eq + Clone + Send + 'static, T: Clone + Send + Sync + 'static> Flights<K, T> {
    pub fn new() -> Arc<Self> {
        Arc::new(Flights { going: Mutex::new(HashMap::new()) })
    }

    /// The outcome of the work under `key`, which is begun by `make` where none is under way.
    pub async fn join<F>(self: &Arc<Self>, key: K, make: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T> + Send + 'static,
    {
        let shared = {
            let mut going = self.going.lock().expect("no holder of the flights panics");
            if let Some(shared) = going.get(&key) {
                shared.clone()
            } else {
                let (flights, work, name) = (self.clone(), make(), key.clone());
                let flight = async move {
                    let outcome = work.await;
                    flights.going.lock().expect("no holder of the flights panics").remove(&name);
                    outcome
                };
                let shared = flight.boxed().shared();
                going.insert(key, shared.clone());
                tokio::spawn(shared.clone());
                shared
            }
        };
        shared.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn many_who_ask_at_once_get_one_answer_and_the_next_asks_anew() {
        let flights = Flights::<&str, u32>::new();
        let begun = Arc::new(AtomicU32::new(0));
        let (go, gate) = oneshot::channel::<()>();
        let work = |gate: Option<oneshot::Receiver<()>>| {
            let begun = begun.clone();
            move || async move {
                let n = begun.fetch_add(1, Ordering::SeqCst) + 1;
                if let Some(gate) = gate {
                    gate.await.unwrap();
                }
                n
            }
        };
        let first = flights.join("a", work(Some(gate)));
        let second = flights.join("a", work(None));
        let release = async { go.send(()).unwrap() };
        let (first, second, ()) = tokio::join!(first, second, release);
        assert_eq!((first, second), (1, 1));
        assert_eq!(flights.join("a", work(None)).await, 2);
    }
}
