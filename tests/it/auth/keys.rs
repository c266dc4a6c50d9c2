//! An issuer's keys over time: rotation, absence, and those who would have us fetch them all day.

use super::issuer::{Issuer, Key, now};
use super::{RESOURCE, config, list_as};
use crate::gateway::Gateway;
use futures_util::future::join_all;
use serde_json::json;

#[tokio::test]
async fn all_who_wait_for_keys_wait_for_one_fetch() {
    let issuer = Issuer::start("EdDSA").await;
    issuer.dawdle();
    let gateway = Gateway::demo(config(&issuer, json!({})));
    let tokens: Vec<String> = (0..20).map(|n| issuer.token(RESOURCE, &format!("user-{n}"))).collect();
    let answers = join_all(tokens.iter().map(|token| list_as(&gateway, "/mcp", token))).await;
    assert!(answers.iter().all(|answer| answer.status == 200));
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn made_up_key_ids_do_not_hammer_the_issuer() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    assert_eq!(list_as(&gateway, "/mcp", &issuer.token(RESOURCE, "alice")).await.status, 200);
    let forger = Key::new("first", "EdDSA");
    for n in 0..30 {
        let head = json!({"alg": "EdDSA", "kid": format!("made-up-{n}"), "typ": "at+jwt"});
        let token = forger.token(&head, &issuer.claims(RESOURCE));
        assert_eq!(list_as(&gateway, "/mcp", &token).await.status, 401);
    }
    assert!(issuer.fetches() <= 2, "{}", issuer.fetches());
    assert_eq!(
        list_as(&gateway, "/mcp", &issuer.token(RESOURCE, "bob")).await.status,
        200,
        "nor lock others out"
    );
}

#[tokio::test]
async fn a_new_key_is_found_when_a_token_names_it() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({})));
    let old = issuer.token(RESOURCE, "alice");
    assert_eq!(list_as(&gateway, "/mcp", &old).await.status, 200);
    let next = Key::new("second", "ES256");
    issuer.publish(json!([next.public(), issuer.key.public()]));
    let token = next.token(&next.head(), &issuer.claims(RESOURCE));
    crate::harness::comes_true("the new key is known", || async {
        list_as(&gateway, "/mcp", &token).await.status == 200
    })
    .await;
    assert_eq!(list_as(&gateway, "/mcp", &old).await.status, 200, "the old one is still published");
}

#[tokio::test]
async fn a_key_that_is_withdrawn_opens_nothing_once_that_is_known() {
    let issuer = Issuer::start("EdDSA").await;
    // It is asked again and again until the gateway may ask for the keys again.
    let many = json!({ "rates": { "unauthenticated": "1000/s burst 1000" } });
    let gateway = Gateway::demo(config(&issuer, many));
    let (old, next) = (issuer.token(RESOURCE, "alice"), Key::new("second", "ES256"));
    assert_eq!(list_as(&gateway, "/mcp", &old).await.status, 200);
    issuer.publish(json!([next.public()]));
    let token = next.token(&next.head(), &issuer.claims(RESOURCE));
    crate::harness::comes_true("the new key is known", || async {
        list_as(&gateway, "/mcp", &token).await.status == 200
    })
    .await;
    assert_eq!(list_as(&gateway, "/mcp", &old).await.status, 401, "what was remembered of it is forgotten");
}

#[tokio::test]
async fn keys_go_on_while_the_issuer_is_away_and_without_any_nothing_is_known() {
    let issuer = Issuer::start("EdDSA").await;
    issuer.go_away(true);
    let gateway = Gateway::demo(config(&issuer, json!({})));
    let answer = list_as(&gateway, "/mcp", &issuer.token(RESOURCE, "alice")).await;
    assert_eq!(answer.status, 503, "whether the token is good cannot be known");
    assert!(answer.header("retry-after").is_some() && answer.header("www-authenticate").is_none());
    issuer.go_away(false);
    crate::harness::comes_true("it is back", || async {
        list_as(&gateway, "/mcp", &issuer.token(RESOURCE, "alice")).await.status == 200
    })
    .await;
    issuer.go_away(true);
    assert_eq!(list_as(&gateway, "/mcp", &issuer.token(RESOURCE, "bob")).await.status, 200);
}

#[tokio::test]
async fn what_else_is_in_a_key_set_verifies_nothing() {
    let issuer = Issuer::start("EdDSA").await;
    let (enc, wrong) = (Key::new("enc", "EdDSA"), Key::new("wrong", "EdDSA"));
    let (mut enc_public, mut wrong_public) = (enc.public(), wrong.public());
    enc_public["use"] = "enc".into();
    wrong_public["alg"] = "ES256".into();
    let symmetric = json!({"kty": "oct", "kid": "oct", "alg": "HS256", "k": "c2VjcmV0"});
    issuer.publish(json!([enc_public, wrong_public, symmetric, issuer.key.public()]));
    let gateway = Gateway::demo(config(&issuer, json!({})));
    assert_eq!(list_as(&gateway, "/mcp", &issuer.token(RESOURCE, "alice")).await.status, 200);
    for key in [&enc, &wrong] {
        let token = key.token(&key.head(), &issuer.claims(RESOURCE));
        assert_eq!(list_as(&gateway, "/mcp", &token).await.status, 401, "{}", key.id);
    }
}

#[tokio::test]
async fn a_known_token_ends_when_it_says_so() {
    let issuer = Issuer::start("EdDSA").await;
    let gateway = Gateway::demo(config(&issuer, json!({ "auth": { "clock_skew": "0s" } })));
    let mut claims = issuer.claims(RESOURCE);
    claims["exp"] = (now() + 2).into();
    let token = issuer.sign(&claims);
    assert_eq!(list_as(&gateway, "/mcp", &token).await.status, 200);
    crate::harness::comes_true("it has ended", || async {
        list_as(&gateway, "/mcp", &token).await.status == 401
    })
    .await;
}
