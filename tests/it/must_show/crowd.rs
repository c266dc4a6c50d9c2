//! Many clients at a time, all of whom number their calls alike.

use super::*;
use futures_util::future::join_all;

#[tokio::test]
async fn of_a_thousand_calls_at_a_time_under_one_id_each_gets_its_own_answer() {
    let legacy = Fixture::listening("--http", &["--era", "legacy", "--no-seen"]);
    let modern = Fixture::listening("--http", &["--era", "modern", "--no-seen"]);
    let upstream = |fixture: &Fixture| json!({ "url": fixture.url, "max_concurrent": 2000 });
    let gateway = Gateway::start(json!({
        "upstreams": { "legacy": upstream(&legacy), "modern": upstream(&modern) },
    }));
    let (mut sessions, mut posts) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        sessions.push(gateway.legacy(V).await);
        posts.push(Legacy::without_session(gateway.address, "/mcp", Some("2025-06-18")));
    }
    let client = gateway.modern();
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(HttpSse::begin(gateway.address, "/mcp", json!({})).await);
    }
    let params = |n: usize, upstream: &str| {
        // It lasts, so that all are under way at a time.
        let name = format!("{upstream}__slow_echo");
        json!({ "name": name, "arguments": { "text": format!("call {n}"), "ms": 700 } }).to_string()
    };
    let calls = (0..920).map(|n| {
        let params = params(n, if n % 2 == 0 { "legacy" } else { "modern" });
        let (client, sessions, posts) = (&client, &sessions, &posts);
        async move {
            let mut answer = match n % 4 {
                0 | 3 => client.send("1", "tools/call", &params).await,
                1 => sessions[n / 4 % 5].send("1", "tools/call", &params).await,
                _ => posts[n / 4 % 5].send("1", "tools/call", &params).await,
            };
            (n, answer.answer().await)
        }
    });
    let on_streams = streams.iter_mut().enumerate().map(|(s, stream)| async move {
        for n in 0..40 {
            let params = params(1000 + s * 100 + n, if n % 2 == 0 { "legacy" } else { "modern" });
            stream.send("1", "tools/call", &params).await;
        }
        let mut texts = Vec::new();
        for _ in 0..40 {
            let answer = stream.answer("1").await;
            texts.push(answer["result"]["content"][0]["text"].as_str().expect("a text").to_owned());
        }
        texts.sort();
        let mut wanted: Vec<_> = (0..40).map(|n| format!("call {}", 1000 + s * 100 + n)).collect();
        wanted.sort();
        assert_eq!(texts, wanted);
    });
    let (answers, _) = tokio::join!(join_all(calls), join_all(on_streams));
    for (n, answer) in answers {
        assert_eq!(answer["id"], 1);
        assert_eq!(answer["result"]["content"][0]["text"], format!("call {n}"), "{answer}");
    }
    gateway.still_serves().await;
}
