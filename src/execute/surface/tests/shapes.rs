//! What each reply has in it, held against the schemas that the tools publish.

use super::*;

/// Whether a value fits a schema, as far as ours go; else where it does not.
fn fits(value: &Json, schema: &Json, at: &str) -> Result<(), String> {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{at}: a type that this does not know: {other}"),
    };
    let types: Vec<&str> = match &schema["type"] {
        Json::String(one) => vec![one],
        Json::Array(many) => many.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.into_iter().any(is) {
        return Err(format!("{at} is {value}, and {schema} is wanted"));
    }
    if let Some(allowed) = schema["enum"].as_array().filter(|allowed| !allowed.contains(value)) {
        return Err(format!("{at} is {value}, none of {allowed:?}"));
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        value.get(name).ok_or_else(|| format!("{at} has no {name}"))?;
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(schema) => fits(member, schema, &format!("{at}.{name}"))?,
            None if schema["properties"].is_object() => return Err(format!("{at}.{name} is not told of")),
            None => {}
        }
    }
    for item in value.as_array().into_iter().flatten().filter(|_| schema["items"].is_object()) {
        fits(item, &schema["items"], &format!("{at}[]"))?;
    }
    Ok(())
}

fn keys(of: &Json) -> Vec<&str> {
    of.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn each_reply_has_what_the_contract_says_and_fits_its_schema() {
    let (surface, _) = surface(Globs::default());
    let who = somebody("a");
    let listed = surface.known(&who, Kind::Tool).unwrap();
    let held = |tool: &str, reply: &Json| {
        let schema: Json = listed.find(tool).unwrap().body.read().unwrap();
        let fit = fits(&reply["structuredContent"], &schema["outputSchema"], tool);
        fit.unwrap_or_else(|why| panic!("{why}: {reply}"));
        assert!(!said(reply).is_empty());
    };
    let found = asked(&surface, &who, tools::DISCOVER, json!({"query": "issues and pokemon"})).await;
    held(tools::DISCOVER, &found);
    let seeds: Json = serde_json::from_str(SEEDS).unwrap();
    let ask = json!({"intent": "triage", "seeds": seeds["seeds"]});
    let opened = asked(&surface, &who, tools::CONTEXT, ask).await;
    held(tools::CONTEXT, &opened);
    let meta = &opened["_meta"]["plasm"];
    assert_eq!(
        keys(meta),
        ["catalogs", "continuity", "intent", "logical_session_ref", "revision", "tenant_scope"]
    );
    assert!(meta["catalogs"]["tracker"].is_string() && meta["continuity"]["new_symbol_space"] == true);
    let handle = opened["structuredContent"]["logical_session_ref"].as_str().unwrap();
    assert!(said(&opened).starts_with(&format!("{handle}\n")));

    let plan =
        asked(&surface, &who, tools::PLAN, json!({"logical_session_ref": handle, "program": LIST})).await;
    held(tools::PLAN, &plan);
    let structured = &plan["structuredContent"];
    for key in ["run_ref", "verdict", "effects", "bounds", "roots"] {
        assert!(structured.get(key).is_some(), "{key}: {structured}");
    }
    assert_eq!(keys(&plan["_meta"]["plasm"]), ["dry_run", "plan"]);

    let run = json!({"logical_session_ref": handle, "run_ref": structured["run_ref"]});
    let ran = asked(&surface, &who, tools::RUN, run).await;
    held(tools::RUN, &ran);
    let (structured, meta) = (&ran["structuredContent"], &ran["_meta"]["plasm"]);
    assert_eq!(keys(meta), ["omitted_from_summary", "paging", "steps"]);
    assert_eq!(keys(&meta["steps"][0]), ["artifact_uri", "expr_preview", "lossy_fields", "run_id"]);
    assert_eq!(keys(&meta["paging"][0]), ["count", "has_more", "next_run_ref"]);
    let root = &structured["roots"][0];
    assert_eq!(root["artifact_uri"], meta["steps"][0]["artifact_uri"]);
    assert_eq!(structured["run_id"], meta["steps"][0]["run_id"]);
    assert!(meta["steps"][0]["expr_preview"].as_str().unwrap().contains("issues"));
    let auto = json!({"logical_session_ref": handle, "program": LIST, "mode": "auto"});
    held(tools::PLAN, &asked(&surface, &who, tools::PLAN, auto).await);

    let read = json!({"logical_session_ref": handle, "artifact_uri": root["artifact_uri"]});
    for tool in [tools::READ, tools::PAGE] {
        held(tool, &asked(&surface, &who, tool, read.clone()).await);
        // What fails fits as well.
        held(tool, &asked(&surface, &who, tool, json!({"logical_session_ref": handle})).await);
    }
    let wrong = json!({"logical_session_ref": handle, "program": "Issue(open)"});
    held(tools::PLAN, &asked(&surface, &who, tools::PLAN, wrong).await);
    let create = json!({"logical_session_ref": handle, "program": CREATE});
    let plan = asked(&surface, &who, tools::PLAN, create).await;
    held(tools::PLAN, &plan);
    let run = json!({"logical_session_ref": handle, "run_ref": plan["structuredContent"]["run_ref"]});
    held(tools::RUN, &asked(&surface, &who, tools::RUN, run).await);
}

#[tokio::test]
async fn the_text_alone_has_what_a_reader_goes_on_with() {
    let (surface, _) = surface(Globs::default());
    let who = somebody("a");
    let handle = session(&surface, &who).await;
    let program = format!("{LIST} | limit(30)\n");
    let plan =
        asked(&surface, &who, tools::PLAN, json!({"logical_session_ref": handle, "program": program})).await;
    assert!(said(&plan).contains(plan["structuredContent"]["run_ref"].as_str().unwrap()));
    let run = json!({"logical_session_ref": handle, "run_ref": plan["structuredContent"]["run_ref"]});
    let ran = asked(&surface, &who, tools::RUN, run).await;
    let root = &ran["structuredContent"]["roots"][0];
    for fact in ["artifact_uri", "next_run_ref", "coverage", "label"] {
        assert!(said(&ran).contains(root[fact].as_str().unwrap()), "{fact}: {}", said(&ran));
    }
    assert!(said(&ran).contains("(30 rows)"), "{}", said(&ran));
}

#[tokio::test]
async fn the_pages_of_the_app_are_named_by_their_tools_listed_and_read() {
    let (surface, _) = surface(Globs::default());
    let who = somebody("a");
    let listed = surface.known(&who, Kind::Tool).unwrap();
    let meta = |tool: &str| listed.find(tool).unwrap().body.read::<Json>().unwrap()["_meta"].clone();
    let resources = surface.known(&who, Kind::Resource).unwrap();
    for (tool, uri) in [(tools::PLAN, "ui://plasm/plan-review"), (tools::RUN, "ui://plasm/run-explorer")] {
        assert_eq!(meta(tool)["ui"]["resourceUri"], uri);
        assert_eq!(meta(tool)["ui/resourceUri"], uri);
        let page: Json = resources.find(uri).unwrap().body.read().unwrap();
        assert_eq!(page["mimeType"], "text/html;profile=mcp-app");
        let read = read(&surface, &who, uri).await.unwrap();
        let content = &read["contents"][0];
        assert_eq!((&content["uri"], &content["mimeType"]), (&json!(uri), &page["mimeType"]));
        assert!(content["text"].as_str().unwrap().starts_with("<!doctype html>"));
    }
    assert_eq!(meta(tools::PAGE)["ui"]["visibility"], json!(["app"]));
    assert_eq!(meta(tools::READ), Json::Null);
    let about = surface.about(who).await.unwrap();
    let can: Json = about.capabilities.read().unwrap();
    assert_eq!(can, json!({"tools": {}, "resources": {}, "extensions": {"io.modelcontextprotocol/ui": {}}}));
}
