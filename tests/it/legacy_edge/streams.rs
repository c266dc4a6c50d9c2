//! Streams of a session: what they carry, and how they go on after a break.

use super::*;

const PROGRESS: &str = r#"{"name":"progress","arguments":{"steps":4,"ms":50},"_meta":{"progressToken":1}}"#;

#[tokio::test]
async fn b053_a_broken_stream_is_resumed_alone_and_its_call_was_not_cancelled() {
    let (fixture, gateway) = before_legacy();
    let client = client(&gateway, json!({})).await;
    let mut one = client.send("1", "tools/call", PROGRESS).await;
    let mut two = client.send("2", "tools/call", PROGRESS).await;
    let (id, first) = event(&mut one).await;
    assert_eq!(first["params"]["progress"], 1);
    drop(one);
    let mut rest = client.stream(Some(&id)).await;
    assert!(rest.is_stream());
    for step in 2..=4 {
        assert_eq!(event(&mut rest).await.1["params"]["progress"], step);
    }
    let (_, answer) = event(&mut rest).await;
    assert_eq!((&answer["id"], text(&answer)), (&json!(1), "4 steps"));
    assert!(rest.event().await.is_none(), "that stream and no other");
    assert_eq!(two.answer().await["id"], 2);
    // All of it again, after its end.
    let mut again = client.stream(Some(&id)).await;
    let mut messages = 0;
    while again.message().await.is_some() {
        messages += 1;
    }
    assert_eq!(messages, 4);
    assert_eq!(fixture.stats().await["cancels"], json!([]));

    let stranger = super::client(&gateway, json!({})).await;
    assert_eq!(stranger.stream(Some(&id)).await.status, 400, "another session's event");
    assert_eq!(client.stream(Some("7")).await.status, 400);
}

#[tokio::test]
async fn an_upstream_that_hangs_up_in_mid_call_lets_the_client_go_as_long() {
    let (_fixture, gateway) = before_legacy();
    let client = client(&gateway, json!({})).await;
    let call = params("test_reconnection", json!({}));
    let mut stream = client.send("1", "tools/call", &call).await;
    let first = stream.event().await.unwrap();
    assert!(first.id.is_some() && first.retry.is_some() && first.data.is_empty());
    assert!(stream.event().await.is_none(), "closed before the answer");
    let (_, answer) = event(&mut client.stream(first.id.as_deref()).await).await;
    assert_eq!(text(&answer), "The stream was resumed.");
    // Who does not know how to resume waits.
    let older = Legacy::begin(gateway.address, "/mcp", "2025-03-26", json!({})).await;
    assert_eq!(text(&older.send("1", "tools/call", &call).await.answer().await), "The stream was resumed.");
}

#[tokio::test]
async fn a_stream_begins_with_an_id_where_the_version_has_it() {
    let (_fixture, gateway) = before_legacy();
    let client = client(&gateway, json!({})).await;
    let mut stream = client.send("1", "tools/call", PROGRESS).await;
    let first = stream.event().await.unwrap();
    assert!(first.data.is_empty() && first.retry.is_some());
    drop(stream);
    // A client that saw no more than this can resume.
    let mut rest = client.stream(first.id.as_deref()).await;
    assert_eq!(event(&mut rest).await.1["params"]["progress"], 1);

    let older = Legacy::begin(gateway.address, "/mcp", "2025-06-18", json!({})).await;
    let mut stream = older.send("1", "tools/call", PROGRESS).await;
    let first = stream.event().await.unwrap();
    assert!(!first.data.is_empty() && first.id.is_some());
}

#[tokio::test]
async fn b010_b056_a_silent_stream_is_kept_alive_and_no_proxy_may_hold_it() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let gateway = Gateway::start(json!({
        "upstreams": { "up": { "url": fixture.url } },
        "streams": { "keep_alive": "100ms" },
    }));
    let client = client(&gateway, json!({})).await;
    let mut stream = client.stream(None).await;
    assert_eq!(stream.status, 200);
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    assert!(stream.header("cache-control").unwrap().contains("no-cache"));
    assert!(stream.header("cache-control").unwrap().contains("no-transform"));
    let mut seen = Vec::new();
    while seen.windows(3).filter(|lines| lines == b":\n\n").count() < 4 {
        seen.extend(stream.chunk().await.expect("the stream goes on"));
    }
}

#[tokio::test]
async fn b011_b046_changes_reach_the_newest_stream_once() {
    for era in ["legacy", "modern"] {
        let fixture = Fixture::listening("--http", &["--era", era]);
        let gateway = Gateway::before(&[("up", &fixture)]);
        let client = client(&gateway, json!({})).await;
        let uri = json!({ "uri": "test://watched-resource" });
        let mut old = client.stream(None).await;
        client.result("resources/subscribe", uri.clone()).await;
        let mut new = client.stream(None).await;
        assert_eq!((old.status, new.status), (200, 200));
        // The first that is heard says that the standing call is there; later ones count.
        let (touched, _) = tokio::join!(event(&mut new), async {
            until("a stream upstream", || async { fixture.stats().await["streams"] != json!(0) }).await;
            client.call("touch_resource", uri.clone()).await;
        });
        assert_eq!(touched.1["method"], "notifications/resources/updated", "{era}");
        assert_eq!(touched.1["params"]["uri"], "test://watched-resource");
        client.call("add_tool", json!({ "name": "fresh" })).await;
        assert_eq!(event(&mut new).await.1["method"], "notifications/tools/list_changed", "{era}");
        drop(new);
        // With the newest gone the other one carries on, and has had nothing of it before.
        client.call("add_prompt", json!({ "name": "fresh" })).await;
        assert_eq!(event(&mut old).await.1["method"], "notifications/prompts/list_changed", "{era}");
    }
}

#[tokio::test]
async fn no_update_is_lost_that_comes_after_a_subscription_was_granted() {
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let gateway = Gateway::before(&[("up", &fixture)]);
    let client = client(&gateway, json!({})).await;
    let mut stream = client.stream(None).await;
    until("a stream upstream", || async { fixture.stats().await["streams"] != json!(0) }).await;
    let direct = crate::gateway::modern::Modern::new(fixture.address(), "/mcp", json!({}));
    for round in 0..20 {
        let uri = json!({ "uri": format!("test://watched/{round}") });
        client.result("resources/subscribe", uri.clone()).await;
        // Not by way of the gateway, which would give it time.
        direct.call("touch_resource", uri.clone()).await;
        let (_, updated) = event(&mut stream).await;
        assert_eq!(updated["params"]["uri"], uri["uri"], "{updated}");
    }
}

#[tokio::test]
async fn what_happens_between_two_streams_waits_for_the_next() {
    let (fixture, gateway) = before_legacy();
    let client = client(&gateway, json!({})).await;
    let first = client.stream(None).await;
    until("a stream upstream", || async { fixture.stats().await["streams"] != json!(0) }).await;
    drop(first);
    client.call("add_tool", json!({ "name": "between" })).await;
    let mut next = client.stream(None).await;
    assert_eq!(event(&mut next).await.1["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_delete_ends_the_sessions_streams() {
    let (_fixture, gateway) = before_legacy();
    let client = client(&gateway, json!({})).await;
    let mut stream = client.stream(None).await;
    assert_eq!(stream.event().await.map(|event| event.data.is_empty()), Some(true));
    assert_eq!(client.end().await, 204);
    assert!(stream.event().await.is_none());
}
