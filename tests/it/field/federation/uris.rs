//! Resources whose URIs meet, have no authority, or name an app.

use super::*;
use std::time::Duration;

/// Waits until the last of these URIs is said to be updated. No other is, but for those before it.
async fn told_of(stream: &mut Answer, touched: &[Value]) {
    loop {
        let message = stream.message().await.expect("the stream stands");
        if message["method"] == "notifications/resources/updated" {
            let uri = &message["params"]["uri"];
            assert!(touched.contains(uri), "{message}");
            if touched.last() == Some(uri) {
                return;
            }
        }
    }
}

#[tokio::test]
async fn b075_one_uri_of_two_upstreams_is_two_and_each_leads_back_to_its_own() {
    for era in ["modern", "legacy"] {
        let (a, b, gateway) = two(&["--era", era]);
        let client = gateway.modern();
        let session =
            crate::gateway::legacy::Legacy::begin(gateway.address, "/mcp", "2025-11-25", json!({})).await;
        for listed in [
            client.result("resources/list", json!({})).await,
            session.result("resources/list", json!({})).await,
        ] {
            let uris = names(&listed, "resources");
            let of = |uri: &str| uris.iter().filter(|known| *known == uri).count();
            assert_eq!((of("file:///readme"), of("b+file:///readme")), (1, 1), "{era}: {uris:?}");
        }
        for (uri, fixture, other) in [("file:///readme", &a, &b), ("b+file:///readme", &b, &a)] {
            let before = calls(other, "resources/read").await.len();
            for read in [
                client.result("resources/read", json!({ "uri": uri })).await,
                session.result("resources/read", json!({ "uri": uri })).await,
            ] {
                assert_eq!(read["contents"][0]["uri"], uri, "{era}");
                assert_eq!(read["contents"][0]["text"], "# Readme\n", "{era}");
            }
            let asked = calls(fixture, "resources/read").await;
            assert_eq!(asked.len(), 2, "{era}: {uri}");
            assert!(asked.iter().all(|call| call["params"]["uri"] == "file:///readme"), "{era}: {asked:?}");
            assert_eq!(calls(other, "resources/read").await.len(), before, "{era}: {uri}");
        }
        // Subscribed to each, a client hears of each under the name that it knows.
        let mut stream = session.stream(None).await;
        assert_eq!(stream.status, 200);
        let wanted = r#"{"notifications":{"resourceSubscriptions":["file:///readme","b+file:///readme"]}}"#;
        let mut listen = client.send("1", "subscriptions/listen", wanted).await;
        let first = listen.message().await.expect("the acknowledgement");
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        for uri in ["file:///readme", "b+file:///readme"] {
            session.result("resources/subscribe", json!({ "uri": uri })).await;
        }
        let mut touched = Vec::new();
        for (tool, uri) in
            [("b__touch_resource", "b+file:///readme"), ("a__touch_resource", "file:///readme")]
        {
            touched.push(json!(uri));
            let touching = async {
                loop {
                    session.call(tool, json!({ "uri": "file:///readme" })).await;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            };
            let heard = async {
                told_of(&mut stream, &touched).await;
                told_of(&mut listen, &touched).await;
            };
            // Again and again, for that the upstreams heard of the subscriptions is not told.
            tokio::select! {
                () = touching => unreachable!("it goes on"),
                () = heard => {}
            }
        }
    }
}

#[tokio::test]
async fn b076_uris_without_an_authority_are_listed_read_and_expanded() {
    for era in ["modern", "legacy"] {
        let (a, b, gateway) = two(&["--era", era]);
        let client = gateway.modern();
        let session = gateway.legacy("2025-11-25").await;
        for (tool, uri) in [
            ("a__add_resource", "urn:x:y"),
            ("b__add_resource", "data:text/plain;base64,aGk="),
            ("b__add_resource", "x:"),
            ("a__add_resource", "mailto:a+b@example.com?subject=c%20d#e"),
        ] {
            client.call(tool, json!({ "uri": uri })).await;
        }
        let uris = names(&session.result("resources/list", json!({})).await, "resources");
        for (uri, fixture, own) in [
            ("memo:insights", &a, "memo:insights"),
            ("b+memo:insights", &b, "memo:insights"),
            ("urn:x:y", &a, "urn:x:y"),
            ("data:text/plain;base64,aGk=", &b, "data:text/plain;base64,aGk="),
            ("x:", &b, "x:"),
            ("mailto:a+b@example.com?subject=c%20d#e", &a, "mailto:a+b@example.com?subject=c%20d#e"),
        ] {
            assert!(uris.contains(&uri.to_owned()), "{era}: {uri} in {uris:?}");
            for read in [
                client.result("resources/read", json!({ "uri": uri })).await,
                session.result("resources/read", json!({ "uri": uri })).await,
            ] {
                assert_eq!(read["contents"][0]["uri"], uri, "{era}");
            }
            let last = calls(fixture, "resources/read").await.pop().expect("it was read");
            assert_eq!(last["params"]["uri"], own, "{era}");
        }
        let templates = session.result("resources/templates/list", json!({})).await;
        let templates: Vec<_> =
            templates["resourceTemplates"].as_array().unwrap().iter().map(|t| &t["uriTemplate"]).collect();
        assert!(
            templates.contains(&&json!("memo:{k}")) && templates.contains(&&json!("b+memo:{k}")),
            "{templates:?}"
        );
        for (uri, text, fixture) in [("memo:x", "The memo x.", &a), ("b+memo:y", "The memo y.", &b)] {
            let read = session.result("resources/read", json!({ "uri": uri })).await;
            assert_eq!(
                (&read["contents"][0]["uri"], &read["contents"][0]["text"]),
                (&json!(uri), &json!(text)),
                "{era}"
            );
            let last = calls(fixture, "resources/read").await.pop().expect("it was read");
            assert_eq!(last["params"]["uri"], uri.trim_start_matches("b+"), "{era}");
        }
        let unknown = json!({ "uri": "nobody:knows" });
        assert_eq!(session.error("resources/read", unknown.clone()).await["code"], -32002, "{era}");
        assert_eq!(client.error("resources/read", unknown).await["code"], -32602, "{era}");
    }
}

#[tokio::test]
async fn b077_the_page_of_an_app_is_read_at_the_uri_that_its_tool_names() {
    for era in ["modern", "legacy"] {
        let (a, b, gateway) = two(&["--era", era, "--rich-tool"]);
        let client = gateway.modern();
        let session = gateway.legacy("2025-11-25").await;
        for listed in
            [client.result("tools/list", json!({})).await, session.result("tools/list", json!({})).await]
        {
            let tool =
                |name: &str| listed["tools"].as_array().unwrap().iter().find(|t| t["name"] == name).unwrap();
            for (name, uri, fixture) in
                [("a__rich", "ui://w/app.html", &a), ("b__rich", "ui://b/w/app.html", &b)]
            {
                assert_eq!(tool(name)["_meta"]["ui"]["resourceUri"], uri, "{era}");
                let before = calls(fixture, "resources/read").await.len();
                let read = client.result("resources/read", json!({ "uri": uri })).await;
                let page = &read["contents"][0];
                assert_eq!(
                    (&page["uri"], &page["mimeType"]),
                    (&json!(uri), &json!("text/html;profile=mcp-app"))
                );
                assert_eq!(page["_meta"], json!({ "ui": { "prefersBorder": true } }), "{era}");
                assert_eq!(calls(fixture, "resources/read").await.len(), before + 1, "{era}: {uri}");
                let called = session.call(name, json!({})).await;
                assert_eq!(called["content"][1]["uri"], uri, "{era}: the link in a result leads there too");
            }
        }
        let uris = names(&session.result("resources/list", json!({})).await, "resources");
        for uri in ["ui://w/app.html", "ui://b/w/app.html"] {
            assert!(uris.contains(&uri.to_owned()), "{era}: {uris:?}");
        }
    }
}
