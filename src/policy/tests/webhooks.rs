//! The webhook, as a server on loopback.

use super::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server that remembers what it was asked, and answers this; `None`: never.
struct Decider {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
    most: Arc<AtomicUsize>,
}

async fn decider(answer: Option<&'static str>) -> Decider {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/decide", listener.local_addr().unwrap());
    let (asked, most) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
    let (heard, at_once) = (asked.clone(), most.clone());
    tokio::spawn(async move {
        let open = Arc::new(AtomicUsize::new(0));
        while let Ok((mut socket, _)) = listener.accept().await {
            let (heard, at_once, open) = (heard.clone(), at_once.clone(), open.clone());
            tokio::spawn(async move {
                let mut text = Vec::new();
                loop {
                    let mut part = [0; 4096];
                    match socket.read(&mut part).await {
                        Ok(n) if n > 0 => text.extend_from_slice(&part[..n]),
                        _ => return,
                    }
                    // The bodies are small: each comes with its head, or right after it, and ends with its brace.
                    if !text.ends_with(b"}") {
                        continue;
                    }
                    at_once.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    heard.lock().unwrap().push(String::from_utf8_lossy(&text).into_owned());
                    text.clear();
                    tokio::task::yield_now().await;
                    let Some(answer) = answer else { return std::future::pending().await };
                    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
                    open.fetch_sub(1, Ordering::SeqCst);
                    if socket.write_all(head.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    Decider { url, asked, most }
}

fn asking(url: &str, more: Value) -> Guarded {
    let mut webhook = json!({ "url": url });
    webhook.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    let rules = json!([{"name": "r", "tools": ["write"], "then": "ask"}]);
    Guarded::new(json!({"policy": {"rules": rules, "webhook": webhook}}))
}

const WRITE: &str = r#"{"name":"write","arguments":{"path":"p"}}"#;

#[tokio::test]
async fn it_decides_and_its_answer_holds_for_a_while_for_the_same_question() {
    let deciding = decider(Some(r#"{"decision":"deny","reason":"not today","instead":"Ask ops"}"#)).await;
    let guarded = asking(&deciding.url, json!({}));
    let ann = access("acme", "a b", json!({}));
    for _ in 0..3 {
        match guarded.reason(&ann, Method::ToolsCall, WRITE).await {
            Some(Reason::Refused(ruling)) => assert_eq!(ruling.to_string(), "not today. Ask ops"),
            other => panic!("{other:?}"),
        }
    }
    let asked = deciding.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked[0].contains(r#""tenant":"acme""#) && asked[0].contains(r#""tool":"write""#),
        "{}",
        asked[0]
    );
    assert!(!asked[0].contains("\"path\""), "arguments are sent only where that is said");
    assert!(guarded.reason(&access("b", "", json!({})), Method::ToolsCall, WRITE).await.is_some());
    assert!(guarded.reason(&ann, Method::ToolsCall, r#"{"name":"read"}"#).await.is_none());
    assert_eq!(deciding.asked.lock().unwrap().len(), 2, "another principal is another question");
}

#[tokio::test]
async fn with_arguments_each_call_is_a_question_of_its_own() {
    let deciding = decider(Some(r#"{"decision":"allow"}"#)).await;
    let guarded = asking(&deciding.url, json!({"arguments": true}));
    let ann = access("acme", "", json!({}));
    for path in ["p", "q", "p"] {
        let params = format!(r#"{{"name":"write","arguments":{{"path":"{path}"}}}}"#);
        assert!(guarded.reason(&ann, Method::ToolsCall, &params).await.is_none());
    }
    let asked = deciding.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    assert!(asked[1].contains(r#""arguments":{"path":"q"}"#), "{}", asked[1]);
}

#[tokio::test]
async fn what_it_is_shown_is_what_is_called_and_what_it_could_not_read_is_refused() {
    let deciding = decider(Some(r#"{"decision":"allow"}"#)).await;
    let guarded = asking(&deciding.url, json!({"arguments": true, "on_failure": "allow"}));
    let ann = access("acme", "", json!({}));
    for arguments in [
        r#"{"path":"/etc/passwd","x":1e999}"#,
        r#"{"path":"/etc/passwd","x":"\ud800"}"#,
        r#"{"at":{"path":"/w","path":"/etc/passwd"}}"#,
    ] {
        let params = format!(r#"{{"name":"write","arguments":{arguments}}}"#);
        let word = guarded.reason(&ann, Method::ToolsCall, &params).await.map(|reason| reason.word());
        assert_eq!(word, Some("invalid_params"), "{arguments}");
    }
    assert!(deciding.asked.lock().unwrap().is_empty());
    let large = r#"{"name":"write","arguments":{"n":184467440737095516161,"f":1.0}}"#;
    assert!(guarded.reason(&ann, Method::ToolsCall, large).await.is_none());
    let asked = deciding.asked.lock().unwrap().clone();
    assert!(asked[0].contains(r#""arguments":{"n":184467440737095516161,"f":1.0}"#), "{}", asked[0]);
}

#[tokio::test]
async fn where_it_does_not_answer_the_operators_choice_holds() {
    let silent = decider(None).await;
    let ann = access("", "", json!({}));
    let word = |reason: Option<Reason>| reason.map(|reason| reason.word());
    let deny = asking(&silent.url, json!({"timeout": "50ms"}));
    assert_eq!(word(deny.reason(&ann, Method::ToolsCall, WRITE).await), Some("policy_denied"));
    let allow = asking(&silent.url, json!({"timeout": "50ms", "on_failure": "allow"}));
    assert_eq!(word(allow.reason(&ann, Method::ToolsCall, WRITE).await), None);
    let nonsense = decider(Some(r#"{"decision":"maybe"}"#)).await;
    let deny = asking(&nonsense.url, json!({}));
    assert_eq!(word(deny.reason(&ann, Method::ToolsCall, WRITE).await), Some("policy_denied"));
}

#[tokio::test]
async fn it_is_asked_by_so_many_calls_at_once_and_no_more() {
    let deciding = decider(Some(r#"{"decision":"allow"}"#)).await;
    let guarded = asking(&deciding.url, json!({"max_in_flight": 2, "cache": "0s", "timeout": "10s"}));
    let ann = access("", "", json!({}));
    let calls = (0..12).map(|_| guarded.reason(&ann, Method::ToolsCall, WRITE));
    assert!(futures_util::future::join_all(calls).await.iter().all(Option::is_none));
    assert_eq!(deciding.asked.lock().unwrap().len(), 12);
    let most = deciding.most.load(Ordering::SeqCst);
    assert!((1..=2).contains(&most), "{most}");
}
