//! A stdio upstream: a child process in a group of its own, whose pipes are a channel. It ends as it should (end of
//! its input, SIGTERM, SIGKILL), and with it whatever it started.

use super::channel::{Channel, MessageLimits, Outbound};
use super::lines::{self, Line, Lines};
use super::pool::{Start, Started};
use super::transport::{Sent, Transport, TransportError};
use crate::config::{self, Secret};
use crate::mcp::UpstreamId;
use secrecy::ExposeSecret;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncRead;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// What a child inherits of our environment: what programs need to run at all, and nothing that may be a secret.
const INHERITED: [&str; 11] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ"];
/// After the end of a process its last words are read for so long: its own children may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Longest line of stderr that is logged, and how many in [`STDERR_TIME`].
const STDERR_LINE: usize = 4 << 10;
const STDERR_LINES: u32 = 100;
const STDERR_TIME: Duration = Duration::from_secs(10);

/// A program that speaks MCP on its standard streams.
#[derive(Clone, Debug)]
pub struct ChildSpec {
    pub name: UpstreamId,
    /// Looked up in the child's `PATH`; no shell is between.
    pub command: String,
    pub args: Vec<String>,
    /// Besides the little that is inherited, and before it. Read at each start, so that a rotated secret is seen.
    pub env: Vec<(String, Secret)>,
    /// `None`: ours.
    pub cwd: Option<PathBuf>,
    pub limits: MessageLimits,
    pub grace: Grace,
}

/// How long a child may take to end.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// After the end of its input.
    pub input_end: Duration,
    /// After SIGTERM.
    pub term: Duration,
}

impl Default for Grace {
    fn default() -> Grace {
        Grace { input_end: Duration::from_secs(3), term: Duration::from_secs(3) }
    }
}

impl Start for ChildSpec {
    fn start(&self, stop: CancellationToken) -> Sent<Started> {
        let started = self.spawn().map(|process| self.carry(process, stop));
        Box::pin(std::future::ready(started))
    }
}

impl ChildSpec {
    /// The child that the configuration describes; `None` where the upstream is reached by URL.
    pub fn of(name: UpstreamId, config: &config::Upstream, limits: MessageLimits) -> Option<ChildSpec> {
        Some(ChildSpec {
            name,
            command: config.command.clone()?,
            args: config.args.clone(),
            env: config.env.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect(),
            cwd: config.cwd.clone(),
            limits,
            grace: Grace::default(),
        })
    }

    fn spawn(&self) -> Result<Child, TransportError> {
        let mut command = Command::new(&self.command);
        command.args(&self.args).env_clear();
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for (name, secret) in &self.env {
            let value = secret.reveal().map_err(|why| self.refused(&why))?;
            command.env(name, value.expose_secret());
        }
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|why| self.refused(&why))
    }

    /// The log says why; clients learn no more than that it did not start.
    fn refused(&self, why: &dyn std::error::Error) -> TransportError {
        tracing::warn!(upstream = %self.name, command = self.command, %why, "the command does not start");
        TransportError::Unreachable("its command does not start".into())
    }

    fn carry(&self, process: Child, stop: CancellationToken) -> Started {
        let (channel, outbound) = Channel::new(self.name.as_str(), self.limits);
        let group = Group(process.id().and_then(|id| id.try_into().ok()));
        tracing::info!(upstream = %self.name, pid = process.id(), command = %self.command, "child started");
        let run = run(self.name.clone(), process, group, channel.clone(), outbound, self.grace, stop);
        Started { channel, run: Box::pin(run) }
    }
}

async fn run(
    name: UpstreamId,
    mut process: Child,
    group: Group,
    channel: Arc<Channel>,
    outbound: Outbound,
    grace: Grace,
    stop: CancellationToken,
) {
    let pipes = "a child is started with three pipes, and each is taken once";
    let stdin = process.stdin.take().expect(pipes);
    let stdout = process.stdout.take().expect(pipes);
    let stderr = process.stderr.take().expect(pipes);
    let mut writing = AbortOnDropHandle::new(tokio::spawn(lines::write(stdin, outbound)));
    let reader = channel.clone();
    let mut reading = AbortOnDropHandle::new(tokio::spawn(async move { lines::read(stdout, &reader).await }));
    let mut logging = AbortOnDropHandle::new(tokio::spawn(log(name.clone(), stderr)));

    let asked = tokio::select! {
        () = stop.cancelled() => true,
        () = channel.gone() => stop.is_cancelled(),
        _ = process.wait() => { let _ = timeout(LAST_WORDS, &mut reading).await; false }
        _ = &mut writing => { let _ = timeout(LAST_WORDS, &mut reading).await; false }
    };
    channel.end(TransportError::Broken);
    writing.abort();
    let status = end(&mut process, &group, grace).await;
    drop(group);
    let _ = timeout(LAST_WORDS, &mut logging).await;
    let status = status.map(tracing::field::display);
    match asked {
        true => tracing::info!(upstream = %name, status, "child ended, as it was told to"),
        false => tracing::warn!(upstream = %name, status, "child ended of itself"),
    }
}

/// The way out: its input has ended, then SIGTERM, then SIGKILL.
async fn end(process: &mut Child, group: &Group, grace: Grace) -> Option<std::process::ExitStatus> {
    if let Ok(status) = timeout(grace.input_end, process.wait()).await {
        return status.ok();
    }
    group.signal(libc::SIGTERM);
    if let Ok(status) = timeout(grace.term, process.wait()).await {
        return status.ok();
    }
    group.signal(libc::SIGKILL);
    process.wait().await.ok()
}

/// The process group of a child. Whatever is left of it when this is dropped gets SIGKILL: it is dropped right after
/// the child was reaped, before its id can be another's, or else while the child still stands.
struct Group(Option<libc::pid_t>);

impl Group {
    fn signal(&self, signal: libc::c_int) {
        if let Some(id) = self.0 {
            // SAFETY: kill takes two integers and touches no memory of ours. The child leads its own group, so a
            // negative id names that group and never ours.
            unsafe { libc::kill(-id, signal) };
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
    }
}

/// A line of a child as a line of the log: what could move a terminal's cursor or colours is left out.
fn printable(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().filter(|c| !c.is_control() || *c == '\t').collect()
}

/// Passes stderr on to the log, no more of it than a log should take.
async fn log(name: UpstreamId, stderr: impl AsyncRead + Unpin) {
    let mut lines = Lines::new(stderr, STDERR_LINE, usize::MAX);
    let mut begin = Instant::now();
    let mut count = 0u32;
    while let Ok(Some(line)) = lines.next().await {
        if begin.elapsed() >= STDERR_TIME {
            if count > STDERR_LINES {
                tracing::warn!(upstream = %name, lines = count - STDERR_LINES, "left out lines of stderr");
            }
            (begin, count) = (Instant::now(), 0);
        }
        count = count.saturating_add(1);
        if count <= STDERR_LINES {
            let (Line::Text(text) | Line::TooLong { head: text, .. }) = &line;
            tracing::info!(upstream = %name, "stderr: {}", printable(text));
        }
        tokio::task::consume_budget().await;
    }
}
