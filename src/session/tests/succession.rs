//! Streams whose pod is gone: one reader's pod goes on with each, and the pod that was given up writes no more.

use super::pods::{Pods, soon};
use super::*;
use tokio::sync::mpsc;

fn quick() -> Settings {
    let short = Duration::from_millis(10);
    Settings { again: short, grace: short, ..Settings::default() }
}

/// The rest of a stream, read by a pod that would go on with it.
fn read(
    session: &Arc<LiveSession>,
    id: &str,
    heir: &mpsc::UnboundedSender<Inherited>,
) -> BoxStream<'static, Frame> {
    let Some(Resumed::Answer(follower)) = session.resume(id) else { panic!("an id of this session") };
    let heir = heir.clone();
    follower.with_heir(Arc::new(move |inherited| heir.send(inherited).unwrap())).into_stream()
}

#[tokio::test]
async fn a_stream_whose_pod_is_gone_is_gone_on_with_by_one_pod_and_the_other_writes_no_more() {
    let mut pods = Pods::with(3, quick());
    let of = pods.open().await;
    let (outlet, reads) = of[0].stream();
    let prime = reads.priming_id();
    outlet.note("c", "calls".into());
    outlet.note("a0", "here".into());
    outlet.send("1".into()).await.unwrap();
    outlet.note("a0", "there".into());
    outlet.flush().await.unwrap();
    let (heir, mut inherited) = mpsc::unbounded_channel();
    let readers = [1, 2, 2].map(|pod| tokio::spawn(all(read(&of[pod], &prime, &heir))));
    tokio::task::yield_now().await;
    assert!(inherited.try_recv().is_err(), "its pod is there");
    pods.kill(0).await;
    let taken = soon(inherited.recv()).await.unwrap();
    let note = |field: &str| taken.notes.get(field).map(|note| &note[..]);
    assert_eq!((note("c"), note("a0")), (Some(&b"calls"[..]), Some(&b"there"[..])));
    assert_eq!(outlet.send("mine".into()).await, Err(Unsent::TakenOver));
    assert_eq!(outlet.finish(Some("mine".into())).await, Err(Unsent::TakenOver));
    taken.outlet.send("2".into()).await.unwrap();
    taken.outlet.finish(Some("3".into())).await.unwrap();
    for reader in readers {
        assert_eq!(soon(reader).await.unwrap(), ["1", "2", "3"]);
    }
    assert!(inherited.try_recv().is_err(), "one went on with it");
}

#[tokio::test]
async fn a_stream_that_changed_its_pod_changes_it_again() {
    let mut pods = Pods::with(3, quick());
    let of = pods.open().await;
    let (outlet, reads) = of[0].stream();
    let prime = reads.priming_id();
    outlet.send("1".into()).await.unwrap();
    let (heir, mut inherited) = mpsc::unbounded_channel();
    let first = tokio::spawn(all(read(&of[1], &prime, &heir)));
    pods.kill(0).await;
    let second = soon(inherited.recv()).await.unwrap();
    second.outlet.send("2".into()).await.unwrap();
    let last = tokio::spawn(all(read(&of[2], &prime, &heir)));
    pods.kill(1).await;
    let third = soon(inherited.recv()).await.unwrap();
    assert_eq!(second.outlet.send("mine".into()).await, Err(Unsent::TakenOver));
    third.outlet.finish(Some("3".into())).await.unwrap();
    assert_eq!(soon(last).await.unwrap(), ["1", "2", "3"]);
    drop(second);
    assert_eq!(soon(first).await.unwrap(), ["1", "2", "3"]);
}

#[tokio::test]
async fn a_call_that_its_own_pod_dropped_is_gone_on_with_at_once() {
    let pods = Pods::with(2, Settings { again: Duration::from_secs(60), ..Settings::default() });
    let of = pods.open().await;
    let (outlet, reads) = of[0].stream();
    outlet.note("c", "calls".into());
    outlet.flush().await.unwrap();
    drop(outlet);
    let (heir, mut inherited) = mpsc::unbounded_channel();
    let reader = tokio::spawn(all(read(&of[1], &reads.priming_id(), &heir)));
    let taken = soon(inherited.recv()).await.unwrap();
    taken.outlet.finish(Some("1".into())).await.unwrap();
    assert_eq!(soon(reader).await.unwrap(), ["1"]);
}
