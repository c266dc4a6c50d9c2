//! Several pods over one Redis behind a real nginx, in place of one gateway: what `PLASM_TEST_PODS=3` makes of the tests
//! that start one. `scripts/cluster` stands it up, so that the tests meet the nginx that everything else meets.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The pods, nginx and Redis. They end with this value.
pub struct Cluster {
    folder: TempDir,
}

/// The number of pods that tests are to run on, where it is not one.
pub fn wanted() -> Option<usize> {
    let pods = std::env::var("PLASM_TEST_PODS").ok()?.parse().expect("PLASM_TEST_PODS is a number");
    (pods > 1).then_some(pods)
}

fn script(command: &str, folder: &Path) -> Command {
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/cluster"));
    script.arg(command).arg("--dir").arg(folder.join("cluster"));
    script
}

impl Cluster {
    /// With this configuration (`--config` or `--mcp-json`, its file, and more flags); and where nginx listens.
    pub fn up(pods: usize, flag: &str, file: &Path, more: &[&str]) -> (Cluster, SocketAddr) {
        let cluster = Cluster { folder: tempfile::tempdir().expect("a temporary folder") };
        let up = script("up", cluster.folder.path())
            .args(["--no-build", "--bin", env!("CARGO_BIN_EXE_plasm-mcp"), "--pods", &pods.to_string(), flag])
            .arg(file)
            .args(more)
            .output()
            .expect("scripts/cluster runs");
        assert!(up.status.success(), "no cluster: {}", String::from_utf8_lossy(&up.stderr));
        let port = cluster.read("nginx/http").trim().parse().expect("a port");
        (cluster, SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("cluster").join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn each(&self, name: &str) -> impl Iterator<Item = String> {
        let pods: usize = self.read("pods").trim().parse().expect("a number of pods");
        (1..=pods).map(move |pod| self.read(&format!("pod-{pod}/{name}")))
    }

    pub fn pids(&self) -> Vec<u32> {
        self.each("pid").map(|pid| pid.trim().parse().expect("a process")).collect()
    }

    pub fn admins(&self) -> Vec<SocketAddr> {
        self.each("admin").map(|address| address.trim().parse().expect("an address")).collect()
    }

    pub fn log(&self) -> String {
        self.each("log").collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let down = script("down", self.folder.path()).output();
        if !down.is_ok_and(|down| down.status.success()) {
            eprintln!("a cluster did not end: {}", self.folder.path().display());
        }
    }
}
