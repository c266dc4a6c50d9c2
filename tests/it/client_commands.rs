//! `plasm-mcp probe`, `list`, `call`, `read`, `prompt`, `complete`, `listen`: against the gateway's demo and the fixture.

use crate::gateway::Gateway;
use crate::harness::{Fixture, fixture_program};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Exit code, standard output, standard error.
type Said = (i32, String, String);

fn plasm(args: &[&str]) -> Said {
    let output =
        Command::new(env!("CARGO_BIN_EXE_plasm-mcp")).args(args).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// The same with the fixture as a child, in one era.
fn at_child(era: &str, args: &[&str]) -> Said {
    let fixture = fixture_program().display().to_string();
    plasm(&[args, &["--era", era, "--", &fixture, "--stdio"]].concat())
}

fn json_of(said: &Said) -> Value {
    serde_json::from_str(&said.1).unwrap_or_else(|_| panic!("no JSON: {said:?}"))
}

#[test]
fn a_probe_tells_era_versions_transport_identity_counts_and_timings() {
    let gateway = Gateway::demo(json!({}));
    let said = plasm(&["probe", &gateway.url]);
    assert_eq!(said.0, 0, "{said:?}");
    for part in
        ["Streamable HTTP", "modern (2026-07-28)", "2025-03-26", "plasm-mcp", "tools 1", "tools/list", " ms"]
    {
        assert!(said.1.contains(part), "{part} is not in {}", said.1);
    }
    let sse = Fixture::listening("--sse", &[]);
    let fixture = fixture_program().display().to_string();
    let reports = [
        (plasm(&["probe", "--json", &sse.url]), "legacy", "HTTP+SSE"),
        (plasm(&["probe", "--json", "--era", "legacy", "--", &fixture, "--stdio"]), "legacy", "stdio"),
        (plasm(&["probe", "--json", "--", &fixture, "--stdio", "--era", "modern"]), "modern", "stdio"),
    ];
    for (said, era, transport) in reports {
        let report = json_of(&said);
        assert_eq!((&report["era"], &report["transport"]), (&json!(era), &json!(transport)), "{said:?}");
        assert_eq!(report["serverInfo"]["name"], "fixture");
        assert!(report["counts"]["tools"].as_u64() > Some(10));
    }
}

#[test]
fn lists_name_everything_by_kind_and_json_is_the_servers_own() {
    // Configured, and so with tools alone.
    let gateway = Gateway::demo(json!({ "profiles": { "default": {} } }));
    let (code, all, _) = plasm(&["list", &gateway.url]);
    assert_eq!(code, 0);
    for line in [
        "tools (11)",
        "echo          Gives its text back.",
        "demo://guide  A short guide",
        "demo://square/{n}",
    ] {
        assert!(all.contains(line), "{line} is not in {all}");
    }
    let (_, prompts, _) = plasm(&["list", "--kind", "prompts", &gateway.url]);
    assert_eq!(prompts, "introduce  Asks the model to explain this gateway to somebody.\n");
    let tools = json_of(&at_child("legacy", &["list", "--json", "--kind", "tools"]));
    assert!(tools["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "echo")));
    assert_eq!(tools.as_object().map(|lists| lists.len()), Some(1));
}

#[test]
fn results_go_to_stdout_failures_to_stderr_and_the_exit_code_says_which() {
    let gateway = Gateway::demo(json!({}));
    let url = gateway.url.as_str();
    let table: &[(&[&str], i32, &str, &str)] = &[
        (&["call", url, "echo", "text=hi there"], 0, "hi there\n", ""),
        (&["call", url, "add", "--args", r#"{"numbers":[1]}"#, "numbers=[1,2.5]"], 0, "3.5\n", ""),
        (&["call", url, "add", "numbers=1"], 1, "add needs \"numbers\", an array of numbers\n", ""),
        (&["call", url, "nothing"], 1, "", "error -32602: unknown tool: nothing\n"),
        (&["read", url, "demo://square/12"], 0, "144", ""),
        (&["read", url, "demo://none"], 1, "", "error -32602"),
        (&["prompt", url, "introduce", "audience=a cat"], 0, "user: Explain to a cat what", ""),
        (&["complete", url, "--prompt", "introduce", "audience=a"], 0, "an engineer\n", ""),
        (&["call", url], 2, "", "plasm-mcp: give the tool's name\n"),
        (&["call", url, "echo", "text"], 2, "", "plasm-mcp: \"text\": expected KEY=VALUE\n"),
        (&["call", "127.0.0.1", "echo"], 2, "", "is not the URL of a server"),
        (&["list", url, "--kind", "things"], 2, "", "invalid value"),
        // Port 9 is "discard"; nothing listens there on a machine of today, and a port of ours might be taken again.
        (&["call", "http://127.0.0.1:9/mcp", "echo"], 1, "", "error: the server is not reachable"),
    ];
    for (args, code, out, err) in table {
        let said = plasm(args);
        assert_eq!(said.0, *code, "{args:?}: {said:?}");
        assert!(said.1.starts_with(out) && (!out.is_empty() || said.1.is_empty()), "{args:?}: {said:?}");
        assert!(said.2.contains(err) && (!err.is_empty() || said.2.is_empty()), "{args:?}: {said:?}");
    }
    let said = plasm(&["call", "--json", url, "add", "numbers=[2,2]"]);
    assert_eq!(json_of(&said)["structuredContent"]["sum"], 4.0);
    let said = plasm(&["call", "--json", url, "nothing"]);
    assert_eq!((said.0, &json_of(&said)["error"]["code"]), (1, &json!(-32602)));
}

#[test]
fn progress_is_shown_where_it_is_asked_for() {
    let gateway = Gateway::demo(json!({}));
    let (code, out, err) = plasm(&["call", "--verbose", &gateway.url, "countdown", "from=3"]);
    assert_eq!((code, out.as_str()), (0, "Lift-off!\n"));
    for step in ["progress 1/3", "progress 2/3", "progress 3/3"] {
        assert!(err.contains(step), "{err}");
    }
}

#[test]
fn a_call_that_wants_input_is_exit_code_3_and_goes_on_with_the_answers_in_both_eras() {
    let folder = tempfile::tempdir().unwrap();
    for era in ["modern", "legacy"] {
        let call = ["call", "test_elicitation", "message=Sure?", "--capabilities", r#"{"elicitation":{}}"#];
        let asked = at_child(era, &call);
        assert_eq!(asked.0, 3, "{asked:?}");
        assert!(asked.2.contains("--continuation"), "{asked:?}");
        let asked = json_of(&asked);
        let requests = asked["inputRequests"].as_object().unwrap();
        let (key, request) = requests.iter().next().unwrap();
        assert_eq!((requests.len(), &request["params"]["message"]), (1, &json!("Sure?")));
        let file = folder.path().join(era);
        let answers = json!({"inputResponses": {key: {"action": "accept", "content": {"response": "yes"}}}});
        std::fs::write(&file, answers.to_string()).unwrap();
        let done = at_child(era, &[&call[..], &["--continuation", &format!("@{}", file.display())]].concat());
        assert_eq!((done.0, done.1.contains("action=accept")), (0, true), "{done:?}");
        // Without the capability nothing is asked.
        assert_eq!(at_child(era, &call[..3]).0, 1);
    }
}

#[test]
fn a_state_is_brought_back_as_it_was_given() {
    let upstream = Fixture::listening("--http", &[]);
    let tool = "test_input_required_result_request_state";
    let declared = r#"{"elicitation":{}}"#;
    let asked = plasm(&["call", &upstream.url, tool, "--capabilities", declared]);
    assert_eq!(asked.0, 3, "{asked:?}");
    let asked = json_of(&asked);
    let again = json!({
        "requestState": asked["requestState"],
        "inputResponses": {"confirm": {"action": "accept", "content": {"ok": true}}},
    });
    let call = |again: &Value| {
        plasm(&[
            "call",
            &upstream.url,
            tool,
            "--capabilities",
            declared,
            "--continuation",
            &again.to_string(),
        ])
    };
    let done = call(&again);
    assert_eq!(done.0, 0, "{done:?}");
    let mut changed = again.clone();
    changed["requestState"] = json!("made up");
    assert_ne!(call(&changed).0, 0);
    assert_eq!(call(&json!({"requestState": 7})).0, 2);
}

#[test]
fn a_token_and_headers_reach_the_server() {
    let upstream = Fixture::listening("--http", &[]);
    let said =
        plasm(&["list", "--kind", "tools", "--token", "t0k", "--header", "X-Test: a: b", &upstream.url]);
    assert_eq!(said.0, 0, "{said:?}");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seen = runtime.block_on(upstream.seen_of("tools/list"));
    let (headers, _) = &seen[0];
    assert_eq!((&headers["authorization"], &headers["x-test"]), (&json!("Bearer t0k"), &json!("a: b")));
}

#[test]
fn changes_are_printed_as_they_come_until_the_time_is_over() {
    for era in ["modern", "legacy"] {
        let upstream = Fixture::listening("--http", &[]);
        let mut listening = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"))
            .args(["listen", "--tools", "--json", "--for", "60s", "--era", era, &upstream.url])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(listening.stdout.take().unwrap()).lines();
        let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
        assert_eq!(next()["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(plasm(&["call", "--era", era, &upstream.url, "add_tool", "name=new_one"]).0, 0);
        assert_eq!(next()["method"], "notifications/tools/list_changed", "{era}");
        // SAFETY: kill(2) on a child that was not waited for yet.
        unsafe { libc::kill(listening.id() as i32, libc::SIGINT) };
        assert_eq!(listening.wait().unwrap().code(), Some(0));
    }
    let gateway = Gateway::demo(json!({}));
    assert_eq!(plasm(&["listen", "--for", "100ms", &gateway.url]).0, 0);
}

#[test]
fn questions_and_answers_pass_a_gateway_on_stdio_before_a_child_in_both_eras() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    let servers = json!({"mcpServers": {"fixture": {"command": fixture_program(), "args": ["--stdio"]}}});
    std::fs::write(&file, servers.to_string()).unwrap();
    let gateway = [env!("CARGO_BIN_EXE_plasm-mcp"), "stdio", "--mcp-json", file.to_str().unwrap()];
    for era in ["modern", "legacy"] {
        let call = ["call", "test_elicitation", "message=Sure?", "--capabilities", r#"{"elicitation":{}}"#];
        let call = [&call[..], &["--era", era]].concat();
        let asked = plasm(&[&call[..], &["--"], &gateway].concat());
        assert_eq!(asked.0, 3, "{asked:?}");
        let key = json_of(&asked)["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let answers = json!({"inputResponses": {key: {"action": "accept", "content": {"response": "yes"}}}});
        let again = ["--continuation", &answers.to_string()];
        let done = plasm(&[&call[..], &again, &["--"], &gateway].concat());
        assert_eq!((done.0, done.1.contains("action=accept")), (0, true), "{era}: {done:?}");
    }
}
