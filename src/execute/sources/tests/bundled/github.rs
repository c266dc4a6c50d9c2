//! GitHub: pages by `Link`, keys that stand in URLs, writes, and what each status is.

use super::*;

/// Issues of the repository that the server has.
const ALL: i64 = 250;

/// As GitHub shows an issue, as far as anybody looks.
fn issue(server: &str, n: i64) -> Json {
    let repo = format!("{server}/repos/octocat/Hello-World");
    let user = |login: &str| json!({"login": login, "id": 1, "type": "User"});
    let label = |name: &str| json!({"id": 7, "url": format!("{repo}/labels/{name}"), "name": name, "color": "d73a4a", "default": true, "description": null});
    let mut issue = json!({
        "id": 1_000 + n, "node_id": "MDU6", "url": format!("{repo}/issues/{n}"), "repository_url": repo,
        "html_url": format!("https://github.com/octocat/Hello-World/issues/{n}"),
        "number": n, "title": format!("issue {n}"), "user": user("octocat"), "body": null,
        "labels": if n % 100 == 1 { vec![label("stale"), label("bug")] } else { vec![] },
        "state": if n % 2 == 1 { "open" } else { "closed" }, "state_reason": null,
        "assignee": if n % 4 == 1 { user("ada") } else { Json::Null }, "comments": 0, "locked": false,
        "created_at": "2026-01-01T00:00:00Z", "closed_at": null,
        "updated_at": format!("2026-{:02}-01T00:00:00Z", 1 + n % 12),
    });
    if n % 5 == 0 {
        issue["pull_request"] = json!({"url": format!("{repo}/pulls/{n}"), "merged_at": null});
    }
    issue
}

fn refuses(status: &str, headers: &str, message: &str) -> Says {
    let url = "https://docs.github.com/rest";
    answer(
        status,
        headers,
        &json!({"message": message, "documentation_url": url, "status": &status[..3]}).to_string(),
    )
}

/// A page of rows, with the address of the next one as GitHub writes it: by the repository's number.
fn page(seen: &Seen, server: &str, path: &str, rows: &[Json]) -> Says {
    let number = |name: &str, else_: usize| seen.parameter(name).map_or(else_, |text| text.parse().unwrap());
    let (size, page) = (number("per_page", 30).min(100), number("page", 1));
    let from = (page - 1) * size;
    let shown: Vec<&Json> = rows.iter().skip(from).take(size).collect();
    let query = seen.target().split_once('?').map_or("", |(_, query)| query);
    let others: Vec<&str> = query.split('&').filter(|one| !one.starts_with("page=")).collect();
    let to = |page: usize| format!("<{server}{path}?{}&page={page}>", others.join("&"));
    let last = rows.len().div_ceil(size).max(1);
    let link = match page < last {
        true => format!("Link: {}; rel=\"next\", {}; rel=\"last\"\r\n", to(page + 1), to(last)),
        false => String::new(),
    };
    answer("200 OK", &link, &json!(shown).to_string())
}

fn says(seen: &Seen) -> Says {
    let server = format!("http://{}", seen.header("host").unwrap());
    if seen.header("authorization") != Some("Bearer ghp_local") {
        return refuses("401 Unauthorized", "", "Bad credentials");
    }
    assert_eq!(seen.header("x-github-api-version"), Some("2022-11-28"));
    assert_eq!(seen.header("accept"), Some("application/vnd.github+json"));
    assert!(seen.header("user-agent").is_some(), "GitHub refuses who does not say");
    let (verb, path) = (seen.line.split(' ').next().unwrap(), seen.target().split('?').next().unwrap());
    let numbered = "/repositories/1296269/issues";
    let of_repo =
        path.strip_prefix("/repos/octocat/Hello-World").or(path.strip_prefix("/repositories/1296269"));
    let number = of_repo.and_then(|rest| rest.split('/').nth(2)).and_then(|n| n.parse::<i64>().ok());
    match (verb, path, of_repo) {
        ("GET", "/repos/octocat/limited", _) => {
            let headers = "x-ratelimit-limit: 5000\r\nx-ratelimit-remaining: 0\r\nx-ratelimit-reset: 1796040000\r\n";
            refuses("403 Forbidden", headers, "API rate limit exceeded for user ID 1.")
        }
        ("GET", "/repos/octocat/walled", _) => {
            refuses("403 Forbidden", "x-ratelimit-remaining: 4999\r\n", "Resource not accessible by personal access token")
        }
        ("GET", "/search/issues", _) => {
            let q = seen.parameter("q").unwrap();
            if q.contains("repo:octocat/nowhere") {
                return refuses("422 Unprocessable Entity", "", "Validation Failed");
            }
            let found = [issue(&server, 101), issue(&server, 2)];
            assert_eq!(q, "crash repo:octocat/Hello-World is:issue");
            json!({"total_count": 2, "incomplete_results": false, "items": found}).into()
        }
        ("GET", _, Some("")) => json!({
            "id": 1_296_269, "name": "Hello-World", "full_name": "octocat/Hello-World", "owner": {"login": "octocat"},
            "private": false, "description": "My first repository", "language": null, "stargazers_count": 80, "archived": false,
            "open_issues_count": 125, "pushed_at": "2026-01-26T19:06:43Z", "html_url": "https://github.com/octocat/Hello-World",
        })
        .into(),
        ("GET", _, Some("/issues")) => {
            let is = |key: &str, have: &Json| seen.parameter(key).is_none_or(|want| *have == json!(want));
            // The newest first, the closed ones only where they are asked for.
            let rows = (1..=ALL).rev().map(|n| issue(&server, n)).filter(|issue| {
                let state = seen.parameter("state").unwrap_or_else(|| "open".to_owned());
                let labels = issue["labels"].as_array().unwrap();
                (state == "all" || issue["state"] == state)
                    && is("assignee", &issue["assignee"]["login"])
                    && seen.parameter("labels").is_none_or(|want| labels.iter().any(|label| label["name"] == want))
                    && seen.parameter("since").is_none_or(|since| issue["updated_at"].as_str() >= Some(&since))
            });
            page(seen, &server, numbered, &rows.collect::<Vec<_>>())
        }
        ("GET", _, Some(rest)) if rest.ends_with("/comments") => {
            let n = number.unwrap();
            let url = format!("{server}/repos/octocat/Hello-World/issues/{n}");
            json!([{
                "id": 1, "url": format!("{server}/repos/octocat/Hello-World/issues/comments/1"), "issue_url": url,
                "html_url": format!("https://github.com/octocat/Hello-World/issues/{n}#issuecomment-1"), "body": "Me too",
                "user": {"login": "octocat"}, "created_at": "2026-04-14T16:00:49Z", "updated_at": "2026-04-14T16:00:49Z",
            }])
            .into()
        }
        ("GET", _, Some(_)) if number.is_some_and(|n| n <= ALL || n == 1347) => issue(&server, number.unwrap()).into(),
        ("POST", _, Some("/issues")) => {
            let given: Json = serde_json::from_str(&seen.body).unwrap();
            if given["title"] == "" {
                return refuses("422 Unprocessable Entity", "", "Validation Failed");
            }
            let mut made = issue(&server, ALL + 1);
            made["title"] = given["title"].clone();
            answer("201 Created", "", &made.to_string())
        }
        ("POST", _, Some(rest)) if rest.ends_with("/comments") => answer("201 Created", "", &json!({"id": 2}).to_string()),
        ("PATCH", _, Some(_)) if number.is_some() => {
            let mut changed = issue(&server, number.unwrap());
            let given: Map<String, Json> = serde_json::from_str(&seen.body).unwrap();
            changed.as_object_mut().unwrap().extend(given);
            changed.into()
        }
        _ => refuses("404 Not Found", "", "Not Found"),
    }
}

async fn github() -> (Bench, Server) {
    let server = Server::start(|_, seen| says(seen)).await;
    (Bench::new("github", &server, ""), server)
}

#[tokio::test]
async fn the_programs_of_its_page_bring_what_github_has() {
    let (bench, server) = github().await;
    let [old, who, words, searched, opened, closed] = programs("github").try_into().unwrap();
    let numbers = || (1..=ALL).rev();

    let ran = bench.run(&old).await;
    let open = |n: &i64| n % 2 == 1;
    let want: Vec<Json> = numbers()
        .filter(|n| open(n) && n % 5 != 0 && 1 + n % 12 < 6)
        .map(|n| json!([n, format!("issue {n}"), format!("2026-{:02}-01T00:00:00Z", 1 + n % 12)]))
        .collect();
    assert_eq!((tables(&ran), ran.roots[0].coverage), (vec![json!(want)], Covered::Complete));
    // 125 open ones in two pages; of the repository nothing but its key is needed.
    assert_eq!(ran.requests, 2);
    let last = server.targets().pop().unwrap();
    assert_eq!(last, "/repositories/1296269/issues?state=open&per_page=100&page=2");

    let ran = bench.run(&who).await;
    assert_eq!(tables(&ran), [json!([["ada", 63], [null, 62]])]);

    assert_eq!(tables(&bench.run(&words).await), [json!([["octocat", "2026-04-14T16:00:49Z", "Me too"]])]);

    let ran = bench.run(&searched).await;
    let labels = json!([["stale", "d73a4a"], ["bug", "d73a4a"]]);
    let found = json!([["Hello-World", 101, "issue 101"], ["Hello-World", 2, "issue 2"]]);
    assert_eq!((tables(&ran), ran.roots[0].coverage), (vec![found, labels], Covered::Partial));

    let ran = bench.run(&opened).await;
    let identity = json!({"owner": "octocat", "repo": "Hello-World", "number": ALL + 1});
    assert_eq!((ran.writes.len(), &ran.writes[0].done[..]), (1, &[identity][..]));
    let sent: Json = serde_json::from_str(&server.seen().pop().unwrap().body).unwrap();
    assert_eq!(sent, json!({"title": "It rains in", "body": "Through the roof.", "labels": ["bug"]}));

    let plan = bench.plan(&closed);
    assert_eq!(plan.effects.iter().map(|effect| &*effect.method).collect::<Vec<_>>(), ["comment", "update"]);
    let ran = bench.run(&closed).await;
    assert_eq!(ran.writes.iter().map(|write| write.done.len()).collect::<Vec<_>>(), [3, 3]);
    let wrote: Vec<String> = server.seen().iter().rev().take(6).rev().map(|seen| seen.line.clone()).collect();
    let at = |verb: &str, n: i64, rest: &str| {
        format!("{verb} /repos/octocat/Hello-World/issues/{n}{rest} HTTP/1.1")
    };
    let comments = [201, 101, 1].map(|n| at("POST", n, "/comments"));
    assert_eq!(wrote, [comments, [201, 101, 1].map(|n| at("PATCH", n, ""))].concat());
    let sent: Json = serde_json::from_str(&server.seen().pop().unwrap().body).unwrap();
    assert_eq!(sent, json!({"state": "closed", "state_reason": "not_planned"}));
}

#[tokio::test]
async fn what_github_refuses_has_the_code_that_says_why() {
    let (bench, _server) = github().await;
    let create = |title: &str| {
        format!("Issue.create(owner = \"octocat\", repo = \"Hello-World\", title = \"{title}\")")
    };
    for (program, code, message) in [
        ("Repo(owner = \"octocat\", name = \"gone\")", "not_found", "there is no Repo"),
        (
            "Label | filter(owner = \"octocat\", repo = \"gone\")",
            "upstream_status",
            "404 Not Found: Not Found",
        ),
        ("Repo(owner = \"octocat\", name = \"limited\")", "upstream_rate", "API rate limit exceeded"),
        ("Repo(owner = \"octocat\", name = \"walled\")", "upstream_auth", "Resource not accessible"),
        (
            "Issue | search(\"x repo:octocat/nowhere\")",
            "upstream_status",
            "422 Unprocessable Entity: Validation Failed",
        ),
        (&create(""), "upstream_status", "422 Unprocessable Entity: Validation Failed"),
        (
            "Issue(owner = \"octocat\", repo = \"Hello-World\", number = 999)",
            "not_found",
            "there is no Issue",
        ),
    ] {
        let (found, said) = bench.fault(program).await;
        assert_eq!(found, code, "{program}: {said}");
        assert!(said.contains(message), "{program}: {said}");
    }
    let closed = Server::start(|_, _| refuses("401 Unauthorized", "", "Bad credentials")).await;
    let (code, said) = Bench::new("github", &closed, "").fault("Repo").await;
    assert_eq!(code, "upstream_auth");
    assert!(said.contains("Bad credentials") && !said.contains("ghp_local"), "{said}");
}

#[tokio::test]
async fn no_page_is_asked_for_beyond_what_is_wanted_and_what_follows_comes_once() {
    let (bench, server) = github().await;
    let all = "Issue | filter(owner = \"octocat\", repo = \"Hello-World\")";
    let every: Vec<i64> = (1..=ALL).rev().collect();
    let asked = || server.seen().len();
    for (stages, requests, coverage) in [
        (String::new(), 3, Covered::Complete),
        // What is known to be all there is, is complete whatever the limit.
        (format!(" | limit({ALL})"), 3, Covered::Complete),
        (" | limit(1000)".to_owned(), 3, Covered::Complete),
        (" | limit(200)".to_owned(), 2, Covered::Partial),
        (" | limit(30)".to_owned(), 1, Covered::Partial),
        // Conditions that are carried out here count as well: 100 rows have 40 of these.
        (" | filter(number > 0, pull is null) | limit(80)".to_owned(), 1, Covered::Partial),
        (" | filter(pull is not null) | limit(21)".to_owned(), 2, Covered::Partial),
        (" | filter(pull is not null) | limit(50)".to_owned(), 3, Covered::Complete),
    ] {
        let before = asked();
        let ran = bench.run(&format!("{all}{stages} | sort(number desc)[number]")).await;
        assert_eq!((asked() - before, ran.roots[0].coverage), (requests, coverage), "{stages}");
    }
    for (limit, sizes, requests) in [
        (100, vec![100, 100, 50], 3),
        (30, [vec![30; 8], vec![10]].concat(), 9),
        (120, vec![120, 120, 10], 5),
    ] {
        let before = asked();
        let parts = parts(&bench, &format!("{all} | limit({limit})[number]")).await;
        let rows: Vec<i64> = parts.iter().flat_map(|(rows, _)| rows.clone()).collect();
        assert_eq!(rows, every, "limit({limit}): each once, in the source's order");
        let brought: Vec<usize> = parts.iter().map(|(rows, _)| rows.len()).collect();
        assert_eq!((brought, asked() - before), (sizes, requests), "limit({limit})");
        let (last, before_it) = parts.split_last().unwrap();
        assert!(before_it.iter().all(|(_, coverage)| *coverage == Covered::Partial), "limit({limit})");
        assert_eq!(last.1, Covered::Complete, "limit({limit})");
    }
}
