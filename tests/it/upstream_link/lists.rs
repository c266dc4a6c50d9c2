//! What an upstream says of itself and what it lists.

use super::*;
use plasm_mcp::mcp::{Age, Fault, Kind, Reason};
use plasm_mcp::wire::Era;

#[tokio::test]
async fn b071_all_pages_are_followed_and_each_item_keeps_its_bytes() {
    for era in ["modern", "legacy"] {
        let options = ["--era", era, "--tools", "250", "--page-size", "100", "--only-extra"];
        let fixture = Fixture::listening("--http", &options);
        let link = link(&fixture.url);
        let listing = link.list(legacy("l"), Kind::Tool, Age::Fresh).await.unwrap();
        let names: std::collections::BTreeSet<_> = listing.items().iter().map(|i| i.name.clone()).collect();
        assert_eq!(names.len(), listing.items().len(), "none twice");
        assert!(listing.find("tool_0001").is_some() && listing.find("tool_0250").is_some());
        assert!(listing.whole.is_none());
        let item = listing.find("tool_0250").unwrap();
        assert_eq!(item.body.part(&item.name_span).text(), "\"tool_0250\"");
    }
}

#[tokio::test]
async fn a_list_of_one_page_is_kept_whole_with_its_time_to_live() {
    let fixture = Fixture::listening("--http", &["--era", "modern", "--ttl-ms", "60000"]);
    let link = link(&fixture.url);
    let listing = link.list(modern("a"), Kind::Tool, Age::Fresh).await.unwrap();
    let whole: Value = listing.whole.as_ref().unwrap().read().unwrap();
    assert_eq!(whole["tools"].as_array().unwrap().len(), listing.items().len());
    assert_eq!((listing.ttl_ms, listing.private), (60_000, false));
    // It holds for all, so nobody asks again while it is fresh.
    let again = link.list(modern("b"), Kind::Tool, Age::Fresh).await.unwrap();
    assert!(Arc::ptr_eq(&listing, &again));
    assert_eq!(seen(&fixture, "tools/list").await.len(), 1);
}

#[tokio::test]
async fn a_list_without_a_time_to_live_is_asked_for_each_time_and_known_between() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let link = link(&fixture.url);
    let caller = legacy("l");
    assert!(link.known(&caller, Kind::Tool).is_none());
    let first = link.list(caller.clone(), Kind::Tool, Age::Fresh).await.unwrap();
    let second = link.list(caller.clone(), Kind::Tool, Age::Fresh).await.unwrap();
    assert_eq!(seen(&fixture, "tools/list").await.len(), 2);
    assert!(Arc::ptr_eq(&first, &second), "what did not change is the same list");
    result(&link, tool(&caller, "add_tool", json!({ "name": "new_one" }))).await;
    assert!(link.known(&caller, Kind::Tool).unwrap().find("new_one").is_none());
    let third = link.list(caller.clone(), Kind::Tool, Age::Fresh).await.unwrap();
    assert!(third.find("new_one").is_some());
    let known = link.list(caller.clone(), Kind::Tool, Age::Known).await.unwrap();
    assert!(Arc::ptr_eq(&third, &known));
    assert!(link.known(&legacy("other"), Kind::Tool).is_none(), "it may depend on who asked");
}

#[tokio::test]
async fn a_tool_with_an_invalid_header_is_left_out_and_the_others_stay() {
    let fixture = Fixture::listening("--http", &["--era", "modern", "--bad-header-tool"]);
    let to = link(&fixture.url);
    let refused = outcome(&to, tool(&modern("m"), "bad_header", json!({ "region": "eu" }))).await;
    let Outcome::Error(Fault::Ours(Reason::UnknownTool(name))) = refused else { panic!("{refused:?}") };
    assert_eq!(name, "bad_header", "what may not be listed may not be called");
    assert!(seen(&fixture, "tools/call").await.is_empty());
    let with = to.list(modern("m"), Kind::Tool, Age::Fresh).await.unwrap();
    let fixture = Fixture::listening("--http", &["--era", "modern"]);
    let without = link(&fixture.url).list(modern("m"), Kind::Tool, Age::Fresh).await.unwrap();
    assert_eq!(with.items().len(), without.items().len());
    assert!(with.whole.is_none() && without.whole.is_some());
}

#[tokio::test]
async fn every_kind_is_listed_of_either_era() {
    for era in ["modern", "legacy"] {
        let fixture = Fixture::listening("--http", &["--era", era]);
        let link = link(&fixture.url);
        for kind in Kind::ALL {
            let listing = link.list(modern("m"), kind, Age::Fresh).await.unwrap();
            assert!(!listing.items().is_empty(), "{era} {kind:?}");
        }
    }
}

#[tokio::test]
async fn an_upstream_says_who_it_is_and_what_it_can_in_either_era() {
    for era in ["modern", "legacy"] {
        let fixture = Fixture::listening("--http", &["--era", era, "--name", "somebody"]);
        let link = link(&fixture.url);
        let about = link.about(legacy("l")).await.unwrap();
        let info: Value = about.server_info.as_ref().unwrap().read().unwrap();
        assert_eq!(info["name"], "somebody");
        assert!(about.capabilities.read::<Value>().unwrap()["tools"].is_object());
        assert!(about.missing.is_empty());
    }
}

#[tokio::test]
async fn a_pod_that_opened_no_session_itself_learns_who_a_legacy_upstream_is_and_leaves_no_session() {
    let fixture = Fixture::listening("--http", &["--era", "legacy"]);
    let kept = Kept::session("s");
    let caller = caller(Version::NEWEST_LEGACY, &kept, all());
    result(&link(&fixture.url), tool(&caller, "echo", json!({}))).await;
    let other = link(&fixture.url);
    result(&other, tool(&caller, "echo", json!({}))).await;
    assert!(other.about(caller).await.unwrap().server_info.is_some());
    assert_eq!(look(&fixture, "_stats").await["sessions"], 1);
}

#[tokio::test]
async fn an_upstream_of_both_eras_is_spoken_to_in_each_callers_own_unless_pinned() {
    let fixture = Fixture::listening("--http", &[]);
    let begun = async || seen(&fixture, "initialize").await.len();
    let both = link(&fixture.url);
    result(&both, tool(&modern("m"), "echo", json!({}))).await;
    assert_eq!(begun().await, 0);
    result(&both, tool(&legacy("l"), "echo", json!({}))).await;
    assert_eq!(begun().await, 1);
    let pinned = |era| link_as(&fixture.url, LinkConfig { era: Some(era), ..config() });
    result(&pinned(Era::Modern), tool(&legacy("l"), "echo", json!({}))).await;
    assert_eq!(begun().await, 1);
    result(&pinned(Era::Legacy), tool(&modern("m"), "echo", json!({}))).await;
    assert_eq!(begun().await, 2);
    assert_eq!(seen(&fixture, "server/discover").await.len(), 2);
}
