//! `plasm-mcp serve` as its documentation says: the examples start as they stand, and it ends when it is told to.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// A gateway on free ports, ended with the test.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the gateway and gives the line in which it says where it is.
fn serve(flags: &[&str]) -> (Serving, String, ChildStderr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"))
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the gateway starts");
    let (stdout, stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let serving = Serving(child);
    let mut said = String::new();
    BufReader::new(stdout).read_line(&mut said).expect("it says where it is");
    (serving, said, stderr)
}

/// Every file of `docs/examples`, with the flag that takes it.
fn examples() -> Vec<(&'static str, PathBuf)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples");
    let files =
        std::fs::read_dir(folder).expect("there are examples").map(|file| file.expect("readable").path());
    let flag = |file: &PathBuf| match file.extension().is_some_and(|kind| kind == "json") {
        true => "--mcp-json",
        false => "--config",
    };
    let files: Vec<_> = files.map(|file| (flag(&file), file)).collect();
    assert!(files.len() >= 3, "{files:?}");
    files
}

#[test]
fn every_example_passes_its_check() {
    for (flag, file) in examples() {
        let mut check = Command::new(env!("CARGO_BIN_EXE_plasm-mcp"));
        check.args(["config", "check"]);
        if flag == "--mcp-json" {
            check.arg(flag);
        }
        let output = check.arg(&file).output().expect("the check runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{}: {said}", file.display());
    }
}

#[test]
fn every_example_starts_as_it_stands() {
    for (flag, file) in examples() {
        let (_serving, said, _log) = serve(&[flag, file.to_str().expect("a path of ours")]);
        assert!(said.starts_with("plasm-mcp is at http"), "{}: {said:?}", file.display());
    }
}

#[test]
fn a_gateway_whose_log_nobody_reads_any_more_still_ends_when_it_is_told_to() {
    let (mut serving, said, log) = serve(&["--demo"]);
    assert!(said.starts_with("plasm-mcp is at http"), "{said:?}");
    drop(log);
    let told = Command::new("kill").args(["-TERM", &serving.0.id().to_string()]).status();
    assert!(told.expect("there is a kill").success());
    let until = Instant::now() + Duration::from_secs(20);
    let status = loop {
        match serving.0.try_wait().expect("it is our child") {
            Some(status) => break status,
            None => assert!(Instant::now() < until, "it does not end"),
        }
        std::thread::park_timeout(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0));
}
