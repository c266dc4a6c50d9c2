//! What links remember of a session in this pod, with the session itself: found without a hash. Nothing depends on its being
//! remembered. No I/O.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Things that are remembered of one session; most sessions are known to one or two links.
const MOST: usize = 4;

/// A memory beside a session.
#[derive(Default)]
pub struct Nook(Mutex<Vec<Remembered>>);

struct Remembered {
    whose: u64,
    epoch: u64,
    what: Arc<dyn Any + Send + Sync>,
}

/// Who remembers: unlike all others of the process. What it remembers is void once it says so.
pub struct Memory {
    name: u64,
    epoch: AtomicU64,
}

impl Default for Memory {
    fn default() -> Memory {
        static NAMES: AtomicU64 = AtomicU64::new(0);
        Memory { name: NAMES.fetch_add(1, Ordering::Relaxed), epoch: AtomicU64::new(0) }
    }
}

impl Memory {
    /// What this one remembered in `nook`; else what `ask` says, which is remembered. What is forgotten while `ask` is at it
    /// is not remembered.
    pub fn recall<T: Any + Send + Sync>(
        &self,
        nook: &Nook,
        ask: impl FnOnce() -> Option<Arc<T>>,
    ) -> Option<Arc<T>> {
        let epoch = self.epoch.load(Ordering::Acquire);
        let lock = || nook.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = lock()
            .iter()
            .find(|held| held.whose == self.name && held.epoch == epoch)
            .map(|held| held.what.clone());
        if let Some(known) = held.and_then(|what| what.downcast().ok()) {
            return Some(known);
        }
        let asked = ask()?;
        let mut held = lock();
        held.retain(|held| held.whose != self.name);
        if held.len() == MOST {
            held.remove(0);
        }
        held.push(Remembered { whose: self.name, epoch, what: asked.clone() });
        Some(asked)
    }

    /// All that this one remembers anywhere is void.
    pub fn forget(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_each_ones_own_until_it_forgets() {
        let (nook, one, two) = (Nook::default(), Memory::default(), Memory::default());
        let asked =
            |of: &Memory, says: Option<u32>| of.recall(&nook, || says.map(Arc::new)).map(|known| *known);
        assert_eq!(asked(&one, None), None);
        assert_eq!(asked(&one, Some(1)), Some(1));
        assert_eq!(asked(&two, Some(2)), Some(2));
        assert_eq!((asked(&one, Some(3)), asked(&two, Some(3))), (Some(1), Some(2)));
        one.forget();
        assert_eq!((asked(&one, Some(3)), asked(&two, Some(3))), (Some(3), Some(2)));
        // It forgets while it asks: what it was told may be old.
        one.forget();
        one.recall(&nook, || {
            one.forget();
            Some(Arc::new(4u32))
        });
        assert_eq!(asked(&one, Some(5)), Some(5));
    }
}
