//! How much the memory store holds, and the refusal to hold more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::store::StoreError;

/// The bytes in use and their cap. A write reserves the most it may need, then gives back what it did not.
pub(super) struct Ledger {
    used: AtomicUsize,
    cap: usize,
}

impl Ledger {
    pub(super) fn new(cap: usize) -> Self {
        Ledger { used: AtomicUsize::new(0), cap }
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Reserving nothing always succeeds: what only removes is never refused.
    pub(super) fn reserve(&self, bytes: usize) -> Result<(), StoreError> {
        if bytes == 0 {
            return Ok(());
        }
        let within = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= self.cap);
        self.used.fetch_update(Relaxed, Relaxed, within).map(drop).map_err(|_| StoreError::Full)
    }

    pub(super) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

/// Reserved bytes that are given back when whatever holds them goes.
pub(super) struct Hold {
    ledger: Arc<Ledger>,
    bytes: usize,
}

impl Hold {
    pub(super) fn new(ledger: &Arc<Ledger>, bytes: usize) -> Result<Self, StoreError> {
        ledger.reserve(bytes)?;
        Ok(Hold { ledger: ledger.clone(), bytes })
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.ledger.release(self.bytes);
    }
}
