//! Pools of channels that are made of nothing.

use super::*;
use crate::upstream::channel::MessageLimits;
use crate::upstream::transport::Route;
use futures_util::future::join_all;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tokio::sync::Semaphore;

/// Starts channels that live until they are stopped, as many at a time as the test lets.
struct Maker {
    starts: AtomicUsize,
    may: Semaphore,
    fails: bool,
}

impl Start for Arc<Maker> {
    fn start(&self, stop: CancellationToken) -> Sent<Started> {
        let maker = self.clone();
        Box::pin(async move {
            maker.starts.fetch_add(1, SeqCst);
            maker.may.acquire().await.unwrap().forget();
            if maker.fails {
                return Err(TransportError::Unreachable("no".into()));
            }
            let (channel, outbound) = Channel::new("test", MessageLimits::default());
            let carried = channel.clone();
            let run = async move {
                let _unread = outbound;
                tokio::select! { () = stop.cancelled() => {}, () = carried.gone() => {} }
            };
            Ok(Started { channel, run: Box::pin(run) })
        })
    }
}

const LIMITS: PoolLimits = PoolLimits { most: 2, idle: Duration::from_secs(600), shared: false };

fn pool(limits: PoolLimits, fails: bool) -> (Arc<Pool>, Arc<Maker>) {
    let maker = Arc::new(Maker { starts: AtomicUsize::new(0), may: Semaphore::new(1000), fails });
    (Arc::new(Pool::new(Arc::new(maker.clone()), limits)), maker)
}

fn same(a: &Arc<dyn Transport>, b: &Arc<dyn Transport>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}

#[tokio::test]
async fn callers_who_dial_at_once_share_one_start_and_others_have_their_own_channel() {
    let (pool, maker) = pool(LIMITS, false);
    maker.may.forget_permits(1000);
    let mut dials = join_all((0..20).map(|_| pool.dial("a")));
    assert!(futures_util::poll!(&mut dials).is_pending());
    maker.may.add_permits(2);
    let got: Vec<_> = dials.await.into_iter().map(Result::unwrap).collect();
    assert!(got.iter().all(|one| same(one, &got[0])));
    let other = pool.dial("b").await.unwrap();
    assert!(!same(&other, &got[0]));
    assert_eq!((maker.starts.load(SeqCst), pool.len()), (2, 2));
}

#[tokio::test]
async fn a_start_that_nobody_waits_for_any_more_is_there_for_the_next() {
    let (pool, maker) = pool(LIMITS, false);
    maker.may.forget_permits(1000);
    let mut dial = pool.dial("a");
    assert!(futures_util::poll!(&mut dial).is_pending());
    drop(dial);
    maker.may.add_permits(1);
    pool.dial("a").await.unwrap();
    assert_eq!(maker.starts.load(SeqCst), 1);
}

#[tokio::test]
async fn no_more_channels_start_than_may() {
    let (pool, _) = pool(LIMITS, false);
    for who in ["a", "b"] {
        pool.dial(who).await.unwrap();
    }
    assert!(matches!(pool.dial("c").await, Err(TransportError::Busy)));
    pool.dial("a").await.unwrap();
}

#[tokio::test]
async fn a_channel_that_is_idle_makes_room() {
    let (pool, _) = pool(PoolLimits { idle: Duration::ZERO, most: 2, shared: false }, false);
    // Held by a standing stream, so neither idle nor swept.
    let held = pool.dial("a").await.unwrap();
    let route = Route { version: None, session: None, who: "a".into(), headers: Vec::new(), bearer: None };
    let _stream = held.standing(route, None).await.unwrap();
    let spare = pool.dial("b").await.unwrap();
    pool.dial("c").await.unwrap();
    spare.gone().await;
    assert!(same(&pool.dial("a").await.unwrap(), &held));
}

#[tokio::test]
async fn the_sweeper_ends_what_is_idle() {
    let (pool, _) = pool(PoolLimits { idle: Duration::from_millis(40), ..LIMITS }, false);
    pool.dial("a").await.unwrap().gone().await;
    assert!(pool.is_empty());
}

#[tokio::test]
async fn a_shared_pool_has_one_channel_for_all() {
    let (pool, _) = pool(PoolLimits { shared: true, ..LIMITS }, false);
    let (a, b) = (pool.dial("a").await.unwrap(), pool.dial("b").await.unwrap());
    assert!(same(&a, &b));
}

#[tokio::test]
async fn faults_in_a_row_are_answered_without_a_start_until_the_pause_is_over() {
    let (pool, maker) = pool(LIMITS, true);
    let mut dials = 0;
    let begin = Instant::now();
    while maker.starts.load(SeqCst) < 5 {
        assert!(matches!(pool.dial("a").await, Err(TransportError::Unreachable(_))));
        dials += 1;
    }
    // Pauses of 125 ms, 250 ms, 500 ms and 1 s at least lie between five starts.
    assert!(begin.elapsed() >= Duration::from_millis(1800), "{:?} for {dials}", begin.elapsed());
    // Another caller's start is not held back by it.
    let _ = pool.dial("b").await;
    assert_eq!(maker.starts.load(SeqCst), 6);
}

#[tokio::test]
async fn a_channel_that_ended_is_started_again() {
    let (pool, maker) = pool(LIMITS, false);
    let first = pool.dial("a").await.unwrap();
    for slot in pool.core.slots().values() {
        let State::Up(up) = &slot.state else { panic!() };
        up.channel.end(TransportError::Broken);
    }
    first.gone().await;
    assert!(!same(&pool.dial("a").await.unwrap(), &first));
    assert_eq!(maker.starts.load(SeqCst), 2);
}

#[tokio::test]
async fn hanging_up_ends_all_and_refuses_what_comes_later() {
    let (pool, _) = pool(LIMITS, false);
    let up = pool.dial("a").await.unwrap();
    pool.hang_up().await;
    assert!(futures_util::poll!(up.gone()).is_ready());
    assert!(pool.dial("a").await.is_err());
    assert!(pool.dial("b").await.is_err());
}

#[test]
fn pauses_double_up_to_the_longest() {
    let pauses: Vec<_> = [0, 1, 4, 20, u32::MAX].into_iter().map(pause).collect();
    let full = [250, 500, 4000, 30_000, 30_000].map(Duration::from_millis);
    for (pause, full) in pauses.into_iter().zip(full) {
        assert!(pause >= full / 2 && pause <= full, "{pause:?} of {full:?}");
    }
}
