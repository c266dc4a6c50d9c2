//! Calls in flight of one principal and one tenant in this pod, and the most there may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The calls in flight of one.
#[derive(Debug)]
pub(super) struct Row {
    pub limit: &'static str,
    most: u32,
    taken: AtomicU32,
}

/// A place among the calls in flight; given back when dropped.
#[derive(Debug)]
pub struct Seat(Vec<Arc<Row>>);

/// There are as many calls in flight as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowded {
    /// Whose: `principal_calls` or `tenant_calls`.
    pub limit: &'static str,
}

impl Row {
    pub fn new(limit: &'static str, most: u32) -> Row {
        Row { limit, most, taken: AtomicU32::new(0) }
    }

    pub fn is_empty(&self) -> bool {
        self.taken.load(Ordering::Acquire) == 0
    }
}

impl Seat {
    /// A place in each of `rows`, or in none.
    pub(super) fn take(rows: &[Arc<Row>]) -> Result<Seat, Crowded> {
        let mut seat = Seat(Vec::with_capacity(rows.len()));
        for row in rows {
            let more = |taken: u32| (taken < row.most).then_some(taken + 1);
            if row.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
                return Err(Crowded { limit: row.limit });
            }
            seat.0.push(row.clone());
        }
        Ok(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        for row in &self.0 {
            row.taken.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_in_all_rows_or_in_none_and_is_given_back() {
        let rows = [Arc::new(Row::new("a", 2)), Arc::new(Row::new("b", 1))];
        let seat = Seat::take(&rows).unwrap();
        assert_eq!(Seat::take(&rows).unwrap_err(), Crowded { limit: "b" });
        // What was taken of the first was given back.
        assert!(Seat::take(&rows[..1]).is_ok());
        drop(seat);
        assert!(rows.iter().all(|row| row.is_empty()));
        assert!(Seat::take(&rows).is_ok());
    }
}
