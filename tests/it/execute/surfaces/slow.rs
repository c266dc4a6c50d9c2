//! Sources that are slow or give too much, and callers that go away: what is said, where the rest is, and that nothing more is
//! asked than is waited for.

use plasm_mcp::mcp::{Fault, Reason};

use super::*;

/// The pages of one list, each of which comes when it is let go; and a row as large as is wanted.
struct Slow {
    asked: Mutex<Vec<String>>,
    gate: Semaphore,
    body: usize,
}

impl Slow {
    fn of(pages: usize, body: usize) -> Arc<Slow> {
        Arc::new(Slow { asked: Mutex::default(), gate: Semaphore::new(pages), body })
    }

    fn asks(&self) -> usize {
        self.asked.lock().expect("nobody panics").len()
    }
}

struct Reached(Arc<Slow>);

impl Sources for Reached {
    fn ask(&self, ask: Ask) -> BoxFuture<'static, Result<Page, SourceError>> {
        let slow = self.0.clone();
        slow.asked.lock().expect("nobody panics").push(ask.operation.to_string());
        async move {
            if &*ask.operation != "issue_list" {
                let row = json!({"id": ask.key["id"], "slug": "p", "title": "P"});
                return Ok(Page { rows: vec![row], ..Page::default() });
            }
            slow.gate.acquire().await.expect("it is never closed").forget();
            let mut page = World::page(&ask);
            for row in &mut page.rows {
                row["assignee"] = json!({"login": "o".repeat(slow.body)});
            }
            Ok(page)
        }
        .boxed()
    }
}

async fn pod(redis: &Server, slow: &Arc<Slow>, run: Duration) -> Pod {
    Pod::over(redis, Arc::new(Reached(slow.clone())), catalogs(), |settings| settings.run = run).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_slow_source_has_not_given_in_time_is_gone_on_with_on_another_pod() {
    let redis = Server::start(&[]);
    let slow = Slow::of(1, 1);
    let one = pod(&redis, &slow, Duration::from_millis(700)).await;
    let two = pod(&redis, &slow, Duration::from_secs(60)).await;
    let ann = ann();
    let session = one.session(&ann).await;
    let run_ref = one.plan(&ann, &session, "Project(\"p1\").issues").await;
    let ran = one.run(&ann, &session, &run_ref).await;
    let root = &ran["structuredContent"]["roots"][0];
    assert_eq!(
        (code(&ran), &root["rows"], &root["coverage"]),
        ("none", &json!(100), &json!("partial")),
        "{ran}"
    );
    slow.gate.add_permits(10);
    let more = two.run(&ann, &session, &text(&root["next_run_ref"])).await;
    let rest = &more["structuredContent"]["roots"][0];
    assert_eq!(
        (code(&more), &rest["rows"], &rest["coverage"]),
        ("none", &json!(150), &json!("complete")),
        "{more}"
    );
    assert_eq!(rest["values"][0][0], "i100", "where the first left off");

    // What wants all rows gives none of them, and is begun anew.
    let slow = Slow::of(1, 1);
    let one = pod(&redis, &slow, Duration::from_millis(700)).await;
    let two = pod(&redis, &slow, Duration::from_secs(60)).await;
    let program = "a = Project(\"p1\")\nb = a.issues | aggregate(n = count())\na, b";
    let ran = one.ask(&ann, "plasm_run", json!({"logical_session_ref": session, "program": program})).await;
    let facts = &ran["structuredContent"];
    assert_eq!(facts["roots"].as_array().map(Vec::len), Some(1), "the root that is finished: {ran}");
    let said = text(&ran["content"][0]["text"]);
    assert!(said.contains("Not finished in time"), "{said}");
    slow.gate.add_permits(10);
    let more = two.run(&ann, &session, &text(&facts["continue_run_ref"])).await;
    assert_eq!(more["structuredContent"]["roots"][0]["values"], json!([[250]]), "{more}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_is_cancelled_asks_for_nothing_more() {
    let redis = Server::start(&[]);
    let slow = Slow::of(1, 1);
    let pod = pod(&redis, &slow, Duration::from_secs(60)).await;
    let ann = ann();
    let session = pod.session(&ann).await;
    let token = tokio_util::sync::CancellationToken::new();
    let arguments = json!({"logical_session_ref": session, "program": "Project(\"p1\").issues"});
    let call = Call { cancel: token.clone().into(), ..call(&ann, "plasm_run", &arguments) };
    let surface = pod.surface.clone();
    let asked =
        pod.runtime.as_ref().expect("it runs").spawn(async move { surface.call(call).await.outcome().await });
    comes_true("the second page is asked for", || async { slow.asks() == 2 }).await;
    token.cancel();
    let outcome = asked.await.expect("it ends");
    assert!(matches!(&outcome, Outcome::Error(Fault::Ours(Reason::Cancelled))), "{outcome:?}");
    slow.gate.add_permits(10);
    // Whoever asks now is served, and is the only one who is.
    let again = pod.ask(&ann, "plasm_run", arguments).await;
    assert_eq!(again["structuredContent"]["roots"][0]["rows"], 250);
    assert_eq!(slow.asks(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_rows_are_told_in_short_and_what_cannot_be_kept_is_said() {
    let redis = Server::start(&[]);
    for (body, kept) in [(500, true), (40_000, false), (400_000, false)] {
        let slow = Slow::of(10, body);
        let pod = pod(&redis, &slow, Duration::from_secs(60)).await;
        let ann = ann();
        let session = pod.session(&ann).await;
        let program = "Project(\"p1\").issues | limit(250)";
        let ran =
            pod.ask(&ann, "plasm_run", json!({"logical_session_ref": session, "program": program})).await;
        let size = ran.to_string().len();
        assert!(size < 64 << 10, "{body}: {size} bytes are told");
        let root = &ran["structuredContent"]["roots"][0];
        match body {
            400_000 => assert_eq!(code(&ran), "too_large", "64 MiB of rows a run: {ran}"),
            _ => assert_eq!((code(&ran), &root["rows"]), ("none", &json!(250)), "{ran}"),
        }
        if code(&ran) == "none" {
            let uri = root["artifact_uri"].as_str();
            assert_eq!(uri.is_some(), kept, "{ran}");
            let said = text(&ran["content"][0]["text"]);
            assert!(said.contains(if kept { "plasm://session/" } else { "not stored" }), "{said}");
        }
    }
}
