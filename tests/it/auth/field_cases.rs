//! Faults seen in such systems in the field that have to do with tokens, each under its id.

use super::issuer::Issuer;
use super::{ORIGIN, RESOURCE, WAYS, bearer, config, list_as, parameter, session};
use crate::gateway::Gateway;
use crate::gateway::legacy::Legacy;
use crate::harness::Fixture;
use serde_json::{Value, json};

const METADATA: &str = "/.well-known/oauth-protected-resource";

#[tokio::test]
async fn b085_metadata_names_the_url_that_the_client_uses_with_and_without_the_slash() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({ "public_path": "/plasm/mcp" })));
    for (path, resource) in [
        ("", "/plasm/mcp"),
        ("/", "/plasm/mcp"),
        ("/mcp", "/mcp"),
        ("/mcp/", "/mcp/"),
        ("/mcp/dev", "/mcp/dev"),
        ("/mcp/dev/", "/mcp/dev/"),
        ("/plasm/mcp", "/plasm/mcp"),
        ("/plasm/mcp/dev", "/plasm/mcp/dev"),
    ] {
        let mut answer = gateway.request("GET", &format!("{METADATA}{path}"), &[], "").await;
        assert_eq!(answer.status, 200, "{path}");
        let document: Value = answer.json().await;
        assert_eq!(document["resource"], format!("{ORIGIN}{resource}"));
        assert_eq!(document["authorization_servers"], json!([issuer.id]));
        assert_eq!(document["bearer_methods_supported"], json!(["header"]));
        let audience = document["resource"].as_str().expect("a URL");
        let endpoint = &audience[ORIGIN.len()..];
        let token = issuer.token(audience, "alice");
        assert_eq!(list_as(&gateway, endpoint, &token).await.status, 200, "a token for it opens it: {path}");
    }
    assert_eq!(gateway.request("GET", &format!("{METADATA}/mcp/none"), &[], "").await.status, 404);
    let strange = [("host", "localhost:1"), ("x-forwarded-host", "evil.example")];
    let mut answer = gateway.request("GET", &format!("{METADATA}/mcp"), &strange, "").await;
    assert_eq!(answer.json().await["resource"], RESOURCE, "nothing of it comes from the request");
}

#[tokio::test]
async fn b088_metadata_is_for_everyone_and_every_page() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    for path in ["", "/mcp", "/mcp/", "/mcp/dev"] {
        let path = format!("{METADATA}{path}");
        let origin = ("origin", "https://app.elsewhere.example");
        for verb in ["GET", "HEAD"] {
            let answer = gateway.request(verb, &path, &[origin], "").await;
            assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("*")));
        }
        let asks = [
            origin,
            ("access-control-request-method", "GET"),
            ("access-control-request-headers", "mcp-protocol-version"),
        ];
        let answer = gateway.request("OPTIONS", &path, &asks, "").await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, Some("*")));
        let allowed = answer.header("access-control-allow-headers").expect("headers");
        assert!(allowed.contains("mcp-protocol-version"), "{allowed}");
        assert_eq!(gateway.request("POST", &path, &[], "").await.status, 405);
    }
}

#[tokio::test]
async fn b089_every_verb_bears_the_challenge() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    for (verb, path, headers) in WAYS {
        let answer = gateway.request(verb, path, headers, "").await;
        assert_eq!(answer.status, 401, "{verb} {path}");
        let metadata = parameter(&answer, "resource_metadata").expect("where the metadata is");
        let at = metadata.strip_prefix(ORIGIN).expect("under the public URL");
        assert_eq!(gateway.request("GET", at, &[], "").await.status, 200, "{verb} {path}: {at}");
    }
}

#[tokio::test]
async fn b093_both_forms_of_the_path_answer_without_a_redirect() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    let token = issuer.token(RESOURCE, "alice");
    for path in ["/mcp", "/mcp/"] {
        let headers = [("authorization", bearer(&token)), ("x-forwarded-proto", "https".to_owned())];
        let headers = headers.each_ref().map(|(name, value)| (*name, &**value));
        assert_eq!(super::list(&gateway, path, &headers).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn b100_only_tokens_for_this_resource_pass_and_none_is_sent_upstream() {
    let issuer = Issuer::start("EdDSA").await;
    let fixture = Fixture::listening("--http", &[]);
    let upstream = json!({ "upstreams": { "up": { "url": fixture.url } } });
    let gateway = Gateway::start(config(&issuer, upstream));
    let with = |audience: Option<Value>| {
        let mut claims = issuer.claims(RESOURCE);
        match audience {
            Some(audience) => claims["aud"] = audience,
            None => drop(claims.as_object_mut().expect("an object").remove("aud")),
        }
        issuer.sign(&claims)
    };
    let ours = with(Some(json!(["https://other.example/mcp", RESOURCE])));
    for (audience, status) in [
        (Some(json!(RESOURCE)), 200),
        (Some(json!(["https://other.example/mcp", RESOURCE])), 200),
        (Some(json!("https://other.example/mcp")), 401),
        (Some(json!("https://mcp.example.com/other")), 401),
        (Some(json!(["https://other.example/mcp"])), 401),
        (None, 401),
    ] {
        let answer = list_as(&gateway, "/mcp", &with(audience.clone())).await;
        assert_eq!(answer.status, status, "{audience:?}");
    }
    session(&gateway, &ours).await.call("echo", json!({"text": "x"})).await;
    let seen = fixture.seen().await;
    assert!(seen.iter().any(|one| one["body"].as_str().is_some_and(|body| body.contains("tools/call"))));
    for one in seen {
        assert!(one["headers"].get("authorization").is_none(), "{one}");
        assert!(!one.to_string().contains(ours.as_str()));
    }
}

#[tokio::test]
async fn b027_b118_an_unknown_session_is_404_for_whoever_is_logged_in() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    let mut client = Legacy::without_session(gateway.address, "/mcp", Some("2025-11-25"));
    client.session = Some("0123456789abcdef0123456789abcdef".to_owned());
    client.authorization = Some(bearer(&issuer.token(RESOURCE, "alice")));
    for mut answer in [client.send("1", "tools/list", "{}").await, client.stream(None).await] {
        assert_eq!((answer.status, answer.header("www-authenticate")), (404, None));
        assert_eq!(answer.json().await["error"]["code"], -32016);
    }
    assert_eq!(client.end().await, 404);
    client.authorization = Some(bearer("wrong"));
    assert_eq!(client.send("1", "tools/list", "{}").await.status, 401, "401 is for the token alone");
}

#[tokio::test]
async fn b028_another_users_session_is_not_found_and_lives_on() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    let owner = session(&gateway, &issuer.token(RESOURCE, "alice")).await;
    let mut thief = Legacy::without_session(gateway.address, "/mcp", Some("2025-11-25"));
    thief.session = owner.session.clone();
    thief.authorization = Some(bearer(&issuer.token(RESOURCE, "bob")));
    let mut unknown = Legacy::without_session(gateway.address, "/mcp", Some("2025-11-25"));
    unknown.session = Some("0123456789abcdef0123456789abcdef".to_owned());
    unknown.authorization = thief.authorization.clone();
    let (mut theirs, mut nobodys) =
        (thief.send("1", "tools/list", "{}").await, unknown.send("1", "tools/list", "{}").await);
    assert_eq!((theirs.status, theirs.bytes().await), (nobodys.status, nobodys.bytes().await));
    assert_eq!((thief.stream(None).await.status, thief.end().await), (404, 404));
    assert_eq!(owner.send("2", "tools/list", "{}").await.status, 200);
}

#[tokio::test]
async fn b108_a_page_may_ask_and_see_why_it_was_refused() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({ "allowed_origins": ["https://app.example"] })));
    let asks = "authorization, content-type, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name, mcp-param-region, last-event-id";
    let headers = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", asks),
    ];
    let answer = gateway.request("OPTIONS", "/mcp", &headers, "").await;
    assert_eq!(answer.status, 204, "before any login");
    let allowed = answer.header("access-control-allow-headers").expect("headers");
    assert!(asks.split(", ").all(|name| allowed.contains(name)), "{allowed}");
    let refused = gateway.request("POST", "/mcp", &[("origin", "https://app.example")], "").await;
    assert_eq!(refused.status, 401);
    let exposed = refused.header("access-control-expose-headers").expect("headers").to_ascii_lowercase();
    assert!(exposed.contains("www-authenticate") && exposed.contains("mcp-session-id"), "{exposed}");
}

#[tokio::test]
async fn b121_a_get_without_a_session_is_405_for_whoever_is_logged_in() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    let mut client = Legacy::without_session(gateway.address, "/mcp", Some("2025-11-25"));
    client.authorization = Some(bearer(&issuer.token(RESOURCE, "alice")));
    assert_eq!(client.stream(None).await.status, 405);
}
