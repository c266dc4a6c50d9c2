//! What callers may use, and what is said to those who use more: on one pod, and on several over one store.

mod line;
mod proofs;

use crate::gateway::exchange::Answer;
use crate::gateway::{Gateway, exchange};
use crate::harness::comes_true;
use crate::store::redis::server::Server;
use plasm_mcp::auth::api_key;
use serde_json::{Map, Value, json};

const ECHO: &str = r#"{"name":"echo","arguments":{"text":"x"}}"#;

/// Keys of machines, each of a tenant of its own name, and the configuration that knows them.
struct Keys {
    keys: Vec<(&'static str, String)>,
    config: Value,
}

impl Keys {
    fn new(tenants: &[&'static str], more: Value) -> Keys {
        let keys: Vec<_> = tenants.iter().map(|tenant| (*tenant, api_key::mint(tenant))).collect();
        let entry = |(tenant, key): &(&str, String)| {
            let (_, hash) = api_key::hash(key).expect("a key");
            ((*tenant).to_owned(), json!({ "hash": hash, "tenant": tenant }))
        };
        let entries: Map<String, Value> = keys.iter().map(entry).collect();
        let mut config = json!({ "public_url": "https://mcp.example.com", "auth": { "api_keys": entries } });
        let Value::Object(more) = more else { panic!("more settings are a map") };
        config.as_object_mut().expect("a map").extend(more);
        Keys { keys, config }
    }

    fn bearer(&self, tenant: &str) -> String {
        let (_, key) = self.keys.iter().find(|(of, _)| *of == tenant).expect("a key of this tenant");
        format!("Bearer {key}")
    }

    async fn call(&self, gateway: &Gateway, tenant: &str) -> Answer {
        let authorization = self.bearer(tenant);
        gateway.modern().send_with("1", "tools/call", ECHO, &[("authorization", &authorization)]).await
    }
}

/// A refusal by a limit: what PROTOCOL's table says of it.
async fn too_many(mut answer: Answer) -> Answer {
    assert_eq!(answer.status, 429);
    let after: u64 = answer.header("retry-after").expect("it says when").parse().expect("seconds");
    assert!(after >= 1, "{after}");
    let message = answer.json().await;
    assert_eq!(message["error"]["code"], 429, "{message}");
    assert!(message.get("id").is_none_or(Value::is_null), "{message}");
    answer
}

#[tokio::test]
async fn who_has_used_up_a_limit_is_told_when_there_is_more_and_nobody_else_is_refused() {
    let rates = json!({ "principal": { "call": "1/m burst 3" }, "tenant": { "all": "100/s" } });
    let keys = Keys::new(&["loud", "quiet"], json!({ "rates": rates }));
    let gateway = Gateway::demo(keys.config.clone());
    for left in [2, 1, 0] {
        let answer = keys.call(&gateway, "loud").await;
        assert_eq!(answer.status, 200);
        let policy = answer.header("ratelimit-policy");
        assert_eq!(policy, Some(r#""principal-call";q=3;w=180, "tenant";q=100;w=1"#));
        let said = answer.header("ratelimit").expect("what is left");
        assert!(said.starts_with(&format!(r#""principal-call";r={left};t="#)), "{said}");
    }
    let refused = too_many(keys.call(&gateway, "loud").await).await;
    assert_eq!(refused.header("ratelimit"), Some(r#""principal-call";r=0;t=180"#));
    assert_eq!(keys.call(&gateway, "quiet").await.status, 200);
    let authorization = keys.bearer("loud");
    let as_loud = [("authorization", &*authorization)];
    let listed = gateway.modern().send_with("1", "tools/list", "{}", &as_loud).await;
    assert_eq!(listed.status, 200, "another class has another limit");
    let counted = gateway.metric(r#"plasm_limited_total{class="call",limit="principal"}"#).await;
    assert_eq!(counted, 1.0);
    assert_eq!(gateway.metric(r#"plasm_limits_mode{mode="shared"}"#).await, 1.0);
}

#[tokio::test]
async fn a_legacy_client_is_refused_the_same_and_each_member_of_its_batch_counts() {
    let keys = Keys::new(&["a"], json!({ "rates": { "principal": { "call": "1/m burst 5" } } }));
    let gateway = Gateway::demo(keys.config.clone());
    let authorization = keys.bearer("a");
    let send = async |body: String| {
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-03-26"),
            ("authorization", &*authorization),
        ];
        gateway.request("POST", "/mcp", &headers, body).await
    };
    let call = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{ECHO}}}"#);
    let batch = |n: u32| format!("[{}]", (0..n).map(call).collect::<Vec<_>>().join(","));
    assert_eq!(send(batch(3)).await.status, 200);
    too_many(send(batch(3)).await).await;
    assert_eq!(send(batch(2)).await.status, 200, "a refused batch costs nothing");
    too_many(send(call(7)).await).await;
    let never = send(batch(6)).await;
    assert_eq!(never.status, 429, "more than can ever be had at once");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    assert_eq!(send(cancel.to_owned()).await.status, 202, "a cancel is never refused");
}

#[tokio::test]
async fn a_quota_of_a_day_and_a_profiles_own_limit_hold() {
    let more = json!({
        "quotas": { "tenant": 4 },
        "profiles": { "dev": { "rates": { "all": "1/h burst 2" } } },
    });
    let keys = Keys::new(&["a", "b"], more);
    let gateway = Gateway::demo(keys.config.clone());
    for n in 0..6 {
        let answer = keys.call(&gateway, "a").await;
        assert_eq!(answer.status, if n < 4 { 200 } else { 429 }, "{n}");
    }
    let answer = keys.call(&gateway, "b").await;
    assert!(answer.header("ratelimit-policy").is_some_and(|policy| policy == r#""tenant-day";q=4;w=86400"#));
    let dev = async || {
        let authorization = keys.bearer("b");
        let client = crate::gateway::modern::Modern::new(gateway.address, "/mcp/dev", json!({}));
        client.send_with("1", "tools/list", "{}", &[("authorization", &authorization)]).await.status
    };
    assert_eq!([dev().await, dev().await, dev().await], [200, 200, 429]);
}

#[tokio::test]
async fn calls_in_flight_are_bounded_and_come_back_when_they_end() {
    let keys = Keys::new(&["a", "b"], json!({ "concurrency": { "principal": 1 } }));
    let gateway = Gateway::demo(keys.config.clone());
    let client = gateway.modern();
    let long = r#"{"name":"countdown","arguments":{"from":100},"_meta":{"progressToken":1}}"#;
    let authorization = keys.bearer("a");
    let as_a = [("authorization", &*authorization)];
    let mut busy = client.send_with("1", "tools/call", long, &as_a).await;
    assert!(busy.message().await.is_some(), "the call is under way once its first progress is there");
    let mut refused = client.send_with("2", "tools/call", ECHO, &as_a).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.json().await["error"]["data"]["reason"], "too_many_calls");
    assert_eq!(keys.call(&gateway, "b").await.status, 200);
    drop(busy);
    comes_true("the place is given back", || async { keys.call(&gateway, "a").await.status == 200 }).await;
}

#[tokio::test]
async fn an_address_without_a_valid_token_is_limited_and_one_with_it_never_is() {
    let more = json!({ "rates": { "unauthenticated": "1/m burst 3" }, "trusted_proxies": ["127.0.0.0/8"] });
    let keys = Keys::new(&["a"], more);
    let gateway = Gateway::demo(keys.config.clone());
    let from = async |address: &str, token: &str| {
        let headers = [("x-forwarded-for", address), ("authorization", token)];
        gateway.modern().send_with("1", "tools/list", "{}", &headers).await
    };
    let good = keys.bearer("a");
    for token in ["Bearer x", "Basic eDp4", "Bearer plasm_a_x"] {
        assert_eq!(from("203.0.113.7", token).await.status, 401);
    }
    for token in ["Bearer x", ""] {
        too_many(from("203.0.113.7", token).await).await;
    }
    for _ in 0..10 {
        assert_eq!(from("203.0.113.7", &good).await.status, 200, "behind the same address");
    }
    // What it says itself in front of what the proxy adds makes no other of it.
    too_many(from("198.51.100.1, 203.0.113.7", "Bearer x").await).await;
    assert_eq!(from("203.0.113.8", "Bearer x").await.status, 401);
    assert_eq!(from("2001:db8:0:1::1", "Bearer x").await.status, 401);
}

#[tokio::test]
async fn while_the_store_is_away_limits_are_local_or_closed_as_was_chosen_and_a_metric_says_so() {
    for (mode, status) in [("open", 200), ("closed", 503)] {
        let redis = Server::start(&[]);
        let folder = tempfile::tempdir().expect("a folder");
        let sealing = folder.path().join("key");
        std::fs::write(&sealing, "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=").expect("a key");
        let more = json!({
            "store": { "redis_url": redis.url() },
            "sealing": { "keys": [{ "file": sealing }] },
            "rates": { "when_store_away": mode, "tenant": { "all": "100/s burst 100" } },
        });
        let keys = Keys::new(&["a"], more);
        let gateway = Gateway::demo(keys.config.clone());
        assert_eq!(keys.call(&gateway, "a").await.status, 200);
        redis.hang();
        let word = if mode == "open" { "local" } else { "closed" };
        let series = format!(r#"plasm_limits_mode{{mode="{word}"}}"#);
        comes_true("the metric says so", || async {
            keys.call(&gateway, "a").await;
            gateway.metric(&series).await == 1.0
        })
        .await;
        let answer = keys.call(&gateway, "a").await;
        assert_eq!(answer.status, status, "{mode}");
        assert_eq!(answer.header("retry-after").is_some(), status == 503);
        redis.wake();
        comes_true("they are shared again", || async {
            keys.call(&gateway, "a").await.status == 200
                && gateway.metric(r#"plasm_limits_mode{mode="shared"}"#).await == 1.0
        })
        .await;
    }
}

#[tokio::test]
async fn changed_limits_hold_without_a_restart() {
    let keys = Keys::new(&["a"], json!({ "rates": { "principal": { "all": "1/h burst 2" } } }));
    let gateway = Gateway::demo(keys.config.clone());
    for status in [200, 200, 429] {
        assert_eq!(keys.call(&gateway, "a").await.status, status);
    }
    let mut config = keys.config.clone();
    config["rates"] = json!({});
    gateway.reconfigure(&config);
    comes_true("nothing is limited", || async {
        let answer: Answer = keys.call(&gateway, "a").await;
        answer.status == 200 && answer.header("ratelimit").is_none()
    })
    .await;
    let mut health = exchange::request(gateway.address, "GET", "/health", &[], "").await;
    assert_eq!(health.json().await["status"], "ok");
}
