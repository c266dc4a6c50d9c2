//! Tokens that must not open anything, each refused with the status that its kind of fault has.

use super::issuer::{Issuer, Key, base64, now, unsigned};
use super::{RESOURCE, bearer, config, list, list_as, parameter};
use crate::gateway::Gateway;
use aws_lc_rs::hmac;
use serde_json::{Value, json};

/// Claims of the issuer's, changed.
fn but(issuer: &Issuer, change: impl FnOnce(&mut Value)) -> Value {
    let mut claims = issuer.claims(RESOURCE);
    change(&mut claims);
    claims
}

fn without(issuer: &Issuer, name: &str) -> Value {
    but(issuer, |claims| drop(claims.as_object_mut().expect("an object").remove(name)))
}

/// Signed with what everyone knows of the issuer's key, as an HMAC key.
fn confused(head: Value, claims: &Value, secret: &[u8]) -> String {
    let text = unsigned(&head, claims);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes());
    format!("{text}.{}", base64(tag))
}

/// The corpus: what it is, and the token.
fn corpus(issuer: &Issuer, other: &Issuer) -> Vec<(&'static str, String)> {
    let (key, good) = (&issuer.key, issuer.claims(RESOURCE));
    let theirs = Key::new("first", "RS256");
    let head = |change: Value| {
        let mut head = key.head();
        head.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
        head
    };
    let none = |name: &str| format!("{}.", unsigned(&json!({ "alg": name, "typ": "JWT" }), &good));
    let signed = |claims: Value| issuer.sign(&claims);
    let cut = issuer.sign(&good);
    let (text, signature) = cut.rsplit_once('.').expect("three parts");
    let stretched = unsigned(&key.head(), &but(issuer, |claims| claims["sub"] = "root".into()));
    vec![
        ("alg none", none("none")),
        ("alg None", none("None")),
        ("alg nOnE with another's signature", format!("{}{signature}", none("nOnE"))),
        ("no signature", format!("{text}.")),
        ("two parts", text.to_owned()),
        ("four parts", format!("{cut}.x")),
        ("another's signature under changed claims", format!("{stretched}.{signature}")),
        (
            "the public key as an HMAC key",
            confused(json!({"alg": "HS256", "kid": key.id}), &good, &key.public_bytes()),
        ),
        (
            "the JWK's text as an HMAC key",
            confused(json!({"alg": "HS256", "kid": key.id}), &good, key.public().to_string().as_bytes()),
        ),
        ("HMAC with an empty key", confused(json!({"alg": "HS256"}), &good, b"")),
        ("another algorithm of the same key", key.token(&head(json!({"alg": "RS512"})), &good)),
        ("PSS in the head over PKCS #1", key.token(&head(json!({"alg": "PS256"})), &good)),
        ("another kind of key in the head", key.token(&head(json!({"alg": "EdDSA"})), &good)),
        ("a key of the same name", theirs.token(&theirs.head(), &good)),
        ("jwk in the head", theirs.token(&head(json!({"jwk": theirs.public()})), &good)),
        ("jwk in the head without a kid", {
            theirs.token(&json!({"alg": "RS256", "typ": "JWT", "jwk": theirs.public()}), &good)
        }),
        ("jku in the head", theirs.token(&head(json!({"jku": format!("{}/jwks", other.id)})), &good)),
        ("x5u in the head", theirs.token(&head(json!({"x5u": format!("{}/jwks", other.id)})), &good)),
        ("x5c in the head", theirs.token(&head(json!({"x5c": [base64("no certificate")]})), &good)),
        ("kid as a path", theirs.token(&head(json!({"kid": "../../../../dev/null"})), &good)),
        ("kid as SQL", theirs.token(&head(json!({"kid": "x' UNION SELECT 'k' -- "})), &good)),
        ("kid as a command", theirs.token(&head(json!({"kid": "first|sleep 9"})), &good)),
        ("kid as a URL", theirs.token(&head(json!({"kid": format!("{}/jwks", other.id)})), &good)),
        ("kid that is no text", theirs.token(&head(json!({"kid": {"a": 1}})), &good)),
        ("kid of 8 KiB", key.token(&head(json!({"kid": "k".repeat(8 << 10)})), &good)),
        ("crit that nobody knows", key.token(&head(json!({"crit": ["x"], "x": 1})), &good)),
        ("b64 false", key.token(&head(json!({"crit": ["b64"], "b64": false})), &good)),
        ("a logout token", key.token(&head(json!({"typ": "logout+jwt"})), &good)),
        ("a token of another issuer's in this one's name", {
            other.key.token(&json!({"alg": "EdDSA", "kid": other.key.id, "typ": "at+jwt"}), &good)
        }),
        ("an issuer that nobody trusts", signed(but(issuer, |c| c["iss"] = "https://evil.example".into()))),
        ("its issuer with a slash", signed(but(issuer, |c| c["iss"] = format!("{}/", issuer.id).into()))),
        ("its issuer in a list", signed(but(issuer, |c| c["iss"] = json!([issuer.id])))),
        ("no issuer", signed(without(issuer, "iss"))),
        (
            "another host's audience",
            signed(but(issuer, |c| c["aud"] = "https://other.example.com/mcp".into())),
        ),
        (
            "another scheme's audience",
            signed(but(issuer, |c| c["aud"] = "http://mcp.example.com/mcp".into())),
        ),
        (
            "another port's audience",
            signed(but(issuer, |c| c["aud"] = "https://mcp.example.com:8443/mcp".into())),
        ),
        ("another profile's audience", signed(but(issuer, |c| c["aud"] = format!("{RESOURCE}/dev").into()))),
        ("an audience below", signed(but(issuer, |c| c["aud"] = format!("{RESOURCE}/../mcp").into()))),
        ("an audience above", signed(but(issuer, |c| c["aud"] = "https://mcp.example.com".into()))),
        ("an audience that begins alike", signed(but(issuer, |c| c["aud"] = format!("{RESOURCE}x").into()))),
        ("an audience with a query", signed(but(issuer, |c| c["aud"] = format!("{RESOURCE}?x").into()))),
        ("a list of others' audiences", signed(but(issuer, |c| c["aud"] = json!(["a", "b", 7])))),
        ("an empty list of audiences", signed(but(issuer, |c| c["aud"] = json!([])))),
        ("an audience as a map", signed(but(issuer, |c| c["aud"] = json!({ RESOURCE: true })))),
        ("no audience", signed(without(issuer, "aud"))),
        ("an ID token", signed(but(issuer, |c| c["aud"] = "it".into()))),
        ("expired", signed(but(issuer, |c| c["exp"] = (now() - 31).into()))),
        ("without an end", signed(without(issuer, "exp"))),
        ("an end that is text", signed(but(issuer, |c| c["exp"] = "never".into()))),
        ("a negative end", signed(but(issuer, |c| c["exp"] = json!(-1)))),
        ("not valid yet", signed(but(issuer, |c| c["nbf"] = (now() + 120).into()))),
        ("a beginning that is text", signed(but(issuer, |c| c["nbf"] = "soon".into()))),
        ("no subject", signed(without(issuer, "sub"))),
        ("an empty subject", signed(but(issuer, |c| c["sub"] = "".into()))),
        ("a subject that is no text", signed(but(issuer, |c| c["sub"] = json!(["root"])))),
        ("claims that are no object", key.token(&key.head(), &json!([1]))),
        ("a head that is no object", format!("{}.{}.{signature}", base64("[]"), base64(good.to_string()))),
        ("not base64", "@@@.@@@.@@@".to_owned()),
        ("a JWE", "a.b.c.d.e".to_owned()),
        ("a key of machines that nobody made", "plasm_ci_0123456789012345678901234567890123".to_owned()),
        ("one that is long", "x".repeat(20 << 10)),
    ]
}

/// Whether the gateway is several pods (`PLASM_TEST_PODS`).
fn behind_nginx() -> bool {
    std::env::var_os("PLASM_TEST_PODS").is_some()
}

#[tokio::test]
async fn no_token_of_the_corpus_opens_anything_and_each_is_401() {
    let (issuer, other) = (Issuer::start("RS256").await, Issuer::start("EdDSA").await);
    let both = json!({ "auth": { "issuers": { "other": other.config() } } });
    let gateway = Gateway::demo(config(&issuer, both));
    assert_eq!(
        list_as(&gateway, "/mcp", &issuer.token(RESOURCE, "alice")).await.status,
        200,
        "an honest one does"
    );
    assert_eq!(
        list_as(&gateway, "/mcp", &other.token(RESOURCE, "alice")).await.status,
        200,
        "and the other's"
    );
    let mut corpus = corpus(&issuer, &other);
    if behind_nginx() {
        // It refuses such heads by itself.
        corpus.retain(|(_, token)| token.len() < 7 << 10);
    }
    let fetches = (issuer.fetches(), other.fetches());
    let mut opened = Vec::new();
    for (what, token) in &corpus {
        let answer = list_as(&gateway, "/mcp", token).await;
        let error = (answer.status == 401).then(|| parameter(&answer, "error")).flatten();
        if error.as_deref() != Some("invalid_token") {
            opened.push((what, answer.status));
        }
    }
    assert!(opened.is_empty(), "{opened:?}");
    assert!(corpus.len() > 50);
    let after = (issuer.fetches(), other.fetches());
    // Each pod fetches by itself, once.
    let most = if behind_nginx() { 6 } else { 1 };
    assert!(
        after.0 <= fetches.0 + most && after.1 <= fetches.1 + most,
        "no attacker makes us fetch: {fetches:?} {after:?}"
    );
    for secret in corpus.iter().map(|(_, token)| token).filter(|token| token.len() > 40) {
        assert!(!gateway.log().contains(secret.as_str()), "no token stands in a log");
    }
}

#[tokio::test]
async fn what_shows_a_token_twice_or_elsewhere_is_refused() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    let token = issuer.token(RESOURCE, "alice");
    let (shown, other) = (bearer(&token), bearer(&issuer.token(RESOURCE, "bob")));
    let table: [(&str, super::Fields, u16); 8] = [
        ("once", &[("authorization", &shown)], 200),
        ("in another case", &[("authorization", &shown.replace("Bearer", "bEARER"))], 200),
        ("twice", &[("authorization", &shown), ("authorization", &other)], 400),
        ("the same twice", &[("authorization", &shown), ("authorization", &shown)], 400),
        ("two in one", &[("authorization", &format!("{shown}, {other}"))], 400),
        ("as Basic", &[("authorization", &format!("Basic {token}"))], 401),
        ("without a scheme", &[("authorization", &token)], 401),
        ("as a cookie", &[("cookie", &format!("access_token={token}"))], 401),
    ];
    for (what, headers, status) in table {
        assert_eq!(list(&gateway, "/mcp", headers).await.status, status, "{what}");
    }
    for name in ["access_token", "token", "authorization"] {
        let path = format!("/mcp?{name}={token}");
        assert_eq!(list(&gateway, &path, &[]).await.status, 401, "{name} in the query");
    }
}

#[tokio::test]
async fn a_profiles_token_opens_no_other_profile() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({ "public_path": "/plasm/mcp" })));
    let token = |path: &str| issuer.token(&format!("https://mcp.example.com{path}"), "alice");
    let (default, dev) =
        (["/mcp", "/plasm/mcp", "/mcp/", "/plasm/mcp/"], ["/mcp/dev", "/plasm/mcp/dev", "/mcp/dev/"]);
    for (own, others) in [(&default[..], &dev[..]), (&dev[..], &default[..])] {
        for audience in own {
            let token = token(audience);
            for path in own {
                assert_eq!(list_as(&gateway, path, &token).await.status, 200, "{audience} at {path}");
            }
            for path in others {
                assert_eq!(list_as(&gateway, path, &token).await.status, 401, "{audience} at {path}");
            }
        }
    }
}

#[tokio::test]
async fn clocks_may_differ_by_as_much_as_is_configured() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({ "auth": { "clock_skew": "60s" } })));
    for (claim, at, status) in [
        ("exp", now() - 40, 200),
        ("exp", now() - 70, 401),
        ("nbf", now() + 40, 200),
        ("nbf", now() + 100, 401),
    ] {
        let token = issuer.sign(&but(&issuer, |claims| claims[claim] = at.into()));
        assert_eq!(list_as(&gateway, "/mcp", &token).await.status, status, "{claim}");
    }
}
