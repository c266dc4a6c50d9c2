//! The sessions of legacy upstreams: whose they are, who opens them, and what becomes of them.

use super::*;

#[tokio::test]
async fn a_caller_gets_one_session_whatever_it_calls_at_once_and_another_caller_another() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let link = link(&fixture.url);
    let (a, b) = (legacy("a"), legacy("b"));
    let calls = (0..8).map(|_| outcome(&link, tool(&a, "echo", json!({}))));
    futures_util::future::join_all(calls).await;
    outcome(&link, tool(&b, "echo", json!({}))).await;
    assert_eq!(look(&fixture, "_stats").await["sessions"], 2);
    assert_eq!(seen(&fixture, "initialize").await.len(), 2);
    assert_eq!(seen(&fixture, "notifications/initialized").await.len(), 2);
}

#[tokio::test]
async fn a_session_begun_on_one_pod_goes_on_on_another_and_the_loser_of_a_race_ends_its_own() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let kept = Kept::session("s");
    let caller = caller(Version::NEWEST_LEGACY, &kept, all());
    let pods = [link(&fixture.url), link(&fixture.url), link(&fixture.url)];
    let calls = pods.iter().map(|pod| result(pod, tool(&caller, "echo", json!({}))));
    futures_util::future::join_all(calls).await;
    comes_true("one session is left", async || look(&fixture, "_stats").await["sessions"] == 1).await;
    let fourth = link(&fixture.url);
    result(&fourth, tool(&caller, "echo", json!({}))).await;
    assert_eq!(look(&fixture, "_stats").await["sessions"], 1);
    let calls = seen(&fixture, "tools/call").await;
    assert_eq!(json!(calls[3].1["mcp-session-id"]), kept.stored().unwrap()["s"]);
}

#[tokio::test]
async fn b020_a_forgotten_session_is_begun_anew_once_and_the_call_made_again() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let kept = Kept::session("s");
    let caller = caller(Version::NEWEST_LEGACY, &kept, all());
    let pods = [link(&fixture.url), link(&fixture.url)];
    for pod in &pods {
        result(pod, tool(&caller, "echo", json!({}))).await;
    }
    let level = call(&caller, Method::SetLevel, json!({ "level": "error" }));
    result(&pods[0], level).await;
    outcome(&pods[0], tool(&caller, "forget_sessions", json!({}))).await;
    let before = seen(&fixture, "initialize").await.len();
    let calls = (0..6).map(|n| result(&pods[n % 2], tool(&caller, "echo", json!({ "n": n }))));
    futures_util::future::join_all(calls).await;
    comes_true("one session is left", async || look(&fixture, "_stats").await["sessions"] == 1).await;
    let begun = seen(&fixture, "initialize").await.len() - before;
    assert_eq!(begun, 1, "one pod begins anew, and the other waits for it");
    // What was set in the old session holds in the new one.
    let levels = seen(&fixture, "logging/setLevel").await;
    assert!(levels.len() > 1 && levels.iter().all(|(body, _)| body["params"]["level"] == "error"));
}

#[tokio::test]
async fn b023_an_upstream_that_gives_no_session_is_used_without_one() {
    let fixture = Fixture::listening("--http", &["--era", "legacy", "--stateless"]);
    let link = link(&fixture.url);
    result(&link, tool(&legacy("l"), "echo", json!({}))).await;
    let calls = seen(&fixture, "tools/call").await;
    assert!(calls[0].1.get("mcp-session-id").is_none());
    let mut events = events(link.call(listen(&legacy("l"), json!({}))).await);
    assert_eq!(note(&mut events).await.method, Method::Acknowledged);
}

#[tokio::test]
async fn b025_the_end_of_a_session_ends_the_upstreams_once() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let kept = Kept::session("s");
    let caller = caller(Version::NEWEST_LEGACY, &kept, all());
    let pods = [link(&fixture.url), link(&fixture.url)];
    for pod in &pods {
        result(pod, tool(&caller, "echo", json!({}))).await;
    }
    let ends = pods.iter().map(|pod| pod.end(caller.session.clone()));
    futures_util::future::join_all(ends).await;
    let stats = look(&fixture, "_stats").await;
    assert_eq!((&stats["sessions"], stats["deletes"].as_array().unwrap().len()), (&json!(0), 1));
    assert_eq!(kept.stored(), None);
}

#[tokio::test]
async fn a_stateless_upstream_is_spoken_to_as_the_gateway_in_one_session_for_all() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let link = link_as(&fixture.url, LinkConfig { stateless: true, ..config() });
    for key in ["a", "b", "c"] {
        result(&link, tool(&legacy(key), "echo", json!({}))).await;
    }
    let hellos = seen(&fixture, "initialize").await;
    assert_eq!(hellos.len(), 1);
    assert_eq!(hellos[0].0["params"]["clientInfo"]["name"], "plasm-mcp");
    assert_eq!(hellos[0].0["params"]["capabilities"], json!({}));
    // Nobody in particular could answer, so nobody is asked.
    let Outcome::Result(refused) = outcome(&link, tool(&legacy("a"), "ask_elicitation", json!({}))).await
    else {
        return;
    };
    assert_eq!(refused.read::<Value>().unwrap()["isError"], true);
}

#[tokio::test]
async fn a_level_that_a_legacy_client_set_goes_with_each_call_to_a_modern_upstream() {
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let kept = Kept::session("s");
    let caller = caller(Version::NEWEST_LEGACY, &kept, all());
    let (one, other) = (link(&fixture.url), link(&fixture.url));
    let set = call(&caller, Method::SetLevel, json!({ "level": "info" }));
    assert_eq!(result(&one, set).await, json!({}));
    let mut events = events(other.call(tool(&caller, "log", json!({ "n": 1 }))).await);
    assert_eq!(note(&mut events).await.method, Method::LogMessage);
    let calls = seen(&fixture, "tools/call").await;
    assert_eq!(calls[0].0["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "info");
}

#[tokio::test]
async fn b073_a_level_set_while_the_upstream_was_away_is_set_when_it_is_back() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let link = link(&format!("http://127.0.0.1:{port}/mcp"));
    let caller = legacy("l");
    let set = call(&caller, Method::SetLevel, json!({ "level": "error" }));
    assert_eq!(fault(&link, set).await, "upstream_unreachable");
    let fixture = Fixture::at("--http", &format!("127.0.0.1:{port}"), &["--era", "legacy"]);
    result(&link, tool(&caller, "echo", json!({}))).await;
    assert_eq!(seen(&fixture, "logging/setLevel").await.len(), 1);
}

#[tokio::test]
async fn a_modern_caller_hears_the_log_of_a_legacy_upstream_only_from_the_level_it_asks_for() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let link = link(&fixture.url);
    let notes = async |level: Option<&str>| {
        let mut params = json!({ "name": "log", "arguments": { "n": 2 } });
        if let Some(level) = level {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
        }
        let events = events(link.call(call(&modern("m"), Method::ToolsCall, params)).await);
        events.filter(|event| std::future::ready(matches!(event, Event::Note(_)))).count().await
    };
    assert_eq!((notes(None).await, notes(Some("debug")).await, notes(Some("error")).await), (0, 2, 0));
}

#[tokio::test]
async fn a_notification_of_the_client_goes_to_its_open_session_and_opens_none() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let link = link(&fixture.url);
    let caller = legacy("l");
    let changed = || Note { method: Method::RootsChanged, params: Raw::trusted("{}"), at: None };
    link.tell(caller.clone(), changed()).await.unwrap();
    assert_eq!(look(&fixture, "_stats").await["sessions"], 0);
    result(&link, tool(&caller, "echo", json!({}))).await;
    link.tell(caller, changed()).await.unwrap();
    assert_eq!(seen(&fixture, "notifications/roots/list_changed").await.len(), 1);
}

fn listen(caller: &Arc<Caller>, filter: Value) -> Call {
    call(caller, Method::Listen, json!({ "notifications": filter }))
}
