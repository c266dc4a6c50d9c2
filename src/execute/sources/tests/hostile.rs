//! Servers that fail, lie, redirect, or never end.

use super::*;

async fn failing(
    source: &str,
    operations: &str,
    operation: &str,
    says: impl Fn(usize, &Seen) -> Says + Send + Sync + 'static,
) -> (SourceError, usize) {
    let server = Server::start(says).await;
    let catalog = catalog(&server.base(), source, operations);
    let asked = sources().ask(ask(&catalog, operation, json!({"id": "1"}), json!({"name": "a"})));
    // No bound of the test's own: it fails by hanging no longer than this.
    let got = tokio::time::timeout(PATIENCE, asked).await.expect("it ends by itself");
    (got.unwrap_err(), server.seen().len())
}

fn list() -> String {
    format!("{LIST}}}\n")
}

#[tokio::test]
async fn a_status_says_what_kind_of_failure_it_is_and_what_became_of_a_write() {
    use SourceErrorKind::{Auth, NotFound, Rate, Status};
    let wait = Some(Duration::from_secs(60));
    for (status, headers, operation, kind, uncertain) in [
        ("404 Not Found", "", "get", NotFound, false),
        ("404 Not Found", "", "list", Status, false),
        ("401 Unauthorized", "", "get", Auth, false),
        ("403 Forbidden", "", "make", Auth, false),
        ("403 Forbidden", "x-ratelimit-remaining: 0\r\n", "get", Rate(None), false),
        ("429 Too Many Requests", "retry-after: 60\r\n", "get", Rate(wait), false),
        ("429 Too Many Requests", "retry-after: 60\r\n", "make", Rate(wait), false),
        ("422 Unprocessable Content", "", "make", Status, false),
        ("500 Internal Server Error", "", "get", Status, false),
        ("500 Internal Server Error", "", "make", Status, true),
        ("503 Service Unavailable", "retry-after: 60\r\n", "make", Rate(wait), true),
        ("303 See Other", "location: /things/1\r\n", "make", Status, true),
    ] {
        let operations = format!("{}{GET}{MAKE}", list());
        let (error, asked) = failing("", &operations, operation, move |_, _| {
            answer(status, headers, r#"{"message":"why\nso"}"#)
        })
        .await;
        assert_eq!((error.kind, error.uncertain, asked), (kind, uncertain, 1), "{status} {operation}");
        assert!(matches!(status, _ if error.message.contains("why so")), "{}", error.message);
    }
}

#[tokio::test]
async fn reads_are_made_again_a_few_times_and_writes_never() {
    for (operation, times) in [("get", 3), ("make", 1)] {
        let operations = format!("{GET}{MAKE}");
        let says = |_: usize, _: &Seen| answer("429 Too Many Requests", "retry-after: 0\r\n", "{}");
        let (error, asked) = failing("", &operations, operation, says).await;
        assert_eq!((error.kind, asked), (SourceErrorKind::Rate(Some(Duration::ZERO)), times));
        let (error, asked) = failing("", &operations, operation, |_, _| Says::Whole(String::new())).await;
        assert_eq!(
            (error.kind, error.uncertain, asked),
            (SourceErrorKind::Timeout, operation == "make", times)
        );
    }
    let server = Server::start(|n, _| match n {
        0 => Says::Whole(String::new()),
        1 => answer("503 Service Unavailable", "retry-after: 0\r\n", ""),
        _ => json!({"id": "1"}).into(),
    })
    .await;
    let catalog = catalog(&server.base(), "", GET);
    let page = sources().ask(ask(&catalog, "get", json!({"id": "1"}), json!({}))).await.unwrap();
    assert_eq!(page.rows, [json!({"id": "1"})]);
}

#[tokio::test]
async fn nobody_there_is_no_write() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let catalog = catalog(&format!("http://{gone}"), "", MAKE);
    let error = sources().ask(ask(&catalog, "make", json!({}), json!({}))).await.unwrap_err();
    assert_eq!((error.kind, error.uncertain), (SourceErrorKind::Timeout, false));
}

#[tokio::test]
async fn what_is_huge_slow_or_endless_ends_within_its_bounds() {
    let limits = ", limits: {max_response_bytes: 1000, timeout_ms: 300}";
    let (error, _) = failing(limits, MAKE, "make", |_, _| {
        Says::Endless("HTTP/1.1 200 OK\r\n\r\n".to_owned() + &"x".repeat(4096))
    })
    .await;
    assert_eq!((error.kind, error.uncertain), (SourceErrorKind::TooLarge, true));
    let (error, asked) = failing(limits, GET, "get", |_, _| answer("200 OK", "", &" ".repeat(1001))).await;
    assert_eq!((error.kind, asked), (SourceErrorKind::TooLarge, 1));
    for said in ["", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{"] {
        let (error, _) = failing(limits, MAKE, "make", move |_, _| Says::Holds(said.to_owned())).await;
        assert_eq!((error.kind, error.uncertain), (SourceErrorKind::Timeout, true), "{said:?}");
    }
}

#[tokio::test]
async fn rows_that_do_not_lie_where_the_catalog_says_are_no_rows() {
    for body in [r#"{"items": 7}"#, r#"{"other": []}"#, r#"[]"#, "<html>", "", r#"{"items": "x"}"#] {
        let (error, _) = failing("", &list(), "list", move |_, _| answer("200 OK", "", body)).await;
        assert_eq!(error.kind, SourceErrorKind::Shape, "{body}");
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let (error, _) = failing("", &list(), "list", move |_, _| answer("200 OK", "", &deep)).await;
    assert_eq!(error.kind, SourceErrorKind::Shape);
    let (error, _) = failing("", MAKE, "make", |_, _| answer("200 OK", "", "<html>")).await;
    assert_eq!(
        (error.kind, error.uncertain),
        (SourceErrorKind::Shape, true),
        "it was carried out all the same"
    );
    let server = Server::start(|_, _| json!({"items": null}).into()).await;
    let catalog = catalog(&server.base(), "", &list());
    assert!(sources().ask(ask(&catalog, "list", json!({}), json!({}))).await.unwrap().rows.is_empty());
}

#[tokio::test]
async fn a_read_follows_redirects_to_its_own_hosts_and_a_few_of_them() {
    let server = Server::start(|n, seen| match n {
        0 => answer("302 Found", "location: /elsewhere\r\n", ""),
        _ => json!({"id": seen.target(), "login": seen.header("authorization")}).into(),
    })
    .await;
    let catalog = catalog(&server.base(), ", auth: {scheme: bearer, secret: key}", GET);
    let page = sources().ask(ask(&catalog, "get", json!({"id": "1"}), json!({}))).await.unwrap();
    assert_eq!(page.rows, [json!({"id": "/elsewhere", "login": "Bearer s3cret"})]);
    let (error, asked) =
        failing("", GET, "get", |_, _| answer("302 Found", "location: /again\r\n", "")).await;
    assert_eq!((error.kind, asked), (SourceErrorKind::Status, 6));
}

#[tokio::test]
async fn a_redirect_does_not_lead_inside_nor_carry_a_login_elsewhere() {
    let inside = Server::start(|_, _| json!({"id": "inside"}).into()).await;
    let elsewhere = format!("location: {}/x\r\n", inside.base());
    let to = elsewhere.clone();
    let (error, _) = failing("", GET, "get", move |_, _| answer("302 Found", &to, "")).await;
    assert!(error.message.contains("does not allow"), "{error}");
    assert!(inside.seen().is_empty());
    // A host that the catalog names is reached, without the login.
    let hosts = format!(", hosts: ['{}'], auth: {{scheme: bearer, secret: key}}", inside.address);
    let server = Server::start(move |_, _| answer("307 Temporary Redirect", &elsewhere, "")).await;
    let catalog = catalog(&server.base(), &hosts, GET);
    let page = sources().ask(ask(&catalog, "get", json!({"id": "1"}), json!({}))).await.unwrap();
    assert_eq!(page.rows, [json!({"id": "inside"})]);
    assert_eq!(
        (inside.seen()[0].header("authorization"), server.seen()[0].header("authorization")),
        (None, Some("Bearer s3cret"))
    );
}

#[tokio::test]
async fn a_private_address_is_not_reached_unless_the_configuration_allows_it() {
    let server = Server::start(|_, _| json!({"id": "1"}).into()).await;
    let catalog = catalog(&server.base(), "", GET);
    for sources in [sources_with(&[], Vec::new()), sources_with(&["10.0.0.0/8"], Vec::new())] {
        let error = sources.ask(ask(&catalog, "get", json!({"id": "1"}), json!({}))).await.unwrap_err();
        assert_eq!(error.kind, SourceErrorKind::Status, "{error}");
        assert!(!error.message.contains("127.0.0.1"));
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn graphql_errors_are_failures_though_the_status_is_good() {
    use SourceErrorKind::{Auth, Rate, Status};
    for (body, kind, uncertain) in [
        (json!({"errors": [{"message": "no"}], "data": null}), Status, false),
        (json!({"errors": [{"message": "half"}], "data": {"thing": {"id": "1"}}}), Status, true),
        (json!({"errors": [{"message": "slow", "extensions": {"code": "THROTTLED"}}]}), Rate(None), false),
        (json!({"errors": [{"message": "who", "type": "FORBIDDEN"}]}), Auth, false),
    ] {
        let server = Server::start(move |_, _| body.clone().into()).await;
        let text = format!(
            "catalog: graph\nrevision: 1\ntitle: G\nsource: {{kind: graphql, url: '{}/graphql'}}\nentities:\n  Thing: {{key: \
             [id], fields: {{id: string}}}}\noperations:\n  make: {{kind: create, entity: Thing, effect: {{class: write}}, \
             graphql: {{document: 'mutation', row: $.data.thing}}}}\n",
            server.base()
        );
        let catalog = catalog::read(&text, Path::new("graph.yaml")).unwrap().catalog;
        let error = sources().ask(ask(&catalog, "make", json!({}), json!({}))).await.unwrap_err();
        assert_eq!((error.kind, error.uncertain), (kind, uncertain), "{}", error.message);
    }
}

#[tokio::test]
async fn a_source_is_asked_no_more_at_once_than_its_catalog_says() {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let turns = Arc::new(super::turn::Turns::new(&crate::execute::catalog::Limits {
        concurrency: Some(2),
        ..Default::default()
    }));
    let asks = (0..20).map(|_| {
        let (turns, now, most) = (turns.clone(), now.clone(), most.clone());
        tokio::spawn(async move {
            let _turn = turns.turn().await.unwrap();
            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, SeqCst);
        })
    });
    futures_util::future::join_all(asks).await;
    assert_eq!(most.load(SeqCst), 2);
}

#[tokio::test]
async fn a_source_is_asked_no_oftener_than_its_catalog_says_and_a_long_queue_is_refused() {
    let limits = crate::execute::catalog::Limits { rps: Some(50.0), ..Default::default() };
    let turns = super::turn::Turns::new(&limits);
    let began = std::time::Instant::now();
    for _ in 0..6 {
        drop(turns.turn().await.unwrap());
    }
    assert!(began.elapsed() >= Duration::from_millis(100), "five waits of 20 ms each");
    let slow = crate::execute::catalog::Limits { concurrency: Some(1), ..Default::default() };
    let turns = super::turn::Turns::new(&slow);
    let _held = turns.turn().await.unwrap();
    let mut queue: Vec<_> = (0..1_000).map(|_| turns.turn().boxed()).collect();
    assert!(queue.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
    assert_eq!(turns.turn().await.unwrap_err().kind, SourceErrorKind::Rate(None));
    // Who gives up makes room.
    queue.pop();
    assert!(turns.turn().now_or_never().is_none());
}
