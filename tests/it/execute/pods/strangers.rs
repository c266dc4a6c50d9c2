//! What is one principal's is unknown to every other, on every pod and in each way: the same subject in another tenant, and
//! another subject of the same tenant.

use plasm_mcp::auth::api_key;

use super::*;

/// Three pods with their keys: ann of acme, ann of globex, eve of acme.
async fn people() -> (Three, [String; 3]) {
    let mut keys = serde_json::Map::new();
    let who = [("ann", "acme", "ann"), ("namesake", "globex", "ann"), ("eve", "acme", "eve")];
    let shown = who.map(|(id, tenant, subject)| {
        let key = api_key::mint(id);
        let (_, hash) = api_key::hash(&key).expect("it is a key");
        keys.insert(id.to_owned(), json!({"hash": hash, "tenant": tenant, "subject": subject}));
        format!("Bearer {key}")
    });
    (Three::start(true, json!({"auth": {"api_keys": keys}})).await, shown)
}

#[tokio::test]
async fn foreign_handles_plans_runs_pages_and_artifacts_are_unknown_on_every_pod_in_both_eras() {
    let (three, [ann, namesake, eve]) = people().await;
    let ann = Some(ann.as_str());
    let modern = How::Modern;
    let handle = opened(&three.pods[0], &modern, ann).await;
    let reads = planned(&three.pods[1], &modern, ann, &handle, "Item | limit(30)").await;
    let writes = planned(&three.pods[2], &modern, ann, &handle, ORDER).await;
    let ask = json!({"logical_session_ref": handle, "run_ref": reads});
    let ran = tool_as(&three.pods[2], &modern, ann, "plasm_run", ask).await;
    let root = &ran["structuredContent"]["roots"][0];
    let (page, uri, run_id) =
        (text(&root["next_run_ref"]), text(&root["artifact_uri"]), text(&root["run_id"]));
    let done = json!({"logical_session_ref": handle, "run_ref": writes});
    assert_eq!(code(&tool_as(&three.pods[0], &modern, ann, "plasm_run", done).await), "none");

    for shown in [&namesake, &eve] {
        let shown = Some(shown.as_str());
        for pod in &three.pods {
            let session = begun(pod, "it", "1", shown).await;
            for how in [How::Modern, How::Legacy(None), How::Legacy(Some(session))] {
                let own = opened(pod, &how, shown).await;
                assert_ne!(own, handle);
                let at = |handle: &str, more: Value| {
                    let mut ask = json!({"logical_session_ref": handle});
                    ask.as_object_mut()
                        .expect("an object")
                        .extend(more.as_object().expect("an object").clone());
                    ask
                };
                let mut asks = vec![
                    ("plasm_context", at(&handle, json!({"intent": "look at prices", "seeds": seeds()}))),
                    ("plasm", at(&handle, json!({"program": LIST}))),
                    ("plasm_run", at(&handle, json!({"program": LIST}))),
                ];
                for handle in [&handle, &own] {
                    asks.extend(
                        [&reads, &writes, &page]
                            .map(|name| ("plasm_run", at(handle, json!({"run_ref": name})))),
                    );
                    for what in [json!({"artifact_uri": uri}), json!({"run_id": run_id})] {
                        asks.push(("plasm_read_run_artifact", at(handle, what)));
                    }
                }
                for (name, ask) in asks {
                    let refused = tool_as(pod, &how, shown, name, ask.clone()).await;
                    assert_eq!(code(&refused), "session_unknown", "{name} {ask} by {how:?}: {refused}");
                    assert!(!refused.to_string().contains("item"), "nothing of hers is said: {refused}");
                }
                for uri in [&uri, &format!("plasm://execute/{handle}/run/{run_id}")] {
                    let never = uri.replace(&handle, "l_aaaaaaaaaaaaaaaaaaaaaaaaaa");
                    let theirs = asked(pod, &how, shown, "resources/read", json!({"uri": uri})).await;
                    let none = asked(pod, &how, shown, "resources/read", json!({"uri": never})).await;
                    let (theirs, none) = (theirs.expect_err("it is hers"), none.expect_err("it never was"));
                    assert_eq!(theirs.to_string().replace(uri, ""), none.to_string().replace(&never, ""));
                }
            }
        }
    }
    assert_eq!(three.shop.orders(), 1, "none of them wrote");
    // To her, all is as it was.
    let ask = json!({"logical_session_ref": handle, "run_ref": page});
    let more = tool_as(&three.pods[1], &modern, ann, "plasm_run", ask).await;
    assert_eq!(more["structuredContent"]["roots"][0]["values"][0][0], "i30", "{more}");
    assert!(asked(&three.pods[0], &modern, ann, "resources/read", json!({"uri": uri})).await.is_ok());
}
