//! Links whose upstream is reached over a channel: a child process, or HTTP+SSE where Streamable HTTP is refused.

use super::*;
use crate::harness::fixture_program;
use plasm_mcp::mcp::{Age, Kind};
use plasm_mcp::upstream::channel::MessageLimits;
use plasm_mcp::upstream::child::{ChildSpec, Grace};
use plasm_mcp::upstream::pool::{Pool, PoolLimits};
use plasm_mcp::upstream::sse_client::SseSpec;
use plasm_mcp::upstream::transport::Dial;
use plasm_mcp::wire::Era;

const POOL: PoolLimits = PoolLimits { most: 8, idle: Duration::from_secs(600), shared: false };

/// A link to children, and the pool behind it.
fn to_children(era: &str) -> (Link, Arc<Pool>) {
    children(&format!("exec '{}' --stdio --era {era}", fixture_program().display()))
}

fn children(script: &str) -> (Link, Arc<Pool>) {
    let spec = ChildSpec {
        name: upstream_id(),
        command: "sh".to_owned(),
        args: ["-c", script].map(str::to_owned).into(),
        env: Vec::new(),
        cwd: None,
        limits: MessageLimits { bytes: LIMIT, depth: 128 },
        grace: Grace { input_end: Duration::from_secs(2), term: Duration::from_millis(300) },
    };
    let pool = Arc::new(Pool::new(Arc::new(spec), POOL));
    let reach = Reach { http: None, channels: Some(pool.clone()), channels_era: None, credentials: None };
    (Link::new(config(), reach), pool)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_of_either_era_serves_callers_of_either_era() {
    for era in ["modern", "legacy"] {
        let (link, pool) = to_children(era);
        for caller in [modern("m"), legacy("l")] {
            let about = link.about(caller.clone()).await.unwrap();
            assert!(about.capabilities.read::<Value>().unwrap()["tools"].is_object());
            let listing = link.list(caller.clone(), Kind::Tool, Age::Fresh).await.unwrap();
            assert!(listing.find("echo").is_some());
            let result = result(&link, tool(&caller, "echo", json!({ "a": era }))).await;
            assert_eq!(result["structuredContent"], json!({ "a": era }));
        }
        assert_eq!(pool.len(), 2, "each principal has its own");
        pool.hang_up().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_initialized_once_and_again_when_it_was_started_again() {
    let pids = tempfile::NamedTempFile::new().unwrap();
    let program = fixture_program();
    let script =
        format!("echo $$ >> '{}'; exec '{}' --stdio --era legacy", pids.path().display(), program.display());
    let (link, pool) = children(&script);
    let pids = || -> Vec<i32> {
        std::fs::read_to_string(pids.path()).unwrap().lines().map(|pid| pid.parse().unwrap()).collect()
    };
    let caller = legacy("l");
    let calls = (0..6).map(|_| result(&link, tool(&caller, "echo", json!({}))));
    futures_util::future::join_all(calls).await;
    assert_eq!(pids().len(), 1);
    let logged = async || {
        let events = events(link.call(tool(&caller, "log", json!({ "n": 2 }))).await);
        events.filter(|event| std::future::ready(matches!(event, Event::Note(_)))).count().await
    };
    assert_eq!(logged().await, 2);
    result(&link, call(&caller, Method::SetLevel, json!({ "level": "error" }))).await;
    assert_eq!(logged().await, 0);
    // SAFETY: a signal to a child that this test started and that still runs.
    unsafe { libc::kill(pids()[0], libc::SIGKILL) };
    comes_true("a new child serves", async || {
        matches!(outcome(&link, tool(&caller, "echo", json!({}))).await, Outcome::Result(_))
    })
    .await;
    assert_eq!(pids().len(), 2);
    assert_eq!(logged().await, 0, "what was set holds on the new child");
    pool.hang_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_legacy_child_asks_and_tells_of_changes() {
    let (link, pool) = to_children("legacy");
    let caller = legacy("l");
    let mut standing = events(link.call(listen(&caller)).await);
    assert_eq!(note(&mut standing).await.method, Method::Acknowledged);
    let mut asked = events(link.call(tool(&caller, "ask_roots", json!({}))).await);
    let Some(Event::Ask(ask)) = asked.next().await else { panic!("no ask") };
    assert_eq!(ask.method, Method::RootsList);
    ask.answer.send(Ok(Raw::trusted(r#"{"roots":[{"uri":"file:///there"}]}"#))).unwrap();
    let Some(Event::Done(Outcome::Result(result))) = asked.next().await else { panic!("no result") };
    assert!(text(&result.read().unwrap()).contains("file:///there"));
    super::result(&link, tool(&caller, "add_tool", json!({ "name": "another" }))).await;
    assert_eq!(note(&mut standing).await.method, Method::ToolsChanged);
    pool.hang_up().await;
}

/// A legacy server that asks for roots whenever it is called, whatever its client declared.
const CURIOUS: &str = r#"
answer() { echo '{"jsonrpc":"2.0","id":'"$id"',"result":'"$1"'}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\).*/\1/p')
  case $line in
    *'"server/discover"'*) echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"what?"}}' ;;
    *'"initialize"'*) answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"c","version":"1"}}' ;;
    *'"tools/call"'*) call=$id; echo '{"jsonrpc":"2.0","id":"roots","method":"roots/list"}' ;;
    *'"roots"'*) id=$call; answer '{"content":[],"structuredContent":'"$line"'}' ;;
  esac
done"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_caller_loses_no_call_to_what_a_child_asks_on_its_own_account() {
    let (link, pool) = children(CURIOUS);
    let mut asked = events(link.call(tool(&legacy("l"), "t", json!({}))).await);
    let Some(Event::Ask(ask)) = asked.next().await else { panic!("a legacy caller is asked") };
    drop(ask);
    let mut asked = events(link.call(tool(&modern("m"), "t", json!({}))).await);
    let Some(Event::Done(Outcome::Result(result))) = asked.next().await else { panic!("the call is lost") };
    let told: Value = result.read().unwrap();
    assert_eq!(told["structuredContent"]["error"]["message"], "the client cannot answer this");
    pool.hang_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_modern_child_is_listened_to() {
    let (link, pool) = to_children("modern");
    let caller = modern("m");
    let mut standing = events(link.call(listen(&caller)).await);
    assert_eq!(note(&mut standing).await.method, Method::Acknowledged);
    result(&link, tool(&caller, "add_tool", json!({ "name": "another" }))).await;
    assert_eq!(note(&mut standing).await.method, Method::ToolsChanged);
    pool.hang_up().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_refuses_streamable_http_is_spoken_to_over_http_and_sse() {
    let fixture = Fixture::listening("--sse", &[]);
    let client = HttpClient::new(Connector::straight(Duration::from_secs(5)));
    let url: http::Uri = fixture.url.parse().unwrap();
    let spec = SseSpec {
        bearer: None,
        name: upstream_id(),
        url: url.clone(),
        headers: Vec::new(),
        client: client.clone(),
        limits: MessageLimits { bytes: LIMIT, depth: 128 },
        start_timeout: Duration::from_secs(5),
    };
    let http = HttpConfig { url, headers: Vec::new(), cookies: false, limit: LIMIT };
    let reach = Reach {
        http: Some(Arc::new(Http::new(client, http))),
        channels: Some(Arc::new(Pool::new(Arc::new(spec), POOL))),
        channels_era: Some(Era::Legacy),
        credentials: None,
    };
    let link = Link::new(config(), reach);
    for caller in [modern("m"), legacy("l")] {
        let result = result(&link, tool(&caller, "echo", json!({ "a": 1 }))).await;
        assert_eq!(result["structuredContent"], json!({ "a": 1 }));
    }
}

fn listen(caller: &Arc<Caller>) -> Call {
    call(caller, Method::Listen, json!({ "notifications": { "toolsListChanged": true } }))
}
