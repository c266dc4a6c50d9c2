//! What a caller may not call they do not see.

use super::*;

#[tokio::test]
async fn what_a_caller_may_not_call_is_neither_found_nor_taught_and_keeps_its_number() {
    let admits = Admits::by(|access, api, operation| {
        &*access.principal.subject == "a"
            || !matches!((api, operation), ("tracker", "issue_update") | ("notes", "reindex"))
    });
    let (surface, _) = served(Settings { admits, ..settings() }, None);
    let (all, some) = (somebody("a"), somebody("b"));
    let seeds = json!([{"api": "tracker", "entity": "Issue"}, {"api": "tracker", "entity": "Project"}]);
    let ask = json!({"intent": "look", "seeds": seeds});
    let (theirs, mine) = (
        asked(&surface, &all, tools::CONTEXT, ask.clone()).await,
        asked(&surface, &some, tools::CONTEXT, ask).await,
    );
    let methods = |answer: &Json| {
        let rows = said(answer).lines().filter_map(|row| row.split_once('\t'));
        let methods = rows.filter(|(left, _)| left.contains(".m"));
        methods
            .map(|(left, right)| (left.to_owned(), right.split([':', ';']).next().unwrap().to_owned()))
            .collect::<Vec<_>>()
    };
    let without: Vec<_> = methods(&theirs).into_iter().filter(|(_, name)| name != "update").collect();
    assert!(without.len() > 1 && without.len() + 1 == methods(&theirs).len());
    assert_eq!(methods(&mine), without, "numbers stay");
    assert!(!mine["structuredContent"]["symbols_added"].to_string().contains("update"));
    let find = json!({"query": "reindex notes server"});
    let found = asked(&surface, &all, tools::DISCOVER, find.clone()).await;
    assert!(said(&found).contains("NotesServer"), "{found}");
    let found = asked(&surface, &some, tools::DISCOVER, find).await;
    assert!(said(&found).contains("Note") && !found.to_string().contains("reindex"), "{found}");
    assert!(!said(&found).contains("NotesServer"), "{found}");
    let ask = json!({"intent": "else", "seeds": [{"api": "notes", "entity": "NotesServer"}]});
    let refused = asked(&surface, &some, tools::CONTEXT, ask).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "seed_forbidden", "{refused}");
    let handle = &mine["structuredContent"]["logical_session_ref"];
    let program = "Issue(\"i1\").update(title = \"x\")";
    let ask = json!({"logical_session_ref": handle, "program": program});
    let refused = asked(&surface, &some, tools::PLAN, ask).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "seed_forbidden", "{refused}");
}
