//! Linear: pages of a GraphQL connection, variables that hold only what is given, and errors with status 200 or 400.

use super::*;

/// Issues that the server has.
const ALL: i64 = 120;

fn issue(n: i64) -> Json {
    json!({
        "id": format!("issue-{n}"), "identifier": format!("ENG-{n}"), "title": format!("Issue {n}"), "description": null,
        "priority": n % 5, "estimate": null, "dueDate": if n == 1 { json!("2026-12-24") } else { Json::Null },
        "createdAt": "2026-10-01T08:00:00.000Z", "updatedAt": "2026-11-01T08:00:00.000Z", "completedAt": null,
        "url": format!("https://linear.app/acme/issue/ENG-{n}"), "team": {"id": if n % 3 == 0 { "team-ops" } else { "team-eng" }},
        "state": {"name": "In Progress", "type": if n % 2 == 1 { "started" } else { "completed" }},
        "assignee": if n % 4 == 1 { json!({"id": "user-ada"}) } else { Json::Null },
        "labels": {"nodes": [{"id": "label-1", "name": "Bug", "color": "#eb5757"}]},
    })
}

/// A connection as Relay has it; the cursor is the last row's place.
fn connection(variables: &Json, rows: &[Json]) -> Json {
    let first = variables["first"].as_u64().unwrap_or(50) as usize;
    let begins = variables["after"].as_str().map_or(0, |after| after.parse().unwrap());
    let nodes: Vec<&Json> = rows.iter().skip(begins).take(first).collect();
    let end = begins + nodes.len();
    let cursor = if nodes.is_empty() { Json::Null } else { json!(end.to_string()) };
    json!({"nodes": nodes, "pageInfo": {"hasNextPage": end < rows.len(), "endCursor": cursor}})
}

fn errors(status: &str, code: &str, message: &str) -> Says {
    let error = json!({"message": message, "extensions": {"type": "error", "code": code, "userPresentableMessage": message}});
    answer(status, "", &json!({"errors": [error]}).to_string())
}

fn says(seen: &Seen) -> Says {
    assert!(seen.line.starts_with("POST /graphql "));
    if seen.header("authorization") != Some("lin_local") {
        return errors(
            "401 Unauthorized",
            "AUTHENTICATION_ERROR",
            "Authentication required, not authenticated",
        );
    }
    let sent: Json = serde_json::from_str(&seen.body).unwrap();
    let (query, variables) = (sent["query"].as_str().unwrap(), &sent["variables"]);
    let input = &variables["input"];
    let field = query.split_once("{ ").unwrap().1.split(['(', ' ']).next().unwrap();
    let data = |value: Json| json!({"data": {field: value}}).into();
    match field {
        "issues" => {
            let filter = &variables["filter"];
            let is = |want: &Json, have: &Json| want.is_null() || want == have;
            let rows = (1..=ALL).map(issue).filter(|issue| {
                is(&filter["team"]["id"]["eq"], &issue["team"]["id"])
                    && is(&filter["state"]["type"]["eq"], &issue["state"]["type"])
                    && is(&filter["priority"]["eq"], &issue["priority"])
            });
            data(connection(variables, &rows.collect::<Vec<_>>()))
        }
        "searchIssues" if variables["term"] == "busy" => {
            errors("400 Bad Request", "RATELIMITED", "Rate limit exceeded")
        }
        "searchIssues" => data(connection(variables, &[issue(2), issue(3)])),
        "issue" if query.contains("comments") => {
            let comment = json!({"id": "c1", "body": "Bring a bucket.", "createdAt": "2026-11-02T09:00:00.000Z", "user": {"name": "Ada"}});
            data(json!({"comments": connection(variables, &[comment])}))
        }
        "issue" if variables["id"] == "ENG-1" => data(issue(1)),
        "issue" => errors("200 OK", "INPUT_ERROR", "Entity not found: Issue"),
        "user" => data(json!({"id": "user-ada", "name": "Ada", "email": "ada@example.com", "active": true})),
        "team" => data(json!({"id": "team-eng", "key": "ENG", "name": "Engineering"})),
        "issueCreate" => {
            let mut made = issue(ALL + 1);
            made["title"] = input["title"].clone();
            data(json!({"success": true, "issue": made}))
        }
        "issueUpdate" => data(json!({"success": true, "issue": issue(2)})),
        "commentCreate" => data(json!({"success": true, "comment": {"id": "c2"}})),
        other => panic!("{other}"),
    }
}

async fn linear() -> (Bench, Server) {
    let server = Server::start(|_, seen| says(seen)).await;
    (Bench::new("linear", &server, "/graphql"), server)
}

fn variables(server: &Server) -> Vec<Json> {
    let read = |seen: &Seen| serde_json::from_str::<Json>(&seen.body).unwrap()["variables"].clone();
    server.seen().iter().map(read).collect()
}

#[tokio::test]
async fn the_programs_of_its_page_bring_what_linear_has() {
    let (bench, server) = linear().await;
    let [urgent, teams, words, opened, given] = programs("linear").try_into().unwrap();

    let ran = bench.run(&urgent).await;
    let want: Vec<Json> = (1..=ALL)
        .filter(|n| n % 2 == 1 && n % 5 == 1)
        .map(|n| {
            json!([
                format!("ENG-{n}"),
                format!("Issue {n}"),
                if n == 1 { json!("2026-12-24") } else { Json::Null }
            ])
        })
        .collect();
    let ada = json!(["Ada", "ada@example.com"]);
    let of_ada = (1..=ALL).filter(|n| n % 2 == 1 && n % 5 == 1 && n % 4 == 1).count();
    assert_eq!(tables(&ran), [json!(want), json!(vec![ada; of_ada])]);
    let first = json!({"filter": {"state": {"type": {"eq": "started"}}, "priority": {"eq": 1}}, "first": 50});
    // The one user that they all lie with is asked for once.
    assert_eq!((ran.requests, variables(&server).remove(0)), (2, first));

    let ran = bench.run(&teams).await;
    let counted = json!([
        ["team-eng", "started", 40],
        ["team-eng", "completed", 40],
        ["team-ops", "started", 20],
        ["team-ops", "completed", 20]
    ]);
    assert_eq!((tables(&ran), ran.roots[0].coverage), (vec![counted], Covered::Complete));
    let pages: Vec<Json> =
        variables(&server).iter().rev().take(3).rev().map(|sent| sent["after"].clone()).collect();
    assert_eq!(pages, [Json::Null, json!("50"), json!("100")]);

    let ran = bench.run(&words).await;
    assert_eq!(tables(&ran), [json!([["Ada", "2026-11-02T09:00:00Z", "Bring a bucket."]])]);

    let ran = bench.run(&opened).await;
    assert_eq!(ran.writes[0].done, [json!("issue-121")]);
    let sent = json!({"input": {"teamId": "team-eng", "title": "It rains in", "priority": 2, "dueDate": "2026-12-24"}});
    assert_eq!(variables(&server).pop(), Some(sent));

    let ran = bench.run(&given).await;
    assert_eq!(ran.writes[0].done, [json!("issue-2"), json!("issue-3")]);
    let sent = |id: &str| json!({"id": id, "input": {"assigneeId": "user-ada", "stateId": "state-started"}});
    assert_eq!(
        variables(&server).split_off(variables(&server).len() - 2),
        [sent("issue-2"), sent("issue-3")]
    );
}

#[tokio::test]
async fn errors_of_graphql_are_failures_with_the_code_that_says_why() {
    let (bench, _server) = linear().await;
    for (program, code, message) in [
        ("Issue(\"ENG-999\")", "upstream_status", "Entity not found: Issue"),
        ("Issue | search(\"busy\")", "upstream_rate", "Rate limit exceeded"),
    ] {
        let (found, said) = bench.fault(program).await;
        assert_eq!(found, code, "{said}");
        assert!(said.contains(message), "{said}");
    }
    let refuses = |_: usize, _: &Seen| {
        errors("401 Unauthorized", "AUTHENTICATION_ERROR", "Authentication required, not authenticated")
    };
    let closed = Server::start(refuses).await;
    let (code, said) = Bench::new("linear", &closed, "/graphql").fault("Issue").await;
    assert_eq!((code, said.contains("lin_local")), ("upstream_auth", false), "{said}");
}

#[tokio::test]
async fn a_connection_goes_on_where_a_limit_stopped() {
    let (bench, server) = linear().await;
    for (limit, requests) in [(50, 3), (120, 3), (100, 3), (70, 4)] {
        let before = server.seen().len();
        let parts = parts(&bench, &format!("Issue | limit({limit})[priority, id]")).await;
        let rows: Vec<i64> = parts.iter().flat_map(|(rows, _)| rows.clone()).collect();
        assert_eq!(rows, (1..=ALL).map(|n| n % 5).collect::<Vec<_>>(), "limit({limit})");
        assert_eq!(server.seen().len() - before, requests, "limit({limit})");
    }
}
