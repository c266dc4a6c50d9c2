//! `plasm-mcp stdio` before upstreams, and what its client says and hears, a line a message.

use super::exchange::soon;
use serde_json::{Value, json};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

pub struct Piped {
    _process: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
    _folder: TempDir,
}

impl Piped {
    /// With this configuration (JSON is YAML).
    pub fn start(config: &Value) -> Piped {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("plasm.yaml");
        std::fs::write(&path, config.to_string()).expect("the folder takes a file");
        let log = std::fs::File::create(folder.path().join("log")).expect("the folder takes a log");
        let mut process = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"))
            .args(["stdio", "--config"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("the gateway starts");
        let to = process.stdin.take().expect("its stdin is a pipe");
        let from = BufReader::new(process.stdout.take().expect("its stdout is a pipe")).lines();
        Piped { _process: process, to, from, _folder: folder }
    }

    /// Begins the legacy session of the pipe.
    pub async fn begin(config: &Value, version: &str, capabilities: Value) -> Piped {
        let mut client = Piped::start(config);
        let hello = json!({
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": { "name": "it", "version": "1" },
        });
        client.send("0", "initialize", &hello.to_string()).await;
        assert_eq!(client.hear().await["result"]["protocolVersion"], version);
        client.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        client
    }

    pub async fn say(&mut self, line: &str) {
        self.to.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
    }

    pub async fn send(&mut self, id: &str, method: &str, params: &str) {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.say(&message).await;
    }

    /// The next message, whatever it is.
    pub async fn hear(&mut self) -> Value {
        let line = soon("the next line", self.from.next_line()).await;
        let line = line.expect("its output can be read").expect("it goes on");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}"))
    }
}
