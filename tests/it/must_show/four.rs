//! Upstreams of four kinds in one profile, of which each goes away and comes back.

use super::*;

#[tokio::test]
async fn four_upstreams_of_different_kinds_are_served_as_one_and_the_loss_of_one_is_the_loss_of_one() {
    let mut four = Four::start("legacy", &["--only-extra"]);
    let gateway = Gateway::start(four.config());
    let client = gateway.modern();
    let tools = async || client.result("tools/list", json!({})).await;
    let missing = |list: &Value| list["_meta"]["plasm/missing"].clone();
    let part = |list: &Value, kind: &str| {
        let prefix = format!("{kind}__");
        let tools = list["tools"].as_array().expect("a list");
        tools
            .iter()
            .filter(|tool| tool["name"].as_str().is_some_and(|name| name.starts_with(&prefix)))
            .count()
    };
    let whole = tools().await;
    assert_eq!(missing(&whole), Value::Null);
    for kind in KINDS {
        assert!(part(&whole, kind) > 10, "{kind}");
        let said = client.call(&format!("{kind}__slow_echo"), json!({ "text": kind, "ms": 0 })).await;
        assert_eq!(said["content"][0]["text"], kind);
    }
    let mut ears = Ear::each(gateway.address, &[]).await;
    hears_all(&four, &gateway, &mut ears).await;

    for kind in KINDS {
        let whole = tools().await;
        let long = json!({
            "name": format!("{kind}__progress"), "arguments": { "steps": 1_000, "ms": 50 },
            "_meta": { "progressToken": 1 },
        });
        let mut lost = client.send("1", "tools/call", &long.to_string()).await;
        assert_eq!(lost.message().await.expect("it is under way")["params"]["progress"], 1);
        four.kill(kind, &gateway);
        let said = lost.answer().await["result"].clone();
        assert_eq!(
            (&said["isError"], &said["_meta"]["plasm/error"]["upstream"]),
            (&json!(true), &json!(kind)),
            "{said}"
        );
        comes_true("it is told as missing", async || missing(&tools().await) == json!([kind])).await;
        let rest = tools().await;
        for other in KINDS {
            let wanted = if other == kind { 0 } else { part(&whole, other) };
            assert_eq!(part(&rest, other), wanted, "without {kind}: {other}");
        }
        assert_eq!((&rest["ttlMs"], &rest["cacheScope"]), (&json!(0), &json!("private")));
        let legacy = gateway.legacy(V).await.result("tools/list", json!({})).await;
        assert_eq!(missing(&legacy), json!([kind]), "legacy clients are told too");
        for other in KINDS {
            let said = client.call(&format!("{other}__slow_echo"), json!({ "text": other, "ms": 0 })).await;
            if other == kind {
                assert_eq!(said["isError"], true, "{said}");
                assert_eq!(said["_meta"]["plasm/error"]["upstream"], kind, "{said}");
            } else {
                assert_eq!(said["content"][0]["text"], other, "without {kind}");
            }
        }
        let counted =
            gateway.metric(&format!(r#"plasm_list_parts_missing_total{{upstream="{kind}"}}"#)).await;
        assert!(counted >= 1.0);
        assert_eq!(
            gateway.metric(&format!(r#"plasm_upstream_up{{upstream="{kind}"}}"#)).await,
            0.0,
            "{kind}"
        );

        four.revive(kind);
        // Nobody asks for it: that it is back is told to those who listen, once.
        for ear in &mut ears {
            let told = [ear.hear().await, ear.hear().await, ear.hear().await];
            let lists = ["tools/list_changed", "prompts/list_changed", "resources/list_changed"];
            let mut sorted = told.clone();
            sorted.sort();
            let mut wanted = lists.map(str::to_owned);
            wanted.sort();
            assert_eq!(sorted, wanted, "{} on the return of {kind}", ear.name());
        }
        let back = tools().await;
        assert_eq!(missing(&back), Value::Null, "{kind} is back");
        for other in KINDS {
            // It was started anew, and has forgotten the one that was added.
            let lost = usize::from(other == kind);
            assert_eq!(part(&back, other), part(&whole, other) - lost, "{other} after the return of {kind}");
        }
        assert_eq!(
            gateway.metric(&format!(r#"plasm_upstream_up{{upstream="{kind}"}}"#)).await,
            1.0,
            "{kind}"
        );
        hears(&gateway, &mut ears, kind, &format!("back_{kind}")).await;
    }
}

/// That every ear hears a change of this upstream next.
async fn hears(gateway: &Gateway, ears: &mut [Ear], kind: &str, name: &str) {
    gateway.modern().call(&format!("{kind}__add_tool"), json!({ "name": name })).await;
    for ear in ears {
        assert_eq!(ear.hear().await, "tools/list_changed", "{} of {kind}", ear.name());
    }
}

/// Waits until every ear hears every upstream: a standing call opens its streams after it was acknowledged.
async fn hears_all(four: &Four, gateway: &Gateway, ears: &mut [Ear]) {
    let streams = async |fixture: &Option<Fixture>, wanted: u64| {
        let stats = fixture.as_ref().expect("it runs").stats().await;
        stats["streams"].as_u64() >= Some(wanted)
    };
    comes_true("the streams upstream stand", async || {
        streams(&four.legacy, 3).await && streams(&four.modern, 3).await && streams(&four.sse, 1).await
    })
    .await;
    for kind in KINDS {
        hears(gateway, ears, kind, &format!("first_{kind}")).await;
    }
}
