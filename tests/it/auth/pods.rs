//! What is revoked on one pod is dead on all, and stays so while the store is away.

use super::issuer::Issuer;
use super::{config, list_as};
use crate::gateway::{Gateway, exchange};
use crate::harness::comes_true;
use crate::store::redis::server::Server;
use plasm_mcp::auth::api_key;
use serde_json::json;
use std::time::{Duration, Instant};

const SEALING: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// Three pods over one Redis, and a key that opens them.
struct Three {
    pods: [Gateway; 3],
    redis: Server,
    key: String,
    _issuer: Issuer,
    _folder: tempfile::TempDir,
}

impl Three {
    async fn start() -> Three {
        let (redis, issuer) = (Server::start(&[]), Issuer::start("EdDSA").await);
        let folder = tempfile::tempdir().expect("a folder");
        let sealing = folder.path().join("key");
        std::fs::write(&sealing, SEALING).expect("the folder takes a key");
        let key = api_key::mint("ci");
        let (_, hash) = api_key::hash(&key).expect("a key");
        let config = config(
            &issuer,
            json!({
                "store": { "redis_url": redis.url() },
                "sealing": { "keys": [{ "file": sealing }] },
                "auth": { "api_keys": { "ci": { "hash": hash, "tenant": "acme" } } },
            }),
        );
        let pods = [0, 1, 2].map(|_| Gateway::demo(config.clone()));
        Three { pods, redis, key, _issuer: issuer, _folder: folder }
    }

    async fn statuses(&self) -> [u16; 3] {
        let [one, two, three] = self.pods.each_ref().map(|pod| list_as(pod, "/mcp", &self.key));
        let (one, two, three) = tokio::join!(one, two, three);
        [one.status, two.status, three.status]
    }
}

async fn revoke(pod: &Gateway, what: serde_json::Value) -> u16 {
    let headers = [("content-type", "application/json")];
    exchange::request(pod.admin(), "POST", "/admin/revoke", &headers, what.to_string()).await.status
}

#[tokio::test]
async fn a_revoked_key_is_dead_on_all_pods_within_a_second_and_on_those_that_start_later() {
    let three = Three::start().await;
    assert_eq!(three.statuses().await, [200; 3]);
    assert_eq!(revoke(&three.pods[0], json!({ "api_key": "ci" })).await, 204);
    let revoked = Instant::now();
    assert_eq!(list_as(&three.pods[0], "/mcp", &three.key).await.status, 401, "at once where it was revoked");
    comes_true("dead everywhere", || async { three.statuses().await == [401; 3] }).await;
    let took = revoked.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test]
async fn what_was_revoked_stays_so_while_the_store_is_away_and_after_it_was_emptied() {
    let mut three = Three::start().await;
    assert_eq!(revoke(&three.pods[0], json!({ "api_key": "ci" })).await, 204);
    comes_true("dead everywhere", || async { three.statuses().await == [401; 3] }).await;
    three.redis.hang();
    assert_eq!(three.statuses().await, [401; 3]);
    three.redis.wake();
    three.redis.stop();
    assert_eq!(three.statuses().await, [401; 3]);
}

#[tokio::test]
async fn nobody_revokes_without_being_asked_who_he_is_where_the_port_is_open() {
    let three = Three::start().await;
    let admin = three.pods[0].admin();
    let page = [("content-type", "application/json"), ("origin", "http://127.0.0.1:9090")];
    let answer = exchange::request(admin, "POST", "/admin/revoke", &page, r#"{"api_key":"ci"}"#).await;
    assert_eq!(answer.status, 403, "a page of this machine is not its operator");
    for (body, status) in [("{}", 400), ("", 400), (r#"{"api_key":7}"#, 400), (r#"{"api_kee":"ci"}"#, 400)] {
        let headers = [("content-type", "application/json")];
        let answer = exchange::request(admin, "POST", "/admin/revoke", &headers, body).await;
        assert_eq!(answer.status, status, "{body}");
    }
    assert_eq!(exchange::request(admin, "GET", "/admin/revoke", &[], "").await.status, 405);
    assert_eq!(three.statuses().await, [200; 3]);
}
