//! Sessions that are over: each is found once over all pods, and what its links kept is given back to be ended.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

const SHORT: Duration = Duration::from_millis(1500);

fn pods(store: &Arc<Memory>) -> [Sessions; 2] {
    let keyring = Arc::new(Keyring::random());
    let settings = Settings { life: SHORT, ..Settings::default() };
    [0, 1].map(|_| Sessions::new(PodId::random(), store.clone(), keyring.clone(), settings.clone()))
}

/// Sweeps by all pods until so many sessions were ended, and how many were.
async fn swept(pods: &[Sessions; 2], most: usize) -> Vec<Arc<Ended>> {
    let ended = Mutex::new(Vec::new());
    let count = AtomicUsize::new(0);
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while count.load(Ordering::SeqCst) < most && tokio::time::Instant::now() < until {
        let sweep = |pod: usize| {
            pods[pod].sweep(|session| {
                lock(&ended).push(session);
                count.fetch_add(1, Ordering::SeqCst);
                std::future::ready(())
            })
        };
        let (one, other) = tokio::join!(sweep(0), sweep(1));
        assert_eq!((one, other), (Ok(()), Ok(())));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ended.into_inner().unwrap()
}

#[tokio::test]
async fn b025_b119_a_session_that_is_over_is_ended_upstream_once_and_one_in_use_is_not() {
    let store = Arc::new(Memory::new(64 << 20));
    let pods = pods(&store);
    let (left, kept) = (open(&pods[0]).await, open(&pods[0]).await);
    let up = UpstreamId::new("up").unwrap();
    assert_eq!(left.swap(&up, None, Some("S".into())).await, Ok(true));
    let used = kept.clone();
    let using = tokio::spawn(async move {
        loop {
            used.touch().await.unwrap();
            tokio::time::sleep(SHORT / 24).await;
        }
    });
    let ended = swept(&pods, 1).await;
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].id(), left.id());
    assert_eq!(ended[0].load(&up).await, Ok(Some("S".into())));
    assert!(finds(&pods[1], &kept).await, "it is in use");
    using.abort();
    let later = swept(&pods, 1).await;
    assert_eq!(later[0].id(), kept.id(), "its time came later");
}

#[tokio::test]
async fn a_session_that_was_deleted_leaves_nothing_in_the_index() {
    let store = Arc::new(Memory::new(64 << 20));
    let pods = pods(&store);
    let before = store.used();
    let session = open(&pods[0]).await;
    let ended = pods[1].delete(session.session_id().as_str(), &anna(), "p").await;
    assert!(matches!(ended, Deleted::Ended(_)));
    store.take(Key::new(format!("p:{}", session.facts().owner), "ss"), Sure::Master).await.unwrap();
    // An empty record of the index stays until its time; a thousand sessions share it.
    assert!(store.used() - before < 512, "{}", store.used() - before);
}
