//! `plasm-mcp stdio --demo` as a client starts it: a process and its pipes.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

struct Gateway {
    process: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Gateway {
    fn start() -> Gateway {
        Gateway::with("")
    }

    fn with(config: &str) -> Gateway {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"));
        let folder = tempfile::tempdir().unwrap();
        if !config.is_empty() {
            let file = folder.path().join("plasm.yaml");
            std::fs::write(&file, config).unwrap();
            command.arg("stdio").arg("--config").arg(&file);
        } else {
            command.arg("stdio");
        }
        command.arg("--demo").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let to = process.stdin.take();
        let from = BufReader::new(process.stdout.take().unwrap());
        let mut gateway = Gateway { process, to, from };
        // The file is read once it answers.
        gateway.say(modern("up", "server/discover", json!({})));
        assert_eq!(gateway.hear()["id"], "up");
        gateway
    }

    fn write(&mut self, text: &[u8]) {
        self.to.as_mut().unwrap().write_all(text).unwrap();
    }

    fn say(&mut self, message: Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "it is over");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"))
    }

    fn initialize(&mut self) -> Value {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        self.say(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        let answer = self.hear();
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    /// Closes its input; gives its exit code and what it still said.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.to.take());
        let mut rest = String::new();
        self.from.read_to_string(&mut rest).unwrap();
        (self.process.wait().unwrap().code(), rest)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn modern(id: &str, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn echo(text: &str) -> Value {
    json!({"name": "echo", "arguments": {"text": text}})
}

#[test]
fn both_eras_are_served_on_one_pipe_and_the_end_of_input_is_exit_0() {
    let mut gateway = Gateway::start();
    gateway.say(modern("m", "tools/call", echo("new")));
    let answer = gateway.hear();
    assert_eq!(answer["result"]["content"][0]["text"], "new");
    assert_eq!(answer["result"]["resultType"], "complete");
    let hello = gateway.initialize();
    assert_eq!((&hello["id"], &hello["result"]["protocolVersion"]), (&json!(0), &json!("2025-06-18")));
    gateway.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": echo("old")}));
    let answer = gateway.hear();
    assert_eq!(answer["result"]["content"][0]["text"], "old");
    assert_eq!(answer["result"].get("resultType"), None);
    gateway.say(modern("again", "tools/list", json!({})));
    assert_eq!(gateway.hear()["result"]["resultType"], "complete");
    assert_eq!(gateway.end(), (Some(0), String::new()));
}

#[test]
fn what_is_no_message_is_told_and_the_next_line_is_served() {
    let mut gateway = Gateway::with("limits: {request_bytes: 4KiB}\n");
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let table: [(&[u8], i32); 6] = [
        (b"{\"jsonrpc\":", -32700),
        (b"hello", -32700),
        (b"{\"a\":\"\xff\"}", -32700),
        (b"7", -32600),
        (b"[]", -32600),
        (&[b'['; 100_000], -32600),
    ];
    for (line, code) in table {
        gateway.write(line);
        gateway.write(b"\r\n\n");
        let refused = gateway.hear();
        assert_eq!((&refused["error"]["code"], refused.get("id")), (&json!(code), None), "{refused}");
    }
    gateway.say(ping.clone());
    let early = gateway.hear();
    assert_eq!((&early["id"], &early["error"]["code"]), (&json!(1), &json!(-32602)));
    gateway.initialize();
    gateway.say(ping);
    assert_eq!(gateway.hear(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(gateway.end().0, Some(0));
}

#[test]
fn a_call_reports_progress_runs_beside_others_and_is_cancelled_without_an_answer() {
    let mut gateway = Gateway::start();
    gateway.initialize();
    let count = json!({"name": "countdown", "arguments": {"from": 100}, "_meta": {"progressToken": 3.5}});
    gateway.say(json!({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": count}));
    let note = gateway.hear();
    assert_eq!(
        (&note["method"], &note["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!(3.5))
    );
    gateway.say(json!({"jsonrpc": "2.0", "id": "short", "method": "tools/call", "params": echo("x")}));
    while gateway.hear().get("id") != Some(&json!("short")) {}
    let cancel = json!({"requestId": "long", "reason": "enough"});
    gateway.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}));
    gateway.say(json!({"jsonrpc": "2.0", "id": "after", "method": "ping"}));
    while gateway.hear().get("id") != Some(&json!("after")) {}
    assert_eq!(gateway.end(), (Some(0), String::new()));
}

#[test]
fn the_end_of_input_ends_calls_in_flight_and_the_process_soon() {
    let mut gateway = Gateway::start();
    gateway.say(modern("long", "tools/call", json!({"name": "countdown", "arguments": {"from": 100}})));
    gateway.say(modern("listen", "subscriptions/listen", json!({"notifications": {}})));
    assert_eq!(gateway.hear()["method"], "notifications/subscriptions/acknowledged");
    let begun = Instant::now();
    let (code, rest) = gateway.end();
    assert_eq!(code, Some(0));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let last: Vec<Value> = rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (&last[0]["id"], &last[1]["params"]["requestId"]),
        (&json!("listen"), &json!("listen")),
        "{rest}"
    );
    assert_eq!(last.len(), 2);
}

#[test]
fn a_signal_to_end_closes_subscriptions_and_exits_0_though_the_input_stays_open() {
    let mut gateway = Gateway::start();
    gateway.say(modern("listen", "subscriptions/listen", json!({"notifications": {}})));
    assert_eq!(gateway.hear()["method"], "notifications/subscriptions/acknowledged");
    // SAFETY: kill(2) on a child that was not waited for yet.
    unsafe { libc::kill(gateway.process.id() as i32, libc::SIGTERM) };
    let end = gateway.hear();
    assert_eq!((&end["id"], &end["result"]["resultType"]), (&json!("listen"), &json!("complete")));
    assert_eq!(gateway.hear()["params"]["requestId"], "listen");
    assert_eq!(gateway.process.wait().unwrap().code(), Some(0));
}

#[test]
fn with_nothing_to_serve_it_says_so_on_stderr_alone() {
    let output = Command::new(env!("CARGO_BIN_EXE_plasm-mcp")).arg("stdio").stdin(Stdio::null()).output();
    let output = output.unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--demo"));
}
