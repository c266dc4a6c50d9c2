use std::{collections::HashMap, path::Path, sync::Mutex};

use super::*;
use crate::{
    execute::{
        catalog::{load_folder, read},
        sources::{Ask, Page, PageRef, SourceError, SourceErrorKind},
    },
    mcp::{Access, Principal, scripted},
};

/// Five issues in pages of two, and every request noted.
#[derive(Default)]
struct World {
    asked: Mutex<Vec<String>>,
    keys: Mutex<Vec<String>>,
    fails: Option<SourceErrorKind>,
}

impl Sources for World {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        let page = ask.page.as_ref().map(|page| page.0.clone()).unwrap_or_default();
        let text = ask.text.as_deref().unwrap_or_default();
        self.asked.lock().unwrap().push(format!(
            "{} {} {} {text} {page}",
            ask.operation,
            json!(ask.key),
            json!(ask.args)
        ));
        self.keys.lock().unwrap().extend(ask.idempotency_key.clone());
        if let Some(kind) = self.fails.clone() {
            let uncertain = &*ask.operation == "issue_create";
            return ready(Err(SourceError { kind, message: "it answered 500".to_owned(), uncertain }))
                .boxed();
        }
        let issue = |n: usize| json!({"id": format!("i{n}"), "title": "t", "state": "open", "score": n, "assignee": null});
        let page = page.parse::<usize>().unwrap_or(0);
        let (rows, next) = match &*ask.operation {
            "issue_list" => {
                let rows = (page * 2 + 1..=(page * 2 + 2).min(5)).map(issue).collect();
                (rows, (page < 2).then(|| PageRef((page + 1).to_string())))
            }
            "issue_delete" => (Vec::new(), None),
            _ => (vec![issue(1)], None),
        };
        ready(Ok(Page { rows, next, ..Page::default() })).boxed()
    }
}

fn corpus() -> Catalogs {
    load_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/language/catalogs")).unwrap()
}

fn settings() -> Settings {
    let id = UpstreamId::new("plasm").unwrap();
    Settings {
        id,
        keyring: Arc::new(Keyring::random()),
        run: Duration::from_secs(60),
        admits: None,
        tasks: TaskTracker::new(),
    }
}

fn served(world: World, settings: Settings) -> (Plain, Arc<World>) {
    let world = Arc::new(world);
    (Plain::new(published(&corpus(), |_| true), world.clone(), settings), world)
}

async fn called_by(plain: &Plain, who: &Arc<Caller>, tool: &str, arguments: Json) -> Json {
    let params = json!({"name": tool, "arguments": arguments}).to_string();
    let call = Call { caller: who.clone(), ..scripted::call(Method::ToolsCall, &params) };
    match plain.call(call).await.outcome().await {
        crate::mcp::Outcome::Result(result) => result.read().unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn called(plain: &Plain, tool: &str, arguments: Json) -> Json {
    called_by(plain, &scripted::caller(), tool, arguments).await
}

fn somebody(subject: &str) -> Arc<Caller> {
    let one = scripted::caller();
    let principal = Arc::new(Principal::minted("t", "https://id.example", subject));
    Arc::new(Caller {
        access: Arc::new(Access::open(principal)),
        profile: one.profile.clone(),
        client: one.client.clone(),
        version: one.version,
        session: one.session.clone(),
    })
}

fn tools(plain: &Plain) -> HashMap<String, Json> {
    let listing = plain.known(&scripted::caller(), Kind::Tool).unwrap();
    listing.items().iter().map(|item| (item.name.to_string(), item.body.read().unwrap())).collect()
}

#[tokio::test]
async fn each_operation_is_a_tool_and_those_of_mcp_servers_are_not() {
    let (plain, _) = served(World::default(), settings());
    let tools = tools(&plain);
    let mut names: Vec<&str> = tools.keys().map(String::as_str).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "pokeapi__Pokemon_get",
            "pokeapi__Pokemon_list",
            "pokeapi__Type_get",
            "pokeapi__Type_list",
            "tracker__Issue_create",
            "tracker__Issue_delete",
            "tracker__Issue_get",
            "tracker__Issue_list",
            "tracker__Issue_search",
            "tracker__Issue_update",
            "tracker__Project_get",
            "tracker__Project_list",
        ]
    );
    let list = &tools["tracker__Issue_list"];
    assert_eq!(list["inputSchema"]["required"], json!(["project"]));
    assert_eq!(
        list["inputSchema"]["properties"]["state"],
        json!({"type": "string", "enum": ["open", "closed"]})
    );
    assert_eq!(
        list["inputSchema"]["properties"]["updated_at"],
        json!({"type": "string", "format": "date-time", "description": "Compared by >=."})
    );
    let row = &list["outputSchema"]["properties"]["rows"]["items"]["properties"];
    assert_eq!((&row["body"], &row["owner"]["description"]), (&Json::Null, &json!("string or null")));
    for (tool, want) in [
        ("tracker__Issue_list", [true, false, true]),
        ("tracker__Issue_create", [false, false, false]),
        ("tracker__Issue_update", [false, false, true]),
        ("tracker__Issue_delete", [false, true, true]),
    ] {
        let hints = &tools[tool]["annotations"];
        let found = ["readOnlyHint", "destructiveHint", "idempotentHint"].map(|hint| hints[hint] == true);
        assert_eq!(found, want, "{tool}");
        assert!(hints["openWorldHint"] == true && hints["title"].is_string());
    }
}

#[tokio::test]
async fn a_list_is_gone_on_with_by_its_cursor_whatever_its_pages_are() {
    let (plain, world) = served(World::default(), settings());
    let (mut cursor, mut seen) = (Json::Null, Vec::new());
    for turn in 0..3 {
        let ask = json!({"project": "p1", "state": "open", "limit": 2, "cursor": cursor});
        let answer = called(&plain, "tracker__Issue_list", ask).await;
        let facts = &answer["structuredContent"];
        assert_eq!(answer["content"][0]["text"], json!(facts.to_string()));
        seen.extend(facts["rows"].as_array().unwrap().iter().map(|row| row["id"].clone()));
        cursor = facts["next"].clone();
        assert_eq!(cursor.is_null(), turn == 2, "{facts}");
        assert_eq!(facts["coverage"], if turn == 2 { "complete" } else { "partial" });
    }
    assert_eq!(json!(seen), json!(["i1", "i2", "i3", "i4", "i5"]));
    let first = "issue_list {} {\"project\":\"p1\",\"state\":\"open\"}  ";
    assert_eq!(*world.asked.lock().unwrap(), [first.to_owned(), format!("{first}1"), format!("{first}2")]);
}

#[tokio::test]
async fn a_cursor_is_its_callers_its_lists_and_its_arguments() {
    let (plain, world) = served(World::default(), settings());
    let (ann, bob) = (somebody("ann"), somebody("bob"));
    let ask = json!({"project": "p1", "limit": 2});
    let cursor =
        called_by(&plain, &ann, "tracker__Issue_list", ask).await["structuredContent"]["next"].clone();
    let asked = world.asked.lock().unwrap().len();
    for (who, ask) in [
        (&bob, json!({"project": "p1", "limit": 2, "cursor": cursor})),
        (&ann, json!({"project": "p2", "limit": 2, "cursor": cursor})),
        (&ann, json!({"project": "p1", "cursor": "x".repeat(100_000)})),
        (&ann, json!({"project": "p1", "cursor": "{\"roots\":[0],\"read\":null}"})),
    ] {
        let answer = called_by(&plain, who, "tracker__Issue_list", ask).await;
        assert_eq!(answer["structuredContent"]["error"]["code"], "run_ref_expired");
    }
    assert_eq!(world.asked.lock().unwrap().len(), asked);
    let ask = json!({"project": "p1", "cursor": cursor});
    let rest = called_by(&plain, &ann, "tracker__Issue_list", ask).await;
    assert_eq!(rest["structuredContent"]["rows"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn one_row_a_search_and_writes_are_asked_as_the_catalog_says() {
    let (plain, world) = served(World::default(), settings());
    let got = called(&plain, "tracker__Issue_get", json!({"id": "i1"})).await;
    assert_eq!(got["structuredContent"]["rows"][0]["score"], 1);
    called(&plain, "tracker__Issue_search", json!({"query": "crash"})).await;
    let made = called(&plain, "tracker__Issue_create", json!({"project": "p1", "title": "T"})).await;
    assert_eq!(made["structuredContent"]["rows"][0]["id"], "i1");
    called(&plain, "tracker__Issue_update", json!({"id": "i1", "state": "closed"})).await;
    let gone = called(&plain, "tracker__Issue_delete", json!({"id": "i1"})).await;
    assert_eq!(gone["structuredContent"]["rows"], json!([{"id": "i1", "ack": "done"}]));
    assert_eq!(
        *world.asked.lock().unwrap(),
        [
            "issue_get {\"id\":\"i1\"} {}  ",
            "issue_search {} {} crash ",
            "issue_create {} {\"project\":\"p1\",\"title\":\"T\"}  ",
            "issue_update {\"id\":\"i1\"} {\"state\":\"closed\"}  ",
            "issue_delete {\"id\":\"i1\"} {}  ",
        ]
    );
    let keys = world.keys.lock().unwrap();
    assert!(keys.len() == 3 && keys[0] != keys[1], "{keys:?}");
}

#[tokio::test]
async fn what_does_not_fit_the_schema_is_refused_before_anything_is_asked() {
    let (plain, world) = served(World::default(), settings());
    for (tool, arguments, code) in [
        ("tracker__Issue_list", json!({}), "missing_arg"),
        ("tracker__Issue_list", json!({"project": null}), "type_mismatch"),
        ("tracker__Issue_list", json!({"project": 7}), "type_mismatch"),
        ("tracker__Issue_list", json!({"project": "p", "state": "opn"}), "enum_value"),
        ("tracker__Issue_list", json!({"project": "p", "updated_at": "soon"}), "type_mismatch"),
        ("tracker__Issue_list", json!({"project": "p", "limit": 0}), "type_mismatch"),
        ("tracker__Issue_list", json!({"project": "p", "limit": 1001}), "type_mismatch"),
        ("tracker__Issue_list", json!({"project": "p", "stat": "open"}), "unknown_arg"),
        ("tracker__Issue_create", json!({"project": "p"}), "missing_arg"),
        ("tracker__Issue_get", json!([]), "bad_arguments"),
    ] {
        let answer = called(&plain, tool, arguments.clone()).await;
        assert_eq!(answer["structuredContent"]["error"]["code"], code, "{tool} {arguments}");
        assert_eq!(answer["isError"], true);
    }
    assert_eq!(*world.asked.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_source_fails_with_is_a_result_with_its_code() {
    for (kind, code) in [
        (SourceErrorKind::NotFound, "not_found"),
        (SourceErrorKind::Auth, "upstream_auth"),
        (SourceErrorKind::Rate(None), "upstream_rate"),
        (SourceErrorKind::Status, "upstream_status"),
    ] {
        let (plain, _) = served(World { fails: Some(kind), ..World::default() }, settings());
        let answer = called(&plain, "tracker__Issue_get", json!({"id": "i9"})).await;
        assert_eq!(answer["structuredContent"]["error"]["code"], code);
    }
    let (plain, _) = served(World { fails: Some(SourceErrorKind::Status), ..World::default() }, settings());
    let answer = called(&plain, "tracker__Issue_create", json!({"project": "p", "title": "T"})).await;
    let error = &answer["structuredContent"]["error"];
    assert_eq!(error["retryable"], false);
    assert!(error["hint"].as_str().unwrap().contains("may have been carried out"), "{error}");
}

#[tokio::test]
async fn what_a_caller_may_not_call_they_are_not_shown() {
    let admits = Admits::by(|access, api, operation| {
        *access.principal.subject != *"bob" || (api == "tracker" && !operation.ends_with("_delete"))
    });
    let (plain, world) = served(World::default(), Settings { admits: Some(admits), ..settings() });
    let names = |who: &Arc<Caller>| {
        let listing = plain.known(who, Kind::Tool).unwrap();
        assert!(listing.private);
        listing.items().len()
    };
    assert_eq!((names(&somebody("ann")), names(&somebody("bob"))), (12, 7));
    let answer = called_by(&plain, &somebody("bob"), "tracker__Issue_delete", json!({"id": "i1"})).await;
    assert_eq!(answer["structuredContent"]["error"]["code"], "seed_forbidden");
    assert!(world.asked.lock().unwrap().is_empty());
}

#[test]
fn names_fit_hosts_and_no_two_are_alike() {
    let long = "x".repeat(60);
    let text = format!(
        "catalog: a-b\nrevision: 1\ntitle: T\nsource: {{kind: http, base_url: 'https://a.example'}}\nentities:\n  \
         {long}: {{key: [id, cursor], fields: {{id: string, cursor: int, limit_value: int}}}}\n  T: {{key: [id], fields: {{id: string}}}}\n\
         operations:\n  one: {{kind: query, entity: T, args: {{cursor: string}}, http: {{send: GET /t, query: {{c: args.cursor}}, rows: $.*}}}}\n  \
         two: {{kind: query, entity: T, args: {{b: {{type: string, need: scope}}}}, http: {{send: 'GET /t/{{args.b}}', rows: $.*}}}}\n  \
         off: {{kind: delete, entity: T, enabled: false, effect: {{class: destructive}}, http: {{send: 'DELETE /t/{{key.id}}'}}}}\n  \
         ren: {{kind: update, entity: T, args: {{id: string}}, effect: {{class: write}}, http: {{send: 'PUT /t/{{key.id}}', body: {{id: args.id}}}}}}\n  \
         far: {{kind: get, entity: {long}, http: {{send: 'GET /x/{{key.id}}/{{key.cursor}}', row: $}}}}\n  \
         act: {{kind: action, entity: {long}, name: a, effect: {{class: read}}, http: {{send: 'POST /x/{{key.id}}/{{key.cursor}}'}}}}\n"
    );
    let mut catalogs = Catalogs::default();
    catalogs.add(read(&text, Path::new("t.yaml")).unwrap());
    let plain = Plain::new(published(&catalogs, |_| true), Arc::new(World::default()), settings());
    let tools = tools(&plain);
    assert_eq!(tools.len(), 5, "{:?}", tools.keys());
    for name in tools.keys() {
        assert!(
            name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)),
            "{name}"
        );
    }
    assert!(tools.contains_key("a-b__T_list") && tools.contains_key("a-b__T_two"));
    let list = &tools["a-b__T_list"]["inputSchema"]["properties"];
    assert_eq!(list["cursor"], json!({"type": "string"}));
    assert!(list["next_cursor"].is_object());
    let renamed = &tools["a-b__T_ren"]["inputSchema"];
    assert_eq!(renamed["required"], json!(["key_id"]));
    assert!(renamed["properties"]["id"].is_object());
    assert!(published(&catalogs, |_| false).is_empty());
}
