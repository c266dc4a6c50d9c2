//! Two people who log in to the gateway, each with an account of their own at an upstream: neither uses the other's, nor the
//! other's link.

use super::provider::Provider;
use super::{asked_as, link, text};
use crate::authorisation::site::{Browser, ORIGIN, Reply, Site, plain};
use crate::gateway::exchange;
use crate::gateway::legacy::Legacy;
use crate::harness::comes_true;
use crate::store::redis::server::Server;
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
    refresh: String,
    browser: Browser,
}

async fn person(site: &Site, client: &str, user: &str) -> Person {
    let code = site.code(user, client, REDIRECT).await;
    let given: Value = site.redeem(0, client, REDIRECT, &code).await.json();
    let token = given["access_token"].as_str().expect("a token").to_owned();
    let refresh = given["refresh_token"].as_str().expect("another").to_owned();
    Person { token, refresh, browser: site.browser(0, user) }
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

/// What a token of ours says.
fn claims(token: &str) -> Value {
    use base64::Engine as _;
    let payload = token.split('.').nth(1).expect("a JWT");
    let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).expect("base64");
    serde_json::from_slice(&payload).expect("JSON")
}

#[tokio::test]
async fn who_left_is_shut_out_of_every_pod_with_all_that_was_theirs_and_nobody_else_is() {
    let provider = Provider::start().await;
    let upstreams = json!({ "up": { "url": provider.at("/mcp"), "auth": { "kind": "oauth" } } });
    let site = Site::of(3, Some(Server::start(&[])), json!({}), json!({ "upstreams": upstreams }));
    let id = site.client(REDIRECT).await;
    let (mut carol, mut dave) = (person(&site, &id, "carol").await, person(&site, &id, "dave").await);
    let (client, tool) = (site.pods[0].modern(), "up__whoami");
    for (person, account) in [(&mut carol, "carol's account"), (&mut dave, "dave's account")] {
        let way = path(link(&asked_as(&client, &person.token, tool).await));
        provider.log_in_as(account);
        let page = person.browser.log_in_to(&way).await;
        assert_eq!(go_on(&mut person.browser, &provider, page).await.status, 200);
        assert_eq!(text(&asked_as(&client, &person.token, tool).await), account);
        assert_eq!(person.browser.get("/account").await.status, 200);
    }
    let session = async |person: &Person| {
        let bearer = Some(format!("Bearer {}", person.token));
        Legacy::begin_as(site.at(1), "/mcp", "2025-11-25", json!({}), bearer).await
    };
    let (hers, his) = (session(&carol).await, session(&dave).await);
    let mut stream = hers.stream(None).await;
    assert_eq!((stream.status, his.send("1", "tools/list", "{}").await.status), (200, 200));

    let who = claims(&carol.token);
    let mut order = json!({ "subject": who["sub"], "tenant": who["tenant"] });
    let headers = [("content-type", "application/json")];
    let revoke = async |order: &Value| {
        exchange::request(site.pods[0].admin(), "POST", "/admin/revoke", &headers, order.to_string())
            .await
            .status
    };
    assert_eq!(revoke(&order).await, 400, "without whose subject that is, it is nobody's");
    order["issuer"] = who["iss"].clone();
    assert_eq!(revoke(&order).await, 204);
    let since = std::time::Instant::now();
    comes_true("she is out everywhere", async || {
        let (one, two) = (site.calls(0, &carol.token).await, site.calls(1, &carol.token).await);
        (one, two, site.calls(2, &carol.token).await) == (401, 401, 401)
    })
    .await;
    while stream.chunk().await.is_some() {}
    assert!(since.elapsed() < std::time::Duration::from_secs(1), "{:?}", since.elapsed());
    assert_eq!(hers.send("2", "tools/list", "{}").await.status, 401);
    assert_eq!(site.renew(2, &id, &carol.refresh).await.status, 400);
    assert_eq!(carol.browser.get("/account").await.status, 303, "to the login");
    let mut anew = site.browser(2, "carol");
    let away = anew.get("/account").await;
    let callback = anew.at_provider(away.location()).await;
    assert_eq!(anew.get(&callback).await.status, 403, "which does not let her in");

    // Nobody else's.
    assert_eq!(text(&asked_as(&client, &dave.token, tool).await), "dave's account");
    assert_eq!(dave.browser.get("/account").await.status, 200);
    assert_eq!(his.send("3", "tools/list", "{}").await.status, 200);
    assert_eq!(site.renew(2, &id, &dave.refresh).await.status, 200);
}
