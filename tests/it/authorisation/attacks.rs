//! Those who try to get in by a login: each is refused, with the status that says so.

use super::site::{ORIGIN, Site, get, parameter, post_form, query, redemption};
use crate::harness::comes_true;
use serde_json::json;
use url::Url;

const REDIRECT: &str = "https://claude.ai/api/mcp/auth_callback";

#[tokio::test]
async fn a_code_that_is_shown_on_two_pods_at_once_is_used_once_and_then_ends_what_it_gave() {
    let site = Site::three();
    let client = site.client(REDIRECT).await;
    let code = site.code("carol", &client, REDIRECT).await;
    let (one, two, three) = tokio::join!(
        site.redeem(0, &client, REDIRECT, &code),
        site.redeem(1, &client, REDIRECT, &code),
        site.redeem(2, &client, REDIRECT, &code),
    );
    let replies = [one, two, three];
    let given: Vec<_> = replies.iter().filter(|reply| reply.status == 200).collect();
    assert!(given.len() <= 1, "{:?}", replies.each_ref().map(|reply| reply.status));
    for refused in replies.iter().filter(|reply| reply.status != 200) {
        assert_eq!((refused.status, &refused.json()["error"]), (400, &json!("invalid_grant")));
    }
    for tokens in given {
        let tokens = tokens.json();
        let (access, refresh) =
            (tokens["access_token"].as_str().unwrap(), tokens["refresh_token"].as_str().unwrap());
        for pod in 0..3 {
            comes_true("dead on every pod", || async { site.calls(pod, access).await == 401 }).await;
            assert_eq!(site.renew(pod, &client, refresh).await.status, 400);
        }
    }
}

#[tokio::test]
async fn a_code_is_for_its_client_its_address_and_its_verifier() {
    let site = Site::three();
    let (client, other) = (site.client(REDIRECT).await, site.client("http://localhost/cb").await);
    let code = site.code("carol", &client, REDIRECT).await;
    let form = |name: &'static str, value: &str| {
        let mut form =
            redemption(&client, REDIRECT, &code).map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec();
        form.iter_mut().filter(|(n, _)| n == name).for_each(|(_, v)| *v = value.to_owned());
        form
    };
    let long = "x".repeat(64);
    let table = [
        ("client_id", other.as_str(), 400, "invalid_grant"),
        ("client_id", "never-registered", 401, "invalid_client"),
        ("redirect_uri", "https://claude.com/api/mcp/auth_callback", 400, "invalid_grant"),
        ("redirect_uri", "https://claude.ai/api/mcp/auth_callback/", 400, "invalid_grant"),
        ("code_verifier", long.as_str(), 400, "invalid_grant"),
        ("code_verifier", "", 400, "invalid_request"),
        ("code", "none", 400, "invalid_grant"),
        ("grant_type", "password", 400, "unsupported_grant_type"),
    ];
    for (name, value, status, error) in table {
        let form = form(name, value);
        let form: Vec<_> = form.iter().map(|(name, value)| (&**name, &**value)).collect();
        let reply = site.token(1, &form).await;
        assert_eq!((reply.status, &reply.json()["error"]), (status, &json!(error)), "{name}={value}");
    }
    // None of these used it up.
    assert_eq!(site.redeem(2, &client, REDIRECT, &code).await.status, 200);
}

#[tokio::test]
async fn an_address_that_was_not_registered_gets_no_answer_at_all() {
    let site = Site::alone(json!({}));
    let client = site.client(REDIRECT).await;
    let tricks = [
        "https://evil.example/cb",
        "https://claude.ai/api/mcp/auth_callback/",
        "https://claude.ai/api/mcp/auth_callback?x=1",
        "https://claude.ai/api/mcp/auth_callback#x",
        "https://claude.ai/api/mcp/../mcp/auth_callback",
        "https://claude.ai:443/api/mcp/auth_callback",
        "https://CLAUDE.ai/api/mcp/auth_callback",
        "https://claude.ai@evil.example/api/mcp/auth_callback",
        "https://claude.ai\\@evil.example/",
        "http://claude.ai/api/mcp/auth_callback",
        "http://localhost/api/mcp/auth_callback",
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example/cb",
    ];
    for redirect in tricks {
        let reply = get(site.at(0), &format!("/authorize?{}", query(&client, redirect, &[])), &[]).await;
        assert_eq!((reply.status, reply.answer.header("location")), (400, None), "{redirect}");
        assert!(!reply.text.contains("evil.example"), "{redirect}");
    }
    let twice = format!("{}&redirect_uri=https%3A%2F%2Fevil.example", query(&client, REDIRECT, &[]));
    assert_eq!(get(site.at(0), &format!("/authorize?{twice}"), &[]).await.status, 400);
    let registered = [
        "https://evil.example/cb",
        "http://evil.example/cb",
        "javascript:alert(1)",
        "cursor://anysphere.cursor-mcp/oauth/callback2",
        "myapp://callback",
        "https://claude.ai/api/mcp/auth_callback#x",
    ];
    for redirect in registered {
        let reply = site.register(json!({ "redirect_uris": [REDIRECT, redirect] })).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]),
            (400, &json!("invalid_redirect_uri")),
            "{redirect}"
        );
        assert!(!reply.text.contains("evil"), "{redirect}");
    }
}

#[tokio::test]
async fn a_request_that_is_wrong_is_told_to_the_client_with_whose_answer_it_is() {
    let site = Site::alone(json!({}));
    let client = site.client("http://127.0.0.1/callback").await;
    let redirect = "http://127.0.0.1:5/callback";
    let plain = "0123456789-0123456789-0123456789-0123456789";
    let table: [(&[(&str, &str)], &str); 12] = [
        (&[("response_type", "token")], "unsupported_response_type"),
        (&[("response_type", "")], "invalid_request"),
        (&[("code_challenge", "")], "invalid_request"),
        (&[("code_challenge_method", "")], "invalid_request"),
        (&[("code_challenge_method", "plain"), ("code_challenge", plain)], "invalid_request"),
        (&[("code_challenge", "short")], "invalid_request"),
        (&[("resource", "https://evil.example/mcp")], "invalid_target"),
        (&[("resource", "https://mcp.example.com/mcp/none")], "invalid_target"),
        (&[("response_mode", "fragment")], "invalid_request"),
        (&[("request", "x")], "request_not_supported"),
        (&[("request_uri", "https://evil.example/r")], "request_uri_not_supported"),
        (&[("prompt", "none")], "interaction_required"),
    ];
    for (wrong, error) in table {
        let reply = get(site.at(0), &format!("/authorize?{}", query(&client, redirect, wrong)), &[]).await;
        assert_eq!(reply.status, 303, "{wrong:?}: {}", reply.text);
        let back = Url::parse(reply.location()).expect("a URL");
        assert!(back.as_str().starts_with("http://127.0.0.1:5/callback?"), "{back}");
        assert_eq!(parameter(&back, "error").as_deref(), Some(error), "{wrong:?}");
        assert_eq!(parameter(&back, "iss").as_deref(), Some(ORIGIN), "{wrong:?}");
        assert_eq!(parameter(&back, "state").as_deref(), Some("s t&=ate"), "{wrong:?}");
    }
}

#[tokio::test]
async fn an_open_policy_admits_strangers_and_sends_no_browser_to_them_unasked() {
    let site = Site::alone(json!({ "redirects": "open" }));
    let redirect = "https://stranger.example/cb";
    let client = site.client(redirect).await;
    let wrong = query(&client, redirect, &[("response_type", "token")]);
    let reply = get(site.at(0), &format!("/authorize?{wrong}"), &[]).await;
    assert_eq!((reply.status, reply.answer.header("location")), (400, None));
    let mut browser = site.browser(0, "carol");
    let page = browser.log_in(&query(&client, redirect, &[])).await;
    assert!(page.text.contains("not one of a known app"), "{}", page.text);
    assert_eq!(browser.decide(&page, "allow").await.onward().host_str(), Some("stranger.example"));
    for bad in ["http://stranger.example/cb", "javascript:alert(1)", "app://x", "https://10.0.0.1/cb"] {
        assert_eq!(site.register(json!({ "redirect_uris": [bad] })).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_consent_that_its_person_did_not_give_counts_for_nothing() {
    let site = Site::three();
    let client = site.client(REDIRECT).await;
    let (mut carol, mut mallory) = (site.browser(0, "carol"), site.browser(1, "mallory"));
    let page = carol.log_in(&query(&client, REDIRECT, &[])).await;
    let foreign = mallory.log_in(&query(&client, REDIRECT, &[])).await;
    let (ticket, theirs) = (page.field("ticket"), foreign.field("ticket"));
    let policy = page.answer.header("content-security-policy").expect("a policy");
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"), "{policy}");
    assert!(!policy.contains("script-src") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.answer.header("x-frame-options"), Some("DENY"));
    let allow = |ticket: &str| {
        vec![("ticket".to_owned(), ticket.to_owned()), ("decision".to_owned(), "allow".to_owned())]
    };
    type Sent = (&'static str, Vec<(String, String)>, &'static [(&'static str, &'static str)]);
    let table: [Sent; 6] = [
        ("none", vec![("decision".to_owned(), "allow".to_owned())], &[]),
        ("invented", allow("AAAA"), &[]),
        ("another person's", allow(&theirs), &[]),
        ("another form's", allow(&page.field("csrf")), &[]),
        ("of a foreign page", allow(&ticket), &[("origin", "https://evil.example")]),
        ("sent from elsewhere", allow(&ticket), &[("sec-fetch-site", "cross-site")]),
    ];
    for (what, form, headers) in table {
        let form: Vec<_> = form.iter().map(|(name, value)| (&**name, &**value)).collect();
        let reply = carol.post("/authorize", &form, headers).await;
        assert_eq!(reply.status, 403, "{what}: {}", reply.text);
        assert!(!reply.text.contains("code="), "{what}");
    }
    // Without her cookies it is nobody's; and on another pod it is still hers.
    let form = [("ticket", ticket.as_str()), ("decision", "allow")];
    assert_eq!(post_form(site.at(0), "/authorize", &[], &form).await.status, 403);
    carol.pod = site.at(2);
    assert_eq!(carol.post("/authorize", &form, &[("origin", ORIGIN)]).await.status, 200);
}

#[tokio::test]
async fn a_login_that_another_browser_began_or_that_the_provider_did_not_give_is_none() {
    let site = Site::three();
    let client = site.client(REDIRECT).await;
    let path = format!("/authorize?{}", query(&client, REDIRECT, &[]));
    let mut carol = site.browser(0, "carol");
    let away = carol.get(&path).await;
    let callback = carol.at_provider(away.location()).await;
    let mut mallory = site.browser(1, "mallory");
    assert_eq!(mallory.get(&callback).await.status, 403, "of another browser");
    let mut again = site.browser(0, "carol");
    let away = again.get(&path).await;
    let callback = again.at_provider(away.location()).await;
    again.pod = site.at(1);
    assert_eq!(again.get(&callback).await.status, 303, "on another pod");
    assert_eq!(again.get(&callback).await.status, 403, "once only");
    for user in [
        "denied",
        "mixed-up",
        "wrong-issuer",
        "wrong-audience",
        "wrong-nonce",
        "wrong-key",
        "too-old",
        "unsigned",
    ] {
        let mut browser = site.browser(0, user);
        let away = browser.get(&path).await;
        let callback = browser.at_provider(away.location()).await;
        let reply = browser.get(&callback).await;
        assert_eq!(reply.status, 403, "{user}: {}", reply.text);
        assert_eq!(browser.get(&path).await.status, 303, "{user} is not logged in");
    }
}

#[tokio::test]
async fn a_document_that_lies_inside_is_not_read() {
    let site = Site::alone(json!({}));
    for id in [
        "https://127.0.0.1/client.json",
        "https://127.0.0.1:1/client.json",
        "https://localhost/client.json",
        "https://[::1]/client.json",
        "https://[::ffff:127.0.0.1]/client.json",
        "https://10.0.0.1/client.json",
        "https://169.254.169.254/latest/meta-data",
        "https://metadata.internal./x/../client.json",
        "http://app.example/client.json",
        "file:///etc/passwd",
    ] {
        let reply = get(site.at(0), &format!("/authorize?{}", query(id, REDIRECT, &[])), &[]).await;
        assert_eq!((reply.status, reply.answer.header("location")), (400, None), "{id}: {}", reply.text);
    }
}
