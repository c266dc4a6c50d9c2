//! Pods that are killed while they write.

use std::time::Instant;

use super::*;
use crate::harness::comes_true;

#[tokio::test]
async fn a_pod_that_is_killed_while_it_writes_leaves_an_unknown_outcome_and_one_write() {
    let mut three = Three::start(false, json!({})).await;
    let how = How::Modern;
    let handle = opened(&three.pods[0], &how, None).await;
    let run_ref = planned(&three.pods[1], &how, None, &handle, ORDER).await;
    let ask = json!({"logical_session_ref": handle, "run_ref": run_ref});
    let call = json!({"name": "plasm_run", "arguments": ask}).to_string();
    let client = Modern::new(three.pods[2].address, "/mcp", json!({}));
    let lost = tokio::spawn(async move {
        // The connection breaks: nothing comes, or a part of it.
        let answer = std::panic::AssertUnwindSafe(client.send("1", "tools/call", &call));
        futures_util::FutureExt::catch_unwind(answer).await.map(|answer| answer.status)
    });
    let shop = three.shop.clone();
    comes_true("the write has reached the shop", || async { shop.orders() == 1 }).await;
    three.pods[2].kill();
    let killed = Instant::now();
    let _ = lost.await;
    let mut all = Vec::new();
    let told = loop {
        let told = tool(&three.pods[0], &how, "plasm_run", ask.clone()).await;
        all.push(code(&told).to_owned());
        if code(&told) != "already_running" {
            break told;
        }
        assert!(killed.elapsed() < std::time::Duration::from_secs(25), "its lease is over by now");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    };
    assert_eq!(code(&told), "outcome_unknown", "{told}");
    assert_eq!(told["structuredContent"]["error"]["retryable"], false);
    assert!(all.len() > 1, "while its lease runs it may live");
    three.shop.gate.add_permits(10);
    for pod in &three.pods[..2] {
        for how in [How::Modern, How::Legacy(None)] {
            assert_eq!(code(&tool(pod, &how, "plasm_run", ask.clone()).await), "outcome_unknown");
        }
    }
    assert_eq!(three.shop.orders(), 1, "nobody writes it again");
    let again = planned(&three.pods[1], &how, None, &handle, ORDER).await;
    let ask = json!({"logical_session_ref": handle, "run_ref": again});
    let done = tool(&three.pods[0], &how, "plasm_run", ask).await;
    assert_eq!((code(&done), three.shop.orders()), ("none", 2), "{done}");
}

#[tokio::test]
async fn two_pods_that_run_one_write_at_once_write_once() {
    let three = Three::start(true, json!({})).await;
    let how = How::Legacy(None);
    let handle = opened(&three.pods[0], &how, None).await;
    for round in 1..=5 {
        let run_ref = planned(&three.pods[1], &how, None, &handle, ORDER).await;
        let ask = json!({"logical_session_ref": handle, "run_ref": run_ref});
        let calls = three.pods.iter().map(|pod| tool(pod, &how, "plasm_run", ask.clone()));
        let answers = futures_util::future::join_all(calls).await;
        let outcome = tool(&three.pods[0], &how, "plasm_run", ask.clone()).await;
        assert_eq!(code(&outcome), "none", "{outcome}");
        for answer in &answers {
            assert!(code(answer) == "already_running" || *answer == outcome, "{answer}\n{outcome}");
        }
        assert_eq!(three.shop.orders(), round, "one write a plan");
    }
}

#[tokio::test]
async fn a_pod_that_drains_ends_a_write_whose_client_went_away_before_it_goes() {
    let mut three = Three::start(false, json!({})).await;
    let how = How::Modern;
    let handle = opened(&three.pods[0], &how, None).await;
    let run_ref = planned(&three.pods[1], &how, None, &handle, ORDER).await;
    let ask = json!({"logical_session_ref": handle, "run_ref": run_ref});
    let call = json!({"name": "plasm_run", "arguments": ask}).to_string();
    let client = Modern::new(three.pods[2].address, "/mcp", json!({}));
    let gone = tokio::spawn(async move { client.send("1", "tools/call", &call).await.status });
    let shop = three.shop.clone();
    comes_true("the write has reached the shop", || async { shop.orders() == 1 }).await;
    gone.abort();
    let _ = gone.await;
    three.pods[2].terminate();
    comes_true("it is leaving", || async { three.pods[2].log().contains("drain") }).await;
    assert_eq!(code(&tool(&three.pods[0], &how, "plasm_run", ask.clone()).await), "already_running");
    three.shop.gate.add_permits(1);
    assert!(three.pods[2].ended().await.success());
    let told = tool(&three.pods[0], &how, "plasm_run", ask).await;
    assert_eq!((code(&told), three.shop.orders()), ("none", 1), "its outcome is recorded: {told}");
}
