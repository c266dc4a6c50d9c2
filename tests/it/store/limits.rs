//! Shared limits: what is granted over time is what the rate says, whoever asks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plasm_mcp::store::{Grant, Rate, Store};
use tokio::task::JoinSet;

use super::key;

pub async fn a_burst_is_granted_and_no_more(store: Arc<dyn Store>) {
    let key = key("lim");
    let rate = Rate { every: Duration::from_secs(60), burst: 10, cost: 1 };
    for left in (0..10).rev() {
        assert_eq!(store.admit(key.clone(), rate).await, Ok(Grant::Yes { left }));
    }
    let Ok(Grant::No { after }) = store.admit(key.clone(), rate).await else {
        panic!("the eleventh was granted")
    };
    assert!(after > Duration::from_secs(50) && after <= Duration::from_secs(60), "{after:?}");
    assert_eq!(
        store.admit(key, Rate { cost: 0, ..rate }).await,
        Ok(Grant::Yes { left: 0 }),
        "asking costs nothing"
    );
}

pub async fn a_limit_gives_its_rate_to_many_askers(store: Arc<dyn Store>) {
    let key = key("lim");
    let (every, burst) = (Duration::from_millis(20), 5);
    let rate = Rate { every, burst, cost: 1 };
    let begun = Instant::now();
    let mut askers = JoinSet::new();
    for _ in 0..8 {
        let (store, key) = (store.clone(), key.clone());
        askers.spawn(async move {
            let mut granted = 0u32;
            while begun.elapsed() < Duration::from_millis(400) {
                match store.admit(key.clone(), rate).await.expect("an answer") {
                    Grant::Yes { .. } => granted += 1,
                    Grant::No { after } => {
                        assert!(after <= every, "{after:?}: one unit never takes longer");
                        tokio::time::sleep(after).await;
                    }
                }
            }
            granted
        });
    }
    let granted: u32 = askers.join_all().await.into_iter().sum();
    let most = burst + (begun.elapsed().as_micros() / every.as_micros()) as u32 + 1;
    assert!(granted <= most, "{granted} granted, {most} at most");
    assert!(granted > burst, "units come back: {granted}");
}

pub async fn a_batch_is_granted_whole_or_refused_at_no_cost(store: Arc<dyn Store>) {
    let key = key("lim");
    let rate = |cost| Rate { every: Duration::from_secs(3600), burst: 100, cost };
    assert_eq!(store.admit(key.clone(), rate(60)).await, Ok(Grant::Yes { left: 40 }));
    assert!(matches!(store.admit(key.clone(), rate(60)).await, Ok(Grant::No { .. })));
    assert_eq!(store.admit(key.clone(), rate(40)).await, Ok(Grant::Yes { left: 0 }));
    assert_eq!(store.admit(key, rate(101)).await, Ok(Grant::No { after: Duration::MAX }));
}
