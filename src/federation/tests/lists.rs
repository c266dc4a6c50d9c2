//! Merged lists and what a profile says of itself.

use super::*;
use crate::mcp::scripted::Health;
use crate::wire::Raw;
use std::sync::atomic::Ordering;

#[tokio::test]
async fn with_one_upstream_the_list_is_the_upstreams_own() {
    let a = Arc::new(Scripted::new("a").0);
    let mut given = scripted::listing(Kind::Tool, &[r#"{ "name":"x" }"#]);
    given.whole = Some(Raw::trusted(r#"{"tools":[{ "name":"x" }]}"#));
    a.list_now(Kind::Tool, given);
    let one = composite(&[&a]);
    let listed = list(&one, Kind::Tool).await;
    assert!(listed.whole.is_some());
    assert!(Arc::ptr_eq(&listed, &a.known(&scripted::caller(), Kind::Tool).unwrap()));
    assert!(Arc::ptr_eq(&listed, &one.known(&scripted::caller(), Kind::Tool).unwrap()));

    // A rule that touches nothing changes nothing.
    let mut ruled = of(a.clone());
    ruled.tools.deny = vec!["y".to_owned()];
    let ruled = Composite::new(profile(vec![ruled]));
    assert!(Arc::ptr_eq(&listed, &list(&ruled, Kind::Tool).await));
}

#[tokio::test]
async fn b071_every_item_of_every_upstream_is_listed_once() {
    let many: Vec<String> = (0..250).map(|n| format!("{{\"name\":\"t{n}\"}}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let (a, b) = (scripted("a", Kind::Tool, &many), scripted("b", Kind::Tool, &many[..10]));
    let names = names(&composite(&[&a, &b]), Kind::Tool).await;
    assert_eq!(names.len(), 260);
    assert_eq!((&*names[0], &*names[249], &*names[250]), ("a__t0", "a__t249", "b__t0"));
    assert_eq!(names.iter().collect::<std::collections::HashSet<_>>().len(), 260);
}

#[tokio::test]
async fn b080_the_order_is_the_configurations_and_the_bytes_are_the_same_on_every_pod() {
    let items = [r#"{"name":"z"}"#, r#"{"name":"größe"}"#, r#"{"name":"a"}"#];
    let mut seen = Vec::new();
    for _pod in 0..3 {
        let (b, a) = (scripted("b", Kind::Tool, &items), scripted("a", Kind::Tool, &items));
        let pod = composite(&[&b, &a]);
        seen.push(bodies(&pod, Kind::Tool).await);
        seen.push(bodies(&pod, Kind::Tool).await);
    }
    assert!(seen.iter().all(|one| *one == seen[0]));
    let readable: Vec<&str> = seen[0].iter().map(|body| &body[9..13]).collect();
    assert_eq!(readable, ["b__z", "b__g", "b__a", "a__z", "a__g", "a__a"]);
}

#[tokio::test]
async fn b081_every_field_of_an_item_and_of_a_result_is_there() {
    const TOOL: &str = r#"{"x-foo":[1.0,12345678901234567890,null],"name" : "t","outputSchema":{"type":"object"},"annotations":{},"_meta":{"k":"\u00e9"},"icons":[]}"#;
    const RESULT: &str = r#"{"structuredContent":{"a":1.0},"x-foo":{},"content":[],"_meta":{"k":null}}"#;
    let a = Arc::new(Scripted::new("a").0.answering(answer(RESULT)).listing(Kind::Tool, &[TOOL]));
    let both = composite(&[&a, &scripted("b", Kind::Tool, &[])]);
    assert_eq!(bodies(&both, Kind::Tool).await, [TOOL.replace("\"t\"", "\"a__t\"")]);
    assert_eq!(result(&both, Method::ToolsCall, r#"{"name":"a__t"}"#).await, RESULT);
}

#[tokio::test]
async fn b082_upstreams_that_refuse_or_hang_leave_the_rest_served() {
    let tool = [r#"{"name":"t"}"#];
    let [a, b, c] = ["a", "b", "c"].map(|id| {
        Arc::new(
            Scripted::new(id)
                .0
                .offering(r#"{"tools":{},"completions":{}}"#, Some("How to use it."))
                .listing(Kind::Tool, &tool),
        )
    });
    b.set(Health::Down);
    c.set(Health::Hangs);
    let all = composite(&[&a, &b, &c]);
    let partial = list(&all, Kind::Tool).await;
    assert_eq!(partial.items().iter().map(|i| &*i.name).collect::<Vec<_>>(), ["a__t"]);
    assert_eq!(partial.missing.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!((partial.ttl_ms, partial.private), (0, true));

    let about = all.about(scripted::caller()).await.unwrap();
    assert_eq!(about.missing.len(), 2);
    assert_eq!((about.ttl_ms, about.private), (0, true));
    assert_eq!(about.instructions.as_deref(), Some("## a\n\nHow to use it."));
    // What never spoke may turn out to have any list.
    assert_eq!(
        about.capabilities.to_bytes(),
        r#"{"completions":{},"prompts":{"listChanged":true},"resources":{"listChanged":true},"tools":{"listChanged":true}}"#
    );

    b.set(Health::Up);
    c.set(Health::Up);
    let whole = list(&all, Kind::Tool).await;
    assert_eq!(whole.items().len(), 3);
    assert_eq!((whole.ttl_ms, whole.private, whole.missing.len()), (60_000, false, 0));
}

#[tokio::test]
async fn all_upstreams_away_is_an_empty_list_that_says_so_and_of_one_it_is_the_fault() {
    let (a, b) = (scripted("a", Kind::Tool, &[]), scripted("b", Kind::Tool, &[]));
    a.set(Health::Down);
    b.set(Health::Down);
    assert_eq!(list(&composite(&[&a, &b]), Kind::Tool).await.missing.len(), 2);
    let alone = composite(&[&a]).list(scripted::caller(), Kind::Tool, Age::Fresh).await;
    assert!(matches!(alone, Err(Fault::Ours(Reason::Unreachable { .. }))));
}

#[tokio::test]
async fn a_list_is_kept_no_longer_and_shown_no_wider_than_its_parts() {
    let (a, b) = (scripted("a", Kind::Prompt, &[]), scripted("b", Kind::Prompt, &[]));
    let mut short = scripted::listing(Kind::Prompt, &[r#"{"name":"p"}"#]);
    short.ttl_ms = 5;
    short.private = true;
    b.list_now(Kind::Prompt, short);
    let listed = list(&composite(&[&a, &b]), Kind::Prompt).await;
    assert_eq!((listed.ttl_ms, listed.private), (5, true));
}

#[tokio::test]
async fn what_a_profile_refuses_is_neither_listed_nor_called() {
    let tools = [r#"{"name":"read"}"#, r#"{"name":"write"}"#, r#"{"name":"drop"}"#];
    for others in [false, true] {
        let a = scripted("a", Kind::Tool, &tools);
        let mut first = of(a.clone());
        first.tools.deny = vec!["drop".to_owned()];
        first.rename = [("read".to_owned(), "look".to_owned())].into();
        let mut members = vec![first];
        if others {
            members.push(member("b"));
        }
        let mut profile = profile(members);
        profile.tools.allow = vec!["a__r*".to_owned()];
        let composite = Composite::new(profile);
        assert_eq!(names(&composite, Kind::Tool).await, ["look"]);
        for refused in ["write", "drop", "a__write", "a__drop"] {
            let params = format!("{{\"name\":\"{refused}\"}}");
            let why = reason(&composite, Method::ToolsCall, &params).await;
            assert!(matches!(why, Reason::UnknownTool(_)), "{refused}: {why:?}");
        }
        assert_eq!(a.calls(), []);
        result(&composite, Method::ToolsCall, r#"{"name":"look"}"#).await;
        assert_eq!(a.calls(), [(Method::ToolsCall, r#"{"name":"read"}"#.to_owned())]);
    }
}

#[tokio::test]
async fn capabilities_of_one_pass_as_they_are_and_of_several_are_united() {
    let raw = r#"{ "tools":{},"extensions":{"x/y":{}},"experimental":{"z":{}} }"#;
    let a = Arc::new(Scripted::new("a").0.offering(raw, Some("Of a.")));
    let b = Arc::new(
        Scripted::new("b").0.offering(r#"{"logging":{},"resources":{"subscribe":true}}"#, Some(" ")),
    );
    let one = composite(&[&a]).about(scripted::caller()).await.unwrap();
    assert_eq!(one.capabilities.to_bytes(), raw);
    assert_eq!(one.instructions.as_deref(), Some("Of a."));
    assert!(one.server_info.is_some());
    let two = composite(&[&a, &b]).about(scripted::caller()).await.unwrap();
    assert_eq!(
        two.capabilities.to_bytes(),
        r#"{"logging":{},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}"#
    );
    assert_eq!(two.instructions.as_deref(), Some("## a\n\nOf a."));

    let own = Profile { instructions: Some("Ours.".into()), ..profile(vec![of(a)]) };
    let own = Composite::new(own).about(scripted::caller()).await.unwrap();
    assert_eq!((own.instructions.as_deref(), own.capabilities.to_bytes()), (Some("Ours."), raw.into()));
}

#[tokio::test]
async fn a_call_by_a_known_name_asks_for_no_list() {
    let (a, b) = (scripted("a", Kind::Tool, &[r#"{"name":"t"}"#]), scripted("b", Kind::Tool, &[]));
    let both = composite(&[&a, &b]);
    list(&both, Kind::Tool).await;
    let asked = a.lists.load(Ordering::SeqCst);
    for _ in 0..5 {
        result(&both, Method::ToolsCall, r#"{"name":"a__t"}"#).await;
    }
    assert_eq!(a.lists.load(Ordering::SeqCst), asked);
    let known = || both.known(&scripted::caller(), Kind::Tool).unwrap();
    assert!(Arc::ptr_eq(&known(), &known()));
}
