//! Quotas by day of UTC: a number in a record of the store for each day, raised by one pod after another.

use super::ledger::Charged;
use crate::store::{Check, Commit, Key, Store, StoreError, Sure, Write};
use bytes::Bytes;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;
/// How long the number outlives its day.
const KEPT: Duration = Duration::from_secs(2 * DAY);
const USED: &str = "used";
/// How often pods may get in each other's way before one of them lets the others go first.
const TRIES: usize = 8;

/// Which day it is, and how long it still is.
fn today() -> (u64, Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let day = now.as_secs() / DAY;
    (day, Duration::from_secs((day + 1) * DAY).saturating_sub(now))
}

/// Takes `demand` calls of what is left of today, of which `owed` were made already and count in any case.
pub(super) async fn charge(
    store: &dyn Store,
    name: &str,
    quota: u32,
    demand: u32,
    owed: u32,
) -> Result<Charged, StoreError> {
    let (day, rest) = today();
    let key = Key::new(format!("{name}:{day}"), "");
    for _ in 0..TRIES {
        let record = store.get(key.clone()).await?;
        let used = record.as_ref().and_then(|record| record.field(USED)).map_or(0, number);
        let left = u64::from(quota).saturating_sub(used);
        let granted = u64::from(demand).min(left).max(u64::from(owed));
        let after = left.saturating_sub(granted);
        let charged = Charged {
            granted: u32::try_from(granted).unwrap_or(u32::MAX),
            left: u32::try_from(after).unwrap_or(u32::MAX),
            dry: (after == 0).then_some(rest),
        };
        if granted == 0 {
            return Ok(charged);
        }
        let check = match &record {
            Some(record) => Check::Rev(record.rev),
            None => Check::Absent,
        };
        let writes = vec![
            (key.clone(), Write::set(USED, (used + granted).to_string())),
            (key.clone(), Write::Live(KEPT)),
        ];
        match store.commit(vec![(key.clone(), check)], writes, Sure::Master).await? {
            Commit::Done(_) => return Ok(charged),
            Commit::Failed { .. } => {}
        }
    }
    // Nothing is known: what is owed is owed on.
    Ok(Charged { granted: 0, left: 0, dry: None })
}

fn number(bytes: &Bytes) -> u64 {
    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;

    #[tokio::test]
    async fn a_day_has_its_quota_and_what_was_made_already_counts() {
        let store = Memory::new(1 << 20);
        let charge = async |demand, owed| charge(&store, "q", 10, demand, owed).await.unwrap();
        assert_eq!(charge(4, 0).await, Charged { granted: 4, left: 6, dry: None });
        let last = charge(9, 3).await;
        assert_eq!((last.granted, last.left), (6, 0));
        assert!(last.dry.is_some_and(|dry| dry <= Duration::from_secs(DAY)));
        // Admitted on account by a pod while another took the last ones.
        assert_eq!(charge(2, 2).await.granted, 2);
        assert_eq!(charge(1, 0).await.granted, 0);
    }
}
