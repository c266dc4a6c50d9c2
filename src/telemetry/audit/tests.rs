use super::event::rfc3339;
use super::*;
use crate::telemetry::watch::{Detail, End, Lookout};
use std::time::UNIX_EPOCH;
use tokio::io::{AsyncBufReadExt, BufReader};

struct Somebody(Arc<str>);

impl Who for Somebody {
    fn tenant(&self) -> &Arc<str> {
        &self.0
    }
    fn issuer(&self) -> &str {
        "https://id.example"
    }
    fn subject(&self) -> &str {
        "ann"
    }
    fn oauth_client(&self) -> Option<&str> {
        Some("cursor")
    }
    fn client(&self) -> Option<String> {
        Some("a \"client\"\n".to_owned())
    }
    fn profile(&self) -> &str {
        ""
    }
    fn version(&self) -> &'static str {
        "2026-07-28"
    }
    fn is_modern(&self) -> bool {
        true
    }
    fn session(&self) -> Option<String> {
        None
    }
    fn key(&self) -> &Arc<str> {
        &self.0
    }
}

fn policy() -> Policy {
    Policy { tools: Box::new(|tool| tool == "up__echo"), bytes: 1024, redact: Vec::new() }
}

#[tokio::test]
async fn a_call_is_one_line_with_who_what_and_how_it_ended() {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let lookout = Lookout::new(Some(Audit::to_writer(policy(), 64, theirs)));
    let mut lines = BufReader::new(ours).lines();
    let who: Arc<dyn Who> = Arc::new(Somebody("audit-acme".into()));
    let detail = |tool: &str| Detail {
        target: Some(Target::Tool(tool.to_owned())),
        transport: "http",
        ..Detail::default()
    };
    let watch = lookout.watch(who.clone(), "tools/call", false, 20, || detail("up__echo"));
    let given = || Some(bytes::Bytes::from_static(br#"{"text":"hi","token":"t"}"#));
    watch.at(&Meters::of("up"), Some("echo"), given);
    watch.told(5);
    watch.end(End { outcome: "ok", code: None, bytes: 30 });
    drop(watch);
    let line: serde_json::Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    for (key, want) in [
        ("event", "call"),
        ("tenant", "audit-acme"),
        ("subject", "ann"),
        ("oauth_client", "cursor"),
        ("client", "a \"client\"\n"),
        ("profile", "default"),
        ("method", "tools/call"),
        ("tool", "up__echo"),
        ("upstream", "up"),
        ("outcome", "ok"),
    ] {
        assert_eq!(line[key], want, "{key}: {line}");
    }
    assert_eq!((&line["bytes_in"], &line["bytes_out"]), (&20.into(), &35.into()));
    assert_eq!(line["arguments"], serde_json::json!({"text": "hi", "token": "[redacted]"}));
    // One that is let go without an answer was cancelled, and what no policy names keeps its arguments.
    let watch = lookout.watch(who, "tools/call", false, 20, || detail("up__other"));
    watch.at(&Meters::of("up"), Some("other"), given);
    drop(watch);
    let line: serde_json::Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!((&line["outcome"], &line["arguments"]), (&"cancelled".into(), &serde_json::Value::Null));
    lookout.refused(Refused {
        status: 401,
        why: "no token",
        profile: "x",
        principal: None,
        agent: Some("curl"),
    });
    let line: serde_json::Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
    assert_eq!((&line["outcome"], &line["status"]), (&"unauthorized".into(), &401.into()));
}

#[test]
fn times_are_those_of_the_calendar() {
    for (seconds, want) in [
        (0, "1970-01-01T00:00:00.250Z"),
        (951_782_399, "2000-02-28T23:59:59.250Z"),
        (951_782_400, "2000-02-29T00:00:00.250Z"),
        (1_785_196_799, "2026-07-27T23:59:59.250Z"),
        (4_107_542_400, "2100-03-01T00:00:00.250Z"),
    ] {
        assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 250)), want);
    }
}
