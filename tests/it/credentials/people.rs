//! Two people who log in to the gateway, each with an account of their own at an upstream: neither uses the other's, nor the
//! other's link.

use super::provider::Provider;
use super::{asked_as, link, text};
use crate::authorisation::site::{Browser, ORIGIN, Reply, Site, plain};
use crate::gateway::exchange;
use serde_json::{Value, json};

const REDIRECT: &str = "http://127.0.0.1:7777/callback";

/// What is left of an address at the gateway.
fn path(url: &str) -> String {
    url.strip_prefix(ORIGIN).unwrap_or_else(|| panic!("not at the gateway: {url}")).to_owned()
}

/// From the page of a link to the last one, by way of the provider.
async fn go_on(browser: &mut Browser, provider: &Provider, page: Reply) -> Reply {
    assert_eq!(page.status, 200, "{}", page.text);
    let text = plain(&page.text);
    let (_, rest) = text.split_once("href=\"/connect/begin").expect("a way on");
    let away = browser.get(&format!("/connect/begin{}", rest.split('"').next().unwrap())).await;
    assert_eq!(away.status, 303, "{}", away.text);
    let asked = away.location().strip_prefix(&provider.at("")).expect("the upstream's server").to_owned();
    let answer = exchange::request(provider.address, "GET", &asked, &[], "").await;
    browser.get(&path(answer.header("location").expect("it sends back"))).await
}

struct Person {
    token: String,
    browser: Browser,
}

async fn person(site: &Site, client: &str, user: &str) -> Person {
    let code = site.code(user, client, REDIRECT).await;
    let given: Value = site.redeem(0, client, REDIRECT, &code).await.json();
    let token = given["access_token"].as_str().expect("a token").to_owned();
    Person { token, browser: site.browser(0, user) }
}

#[tokio::test]
async fn each_of_two_people_uses_their_own_link_and_their_own_account_and_disconnects_it_alone() {
    let provider = Provider::start().await;
    let upstreams = json!({ "up": { "url": provider.at("/mcp"), "auth": { "kind": "oauth" } } });
    let site = Site::of(1, None, json!({}), json!({ "upstreams": upstreams }));
    let id = site.client(REDIRECT).await;
    let (mut carol, mut dave) = (person(&site, &id, "carol").await, person(&site, &id, "dave").await);
    let client = site.pods[0].modern();
    let tool = "up__whoami";

    let hers = path(link(&asked_as(&client, &carol.token, tool).await));
    // Dave is logged in, and it is not his; nobody who is not logged in sees anything but the login.
    let page = dave.browser.log_in_to(&hers).await;
    assert_eq!(page.status, 403, "{}", page.text);
    let stranger = site.browser(0, "dave").get(&hers).await;
    assert_eq!(stranger.status, 303, "{}", stranger.text);
    assert_eq!(provider.seen("/authorize"), 0);

    provider.log_in_as("carol's account");
    let page = carol.browser.log_in_to(&hers).await;
    let done = go_on(&mut carol.browser, &provider, page).await;
    assert!(done.status == 200 && done.text.contains("is connected"), "{} {}", done.status, done.text);
    assert_eq!(text(&asked_as(&client, &carol.token, tool).await), "carol's account");

    let his = path(link(&asked_as(&client, &dave.token, tool).await));
    provider.log_in_as("dave's account");
    let page = dave.browser.get(&his).await;
    let done = go_on(&mut dave.browser, &provider, page).await;
    assert_eq!(done.status, 200, "{}", done.text);
    for (person, account) in [(&carol, "carol's account"), (&dave, "dave's account")] {
        assert_eq!(text(&asked_as(&client, &person.token, tool).await), account);
    }
    let shown = provider.shown();
    assert!(!shown.contains(&carol.token) && !shown.contains(&dave.token), "a client's token went upstream");

    let page = carol.browser.get("/account").await;
    assert!(page.text.contains("up") && page.text.contains("Disconnect"), "{}", page.text);
    let form = [("csrf", &*page.last_field("csrf")), ("account", "up")];
    assert_eq!(carol.browser.post("/account", &form, &[("origin", ORIGIN)]).await.status, 303);
    link(&asked_as(&client, &carol.token, tool).await);
    assert_eq!(text(&asked_as(&client, &dave.token, tool).await), "dave's account");
}
