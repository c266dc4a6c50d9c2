//! Results of runs as they are stored, named, and read again.

use super::*;
use crate::{execute::artifacts::AccessMode, mcp::Reason};

fn client(name: &str) -> Client {
    Client { info: Some(Raw::of(&json!({"name": name, "version": "1"}))), ..Client::default() }
}

async fn ran(surface: &Surface, who: &Arc<Caller>, program: &str) -> (String, Json) {
    let handle = session(surface, who).await;
    let ask = json!({"logical_session_ref": handle, "program": program});
    let ran = asked(surface, who, tools::RUN, ask).await;
    (handle, ran)
}

/// All rows of a result by the tool, page after page.
async fn paged(surface: &Surface, who: &Arc<Caller>, mut ask: Json) -> Vec<Json> {
    let mut rows = Vec::new();
    loop {
        let page = asked(surface, who, tools::READ, ask.clone()).await;
        let structured = &page["structuredContent"];
        rows.extend(structured["rows"].as_array().unwrap_or_else(|| panic!("{page}")).iter().cloned());
        match structured["next_offset"].as_u64() {
            Some(next) => ask["offset"] = json!(next),
            None => return rows,
        }
    }
}

#[tokio::test]
async fn what_does_not_fit_is_stored_whole_and_read_by_both_names_and_both_ways() {
    let (surface, _) = surface(Globs::default());
    let who = somebody("a");
    let (handle, ran) = ran(&surface, &who, LIST).await;
    let root = &ran["structuredContent"]["roots"][0];
    let uri = root["artifact_uri"].as_str().unwrap();
    assert_eq!(uri, format!("plasm://session/{handle}/r/1"));
    let by_uri = json!({"logical_session_ref": handle, "artifact_uri": uri, "limit": 7});
    let by_run = json!({"logical_session_ref": handle, "run_id": root["run_id"]});
    let rows = paged(&surface, &who, by_uri).await;
    assert_eq!(rows.len(), 35);
    assert_eq!(paged(&surface, &who, by_run).await, rows);
    let canonical = format!("plasm://execute/{handle}/run/{}", root["run_id"].as_str().unwrap());
    for uri in [uri, &canonical] {
        let read = read(&surface, &who, uri).await.unwrap();
        let content = &read["contents"][0];
        assert_eq!((&content["uri"], &content["mimeType"]), (&json!(uri), &json!("application/json")));
        let whole: Json = serde_json::from_str(content["text"].as_str().unwrap()).unwrap();
        assert_eq!(whole["rows"], json!(rows));
        assert_eq!((&whole["columns"], &whole["total"]), (&root["columns"], &json!(35)));
    }
}

#[tokio::test]
async fn a_resource_of_many_pages_is_one_object() {
    let (surface, world) = surface(Globs::default());
    let who = somebody("a");
    *world.title.lock().unwrap() = Some("x".repeat(60_000));
    let (_, ran) = ran(&surface, &who, LIST).await;
    let uri = ran["structuredContent"]["roots"][0]["artifact_uri"].as_str().unwrap();
    let read = read(&surface, &who, uri).await.unwrap();
    let text = read["contents"][0]["text"].as_str().unwrap();
    assert!(text.len() > 35 * 60_000);
    let whole: Json = serde_json::from_str(text).unwrap();
    assert_eq!(whole["rows"].as_array().unwrap().len(), 35);
}

#[tokio::test]
async fn a_cell_that_is_long_is_read_in_the_artifact_and_chosen_columns_come_in_their_order() {
    let (surface, _) = surface(Globs::default());
    let who = somebody("a");
    let (handle, ran) = ran(&surface, &who, "Issue(\"i1\")[body, id]").await;
    let root = &ran["structuredContent"]["roots"][0];
    assert_eq!(root["values"], json!([["(in artifact)", "i1"]]));
    assert!(said(&ran).contains("(in artifact)\ti1\n"), "{}", said(&ran));
    let ask = json!({"logical_session_ref": handle, "artifact_uri": root["artifact_uri"], "columns": ["id", "body"]});
    let read = asked(&surface, &who, tools::READ, ask).await;
    assert_eq!(read["structuredContent"]["rows"], json!([["i1", "x".repeat(9_000)]]));
    assert!(said(&read).contains(&format!("id\tbody\ni1\t{}\n", "x".repeat(9_000))));
}

#[tokio::test]
async fn a_result_that_cannot_be_stored_is_told_and_shown_all_the_same_and_a_write_is_not_run_again() {
    let (surface, world) = served(settings(), None);
    let who = somebody("a");
    *world.title.lock().unwrap() = Some("x".repeat(9_000));
    let (_, read) = ran(&surface, &who, LIST).await;
    let root = &read["structuredContent"]["roots"][0];
    assert_eq!(read["isError"], Json::Null, "{}", said(&read));
    assert_eq!((&root["rows"], &root["artifact_uri"]), (&json!(35), &Json::Null));
    assert_eq!((&root["coverage"], &root["not_stored"]["code"]), (&json!("complete"), &json!("too_large")));
    assert!(said(&read).contains("not stored, so that only what stands above is left of it"));
    assert!(!said(&read).contains("plasm://") && !said(&read).contains("in artifact"), "{}", said(&read));
    assert!(!root["values"].as_array().unwrap().is_empty());

    *world.title.lock().unwrap() = Some("x".repeat(300_000));
    let handle = session(&surface, &who).await;
    let plan =
        asked(&surface, &who, tools::PLAN, json!({"logical_session_ref": handle, "program": CREATE})).await;
    let run = json!({"logical_session_ref": handle, "run_ref": plan["structuredContent"]["run_ref"]});
    let first = asked(&surface, &who, tools::RUN, run.clone()).await;
    let not_stored = &first["structuredContent"]["roots"][0]["not_stored"];
    assert_eq!(not_stored["retryable"], false, "{}", said(&first));
    assert!(not_stored["hint"].as_str().unwrap().starts_with("it is not run again"));
    assert_eq!(asked(&surface, &who, tools::RUN, run).await, first);
    assert_eq!(world.written.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn another_s_result_is_unknown_by_every_way() {
    let (surface, _) = surface(Globs::default());
    let (mine, other) = (somebody("a"), somebody("b"));
    let (handle, ran) = ran(&surface, &mine, LIST).await;
    let theirs = session(&surface, &other).await;
    let root = &ran["structuredContent"]["roots"][0];
    let uri = root["artifact_uri"].as_str().unwrap();
    for session in [&handle, &theirs] {
        for which in [json!({"artifact_uri": uri}), json!({"run_id": root["run_id"]})] {
            for tool in [tools::READ, tools::PAGE] {
                let mut ask = which.clone();
                ask["logical_session_ref"] = json!(session);
                let refused = asked(&surface, &other, tool, ask).await;
                assert_eq!(
                    refused["structuredContent"]["error"]["code"],
                    "session_unknown",
                    "{}",
                    said(&refused)
                );
            }
        }
    }
    let canonical = format!("plasm://execute/{handle}/run/{}", root["run_id"].as_str().unwrap());
    let unknown = format!("plasm://session/{handle}/r/9");
    for (who, uri) in [(&other, uri), (&other, &canonical), (&mine, &unknown), (&mine, "plasm://x")] {
        assert!(
            matches!(read(&surface, who, uri).await, Err(CallFault::Ours(Reason::UnknownResource(named))) if named == uri)
        );
    }
}

#[tokio::test]
async fn each_client_is_told_of_its_own_way_and_modern_ones_of_both() {
    let tool =
        |uri: &str| format!("plasm_readrun_artifact with artifact_uri {uri}").replace("readrun", "read_run");
    let resource = |uri: &str| format!("read the resource {uri}");
    let old = Version::NEWEST_LEGACY;
    for (version, name, setting, by_tool, by_resource, links) in [
        (old, "claude-code", None, true, false, false),
        (old, "cursor-vscode", None, false, true, true),
        (Version::V2025_03_26, "cursor-vscode", None, false, true, false),
        (old, "cursor", None, true, true, true),
        (old, "cursor-vscode", Some(AccessMode::ToolFallback), true, false, false),
        (Version::MODERN, "claude-code", None, true, true, true),
        (Version::MODERN, "cursor-vscode", Some(AccessMode::ToolFallback), true, true, true),
    ] {
        let access = artifacts::Access { mode: setting, user_agent: None };
        let objects = Objects::new(Arc::new(object_store::memory::InMemory::new()));
        let (surface, _) = served(Settings { artifacts: access, ..settings() }, Some(objects));
        let who = by("a", version, client(name));
        let (_, ran) = ran(&surface, &who, LIST).await;
        let uri = ran["structuredContent"]["roots"][0]["artifact_uri"].as_str().unwrap();
        let case = format!("{version:?} {name} {setting:?}: {}", said(&ran));
        assert_eq!(said(&ran).contains("plasm_read_run_artifact"), by_tool, "{case}");
        assert_eq!(said(&ran).contains("resource"), by_resource, "{case}");
        let first = if setting.is_some() || !by_resource { tool(uri) } else { resource(uri) };
        let label = ran["structuredContent"]["roots"][0]["label"].as_str().unwrap();
        assert!(said(&ran).contains(&format!("the whole of {label}: {first}")), "{case}");
        let linked = ran["content"].as_array().unwrap().iter().any(|block| {
            block["type"] == "resource_link"
                && block["uri"] == *uri
                && block["mimeType"] == "application/json"
        });
        assert_eq!(linked, links, "{case}");
    }
}

#[tokio::test]
async fn hostile_text_stays_within_its_row() {
    let (surface, world) = surface(Globs::default());
    let who = somebody("a");
    *world.title.lock().unwrap() = Some("x\u{2028}\n\n## more (9 rows)\nid\r\n\t<b>".to_owned());
    let (handle, ran) =
        ran(&surface, &who, "Project(\"p1\").issues | filter(score > 38) | sort(score)[title]").await;
    let escaped = "x\\u2028\\n\\n## more (9 rows)\\nid\\r\\n\\t<b>";
    let root = &ran["structuredContent"]["roots"][0];
    let label = root["label"].as_str().unwrap();
    let table = format!("## {label} (2 rows)\ntitle\n{escaped}\n{escaped}\n\ncoverage: complete\n");
    assert!(said(&ran).starts_with(&table), "{}", said(&ran));
    assert_eq!(said(&ran).lines().filter(|line| line.starts_with('#')).count(), 1);
    let ask = json!({"logical_session_ref": handle, "artifact_uri": root["artifact_uri"]});
    let read = asked(&surface, &who, tools::READ, ask).await;
    assert!(said(&read).contains(&format!("\ntitle\n{escaped}\n{escaped}\n\n")), "{}", said(&read));
    *world.title.lock().unwrap() = Some("## more (9 rows)".to_owned());
    let (_, ran) = self::ran(&surface, &who, "Project(\"p1\").issues | filter(score = 39)[title]").await;
    assert!(said(&ran).contains("\ntitle\n\\## more (9 rows)\n\n"), "{}", said(&ran));
}

#[tokio::test]
async fn what_a_caller_may_no_longer_call_is_neither_run_nor_paged_nor_read() {
    let open = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let admits = Admits::by({
        let open = Arc::clone(&open);
        move |_, api, operation| api != "tracker" || operation != "issue_list" || open.load(Ordering::SeqCst)
    });
    let objects = Objects::new(Arc::new(object_store::memory::InMemory::new()));
    let (surface, _) = served(Settings { admits, ..settings() }, Some(objects));
    let who = somebody("a");
    let handle = session(&surface, &who).await;
    let program = format!("{LIST} | limit(30)\n");
    let of = |more: Json| {
        let mut ask = json!({"logical_session_ref": handle});
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    let plan = asked(&surface, &who, tools::PLAN, of(json!({"program": program}))).await;
    let run_ref = &plan["structuredContent"]["run_ref"];
    let ran = asked(&surface, &who, tools::RUN, of(json!({"run_ref": run_ref}))).await;
    let root = &ran["structuredContent"]["roots"][0];
    open.store(false, Ordering::SeqCst);
    for (tool, ask) in [
        (tools::PLAN, json!({"program": program})),
        (tools::RUN, json!({"program": program})),
        (tools::RUN, json!({"run_ref": run_ref})),
        (tools::RUN, json!({"run_ref": root["next_run_ref"]})),
        (tools::READ, json!({"artifact_uri": root["artifact_uri"]})),
        (tools::PAGE, json!({"run_id": root["run_id"]})),
        // Nor is it told which columns there are.
        (tools::READ, json!({"artifact_uri": root["artifact_uri"], "columns": ["no such"]})),
    ] {
        let refused = asked(&surface, &who, tool, of(ask)).await;
        let error = &refused["structuredContent"]["error"];
        assert_eq!(error["code"], "seed_forbidden", "{}", said(&refused));
        assert!(error["message"].as_str().unwrap().contains("tracker.issue_list"));
    }
    let uri = root["artifact_uri"].as_str().unwrap();
    assert!(matches!(read(&surface, &who, uri).await, Err(CallFault::Ours(Reason::Refused(_)))));
    let other = asked(&surface, &who, tools::RUN, of(json!({"program": "Issue(\"i1\")[id]"}))).await;
    assert_eq!(other["isError"], Json::Null, "{}", said(&other));
}
