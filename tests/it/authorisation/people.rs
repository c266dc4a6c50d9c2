//! A person's own page: what is theirs, and its end.

use super::site::{ORIGIN, Site, query};
use crate::harness::comes_true;
use serde_json::json;

const REDIRECT: &str = "https://claude.ai/api/mcp/auth_callback";

#[tokio::test]
async fn a_person_sees_what_is_theirs_alone_and_ends_it_on_all_pods() {
    let site = Site::three();
    let client = site.client(REDIRECT).await;
    let mut carol = site.browser(0, "carol");
    let page = carol.log_in(&query(&client, REDIRECT, &[])).await;
    let done = carol.decide(&page, "allow").await.onward();
    let code = super::site::parameter(&done, "code").expect("a code");
    let tokens = site.redeem(1, &client, REDIRECT, &code).await.json();
    let (access, refresh) =
        (tokens["access_token"].as_str().unwrap(), tokens["refresh_token"].as_str().unwrap());
    let hers = carol.get("/account").await;
    assert!(
        hers.status == 200 && hers.text.contains("claude.ai") && hers.text.contains("this one"),
        "{}",
        hers.text
    );
    let mut dave = site.browser(1, "dave");
    let his = dave.log_in_to("/account").await;
    assert!(his.status == 200 && !his.text.contains("claude.ai"), "{}", his.text);
    // He knows what it is called, and cannot end it; nor can she by a form of elsewhere.
    let (family, csrf) = (hers.field("client"), hers.last_field("csrf"));
    let form = |csrf: &str| vec![("csrf".to_owned(), csrf.to_owned()), ("client".to_owned(), family.clone())];
    let borrowed = |form: &[(String, String)]| {
        form.iter().map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<_>>()
    };
    let send = async |browser: &mut super::site::Browser, form: Vec<(String, String)>, origin: &str| {
        let form: Vec<_> = form.iter().map(|(name, value)| (&**name, &**value)).collect();
        browser.post("/account", &form, &[("origin", origin)]).await.status
    };
    assert_eq!(send(&mut dave, borrowed(&form(&his.last_field("csrf"))), ORIGIN).await, 303);
    assert_eq!(send(&mut dave, form(&csrf), ORIGIN).await, 403);
    assert_eq!(send(&mut carol, form("x"), ORIGIN).await, 403);
    assert_eq!(send(&mut carol, form(&csrf), "https://evil.example").await, 403);
    assert_eq!(site.calls(0, access).await, 200);
    assert_eq!(send(&mut carol, form(&csrf), ORIGIN).await, 303);
    for pod in 0..3 {
        comes_true("dead on every pod", || async { site.calls(pod, access).await == 401 }).await;
    }
    assert_eq!(site.renew(2, &client, refresh).await.status, 400);
    assert!(!carol.get("/account").await.text.contains("claude.ai"));
    // Her browser's session ends too, on all pods.
    let session = carol.get("/account").await.field("session");
    let csrf = carol.get("/account").await.last_field("csrf");
    let form = [("csrf", csrf.as_str()), ("session", session.as_str())];
    let ended = carol.post("/account", &form, &[("origin", ORIGIN)]).await;
    // No redirect: from there it would be on to the provider, which a form may not lead to.
    assert!(ended.status == 200 && ended.text.contains("content=\"0;url=&#x2f;account\""), "{}", ended.text);
    carol.pod = site.at(2);
    let anew = carol.get("/account").await;
    assert!(anew.status == 303 && anew.location().starts_with(&site.provider.url), "{}", anew.text);
}

#[tokio::test]
async fn whoever_logs_out_is_logged_out_and_a_foreign_form_logs_nobody_out() {
    let site = Site::alone(json!({}));
    let mut carol = site.browser(0, "carol");
    let page = carol.log_in_to("/account").await;
    // The first form is the one to log out.
    let (leave, csrf) = (page.field("csrf"), page.last_field("csrf"));
    assert_eq!(carol.post("/logout", &[("csrf", &csrf)], &[("origin", ORIGIN)]).await.status, 403);
    assert_eq!(carol.get("/account").await.status, 200);
    assert_eq!(carol.post("/logout", &[("csrf", &leave)], &[("origin", ORIGIN)]).await.status, 200);
    assert_eq!(carol.get("/account").await.status, 303);
}

#[tokio::test]
async fn whoever_wants_another_account_is_taken_to_the_provider_by_a_page() {
    let site = Site::alone(json!({}));
    let client = site.client(REDIRECT).await;
    let (mut carol, request) = (site.browser(0, "carol"), query(&client, REDIRECT, &[]));
    let page = carol.log_in(&request).await;
    let form = [("csrf", &*page.field("csrf")), ("back", &*page.field("back"))];
    let left = carol.post("/logout", &form, &[("origin", ORIGIN)]).await;
    assert_eq!((left.status, left.answer.header("location")), (200, None), "{}", left.text);
    let to = left.onward();
    assert!(to.as_str().starts_with(&site.provider.url), "{to}");
    assert_eq!(super::site::parameter(&to, "prompt").as_deref(), Some("login"));
    let callback = carol.at_provider(to.as_str()).await;
    assert_eq!(carol.get(&callback).await.location(), format!("/authorize?{request}"));
}

#[tokio::test]
async fn what_anybody_pads_a_page_with_is_not_kept_for_after_a_login() {
    let site = Site::alone(json!({}));
    let client = site.client(REDIRECT).await;
    let (mut carol, request) = (site.browser(0, "carol"), query(&client, REDIRECT, &[]));
    let away = carol.get(&format!("/authorize?{request}&pad={}", "x".repeat(20_000))).await;
    let callback = carol.at_provider(away.location()).await;
    assert_eq!(carol.get(&callback).await.location(), format!("/authorize?{request}"));
    let mut dave = site.browser(0, "dave");
    let long = query(&client, REDIRECT, &[("scope", &"x".repeat(20_000))]);
    assert_eq!(dave.get(&format!("/authorize?{long}")).await.status, 414);
}

#[tokio::test]
async fn the_people_of_the_protected_example_log_in_by_the_password_that_it_names() {
    let gateway = crate::gateway::Gateway::with_text(include_str!("../../../docs/examples/protected.yaml"));
    let cookie = |reply: &super::site::Reply| {
        let set = reply.answer.headers.get_all("set-cookie").iter();
        let pairs = set.filter_map(|value| value.to_str().ok()?.split(';').next());
        pairs.map(str::to_owned).collect::<Vec<_>>().join("; ")
    };
    let host = gateway.address.to_string();
    let host = ("host", host.as_str());
    let page = super::site::get(gateway.address, "/account", &[host]).await;
    assert!(page.status == 200 && page.text.contains("type=\"password\""), "{}", page.text);
    let (browser, ticket) = (cookie(&page), page.field("ticket"));
    assert!(browser.starts_with("plasm-browser="), "{browser}");
    for (user, password, status) in
        [("alice", "wrong", 403), ("nobody", "demo", 403), ("", "", 403), ("alice", "demo", 303)]
    {
        let form = [("ticket", ticket.as_str()), ("user", user), ("password", password)];
        let reply =
            super::site::post_form(gateway.address, "/login", &[host, ("cookie", &browser)], &form).await;
        assert_eq!(reply.status, status, "{user} {password}: {}", reply.text);
        let foreign = super::site::post_form(gateway.address, "/login", &[host], &form).await;
        assert_eq!(foreign.status, 403, "the form is this browser's");
        if status == 303 {
            let cookies = format!("{browser}; {}", cookie(&reply));
            let hers = super::site::get(gateway.address, "/account", &[host, ("cookie", &cookies)]).await;
            assert!(hers.status == 200 && hers.text.contains("Alice"), "{}", hers.text);
        }
    }
}
