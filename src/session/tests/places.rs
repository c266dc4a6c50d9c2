//! GET streams of one session on several pods: each message goes to the newest, wherever it comes from.

use super::pods::{Pods, soon};
use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A stream that every pod knows of when this returns.
async fn announced(session: &Arc<LiveSession>) -> BoxStream<'static, Frame> {
    session.listen().announced().await.into_stream()
}

async fn next(stream: &mut BoxStream<'static, Frame>) -> String {
    text(soon(stream.next()).await).1
}

async fn led(session: &LiveSession, by: &Sessions) {
    let (mut lead, pod) = (session.lead(), by.pod());
    let is = |lead: &Lead| match lead {
        Lead::Here => session.shared.post.me == *pod,
        Lead::Elsewhere(other) => other == pod,
        Lead::Nobody => false,
    };
    soon(lead.wait_for(is)).await.unwrap();
}

#[tokio::test]
async fn a_message_of_any_pod_goes_to_the_newest_stream_of_all_pods_alone() {
    let pods = Pods::start(3);
    let of = pods.open().await;
    assert!(!of[2].put("nobody listens".into()).await);
    let mut old = announced(&of[0]).await;
    assert!(of[2].put("1".into()).await);
    assert_eq!(next(&mut old).await, "1");
    let mut new = announced(&of[1]).await;
    for (n, pod) in [("2", 2), ("3", 1), ("4", 0), ("5", 2)] {
        led(&of[pod], pods.on(1)).await;
        if n == "5" {
            of[pod].tell(n.into());
        } else {
            assert!(of[pod].put(n.into()).await);
        }
        assert_eq!(next(&mut new).await, n);
    }
    assert!(futures_util::FutureExt::now_or_never(old.next()).is_none(), "it is not the newest");
    drop(new);
    for session in &of {
        led(session, pods.on(0)).await;
    }
    assert!(of[2].put("6".into()).await && of[1].put("7".into()).await);
    let mut last = [next(&mut old).await, next(&mut old).await];
    last.sort();
    assert_eq!(last, ["6", "7"]);
}

#[tokio::test]
async fn many_messages_of_all_pods_come_once_and_each_pods_in_its_order() {
    let pods = Pods::start(3);
    let of = pods.open().await;
    let mut stream = announced(&of[1]).await;
    let sends = of.iter().enumerate().map(|(pod, session)| async move {
        for n in 0..100 {
            assert!(session.put(format!("{pod} {n}").into()).await);
        }
    });
    let (got, _) = tokio::join!(
        async {
            let mut got = Vec::new();
            while got.len() < 300 {
                got.push(next(&mut stream).await);
            }
            got
        },
        futures_util::future::join_all(sends),
    );
    for pod in 0..3 {
        let of_pod: Vec<_> = got.iter().filter(|text| text.starts_with(&pod.to_string())).collect();
        assert_eq!(
            of_pod,
            (0..100).map(|n| format!("{pod} {n}")).collect::<Vec<_>>().iter().collect::<Vec<_>>()
        );
    }
    assert!(futures_util::FutureExt::now_or_never(stream.next()).is_none());
}

#[tokio::test]
async fn what_waited_on_one_pod_reaches_a_stream_that_is_opened_on_another() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let mut first = announced(&of[0]).await;
    // As the task of a standing call holds it, which outlives the stream.
    let attending = of[0].attend().unwrap();
    of[0].tell("1".into());
    assert_eq!(next(&mut first).await, "1");
    drop(first);
    of[0].tell("2".into());
    of[0].tell("3".into());
    let mut second = announced(&of[1]).await;
    assert_eq!([next(&mut second).await, next(&mut second).await], ["2", "3"]);
    drop(attending);
}

#[tokio::test]
async fn a_get_stream_is_resumed_on_another_pod_exactly_once() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let first = of[0].listen().announced().await;
    let prime = first.priming_id().unwrap();
    let mut first = first.into_stream();
    let mut ids = Vec::new();
    for n in ["1", "2", "3"] {
        of[0].tell(n.into());
        let (id, message) = text(soon(first.next()).await);
        assert_eq!(message, n);
        ids.push(id);
    }
    let resume = async |session: &Arc<LiveSession>, id: &str| match session.resume(id) {
        Some(Resumed::Standing(listener)) => listener.announced().await.into_stream(),
        _ => panic!("a standing stream"),
    };
    // The first pod still believes its socket to be open.
    let mut there = resume(&of[1], &ids[0]).await;
    assert_eq!([next(&mut there).await, next(&mut there).await], ["2", "3"]);
    assert!(soon(first.next()).await.is_none(), "its client is elsewhere");
    of[0].tell("4".into());
    assert_eq!(next(&mut there).await, "4");
    drop(there);
    let mut again = resume(&of[0], &prime).await;
    for n in ["1", "2", "3", "4"] {
        assert_eq!(next(&mut again).await, n);
    }
    of[1].tell("5".into());
    assert_eq!(next(&mut again).await, "5");
}

#[tokio::test]
async fn b017_messages_for_the_one_stream_of_http_sse_come_from_any_pod_in_order() {
    let pods = Pods::start(2);
    let (anna, nobody) = (anna(), Client::default());
    let opened = pods.on(0).open(&anna, "p", Version::V2024_11_05, &nobody, Transport::Sse);
    let here = opened.await.unwrap().session;
    let mut stream = here.listen_without_ids().announced().await.into_stream();
    let there = pods.find(1, &here).await;
    for n in 0..50 {
        assert!(there.put(n.to_string().into()).await);
    }
    for n in 0..50 {
        assert_eq!(text(soon(stream.next()).await), (String::new(), n.to_string()));
    }
    // What the client says of itself there is known here.
    let client = Client { info: Some(Raw::trusted("{\"name\":\"c\"}")), ..Client::default() };
    there.describe(Version::V2024_11_05, &client).await.unwrap();
    there.touch().await.unwrap();
    soon(here.begun()).await;
    assert_eq!(here.facts().client.name().as_deref(), Some("c"));
}

#[tokio::test]
async fn the_stream_of_a_dead_pod_gets_nothing() {
    let mut pods = Pods::start(3);
    let of = pods.open().await;
    let mut old = announced(&of[1]).await;
    let _new = announced(&of[0]).await;
    led(&of[1], pods.on(0)).await;
    pods.kill(0).await;
    assert!(of[2].put("1".into()).await);
    of[1].tell("2".into());
    let mut got = [next(&mut old).await, next(&mut old).await];
    got.sort();
    assert_eq!(got, ["1", "2"]);
}

#[tokio::test]
async fn the_standing_call_goes_to_the_pod_of_the_newest_stream_once_it_stands_there() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let old = announced(&of[0]).await;
    let first = of[0].attend().unwrap();
    assert!(of[0].attend().is_none(), "one task a pod");
    soon(first.wanted()).await;
    let feeding = first.begin();
    of[0].changes().heard(1);
    let new = announced(&of[1]).await;
    let second = of[1].attend().unwrap();
    soon(second.wanted()).await;
    led(&of[0], pods.on(1)).await;
    let feeds_there = second.begin();
    let mut relieved = std::pin::pin!(feeding.relieved());
    assert!(futures_util::FutureExt::now_or_never(relieved.as_mut()).is_none(), "nothing stands there yet");
    of[1].changes().heard(1);
    let takes_over = feeds_there.relieved();
    tokio::select! {
        () = relieved => {}
        () = takes_over => panic!("it is the newest"),
        () = tokio::time::sleep(Duration::from_secs(10)) => panic!("nobody takes over"),
    }
    drop(new);
    // The older stream is the newest again.
    soon(first.wanted()).await;
    drop(old);
}

#[tokio::test]
async fn a_call_right_after_its_stream_waits_once_until_the_session_is_listened_in() {
    let pods = Pods::start(1);
    let of = pods.open().await;
    assert!(!of[0].is_deaf_yet(), "no stream, nothing to wait for");
    let _stream = announced(&of[0]).await;
    let attending = of[0].attend().unwrap();
    soon(attending.wanted()).await;
    let _feeding = attending.begin();
    assert!(of[0].is_deaf_yet());
    let mut waits = std::pin::pin!(of[0].heard_at_all());
    assert!(futures_util::FutureExt::now_or_never(waits.as_mut()).is_none());
    of[0].changes().heard(1);
    soon(waits).await;
    assert!(!of[0].is_deaf_yet());
}

#[tokio::test]
async fn of_two_standing_calls_that_stand_the_one_without_the_newest_stream_gives_way() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let _first = announced(&of[0]).await;
    let here = of[0].attend().unwrap();
    soon(here.wanted()).await;
    let feeds_here = here.begin();
    of[0].changes().heard(1);
    let mut relieved = std::pin::pin!(feeds_here.relieved());
    let mut attends = of[0].attends.subscribe();
    tokio::select! {
        () = &mut relieved => panic!("by nobody"),
        _ = attends.wait_for(Option::is_some) => {}
    }
    let _second = announced(&of[1]).await;
    let there = of[1].attend().unwrap();
    soon(there.wanted()).await;
    let feeds_there = there.begin();
    of[1].changes().heard(1);
    let mut gives_way = std::pin::pin!(feeds_there.relieved());
    tokio::select! {
        () = &mut gives_way => panic!("it has the newest"),
        _ = attends.wait_for(|pod| pod.as_ref() == Some(pods.on(1).pod())) => {}
    }
    // Before the task of this pod has seen that it is relieved.
    let _third = announced(&of[0]).await;
    // As if the news of the other's turn were still on their way.
    led(&of[1], pods.on(0)).await;
    tokio::select! {
        () = relieved => panic!("it has the newest"),
        () = gives_way => {}
        () = tokio::time::sleep(Duration::from_secs(10)) => panic!("both feed the streams"),
    }
}

#[tokio::test]
async fn a_pod_knows_that_changes_may_have_been_missed_where_the_one_before_it_hands_nothing_over() {
    for orderly in [true, false] {
        let pods = Pods::start(2);
        let of = pods.open().await;
        let _old = announced(&of[0]).await;
        let first = of[0].attend().unwrap();
        soon(first.wanted()).await;
        let feeding = first.begin();
        of[0].changes().heard(1);
        let mut attends = of[0].attends.subscribe();
        tokio::select! {
            () = feeding.relieved() => panic!("by nobody"),
            _ = attends.wait_for(Option::is_some) => {}
        }
        let _new = announced(&of[1]).await;
        let second = of[1].attend().unwrap();
        soon(second.wanted()).await;
        let feeds_there = second.begin();
        of[1].changes().heard(1);
        let missed = async {
            tokio::select! {
                () = feeds_there.relieved() => panic!("it is the newest"),
                () = feeds_there.missed() => {}
            }
        };
        if orderly {
            let mut handed = of[1].handed.subscribe();
            let handing = async {
                feeding.relieved().await;
                feeding.hand_over().await;
                handed.wait_for(Option::is_some).await.map(drop)
            };
            tokio::select! {
                () = missed => panic!("all that came was passed on"),
                heard = soon(handing) => heard.unwrap(),
            }
        } else {
            soon(missed).await;
        }
    }
}

#[tokio::test]
async fn a_subscription_on_one_pod_waits_until_the_pod_of_the_stream_listens_for_it() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let _stream = announced(&of[0]).await;
    let attending = of[0].attend().unwrap();
    let _feeding = attending.begin();
    let mut made = of[0].changes().watch();
    of[1].subscribe("file:///a").await.unwrap();
    let waits = tokio::spawn({
        let there = of[1].clone();
        async move { there.taken_up().await }
    });
    soon(made.changed()).await.unwrap();
    assert!(of[0].facts().subscriptions.contains("file:///a"));
    assert!(!waits.is_finished());
    let count = *made.borrow_and_update();
    of[0].changes().heard(count);
    soon(waits).await.unwrap();
}

#[tokio::test]
async fn what_a_relieved_pod_was_told_goes_before_what_the_next_one_tells() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let _old = announced(&of[0]).await;
    let first = of[0].attend().unwrap();
    soon(first.wanted()).await;
    let feeding = first.begin();
    of[0].changes().heard(1);
    let mut attends = of[0].attends.subscribe();
    tokio::select! {
        () = feeding.relieved() => panic!("by nobody"),
        _ = attends.wait_for(Option::is_some) => {}
    }
    let mut new = announced(&of[1]).await;
    let second = of[1].attend().unwrap();
    soon(second.wanted()).await;
    let feeds_there = second.begin();
    of[1].changes().heard(1);
    led(&of[0], pods.on(1)).await;
    for n in 0..20 {
        of[0].tell(n.to_string().into());
    }
    let handing = async {
        feeding.relieved().await;
        feeding.hand_over().await;
        std::future::pending::<()>().await
    };
    let turn = async {
        tokio::select! {
            () = feeds_there.relieved() => panic!("it is the newest"),
            () = feeds_there.settled() => {}
        }
        of[1].tell("its turn".into());
    };
    // The stream is read all the while: what is told goes into its log.
    let came = async {
        let mut came = Vec::new();
        for _ in 0..21 {
            came.push(next(&mut new).await);
        }
        came
    };
    let came = tokio::select! {
        () = handing => panic!("it goes on"),
        (came, ()) = async { tokio::join!(came, turn) } => came,
    };
    let mut expected: Vec<_> = (0..20).map(|n: u32| n.to_string()).collect();
    expected.push("its turn".to_owned());
    assert_eq!(came, expected);
}

#[tokio::test]
async fn of_what_two_pods_heard_at_once_the_client_is_told_once() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let (_old, mut stream) = (announced(&of[0]).await, announced(&of[1]).await);
    led(&of[0], pods.on(1)).await;
    let mut overlap = Overlap::begin(&of[1]).await;
    let changed = |uri: &str| {
        let params = format!(r#"{{"uri":"{uri}"}}"#);
        Bytes::from(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{params}}}"#
        ))
    };
    let logged =
        Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}"#);
    of[0].tell(changed("earlier"));
    assert_eq!(next(&mut stream).await, changed("earlier"));
    for heard in [changed("earlier"), changed("both"), changed("both"), changed("mine"), logged.clone()] {
        overlap.keep(&of[1], heard).await;
    }
    for told in [changed("both"), logged.clone()] {
        of[0].tell(told.clone());
        assert_eq!(next(&mut stream).await, told);
    }
    // What was told before it was heard says nothing of it, one telling stands for one, and a log message for itself alone.
    assert_eq!(overlap.turn(&of[1]).await, [changed("earlier"), changed("both"), changed("mine"), logged]);
}

#[tokio::test]
async fn what_says_more_than_that_something_changed_is_told_once_however_late_the_next_pod_hears_it() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let (_old, mut stream) = (announced(&of[0]).await, announced(&of[1]).await);
    led(&of[0], pods.on(1)).await;
    let numbered = |n: u32| {
        let text = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:1","_meta":{"n":N}}}"#;
        Bytes::from(text.replace("N}", &format!("{n}}}")))
    };
    of[0].tell(numbered(1));
    assert_eq!(next(&mut stream).await, numbered(1));
    let mut overlap = Overlap::begin(&of[1]).await;
    for n in [2, 3, 4] {
        of[0].tell(numbered(n));
        assert_eq!(next(&mut stream).await, numbered(n));
    }
    // The first pod was quicker: what it told stands in the log before the second one hears of it.
    overlap.keep(&of[1], numbered(1)).await;
    overlap.keep(&of[1], numbered(2)).await;
    overlap.keep(&of[1], numbered(5)).await;
    assert_eq!(overlap.turn(&of[1]).await, [numbered(1), numbered(5)]);
    // Its turn has come, and it is slow still.
    assert!(overlap.was_told(&numbered(3)));
    assert!(!overlap.was_told(&numbered(3)), "one telling stands for one");
    assert!(overlap.was_told(&numbered(4)));
    assert!(!overlap.was_told(&numbered(6)));
}

#[tokio::test]
async fn a_pod_that_has_not_heard_that_another_took_over_says_again_that_it_feeds_the_streams() {
    let pods = Pods::start(2);
    let of = pods.open().await;
    let _first = announced(&of[0]).await;
    let (here, there) = (AtomicBool::new(false), AtomicBool::new(false));
    assert_eq!(of[0].attends_here(&here).await, Ok(Some(false)));
    assert_eq!(of[0].attends.borrow().as_ref(), Some(pods.on(0).pod()));
    let _second = announced(&of[1]).await;
    let (took, handed) = tokio::join!(of[1].attends_here(&there), async {
        of[0].attends.subscribe().wait_for(|pod| pod.as_ref() == Some(pods.on(1).pod())).await.unwrap();
        of[0].hand_on().await;
    });
    assert_eq!((took, handed), (Ok(Some(false)), ()));
    assert!(there.load(Ordering::Relaxed));
    led(&of[0], pods.on(1)).await;
    assert_eq!(of[0].attends_here(&here).await, Ok(None), "it is the other's turn");
    assert!(here.load(Ordering::Relaxed), "and what this one had is still to be handed on");
    let _third = announced(&of[0]).await;
    // As if the news of the other's turn were still on their way.
    of[0].attends.send_replace(Some(pods.on(0).pod().clone()));
    of[0].handed.send_replace(Some(pods.on(0).pod().clone()));
    let (took, ()) = tokio::join!(of[0].attends_here(&here), async {
        of[1].attends.subscribe().wait_for(|pod| pod.as_ref() == Some(pods.on(0).pod())).await.unwrap();
        assert_ne!(
            of[0].handed.borrow().as_ref(),
            Some(pods.on(0).pod()),
            "it was handed over before, not now"
        );
        of[1].hand_on().await;
    });
    assert_eq!(took, Ok(Some(false)));
}
