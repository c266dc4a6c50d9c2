//! Stdio children that misbehave, as processes: what they may do to us, and that nothing of them stays.

use super::*;
use plasm_mcp::upstream::transport::Dial;
use std::path::Path;

/// Answers the request `"1"` that comes on the next line.
const ANSWER: &str = r#"read line; echo '{"jsonrpc":"2.0","id":"1","result":{"ok":true}}'"#;

async fn ping(to: &dyn Transport) -> Result<Value, TransportError> {
    result(to, "1", "tools/list", json!({})).await
}

/// The process ids that a script wrote into `file`, one a line, once it has written `count`.
async fn pids(file: &Path, count: usize) -> Vec<u32> {
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let found: Vec<u32> = whole.lines().filter_map(|line| line.trim().parse().ok()).collect();
        if found.len() >= count {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

/// Whether the process still runs. One that nobody has reaped yet does not.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until a killed process is gone: the signal is sent, and the kernel takes its time.
async fn dies(pid: u32) {
    while runs(pid) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn lines_that_are_no_messages_are_skipped() {
    let pool = pool(shell(&format!("echo Server is ready; echo '{{'; echo; echo '[1]'; {ANSWER}; cat")));
    let to = pool.dial("a").await.unwrap();
    assert_eq!(ping(&*to).await.unwrap()["ok"], true);
    pool.hang_up().await;
}

#[tokio::test]
async fn a_child_that_says_nothing_but_garbage_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let pool = pool(shell(&format!("echo $$ > {}; exec yes garbage", file.display())));
    let to = pool.dial("a").await.unwrap();
    assert!(ping(&*to).await.is_err());
    pool.hang_up().await;
    dies(pids(&file, 1).await[0]).await;
}

#[tokio::test]
async fn the_last_words_of_a_child_that_exits_at_once_are_heard() {
    let pool = pool(shell(ANSWER));
    let to = pool.dial("a").await.unwrap();
    assert_eq!(ping(&*to).await.unwrap()["ok"], true);
    to.gone().await;
}

#[tokio::test]
async fn a_child_that_always_exits_at_once_is_not_started_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let pool = pool(shell(&format!("echo $$ >> {}", file.display())));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        if let Ok(to) = pool.dial("a").await {
            assert!(ping(&*to).await.is_err());
            to.gone().await;
        }
        tokio::task::yield_now().await;
    }
    // Pauses of at least 125, 250, 500 and 1,000 ms lie between the first five starts.
    let starts = pids(&file, 1).await.len();
    assert!((2..=6).contains(&starts), "{starts} starts");
}

#[tokio::test]
async fn a_command_that_is_not_there_is_unreachable_and_its_name_stays_here() {
    let pool = pool(child("/no/such/command", &[]));
    let Err(error) = pool.dial("a").await else { panic!("it started") };
    assert!(error.surely_not_begun() && !error.to_string().contains("/no"), "{error}");
}

#[tokio::test]
async fn a_child_that_ignores_every_request_to_end_is_killed_with_its_own_children() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = format!(
        "trap '' TERM INT HUP; echo $$ > {0}; (while :; do sleep 1; done) & echo $! >> {0}; while :; do sleep 1; done",
        file.display()
    );
    let pool = pool(shell(&script));
    pool.dial("a").await.unwrap();
    let pids = pids(&file, 2).await;
    assert!(pids.iter().all(|pid| runs(*pid)));
    pool.hang_up().await;
    for pid in pids {
        dies(pid).await;
    }
}

#[tokio::test]
async fn what_a_child_leaves_behind_when_it_ends_by_itself_is_ended_too() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = format!("sleep 1000 & echo $! > {}; {ANSWER}", file.display());
    let pool = pool(shell(&script));
    let to = pool.dial("a").await.unwrap();
    ping(&*to).await.unwrap();
    let grandchild = pids(&file, 1).await[0];
    dies(grandchild).await;
}

#[tokio::test]
async fn a_dropped_pool_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let pool = pool(shell(&format!("trap '' TERM; echo $$ > {}; while :; do sleep 1; done", file.display())));
    pool.dial("a").await.unwrap();
    let pid = pids(&file, 1).await[0];
    drop(pool);
    dies(pid).await;
}

#[tokio::test]
async fn the_end_of_the_runtime_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = format!("trap '' TERM; echo $$ > {}; while :; do sleep 1; done", file.display());
    let pid = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let pool = pool(shell(&script));
            pool.dial("a").await.unwrap();
            pids(&file, 1).await[0]
        })
    });
    dies(pid.join().unwrap()).await;
}

#[tokio::test]
async fn an_idle_child_ends_at_the_end_of_its_input() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let script = format!("echo $$ > {0}; cat > /dev/null; echo 0 >> {0}", file.display());
    let limits = PoolLimits { idle: Duration::from_millis(100), ..LIMITS };
    let pool = Pool::new(Arc::new(shell(&script)), limits);
    let to = pool.dial("a").await.unwrap();
    to.gone().await;
    // It came to its own end, and was not killed.
    dies(pids(&file, 2).await[0]).await;
    assert!(pool.is_empty());
}

#[tokio::test]
async fn a_line_without_end_ends_the_child_and_the_call() {
    let mut spec = shell("read line; cat /dev/zero | tr '\\0' x");
    spec.limits.bytes = 64 << 10;
    let pool = pool(spec);
    let to = pool.dial("a").await.unwrap();
    assert!(matches!(ping(&*to).await, Err(TransportError::TooLarge(_))));
    pool.hang_up().await;
}

#[tokio::test]
async fn a_flood_on_stderr_holds_nothing_up() {
    let flood = "head -c 20000000 /dev/zero | tr '\\0' x >&2; yes flood | head -n 200000 >&2";
    let pool = pool(shell(&format!("{flood}; {ANSWER}; cat")));
    let to = pool.dial("a").await.unwrap();
    assert_eq!(ping(&*to).await.unwrap()["ok"], true);
    pool.hang_up().await;
}

#[tokio::test]
async fn a_child_that_reads_nothing_makes_callers_wait_and_is_ended_all_the_same() {
    let pool = pool(shell("while :; do sleep 1; done"));
    let to = pool.dial("a").await.unwrap();
    let big = json!({ "x": "x".repeat(3 << 20) });
    let calls = (0..4).map(|n| {
        let mut request = request(&n.to_string(), "tools/call", big.clone());
        request.deadline = Instant::now() + Duration::from_millis(200);
        to.request(route(), request)
    });
    for outcome in futures_util::future::join_all(calls).await {
        assert!(matches!(outcome.map(|_| ()), Err(TransportError::Timeout | TransportError::Busy)));
    }
    pool.hang_up().await;
}

#[tokio::test]
async fn a_child_sees_its_own_environment_and_little_of_ours() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = shell(
        r#"read line; printf '{"jsonrpc":"2.0","id":"1","result":{"own":"%s","ours":"%s","path":"%s","at":"%s"}}\n' "$TOKEN" "$CARGO_MANIFEST_DIR" "$PATH" "$(pwd -P)"; cat"#,
    );
    spec.env = vec![("TOKEN".into(), secret("s3cret"))];
    spec.cwd = Some(dir.path().to_owned());
    let pool = pool(spec);
    let to = pool.dial("a").await.unwrap();
    let seen = ping(&*to).await.unwrap();
    assert_eq!(seen["own"], "s3cret");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert_eq!(seen["ours"], "");
    assert_eq!(seen["path"], std::env::var("PATH").unwrap());
    assert_eq!(seen["at"], dir.path().canonicalize().unwrap().to_str().unwrap());
    pool.hang_up().await;
}
