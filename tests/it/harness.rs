//! Starts the real parts that tests talk to, on free ports, and ends them with the test.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The fixture upstream's program. Cargo builds it with the tests (it is an example of the crate).
pub fn fixture_program() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own program");
    let target = test.ancestors().nth(2).expect("tests lie in the target folder's deps");
    let program = target.join("examples/fixture");
    assert!(program.exists(), "{} is missing: cargo build --example fixture", program.display());
    program
}

/// Waits until something is so, for longer than it can take on a busy machine.
pub async fn comes_true<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let asked = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(25), asked).await.unwrap_or_else(|_| panic!("never so: {what}"));
}

/// A fixture upstream with one listener. It ends with this value, and with the test if that is killed.
pub struct Fixture {
    process: Child,
    pub url: String,
}

impl Fixture {
    /// `--http`, `--sse` or another listener of it, at a free port; `more` are its other arguments.
    pub fn listening(listener: &str, more: &[&str]) -> Fixture {
        Fixture::at(listener, "127.0.0.1:0", more)
    }

    /// As [`Fixture::listening`], at an address that was free a moment ago: for servers that come back.
    pub fn at(listener: &str, address: &str, more: &[&str]) -> Fixture {
        let mut process = Command::new(fixture_program())
            .args([listener, address, "--exit-with-stdin"])
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the fixture starts");
        let mut first = String::new();
        let out = process.stdout.take().expect("its stdout is a pipe");
        BufReader::new(out).read_line(&mut first).expect("it says where it listens");
        let url = first.trim().strip_prefix("listening ").expect("it listens").to_owned();
        Fixture { process, url }
    }

    pub fn address(&self) -> std::net::SocketAddr {
        let (_, rest) = self.url.split_once("://").expect("a URL");
        rest.split('/').next().unwrap_or_default().parse().expect("an address and a port")
    }

    /// The requests that it saw, oldest first (the last 500; bodies are cut at 64 KiB).
    pub async fn seen(&self) -> Vec<serde_json::Value> {
        self.look("/_seen").await.as_array().cloned().unwrap_or_default()
    }

    /// The requests of one JSON-RPC method that it saw over HTTP: headers by name, and the body's text.
    pub async fn seen_of(&self, method: &str) -> Vec<(serde_json::Value, String)> {
        let marked = format!(r#""method":"{method}""#);
        let seen = self.seen().await.into_iter();
        seen.filter_map(|one| Some((one["headers"].clone(), one["body"].as_str()?.to_owned())))
            .filter(|(_, body)| body.contains(&marked))
            .collect()
    }

    /// Its sessions, streams, deletes and cancelled calls.
    pub async fn stats(&self) -> serde_json::Value {
        self.look("/_stats").await
    }

    async fn look(&self, path: &str) -> serde_json::Value {
        crate::gateway::exchange::request(self.address(), "GET", path, &[], "").await.json().await
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // It may have ended by itself, which some tests make it do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
