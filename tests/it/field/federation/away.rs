//! Upstreams that are away, hang, and come back.

use super::*;
use crate::gateway::exchange::soon;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

/// A way to an upstream that is cut, until it is opened.
struct Way {
    address: SocketAddr,
    open: Arc<AtomicBool>,
}

impl Way {
    async fn cut(to: SocketAddr) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(AtomicBool::new(false));
        let passes = open.clone();
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                if passes.load(Ordering::SeqCst) {
                    let mut to = TcpStream::connect(to).await.expect("the upstream listens");
                    tokio::spawn(async move { tokio::io::copy_bidirectional(&mut from, &mut to).await });
                }
            }
        });
        Way { address, open }
    }
}

#[tokio::test]
async fn b082_upstreams_that_are_away_or_hang_leave_the_others_served_and_are_told_of_when_they_are_back() {
    for era in ["modern", "legacy"] {
        let (fixture, well) =
            (Fixture::listening("--http", &["--era", era]), Fixture::listening("--http", &["--era", era]));
        let way = Way::cut(fixture.address()).await;
        // Connections to it are made, and nobody ever takes them.
        let hangs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let gateway = Gateway::start(json!({ "upstreams": {
            "away": { "url": format!("http://{}/mcp", way.address) },
            "hangs": { "url": format!("http://{}/mcp", hangs.local_addr().unwrap()), "start_timeout": "1s" },
            "well": { "url": well.url },
        }}));
        let client = gateway.modern();
        let began = Instant::now();
        let session = gateway.legacy("2025-11-25").await;
        let found = client.result("server/discover", json!({})).await;
        assert!(found["capabilities"]["tools"].is_object(), "{era}");
        let missing = json!(["away", "hangs"]);
        for (listed, modern) in [
            (client.result("tools/list", json!({})).await, true),
            (session.result("tools/list", json!({})).await, false),
        ] {
            let tools = names(&listed, "tools");
            assert!(tools.contains(&"well__echo".to_owned()), "{era}");
            assert!(!tools.iter().any(|t| t.starts_with("away__") || t.starts_with("hangs__")), "{era}");
            assert_eq!(listed["_meta"]["plasm/missing"], missing, "{era}");
            if modern {
                assert_eq!(
                    (&listed["ttlMs"], &listed["cacheScope"]),
                    (&json!(0), &json!("private")),
                    "{era}"
                );
            }
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{era}: {:?}", began.elapsed());
        assert_eq!(session.call("well__echo", json!({ "a": 1 })).await["structuredContent"]["a"], 1, "{era}");
        for name in ["away__echo", "hangs__echo"] {
            let refused = session.call(name, json!({})).await;
            assert_eq!(refused["isError"], true, "{era}: {refused}");
            let upstream = name.split("__").next().unwrap();
            assert_eq!(refused["_meta"]["plasm/error"]["upstream"], upstream, "{era}: {refused}");
        }
        assert!(gateway.log().contains("a list is missing"), "{era}");

        let mut stream = session.stream(None).await;
        let wanted = r#"{"notifications":{"toolsListChanged":true}}"#;
        let mut listen = client.send("1", "subscriptions/listen", wanted).await;
        let first = listen.message().await.expect("the acknowledgement does not wait for those away");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{era}");
        way.open.store(true, Ordering::SeqCst);
        for heard in [&mut stream, &mut listen] {
            let told = async {
                while heard.message().await.expect("it is told")["method"]
                    != "notifications/tools/list_changed"
                {}
            };
            soon("the news that it is back", told).await;
        }
        // Told of it, clients list again, and call; or call at once.
        let echoed = session.call("away__echo", json!({ "a": 3 })).await;
        assert_eq!(echoed["structuredContent"]["a"], 3, "{era}: {echoed}");
        for listed in
            [session.result("tools/list", json!({})).await, client.result("tools/list", json!({})).await]
        {
            assert!(names(&listed, "tools").contains(&"away__echo".to_owned()), "{era}: {listed}");
        }
        let echoed = client.call("away__echo", json!({ "a": 2 })).await;
        assert_eq!(echoed["structuredContent"]["a"], 2, "{era}: {echoed}");
    }
}

#[tokio::test]
async fn all_pages_of_a_list_have_the_scope_of_the_first_though_who_was_missing_is_back() {
    let (fixture, well) = (Fixture::listening("--http", &[]), Fixture::listening("--http", &[]));
    let way = Way::cut(fixture.address()).await;
    let gateway = Gateway::start(json!({
        "upstreams": {
            "away": { "url": format!("http://{}/mcp", way.address) },
            "well": { "url": well.url },
        },
        "limits": { "page_items": 5 },
    }));
    let client = gateway.modern();
    let mut page = client.result("tools/list", json!({})).await;
    assert_eq!((&page["_meta"]["plasm/missing"], &page["cacheScope"]), (&json!(["away"]), &json!("private")));
    let mut listen =
        client.send("1", "subscriptions/listen", r#"{"notifications":{"toolsListChanged":true}}"#).await;
    way.open.store(true, Ordering::SeqCst);
    let told = async {
        while listen.message().await.expect("it is told")["method"] != "notifications/tools/list_changed" {}
    };
    soon("the news that it is back", told).await;
    let whole = client.result("tools/list", json!({})).await;
    assert_eq!((&whole["_meta"]["plasm/missing"], &whole["cacheScope"]), (&Value::Null, &json!("public")));
    let mut pages = 1;
    while let Some(cursor) = page["nextCursor"].as_str() {
        page = client.result("tools/list", json!({ "cursor": cursor })).await;
        assert_eq!(page["cacheScope"], "private", "{page}");
        pages += 1;
    }
    assert!(pages > 2);
}
