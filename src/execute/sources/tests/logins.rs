//! Logins: by a secret's name, by the gateway's own token, by the caller's account.

use super::*;

#[tokio::test]
async fn each_scheme_bears_its_secret_where_it_belongs() {
    for (auth, header, want) in [
        ("{scheme: bearer, secret: key}", "authorization", "Bearer s3cret"),
        ("{scheme: header, name: X-Key, secret: key}", "x-key", "s3cret"),
        ("{scheme: basic, user: me, secret: key}", "authorization", "Basic bWU6czNjcmV0"),
    ] {
        let server = Server::start(|_, _| json!({"id": "1"}).into()).await;
        let catalog = catalog(&server.base(), &format!(", auth: {auth}"), GET);
        sources().ask(ask(&catalog, "get", json!({"id": "1"}), json!({}))).await.unwrap();
        assert_eq!(server.seen()[0].header(header), Some(want));
    }
}

#[tokio::test]
async fn a_secret_in_a_parameter_does_not_rest_in_a_page() {
    let server = Server::start(|n, seen| {
        json!({"items": [{"id": n}], "next": (n == 0).then(|| format!("{}&p=2", seen.target()))}).into()
    })
    .await;
    let source = ", auth: {scheme: query, name: api_key, secret: key}";
    let catalog =
        catalog(&server.base(), source, &format!("{LIST}, pages: {{style: next_url, take: $.next}}}}\n"));
    let first = ask(&catalog, "list", json!({}), json!({}));
    let page = sources().ask(first.clone()).await.unwrap().next.unwrap();
    assert!(!page.0.contains("s3cret"), "{page:?}");
    sources().ask(Ask { page: Some(page), ..first }).await.unwrap();
    assert_eq!(server.targets(), ["/things?api_key=s3cret", "/things?p=2&api_key=s3cret"]);
}

#[tokio::test]
async fn a_secret_that_is_missing_or_said_back_is_not_shown() {
    let server =
        Server::start(|_, _| answer("400 Bad Request", "", r#"{"message": "bad token s3cret"}"#)).await;
    let known = catalog(&server.base(), ", auth: {scheme: bearer, secret: key}", GET);
    let error = sources().ask(ask(&known, "get", json!({"id": "1"}), json!({}))).await.unwrap_err();
    assert_eq!(error.message, "the source answered 400 Bad Request");
    let unknown = catalog(&server.base(), ", auth: {scheme: bearer, secret: other}", GET);
    let error = sources().ask(ask(&unknown, "get", json!({"id": "1"}), json!({}))).await.unwrap_err();
    assert_eq!((error.kind, server.seen().len()), (SourceErrorKind::Auth, 1));
}

#[tokio::test]
async fn the_gateways_own_token_is_asked_for_once_and_again_when_it_is_refused() {
    let tokens =
        Server::start(|n, _| json!({"access_token": format!("t{n}"), "expires_in": 3600}).into()).await;
    let server = Server::start(|_, seen| match seen.header("authorization") {
        Some("Bearer t0") if seen.target() == "/things/late" => answer("401 Unauthorized", "", ""),
        _ => json!({"id": "1"}).into(),
    })
    .await;
    let auth = format!(
        ", auth: {{scheme: client_credentials, token_url: '{}/token', client_id: 'a b', secret: key, scopes: [x, y]}}",
        tokens.base()
    );
    let catalog = catalog(&server.base(), &auth, GET);
    let sources = sources();
    let get = |id: &'static str| sources.ask(ask(&catalog, "get", json!({"id": id}), json!({})));
    let all = futures_util::future::join_all((0..20).map(|_| get("1"))).await;
    assert!(all.iter().all(Result::is_ok) && tokens.seen().len() == 1);
    assert_eq!(tokens.seen()[0].body, "grant_type=client_credentials&scope=x+y");
    assert_eq!(tokens.seen()[0].header("authorization"), Some("Basic YStiOnMzY3JldA=="));
    let late = futures_util::future::join_all((0..5).map(|_| get("late"))).await;
    assert!(late.iter().all(Result::is_ok), "{late:?}");
    assert_eq!(tokens.seen().len(), 2, "five refusals of one token are one renewal");
}

#[tokio::test]
async fn a_callers_account_is_asked_for_anew_once_after_a_refusal() {
    let server = Server::start(|_, seen| match seen.header("authorization") {
        Some("Bearer renewed") => json!({"id": "1"}).into(),
        _ => answer("401 Unauthorized", "www-authenticate: Bearer\r\n", ""),
    })
    .await;
    let catalog =
        catalog(&server.base(), ", auth: {scheme: oauth2, connection: notes}", &format!("{GET}{MAKE}"));
    for (operation, key) in [("get", json!({"id": "1"})), ("make", json!({}))] {
        sources().ask(ask(&catalog, operation, key, json!({}))).await.unwrap();
    }
    assert_eq!(
        server.seen().len(),
        4,
        "a request refused for its login has not begun: a write goes again too"
    );
}
