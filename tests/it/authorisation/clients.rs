//! Clients as they were recorded: their registrations, their addresses, through consent to calls.

use super::site::{ORIGIN, RESOURCE, Site, get, parameter, post_form, query, redemption};
use serde_json::{Value, json};

/// Registration bodies, and the address that the client then asks with.
const CLIENTS: [(&str, &str, &str); 11] = [
    ("claude", include_str!("bodies/claude.json"), "https://claude.ai/api/mcp/auth_callback"),
    ("claude-code", include_str!("bodies/claude-code.json"), "http://localhost:54545/callback"),
    ("cursor", include_str!("bodies/cursor.json"), "cursor://anysphere.cursor-mcp/oauth/callback"),
    ("cursor-agents", include_str!("bodies/cursor.json"), "https://www.cursor.com/agents/mcp/oauth/callback"),
    ("vscode", include_str!("bodies/vscode.json"), "http://127.0.0.1:59656/"),
    ("vscode-web", include_str!("bodies/vscode.json"), "https://vscode.dev/redirect"),
    ("chatgpt", include_str!("bodies/chatgpt.json"), "https://chatgpt.com/connector_platform_oauth_redirect"),
    ("codex", include_str!("bodies/codex.json"), "http://127.0.0.1:43210/callback/x7"),
    ("opencode", include_str!("bodies/opencode.json"), "http://127.0.0.1:19876/mcp/oauth/callback"),
    ("inspector", include_str!("bodies/inspector.json"), "http://localhost:6274/oauth/callback"),
    ("mcp-remote", include_str!("bodies/mcp-remote.json"), "http://localhost:3334/oauth/callback"),
];

#[tokio::test]
async fn b105_each_client_logs_in_as_it_does_and_calls() {
    let site = Site::alone(json!({}));
    for (name, body, redirect) in CLIENTS {
        let body: Value = serde_json::from_str(body).expect("a recorded body");
        let registered = site.register(body.clone()).await;
        assert_eq!(registered.status, 201, "{name}: {}", registered.text);
        let registered = registered.json();
        assert_eq!(registered["redirect_uris"], body["redirect_uris"], "{name}");
        let client = registered["client_id"].as_str().expect("an id");
        let mut browser = site.browser(0, "carol");
        let page = browser.log_in(&query(client, redirect, &[])).await;
        assert_eq!(page.status, 200, "{name}: {}", page.text);
        let shown = super::site::plain(&page.text);
        let title = body["client_name"].as_str().expect("a name");
        for told in [title, RESOURCE, "tools:read", "carol@example.com"] {
            assert!(shown.contains(told), "{name}: {told}");
        }
        let kept = body["redirect_uris"].as_array().expect("a list").iter().filter_map(Value::as_str);
        assert!(
            kept.into_iter().any(|address| shown.contains(address)),
            "{name}: no registered address is shown"
        );
        let done = browser.decide(&page, "allow").await.onward();
        assert!(done.as_str().starts_with(redirect), "{name}: {done}");
        assert_eq!(parameter(&done, "state").as_deref(), Some("s t&=ate"), "{name}");
        assert_eq!(parameter(&done, "iss").as_deref(), Some(ORIGIN), "{name}");
        let code = parameter(&done, "code").expect("a code");
        let mut form = redemption(client, redirect, &code).to_vec();
        let secret = registered["client_secret"].as_str().unwrap_or_default().to_owned();
        form.push(("client_secret", &secret));
        let tokens = site.token(0, &form).await;
        assert_eq!(tokens.status, 200, "{name}: {}", tokens.text);
        assert_eq!(tokens.answer.header("cache-control"), Some("no-store"));
        let tokens = tokens.json();
        assert_eq!(
            (&tokens["token_type"], &tokens["scope"]),
            (&json!("Bearer"), &json!("tools:read")),
            "{name}"
        );
        assert!(tokens["refresh_token"].is_string(), "{name}");
        let token = tokens["access_token"].as_str().expect("a token");
        assert_eq!(site.calls(0, token).await, 200, "{name}");
        let dev = crate::auth::list_as(&site.pods[0], "/mcp/dev", token).await.status;
        assert_eq!(dev, 401, "{name}: a token is for one profile");
    }
}

#[tokio::test]
async fn what_a_person_does_not_allow_is_told_to_the_client_with_whose_answer_it_is() {
    let site = Site::alone(json!({}));
    let client = site.client("http://127.0.0.1/callback/").await;
    let mut browser = site.browser(0, "carol");
    let page = browser.log_in(&query(&client, "http://127.0.0.1:7/callback/", &[])).await;
    let done = browser.decide(&page, "deny").await.onward();
    assert_eq!(parameter(&done, "error").as_deref(), Some("access_denied"));
    assert_eq!(parameter(&done, "iss").as_deref(), Some(ORIGIN));
    assert_eq!(parameter(&done, "code"), None);
}

#[tokio::test]
async fn b104_b088_metadata_says_what_clients_look_for_and_is_read_from_anywhere() {
    let site = Site::alone(json!({}));
    let paths = [
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-authorization-server/mcp",
        "/.well-known/openid-configuration",
    ];
    for path in paths {
        let reply = get(site.at(0), path, &[("origin", "https://any.example")]).await;
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.answer.header("access-control-allow-origin"), Some("*"), "{path}");
        let metadata = reply.json();
        assert_eq!(metadata["issuer"], ORIGIN);
        assert_eq!(metadata["client_id_metadata_document_supported"], true);
        assert_eq!(metadata["authorization_response_iss_parameter_supported"], true);
        assert_eq!(metadata["code_challenge_methods_supported"], json!(["S256"]));
        assert!(
            metadata["token_endpoint_auth_methods_supported"].as_array().unwrap().contains(&json!("none"))
        );
        assert!(metadata["scopes_supported"].as_array().unwrap().contains(&json!("offline_access")));
    }
    let keys = get(site.at(0), "/jwks.json", &[]).await.json();
    assert_eq!((&keys["keys"][0]["kty"], keys["keys"][0].get("d")), (&json!("OKP"), None));
    let options = [("origin", "https://any.example"), ("access-control-request-method", "POST")];
    let preflight = super::site::sent(site.at(0), "OPTIONS", "/token", &options, String::new()).await;
    assert_eq!((preflight.status, preflight.answer.header("access-control-allow-origin")), (204, Some("*")));
    let page = get(site.at(0), "/authorize", &[("origin", "https://any.example")]).await;
    assert_eq!((page.status, page.answer.header("access-control-allow-origin")), (403, None));
}

#[tokio::test]
async fn without_our_server_nothing_of_it_is_there() {
    let gateway = crate::gateway::Gateway::demo(json!({}));
    for path in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/authorize",
        "/token",
        "/register",
        "/revoke",
        "/jwks.json",
        "/login/callback",
        "/account",
        "/logout",
    ] {
        let answer = crate::gateway::exchange::request(gateway.address, "GET", path, &[], "").await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

#[tokio::test]
async fn b129_a_secret_is_shown_by_either_way_and_a_token_is_ended_by_its_client() {
    let site = Site::alone(json!({}));
    let redirect = "https://claude.ai/api/mcp/auth_callback";
    let registered = site.register(json!({ "redirect_uris": [redirect] })).await.json();
    assert_eq!(registered["token_endpoint_auth_method"], "client_secret_basic");
    let (id, secret) =
        (registered["client_id"].as_str().unwrap(), registered["client_secret"].as_str().unwrap());
    let basic = {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(format!("{id}:{secret}"));
        format!("Basic {text}")
    };
    let code = site.code("carol", id, redirect).await;
    let form = &redemption(id, redirect, &code)[2..];
    let form = [&[("grant_type", "authorization_code")], form].concat();
    let without = post_form(site.at(0), "/token", &[], &form).await;
    assert_eq!((without.status, without.answer.header("www-authenticate").is_some()), (401, true));
    let tokens = post_form(site.at(0), "/token", &[("authorization", &basic)], &form).await;
    assert_eq!(tokens.status, 200, "{}", tokens.text);
    let (access, refresh) = (tokens.json()["access_token"].clone(), tokens.json()["refresh_token"].clone());
    let (access, refresh) = (access.as_str().unwrap(), refresh.as_str().unwrap());
    assert_eq!(site.calls(0, access).await, 200);
    let foreign = site.client("http://localhost/cb").await;
    let by = |client: &str, token: &str| {
        let form = [("client_id".to_owned(), client.to_owned()), ("token".to_owned(), token.to_owned())];
        let at = site.at(0);
        async move {
            let form: Vec<_> = form.iter().map(|(name, value)| (&**name, &**value)).collect();
            post_form(at, "/revoke", &[], &form).await.status
        }
    };
    assert_eq!(by(&foreign, refresh).await, 200, "nothing is told of tokens of others");
    assert_eq!(site.calls(0, access).await, 200, "and nothing of them is ended");
    let ended = post_form(site.at(0), "/revoke", &[("authorization", &basic)], &[("token", refresh)]).await;
    assert_eq!(ended.status, 200);
    assert_eq!(site.calls(0, access).await, 401);
}
