//! Those who have a token, and those who are told where to get one.

use super::issuer::Issuer;
use super::{RESOURCE, WAYS, bearer, challenge, config, list, list_as, parameter, session};
use crate::gateway::Gateway;
use crate::gateway::legacy::Legacy;
use serde_json::{Value, json};

#[tokio::test]
async fn a_token_of_each_algorithm_opens_its_profile_in_both_eras() {
    for algorithm in ["EdDSA", "ES256", "ES384", "RS256", "PS256"] {
        let issuer = Issuer::start(algorithm).await;
        let gateway = Gateway::demo(config(&issuer, json!({})));
        let token = issuer.token(RESOURCE, "alice");
        let mut answer = list_as(&gateway, "/mcp", &token).await;
        assert_eq!(answer.status, 200, "{algorithm}");
        assert!(answer.answer().await["result"]["tools"].is_array());
        let client = session(&gateway, &token).await;
        assert_eq!(client.call("echo", json!({"text": "ü"})).await["content"][0]["text"], "ü");
        assert_eq!(client.stream(None).await.status, 200);
        assert_eq!(client.end().await, 204);
    }
}

#[tokio::test]
async fn without_a_token_every_verb_is_told_where_to_log_in_and_nothing_is_dispatched() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    for (verb, path, headers) in WAYS {
        // A body that would be refused where it were read.
        let answer = gateway.request(verb, path, headers, if verb == "POST" { "{" } else { "" }).await;
        assert_eq!(answer.status, 401, "{verb} {path}");
        let endpoint = if path.starts_with("/mcp/dev") { "/mcp/dev" } else { "/mcp" };
        let slash = if path == "/mcp/" { "/" } else { "" };
        let said = parameter(&answer, "resource_metadata").expect("where the metadata is");
        let expected =
            format!("https://mcp.example.com/.well-known/oauth-protected-resource{endpoint}{slash}");
        assert_eq!(said, expected, "{verb} {path}");
        assert_eq!(parameter(&answer, "error"), None, "no token was shown: {verb} {path}");
        let wrong = [headers, &[("authorization", "Bearer wrong")]].concat();
        let answer = gateway.request(verb, path, &wrong, "").await;
        assert_eq!((answer.status, parameter(&answer, "error").as_deref()), (401, Some("invalid_token")));
    }
    let mut answer = list(&gateway, "/mcp", &[]).await;
    let body: Value = answer.json().await;
    assert_eq!((&body["id"], &body["error"]["code"]), (&Value::Null, &json!(401)), "{body}");
    assert_eq!(gateway.request("GET", "/health", &[], "").await.status, 200, "health is for everyone");
    assert_eq!(list(&gateway, "/mcp/none", &[]).await.status, 404);
}

#[tokio::test]
async fn an_open_gateway_asks_nobody_and_has_no_metadata() {
    let gateway = Gateway::demo(json!({}));
    assert_eq!(list(&gateway, "/mcp", &[]).await.status, 200);
    assert_eq!(list_as(&gateway, "/mcp", "whatever").await.status, 200);
    let answer = gateway.request("GET", "/.well-known/oauth-protected-resource/mcp", &[], "").await;
    assert_eq!(answer.status, 404);
}

#[tokio::test]
async fn a_session_is_its_principals_over_token_refreshes_and_nobody_elses() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    let mut client = session(&gateway, &issuer.token(RESOURCE, "alice")).await;
    let mut refreshed = issuer.claims(RESOURCE);
    refreshed["jti"] = "another".into();
    refreshed["scope"] = "mcp:call mcp:more".into();
    client.authorization = Some(bearer(&issuer.sign(&refreshed)));
    assert_eq!(client.send("1", "tools/list", "{}").await.status, 200, "a refresh keeps the session");
    let mut thief = Legacy::without_session(gateway.address, "/mcp", Some("2025-11-25"));
    thief.session = client.session.clone();
    thief.authorization = Some(bearer(&issuer.token(RESOURCE, "mallory")));
    for (what, status) in [
        ("POST", thief.send("1", "tools/list", "{}").await.status),
        ("GET", thief.stream(None).await.status),
        ("DELETE", thief.end().await),
    ] {
        assert_eq!(status, 404, "{what}");
    }
    thief.authorization = None;
    assert_eq!(thief.send("1", "tools/list", "{}").await.status, 401);
    assert_eq!(client.send("2", "tools/list", "{}").await.status, 200, "the session lives");
}

#[tokio::test]
async fn tenant_and_required_claims_come_of_the_token() {
    let issuer = Issuer::start("EdDSA").await;
    let strict = json!({ "auth": { "issuers": { "test": {
        "tenant_claim": "org", "required_claims": { "groups": "mcp", "verified": "true" },
    }}}});
    let gateway = Gateway::demo(config(&issuer, strict));
    let with = |org: Value, groups: Value, verified: Value| {
        let mut claims = issuer.claims(RESOURCE);
        (claims["org"], claims["groups"], claims["verified"]) = (org, groups, verified);
        issuer.sign(&claims)
    };
    let good = with(json!("a"), json!(["x", "mcp"]), json!(true));
    let client = session(&gateway, &good).await;
    let mut other = Legacy::without_session(gateway.address, "/mcp", Some("2025-11-25"));
    other.session = client.session.clone();
    other.authorization = Some(bearer(&with(json!("b"), json!("mcp"), json!("true"))));
    assert_eq!(other.send("1", "tools/list", "{}").await.status, 404, "one subject of two tenants is two");
    for (what, token) in [
        ("no tenant", with(Value::Null, json!("mcp"), json!(true))),
        ("an empty tenant", with(json!(""), json!("mcp"), json!(true))),
        ("a claim without the value", with(json!("a"), json!(["x"]), json!(true))),
        ("another value", with(json!("a"), json!("mcp"), json!(false))),
        ("no claim", with(json!("a"), Value::Null, json!(true))),
    ] {
        assert_eq!(list_as(&gateway, "/mcp", &token).await.status, 401, "{what}");
    }
}

#[tokio::test]
async fn a_machines_key_opens_every_profile_until_the_configuration_drops_it() {
    let issuer = Issuer::start("EdDSA").await;
    let key = plasm_mcp::auth::api_key::mint("ci");
    let (_, hash) = plasm_mcp::auth::api_key::hash(&key).expect("a key");
    let with = config(
        &issuer,
        json!({ "store": {}, "auth": { "api_keys": { "ci": { "hash": hash, "tenant": "acme" } } } }),
    );
    let gateway = Gateway::demo(with);
    for path in ["/mcp", "/mcp/dev"] {
        assert_eq!(list_as(&gateway, path, &key).await.status, 200, "{path}");
    }
    assert_eq!(list_as(&gateway, "/mcp", &plasm_mcp::auth::api_key::mint("ci")).await.status, 401);
    gateway.reconfigure(&config(&issuer, json!({ "store": {} })));
    crate::harness::comes_true("the key is dropped", || async {
        list_as(&gateway, "/mcp", &key).await.status == 401
    })
    .await;
    assert!(!gateway.log().contains(&key), "no key stands in a log");
}

#[tokio::test]
async fn a_challenge_has_each_parameter_once() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    let answer = list_as(&gateway, "/mcp", "a.b.c").await;
    let names: Vec<String> = challenge(&answer).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["resource_metadata", "error", "error_description"]);
    assert_eq!(answer.headers.get_all("www-authenticate").iter().count(), 1);
}
