//! Refresh tokens over three pods: whoever refreshes from several places at once stays logged in, whoever steals one does not.

use super::site::Site;
use crate::harness::comes_true;
use futures_util::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;

const REDIRECT: &str = "http://localhost:3118/callback";

async fn logged_in(site: &Site, user: &str) -> (String, String, String) {
    let client = site.client(REDIRECT).await;
    let code = site.code(user, &client, REDIRECT).await;
    let tokens = site.redeem(0, &client, REDIRECT, &code).await;
    assert_eq!(tokens.status, 200, "{}", tokens.text);
    let tokens = tokens.json();
    let text = |name: &str| tokens[name].as_str().expect("a token").to_owned();
    (client, text("access_token"), text("refresh_token"))
}

#[tokio::test]
async fn b095_twenty_refreshes_at_once_over_three_pods_log_nobody_out() {
    let site = Site::three();
    let (client, _, mut refresh) = logged_in(&site, "carol").await;
    for _ in 0..3 {
        let replies = join_all((0..20).map(|number| site.renew(number, &client, &refresh))).await;
        let all: BTreeSet<_> = replies.iter().map(|reply| (reply.status, reply.text.clone())).collect();
        assert_eq!(all.len(), 1, "all have the same answer: {all:?}");
        let (status, text) = all.into_iter().next().expect("one");
        assert_eq!(status, 200, "{text}");
        let tokens: serde_json::Value = serde_json::from_str(&text).expect("tokens");
        let access = tokens["access_token"].as_str().expect("a token");
        let calls = join_all((0..3).map(|pod| site.calls(pod, access))).await;
        assert_eq!(calls, [200; 3]);
        refresh = tokens["refresh_token"].as_str().expect("the next").to_owned();
    }
}

#[tokio::test]
async fn b095_a_refresh_token_that_is_used_after_its_successor_ends_all_on_every_pod() {
    let site = Site::three();
    let (client, _, first) = logged_in(&site, "carol").await;
    let second = site.renew(0, &client, &first).await.json();
    let second = second["refresh_token"].as_str().expect("the next").to_owned();
    let third = site.renew(1, &client, &second).await.json();
    let access = third["access_token"].as_str().expect("a token").to_owned();
    assert_eq!(site.calls(2, &access).await, 200);
    let stolen = site.renew(2, &client, &first).await;
    assert_eq!((stolen.status, &stolen.json()["error"]), (400, &json!("invalid_grant")));
    for pod in 0..3 {
        comes_true("dead on every pod", || async { site.calls(pod, &access).await == 401 }).await;
    }
    let last = third["refresh_token"].as_str().expect("the next");
    assert_eq!(site.renew(1, &client, last).await.status, 400);
}

#[tokio::test]
async fn b106_a_foreign_refresh_is_refused_and_a_registration_outlives_its_pods() {
    let mut site = Site::three();
    let (client, access, refresh) = logged_in(&site, "carol").await;
    let other = site.client(REDIRECT).await;
    let foreign = site.renew(1, &other, &refresh).await;
    assert_eq!((foreign.status, &foreign.json()["error"]), (400, &json!("invalid_grant")));
    assert_eq!(site.calls(0, &access).await, 200, "and nobody is logged out by it");
    let unknown = site.renew(1, "an-old-id", &refresh).await;
    assert_eq!((unknown.status, &unknown.json()["error"]), (401, &json!("invalid_client")));
    // The pod that registered the client is gone.
    site.pods[0].terminate();
    assert!(site.pods[0].ended().await.success());
    let renewed = site.renew(2, &client, &refresh).await;
    assert_eq!(renewed.status, 200, "{}", renewed.text);
}

#[tokio::test]
async fn with_the_store_away_nothing_is_given_and_nothing_lost() {
    let site = Site::three();
    let (client, _, refresh) = logged_in(&site, "carol").await;
    let code = site.code("carol", &client, REDIRECT).await;
    let mut browser = site.browser(0, "carol");
    let page = browser.log_in(&super::site::query(&client, REDIRECT, &[])).await;
    let redis = site.redis.as_ref().expect("there is one");
    redis.hang();
    let away = [site.renew(1, &client, &refresh).await, site.redeem(2, &client, REDIRECT, &code).await];
    for reply in away {
        assert_eq!((reply.status, &reply.json()["error"]), (503, &json!("temporarily_unavailable")));
        assert!(reply.answer.header("retry-after").is_some());
    }
    let consent = browser.decide(&page, "allow").await;
    assert_eq!((consent.status, consent.answer.header("retry-after").is_some()), (503, true));
    redis.wake();
    comes_true("the same refresh works", || async { site.renew(1, &client, &refresh).await.status == 200 })
        .await;
    let done = browser.decide(&page, "allow").await;
    assert_eq!(done.status, 200, "and so does the consent: {}", done.text);
    let again = site.redeem(2, &client, REDIRECT, &code).await;
    assert_eq!(again.status, 200, "nor was the code used up: {}", again.text);
}
