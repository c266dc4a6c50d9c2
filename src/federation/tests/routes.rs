//! The way of each call to its owner, and of names and URIs back.

use super::*;
use crate::mcp::scripted::Health;
use crate::mcp::{Event, Note, Resume};
use crate::wire::Raw;
use futures_util::StreamExt;
use futures_util::stream::iter;

#[tokio::test]
async fn b078_two_tools_of_one_name_are_both_listed_and_each_reaches_its_owner() {
    let a = scripted("a", Kind::Tool, &[r#"{"name":"b_c"}"#, r#"{"name":"same"}"#, r#"{"name":"b__c"}"#]);
    let ab = scripted("a-b", Kind::Tool, &[r#"{"name":"c"}"#, r#"{"name":"same"}"#]);
    let both = composite(&[&a, &ab]);
    let listed = names(&both, Kind::Tool).await;
    assert_eq!(listed, ["a__b_c", "a__same", "a__b__c", "a-b__c", "a-b__same"]);
    let owners = ["a", "a", "a", "a-b", "a-b"];
    let own = ["b_c", "same", "b__c", "c", "same"];
    for ((name, owner), own) in listed.iter().zip(owners).zip(own) {
        let got = result(
            &both,
            Method::ToolsCall,
            &format!("{{\"arguments\":{{\"name\":1}},\"name\":\"{name}\"}}"),
        )
        .await;
        let want = format!(
            "{{\"by\":\"{owner}\",\"method\":\"tools/call\",\"params\":{{\"arguments\":{{\"name\":1}},\"name\":\"{own}\"}}}}"
        );
        assert_eq!(got, want);
    }
    let why = reason(&both, Method::ToolsCall, r#"{"name":"a__nothing"}"#).await;
    assert!(matches!(why, Reason::UnknownTool(_)));
}

#[tokio::test]
async fn b037_the_link_reads_the_name_that_its_upstream_knows() {
    let seen = Arc::new(std::sync::Mutex::new(None));
    let of_link = seen.clone();
    let a = Scripted::new("a").0.listing(Kind::Tool, &[r#"{"name":"get"}"#]).answering(move |call| {
        *of_link.lock().unwrap() = call.params.written(&call.params.name);
        Reply::result(Raw::trusted("{}"))
    });
    let both = composite(&[&Arc::new(a), &scripted("b", Kind::Tool, &[])]);
    result(&both, Method::ToolsCall, r#"{"name":"a__get","arguments":{"region":"eu"}}"#).await;
    assert_eq!(seen.lock().unwrap().as_deref(), Some("get"));
}

#[tokio::test]
async fn an_app_calls_a_tool_by_the_name_that_its_server_knows_where_one_alone_has_it() {
    let a = scripted("a", Kind::Tool, &[r#"{"name":"mine"}"#, r#"{"name":"both"}"#]);
    let b = scripted("b", Kind::Tool, &[r#"{"name":"both"}"#]);
    let two = composite(&[&a, &b]);
    assert!(result(&two, Method::ToolsCall, r#"{"name":"mine"}"#).await.contains(r#""by":"a""#));
    let why = reason(&two, Method::ToolsCall, r#"{"name":"both"}"#).await;
    assert!(matches!(why, Reason::UnknownTool(_)));
}

#[tokio::test]
async fn no_member_takes_the_calls_of_another_by_a_tool_of_that_name() {
    let a = scripted("a", Kind::Tool, &[r#"{"name":"b__t"}"#]);
    let b = scripted("b", Kind::Tool, &[]);
    let two = composite(&[&a, &b]);
    assert!(matches!(reason(&two, Method::ToolsCall, r#"{"name":"b__t"}"#).await, Reason::UnknownTool(_)));
    assert!(result(&two, Method::ToolsCall, r#"{"name":"a__b__t"}"#).await.contains(r#""by":"a""#));
}

#[tokio::test]
async fn a_tool_of_an_upstream_that_is_away_is_unavailable_and_not_unknown() {
    let (a, b) = (scripted("a", Kind::Tool, &[r#"{"name":"t"}"#]), scripted("b", Kind::Tool, &[]));
    a.set(Health::Down);
    let two = composite(&[&a, &b]);
    let why = reason(&two, Method::ToolsCall, r#"{"name":"a__t"}"#).await;
    assert!(matches!(why, Reason::Unreachable { .. }), "{why:?}");
    let why = reason(&two, Method::ToolsCall, r#"{"name":"b__t"}"#).await;
    assert!(matches!(why, Reason::UnknownTool(_)), "{why:?}");
}

#[tokio::test]
async fn a_tool_that_another_pod_listed_since_is_found() {
    let (a, b) = (scripted("a", Kind::Tool, &[]), scripted("b", Kind::Tool, &[]));
    let two = composite(&[&a, &b]);
    list(&two, Kind::Tool).await;
    a.list_now(Kind::Tool, scripted::listing(Kind::Tool, &[r#"{"name":"new"}"#]));
    assert!(result(&two, Method::ToolsCall, r#"{"name":"a__new"}"#).await.contains(r#""by":"a""#));
}

#[tokio::test]
async fn b075_a_uri_that_two_upstreams_have_leads_to_each_under_a_name_of_its_own() {
    let read = |of: &'static str| {
        move |call: &crate::mcp::Call| {
            let uri = call.params.written(&call.params.uri).unwrap_or_default();
            Reply::result(Raw::trusted(format!("{{\"contents\":[{{\"uri\":\"{uri}\",\"text\":\"{of}\"}}]}}")))
        }
    };
    let resource = [r#"{"uri":"file:///readme","name":"r"}"#];
    let template = [r#"{"uriTemplate":"file:///{p}","name":"t"}"#];
    let [a, b] = [("a", "of a"), ("b", "of b")].map(|(id, text)| {
        let backend = Scripted::new(id).0.answering(read(text));
        Arc::new(backend.listing(Kind::Resource, &resource).listing(Kind::Template, &template))
    });
    let two = composite(&[&a, &b]);
    assert_eq!(names(&two, Kind::Resource).await, ["file:///readme", "b+file:///readme"]);
    assert_eq!(bodies(&two, Kind::Resource).await[1], r#"{"uri":"b+file:///readme","name":"r"}"#);
    assert_eq!(names(&two, Kind::Template).await, ["file:///{p}", "b+file:///{p}"]);
    for (uri, of) in [
        ("file:///readme", "of a"),
        ("b+file:///readme", "of b"),
        ("b+file:///x", "of b"),
        ("file:///x", "of a"),
    ] {
        let got = result(&two, Method::ResourcesRead, &format!("{{\"uri\":\"{uri}\"}}")).await;
        assert_eq!(got, format!("{{\"contents\":[{{\"uri\":\"{uri}\",\"text\":\"{of}\"}}]}}"));
    }
    a.forget();
    b.forget();
    for method in [Method::ResourcesSubscribe, Method::ResourcesUnsubscribe] {
        outcome(&two, method.clone(), r#"{"uri":"b+file:///readme"}"#).await;
        assert_eq!(b.calls(), [(method, r#"{"uri":"file:///readme"}"#.to_owned())]);
    }
    outcome(&two, Method::Complete, r#"{"ref":{"type":"ref/resource","uri":"b+file:///{p}"},"argument":{}}"#)
        .await;
    assert_eq!(b.calls()[0].1, r#"{"ref":{"type":"ref/resource","uri":"file:///{p}"},"argument":{}}"#);
    assert_eq!(a.calls(), []);
}

#[tokio::test]
async fn b075_links_and_embedded_resources_lead_back_to_the_upstream_that_sent_them() {
    let links = r#"{"content":[{"type":"resource_link","uri":"file:///readme","name":"l"},{"type":"resource","resource":{"uri":"memo:1","text":""}}]}"#;
    let resource = [r#"{"uri":"file:///readme","name":"r"}"#];
    let tool = [r#"{"name":"t"}"#];
    let [a, b] = ["a", "b"].map(|id| {
        let backend = Scripted::new(id).0.answering(answer(links));
        Arc::new(backend.listing(Kind::Resource, &resource).listing(Kind::Tool, &tool))
    });
    let two = composite(&[&a, &b]);
    let got = result(&two, Method::ToolsCall, r#"{"name":"a__t"}"#).await;
    assert_eq!(got, links.replace("memo:1", "a+memo:1"));
    let got = result(&two, Method::ToolsCall, r#"{"name":"b__t"}"#).await;
    assert_eq!(got, links.replace("memo:1", "b+memo:1").replace("file:", "b+file:"));
    a.forget();
    b.forget();
    outcome(&two, Method::ResourcesRead, r#"{"uri":"b+memo:1"}"#).await;
    assert_eq!(b.calls()[0].1, r#"{"uri":"memo:1"}"#);
    // One upstream alone owns every URI.
    assert_eq!(result(&composite(&[&b]), Method::ToolsCall, r#"{"name":"t"}"#).await, links);
}

#[tokio::test]
async fn b075_an_update_within_a_call_names_the_uri_that_the_client_knows() {
    let resource = [r#"{"uri":"x:1","name":"r"}"#];
    let b = Scripted::new("b").0.listing(Kind::Resource, &resource).listing(Kind::Tool, &[r#"{"name":"t"}"#]);
    let b = b.answering(|_| {
        let note =
            Note { method: Method::ResourceUpdated, params: Raw::trusted(r#"{"uri":"x:1"}"#), at: None };
        let done = Event::Done(Outcome::Result(Raw::trusted("{}")));
        Reply::Stream(iter([Event::Note(note), done]).boxed())
    });
    let two = composite(&[&scripted("a", Kind::Resource, &resource), &Arc::new(b)]);
    list(&two, Kind::Resource).await;
    let reply = two.call(scripted::call(Method::ToolsCall, r#"{"name":"b__t"}"#)).await;
    let Some(Event::Note(note)) = reply.into_events().next().await else { panic!("no note") };
    assert_eq!(note.params.to_bytes(), r#"{"uri":"b+x:1"}"#);
}

#[tokio::test]
async fn b077_the_uri_of_an_app_is_readable_as_it_is_listed() {
    let tool = r#"{"name":"t","_meta":{"ui":{"resourceUri":"ui://w/app.html","csp":{}},"ui/resourceUri":"ui://w/app.html"}}"#;
    let [a, w] = ["a", "w"].map(|id| scripted(id, Kind::Tool, &[tool]));
    let two = composite(&[&a, &w]);
    let listed = bodies(&two, Kind::Tool).await;
    // What looks like a URI of `w` is not left to `a`.
    assert_eq!(listed[0], tool.replace("\"t\"", "\"a__t\"").replace("ui://w/", "ui://a/w/"));
    assert_eq!(listed[1], tool.replace("\"t\"", "\"w__t\""));
    for (uri, owner) in [("ui://a/w/app.html", &a), ("ui://w/app.html", &w)] {
        outcome(&two, Method::ResourcesRead, &format!("{{\"uri\":\"{uri}\"}}")).await;
        assert_eq!(owner.calls(), [(Method::ResourcesRead, r#"{"uri":"ui://w/app.html"}"#.to_owned())]);
    }
}

#[tokio::test]
async fn nobody_inherits_the_uri_of_an_owner_that_is_away() {
    let resource = [r#"{"uri":"x:1","name":"r"}"#];
    let (a, b) = (scripted("a", Kind::Resource, &resource), scripted("b", Kind::Resource, &resource));
    let two = composite(&[&a, &b]);
    list(&two, Kind::Resource).await;
    a.set(Health::Down);
    let why = reason(&two, Method::ResourcesRead, r#"{"uri":"x:1"}"#).await;
    assert!(matches!(why, Reason::Unreachable { .. }));
    assert_eq!(names(&two, Kind::Resource).await, ["b+x:1"]);
    assert_eq!(b.calls(), []);
}

#[tokio::test]
async fn an_unlisted_uri_goes_to_nobody_but_the_only_upstream() {
    let (a, b) = (scripted("a", Kind::Resource, &[]), scripted("b", Kind::Resource, &[]));
    let why = reason(&composite(&[&a, &b]), Method::ResourcesRead, r#"{"uri":"x:1"}"#).await;
    assert!(matches!(why, Reason::UnknownResource(_)));
    assert_eq!((a.calls(), b.calls()), (vec![], vec![]));
    assert!(result(&composite(&[&a]), Method::ResourcesRead, r#"{"uri":"x:1"}"#).await.contains("x:1"));
}

#[tokio::test]
async fn prompts_and_their_completions_go_to_the_owner() {
    let prompt = [r#"{"name":"p"}"#];
    let (a, b) = (scripted("a", Kind::Prompt, &prompt), scripted("b", Kind::Prompt, &prompt));
    let two = composite(&[&a, &b]);
    assert_eq!(names(&two, Kind::Prompt).await, ["a__p", "b__p"]);
    result(&two, Method::PromptsGet, r#"{"name":"b__p"}"#).await;
    result(&two, Method::Complete, r#"{"ref":{"name":"b__p","type":"ref/prompt"}}"#).await;
    let params = b.calls().into_iter().map(|(_, params)| params).collect::<Vec<_>>();
    assert_eq!(params, [r#"{"name":"p"}"#, r#"{"ref":{"name":"p","type":"ref/prompt"}}"#]);
    assert_eq!(a.calls(), []);
    let why = reason(&two, Method::PromptsGet, r#"{"name":"c__p"}"#).await;
    assert!(matches!(why, Reason::UnknownPrompt(_)));
    for wrong in [r#"{"ref":{"type":"ref/x"}}"#, r#"{"ref":7}"#, "{}"] {
        assert!(matches!(reason(&two, Method::Complete, wrong).await, Reason::InvalidParams(_)), "{wrong}");
    }
}

#[tokio::test]
async fn b073_the_log_level_goes_to_those_that_declare_logging() {
    let a = Arc::new(Scripted::new("a").0.offering(r#"{"logging":{}}"#, None));
    let b = Arc::new(Scripted::new("b").0.offering(r#"{"tools":{}}"#, None));
    let two = composite(&[&a, &b]);
    assert_eq!(result(&two, Method::SetLevel, r#"{"level":"debug"}"#).await, "{}");
    assert_eq!(a.calls(), [(Method::SetLevel, r#"{"level":"debug"}"#.to_owned())]);
    assert_eq!(b.calls(), []);
    // A level that nobody takes is not called taken.
    let c = Scripted::new("c").0.offering(r#"{"logging":{}}"#, None);
    let c = Arc::new(c.answering(|_| Reply::fault(Reason::InvalidParams("no such level".into()))));
    let why = reason(&composite(&[&c, &b]), Method::SetLevel, r#"{"level":"x"}"#).await;
    assert!(matches!(why, Reason::InvalidParams(_)));
    let why = reason(&composite(&[&b, &b]), Method::SetLevel, r#"{"level":"debug"}"#).await;
    assert!(matches!(why, Reason::MethodNotFound));
}

#[tokio::test]
async fn tasks_and_extensions_pass_to_an_only_upstream_and_are_nobodys_among_several() {
    let (a, b) = (scripted("a", Kind::Tool, &[]), scripted("b", Kind::Tool, &[]));
    for method in [Method::TasksGet, Method::TasksCancel, Method::Other("x/y".into())] {
        assert!(result(&composite(&[&a]), method.clone(), "{}").await.contains(r#""by":"a""#));
        let why = reason(&composite(&[&a, &b]), method, "{}").await;
        assert!(matches!(why, Reason::MethodNotFound));
    }
    for method in [Method::ToolsList, Method::Initialize, Method::Discover, Method::Elicit, Method::Progress]
    {
        for of in [composite(&[&a]), composite(&[&a, &b])] {
            assert!(matches!(reason(&of, method.clone(), "{}").await, Reason::MethodNotFound));
        }
    }
    assert_eq!(result(&composite(&[&a, &b]), Method::Ping, "{}").await, "{}");
    assert_eq!(result(&composite(&[&a]), Method::Ping, "{}").await, "{}");
}

#[tokio::test]
async fn a_retry_goes_to_who_asked_and_to_nobody_else() {
    let (a, b) = (scripted("a", Kind::Tool, &[r#"{"name":"t"}"#]), scripted("b", Kind::Tool, &[]));
    for (of, name) in [(composite(&[&a, &b]), "a__t"), (composite(&[&a]), "t")] {
        for (asker, taken) in [("a", true), ("b", false)] {
            let upstream = crate::mcp::UpstreamId::new(asker).unwrap();
            let mut call = scripted::call(Method::ToolsCall, &format!("{{\"name\":\"{name}\"}}"));
            call.resume = Some(Arc::new(Resume { upstream, state: None, answers: Raw::trusted("{}") }));
            let outcome = of.call(call).await.outcome().await;
            let refused = matches!(outcome, Outcome::Error(Fault::Ours(Reason::BadState)));
            assert_eq!(refused, !taken, "{name} {asker}");
        }
    }
}
