//! Credentials for upstreams: the gateway's own, and accounts that its callers connect, against an upstream that lets nobody in
//! without a token and an authorisation server beside it.

mod people;
mod provider;

use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;

use futures_util::future::join_all;
use provider::{Provider, browse};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::auth::issuer::Issuer;
use crate::auth::{self, RESOURCE, bearer};
use crate::gateway::Gateway;
use crate::gateway::legacy::Legacy;
use crate::gateway::modern::Modern;
use crate::store::redis::server::Server;

const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

fn shared(redis: &Server, upstreams: Value) -> (Value, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let key: PathBuf = folder.path().join("key");
    std::fs::write(&key, KEY).expect("the folder takes a key");
    let config = json!({
        "store": { "redis_url": redis.url() },
        "sealing": { "keys": [{ "file": key }] },
        "upstreams": upstreams,
    });
    (config, folder)
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_default()
}

/// Where a result says that its caller connects.
fn link(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    let facts = &result["_meta"]["plasm/error"];
    assert_eq!(facts["reason"], "connect_required", "{result}");
    facts["url"].as_str().expect("a link")
}

#[tokio::test]
async fn the_gateways_own_token_is_asked_for_once_on_all_pods_and_again_where_it_is_refused() {
    let (provider, redis) = (Provider::start().await, Server::start(&[]));
    let auth = json!({
        "kind": "client_credentials", "token_url": provider.at("/token"), "client_id": "gw", "client_secret": "s3cret",
        "scopes": ["a", "b"],
    });
    let (config, _folder) = shared(&redis, json!({ "up": { "url": provider.at("/mcp"), "auth": auth } }));
    let pods = [(); 3].map(|()| Gateway::start(config.clone()));
    let clients: Vec<_> = pods.iter().map(Gateway::modern).collect();
    let calls = (0..20).map(|n| clients[n % 3].call("whoami", json!({})));
    for result in join_all(calls).await {
        assert_eq!(text(&result), "client gw", "{result}");
    }
    let asked = provider.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((&*asked[0]["grant_type"], &*asked[0]["scope"]), ("client_credentials", "a b"));
    assert!(asked[0]["authorization"].starts_with("Basic "), "{asked:?}");
    provider.forget_tokens();
    let calls = (0..20).map(|n| clients[n % 3].call("whoami", json!({})));
    for result in join_all(calls).await {
        assert_eq!(text(&result), "client gw", "{result}");
    }
    assert_eq!(provider.asked().len(), 2);
}

#[tokio::test]
async fn a_refused_credential_of_the_gateways_is_said_to_be_its_own_and_never_a_401() {
    let provider = Provider::start().await;
    let auth = json!({
        "kind": "client_credentials", "token_url": provider.at("/token"), "client_id": "gw", "client_secret": "wrong",
    });
    let gateway =
        Gateway::start(json!({ "upstreams": { "up": { "url": provider.at("/mcp"), "auth": auth } } }));
    let result = gateway.modern().call("whoami", json!({})).await;
    assert_eq!(result["isError"], true);
    assert_eq!(result["_meta"]["plasm/error"]["reason"], "upstream_credential");
    assert!(!gateway.log().contains("wrong"), "a secret stands in the log");
}

#[tokio::test]
async fn an_account_is_connected_by_a_link_that_is_used_once_and_in_one_browser() {
    let provider = Provider::start().await;
    let auth = json!({ "kind": "oauth" });
    let gateway =
        Gateway::start(json!({ "upstreams": { "up": { "url": provider.at("/mcp"), "auth": auth } } }));
    let client = gateway.modern();
    let listed = client.result("tools/list", json!({})).await;
    assert_eq!(listed["tools"][0]["name"], "plasm_connect", "{listed}");
    assert_eq!((&listed["ttlMs"], &listed["cacheScope"]), (&json!(0), &json!("private")));
    let url = link(&client.call("plasm_connect", json!({})).await).to_owned();
    assert!(!url.contains(&provider.address.to_string()), "{url}");

    // Somebody else's browser begins nothing with the first one's page, and uses nothing up.
    let mut browser = browse();
    let page = browser.open(&url).await;
    let on = page.link("/connect/begin").expect("a way on");
    assert_eq!(browse().open(&on).await.status, 403);
    assert_eq!(provider.seen("/authorize"), 0, "the third party is asked nothing before");
    let done = browser.open(&on).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(browser.open(&on).await.status, 403, "the link was used");

    assert_eq!(text(&client.call("whoami", json!({})).await), "user one");
    let listed = client.result("tools/list", json!({})).await;
    assert_eq!(listed["tools"][0]["name"], "whoami");
    assert_eq!((&listed["ttlMs"], &listed["cacheScope"]), (&json!(0), &json!("private")));
    let asked = provider.authorised();
    assert_eq!(asked["resource"], provider.at("/mcp"));
    assert_eq!((&*asked["code_challenge_method"], &*asked["scope"]), ("S256", "mcp"));
    assert_eq!(
        text(&client.call("plasm_connect", json!({})).await),
        "The account at up is connected; list the tools again."
    );
}

#[tokio::test]
async fn a_client_that_opens_links_is_asked_by_url_elicitation_in_either_era_and_once() {
    let provider = Provider::start().await;
    let auth = json!({ "kind": "oauth" });
    let gateway =
        Gateway::start(json!({ "upstreams": { "up": { "url": provider.at("/mcp"), "auth": auth } } }));
    let capabilities = json!({ "elicitation": { "url": {} } });
    let modern = Modern::new(gateway.address, "/mcp", capabilities.clone());
    let asked = modern.call("whoami", json!({})).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (key, ask) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!((&ask["method"], &ask["params"]["mode"]), (&json!("elicitation/create"), &json!("url")));
    let retry = json!({
        "name": "whoami", "arguments": {}, "requestState": asked["requestState"],
        "inputResponses": { key: { "action": "accept" } },
    });
    // Whoever comes back too soon is not asked again and again.
    link(&modern.result("tools/call", retry.clone()).await);
    browse().through(ask["params"]["url"].as_str().unwrap()).await;
    let answer = modern.result("tools/call", retry).await;
    assert_eq!(text(&answer), "user one", "{answer}");

    provider.revoke_everything();
    let legacy = Legacy::begin(gateway.address, "/mcp", "2025-11-25", capabilities).await;
    let error = legacy.error("tools/call", json!({ "name": "whoami", "arguments": {} })).await;
    assert_eq!(error["code"], -32042, "{error}");
    let elicitation = &error["data"]["elicitations"][0];
    assert_eq!(elicitation["mode"], "url");
    browse().through(elicitation["url"].as_str().unwrap()).await;
    assert_eq!(text(&legacy.call("whoami", json!({})).await), "user one");
}

/// B096: the upstream's token expired; 20 parallel calls over 3 pods.
#[tokio::test]
async fn b096_one_pod_renews_a_token_for_all_calls_on_all_pods() {
    let (provider, redis) = (Provider::start().await, Server::start(&[]));
    let auth = json!({ "kind": "oauth" });
    let (config, _folder) = shared(&redis, json!({ "up": { "url": provider.at("/mcp"), "auth": auth } }));
    let pods = [(); 3].map(|()| Gateway::start(config.clone()));
    let clients: Vec<_> = pods.iter().map(Gateway::modern).collect();
    let url = link(&clients[0].call("whoami", json!({})).await).to_owned();
    // The link was made by one pod, and is good on any.
    let url = url.replace(&pods[0].address.to_string(), &pods[1].address.to_string());
    browse().through(&url).await;
    for client in &clients {
        assert_eq!(text(&client.call("whoami", json!({})).await), "user one");
    }
    for round in 1..=2 {
        provider.expire_tokens();
        let calls = (0..20).map(|n| clients[n % 3].call("whoami", json!({})));
        for result in join_all(calls).await {
            assert_eq!(text(&result), "user one", "{result}");
        }
        assert_eq!(provider.refreshes.load(SeqCst), round, "one renewal a round");
    }
}

/// B098: the account was revoked at the provider.
#[tokio::test]
async fn b098_a_revoked_account_is_to_be_connected_anew_and_told_from_our_own_credential() {
    let provider = Provider::start().await;
    let auth = json!({ "kind": "oauth" });
    let gateway =
        Gateway::start(json!({ "upstreams": { "up": { "url": provider.at("/mcp"), "auth": auth } } }));
    let client = gateway.modern();
    let url = link(&client.call("whoami", json!({})).await).to_owned();
    browse().through(&url).await;
    assert_eq!(text(&client.call("whoami", json!({})).await), "user one");
    provider.revoke_everything();
    let mut answer = client.send("1", "tools/call", r#"{"name":"whoami","arguments":{}}"#).await;
    assert_eq!((answer.status, answer.header("www-authenticate")), (200, None));
    let again = link(&answer.answer().await["result"]).to_owned();
    assert_ne!(again, url);
    browse().through(&again).await;
    assert_eq!(text(&client.call("whoami", json!({})).await), "user one");
}

#[tokio::test]
async fn what_an_upstream_names_is_not_fetched_where_it_leads_inside() {
    let (provider, inside) = (Provider::start().await, Provider::start().await);
    provider.name_server(&inside.at(""));
    let auth = json!({ "kind": "oauth" });
    let upstreams = json!({ "up": { "url": provider.at("/mcp"), "auth": auth } });
    let gateway = Gateway::start(json!({ "upstreams": upstreams }));
    let client = gateway.modern();
    let url = link(&client.call("whoami", json!({})).await).to_owned();
    let page = browse().open_all(&url).await;
    assert_eq!(page.status, 502, "{}", page.text);
    assert_eq!(inside.seen(""), 0, "nothing was asked of an address inside");

    let admitted = Gateway::start(json!({ "upstreams": upstreams, "egress": { "inside": ["127.0.0.0/8"] } }));
    let url = link(&admitted.modern().call("whoami", json!({})).await).to_owned();
    browse().open_all(&url).await;
    assert!(inside.seen("") > 0);
}

#[tokio::test]
async fn an_answer_of_another_server_than_was_asked_connects_nothing() {
    for issuer in [Some("https://evil.example"), None] {
        let provider = Provider::start().await;
        provider.answer_as(issuer);
        let auth = json!({ "kind": "oauth" });
        let gateway =
            Gateway::start(json!({ "upstreams": { "up": { "url": provider.at("/mcp"), "auth": auth } } }));
        let client = gateway.modern();
        let url = link(&client.call("whoami", json!({})).await).to_owned();
        let page = browse().open_all(&url).await;
        assert_eq!(page.status, 403, "{}", page.text);
        assert!(provider.asked().is_empty(), "no code was shown to anyone");
        link(&client.call("whoami", json!({})).await);
    }
}

/// What a caller with this token is told by the upstream.
async fn asked_as(client: &Modern, token: &str, tool: &str) -> Value {
    let authorization = bearer(token);
    let params = format!(r#"{{"name":"{tool}","arguments":{{}}}}"#);
    let mut answer = client.send_with("1", "tools/call", &params, &[("authorization", &authorization)]).await;
    assert_eq!(answer.status, 200);
    answer.answer().await["result"].clone()
}

#[tokio::test]
async fn a_callers_token_is_exchanged_where_the_configuration_says_and_never_goes_upstream() {
    let (provider, issuer) = (Provider::start().await, Issuer::start("ES256").await);
    let credential = json!({
        "kind": "token_exchange", "token_url": provider.at("/token"), "client_id": "gw", "client_secret": "s3cret",
        "audience": "crm",
    });
    let upstreams = json!({ "up": { "url": provider.at("/mcp"), "auth": credential } });
    let gateway = Gateway::start(auth::config(&issuer, json!({ "upstreams": upstreams })));
    let client = gateway.modern();
    let (ann, bob) = (issuer.token(RESOURCE, "ann"), issuer.token(RESOURCE, "bob"));
    for (token, who) in [(&ann, "for ann"), (&bob, "for bob"), (&ann, "for ann"), (&bob, "for bob")] {
        assert_eq!(text(&asked_as(&client, token, "whoami").await), who);
    }
    let asked = provider.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    for (asked, token) in asked.iter().zip([&ann, &bob]) {
        assert_eq!((&asked["subject_token"], &*asked["audience"]), (token, "crm"));
    }
    let shown = provider.shown();
    assert!(!shown.is_empty() && !shown.contains(&ann) && !shown.contains(&bob), "{shown:?}");
    let log = gateway.log();
    assert!([&ann, &bob].iter().all(|token| !log.contains(*token)), "a caller's token stands in the log");
}

#[tokio::test]
async fn a_session_upstream_is_of_one_account_also_where_its_caller_connects_another() {
    let provider = Provider::start().await;
    provider.speak_legacy();
    let auth = json!({ "kind": "oauth" });
    let gateway =
        Gateway::start(json!({ "upstreams": { "up": { "url": provider.at("/mcp"), "auth": auth } } }));
    let client = gateway.legacy("2025-11-25").await;
    for user in ["user one", "user two"] {
        provider.log_in_as(user);
        let url = link(&client.call("whoami", json!({})).await).to_owned();
        browse().through(&url).await;
        assert_eq!(text(&client.call("whoami", json!({})).await), user);
        provider.revoke_everything();
    }
    assert_eq!(provider.mixed(), 0);
}

#[tokio::test]
async fn among_several_a_call_of_an_account_that_is_not_connected_leads_to_its_link_whatever_tools_are_admitted()
 {
    let (provider, other) = (Provider::start().await, Provider::start().await);
    let own = json!({
        "kind": "client_credentials", "token_url": other.at("/token"), "client_id": "gw", "client_secret": "s3cret",
    });
    let gateway = Gateway::start(json!({
        "upstreams": {
            "up": { "url": provider.at("/mcp"), "auth": { "kind": "oauth" } },
            "other": { "url": other.at("/mcp"), "auth": own },
        },
        "profiles": { "default": { "tools": { "allow": ["up__whoami"] } } },
    }));
    let client = gateway.modern();
    let names = async || {
        let listed = client.result("tools/list", json!({})).await;
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].to_string()).collect::<Vec<_>>()
    };
    // A client that knows the tool from before calls it first.
    let url = link(&client.call("up__whoami", json!({})).await).to_owned();
    assert_eq!(names().await, ["\"up__plasm_connect\""]);
    browse().through(&url).await;
    assert_eq!(text(&client.call("up__whoami", json!({})).await), "user one");
    assert_eq!(names().await, ["\"up__whoami\""]);
}

/// B018: a session begun on one pod, whose upstream needs each user's own account, goes on on another.
#[tokio::test]
async fn b018_a_session_sees_its_users_tools_on_every_pod() {
    let (provider, redis) = (Provider::start().await, Server::start(&[]));
    provider.speak_legacy();
    let auth = json!({ "kind": "oauth" });
    let (config, _folder) = shared(&redis, json!({ "up": { "url": provider.at("/mcp"), "auth": auth } }));
    let pods = [(); 2].map(|()| Gateway::start(config.clone()));
    let here = pods[0].legacy("2025-11-25").await;
    let url = link(&here.call("whoami", json!({})).await).to_owned();
    browse().through(&url).await;
    let mut there = Legacy::without_session(pods[1].address, "/mcp", Some("2025-11-25"));
    there.session = here.session.clone();
    let (ours, theirs) =
        (here.result("tools/list", json!({})).await, there.result("tools/list", json!({})).await);
    assert_eq!(ours["tools"][0]["name"], "whoami", "{ours}");
    assert_eq!(ours, theirs);
    assert_eq!(text(&there.call("whoami", json!({})).await), "user one");
}
