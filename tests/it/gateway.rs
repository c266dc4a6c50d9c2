//! The real gateway as a child process, and raw clients for it. What a test says of HTTP it says in bytes: nothing here
//! corrects a request, and an answer is given as it arrives.

mod cluster;
pub mod exchange;
pub mod http_sse;
pub mod legacy;
pub mod modern;
pub mod piped;

use crate::harness::Fixture;
use cluster::Cluster;
use exchange::Answer;
use legacy::Legacy;
use modern::Modern;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// What serves.
enum Serving {
    One(Child),
    /// `PLASM_TEST_PODS`: several pods behind nginx.
    Pods(Cluster),
}

/// A gateway that serves. It ends with this value.
pub struct Gateway {
    serving: Serving,
    /// Where its default profile answers.
    pub url: String,
    pub address: SocketAddr,
    folder: TempDir,
}

impl Gateway {
    /// With this configuration (JSON is YAML); listeners are set to free ports.
    pub fn start(config: Value) -> Gateway {
        Gateway::run("plasm.yaml", "--config", &config, &[])
    }

    /// As [`Gateway::start`], with these variables besides the test's own.
    pub fn in_environment(config: Value, variables: &[(&str, &str)]) -> Gateway {
        Gateway::run_text("plasm.yaml", "--config", &config.to_string(), &[], variables)
    }

    /// With this file of a client (`mcpServers`).
    pub fn with_mcp_json(file: Value) -> Gateway {
        Gateway::run("mcp.json", "--mcp-json", &file, &[])
    }

    /// With the built-in upstream.
    pub fn demo(config: Value) -> Gateway {
        Gateway::run("plasm.yaml", "--config", &config, &["--demo"])
    }

    /// Before these upstreams, by id and in this order.
    pub fn before(upstreams: &[(&str, &Fixture)]) -> Gateway {
        let one = |(id, fixture): &(&str, &Fixture)| format!(r#""{id}":{{"url":"{}"}}"#, fixture.url);
        let all: Vec<_> = upstreams.iter().map(one).collect();
        Gateway::with_text(&format!(r#"{{"upstreams":{{{}}}}}"#, all.join(",")))
    }

    /// As [`Gateway::start`], with the text of the configuration, where the order of keys matters.
    pub fn with_text(config: &str) -> Gateway {
        Gateway::run_text("plasm.yaml", "--config", config, &[], &[])
    }

    fn run(file: &str, flag: &str, content: &Value, more: &[&str]) -> Gateway {
        Gateway::run_text(file, flag, &content.to_string(), more, &[])
    }

    fn run_text(file: &str, flag: &str, content: &str, more: &[&str], variables: &[(&str, &str)]) -> Gateway {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(file);
        std::fs::write(&path, content).expect("the folder takes a file");
        // A test that has a store of its own has pods of its own.
        if let Some(pods) = cluster::wanted().filter(|_| !content.contains("\"store\"")) {
            let (cluster, address) = Cluster::up(pods, flag, &path, more);
            let url = format!("http://{address}/mcp");
            return Gateway { serving: Serving::Pods(cluster), url, address, folder };
        }
        if content.contains(r#""to":"stdout""#) {
            let out = std::fs::File::create(folder.path().join("out")).expect("the folder takes a file");
            return Gateway::telling(folder, &path, flag, out.into());
        }
        let log = std::fs::File::create(folder.path().join("log")).expect("the folder takes a log");
        let mut process = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", flag])
            .arg(&path)
            .args(more)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the gateway starts");
        let mut out = BufReader::new(process.stdout.take().expect("its stdout is a pipe"));
        let mut first = String::new();
        out.read_line(&mut first).expect("it says where it is");
        // What follows is read too, or it could not print.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        let Some(url) = first.trim().strip_prefix("plasm-mcp is at ").map(str::to_owned) else {
            let _ = process.wait();
            let said = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            panic!("the gateway does not serve: {first}{said}")
        };
        let (_, rest) = url.split_once("://").expect("a URL");
        let said = rest.split('/').next().unwrap_or_default().parse();
        let address = said.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let mut gateway = Gateway { serving: Serving::One(process), url, address, folder };
        if gateway.address.port() == 0 {
            // It says where clients believe it to be: a public URL.
            gateway.address = gateway.said("listen");
        }
        gateway
    }

    /// One whose standard output is the audit's, and bears no banner.
    fn telling(folder: TempDir, file: &std::path::Path, flag: &str, out: Stdio) -> Gateway {
        let log = std::fs::File::create(folder.path().join("log")).expect("the folder takes a log");
        let process = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", flag])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(log)
            .spawn()
            .expect("the gateway starts");
        let (url, address) = (String::new(), SocketAddr::from(([127, 0, 0, 1], 0)));
        let mut gateway = Gateway { serving: Serving::One(process), url, address, folder };
        gateway.address = gateway.said("listen");
        gateway.url = format!("http://{}/mcp", gateway.address);
        gateway
    }

    /// As [`Gateway::start`], with an audit that nobody reads.
    pub fn stalled(config: Value) -> Gateway {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("plasm.yaml");
        std::fs::write(&file, config.to_string()).expect("the folder takes a file");
        Gateway::telling(folder, &file, "--config", Stdio::piped())
    }

    /// What it has written to standard output, where the audit goes there.
    pub fn written(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("out")).unwrap_or_default()
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        if let Serving::Pods(cluster) = &self.serving {
            return cluster.log();
        }
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The first line of its log that holds this, once it is there.
    fn logged(&self, text: &str) -> String {
        for _ in 0..2500 {
            if let Some(line) = self.log().lines().find(|line| line.contains(text)) {
                return line.to_owned();
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("it never logs {text:?}")
    }

    fn process(&mut self) -> &mut Child {
        match &mut self.serving {
            Serving::One(process) => process,
            Serving::Pods(_) => panic!("this test is about one pod"),
        }
    }

    /// Its process, where it is one.
    pub fn pid(&self) -> u32 {
        self.pids()[0]
    }

    fn pids(&self) -> Vec<u32> {
        match &self.serving {
            Serving::One(process) => vec![process.id()],
            Serving::Pods(cluster) => cluster.pids(),
        }
    }

    /// Answers nobody from now on, and closes nothing.
    pub fn hang(&self) {
        self.signal("STOP");
    }

    pub fn wake(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.pids()[0].to_string()]).status();
        assert!(sent.expect("there is a kill").success());
    }

    /// Ends it at once: SIGKILL.
    pub fn kill(&mut self) {
        self.process().kill().expect("it runs");
        self.process().wait().expect("it is a child of ours");
    }

    /// Asks it to end, as an orchestrator does.
    pub fn terminate(&mut self) {
        let asked = Command::new("kill").args(["-TERM", &self.process().id().to_string()]).status();
        assert!(asked.expect("there is a kill").success());
    }

    /// Puts another configuration in the place of its file, as an editor does.
    pub fn reconfigure(&self, config: &Value) {
        let file = ["plasm.yaml", "mcp.json"].map(|name| self.folder.path().join(name));
        let file = file.iter().find(|file| file.exists()).expect("it was started with a file");
        let beside = self.folder.path().join("new");
        std::fs::write(&beside, config.to_string()).expect("the folder takes a file");
        std::fs::rename(&beside, file).expect("the file is replaced");
    }

    /// Asks it to read its configuration again.
    pub fn hang_up(&self) {
        let [pod] = self.pids()[..] else { panic!("this test is about one pod") };
        let asked = Command::new("kill").args(["-HUP", &pod.to_string()]).status();
        assert!(asked.expect("there is a kill").success());
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> std::process::ExitStatus {
        loop {
            match self.process().try_wait().expect("it is a child of ours") {
                Some(status) => return status,
                None => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            }
        }
    }

    /// Where its probes, metrics and drain are.
    pub fn admin(&self) -> SocketAddr {
        self.said("admin")
    }

    /// An address that it logs when it begins to serve.
    fn said(&self, name: &str) -> SocketAddr {
        let line = self.logged("probes and metrics are at");
        let line: Value = serde_json::from_str(&line).expect("the log is JSON where it is no terminal");
        let address = line[name].as_str();
        address.expect("it says the address").parse().expect("an address")
    }

    /// The value of a metric on the admin port, of all pods; 0 where it was never counted. `series`: name and labels, as
    /// they are exposed.
    pub async fn metric(&self, series: &str) -> f64 {
        let admins = match &self.serving {
            Serving::One(_) => vec![self.admin()],
            Serving::Pods(cluster) => cluster.admins(),
        };
        let of = |line: &str| -> Option<f64> { line.strip_prefix(series)?.trim().parse().ok() };
        let mut sum = 0.0;
        for admin in admins {
            let text = exchange::request(admin, "GET", "/metrics", &[], "").await.bytes().await;
            let text = String::from_utf8(text.to_vec()).expect("metrics are text");
            sum += text.lines().find_map(of).unwrap_or(0.0);
        }
        sum
    }

    /// The processes that it has started and not ended.
    pub fn children(&self) -> Vec<i32> {
        let ours = self.pids().into_iter().map(|pid| format!("/proc/{pid}/task"));
        let threads = ours.flat_map(|ours| std::fs::read_dir(ours).expect("it runs")).filter_map(Result::ok);
        let of = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("children")).ok();
        let pids = |list: String| list.split_whitespace().map(|pid| pid.parse().expect("a number")).collect();
        threads.filter_map(of).flat_map(|list| -> Vec<i32> { pids(list) }).collect()
    }

    /// Kills what it has started.
    pub fn kill_children(&self) {
        for child in self.children() {
            // SAFETY: kill(2) has no memory of ours to break; the process is of our own making.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
    }

    /// The bytes of memory that it holds (its resident set).
    pub fn memory(&self) -> usize {
        let of = |pid: u32| -> usize {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
            let line =
                status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
            let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number of KiB");
            kib << 10
        };
        self.pids().into_iter().map(of).sum()
    }

    /// Any request, as it is given.
    pub async fn request(
        &self,
        verb: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<exchange::Content>,
    ) -> Answer {
        exchange::request(self.address, verb, path, headers, body).await
    }

    /// A modern client without capabilities at the default profile.
    pub fn modern(&self) -> Modern {
        Modern::new(self.address, "/mcp", json!({}))
    }

    /// A legacy client with a session of this version at the default profile, without capabilities.
    pub async fn legacy(&self, version: &str) -> Legacy {
        Legacy::begin(self.address, "/mcp", version, json!({})).await
    }

    /// That it still serves, whatever was done to it before.
    pub async fn still_serves(&self) {
        let mut answer = self.request("GET", "/health", &[], "").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.bytes().await, r#"{"status":"ok"}"#);
        let found = self.modern().result("server/discover", json!({})).await;
        assert_eq!(found["resultType"], "complete", "{found}");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Serving::One(process) = &mut self.serving {
            let _ = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            eprintln!("the gateway's log:\n{}", self.log());
        }
    }
}

#[tokio::test]
async fn a_gateway_that_was_started_answers_modern_clients_and_says_what_it_does_not_serve() {
    let gateway = Gateway::demo(json!({ "log": { "filter": "info" } }));
    assert_eq!(gateway.url, format!("http://{}/mcp", gateway.address));
    gateway.still_serves().await;
    let client = gateway.modern();
    let echoed = client.call("echo", json!({ "text": "ü" })).await;
    assert_eq!(echoed["content"][0]["text"], "ü");
    let unknown = client.error("no/such/method", json!({})).await;
    assert_eq!(unknown["code"], -32601);
    let steps = json!({ "name": "countdown", "arguments": { "from": 2 }, "_meta": { "progressToken": "p" } });
    let mut stream = client.send("7", "tools/call", &steps.to_string()).await;
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    let first = stream.message().await.expect("progress comes first");
    assert_eq!(
        (&first["method"], &first["params"]["progressToken"]),
        (&"notifications/progress".into(), &"p".into())
    );
    assert_eq!(stream.answer().await["id"], 7);
}
