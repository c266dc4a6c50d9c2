//! Redis servers of a test: on free ports, in folders of their own, ended with the test.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plasm_mcp::store::Store;
use tempfile::TempDir;

pub struct Server {
    process: Child,
    port: u16,
    /// Its arguments, in which `{port}` is its port.
    args: Vec<String>,
    /// What `redis-cli` needs besides the port.
    login: Vec<String>,
    folder: TempDir,
}

impl Server {
    /// A server that answers, with more arguments than those that make it small, private and forgetful.
    pub fn start(more: &[&str]) -> Server {
        Server::start_with(more, &[])
    }

    /// As [`Server::start`], reached by `redis-cli` with these arguments.
    pub fn start_with(more: &[&str], login: &[&str]) -> Server {
        let login: Vec<String> = login.iter().map(|arg| (*arg).to_owned()).collect();
        // A port that was free a moment ago may be taken by now: then another.
        for _ in 0..20 {
            let (port, folder) = (free_port(), tempfile::tempdir().expect("a folder"));
            let args: Vec<String> = more.iter().map(|arg| (*arg).to_owned()).collect();
            let process = spawn(port, &args, &folder);
            let mut server = Server { process, port, args, login: login.clone(), folder };
            if server.answers() {
                return server;
            }
        }
        panic!("no redis-server starts: is it installed?");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub async fn store(&self) -> Arc<dyn Store> {
        Arc::new(super::connect(&self.url()).await.expect("the server serves"))
    }

    /// What `redis-cli` says to a command.
    pub fn cli(&self, command: &[&str]) -> String {
        let port = self.port.to_string();
        let said = Command::new("redis-cli").args(["-p", &port]).args(&self.login).args(command).output();
        String::from_utf8(said.expect("redis-cli runs").stdout).expect("it answers in text")
    }

    /// How often clients have called a command so far.
    pub fn calls(&self, command: &str) -> u64 {
        let stats = self.cli(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// Ends it at once; what it held is lost.
    pub fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again at its port.
    pub fn again(&mut self) {
        self.process = spawn(self.port, &self.args, &self.folder);
        assert!(self.answers(), "it starts again");
    }

    /// Answers nobody from now on, and closes nothing.
    pub fn hang(&self) {
        self.signal(libc::SIGSTOP);
    }

    pub fn wake(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: libc::c_int) {
        let pid = libc::pid_t::try_from(self.process.id()).expect("a pid");
        // SAFETY: it takes no pointers, and the process is our child that nobody has waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }

    fn answers(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            if self.process.try_wait().expect("a child").is_some() {
                return false;
            }
            let said = self.cli(&["PING"]);
            if said.starts_with("PONG") || said.starts_with("NOAUTH") {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(port: u16, args: &[String], folder: &TempDir) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--repl-diskless-sync-delay", "0", "--dir"])
        .arg(folder.path())
        .args(args.iter().map(|arg| arg.replace("{port}", &port.to_string())))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server runs: apt-get install redis-server")
}

/// Free, and with a free one 10,000 above it, where a node of a cluster speaks with the others.
fn free_port() -> u16 {
    loop {
        let bound = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = bound.local_addr().expect("it is bound").port();
        let above = port.checked_add(10_000);
        if above.is_some_and(|above| std::net::TcpListener::bind(("127.0.0.1", above)).is_ok()) {
            return port;
        }
    }
}

/// Three masters that share all slots, each with as many replicas.
pub struct Cluster {
    pub nodes: Vec<Server>,
}

impl Cluster {
    pub async fn start(replicas: usize) -> Cluster {
        let args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        let nodes: Vec<Server> = (0..3 * (1 + replicas)).map(|_| Server::start(&args)).collect();
        let addresses: Vec<String> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(&addresses)
            .args(["--cluster-yes", "--cluster-replicas", &replicas.to_string()])
            .output()
            .expect("redis-cli runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stdout));
        let cluster = Cluster { nodes };
        cluster.is_whole().await;
        cluster
    }

    /// Waits until each node that runs says that all slots are served, and each replica has its master's data.
    pub async fn is_whole(&self) {
        crate::harness::comes_true("all slots are served", || async {
            self.running().all(|node| {
                let (info, role) = (node.cli(&["CLUSTER", "INFO"]), node.cli(&["ROLE"]));
                let serves = info.contains("cluster_state:ok") && info.contains("cluster_slots_ok:16384");
                serves && (role.starts_with("master") || role.contains("\nconnected\n"))
            })
        })
        .await;
    }

    fn running(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().filter(|node| node.cli(&["PING"]).starts_with("PONG"))
    }

    /// Which node has the slot of this key.
    pub fn master_of(&self, key: &str) -> usize {
        let mut masters =
            self.nodes.iter().enumerate().filter(|(_, node)| node.cli(&["ROLE"]).starts_with("master"));
        let (at, _) =
            masters.find(|(_, node)| !node.cli(&["EXISTS", key]).contains("MOVED")).expect("a master");
        at
    }

    pub fn url(&self) -> String {
        format!("redis-cluster://127.0.0.1:{}?node=127.0.0.1:{}", self.nodes[0].port(), self.nodes[1].port())
    }
}

/// A master, a replica, and one Sentinel that makes the replica the master when the master is gone.
pub struct Watched {
    pub master: Server,
    pub replica: Server,
    sentinel: Server,
}

pub const SERVICE: &str = "plasm";

/// What our user may do, as docs/configuration.md asks for it.
pub const RIGHTS: &str = "resetkeys ~plasm:* resetchannels &plasm:* -@all +@hash +@stream +@scripting +@connection +@pubsub \
     +get +set +del +type +exists +pexpire +time +info +wait +command +role -script -function";

impl Watched {
    /// Without passwords.
    pub async fn start() -> Watched {
        Watched::start_as(&[], &[], "").await
    }

    /// With a user of an access list on the servers, and another on the Sentinel.
    pub async fn guarded() -> Watched {
        let user = format!("gateway on >theirs {RIGHTS}");
        let args: Vec<&str> = ["--requirepass", "root", "--masterauth", "root", "--user"]
            .into_iter()
            .chain(user.split_whitespace())
            .collect();
        let sentinel = format!(
            "requirepass spoken\nsentinel auth-pass {SERVICE} root\nuser watcher on >seen resetchannels -@all +auth +client +hello \
             +info +ping +sentinel +subscribe\n"
        );
        Watched::start_as(&args, &["-a", "root", "--no-auth-warning"], &sentinel).await
    }

    async fn start_as(args: &[&str], login: &[&str], sentinel: &str) -> Watched {
        let master = Server::start_with(args, login);
        let port = master.port().to_string();
        let follows = [&["--replicaof", "127.0.0.1", &port], args].concat();
        let replica = Server::start_with(&follows, login);
        let settings = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {port} 1\nsentinel down-after-milliseconds {SERVICE} 1000\n\
             sentinel failover-timeout {SERVICE} 5000\n{sentinel}",
        );
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sentinel.conf");
        std::fs::write(&file, settings).expect("the folder takes a file");
        let port = free_port();
        let process = Command::new("redis-server")
            .arg(&file)
            .args(["--sentinel", "--port", &port.to_string(), "--bind", "127.0.0.1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server runs");
        let login: &[&str] = if sentinel.is_empty() { &[] } else { &["-a", "spoken", "--no-auth-warning"] };
        let login = login.iter().map(|arg| (*arg).to_owned()).collect();
        let mut sentinel = Server { process, port, args: Vec::new(), login, folder };
        assert!(sentinel.answers(), "the sentinel starts");
        let watched = Watched { master, replica, sentinel };
        crate::harness::comes_true("the sentinel knows both", || async {
            let known = watched.sentinel.cli(&["SENTINEL", "REPLICAS", SERVICE]);
            known.contains(&watched.replica.port().to_string()) && known.contains("master-link-status\nok")
        })
        .await;
        watched
    }

    pub fn url(&self) -> String {
        format!("redis-sentinel://127.0.0.1:{}?sentinelServiceName={SERVICE}", self.sentinel.port())
    }

    /// The URL of our users.
    pub fn guarded_url(&self) -> String {
        format!(
            "redis-sentinel://gateway:theirs@127.0.0.1:{}?sentinelServiceName={SERVICE}&sentinelUsername=watcher&sentinelPassword=seen",
            self.sentinel.port()
        )
    }
}
